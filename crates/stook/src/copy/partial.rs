//! [`Partial`]: a large file in one destination that stays when its copy ends before it is whole,
//! and its journal, which says how far it is and with which bytes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::decide::Place;
use super::destination::Receiver;
use super::journal::{
    BLOCK_BYTES, BlockHash, BlockHasher, HEADER_LEN, JournalHeader, RECORD_LEN, block_at, blocks_of,
    decode_record, encode_record, is_block,
};
use super::options::Resume;
use crate::engine;
use crate::source::FileSource;
use crate::tree::outbox::{Calls, Durability, Kept, OutFile, again, write_all};

/// Records that are read at once.
const READ_AT_ONCE: u64 = 1024;

/// A file that is continued, or begun so that it can be.
pub(super) struct Partial {
    pub(super) file: OutFile,
    pub(super) journal: Journal,
}

/// The journal of a file.
pub(super) struct Journal {
    calls: Arc<dyn Calls>,
    file: File,
    /// The checksum of its header.
    sum: u32,
    /// The length of the file that it is about.
    len: u64,
    /// Records in it: of blocks that an earlier run made durable, or this one did.
    records: u64,
    hasher: BlockHasher,
    resume: Resume,
    syncs: bool,
    /// When the last checkpoint was.
    last: Instant,
    /// Whether nothing can be added to it any more.
    is_broken: bool,
}

impl Partial {
    /// The file that an earlier run left in a place, if it has the bytes of this very source; else
    /// one is begun. `None` where neither can be: the file is copied as any other.
    pub(super) fn open(
        receiver: &Receiver,
        place: &Place,
        header: JournalHeader,
        resume: Resume,
    ) -> Option<Self> {
        let (parent, name) = (&place.spot.parent, &place.spot.name);
        let replaces = place.plan.replaces();
        let own_inode = |kept: &Kept| if receiver.is_in_order() { 0 } else { kept.file.inode() };
        // Another run writes it now, or it cannot be used: that is no reason not to copy.
        let found = receiver.outbox.find_kept(parent, name, replaces).ok()?;
        if let Some(kept) = found {
            let wanted = JournalHeader { own_inode: own_inode(&kept), ..header.clone() };
            if let Some(partial) = Self::found(receiver, kept, &wanted, resume) {
                return Some(partial);
            }
            // What was there is removed now.
        }
        let kept = receiver.outbox.begin_kept(parent, name, replaces).ok()?;
        let header = JournalHeader { own_inode: own_inode(&kept), ..header };
        let (bytes, sum) = header.encode();
        let journal = Journal::new(receiver, kept.journal, (sum, header.len), 0, resume);
        // What has no journal is only a file.
        journal.write(&bytes, 0).ok()?;
        Some(Self { file: kept.file, journal })
    }

    fn found(receiver: &Receiver, kept: Kept, wanted: &JournalHeader, resume: Resume) -> Option<Self> {
        let mut bytes = [0; HEADER_LEN];
        let in_file = kept.journal.metadata().ok()?.len();
        kept.journal.read_exact_at(&mut bytes, 0).ok()?;
        let (header, sum) = JournalHeader::decode(&bytes).ok()?;
        let records = in_file.saturating_sub(HEADER_LEN as u64) / RECORD_LEN as u64;
        let is_same = header == *wanted && records <= blocks_of(header.len);
        let journal = Journal::new(receiver, kept.journal, (sum, header.len), records, resume);
        is_same.then_some(Self { file: kept.file, journal })
    }

    /// What is read to verify it, under the path that it is to have.
    pub(super) fn source(&self, shown: &Path) -> crate::Result<FileSource> {
        let failed = |error| crate::Error::io("open", shown, error);
        let file: engine::File = self.file.for_engine(shown).map_err(failed)?;
        FileSource::prefix(Arc::new(file), self.journal.bytes())
    }

    /// It has all that its journal says up to this many blocks, and nothing else.
    pub(super) fn cut_to(&mut self, blocks: u64) -> io::Result<()> {
        self.journal.cut_to(blocks)?;
        // Whatever a run wrote after its last checkpoint is gone, in holes of the source, too.
        self.file.set_len(self.journal.bytes())
    }
}

impl Journal {
    fn new(receiver: &Receiver, file: File, (sum, len): (u32, u64), records: u64, resume: Resume) -> Self {
        let at = records.saturating_mul(BLOCK_BYTES).min(len);
        Self {
            calls: receiver.calls.clone(),
            file,
            sum,
            len,
            records,
            hasher: BlockHasher::new(at, len),
            resume,
            syncs: receiver.options.durability != Durability::None,
            last: Instant::now(),
            is_broken: false,
        }
    }

    /// Of how many blocks it has records.
    pub(super) fn records(&self) -> u64 {
        self.records
    }

    /// How many bytes of the file these are.
    pub(super) fn bytes(&self) -> u64 {
        self.records.saturating_mul(BLOCK_BYTES).min(self.len)
    }

    /// The hashes from a block on, some of them; none where a record is damaged.
    pub(super) fn hashes_from(&self, first: u64) -> Vec<BlockHash> {
        let count = self.records.saturating_sub(first).min(READ_AT_ONCE);
        let mut bytes = vec![0; count as usize * RECORD_LEN];
        if self.file.read_exact_at(&mut bytes, offset_of(first)).is_err() {
            return Vec::new();
        }
        let (records, _) = bytes.as_chunks::<RECORD_LEN>();
        let numbered = (first..).zip(records);
        numbered.map_while(|(number, record)| decode_record(self.sum, number, record)).collect()
    }

    /// Which block is where; `None` after the last that it has.
    pub(super) fn block_at(&self, number: u64) -> Option<crate::extent::ByteRange> {
        block_at(number, self.bytes())
    }

    fn cut_to(&mut self, blocks: u64) -> io::Result<()> {
        self.records = self.records.min(blocks);
        self.hasher = BlockHasher::new(self.bytes(), self.len);
        again(|| self.calls.set_len(&self.file, offset_of(self.records)))
    }

    /// The next bytes of the file, which stand at this offset. What it has already is left out.
    pub(super) fn take(&mut self, bytes: &Bytes, offset: u64) {
        if self.is_broken {
            return;
        }
        let known = usize::try_from(self.hasher.at().saturating_sub(offset)).unwrap_or(usize::MAX);
        self.hasher.take(bytes.get(known..).unwrap_or_default());
    }

    /// The same of zeros.
    pub(super) fn take_zeroes(&mut self, len: u64, offset: u64) {
        if self.is_broken {
            return;
        }
        let known = self.hasher.at().saturating_sub(offset);
        self.hasher.take_zeroes(len.saturating_sub(known));
    }

    /// Whether enough was written since the last checkpoint.
    pub(super) fn is_due(&self) -> bool {
        let bytes = (self.hasher.done().len() as u64).saturating_mul(BLOCK_BYTES);
        let is_enough =
            bytes >= self.resume.checkpoint_bytes || self.last.elapsed() >= self.resume.checkpoint_after;
        bytes > 0 && is_enough && !self.is_broken
    }

    /// Makes the file durable as far as it was written, and then says so. Nothing of it is on its
    /// way.
    ///
    /// # Errors
    /// That the file could not be synced. What could not be said of it costs only the next run.
    pub(super) fn checkpoint(&mut self, file: &OutFile) -> io::Result<()> {
        self.last = Instant::now();
        if self.hasher.done().is_empty() || self.is_broken {
            return Ok(());
        }
        if self.syncs {
            file.sync()?;
        }
        self.is_broken = self.add(file).is_err();
        Ok(())
    }

    fn add(&mut self, file: &OutFile) -> io::Result<()> {
        let numbered = (self.records..).zip(self.hasher.done());
        let records: Vec<u8> =
            numbered.flat_map(|(number, hash)| encode_record(self.sum, number, hash)).collect();
        self.write(&records, offset_of(self.records))?;
        if self.syncs {
            self.calls.sync(std::os::fd::AsFd::as_fd(&self.file))?;
            // Both names are new.
            if self.records == 0 {
                file.sync_directory()?;
            }
        }
        self.records = self.records.saturating_add(self.hasher.done().len() as u64);
        self.hasher.forget_done();
        Ok(())
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        write_all(&*self.calls, &self.file, bytes, offset)
    }
}

/// Where in a journal the record of a block is.
fn offset_of(number: u64) -> u64 {
    number.saturating_mul(RECORD_LEN as u64).saturating_add(HEADER_LEN as u64)
}

/// Whether these are the bytes of a block.
pub(super) fn is_verified(hash: &BlockHash, number: u64, bytes: &[u8]) -> bool {
    is_block(hash, number.saturating_mul(BLOCK_BYTES), bytes)
}
