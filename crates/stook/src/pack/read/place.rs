//! Opening the record at a place that an index names. All records that are read in pieces are
//! opened here: by gets, scans, compaction and links. A record that is read by range finds its
//! chunks itself, in `source`.

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
    /// Its bytes, in a file whose frames end there. Where the index does not say how long the frame
    /// is, all after it.
    pub(crate) fn range_to(self, frames_end: u64) -> ByteRange {
        let end = self.len.and_then(|len| self.offset.checked_add(len)).unwrap_or(frames_end);
        ByteRange::new(self.offset, end.min(frames_end)).unwrap_or_default()
    }
}

impl Segment {
    /// Opens the record at a place. The walk is then before the first piece of its body.
    ///
    /// # Errors
    /// Returns the errors of [`Frames::of_record`].
    pub(crate) fn open_record(&self, place: Place, reader: &Reader, rule: AccessRule) -> Result<Frames> {
        let range = place.range_to(self.frames_end);
        let route = Route::new(rule, self.source.as_ref(), range);
        let window = reader.window(self.source.clone(), range, route, self.salt.chunk_len)?;
        Frames::of_record(window, self.salt)
    }

    /// The same for a frame that is in memory.
    ///
    /// # Errors
    /// Returns the errors of [`Frames::of_record`].
    pub(crate) fn open_held_record(&self, place: Place, bytes: Bytes, reader: &Reader) -> Result<Frames> {
        let range = ByteRange::at(place.offset, bytes.len() as u64).unwrap_or_default();
        // One block for all of it, which begins where a page does.
        let block_len = (bytes.len() + 8192).next_multiple_of(4096);
        let options = WindowOptions { block_len, blocks: 1, route: Access::Cached.into() };
        let path = self.source.path().to_path_buf();
        let held = Arc::new(HeldFrame { path, base: place.offset, bytes });
        Frames::of_record(Window::new(reader.session()?, held, range, options)?, self.salt)
    }

    /// The record whose frame is in memory, its body put together where it is in pieces.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if it is damaged.
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
    /// Starts a walk over the frame of one record, at which the window begins. The walk is then
    /// before the first piece of the body.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if there is no record, or its head is damaged; or an error of
    /// reading.
    pub(crate) fn of_record(window: Window, salt: Salt) -> Result<Self> {
        let mut frames = Self::new(window, salt);
        let offset = frames.window.pos();
        let what = match frames.step()? {
            Step::Frame if frames.head().header.kind == FrameKind::Record => {
                frames.begin_body();
                return Ok(frames);
            }
            Step::Frame => "the index names a frame that is no record",
            Step::End => "the index names a place after the last frame",
            Step::Invalid(broken) => return Err(Error::Damaged(broken.into_damage(frames.window.path()))),
        };
        let file = frames.window.path().to_path_buf();
        Err(Error::Damaged(Damage { file, offset, key: None, what: what.into(), cause: None }))
    }

    /// The next piece of the body of a record that an index names, to be seen by
    /// [`view`](Self::view); `None` after the last.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if it is damaged, or the record was abandoned; or an error of
    /// reading.
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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Mutex;

    use super::*;
    use crate::engine::{Backend, Engine, EngineFactory};
    use crate::pack::state::open::{KeyEntry, Pack};
    use crate::pack::{Attributes, Key, OpenOptions, PackWriter, WriterOptions};
    use crate::source::{Identity, Leaf, Source};
    use crate::storage::{LocalStorage, LocalStorageOptions};

    /// Notes which ranges are read.
    #[derive(Debug)]
    struct Watched {
        inner: Arc<dyn Source>,
        asked: Arc<Mutex<Vec<ByteRange>>>,
    }

    impl Source for Watched {
        fn path(&self) -> &Path {
            self.inner.path()
        }
        fn len(&self) -> u64 {
            self.inner.len()
        }
        fn identity(&self) -> Identity {
            self.inner.identity()
        }
        fn current_identity(&self) -> crate::Result<Identity> {
            self.inner.current_identity()
        }
        fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> crate::Result<()> {
            self.asked.lock().unwrap().push(range);
            self.inner.resolve(range, leaves)
        }
    }

    /// Engines that nothing goes around: each read is resolved once.
    #[derive(Debug)]
    struct Engines;

    impl EngineFactory for Engines {
        fn build(&self, depth: usize) -> crate::Result<Box<dyn Engine>> {
            Backend::Auto.build(depth)
        }
    }

    type Asked = Arc<Mutex<Vec<ByteRange>>>;

    /// A pack with a record in pieces, whose frames say when they are read; where the record is,
    /// and its body.
    fn pack_with_pieces(directory: &Path) -> (Pack, Asked, KeyEntry, Vec<u8>) {
        let storage = LocalStorage::open(directory, LocalStorageOptions::default()).unwrap();
        let mut writer = PackWriter::create(Arc::new(storage), WriterOptions::default()).unwrap();
        let body: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        let mut record = writer.begin("", &Key::id(2), &Attributes::new(), None).unwrap();
        record.write(&body).unwrap();
        record.finish().unwrap();
        writer.put("", &Key::id(1), &Attributes::new(), b"short").unwrap();
        writer.finish(true).unwrap();
        let options =
            OpenOptions { engines: Arc::new(Engines), access: AccessRule::Cached, ..OpenOptions::default() };
        let mut pack = Pack::open_path(directory, options).unwrap();
        let asked = Asked::default();
        let segment = &mut pack.snapshot.segments[0];
        segment.source = Arc::new(Watched { inner: segment.source.clone(), asked: asked.clone() });
        let entry = pack.locate(&[Key::id(2)]).unwrap().remove(0).unwrap().unwrap();
        (pack, asked, entry, body)
    }

    #[test]
    fn a_record_in_pieces_is_read_once() {
        let directory = tempfile::tempdir().unwrap();
        let (pack, asked, entry, body) = pack_with_pieces(directory.path());
        let record = pack.get(&Key::id(2)).unwrap().unwrap();
        assert_eq!((record.head.body_len, record.body.len()), (None, body.len()));
        assert!(record.body == body);
        let frame = entry.found.place.range_to(u64::MAX);
        assert_eq!(std::mem::take(&mut *asked.lock().unwrap()), [frame]);
        let len = pack.get_with(&Key::id(2), |view| view.body.len()).unwrap();
        assert_eq!((len, &**asked.lock().unwrap()), (Some(body.len()), &[frame][..]));
    }

    #[test]
    fn a_place_that_is_known_is_not_looked_up_again() {
        let directory = tempfile::tempdir().unwrap();
        let (mut pack, _, entry, body) = pack_with_pieces(directory.path());
        // Without an index nothing can be looked up.
        pack.snapshot.segments[0].runs.clear();
        assert!(pack.get(&Key::id(2)).unwrap().is_none() && pack.open_record(&Key::id(2)).unwrap().is_none());
        for reader in [pack.open_located(&entry).unwrap(), pack.open_located_file(&entry).unwrap()] {
            assert!(reader.into_record().unwrap().body == body);
        }
    }

    #[test]
    fn a_place_without_a_record_is_damage_that_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let (pack, ..) = pack_with_pieces(directory.path());
        let segment = &pack.snapshot.segments[0];
        let open = |offset| {
            let frames = segment.open_record(Place::new(offset, 64), &pack.reader, AccessRule::Cached);
            frames.err().unwrap().to_string()
        };
        let (mark, end) = (segment.frames().start(), segment.frames_end);
        let what = open(end);
        assert!(what.contains("the index names a place after the last frame"), "{what}");
        let what = open(mark + 8);
        assert!(what.contains(&format!("is damaged at offset {}", mark + 8)), "{what}");
    }
}
