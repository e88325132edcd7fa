//! Operations that need several capabilities, as one call each: the operations of the surfaces,
//! without a terminal or an interpreter.

pub mod advice;
pub mod advise;
pub mod check;
mod choice;
pub mod compact;
pub mod contents;
pub mod copy;
pub mod delete;
pub mod directory;
pub mod export;
#[cfg(feature = "remote")]
pub mod fetching;
pub mod follow;
pub mod get;
mod given;
pub mod heads;
pub mod import;
pub mod json;
pub mod pack;
pub mod present;
pub mod raw;
pub mod repair;
pub mod routes;
pub mod session;
mod shards;
pub mod shared;
pub mod shuffled;
pub mod stitch;
pub mod unpack;
pub mod verify;

pub use choice::{NothingSelected, Predicate};
