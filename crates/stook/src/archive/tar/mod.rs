//! Tars from header to header: [`Walk`] goes through a whole one.
//!
//! The encoding is in [`format::tar`](crate::format::tar).

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used, clippy::expect_used)]

mod walk;

pub use crate::format::tar::{header, pax, sparse, write};
pub use walk::{Entry, Walk};
