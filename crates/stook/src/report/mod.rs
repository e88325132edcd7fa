//! Numbers people can trust: units, statistics, histograms, JSON, and the page style.
//!
//! Everything that Stook prints is formatted here, in every output form, so that a unit has one
//! meaning throughout. Nothing here measures, reads or writes.

pub mod bootstrap;
pub mod chart;
pub mod histogram;
mod html;
pub mod json;
pub mod least_squares;
pub mod page;
pub mod stats;
pub mod table;
pub mod time;
pub mod units;

pub use html::escape;
