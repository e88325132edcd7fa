//! Suites that every implementation of a core trait must pass, and every page of a study.

mod engine;
mod engine_ranges;
mod model;
mod noise;
mod page;
mod source;
mod storage;
mod strange;
mod tree;
mod tree_changes;

pub use engine::{engine_conformance, read, run_all, write};
pub use engine_ranges::{request, write_shared};
pub use model::{FileOperation, engine_matches_model, file_operations};
pub use noise::noise;
pub use page::page_conformance;
pub use source::source_conformance;
pub use storage::{contents, pattern, read_all, storage_conformance};
pub use strange::Strange;
pub use tree::{TreeFeatures, many_files, tree_conformance, tree_matches_model};
pub use tree_changes::{AfterChange, changed_medium_conformance, changing_tree_conformance};
