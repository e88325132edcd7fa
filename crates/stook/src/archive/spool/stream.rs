//! [`SpoolStream`]: what is unpacked from its front, read at any offset.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::archive::error::{Error, Result};
use crate::extent::ByteRange;
use crate::source::Leaf;

use super::segment::{BESIDE_BYTES, Segment};
use super::{Place, SHORT_MAX, Spool, Unpacker};

/// How many segments before what is wanted are kept, where the way to it begins at the front again.
const SEGMENTS_BEFORE: u64 = 4;

/// Makes an unpacker that stands at the front.
pub(in super::super) type OpenUnpacker = Box<dyn Fn() -> Result<Box<dyn Unpacker>> + Send + Sync>;

/// Bytes that are unpacked from their front, as far as they are wanted. One thread unpacks; others
/// wait until what they want is there.
pub(in super::super) struct SpoolStream {
    spool: Spool,
    /// The archive, for messages.
    path: PathBuf,
    archive: u64,
    stream: u64,
    open: OpenUnpacker,
    /// How long it is said to be; of a tar that is not known.
    len: Option<u64>,
    state: Mutex<StreamState>,
    progressed: Condvar,
}

impl std::fmt::Debug for SpoolStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpoolStream").field("stream", &self.stream).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct StreamState {
    work: Work,
    /// How far it was ever unpacked.
    frontier: u64,
    /// Its end was met, and all before it was the right bytes.
    is_verified: bool,
    /// What is wrong with it, wherever that is: nothing of it is given any more.
    damage: Option<(PathBuf, u64, String)>,
}

/// Who unpacks.
enum Work {
    Idle(Option<Cursor>),
    /// A thread of this process.
    Busy(u32),
}

impl Default for Work {
    fn default() -> Self {
        Self::Idle(None)
    }
}

/// An unpacker on its way.
struct Cursor {
    /// Its engine is that of a process, and not of its children.
    process: u32,
    unpacker: Option<Box<dyn Unpacker>>,
    position: u64,
    /// The first segment that is kept though it was unpacked before.
    kept_from: u64,
    /// The segment that is being filled, if it is kept.
    filling: Option<(u64, Option<Arc<Segment>>)>,
}

impl Cursor {
    fn at_front(unpacker: Box<dyn Unpacker>, kept_from: u64) -> Self {
        let (process, unpacker) = (std::process::id(), Some(unpacker));
        Self { process, unpacker, position: 0, kept_from, filling: None }
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.unpacker.take());
        }
    }
}

/// What is kept of what is unpacked on the way to what is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    /// What was not unpacked before, and what is near what is wanted, for readers that are only
    /// nearly in order.
    Near,
    /// What there is room for.
    WhileRoom,
}

impl SpoolStream {
    /// One of an archive, which has this number in the spool.
    pub(in super::super) fn new(
        spool: &Spool,
        archive: u64,
        path: &Path,
        len: Option<u64>,
        open: OpenUnpacker,
    ) -> Self {
        let (state, progressed, path) = (Mutex::default(), Condvar::new(), path.to_path_buf());
        Self { spool: spool.clone(), path, archive, stream: spool.id(), open, len, state, progressed }
    }

    fn state(&self) -> MutexGuard<'_, StreamState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, segment: u64) -> Place {
        Place { archive: self.archive, stream: self.stream, segment }
    }

    fn is_short(&self) -> bool {
        self.len.is_some_and(|len| len <= SHORT_MAX)
    }

    fn segment_bytes(&self) -> u64 {
        if self.is_short() { SHORT_MAX } else { self.spool.0.segment_bytes }
    }

    /// Unpacks it to its end, where its checksum is, if that was not done.
    ///
    /// # Errors
    /// Damage, and what reading and writing meet.
    pub(in super::super) fn verify(self: &Arc<Self>) -> Result<()> {
        let keep = if self.len.is_some() { Keep::Near } else { Keep::WhileRoom };
        let found = &mut |_: &Self, state: &StreamState| state.is_verified.then_some(());
        self.find(keep, ByteRange::to(u64::MAX), found)
    }

    /// Appends the leaves of a range, when it is unpacked.
    ///
    /// # Errors
    /// The same; that it ends before.
    pub(in super::super) fn resolve(
        self: &Arc<Self>,
        range: ByteRange,
        leaves: &mut Vec<Leaf>,
    ) -> Result<()> {
        let mut at = range.start();
        while at < range.end() {
            let number = at / self.segment_bytes();
            let end = number.saturating_add(1).saturating_mul(self.segment_bytes()).min(range.end());
            let Some(part) = ByteRange::new(at, end) else { break };
            leaves.push(self.part(number, part)?);
            at = end;
        }
        Ok(())
    }

    /// A range within a segment, when it is unpacked.
    fn part(self: &Arc<Self>, number: u64, part: ByteRange) -> Result<Leaf> {
        let found = &mut |stream: &Self, _: &StreamState| {
            stream.spool.get(stream.place(number)).and_then(|segment| segment.leaf(part))
        };
        self.find(Keep::Near, part, found)
    }

    /// Looks for something, and unpacks, or waits for who does, until it is there.
    fn find<T>(
        self: &Arc<Self>,
        keep: Keep,
        wanted: ByteRange,
        found: &mut dyn FnMut(&Self, &StreamState) -> Option<T>,
    ) -> Result<T> {
        let process = std::process::id();
        // What was unpacked stays at least until it was looked for.
        let mut unpacked = None;
        let mut state = self.state();
        loop {
            if let Some((path, offset, what)) = state.damage.clone() {
                return Err(Error::Damaged { path, offset, what });
            }
            if let Some(found) = found(self, &state) {
                return Ok(found);
            }
            if matches!(state.work, Work::Busy(by) if by == process) {
                state = self.progressed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let before = std::mem::replace(&mut state.work, Work::Busy(process));
            drop(state);
            drop(unpacked.take());
            let cursor = match before {
                Work::Idle(cursor) => cursor.filter(|cursor| cursor.process == process),
                Work::Busy(_) => None,
            };
            let mut working = Working { stream: self, cursor };
            unpacked = match self.is_short() {
                true => Some(self.unpack_short()?),
                false => self.unpack(&mut working, keep, wanted)?,
            };
            drop(working);
            state = self.state();
        }
    }

    /// Unpacks a short one as a whole: all of it is known to be right before any of it is there.
    fn unpack_short(self: &Arc<Self>) -> Result<Arc<Segment>> {
        let mut unpacker = (self.open)()?;
        let mut bytes = Vec::with_capacity(usize::try_from(self.len.unwrap_or_default()).unwrap_or_default());
        // Who unpacks sees to it that they are as many as they are said to be.
        loop {
            let there = unpacker.next().map_err(|error| self.failed(error))?;
            if there.is_empty() {
                break;
            }
            self.spool.note_unpacked(there.len() as u64);
            bytes.extend_from_slice(there);
        }
        self.state().is_verified = true;
        self.spool.make_room(false, bytes.len() as u64 + BESIDE_BYTES);
        let segment = Arc::new(Segment::in_memory(&self.spool, bytes.into()));
        self.spool.put(self.place(0), segment.clone(), self);
        Ok(segment)
    }

    /// Unpacks until all that is wanted was met. The segment that it ended in.
    fn unpack(
        self: &Arc<Self>,
        working: &mut Working<'_>,
        keep: Keep,
        wanted: ByteRange,
    ) -> Result<Option<Arc<Segment>>> {
        let mut cursor = match working.cursor.take() {
            // To its end, any goes on: each began at the front.
            Some(mut cursor) if wanted.end() == u64::MAX || self.serves(&cursor, wanted.start()) => {
                cursor.kept_from = cursor.position / self.segment_bytes();
                cursor
            }
            _ => {
                let first = wanted.start() / self.segment_bytes();
                Cursor::at_front((self.open)()?, first.saturating_sub(SEGMENTS_BEFORE))
            }
        };
        while cursor.position < wanted.end() {
            // After a failure there is none to continue with.
            let step = self.step(&mut cursor, keep).map_err(|error| self.failed(error))?;
            self.progressed.notify_all();
            if step == Progress::End || Some(cursor.position) == self.len {
                self.state().is_verified = true;
                if wanted.end() < u64::MAX && cursor.position < wanted.end() {
                    let what = "the archive ends in the middle of a member; it was cut off".to_owned();
                    return Err(Error::Damaged { path: self.path.clone(), offset: cursor.position, what });
                }
                return Ok(cursor.filling.take().and_then(|(_, segment)| segment));
            }
        }
        // While it waits, what it filled last may be dropped.
        let filled = cursor.filling.take().and_then(|(_, segment)| segment);
        working.cursor = Some(cursor);
        self.spool.park(self);
        Ok(filled)
    }

    /// Whether what is wanted from an offset on comes from a cursor: it is not past it, or what it
    /// has passed is held.
    fn serves(&self, cursor: &Cursor, from: u64) -> bool {
        if cursor.position <= from {
            return true;
        }
        let number = from / self.segment_bytes();
        let held = self.spool.get(self.place(number)).map(|segment| segment.range());
        held.is_some_and(|held| held.contains(from) && held.end() >= cursor.position)
    }

    /// Unpacks some bytes, and gives them to their segments.
    fn step(self: &Arc<Self>, cursor: &mut Cursor, keep: Keep) -> Result<Progress> {
        let Cursor { unpacker: Some(unpacker), position, kept_from, filling, .. } = cursor else {
            return Ok(Progress::End);
        };
        let mut bytes = unpacker.next()?;
        if bytes.is_empty() {
            return Ok(Progress::End);
        }
        self.spool.note_unpacked(bytes.len() as u64);
        while !bytes.is_empty() {
            let number = *position / self.segment_bytes();
            if filling.as_ref().is_none_or(|(of, _)| *of != number) {
                *filling = Some((number, self.target(number, *position, keep, *kept_from)?));
            }
            let end = number.saturating_add(1).saturating_mul(self.segment_bytes());
            let room = usize::try_from(end.saturating_sub(*position)).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            if let Some((_, Some(segment))) = filling {
                segment.append(&self.spool, self.stream, *position, now)?;
            }
            *position = position.saturating_add(now.len() as u64);
            bytes = later;
        }
        let mut state = self.state();
        state.frontier = state.frontier.max(*position);
        Ok(Progress::More)
    }

    /// The segment that takes what is unpacked from an offset on; `None` if none does.
    fn target(
        self: &Arc<Self>,
        number: u64,
        position: u64,
        keep: Keep,
        kept_from: u64,
    ) -> Result<Option<Arc<Segment>>> {
        if let Some(segment) = self.spool.get(self.place(number)).filter(|segment| {
            let held = segment.range();
            held.start() <= position && position <= held.end()
        }) {
            return Ok(Some(segment));
        }
        let is_kept = match keep {
            Keep::Near => number >= kept_from || position >= self.state().frontier,
            Keep::WhileRoom => self.spool.has_room(self.segment_bytes()),
        };
        if !is_kept {
            return Ok(None);
        }
        self.spool.make_room(true, 0);
        let segment = Arc::new(Segment::in_file(&self.spool, self.stream, position)?);
        self.spool.put(self.place(number), segment.clone(), self);
        Ok(Some(segment))
    }

    /// An error that unpacking met: damage stays.
    fn failed(&self, error: Error) -> Error {
        if let Error::Damaged { path, offset, what } = &error {
            self.state().damage = Some((path.clone(), *offset, what.clone()));
        }
        error
    }

    /// Forgets where it was left: it is unpacked from its front again, if more of it is wanted.
    pub(super) fn drop_cursor(&self) {
        let mut state = self.state();
        let cursor = match &mut state.work {
            Work::Idle(cursor) => cursor.take(),
            Work::Busy(_) => None,
        };
        // Without the lock: it waits for reads that are under way.
        drop(state);
        drop(cursor);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    More,
    End,
}

/// The right to unpack. It ends with it, however that comes.
struct Working<'a> {
    stream: &'a SpoolStream,
    cursor: Option<Cursor>,
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.stream.state().work = Work::Idle(self.cursor.take());
        self.stream.progressed.notify_all();
    }
}
