//! A part of what a stream was unpacked to.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::engine::{File, nameless};
use crate::error::Result;
use crate::extent::ByteRange;
use crate::source::Leaf;

use super::Spool;

/// Bytes of a stream from one offset on, in order, as far as they were unpacked. Its memory or its
/// file is returned when nobody has it any more.
#[derive(Debug)]
pub(super) struct Segment {
    from: u64,
    /// How many bytes there are.
    filled: AtomicU64,
    bytes: SegmentBytes,
    /// The counter of its spool.
    counted: Arc<AtomicU64>,
}

/// What a short body takes in memory besides its bytes, with the stream that it is of: in bytes,
/// rather too much.
pub(super) const BESIDE_BYTES: u64 = 8 << 10;

enum SegmentBytes {
    Memory(Bytes),
    File(Arc<File>),
}

/// Without the bytes.
impl std::fmt::Debug for SegmentBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Memory(_) => "Memory",
            Self::File(_) => "File",
        })
    }
}

impl Segment {
    /// One that is all there.
    pub(super) fn in_memory(spool: &Spool, bytes: Bytes) -> Self {
        let (len, counted) = (bytes.len() as u64, spool.0.memory.clone());
        counted.fetch_add(len + BESIDE_BYTES, Ordering::Relaxed);
        Self { from: 0, filled: AtomicU64::new(len), bytes: SegmentBytes::Memory(bytes), counted }
    }

    /// An empty one of a stream that is written to a file.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn in_file(spool: &Spool, stream: u64, from: u64) -> Result<Self> {
        let (file, path): (_, PathBuf) = spool.with_room(stream, || nameless(spool.directory()))?;
        let bytes = SegmentBytes::File(Arc::new(File::from_std(file, path, true)));
        Ok(Self { from, filled: AtomicU64::new(0), bytes, counted: spool.0.files.clone() })
    }

    pub(super) fn is_file(&self) -> bool {
        matches!(self.bytes, SegmentBytes::File(_))
    }

    /// What it takes of the room of its spool, in bytes.
    pub(super) fn cost(&self) -> u64 {
        match self.bytes {
            SegmentBytes::Memory(_) => self.len() + BESIDE_BYTES,
            SegmentBytes::File(_) => self.len(),
        }
    }

    /// How many bytes it has.
    pub(super) fn len(&self) -> u64 {
        self.filled.load(Ordering::Acquire)
    }

    /// Which bytes of the stream it has.
    pub(super) fn range(&self) -> ByteRange {
        ByteRange::at(self.from, self.len()).unwrap_or_default()
    }

    /// Appends what it does not have of bytes that begin at an offset of its stream, no further
    /// than its end.
    ///
    /// # Errors
    /// I/O errors. It has what it had then.
    pub(super) fn append(&self, spool: &Spool, stream: u64, at: u64, bytes: &[u8]) -> Result<()> {
        let SegmentBytes::File(file) = &self.bytes else { return Ok(()) };
        let end = self.range().end();
        let skip = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
        let new = bytes.get(skip..).unwrap_or_default();
        if new.is_empty() {
            return Ok(());
        }
        let (len, to) = (new.len() as u64, end.saturating_sub(self.from));
        spool.make_room(true, len);
        // Counted before, so that none who looks sees less than there is.
        self.counted.fetch_add(len, Ordering::Relaxed);
        let written = spool.with_room(stream, || file.write_all_at(new, to));
        match written {
            Ok(()) => drop(self.filled.fetch_add(len, Ordering::Release)),
            Err(_) => drop(self.counted.fetch_sub(len, Ordering::Relaxed)),
        }
        written
    }

    /// A range of the stream that it has.
    pub(super) fn leaf(&self, range: ByteRange) -> Option<Leaf> {
        let part = self.range().intersection(&range).filter(|part| *part == range)?;
        let (from, to) = (part.start().checked_sub(self.from)?, part.end().checked_sub(self.from)?);
        Some(match &self.bytes {
            SegmentBytes::Memory(bytes) => {
                Leaf::Bytes(bytes.slice(usize::try_from(from).ok()?..usize::try_from(to).ok()?))
            }
            SegmentBytes::File(file) => Leaf::File { file: file.clone(), range: ByteRange::new(from, to)? },
        })
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.counted.fetch_sub(self.cost(), Ordering::Relaxed);
    }
}
