//! [`MemberSource`]: a member of an archive, or of what an archive is unpacked to, by range.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use flate2::Crc;

use super::member::Extent;
use crate::error::{Error, Result};
use crate::extent::ByteRange;
use crate::source::{Check, Identity, Inodes, Leaf, Origin, Source, check_bounds};
use crate::tree::Holes;

/// A member of an archive, read by range. Holes of a sparse one read as zeroes.
///
/// A read of a whole member of a zip by one range is checked by its CRC-32; for shorter ranges, the
/// only check is that the archive is unchanged.
#[derive(Debug, Clone)]
pub struct MemberSource {
    archive: Arc<dyn Source>,
    path: PathBuf,
    len: u64,
    /// In order, none empty, none overlapping another.
    extents: Vec<Extent>,
    crc32: Option<u32>,
}

/// All of a member, checked by its CRC-32.
#[derive(Debug)]
struct WholeMember {
    archive: PathBuf,
    /// Where its bytes begin in the archive.
    offset: u64,
    crc32: u32,
    leaves: Vec<Leaf>,
}

impl Check for WholeMember {
    fn path(&self) -> &Path {
        &self.archive
    }

    fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    fn verify(&self, read: Bytes) -> Result<Bytes> {
        let mut crc = Crc::new();
        crc.update(&read);
        if crc.sum() == self.crc32 {
            return Ok(read);
        }
        let what = "the CRC-32 of a member is not what the directory says".to_owned();
        Err(Error::Damaged { path: self.archive.clone(), offset: self.offset, what })
    }
}

/// What of a member of this length is not stored.
pub(super) fn holes_of(extents: &[Extent], len: u64) -> Holes {
    Holes::between(extents.iter().filter_map(|extent| ByteRange::at(extent.at, extent.len)), len)
}

impl MemberSource {
    pub(super) fn new(archive: Arc<dyn Source>, path: PathBuf, len: u64, extents: Vec<Extent>) -> Self {
        Self { archive, path, len, extents, crc32: None }
    }

    /// Checked by this where all of it is read at once.
    pub(super) fn checked_by(self, crc32: Option<u32>) -> Self {
        Self { crc32, ..self }
    }

    /// The whole member as one checked leaf, if all of it is requested and it can be checked.
    fn resolve_whole(&self, range: ByteRange) -> Result<Option<Leaf>> {
        let (Some(crc32), [extent]) = (self.crc32, self.extents.as_slice()) else { return Ok(None) };
        if range != ByteRange::to(self.len) || range.is_empty() || extent.len != self.len {
            return Ok(None);
        }
        let (mut leaves, offset) = (Vec::with_capacity(1), extent.stored_at);
        for (_, stored) in self.stored(range) {
            self.archive.resolve(stored, &mut leaves)?;
        }
        let archive = self.archive.path().to_path_buf();
        let check = Arc::new(WholeMember { archive, offset, crc32, leaves });
        Ok(Some(Leaf::Checked { check, len: self.len }))
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

    fn note_files(&self, files: &mut Inodes) {
        self.archive.note_files(files);
    }

    /// The check is of the archive's source, so the error is one of the archive.
    fn check_ranges(&self, ranges: &[ByteRange]) -> Result<()> {
        let stored = ranges.iter().flat_map(|range| self.stored(*range));
        self.archive.check_ranges(&stored.map(|(_, stored)| stored).collect::<Vec<_>>())
    }

    fn holes(&self) -> Result<Holes> {
        Ok(holes_of(&self.extents, self.len))
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        check_bounds(self, range)?;
        if let Some(whole) = self.resolve_whole(range)? {
            leaves.push(whole);
            return Ok(());
        }
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
