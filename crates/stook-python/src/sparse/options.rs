//! Options of `SparseFile`: where its bytes are, and how they are fetched.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict as _, PyDict, PyString};
use stook::ops::fetching::{Fetching, FileOptions};
use stook::source::remote::RemoteOptions;
use stook::source::{FileSource, FunctionSource, Source};
use stook::sparse;
use stook::stitch::VirtualFile;

use super::disk::{BUDGET_BYTES, DiskCache};
use super::fetch::Function;
use super::store::SparseStore;
use crate::errors::{OrRaise as _, invalid};
use crate::numbers::{named, whole};
use crate::paths;

/// The location of the bytes.
#[derive(Debug)]
pub(super) enum Place {
    Path(PathBuf),
    Address(String),
    /// One that is open.
    Source(Arc<dyn Source>),
    /// One that is made of many, and may read all of them for a checksum.
    Stitched(VirtualFile),
    Fetch {
        fetch: Arc<Py<PyAny>>,
        name: String,
        size: u64,
        identity: Option<String>,
        origin: Option<String>,
    },
}

impl Place {
    /// Parses an address: with a scheme a remote object, otherwise a file.
    pub(super) fn of(address: &Bound<'_, PyAny>) -> PyResult<Self> {
        let path = paths::argument("address", address)?;
        match path.to_str() {
            // `file://`, and schemes that are not supported, are handled when it is opened.
            Some(text) if address.is_instance_of::<PyString>() && text.contains("://") => {
                Ok(Self::Address(text.to_owned()))
            }
            // Absolute, so that a process with another working directory finds it when unpickling.
            _ => Ok(Self::Path(std::path::absolute(path)?)),
        }
    }

    /// Opens the source.
    pub(super) fn open(&self, remote: &RemoteOptions) -> stook::Result<Arc<dyn Source>> {
        let source: Arc<dyn Source> = match self {
            Self::Path(path) => Arc::new(FileSource::open(path)?),
            Self::Address(address) => stook::source::open_with(address, remote)?,
            Self::Source(source) => source.clone(),
            Self::Stitched(file) => Arc::new(file.clone()),
            Self::Fetch { fetch, name, size, identity, origin } => {
                let (fetch, identity, origin) =
                    (Function(fetch.clone()), identity.as_deref(), origin.as_deref());
                Arc::new(FunctionSource::new(Arc::new(fetch), name, *size, identity, origin))
            }
        };
        Ok(source)
    }

    /// Whether reads are fast enough that signals need not be checked meanwhile.
    pub(super) fn is_local(&self) -> bool {
        match self {
            Self::Source(source) => !source.reads_by_request(),
            place => matches!(place, Self::Path(_)),
        }
    }

    /// Opens a file.
    pub(super) fn file(&self, options: &FileOptions) -> PyResult<sparse::SparseFile> {
        let source = self.open(&options.fetching.remote).or_raise()?;
        options.file(source).or_raise()
    }
}

/// Parses the keyword arguments of `SparseFile`; missing ones have their defaults.
pub(super) fn parse(options: Option<&Bound<'_, PyDict>>) -> PyResult<FileOptions> {
    let mut all = FileOptions::default();
    if let Some(options) = options {
        // Also those that are `None`; it names the option that was probably meant.
        options.py().import("stook._options")?.call_method1("check_sparse_file", (options,))?;
    }
    let (mut store, mut name) = (None, None);
    for (key, value) in options.into_iter().flatten().filter(|(_, value)| !value.is_none()) {
        let key: String = key.extract()?;
        let set = match key.as_str() {
            "store" => {
                value.cast::<SparseStore>().map_err(PyErr::from).map(|given| store = Some(given.clone()))
            }
            "store_name" => value.extract::<String>().map(|given| name = Some(given)),
            _ => set_file(&mut all, &key, &value),
        };
        set.map_err(|error| named(value.py(), &key, error))?;
    }
    // Also for local files, so that wrong options do not first fail when the address changes.
    all.fetching.remote.check().map_err(invalid)?;
    all.store = match (store, name) {
        (Some(store), Some(name)) => Some((store.get().store.clone(), name)),
        (Some(_), None) => return Err(invalid("with store=, store_name= says what it is called there")),
        (None, Some(_)) => {
            return Err(invalid("store_name= says what it is called in store=, which is missing"));
        }
        (None, None) => None,
    };
    if all.store.is_some() && all.memory_bytes.is_some() {
        return Err(invalid("a file in a store has the budget of the store, and none of its own"));
    }
    Ok(all)
}

fn set_file(all: &mut FileOptions, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match key {
        "memory_bytes" => all.memory_bytes = Some(whole(value)?),
        "max_gap" => all.ahead.max_gap = whole(value)?,
        "allowance" => all.ahead.allowance = whole(value)?,
        "max_window" => all.ahead.max_window = whole(value)?,
        "requests" => all.requests = Some(at_least(value, 1)?),
        "max_request_bytes" => all.max_request_bytes = Some(at_least(value, 1)?),
        _ => return set(&mut all.fetching, key, value),
    }
    Ok(())
}

/// The arguments to pickle: another process opens the same file with them, so paths are absolute.
pub(super) fn recipe<'py>(
    all: &FileOptions,
    py: Python<'py>,
    options: Option<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let recipe = options.unwrap_or_else(|| PyDict::new(py));
    if let (Some((directory, _)), Some(cache)) = (&all.fetching.cache, recipe.get_item("cache")?)
        && cache.cast::<DiskCache>().is_err()
    {
        recipe.set_item("cache", directory.as_path())?;
    }
    Ok(recipe)
}

/// How objects are fetched, by the arguments of these names.
pub(crate) fn fetching(
    cache: Option<&Bound<'_, PyAny>>,
    whole_file: bool,
    settings: Option<&Bound<'_, PyAny>>,
    headers: Option<&Bound<'_, PyAny>>,
) -> PyResult<Fetching> {
    let mut all = Fetching::default();
    all.remote.whole_file = whole_file;
    for (name, given) in [("cache", cache), ("settings", settings), ("headers", headers)] {
        let Some(given) = given else { continue };
        set(&mut all, name, given).map_err(|error| named(given.py(), name, error))?;
    }
    Ok(all)
}

fn set(all: &mut Fetching, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    match key {
        "cache" => (all.cache, all.shared) = cache_of(value)?,
        "tries" => all.remote.tries = whole(value)?,
        "deadline" => all.remote.deadline = seconds(value)?,
        "stall" => all.remote.stall = seconds(value)?,
        "whole_file" => all.remote.whole_file = value.extract()?,
        "settings" => all.remote.settings = pairs(value)?,
        "headers" => all.remote.headers = pairs(value)?,
        _ => return Err(PyTypeError::new_err("this is not among the options")),
    }
    Ok(())
}

/// The arguments that say so, for a pickle.
pub(crate) fn arguments<'py>(all: &Fetching, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
    let arguments = PyDict::new(py);
    match (&all.shared, &all.cache) {
        (Some(cache), _) => {
            arguments.set_item("cache", Bound::new(py, DiskCache { cache: cache.clone() })?)?;
        }
        (None, Some((directory, _))) => arguments.set_item("cache", directory.as_path())?,
        (None, None) => {}
    }
    if all.remote.whole_file {
        arguments.set_item("whole_file", true)?;
    }
    for (name, given) in [("settings", &all.remote.settings), ("headers", &all.remote.headers)] {
        if !given.is_empty() {
            arguments.set_item(name, given.iter().into_py_dict(py)?)?;
        }
    }
    Ok(arguments)
}

/// Directory and budget of a cache, and the cache itself if it is a `DiskCache`.
type Cache = (Option<(PathBuf, u64)>, Option<Arc<sparse::DiskCache>>);

/// Reads the argument `cache`.
fn cache_of(cache: &Bound<'_, PyAny>) -> PyResult<Cache> {
    if let Ok(cache) = cache.cast::<DiskCache>() {
        let cache = &cache.get().cache;
        let settings = (std::path::absolute(cache.directory())?, cache.options().budget_bytes);
        return Ok((Some(settings), Some(cache.clone())));
    }
    let directory = paths::of(cache)?;
    Ok((Some((std::path::absolute(directory)?, BUDGET_BYTES)), None))
}

fn at_least(value: &Bound<'_, PyAny>, least: usize) -> PyResult<usize> {
    match whole(value)? {
        number if number < least => Err(invalid(format!("it must be {least} or more, not {number}"))),
        number => Ok(number),
    }
}

fn seconds(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let seconds = value.extract::<f64>()?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| invalid(format!("it is a time in seconds, not {seconds}")))
}

fn pairs(value: &Bound<'_, PyAny>) -> PyResult<Vec<(String, String)>> {
    value.cast::<PyDict>()?.iter().map(|(name, value)| Ok((name.extract()?, value.extract()?))).collect()
}
