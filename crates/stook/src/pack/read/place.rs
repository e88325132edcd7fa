//! Opening the record at a place that an index names. There is no other way to one that is read in pieces: gets,
//! scans, compaction and links come through here.

use std::sync::Arc;

use bytes::Bytes;

use crate::engine::Access;
use crate::extent::ByteRange;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::frame::FrameKind;
use crate::pack::format::index::Place;
use crate::pack::format::segment::Salt;
use crate::pack::read::frames::{BodySpan, Chunk, Frames, Step};
use crate::pack::read::held::HeldFrame;
use crate::pack::read::reader::Reader;
use crate::pack::read::record::{Record, parse_record};
use crate::pack::read::route::Route;
use crate::pack::read::stream::RecordReader;
use crate::pack::read::window::{Window, WindowOptions};
use crate::pack::state::segment::Segment;
use crate::source::AccessRule;

impl Place {
    /// Its bytes, in a file whose frames end there. Where the index does not say how long the frame is, all behind it.
    pub(crate) fn range_to(self, frames_end: u64) -> ByteRange {
        let end = self.len.and_then(|len| self.offset.checked_add(len)).unwrap_or(frames_end);
        ByteRange::new(self.offset, end.min(frames_end)).unwrap_or_default()
    }
}

impl Segment {
    /// Opens the record at a place. The walk then stands before the first piece of its body.
    ///
    /// # Errors
    /// As [`Frames::of_record`].
    pub(crate) fn open_record(&self, place: Place, reader: &Reader, rule: AccessRule) -> Result<Frames> {
        let range = place.range_to(self.frames_end);
        let route = Route::new(rule, self.source.as_ref(), range);
        let window = reader.window(self.source.clone(), range, route, self.salt.chunk_len)?;
        Frames::of_record(window, self.salt)
    }

    /// The same for a frame that is in memory.
    ///
    /// # Errors
    /// As [`Frames::of_record`].
    pub(crate) fn open_held_record(&self, place: Place, bytes: Bytes, reader: &Reader) -> Result<Frames> {
        let range = ByteRange::at(place.offset, bytes.len() as u64).unwrap_or_default();
        // One block for all of it, which begins where a page does.
        let block_len = (bytes.len() + 8192).next_multiple_of(4096);
        let options = WindowOptions { block_len, blocks: 1, route: Access::Cached.into() };
        let path = self.source.path().to_path_buf();
        let held = Arc::new(HeldFrame { path, base: place.offset, bytes });
        Frames::of_record(Window::new(reader.engine()?, held, range, options)?, self.salt)
    }

    /// The record whose frame is in memory, its body put together where it is in pieces.
    ///
    /// # Errors
    /// [`Error::Damaged`] when it is not what was written.
    pub(crate) fn record_in(&self, place: Place, bytes: &Bytes, reader: &Reader) -> Result<Record> {
        match parse_record(self, place, bytes)? {
            Some(record) => Ok(record),
            None => {
                let frames = self.open_held_record(place, bytes.clone(), reader)?;
                RecordReader::new(reader, self, frames)?.into_record()
            }
        }
    }
}

impl Frames {
    /// A walk over the frame of one record, with which the window begins. It then stands before the first piece of the body.
    ///
    /// # Errors
    /// [`Error::Damaged`] when there is no record, or its head is not what was written; what reading meets.
    pub(crate) fn of_record(window: Window, salt: Salt) -> Result<Self> {
        let mut frames = Self::new(window, salt);
        let offset = frames.window.pos();
        let what = match frames.step()? {
            Step::Frame if frames.head().header.kind == FrameKind::Record => {
                frames.begin_body();
                return Ok(frames);
            }
            Step::Frame => "the index names a frame that is no record",
            Step::End => "the index names a place behind the last frame",
            Step::Invalid(broken) => return Err(Error::Damaged(broken.into_damage(frames.window.path()))),
        };
        let file = frames.window.path().to_path_buf();
        Err(Error::Damaged(Damage { file, offset, key: None, what: what.into(), cause: None }))
    }

    /// The next piece of the body of a record that an index names, to be seen by [`view`](Self::view); `None` after the last.
    ///
    /// # Errors
    /// [`Error::Damaged`] when it is not what was written, or the record was abandoned; what reading meets.
    pub(crate) fn next_of_record(&mut self) -> Result<Option<BodySpan>> {
        match self.next_chunk() {
            Ok(Chunk::Bytes(span)) => Ok(Some(span)),
            Ok(Chunk::End { counts: true, .. }) => Ok(None),
            Ok(Chunk::End { .. }) => {
                let (file, head) = (self.window.path().to_path_buf(), self.head());
                let what = "the index names a record that was abandoned".into();
                Err(Error::Damaged(Damage { file, offset: head.offset, key: head.key(), what, cause: None }))
            }
            Err(trouble) => Err(trouble.into_error(self.window.path())),
        }
    }
}
