//! Options of `SparseFile`: where its bytes are, and how they are fetched.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict as _, PyDict, PyString};
use stook::ops::contents::OpenOptions;
use stook::source::remote::RemoteOptions;
use stook::source::{FileSource, FunctionSource, SessionOptions, Source};
use stook::sparse::{
    self, AheadOptions, DiskCacheOptions, SparseFileError, SparseFileOptions, SparseOptions,
};

use super::disk::{BUDGET_BYTES, DiskCache};
use super::fetch::Function;
use super::store::SparseStore;
use crate::errors::{OrRaise as _, invalid};
use crate::numbers::{argument, named, whole};
use crate::paths;

/// The location of the bytes.
#[derive(Debug)]
pub(super) enum Place {
    Path(PathBuf),
    Address(String),
    /// One that is open.
    Source(Arc<dyn Source>),
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
        let decoded = address.py().import("os")?.call_method1("fsdecode", (address,))?;
        match decoded.cast::<PyString>()?.to_str() {
            Ok("") => Err(invalid("the path is empty (is a variable not set?)")),
            // `file://`, and schemes that are not supported, are handled when it is opened.
            Ok(text) if address.is_instance_of::<PyString>() && text.contains("://") => {
                Ok(Self::Address(text.to_owned()))
            }
            // Absolute, so that a process with another working directory finds it when unpickling.
            _ => Ok(Self::Path(std::path::absolute(decoded.extract::<PathBuf>()?)?)),
        }
    }

    /// Opens the source.
    pub(super) fn open(&self, remote: &RemoteOptions) -> stook::Result<Arc<dyn Source>> {
        let source: Arc<dyn Source> = match self {
            Self::Path(path) => Arc::new(FileSource::open(path)?),
            Self::Address(address) => stook::source::open_with(address, remote)?,
            Self::Source(source) => source.clone(),
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
}

/// The keyword arguments of `SparseFile`.
#[derive(Debug, Clone, Default)]
pub(super) struct Options {
    fetching: Fetching,
    memory_bytes: Option<u64>,
    ahead: AheadOptions,
    /// What is not said comes from the profile of the source.
    requests: Option<usize>,
    max_request_bytes: Option<usize>,
    store: Option<(Arc<sparse::SparseStore>, String)>,
}

impl Options {
    /// Those of a file that holds this much in memory at most.
    pub(super) fn holding(memory_bytes: u64) -> Self {
        Self { memory_bytes: Some(memory_bytes), ..Self::default() }
    }

    /// Parses them; missing ones have their defaults.
    pub(super) fn parse(options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut all = Self::default();
        let (mut store, mut name) = (None, None);
        for (key, value) in options.into_iter().flatten().filter(|(_, value)| !value.is_none()) {
            let key: String = key.extract()?;
            match key.as_str() {
                "store" => store = Some(value.cast::<SparseStore>()?.get().store.clone()),
                "store_name" => name = Some(value.extract::<String>()?),
                "memory_bytes" => all.memory_bytes = Some(argument("memory_bytes", &value)?),
                "cache" => all.fetching.set(&key, &value)?,
                _ => all.set(&key, &value).map_err(|error| named(value.py(), &key, error))?,
            }
        }
        // Also for local files, so that wrong options do not first fail when the address changes.
        all.fetching.remote.check().map_err(invalid)?;
        all.store = match (store, name) {
            (Some(store), Some(name)) => Some((store, name)),
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

    fn set(&mut self, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        match key {
            "max_gap" => self.ahead.max_gap = whole(value)?,
            "allowance" => self.ahead.allowance = whole(value)?,
            "max_window" => self.ahead.max_window = whole(value)?,
            "requests" => self.requests = Some(at_least(value, 1)?),
            "max_request_bytes" => self.max_request_bytes = Some(at_least(value, 1)?),
            _ => return self.fetching.set(key, value),
        }
        Ok(())
    }

    /// The arguments to pickle: another process opens the same file with them, so paths are
    /// absolute.
    pub(super) fn recipe<'py>(
        &self,
        py: Python<'py>,
        options: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let recipe = options.unwrap_or_else(|| PyDict::new(py));
        if let (Some((directory, _)), Some(cache)) = (&self.fetching.cache, recipe.get_item("cache")?)
            && cache.cast::<DiskCache>().is_err()
        {
            recipe.set_item("cache", directory.as_path())?;
        }
        Ok(recipe)
    }

    /// Opens a file.
    pub(super) fn open(&self, place: &Place) -> PyResult<sparse::SparseFile> {
        let source = place.open(&self.fetching.remote).or_raise()?;
        self.file(source).or_raise()
    }

    /// Opens a file over a source, with the shared disk cache or one that is opened now.
    pub(super) fn file(&self, source: Arc<dyn Source>) -> Result<sparse::SparseFile, SparseFileError> {
        let disk = self.fetching.opened_cache()?;
        let known = SparseFileOptions::of(source.as_ref());
        let session = SessionOptions {
            requests: self.requests.unwrap_or(known.session.requests),
            max_request_bytes: self.max_request_bytes.unwrap_or(known.session.max_request_bytes),
            ..known.session
        };
        let options = SparseFileOptions { ahead: self.ahead, session, disk, ..known };
        if let Some((store, name)) = &self.store {
            return Ok(sparse::SparseFile::in_store(source, store, name, options)?);
        }
        let budget_bytes = self.memory_bytes.unwrap_or(u64::MAX);
        let held = SparseOptions { budget_bytes, ..SparseOptions::default() };
        // Cannot fail: every budget is valid.
        let buffer = sparse::SparseBuffer::with_options(held).unwrap_or_default();
        Ok(sparse::SparseFile::with_options(source, Arc::new(buffer), options))
    }

    /// Without what belongs to the parent process.
    pub(super) fn after_fork(&self) -> Self {
        Self { store: None, fetching: self.fetching.after_fork(), ..self.clone() }
    }
}

/// How objects are fetched.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fetching {
    /// Directory and budget of the disk cache.
    pub(crate) cache: Option<(PathBuf, u64)>,
    /// That cache, where it is open: files share it. Not used after a fork.
    shared: Option<Arc<sparse::DiskCache>>,
    remote: RemoteOptions,
}

impl Fetching {
    /// What the arguments of these names say.
    pub(crate) fn new(
        cache: Option<&Bound<'_, PyAny>>,
        whole_file: bool,
        settings: Option<&Bound<'_, PyAny>>,
        headers: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let mut all = Self::default();
        all.remote.whole_file = whole_file;
        if let Some(cache) = cache {
            all.set("cache", cache)?;
        }
        for (name, given) in [("settings", settings), ("headers", headers)] {
            let Some(given) = given else { continue };
            all.set(name, given).map_err(|error| named(given.py(), name, error))?;
        }
        Ok(all)
    }

    fn set(&mut self, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        match key {
            "cache" => (self.cache, self.shared) = cache_of(value)?,
            "tries" => self.remote.tries = whole(value)?,
            "deadline" => self.remote.deadline = seconds(value)?,
            "stall" => self.remote.stall = seconds(value)?,
            "whole_file" => self.remote.whole_file = value.extract()?,
            "settings" => self.remote.settings = pairs(value)?,
            "headers" => self.remote.headers = pairs(value)?,
            _ => return Err(PyTypeError::new_err("this is not among the options")),
        }
        Ok(())
    }

    /// Without what belongs to the parent process.
    pub(crate) fn after_fork(&self) -> Self {
        Self { cache: self.cache.clone(), shared: None, remote: self.remote.clone() }
    }

    /// The cache on disk that was made already, or one that is opened now.
    fn opened_cache(&self) -> stook::Result<Option<Arc<sparse::DiskCache>>> {
        match (&self.shared, &self.cache) {
            (None, Some((directory, budget_bytes))) => {
                let options = DiskCacheOptions { budget_bytes: *budget_bytes };
                Ok(Some(sparse::DiskCache::open(directory, options)?))
            }
            (shared, _) => Ok(shared.clone()),
        }
    }

    /// The same with its cache opened now.
    ///
    /// # Errors
    /// When the cache cannot be opened.
    pub(crate) fn with_cache(mut self) -> stook::Result<Self> {
        self.shared = self.opened_cache()?;
        Ok(self)
    }

    /// The arguments that say so, for a pickle.
    pub(crate) fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let arguments = PyDict::new(py);
        match (&self.shared, &self.cache) {
            (Some(cache), _) => {
                arguments.set_item("cache", Bound::new(py, DiskCache { cache: cache.clone() })?)?;
            }
            (None, Some((directory, _))) => arguments.set_item("cache", directory.as_path())?,
            (None, None) => {}
        }
        if self.remote.whole_file {
            arguments.set_item("whole_file", true)?;
        }
        for (name, given) in [("settings", &self.remote.settings), ("headers", &self.remote.headers)] {
            if !given.is_empty() {
                arguments.set_item(name, given.iter().into_py_dict(py)?)?;
            }
        }
        Ok(arguments)
    }

    /// The options that say so.
    ///
    /// # Errors
    /// When the cache cannot be opened.
    pub(crate) fn options(&self) -> stook::Result<OpenOptions> {
        let cache = self.opened_cache()?;
        Ok(OpenOptions { remote: self.remote.clone(), cache, ..OpenOptions::default() })
    }
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
    let directory = paths::argument("cache", cache)?;
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
