//! The state of a pack at one generation: manifest, segments, deletion vectors, and what is
//! recovered after the committed lengths.
//!
//! This room never writes: a torn tail is left for the next writer, a foreign file for its owner.

pub(crate) mod copies;
pub(crate) mod files;
pub(crate) mod later;
pub(crate) mod names;
pub(crate) mod open;
pub(crate) mod recover;
pub(crate) mod segment;
pub(crate) mod snapshot;
