//! How objects are fetched, and files read through a cache: options that several files share, and
//! what of them a forked process may use.

use std::path::PathBuf;
use std::sync::Arc;

use super::contents::OpenOptions;
use crate::source::remote::RemoteOptions;
use crate::source::{SessionOptions, Source};
use crate::sparse::{
    AheadOptions, DiskCache, DiskCacheOptions, SparseBuffer, SparseFile, SparseFileError, SparseFileOptions,
    SparseOptions, SparseStore,
};

/// How objects are fetched.
#[derive(Debug, Clone, Default)]
pub struct Fetching {
    /// Directory and budget in bytes of the cache on disk, if there is one.
    pub cache: Option<(PathBuf, u64)>,
    /// That cache, where it is open: files share it. Not used after a fork.
    pub shared: Option<Arc<DiskCache>>,
    /// Requests, and who asks.
    pub remote: RemoteOptions,
}

impl Fetching {
    /// Without what belongs to the parent process.
    #[must_use]
    pub fn after_fork(&self) -> Self {
        Self { cache: self.cache.clone(), shared: None, remote: self.remote.clone() }
    }

    /// The cache on disk that was made already, or one that is opened now.
    ///
    /// # Errors
    /// Returns an error if it cannot be opened.
    pub fn opened_cache(&self) -> crate::Result<Option<Arc<DiskCache>>> {
        match (&self.shared, &self.cache) {
            (None, Some((directory, budget_bytes))) => {
                let options = DiskCacheOptions { budget_bytes: *budget_bytes };
                Ok(Some(DiskCache::open(directory, options)?))
            }
            (shared, _) => Ok(shared.clone()),
        }
    }

    /// The same with its cache opened now.
    ///
    /// # Errors
    /// As [`opened_cache`](Self::opened_cache).
    pub fn with_cache(mut self) -> crate::Result<Self> {
        self.shared = self.opened_cache()?;
        Ok(self)
    }

    /// The options of opening contents.
    ///
    /// # Errors
    /// As [`opened_cache`](Self::opened_cache).
    pub fn options(&self) -> crate::Result<OpenOptions> {
        let cache = self.opened_cache()?;
        Ok(OpenOptions { remote: self.remote.clone(), cache, ..OpenOptions::default() })
    }
}

/// How a file is read through a cache. What is not given comes from the profile of the source.
#[derive(Debug, Clone, Default)]
pub struct FileOptions {
    /// How it is fetched.
    pub fetching: Fetching,
    /// Bytes that are held in memory at most; `None` for no limit.
    pub memory_bytes: Option<u64>,
    /// How it is read ahead.
    pub ahead: AheadOptions,
    /// Requests in flight at once, at most.
    pub requests: Option<usize>,
    /// The longest request, in bytes.
    pub max_request_bytes: Option<usize>,
    /// The store that holds the bytes, and their name there.
    pub store: Option<(Arc<SparseStore>, String)>,
}

impl FileOptions {
    /// Those of a file that holds this much in memory at most.
    pub fn holding(memory_bytes: u64) -> Self {
        Self { memory_bytes: Some(memory_bytes), ..Self::default() }
    }

    /// Without what belongs to the parent process.
    #[must_use]
    pub fn after_fork(&self) -> Self {
        Self { store: None, fetching: self.fetching.after_fork(), ..self.clone() }
    }

    /// Opens a file over a source, with the shared disk cache or one that is opened now.
    ///
    /// # Errors
    /// Returns an error if the cache cannot be opened, or the store refuses the name.
    pub fn file(&self, source: Arc<dyn Source>) -> Result<SparseFile, SparseFileError> {
        let disk = self.fetching.opened_cache()?;
        let known = SparseFileOptions::of(source.as_ref());
        let session = SessionOptions {
            requests: self.requests.unwrap_or(known.session.requests),
            max_request_bytes: self.max_request_bytes.unwrap_or(known.session.max_request_bytes),
            ..known.session
        };
        let options = SparseFileOptions { ahead: self.ahead, session, disk, ..known };
        if let Some((store, name)) = &self.store {
            return Ok(SparseFile::in_store(source, store, name, options)?);
        }
        let budget_bytes = self.memory_bytes.unwrap_or(u64::MAX);
        let held = SparseOptions { budget_bytes, ..SparseOptions::default() };
        // Cannot fail: every budget is valid.
        let buffer = SparseBuffer::with_options(held).unwrap_or_default();
        Ok(SparseFile::with_options(source, Arc::new(buffer), options))
    }
}
