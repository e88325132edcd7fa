//! The segment of a group that is being appended to.

use super::At;
use crate::extent::ByteRange;
use crate::pack::error::{Error, Result};
use crate::pack::format::batch::{BatchSum, digest, digest_more};
use crate::pack::format::footer::{Footer, FooterKind, LastFrame, Tally};
use crate::pack::format::frame::{BodyLen, FrameHeader, FrameKind, HEADER_LEN, stored_crc};
use crate::pack::format::index::{EncodedIndex, EntryContent, Place};
use crate::pack::format::manifest::{SegmentEntry, SegmentState};
use crate::pack::format::mark::{Edition, SyncMark};
use crate::pack::format::segment::{Salt, SegmentHeader};
use crate::pack::format::{SEGMENT_LEN_MAX, UNIT};
use crate::pack::index::run::{Run, merge};
use crate::pack::index::tail::Tail;
use crate::pack::key::Key;
use crate::pack::read::reader::Reader;
use crate::pack::state::names::PackFile;
use crate::pack::state::segment::Segment;
use crate::storage::{Appender, Storage};

/// The bytes reserved for the index in the longest segment.
const INDEX_ROOM: u64 = 64 << 20;

/// How long a segment may get without being named by a manifest, in bytes: until then, readers do
/// not find what is in it.
const UNNAMED_LEN: u64 = 16 << 20;

const PADDING: [u8; 8] = [0; 8];

/// An unsealed segment that grows.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) header: SegmentHeader,
    pub(crate) salt: Salt,
    /// Its number among the groups of the pack.
    pub(crate) group: u32,
    appender: Box<dyn Appender>,
    /// Indexes of checkpointed spans.
    pub(crate) runs: Vec<Run>,
    /// Where the last checkpoint ends.
    checkpointed_len: u64,
    /// Index of the frames that follow.
    pub(crate) tail: Tail,
    /// Records of the runs.
    runs_tally: Tally,
    /// Known to be on the medium.
    durable_len: u64,
    /// Everything before this was acknowledged, or may have been.
    promised_len: u64,
    /// Where what counts ends: what follows is a record or batch that was begun.
    counted_len: u64,
    /// The next frame is to be a sync mark.
    mark_due: bool,
    /// Sequence number and time of the last record.
    last: (u64, i64),
    /// The last frame that counts: not of an unfinished batch or record.
    last_frame: LastFrame,
    /// Whether a manifest names it.
    pub(crate) published: bool,
    /// Whether a mark in it announces that a manifest is about to name it.
    is_announced: bool,
    /// Who writes, after which manifest, as its marks state.
    session: Session,
    checkpoints: Vec<PackFile>,
    /// The chunk checksums of the record that was appended last, as they are stored.
    sums: Vec<u8>,
}

/// Who writes, and the manifest that is the newest meanwhile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Session {
    pub(crate) after: Edition,
    pub(crate) writer: u32,
}

/// The parts of a record as they are appended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) key: &'a Key,
    pub(crate) attributes: &'a [u8],
    pub(crate) sequence: u64,
    pub(crate) time_ns: i64,
}

/// A record or deletion of a batch, already appended.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) key: Key,
    pub(crate) sequence: u64,
    pub(crate) time_ns: i64,
    /// Place and length of the body; `None` for a deletion.
    pub(crate) record: Option<(Place, u64)>,
    /// The version that dies by it.
    pub(crate) old: Option<At>,
    /// Its digest, for the checksum of the batch.
    pub(crate) digest: u32,
}

/// A record or deletion that was appended: its place, and its digest for the checksum of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Appended {
    pub(crate) place: Place,
    pub(crate) digest: u32,
}

impl Active {
    /// Makes the file of a new segment. Its name is durable after the next sync of the directory.
    pub(crate) fn create(
        storage: &dyn Storage,
        header: SegmentHeader,
        group: u32,
        session: Session,
    ) -> Result<Self> {
        let mut appender = storage.create(&PackFile::Segment(header.id).to_string())?;
        appender.append(&[&header.encode()])?;
        // By its header the segment is known as this pack's if the writer dies before anything
        // else.
        appender.flush()?;
        Ok(Self {
            salt: header.salt(),
            last: (header.sequence_first.saturating_sub(1), header.created_ns),
            last_frame: LastFrame::default(),
            header,
            group,
            appender,
            runs: Vec::new(),
            checkpointed_len: UNIT as u64,
            tail: Tail::default(),
            runs_tally: Tally::default(),
            durable_len: 0,
            promised_len: UNIT as u64,
            counted_len: UNIT as u64,
            mark_due: false,
            published: false,
            is_announced: false,
            session,
            checkpoints: Vec::new(),
            sums: Vec::new(),
        })
    }

    /// Continues an unsealed segment; a torn tail is cut off.
    pub(crate) fn reopen(
        storage: &dyn Storage,
        segment: Segment,
        reader: &Reader,
        session: Session,
    ) -> Result<Self> {
        let mut appender = storage.open_append(&PackFile::Segment(segment.entry.id).to_string())?;
        if appender.len() < segment.frames_end {
            return Err(Error::Invalid(format!(
                "{} became shorter while it was being opened",
                segment.source.path().display()
            )));
        }
        if appender.len() > segment.frames_end {
            appender.truncate(segment.frames_end)?;
            appender.sync()?;
        }
        appender.rewrite(segment.durable_len.min(segment.frames_end))?;
        let mut active = Self {
            header: segment.header,
            salt: segment.salt,
            group: segment.entry.group,
            last: (segment.tally.sequence_last, segment.tally.time_last_ns),
            last_frame: segment.last_frame,
            durable_len: 0,
            promised_len: segment.frames_end,
            counted_len: segment.frames_end,
            // A mark states who writes what follows, and after which manifest.
            mark_due: true,
            published: true,
            is_announced: true,
            session,
            appender,
            runs: Vec::new(),
            checkpointed_len: segment.checkpointed_len,
            tail: Tail::default(),
            runs_tally: Tally::default(),
            checkpoints: Vec::new(),
            sums: Vec::new(),
        };
        for run in segment.runs {
            if run.frames.start() < segment.checkpointed_len {
                active.checkpoints.push(PackFile::Checkpoint(active.header.id, run.frames.start()));
                active.runs_tally.join(&run.tally);
                active.runs.push(run);
            } else {
                active.take_tail(&run, reader)?;
            }
        }
        Ok(active)
    }

    /// The tail of a reopened segment becomes one that can grow.
    fn take_tail(&mut self, run: &Run, reader: &Reader) -> Result<()> {
        self.tail = Tail::from_run(run, reader)?;
        Ok(())
    }

    /// Whether its index uses a checkpoint.
    pub(crate) fn has_checkpoint(&self, name: &PackFile) -> bool {
        self.checkpoints.contains(name)
    }

    /// End of its frames.
    pub(crate) fn len(&self) -> u64 {
        self.appender.len()
    }

    /// Where what counts of it ends. After a failed sync nothing counts that was put since the
    /// last.
    pub(crate) fn counted_len(&self) -> u64 {
        self.counted_len
    }

    /// A frame that counts was appended to its end.
    fn count(&mut self, (offset, crc): (u64, u32)) {
        self.last_frame = LastFrame { offset, crc, ..self.last_frame };
        self.counted_len = self.len();
    }

    /// Its records.
    pub(crate) fn tally(&self) -> Tally {
        let mut tally = self.runs_tally;
        tally.join(&self.tail.tally);
        tally
    }

    /// Whether something in it is not known to be on the medium.
    pub(crate) fn is_dirty(&self) -> bool {
        self.durable_len < self.appender.len()
    }

    /// Whether this many bytes or more follow the last checkpoint, or fewer while no manifest names
    /// the segment.
    pub(crate) fn checkpoint_due(&self, checkpoint_len: u64) -> bool {
        let due_len = if self.published { checkpoint_len } else { checkpoint_len.min(UNNAMED_LEN) };
        self.len() - self.checkpointed_len >= due_len
    }

    /// Makes all of it visible to who reads the file.
    pub(crate) fn flush(&mut self) -> Result<()> {
        Ok(self.appender.flush()?)
    }

    /// Waits until all of it is on the medium, which is promised then.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.make_durable()?;
        self.promised_len = self.durable_len;
        Ok(())
    }

    /// Waits until all of it is on the medium. Nothing is promised: the generation that is to name
    /// it may yet fail.
    pub(crate) fn make_durable(&mut self) -> Result<()> {
        if self.is_dirty() {
            self.appender.sync().inspect_err(|_| self.counted_len = self.promised_len)?;
            self.durable_len = self.appender.len();
            self.mark_due |= self.durable_len > UNIT as u64;
        }
        Ok(())
    }

    /// Everything before this was acknowledged, or may have been.
    pub(crate) fn promised_len(&self) -> u64 {
        self.promised_len
    }

    /// Notes that a manifest names it as it is now. What follows is marked as written after that
    /// one.
    pub(crate) fn go_on_after(&mut self, edition: Edition) {
        self.promised_len = self.durable_len;
        self.published = true;
        self.session.after = edition;
        self.mark_due = true;
    }

    /// Says how far the segment is durable, and after which manifest what follows is written, if
    /// that is news: the first frame after each sync and each manifest.
    fn mark(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.mark_due) {
            return Ok(());
        }
        self.append_mark(self.durable_len)
    }

    fn append_mark(&mut self, durable_len: u64) -> Result<()> {
        let Session { after, writer } = self.session;
        let attributes = SyncMark { durable_len, after, writer }.encode();
        self.append_without_key(FrameKind::SyncMark, &attributes, self.last)?;
        self.last_frame.mark_crc = self.last_frame.crc;
        Ok(())
    }

    /// Writes a mark that a manifest is about to name the segment. If no manifest names it, the
    /// mark shows whether one may have done so, and thus whether its contents were ever
    /// acknowledged.
    pub(crate) fn announce(&mut self) -> Result<()> {
        if self.published || self.is_announced {
            return Ok(());
        }
        self.is_announced = true;
        self.append_mark(0)
    }

    fn append_without_key(&mut self, kind: FrameKind, attributes: &[u8], last: (u64, i64)) -> Result<()> {
        let header = FrameHeader {
            live: true,
            kind,
            in_batch: false,
            key_kind: 0,
            key_len: 0,
            attributes_len: attributes.len() as u16,
            body: BodyLen::Known(0),
            sequence: last.0,
            time_ns: last.1,
            crc: 0,
        };
        let offset = self.len();
        let fixed = header.encode(&self.salt, offset, &[], attributes);
        let len = fixed.len() + attributes.len();
        let padding = PADDING.get(..len.next_multiple_of(8) - len).unwrap_or_default();
        self.appender.append(&[&fixed, attributes, padding])?;
        self.count((offset, crc_of(&fixed)));
        Ok(())
    }

    /// Appends the header of a record, perhaps of a batch, and returns the offset of its frame and
    /// its header checksum.
    pub(crate) fn append_head(
        &mut self,
        in_batch: bool,
        parts: Parts<'_>,
        body: BodyLen,
    ) -> Result<(u64, u32)> {
        self.mark()?;
        let offset = self.len();
        let stored = parts.key.stored();
        let fixed = self.head_bytes((FrameKind::Record, in_batch), parts, body, offset);
        let crc = crc_of(&fixed);
        self.appender.append(&[&fixed, stored.as_ref(), parts.attributes])?;
        Ok((offset, crc))
    }

    /// Appends a whole record, its plain chunk checksums given, and takes it into the index.
    pub(crate) fn append_record(&mut self, parts: Parts<'_>, body: &[u8], sums: &[u8]) -> Result<()> {
        let Appended { place, .. } = self.append_whole(FrameKind::Record, false, parts, &[body, sums])?;
        self.note(parts, place, body.len() as u64);
        Ok(())
    }

    /// Appends the deletion of a key.
    pub(crate) fn append_deletion(&mut self, parts: Parts<'_>) -> Result<()> {
        self.append_whole(FrameKind::Deletion, false, parts, &[])?;
        self.last = (parts.sequence, parts.time_ns);
        Ok(())
    }

    /// Appends a record (body and plain chunk checksums) or a deletion of a batch. It is not taken
    /// into the index before the batch has its end.
    pub(crate) fn append_member(
        &mut self,
        kind: FrameKind,
        parts: Parts<'_>,
        body_and_sums: &[&[u8]],
    ) -> Result<Appended> {
        self.check_room()?;
        self.append_whole(kind, true, parts, body_and_sums)
    }

    /// Ends a batch of these members, and takes them into the index.
    pub(crate) fn end_batch(&mut self, members: &[Member]) -> Result<()> {
        let Some(last) = members.last() else { return Ok(()) };
        let mut sum = BatchSum::default();
        members.iter().for_each(|member| sum.add(member.sequence, member.digest));
        let attributes = sum.end().encode();
        self.append_without_key(FrameKind::BatchEnd, &attributes, (last.sequence, last.time_ns))?;
        for member in members {
            let (sequence, time_ns) = (member.sequence, member.time_ns);
            if let Some((place, body_len)) = member.record {
                self.tail.add(member.key.sort_form(), place, body_len, sequence, time_ns);
            }
            self.last = (sequence, time_ns);
        }
        Ok(())
    }

    fn append_whole(
        &mut self,
        kind: FrameKind,
        in_batch: bool,
        parts: Parts<'_>,
        body_and_sums: &[&[u8]],
    ) -> Result<Appended> {
        self.mark()?;
        let offset = self.len();
        let stored = parts.key.stored();
        let (body, sums) = match body_and_sums {
            [body, sums] => (*body, *sums),
            _ => (&[][..], &[][..]),
        };
        let fixed = self.head_bytes((kind, in_batch), parts, BodyLen::Known(body.len() as u64), offset);
        let len = HEADER_LEN + stored.as_ref().len() + parts.attributes.len() + body.len() + sums.len();
        let padding = PADDING.get(..len.next_multiple_of(8) - len).unwrap_or_default();
        self.sums.clear();
        self.salt.bind_all(sums, parts.sequence, &mut self.sums);
        self.appender.append(&[&fixed, stored.as_ref(), parts.attributes, body, &self.sums, padding])?;
        let crc = crc_of(&fixed);
        let digest = if in_batch { digest_more(digest(crc), &self.sums) } else { 0 };
        if !in_batch {
            self.count((offset, crc));
        }
        let place = Place::new(offset, self.len() - offset).with(EntryContent::of(parts.attributes));
        Ok(Appended { place, digest })
    }

    /// Appends bytes of a record's body as they come.
    pub(crate) fn append_raw(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.check_room()?;
        Ok(self.appender.append(parts)?)
    }

    /// Appends zeros of a record's body.
    pub(crate) fn append_zeros(&mut self, len: u64) -> Result<()> {
        self.check_room_for(len)?;
        Ok(self.appender.append_zeros(len)?)
    }

    fn check_room(&self) -> Result<()> {
        self.check_room_for(0)
    }

    /// The index must fit after the frames.
    fn check_room_for(&self, len: u64) -> Result<()> {
        let (found, limit) = (self.len().saturating_add(len), SEGMENT_LEN_MAX - INDEX_ROOM);
        if found > limit {
            return Err(Error::Limit { what: "the length of a segment in bytes", found, limit });
        }
        Ok(())
    }

    /// Fills the frame that was begun at `offset` up to a multiple of 8.
    pub(crate) fn end_frame(&mut self, offset: u64) -> Result<Place> {
        let padding = self.len().next_multiple_of(8) - self.len();
        self.appender.append(&[PADDING.get(..padding as usize).unwrap_or_default()])?;
        Ok(Place::new(offset, self.len() - offset))
    }

    /// The same, and takes the record into the index.
    pub(crate) fn end_record(&mut self, parts: Parts<'_>, frame: (u64, u32), body_len: u64) -> Result<Place> {
        let place = self.end_frame(frame.0)?.with(EntryContent::of(parts.attributes));
        self.count(frame);
        self.note(parts, place, body_len);
        Ok(place)
    }

    /// Takes back a record or a batch that was begun at `offset` and never finished.
    pub(crate) fn abandon(&mut self, offset: u64) -> Result<()> {
        Ok(self.appender.truncate(offset)?)
    }

    fn head_bytes(
        &self,
        (kind, in_batch): (FrameKind, bool),
        parts: Parts<'_>,
        body: BodyLen,
        offset: u64,
    ) -> [u8; HEADER_LEN] {
        let stored = parts.key.stored();
        let header = FrameHeader {
            live: true,
            kind,
            in_batch,
            key_kind: parts.key.kind(),
            key_len: stored.as_ref().len() as u16,
            attributes_len: parts.attributes.len() as u16,
            body,
            sequence: parts.sequence,
            time_ns: parts.time_ns,
            crc: 0,
        };
        header.encode(&self.salt, offset, stored.as_ref(), parts.attributes)
    }

    fn note(&mut self, parts: Parts<'_>, place: Place, body_len: u64) {
        self.tail.add(parts.key.sort_form(), place, body_len, parts.sequence, parts.time_ns);
        self.last = (parts.sequence, parts.time_ns);
    }

    /// The places of all versions of a key, newest first.
    pub(crate) fn versions(&self, form: &[u8], reader: &Reader) -> Result<Vec<Place>> {
        let mut places: Vec<Place> = self.tail.versions(form).collect();
        for run in self.runs.iter().rev() {
            places.extend(run.versions(form, reader)?);
        }
        Ok(places)
    }

    /// Leaves an index of the tail beside the segment, so that it need not be scanned again. The
    /// segment is synced first; the checkpoint counts once a manifest commits that length, and
    /// nothing is promised before.
    pub(crate) fn checkpoint(&mut self, storage: &dyn Storage) -> Result<()> {
        self.make_durable()?;
        let frames = ByteRange::new(self.checkpointed_len, self.len()).unwrap_or_default();
        if frames.is_empty() {
            return Ok(());
        }
        // A span of deletions has no record.
        let index = self.tail.encode(self.salt.crc).unwrap_or_else(|| EncodedIndex::empty(self.salt.crc));
        let tally = self.tail.tally;
        let name = PackFile::Checkpoint(self.header.id, frames.start());
        let covered = Covered { frames, tally, last_frame: self.last_frame };
        let bytes = index_file(&self.header, &index, covered, FooterKind::Checkpoint, 0);
        match storage.publish_if_absent(&name.to_string(), &bytes) {
            // Left by a writer that died before it could commit the length: this one covers more.
            Err(crate::Error::AlreadyExists { .. }) => {
                storage.unlink(&name.to_string())?;
                storage.publish_if_absent(&name.to_string(), &bytes)?;
            }
            other => other?,
        }
        self.checkpoints.push(name);
        let run = Run::in_memory(index, frames, tally, self.salt.crc);
        self.runs
            .push(run.map_err(|invalid| Error::Invalid(format!("an index just made: {}", invalid.what)))?);
        self.runs_tally.join(&tally);
        self.tail = Tail::default();
        self.checkpointed_len = frames.end();
        Ok(())
    }

    /// Ends the segment in its index, durably. Returns its entry for the next manifest, the range
    /// of its index, and the checkpoints that are no longer needed once that manifest is published.
    pub(crate) fn seal(&mut self, reader: &Reader) -> Result<(SegmentEntry, Vec<PackFile>)> {
        self.make_durable()?;
        let frames = ByteRange::new(UNIT as u64, self.len()).unwrap_or_default();
        let tally = self.tally();
        let tail = self.tail.to_run(frames, self.salt.crc)?;
        let index = match (tail, self.runs.is_empty()) {
            (Some(_), true) => self.tail.encode(self.salt.crc),
            (tail, _) => merge(self.runs.iter().chain(tail.as_ref()), reader, self.salt.crc)?,
        };
        let index = index.unwrap_or_else(|| EncodedIndex::empty(self.salt.crc));
        let base = self.len().next_multiple_of(UNIT as u64);
        let padding = vec![0; (base - self.len()) as usize];
        let covered = Covered { frames, tally, last_frame: self.last_frame };
        let bytes = index_file(&self.header, &index, covered, FooterKind::Sealed, base);
        self.appender.append(&[&padding, &bytes])?;
        self.appender.sync()?;
        let entry = SegmentEntry {
            committed_len: self.len(),
            frames_end: frames.end(),
            state: SegmentState::Sealed,
            ..self.entry()
        };
        Ok((entry, std::mem::take(&mut self.checkpoints)))
    }

    /// Its entry for the next manifest; the caller has synced it.
    pub(crate) fn entry(&self) -> SegmentEntry {
        SegmentEntry {
            id: self.header.id,
            nonce: self.header.nonce,
            group: self.group,
            state: SegmentState::Active,
            committed_len: self.len(),
            frames_end: self.len(),
            tally: self.tally(),
            last_frame: self.last_frame,
            dead_records: 0,
            dead_bytes: 0,
            vector: None,
            form: self.header.form(),
        }
    }
}

/// The checksum of a header that was just made.
pub(super) fn crc_of(fixed: &[u8; HEADER_LEN]) -> u32 {
    stored_crc(fixed).unwrap_or_default()
}

/// The range that an index covers.
pub(super) struct Covered {
    pub(super) frames: ByteRange,
    pub(super) tally: Tally,
    pub(super) last_frame: LastFrame,
}

/// Index pages, top and footer over frames and their records, as they follow at offset `base` of a
/// file.
pub(super) fn index_file(
    header: &SegmentHeader,
    index: &EncodedIndex,
    covered: Covered,
    kind: FooterKind,
    base: u64,
) -> Vec<u8> {
    let Covered { frames, tally, last_frame } = covered;
    let pages = ByteRange::at(base, index.pages.len() as u64).unwrap_or_default();
    let top = ByteRange::at(pages.end(), index.top.len() as u64).unwrap_or_default();
    let filter = ByteRange::at(top.end(), 0).unwrap_or_default();
    let (nonce, segment) = (header.nonce, header.id);
    let footer = Footer { kind, nonce, segment, frames, index: pages, top, filter, tally, last_frame };
    [index.pages.as_slice(), &index.top, &footer.encode()].concat()
}
