//! Packs and archives of one tree are listed, got and loaded alike.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::archive::MemberKind;
use crate::format::tar::write::{Head, end, padding};
use crate::ops::directory::open_pack;
use crate::ops::pack::{Making, open_writer};
use crate::pack::format::attributes::{KIND, MODE, MTIME_NS, Name, Value};
use crate::pack::{Attributes, FileKind, KeyRange, PackWriter, ScanOrder, Stop, WriterOptions};
use crate::storage::{LocalStorage, LocalStorageOptions};

/// The tree: each key with its kind and bytes, in the order of keys.
fn tree() -> Vec<(&'static str, FileKind, Vec<u8>)> {
    vec![
        ("a", FileKind::File, b"alpha".to_vec()),
        ("d", FileKind::Directory, Vec::new()),
        ("d/b", FileKind::File, vec![b'b'; 200_000]),
        ("d/e", FileKind::Directory, Vec::new()),
        ("d/e/c", FileKind::File, Vec::new()),
        ("further", FileKind::HardLink, b"a".to_vec()),
        ("link", FileKind::Symlink, b"d/b".to_vec()),
    ]
}

fn tar(path: &Path) {
    let mut bytes = Vec::new();
    for (key, kind, body) in tree() {
        let (kind, is_file) = match kind {
            FileKind::File => (MemberKind::File, true),
            FileKind::Directory => (MemberKind::Directory, false),
            FileKind::Symlink => (MemberKind::Symlink, false),
            FileKind::HardLink => (MemberKind::HardLink, false),
        };
        let (len, link) = if is_file { (body.len() as u64, &[][..]) } else { (0, &body[..]) };
        let head =
            Head { key: key.as_bytes(), kind, mode: 0o644, mtime_ns: 7, owner: None, len, link, xattrs: &[] };
        bytes.extend(head.encode());
        if is_file {
            bytes.extend_from_slice(&body);
            bytes.extend(padding(len));
        }
    }
    bytes.extend(end(bytes.len() as u64));
    fs::write(path, bytes).unwrap();
}

fn pack(path: &Path) {
    let storage = Arc::new(LocalStorage::create(path, LocalStorageOptions::default()).unwrap());
    let mut writer = PackWriter::create(storage, WriterOptions::default()).unwrap();
    for (key, kind, body) in tree() {
        let mut attributes = Attributes::new();
        attributes.set(Name::Id(KIND), Value::U8(kind.code()));
        attributes.set(Name::Id(MODE), Value::U32(0o644));
        attributes.set(Name::Id(MTIME_NS), Value::I64(7));
        writer.put("g", &Key::bytes(key).unwrap(), &attributes, &body).unwrap();
    }
    writer.finish(true).unwrap();
}

/// Runs a test on the pack and on the archive.
fn both(test: impl Fn(&Opened)) {
    let directory = tempfile::tempdir().unwrap();
    let (packed, archived) = (directory.path().join("p.stook"), directory.path().join("x.tar"));
    pack(&packed);
    tar(&archived);
    for path in [packed, archived] {
        test(&open(path, OpenOptions::default(), &mut |_| true).unwrap());
    }
}

fn keys(texts: &[&str]) -> Vec<Key> {
    texts.iter().map(|text| Key::bytes(text).unwrap()).collect()
}

fn listed(opened: &Opened, options: &ListOptions) -> Vec<String> {
    let batches = opened.contents().list(options).unwrap();
    let all = batches.flat_map(|batch| batch.unwrap()).map(|listed| match listed {
        Listed::Entry(entry) => entry.key.to_string(),
        Listed::Hidden(error) => panic!("{error}"),
    });
    all.collect()
}

#[test]
fn a_pack_and_an_archive_are_listed_alike() {
    both(|opened| {
        let all = ListOptions::default();
        assert_eq!(listed(opened, &all), ["a", "d", "d/b", "d/e", "d/e/c", "further", "link"]);
        let range = |keys| ListOptions { keys, ..ListOptions::default() };
        let d = KeyRange::prefix(Key::bytes("d").unwrap().sort_form());
        assert_eq!(listed(opened, &range(d.clone().from(&keys(&["d/e"])[0]))), ["d/e", "d/e/c"]);
        assert_eq!(listed(opened, &range(d.to(&keys(&["d/b"])[0]))), ["d"]);
        assert_eq!(listed(opened, &range(KeyRange::all().from(&Key::id(0)))), [""; 0]);
        let matching = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|&text| text.to_owned()).collect();
            let patterns = KeyPatterns::new(&texts).unwrap();
            listed(opened, &ListOptions { patterns, ..ListOptions::default() })
        };
        assert_eq!(matching(&["e/"]), ["d/e", "d/e/c"], "kinds decide");
        assert_eq!(matching(&["l*", "/a"]), ["a", "link"]);
    });
}

#[test]
fn details_are_heads_and_where_links_lead() {
    both(|opened| {
        let options = ListOptions { details: true, ..ListOptions::default() };
        let batches = opened.contents().list(&options).unwrap();
        let entries = batches.flat_map(|batch| batch.unwrap());
        for (listed, (key, kind, body)) in entries.zip(tree()) {
            let Listed::Entry(entry) = listed else { panic!("{key}") };
            let Detail { head, link } = *entry.detail.unwrap();
            let head = head.unwrap();
            assert_eq!((head.attributes.file_kind(), head.attributes.mtime_ns()), (Some(kind), Some(7)));
            let len = (kind == FileKind::HardLink).then_some(5);
            assert!(len.is_none() || head.body_len == len, "{key}: that of its file");
            let is_link = matches!(kind, FileKind::Symlink | FileKind::HardLink);
            assert_eq!(link.unwrap(), is_link.then_some(body), "{key}");
        }
    });
}

#[test]
fn keys_are_got_in_their_order_and_one_that_is_missing_costs_no_other() {
    both(|opened| {
        let contents = opened.contents();
        let wanted = keys(&["link", "nothing", "further", "d/b", "d", "a"]);
        let options = GetOptions::default();
        let mut getting = contents.get(&wanted, &options).unwrap();
        let mut got = Vec::new();
        while let Some((key, found)) = getting.next().unwrap() {
            let mut body = Vec::new();
            match found {
                Found::Failed(failure) => {
                    let name = contents.entry_name();
                    assert_eq!(failure.status(), "missing");
                    assert!(failure.to_string().ends_with(&format!(" has no {name} nothing")), "{failure}");
                }
                Found::Body(_) => loop {
                    match getting.piece().unwrap() {
                        Piece::Bytes(bytes) => body.extend_from_slice(bytes),
                        Piece::Hole(len) => body.resize(body.len() + len as usize, 0),
                        Piece::End => break,
                        Piece::Failed(failure) => panic!("{failure}"),
                    }
                },
            }
            got.push((key.clone(), body));
        }
        let bodies =
            [b"d/b".to_vec(), Vec::new(), b"alpha".to_vec(), vec![b'b'; 200_000], vec![], b"alpha".into()];
        assert_eq!(got, wanted.iter().cloned().zip(bodies).collect::<Vec<_>>());
    });
}

#[test]
fn a_body_that_is_not_read_is_passed_over() {
    both(|opened| {
        let (wanted, options) = (keys(&["d/b", "a"]), GetOptions::default());
        let mut getting = opened.contents().get(&wanted, &options).unwrap();
        assert!(matches!(getting.next().unwrap(), Some((_, Found::Body(Some(FileKind::File))))));
        assert!(matches!(getting.next().unwrap(), Some((_, Found::Body(_)))));
        assert!(matches!(getting.piece().unwrap(), Piece::Bytes(b"alpha")));
        assert!(matches!(getting.piece().unwrap(), Piece::End));
        assert!(getting.next().unwrap().is_none());
    });
}

#[derive(Default)]
struct Counted {
    total: AtomicU64,
    passed: AtomicU64,
}

impl LoadEvents for Counted {
    fn total(&self, bytes: u64) {
        self.total.store(bytes, Ordering::Relaxed);
    }

    fn passed(&self, bytes: u64) {
        self.passed.fetch_add(bytes, Ordering::Relaxed);
    }

    fn failed(&self, key: &[u8], error: &archive::Error) {
        panic!("{key:?}: {error}");
    }
}

#[test]
fn everything_is_loaded_and_accounted_for() {
    both(|opened| {
        for in_memory in [false, true] {
            let (counted, options) =
                (Counted::default(), LoadOptions { in_memory, ..LoadOptions::default() });
            let report = opened.contents().load(&options, &counted).unwrap();
            let links = if opened.pack().is_some() { 1 } else { 0 };
            assert_eq!((report.records, report.bytes), (7, 200_008 + links));
            assert!(report.damages.is_empty() && report.failures == 0 && report.cursor.is_none());
            if !in_memory {
                assert_eq!(counted.total.into_inner(), counted.passed.into_inner());
            }
        }
    });
}

#[test]
fn what_an_archive_lacks_is_refused_by_name_and_packs_have_it() {
    both(|opened| {
        let contents = opened.contents();
        let list = ListOptions { order: Some(ScanOrder::Disk), ..ListOptions::default() };
        let load = LoadOptions { threads: 2, part: "1/2".parse().ok(), ..LoadOptions::default() };
        let (listing, loaded) = (contents.list(&list), contents.load(&load, &Counted::default()));
        let missing = contents.check_groups(&["h".to_owned()]).unwrap_err();
        if opened.pack().is_some() {
            assert!(listing.is_ok() && loaded.is_ok());
            assert!(matches!(missing, Error::NoSuchGroup { .. }), "{missing}");
            return;
        }
        let features = [listing.map(drop).unwrap_err(), loaded.map(drop).unwrap_err(), missing];
        let features = features.map(|error| match error {
            Error::Unsupported(lacks) => lacks.feature,
            other => panic!("{other}"),
        });
        assert_eq!(features, [Feature::ListByPlace, Feature::Parts, Feature::Groups]);
        let mut earlier = OpenOptions::default();
        earlier.pack.at_ns = Some(1);
        let refused = open(contents.path(), earlier, &mut |_| true).unwrap_err();
        assert!(refused.to_string().ends_with("is a tar, and has no earlier states"), "{refused}");
    });
}

thread_local! {
    static IS_STOPPED: Cell<bool> = const { Cell::new(false) };
}

#[test]
fn a_caller_that_wants_to_stop_gets_to_it() {
    both(|opened| {
        let (contents, stop) = (opened.contents(), Stop(|| IS_STOPPED.get()));
        IS_STOPPED.set(true);
        let list = ListOptions { stop, ..ListOptions::default() };
        let mut batches = contents.list(&list).unwrap();
        assert!(matches!(batches.next(), Some(Err(Error::Interrupted))) && batches.next().is_none());
        let (wanted, get) = (keys(&["a"]), GetOptions { stop, ..GetOptions::default() });
        let next = contents.get(&wanted, &get).unwrap().next().map(|found| found.is_some());
        assert!(matches!(next, Err(Error::Interrupted)));
        for in_memory in [false, true] {
            let load = LoadOptions { stop, in_memory, ..LoadOptions::default() };
            let loaded = contents.load(&load, &Counted::default());
            assert!(matches!(loaded, Err(Error::Interrupted)), "{loaded:?}");
        }
        IS_STOPPED.set(false);
    });
}

/// Something that needs more room than there is.
struct Huge;

impl<'a> Getting<'a> for Huge {
    fn next(&mut self) -> Result<Option<(&'a Key, Found)>> {
        Ok(None)
    }

    fn piece(&mut self) -> Result<Piece<'_>> {
        Ok(Piece::End)
    }

    fn needed_bytes(&self) -> u64 {
        u64::MAX
    }
}

#[test]
fn room_is_looked_for_before_anything_is_written() {
    let place = tempfile::tempdir().unwrap();
    both(|opened| {
        let (keys, options) = (keys(&["a", "d/b", "absent"]), GetOptions::default());
        let getting = opened.contents().get(&keys, &options).unwrap();
        let needed = getting.needed_bytes();
        assert!((200_005..205_000).contains(&needed), "{needed}");
        check_room(&*getting, &place.path().join("not/there")).unwrap();
    });
    let error = check_room(&Huge, place.path()).unwrap_err().to_string();
    assert!(error.contains("EB would be needed in") && error.contains("`--force`"), "{error}");
    check_room(&Huge, Path::new("/dev/null")).unwrap();
}

/// What a view of a mapping asks: how many keys there are of some, and whether two packs are equal.
#[test]
fn keys_are_counted_and_packs_compared_without_a_list_of_them() {
    let place = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        let opened = open_pack(&place.path().join(name), pack::OpenOptions::default());
        Arc::new(opened.unwrap())
    };
    pack(&place.path().join("one"));
    pack(&place.path().join("same"));
    pack(&place.path().join("other"));
    let opened = open_writer(&place.path().join("other"), WriterOptions::default(), Making::Never);
    let mut writer = opened.unwrap().writer;
    writer.put("h", &Key::bytes("a").unwrap(), &Attributes::new(), b"alphA").unwrap();
    writer.finish(true).unwrap();
    let counted = |range, kinds| count(open("one"), range, kinds, &mut || true).unwrap();
    let below = || KeyRange::prefix(Key::bytes("d/").unwrap().sort_form());
    assert_eq!((counted(KeyRange::all(), pack::Kinds::ALL), counted(below(), pack::Kinds::ALL)), (7, 3));
    assert_eq!((counted(KeyRange::all(), pack::Kinds::FILES), counted(below(), pack::Kinds::FILES)), (4, 2));
    assert!(matches!(count(open("one"), below(), pack::Kinds::ALL, &mut || false), Err(Error::Interrupted)));
    assert!(is_equal(open("one"), open("same"), &mut || true).unwrap());
    assert!(!is_equal(open("one"), open("other"), &mut || true).unwrap());
    assert!(matches!(is_equal(open("one"), open("same"), &mut || false), Err(Error::Interrupted)));
}
