//! Storages, engines and sources that fail on demand.

mod storage;

pub use storage::{FaultStorage, StorageCall, StorageFault};
