//! A segment that is written in the order of its keys and sealed at once.

use crate::extent::ByteRange;
use crate::pack::error::{Error, Result};
use crate::pack::format::UNIT;
use crate::pack::format::deletes::{Death, Deaths};
use crate::pack::format::footer::{FooterKind, LastFrame, Tally};
use crate::pack::format::frame::{BodyLen, FrameHeader, FrameKind};
use crate::pack::format::index::{EncodedIndex, EntryContent, IndexBuilder, Place};
use crate::pack::format::manifest::{SegmentEntry, SegmentState};
use crate::pack::format::segment::{Salt, SegmentHeader};
use crate::pack::key::Key;
use crate::pack::state::names::PackFile;
use crate::pack::writer::active::{Covered, crc_of, index_file};
use crate::pack::writer::bounds::list_len;
use crate::storage::{Appender, Storage};

const PADDING: [u8; 8] = [0; 8];

/// A segment that is being written.
#[derive(Debug)]
pub(super) struct Output {
    header: SegmentHeader,
    salt: Salt,
    group: u32,
    appender: Box<dyn Appender>,
    index: IndexBuilder,
    tally: Tally,
    last_frame: LastFrame,
    deaths: Deaths,
    dead_bytes: u64,
    /// Versions of the newest key, oldest first: the index wants them the other way round.
    form: Vec<u8>,
    versions: Vec<Place>,
}

/// A segment that was written, sealed and synced.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) entry: SegmentEntry,
    /// Which of its records were dead already.
    pub(super) deaths: Deaths,
    /// Bytes of their frames.
    pub(super) dead_bytes: u64,
}

/// A record as it was in the segment it comes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Old<'a> {
    pub(super) key: &'a Key,
    pub(super) attributes: &'a [u8],
    pub(super) body_len: u64,
    pub(super) sequence: u64,
    pub(super) time_ns: i64,
    /// When it died, if it did.
    pub(super) death: Option<Death>,
}

impl Output {
    pub(super) fn create(storage: &dyn Storage, header: SegmentHeader, group: u32) -> Result<Self> {
        let mut appender = storage.create(&PackFile::Segment(header.id).to_string())?;
        appender.append(&[&header.encode()])?;
        // By its header the segment is known as this pack's if the writer dies.
        appender.flush()?;
        let salt = header.salt();
        Ok(Self {
            header,
            salt,
            group,
            appender,
            index: IndexBuilder::new(salt.crc),
            tally: Tally::default(),
            last_frame: LastFrame::default(),
            deaths: Deaths::new(),
            dead_bytes: 0,
            form: Vec::new(),
            versions: Vec::new(),
        })
    }

    /// Bytes in it.
    pub(super) fn len(&self) -> u64 {
        self.appender.len()
    }

    /// The most bytes that the list of its dead takes with one more.
    pub(super) fn list_len(&self) -> u64 {
        list_len(self.deaths.len().saturating_add(1))
    }

    /// Whether a version of this key was the last that was put.
    pub(super) fn ends_in(&self, form: &[u8]) -> bool {
        self.form == form
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tally.records == 0
    }

    /// Puts a whole record: its body, and its chunk checksums as they are stored in a segment of
    /// this salt. The body must have been verified by them.
    pub(super) fn put(&mut self, old: Old<'_>, body: &[u8], (sums, salt): (&[u8], &Salt)) -> Result<()> {
        let offset = self.begin(old)?;
        self.append(body)?;
        if salt.pack_crc == self.salt.pack_crc {
            // They say nothing of the segment, and the sequence number stays.
            self.append(sums)?;
        } else {
            let mut plain = Vec::with_capacity(sums.len());
            salt.bind_all(sums, old.sequence, &mut plain);
            self.append_sums(&plain, old.sequence)?;
        }
        self.end(old, offset)
    }

    /// Begins a record whose body and chunk checksums are appended piece by piece; returns the
    /// offset of its frame.
    pub(super) fn begin(&mut self, old: Old<'_>) -> Result<u64> {
        let stored = old.key.stored();
        let header = FrameHeader {
            live: true,
            kind: FrameKind::Record,
            in_batch: false,
            key_kind: old.key.kind(),
            key_len: stored.as_ref().len() as u16,
            attributes_len: old.attributes.len() as u16,
            body: BodyLen::Known(old.body_len),
            sequence: old.sequence,
            time_ns: old.time_ns,
            crc: 0,
        };
        let offset = self.len();
        let fixed = header.encode(&self.salt, offset, stored.as_ref(), old.attributes);
        self.appender.append(&[&fixed, stored.as_ref(), old.attributes])?;
        self.last_frame = LastFrame { offset, crc: crc_of(&fixed), mark_crc: 0 };
        Ok(offset)
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.appender.append(&[bytes])?)
    }

    /// Appends chunk checksums, which are plain yet, of the record with this sequence number.
    pub(super) fn append_sums(&mut self, plain: &[u8], sequence: u64) -> Result<()> {
        let mut sums = Vec::with_capacity(plain.len());
        self.salt.bind_all(plain, sequence, &mut sums);
        self.append(&sums)
    }

    /// Ends a record that was begun at `offset`.
    pub(super) fn end(&mut self, old: Old<'_>, offset: u64) -> Result<()> {
        let padding = (self.len().next_multiple_of(8) - self.len()) as usize;
        self.appender.append(&[PADDING.get(..padding).unwrap_or_default()])?;
        let place = Place::new(offset, self.len() - offset).with(EntryContent::of(old.attributes));
        let form = old.key.sort_form();
        if self.form != form {
            if !self.is_empty() && form < self.form.as_slice() {
                return Err(Error::Invalid(format!("the index of a segment has {} out of order", old.key)));
            }
            self.index_versions();
            self.form.clear();
            self.form.extend_from_slice(form);
        }
        self.versions.push(place);
        self.tally.add(old.body_len, old.sequence, old.time_ns);
        if let Some(death) = old.death {
            self.deaths.insert(offset, death);
            self.dead_bytes = self.dead_bytes.saturating_add(place.len_min());
        }
        Ok(())
    }

    fn index_versions(&mut self) {
        for place in self.versions.drain(..).rev() {
            self.index.push(&self.form, place);
        }
    }

    /// Ends it in its index and syncs it. No manifest names it yet.
    pub(super) fn finish(mut self) -> Result<Finished> {
        self.index_versions();
        let frames_end = self.len();
        let frames = ByteRange::new(UNIT as u64, frames_end).unwrap_or_default();
        let index = self.index.finish().unwrap_or_else(|| EncodedIndex::empty(self.salt.crc));
        let base = frames_end.next_multiple_of(UNIT as u64);
        let padding = vec![0; (base - frames_end) as usize];
        let covered = Covered { frames, tally: self.tally, last_frame: self.last_frame };
        let bytes = index_file(&self.header, &index, covered, FooterKind::Sealed, base);
        self.appender.append(&[&padding, &bytes])?;
        self.appender.sync()?;
        let entry = SegmentEntry {
            id: self.header.id,
            nonce: self.header.nonce,
            group: self.group,
            state: SegmentState::Sealed,
            committed_len: self.appender.len(),
            frames_end,
            tally: self.tally,
            last_frame: self.last_frame,
            dead_records: self.deaths.len() as u64,
            dead_bytes: self.dead_bytes,
            vector: None,
            form: self.header.form(),
        };
        Ok(Finished { entry, deaths: self.deaths, dead_bytes: self.dead_bytes })
    }
}
