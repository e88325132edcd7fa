//! A storage whose calls fail on demand, over any other storage.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stook::source::Source;
use stook::storage::{Appender, Entry, Lock, Prepared, Storage};
use stook::{Error, Result};

use crate::sim::Failure;

/// The calls of a storage and of its appenders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StorageCall {
    /// [`Storage::create`].
    Create,
    /// [`Storage::open_append`].
    OpenAppend,
    /// [`Storage::open`].
    Open,
    /// [`Storage::prepare`], which is the first half of [`Storage::publish_if_absent`].
    Prepare,
    /// [`Prepared::publish`], the other half.
    Publish,
    /// [`Storage::rename`].
    Rename,
    /// [`Storage::unlink`] and [`Storage::unlink_unless_held`].
    Unlink,
    /// [`Storage::sync_directory`].
    SyncDirectory,
    /// [`Storage::list`].
    List,
    /// [`Storage::remove_leftovers`].
    RemoveLeftovers,
    /// [`Storage::lock`].
    Lock,
    /// [`Storage::hold`].
    Hold,
    /// [`Appender::append`].
    Append,
    /// [`Appender::flush`].
    Flush,
    /// [`Appender::sync`].
    Sync,
    /// [`Appender::truncate`].
    Truncate,
    /// [`Appender::rewrite`].
    Rewrite,
}

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageFault {
    /// Nothing is done and an error is reported.
    Fails(Failure),
    /// An append hands over the first half of its bytes, then the device is full. Any other call
    /// fails as with [`Failure::NoSpace`].
    Short,
}

/// Which calls fail: the `nth` (from 0, counted from when it was set) of a kind, or of all.
#[derive(Debug)]
struct Plan {
    call: Option<StorageCall>,
    left: usize,
    fault: StorageFault,
}

/// The action of a test at each call.
type Watcher = Arc<dyn Fn(StorageCall) + Send + Sync>;

#[derive(Default)]
struct Shared {
    calls: Vec<(StorageCall, String)>,
    plans: Vec<Plan>,
    watcher: Option<Watcher>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("calls", &self.calls)
            .field("plans", &self.plans)
            .finish_non_exhaustive()
    }
}

/// Passes every call on to another storage, records it, and fails the chosen ones.
pub struct FaultStorage {
    inner: Arc<dyn Storage>,
    shared: Arc<Mutex<Shared>>,
}

impl FaultStorage {
    /// Wraps a storage; nothing fails yet.
    pub fn new(inner: Arc<dyn Storage>) -> Self {
        Self { inner, shared: Arc::default() }
    }

    /// Makes the `nth` call of this kind from now on fail (0 is the next one); `None` counts calls
    /// of every kind. Several may be set; each happens once.
    pub fn inject(&self, call: Option<StorageCall>, nth: usize, fault: StorageFault) {
        lock(&self.shared).plans.push(Plan { call, left: nth, fault });
    }

    /// Runs `watcher` in the thread of every call from now on, after it was noted and before it is
    /// done: it may make the call wait, or panic.
    pub fn watch(&self, watcher: impl Fn(StorageCall) + Send + Sync + 'static) {
        lock(&self.shared).watcher = Some(Arc::new(watcher));
    }

    /// All calls so far with the names they were for, those that failed included.
    pub fn calls(&self) -> Vec<(StorageCall, String)> {
        lock(&self.shared).calls.clone()
    }

    fn meet(&self, call: StorageCall, name: &str) -> Result<()> {
        match meet(&self.shared, call, name) {
            Some(fault) => Err(to_error(fault, &self.inner.path(name))),
            None => Ok(()),
        }
    }

    fn wrap(&self, name: &str, inner: Box<dyn Appender>) -> Box<dyn Appender> {
        let shared = Arc::clone(&self.shared);
        Box::new(FaultAppender {
            inner,
            shared,
            name: name.to_owned(),
            path: self.inner.path(name),
            broken: false,
        })
    }
}

impl fmt::Debug for FaultStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FaultStorage").field(&self.inner).finish()
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes a call and finds out whether it is to fail.
fn meet(shared: &Mutex<Shared>, call: StorageCall, name: &str) -> Option<StorageFault> {
    let watcher = {
        let mut shared = lock(shared);
        shared.calls.push((call, name.to_owned()));
        shared.watcher.clone()
    };
    if let Some(watcher) = watcher {
        watcher(call);
    }
    let mut shared = lock(shared);
    let mut due = None;
    shared.plans.retain_mut(|plan| {
        if plan.call.is_some_and(|wanted| wanted != call) {
            return true;
        }
        if plan.left == 0 {
            due = Some(plan.fault);
            return false;
        }
        plan.left -= 1;
        true
    });
    due
}

fn to_error(fault: StorageFault, path: &std::path::Path) -> Error {
    let failure = match fault {
        StorageFault::Fails(failure) => failure,
        StorageFault::Short => Failure::NoSpace,
    };
    Error::io("use", path, failure.to_error())
}

impl Storage for FaultStorage {
    fn path(&self, name: &str) -> PathBuf {
        self.inner.path(name)
    }

    fn create(&self, name: &str) -> Result<Box<dyn Appender>> {
        self.meet(StorageCall::Create, name)?;
        Ok(self.wrap(name, self.inner.create(name)?))
    }

    fn open_append(&self, name: &str) -> Result<Box<dyn Appender>> {
        self.meet(StorageCall::OpenAppend, name)?;
        Ok(self.wrap(name, self.inner.open_append(name)?))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Source>> {
        self.meet(StorageCall::Open, name)?;
        self.inner.open(name)
    }

    fn prepare(&self, name: &str, bytes: &[u8]) -> Result<Box<dyn Prepared>> {
        self.meet(StorageCall::Prepare, name)?;
        let inner = self.inner.prepare(name, bytes)?;
        let (shared, path) = (Arc::clone(&self.shared), self.inner.path(name));
        Ok(Box::new(FaultPrepared { inner, shared, name: name.to_owned(), path }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.meet(StorageCall::Rename, from)?;
        self.inner.rename(from, to)
    }

    fn unlink(&self, name: &str) -> Result<()> {
        self.meet(StorageCall::Unlink, name)?;
        self.inner.unlink(name)
    }

    fn sync_directory(&self) -> Result<()> {
        self.meet(StorageCall::SyncDirectory, "")?;
        self.inner.sync_directory()
    }

    fn list(&self) -> Result<Vec<Entry>> {
        self.meet(StorageCall::List, "")?;
        self.inner.list()
    }

    fn remove_leftovers(&self) -> Result<u64> {
        self.meet(StorageCall::RemoveLeftovers, "")?;
        self.inner.remove_leftovers()
    }

    fn lock(&self, name: &str, holder: &str) -> Result<Box<dyn Lock>> {
        self.meet(StorageCall::Lock, name)?;
        self.inner.lock(name, holder)
    }

    fn hold(&self, name: &str) -> Result<Box<dyn Lock>> {
        self.meet(StorageCall::Hold, name)?;
        self.inner.hold(name)
    }

    fn unlink_unless_held(&self, name: &str) -> Result<bool> {
        self.meet(StorageCall::Unlink, name)?;
        self.inner.unlink_unless_held(name)
    }
}

#[derive(Debug)]
struct FaultPrepared {
    inner: Box<dyn Prepared>,
    shared: Arc<Mutex<Shared>>,
    name: String,
    path: PathBuf,
}

impl Prepared for FaultPrepared {
    fn publish(self: Box<Self>) -> Result<()> {
        match meet(&self.shared, StorageCall::Publish, &self.name) {
            Some(fault) => Err(to_error(fault, &self.path)),
            None => self.inner.publish(),
        }
    }
}

/// Once it failed it refuses everything, as every appender does.
#[derive(Debug)]
struct FaultAppender {
    inner: Box<dyn Appender>,
    shared: Arc<Mutex<Shared>>,
    name: String,
    path: PathBuf,
    broken: bool,
}

impl FaultAppender {
    fn meet(&mut self, call: StorageCall) -> Result<Option<StorageFault>> {
        if self.broken {
            let source = io::Error::other("an injected fault broke this appender earlier");
            return Err(Error::io("use", &self.path, source));
        }
        let fault = meet(&self.shared, call, &self.name);
        self.broken = fault.is_some();
        Ok(fault)
    }

    fn meet_plainly(&mut self, call: StorageCall) -> Result<()> {
        match self.meet(call)? {
            Some(fault) => Err(to_error(fault, &self.path)),
            None => Ok(()),
        }
    }
}

impl Appender for FaultAppender {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn append(&mut self, parts: &[&[u8]]) -> Result<()> {
        let Some(fault) = self.meet(StorageCall::Append)? else {
            return self.inner.append(parts);
        };
        if fault == StorageFault::Short {
            let all = parts.concat();
            self.inner.append(&[&all[..all.len() / 2]])?;
            self.inner.flush()?;
        }
        Err(to_error(fault, &self.path))
    }

    fn flush(&mut self) -> Result<()> {
        self.meet_plainly(StorageCall::Flush)?;
        self.inner.flush()
    }

    fn sync(&mut self) -> Result<()> {
        self.meet_plainly(StorageCall::Sync)?;
        self.inner.sync()
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.meet_plainly(StorageCall::Truncate)?;
        self.inner.truncate(len)
    }

    fn rewrite(&mut self, from: u64) -> Result<()> {
        self.meet_plainly(StorageCall::Rewrite)?;
        self.inner.rewrite(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimStorage;

    #[test]
    fn only_the_nth_call_of_its_kind_fails_and_all_calls_are_noted() {
        let storage = FaultStorage::new(Arc::new(SimStorage::new()));
        storage.inject(Some(StorageCall::Sync), 1, StorageFault::Fails(Failure::Io));
        let mut appender = storage.create("a").unwrap();
        appender.append(&[b"one"]).unwrap();
        appender.sync().unwrap();
        appender.append(&[b"two"]).unwrap();
        assert!(appender.sync().unwrap_err().to_string().contains("/a"));
        appender.sync().unwrap_err();
        storage.open_append("a").unwrap().sync().unwrap();
        let syncs = storage.calls().iter().filter(|call| call.0 == StorageCall::Sync).count();
        assert_eq!(syncs, 3, "the refusal by the broken appender is no call");
    }

    #[test]
    fn a_short_append_leaves_half_of_its_bytes() {
        let storage = FaultStorage::new(Arc::new(SimStorage::new()));
        storage.inject(None, 1, StorageFault::Short);
        let mut appender = storage.create("a").unwrap();
        appender.append(&[b"1234", b"5678"]).unwrap_err();
        assert_eq!(storage.open("a").unwrap().len(), 4);
    }
}
