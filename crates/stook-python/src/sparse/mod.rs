//! `stook.SparseBuffer`, `stook.SparseStore`, `stook.SparseFile` and what belongs to them.

pub(crate) mod buffer;
pub(crate) mod copies;
pub(crate) mod disk;
mod fetch;
pub(crate) mod file;
pub(crate) mod fork;
pub(crate) mod fsspec;
mod options;
pub(crate) mod pin;
pub(crate) mod ranges;
pub(crate) mod reports;
pub(crate) mod store;
mod zero_copy;

pub(crate) use options::{arguments, fetching};
