//! A reader reads a growing segment while a writer truncates what a killed one left there, and
//! continues.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stook::engine::Backend;
use stook::pack::{Attributes, Key, OpenOptions, Pack, PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};
use stook_testing::conformance::pattern;
use stook_testing::fault::FaultEngineFactory;

/// More than what is read ahead at once.
const BODY_LEN: usize = 6 << 20;

fn storage(directory: &Path) -> Arc<dyn Storage> {
    Arc::new(LocalStorage::open(directory, LocalStorageOptions::default()).unwrap())
}

fn put(writer: &mut PackWriter, number: u64, len: usize) {
    writer.put("", &Key::id(number), &Attributes::new(), &pattern(len, number)).unwrap();
}

fn segment_of(pack: &Path) -> PathBuf {
    let mut names = fs::read_dir(pack).unwrap().map(|entry| entry.unwrap().path());
    names.find(|path| path.to_string_lossy().contains("/segment-")).unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// A pack with record 1; its writer was killed while it wrote record 2.
fn make_torn(pack: &Path, whole: &Path) {
    let storage_of_pack = Arc::new(LocalStorage::create(pack, LocalStorageOptions::default()).unwrap());
    let mut writer = PackWriter::create(storage_of_pack, WriterOptions::default()).unwrap();
    writer.put("", &Key::id(1), &Attributes::new(), b"first").unwrap();
    writer.finish(false).unwrap();
    copy(pack, whole);
    let mut writer = PackWriter::open(storage(whole), WriterOptions::default()).unwrap();
    put(&mut writer, 2, BODY_LEN);
    writer.sync().unwrap();
    let bytes = fs::read(segment_of(whole)).unwrap();
    fs::write(segment_of(pack), &bytes[..bytes.len() - BODY_LEN / 8]).unwrap();
}

/// Cuts off the torn tail and puts more, each synced, so that marks vouch for the bytes where the
/// tear was.
fn take_over(pack: &Path, publishes: bool) {
    let mut writer = PackWriter::open(storage(pack), WriterOptions::default()).unwrap();
    for number in 3..12 {
        put(&mut writer, number, BODY_LEN / 8);
        writer.sync().unwrap();
    }
    if publishes {
        writer.finish(false).unwrap();
    }
}

/// Before: bytes read half before the truncation and half after it were taken for damage, because a
/// mark that came later vouched for the place.
#[test]
fn a_tail_that_is_cut_and_written_anew_while_it_is_read_is_no_damage() {
    let place = tempfile::tempdir().unwrap();
    let (torn, whole) = (place.path().join("torn"), place.path().join("whole"));
    make_torn(&torn, &whole);
    let alone = Pack::open_path(&torn, OpenOptions::default()).unwrap();
    assert!(alone.damages().is_empty() && alone.len() == 1, "{:?}", alone.damages());
    for publishes in [false, true] {
        for nth in 0.. {
            let pack = place.path().join(format!("{publishes}-{nth}"));
            copy(&torn, &pack);
            let engines = FaultEngineFactory::new(Backend::Threads);
            let ran = Arc::new(AtomicBool::new(false));
            let (directory, has_run) = (pack.clone(), ran.clone());
            engines.meanwhile(nth, move || {
                take_over(&directory, publishes);
                has_run.store(true, Ordering::Relaxed);
            });
            let options = OpenOptions { engines: Arc::new(engines), ..OpenOptions::default() };
            let opened = Pack::open_path(&pack, options).unwrap();
            assert!(opened.damages().is_empty(), "read {nth}: {:?}", opened.damages());
            assert!(opened.contains(&Key::id(1)).unwrap(), "read {nth}");
            fs::remove_dir_all(&pack).unwrap();
            if !ran.load(Ordering::Relaxed) {
                assert!(nth > 2, "it was opened with {nth} reads");
                break;
            }
        }
    }
}
