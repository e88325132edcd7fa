//! Finds out what is in a stretch of frames that has no index: the tail of an active segment, or a sealed
//! segment whose index was hit.

use std::path::Path;

use super::error::{Damage, Result};
use super::format::frame::FrameKind;
use super::format::index::Place;
use super::frames::{Broken, Frames, Step, Trouble};
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

/// A record behind the committed length: no manifest knows yet what it overwrote.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) form: Box<[u8]>,
    pub(crate) place: Place,
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
                    continue;
                }
                Err(Trouble::Source(error)) => return Err(error.into()),
                Err(Trouble::Broken(broken)) => broken,
            },
            Step::Invalid(broken) => broken,
        };
        let at = broken.frame;
        if at >= committed_len && !vouched_for(frames, at)? {
            let end = frames.window.end();
            found.frames_end = at;
            found.torn = Some(TornTail { segment, offset: at, len: end - at });
            return Ok(found);
        }
        let next = broken.next;
        found.damages.push(broken.into_damage(path));
        if !go_behind(frames, at, next)? {
            found.frames_end = frames.window.end();
            return Ok(found);
        }
    }
}

impl Recovered {
    fn add(&mut self, frames: &Frames, body_len: u64, committed_len: u64) {
        let head = frames.head();
        let Some(key) = head.key() else { return };
        let place = Place::new(head.offset, frames.window.pos() - head.offset);
        let (sequence, time_ns) = (head.header.sequence, head.header.time_ns);
        self.tail.add(key.sort_form(), place, body_len, sequence, time_ns);
        if head.offset >= committed_len {
            self.fresh.push(Fresh { form: key.sort_form().into(), place, sequence, time_ns });
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
    let mut from = at.saturating_add(8);
    while frames.resync(from)? {
        // Resync stands at a frame that was just verified.
        let Step::Frame = frames.step()? else { return Ok(false) };
        let head = frames.head();
        if head.header.kind == FrameKind::SyncMark
            && let Ok(durable_len) = <[u8; 8]>::try_from(head.attributes.as_slice())
            && u64::from_le_bytes(durable_len) > at
        {
            return Ok(true);
        }
        from = head.offset + 8;
    }
    Ok(false)
}
