//! Formats of archives and of lists of checksums: decoding and encoding.
//!
//! Nothing here reads or writes a file: bytes in, values out, and back. [`tar`] and [`zip`] are
//! what archives are read with, and what is written as one is made of; [`afs`] is a container of
//! game data; [`layout`] describes files that do not exist; [`sums`] and [`mhl`] are lists of
//! checksums, [`proof`] proves parts of files. Who calls knows where the bytes are and what file
//! they are of.
//!
//! What is decoded was made by others, so nothing in it is believed: there is no indexing and no
//! unchecked arithmetic, nothing is allocated by a length that was not checked, and a [`Fault`]
//! says where in the bytes what is wrong.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used, clippy::expect_used)]

pub mod afs;
pub(crate) mod bytes;
mod calendar;
mod fault;
pub(crate) mod fields;
pub mod layout;
mod member;
pub mod mhl;
pub mod proof;
mod relative;
mod sink;
pub mod sums;
pub mod tar;
pub mod zip;

pub(crate) use calendar::now_ns;
pub use calendar::{date_time, list_date};
pub use fault::{Decoded, Fault};
pub(crate) use member::key_of;
pub use member::{Extent, KEY_LEN_MAX, MemberKind, Method};
pub use relative::{PathFault, relative, relative_dos};
