//! Windows over sources of all kinds.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::*;
use crate::engine::{Backend, Completion, Engine, EngineFactory, File, Request};
use crate::error::Error;
use crate::pack::{Attributes, Key, OpenOptions, Pack, PackWriter, ScanOptions, WriterOptions};
use crate::source::{Answer, FileSource, Identity, Object, Pending, SessionOptions, check_bounds};
use crate::storage::{LocalStorage, LocalStorageOptions};

const BLOCK_LEN: usize = 4096;

fn noise(len: usize) -> Vec<u8> {
    (0..len as u32).flat_map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()).take(len).collect()
}

/// How requests are answered.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Service {
    AtOnce,
    /// Every other one later than the one that follows it.
    Late,
    /// The first one at once, the others never.
    FirstOnly,
}

/// Bytes that are only given out by request, with what was asked for counted.
#[derive(Debug)]
struct Served {
    bytes: Bytes,
    service: Service,
    begun: AtomicUsize,
    under_way: AtomicUsize,
    most_under_way: AtomicUsize,
    unanswered: Mutex<Vec<Answer>>,
}

impl Served {
    fn new(bytes: impl Into<Bytes>, service: Service) -> Arc<Self> {
        Arc::new(Self {
            bytes: bytes.into(),
            service,
            begun: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            most_under_way: AtomicUsize::new(0),
            unanswered: Mutex::default(),
        })
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    fn under_way(&self) -> usize {
        self.under_way.load(Ordering::SeqCst)
    }
}

struct UnderWay(Arc<Served>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The object, and the source that is made of it.
#[derive(Debug)]
struct Asked(Arc<Served>);

impl Object for Asked {
    fn path(&self) -> &Path {
        Path::new("asked")
    }

    fn begin(&self, range: ByteRange, answer: Answer) -> Pending {
        let served = &self.0;
        let number = served.begun.fetch_add(1, Ordering::SeqCst);
        let now = served.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        served.most_under_way.fetch_max(now, Ordering::SeqCst);
        let bytes = served.bytes.slice(range.start() as usize..range.end() as usize);
        match served.service {
            Service::FirstOnly if number > 0 => served.unanswered.lock().unwrap().push(answer),
            Service::Late => {
                let late = Duration::from_millis(if number.is_multiple_of(2) { 2 } else { 0 });
                thread::spawn(move || {
                    thread::sleep(late);
                    answer.give(Ok(bytes));
                });
            }
            Service::AtOnce | Service::FirstOnly => answer.give(Ok(bytes)),
        }
        Box::new(UnderWay(Arc::clone(served)))
    }
}

impl Source for Asked {
    fn path(&self) -> &Path {
        Path::new("asked")
    }

    fn len(&self) -> u64 {
        self.0.bytes.len() as u64
    }

    fn identity(&self) -> Identity {
        Identity { len: self.0.bytes.len() as u64, ..Identity::default() }
    }

    fn current_identity(&self) -> Result<Identity> {
        Ok(self.identity())
    }

    fn reads_by_request(&self) -> bool {
        true
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        check_bounds(self, range)?;
        if !range.is_empty() {
            leaves.push(Leaf::Object { object: Arc::new(Self(Arc::clone(&self.0))), range });
        }
        Ok(())
    }
}

/// A ring of this many blocks, and this many requests at once.
fn window(source: Arc<dyn Source>, access: Access, blocks: usize, requests: usize) -> Window {
    let options = SessionOptions { requests, ..SessionOptions::default() };
    let session = Session::new(&Backend::Threads, options).unwrap();
    let range = ByteRange::to(source.len());
    let options = WindowOptions { block_len: BLOCK_LEN, blocks, route: access.into() };
    Window::new(session, source, range, options).unwrap()
}

/// All bytes, looked at this many at once.
fn read_all(window: &mut Window, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while window.left() > 0 {
        let piece = window.peek(len).unwrap();
        let got = piece.len() as u64;
        bytes.extend_from_slice(piece);
        window.skip(got).unwrap();
    }
    bytes
}

#[test]
fn blocks_of_an_object_come_in_order_and_are_asked_for_side_by_side() {
    let bytes = noise(100 * BLOCK_LEN + 17);
    let served = Served::new(bytes.clone(), Service::Late);
    let mut window = window(Arc::new(Asked(Arc::clone(&served))), Access::Cached, 6, 4);
    assert!(read_all(&mut window, 1000) == bytes);
    assert_eq!((served.begun(), served.most_under_way.load(Ordering::SeqCst)), (101, 4));
    assert_eq!(window.into_session().unwrap().pending(), 0);
    assert_eq!(served.under_way(), 0);
}

#[test]
fn places_that_are_free_are_asked_for_before_anybody_waits() {
    let served = Served::new(noise(40 * BLOCK_LEN), Service::AtOnce);
    let mut window = window(Arc::new(Asked(Arc::clone(&served))), Access::Cached, 6, 4);
    window.peek(1).unwrap();
    assert_eq!(served.begun(), 6, "the ring, and no more");
    window.skip(3 * BLOCK_LEN as u64).unwrap();
    window.peek(1).unwrap();
    assert_eq!(served.begun(), 9, "for the three that are done with, although the fourth is here");
}

#[test]
fn what_is_under_way_is_called_off_and_not_waited_for() {
    let bytes = noise(100 * BLOCK_LEN);
    for is_seek in [true, false] {
        let served = Served::new(bytes.clone(), Service::FirstOnly);
        let mut window = window(Arc::new(Asked(Arc::clone(&served))), Access::Cached, 6, 4);
        assert!(window.peek(10).unwrap() == &bytes[..10]);
        assert_eq!(served.under_way(), 4);
        if is_seek {
            window.seek(80 * BLOCK_LEN as u64).unwrap();
        } else {
            assert_eq!(window.into_session().unwrap().pending(), 0);
        }
        assert_eq!(served.under_way(), 0);
    }
}

/// Parts of files, bytes and fills, one after another.
#[derive(Debug)]
struct Stitched(Vec<Leaf>);

impl Source for Stitched {
    fn path(&self) -> &Path {
        Path::new("stitched")
    }

    fn len(&self) -> u64 {
        self.0.iter().map(Leaf::len).sum()
    }

    fn identity(&self) -> Identity {
        Identity { len: self.len(), ..Identity::default() }
    }

    fn current_identity(&self) -> Result<Identity> {
        Ok(self.identity())
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        check_bounds(self, range)?;
        let mut at = 0;
        for leaf in &self.0 {
            let whole = ByteRange::at(at, leaf.len()).unwrap();
            at += leaf.len();
            let Some(part) = whole.intersection(&range) else { continue };
            let (start, len) = (part.start() - whole.start(), part.len());
            leaves.push(match leaf {
                Leaf::File { file, range } => {
                    let range = ByteRange::at(range.start() + start, len).unwrap();
                    Leaf::File { file: Arc::clone(file), range }
                }
                Leaf::Bytes(bytes) => Leaf::Bytes(bytes.slice(start as usize..(start + len) as usize)),
                Leaf::Fill { byte, .. } => Leaf::Fill { byte: *byte, len },
                other => panic!("{other:?} is not among them"),
            });
        }
        Ok(())
    }
}

#[test]
fn stitched_files_are_read_as_they_lie_and_into_memory_that_was_used() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = noise(70_000);
    let path = directory.path().join("part");
    std::fs::write(&path, &bytes).unwrap();
    let file = Arc::new(File::open(&path).unwrap());
    let part =
        |start, end| Leaf::File { file: Arc::clone(&file), range: ByteRange::new(start, end).unwrap() };
    let pieces: [(Leaf, &[u8]); 7] = [
        (part(0, 30_000), &bytes[..30_000]),
        (Leaf::Fill { byte: 0, len: 6000 }, &[0; 6000]),
        (part(100, 41_000), &bytes[100..41_000]),
        (Leaf::Bytes(Bytes::from_static(b"between")), b"between"),
        (Leaf::Fill { byte: 9, len: 500 }, &[9; 500]),
        (part(1, 70_000), &bytes[1..]),
        (Leaf::Fill { byte: 0, len: 20_000 }, &[0; 20_000]),
    ];
    let contents: Vec<u8> = pieces.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
    let stitched: Arc<dyn Source> = Arc::new(Stitched(pieces.into_iter().map(|(leaf, _)| leaf).collect()));
    // One that begins where nothing is aligned, and one that is a file.
    let shifted: Arc<dyn Source> = Arc::new(Stitched(vec![part(100, 70_000)]));
    let plain: Arc<dyn Source> = Arc::new(FileSource::open(&path).unwrap());
    let sources = [(stitched, contents), (shifted, bytes[100..].to_vec()), (plain, bytes.clone())];
    for (source, contents) in &sources {
        for (access, len) in [(Access::Direct, 5000), (Access::Cached, 5000), (Access::Direct, 1)] {
            let mut window = window(Arc::clone(source), access, 4, 1);
            let read = read_all(&mut window, len);
            assert!(read == *contents, "{source:?} {access:?}");
            assert!(window.into_session().unwrap().call_off().is_ok());
        }
        let session = Session::new(&Backend::Threads, SessionOptions::default()).unwrap();
        let range = ByteRange::to(source.len());
        let options = WindowOptions { block_len: BLOCK_LEN, blocks: 1000, route: Access::Direct.into() };
        let mut whole = Window::new(session, Arc::clone(source), range, options).unwrap();
        assert!(whole.peek(contents.len()).unwrap() == contents);
        let (_, held) = whole.into_bytes().unwrap();
        assert!(held[..contents.len()] == **contents);
    }
}

/// An engine that takes requests and never gives anything back.
#[derive(Debug, Default)]
struct Broken(Vec<Request>);

impl Engine for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn depth(&self) -> usize {
        32
    }

    fn in_flight(&self) -> usize {
        self.0.len()
    }

    fn submit(&mut self, request: Request) {
        self.0.push(request);
    }

    fn reap(&mut self, _: usize, _: &mut Vec<Completion>) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        // As of a medium that does not give bytes back: this one has nothing to do with it.
        Err(Error::io("wait for", "an engine", std::io::Error::from_raw_os_error(libc::EIO)))
    }

    fn reap_until(&mut self, min: usize, _: Instant, completions: &mut Vec<Completion>) -> Result<()> {
        self.reap(min, completions)
    }
}

#[derive(Debug)]
struct BrokenEngines;

impl EngineFactory for BrokenEngines {
    fn build(&self, _: usize) -> Result<Box<dyn Engine>> {
        Ok(Box::<Broken>::default())
    }
}

#[test]
fn an_engine_that_fails_is_an_error_each_time_and_its_memory_is_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, noise(10 * BLOCK_LEN)).unwrap();
    let source: Arc<dyn Source> = Arc::new(FileSource::open(&path).unwrap());
    let session = Session::new(&BrokenEngines, SessionOptions::default()).unwrap();
    let options = WindowOptions { block_len: BLOCK_LEN, blocks: 4, route: Access::Cached.into() };
    let mut window = Window::new(session, Arc::clone(&source), ByteRange::to(source.len()), options).unwrap();
    for _ in 0..3 {
        assert!(matches!(window.peek(10), Err(Error::Io { .. })));
    }
    assert!(window.seek(0).is_ok() && window.peek(10).is_err());
    assert!(window.holes().first_in(ByteRange::to(source.len())).is_none(), "the medium is not to blame");
    assert!(window.into_session().is_err(), "it is not used again");
}

#[test]
fn a_pack_whose_segment_is_an_object_is_scanned_in_few_requests() {
    const RECORDS: u64 = 200;
    let directory = tempfile::tempdir().unwrap();
    let storage = LocalStorage::open(directory.path(), LocalStorageOptions::default()).unwrap();
    let mut writer = PackWriter::create(Arc::new(storage), WriterOptions::default()).unwrap();
    for number in 0..RECORDS {
        writer.put("", &Key::id(number), &Attributes::new(), &[number as u8; 100_000]).unwrap();
    }
    writer.finish(true).unwrap();
    let mut pack = Pack::open_path(directory.path(), OpenOptions::default()).unwrap();
    let segment = &mut pack.snapshot.segments[0];
    let served = Served::new(std::fs::read(segment.source.path()).unwrap(), Service::Late);
    segment.source = Arc::new(Asked(Arc::clone(&served)));
    let frames = segment.frames();
    let mut scan = pack.scan(ScanOptions::default());
    let mut number = 0;
    while let Some(record) = scan.next().unwrap() {
        assert_eq!(record.key(), Some(Key::id(number)));
        assert!(record.body().unwrap() == [number as u8; 100_000]);
        number += 1;
    }
    assert_eq!(number, RECORDS);
    let blocks = (frames.end() - frames.start() / ALIGNMENT * ALIGNMENT).div_ceil(4 << 20);
    assert_eq!(served.begun() as u64, blocks);
    assert!(served.most_under_way.load(Ordering::SeqCst) > 1);
}
