//! `--merged-cache`, `--merged-cache-size` and `--merge`: copies of files that are made of many.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use stook::stitch::{MergeRule, MergedCache, MergedCacheOptions};

use crate::fetch::parse_size;

/// Where copies are kept, and of what.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MergedArgs {
    /// With --with, keep copies of changed archives in this directory, and read those
    #[arg(long, value_name = "DIR", requires = "with")]
    pub(crate) merged_cache: Option<PathBuf>,
    /// Space that the copies may take; those that were used longest ago are removed
    #[arg(long, value_name = "SIZE", default_value = "10GiB", requires = "merged_cache", value_parser = parse_size)]
    merged_cache_size: u64,
    /// Which archives get a copy
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Merge::Auto, requires = "merged_cache")]
    merge: Merge,
}

/// Which files are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Merge {
    /// Short ones of many short parts, on disks that take long for each
    Auto,
    /// All
    Always,
}

impl MergedArgs {
    /// The cache in the directory that is given, if one is; a relative path begins here.
    ///
    /// # Errors
    /// Returns an error if it cannot be opened.
    pub(crate) fn cache(&self, here: &Path) -> stook::Result<Option<Arc<MergedCache>>> {
        let rule = match self.merge {
            Merge::Auto => MergeRule::Auto,
            Merge::Always => MergeRule::Always,
        };
        let options = MergedCacheOptions {
            rule,
            budget_bytes: self.merged_cache_size,
            ..MergedCacheOptions::default()
        };
        let directory = self.merged_cache.as_ref().map(|directory| here.join(directory));
        directory.map(|directory| MergedCache::open(directory, options)).transpose()
    }
}
