//! Bytes in order: of a file, read ahead, or of anything that is read from front to back.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, Bytes};

use super::ahead::Ahead;
use super::error::{Error, Result};
use crate::engine::{Access, EngineFactory};
use crate::extent::ByteRange;
use crate::profile::{Class, Profile};
use crate::source::Source;

/// How long reads are, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Steps {
    /// The first read after a jump. It doubles with each that follows, up to the longest.
    first: u64,
    /// A longer distance than this is skipped.
    longest: u64,
    /// Bytes read ahead at most.
    ahead: u64,
    /// How many reads after a jump come before any is made ahead.
    alone: u32,
}

/// Bytes read ahead at most, however long one read is.
const AHEAD_MAX: u64 = 64 << 20;

impl Steps {
    /// Of what has this profile.
    fn of(profile: &Profile) -> Self {
        // No step is nothing.
        let longest = profile.block_bytes.max(1);
        match profile.class {
            // Each request takes as long as some megabytes. After a jump, one most often has all
            // that is wanted before the next jump.
            Class::Object => Self {
                first: profile.gap_bytes.clamp(1, longest),
                longest,
                ahead: longest.saturating_mul(4).min(AHEAD_MAX),
                alone: 1,
            },
            // What is near.
            _ => Self {
                first: longest.min(16 << 10),
                longest,
                ahead: longest.saturating_mul(8).min(AHEAD_MAX),
                alone: 0,
            },
        }
    }
}

/// Bytes from front to back.
pub trait Input {
    /// What to call it in messages.
    fn path(&self) -> &Path;

    /// How many bytes were consumed.
    fn position(&self) -> u64;

    /// How many there are in all, where that is known.
    fn total(&self) -> Option<u64>;

    /// Returns the next bytes: at least one, none only at the end.
    ///
    /// # Errors
    /// Returns an error if reading fails.
    fn fill(&mut self) -> Result<&[u8]>;

    /// Advances by this many bytes of the result of [`fill`](Self::fill).
    fn consume(&mut self, len: usize);

    /// Advances by this many bytes; fewer only at the end. How many it were.
    ///
    /// # Errors
    /// Returns an error if reading fails.
    fn skip(&mut self, len: u64) -> Result<u64> {
        let mut left = len;
        while left > 0 {
            let there = self.fill()?.len();
            if there == 0 {
                break;
            }
            let step = usize::try_from(left).unwrap_or(usize::MAX).min(there);
            self.consume(step);
            left = left.saturating_sub(step as u64);
        }
        Ok(len.saturating_sub(left))
    }

    /// Fills `buffer`, less only at the end. How many bytes it were.
    ///
    /// # Errors
    /// Returns an error if reading fails.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let (mut rest, mut done) = (buffer, 0_usize);
        while !rest.is_empty() {
            let there = self.fill()?;
            let step = there.len().min(rest.len());
            if step == 0 {
                break;
            }
            let (now, later) = rest.split_at_mut(step);
            now.copy_from_slice(there.get(..step).unwrap_or_default());
            rest = later;
            self.consume(step);
            done = done.saturating_add(step);
        }
        Ok(done)
    }
}

/// A source, read ahead as long as it is read in order.
#[derive(Debug)]
pub(super) struct SourceInput {
    source: Arc<dyn Source>,
    ahead: Ahead,
    here: Bytes,
    position: u64,
    /// Where reads end.
    end: u64,
    steps: Steps,
    /// Where the next read begins, how long it is, and how many there were since the last jump.
    next: u64,
    step: u64,
    reads: u32,
    ahead_max: u64,
}

impl SourceInput {
    /// All of a source.
    pub(super) fn new(source: Arc<dyn Source>, engines: &dyn EngineFactory, access: Access) -> Result<Self> {
        let whole = ByteRange::to(source.len());
        Self::within(source, whole, engines, access)
    }

    /// A range of a source. Positions are those of the source.
    pub(super) fn within(
        source: Arc<dyn Source>,
        range: ByteRange,
        engines: &dyn EngineFactory,
        access: Access,
    ) -> Result<Self> {
        let profile = Profile::of(source.as_ref());
        let ahead = Ahead::new(engines, &profile, access)?;
        let (is_asked, steps) = (source.reads_by_request(), Steps::of(&profile));
        let (next, end) = (range.start(), range.end());
        let step = match is_asked && end < source.len() {
            // One request may be all that is wanted.
            true => range.len().clamp(steps.first, steps.longest),
            false => steps.first,
        };
        let here = Bytes::new();
        Ok(Self { source, ahead, here, position: next, end, steps, next, step, reads: 0, ahead_max: 0 })
    }

    /// The next bytes, which are then consumed; none only at the end.
    pub(super) fn take(&mut self) -> Result<Bytes> {
        self.fill()?;
        let bytes = std::mem::take(&mut self.here);
        self.position = self.position.saturating_add(bytes.len() as u64);
        Ok(bytes)
    }

    /// Keeps the queue full.
    fn read_ahead(&mut self) -> Result<()> {
        let (end, longest) = (self.end, self.steps.longest);
        while self.next < end && (self.ahead.len() == 0 || self.ahead.bytes() < self.ahead_max) {
            // Later reads begin where they need no widening.
            let to = self.next.saturating_add(self.step);
            let to = if self.step == longest { to / longest * longest } else { to };
            let to = to.min(end).max(self.next.saturating_add(1));
            let Some(range) = ByteRange::new(self.next, to) else { break };
            self.ahead.push(self.source.as_ref(), range)?;
            self.next = to;
        }
        Ok(())
    }
}

impl Input for SourceInput {
    fn path(&self) -> &Path {
        self.source.path()
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn total(&self) -> Option<u64> {
        Some(self.end)
    }

    fn fill(&mut self) -> Result<&[u8]> {
        if self.here.is_empty() {
            self.read_ahead()?;
            if let Some(bytes) = self.ahead.pop()? {
                self.here = bytes;
            }
            self.step = self.step.saturating_mul(2).min(self.steps.longest);
            self.reads = self.reads.saturating_add(1);
            if self.reads > self.steps.alone {
                self.ahead_max = self.step.saturating_mul(8).min(self.steps.ahead);
                self.read_ahead()?;
            }
        }
        Ok(&self.here)
    }

    fn consume(&mut self, len: usize) {
        let len = len.min(self.here.len());
        self.here.advance(len);
        self.position = self.position.saturating_add(len as u64);
    }

    fn skip(&mut self, len: u64) -> Result<u64> {
        let len = len.min(self.end.saturating_sub(self.position));
        let to = self.position.saturating_add(len);
        if to.saturating_sub(self.next) > self.steps.longest {
            // What lies between is worth more than what is on its way.
            self.ahead.clear();
            self.here = Bytes::new();
            (self.position, self.next, self.step) = (to, to, self.steps.first);
            (self.reads, self.ahead_max) = (0, 0);
            return Ok(len);
        }
        while self.position < to {
            let there = self.fill()?.len();
            if there == 0 {
                break;
            }
            let left = usize::try_from(to.saturating_sub(self.position)).unwrap_or(usize::MAX);
            self.consume(left.min(there));
        }
        Ok(len)
    }
}

/// Anything that is read from front to back.
pub struct StreamInput<R> {
    reader: R,
    path: PathBuf,
    buffer: Vec<u8>,
    /// What of the buffer is filled and not consumed.
    from: usize,
    to: usize,
    position: u64,
    /// Where it was found damaged, and the message. Output of the decompressor after that is not
    /// used.
    damage: Option<(u64, String)>,
}

impl<R: Read> StreamInput<R> {
    /// Reads from `reader`, called `path` in messages.
    pub fn new(reader: R, path: impl Into<PathBuf>) -> Self {
        let (path, buffer) = (path.into(), vec![0; 256 << 10]);
        Self { reader, path, buffer, from: 0, to: 0, position: 0, damage: None }
    }

    /// Peeks at the next bytes, at most this many; fewer only if it ends before.
    ///
    /// # Errors
    /// Returns an error if reading fails.
    pub(super) fn peek(&mut self, len: usize) -> Result<&[u8]> {
        let len = len.min(self.buffer.len());
        self.buffer.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to.saturating_sub(self.from));
        while self.to < len && self.read_more()? > 0 {}
        Ok(self.buffer.get(..len.min(self.to)).unwrap_or_default())
    }

    /// Reads what follows the buffer; none at the end.
    fn read_more(&mut self) -> Result<usize> {
        if let Some((offset, what)) = self.damage.clone() {
            return Err(Error::Damaged { path: self.path.clone(), offset, what });
        }
        loop {
            let got = match self.reader.read(self.buffer.get_mut(self.to..).unwrap_or_default()) {
                Ok(got) => got,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    let error = read_error(&self.path, self.position, error);
                    if let Error::Damaged { offset, what, .. } = &error {
                        self.damage = Some((*offset, what.clone()));
                    }
                    return Err(error);
                }
            };
            self.to = self.to.saturating_add(got);
            return Ok(got);
        }
    }
}

impl<R> std::fmt::Debug for StreamInput<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamInput")
            .field("path", &self.path)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl<R: Read> Input for StreamInput<R> {
    fn path(&self) -> &Path {
        &self.path
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn total(&self) -> Option<u64> {
        None
    }

    fn fill(&mut self) -> Result<&[u8]> {
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
            self.read_more()?;
        }
        Ok(self.buffer.get(self.from..self.to).unwrap_or_default())
    }

    fn consume(&mut self, len: usize) {
        let len = len.min(self.to.saturating_sub(self.from));
        self.from = self.from.saturating_add(len);
        self.position = self.position.saturating_add(len as u64);
    }
}

/// Errors of a decompressor are damage; all others are of the system.
fn read_error(path: &Path, offset: u64, error: std::io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => error,
        Err(error) if error.raw_os_error().is_none() => {
            // The position of a decompressor in the file is not known.
            let what = format!(
                "the compressed bytes are damaged or cut off (the offset is in what they decompress to): {error}"
            );
            Error::Damaged { path: path.to_path_buf(), offset, what }
        }
        Err(error) => crate::Error::io_at("read", path, offset, error).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_is_known_reads_are_what_they_always_were() {
        let reads = Steps { first: 16 << 10, longest: 1 << 20, ahead: 8 << 20, alone: 0 };
        let requests = Steps { first: 256 << 10, longest: 8 << 20, ahead: 32 << 20, alone: 1 };
        assert_eq!(Steps::of(&Profile::LOCAL), reads);
        assert_eq!(Steps::of(&Profile::ROTATING), reads);
        assert_eq!(Steps::of(&Profile::NETWORK), reads);
        assert_eq!(Steps::of(&Profile::OBJECT), requests);
        // However a profile was made, no first read is longer than the longest, and memory is
        // bounded.
        let short = Profile { block_bytes: 4096, ..Profile::OBJECT };
        assert_eq!((Steps::of(&short).first, Steps::of(&short).longest), (4096, 4096));
        let long = Profile { block_bytes: 1 << 40, ..Profile::LOCAL };
        assert_eq!(Steps::of(&long).ahead, AHEAD_MAX);
    }
}
