//! Files that may be what the pack holds: their bytes are compared with those of the record.
//!
//! That is so where kind, length, mode, time and owner are the same and the inode does not vouch
//! for the rest: the tree was copied, the file was written so shortly before it was packed that a
//! later change could have kept its times, the record came from elsewhere, or the caller wants it
//! so.

use super::packing::{Abort, Packing};
use super::records::OpenedFile;
use crate::pack::error::Result;
use crate::pack::key::Key;
use crate::source::zeroes;
use crate::tree::{Holes, Part, Xattrs};
use crate::walk::{FileBytes, Status};

/// Small files that are compared at once: how many, and how many bytes.
const BATCH_LEN: usize = 256;
const BATCH_BYTES: u64 = 8 << 20;

/// A file that was read and is to be compared.
pub(super) struct Doubt {
    pub(super) key: Vec<u8>,
    pub(super) status: Status,
    /// With the checksums of its chunks.
    pub(super) bytes: FileBytes,
    pub(super) xattrs: Xattrs,
    pub(super) holes: Holes,
}

/// Those that wait for one another, so that their records are read as one batch.
#[derive(Default)]
pub(super) struct Doubts {
    waiting: Vec<Doubt>,
    bytes: u64,
}

impl Packing<'_, '_> {
    /// Takes a file that is to be compared.
    pub(super) fn doubt(&mut self, doubt: Doubt) -> Result<(), Abort> {
        self.doubts.bytes += doubt.status.node.len;
        self.doubts.waiting.push(doubt);
        if self.doubts.waiting.len() >= BATCH_LEN || self.doubts.bytes >= BATCH_BYTES {
            return self.compare_waiting();
        }
        Ok(())
    }

    /// Compares what waits, and packs what differs, or is damaged in the pack.
    pub(super) fn compare_waiting(&mut self) -> Result<(), Abort> {
        let doubts = std::mem::take(&mut self.doubts).waiting;
        let Some(before) = self.before.filter(|_| !doubts.is_empty()) else { return Ok(()) };
        let keys = doubts.iter().map(|doubt| Key::bytes(&doubt.key)).collect::<Result<Vec<_>>>()?;
        for (doubt, record) in doubts.into_iter().zip(before.get_many(&keys)?) {
            let record = before.snapshot.log.unless_damaged(record)?.flatten();
            let is_same = record.is_some_and(|record| *record.body == *doubt.bytes)
                && self.has_xattrs(&doubt.key, &doubt.xattrs);
            match is_same {
                true => self.is_unchanged(&doubt.key, &doubt.status),
                false => self.pack_bytes(doubt)?,
            }
        }
        Ok(())
    }

    /// Whether the record has these extended attributes, if they are kept at all.
    pub(super) fn has_xattrs(&self, key: &[u8], xattrs: &Xattrs) -> bool {
        !self.tree.xattrs || self.existing.has_xattrs(key, xattrs)
    }

    /// Whether a file is what its record holds, byte for byte; `None` when reading the file failed,
    /// which is noted.
    pub(super) fn compare_long(
        &mut self,
        key: &[u8],
        body: &mut OpenedFile<'_>,
    ) -> Result<Option<bool>, Abort> {
        Ok(match self.has_bytes(key, body)? {
            Ok(xattrs) => Some(xattrs.is_some_and(|xattrs| self.has_xattrs(key, &xattrs))),
            Err(error) => self.failed(key, error),
        })
    }

    /// The extended attributes of a file whose bytes are those of its record, `None` where they
    /// are not. The inner error is that of reading the file.
    pub(super) fn has_bytes(
        &mut self,
        key: &[u8],
        body: &mut OpenedFile<'_>,
    ) -> Result<Result<Option<Xattrs>>, Abort> {
        let Some(before) = self.before else { return Ok(Ok(None)) };
        let Some(mut comparison) = before.compare(&Key::bytes(key)?)? else { return Ok(Ok(None)) };
        let xattrs = match body.open(self.tree.xattrs) {
            Ok((xattrs, _)) => xattrs,
            Err(error) => return Ok(Err(error)),
        };
        let mut done = 0;
        let compared = body.pour(&mut |part| {
            let (mut left, bytes) = match part {
                Part::Bytes(bytes) => (bytes.len() as u64, Some(bytes)),
                Part::Hole(len) => (len, None),
            };
            while left > 0 {
                let bytes = bytes.unwrap_or_else(|| zeroes(left));
                (left, done) = (left - bytes.len() as u64, done + bytes.len() as u64);
                if !comparison.take(bytes)? {
                    return Ok(false);
                }
                self.report_progress(done)?;
            }
            Ok(true)
        })?;
        match compared {
            Ok(is_same) => Ok(Ok((is_same && comparison.finish()?).then_some(xattrs))),
            Err(error) => Ok(Err(error)),
        }
    }
}
