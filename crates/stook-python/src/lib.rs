//! The native module of the Python package `stook`.
//!
//! One file for each class. Blocking calls and long copies release the interpreter; network I/O and
//! long operations let the main thread check for signals (`wait`). `unsafe` is used for Python's
//! buffer protocol only.

mod arguments;
mod choices;
mod copy;
mod errors;
mod given;
mod key;
mod locks;
mod memory;
mod numbers;
mod pack;
mod paths;
mod proofs;
mod reports;
mod sparse;
mod stitch;
mod verify;
mod wait;

use pyo3::pymodule;

/// The native half of the package `stook`.
// Free-threaded interpreters take their lock again: nothing was tested without it.
#[pymodule(gil_used = true)]
mod _stook {
    #[pymodule_export]
    use super::copy::copy;
    #[pymodule_export]
    use super::key::as_key;
    #[pymodule_export]
    use super::memory::Buffer;
    #[pymodule_export]
    use super::pack::{
        archive::Archive, batch::Batch, file::RecordFile, follow::Follow, keys::Items, keys::Keys,
        ordinals::Ordinals, pack::Pack, record::Record, scan::Scan, split::Split, stat::Stat, view::View,
    };
    #[pymodule_export]
    use super::pack::{check::check, check::repair, tree::pack_tree, unpack::unpack};
    #[pymodule_export]
    use super::paths::path_argument;
    #[pymodule_export]
    use super::proofs::{repair_copy, verify_range};
    #[pymodule_export]
    use super::sparse::fsspec::{
        check_sparse_options, described, has_pack, local_path, shown_in, split_pack_path, who_asks,
    };
    #[pymodule_export]
    use super::sparse::{
        buffer::SparseBuffer, disk::DiskCache, file::SparseFile, pin::Pin, store::SparseStore,
    };
    #[pymodule_export]
    use super::stitch::{
        afs, file::Sharded, file::Stitched, open_layout, patch, raw, safetensors, tar, wds, zip,
    };
    #[pymodule_export]
    use super::verify::verify;
    use pyo3::prelude::*;

    /// The version of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    /// How often a file that was just changed is checked again before it is read.
    #[pymodule_export]
    const SETTLING_MAX: usize = stook::source::SETTLING_MAX;

    /// Whether this was built without optimisation.
    #[pymodule_export]
    const DEBUG: bool = cfg!(debug_assertions);

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::sparse::fork::watch(module.py())
    }
}
