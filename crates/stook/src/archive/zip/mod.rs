//! Zip: the directory at its end, and members stored or deflated.
//!
//! [`directory`] is a pure decoder of untrusted bytes; `scan` makes the members of it that an index
//! takes.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used, clippy::expect_used)]

pub(super) mod body;
pub mod directory;
pub(super) mod scan;
