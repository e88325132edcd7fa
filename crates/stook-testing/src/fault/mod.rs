//! Storages, engines and sources that fail on demand.

mod altered;
mod blocks;
mod calls;
mod engine;
mod hooked;
mod lost;
mod object;
mod outbox;
mod source;
mod storage;
mod unreadable;

pub use altered::AlteredCalls;
pub use blocks::BadBlockEngines;
pub use calls::CallFaultEngines;
pub use engine::{EngineCall, EngineFault, EngineOperation, FaultEngineFactory};
pub(crate) use hooked::HookedEngine;
pub use lost::LostWrites;
pub use object::{ObjectFault, ObjectSource, TestObject};
pub use outbox::{FaultCalls, OutFault};
pub use source::{FaultSource, SourceFault};
pub use storage::{FaultStorage, StorageCall, StorageFault};
pub use unreadable::UnreadableStorage;
