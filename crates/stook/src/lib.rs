//! Stook makes data that lives in files read, move and measure at the speed of the storage under it.
//!
//! The crate has two layers, and the arrows between them go one way only:
//!
//! - **core**: [`extent`] (byte ranges and maps of them), [`plan`] (which reads serve which ranges),
//!   [`source`] (anything that is read by range), [`storage`] (anything that publishes bytes),
//!   [`engine`] (executes reads and writes at a queue depth), [`walk`] (lists trees and reads their
//!   small files), [`names`] (names as text, and patterns on them), [`report`] (numbers people
//!   can trust);
//! - **capabilities** built on it, which never import one another: [`pack`], [`archive`],
//!   [`mod@bench`], [`sparse`]. What knows several of them stands above them: [`ops`].
//!
//! `docs/ARCHITECTURE.md` is the map, `docs/internals/` says how it works.

pub mod archive;
pub mod bench;
pub mod engine;
pub mod error;
pub mod extent;
pub mod names;
#[cfg(unix)]
pub mod ops;
pub mod pack;
pub mod plan;
pub mod report;
pub mod source;
pub mod sparse;
pub mod storage;
#[cfg(unix)]
pub mod tree;
#[cfg(unix)]
pub mod walk;

pub use error::{Error, Result};
