//! Operations that change a pack: room for compaction, records deleted together, a pack made for a
//! put, originals that moved into it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use stook::ops::compact::{Compact, Error};
use stook::ops::contents::{self, KeyPatterns, LoadEvents, LoadOptions, Matching, Selected, Unselected};
use stook::ops::delete::delete;
use stook::ops::pack::{Answer, Hooks, Making, PackSources, Stage, put_into};
use stook::ops::unpack::{Packed, PathFilter, Unpack};
use stook::pack::format::attributes::{NAMES, Name, Value};
use stook::pack::{
    self, Attributes, CompactOptions, FileKind, Key, OpenOptions, Pack, PackWriter, Stop, WriterOptions,
};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};
use stook::tree::Overwrite;

const BODY_LEN: u64 = 10_000;

fn key(name: &str) -> Key {
    Key::bytes(name).unwrap()
}

/// A directory on a device with this much space.
#[derive(Debug)]
struct Scarce {
    inner: LocalStorage,
    free: AtomicU64,
}

impl Storage for Scarce {
    stook_testing::forward_storage!(inner:
        path create open_append open prepare rename unlink sync_directory list remove_leftovers lock
        hold unlink_unless_held
    );

    fn free_bytes(&self) -> stook::Result<Option<u64>> {
        Ok(Some(self.free.load(Relaxed)))
    }
}

/// A directory of a file system that is read-only.
#[derive(Debug)]
struct ReadOnly {
    inner: LocalStorage,
}

impl Storage for ReadOnly {
    stook_testing::forward_storage!(inner:
        path create open_append open prepare rename unlink sync_directory list remove_leftovers lock
        hold unlink_unless_held
    );

    fn check_writable(&self) -> stook::Result<()> {
        let error = std::io::Error::from(std::io::ErrorKind::ReadOnlyFilesystem);
        Err(stook::Error::io("make files in", self.path(""), error))
    }
}

/// Before: only the dry run of `pack` looked; those of `rm` and `compact` said what would be done.
#[test]
fn a_pack_where_nothing_can_be_written_is_refused_to_who_says_what_would_be() {
    let place = tempfile::tempdir().unwrap();
    let (storage, writer) = churned(place.path(), u64::MAX);
    drop(writer);
    open(&storage).check_writable().unwrap();
    let inner = LocalStorage::open(place.path(), LocalStorageOptions::default()).unwrap();
    let pack = Pack::open(Arc::new(ReadOnly { inner }), OpenOptions::default()).unwrap();
    let refused = pack.check_writable().unwrap_err();
    assert!(matches!(refused, pack::Error::Core(_)), "{refused}");
}

/// A pack of a hundred records; every second one was deleted.
fn churned(directory: &Path, free: u64) -> (Arc<Scarce>, PackWriter) {
    let inner = LocalStorage::open(directory, LocalStorageOptions::default()).unwrap();
    let storage = Arc::new(Scarce { inner, free: AtomicU64::new(free) });
    let mut writer = PackWriter::create(storage.clone(), WriterOptions::default()).unwrap();
    for number in 0..100 {
        writer.put("", &Key::id(number), &Attributes::new(), &[1; BODY_LEN as usize]).unwrap();
    }
    for number in (0..100).step_by(2) {
        assert!(writer.delete(&Key::id(number)).unwrap());
    }
    writer.sync().unwrap();
    (storage, writer)
}

fn open(storage: &Arc<Scarce>) -> Pack {
    Pack::open(storage.clone(), OpenOptions::default()).unwrap()
}

/// Before: the command refused, its dry run and Python did not.
#[test]
fn a_step_that_needs_more_room_than_is_free_is_refused_and_so_is_its_plan() {
    let directory = tempfile::tempdir().unwrap();
    let (storage, mut writer) = churned(directory.path(), 5 * BODY_LEN);
    let all = Compact { extra_len: Some(u64::MAX), ..Compact::default() };
    let segments = open(&storage).segments().len();
    let refused = [all.plan(&open(&storage)).map(drop), all.run(&mut writer, &mut |_| true).map(drop)];
    for refused in refused {
        match refused.unwrap_err() {
            Error::NoSpace { needed, free, place } => {
                assert!(needed >= 50 * BODY_LEN && free == 5 * BODY_LEN, "{needed} of {free}");
                assert_eq!(place, directory.path());
            }
            error => panic!("{error}"),
        }
    }
    assert_eq!(open(&storage).segments().len(), segments);
    // By default it is left, because half of the free space is too little for it.
    let left = Compact::default().run(&mut writer, &mut |_| true).unwrap();
    assert_eq!((left.steps, left.too_large.len()), (0, 1));
    // The writer continues, and with this much space each of them compacts.
    writer.put("", &Key::id(1000), &Attributes::new(), b"more").unwrap();
    storage.free.store(100 * BODY_LEN, Relaxed);
    let done = all.run(&mut writer, &mut |_| true).unwrap();
    assert_eq!((done.dead_records, done.too_large.len()), (50, 0));
    assert_eq!(open(&storage).len(), 51);
}

/// Before: Python did nothing for a group that is not there.
#[test]
fn a_pack_at_a_path_is_previewed_and_compacted_and_no_group_is_misspelt() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let (storage, mut writer) = churned(path, u64::MAX);
    let misspelt = Compact { groups: vec!["x".into()], ..Compact::default() };
    let refused = misspelt.run(&mut writer, &mut |_| true).unwrap_err();
    assert!(refused.to_string().contains("has no group \"x\""), "{refused}");
    writer.finish(false).unwrap();
    let refused = [
        misspelt.preview_at(path, &mut (), Stop::default()).map(drop),
        misspelt.run_at(path, &mut (), &mut |_, _| true).map(drop),
    ];
    assert!(refused.iter().all(|refused| refused.as_ref().unwrap_err().to_string().contains("no group")));
    let all = Compact::default();
    let (plan, seconds) = all.preview_at(path, &mut (), Stop::default()).unwrap();
    assert!(plan.dead_records() == 50 && seconds.unwrap() > 0.0, "{plan:?} {seconds:?}");
    assert!(matches!(all.preview_at(path, &mut (), Stop(|| true)), Err(Error::Pack(pack::Error::Stopped))));
    assert_eq!(open(&storage).plan_compaction(&CompactOptions::default(), i64::MAX).unwrap(), plan);
    let mut totals = Vec::new();
    let done = all.run_at(path, &mut (), &mut |bytes, total| {
        totals.push((bytes, total));
        true
    });
    assert_eq!(done.unwrap().dead_records, 50);
    assert!(totals.iter().all(|(_, total)| *total == plan.kept_bytes()), "{totals:?}");
    assert_eq!(all.preview_at(path, &mut (), Stop::default()).unwrap().1, None);
}

/// Before: the requested size was cut to 16 GiB.
#[test]
fn a_step_takes_what_is_asked_for_or_else_half_of_what_is_free_and_16_gib_at_most() {
    let directory = tempfile::tempdir().unwrap();
    let (storage, _writer) = churned(directory.path(), 0);
    let pack = open(&storage);
    let most = CompactOptions::default().extra_len;
    let huge = 4 * most;
    for (free, asked, extra_len) in [
        (200 * BODY_LEN, None, 100 * BODY_LEN),
        (huge, None, most),
        (u64::MAX, Some(huge), huge),
        (0, Some(1), 1),
    ] {
        storage.free.store(free, Relaxed);
        let planned = Compact { extra_len: asked, ..Compact::default() }.plan(&pack).unwrap();
        assert_eq!(planned.extra_len, extra_len, "{free}, {asked:?}");
        assert_eq!(planned.plan.steps.is_empty(), extra_len == 1, "{free}, {asked:?}");
    }
}

/// A pack with a file, and hard links with their targets.
fn with_names(path: &Path, names: &[(&str, &str)]) -> PackWriter {
    let storage = LocalStorage::create(path, LocalStorageOptions::default()).unwrap();
    let mut writer = PackWriter::create(Arc::new(storage), WriterOptions::default()).unwrap();
    let mut file = Attributes::of_file(FileKind::File, 0o640, 7, None);
    file.set(Name::Id(NAMES), Value::U32(2));
    writer.put("", &key("file"), &file, &[1; BODY_LEN as usize]).unwrap();
    for (name, leads_to) in names {
        let link = Attributes::of_file(FileKind::HardLink, 0o640, 7, None);
        writer.put("", &key(name), &link, leads_to.as_bytes()).unwrap();
    }
    writer
}

fn frame_bytes(pack: &Pack) -> u64 {
    pack.segments().iter().map(|segment| segment.frame_bytes).sum()
}

fn selected(pack: &Pack, names: &[&str]) -> Selected {
    let keys: Vec<Key> = names.iter().map(|name| key(name)).collect();
    let mut selected = Selected::default();
    selected.add_listed(pack, &keys, &[], &mut |unselected| panic!("{unselected:?}")).unwrap();
    selected
}

#[test]
fn names_that_are_deleted_together_take_their_content_along() {
    let all = ["a", "file", "z"];
    for names in [
        [("a", "file"), ("z", "file")],
        // Names of names.
        [("z", "file"), ("a", "z")],
        [("a", "file"), ("z", "a")],
        // What no writer of ours makes.
        [("a", "z"), ("z", "a")],
    ] {
        for is_reopened in [true, false] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("p.stook");
            let mut writer = with_names(&path, &names);
            if is_reopened {
                writer.finish(true).unwrap();
                let storage = LocalStorage::open(&path, LocalStorageOptions::default()).unwrap();
                writer = PackWriter::open(Arc::new(storage), WriterOptions::default()).unwrap();
            }
            writer.sync().unwrap();
            let pack = Pack::open(writer.storage().clone(), OpenOptions::default()).unwrap();
            let (before, selected) = (frame_bytes(&pack), selected(&pack, &all));
            assert_eq!((selected.keys().len(), selected.group()), (3, ""));
            assert!(!is_reopened || selected.stored_bytes() > BODY_LEN);
            assert!(delete(&mut writer, &selected, &mut |_| true).unwrap());
            writer.finish(false).unwrap();
            let pack = Pack::open_path(&path, OpenOptions::default()).unwrap();
            assert_eq!(pack.len(), 0, "{names:?}");
            let written = frame_bytes(&pack) - before;
            assert!(written < BODY_LEN / 2, "{written} bytes for {names:?}: the content was moved");
            assert!(pack.check(|_| ()).unwrap().damages.is_empty());
        }
    }
}

#[test]
fn a_long_chain_of_names_is_deleted_and_a_name_that_stays_gets_the_content() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.stook");
    let chain: Vec<String> = (0..5_000).map(|number| format!("n{number:05}")).collect();
    let mut names: Vec<(&str, &str)> = vec![("n00000", "file"), ("stays", "file")];
    names.extend(chain.windows(2).map(|two| (two[1].as_str(), two[0].as_str())));
    let mut writer = with_names(&path, &names);
    let mut keys: Vec<Key> = chain.iter().map(|name| key(name)).collect();
    keys.extend([key("file"), key("absent")]);
    let mut batch = writer.batch("").unwrap();
    assert_eq!(batch.delete_all(&keys, &mut |_| true).unwrap(), Some(5_001));
    batch.commit().unwrap();
    writer.finish(false).unwrap();
    let pack = Pack::open_path(&path, OpenOptions::default()).unwrap();
    assert_eq!((pack.len(), pack.get(&key("stays")).unwrap().unwrap().body.len() as u64), (1, BODY_LEN));
}

#[test]
fn a_deletion_that_is_ended_deletes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (storage, mut writer) = churned(directory.path(), u64::MAX);
    let pack = open(&storage);
    let mut selected = Selected::default();
    let patterns = KeyPatterns::default();
    let everything = Matching { prefix: b"", patterns: &patterns, groups: &[], stop: Stop::default() };
    assert!(selected.add_matching(&pack, &everything, &mut |_| {}).unwrap());
    assert_eq!(selected.keys().len(), 50);
    assert!(!delete(&mut writer, &selected, &mut |deleted| deleted < 10).unwrap());
    writer.sync().unwrap();
    assert_eq!(open(&storage).len(), 50);
    assert!(delete(&mut writer, &Selected::default(), &mut |_| false).unwrap(), "nothing is deleted at once");
    let stopped = Matching { stop: Stop(|| true), ..everything };
    let ended = Selected::default().add_matching(&pack, &stopped, &mut |_| {});
    assert!(matches!(ended, Err(contents::Error::Interrupted)));
}

#[test]
fn keys_patterns_and_groups_select_and_what_is_not_there_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let storage = LocalStorage::open(directory.path(), LocalStorageOptions::default()).unwrap();
    let mut writer = PackWriter::create(Arc::new(storage), WriterOptions::default()).unwrap();
    for (name, group) in [("a/1", ""), ("a/2", "g"), ("b", "g")] {
        writer.put(group, &key(name), &Attributes::new(), b"x").unwrap();
    }
    writer.sync().unwrap();
    let pack = Pack::open(writer.storage().clone(), OpenOptions::default()).unwrap();
    let groups = ["g".to_owned()];
    let (mut selected, mut missing) = (Selected::default(), Vec::new());
    let asked = [key("a/1"), key("b"), key("c"), key("b")];
    let mut note = |unselected: Unselected<'_>| match unselected {
        Unselected::Missing(key) => missing.push(key.clone()),
        Unselected::Damaged(error) => panic!("{error}"),
    };
    selected.add_listed(&pack, &asked, &groups, &mut note).unwrap();
    let patterns = KeyPatterns::new(&["a/*".to_owned()]).unwrap();
    let matching = |prefix| Matching { prefix, patterns: &patterns, groups: &groups, stop: Stop::default() };
    let other = key("b");
    assert!(!selected.add_matching(&pack, &matching(other.sort_form()), &mut note).unwrap());
    assert!(selected.add_matching(&pack, &matching(b""), &mut note).unwrap());
    assert_eq!(missing, [key("a/1"), key("c")]);
    assert_eq!((selected.keys().len(), selected.group()), (2, "g"));
    assert!(selected.keys().contains(&key("a/2")) && selected.keys().contains(&key("b")));
}

/// Records its calls, and replaces a finished pack by another directory.
#[derive(Default)]
struct Swaps {
    pack: Option<PathBuf>,
    notes: Vec<String>,
    watched: u64,
}

impl Hooks for Swaps {
    fn finished(&mut self, stage: Stage) -> Answer {
        if let (Stage::Packing, Some(pack)) = (stage, &self.pack) {
            fs::rename(pack, pack.with_extension("aside")).unwrap();
            fs::create_dir(pack).unwrap();
        }
        Answer::GoOn
    }

    fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    fn watch(&mut self, _log: pack::DamageLog) {
        self.watched += 1;
    }
}

#[test]
fn a_pack_that_was_made_for_a_put_that_fails_is_taken_back_and_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p.stook");
    let put = |group: &str, making, fails: bool| {
        let mut hooks = Swaps::default();
        let put = put_into::<_, pack::Error>(&path, group, making, &mut hooks, |writer, is_made| {
            writer.put(group, &key("a"), &Attributes::new(), b"1")?;
            if fails { Err(pack::Error::Invalid("on purpose".into())) } else { Ok(is_made) }
        });
        (put, hooks)
    };
    let too_long = "g".repeat(100_000);
    assert!(put(&too_long, Making::IfMissing, false).0.is_err() && !path.exists());
    assert!(put("", Making::Never, false).0.is_err() && !path.exists());
    let (failed, hooks) = put("", Making::IfMissing, true);
    assert!(matches!(failed, Err(pack::Error::Invalid(why)) if why == "on purpose"));
    assert!(!path.exists() && hooks.watched == 1 && hooks.notes.is_empty(), "{:?}", hooks.notes);
    // A directory that was there stays.
    fs::create_dir(&path).unwrap();
    put("", Making::IfMissing, true).0.unwrap_err();
    assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    assert!(put("", Making::IfMissing, false).0.unwrap());
    assert!(!put("", Making::IfMissing, false).0.unwrap());
    put("", Making::IfMissing, true).0.unwrap_err();
    let pack = Pack::open_path(&path, OpenOptions::default()).unwrap();
    assert!(pack.is_complete() && pack.len() == 1);
}

/// Before: whatever was at its path by then was read back.
#[test]
fn originals_are_compared_with_the_pack_that_was_written() {
    let directory = tempfile::tempdir().unwrap();
    let [tree, path, aside] = ["tree", "p.stook", "p.aside"].map(|name| directory.path().join(name));
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("a"), "alpha").unwrap();
    let packing = PackSources { move_originals: true, ..PackSources::new(vec![tree.clone()], path.clone()) };
    let report = packing.run(&mut Swaps { pack: Some(path.clone()), ..Swaps::default() }).unwrap();
    assert_eq!(report.moved.unwrap().files, 1);
    assert_eq!((fs::read_dir(&tree).unwrap().count(), fs::read_dir(&path).unwrap().count()), (0, 0));
    let pack = Pack::open_path(&aside, OpenOptions::default()).unwrap();
    assert!(pack.is_moved_into());
    assert_eq!(pack.get(&key("a")).unwrap().unwrap().body, &b"alpha"[..]);
}

/// Hears nothing.
struct Silent;

impl LoadEvents for Silent {
    fn total(&self, _bytes: u64) {}

    fn passed(&self, _bytes: u64) {}

    fn failed(&self, _key: &[u8], _error: &stook::archive::Error) {}
}

#[test]
fn that_a_pack_is_incomplete_counts_once_wherever_it_is_read_out() {
    for is_complete in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p.stook");
        let storage = LocalStorage::create(&path, LocalStorageOptions::default()).unwrap();
        let mut writer = PackWriter::create(Arc::new(storage), WriterOptions::default()).unwrap();
        writer.put("", &key("a"), &Attributes::new(), b"1").unwrap();
        writer.set_complete(is_complete);
        writer.finish(true).unwrap();
        let undone = u64::from(!is_complete);
        let opened = contents::open(&path, contents::OpenOptions::default(), &mut |_| true).unwrap();
        for threads in [1, 2] {
            let options = LoadOptions { threads, ..LoadOptions::default() };
            let loaded = opened.contents().load(&options, &Silent).unwrap();
            assert_eq!((loaded.records, loaded.undone), (1, undone), "{threads} threads");
        }
        let unpack = Unpack {
            target: directory.path().join("out"),
            filter: PathFilter::default(),
            overwrite: Overwrite::Never,
            with_owner: false,
            xattrs: true,
            threads: 1,
            durability: Default::default(),
            force: false,
        };
        assert_eq!(unpack.run(Packed::from(&opened), &mut |_| true).unwrap().undone, undone);
    }
}
