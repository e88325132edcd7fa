//! Walks the frames of a stretch of a segment, one after another.

use super::view::View;
use super::{At, OnDamage, Stop};
use crate::extent::ByteRange;
use crate::pack::damages::Damages;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::frame::{BodyLen, FrameKind};
use crate::pack::frames::{Broken, Chunk, Frames, Head, Step, Trouble};
use crate::pack::key::Key;
use crate::pack::lost::Lost;
use crate::pack::open::Pack;
use crate::pack::recover::go_behind_telling;
use crate::pack::route::Route;
use crate::pack::scan::KeyRange;
use crate::pack::segment::{Life, Segment};

/// A stretch of a segment that begins and ends where frames do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch<'p> {
    /// Number of the segment in the snapshot.
    pub(super) number: usize,
    pub(super) segment: &'p Segment,
    pub(super) range: ByteRange,
    /// Records up to the one with a frame at this offset are not to be handed out.
    pub(super) behind: Option<u64>,
}

/// Which records are wanted.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    pub(super) keys: KeyRange,
    pub(super) view: View,
    pub(super) on_damage: OnDamage,
    pub(super) stop: Stop,
}

/// A walk over the live records of a stretch.
pub(super) struct Walk<'p> {
    pack: &'p Pack,
    stretch: Stretch<'p>,
    frames: Frames,
    /// A long body was handed out and may not have been read to its end.
    unfinished: bool,
    /// Damage was stepped over. What looks like a frame behind it may be part of a body: the index tells.
    resynced: bool,
    /// Where the stretch of damage begins that the walk is in.
    lost_from: Option<(u64, bool)>,
    lost: Lost,
}

impl<'p> Walk<'p> {
    pub(super) fn new(pack: &'p Pack, stretch: Stretch<'p>) -> Result<Self> {
        let Stretch { segment, range, behind, .. } = stretch;
        let from = behind.unwrap_or(range.start()).clamp(range.start(), range.end());
        let range = ByteRange::new(from, range.end()).unwrap_or_default();
        let route = Route::new(pack.access, segment.source.as_ref(), range);
        let window = pack.reader.window(segment.source.clone(), range, route, segment.salt.chunk_len)?;
        let frames = Frames::new(window, segment.salt);
        Ok(Self {
            pack,
            stretch,
            frames,
            unfinished: false,
            resynced: false,
            lost_from: None,
            lost: Lost::default(),
        })
    }

    pub(super) fn close(self) -> Result<()> {
        self.pack.reader.give_back(self.frames.window.into_engine()?);
        Ok(())
    }

    pub(super) fn segment(&self) -> &'p Segment {
        self.stretch.segment
    }

    /// Bytes of the stretch that were passed.
    pub(super) fn passed(&self) -> u64 {
        self.frames.window.pos().saturating_sub(self.stretch.range.start())
    }

    pub(super) fn head(&self) -> &Head {
        self.frames.head()
    }

    pub(super) fn frames(&self) -> &Frames {
        &self.frames
    }

    /// The next record that is wanted; `None` at the end of the stretch. Damage is noted, if it is to be skipped.
    pub(super) fn advance(&mut self, wish: &Wish, damages: &mut Damages) -> Result<Option<At>> {
        loop {
            match self.step(wish) {
                Ok(Stepped::At(at)) => return Ok(Some(at)),
                Ok(Stepped::Over) => {}
                Ok(Stepped::Astray(at)) => {
                    let tell = &mut |_| wish.stop.goes_on();
                    if !go_behind_telling(&mut self.frames, at, None, tell)? {
                        return self.tell_lost(wish, damages);
                    }
                }
                Ok(Stepped::Refused(damage)) if wish.on_damage == OnDamage::Skip => damages.push(damage),
                Ok(Stepped::Refused(damage)) => return Err(Error::Damaged(damage)),
                Ok(Stepped::End) => return self.tell_lost(wish, damages),
                Err(trouble) => {
                    let broken = self.damage(trouble)?;
                    // There may be no whole record for long.
                    wish.stop.check()?;
                    if !self.go_behind(broken, wish, damages)? {
                        return self.tell_lost(wish, damages);
                    }
                }
            }
        }
    }

    fn damage(&self, trouble: Trouble) -> Result<Broken> {
        match trouble {
            Trouble::Source(error) => Err(error.into()),
            Trouble::Broken(broken) => Ok(broken),
        }
    }

    /// At the end of the walk: what the index knows of the stretches where nothing could be read.
    fn tell_lost(&mut self, wish: &Wish, damages: &mut Damages) -> Result<Option<At>> {
        let Stretch { segment, range, behind, .. } = self.stretch;
        self.end_lost(range.end());
        let wanted = |key: &Key, offset| {
            wish.view.life(segment, offset) != Life::Dead
                && wish.keys.contains(key)
                && behind.is_none_or(|behind| offset > behind)
        };
        let mut lost = std::mem::take(&mut self.lost).records(segment, &self.pack.reader, &wanted)?;
        match lost.pop() {
            Some(damage) if wish.on_damage == OnDamage::Stop => return Err(Error::Damaged(damage)),
            last => damages.extend(lost.into_iter().chain(last)),
        }
        Ok(None)
    }

    /// Notes where a stretch of damage begins.
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
    fn go_behind(&mut self, broken: Broken, wish: &Wish, damages: &mut Damages) -> Result<bool> {
        let (frame, next) = (broken.frame, broken.next);
        self.begin_lost(&broken);
        let damage = broken.into_damage(self.stretch.segment.source.path());
        // It may be of a record that was handed out before, or of one that nobody asked for.
        let is_old = self.stretch.behind.is_some_and(|behind| frame <= behind);
        let is_foreign = damage.key.as_ref().is_some_and(|key| !wish.keys.contains(key));
        if !is_old && !is_foreign {
            if wish.on_damage == OnDamage::Stop {
                return Err(Error::Damaged(damage));
            }
            damages.push(damage);
        }
        self.resynced = true;
        go_behind_telling(&mut self.frames, frame, next, &mut |_| wish.stop.goes_on())
    }

    /// One frame further: a live record, or nothing to show.
    fn step(&mut self, wish: &Wish) -> Result<Stepped, Trouble> {
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
        let life = wish.view.life(self.stretch.segment, offset);
        if life != Life::Alive || !self.is_wanted(wish) {
            let refusal = match life {
                Life::Untold if self.is_wanted(wish) => {
                    self.frames.refusal(self.pack, self.stretch.segment)?
                }
                _ => None,
            };
            self.step_over()?;
            return Ok(refusal.map_or(Stepped::Over, Stepped::Refused));
        }
        if let Some(span) = self.frames.whole_body()? {
            return Ok(Stepped::At(At::Whole(span)));
        }
        // Only the index knows at once whether a framed record was abandoned.
        if self.frames.head().header.body == BodyLen::Framed && !self.is_listed()? {
            self.frames.finish_frame()?;
            return Ok(Stepped::Over);
        }
        self.frames.begin_body()?;
        self.unfinished = true;
        Ok(Stepped::At(At::Long))
    }

    /// Steps over a frame without looking at its body.
    fn step_over(&mut self) -> Result<(), Trouble> {
        if !self.frames.skip_frame()? {
            self.frames.finish_frame()?;
        }
        Ok(())
    }

    fn is_wanted(&self, wish: &Wish) -> bool {
        let head = self.frames.head();
        let header = &head.header;
        header.kind == FrameKind::Record
            && header.live
            && wish.view.has(header.sequence)
            && self.stretch.behind.is_none_or(|behind| head.offset > behind)
            && (wish.keys.is_all() || head.key().is_some_and(|key| wish.keys.contains(&key)))
    }

    /// Whether the frame at hand is one of the segment's own, so that its length can be believed: a record that the index has.
    /// Behind it comes another.
    fn is_confirmed(&mut self) -> Result<bool, Trouble> {
        let head = self.frames.head();
        if head.header.kind != FrameKind::Record {
            return Ok(false);
        }
        match self.stretch.segment.lists(head, &self.pack.reader) {
            Ok(listed) => {
                self.resynced = !listed;
                Ok(listed)
            }
            // Where the index is damaged nobody can tell.
            Err(Error::Damaged(_)) => Ok(true),
            Err(other) => Err(untold(other)),
        }
    }

    /// Whether the index has the frame at hand.
    fn is_listed(&self) -> Result<bool, Trouble> {
        self.stretch.segment.lists(self.frames.head(), &self.pack.reader).map_err(untold)
    }

    /// The next piece of the long body at hand; `None` after the last.
    pub(super) fn next_chunk(&mut self, wish: &Wish) -> Result<Option<&[u8]>> {
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
                let broken = self.damage(trouble)?;
                let damage = (broken.frame, broken.next);
                self.begin_lost(&broken);
                let error = Error::Damaged(broken.into_damage(self.stretch.segment.source.path()));
                if wish.on_damage == OnDamage::Skip {
                    self.resynced = true;
                    let tell = &mut |_| wish.stop.goes_on();
                    if !go_behind_telling(&mut self.frames, damage.0, damage.1, tell)? {
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
    At(At),
    Over,
    /// What looks like a frame here is none.
    Astray(u64),
    Refused(Damage),
    End,
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
