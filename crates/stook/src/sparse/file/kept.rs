//! [`Kept`]: the bytes that a file has of its source, shared with requests in flight for others.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;

use super::error::SparseFileError;
use super::statistics::FileCounters;
use crate::error::{Error, Result};
use crate::extent::ByteRange;
use crate::sparse::lease::Lease;
use crate::sparse::{DiskEntry, OnDifference, SparseBuffer};

/// What is held in memory and on disk, with statistics.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) buffer: Arc<SparseBuffer>,
    /// Where the buffer is that of a store.
    pub(super) lease: Option<Arc<Lease>>,
    pub(super) disk: Option<DiskEntry>,
    pub(super) counted: FileCounters,
    /// Why nothing can be read any more.
    changed: OnceLock<SparseFileError>,
}

impl Kept {
    pub(super) fn new(
        buffer: Arc<SparseBuffer>,
        lease: Option<Arc<Lease>>,
        disk: Option<DiskEntry>,
        counted: FileCounters,
    ) -> Self {
        Self { buffer, lease, disk, counted, changed: OnceLock::new() }
    }

    /// Why nothing can be read any more: the source has changed.
    pub(super) fn changed(&self) -> Option<&SparseFileError> {
        self.changed.get()
    }

    /// Notes that the source has changed: held bytes are discarded.
    pub(super) fn note_changed(&self, error: &SparseFileError) {
        self.changed.get_or_init(|| error.clone());
        self.buffer.clear();
        self.discard();
    }

    /// Whether bytes fetched now are kept beyond this file, which requires a proof. Call it before
    /// the fetch: bytes read within the clock tick of a change may be of either state.
    pub(super) fn expect(&self, is_proven: impl FnOnce() -> bool) -> bool {
        let is_kept = self.disk.is_some() || self.lease.is_some();
        let is_proven = is_kept && is_proven();
        if let Some(lease) = self.lease.as_ref().filter(|_| !is_proven) {
            lease.note_unproven();
        }
        is_proven
    }

    /// Takes the answer, of the right length, to a request for a range that was made elsewhere.
    pub(super) fn take(&self, range: ByteRange, answer: &Result<Bytes>, is_proven: bool, took: Duration) {
        match answer {
            Ok(bytes) => {
                self.counted.request(range.len(), took);
                let held = self.buffer.adopt(range.start(), bytes.clone(), OnDifference::Error);
                self.keep(range, bytes, held.is_ok(), is_proven);
            }
            Err(Error::SourceChanged { path, before, after }) => {
                let error = Error::changed(path, before.as_ref().clone(), after.as_ref().clone());
                self.note_changed(&error.into());
            }
            // The requester gets this error, too.
            Err(_) => {}
        }
    }

    /// Keeps fetched bytes on disk, if the identity of the source was a proof before.
    pub(super) fn keep(&self, range: ByteRange, bytes: &[u8], is_held: bool, is_proven: bool) {
        match &self.disk {
            Some(_) if is_held && !is_proven => self.counted.unproven(range.len()),
            Some(disk) if is_held => disk.write(range.start(), bytes),
            // The fetched bytes differ from the held ones, and it is not known which are right.
            Some(disk) => disk.discard(),
            None => {}
        }
    }

    /// Discards the bytes on disk: the source has changed.
    fn discard(&self) {
        if let Some(disk) = &self.disk {
            disk.discard();
        }
    }
}
