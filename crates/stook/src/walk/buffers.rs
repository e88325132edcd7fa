//! Memory for the content of files, used again and again.
//!
//! Content is read in one thread and dropped in another. Left to the allocator, nearly every file
//! then touches fresh pages, and that costs more than reading it from the page cache does. Buffers
//! come in powers of two, so that a small file never sits in a large buffer.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use super::directory::lock;

/// Smallest buffer.
const LEN_MIN: usize = 4 << 10;

/// Buffers that are not in use.
#[derive(Debug)]
pub(super) struct Buffers {
    state: Mutex<BuffersState>,
    /// What may lie idle, in bytes.
    idle_max: usize,
}

#[derive(Debug, Default)]
struct BuffersState {
    /// By the power of two of their length.
    idle: Vec<Vec<Vec<u8>>>,
    idle_bytes: usize,
}

impl Buffers {
    pub(super) fn with_idle_max(idle_max: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), idle_max })
    }

    /// Length of the buffer that `len` bytes get; `None` where that is more than there can be.
    pub(super) fn buffer_len(len: u64) -> Option<usize> {
        usize::try_from(len).ok()?.max(LEN_MIN).checked_next_power_of_two()
    }

    /// A buffer for at least `len` bytes, with anything in it; `None` where memory is out.
    pub(super) fn take(self: &Arc<Self>, len: u64) -> Option<FileBytes> {
        let len = Self::buffer_len(len)?;
        let mut state = lock(&self.state);
        if let Some(buffer) = state.idle.get_mut(len.ilog2() as usize).and_then(Vec::pop) {
            state.idle_bytes -= buffer.len();
            return Some(FileBytes { buffer, len: 0, digest: Vec::new(), home: self.clone() });
        }
        drop(state);
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(len).ok()?;
        buffer.resize(len, 0);
        Some(FileBytes { buffer, len: 0, digest: Vec::new(), home: self.clone() })
    }

    fn give_back(&self, buffer: Vec<u8>) {
        let mut state = lock(&self.state);
        if buffer.is_empty() || state.idle_bytes.saturating_add(buffer.len()) > self.idle_max {
            drop(state);
            return;
        }
        let class = buffer.len().ilog2() as usize;
        if state.idle.len() <= class {
            state.idle.resize_with(class + 1, Vec::new);
        }
        state.idle_bytes += buffer.len();
        if let Some(idle) = state.idle.get_mut(class) {
            idle.push(buffer);
        }
    }
}

/// The bytes of a file. Dropping it lets the walk use the memory for another.
pub struct FileBytes {
    buffer: Vec<u8>,
    len: usize,
    digest: Vec<u8>,
    home: Arc<Buffers>,
}

impl FileBytes {
    /// The whole buffer, to be filled from the front.
    pub(super) fn space(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// Says how much of the buffer is content.
    pub(super) fn set_len(&mut self, len: usize) {
        self.len = len.min(self.buffer.len());
    }

    /// Keeps what the hook makes of the content.
    pub(super) fn set_digest(&mut self, digest: Vec<u8>) {
        self.digest = digest;
    }

    /// What [`Walk::digest`](super::Walk::digest) made of the content; empty without it.
    pub fn digest(&self) -> &[u8] {
        &self.digest
    }

    /// Keeps the bytes for good, without a copy.
    pub fn into_vec(mut self) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.truncate(self.len);
        buffer
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or_default()
    }
}

impl AsRef<[u8]> for FileBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for FileBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileBytes({} bytes)", self.len)
    }
}

impl Drop for FileBytes {
    fn drop(&mut self) {
        self.home.give_back(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_buffer_is_used_again_for_a_file_of_its_class() {
        let buffers = Buffers::with_idle_max(1 << 20);
        let first = buffers.take(20_000).unwrap();
        let address = first.buffer.as_ptr();
        drop(first);
        assert_ne!(buffers.take(5_000).unwrap().buffer.as_ptr(), address);
        assert_eq!(buffers.take(32_768).unwrap().buffer.as_ptr(), address);
    }

    #[test]
    fn idle_memory_is_bounded() {
        let buffers = Buffers::with_idle_max(10_000);
        let taken: Vec<_> = (0..10).map(|_| buffers.take(4096).unwrap()).collect();
        drop(taken);
        assert_eq!(lock(&buffers.state).idle_bytes, 8192);
    }

    #[test]
    fn content_outlives_its_buffer_when_it_is_kept() {
        let buffers = Buffers::with_idle_max(1 << 20);
        let mut bytes = buffers.take(3).unwrap();
        bytes.space()[..3].copy_from_slice(b"abc");
        bytes.set_len(3);
        assert_eq!(&*bytes, b"abc");
        assert_eq!(bytes.into_vec(), b"abc");
        assert_eq!(lock(&buffers.state).idle_bytes, 0);
    }

    #[test]
    fn a_length_beyond_memory_is_refused() {
        assert!(Buffers::with_idle_max(1).take(u64::MAX).is_none());
        assert!(Buffers::with_idle_max(1).take(1 << 62).is_none());
    }
}
