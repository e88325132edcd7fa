//! A storage with bad sectors, over any other storage.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use stook::extent::ByteRange;
use stook::source::{Identity, Leaf, Source};
use stook::storage::{Appender, Entry, Lock, Prepared, Storage};
use stook::{Error, Result};

/// What cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Bad {
    /// Every read that touches this range of the file fails with `EIO`.
    Range(String, ByteRange),
    /// The file cannot be opened, for this reason.
    File(String, i32),
}

/// Passes every call on to another storage, and refuses to read bad sectors. What was opened before they went bad meets them too.
#[derive(Debug, Clone)]
pub struct UnreadableStorage {
    inner: Arc<dyn Storage>,
    bad: Arc<Mutex<Vec<Bad>>>,
}

impl UnreadableStorage {
    /// Wraps a storage; all of it can be read.
    pub fn new(inner: Arc<dyn Storage>) -> Self {
        Self { inner, bad: Arc::default() }
    }

    /// From now on no read that touches this range succeeds.
    pub fn spoil(&self, name: &str, range: ByteRange) {
        self.add(Bad::Range(name.into(), range));
    }

    /// From now on the file cannot be opened: the system says `errno`.
    pub fn close(&self, name: &str, errno: i32) {
        self.add(Bad::File(name.into(), errno));
    }

    /// All of it can be read again.
    pub fn heal(&self) {
        self.bad.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn add(&self, bad: Bad) {
        self.bad.lock().unwrap_or_else(PoisonError::into_inner).push(bad);
    }

    fn check_opening(&self, name: &str) -> Result<()> {
        let bad = self.bad.lock().unwrap_or_else(PoisonError::into_inner);
        let errno = bad.iter().find_map(|bad| match bad {
            Bad::File(file, errno) if file == name => Some(*errno),
            _ => None,
        });
        match errno {
            Some(errno) => Err(Error::io("open", self.inner.path(name), io::Error::from_raw_os_error(errno))),
            None => Ok(()),
        }
    }
}

impl Storage for UnreadableStorage {
    fn path(&self, name: &str) -> PathBuf {
        self.inner.path(name)
    }

    fn create(&self, name: &str) -> Result<Box<dyn Appender>> {
        self.inner.create(name)
    }

    fn open_append(&self, name: &str) -> Result<Box<dyn Appender>> {
        self.check_opening(name)?;
        self.inner.open_append(name)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Source>> {
        self.check_opening(name)?;
        let inner = self.inner.open(name)?;
        Ok(Arc::new(UnreadableSource { inner, name: name.to_owned(), bad: self.bad.clone() }))
    }

    fn prepare(&self, name: &str, bytes: &[u8]) -> Result<Box<dyn Prepared>> {
        self.inner.prepare(name, bytes)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn unlink(&self, name: &str) -> Result<()> {
        self.inner.unlink(name)
    }

    fn sync_directory(&self) -> Result<()> {
        self.inner.sync_directory()
    }

    fn list(&self) -> Result<Vec<Entry>> {
        self.inner.list()
    }

    fn remove_leftovers(&self) -> Result<u64> {
        self.inner.remove_leftovers()
    }

    fn lock(&self, name: &str, holder: &str) -> Result<Box<dyn Lock>> {
        self.inner.lock(name, holder)
    }

    fn hold(&self, name: &str) -> Result<Box<dyn Lock>> {
        self.check_opening(name)?;
        self.inner.hold(name)
    }

    fn unlink_unless_held(&self, name: &str) -> Result<bool> {
        self.inner.unlink_unless_held(name)
    }
}

#[derive(Debug)]
struct UnreadableSource {
    inner: Arc<dyn Source>,
    name: String,
    bad: Arc<Mutex<Vec<Bad>>>,
}

impl Source for UnreadableSource {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn identity(&self) -> Identity {
        self.inner.identity()
    }

    fn current_identity(&self) -> Result<Identity> {
        self.inner.current_identity()
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        let bad = self.bad.lock().unwrap_or_else(PoisonError::into_inner);
        let is_bad = bad.iter().any(|bad| match bad {
            Bad::Range(file, bad) => {
                *file == self.name && bad.start() < range.end() && range.start() < bad.end()
            }
            Bad::File(..) => false,
        });
        if is_bad {
            return Err(Error::io_at("read", self.path(), range.start(), io::Error::from_raw_os_error(5)));
        }
        self.inner.resolve(range, leaves)
    }
}
