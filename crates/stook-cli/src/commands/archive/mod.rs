//! The commands on packs, given an archive: what is the same for both is in the commands, what differs is here.

pub(super) mod get;
pub(super) mod info;
pub(super) mod load;
pub(super) mod ls;
