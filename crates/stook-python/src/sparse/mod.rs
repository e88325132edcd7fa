//! `stook.SparseBuffer`, `stook.SparseStore`, `stook.SparseFile` and what belongs to them.

mod adopted;
pub(crate) mod buffer;
mod copies;
pub(crate) mod described;
pub(crate) mod disk;
mod fetch;
pub(crate) mod file;
pub(crate) mod fork;
mod options;
pub(crate) mod pin;
mod ranges;
mod reports;
pub(crate) mod store;
