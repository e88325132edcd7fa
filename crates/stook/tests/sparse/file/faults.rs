//! Sources that change, end early and fail.

use std::sync::Arc;
use std::thread;

use stook::Error;
use stook::source::MemorySource;
use stook::sparse::{AheadOptions, SparseFile, SparseFileError, SparseFileOptions};
use stook_testing::fault::{FaultSource, ObjectFault, ObjectSource, SourceFault, TestObject};

use super::{CountedSource, part, range};

/// Fetches no more than it must.
fn plain() -> SparseFileOptions {
    let ahead = AheadOptions { allowance: 0, max_gap: 0, ..AheadOptions::default() };
    SparseFileOptions { ahead, ..SparseFileOptions::default() }
}

#[test]
fn a_changed_source_is_an_error_of_every_read_and_what_was_held_is_gone() {
    let (source, bytes) = CountedSource::of_len(1 << 20);
    let file = SparseFile::with_options(source.clone(), Arc::default(), plain());
    assert_eq!(file.read(range(0, 100)).unwrap(), bytes[..100]);
    source.change();
    assert_eq!(file.read(range(0, 100)).unwrap(), bytes[..100], "what is held is of one state");
    let refused = file.read(range(500_000, 500_100)).unwrap_err();
    assert!(refused.is_changed_source(), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("modified 1970-01-01T00:00:00Z") || text.contains("with neither"), "{text}");
    assert!(text.contains("modified 1970-01-01T00:00:00.000000001Z"), "both states are named: {text}");
    assert!(file.buffer().is_empty());
    assert!(file.read(range(0, 100)).unwrap_err().is_changed_source());
    assert!(file.prefetch(&[range(0, 100)]).unwrap_err().is_changed_source());
}

#[test]
fn what_was_read_while_the_source_changed_is_not_kept() {
    // The identity is requested before and after each fetch: the second answer is another one.
    let memory = Arc::new(MemorySource::new("memory", vec![1_u8; 1 << 20]));
    let source = Arc::new(FaultSource::new(memory, SourceFault::Changes { nth: 1 }));
    let file = SparseFile::with_options(source, Arc::default(), plain());
    assert!(file.read(range(0, 100)).unwrap_err().is_changed_source());
    assert!(file.buffer().is_empty());
}

#[test]
fn a_failed_request_is_told_to_all_who_waited_and_may_be_made_again() {
    for fault in [ObjectFault::Fails, ObjectFault::Short, ObjectFault::Dropped] {
        let bytes: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
        let object = TestObject::new(bytes.clone(), Some((0, fault)));
        let file = SparseFile::with_options(Arc::new(ObjectSource(object.clone())), Arc::default(), plain());
        let failed: usize = thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| file.read(range(5, 50_000)).is_err())).collect();
            threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum()
        });
        assert!(failed >= 1, "{fault:?}");
        assert_eq!(file.read(range(5, 50_000)).unwrap(), bytes[5..50_000], "{fault:?}");
        assert_eq!(object.begun(), 2, "{fault:?}: one that failed, one that did not");
    }
}

#[test]
fn a_source_that_fails_once_names_the_place() {
    let (source, bytes) = CountedSource::of_len(1 << 20);
    let source = Arc::new(FaultSource::new(source, SourceFault::Fails { nth: 1 }));
    let file = SparseFile::with_options(source, Arc::default(), plain());
    assert_eq!(file.read(range(0, 10)).unwrap(), bytes[..10]);
    let SparseFileError::Source(error) = file.read(range(700_000, 700_010)).unwrap_err() else { panic!() };
    assert!(matches!(*error, Error::Io { offset: Some(700_000), .. }), "{error}");
    let wanted = range(700_000, 700_010);
    assert_eq!(file.read(wanted).unwrap(), part(&bytes, wanted));
}

#[test]
fn a_source_that_is_shorter_than_it_says_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, vec![3; 10_000]).unwrap();
    let inner = Arc::new(stook::source::FileSource::open(&path).unwrap());
    let source = Arc::new(FaultSource::new(inner, SourceFault::Short { missing: 500 }));
    let file = SparseFile::with_options(source, Arc::default(), plain());
    assert_eq!(file.read(range(0, 100)).unwrap(), [3; 100][..]);
    let refused = file.read(range(9_900, 10_200)).unwrap_err().to_string();
    assert!(refused.contains("ends too early"), "{refused}");
}

#[test]
fn a_file_that_shrinks_grows_or_is_replaced_between_two_reads_is_reported() {
    type Change = fn(&std::path::Path);
    let changes: [(&str, Change); 3] = [
        ("shrinks", |path| std::fs::File::options().write(true).open(path).unwrap().set_len(5_000).unwrap()),
        ("grows", |path| std::fs::File::options().write(true).open(path).unwrap().set_len(20_000).unwrap()),
        ("is replaced", |path| {
            let other = path.with_extension("new");
            std::fs::write(&other, vec![4; 10_000]).unwrap();
            std::fs::rename(&other, path).unwrap();
        }),
    ];
    for (what, change) in changes {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![3; 10_000]).unwrap();
        let source = Arc::new(stook::source::FileSource::open(&path).unwrap());
        let file = SparseFile::with_options(source, Arc::default(), plain());
        assert_eq!(file.read(range(0, 100)).unwrap(), [3; 100][..]);
        change(&path);
        let read = file.read(range(4_000, 4_100));
        assert!(read.as_ref().is_err_and(SparseFileError::is_changed_source), "{what}: {read:?}");
    }
}

#[test]
fn what_was_only_read_ahead_may_fail_without_harm() {
    let bytes: Vec<u8> = (0..4_000_000_u32).map(|n| (n / 3) as u8).collect();
    // First reads at equal distances: the third is read together with the expected next ones, one
    // of which fails.
    for nth in 2..6 {
        let object = TestObject::new(bytes.clone(), Some((nth, ObjectFault::Fails)));
        let ahead = AheadOptions { max_gap: 1_000, ..AheadOptions::default() };
        let options = SparseFileOptions { ahead, ..SparseFileOptions::default() };
        let file = SparseFile::with_options(Arc::new(ObjectSource(object.clone())), Arc::default(), options);
        let mut failures = 0;
        for place in 0..9 {
            let wanted = range(100_000 + place * 400_000, 100_100 + place * 400_000);
            match file.read(wanted) {
                Ok(read) => assert_eq!(read, bytes[wanted.start() as usize..wanted.end() as usize]),
                // It was itself what failed.
                Err(_) => failures += 1,
            }
            assert_eq!(file.read(wanted).unwrap(), bytes[wanted.start() as usize..wanted.end() as usize]);
        }
        assert!(
            failures <= 1 && object.begun() > nth,
            "{failures} reads failed, {} requests",
            object.begun()
        );
    }
}
