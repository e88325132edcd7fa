//! Measuring storage, and saying whether the figures may be believed.
//!
//! A [`Workload`] is one cell: which blocks, how many in flight, for how long. A [`Bench`] runs a
//! list of them on one test file, through the same engines as everything else here, so it measures
//! what the rest of Stook gets. [`BenchResult`] is its result.
//!
//! [`gates`] checks every measured cell, [`model`] fits what a device does to the cells that
//! passed, and [`compare`] shows whether two series of measurements differ. These three take plain
//! numbers and do no I/O; [`model::Models`] takes them from a result. No figure is averaged over
//! cells that failed a gate, and no model is fitted to them; unchecked figures are marked as such
//! ([`State`]).
//!
//! Nothing here writes a file that it did not make, unless that is requested. A block device is
//! written only where nothing uses it and what identifies it was typed; `raw.rs` has the rules.

mod cgroup;
pub mod compare;
mod content;
mod environment;
mod error;
mod fio;
pub mod gates;
mod job;
mod judge;
mod layout;
mod limits;
mod long_run;
pub mod model;
mod observer;
pub mod page;
mod pieces;
mod random;
mod raw;
mod result;
mod run;
mod session;
pub mod slo;
mod split;
pub mod survey;
mod sweep;
mod workload;

pub use crate::device::DeviceUse;
pub use environment::Environment;
pub use error::{Error, Result};
pub use fio::fio_jobs;
pub use gates::State;
pub use job::Job;
pub use layout::KEPT_NAME;
pub use long_run::LongRun;
pub use observer::{Observer, Unobserved};
pub use random::fresh_seed;
pub use result::{
    BenchResult, CellResult, CompactHistogram, CpuResult, Figures, InFlightResult, OpenLoopResult, RunResult,
    Second, SizeFigures, Window,
};
pub use session::Bench;
pub use split::{BlockSplit, SizeShare};
pub use sweep::{Preset, Rw, Sweep};
pub use workload::{Arrival, Pattern, Workload};
