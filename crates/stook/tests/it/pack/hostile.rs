//! A pack may come from anywhere: an entry with the name of a file may be something else.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use stook::engine::Backend;
use stook::pack::{
    Attributes, CompactOptions, Error, Key, OpenOptions, Pack, PackWriter, Result, WriterOptions,
};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};
use stook_testing::conformance::Strange;
use stook_testing::model::pack::read_in_every_way;

use super::damage::{Files, small};

pub(super) fn write_files(directory: &Path, files: &Files) {
    for (name, bytes) in files {
        fs::write(directory.join(name), bytes).unwrap();
    }
}

pub(super) fn local(directory: &Path) -> Arc<dyn Storage> {
    let options =
        LocalStorageOptions { engine: Arc::new(Backend::Threads), ..LocalStorageOptions::default() };
    Arc::new(LocalStorage::open(directory, options).unwrap())
}

pub(super) fn open(directory: &Path) -> Result<Pack> {
    Pack::open(
        local(directory),
        OpenOptions { engines: Arc::new(Backend::Threads), ..OpenOptions::default() },
    )
}

pub(super) fn options() -> WriterOptions {
    WriterOptions { engines: Arc::new(Backend::Threads), ..WriterOptions::default() }
}

/// Opens for writing, puts a record, compacts, ends.
fn write_and_compact(directory: &Path) -> Result<()> {
    let mut writer = PackWriter::open(local(directory), options())?;
    writer.put("c", &Key::id(7_000), &Attributes::new(), b"new")?;
    writer.sync()?;
    writer.compact(&CompactOptions::default(), &mut |_| true)?;
    writer.finish(false)
}

fn repair(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to).unwrap();
    let aside = to.with_extension("aside");
    let mut quarantine = || {
        fs::create_dir_all(&aside).unwrap();
        Ok(local(&aside))
    };
    stook::pack::repair(local(from).as_ref(), local(to), options(), &mut quarantine, &mut |_| true).map(drop)
}

/// Everything that is done to a pack, and the messages.
fn all_that_is_said(directory: &Path, keys: &[Key], repaired: &Path) -> String {
    let mut said = Vec::new();
    match open(directory) {
        Ok(pack) => said.extend(read_in_every_way(&pack, keys).complaints),
        Err(error) => said.push(format!("open: {error}")),
    }
    said.extend(write_and_compact(directory).err().map(|error| format!("write: {error}")));
    said.extend(repair(directory, repaired).err().map(|error| format!("repair: {error}")));
    said.join("\n")
}

#[test]
fn whatever_stands_in_place_of_a_file_is_reported_and_neither_followed_nor_waited_for() {
    let small = small();
    for strange in Strange::ALL {
        for name in small.files.keys() {
            let parent = tempfile::tempdir().unwrap();
            let directory = parent.path().join("p.stook");
            fs::create_dir(&directory).unwrap();
            write_files(&directory, &small.files);
            let path = directory.join(name);
            fs::remove_file(&path).unwrap();
            if !strange.make(&path) {
                eprintln!("left out: {strange:?} may not be made");
                continue;
            }
            let said = all_that_is_said(&directory, &small.keys, &parent.path().join("repaired"));
            // Without its checkpoint a segment is scanned; older generations and the note are not
            // needed.
            let is_needed = !name.starts_with("checkpoint-") && name != "writer.lock";
            let newest = small.files.keys().rfind(|name| name.starts_with("manifest-")).unwrap();
            if is_needed && (!name.starts_with("manifest-") || name == newest) {
                assert!(said.contains(name.as_str()) && said.contains(strange.noun()), "{name}: {said}");
            }
            assert!(name == "writer.lock" || strange.is_at(&path), "{name} is left as it is");
        }
    }
}

#[test]
fn the_lock_of_a_foreign_pack_destroys_no_file_of_the_user() {
    let small = small();
    let parent = tempfile::tempdir().unwrap();
    let (directory, mine) = (parent.path().join("p.stook"), parent.path().join("mine"));
    fs::create_dir(&directory).unwrap();
    write_files(&directory, &small.files);
    fs::remove_file(directory.join("writer.lock")).ok();
    fs::write(&mine, b"all my notes").unwrap();
    std::os::unix::fs::symlink(&mine, directory.join("writer.lock")).unwrap();
    let mut writer = PackWriter::open(local(&directory), options()).unwrap();
    writer.put("", &Key::id(1), &Attributes::new(), b"x").unwrap();
    writer.finish(false).unwrap();
    assert_eq!(fs::read(&mine).unwrap(), b"all my notes");
}

#[test]
fn a_second_writer_is_refused_after_the_note_of_the_first_was_removed() {
    let parent = tempfile::tempdir().unwrap();
    let mut first = PackWriter::create(local(parent.path()), options()).unwrap();
    fs::remove_file(parent.path().join("writer.lock")).unwrap();
    let second = PackWriter::open(local(parent.path()), options());
    assert!(matches!(second, Err(Error::Core(stook::Error::Locked { .. }))), "{second:?}");
    first.put("", &Key::id(1), &Attributes::new(), b"acknowledged").unwrap();
    first.sync().unwrap();
    assert_eq!(open(parent.path()).unwrap().get(&Key::id(1)).unwrap().unwrap().body, b"acknowledged"[..]);
}

#[test]
fn a_pack_that_is_moved_while_a_writer_works_stays_one_pack() {
    let parent = tempfile::tempdir().unwrap();
    let (before, after) = (parent.path().join("before"), parent.path().join("after"));
    fs::create_dir(&before).unwrap();
    let mut writer = PackWriter::create(local(&before), options()).unwrap();
    writer.put("", &Key::id(1), &Attributes::new(), b"one").unwrap();
    writer.sync().unwrap();
    let reader = open(&before).unwrap();
    fs::rename(&before, &after).unwrap();
    // Another pack takes the place of the first.
    fs::create_dir(&before).unwrap();
    let mut other = PackWriter::create(local(&before), options()).unwrap();
    other.put("", &Key::id(1), &Attributes::new(), b"of the other").unwrap();
    other.finish(true).unwrap();
    writer.put("", &Key::id(2), &Attributes::new(), b"two").unwrap();
    writer.finish(true).unwrap();
    assert_eq!(reader.get(&Key::id(1)).unwrap().unwrap().body, b"one"[..]);
    let pack = open(&after).unwrap();
    assert_eq!(pack.len(), 2);
    assert_eq!(pack.check(|_| {}).unwrap().damages, []);
    assert_eq!(open(&before).unwrap().len(), 1);
}

/// A crash may leave a file that is longer than what was written of it. Before, every opening read
/// its hole: one of 1 TiB took more than eight minutes, and nothing but a second Ctrl-C ended it.
#[test]
fn a_hole_after_a_growing_segment_costs_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("p.stook");
    let storage = LocalStorage::create(&directory, LocalStorageOptions::default()).unwrap();
    let mut writer = PackWriter::create(Arc::new(storage), options()).unwrap();
    writer.put("", &Key::id(1), &Attributes::new(), b"abc").unwrap();
    writer.finish(false).unwrap();
    let segment = directory.join("segment-0000000000000001");
    let len = segment.metadata().unwrap().len();
    fs::OpenOptions::new().write(true).open(&segment).unwrap().set_len(1 << 40).unwrap();
    let pack = open(&directory).unwrap();
    assert_eq!(pack.get(&Key::id(1)).unwrap().unwrap().body.as_ref(), b"abc");
    drop(pack);
    PackWriter::open(local(&directory), options()).unwrap().finish(false).unwrap();
    assert!(segment.metadata().unwrap().len() <= len + 4096, "the next writer cuts it off");
}
