//! [`MergedCache`]: copies of virtual files as one file each, kept in a directory.
//!
//! A copy is found by all that decides its bytes, holds exactly these, and is verified when it is
//! opened. Nothing depends on one: whatever is wrong with the cache, a file is read from its parts.
//! `docs/formats/merged-cache-v1.md` specifies the files.

mod build;
mod called;
mod entry;
mod key;
mod opener;
mod record;
mod room;
mod rule;
mod source;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use self::build::Built;
use self::called::Called;
use self::entry::Found;
use self::key::{key_of, numbers_of, shown};
use self::source::HeldCopy;
use super::error::Result;
use super::file::VirtualFile;
use crate::error::{self, Error};
use crate::source::Source as _;
use crate::storage::cache::{self, CacheDirectory, salt};
use crate::tree::outbox::{Calls, Outbox, System};

pub use self::key::MadeBy;
pub use self::opener::{MergedOpener, MergedUse};
pub use self::room::Purged;
pub use self::rule::MergeRule;
pub use self::source::MergedFile;

/// Notes that are kept until they are taken.
const NOTES_MAX: usize = 64;
const RECORD: &str = ".record";
const DATA: &str = ".merged";
/// The digits of a nonce.
const NONCE_LEN: usize = 16;

/// How a [`MergedCache`] behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MergedCacheOptions {
    /// Which files are merged.
    pub rule: MergeRule,
    /// The most disk space of all copies together, in bytes. Those that were used longest ago are
    /// removed, but none that is in use.
    pub budget_bytes: u64,
    /// How long a copy stays that nobody uses, until a [purge](MergedCache::purge).
    pub unused_max: Duration,
    /// Whether a copy that is found is compared with all bytes of what it was made of, which are
    /// read for that: for file systems whose times cannot be trusted.
    pub verify_content: bool,
}

impl Default for MergedCacheOptions {
    /// 10 GiB, 14 days.
    fn default() -> Self {
        let unused_max = Duration::from_secs(14 * 24 * 60 * 60);
        Self { rule: MergeRule::Auto, budget_bytes: 10 << 30, unused_max, verify_content: false }
    }
}

/// Counters of a [`MergedCache`] in this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MergedStatistics {
    /// Files that had a copy.
    pub found: u64,
    /// Files whose copy was made.
    pub built: u64,
    /// Files that are read from their parts.
    pub stitched: u64,
    /// Copies that were thrown away: damaged, or of another version.
    pub discarded: u64,
    /// Entries that were removed to keep the budget, or because they were not used for long.
    pub removed: u64,
    /// Operations of the cache that failed.
    pub failures: u64,
}

/// A directory of merged copies of virtual files, within a budget, shared by any number of
/// processes.
///
/// ```
/// use std::sync::Arc;
///
/// use stook::extent::ByteRange;
/// use stook::source::{Source, read_range};
/// use stook::stitch::{MergeRule, MergedCache, MergedCacheOptions, Pieces, VirtualFile};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// let options = MergedCacheOptions { rule: MergeRule::Always, ..MergedCacheOptions::default() };
/// let cache = MergedCache::open(directory.path().join("cache"), options)?;
/// let mut pieces = Pieces::new();
/// pieces.bytes("a few bytes".into());
/// let file = VirtualFile::new("made.bin", pieces, Arc::new(()))?;
/// for _ in 0..2 {
///     let merged = cache.merged(&file, &mut |_| true)?;
///     assert!(merged.is_merged());
///     let all = ByteRange::to(merged.len());
///     let (backend, access) = (stook::engine::Backend::Auto, stook::engine::Access::Cached);
///     assert_eq!(read_range(&backend, &merged, all, access)?, "a few bytes");
/// }
/// // Once all is open that will be wanted again, copies that were not for two weeks go.
/// cache.purge()?;
/// assert_eq!((cache.statistics().built, cache.statistics().found), (1, 1));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MergedCache {
    directory: CacheDirectory,
    /// What keys are hashed with.
    salt: [u8; 32],
    options: MergedCacheOptions,
    calls: Arc<dyn Calls>,
    outbox: Outbox,
    counted: Counters,
    notes: Mutex<Vec<String>>,
    /// Copies that are in use in this process, by their keys.
    held: Mutex<HashMap<[u8; 32], Weak<HeldCopy>>>,
    called: Mutex<Called>,
}

/// [`MergedStatistics`] while they are counted.
#[derive(Debug, Default)]
struct Counters {
    found: AtomicU64,
    built: AtomicU64,
    stitched: AtomicU64,
    discarded: AtomicU64,
    removed: AtomicU64,
    failures: AtomicU64,
}

/// Whether a copy can be used.
enum Usable {
    Copy(Arc<HeldCopy>),
    Nothing,
    /// One is there that cannot be used, and not be removed.
    Blocked,
}

/// What is there of a virtual file.
enum Sought {
    Copy(Arc<HeldCopy>),
    /// Nothing: one with this key can be made.
    Nothing([u8; 32]),
    /// It is read from its parts.
    Stitched,
}

impl MergedCache {
    /// Opens a directory. If there is none, it is made, accessible only to the user of this
    /// process.
    ///
    /// # Errors
    /// Returns an error if it cannot be made or opened, if others may write in it, if it is within
    /// a pack, or if it holds files but none of a cache.
    pub fn open(directory: impl AsRef<Path>, options: MergedCacheOptions) -> error::Result<Arc<Self>> {
        Self::open_through(directory, options, Arc::new(System))
    }

    /// The same, with system calls that somebody else makes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_through(
        directory: impl AsRef<Path>,
        options: MergedCacheOptions,
        calls: Arc<dyn Calls>,
    ) -> error::Result<Arc<Self>> {
        let path = directory.as_ref();
        let directory = CacheDirectory::open(path, |name| name_of_file(name).is_some())?;
        let chosen = salt::of(&directory);
        // Without one nothing is found again; that is all.
        let chance = || salt::fresh().map_err(|error| Error::io("make a salt for", path, error));
        let used = chosen.as_ref().map_or_else(|_| chance(), |salt| Ok(*salt))?;
        let outbox = Outbox::new(calls.clone()).map_err(|error| Error::io("choose names in", path, error))?;
        let (counted, notes, held) = (Counters::default(), Mutex::default(), Mutex::default());
        let called = Mutex::default();
        let cache = Self { directory, salt: used, options, calls, outbox, counted, notes, held, called };
        if let Err(error) = chosen {
            cache.failed(&format!("cannot keep a salt, so that no copy will be found again: {error}"));
        }
        Ok(Arc::new(cache))
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The options that it was opened with.
    pub fn options(&self) -> &MergedCacheOptions {
        &self.options
    }

    /// Counters since it was opened.
    pub fn statistics(&self) -> MergedStatistics {
        let Counters { found, built, stitched, discarded, removed, failures } = &self.counted;
        MergedStatistics {
            found: found.load(Relaxed),
            built: built.load(Relaxed),
            stitched: stitched.load(Relaxed),
            discarded: discarded.load(Relaxed),
            removed: removed.load(Relaxed),
            failures: failures.load(Relaxed),
        }
    }

    /// What was wrong with the cache, or with copies in it, since this was asked last: for people
    /// to read. Of very many the first are kept.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A virtual file, read from its copy if the rule of the options means it. One that is not
    /// there is made, for which all bytes are read; `go_on` is asked now and then, with the bytes
    /// so far. Where that is not possible the file is read from its parts, as it is without a
    /// cache, and a [note](Self::take_notes) says why.
    ///
    /// # Errors
    /// Something that it is made of changes, or cannot be read, while the copy is being made;
    /// [`Error::Interrupted`](super::Error::Interrupted).
    pub fn merged(&self, file: &VirtualFile, go_on: &mut dyn FnMut(u64) -> bool) -> Result<MergedFile> {
        let copy = self.copy_of(file, go_on)?;
        if copy.is_none() {
            self.counted.stitched.fetch_add(1, Relaxed);
        }
        Ok(MergedFile::new(file, copy))
    }

    /// The copy of a file, which is made where there is none.
    fn copy_of(
        &self,
        file: &VirtualFile,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Arc<HeldCopy>>> {
        let key = match self.look_for(file, go_on)? {
            Sought::Copy(copy) => return Ok(Some(copy)),
            Sought::Nothing(key) => key,
            Sought::Stitched => return Ok(None),
        };
        let (name, counted) = (cache::name_of(&key), &self.counted);
        let compares = self.options.verify_content;
        let (counter, compares) = match self.build(file, (&name, &key), go_on)? {
            Built::Entry => (&counted.built, false),
            Built::ByAnother => (&counted.found, compares),
            Built::Not(why) => {
                counted.failures.fetch_add(1, Relaxed);
                self.note(file, &why);
                return Ok(None);
            }
        };
        match self.usable(file, (&name, &key), compares, go_on)? {
            Usable::Copy(copy) => {
                counter.fetch_add(1, Relaxed);
                Ok(Some(copy))
            }
            Usable::Nothing => {
                self.note(file, "its copy was removed again by another process");
                Ok(None)
            }
            Usable::Blocked => Ok(None),
        }
    }

    /// Looks for the copy of a file, if the rule means it.
    fn look_for(&self, file: &VirtualFile, go_on: &mut dyn FnMut(u64) -> bool) -> Result<Sought> {
        let numbers = numbers_of(file);
        if !self.is_meant(file, &numbers) {
            return Ok(Sought::Stitched);
        }
        let key = match key_of(file, &numbers, &self.salt) {
            Ok(key) => key,
            Err(why) => {
                self.note(file, &why);
                return Ok(Sought::Stitched);
            }
        };
        let found = self.usable(file, (&cache::name_of(&key), &key), self.options.verify_content, go_on)?;
        Ok(match found {
            Usable::Copy(copy) => {
                self.counted.found.fetch_add(1, Relaxed);
                // Nothing of it is read now, and what is open is of use to others.
                file.bodies().close();
                Sought::Copy(copy)
            }
            Usable::Nothing => Sought::Nothing(key),
            Usable::Blocked => Sought::Stitched,
        })
    }

    /// Whether the rule means a file that has these bodies.
    fn is_meant(&self, file: &VirtualFile, numbers: &[u32]) -> bool {
        match self.options.rule {
            MergeRule::Auto => rule::is_meant(file, numbers),
            MergeRule::Always => true,
            MergeRule::Never => false,
        }
    }

    /// The copy that is there and verified, and perhaps compared with its parts. What is
    /// damaged is thrown away.
    fn usable(
        &self,
        file: &VirtualFile,
        (name, key): (&str, &[u8; 32]),
        compares: bool,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Usable> {
        let copy = match self.held_or_found(name, key, file.len()) {
            Ok(Found::Copy(copy)) => copy,
            Ok(Found::Nothing) => return Ok(Usable::Nothing),
            Ok(Found::Damaged(id, why)) => {
                return Ok(self.discarded(file, &why, self.discard(name, id)));
            }
            Err(error) => {
                self.failed(&format!("cannot look for the copy of {}: {error}", shown(file.path())));
                return Ok(Usable::Blocked);
            }
        };
        if compares && !self.has_bytes_of(file, &copy, go_on)? {
            let id = cache::about(&copy.record).map(|about| about.id);
            drop(copy);
            let gone = id.and_then(|id| self.discard(name, id));
            return Ok(self.discarded(file, "it has other bytes than what it is made of", gone));
        }
        if let Err(error) = cache::stamp(&copy.record) {
            self.failed(&format!("cannot note the last use of a copy: {error}"));
        }
        Ok(Usable::Copy(copy))
    }

    /// The copy with a key: one that is in use here was verified when that began, and is what it
    /// was then.
    fn held_or_found(&self, name: &str, key: &[u8; 32], len: u64) -> io::Result<Found> {
        let held = self.held().get(key).and_then(Weak::upgrade);
        if let Some(copy) = held.filter(|copy| copy.data.check_unchanged().is_ok()) {
            return Ok(Found::Copy(copy));
        }
        let found = self.find(name, key, len)?;
        if let Found::Copy(copy) = &found {
            let mut held = self.held();
            held.retain(|_, copy| copy.strong_count() > 0);
            held.insert(*key, Arc::downgrade(copy));
        }
        Ok(found)
    }

    fn held(&self) -> MutexGuard<'_, HashMap<[u8; 32], Weak<HeldCopy>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a copy was thrown away, or could not be: then no other can take its place.
    fn discarded(&self, file: &VirtualFile, why: &str, gone: io::Result<bool>) -> Usable {
        match gone {
            Ok(true) => {
                self.counted.discarded.fetch_add(1, Relaxed);
                self.push_note(format!("the copy of {} was thrown away: {why}", shown(file.path())));
                return Usable::Nothing;
            }
            Ok(false) => self.note(file, &format!("its copy is not used here, but by others: {why}")),
            Err(error) => {
                self.failed(&format!("{}: {why}, and it cannot be removed: {error}", shown(file.path())));
            }
        }
        Usable::Blocked
    }

    /// Whether a copy has the bytes that the parts have now.
    fn has_bytes_of(
        &self,
        file: &VirtualFile,
        copy: &HeldCopy,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool> {
        let (mut hash, mut at) = (blake3::Hasher::new(), 0_u64);
        file.read_through(&mut |bytes| {
            hash.update(bytes);
            at = at.saturating_add(bytes.len() as u64);
            Ok(go_on(at))
        })?;
        Ok(*hash.finalize().as_bytes() == copy.hash)
    }

    fn count_removed(&self, purged: Purged) {
        self.counted.removed.fetch_add(purged.entries, Relaxed);
    }

    fn note(&self, file: &VirtualFile, why: &str) {
        self.push_note(format!("{} is read from its parts: {why}", shown(file.path())));
    }

    /// Notes an operation that the system refused.
    fn failed(&self, what: &str) {
        self.counted.failures.fetch_add(1, Relaxed);
        self.push_note(format!("in the cache {}: {what}", self.directory().display()));
    }

    fn push_note(&self, note: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() < NOTES_MAX {
            notes.push(note);
        }
    }
}

fn record_name(name: &str) -> String {
    format!("{name}{RECORD}")
}

fn data_name(name: &str, nonce: u64) -> String {
    format!("{name}.{nonce:016x}{DATA}")
}

/// The name of the entry that a file is of, and whether it is its record: `None` for files that are
/// not of this cache.
fn name_of_file(file: &str) -> Option<(&str, bool)> {
    if let Some(name) = file.strip_suffix(RECORD) {
        return cache::is_name(name).then_some((name, true));
    }
    let (name, nonce) = file.strip_suffix(DATA)?.split_once('.')?;
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_nonce = nonce.len() == NONCE_LEN && nonce.bytes().all(is_digit);
    (cache::is_name(name) && is_nonce).then_some((name, false))
}

fn is_data_of(file: &str, name: &str) -> bool {
    name_of_file(file) == Some((name, false))
}
