//! Finds out what is in a stretch of frames that has no index: the tail of an active segment, or a sealed
//! segment whose index was hit.

use std::path::Path;

use super::error::{Damage, Result};
use super::format::frame::{BodyLen, FrameHeader, FrameKind};
use super::format::index::Place;
use super::frames::{Broken, Frames, Step, Trouble};
use super::key::Key;
use super::tail::Tail;

/// What a writer that died had not yet made durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// Id of the segment.
    pub segment: u64,
    /// Where it begins; everything before is whole.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// A record or a deletion behind the committed length: no manifest knows yet what it overwrote.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) form: Box<[u8]>,
    /// `None` for a deletion.
    pub(crate) place: Option<Place>,
    pub(crate) sequence: u64,
    pub(crate) time_ns: i64,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    /// Index of the records.
    pub(crate) tail: Tail,
    /// Those behind the committed length, in order.
    pub(crate) fresh: Vec<Fresh>,
    /// The longest length that a sync mark says was durable; 0 if there is none.
    pub(crate) durable_len: u64,
    /// End of what is whole.
    pub(crate) frames_end: u64,
    /// What follows it, if it was never durable.
    pub(crate) torn: Option<TornTail>,
    /// What should be there and is not.
    pub(crate) damages: Vec<Damage>,
    /// The batch whose end was not met yet.
    pub(crate) batch: Option<OpenBatch>,
}

/// Walks from where `frames` stands to its end. What cannot be read below `committed_len`, or below a length
/// that a later sync mark vouches for, is damage; else it is a torn tail.
pub(crate) fn recover(
    frames: &mut Frames,
    segment: u64,
    path: &Path,
    committed_len: u64,
) -> Result<Recovered> {
    let mut found = Recovered::default();
    loop {
        let broken = match frames.step()? {
            Step::End => {
                let end = frames.window.pos();
                found.end_at(end, end, segment);
                return Ok(found);
            }
            Step::Frame => match frames.finish_frame() {
                Ok(body_len) => {
                    found.take(frames, body_len, path, committed_len);
                    continue;
                }
                Err(Trouble::Source(error)) => return Err(error.into()),
                Err(Trouble::Broken(broken)) => broken,
            },
            Step::Invalid(broken) => broken,
        };
        let at = broken.frame;
        // Its header was whole when its key is known.
        let header = broken.key.clone().map(|key| (key, frames.head().header));
        // No writer leaves behind what cannot be read: that is not the end of what one wrote.
        if at >= committed_len && !broken.unreadable && !vouched_for(frames, at)? {
            found.end_at(at, frames.window.end(), segment);
            return Ok(found);
        }
        let next = broken.next;
        found.damages.push(broken.into_damage(path));
        if let Some(batch) = &mut found.batch {
            batch.is_hurt = true;
        }
        let goes_on = go_behind(frames, at, next)?;
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

/// A record or a deletion, as a frame told it.
#[derive(Debug)]
struct Member {
    key: Key,
    sequence: u64,
    time_ns: i64,
    /// Place and length of the body; `None` for a deletion.
    record: Option<(Place, u64)>,
}

/// What was found of a batch behind the committed length whose end was not met yet.
#[derive(Debug)]
pub(crate) struct OpenBatch {
    offset: u64,
    members: Vec<Member>,
    /// Not all of it could be read, and all of it had been durable: its end may be what is lost.
    is_hurt: bool,
}

impl OpenBatch {
    /// Whether the attributes of an end of batch speak of these members.
    fn is_whole(&self, attributes: &[u8]) -> bool {
        let number = |at: usize| {
            attributes.get(at..).and_then(|bytes| bytes.first_chunk::<8>()).map(|b| u64::from_le_bytes(*b))
        };
        let first = self.members.first().map(|member| member.sequence);
        number(0) == first && number(8) == Some(self.members.len() as u64)
    }
}

impl Recovered {
    /// Takes a frame that is whole.
    fn take(&mut self, frames: &Frames, body_len: Option<u64>, path: &Path, committed_len: u64) {
        let head = frames.head();
        self.durable_len = self.durable_len.max(marked_len(frames).unwrap_or(0));
        if head.header.kind == FrameKind::BatchEnd {
            return self.end_batch(Some(&head.attributes), path);
        }
        let Some(key) = head.key() else { return };
        let record = body_len.map(|len| (Place::new(head.offset, frames.window.pos() - head.offset), len));
        // A record that was abandoned is none.
        if record.is_some() || head.header.kind == FrameKind::Deletion {
            let (sequence, time_ns) = (head.header.sequence, head.header.time_ns);
            let member = Member { key, sequence, time_ns, record };
            self.add(member, head.offset, head.header.in_batch, path, committed_len);
        }
    }

    /// A record whose body is damaged is listed all the same: whoever asks for its key is told, and does not
    /// get the version before it.
    fn add_broken(&mut self, key: Key, header: &FrameHeader, place: Place, committed_len: u64) {
        let body_len = match header.body {
            BodyLen::Known(len) => len,
            BodyLen::Framed => 0,
        };
        let record = (header.kind == FrameKind::Record).then_some((place, body_len));
        let (sequence, time_ns) = (header.sequence, header.time_ns);
        let member = Member { key, sequence, time_ns, record };
        match &mut self.batch {
            Some(batch) if header.in_batch => batch.members.push(member),
            _ => self.list(member, place.offset, committed_len),
        }
    }

    fn add(&mut self, member: Member, offset: u64, in_batch: bool, path: &Path, committed_len: u64) {
        // Below the committed length every batch had its end.
        if !in_batch || offset < committed_len {
            self.end_batch(None, path);
            return self.list(member, offset, committed_len);
        }
        let batch =
            self.batch.get_or_insert_with(|| OpenBatch { offset, members: Vec::new(), is_hurt: false });
        batch.members.push(member);
    }

    /// Its end was found, with these attributes, or something that cannot be in it.
    fn end_batch(&mut self, attributes: Option<&[u8]>, path: &Path) {
        let Some(batch) = self.batch.take() else { return };
        if batch.is_hurt || attributes.is_some_and(|attributes| batch.is_whole(attributes)) {
            // They lie behind the committed length, all of them.
            batch.members.into_iter().for_each(|member| self.list(member, u64::MAX, 0));
            return;
        }
        let what = "a batch without its end: its records do not count".into();
        self.damages.push(Damage { file: path.to_path_buf(), offset: batch.offset, key: None, what });
    }

    /// What is whole ends at `frames_end`, and the bytes at `end`.
    fn end_at(&mut self, frames_end: u64, end: u64, segment: u64) {
        let unfinished = match self.batch.take() {
            Some(batch) if batch.is_hurt => {
                batch.members.into_iter().for_each(|member| self.list(member, u64::MAX, 0));
                None
            }
            batch => batch.map(|batch| batch.offset),
        };
        self.frames_end = unfinished.unwrap_or(frames_end);
        let len = end - self.frames_end;
        self.torn = (len > 0).then_some(TornTail { segment, offset: self.frames_end, len });
    }

    fn list(&mut self, member: Member, offset: u64, committed_len: u64) {
        let Member { key, sequence, time_ns, record } = member;
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

impl Broken {
    /// As it is told.
    pub(crate) fn into_damage(self, path: &Path) -> Damage {
        Damage { file: path.to_path_buf(), offset: self.offset, key: self.key, what: self.what }
    }
}

/// Goes on behind a broken frame: where it ends, if that is known and a frame is there, else at the next
/// frame to be found. `false` when there is none.
pub(crate) fn go_behind(frames: &mut Frames, at: u64, next: Option<u64>) -> Result<bool> {
    if let Some(next) = next.filter(|next| *next > at && *next <= frames.window.end()) {
        frames.window.seek(next)?;
        if next == frames.window.end() {
            return Ok(true);
        }
        if let Step::Frame = frames.step()? {
            frames.window.seek(next)?;
            return Ok(true);
        }
    }
    Ok(frames.resync(at.saturating_add(8))?)
}

/// Whether a sync mark behind `at` says that `at` had been durable.
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

/// The length that a frame says was durable before it was written, if it is a sync mark.
fn marked_len(frames: &Frames) -> Option<u64> {
    let head = frames.head();
    let len = head.attributes.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
    len.filter(|&len| head.header.kind == FrameKind::SyncMark && len <= head.offset)
}
