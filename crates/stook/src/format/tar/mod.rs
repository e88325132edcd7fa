//! Tar: v7, ustar, pax, GNU with long names and sparse members.
//!
//! [`header`] is a block, [`pax`] the contents of extended headers, [`sparse`] the maps of sparse
//! members, in all their encodings. [`Extended`] collects the extended headers before a member and
//! makes a [`Member`]; [`write`](mod@write) encodes one.

pub mod header;
mod member;
pub mod pax;
pub mod sparse;
pub mod write;

pub use member::{Extended, Member};
