//! Suites that every implementation of a core trait must pass.

mod engine;
mod model;
mod noise;
mod source;

pub use engine::{engine_conformance, read, run_all, write};
pub use model::{FileOperation, engine_matches_model, file_operations};
pub use noise::noise;
pub use source::source_conformance;
