//! Reads of an archive before its sequential pass; for sources with requests, both ends are held.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::engine::{Access, EngineFactory};
use crate::error::Result;
use crate::extent::ByteRange;
use crate::source::{
    Identity, Inodes, Leaf, Origin, Source, WholeRead, check_bounds, read_batch, read_range,
};

/// How much of the beginning is held: enough to recognise the format.
const FIRST_LEN: u64 = 512;
/// How much of the end is held: the directory of a zip with some 20,000 members, most of the time.
const LAST_LEN: u64 = 2 << 20;

/// A short range, of a file without an engine.
///
/// # Errors
/// Returns an error if reading fails.
pub(super) fn look(source: &dyn Source, range: ByteRange, engines: &dyn EngineFactory) -> Result<Bytes> {
    let mut leaves = Vec::with_capacity(1);
    source.resolve(range, &mut leaves)?;
    match leaves.as_slice() {
        [] => Ok(Bytes::new()),
        [Leaf::Bytes(bytes)] => Ok(bytes.clone()),
        [Leaf::File { file, range }] => {
            // Callers request short ranges.
            let mut bytes = vec![0; usize::try_from(range.len()).unwrap_or(usize::MAX)];
            file.read_exact_at(&mut bytes, range.start())?;
            Ok(bytes.into())
        }
        _ => read_range(engines, source, range, Access::Cached),
    }
}

/// A source whose first and last bytes are held: all of it, where it is short.
pub(super) struct Ends {
    source: Arc<dyn Source>,
    first: Bytes,
    last: Bytes,
    /// Where the last bytes begin.
    last_at: u64,
}

/// Without the bytes.
impl std::fmt::Debug for Ends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ends").field("source", &self.source).field("last_at", &self.last_at).finish()
    }
}

impl Ends {
    /// Reads both ends of a source, at once.
    ///
    /// # Errors
    /// Returns an error if reading fails.
    pub(super) fn read(source: Arc<dyn Source>, engines: &dyn EngineFactory) -> Result<Self> {
        let len = source.len();
        let (first, last_at) = match len.checked_sub(LAST_LEN).filter(|at| *at > FIRST_LEN) {
            Some(last_at) => (FIRST_LEN, last_at),
            None => (0, 0),
        };
        let last = ByteRange::new(last_at, len).unwrap_or_default();
        let ranges: Vec<ByteRange> =
            [ByteRange::to(first), last].into_iter().filter(|range| !range.is_empty()).collect();
        let mut read = read_batch(engines, source.as_ref(), &ranges, Access::Cached)?.into_iter();
        let first = if first == 0 { Bytes::new() } else { read.next().unwrap_or_default() };
        Ok(Self { source, first, last: read.next().unwrap_or_default(), last_at })
    }

    /// The part of a range within bytes held from a position on.
    fn held(range: ByteRange, at: u64, bytes: &Bytes) -> Option<(ByteRange, Bytes)> {
        let part = ByteRange::at(at, bytes.len() as u64)?.intersection(&range)?;
        let (from, to) = (part.start().checked_sub(at)?, part.end().checked_sub(at)?);
        Some((part, bytes.slice(usize::try_from(from).ok()?..usize::try_from(to).ok()?)))
    }
}

impl Source for Ends {
    fn path(&self) -> &Path {
        self.source.path()
    }

    fn len(&self) -> u64 {
        self.source.len()
    }

    fn identity(&self) -> Identity {
        self.source.identity()
    }

    fn current_identity(&self) -> Result<Identity> {
        self.source.current_identity()
    }

    fn check_unchanged(&self) -> Result<()> {
        self.source.check_unchanged()
    }

    fn check_ranges(&self, ranges: &[ByteRange]) -> Result<()> {
        self.source.check_ranges(ranges)
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        check_bounds(self, range)?;
        let mut at = range.start();
        for (from, bytes) in [(0, &self.first), (self.last_at, &self.last)] {
            let Some((part, bytes)) = Self::held(range, from, bytes) else { continue };
            if let Some(before) = ByteRange::new(at, part.start()).filter(|before| !before.is_empty()) {
                self.source.resolve(before, leaves)?;
            }
            leaves.push(Leaf::Bytes(bytes));
            at = part.end();
        }
        match ByteRange::new(at, range.end()).filter(|rest| !rest.is_empty()) {
            Some(rest) => self.source.resolve(rest, leaves),
            None => Ok(()),
        }
    }

    fn note_files(&self, files: &mut Inodes) {
        self.source.note_files(files);
    }

    fn origin(&self) -> Origin {
        self.source.origin()
    }

    fn is_proven(&self) -> bool {
        self.source.is_proven()
    }

    fn checks_reads(&self) -> bool {
        self.source.checks_reads()
    }

    fn reads_by_request(&self) -> bool {
        self.source.reads_by_request()
    }

    fn whole_read(&self) -> Option<WholeRead> {
        self.source.whole_read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Backend;
    use crate::source::MemorySource;

    #[test]
    fn both_ends_are_held_and_what_is_between_comes_from_below() {
        for len in [0, 1, 512, 513, LAST_LEN, LAST_LEN + 512, LAST_LEN + 513, LAST_LEN + 9000] {
            let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let below = Arc::new(MemorySource::new("memory", bytes.clone()));
            let ends = Ends::read(below, &Backend::Threads).unwrap();
            assert!(ends.last_at == 0 || ends.first.len() as u64 == FIRST_LEN, "{len}");
            for (start, end) in [(0, len), (len / 3, len), (0, len / 2), (len / 2, len / 2), (600, 700)] {
                let Some(range) = ByteRange::new(start, end).filter(|range| range.end() <= len) else {
                    continue;
                };
                let mut leaves = Vec::new();
                ends.resolve(range, &mut leaves).unwrap();
                assert!(leaves.iter().all(|leaf| !leaf.is_empty()), "{len}: {range}");
                let read = read_range(&Backend::Threads, &ends, range, Access::Cached).unwrap();
                assert!(read == bytes[start as usize..end as usize], "{len}: {range}");
            }
            assert!(ends.resolve(ByteRange::to(len + 1), &mut Vec::new()).is_err());
        }
    }
}
