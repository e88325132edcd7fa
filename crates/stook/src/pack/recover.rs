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
                found.frames_end = frames.window.pos();
                return Ok(found);
            }
            Step::Frame => match frames.finish_frame() {
                Ok(body_len) => {
                    if let Some(body_len) = body_len {
                        found.add(frames, body_len, committed_len);
                    }
                    let head = frames.head();
                    if let Some(key) = head.key().filter(|_| head.offset >= committed_len) {
                        found.note_deletion(&key, &head.header);
                    }
                    found.durable_len = found.durable_len.max(marked_len(frames).unwrap_or(0));
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
        if at >= committed_len && !vouched_for(frames, at)? {
            let end = frames.window.end();
            found.frames_end = at;
            found.torn = Some(TornTail { segment, offset: at, len: end - at });
            return Ok(found);
        }
        let next = broken.next;
        found.damages.push(broken.into_damage(path));
        let goes_on = go_behind(frames, at, next)?;
        let end = if goes_on { frames.window.pos() } else { frames.window.end() };
        match header {
            Some((key, header)) if header.kind == FrameKind::Deletion && at >= committed_len => {
                found.note_deletion(&key, &header);
            }
            Some((key, header)) if header.kind == FrameKind::Record => {
                found.add_broken(&key, &header, Place::new(at, (end - at) / 8 * 8), committed_len);
            }
            _ => {}
        }
        if !goes_on {
            found.frames_end = end;
            return Ok(found);
        }
    }
}

impl Recovered {
    fn add(&mut self, frames: &Frames, body_len: u64, committed_len: u64) {
        let head = frames.head();
        let Some(key) = head.key() else { return };
        let place = Place::new(head.offset, frames.window.pos() - head.offset);
        let at = (head.header.sequence, head.header.time_ns);
        self.list(&key, place, at, body_len, committed_len);
    }
}

impl Recovered {
    /// A record whose body is damaged is listed all the same: whoever asks for its key is told, and does not
    /// get the version before it.
    fn add_broken(&mut self, key: &Key, header: &FrameHeader, place: Place, committed_len: u64) {
        let body_len = match header.body {
            BodyLen::Known(len) => len,
            BodyLen::Framed => 0,
        };
        self.list(key, place, (header.sequence, header.time_ns), body_len, committed_len);
    }

    fn list(&mut self, key: &Key, place: Place, at: (u64, i64), body_len: u64, committed_len: u64) {
        let (sequence, time_ns) = at;
        self.tail.add(key.sort_form(), place, body_len, sequence, time_ns);
        if place.offset >= committed_len {
            self.fresh.push(Fresh { form: key.sort_form().into(), place: Some(place), sequence, time_ns });
        }
    }

    /// Does nothing for a frame of another kind.
    fn note_deletion(&mut self, key: &Key, header: &FrameHeader) {
        if header.kind == FrameKind::Deletion {
            let (sequence, time_ns) = (header.sequence, header.time_ns);
            self.fresh.push(Fresh { form: key.sort_form().into(), place: None, sequence, time_ns });
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
