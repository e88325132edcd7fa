//! Reads a span of frames without an index: the tail of an active segment, or a sealed segment
//! whose index is damaged.

use std::path::Path;

use crate::extent::ByteRange;
use crate::pack::damages::Damages;
use crate::pack::error::{Damage, Result};
use crate::pack::format::batch::BatchSum;
use crate::pack::format::footer::{LastFrame, Tally};
use crate::pack::format::frame::{BodyLen, FrameHeader, FrameKind};
use crate::pack::format::index::{EntryContent, Place};
use crate::pack::format::mark::{Edition, SyncMark};
use crate::pack::index::run::Run;
use crate::pack::index::tail::Tail;
use crate::pack::key::Key;
use crate::pack::read::frames::{Frames, Step, Trouble};

/// What a writer had not yet made durable when it died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// Id of the segment.
    pub segment: u64,
    /// Where it begins; everything before is whole.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// A record or a deletion after the committed length: what it overwrote is in no manifest yet.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) form: Box<[u8]>,
    /// `None` for a deletion.
    pub(crate) place: Option<Place>,
    pub(crate) sequence: u64,
    pub(crate) time_ns: i64,
}

/// The result of a recovery.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// Where it began.
    pub(crate) start: u64,
    /// Index of the records, in spans; that of the last is not encoded yet.
    pub(crate) runs: Vec<Run>,
    pub(crate) tail: Tail,
    /// Records and deletions after the committed length, in order.
    pub(crate) fresh: Vec<Fresh>,
    /// The longest durable length according to a sync mark; 0 if there is none.
    pub(crate) durable_len: u64,
    /// End of the intact frames.
    pub(crate) frames_end: u64,
    /// The last frame before it, and the last that ends at or below the committed length; frames of
    /// a batch without its end do not count.
    pub(crate) last_frame: LastFrame,
    pub(crate) last_committed: LastFrame,
    /// The manifest after which the frames beyond the committed length were written, according to
    /// the last mark there.
    pub(crate) written_after: Option<Edition>,
    /// Where frames begin that were not written after the current manifest, if there are any.
    pub(crate) beyond: Option<Beyond>,
    /// What follows it, if it was never durable.
    pub(crate) torn: Option<TornTail>,
    /// What should be there and is not.
    pub(crate) damages: Damages,
    /// The first damaged frame whose key is not even known.
    pub(crate) doubt: Option<Damage>,
    /// Whether the index may lack something: not all damage is records whose keys, places and
    /// lengths are known.
    pub(crate) unlisted: bool,
    /// The batch whose end was not reached yet.
    pub(crate) batch: Option<OpenBatch>,
    /// The next frames may be the rest of a batch that began in an unreadable part.
    pub(crate) follows_damage: bool,
}

/// Frames beyond the committed length that were written after a manifest other than the one being
/// read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beyond {
    pub(crate) offset: u64,
    /// That manifest; `None` if it is not known.
    pub(crate) after: Option<Edition>,
}

/// A span of frames, and facts about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecoverySpan<'a> {
    /// Id of the segment.
    pub(crate) segment: u64,
    /// Its file.
    pub(crate) path: &'a Path,
    /// The last frame before the span.
    pub(crate) last_frame: LastFrame,
    /// Everything below was committed.
    pub(crate) committed_len: u64,
    /// Frames beyond it count if they were written after this manifest; `None` if all of them
    /// count.
    pub(crate) edition: Option<Edition>,
    /// An index is encoded for every this many bytes.
    pub(crate) run_len: u64,
}

/// Walks from the position of `frames` to its end. Unreadable data below `committed_len`, or below
/// a length that a later sync mark vouches for, is damage; otherwise it is a torn tail.
///
/// This does not use [`Frames::visit`]: it may end before an intact frame, it goes back to a frame
/// once a batch is given up, and what follows the damage decides where it ends.
pub(crate) fn recover(frames: &mut Frames, span: RecoverySpan<'_>) -> Result<Recovered> {
    let RecoverySpan { segment, path, last_frame, committed_len, run_len, .. } = span;
    let mut found = Recovered {
        start: frames.window.pos(),
        last_frame,
        last_committed: last_frame,
        ..Recovered::default()
    };
    loop {
        let broken = match frames.step()? {
            Step::End => {
                let end = frames.window.pos();
                found.end_at(end, end, segment);
                return Ok(found);
            }
            Step::Frame => match frames.finish_frame() {
                Ok(body_len) => {
                    let frame = frames.head().offset;
                    if found.ends_before(frames, &span) {
                        return Ok(found);
                    }
                    let Some(foreign) = found.take_foreign(frames) else {
                        found.take(frames, body_len, committed_len);
                        found.note_last(frames, committed_len);
                        found.end_run(frames, run_len)?;
                        continue;
                    };
                    if !vouched_for(frames, foreign.batch.offset)? {
                        found.end_at(foreign.batch.offset, frames.window.end(), segment);
                        return Ok(found);
                    }
                    found.judge(foreign, path);
                    // Once more, now that nothing is open.
                    frames.window.seek(frame)?;
                    continue;
                }
                Err(Trouble::Failed(error)) => return Err(error),
                Err(Trouble::Broken(broken)) => broken,
            },
            Step::Invalid(broken) => broken,
        };
        let at = broken.frame;
        // Its header was whole when its key is known.
        let header = broken.key.clone().map(|key| (key, frames.head().header));
        // No writer leaves unreadable bytes: that is not the end of what a writer wrote.
        if at >= committed_len && !broken.unreadable && !vouched_for(frames, at)? {
            found.end_at(at, frames.window.end(), segment);
            return Ok(found);
        }
        let next = broken.next;
        found.note_broken(broken.into_damage(path), header.as_ref().map(|(_, header)| header));
        found.unlisted |= at >= committed_len;
        let goes_on = frames.skip_past_damage(at, next, &mut |_| true)?;
        let end = if goes_on { frames.window.pos() } else { frames.window.end() };
        if let Some((key, header)) = header {
            found.add_broken(key, &header, Place::new(at, (end - at) / 8 * 8), committed_len);
        }
        if !goes_on {
            found.end_at(end, end, segment);
            return Ok(found);
        }
    }
}

/// A record or a deletion, from its frame.
#[derive(Debug)]
struct RecoveredMember {
    key: Key,
    sequence: u64,
    time_ns: i64,
    /// Place and length of the body; `None` for a deletion.
    record: Option<(Place, u64)>,
}

/// The part of a batch after the committed length that was found before its end.
#[derive(Debug)]
pub(crate) struct OpenBatch {
    offset: u64,
    members: Vec<RecoveredMember>,
    sum: BatchSum,
    /// Not all of it could be read, and all of it had been durable: its end may be lost.
    is_hurt: bool,
    /// The frames before it could not be read: its beginning may be lost.
    follows_damage: bool,
}

/// A batch that does not match its end frame, or has none.
struct Foreign {
    batch: OpenBatch,
    what: String,
}

impl Recovered {
    /// All records.
    pub(crate) fn tally(&self) -> Tally {
        let mut tally = self.tail.tally;
        self.runs.iter().for_each(|run| tally.join(&run.tally));
        tally
    }

    /// Encodes the index of the frames since the last call, if there are enough.
    fn end_run(&mut self, frames: &Frames, run_len: u64) -> Result<()> {
        let start = self.runs.last().map_or(self.start, |run| run.frames.end());
        let range = ByteRange::new(start, frames.window.pos()).unwrap_or_default();
        if range.len() >= run_len && self.batch.is_none() {
            let tail = std::mem::take(&mut self.tail);
            self.runs.extend(tail.to_run(range, frames.salt().crc)?);
        }
        Ok(())
    }

    /// Removes the open batch if the current intact frame is not its end and cannot be in it.
    fn take_foreign(&mut self, frames: &Frames) -> Option<Foreign> {
        let head = frames.head();
        let batch = self.batch.as_ref().filter(|batch| !batch.is_hurt)?;
        let what = match head.header.kind {
            FrameKind::BatchEnd => batch.sum.verify(&head.attributes).err()?,
            FrameKind::Record | FrameKind::Deletion if !head.header.in_batch => "a batch has no end".into(),
            _ => return None,
        };
        self.batch.take().map(|batch| Foreign { batch, what })
    }

    /// What becomes of a batch that had been durable and is not what its end speaks of.
    fn judge(&mut self, foreign: Foreign, path: &Path) {
        let Foreign { batch, what } = foreign;
        if batch.follows_damage {
            return self.list_all(batch);
        }
        self.unlisted = true;
        let what = format!("{what}: the records of this batch do not count");
        self.damages.push(Damage {
            file: path.to_path_buf(),
            offset: batch.offset,
            key: None,
            what,
            cause: None,
        });
    }

    /// Takes an intact frame, with which an open batch may continue or end.
    fn take(&mut self, frames: &Frames, body_len: Option<u64>, committed_len: u64) {
        let head = frames.head();
        self.durable_len = self.durable_len.max(marked_len(frames).unwrap_or(0));
        if head.header.kind == FrameKind::BatchEnd {
            return self.end_batch();
        }
        let Some(key) = head.key() else { return };
        let place = Place::new(head.offset, frames.window.pos() - head.offset);
        let record = body_len.map(|len| (place.with(EntryContent::of(&head.attributes)), len));
        // A record that was abandoned is none.
        if record.is_some() || head.header.kind == FrameKind::Deletion {
            let (sequence, time_ns) = (head.header.sequence, head.header.time_ns);
            let member = RecoveredMember { key, sequence, time_ns, record };
            let digest = head.header.in_batch.then(|| frames.digest());
            self.add(member, head.offset, digest, committed_len);
        }
    }

    /// Ends before a frame that is whole, or before its batch, if it was not written after the
    /// manifest that is read.
    fn ends_before(&mut self, frames: &Frames, span: &RecoverySpan<'_>) -> bool {
        self.beyond = self.ask_beyond(frames, span);
        if let Some(Beyond { offset, .. }) = self.beyond {
            self.end_at(offset, offset, span.segment);
        }
        self.beyond.is_some()
    }

    /// Checks whether an intact frame was written after the manifest being read: the first frame
    /// after the committed length is a mark that says so, and so is the first after each later
    /// manifest.
    fn ask_beyond(&mut self, frames: &Frames, span: &RecoverySpan<'_>) -> Option<Beyond> {
        let head = frames.head();
        let edition = span.edition.filter(|_| head.offset >= span.committed_len)?;
        self.written_after = mark_of(frames).map(|mark| mark.after).or(self.written_after);
        // A batch is checked at its end, if it has one. Damage, which may have destroyed a mark, is
        // reported separately.
        let is_open = head.header.in_batch || head.header.kind == FrameKind::Filler;
        let is_unknown = self.written_after.is_none() && !self.damages.is_empty();
        if is_open || is_unknown || self.written_after == Some(edition) {
            return None;
        }
        let offset = self.batch.as_ref().map_or(head.offset, |batch| batch.offset);
        Some(Beyond { offset, after: self.written_after })
    }

    /// Notes that the current frame is the last so far that counts.
    fn note_last(&mut self, frames: &Frames, committed_len: u64) {
        let LastFrame { mark_crc, .. } = self.last_frame;
        let FrameHeader { kind, crc, .. } = frames.head().header;
        if self.batch.is_none() {
            let mark_crc = if kind == FrameKind::SyncMark { crc } else { mark_crc };
            self.last_frame = LastFrame { offset: frames.head().offset, crc, mark_crc };
        }
        if frames.window.pos() <= committed_len {
            self.last_committed = self.last_frame;
        }
    }

    /// Notes a damaged frame, and its header, if that is intact.
    fn note_broken(&mut self, damage: Damage, header: Option<&FrameHeader>) {
        if header.is_none() {
            self.doubt.get_or_insert_with(|| damage.clone());
        }
        self.unlisted |= !header.is_some_and(|header| matches!(header.body, BodyLen::Known(_)));
        self.damages.push(damage);
        match &mut self.batch {
            Some(batch) => batch.is_hurt = true,
            None => self.follows_damage = true,
        }
    }

    /// A record with a damaged body is listed too: a get of its key returns the damage, not the
    /// version before it.
    fn add_broken(&mut self, key: Key, header: &FrameHeader, place: Place, committed_len: u64) {
        let body_len = match header.body {
            BodyLen::Known(len) => len,
            BodyLen::Framed => 0,
        };
        let record = (header.kind == FrameKind::Record).then_some((place, body_len));
        let (sequence, time_ns) = (header.sequence, header.time_ns);
        let member = RecoveredMember { key, sequence, time_ns, record };
        match &mut self.batch {
            Some(batch) if header.in_batch => batch.members.push(member),
            _ => self.list(member, place.offset, committed_len),
        }
    }

    /// Adds the member from a frame at `offset`; members of a batch have a digest.
    fn add(&mut self, member: RecoveredMember, offset: u64, digest: Option<u32>, committed_len: u64) {
        // Below the committed length every batch had its end.
        let Some(digest) = digest.filter(|_| offset >= committed_len) else {
            self.end_batch();
            return self.list(member, offset, committed_len);
        };
        let follows_damage = self.follows_damage;
        let batch = self.batch.get_or_insert_with(|| OpenBatch {
            offset,
            members: Vec::new(),
            sum: BatchSum::default(),
            is_hurt: false,
            follows_damage,
        });
        batch.sum.add(member.sequence, digest);
        batch.members.push(member);
    }

    /// An open batch has its end, or had been durable.
    fn end_batch(&mut self) {
        self.follows_damage = false;
        if let Some(batch) = self.batch.take() {
            self.list_all(batch);
        }
    }

    fn list_all(&mut self, batch: OpenBatch) {
        // All of them are after the committed length.
        batch.members.into_iter().for_each(|member| self.list(member, u64::MAX, 0));
    }

    /// Ends the intact frames at `frames_end`, and the bytes at `end`.
    fn end_at(&mut self, frames_end: u64, end: u64, segment: u64) {
        let unfinished = match self.batch.take() {
            Some(batch) if batch.is_hurt => {
                self.list_all(batch);
                None
            }
            batch => batch.map(|batch| batch.offset),
        };
        self.frames_end = unfinished.unwrap_or(frames_end);
        let len = end - self.frames_end;
        self.torn = (len > 0).then_some(TornTail { segment, offset: self.frames_end, len });
    }

    fn list(&mut self, member: RecoveredMember, offset: u64, committed_len: u64) {
        let RecoveredMember { key, sequence, time_ns, record } = member;
        let form = key.sort_form();
        if let Some((place, body_len)) = record {
            self.tail.add(form, place, body_len, sequence, time_ns);
        }
        if offset >= committed_len {
            let place = record.map(|(place, _)| place);
            self.fresh.push(Fresh { form: form.into(), place, sequence, time_ns });
        }
    }
}

/// Whether a sync mark after `at` says that `at` was durable. Unlike [`Frames::visit`], this does
/// not skip damage by the lengths that frames state: anything may follow a torn tail.
fn vouched_for(frames: &mut Frames, at: u64) -> Result<bool> {
    let mut stands = frames.resync(at.saturating_add(8))?;
    while stands {
        stands = match frames.step()? {
            Step::End => false,
            Step::Invalid(broken) => frames.resync(broken.frame.saturating_add(8))?,
            Step::Frame if marked_len(frames).is_some_and(|len| len > at) => return Ok(true),
            // The length of a frame whose header is whole can be believed.
            Step::Frame => frames.skip_frame()? || frames.resync(frames.window.pos())?,
        };
    }
    Ok(false)
}

/// The contents of the current frame if it is a sync mark.
fn mark_of(frames: &Frames) -> Option<SyncMark> {
    let head = frames.head();
    let attributes = (head.header.kind == FrameKind::SyncMark).then_some(&head.attributes)?;
    SyncMark::decode(attributes).ok()
}

/// The length that a frame says was durable before it was written, if it is a sync mark.
fn marked_len(frames: &Frames) -> Option<u64> {
    let len = mark_of(frames)?.durable_len;
    (len <= frames.head().offset).then_some(len)
}
