//! Checking and repairing packs, and opening damaged ones.
//!
//! This module never changes the pack that it reads: a repair writes a new one, and puts what it
//! cannot use beside it, byte for byte.

pub(crate) mod batches;
pub(crate) mod check;
pub(crate) mod repair;
pub(crate) mod salvage;
