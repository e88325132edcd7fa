//! A window that moves forward over a source, with reads running ahead of it at queue depth.
//!
//! A session reads the blocks into the places that they have in the window: those of a file by
//! reads of the engine, without a copy, those of an object by requests, any other as its leaves
//! say.
//!
//! Blocks land side by side in one ring of memory, so that what is peeked at is one slice even
//! where it crosses from one read into the next; only what crosses the end of the ring is copied.
//! With a ring as long as the source nothing is ever copied, and the whole of it is kept.
//!
//! Unreadable ranges are zeros, and are remembered: a caller that finds bytes damaged can ask
//! whether they were readable at all.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::engine::{Access, Arena};
use crate::error::{Error, Result};
use crate::extent::ByteRange;
use crate::pack::error::is_unreadable;
use crate::pack::read::around::{Holes, read_around};
use crate::pack::read::reader::read_leaves;
use crate::pack::read::route::Route;
use crate::source::{Leaf, Session, Source};

/// How a window reads.
#[derive(Debug, Clone)]
pub(crate) struct WindowOptions {
    /// Length of one read in bytes, a multiple of 4096.
    pub(crate) block_len: usize,
    /// Blocks in the ring.
    pub(crate) blocks: usize,
    /// Past the page cache or through it.
    pub(crate) route: Route,
}

#[derive(Debug)]
enum BlockSlot {
    Empty,
    /// This block is being read.
    InFlight(u64),
    /// Holds this block.
    Ready(u64),
    /// This block could not be read.
    Failed(u64, Error),
}

/// Reads forward over a range of a source.
pub(crate) struct Window {
    session: Session,
    source: Arc<dyn Source>,
    /// Whether blocks come by requests, which are to be under way all the time.
    is_asked: bool,
    options: WindowOptions,
    arena: Arena,
    slots: Vec<BlockSlot>,
    /// Where block 0 begins; aligned.
    start: u64,
    end: u64,
    pos: u64,
    /// The next block to request.
    next: u64,
    scratch: Vec<u8>,
    /// What could not be read so far.
    holes: Holes,
}

const ALIGNMENT: u64 = 4096;

/// Blocks that are requested at once through the page cache.
const CACHED_AHEAD: u64 = 2;

impl Window {
    /// A window over `range` of a source.
    pub(crate) fn new(
        session: Session,
        source: Arc<dyn Source>,
        range: ByteRange,
        options: WindowOptions,
    ) -> Result<Self> {
        let start = range.aligned(ALIGNMENT).start();
        // A ring longer than the range would only cost memory.
        let needed = (range.end() - start).div_ceil(options.block_len as u64).max(1);
        let blocks = usize::try_from(needed).unwrap_or(usize::MAX).min(options.blocks);
        let options = WindowOptions { blocks, ..options };
        let arena = Arena::new(blocks * options.block_len)?;
        let slots = (0..blocks).map(|_| BlockSlot::Empty).collect();
        Ok(Self {
            session,
            is_asked: source.reads_by_request(),
            source,
            options,
            arena,
            slots,
            start,
            end: range.end(),
            pos: range.start(),
            next: 0,
            scratch: Vec::new(),
            holes: Holes::default(),
        })
    }

    /// The holes found in the reads so far.
    pub(crate) fn holes(&self) -> &Holes {
        &self.holes
    }

    /// The path of the source, for messages.
    pub(crate) fn path(&self) -> &Path {
        self.source.path()
    }

    /// Offset in the source of the next byte.
    pub(crate) fn pos(&self) -> u64 {
        self.pos
    }

    /// Offset in the source at which the window ends.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes between here and the end.
    pub(crate) fn left(&self) -> u64 {
        self.end - self.pos
    }

    /// The most that can be peeked at in one piece.
    pub(crate) fn peek_max(&self) -> usize {
        // A peek may begin in the middle of a block, and half of the ring is left to reads ahead.
        let ring_len = self.options.blocks * self.options.block_len;
        if self.holds_all() { ring_len } else { ring_len / 2 }
    }

    /// The next `len` bytes, or fewer at the end. `len` is at most [`peek_max`](Self::peek_max),
    /// unless the ring holds the whole range.
    pub(crate) fn peek(&mut self, len: usize) -> Result<&[u8]> {
        let len = len.min(usize::try_from(self.left()).unwrap_or(usize::MAX));
        if len == 0 {
            return Ok(&[]);
        }
        let block_len = self.options.block_len as u64;
        let (from, to) = (self.pos - self.start, self.pos - self.start + len as u64);
        let (first, last) = (from / block_len, (to - 1) / block_len);
        debug_assert!(last - first < self.options.blocks as u64, "a peek longer than the ring");
        for block in first..=last {
            self.wait_for(block)?;
        }
        let blocks = self.options.blocks as u64;
        let ring_len = blocks * block_len;
        let at = (from % ring_len) as usize;
        if at as u64 + len as u64 <= ring_len {
            return Ok(self.arena.bytes(at..at + len));
        }
        let wrapped = at + len - ring_len as usize;
        self.scratch.clear();
        self.scratch.extend_from_slice(self.arena.bytes(at..ring_len as usize));
        self.scratch.extend_from_slice(self.arena.bytes(0..wrapped));
        Ok(&self.scratch)
    }

    /// Bytes that were peeked at last and have just been skipped.
    pub(crate) fn look_back(&self, offset: u64, len: usize) -> &[u8] {
        let ring_len = (self.options.blocks * self.options.block_len) as u64;
        let at = ((offset - self.start) % ring_len) as usize;
        if at as u64 + len as u64 <= ring_len {
            return self.arena.bytes(at..at + len);
        }
        // It crosses the end of the ring, so the peek copied it.
        self.scratch.get(..len).unwrap_or_default()
    }

    /// Bytes from elsewhere in the source; the window stays where it is.
    pub(crate) fn read_apart(&mut self, offset: u64, len: u64) -> Result<Bytes> {
        let Some(range) = ByteRange::at(offset, len) else { return Ok(Bytes::new()) };
        let mut leaves = Vec::new();
        let read = self.source.resolve(range, &mut leaves).and_then(|()| read_leaves(&leaves));
        match read {
            Err(error) if is_unreadable(&error) => {
                Ok(read_around(self.source.as_ref(), range, &mut self.holes)?.into())
            }
            read => read,
        }
    }

    /// Steps over `len` bytes (to the end at most).
    pub(crate) fn skip(&mut self, len: u64) -> Result<()> {
        let to = self.pos.saturating_add(len).min(self.end);
        let ahead = self.start + self.next * self.options.block_len as u64;
        if to > ahead.saturating_add((self.options.blocks * self.options.block_len) as u64) {
            return self.seek(to);
        }
        self.pos = to;
        Ok(())
    }

    /// Steps over the rest of a hole of the file, whose zeros were never written: it may be far
    /// longer than anything readable. Stays where it is if the file system does not say.
    pub(crate) fn skip_hole(&mut self) -> Result<()> {
        let range = ByteRange::new(self.pos, self.end).unwrap_or_default();
        let mut leaves = Vec::with_capacity(1);
        self.source.resolve(range, &mut leaves)?;
        let [Leaf::File { file, range }] = leaves.as_slice() else { return Ok(()) };
        let data = file.next_data(range.start())?;
        // Frames begin at multiples of 8.
        self.skip(data.saturating_sub(range.start()) / 8 * 8)
    }

    /// Moves to any offset of the range. Bytes still in the ring are reused; read-ahead is
    /// discarded only for distant places.
    pub(crate) fn seek(&mut self, to: u64) -> Result<()> {
        let to = to.min(self.end);
        let blocks = self.options.blocks as u64;
        let near = to.checked_sub(self.start).is_some_and(|distance| {
            let block = distance / self.options.block_len as u64;
            block + blocks > self.next && block <= self.next
        });
        if near || self.holds_all() && to >= self.start {
            self.pos = to;
            return Ok(());
        }
        self.session.call_off()?;
        self.slots.iter_mut().for_each(|slot| *slot = BlockSlot::Empty);
        self.start = to / ALIGNMENT * ALIGNMENT;
        self.pos = to;
        self.next = 0;
        Ok(())
    }

    /// Whether every block of the range has a place of its own.
    fn holds_all(&self) -> bool {
        self.end - self.start <= (self.options.blocks * self.options.block_len) as u64
    }

    /// All bytes of the range, when the ring was made to hold it, and where in them the range
    /// begins.
    pub(crate) fn into_bytes(mut self) -> Result<(Session, Bytes)> {
        while self.session.pending() > 0 {
            self.reap()?;
        }
        // An engine that has failed may still write to the memory.
        self.session.call_off()?;
        Ok((self.session, self.arena.into_bytes()))
    }

    /// The session, for the next use. What was read ahead is not waited for where it is asked for.
    pub(crate) fn into_session(mut self) -> Result<Session> {
        self.session.call_off()?;
        Ok(self.session)
    }

    fn wait_for(&mut self, block: u64) -> Result<()> {
        let slot = (block % self.options.blocks as u64) as usize;
        loop {
            match self.slots.get_mut(slot) {
                Some(BlockSlot::Ready(held)) if *held == block => {
                    // A request takes its time however much is here already: places that have
                    // become free are asked for at once.
                    return if self.is_asked { self.keep_asking() } else { Ok(()) };
                }
                Some(failed @ BlockSlot::Failed(..)) => {
                    // A failure of a skipped block does not matter.
                    if let BlockSlot::Failed(held, error) = std::mem::replace(failed, BlockSlot::Empty)
                        && held == block
                    {
                        if is_unreadable(&error) && !self.session.is_broken() {
                            self.fill_around(block, slot)?;
                            continue;
                        }
                        // It is requested again if the caller tries again.
                        self.next = self.next.min(block);
                        return Err(error);
                    }
                }
                Some(BlockSlot::InFlight(_)) => {}
                _ => self.next = self.next.min(block),
            }
            self.schedule(block)?;
            let waits = match self.slots.get(slot) {
                Some(BlockSlot::Ready(held) | BlockSlot::Failed(held, _)) if *held == block => false,
                Some(BlockSlot::InFlight(_)) => true,
                _ => self.session.pending() > 0,
            };
            if waits {
                self.reap()?;
            }
        }
    }

    /// Requests `wanted` and as many blocks ahead as ring and engine have room for. Through the
    /// page cache the system does its own read-ahead, and blocks copied too early would have left
    /// the processor's caches.
    fn schedule(&mut self, wanted: u64) -> Result<()> {
        let block_len = self.options.block_len as u64;
        let total = (self.end - self.start).div_ceil(block_len);
        let current = (self.pos - self.start) / block_len;
        let ahead = match self.options.route.at(self.pos) {
            Access::Cached if !self.is_asked => CACHED_AHEAD.min(self.options.blocks as u64),
            _ => self.options.blocks as u64,
        };
        let limit = total.min((current + ahead).max(wanted + 1));
        self.next = self.next.max(current);
        while self.next < limit && self.session.pending() < self.session.depth() {
            let block = self.next;
            let slot = (block % self.options.blocks as u64) as usize;
            match self.slots.get(slot) {
                Some(BlockSlot::InFlight(held)) if *held != block => break,
                Some(BlockSlot::InFlight(_)) => {}
                Some(BlockSlot::Ready(held)) if *held == block => {}
                _ => self.ask(block, slot)?,
            }
            self.next = block + 1;
        }
        Ok(())
    }

    /// Where a block is in the source.
    fn range_of(&self, block: u64) -> ByteRange {
        let block_len = self.options.block_len as u64;
        let from = self.start + block * block_len;
        ByteRange::new(from, (from + block_len).min(self.end)).unwrap_or_default()
    }

    fn ask(&mut self, block: u64, slot: usize) -> Result<()> {
        let range = self.range_of(block);
        let from = range.start();
        if self.session.is_broken() {
            self.set(slot, BlockSlot::Failed(block, engine_failed()));
            return Ok(());
        }
        if self.holes.is_dead_before(from) || self.holes.first_in(range).is_some() {
            // All of it would fail, which may take a disk seconds.
            return self.fill_around(block, slot);
        }
        let at = slot * self.options.block_len;
        let memory = self.arena.take(at..at + self.options.block_len);
        let access = self.options.route.at(from);
        let asked = self.session.submit_into(block, self.source.as_ref(), range, access, memory);
        let state = match asked {
            Ok(()) => BlockSlot::InFlight(block),
            Err(error) => BlockSlot::Failed(block, error),
        };
        self.set(slot, state);
        Ok(())
    }

    /// Puts bytes into the place of a block.
    fn fill(&mut self, block: u64, slot: usize, bytes: &[u8]) {
        let at = slot * self.options.block_len;
        let mut buffer = self.arena.take(at..at + self.options.block_len);
        buffer.clear();
        buffer.extend_from_slice(bytes);
        self.arena.put(buffer);
        self.set(slot, BlockSlot::Ready(block));
    }

    /// The same, with the readable part of it.
    fn fill_around(&mut self, block: u64, slot: usize) -> Result<()> {
        let bytes = read_around(self.source.as_ref(), self.range_of(block), &mut self.holes)?;
        self.fill(block, slot, &bytes);
        Ok(())
    }

    fn set(&mut self, slot: usize, state: BlockSlot) {
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = state;
        }
    }

    /// Waits for a block, and takes all that are here.
    fn reap(&mut self) -> Result<()> {
        let Some((block, read)) = self.session.next() else { return Err(engine_failed()) };
        self.take(block, read);
        self.take_ready();
        Ok(())
    }

    /// Asks for what there is room for, and waits for nothing.
    fn keep_asking(&mut self) -> Result<()> {
        self.take_ready();
        self.schedule((self.pos - self.start) / self.options.block_len as u64)
    }

    fn take_ready(&mut self) {
        while let Some((block, read)) = self.session.next_ready() {
            self.take(block, read);
        }
    }

    /// Notes what became of a block, whose bytes are in the ring.
    fn take(&mut self, block: u64, read: Result<Bytes>) {
        let state = match read {
            Ok(_) => BlockSlot::Ready(block),
            Err(error) => BlockSlot::Failed(block, error),
        };
        self.set((block % self.options.blocks as u64) as usize, state);
    }
}

/// For a window whose engine reads nothing any more.
fn engine_failed() -> Error {
    Error::io("use", "an I/O engine that has failed", std::io::ErrorKind::BrokenPipe.into())
}

#[cfg(test)]
mod tests;
