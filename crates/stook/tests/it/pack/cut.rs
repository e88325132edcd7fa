//! A writer cuts what a killed one left unfinished while a reader, which knows the old length
//! already, reads up to there.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use stook::pack::{Attributes, Error, Key, OpenOptions, Pack, PackWriter, WriterOptions};
use stook::source::Source;
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};
use stook_testing::conformance::pattern;

const RUBBISH_LEN: u64 = 20_000;

/// Makes a segment shorter each time when it has just been opened, so often.
#[derive(Debug)]
struct Cutting {
    inner: LocalStorage,
    cuts_left: AtomicU32,
}

impl Storage for Cutting {
    stook_testing::forward_storage!(inner:
        path create open_append prepare rename unlink sync_directory list remove_leftovers lock
        hold unlink_unless_held
    );

    fn open(&self, name: &str) -> stook::Result<Arc<dyn Source>> {
        let source = self.inner.open(name)?;
        let may_cut = |left: u32| left.checked_sub(1);
        if name.starts_with("segment-") && self.cuts_left.fetch_update(Relaxed, Relaxed, may_cut).is_ok() {
            let file = fs::OpenOptions::new().write(true).open(self.inner.path(name)).unwrap();
            file.set_len(source.len() - RUBBISH_LEN / 40).unwrap();
        }
        Ok(source)
    }
}

/// Opens a pack with ten records, after which a killed writer left rubbish that is truncated this
/// often while the reader opens it.
fn opened(directory: &Path, cuts: u32) -> Result<Pack, Error> {
    let storage = || LocalStorage::open(directory, LocalStorageOptions::default()).unwrap();
    let mut writer = PackWriter::create(Arc::new(storage()), WriterOptions::default()).unwrap();
    for number in 0..10 {
        writer.put("", &Key::id(number), &Attributes::new(), &pattern(5_000, number)).unwrap();
    }
    writer.sync().unwrap();
    drop(writer);
    let mut files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let segment = files.find(|path| path.to_string_lossy().contains("segment-")).unwrap();
    let len = segment.metadata().unwrap().len();
    fs::OpenOptions::new().write(true).open(&segment).unwrap().set_len(len + RUBBISH_LEN).unwrap();
    let cutting = Cutting { inner: storage(), cuts_left: AtomicU32::new(cuts) };
    Pack::open(Arc::new(cutting), OpenOptions::default())
}

#[test]
fn a_reader_opens_while_a_writer_cuts_an_unfinished_end() {
    for cuts in 0..4 {
        let directory = tempfile::tempdir().unwrap();
        let pack = opened(directory.path(), cuts).unwrap();
        assert_eq!(pack.damages(), []);
        for number in 0..10 {
            let record = pack.get(&Key::id(number)).unwrap().unwrap();
            assert_eq!(record.body, pattern(5_000, number), "{cuts} cuts");
        }
    }
}

#[test]
fn a_file_that_becomes_shorter_without_end_is_an_error_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let refused = opened(directory.path(), 30).unwrap_err();
    assert!(matches!(refused, Error::Core(stook::Error::ShortRead { .. })), "{refused}");
}
