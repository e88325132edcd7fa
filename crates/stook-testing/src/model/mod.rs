//! Reference models: the plainest data structure that does the same, to compare the real one with.
//!
//! They are slow and use memory for every byte; nothing but tests may use them.

pub mod extent;
pub mod pack;
pub mod plan;
pub mod sparse;
pub mod tree;
pub mod union;
