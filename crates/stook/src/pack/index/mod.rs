//! Indexes of the frames of a segment: on the medium, in memory as it grows, and made again where
//! they are lost.
//!
//! This module never reads a body, and never returns a key or a place that no checksum covers.

pub(crate) mod lost;
pub(crate) mod run;
pub(crate) mod tail;
