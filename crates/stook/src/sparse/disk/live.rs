//! [`Live`]: the two files of an entry, opened, and what of them is held.

use std::fs::File;
use std::io;
use std::sync::Arc;

use rustix::fs::OFlags;

use super::format::{HEADER_LEN_MAX, IndexHeader, RECORD_LEN, Record};
use super::{CacheIndexError, data_name};
use crate::extent::{ByteRange, ExtentMap, OnOverlap};
use crate::sparse::owner::Owner;
use crate::storage::cache::{self, CacheDirectory, FileId, read_up_to};

/// Records that are read at a time.
const RECORDS: u64 = 8192;
/// How often an entry may be replaced while it is being opened.
const TRIES: usize = 100;

/// The result of opening an index by name.
pub(super) enum Found {
    Nothing,
    /// Bytes of another source, of another state of it, or of another version of the format.
    OfAnother(FileId),
    /// An entry that cannot be used.
    Damaged(FileId),
    Live(Box<Live>),
}

/// An entry from one beginning; once it is begun again, or shortened, this is invalid.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) data: Arc<File>,
    pub(super) is_writable: bool,
    /// Held open so that no other file gets its number.
    pub(super) index: File,
    pub(super) id: FileId,
    pub(super) header_len: u64,
    pub(super) header_sum: u32,
    /// How far the index was read.
    known_len: u64,
    held: ExtentMap<Record>,
    /// Records of the index that were not what their checksums say, since it was asked last.
    damaged: u64,
}

impl Live {
    /// Opens the entry whose index has this name, if it holds bytes of this owner.
    pub(super) fn open(directory: &CacheDirectory, name: &str, owner: &Owner) -> io::Result<Found> {
        let index_name = super::index_name(name);
        for _ in 0..TRIES {
            let index = match directory.open_file(&index_name, OFlags::RDONLY) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
                index => index?,
            };
            let about = cache::about(&index)?;
            let start = read_up_to(&index, 0, HEADER_LEN_MAX)?;
            let (header, header_len, header_sum) = match IndexHeader::decode(&start) {
                Ok(decoded) => decoded,
                Err(CacheIndexError::Version { .. }) => return Ok(Found::OfAnother(about.id)),
                Err(_) => return Ok(Found::Damaged(about.id)),
            };
            if !owner.has(&header.key, &header.identity) {
                return Ok(Found::OfAnother(about.id));
            }
            let Some((data, is_writable)) = open_data(directory, &data_name(name, header.nonce))? else {
                if directory.about(&index_name)?.is_some_and(|current| current.id == about.id) {
                    return Ok(Found::Damaged(about.id));
                }
                continue;
            };
            let header_len = header_len as u64;
            let mut live = Self {
                data: Arc::new(data),
                is_writable,
                index,
                id: about.id,
                header_len,
                header_sum,
                known_len: header_len,
                held: ExtentMap::new(),
                damaged: 0,
            };
            live.read_to(about.len, owner.identity.len)?;
            return Ok(Found::Live(Box::new(live)));
        }
        Ok(Found::Nothing)
    }

    /// How far the index was read: if it is shorter now, it was replaced.
    pub(super) fn known_len(&self) -> u64 {
        self.known_len
    }

    /// Reads the records added to the index, which is `index_len` long, about a source of `len`
    /// bytes.
    pub(super) fn read_to(&mut self, index_len: u64, len: u64) -> io::Result<()> {
        const RECORD: u64 = RECORD_LEN as u64;
        loop {
            let records = (index_len.saturating_sub(self.known_len) / RECORD).min(RECORDS);
            let bytes = read_up_to(&self.index, self.known_len, records as usize * RECORD_LEN)?;
            let (whole, _) = bytes.as_chunks::<RECORD_LEN>();
            if whole.is_empty() {
                return Ok(());
            }
            for bytes in whole {
                match Record::decode(bytes, self.header_sum, len) {
                    Some(record) => self.hold(record),
                    None => self.damaged += 1,
                }
            }
            self.known_len += whole.len() as u64 * RECORD;
        }
    }

    fn hold(&mut self, record: Record) {
        // Replacing, with a value that fits any length, leaves nothing that could be refused.
        let inserted = self.held.insert(record.range, record, OnOverlap::Replace);
        debug_assert!(inserted.is_ok(), "{inserted:?}");
    }

    /// Records that were left out since this was asked last.
    pub(super) fn take_damaged(&mut self) -> u64 {
        std::mem::take(&mut self.damaged)
    }

    /// The parts of a range that are not held.
    pub(super) fn gaps(&self, range: ByteRange) -> Vec<ByteRange> {
        self.held.gaps(range).collect()
    }

    /// The records that hold any of a range, ascending.
    pub(super) fn records(&self, range: ByteRange) -> Vec<Record> {
        let mut records: Vec<Record> = self.held.pieces(range).map(|piece| *piece.value).collect();
        records.sort_by_key(|record| (record.range.start(), record.range.end()));
        records.dedup();
        records
    }

    /// Drops a record whose bytes are damaged.
    pub(super) fn forget(&mut self, record: &Record) {
        let pieces = self.held.pieces(record.range).filter(|piece| piece.value == record);
        let ranges: Vec<ByteRange> = pieces.map(|piece| piece.range).collect();
        ranges.into_iter().for_each(|range| drop(self.held.remove(range)));
    }
}

/// Opens a data file, read-only if it must not be written; `None` if it is gone.
fn open_data(directory: &CacheDirectory, name: &str) -> io::Result<Option<(File, bool)>> {
    let opened = match directory.open_file(name, OFlags::RDWR) {
        Ok(file) => return Ok(Some((file, true))),
        Err(error) => match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                directory.open_file(name, OFlags::RDONLY)
            }
            _ => Err(error),
        },
    };
    match opened {
        Ok(file) => Ok(Some((file, false))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
