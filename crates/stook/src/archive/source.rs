//! [`MemberSource`]: a member whose bytes lie in its archive as they are.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::member::Extent;
use crate::error::Result;
use crate::extent::ByteRange;
use crate::source::{Identity, Leaf, Origin, Source, check_bounds};

/// A member of an archive, read by range. What is not stored of a sparse one reads as zeroes.
#[derive(Debug, Clone)]
pub struct MemberSource {
    archive: Arc<dyn Source>,
    path: PathBuf,
    len: u64,
    /// In order, none empty, none overlapping another.
    extents: Vec<Extent>,
}

impl MemberSource {
    pub(super) fn new(archive: Arc<dyn Source>, path: PathBuf, len: u64, extents: Vec<Extent>) -> Self {
        Self { archive, path, len, extents }
    }

    /// What of a range is stored: where it begins in the member, and where it is in the archive.
    fn stored(&self, range: ByteRange) -> impl Iterator<Item = (u64, ByteRange)> {
        let begin = range.start();
        let first = self.extents.partition_point(|extent| extent.at.saturating_add(extent.len) <= begin);
        let touched = self.extents.iter().skip(first).take_while(move |extent| extent.at < range.end());
        touched.map(move |extent| {
            let from = begin.max(extent.at);
            let to = extent.at.saturating_add(extent.len).min(range.end());
            // Both lie within the extent, whose place in the archive was checked.
            let stored = ByteRange::at(extent.stored_at.saturating_add(from - extent.at), to - from);
            (from, stored.unwrap_or(ByteRange::to(u64::MAX)))
        })
    }
}

impl Source for MemberSource {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn identity(&self) -> Identity {
        Identity { len: self.len, ..self.archive.identity() }
    }

    fn current_identity(&self) -> Result<Identity> {
        let (before, now) = (self.archive.identity(), self.archive.current_identity()?);
        // A member keeps its length as long as its archive does.
        let len = if before.len == now.len { self.len } else { 0 };
        Ok(Identity { len, ..now })
    }

    /// Several members may have one name: where the bytes lie counts too.
    fn origin(&self) -> Origin {
        let numbers = self.extents.iter().flat_map(|extent| [extent.at, extent.len, extent.stored_at]);
        let places: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
        let member = Origin::new("member", self.path.to_string_lossy());
        member
            .within(&self.archive.origin())
            .with("path", self.path.as_os_str().as_bytes())
            .with("places", places)
    }

    fn is_proven(&self) -> bool {
        self.archive.is_proven()
    }

    fn checks_reads(&self) -> bool {
        self.archive.checks_reads()
    }

    fn reads_by_request(&self) -> bool {
        self.archive.reads_by_request()
    }

    /// What is asked is what the archive is made of: the error is one of the archive.
    fn check_ranges(&self, ranges: &[ByteRange]) -> Result<()> {
        let stored = ranges.iter().flat_map(|range| self.stored(*range));
        self.archive.check_ranges(&stored.map(|(_, stored)| stored).collect::<Vec<_>>())
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        check_bounds(self, range)?;
        let mut at = range.start();
        let fill = |at: u64, to: u64, leaves: &mut Vec<Leaf>| {
            if to > at {
                leaves.push(Leaf::Fill { byte: 0, len: to - at });
            }
        };
        for (from, stored) in self.stored(range) {
            fill(at, from, leaves);
            self.archive.resolve(stored, leaves)?;
            at = from.saturating_add(stored.len());
        }
        fill(at, range.end(), leaves);
        Ok(())
    }
}
