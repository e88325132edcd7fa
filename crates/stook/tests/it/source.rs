//! Sources and the session that reads them.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use stook::engine::{Access, Backend, File};
use stook::extent::ByteRange;
use stook::source::{
    Check, FileSource, Identity, Leaf, MemorySource, Session, SessionOptions, Source, check_bounds,
    read_batch, read_range,
};
use stook::sparse::SparseFile;
use stook::{Error, Result, source};
use stook_testing::conformance::{noise, source_conformance};
use stook_testing::fault::{
    EngineCall, EngineFault, FaultEngineFactory, FaultSource, ObjectFault, ObjectSource, SourceFault,
    TestObject,
};
use stook_testing::forward_source;

const BACKENDS: [Backend; 2] = [Backend::Auto, Backend::Threads];

fn file_source(directory: &Path, bytes: &[u8]) -> Arc<dyn Source> {
    let path = directory.join("source");
    fs::write(&path, bytes).unwrap();
    Arc::new(FileSource::open(path).unwrap())
}

/// Simulates a stitched file: parts of a file, fills and bytes in turn.
#[derive(Debug)]
struct Composite {
    leaves: Vec<Leaf>,
}

impl Source for Composite {
    fn path(&self) -> &Path {
        Path::new("composite")
    }

    fn len(&self) -> u64 {
        self.leaves.iter().map(Leaf::len).sum()
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
        for leaf in &self.leaves {
            let whole = ByteRange::at(at, leaf.len()).unwrap();
            if let Some(part) = whole.intersection(&range) {
                let (start, len) = (part.start() - at, part.len());
                leaves.push(match leaf {
                    Leaf::File { file, range } => {
                        let range = ByteRange::at(range.start() + start, len).unwrap();
                        Leaf::File { file: Arc::clone(file), range }
                    }
                    Leaf::Object { object, range } => {
                        let range = ByteRange::at(range.start() + start, len).unwrap();
                        Leaf::Object { object: Arc::clone(object), range }
                    }
                    Leaf::Bytes(bytes) => Leaf::Bytes(bytes.slice(start as usize..(start + len) as usize)),
                    Leaf::Fill { byte, .. } => Leaf::Fill { byte: *byte, len },
                    Leaf::Checked { .. } => panic!("none is among them"),
                });
            }
            at += leaf.len();
        }
        Ok(())
    }
}

#[test]
fn files_keep_every_promise_of_a_source() {
    let directory = tempfile::tempdir().unwrap();
    for len in [0, 1, 4096, 20_000, 3 << 20] {
        let bytes = noise(len as u64, len);
        let source = file_source(directory.path(), &bytes);
        for backend in BACKENDS {
            source_conformance(&source, &bytes, &backend);
        }
    }
}

#[test]
fn prefixes_keep_every_promise_while_the_file_grows() {
    let directory = tempfile::tempdir().unwrap();
    let file = Arc::new(File::create_new(directory.path().join("grows")).unwrap());
    let bytes = noise(1, 10_000);
    file.write_all_at(&bytes, 0).unwrap();
    let source: Arc<dyn Source> = Arc::new(FileSource::prefix(Arc::clone(&file), 10_000).unwrap());
    file.write_all_at(&bytes, 10_000).unwrap();
    source_conformance(&source, &bytes, &Backend::Auto);
    file.set_len(9_999).unwrap();
    assert!(matches!(source.check_unchanged(), Err(Error::SourceChanged { .. })));
}

#[test]
fn memory_keeps_every_promise_of_a_source() {
    for len in [0, 1, 100_000] {
        let bytes = noise(2, len);
        let source: Arc<dyn Source> = Arc::new(MemorySource::new("memory", bytes.clone()));
        source_conformance(&source, &bytes, &Backend::Threads);
    }
}

#[test]
fn sparse_files_keep_every_promise_of_a_source() {
    let directory = tempfile::tempdir().unwrap();
    for len in [0, 1, 20_000, 200_000] {
        let bytes = noise(11, len);
        let below: [Arc<dyn Source>; 3] = [
            file_source(directory.path(), &bytes),
            Arc::new(MemorySource::new("memory", bytes.clone())),
            Arc::new(ObjectSource(TestObject::new(bytes.clone(), None))),
        ];
        for below in below {
            let file = Arc::new(SparseFile::new(below));
            if len > 10_000 {
                let part = ByteRange::new(4000, 5000).unwrap();
                assert!(file.read(part).unwrap() == bytes[4000..5000], "something is held");
            }
            source_conformance(&(file as Arc<dyn Source>), &bytes, &Backend::Threads);
        }
    }
}

#[test]
fn objects_keep_every_promise_of_a_source() {
    for len in [0, 1, 20_000] {
        let bytes = noise(9, len);
        let source: Arc<dyn Source> = Arc::new(ObjectSource(TestObject::new(bytes.clone(), None)));
        source_conformance(&source, &bytes, &Backend::Auto);
    }
}

#[test]
fn objects_are_asked_for_a_few_pieces_at_a_time() {
    let bytes = noise(10, 500_000);
    let object = TestObject::new(bytes.clone(), None);
    let source = ObjectSource(Arc::clone(&object));
    let options = SessionOptions { requests: 3, max_request_bytes: 7000, ..SessionOptions::default() };
    let mut session = Session::new(&Backend::Auto, options).unwrap();
    let whole = [ByteRange::to(500_000), ByteRange::new(1, 9000).unwrap()];
    let read = session.read_batch(&source, &whole, Access::Cached).unwrap();
    assert!(read[0] == bytes && read[1] == bytes[1..9000]);
    assert_eq!((object.most_under_way(), object.longest()), (3, 7000));
    assert_eq!((object.begun(), object.under_way()), (500_000_usize.div_ceil(7000) + 2, 0));
}

#[test]
fn requests_of_a_session_that_is_dropped_are_called_off() {
    let object = TestObject::new(noise(11, 100_000), None);
    let source = ObjectSource(Arc::clone(&object));
    let options = SessionOptions { requests: 4, max_request_bytes: 1000, ..SessionOptions::default() };
    let mut session = Session::new(&Backend::Auto, options).unwrap();
    session.submit(0, &source, ByteRange::to(100_000), Access::Cached).unwrap();
    assert_eq!((object.begun(), object.under_way()), (4, 4));
    drop(session);
    assert_eq!((object.begun(), object.under_way()), (4, 0));
}

#[test]
fn one_failing_request_fails_its_range_and_no_other() {
    let bytes = noise(12, 50_000);
    let faults = [ObjectFault::Fails, ObjectFault::Short, ObjectFault::Dropped];
    for (fault, requests) in faults.into_iter().flat_map(|fault| [(fault, 1), (fault, 2)]) {
        let object = TestObject::new(bytes.clone(), Some((5, fault)));
        let source = ObjectSource(Arc::clone(&object));
        let options = SessionOptions { requests, max_request_bytes: 4096, ..SessionOptions::default() };
        let mut session = Session::new(&Backend::Auto, options).unwrap();
        for (token, len) in [3000, 50_000, 4000].into_iter().enumerate() {
            session.submit(token as u64, &source, ByteRange::to(len), Access::Cached).unwrap();
        }
        let mut failed = Vec::new();
        while let Some((token, result)) = session.next() {
            match result {
                Ok(read) => assert!(read == bytes[..read.len()]),
                Err(error) => failed.push((token, error)),
            }
        }
        assert!(matches!(failed.as_slice(), [(1, Error::Io { .. } | Error::ShortRead { .. })]), "{failed:?}");
        // With two in flight, it is not known how many the other one answers before the failure is
        // reported.
        assert!(requests > 1 || object.begun() < 10, "what belongs to a range that failed is not asked for");
        assert!(session.read_batch(&source, &[ByteRange::to(50_000)], Access::Cached).unwrap()[0] == bytes);
    }
}

#[test]
fn composites_are_read_as_one() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = noise(3, 50_000);
    let path = directory.path().join("part");
    fs::write(&path, &bytes).unwrap();
    let file = Arc::new(File::open(path).unwrap());
    let part =
        |start, end| Leaf::File { file: Arc::clone(&file), range: ByteRange::new(start, end).unwrap() };
    let object = ObjectSource(TestObject::new(bytes.clone(), None));
    let mut leaves = Vec::new();
    object.resolve(ByteRange::new(100, 20_000).unwrap(), &mut leaves).unwrap();
    leaves.extend([
        part(1000, 30_000),
        Leaf::Fill { byte: 0, len: 5000 },
        Leaf::Bytes(Bytes::from_static(b"between")),
        part(7, 50_000),
        Leaf::Fill { byte: 9, len: 1 },
    ]);
    let mut contents = bytes[100..20_000].to_vec();
    contents.extend_from_slice(&bytes[1000..30_000]);
    contents.extend_from_slice(&[0; 5000]);
    contents.extend_from_slice(b"between");
    contents.extend_from_slice(&bytes[7..]);
    contents.push(9);
    let source: Arc<dyn Source> = Arc::new(Composite { leaves });
    for backend in BACKENDS {
        source_conformance(&source, &contents, &backend);
    }
}

/// Parts of files that begin at pages, and where alignment makes no read reach too far, are read
/// into the memory of their range, the others are copied there: neither may be seen.
#[test]
fn files_that_are_stitched_at_pages_are_read_as_one() {
    let directory = tempfile::tempdir().unwrap();
    let files: Vec<(Arc<File>, Vec<u8>)> = (0..4_u64)
        .map(|index| {
            let bytes = noise(20 + index, 70_000);
            let path = directory.path().join(index.to_string());
            fs::write(&path, &bytes).unwrap();
            (Arc::new(File::open(path).unwrap()), bytes)
        })
        .collect();
    let options = SessionOptions { max_read_bytes: 8192, ..SessionOptions::default() };
    for parts in [
        [(0, 65_536), (4096, 8192), (0, 4096), (8192, 70_000)],
        [(0, 65_536), (4096, 8192), (0, 4096), (8192, 8193)],
        // These begin at no page of their file, or let the next ones begin at none of the range.
        [(100, 4196), (4096, 8192), (1, 4097), (8192, 70_000)],
        [(0, 5000), (4096, 8192), (0, 4096), (8192, 70_000)],
    ] {
        let (mut leaves, mut contents) = (Vec::new(), Vec::new());
        for ((file, bytes), (start, end)) in files.iter().zip(parts) {
            let range = ByteRange::new(start, end).unwrap();
            leaves.push(Leaf::File { file: Arc::clone(file), range });
            contents.extend_from_slice(&bytes[start as usize..end as usize]);
        }
        let source: Arc<dyn Source> = Arc::new(Composite { leaves });
        for backend in BACKENDS {
            source_conformance(&source, &contents, &backend);
            for access in [Access::Direct, Access::Cached] {
                let mut session = Session::new(&backend, options).unwrap();
                let whole = [ByteRange::to(source.len()), ByteRange::new(4096, source.len()).unwrap()];
                let read = session.read_batch(&*source, &whole, access).unwrap();
                assert!(read[0] == contents && read[1] == contents[4096..], "{parts:?} {access:?}");
            }
        }
        // A file that became shorter is no reason to return what memory held before.
        let path = directory.path().join("3");
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(8192).unwrap();
        for access in [Access::Direct, Access::Cached] {
            let mut session = Session::new(&Backend::Auto, options).unwrap();
            let error = session.read_batch(&*source, &[ByteRange::to(source.len())], access).unwrap_err();
            assert!(matches!(error, Error::ShortRead { .. }), "{error:?}");
        }
        fs::write(path, &files[3].1).unwrap();
    }
}

/// Adjacent members of 4 KiB, which count how often their identity is requested.
#[derive(Debug)]
struct Joined {
    asked: Vec<AtomicUsize>,
}

impl Source for Joined {
    fn path(&self) -> &Path {
        Path::new("joined")
    }

    fn len(&self) -> u64 {
        self.asked.len() as u64 * 4096
    }

    fn identity(&self) -> Identity {
        Identity { len: self.len(), ..Identity::default() }
    }

    fn current_identity(&self) -> Result<Identity> {
        self.check_ranges(&[ByteRange::to(self.len())])?;
        Ok(self.identity())
    }

    fn check_ranges(&self, ranges: &[ByteRange]) -> Result<()> {
        for range in ranges {
            let touched = range.start() / 4096..range.end().div_ceil(4096);
            for member in touched {
                self.asked[member as usize].fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        check_bounds(self, range)?;
        leaves.push(Leaf::Fill { byte: 3, len: range.len() });
        Ok(())
    }
}

#[test]
fn of_a_source_of_many_members_those_are_asked_that_a_read_touches() {
    let source = Joined { asked: (0..65_536).map(|_| AtomicUsize::new(0)).collect() };
    let range = ByteRange::at(30_000 * 4096, 4096).unwrap();
    let read = read_range(&Backend::Threads, &source, range, Access::Cached).unwrap();
    assert!(read.len() == 4096 && read.iter().all(|&byte| byte == 3));
    let asked: usize = source.asked.iter().map(|asked| asked.load(Ordering::Relaxed)).sum();
    assert_eq!((asked, source.asked[30_000].load(Ordering::Relaxed)), (2, 2), "before and after");
    source.check_unchanged().unwrap();
    assert!(source.asked.iter().all(|asked| asked.load(Ordering::Relaxed) > 0));
}

/// Blocks of 1000 bytes of another source, any of which may be the damaged one; leaves below a leaf
/// may be checked, too.
#[derive(Debug)]
struct Blocks {
    inner: Arc<dyn Source>,
    damaged: Option<u64>,
}

#[derive(Debug)]
struct Block {
    leaves: Vec<Leaf>,
    part: std::ops::Range<usize>,
    is_damaged: bool,
}

impl Check for Block {
    fn path(&self) -> &Path {
        Path::new("blocks")
    }

    fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    fn verify(&self, read: Bytes) -> Result<Bytes> {
        if self.is_damaged {
            return Err(Error::Damaged { path: self.path().into(), offset: 7, what: "it was hit".into() });
        }
        Ok(read.slice(self.part.clone()))
    }
}

impl Source for Blocks {
    forward_source!(inner: path len identity current_identity);

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        check_bounds(self, range)?;
        let mut at = range.start();
        while at < range.end() {
            let start = at / 1000 * 1000;
            let whole = ByteRange::new(start, (start + 1000).min(self.len())).unwrap();
            let end = whole.end().min(range.end());
            let mut below = Vec::new();
            self.inner.resolve(whole, &mut below)?;
            let part = (at - start) as usize..(end - start) as usize;
            let is_damaged = self.damaged == Some(start / 1000);
            let check = Arc::new(Block { leaves: below, part, is_damaged });
            leaves.push(Leaf::Checked { check, len: end - at });
            at = end;
        }
        Ok(())
    }
}

#[test]
fn checked_leaves_keep_every_promise_of_a_source() {
    let directory = tempfile::tempdir().unwrap();
    for len in [0, 1, 1000, 70_001] {
        let bytes = noise(len as u64, len);
        let file = file_source(directory.path(), &bytes);
        let object: Arc<dyn Source> = Arc::new(ObjectSource(TestObject::new(bytes.clone(), None)));
        for inner in [file, object] {
            let blocks: Arc<dyn Source> = Arc::new(Blocks { inner, damaged: None });
            let twice: Arc<dyn Source> = Arc::new(Blocks { inner: Arc::clone(&blocks), damaged: None });
            for (source, backend) in [(&blocks, BACKENDS[0]), (&blocks, BACKENDS[1]), (&twice, BACKENDS[1])] {
                source_conformance(source, &bytes, &backend);
            }
        }
    }
}

#[test]
fn damage_of_a_checked_leaf_fails_its_ranges_and_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = noise(14, 50_000);
    let inner = file_source(directory.path(), &bytes);
    let source = Blocks { inner, damaged: Some(20) };
    for backend in BACKENDS {
        let options = SessionOptions { depth: 2, ..SessionOptions::default() };
        let mut session = Session::new(&backend, options).unwrap();
        let ranges = [(0, 20_000), (19_999, 20_001), (21_000, 50_000), (0, 50_000), (20_500, 20_501)];
        for ((start, end), token) in ranges.into_iter().zip(0..) {
            session.submit(token, &source, ByteRange::new(start, end).unwrap(), Access::Cached).unwrap();
        }
        let mut failed = Vec::new();
        while let Some((token, result)) = session.next() {
            let (start, end) = ranges[token as usize];
            match result {
                Ok(read) => assert!(read == bytes[start as usize..end as usize], "{token}"),
                Err(error) => {
                    assert_eq!(error.to_string(), "blocks is damaged at offset 7: it was hit");
                    failed.push(token);
                }
            }
        }
        failed.sort_unstable();
        assert_eq!((failed.as_slice(), session.pending()), ([1, 3, 4].as_slice(), 0));
    }
}

#[test]
fn a_file_that_ends_early_is_reported_with_path_and_offset() {
    let directory = tempfile::tempdir().unwrap();
    let inner = file_source(directory.path(), &noise(4, 10_000));
    let source = FaultSource::new(inner, SourceFault::Short { missing: 5000 });
    for backend in BACKENDS {
        for access in [Access::Direct, Access::Cached] {
            let range = ByteRange::new(8000, 15_000).unwrap();
            let error = read_range(&backend, &source, range, access).unwrap_err();
            let reported = matches!(&error, Error::ShortRead { path, offset: 8000, wanted: 7000, got: 2000 }
                if path == source.path());
            assert!(reported, "{error:?}");
        }
    }
}

#[test]
fn a_rewritten_file_is_reported_as_changed_not_as_short() {
    let directory = tempfile::tempdir().unwrap();
    let source = file_source(directory.path(), &noise(5, 10_000));
    fs::write(source.path(), b"short").unwrap();
    let error = read_range(&Backend::Auto, &*source, ByteRange::to(10_000), Access::Cached).unwrap_err();
    assert!(matches!(error, Error::SourceChanged { .. }), "{error}");
}

#[test]
fn one_failing_read_fails_its_range_and_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = noise(6, 200_000);
    let source = file_source(directory.path(), &bytes);
    for backend in BACKENDS {
        for fault in [EngineFault::Fails, EngineFault::Short] {
            let factory = FaultEngineFactory::new(backend);
            // The first range has one read, the second 25, the third one.
            factory.fail(Some(EngineCall::Read), 10, fault);
            let options = SessionOptions { depth: 4, max_read_bytes: 8192, ..SessionOptions::default() };
            let mut session = Session::new(&factory, options).unwrap();
            for (token, len) in [5000, 200_000, 8000].into_iter().enumerate() {
                let range = ByteRange::to(len);
                session.submit(token as u64, &*source, range, Access::Direct).unwrap();
            }
            let mut failed = Vec::new();
            while let Some((token, result)) = session.next() {
                match result {
                    Ok(read) => assert!(read == bytes[..read.len()]),
                    Err(error) => failed.push((token, error.to_string())),
                }
            }
            assert_eq!(failed.len(), 1);
            assert_eq!(failed[0].0, 1);
            assert!(failed[0].1.contains("source"), "{failed:?}");
            let again = session.read_batch(&*source, &[ByteRange::to(200_000)], Access::Cached).unwrap();
            assert!(again[0] == bytes, "the session works on");
        }
    }
}

#[test]
fn delayed_reads_are_put_where_they_belong() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = noise(7, 100_000);
    let source = file_source(directory.path(), &bytes);
    let factory = FaultEngineFactory::new(Backend::Threads);
    for nth in 0..5 {
        factory.fail(None, nth, EngineFault::Delayed);
    }
    let ranges: Vec<_> = (0..50).map(|at| ByteRange::at(at * 2000, 2000).unwrap()).collect();
    let read = read_batch(&factory, &*source, &ranges, Access::Cached).unwrap();
    assert!(read.concat() == bytes);
}

#[test]
fn a_range_that_cannot_be_resolved_stops_the_batch() {
    let directory = tempfile::tempdir().unwrap();
    let inner = file_source(directory.path(), &noise(8, 10_000));
    let source = FaultSource::new(inner, SourceFault::Fails { nth: 1 });
    let ranges = [ByteRange::to(10), ByteRange::to(20), ByteRange::to(30)];
    let error = read_batch(&Backend::Auto, &source, &ranges, Access::Cached).unwrap_err();
    assert!(
        matches!(&error, Error::Io { source, .. } if source.raw_os_error() == Some(libc::EIO)),
        "{error}"
    );
}

#[test]
fn a_directory_and_an_empty_address_are_refused_when_they_are_opened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    for address in [path, &format!("file://{path}")] {
        let error = source::open(address).unwrap_err();
        assert_eq!(error.io_kind(), Some(std::io::ErrorKind::IsADirectory), "{error}");
        assert_eq!(error.to_string(), format!("cannot open {path}"));
    }
    let error = source::open("").unwrap_err();
    assert!(matches!(error, Error::Address { .. }), "{error:?}");
    assert_eq!(error.to_string(), "\"\" cannot be opened: the address is empty");
}

#[test]
fn what_cannot_be_read_in_parts_is_refused_when_it_is_opened() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let socket = directory.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for (path, expected) in [
        (fifo.as_path(), "it is a named pipe, which cannot be read in parts"),
        (Path::new("/dev/zero"), "it is a character device, which cannot be read in parts"),
        #[cfg(target_os = "linux")]
        (Path::new("/proc/self/status"), "its length is not known"),
    ] {
        let error = source::open(path).unwrap_err();
        assert!(matches!(error, Error::Address { .. }), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(source::open(&socket).is_err());
}

#[test]
fn an_empty_file_and_one_that_is_linked_to_are_files() {
    let directory = tempfile::tempdir().unwrap();
    let (path, link) = (directory.path().join("file"), directory.path().join("link"));
    fs::write(&path, b"").unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_eq!(source::open(&link).unwrap().len(), 0);
    fs::write(&path, noise(13, 100_000)).unwrap();
    let source = FileSource::open(&link).unwrap();
    // Opened without waiting, and read like any other.
    for (backend, access) in [(Backend::Auto, Access::Direct), (Backend::Auto, Access::Cached)] {
        let read = read_range(&backend, &source, ByteRange::to(100_000), access).unwrap();
        assert!(read == noise(13, 100_000));
    }
}
