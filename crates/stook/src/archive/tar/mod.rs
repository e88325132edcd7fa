//! Tar: v7, ustar, pax, GNU with long names and sparse members.
//!
//! [`header`], [`pax`] and [`sparse`] are pure decoders of untrusted bytes; [`Walk`] goes through a
//! whole tar by them.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used, clippy::expect_used)]

pub mod header;
pub mod pax;
pub mod sparse;
mod walk;
pub mod write;

pub use walk::{Entry, Walk};
