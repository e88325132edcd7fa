//! A storage with bad sectors, over any other storage.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use stook::extent::ByteRange;
use stook::source::{Leaf, Source};
use stook::storage::{Appender, Lock, Storage};
use stook::{Error, Result};

/// Unreadable ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Bad {
    /// Every read that touches this range of the file fails with `EIO`.
    Range(String, ByteRange),
    /// The file cannot be opened, for this reason.
    File(String, i32),
}

/// Passes every call on to another storage, and refuses to read bad sectors. Files opened before
/// they went bad are affected, too.
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
    crate::forward_storage!(inner:
        path create prepare rename unlink sync_directory list remove_leftovers lock
        unlink_unless_held
    );

    fn open_append(&self, name: &str) -> Result<Box<dyn Appender>> {
        self.check_opening(name)?;
        self.inner.open_append(name)
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Source>> {
        self.check_opening(name)?;
        let inner = self.inner.open(name)?;
        Ok(Arc::new(UnreadableSource { inner, name: name.to_owned(), bad: self.bad.clone() }))
    }

    fn hold(&self, name: &str) -> Result<Box<dyn Lock>> {
        self.check_opening(name)?;
        self.inner.hold(name)
    }
}

#[derive(Debug)]
struct UnreadableSource {
    inner: Arc<dyn Source>,
    name: String,
    bad: Arc<Mutex<Vec<Bad>>>,
}

impl Source for UnreadableSource {
    crate::forward_source!(inner: path len identity current_identity);

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
