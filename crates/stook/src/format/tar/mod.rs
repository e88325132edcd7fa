//! Tar: v7, ustar, pax, GNU with long names and sparse members.
//!
//! [`header`] is a block, [`pax`] what extended headers say, [`sparse`] the maps of sparse members,
//! in all the ways that tars have them. [`Extended`] takes in what stands before a member and makes
//! a [`Member`] of all of it; [`write`](mod@write) makes the bytes of one.

pub mod header;
mod member;
pub mod pax;
pub mod sparse;
pub mod write;

pub use member::{Extended, Member};
