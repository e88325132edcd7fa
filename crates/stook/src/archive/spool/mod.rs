//! [`Spool`]: what compressed members were unpacked to, within one limit for all of them.
//!
//! Short bodies are in memory; longer ones, and the tar in a compressed tar, in temporary files
//! without a name, in segments. Where there is no room for the next, those that were used least
//! recently are dropped, and unpacked again when they are wanted.

mod segment;
mod stream;
mod unpackers;

use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use rustix::io::Errno;

use self::segment::Segment;
pub(super) use self::stream::SpoolStream;
pub(super) use self::unpackers::{TarUnpacker, Unpacker, ZipMember};
use crate::error::{Error, Result};

/// The most that [`Spool::shared`] holds in files, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 30;
/// The most that it holds in memory, in bytes.
const MEMORY_BYTES_MAX: u64 = 64 << 20;
/// A body of up to this many bytes is held in memory.
pub(super) const SHORT_MAX: u64 = 1 << 20;
/// Segments in files at a time: each is a descriptor.
const FILES_MAX: usize = 256;
/// The lengths that a segment may have.
const SEGMENT_BYTES_MIN: u64 = 64 << 10;
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// Streams that were left in their middle and can be continued there: each holds what its
/// decompressor knows, and what was read ahead for it.
const PARKED_MAX: usize = 8;

/// What the system has no more of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lack {
    /// Room on the disk, or of the quota of this user.
    Bytes,
    /// Descriptors of this process, or of the system.
    Descriptors,
}

/// Files that are dropped where no descriptor is left: others want some, too.
const DESCRIPTORS_FREED: usize = 8;
/// How often something is done again that lacked room: other threads take what was freed.
const LACKS_MAX: usize = 4;

impl Lack {
    fn of(error: &Error) -> Option<Self> {
        match error.io_kind()? {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some(Self::Bytes),
            // Its kind has no name.
            _ => match error {
                Error::Io { source, .. } => match Errno::from_io_error(source)? {
                    Errno::MFILE | Errno::NFILE => Some(Self::Descriptors),
                    _ => None,
                },
                _ => None,
            },
        }
    }
}

/// Room for what compressed members are unpacked to. A clone is the same room.
///
/// What is held is at most this: [`file_bytes_max`](Self::file_bytes_max) in files, of which there
/// are at most 256, and [`memory_bytes_max`](Self::memory_bytes_max) in memory; beside it a segment
/// (a 64th of the files, at most 64 MiB) for each thread that is unpacking, what reads under way
/// still have, and the state of eight decompressors that may be continued.
#[derive(Debug, Clone)]
pub struct Spool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    directory: PathBuf,
    file_bytes_max: u64,
    memory_bytes_max: u64,
    segment_bytes: u64,
    files: Arc<AtomicU64>,
    memory: Arc<AtomicU64>,
    unpacked: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    ticks: u64,
    ids: u64,
    held: BTreeMap<Place, Held>,
    /// By when they were used last.
    order: BTreeMap<u64, Place>,
    files: usize,
    parked: VecDeque<Weak<SpoolStream>>,
}

/// Which segment of which stream of which archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    archive: u64,
    stream: u64,
    segment: u64,
}

#[derive(Debug)]
struct Held {
    tick: u64,
    segment: Arc<Segment>,
    /// As long as it has a segment, it is found when the member is opened again.
    _stream: Arc<SpoolStream>,
}

/// How much a spool holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpoolUse {
    /// Bytes in files.
    pub file_bytes: u64,
    /// Bytes in memory.
    pub memory_bytes: u64,
    /// Bytes that were unpacked into it since it was made.
    pub unpacked_bytes: u64,
}

impl Default for Spool {
    fn default() -> Self {
        Self::shared().clone()
    }
}

impl Spool {
    /// One in a directory, with limits for what is held in files and in memory, in bytes.
    pub fn new(directory: impl Into<PathBuf>, file_bytes_max: u64, memory_bytes_max: u64) -> Self {
        let segment_bytes = (file_bytes_max / 64).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
        Self(Arc::new(Inner {
            directory: directory.into(),
            file_bytes_max,
            memory_bytes_max,
            segment_bytes,
            files: Arc::default(),
            memory: Arc::default(),
            unpacked: AtomicU64::new(0),
            state: Mutex::default(),
        }))
    }

    /// The one of this process: in `TMPDIR`, or else `/var/tmp`, with 64 MiB in memory and up to 16
    /// GiB in files, but no more than half of what was free there when it was first wanted.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Spool> = OnceLock::new();
        SHARED.get_or_init(|| {
            let given = std::env::var_os("TMPDIR").filter(|path| !path.is_empty()).map(PathBuf::from);
            let directory = given.unwrap_or_else(|| match Path::new("/var/tmp").is_dir() {
                true => "/var/tmp".into(),
                false => std::env::temp_dir(),
            });
            // Where it cannot be asked, making a file there says why.
            let free = rustix::fs::statvfs(&directory).map_or(u64::MAX, |stat| {
                stat.f_bavail.saturating_mul(if stat.f_frsize == 0 { stat.f_bsize } else { stat.f_frsize })
            });
            Self::new(directory, FILE_BYTES_MAX.min(free / 2), MEMORY_BYTES_MAX)
        })
    }

    /// Where its files are. They have no names.
    pub fn directory(&self) -> &Path {
        &self.0.directory
    }

    /// The most that is held in files, in bytes. No longer member is opened, unless it is deflated
    /// and has no more than 1 MiB.
    pub fn file_bytes_max(&self) -> u64 {
        self.0.file_bytes_max
    }

    /// The most that is held in memory, in bytes.
    pub fn memory_bytes_max(&self) -> u64 {
        self.0.memory_bytes_max
    }

    /// How much it holds now.
    pub fn usage(&self) -> SpoolUse {
        SpoolUse {
            file_bytes: self.0.files.load(Ordering::Relaxed),
            memory_bytes: self.0.memory.load(Ordering::Relaxed),
            unpacked_bytes: self.0.unpacked.load(Ordering::Relaxed),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that nothing else in it has.
    pub(super) fn id(&self) -> u64 {
        let mut state = self.state();
        state.ids += 1;
        state.ids
    }

    /// Drops all that an archive has in it.
    pub(super) fn forget(&self, archive: u64) {
        let mut state = self.state();
        let places: Vec<Place> = state
            .held
            .range(Place { archive, stream: 0, segment: 0 }..)
            .map(|(place, _)| *place)
            .take_while(|place| place.archive == archive)
            .collect();
        let dropped: Vec<Option<Held>> = places.into_iter().map(|place| state.remove(place)).collect();
        // Dropped without the lock: files are closed.
        drop(state);
        drop(dropped);
    }

    /// A segment, which is then the one that was used last.
    fn get(&self, place: Place) -> Option<Arc<Segment>> {
        let mut state = self.state();
        let state = &mut *state;
        let held = state.held.get_mut(&place)?;
        state.order.remove(&held.tick);
        state.ticks += 1;
        held.tick = state.ticks;
        state.order.insert(held.tick, place);
        Some(held.segment.clone())
    }

    /// Puts a segment into its place, instead of what may be there.
    fn put(&self, place: Place, segment: Arc<Segment>, stream: &Arc<SpoolStream>) {
        let mut state = self.state();
        let before = state.remove(place);
        state.ticks += 1;
        let tick = state.ticks;
        state.order.insert(tick, place);
        state.files += usize::from(segment.is_file());
        state.held.insert(place, Held { tick, segment, _stream: stream.clone() });
        drop(state);
        drop(before);
    }

    /// Whether so much more may be held in files without dropping anything.
    fn has_room(&self, len: u64) -> bool {
        let used = self.0.files.load(Ordering::Relaxed);
        used.saturating_add(len) <= self.0.file_bytes_max && self.state().files < FILES_MAX
    }

    /// Makes room for so much more by dropping what was used least recently. What is in use stays.
    fn make_room(&self, is_file: bool, len: u64) {
        let (used, most) = match is_file {
            true => (&self.0.files, self.0.file_bytes_max),
            false => (&self.0.memory, self.0.memory_bytes_max),
        };
        let excess = used.load(Ordering::Relaxed).saturating_add(len).saturating_sub(most);
        let mut state = self.state();
        // A file more, when nothing of it is there yet.
        let too_many = if is_file && len == 0 { (state.files + 1).saturating_sub(FILES_MAX) } else { 0 };
        if excess > 0 || too_many > 0 {
            let dropped = state.evict(is_file, excess, too_many, None);
            drop(state);
            drop(dropped);
        }
    }

    /// Does something for a stream that takes room, a file or bytes in one. Where the system has
    /// none before the limits are reached, files are dropped that are not in use, and it is done
    /// again.
    fn with_room<T>(&self, stream: u64, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let mut done = work();
        for _ in 0..LACKS_MAX {
            let is_freed = match done.as_ref().err().and_then(Lack::of) {
                // A stream that does not fit beside nothing is an error: dropping its own would
                // unpack it again and again.
                Some(Lack::Bytes) => self.drop_files(usize::MAX, Some(stream)),
                // One descriptor is enough, and each other file has one as well.
                Some(Lack::Descriptors) => self.drop_files(DESCRIPTORS_FREED, None),
                None => return done,
            };
            if !is_freed {
                return done;
            }
            done = work();
        }
        done
    }

    /// Drops so many files that are not in use, nor of the spared stream; says whether there was
    /// any.
    fn drop_files(&self, count: usize, spared: Option<u64>) -> bool {
        let bytes = if count == usize::MAX { u64::MAX } else { 0 };
        let mut state = self.state();
        let dropped = state.evict(true, bytes, count, spared);
        drop(state);
        !dropped.is_empty()
    }

    /// A stream was left in its middle. Those that were left before may lose their decompressor.
    fn park(&self, stream: &Arc<SpoolStream>) {
        let mut state = self.state();
        let this = Arc::downgrade(stream);
        state.parked.retain(|other| !other.ptr_eq(&this) && other.strong_count() > 0);
        state.parked.push_back(this);
        let over = state.parked.len().saturating_sub(PARKED_MAX);
        let over: Vec<_> = state.parked.drain(..over).collect();
        drop(state);
        for stream in over.iter().filter_map(Weak::upgrade) {
            stream.drop_cursor();
        }
    }

    fn note_unpacked(&self, bytes: u64) {
        self.0.unpacked.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl State {
    fn remove(&mut self, place: Place) -> Option<Held> {
        let held = self.held.remove(&place)?;
        self.order.remove(&held.tick);
        self.files -= usize::from(held.segment.is_file());
        Some(held)
    }

    /// Takes segments out, those first that were used least recently, until they are so many bytes
    /// and so many, as far as they are not in use, nor of the spared stream.
    fn evict(&mut self, is_file: bool, bytes: u64, count: usize, spared: Option<u64>) -> Vec<Held> {
        let (mut places, mut freed) = (Vec::new(), 0_u64);
        for place in self.order.values() {
            if freed >= bytes && places.len() >= count {
                break;
            }
            let Some(held) = self.held.get(place).filter(|_| Some(place.stream) != spared) else { continue };
            if held.segment.is_file() == is_file && Arc::strong_count(&held.segment) == 1 {
                freed = freed.saturating_add(held.segment.cost());
                places.push(*place);
            }
        }
        places.into_iter().filter_map(|place| self.remove(place)).collect()
    }
}
