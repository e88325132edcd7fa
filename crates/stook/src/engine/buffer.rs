//! Memory the kernel may write to while an operation is in flight.
//!
//! A [`Buffer`] owns its bytes exclusively: it is moved into a request and returned with the
//! completion, so it cannot be read or freed in between. All of it is initialised from the start,
//! so any range may be read; bytes that were not written are zero or left from an earlier use.
//!
//! Buffers come from the heap, from a [`BufferPool`](super::BufferPool) that gets them back when
//! they are dropped, or from an [`Arena`](super::Arena), whose buffers lie side by side.
#![expect(unsafe_code, reason = "the bytes are reached through a pointer, because their owner varies")]

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;
use std::slice;
use std::sync::{Arc, Weak};

use bytes::Bytes;

use super::arena::Lender;
use super::memory::{Memory, PAGE_BYTES};
use super::pool::Shelf;

/// Page-aligned memory with a range in it that holds data.
pub struct Buffer {
    start: NonNull<u8>,
    capacity: usize,
    data: Range<usize>,
    owner: ManuallyDrop<Owner>,
}

/// Who gets the memory when the buffer is dropped.
enum Owner {
    Heap(Memory),
    Pool(Memory, Weak<Shelf>),
    Arena(Arc<Lender>, usize),
}

// SAFETY: a buffer is the only way to its bytes, no matter who owns the memory, and no owner is
// bound to a thread.
unsafe impl Send for Buffer {}
// SAFETY: a shared buffer is only read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A buffer of its own memory, zeroed, of at least `capacity` bytes (rounded up to whole pages
    /// of 4096), without data in it.
    pub fn with_capacity(capacity: usize) -> Self {
        let memory = Memory::zeroed(capacity);
        Self::new(memory.start(), memory.len(), Owner::Heap(memory))
    }

    /// A buffer with these bytes as its data.
    pub fn from_slice(bytes: &[u8]) -> Self {
        let mut buffer = Self::with_capacity(bytes.len());
        buffer.extend_from_slice(bytes);
        buffer
    }

    pub(super) fn pooled(memory: Memory, shelf: Weak<Shelf>) -> Self {
        Self::new(memory.start(), memory.len(), Owner::Pool(memory, shelf))
    }

    /// # Safety
    /// The memory must belong to the lender, be initialised, and be reachable through this buffer
    /// only until it is returned to the lender.
    pub(super) unsafe fn lent(start: NonNull<u8>, capacity: usize, lender: Arc<Lender>, at: usize) -> Self {
        Self::new(start, capacity, Owner::Arena(lender, at))
    }

    fn new(start: NonNull<u8>, capacity: usize, owner: Owner) -> Self {
        debug_assert_eq!(start.as_ptr().align_offset(PAGE_BYTES), 0);
        Self { start, capacity, data: 0..0, owner: ManuallyDrop::new(owner) }
    }

    /// How many bytes fit.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many bytes of data there are.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// Whether there is no data.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Where in the buffer the data lies.
    pub fn data_range(&self) -> Range<usize> {
        self.data.clone()
    }

    /// Says where in the buffer the data lies.
    ///
    /// # Panics
    /// Panics if the range is invalid, or reaches past the capacity.
    pub fn set_data_range(&mut self, range: Range<usize>) {
        assert!(
            range.start <= range.end && range.end <= self.capacity,
            "{range:?} is no range of {} bytes",
            self.capacity
        );
        self.data = range;
    }

    /// The data.
    pub fn data(&self) -> &[u8] {
        &self.memory()[self.data.clone()]
    }

    /// The data, to be changed in place.
    pub fn data_mut(&mut self) -> &mut [u8] {
        let data = self.data.clone();
        &mut self.memory_mut()[data]
    }

    /// Forgets the data and starts at the front again.
    pub fn clear(&mut self) {
        self.data = 0..0;
    }

    /// The room after the data. Bytes written there become data by [`advance`](Self::advance).
    pub fn spare(&mut self) -> &mut [u8] {
        let end = self.data.end;
        &mut self.memory_mut()[end..]
    }

    /// Takes the next `len` bytes after the data into the data.
    ///
    /// # Panics
    /// Panics if there is less room than that.
    pub fn advance(&mut self, len: usize) {
        let room = self.capacity - self.data.end;
        assert!(len <= room, "{len} bytes do not fit in the {room} that are left");
        self.data.end += len;
    }

    /// Appends `bytes` to the data.
    ///
    /// # Panics
    /// Panics if there is less room than that.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let spare = self.spare();
        assert!(bytes.len() <= spare.len(), "{} bytes do not fit in {}", bytes.len(), spare.len());
        spare[..bytes.len()].copy_from_slice(bytes);
        self.data.end += bytes.len();
    }

    /// All of the memory, data or not.
    pub fn memory(&self) -> &[u8] {
        // SAFETY: the owner keeps `capacity` initialised bytes from `start` alive, and while they
        // are borrowed here they cannot be written, because this buffer is the only way to them.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.capacity) }
    }

    /// All of the memory, data or not, to be changed in place.
    pub fn memory_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `memory`, and the exclusive borrow keeps all others out.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.capacity) }
    }

    /// The address of the first byte, for the kernel.
    pub(super) fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Whether this is a piece of that arena.
    pub(super) fn is_lent_by(&self, arena: &Arc<Lender>) -> bool {
        matches!(&*self.owner, Owner::Arena(lender, _) if Arc::ptr_eq(lender, arena))
    }

    /// The data as shared bytes, without a copy; the memory is kept until the last of them is gone.
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.data()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the owner is taken once, here, and not touched again.
        match unsafe { ManuallyDrop::take(&mut self.owner) } {
            Owner::Heap(memory) => drop(memory),
            Owner::Pool(memory, shelf) => {
                if let Some(shelf) = shelf.upgrade() {
                    shelf.put(memory);
                }
            }
            Owner::Arena(lender, at) => lender.take_back(at),
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = match &*self.owner {
            Owner::Heap(_) => "heap",
            Owner::Pool(..) => "pool",
            Owner::Arena(..) => "arena",
        };
        f.debug_struct("Buffer")
            .field("capacity", &self.capacity)
            .field("data", &self.data)
            .field("origin", &origin)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_page_aligned_and_zero_whatever_its_size() {
        for capacity in [0, 1, 4095, 4096, 4097, 1 << 20, (2 << 20) - 1, 2 << 20, (4 << 20) + 1] {
            let buffer = Buffer::with_capacity(capacity);
            assert!(buffer.capacity() >= capacity.max(1));
            assert_eq!(buffer.capacity() % PAGE_BYTES, 0);
            assert_eq!(buffer.as_ptr().align_offset(PAGE_BYTES), 0);
            assert!(buffer.is_empty());
            assert!(buffer.memory().iter().all(|&byte| byte == 0), "{capacity}");
        }
    }

    #[test]
    fn data_is_what_was_appended_or_declared() {
        let mut buffer = Buffer::with_capacity(4096);
        buffer.extend_from_slice(b"stook");
        buffer.spare()[..2].copy_from_slice(b"ed");
        buffer.advance(2);
        assert_eq!(buffer.data(), b"stooked");
        buffer.set_data_range(1..5);
        buffer.data_mut()[0] = b'T';
        assert_eq!((buffer.data(), buffer.len(), buffer.data_range()), (&b"Took"[..], 4, 1..5));
        let bytes = buffer.into_bytes();
        assert_eq!(&bytes[..], b"Took");
    }

    #[test]
    #[should_panic(expected = "do not fit")]
    fn more_than_fits_is_refused() {
        Buffer::with_capacity(4096).extend_from_slice(&[0; 4097]);
    }

    #[test]
    #[should_panic(expected = "no range of")]
    fn a_data_range_past_the_capacity_is_refused() {
        Buffer::with_capacity(4096).set_data_range(0..4097);
    }
}
