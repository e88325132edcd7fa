//! A [`SparseFile`] as a source: held ranges are bytes, missing ones come from the source below,
//! and are kept if allowed.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::SparseFile;
use super::kept::Kept;
use crate::error::{Error, Result};
use crate::extent::ByteRange;
use crate::source::{Answer, Identity, Leaf, Object, Origin, Pending, Source, WholeRead, check_bounds};

/// The most bytes loaded from the cache on disk for one range: a caller that resolves a longer one
/// may not need its bytes at all.
const LOADED_MAX: u64 = 64 << 20;

/// Reads go to the source below: its identity, its checks and its origin are those of the file.
/// Bytes from requests are kept in memory, and on disk, as if the file had requested them; bytes
/// that engines read from files are not. Nothing is read ahead.
impl Source for SparseFile {
    fn path(&self) -> &Path {
        self.source().path()
    }

    fn len(&self) -> u64 {
        self.source().len()
    }

    fn identity(&self) -> Identity {
        self.source().identity()
    }

    fn current_identity(&self) -> Result<Identity> {
        self.source().current_identity()
    }

    fn check_unchanged(&self) -> Result<()> {
        self.source().check_unchanged()
    }

    fn check_ranges(&self, ranges: &[ByteRange]) -> Result<()> {
        self.source().check_ranges(ranges)
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        check_bounds(self.source().as_ref(), range)?;
        self.refuse_changed()?;
        if range.is_empty() {
            return Ok(());
        }
        let buffer = &self.kept.buffer;
        let _pinned = buffer.pin(range);
        if range.len() <= LOADED_MAX {
            // What is not on disk comes from the source below.
            self.load(range).ok();
        }
        let mut at = range.start();
        for gap in buffer.gaps(range) {
            self.resolve_held(at, gap.start(), leaves)?;
            self.resolve_below(gap, leaves)?;
            at = gap.end();
        }
        self.resolve_held(at, range.end(), leaves)
    }

    fn origin(&self) -> Origin {
        self.source().origin()
    }

    fn is_proven(&self) -> bool {
        self.source().is_proven()
    }

    fn checks_reads(&self) -> bool {
        self.source().checks_reads()
    }

    fn reads_by_request(&self) -> bool {
        self.source().reads_by_request()
    }

    fn whole_read(&self) -> Option<WholeRead> {
        self.source().whole_read()
    }
}

impl SparseFile {
    /// That the source has changed, if that is known.
    fn refuse_changed(&self) -> Result<()> {
        match self.kept.changed().and_then(super::SparseFileError::source_error) {
            Some(Error::SourceChanged { path, before, after }) => {
                Err(Error::changed(path, before.as_ref().clone(), after.as_ref().clone()))
            }
            _ => Ok(()),
        }
    }

    /// Leaves of bytes that were held a moment ago.
    fn resolve_held(&self, start: u64, end: u64, leaves: &mut Vec<Leaf>) -> Result<()> {
        let Some(range) = ByteRange::new(start, end).filter(|range| !range.is_empty()) else {
            return Ok(());
        };
        match self.kept.buffer.read_bytes(range) {
            Ok(bytes) => leaves.push(Leaf::Bytes(bytes)),
            // It was emptied in between.
            Err(_) => self.resolve_below(range, leaves)?,
        }
        Ok(())
    }

    /// Leaves of the source below. If each of its reads is checked, their bytes are kept.
    fn resolve_below(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        let (source, first) = (self.source(), leaves.len());
        source.resolve(range, leaves)?;
        if !source.checks_reads() {
            return Ok(());
        }
        let mut at = range.start();
        for leaf in leaves.iter_mut().skip(first) {
            let len = leaf.len();
            if let Leaf::Object { object, range } = leaf {
                let (kept, source, below) = (Arc::clone(&self.kept), Arc::clone(source), Arc::clone(object));
                *object = Arc::new(Keeping { kept, source, object: below, at, from: range.start() });
            }
            at = at.saturating_add(len);
        }
        Ok(())
    }
}

/// An object of the source below, whose answers are kept.
#[derive(Debug)]
struct Keeping {
    kept: Arc<Kept>,
    source: Arc<dyn Source>,
    object: Arc<dyn Object>,
    /// Where in the file its byte `from` is.
    at: u64,
    from: u64,
}

impl Object for Keeping {
    fn path(&self) -> &Path {
        self.object.path()
    }

    fn begin(&self, range: ByteRange, answer: Answer) -> Pending {
        let position = range.start().checked_sub(self.from).and_then(|more| self.at.checked_add(more));
        let Some(place) = position.and_then(|position| ByteRange::at(position, range.len())) else {
            return self.object.begin(range, answer);
        };
        let (kept, began) = (Arc::clone(&self.kept), Instant::now());
        kept.counted.read(false, range.len());
        let is_proven = kept.expect(|| self.source.is_proven());
        let noted = answer.noted_by(move |answer| kept.take(place, answer, is_proven, began.elapsed()));
        self.object.begin(range, noted)
    }
}
