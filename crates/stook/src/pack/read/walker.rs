//! The one way to go through all frames of a span and past those that are damaged.
//!
//! A [`FrameVisitor`] decides what happens to whole frames and to damage. Three loops are separate,
//! each for a reason that it states: recovery (`state/recover.rs`), scans (`scan/walk.rs`), and
//! walks that do not trust the length of any frame (`vouched_for`, and `writer/leftovers.rs`).

use std::path::Path;
use std::sync::Arc;

use crate::extent::ByteRange;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::segment::Salt;
use crate::pack::read::frames::{Broken, Checked, Frames, Step, Trouble};
use crate::pack::read::reader::Reader;
use crate::pack::read::route::Route;
use crate::source::Source;

/// Handles the frames of a walk. A closure is a visitor that takes whole frames and silently skips
/// damage: it is reported when the record is read.
pub(crate) trait FrameVisitor {
    /// Takes the frame whose body the walk is at, and steps past it.
    ///
    /// # Errors
    /// Returns [`Trouble::Broken`] if it is damaged, and is to be skipped; any other error ends the
    /// walk.
    fn take(&mut self, frames: &mut Frames) -> Checked<()>;

    /// Whether to continue from this offset. Called before every frame, and within long ranges
    /// without any.
    fn goes_on(&mut self, _at: u64) -> bool {
        true
    }

    /// Learns of damage before it is passed over. Of a frame with a key the walk still has the
    /// header.
    ///
    /// # Errors
    /// Returns an error to end the walk.
    fn meet(&mut self, _frames: &Frames, _broken: &Broken) -> Result<()> {
        Ok(())
    }

    /// Learns of damage when it is passed: from the broken frame to `end` nothing was read.
    ///
    /// # Errors
    /// Returns an error to end the walk.
    fn pass(&mut self, _broken: Broken, _end: u64) -> Result<()> {
        Ok(())
    }
}

impl<F: FnMut(&mut Frames) -> Checked<()>> FrameVisitor for F {
    fn take(&mut self, frames: &mut Frames) -> Checked<()> {
        self(frames)
    }
}

impl Frames {
    /// Goes from here to the end of the span; `false` when the visitor ended it before.
    ///
    /// # Errors
    /// Returns an error if reading fails, or the error of the visitor.
    pub(crate) fn visit(&mut self, visitor: &mut impl FrameVisitor) -> Result<bool> {
        while visitor.goes_on(self.window.pos()) {
            let broken = match self.step()? {
                Step::End => return Ok(true),
                Step::Invalid(broken) => broken,
                Step::Frame => match visitor.take(self) {
                    Ok(()) => continue,
                    Err(Trouble::Failed(error)) => return Err(error),
                    Err(Trouble::Broken(broken)) => broken,
                },
            };
            visitor.meet(self, &broken)?;
            let stands = self.skip_past_damage(broken.frame, broken.next, &mut |at| visitor.goes_on(at));
            let stands = match stands {
                Err(Error::Stopped) => return Ok(false),
                stands => stands?,
            };
            let end = if stands { self.window.pos() } else { self.window.end() };
            visitor.pass(broken, end)?;
            if !stands {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Steps past the current frame, whose body is only read if that is needed for its length.
    pub(crate) fn step_over(&mut self) -> Checked<()> {
        if !self.skip_frame()? {
            self.finish_frame()?;
        }
        Ok(())
    }

    /// Skips past a broken frame, at any distance: to its end, if that is known and a frame is
    /// there, else to the next frame that is found. Returns `false` if there is none.
    /// `report_progress` is called with the position, and stops the search by returning `false`.
    ///
    /// # Errors
    /// Returns [`Error::Stopped`] if it was stopped.
    pub(crate) fn skip_past_damage(
        &mut self,
        at: u64,
        next: Option<u64>,
        report_progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool> {
        if let Some(next) = next.filter(|next| *next > at && *next <= self.window.end()) {
            self.window.seek(next)?;
            if next == self.window.end() {
                return Ok(true);
            }
            if let Step::Frame = self.step()? {
                self.window.seek(next)?;
                return Ok(true);
            }
        }
        let mut goes_on = true;
        let found = self.resync_reporting(at.saturating_add(8), &mut |at| {
            goes_on = report_progress(at);
            goes_on
        })?;
        if goes_on { Ok(found) } else { Err(Error::Stopped) }
    }
}

impl Reader {
    /// The frames of a span of a segment file.
    pub(crate) fn frames(
        &self,
        source: &Arc<dyn Source>,
        salt: Salt,
        range: ByteRange,
        route: impl Into<Route>,
    ) -> Result<Frames> {
        Ok(Frames::new(self.window(source.clone(), range, route, salt.chunk_len)?, salt))
    }

    /// Takes back what frames were read with.
    pub(crate) fn take_back(&self, frames: Frames) -> Result<()> {
        self.give_back_session(frames.window.into_session()?);
        Ok(())
    }
}

impl Broken {
    /// The damage of the file at `path`.
    pub(crate) fn into_damage(self, path: &Path) -> Damage {
        Damage { file: path.to_path_buf(), offset: self.offset, key: self.key, what: self.what, cause: None }
    }
}

impl Trouble {
    /// The broken frame.
    ///
    /// # Errors
    /// Returns an error if it is anything but the bytes of a frame.
    pub(crate) fn into_broken(self) -> Result<Broken> {
        match self {
            Self::Failed(error) => Err(error),
            Self::Broken(broken) => Ok(broken),
        }
    }

    /// The error of reading the file at `path`.
    pub(crate) fn into_error(self, path: &Path) -> Error {
        match self {
            Self::Failed(error) => error,
            Self::Broken(broken) => Error::Damaged(broken.into_damage(path)),
        }
    }
}
