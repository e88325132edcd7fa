//! `--cache-dir`, `--cache-size` and `--whole-file`: how objects are fetched from servers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use stook::error::RemoteErrorKind;
use stook::ops::contents::OpenOptions;
use stook::report::units;
use stook::sparse::{DiskCache, DiskCacheOptions};

use crate::exit::UsageError;

/// How what is not here is fetched.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct FetchArgs {
    /// Keep what is fetched of an object in this directory, and look there first
    #[arg(long, value_name = "DIR")]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Space that the cache directory may take; the least recently used data is removed
    #[arg(long, value_name = "SIZE", default_value = "10GiB", requires = "cache_dir", value_parser = parse_size)]
    pub(crate) cache_size: u64,
    /// Read an object as a whole if its server cannot send parts
    #[arg(long)]
    pub(crate) whole_file: bool,
}

impl FetchArgs {
    /// Whether any option is given that applies only to objects.
    pub(crate) fn is_given(&self) -> bool {
        self.whole_file || self.cache_dir.is_some()
    }

    /// Checks that no option is given that does not apply to a path.
    ///
    /// # Errors
    /// Returns a [`UsageError`] if it is.
    pub(crate) fn refuse(&self, path: &Path) -> Result<(), UsageError> {
        if !self.is_given() {
            return Ok(());
        }
        Err(UsageError::new(format!(
            "--cache-dir, --cache-size and --whole-file are for what is fetched: {} is read where it is",
            path.display()
        )))
    }

    /// The cache in the directory that is given, if one is.
    ///
    /// # Errors
    /// Returns an error if it cannot be opened.
    pub(crate) fn cache(&self) -> stook::Result<Option<Arc<DiskCache>>> {
        let options = DiskCacheOptions { budget_bytes: self.cache_size };
        self.cache_dir.as_ref().map(|directory| DiskCache::open(directory, options)).transpose()
    }

    /// Sets what they say for an archive that is an object.
    ///
    /// # Errors
    /// Returns an error if the cache cannot be opened.
    pub(crate) fn set(&self, options: &mut OpenOptions) -> stook::Result<()> {
        options.remote.whole_file = self.whole_file;
        options.cache = self.cache()?;
        Ok(())
    }
}

/// What helps against an error of opening an object here, if anything does.
pub(crate) fn advised(error: &stook::Error) -> Option<anyhow::Error> {
    match error {
        stook::Error::Remote(remote) if remote.kind == RemoteErrorKind::NoRanges => {
            Some(anyhow!("{error}: --whole-file does that"))
        }
        _ => None,
    }
}

/// A length in bytes, as it is typed.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    units::parse_size(text).map_err(|error| crate::exit::chain(&error))
}
