//! [`Arena`]: one large contiguous mapping that lends disjoint buffers.
//!
//! Neighbouring reads land side by side in it, so a record that crosses the border between two of
//! them is still one slice. It serves as the home of a whole file that is kept in memory, and as a
//! ring of chunks that a stream passes through.
//!
//! It never lets two owners see one byte: a lent piece cannot be lent again or read.
#![expect(unsafe_code, reason = "disjoint pieces of one mapping cannot be borrowed safely")]

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;

use super::buffer::Buffer;
use super::memory::{Memory, PAGE_BYTES};
use super::pool::Shelf;
use crate::error::{Error, Result};

/// A contiguous mapping, in pages of 2 MiB where the system has them, that lends pieces of itself.
#[derive(Debug)]
pub struct Arena {
    lender: Arc<Lender>,
}

/// The mapping and the record of lent pieces, kept alive by the arena and every piece.
#[derive(Debug)]
pub(super) struct Lender {
    memory: ManuallyDrop<Memory>,
    /// Gets the memory when the arena and all pieces are gone; where there is none, the system
    /// does.
    shelf: Option<Weak<Shelf>>,
    /// Start and end of every piece that is out. Pieces never overlap.
    lent: Mutex<BTreeMap<usize, usize>>,
}

impl Lender {
    /// A piece has come home.
    pub(super) fn take_back(&self, start: usize) {
        self.book().remove(&start);
    }

    fn book(&self) -> MutexGuard<'_, BTreeMap<usize, usize>> {
        // The book is changed in single steps, so a panic elsewhere cannot leave it half written.
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The piece that is out and shares a byte with `range`.
    fn lent_within(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let book = self.book();
        let (&start, &end) = book.range(..range.end).next_back()?;
        (end > range.start && !range.is_empty()).then_some(start..end)
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        // SAFETY: the memory is taken once, here, and not touched again: every piece that is out
        // keeps the lender alive, so none is.
        let memory = unsafe { ManuallyDrop::take(&mut self.memory) };
        if let Some(shelf) = self.shelf.as_ref().and_then(Weak::upgrade) {
            shelf.put(memory);
        }
    }
}

impl Arena {
    /// At least `len` bytes of zeroes; untouched pages cost no memory.
    ///
    /// # Errors
    /// Returns an error if the system refuses the mapping.
    pub fn new(len: usize) -> Result<Self> {
        Ok(Self::of(mapped(len)?, None))
    }

    /// At least `len` bytes from the shelf of a pool, which gets them back; they hold what an
    /// earlier use left.
    ///
    /// # Errors
    /// When there is nothing on the shelf, and the system refuses the mapping.
    pub(super) fn pooled(len: usize, shelf: &Arc<Shelf>) -> Result<Self> {
        let memory = match shelf.get(len) {
            Some(memory) => memory,
            None => mapped(len)?,
        };
        Ok(Self::of(memory, Some(Arc::downgrade(shelf))))
    }

    fn of(memory: Memory, shelf: Option<Weak<Shelf>>) -> Self {
        let memory = ManuallyDrop::new(memory);
        Self { lender: Arc::new(Lender { memory, shelf, lent: Mutex::default() }) }
    }

    /// How many bytes it has: what was asked for, rounded up to whole pages of 4096; of a pool,
    /// perhaps more.
    pub fn len(&self) -> usize {
        self.lender.memory.len()
    }

    /// Whether it has no bytes, which never happens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lends a piece, as a buffer without data. It is returned by [`put`](Self::put), or when it is
    /// dropped, wherever that happens.
    ///
    /// # Panics
    /// Panics if the start is not a multiple of 4096, the range is empty or reaches past the end,
    /// or part of it is lent already.
    pub fn take(&mut self, range: Range<usize>) -> Buffer {
        self.check(&range);
        assert!(!range.is_empty(), "a piece of no bytes");
        assert_eq!(range.start % PAGE_BYTES, 0, "pieces start at whole pages");
        self.lender.book().insert(range.start, range.end);
        // SAFETY: the range lies in the mapping, so the address does too.
        let start = unsafe { self.lender.memory.start().add(range.start) };
        // SAFETY: the memory is the lender's and initialised. No other piece has a byte of it, as
        // `check` has shown, and none will until it is returned, as the record of lent pieces
        // ensures. There are no references into the arena either: they borrow `self`, which is
        // borrowed exclusively here, and later ones are refused by the record.
        unsafe { Buffer::lent(start, range.len(), Arc::clone(&self.lender), range.start) }
    }

    /// Takes a piece back; its bytes stay where they are.
    ///
    /// # Panics
    /// Panics if it is not a piece of this arena.
    pub fn put(&mut self, buffer: Buffer) {
        assert!(buffer.is_lent_by(&self.lender), "the buffer is not a piece of this arena");
        drop(buffer);
    }

    /// The bytes of a range.
    ///
    /// # Panics
    /// Panics if it reaches past the end, or part of it is lent.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.check(&range);
        // SAFETY: the range lies in the mapping, which is initialised and lives as long as `self`.
        // No piece that is out has a byte of it, as `check` has shown, and none can be lent while
        // `self` is borrowed.
        unsafe { slice::from_raw_parts(self.lender.memory.start().as_ptr().add(range.start), range.len()) }
    }

    /// Copies the bytes of a range to another place, for the one record in each round of a ring
    /// that crosses from the last chunk to the first.
    ///
    /// # Panics
    /// Panics if either range reaches past the end, or part of one is lent.
    pub fn copy_within(&mut self, from: Range<usize>, to: usize) {
        let target = to..to.saturating_add(from.len());
        self.check(&from);
        self.check(&target);
        let base = self.lender.memory.start().as_ptr();
        // SAFETY: both ranges lie in the mapping and are not lent, as `check` has shown; `self` is
        // borrowed exclusively. They may overlap, which `copy` allows.
        unsafe { std::ptr::copy(base.add(from.start), base.add(to), from.len()) }
    }

    /// The whole arena as shared bytes, without a copy.
    ///
    /// # Panics
    /// Panics if part of it is lent.
    pub fn into_bytes(self) -> Bytes {
        self.check(&(0..self.len()));
        Bytes::from_owner(self)
    }

    fn check(&self, range: &Range<usize>) {
        let len = self.len();
        assert!(range.start <= range.end && range.end <= len, "{range:?} is no range of {len} bytes");
        if let Some(lent) = self.lender.lent_within(range) {
            panic!("{range:?} cannot be used while {lent:?} is lent");
        }
    }
}

fn mapped(len: usize) -> Result<Memory> {
    Memory::mapped(len).map_err(|error| Error::io("map", "memory for an arena", error))
}

impl AsRef<[u8]> for Arena {
    fn as_ref(&self) -> &[u8] {
        self.bytes(0..self.len())
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    const CHUNK: usize = 8192;

    fn refused(action: impl FnOnce()) -> bool {
        catch_unwind(AssertUnwindSafe(action)).is_err()
    }

    #[test]
    fn neighbouring_pieces_are_one_slice_once_they_are_back() {
        let mut arena = Arena::new(3 * CHUNK).unwrap();
        let (mut first, mut second) = (arena.take(0..CHUNK), arena.take(CHUNK..2 * CHUNK));
        first.spare().fill(1);
        second.spare().fill(2);
        arena.put(first);
        drop(second);
        let across = arena.bytes(CHUNK - 2..CHUNK + 2);
        assert_eq!(across, [1, 1, 2, 2]);
        arena.copy_within(CHUNK - 2..CHUNK + 2, 2 * CHUNK);
        assert_eq!(arena.into_bytes()[2 * CHUNK..2 * CHUNK + 5], [1, 1, 2, 2, 0]);
    }

    #[test]
    fn what_is_lent_is_neither_lent_again_nor_seen() {
        let mut arena = Arena::new(4 * CHUNK).unwrap();
        let piece = arena.take(CHUNK..2 * CHUNK);
        assert!(refused(|| drop(arena.take(0..CHUNK + 1))));
        assert!(refused(|| drop(arena.take(4096 + CHUNK..4 * CHUNK))));
        assert!(refused(|| drop(arena.take(CHUNK..CHUNK + 1))));
        assert!(refused(|| assert!(!arena.bytes(2 * CHUNK - 1..2 * CHUNK).is_empty())));
        assert!(refused(|| arena.copy_within(0..10, CHUNK)));
        assert_eq!(arena.bytes(0..CHUNK).len(), CHUNK, "what lies before it is free");
        assert_eq!(arena.take(2 * CHUNK..4 * CHUNK).capacity(), 2 * CHUNK, "and what lies after it");
        drop(piece);
        assert_eq!(arena.bytes(0..4 * CHUNK), [0; 4 * CHUNK]);
    }

    #[test]
    fn ranges_outside_and_strange_buffers_are_refused() {
        let mut arena = Arena::new(CHUNK).unwrap();
        assert!(refused(|| drop(arena.take(0..CHUNK + 4096))));
        assert!(refused(|| drop(arena.take(1..CHUNK))));
        assert!(refused(|| drop(arena.take(4096..4096))));
        assert!(refused(|| arena.put(Buffer::with_capacity(1))));
        let piece = arena.take(0..CHUNK);
        assert!(refused(|| drop(arena.into_bytes())));
        assert_eq!(piece.capacity(), CHUNK, "a piece outlives its arena");
    }
}
