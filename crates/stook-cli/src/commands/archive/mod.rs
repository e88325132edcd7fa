//! The commands on packs, given an archive: what is the same for both is in the commands, what differs is here.

pub(super) mod export;
pub(super) mod unpack;
