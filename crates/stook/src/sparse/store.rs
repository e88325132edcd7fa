//! [`SparseStore`]: many named sparse files under one budget.

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak, atomic::Ordering};

use super::buffer::{Meter, SparseBuffer, lock};
use super::evict::{self, Files, Queue};
use super::lease::{Lease, Tenant};
use super::owner::Owner;
use super::{Counters, SparseError, SparseOptions, serial};
use crate::source::Source;

type Buffers = BTreeMap<Arc<str>, NamedBuffer>;

/// A named buffer.
#[derive(Debug)]
struct NamedBuffer {
    buffer: Arc<SparseBuffer>,
    /// Whose bytes it holds, if a source was ever read through it.
    tenant: Option<Tenant>,
}

impl NamedBuffer {
    fn new(buffer: Arc<SparseBuffer>) -> Self {
        Self { buffer, tenant: None }
    }
}

/// The shared state of the files of a store.
#[derive(Debug)]
pub(super) struct Pool {
    files: RwLock<Buffers>,
    /// Files whose name now belongs to another source: they count for the budget while they are in
    /// use.
    displaced: Mutex<Vec<Weak<SparseBuffer>>>,
    meter: Arc<Meter>,
    queue: Mutex<Waiting>,
    /// The counters of removed files.
    gone: Mutex<Counters>,
}

/// What to evict next, and from which files.
#[derive(Debug, Default)]
struct Waiting {
    queue: Queue,
    files: Arc<Mutex<Vec<Weak<SparseBuffer>>>>,
}

/// Many named sparse files in memory, under one byte budget and one clock.
///
/// ```
/// use stook::sparse::{OnDifference, SparseOptions, SparseStore};
///
/// let store = SparseStore::new(SparseOptions { budget_bytes: 1000, ..SparseOptions::default() })?;
/// store.get_or_create("a").write(0, &[1; 600], OnDifference::Error)?;
/// store.get_or_create("b").write(7, &[2; 600], OnDifference::Error)?;
/// assert_eq!(store.held_bytes(), 600, "what was touched longest ago went");
/// assert!(store.get("a").is_some_and(|file| file.is_empty()));
/// # Ok::<(), stook::sparse::SparseError>(())
/// ```
#[derive(Debug)]
pub struct SparseStore {
    pool: Arc<Pool>,
    options: SparseOptions,
}

impl SparseStore {
    /// An empty store. All its files get these options; the budget is that of all of them together.
    ///
    /// # Errors
    /// Returns an error if an option has an invalid value.
    pub fn new(options: SparseOptions) -> Result<Self, SparseError> {
        options.check()?;
        let (files, meter) = (RwLock::default(), Meter::new(&options));
        let pool = Pool {
            files,
            displaced: Mutex::default(),
            meter,
            queue: Mutex::default(),
            gone: Mutex::default(),
        };
        Ok(Self { pool: Arc::new(pool), options })
    }

    /// The options that it was made with.
    pub fn options(&self) -> &SparseOptions {
        &self.options
    }

    /// The file of this name.
    pub fn get(&self, name: &str) -> Option<Arc<SparseBuffer>> {
        self.pool.read_files().get(name).map(|named| named.buffer.clone())
    }

    /// Returns the file with this name, a new one if there was none.
    pub fn get_or_create(&self, name: &str) -> Arc<SparseBuffer> {
        if let Some(file) = self.get(name) {
            return file;
        }
        let mut files = self.pool.write_files();
        files.entry(Arc::from(name)).or_insert_with(|| self.new_named_buffer()).buffer.clone()
    }

    /// The buffer for a file over a source: the one with this name, if its bytes may be used for
    /// the source, else a new one, which then gets the name.
    ///
    /// # Errors
    /// Returns [`SparseError::NotOfASource`].
    pub(super) fn lease(&self, name: &str, source: &dyn Source) -> Result<Arc<Lease>, SparseError> {
        let (owner, is_proven) = (Owner::of(source), source.is_proven());
        // Asked before the names are locked: who holds a buffer locked may want them.
        let is_empty = self.get(name).is_none_or(|buffer| buffer.is_empty());
        let mut displaced = None;
        let mut files = self.pool.write_files();
        let named = files.entry(Arc::from(name)).or_insert_with(|| self.new_named_buffer());
        match &named.tenant {
            Some(tenant) if is_proven && tenant.may_serve(&owner) => {
                if let Some(lease) = tenant.lease() {
                    return Ok(lease);
                }
            }
            Some(_) => {
                displaced = Some(std::mem::replace(named, self.new_named_buffer()).buffer);
            }
            None if is_empty => {}
            None => return Err(SparseError::NotOfASource { name: name.to_owned() }),
        }
        let (tenant, lease) = Tenant::new(owner, &named.buffer);
        named.tenant = Some(tenant);
        drop(files);
        displaced.iter().for_each(|file| self.pool.displace(file));
        Ok(lease)
    }

    fn new_named_buffer(&self) -> NamedBuffer {
        NamedBuffer::new(Arc::new(self.new_file(self.options)))
    }

    fn new_file(&self, options: SparseOptions) -> SparseBuffer {
        SparseBuffer::assemble(options, self.pool.meter.clone(), Some(Arc::downgrade(&self.pool)))
    }

    /// Removes a file. Existing references stay usable; it no longer counts for the budget and is
    /// not evicted from.
    pub fn remove(&self, name: &str) -> Option<Arc<SparseBuffer>> {
        let file = self.pool.write_files().remove(name)?.buffer;
        file.leave_store();
        let mut gone = lock(&self.pool.gone);
        *gone = gone.plus(file.counters());
        Some(file)
    }

    /// Takes all files out.
    pub fn clear(&self) {
        self.names().iter().for_each(|name| drop(self.remove(name)));
    }

    /// Reads a file that [`SparseBuffer::to_writer`] wrote and stores it under this name. Its
    /// budget is that of the store.
    ///
    /// # Errors
    /// Returns the errors of [`SparseBuffer::from_reader`], and [`SparseError::NameTaken`].
    pub fn load(&self, name: &str, reader: impl Read) -> Result<Arc<SparseBuffer>, SparseError> {
        let taken = || SparseError::NameTaken { name: name.to_owned() };
        if self.get(name).is_some() {
            return Err(taken());
        }
        let budget_bytes = self.options.budget_bytes;
        let file = serial::read(reader, |options| self.new_file(SparseOptions { budget_bytes, ..options }))?;
        let file = Arc::new(file);
        let mut files = self.pool.write_files();
        if files.contains_key(name) {
            drop(files);
            file.leave_store();
            return Err(taken());
        }
        files.insert(Arc::from(name), NamedBuffer::new(file.clone()));
        drop(files);
        self.evict_to(budget_bytes);
        Ok(file)
    }

    /// The names of all files, ascending.
    pub fn names(&self) -> Vec<Arc<str>> {
        self.pool.read_files().keys().cloned().collect()
    }

    /// Up to `count` names after `name`, ascending: for stores of very many files.
    pub fn names_after(&self, name: &str, count: usize) -> Vec<Arc<str>> {
        let bounds = (Bound::Excluded(name), Bound::Unbounded);
        self.pool.read_files().range::<str, _>(bounds).map(|(name, _)| name.clone()).take(count).collect()
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.pool.read_files().len()
    }

    /// Whether there is no file.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes all files hold.
    pub fn held_bytes(&self) -> u64 {
        self.pool.meter.held.load(Ordering::Relaxed)
    }

    /// What all files take of memory; see [`SparseBuffer::memory_bytes`].
    pub fn memory_bytes(&self) -> u64 {
        let files = self.pool.files();
        let names: usize =
            self.names().iter().map(|name| name.len() + size_of::<(Arc<str>, usize)>() * 2).sum();
        let rest = size_of::<Pool>() + size_of::<Meter>() + names;
        let waiting = lock(&self.pool.queue).queue.memory_bytes();
        files.iter().map(|file| file.memory_bytes()).sum::<u64>() + rest as u64 + waiting
    }

    /// Counters of all files, including removed ones.
    pub fn counters(&self) -> Counters {
        let gone = *lock(&self.pool.gone);
        self.pool.named().iter().map(|file| file.counters()).fold(gone, Counters::plus)
    }

    /// Evicts the least recently touched bytes of all files until at most `budget_bytes` are held,
    /// or only pinned ones; returns how many bytes were evicted.
    pub fn evict_to(&self, budget_bytes: u64) -> u64 {
        self.pool.evict_to(budget_bytes)
    }
}

impl Pool {
    fn read_files(&self) -> RwLockReadGuard<'_, Buffers> {
        self.files.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_files(&self) -> RwLockWriteGuard<'_, Buffers> {
        self.files.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn named(&self) -> Vec<Arc<SparseBuffer>> {
        self.read_files().values().map(|named| named.buffer.clone()).collect()
    }

    /// All files that count for the budget.
    fn files(&self) -> Vec<Arc<SparseBuffer>> {
        let mut files = self.named();
        files.extend(lock(&self.displaced).iter().filter_map(Weak::upgrade));
        files
    }

    /// Keeps track of a file that lost its name. Existing references stay usable, under the budget.
    fn displace(&self, file: &Arc<SparseBuffer>) {
        let mut gone = lock(&self.gone);
        *gone = gone.plus(file.counters());
        drop(gone);
        let mut displaced = lock(&self.displaced);
        displaced.retain(|file| file.strong_count() > 0);
        displaced.push(Arc::downgrade(file));
    }

    pub(super) fn evict_to(&self, budget_bytes: u64) -> u64 {
        let mut waiting = lock(&self.queue);
        let all = All { pool: self, files: waiting.files.clone() };
        evict::evict(&mut waiting.queue, budget_bytes, &all)
    }
}

/// All files of a store.
struct All<'a> {
    pool: &'a Pool,
    /// Those that were looked at, by number.
    files: Arc<Mutex<Vec<Weak<SparseBuffer>>>>,
}

impl Files for All<'_> {
    fn held_bytes(&self) -> u64 {
        self.pool.meter.held.load(Ordering::Relaxed)
    }

    fn segments(&self) -> u64 {
        self.pool.files().iter().map(|file| file.lock.read().held.index.len()).sum()
    }

    fn look(&self, each: &mut dyn FnMut(u32, u64, u64)) {
        let files = self.pool.files();
        for (number, file) in (0..).zip(&files) {
            file.evictable(|start, tick| each(number, start, tick));
        }
        *lock(&self.files) = files.iter().map(Arc::downgrade).collect();
    }

    fn evict(&self, file: u32, start: u64, tick: u64, whatever: bool) -> u64 {
        let file = lock(&self.files).get(file as usize).and_then(Weak::upgrade);
        file.map_or(0, |file| file.evict_segment(start, tick, whatever))
    }
}
