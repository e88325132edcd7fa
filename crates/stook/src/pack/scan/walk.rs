//! Walks the frames of a span of a segment, one after another.

use super::view::View;
use super::{OnDamage, RecordAt, Stop};
use crate::extent::ByteRange;
use crate::pack::damages::Damages;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::frame::{BodyLen, FrameKind};
use crate::pack::index::lost::Lost;
use crate::pack::key::Key;
use crate::pack::read::frames::{Broken, Chunk, Frames, Head, Step, Trouble};
use crate::pack::read::route::Route;
use crate::pack::scan::KeyRange;
use crate::pack::state::open::Pack;
use crate::pack::state::segment::{Life, Segment};

/// A span of a segment that begins and ends where frames do.
#[derive(Debug, Clone, Copy)]
pub(super) struct SegmentSpan<'p> {
    /// Number of the segment in the snapshot.
    pub(super) number: usize,
    pub(super) segment: &'p Segment,
    pub(super) range: ByteRange,
    /// Records up to the one with a frame at this offset are not to be handed out.
    pub(super) after: Option<u64>,
}

/// Which records a scan hands out, and what it does about damage.
#[derive(Debug, Clone)]
pub(super) struct ScanFilter {
    pub(super) keys: KeyRange,
    pub(super) view: View,
    pub(super) on_damage: OnDamage,
    pub(super) stop: Stop,
}

/// A walk over the live records of a span. This is no [`Frames::visit`]: records are asked for one
/// at a time, their bodies are lent out between two steps, and after damage no frame is believed
/// before the index confirms one.
pub(super) struct Walk<'p> {
    pack: &'p Pack,
    span: SegmentSpan<'p>,
    frames: Frames,
    /// A long body was handed out and may not have been read to its end.
    unfinished: bool,
    /// Damage was stepped over. What looks like a frame after it may be part of a body: the index
    /// decides.
    resynced: bool,
    /// Where the range of damage begins that the walk is in.
    lost_from: Option<(u64, bool)>,
    lost: Lost,
}

impl<'p> Walk<'p> {
    pub(super) fn new(pack: &'p Pack, span: SegmentSpan<'p>) -> Result<Self> {
        let SegmentSpan { segment, range, after, .. } = span;
        let from = after.unwrap_or(range.start()).clamp(range.start(), range.end());
        let range = ByteRange::new(from, range.end()).unwrap_or_default();
        let route = Route::new(pack.access, segment.source.as_ref(), range);
        let frames = pack.reader.frames(&segment.source, segment.salt, range, route)?;
        Ok(Self {
            pack,
            span,
            frames,
            unfinished: false,
            resynced: false,
            lost_from: None,
            lost: Lost::default(),
        })
    }

    pub(super) fn close(self) -> Result<()> {
        self.pack.reader.take_back(self.frames)
    }

    pub(super) fn segment(&self) -> &'p Segment {
        self.span.segment
    }

    /// Bytes of the span that were passed.
    pub(super) fn passed(&self) -> u64 {
        self.frames.window.pos().saturating_sub(self.span.range.start())
    }

    pub(super) fn head(&self) -> &Head {
        self.frames.head()
    }

    pub(super) fn frames(&self) -> &Frames {
        &self.frames
    }

    /// The next record that is wanted; `None` at the end of the span. Damage is noted, if it is to
    /// be skipped.
    pub(super) fn advance(&mut self, filter: &ScanFilter, damages: &mut Damages) -> Result<Option<RecordAt>> {
        loop {
            match self.step(filter) {
                Ok(Stepped::At(at)) => return Ok(Some(at)),
                Ok(Stepped::Over) => {}
                Ok(Stepped::Astray(at)) => {
                    let goes_on = &mut |_| filter.stop.goes_on();
                    if !self.frames.skip_past_damage(at, None, goes_on)? {
                        return self.report_lost(filter, damages);
                    }
                }
                Ok(Stepped::Refused(damage)) if filter.on_damage == OnDamage::Skip => damages.push(damage),
                Ok(Stepped::Refused(damage)) => return Err(Error::Damaged(damage)),
                Ok(Stepped::End) => return self.report_lost(filter, damages),
                Err(trouble) => {
                    let broken = trouble.into_broken()?;
                    // There may be no whole record for long.
                    filter.stop.check()?;
                    if !self.skip_past_damage(broken, filter, damages)? {
                        return self.report_lost(filter, damages);
                    }
                }
            }
        }
    }

    /// At the end of the walk: what the index knows of the spans where nothing could be read.
    fn report_lost(&mut self, filter: &ScanFilter, damages: &mut Damages) -> Result<Option<RecordAt>> {
        let SegmentSpan { segment, range, after, .. } = self.span;
        self.end_lost(range.end());
        let wanted = |key: &Key, offset| {
            filter.view.life(segment, offset) != Life::Dead
                && filter.keys.contains(key)
                && after.is_none_or(|after| offset > after)
        };
        let mut lost = std::mem::take(&mut self.lost).records(segment, &self.pack.reader, &wanted)?;
        match lost.pop() {
            Some(damage) if filter.on_damage == OnDamage::Stop => return Err(Error::Damaged(damage)),
            last => damages.name(lost.into_iter().chain(last).collect()),
        }
        Ok(None)
    }

    /// Notes where a range of damage begins.
    fn begin_lost(&mut self, broken: &Broken) {
        self.end_lost(broken.frame);
        self.lost_from = Some((broken.frame, broken.key.is_some()));
    }

    /// Notes where it ends.
    fn end_lost(&mut self, end: u64) {
        if let Some((from, is_named)) = self.lost_from.take() {
            self.lost.note(from, end, is_named);
        }
    }

    /// Damage is noted and stepped over, or ends the walk.
    fn skip_past_damage(
        &mut self,
        broken: Broken,
        filter: &ScanFilter,
        damages: &mut Damages,
    ) -> Result<bool> {
        let (frame, next) = (broken.frame, broken.next);
        self.begin_lost(&broken);
        let damage = broken.into_damage(self.span.segment.source.path());
        // It may be of a record that was handed out before, or of one that was not asked for.
        let is_old = self.span.after.is_some_and(|after| frame <= after);
        let is_foreign = damage.key.as_ref().is_some_and(|key| !filter.keys.contains(key));
        if !is_old && !is_foreign {
            if filter.on_damage == OnDamage::Stop {
                return Err(Error::Damaged(damage));
            }
            damages.push(damage);
        }
        self.resynced = true;
        self.frames.skip_past_damage(frame, next, &mut |_| filter.stop.goes_on())
    }

    /// One frame further: a live record, or nothing to show.
    fn step(&mut self, filter: &ScanFilter) -> Result<Stepped, Trouble> {
        if std::mem::take(&mut self.unfinished) && !self.frames.skip_frame()? {
            while let Chunk::Bytes(_) = self.frames.next_chunk()? {}
        }
        match self.frames.step()? {
            Step::End => return Ok(Stepped::End),
            Step::Invalid(broken) => return Err(Trouble::Broken(broken)),
            Step::Frame => {}
        }
        let offset = self.frames.head().offset;
        if self.resynced && !self.is_confirmed()? {
            return Ok(Stepped::Astray(offset));
        }
        self.end_lost(offset);
        let life = filter.view.life(self.span.segment, offset);
        if life != Life::Alive || !self.is_wanted(filter) {
            let refusal = match life {
                Life::Unknown if self.is_wanted(filter) => {
                    self.frames.refusal(self.pack, self.span.segment)?
                }
                _ => None,
            };
            self.frames.step_over()?;
            return Ok(refusal.map_or(Stepped::Over, Stepped::Refused));
        }
        if let Some(span) = self.frames.whole_body()? {
            return Ok(Stepped::At(RecordAt::Whole(span)));
        }
        // Only the index knows at once whether a framed record was abandoned.
        if self.frames.head().header.body == BodyLen::Framed && !self.is_listed()? {
            self.frames.finish_frame()?;
            return Ok(Stepped::Over);
        }
        self.frames.begin_body();
        self.unfinished = true;
        Ok(Stepped::At(RecordAt::Long))
    }

    fn is_wanted(&self, filter: &ScanFilter) -> bool {
        let head = self.frames.head();
        let header = &head.header;
        header.kind == FrameKind::Record
            && header.live
            && filter.view.has(header.sequence)
            && self.span.after.is_none_or(|after| head.offset > after)
            && (filter.keys.is_all() || head.key().is_some_and(|key| filter.keys.contains(&key)))
    }

    /// Whether the frame at hand is one of the segment's own, so that its length can be believed: a
    /// record that the index has. After it comes another.
    fn is_confirmed(&mut self) -> Result<bool, Trouble> {
        let head = self.frames.head();
        if head.header.kind != FrameKind::Record {
            return Ok(false);
        }
        match self.span.segment.lists(head, &self.pack.reader) {
            Ok(listed) => {
                self.resynced = !listed;
                Ok(listed)
            }
            // Where the index is damaged it cannot be known.
            Err(Error::Damaged(_)) => Ok(true),
            Err(other) => Err(into_trouble(other)),
        }
    }

    /// Whether the index has the frame at hand.
    fn is_listed(&self) -> Result<bool, Trouble> {
        self.span.segment.lists(self.frames.head(), &self.pack.reader).map_err(into_trouble)
    }

    /// The next piece of the long body at hand; `None` after the last.
    pub(super) fn next_chunk(&mut self, filter: &ScanFilter) -> Result<Option<&[u8]>> {
        if !self.unfinished {
            return Ok(None);
        }
        match self.frames.next_chunk() {
            Ok(Chunk::Bytes(span)) => Ok(Some(self.frames.view(span).1)),
            Ok(Chunk::End { counts, .. }) => {
                self.unfinished = false;
                debug_assert!(counts, "an abandoned record is in no index, and was not handed out");
                Ok(None)
            }
            Err(trouble) => {
                self.unfinished = false;
                let broken = trouble.into_broken()?;
                let damage = (broken.frame, broken.next);
                self.begin_lost(&broken);
                let error = Error::Damaged(broken.into_damage(self.span.segment.source.path()));
                if filter.on_damage == OnDamage::Skip {
                    self.resynced = true;
                    let goes_on = &mut |_| filter.stop.goes_on();
                    if !self.frames.skip_past_damage(damage.0, damage.1, goes_on)? {
                        let end = self.frames.window.end();
                        self.frames.window.seek(end)?;
                    }
                }
                Err(error)
            }
        }
    }
}

/// What a step led to.
enum Stepped {
    At(RecordAt),
    Over,
    /// What looks like a frame here is none.
    Astray(u64),
    Refused(Damage),
    End,
}

/// The error of something else than the frame at hand, as trouble of the walk: never skipped as
/// damage of a record.
fn into_trouble(error: Error) -> Trouble {
    match error {
        Error::Core(_) => Trouble::Failed(error),
        other => crate::Error::io("read", "the index of a pack", std::io::Error::other(other)).into(),
    }
}
