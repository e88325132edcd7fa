//! Goes through the live records of a pack in the order in which they are on the medium.

use std::collections::VecDeque;

use super::error::{Damage, Error, Result};
use super::format::frame::{BodyLen, FrameHeader, FrameKind};
use super::frames::{BodySpan, Chunk, Frames, Head, Step, Trouble};
use super::key::Key;
use super::open::Pack;
use super::recover::go_behind;
use super::segment::Segment;
use super::stream::told;
use crate::engine::Access;

/// What to do when a record is not what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDamage {
    /// Stop with the error.
    #[default]
    Stop,
    /// Note it in [`Scan::damages`] and go on behind it.
    Skip,
}

/// Which records, and how.
#[derive(Debug, Clone, Default)]
pub struct ScanOptions {
    /// Only these groups; all if empty.
    pub groups: Vec<String>,
    /// What to do about damage.
    pub on_damage: OnDamage,
}

/// A walk over live records; made by [`Pack::scan`].
pub struct Scan<'p> {
    pack: &'p Pack,
    options: ScanOptions,
    segments: VecDeque<&'p Segment>,
    current: Option<(&'p Segment, Frames)>,
    damages: Vec<Damage>,
    /// A long body was handed out and may not have been read to its end.
    unfinished: bool,
    bytes_read: u64,
}

/// A record of a scan. Everything it shows has been verified.
pub struct ScanRecord<'a> {
    head: &'a Head,
    body: BodyState<'a>,
    segment: &'a Segment,
}

enum BodyState<'a> {
    Whole(&'a [u8]),
    Long,
}

/// What [`Scan::next`] stands at.
enum At {
    Whole(BodySpan),
    Long,
}

impl<'p> Scan<'p> {
    pub(super) fn new(pack: &'p Pack, options: ScanOptions) -> Self {
        let wanted = |segment: &&Segment| {
            options.groups.is_empty() || options.groups.iter().any(|group| group == pack.group_of(segment))
        };
        let segments = pack.snapshot.segments.iter().filter(wanted).collect();
        Self { pack, options, segments, current: None, damages: Vec::new(), unfinished: false, bytes_read: 0 }
    }

    /// Damage that was skipped so far.
    pub fn damages(&self) -> &[Damage] {
        &self.damages
    }

    /// Bytes of segments gone through so far, dead records and heads included.
    pub fn bytes_passed(&self) -> u64 {
        let current = self.current.as_ref();
        self.bytes_read
            + current.map_or(0, |(segment, frames)| frames.window.pos() - segment.frames().start())
    }

    /// The next live record; `None` after the last. A long body that was not read is stepped over.
    ///
    /// # Errors
    /// [`Error::Damaged`] unless damage is skipped, what reading meets.
    #[expect(clippy::should_implement_trait, reason = "a record lends from the scan, which no Iterator can")]
    pub fn next(&mut self) -> Result<Option<ScanRecord<'_>>> {
        let Some(at) = self.advance()? else { return Ok(None) };
        let Some((segment, frames)) = &self.current else { return Ok(None) };
        Ok(Some(match at {
            At::Whole(span) => {
                let (head, body) = frames.view(span);
                ScanRecord { head, body: BodyState::Whole(body), segment }
            }
            At::Long => ScanRecord { head: frames.head(), body: BodyState::Long, segment },
        }))
    }

    /// The next piece of the long body of the record that `next` gave; `None` after the last.
    ///
    /// # Errors
    /// As [`next`](Self::next), whatever is to be done about damage: what was handed out of the record is not
    /// all of it.
    pub fn next_chunk(&mut self) -> Result<Option<&[u8]>> {
        let current = self.current.as_mut().filter(|_| self.unfinished);
        let Some((segment, frames)) = current else { return Ok(None) };
        let segment = *segment;
        match frames.next_chunk() {
            Ok(Chunk::Bytes(span)) => Ok(self.current.as_ref().map(|(_, frames)| frames.view(span).1)),
            Ok(Chunk::End { counts, .. }) => {
                self.unfinished = false;
                debug_assert!(counts, "an abandoned record is in no index, and was not handed out");
                Ok(None)
            }
            Err(trouble) => Err(self.leave_record(segment, trouble)?),
        }
    }

    /// Goes behind a record whose body could not be read to its end, or ends the scan.
    fn leave_record(&mut self, segment: &Segment, trouble: Trouble) -> Result<Error> {
        self.unfinished = false;
        let goes_on = match (&trouble, &mut self.current) {
            (Trouble::Broken(broken), Some((_, frames))) if self.options.on_damage == OnDamage::Skip => {
                go_behind(frames, broken.frame, broken.next)?
            }
            _ => self.end(),
        };
        if !goes_on {
            self.close()?;
        }
        Ok(told(segment, trouble))
    }

    /// After an error that is not to be skipped there is nothing more to come.
    fn end(&mut self) -> bool {
        self.segments.clear();
        false
    }

    fn advance(&mut self) -> Result<Option<At>> {
        loop {
            if self.current.is_none() && !self.open_next()? {
                return Ok(None);
            }
            match self.step() {
                Ok(Some(at)) => return Ok(Some(at)),
                Ok(None) => {}
                Err(trouble) => self.meet(trouble)?,
            }
        }
    }

    fn open_next(&mut self) -> Result<bool> {
        let Some(segment) = self.segments.pop_front() else { return Ok(false) };
        let range = segment.frames();
        let access = match range.is_empty() {
            true => Access::Cached,
            false => self.pack.access.decide(segment.source.as_ref(), range),
        };
        let window = self.pack.reader.window(segment.source.clone(), range, access)?;
        self.current = Some((segment, Frames::new(window, segment.salt)));
        Ok(true)
    }

    fn close(&mut self) -> Result<()> {
        if let Some((segment, frames)) = self.current.take() {
            self.bytes_read += segment.frames().len();
            self.pack.reader.give_back(frames.window.into_engine()?);
        }
        Ok(())
    }

    /// One frame further: a live record, or nothing to show.
    fn step(&mut self) -> Result<Option<At>, Trouble> {
        let Some((segment, frames)) = &mut self.current else { return Ok(None) };
        if std::mem::take(&mut self.unfinished) && !frames.skip_frame()? {
            while let Chunk::Bytes(_) = frames.next_chunk()? {}
        }
        match frames.step()? {
            Step::End => {
                self.close().map_err(untold)?;
                Ok(None)
            }
            Step::Invalid(broken) => Err(Trouble::Broken(broken)),
            Step::Frame => {
                let FrameHeader { kind, live, .. } = frames.head().header;
                let counts =
                    kind == FrameKind::Record && live && !segment.deaths.contains_key(&frames.head().offset);
                if !counts {
                    if !frames.skip_frame()? {
                        frames.finish_frame()?;
                    }
                    return Ok(None);
                }
                if let Some(span) = frames.whole_body()? {
                    return Ok(Some(At::Whole(span)));
                }
                // Only the index knows at once whether a framed record was abandoned.
                let abandoned = frames.head().header.body == BodyLen::Framed
                    && !segment.lists(frames.head(), &self.pack.reader).map_err(untold)?;
                if abandoned {
                    frames.finish_frame()?;
                    return Ok(None);
                }
                frames.begin_body()?;
                self.unfinished = true;
                Ok(Some(At::Long))
            }
        }
    }

    /// Damage is noted and stepped over, or ends the scan.
    fn meet(&mut self, trouble: Trouble) -> Result<()> {
        let Some((segment, frames)) = &mut self.current else { return Ok(()) };
        let broken = match trouble {
            Trouble::Source(error) => {
                self.end();
                self.close()?;
                return Err(error.into());
            }
            Trouble::Broken(broken) => broken,
        };
        let (frame, next) = (broken.frame, broken.next);
        let damage = broken.into_damage(segment.source.path());
        if self.options.on_damage == OnDamage::Stop {
            self.end();
            self.close()?;
            return Err(Error::Damaged(damage));
        }
        self.damages.push(damage);
        if !go_behind(frames, frame, next)? {
            self.close()?;
        }
        Ok(())
    }
}

/// An error of something else than the frame at hand: never skipped as damage of a record.
fn untold(error: Error) -> Trouble {
    match error {
        Error::Core(error) => Trouble::Source(error),
        other => {
            Trouble::Source(crate::Error::io("read", "the index of a pack", std::io::Error::other(other)))
        }
    }
}

impl<'a> ScanRecord<'a> {
    /// The key.
    pub fn key(&self) -> Option<Key> {
        self.head.key()
    }

    /// The attributes, encoded.
    pub fn attributes(&self) -> &'a [u8] {
        &self.head.attributes
    }

    /// The whole body, or `None` when it is long: then [`Scan::next_chunk`] gives it in pieces.
    pub fn body(&self) -> Option<&'a [u8]> {
        match self.body {
            BodyState::Whole(body) => Some(body),
            BodyState::Long => None,
        }
    }

    /// The sequence number.
    pub fn sequence(&self) -> u64 {
        self.head.header.sequence
    }

    /// When it was put, ns.
    pub fn time_ns(&self) -> i64 {
        self.head.header.time_ns
    }

    /// Id of the segment it is in.
    pub fn segment(&self) -> u64 {
        self.segment.entry.id
    }

    /// Offset of its frame.
    pub fn offset(&self) -> u64 {
        self.head.offset
    }
}
