//! [`Stitched`]: parts of files, one after another, as one source.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stook::Result;
use stook::extent::ByteRange;
use stook::source::{FileSource, Identity, Leaf, Source, check_bounds};

/// A part of a file.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) source: Arc<FileSource>,
    /// Where it begins in the file.
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// Parts of files, one after another. The files are open.
#[derive(Debug)]
pub(super) struct Stitched {
    path: PathBuf,
    parts: Vec<Part>,
    /// Where each part begins, and where the last one ends.
    borders: Vec<u64>,
}

impl Stitched {
    pub(super) fn new(path: PathBuf, parts: Vec<Part>) -> Self {
        let mut borders = vec![0];
        let mut at = 0;
        for part in &parts {
            at += part.len;
            borders.push(at);
        }
        Self { path, parts, borders }
    }

    /// The length of each part.
    pub(super) fn lens(&self) -> impl Iterator<Item = u64> {
        self.parts.iter().map(|part| part.len)
    }

    /// The parts that a range touches, and the ranges of their files.
    fn touched(&self, range: ByteRange) -> impl Iterator<Item = (&Part, ByteRange)> {
        let first = self.borders.partition_point(|&border| border <= range.start()).saturating_sub(1);
        let parts = self.parts.iter().zip(&self.borders).skip(first);
        parts.map_while(move |(part, &start)| {
            let touched = ByteRange::at(start, part.len)?.intersection(&range)?;
            Some((part, ByteRange::at(part.offset + (touched.start() - start), touched.len())?))
        })
    }
}

impl Source for Stitched {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.borders.last().copied().unwrap_or(0)
    }

    fn identity(&self) -> Identity {
        Identity { len: self.len(), ..Identity::default() }
    }

    fn current_identity(&self) -> Result<Identity> {
        self.check_ranges(&[ByteRange::to(self.len())])?;
        Ok(self.identity())
    }

    fn check_ranges(&self, ranges: &[ByteRange]) -> Result<()> {
        for &range in ranges {
            self.touched(range).try_for_each(|(part, _)| part.source.check_unchanged())?;
        }
        Ok(())
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        check_bounds(self, range)?;
        self.touched(range).try_for_each(|(part, range)| part.source.resolve(range, leaves))
    }
}
