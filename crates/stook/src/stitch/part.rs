//! [`SourcePart`]: a part of a source as a source of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::extent::ByteRange;
use crate::source::{Identity, Inodes, Leaf, Origin, Source, check_bounds};

/// A part of a source. It keeps nothing open, whatever that does.
#[derive(Debug, Clone)]
pub(super) struct SourcePart {
    whole: Arc<dyn Source>,
    path: PathBuf,
    range: ByteRange,
}

impl SourcePart {
    /// The bytes of a range of a source. `path` is what they are called in messages.
    pub(super) fn new(whole: Arc<dyn Source>, path: PathBuf, range: ByteRange) -> Self {
        Self { whole, path, range }
    }

    /// Where a part of it is in the whole.
    fn in_whole(&self, part: ByteRange) -> Result<ByteRange> {
        let start = self.range.start().checked_add(part.start());
        let range = start.and_then(|start| ByteRange::at(start, part.len()));
        let within = range.filter(|range| range.end() <= self.range.end());
        within.ok_or_else(|| Error::OutOfBounds { path: self.path.clone(), range: part, len: self.len() })
    }
}

impl Source for SourcePart {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.range.len()
    }

    fn identity(&self) -> Identity {
        Identity { len: self.len(), ..Identity::default() }
    }

    fn current_identity(&self) -> Result<Identity> {
        self.whole.check_ranges(&[self.range])?;
        Ok(self.identity())
    }

    fn check_ranges(&self, ranges: &[ByteRange]) -> Result<()> {
        let ranges = ranges.iter().map(|range| self.in_whole(*range)).collect::<Result<Vec<_>>>()?;
        self.whole.check_ranges(&ranges)
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        check_bounds(self, range)?;
        self.whole.resolve(self.in_whole(range)?, leaves)
    }

    fn note_files(&self, files: &mut Inodes) {
        self.whole.note_files(files);
    }

    fn origin(&self) -> Origin {
        Origin::new("part of a file", self.path.to_string_lossy())
    }

    /// What it is a part of may change without it.
    fn is_proven(&self) -> bool {
        false
    }
}
