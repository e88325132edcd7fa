//! Operations: what comes out of packs and archives alike, and what ends them half-way.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stook::archive::{self, Archive};
use stook::names::{Patterns, Selection};
use stook::ops::check::check;
use stook::ops::export::Export;
use stook::ops::follow::wait_for_newer;
use stook::ops::repair::{self, repair};
use stook::ops::unpack::{Error, Nothing, Packed, PathFilter, Prefix, Unpack, Unpacked};
use stook::pack::tree::{Delete, Grouping, PackTree, RecordTree};
use stook::pack::{self, Attributes, FileKind, Key, OpenOptions, Pack, PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions};
use stook::tree::{Kept, Kind, Overwrite, Tree as _, WhyKept};
use stook::walk::Decision;

/// A tree as a pack and as a tar.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { directory: tempfile::tempdir().unwrap() };
        for (path, len) in [("a/1.jpg", 5), ("a/raw/2.jpg", 300_000), ("a/3.txt", 0), ("b/4.jpg", 70_000)] {
            let path = place.path("tree").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![b'x'; len]).unwrap();
        }
        let tree = PackTree {
            roots: vec![place.path("tree")],
            grouping: Grouping::Top,
            with_owner: false,
            xattrs: true,
            threads: 2,
            select: Box::new(|_, _| Decision::Take),
            own: None,
            delete: Delete::Nothing,
            checksum: false,
            keeps_moved: false,
            attributes: None,
        };
        let mut writer = PackWriter::create(place.storage("pack", true), WriterOptions::default()).unwrap();
        tree.run(Some(&mut writer), None, &mut |_, _| true).unwrap();
        writer.set_complete(true);
        writer.finish(true).unwrap();
        Export::default().run_to_file(&place.pack(), &place.path("tar"), &mut |_, _| true).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn storage(&self, name: &str, is_new: bool) -> Arc<LocalStorage> {
        let open = if is_new { LocalStorage::create } else { LocalStorage::open };
        Arc::new(open(&self.path(name), LocalStorageOptions::default()).unwrap())
    }

    fn pack(&self) -> Pack {
        Pack::open_path(self.path("pack"), OpenOptions::default()).unwrap()
    }

    fn archive(&self) -> Archive {
        Archive::open(self.path("tar"), archive::OpenOptions::default()).unwrap()
    }

    fn unpack<'a>(&self, target: &str, filter: PathFilter<'a>) -> Unpack<'a> {
        Unpack {
            target: self.path(target),
            filter,
            overwrite: Overwrite::Never,
            with_owner: false,
            xattrs: true,
            threads: 2,
            durability: Default::default(),
            force: false,
        }
    }

    /// What comes out of both, which is the same.
    fn unpacked(&self, filter: impl Fn() -> PathFilter<'static>) -> (Vec<String>, Unpacked) {
        let (pack, archive) = (self.pack(), self.archive());
        let both = [("out-pack", Packed::Pack(&pack)), ("out-tar", Packed::Archive(&archive))];
        let [(of_pack, reported), (of_archive, _)] = both.map(|(target, packed)| {
            let unpacked = self.unpack(target, filter()).run(packed, &mut |_| true).unwrap();
            let tree = tree_at(&self.path(target));
            let _ = fs::remove_dir_all(self.path(target));
            (tree, unpacked)
        });
        assert_eq!(of_pack, of_archive);
        (of_pack.into_keys().collect(), reported)
    }

    fn names(&self) -> Vec<String> {
        tree_at(self.directory.path()).into_keys().filter(|name| !name.contains('/')).collect()
    }
}

/// The paths below a directory, with the bytes of files.
fn tree_at(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            let bytes = fs::read(&path).unwrap_or_default();
            found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(), bytes);
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

fn patterns(include: &[&str], exclude: &[&str]) -> PathFilter<'static> {
    let patterns = Selection::of(Patterns::new(include).unwrap(), Patterns::new(exclude).unwrap());
    PathFilter { patterns, ..PathFilter::default() }
}

#[test]
fn packs_and_archives_give_the_same_tree_for_the_same_filter() {
    let place = Place::new();
    let (all, reported) = place.unpacked(PathFilter::default);
    assert_eq!(all, tree_at(&place.path("tree")).into_keys().collect::<Vec<_>>());
    assert_eq!(
        (reported.summary.files, reported.undone, reported.is_complete, reported.nothing),
        (4, 0, true, None)
    );
    assert_eq!(place.unpacked(|| patterns(&["*.jpg"], &["raw/"])).0, ["a", "a/1.jpg", "b", "b/4.jpg"]);
    let begins = || PathFilter { prefix: Prefix::Path(b"a/r".to_vec()), ..PathFilter::default() };
    assert_eq!(place.unpacked(begins).0, ["a", "a/raw", "a/raw/2.jpg"]);
    let called = || PathFilter {
        exclude: Some(Box::new(|path| Some(path == b"a/raw"))),
        select: Some(Box::new(|path| Some(path.ends_with(b".jpg")))),
        ..PathFilter::default()
    };
    assert_eq!(place.unpacked(called).0, ["a", "a/1.jpg", "b", "b/4.jpg"]);
}

#[test]
fn a_directory_that_was_made_for_what_is_missing_is_removed_again() {
    let place = Place::new();
    let pack = place.pack();
    for (filter, nothing, stays) in [
        (patterns(&["*.png"], &[]), Nothing::Missing, false),
        (patterns(&[], &["*"]), Nothing::Excluded, true),
    ] {
        let unpacked = place.unpack("out", filter).run(Packed::Pack(&pack), &mut |_| true).unwrap();
        assert_eq!((unpacked.nothing, place.path("out").exists()), (Some(nothing), stays));
        assert!(stays || unpacked.summary.directories == 0, "what is gone again is not counted");
    }
    // It was there this time.
    let missing = place.unpack("out", patterns(&["*.png"], &[]));
    missing.run(Packed::Pack(&pack), &mut |_| true).unwrap();
    assert!(place.path("out").exists());
}

#[test]
fn a_predicate_that_fails_ends_it_and_is_not_asked_again() {
    let place = Place::new();
    let (pack, asked) = (place.pack(), std::sync::atomic::AtomicU64::new(0));
    let fails = || PathFilter {
        select: Some(Box::new(|_| {
            asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            None
        })),
        ..PathFilter::default()
    };
    let unpacked = place.unpack("out", fails()).run(Packed::Pack(&pack), &mut |_| true).unwrap();
    assert!(unpacked.summary.interrupted && unpacked.summary.files == 0);
    let export = Export { filter: fails(), ..Export::default() };
    let exported = export.run_to_file(&pack, &place.path("out.tar"), &mut |_, _| true);
    assert!(matches!(exported, Err(Error::Interrupted)), "{exported:?}");
    assert!(!place.path("out.tar").exists());
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 2);
}

#[test]
fn groups_are_of_packs_and_have_to_be_there() {
    let place = Place::new();
    let of = |group: &str| PathFilter { groups: vec![group.into()], ..PathFilter::default() };
    let (pack, archive) = (place.pack(), place.archive());
    let unpacked = place.unpack("out", of("b")).run(Packed::Pack(&pack), &mut |_| true).unwrap();
    assert_eq!((unpacked.summary.files, tree_at(&place.path("out")).len()), (1, 2));
    let refused = place.unpack("no", of("b")).run(Packed::Archive(&archive), &mut |_| true).unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!("group is for packs, and {} is a tar", place.path("tar").display())
    );
    for refused in [
        place.unpack("no", of("z")).run(Packed::Pack(&pack), &mut |_| true).unwrap_err(),
        Export { filter: of("z"), ..Export::default() }
            .run(&pack, &mut Vec::new(), &mut |_, _| true)
            .unwrap_err(),
    ] {
        assert!(refused.to_string().starts_with("the pack has no group \"z\""), "{refused}");
    }
    assert!(!place.path("no").exists());
}

#[test]
fn an_export_writes_to_what_it_is_given_and_ends_where_that_fails_or_it_is_told_to() {
    let place = Place::new();
    let (pack, mut bytes) = (place.pack(), Vec::new());
    Export::default().run(&pack, &mut bytes, &mut |_, _| true).unwrap();
    assert_eq!(bytes, fs::read(place.path("tar")).unwrap());
    let failed = Export::default().run(&pack, &mut &mut [0; 1000][..], &mut |_, _| true);
    assert!(matches!(failed, Err(Error::Write(_))), "{failed:?}");
    for calls in 0..20 {
        let (mut left, mut bytes) = (calls, Vec::new());
        let mut go_on = |_, _| {
            left -= 1;
            left > 0
        };
        let stopped = Export::default().run(&pack, &mut bytes, &mut go_on);
        assert!(left > 0 || matches!(stopped, Err(Error::Interrupted)), "{calls}");
        let _ = Export::default().run_to_file(&pack, &place.path("half"), &mut |_, _| false).unwrap_err();
        assert!(!place.path("half").exists());
    }
}

/// A tar that was not replaced.
fn incomplete(tar: &Path) -> Kept {
    Kept { key: tar.to_str().unwrap().into(), why: WhyKept::Incomplete }
}

#[test]
fn a_tar_that_is_there_is_replaced_by_one_of_all_that_was_asked_for_or_by_force() {
    let place = Place::new();
    let (tar, before) = (place.path("tar"), fs::read(place.path("tar")).unwrap());
    let export = |filter, force, to: &str| {
        Export { filter, force, ..Export::default() }
            .run_to_file(&place.pack(), &place.path(to), &mut |_, _| true)
            .unwrap()
    };
    for force in [false, true] {
        let missing = export(patterns(&["*.png"], &[]), force, "tar");
        assert_eq!((missing.nothing, fs::read(&tar).unwrap() == before), (Some(Nothing::Missing), true));
        // Before: 1, that of the root, in a tar that is not there.
        assert_eq!(missing.summary.directories, 0);
    }
    export(patterns(&["*.png"], &[]), false, "new");
    assert!(!place.path("new").exists(), "no tar is made of what is missing");
    let excluded = export(patterns(&[], &["*"]), false, "tar");
    // Before: nothing was undone, and nothing reported that the tar is not the requested one.
    assert_eq!((excluded.undone, excluded.nothing, excluded.summary.directories), (1, None, 0));
    assert_eq!(excluded.summary.kept, [incomplete(&tar)]);
    assert!(fs::read(&tar).unwrap() == before);
    for (to, force) in [("excluded", false), ("tar", true)] {
        let excluded = export(patterns(&[], &["*"]), force, to);
        assert_eq!((excluded.undone, excluded.nothing), (0, Some(Nothing::Excluded)));
    }
    assert!(fs::read(&tar).unwrap() == fs::read(place.path("excluded")).unwrap());
    let some = export(patterns(&["*.jpg"], &[]), false, "tar");
    assert_eq!((some.undone, some.summary.files), (0, 3));
    assert!(fs::read(&tar).unwrap() != before, "it has all that was asked for");

    fs::write(&tar, &before).unwrap();
    let mut writer = PackWriter::open(place.storage("pack", false), WriterOptions::default()).unwrap();
    writer.put("", &Key::id(1), &Attributes::new(), b"no path").unwrap();
    writer.set_complete(true);
    writer.finish(true).unwrap();
    let kept = export(PathFilter::default(), false, "tar");
    assert_eq!((kept.summary.files, kept.summary.failures.len(), kept.undone), (0, 1, 2));
    assert_eq!(kept.summary.kept, [incomplete(&tar)]);
    assert!(fs::read(&tar).unwrap() == before);
    let new = export(PathFilter::default(), false, "new");
    assert_eq!((new.summary.files, new.summary.kept.len(), new.undone), (4, 0, 1));
    fs::write(&tar, b"of before").unwrap();
    let forced = export(PathFilter::default(), true, "tar");
    assert_eq!((forced.summary.files, forced.undone), (4, 1));
    assert!(fs::read(&tar).unwrap() == fs::read(place.path("new")).unwrap());

    // A missing segment: its contents are unknown.
    for file in fs::read_dir(place.path("pack")).unwrap().map(|entry| entry.unwrap().path()) {
        if file.file_name().unwrap().to_str().unwrap().starts_with("segment-") {
            fs::remove_file(file).unwrap();
        }
    }
    let kept = export(PathFilter::default(), false, "new");
    assert_eq!((kept.summary.files, kept.summary.kept.len(), kept.nothing), (0, 1, None));
    assert!(fs::read(&tar).unwrap() == fs::read(place.path("new")).unwrap());
}

#[test]
fn a_name_that_is_no_path_of_a_tar_costs_the_other_names_of_its_file_nothing() {
    let place = Place::new();
    let mut writer = PackWriter::create(place.storage("links", true), WriterOptions::default()).unwrap();
    let (none, link) = (Attributes::new(), Attributes::of_file(FileKind::HardLink, 0o644, 0, None));
    for (name, attributes, body) in [
        ("x", &none, "content"),
        ("zl", &link, "x"),
        ("zm", &link, "x"),
        ("x-", &none, "of a name between"),
        ("x/y", &none, "what makes x a directory"),
        // The file is one that can be written, and one of the links is not.
        ("a", &none, "another"),
        ("b", &link, "a"),
        ("x/b", &link, "a"),
        ("/b", &link, "a"),
    ] {
        writer.put("", &Key::bytes(name).unwrap(), attributes, body.as_bytes()).unwrap();
    }
    writer.set_complete(true);
    writer.finish(true).unwrap();
    let pack = Pack::open_path(place.path("links"), OpenOptions::default()).unwrap();
    let path = place.path("links.tar");
    let exported = Export::default().run_to_file(&pack, &path, &mut |_, _| true).unwrap();
    let failed: Vec<&[u8]> = exported.summary.failures.iter().map(|failure| &failure.key[..]).collect();
    // Before: "zl: it is one file with x, which could not be written", and so "zm".
    assert_eq!(failed, [&b"/b"[..], b"x"]);
    assert_eq!((exported.summary.files, exported.summary.hard_links), (4, 3));
    let out = place.unpack("out", PathFilter::default());
    let tar = Archive::open(&path, archive::OpenOptions::default()).unwrap();
    assert_eq!(out.run(Packed::Archive(&tar), &mut |_| true).unwrap().undone, 0);
    let read = |name: &str| fs::read_to_string(place.path("out").join(name)).unwrap();
    let all = ["zl", "zm", "a", "b", "x/b", "x-", "x/y"];
    let bodies = all.map(read);
    let [content, another] = ["content", "another"];
    assert_eq!(bodies[..6], [content, content, another, another, another, "of a name between"]);
    assert_eq!(bodies[6], "what makes x a directory");
    // Before: unpacking kept what came first on the medium, and refused the other.
    let unpacked =
        place.unpack("files", PathFilter::default()).run(Packed::Pack(&pack), &mut |_| true).unwrap();
    let mut failed: Vec<&[u8]> = unpacked.summary.failures.iter().map(|failure| &failure.key[..]).collect();
    failed.sort_unstable();
    assert_eq!(failed, [&b"/b"[..], b"x"]);
    for (name, body) in all.iter().zip(&bodies) {
        assert_eq!(&fs::read_to_string(place.path("files").join(name)).unwrap(), body, "{name}");
    }
    // And so has the pack as a tree.
    let tree = RecordTree::new(Arc::new(pack)).unwrap();
    let kind = |name: &str| tree.node(tree.find(name.as_bytes()).unwrap().unwrap()).unwrap().kind;
    assert_eq!((kind("x"), kind("x/y")), (Kind::Directory, Kind::File));
}

/// Takes a tar, and has a bit of a segment flip as soon as the head of the member `m` is there.
struct Flipping {
    written: Vec<u8>,
    segment: fs::File,
}

impl io::Write for Flipping {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.starts_with(b"m\0") {
            let (mut byte, middle) = ([0], self.segment.metadata()?.len() / 2);
            self.segment.read_exact_at(&mut byte, middle)?;
            self.segment.write_all_at(&[byte[0] ^ 1], middle)?;
        }
        self.written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn damage_that_comes_while_a_long_file_is_written_costs_no_member_after_it() {
    let place = Place::new();
    let mut writer = PackWriter::create(place.storage("long", true), WriterOptions::default()).unwrap();
    let long = vec![b'm'; 20_000_001];
    for (name, body) in [("a", &b"before"[..]), ("m", &long[..]), ("z", &b"beyond"[..])] {
        writer.put("", &Key::bytes(name).unwrap(), &Attributes::new(), body).unwrap();
    }
    writer.set_complete(true);
    writer.finish(true).unwrap();
    let pack = Pack::open_path(place.path("long"), OpenOptions::default()).unwrap();
    let segment = place.path("long/segment-0000000000000001");
    let segment = fs::OpenOptions::new().read(true).write(true).open(segment).unwrap();
    let mut flipping = Flipping { written: Vec::new(), segment };
    let exported = Export::default().run(&pack, &mut flipping, &mut |_, _| true).unwrap();
    let failed: Vec<&[u8]> = exported.summary.failures.iter().map(|failure| &failure.key[..]).collect();
    assert_eq!((failed, exported.summary.files, exported.summary.bytes), (vec![&b"m"[..]], 2, 12));
    fs::write(place.path("long.tar"), &flipping.written).unwrap();
    let tar = |option: &str, names: &[&str]| {
        let mut tar = std::process::Command::new("tar");
        let ended = tar.arg(option).arg(place.path("long.tar")).args(names).output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        ended.stdout
    };
    assert_eq!(tar("-tf", &[]), b"a\nm\nz\n");
    assert_eq!([tar("-xOf", &["a"]), tar("-xOf", &["z"])], [b"before", b"beyond"]);
    let member = tar("-xOf", &["m"]);
    assert_eq!(member.len(), long.len());
    let whole = member.iter().take_while(|&&byte| byte == b'm').count();
    assert!(whole <= 10_100_000 && member[whole..].iter().all(|&byte| byte == 0));
}

#[test]
fn a_check_ends_when_it_is_told_to() {
    let place = Place::new();
    let mut opened = 0;
    let mut reported = Vec::new();
    let report = check(&place.path("pack"), &mut |_| opened += 1, &mut |done, total| {
        reported.push((done, total));
        true
    });
    assert_eq!((report.unwrap().damages.len(), opened), (0, 1));
    assert!(reported.is_sorted() && reported.iter().all(|(done, total)| done <= total));
    for calls in 1..reported.len() {
        let mut left = calls;
        let stopped = check(&place.path("pack"), &mut |_| {}, &mut |_, _| {
            left -= 1;
            left > 0
        });
        assert!(matches!(stopped, Err(pack::Error::Stopped)), "{calls}: {stopped:?}");
    }
}

#[test]
fn a_repair_that_ends_half_way_leaves_nothing_and_one_that_does_not_says_what_it_saved() {
    let place = Place::new();
    let files = fs::read_dir(place.path("pack")).unwrap().map(|entry| entry.unwrap().path());
    let segment = files.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let len = bytes.len();
    bytes[len / 2..len / 2 + 10].fill(0xA7);
    fs::write(&segment, bytes).unwrap();
    let (pack, new, before) = (place.path("pack"), place.path("new"), place.names());
    let mut calls = 0_u32;
    let mut last = (0, 1);
    let report = repair(&pack, &place.path("saved"), &mut |done, total| {
        calls += 1;
        last = (done, total);
        done <= total
    });
    let report = report.unwrap();
    assert_eq!(last.0, last.1);
    assert!(!report.repaired.damages.is_empty() && report.quarantined_bytes() > 0);
    let written = fs::read_to_string(report.quarantine.join("report.json")).unwrap();
    assert_eq!(written, serde_json::to_string_pretty(&report.document()).unwrap());
    for name in ["saved", "saved.quarantine"] {
        fs::remove_dir_all(place.path(name)).unwrap();
    }
    for calls in 1..=calls {
        let mut left = calls;
        let stopped = repair(&pack, &new, &mut |_, _| {
            left -= 1;
            left > 0
        });
        assert!(matches!(stopped, Err(repair::Error::Interrupted)), "{calls}: {stopped:?}");
        assert_eq!(place.names(), before, "{calls}");
    }
    for there in ["new", "new.quarantine"] {
        fs::write(place.path(there), b"somebody else's").unwrap();
        let refused = repair(&pack, &new, &mut |_, _| true).unwrap_err();
        assert!(matches!(&refused, repair::Error::Exists { path } if *path == place.path(there)));
        assert_eq!(fs::read(place.path(there)).unwrap(), b"somebody else's");
        fs::remove_file(place.path(there)).unwrap();
    }
}

#[test]
fn a_reader_that_follows_a_pack_waits_for_a_newer_state_or_until_it_is_asked_to_end() {
    let place = Place::new();
    let seen = place.pack();
    let open = || -> pack::Result<Pack> { Ok(place.pack()) };
    assert!(wait_for_newer(&seen, &mut || false, open).unwrap().is_none());
    let mut looks = 3;
    let mut a_few = || {
        looks -= 1;
        looks > 0
    };
    assert!(wait_for_newer(&seen, &mut a_few, open).unwrap().is_none());
    let mut writer = PackWriter::open(place.storage("pack", false), WriterOptions::default()).unwrap();
    writer.put("", &Key::bytes("new").unwrap(), &Attributes::new(), b"x").unwrap();
    writer.sync().unwrap();
    let newer = wait_for_newer(&seen, &mut || true, open).unwrap().unwrap();
    let put: Vec<Key> = newer.put_since(&seen).unwrap().into_iter().map(|head| head.key).collect();
    assert_eq!(put, [Key::bytes("new").unwrap()]);
}
