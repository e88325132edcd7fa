//! [`DiskCache`]: what was fetched of sources, kept in a directory for the next time.
//!
//! A cache promises nothing about what it keeps, only that what it gives is right. So nothing is ever synced, and
//! every range carries a checksum that is verified whenever it is read: whatever a crash, a full disk or a bad sector left
//! of a range, it is either as it was written or not held. `docs/formats/sparse-cache-v1.md` has the bytes.

mod directory;
mod entry;
mod format;
mod live;
mod room;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use self::directory::Directory;
use self::room::Usage;
use crate::error::Result;

pub use entry::DiskEntry;
pub use format::{CacheIndex, CacheIndexError};

/// How a [`DiskCache`] behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskCacheOptions {
    /// What all entries together may take of the disk, bytes. What was used longest ago is evicted.
    ///
    /// Each process that writes looks at what there is after every 1/32 of it, so several may together exceed it by
    /// as much each.
    pub budget_bytes: u64,
}

impl Default for DiskCacheOptions {
    /// 10 GiB.
    fn default() -> Self {
        Self { budget_bytes: 10 << 30 }
    }
}

/// What a [`DiskCache`] did in this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DiskStatistics {
    /// Bytes that were read and verified.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Bytes of the disk that were given back, to keep the budget.
    pub evicted_bytes: u64,
    /// Ranges and records of an index that were not what their checksums say; they are fetched again.
    pub damaged_ranges: u64,
    /// Entries that were thrown away: of another state of their source, of another version, or damaged.
    pub discarded_entries: u64,
    /// Operations that failed: a full disk, a directory that may only be read. Reads go on without the disk.
    pub failures: u64,
    /// What the first of them was.
    pub first_failure: Option<Arc<str>>,
}

/// A directory in which what was fetched of sources is kept, within a budget, shared by any number of processes.
///
/// Each source has an entry: a sparse file of its bytes, and an index of the ranges that are held. It is given to
/// files by [`SparseFileOptions::disk`](super::SparseFileOptions::disk).
///
/// ```
/// use stook::source::Identity;
/// use stook::sparse::{DiskCache, DiskCacheOptions};
///
/// # let directory = tempfile::tempdir()?;
/// # let directory = directory.path().join("cache");
/// let identity = Identity { len: 1 << 40, etag: Some("\"v1\"".into()), ..Identity::default() };
/// let cache = DiskCache::open(&directory, DiskCacheOptions { budget_bytes: 1 << 30 })?;
/// cache.entry("https://example.org/huge", &identity).write(7_000_000_000, b"fetched");
///
/// let again = DiskCache::open(&directory, DiskCacheOptions { budget_bytes: 1 << 30 })?;
/// let range = stook::extent::ByteRange::new(7_000_000_000, 7_000_000_005).unwrap();
/// let held = again.entry("https://example.org/huge", &identity).read(range);
/// assert_eq!(held, [(7_000_000_000, bytes::Bytes::from_static(b"fetched"))], "whole records");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DiskCache {
    directory: Directory,
    options: DiskCacheOptions,
    usage: Mutex<Usage>,
    counted: Counted,
}

#[derive(Debug, Default)]
struct Counted {
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    evicted_bytes: AtomicU64,
    damaged_ranges: AtomicU64,
    discarded_entries: AtomicU64,
    failures: AtomicU64,
    first_failure: OnceLock<Arc<str>>,
}

impl DiskCache {
    /// Opens a directory, which is made for nobody but the user of this process where there is none.
    ///
    /// # Errors
    /// When it cannot be made or opened, or others may write in it.
    pub fn open(directory: impl AsRef<Path>, options: DiskCacheOptions) -> Result<Arc<Self>> {
        let directory = Directory::open(directory.as_ref())?;
        let cache = Self { directory, options, usage: Mutex::default(), counted: Counted::default() };
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

    /// What it was opened with.
    pub fn options(&self) -> &DiskCacheOptions {
        &self.options
    }

    /// What it did since it was opened.
    pub fn statistics(&self) -> DiskStatistics {
        let counted = &self.counted;
        DiskStatistics {
            read_bytes: counted.read_bytes.load(Relaxed),
            written_bytes: counted.written_bytes.load(Relaxed),
            evicted_bytes: counted.evicted_bytes.load(Relaxed),
            damaged_ranges: counted.damaged_ranges.load(Relaxed),
            discarded_entries: counted.discarded_entries.load(Relaxed),
            failures: counted.failures.load(Relaxed),
            first_failure: counted.first_failure.get().cloned(),
        }
    }

    /// Takes notice of what the system refused: readers go on without the disk.
    fn failed(&self, operation: &str, error: &io::Error) {
        self.counted.failures.fetch_add(1, Relaxed);
        self.counted.first_failure.get_or_init(|| {
            format!("cannot {operation} in the cache {}: {error}", self.directory().display()).into()
        });
    }
}

/// The names of the files of an entry begin with this: FNV-1a of 128 bits of its address.
fn name_of(address: &str) -> String {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let hash = address.bytes().fold(BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME));
    format!("{hash:032x}")
}

fn index_name(name: &str) -> String {
    format!("{name}.index")
}

fn data_name(name: &str, nonce: u64) -> String {
    format!("{name}.{nonce:016x}.data")
}

/// What an index is written under before it is seen.
fn draft_name(name: &str, nonce: u64) -> String {
    format!("{name}.{nonce:016x}.draft")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_hash_that_the_document_says() {
        // Published test vectors of FNV-1a with 128 bits.
        assert_eq!(name_of(""), "6c62272e07bb014262b821756295c58d");
        assert_eq!(name_of("a"), "d228cb696f1a8caf78912b704e4a8964");
        assert_eq!(name_of("foobar"), "343e1662793c64bf6f0d3597ba446f18");
    }
}
