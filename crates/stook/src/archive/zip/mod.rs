//! Zips: the directory at the end of one made an index, and members that are stored or deflated.
//!
//! The encoding is in [`format::zip`](crate::format::zip).

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used, clippy::expect_used)]

pub(super) mod body;
pub(super) mod scan;

pub use crate::format::zip::directory;
