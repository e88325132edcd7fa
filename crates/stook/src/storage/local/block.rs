//! The piece of a file that an appender is gathering.

use crate::engine::Buffer;

/// Bytes that are written at once. A block ends at a multiple of its buffer's length in the file,
/// so that the blocks after it are aligned wherever the first began.
#[derive(Debug)]
pub(super) struct Block {
    buffer: Buffer,
    start: u64,
    len_max: usize,
}

impl Block {
    /// An empty block that begins at this offset of the file.
    pub(super) fn new(mut buffer: Buffer, start: u64) -> Self {
        buffer.clear();
        let into = start % buffer.capacity().max(1) as u64;
        let len_max = buffer.capacity() - into as usize;
        Self { buffer, start, len_max }
    }

    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn len(&self) -> usize {
        self.buffer.len()
    }

    pub(super) fn end(&self) -> u64 {
        self.start + self.len() as u64
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() == self.len_max
    }

    /// Whether its start and its end are multiples of `alignment`.
    pub(super) fn is_aligned(&self, alignment: u64) -> bool {
        self.start.is_multiple_of(alignment) && self.end().is_multiple_of(alignment)
    }

    /// Bytes that it can still take.
    pub(super) fn room(&self) -> usize {
        self.len_max - self.len()
    }

    /// Takes as many bytes from the front of `bytes` as there is room for, and returns how many.
    pub(super) fn fill(&mut self, bytes: &[u8]) -> usize {
        let (taken, _) = bytes.split_at(self.room().min(bytes.len()));
        self.buffer.extend_from_slice(taken);
        taken.len()
    }

    /// Forgets all but the first `len` bytes.
    pub(super) fn truncate(&mut self, len: usize) {
        let len = len.min(self.len());
        self.buffer.set_data_range(0..len);
    }

    pub(super) fn is_all_zeros(&self) -> bool {
        // Piece by piece, so that a block with data is recognised by its first bytes.
        self.buffer.data().chunks(4096).all(|piece| piece.iter().all(|byte| *byte == 0))
    }

    pub(super) fn into_buffer(self) -> Buffer {
        self.buffer
    }
}
