//! [`DiskCache`]: fetched bytes of sources, kept in a directory for the next time.
//!
//! A cache does not promise to keep anything, only that what it returns is correct. So nothing is
//! ever synced, and every range has a checksum that is verified on each read: after a crash, a full
//! disk or a bad sector, a range is either as it was written or not held.
//! `docs/formats/sparse-cache-v1.md` specifies the bytes.

mod entry;
mod format;
mod live;
mod room;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use self::room::Usage;
use crate::error::{Error, Result};
use crate::storage::cache::{self, CacheDirectory, salt};

pub use entry::DiskEntry;
pub use format::{CacheIndex, CacheIndexError};

/// How a [`DiskCache`] behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskCacheOptions {
    /// The most disk space of all entries together, in bytes. The least recently used entries are
    /// evicted.
    ///
    /// Each writing process checks the total after every 1/32 of it, so several may exceed it by
    /// that much each.
    pub budget_bytes: u64,
}

impl Default for DiskCacheOptions {
    /// 10 GiB.
    fn default() -> Self {
        Self { budget_bytes: 10 << 30 }
    }
}

/// Counters of a [`DiskCache`] in this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskStatistics {
    /// Bytes that were read and verified.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Bytes of the disk that were given back, to keep the budget.
    pub evicted_bytes: u64,
    /// Bytes that were to be kept, and had no place in the budget.
    pub unkept_bytes: u64,
    /// Ranges and records of an index that were not what their checksums say; they are fetched
    /// again.
    pub damaged_ranges: u64,
    /// Entries that were thrown away: of another state of their source, of another version, or
    /// damaged.
    pub discarded_entries: u64,
    /// Operations that failed: a full disk, a directory that may only be read. Reads continue
    /// without the disk.
    pub failures: u64,
    /// The message of the first failure.
    pub first_failure: Option<Arc<str>>,
}

/// A directory of fetched bytes of sources, within a budget, shared by any number of processes.
///
/// Each source has an entry: a sparse file of its bytes, and an index of the ranges that are held.
/// It is given to files by [`SparseFileOptions::disk`](super::SparseFileOptions::disk).
///
/// ```
/// use stook::source::{Identity, Origin};
/// use stook::sparse::{DiskCache, DiskCacheOptions};
///
/// # let directory = tempfile::tempdir()?;
/// # let directory = directory.path().join("cache");
/// let identity = Identity { len: 1 << 40, etag: Some("\"v1\"".into()), ..Identity::default() };
/// let origin = Origin::new("object", "example.org/huge").with("address", "https://example.org/huge?id=1");
/// let cache = DiskCache::open(&directory, DiskCacheOptions { budget_bytes: 1 << 30 })?;
/// cache.entry(&origin, &identity).write(7_000_000_000, b"fetched");
///
/// let again = DiskCache::open(&directory, DiskCacheOptions { budget_bytes: 1 << 30 })?;
/// let range = stook::extent::ByteRange::new(7_000_000_000, 7_000_000_005).unwrap();
/// let held = again.entry(&origin, &identity).read(range);
/// assert_eq!(held, [(7_000_000_000, bytes::Bytes::from_static(b"fetched"))], "whole records");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DiskCache {
    directory: CacheDirectory,
    /// What origins are hashed with.
    salt: [u8; 32],
    options: DiskCacheOptions,
    usage: Mutex<Usage>,
    counted: DiskCounters,
}

/// [`DiskStatistics`] while they are counted.
#[derive(Debug, Default)]
struct DiskCounters {
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    evicted_bytes: AtomicU64,
    unkept_bytes: AtomicU64,
    damaged_ranges: AtomicU64,
    discarded_entries: AtomicU64,
    failures: AtomicU64,
    first_failure: OnceLock<Arc<str>>,
}

impl DiskCache {
    /// Opens a directory. If there is none, it is created, accessible only to the user of this
    /// process.
    ///
    /// # Errors
    /// Returns an error if it cannot be made or opened, if others may write in it, if it is within
    /// a pack, or if it holds files but none of a cache.
    pub fn open(directory: impl AsRef<Path>, options: DiskCacheOptions) -> Result<Arc<Self>> {
        let path = directory.as_ref();
        let directory = CacheDirectory::open(path, is_of_an_entry)?;
        let salt = salt::of(&directory);
        // Without one nothing is found again; that is all.
        let chance = || salt::fresh().map_err(|error| Error::io("make a salt for", directory.path(), error));
        let used = salt.as_ref().map_or_else(|_| chance(), |salt| Ok(*salt))?;
        let (usage, counted) = (Mutex::default(), DiskCounters::default());
        let cache = Self { directory, salt: used, options, usage, counted };
        if let Err(error) = salt {
            cache.failed("keep a salt", &error);
        }
        // The budget may be another than last time.
        if let Err(error) = cache.make_room(0) {
            cache.failed("keep the budget", &error);
        }
        Ok(Arc::new(cache))
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The options that it was opened with.
    pub fn options(&self) -> &DiskCacheOptions {
        &self.options
    }

    /// Counters since it was opened.
    pub fn statistics(&self) -> DiskStatistics {
        let counted = &self.counted;
        DiskStatistics {
            read_bytes: counted.read_bytes.load(Relaxed),
            written_bytes: counted.written_bytes.load(Relaxed),
            evicted_bytes: counted.evicted_bytes.load(Relaxed),
            unkept_bytes: counted.unkept_bytes.load(Relaxed),
            damaged_ranges: counted.damaged_ranges.load(Relaxed),
            discarded_entries: counted.discarded_entries.load(Relaxed),
            failures: counted.failures.load(Relaxed),
            first_failure: counted.first_failure.get().cloned(),
        }
    }

    /// Notes an operation that the system refused: readers continue without the disk.
    fn failed(&self, operation: &str, error: &io::Error) {
        self.counted.failures.fetch_add(1, Relaxed);
        self.counted.first_failure.get_or_init(|| {
            format!("cannot {operation} in the cache {}: {error}", self.directory().display()).into()
        });
    }
}

/// Whether a file has a name as those of entries have.
fn is_of_an_entry(name: &str) -> bool {
    name.split_once('.').is_some_and(|(name, kind)| {
        let is_ours = kind == "index" || kind.ends_with(".data") || kind.ends_with(".draft");
        is_ours && cache::is_name(name)
    })
}

fn index_name(name: &str) -> String {
    format!("{name}.index")
}

fn data_name(name: &str, nonce: u64) -> String {
    format!("{name}.{nonce:016x}.data")
}

/// The name of an index before it is published.
fn draft_name(name: &str, nonce: u64) -> String {
    format!("{name}.{nonce:016x}.draft")
}
