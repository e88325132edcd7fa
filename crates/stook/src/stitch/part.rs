//! [`SourcePart`]: a part of a source as a source of its own; [`WholeBody`]: one of many files, of
//! which few are open.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::bodies::Bodies;
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

    /// The state of the whole, with the length of the part.
    fn identity(&self) -> Identity {
        Identity { len: self.len(), ..self.whole.identity() }
    }

    fn current_identity(&self) -> Result<Identity> {
        self.whole.check_ranges(&[self.range])?;
        Ok(self.identity())
    }

    fn check_unchanged(&self) -> Result<()> {
        self.whole.check_ranges(&[self.range])
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
        let (start, len) = (self.range.start().to_le_bytes(), self.len().to_le_bytes());
        let part = Origin::new("part of a file", self.path.to_string_lossy());
        part.with("start", start).with("length", len).within(&self.whole.origin())
    }

    fn is_proven(&self) -> bool {
        self.whole.is_proven()
    }
}

/// One of many files as a source of its own: however many are used, few are open. It is what it was
/// when it was opened first, which is when it is read or its state is asked for.
#[derive(Debug, Clone)]
pub(super) struct WholeBody {
    bodies: Arc<Bodies>,
    number: u32,
    path: PathBuf,
    len: u64,
}

impl WholeBody {
    /// The body with a number, which has the length that was listed. `path` is what it is called in
    /// messages.
    pub(super) fn new(bodies: Arc<Bodies>, number: u32, path: PathBuf, len: u64) -> Self {
        Self { bodies, number, path, len }
    }
}

impl Source for WholeBody {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    /// Without anything to recognise it by where it cannot be opened.
    fn identity(&self) -> Identity {
        let opened = || self.bodies.get(self.number).ok().map(|source| source.identity());
        let seen = self.bodies.seen(self.number).or_else(opened);
        Identity { len: self.len, ..seen.unwrap_or_default() }
    }

    fn current_identity(&self) -> Result<Identity> {
        match self.bodies.seen(self.number) {
            Some(_) => self.bodies.check(self.number)?,
            None => drop(self.bodies.get(self.number)?),
        }
        Ok(self.identity())
    }

    /// Opens nothing that was not open before: it has given no bytes.
    fn check_unchanged(&self) -> Result<()> {
        self.bodies.check(self.number)
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        check_bounds(self, range)?;
        if range.is_empty() {
            return Ok(());
        }
        self.bodies.get(self.number)?.resolve(range, leaves)
    }

    fn note_files(&self, files: &mut Inodes) {
        self.bodies.parts().note_files(files);
    }

    /// That of the file, wherever it is listed.
    fn origin(&self) -> Origin {
        let unknown = || Origin::new("listed file", self.path.to_string_lossy());
        self.bodies.get(self.number).map_or_else(|_| unknown(), |source| source.origin())
    }

    fn is_proven(&self) -> bool {
        self.bodies.get(self.number).is_ok_and(|source| source.is_proven())
    }
}
