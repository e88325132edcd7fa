//! The records of a pack as a tree: names, nodes and bytes are those that were packed; damage costs
//! only what it hits, and no record vanishes silently.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use stook::Error;
use stook::engine::Backend;
use stook::extent::ByteRange;
use stook::pack::format::attributes::{KIND, Name, Value};
use stook::pack::tree::{Followed, Hidden, RecordTree};
use stook::pack::{Attributes, CompactOptions, FileKind, Key, OpenOptions, Pack, PackWriter, WriterOptions};
use stook::source::{Leaf, Source};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};
use stook::tree::{BodyPiece, Cursor, GatherOptions, Gathered, Kind, Node, NodeId, Page, Tree};
use stook_testing::conformance::{
    AfterChange, TreeFeatures, changed_medium_conformance, many_files, noise, read_all, tree_conformance,
    tree_matches_model,
};
use stook_testing::fault::{FaultEngineFactory, UnreadableStorage};
use stook_testing::model::tree::{TreeEntry, TreeModel, tree_models, with_random_xattrs};
use stook_testing::sweep::stride;
use tempfile::TempDir;

fn local(path: &Path) -> Arc<dyn Storage> {
    Arc::new(LocalStorage::open(path, LocalStorageOptions::default()).unwrap())
}

fn key(name: impl AsRef<[u8]>) -> Key {
    Key::bytes(name).unwrap()
}

fn of(kind: FileKind) -> Attributes {
    Attributes::of_file(kind, 0o644, 7, None)
}

fn open(path: &Path) -> RecordTree {
    RecordTree::new(Arc::new(Pack::open_path(path, OpenOptions::default()).unwrap())).unwrap()
}

/// The same, with no more than the names at first.
fn open_by_names(path: &Path) -> RecordTree {
    RecordTree::with_names(Arc::new(Pack::open_path(path, OpenOptions::default()).unwrap())).unwrap()
}

/// A pack, and the writer that fills it.
fn created() -> (TempDir, PackWriter) {
    let directory = tempfile::tempdir().unwrap();
    let options = WriterOptions { chunk_log2: 12, segment_len: 8 << 20, ..WriterOptions::default() };
    let writer = PackWriter::create(local(directory.path()), options).unwrap();
    (directory, writer)
}

fn put(writer: &mut PackWriter, name: impl AsRef<[u8]>, kind: FileKind, body: impl AsRef<[u8]>) {
    writer.put("", &key(name), &of(kind), body.as_ref()).unwrap();
}

/// A pack of a model: in two groups, the last path first, every other body framed.
fn packed(model: &TreeModel) -> TempDir {
    let (directory, mut writer) = created();
    let entries: Vec<(&[u8], &TreeEntry)> = model.iter().collect();
    for (number, (path, entry)) in entries.into_iter().rev().enumerate() {
        let (kind, body) = match entry {
            TreeEntry::Directory => (FileKind::Directory, &[][..]),
            TreeEntry::File(bytes) => (FileKind::File, bytes.as_slice()),
            TreeEntry::Symlink(target) => (FileKind::Symlink, target.as_slice()),
            TreeEntry::Link(to) => (FileKind::HardLink, to.as_slice()),
        };
        let mut attributes = of(kind);
        if kind != FileKind::HardLink {
            attributes.set_xattrs(&model.xattrs(path));
            attributes.set_holes(&model.holes(path));
        }
        let group = if number.is_multiple_of(3) { "other" } else { "" };
        if number.is_multiple_of(2) {
            writer.put(group, &key(path), &attributes, body).unwrap();
        } else {
            let mut record = writer.begin(group, &key(path), &attributes, None).unwrap();
            record.write(body).unwrap();
            record.finish().unwrap();
        }
    }
    writer.finish(true).unwrap();
    directory
}

#[test]
fn a_pack_passes_the_suite() {
    for (backend, open) in [(Backend::Threads, open as fn(&Path) -> _), (Backend::Auto, open_by_names)] {
        let mut kept = Vec::new();
        let mut make = |model: &TreeModel| -> Box<dyn Tree> {
            let directory = packed(model);
            let tree = open(directory.path());
            assert_eq!(*tree.hidden(), Hidden::default());
            kept.push(directory);
            Box::new(tree)
        };
        tree_conformance(TreeFeatures::ALL, &mut make, &backend);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn random_trees_are_their_models(model in with_random_xattrs(tree_models(true))) {
        let directory = packed(&model);
        tree_matches_model(&open(directory.path()), &model, &Backend::Threads);
        tree_matches_model(&open_by_names(directory.path()), &model, &Backend::Threads);
        let mut writer = PackWriter::open(local(directory.path()), WriterOptions::default()).unwrap();
        writer.compact(&CompactOptions::default(), &mut |_| true).unwrap();
        writer.finish(true).unwrap();
        tree_matches_model(&open(directory.path()), &model, &Backend::Threads);
    }
}

/// What is said of a path, with another of the names of its node.
fn said_of(tree: &RecordTree, path: &str) -> (Node, Option<Key>, Vec<u8>) {
    let id = id_of(tree, path);
    let node = tree.node(id).unwrap();
    let bytes = if node.kind == Kind::File { read_all(&*tree.open(id).unwrap()) } else { Vec::new() };
    (node, tree.key(id), bytes)
}

#[test]
fn what_is_read_when_it_is_asked_for_is_what_is_read_at_first() {
    let (directory, mut writer) = created();
    let mut paths = Vec::new();
    for number in 0..4_000_u64 {
        let path = format!("d{}/s{}/{number}", number % 7, number / 100);
        match number % 500 {
            1 => put(&mut writer, &path, FileKind::Symlink, "where/to"),
            2 => put(&mut writer, &path, FileKind::Directory, ""),
            3 => {
                // A name of a file that lies far from it.
                let first = format!("first/{number}");
                put(&mut writer, &first, FileKind::File, &path);
                writer.mark_hard_links(&key(&first)).unwrap();
                put(&mut writer, &path, FileKind::HardLink, &first);
                paths.push(first);
            }
            _ => put(&mut writer, &path, FileKind::File, &path),
        }
        paths.push(path);
    }
    put(&mut writer, "d1", FileKind::Directory, "");
    put(&mut writer, "d2", FileKind::File, "others are below it");
    writer.finish(true).unwrap();
    paths.extend(["d1", "d2", "d3", "first"].map(str::to_owned));
    let eager = open(directory.path());
    for step in [1, 7, 1_999, paths.len() - 1] {
        let tree = open_by_names(directory.path());
        assert_eq!(tree.hidden(), eager.hidden());
        let outline = tree.outline(&mut |_, _| {}).unwrap();
        assert_eq!(outline.most_entries, 40);
        assert!((4_297..4_300).contains(&outline.nodes), "{outline:?}");
        // From several places at once, while another thread reads all.
        std::thread::scope(|scope| {
            scope.spawn(|| tree.complete(&|| true).unwrap());
            for start in [0, paths.len() / 2] {
                let (tree, eager, paths) = (&tree, &eager, &paths);
                scope.spawn(move || {
                    for at in (0..paths.len()).map(|at| (start + at * step) % paths.len()).take(900) {
                        assert_eq!(said_of(tree, &paths[at]), said_of(eager, &paths[at]), "{}", paths[at]);
                    }
                });
            }
        });
        assert_eq!(tree.has_xattrs(), eager.has_xattrs());
        for path in &paths {
            assert_eq!(said_of(&tree, path), said_of(&eager, path), "{path}");
        }
    }
}

/// A storage of which no file can be read any more once so many ranges were asked for.
#[derive(Debug, Clone)]
struct Failing {
    inner: Arc<dyn Storage>,
    asked: Arc<AtomicUsize>,
    fails_from: Arc<AtomicUsize>,
}

impl Storage for Failing {
    stook_testing::forward_storage!(inner:
        path create open_append prepare rename unlink sync_directory list remove_leftovers lock hold
        unlink_unless_held
    );

    fn open(&self, name: &str) -> stook::Result<Arc<dyn Source>> {
        Ok(Arc::new(FailingSource { inner: self.inner.open(name)?, storage: self.clone() }))
    }
}

#[derive(Debug)]
struct FailingSource {
    inner: Arc<dyn Source>,
    storage: Failing,
}

impl Source for FailingSource {
    stook_testing::forward_source!(inner: len path identity current_identity);

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> stook::Result<()> {
        let number = self.storage.asked.fetch_add(1, Ordering::SeqCst);
        if number >= self.storage.fails_from.load(Ordering::SeqCst) {
            // No damage: it may pass.
            return Err(Error::io("read", self.path(), ErrorKind::OutOfMemory.into()));
        }
        self.inner.resolve(range, leaves)
    }
}

#[test]
fn reads_that_fail_for_a_while_leave_every_name_to_be_asked_for_again() {
    let (directory, mut writer) = created();
    for number in 0..600 {
        let path = format!("d/{number}");
        put(&mut writer, &path, FileKind::File, &path);
    }
    let mut paths = vec!["d/7".to_owned(), "d/512".to_owned()];
    for number in [3, 300, 599] {
        let (first, link) = (format!("d/{number}"), format!("linked/{number}"));
        // Later it would be put again, and the link would get its content.
        writer.mark_hard_links(&key(&first)).unwrap();
        put(&mut writer, &link, FileKind::HardLink, &first);
        paths.extend([first, link]);
    }
    writer.finish(true).unwrap();
    let eager = open(directory.path());
    let all: Vec<_> = paths.iter().map(|path| said_of(&eager, path)).collect();
    assert_eq!(all.iter().filter(|(node, ..)| node.links == 2).count(), 6);
    let opened = || {
        let fails_from = Arc::new(AtomicUsize::new(usize::MAX));
        let storage = Failing { inner: local(directory.path()), asked: Arc::default(), fails_from };
        let pack = Pack::open(Arc::new(storage.clone()), OpenOptions::default()).unwrap();
        (RecordTree::with_names(Arc::new(pack)).unwrap(), storage)
    };
    let (tree, storage) = opened();
    let before = storage.asked.load(Ordering::SeqCst);
    tree.complete(&|| true).unwrap();
    let count = storage.asked.load(Ordering::SeqCst) - before;
    // Hard links are read last.
    for nth in (0..count).filter(|nth| nth % stride(97) == 0 || nth + 20 > count) {
        let (tree, storage) = opened();
        storage.fails_from.store(storage.asked.load(Ordering::SeqCst) + nth, Ordering::SeqCst);
        tree.complete(&|| true).unwrap_err();
        storage.fails_from.store(usize::MAX, Ordering::SeqCst);
        for (path, said) in paths.iter().zip(&all) {
            assert_eq!(said_of(&tree, path), *said, "{path}, read {nth} of {count} has failed");
        }
    }
}

#[test]
fn a_listing_while_another_thread_reads_the_rest_has_every_entry_as_it_is() {
    let (directory, mut writer) = created();
    for number in 0..1_200 {
        put(&mut writer, format!("d/{number:04}"), FileKind::File, "a body");
    }
    put(&mut writer, "first", FileKind::File, "linked");
    put(&mut writer, "d/link", FileKind::HardLink, "first");
    writer.mark_hard_links(&key("first")).unwrap();
    writer.finish(true).unwrap();
    let kinds = |tree: &RecordTree| {
        let (mut page, mut kinds, mut cursor) = (Page::new(), Vec::new(), Some(Cursor::Start));
        let d = id_of(tree, "d");
        while let Some(from) = cursor {
            cursor = tree.list(d, &from, &mut page).unwrap();
            kinds.extend(page.iter().map(|entry| (entry.name.to_vec(), entry.kind)));
        }
        kinds
    };
    let wanted = kinds(&open(directory.path()));
    assert!(wanted.len() == 1_201 && wanted.iter().all(|(_, kind)| *kind == Some(Kind::File)));
    for _ in 0..20 {
        let tree = open_by_names(directory.path());
        std::thread::scope(|scope| {
            scope.spawn(|| tree.complete(&|| true).unwrap());
            for _ in 0..2 {
                scope.spawn(|| assert!(kinds(&tree) == wanted, "an entry is missing or is not what it is"));
            }
        });
    }
}

fn id_of(tree: &dyn Tree, path: impl AsRef<[u8]>) -> NodeId {
    tree.find(path.as_ref()).unwrap().unwrap()
}

fn bytes_of(tree: &dyn Tree, path: impl AsRef<[u8]>) -> Vec<u8> {
    read_all(&*tree.open(id_of(tree, path)).unwrap())
}

/// The names in a directory, and what could not be read.
fn listed(tree: &dyn Tree, directory: NodeId) -> (Vec<String>, Vec<Error>) {
    let mut page = Page::new();
    assert_eq!(tree.list(directory, &Cursor::Start, &mut page).unwrap(), None);
    let names = page.iter().map(|entry| entry.name.escape_ascii().to_string()).collect();
    (names, page.take_failures())
}

/// What a gather delivers of bodies that come whole: by id the bytes, or the error.
fn gathered(
    tree: &dyn Tree,
    ids: &[NodeId],
    engines: &FaultEngineFactory,
) -> BTreeMap<NodeId, Result<Vec<u8>, Error>> {
    let mut all = BTreeMap::new();
    let mut take = |Gathered { id, result, .. }: Gathered| -> ControlFlow<()> {
        let whole = |piece: BodyPiece| {
            assert!(piece.is_whole());
            piece.bytes.to_vec()
        };
        assert!(all.insert(id, result.map(whole)).is_none());
        ControlFlow::Continue(())
    };
    tree.gather(ids, engines, &GatherOptions::default(), &mut take).unwrap();
    all
}

#[test]
fn a_node_is_what_its_record_says_and_nothing_where_it_says_nothing() {
    let (directory, mut writer) = created();
    let all = Attributes::of_file(FileKind::File, 0o104_751, -5, Some((7, 8)));
    writer.put("", &key("made/file"), &all, b"bytes").unwrap();
    writer.put("", &key("plain"), &Attributes::new(), b"of it nothing is said").unwrap();
    let mut newer = Attributes::new();
    newer.set(Name::Id(KIND), Value::U8(77));
    writer.put("", &key("newer"), &newer, b"of an unknown kind").unwrap();
    let root = Attributes::of_file(FileKind::Directory, 0o711, 9, None);
    writer.put("", &key(""), &root, b"").unwrap();
    writer.finish(true).unwrap();
    let tree = open(directory.path());
    let node = |path: &str| tree.node(id_of(&tree, path)).unwrap();
    let file = Node { mode: Some(0o4751), mtime_ns: Some(-5), owner: Some((7, 8)), ..Node::file(5) };
    assert_eq!(node("made/file"), file);
    assert_eq!(node("made"), Node::new(Kind::Directory));
    assert_eq!(node("plain"), Node::file(21));
    assert_eq!(node("newer"), Node::new(Kind::Other));
    assert_eq!(node("").mode, Some(0o711));
    let error = tree.open(id_of(&tree, "newer")).unwrap_err();
    assert!(matches!(error, Error::NotARegularFile { .. }), "{error}");
    assert_eq!(tree.key(id_of(&tree, "made/file")), Some(key("made/file")));
    assert_eq!(tree.key(tree.root()), Some(key("")));
    assert_eq!(tree.key(NodeId::new(99)), None);
    assert_eq!(tree.path(), directory.path());
    // The order of the ids is that of the medium.
    let ids = ["made/file", "plain", "newer"].map(|path| id_of(&tree, path));
    assert!(ids.is_sorted(), "{ids:?}");
}

#[test]
fn keys_that_are_no_paths_are_called_as_they_are_shown() {
    let (directory, mut writer) = created();
    let no_paths = [
        Key::id(7),
        Key::id(u64::MAX),
        key("/etc/passwd"),
        key("a//b"),
        key("../x"),
        key("a/./b"),
        key("."),
        key("a/"),
        key(b"zero\0 and \xff"),
        // The root can only be a directory.
        key(""),
    ];
    for (number, key) in no_paths.iter().enumerate() {
        writer.put("", key, &of(FileKind::File), format!("body {number}").as_bytes()).unwrap();
    }
    put(&mut writer, b"path/\xff", FileKind::File, "a path");
    put(&mut writer, "further", FileKind::HardLink, "a//b");
    writer.put("", &key("bytes:a/../b"), &of(FileKind::HardLink), b"path/\xff").unwrap();
    writer.finish(true).unwrap();
    let tree = open(directory.path());
    let (names, failures) = listed(&tree, tree.root());
    // A path with `..` in it is invalid, whatever it begins with.
    let wanted = [
        r"bytes:",
        r"bytes:.",
        r"bytes:..\\x2fx",
        r"bytes:\\x2fetc\\x2fpasswd",
        r"bytes:a\\x2f",
        r"bytes:a\\x2f.\\x2fb",
        r"bytes:a\\x2f\\x2fb",
        r"bytes:bytes:a\\x2f..\\x2fb",
        r"bytes:zero\\x00 and \\xff",
        "further",
        "id:18446744073709551615",
        "id:7",
        "path",
    ];
    assert_eq!(names, wanted);
    assert!(failures.is_empty() && *tree.hidden() == Hidden::default(), "{failures:?}");
    for (number, key) in no_paths.iter().enumerate() {
        let mut names = wanted.iter().map(|name| name.replace(r"\\", r"\"));
        let name = names.find(|name| Key::parse(name.as_bytes()).unwrap() == *key).unwrap();
        assert_eq!(bytes_of(&tree, &name), format!("body {number}").as_bytes(), "{name}");
        assert_eq!(tree.key(id_of(&tree, &name)).as_ref(), Some(key));
    }
    assert_eq!(bytes_of(&tree, b"path/\xff"), b"a path");
    assert_eq!(id_of(&tree, "further"), id_of(&tree, r"bytes:a\x2f\x2fb"));
    assert_eq!(tree.node(id_of(&tree, "further")).unwrap().links, 2);
    assert_eq!(id_of(&tree, r"bytes:bytes:a\x2f..\x2fb"), id_of(&tree, b"path/\xff"));
}

#[test]
fn of_two_records_with_one_name_the_path_has_it_and_the_other_is_counted() {
    for is_path_first in [false, true] {
        let (directory, mut writer) = created();
        let mut keys = vec![(key("id:7"), "the path"), (Key::id(7), "the number")];
        keys.extend([(key("bytes:.."), "the path"), (key(".."), "no path")]);
        if !is_path_first {
            keys.reverse();
        }
        for (key, body) in &keys {
            writer.put("", key, &of(FileKind::File), body.as_bytes()).unwrap();
        }
        put(&mut writer, "another", FileKind::HardLink, "id:7");
        writer.finish(true).unwrap();
        let tree = open(directory.path());
        assert_eq!(listed(&tree, tree.root()).0, ["another", "bytes:..", "id:7"]);
        for path in ["id:7", "bytes:..", "another"] {
            assert_eq!(bytes_of(&tree, path), b"the path");
        }
        assert_eq!(tree.key(id_of(&tree, "another")), Some(key("id:7")));
        assert_eq!(tree.hidden().records, 2);
        let first = tree.hidden().first.as_deref().unwrap();
        assert!(first.contains("has no name"), "{first}");
    }
}

#[test]
fn a_file_with_others_below_it_is_counted() {
    let (directory, mut writer) = created();
    put(&mut writer, "a", FileKind::File, "in the way");
    put(&mut writer, "a/b", FileKind::File, "below");
    writer.put("", &key([0; 30_000]), &of(FileKind::File), b"too long to be shown").unwrap();
    writer.finish(true).unwrap();
    let tree = open(directory.path());
    assert_eq!(tree.node(id_of(&tree, "a")).unwrap().kind, Kind::Directory);
    assert_eq!(bytes_of(&tree, "a/b"), b"below");
    assert_eq!(tree.hidden().records, 2);
    assert_eq!(tree.pack().len(), 3);
}

#[test]
fn links_that_lead_to_no_file_are_failures_of_their_names() {
    let (directory, mut writer) = created();
    put(&mut writer, "file", FileKind::File, "content");
    put(&mut writer, "d/one", FileKind::HardLink, "file");
    put(&mut writer, "d/two", FileKind::HardLink, "d/one");
    put(&mut writer, "s", FileKind::Symlink, "file");
    for (name, to) in [("nowhere", "gone"), ("loop", "loop"), ("of d", "d"), ("of s", "s")] {
        put(&mut writer, name, FileKind::HardLink, to);
    }
    writer.finish(true).unwrap();
    let tree = open(directory.path());
    let (names, failures) = listed(&tree, tree.root());
    assert_eq!((names, failures.len()), (["d", "file", "s"].map(str::to_owned).to_vec(), 4));
    for (name, why) in [("nowhere", "no such file"), ("loop", "without end"), ("of s", "not a file")] {
        let error = tree.lookup(tree.root(), name.as_bytes()).unwrap_err();
        let text = stook::error::chain(&error);
        assert!(text.contains(why), "{text}");
    }
    assert_eq!(tree.pack().damages().len(), 4);
    let file = id_of(&tree, "file");
    assert_eq!((id_of(&tree, "d/one"), id_of(&tree, "d/two")), (file, file));
    assert_eq!((tree.node(file).unwrap().links, bytes_of(&tree, "d/two")), (3, b"content".to_vec()));
    assert_eq!(tree.link_target(id_of(&tree, "s")).unwrap(), b"file");
    assert_eq!(tree.lookup(tree.root(), b"no such name").unwrap(), None);
}

/// Changes a byte of the record with a key: the first of these bytes in it.
fn hit(directory: &Path, name: &str, bytes: &[u8]) {
    let pack = Pack::open_path(directory, OpenOptions::default()).unwrap();
    let entry = pack.locate(&[key(name)]).unwrap().remove(0).unwrap().unwrap();
    let head = pack.heads(&[entry]).unwrap().remove(0).unwrap();
    let segment = directory.join(format!("segment-{:016x}", head.segment));
    let mut all = std::fs::read(&segment).unwrap();
    let from = head.offset as usize;
    let at = from + all[from..].windows(bytes.len()).position(|some| some == bytes).unwrap();
    all[at] ^= 4;
    std::fs::write(&segment, &all).unwrap();
}

/// A pack with files `d/0` to `d/9` of these lengths.
fn ten(len: usize) -> TempDir {
    let (directory, mut writer) = created();
    for number in 0..10 {
        put(&mut writer, format!("d/{number}"), FileKind::File, noise(number, len));
    }
    writer.finish(true).unwrap();
    directory
}

#[test]
fn a_damaged_head_costs_its_own_name() {
    let directory = ten(100);
    hit(directory.path(), "d/4", b"d/4");
    let tree = open(directory.path());
    let d = id_of(&tree, "d");
    let (names, failures) = listed(&tree, d);
    let others: [u64; 9] = [0, 1, 2, 3, 5, 6, 7, 8, 9];
    assert_eq!(names, others.map(|number| number.to_string()));
    let [Error::Damaged { path, what, .. }] = &failures[..] else { panic!("{failures:?}") };
    assert!(path.starts_with(directory.path()) && what.starts_with("record d/4: "), "{failures:?}");
    assert!(matches!(tree.find(b"d/4"), Err(Error::Damaged { .. })));
    for number in others {
        assert_eq!(bytes_of(&tree, format!("d/{number}")), noise(number, 100));
    }
    let damages = tree.pack().damages();
    assert!(damages.iter().any(|damage| damage.key == Some(key("d/4"))), "{damages:?}");
    assert_eq!(tree.find(b"d/no").unwrap(), None, "that nothing is there is still known");
}

#[test]
fn a_damaged_body_costs_its_own_bytes_in_a_gather() {
    let directory = ten(5000);
    hit(directory.path(), "d/4", &noise(4, 5000)[1000..1016]);
    let tree = open(directory.path());
    let ids: Vec<NodeId> = (0..10).map(|number| id_of(&tree, format!("d/{number}"))).collect();
    let engines = FaultEngineFactory::new(Backend::Threads);
    let all = gathered(&tree, &ids, &engines);
    for (number, id) in (0..10).zip(&ids) {
        match &all[id] {
            Ok(bytes) => assert!(number != 4 && *bytes == noise(number, 5000), "{number}"),
            Err(Error::Damaged { what, .. }) => assert!(number == 4 && what.starts_with("record d/4: ")),
            Err(error) => panic!("{number}: {error}"),
        }
    }
    assert_eq!(tree.node(ids[4]).unwrap().len, 5000);
}

#[test]
fn a_bad_sector_costs_its_own_bytes_in_a_gather() {
    let directory = ten(20_000);
    let storage = UnreadableStorage::new(local(directory.path()));
    let pack = Pack::open(Arc::new(storage.clone()), OpenOptions::default()).unwrap();
    let entry = pack.locate(&[key("d/4")]).unwrap().remove(0).unwrap().unwrap();
    let head = pack.heads(&[entry]).unwrap().remove(0).unwrap();
    let tree = RecordTree::new(Arc::new(pack)).unwrap();
    let segment = format!("segment-{:016x}", head.segment);
    storage.spoil(&segment, ByteRange::at(head.offset + 10_000, 1).unwrap());
    let ids: Vec<NodeId> = (0..10).map(|number| id_of(&tree, format!("d/{number}"))).collect();
    let engines = FaultEngineFactory::new(Backend::Threads);
    let all = gathered(&tree, &ids, &engines);
    for (number, id) in (0..10).zip(&ids) {
        match &all[id] {
            Ok(bytes) => assert!(number != 4 && *bytes == noise(number, 20_000), "{number}"),
            Err(error) => assert_eq!(number, 4, "{error}"),
        }
    }
}

#[test]
fn a_lost_segment_is_a_failure_of_the_listing_and_hides_what_is_not_there() {
    let (directory, mut writer) = created();
    put(&mut writer, "here", FileKind::File, "1");
    writer.put("other", &key("lost"), &of(FileKind::File), b"2").unwrap();
    writer.finish(true).unwrap();
    let segment = {
        let pack = Pack::open_path(directory.path(), OpenOptions::default()).unwrap();
        let segments = pack.segments();
        let other = segments.iter().find(|segment| segment.group == "other").unwrap();
        format!("segment-{:016x}", other.id)
    };
    std::fs::remove_file(directory.path().join(segment)).unwrap();
    let tree = open(directory.path());
    let (names, failures) = listed(&tree, tree.root());
    assert_eq!((names, failures.len()), (vec!["here".to_owned()], 1));
    assert!(matches!(tree.find(b"lost"), Err(Error::Damaged { .. })));
    assert_eq!(bytes_of(&tree, "here"), b"1");
}

#[test]
fn a_frame_without_a_name_in_the_segment_that_grows_is_a_failure_of_the_listing() {
    let (directory, mut writer) = created();
    for number in 0..5 {
        put(&mut writer, format!("d/{number}"), FileKind::File, noise(number, 100));
    }
    // Nothing is sealed: the names are in the frames alone.
    writer.finish(false).unwrap();
    let whole = open(directory.path());
    assert_eq!(listed(&whole, whole.root()).1.len(), 0);
    hit(directory.path(), "d/2", b"d/2");
    for tree in [open(directory.path()), open_by_names(directory.path())] {
        let (names, failures) = listed(&tree, tree.root());
        assert_eq!(names, ["d"]);
        let [Error::Damaged { path, offset, .. }] = &failures[..] else { panic!("{failures:?}") };
        assert!(path.starts_with(directory.path()) && *offset > 0, "{failures:?}");
        assert!(!tree.pack().damages().is_empty());
        let (names, failures) = listed(&tree, id_of(&tree, "d"));
        assert_eq!((names, failures.len()), (["0", "1", "3", "4"].map(str::to_owned).to_vec(), 0));
        assert!(matches!(tree.find(b"d/2"), Err(Error::Damaged { .. })));
        assert!(matches!(tree.find(b"d/no"), Err(Error::Damaged { .. })));
        assert_eq!(bytes_of(&tree, "d/3"), noise(3, 100));
    }
    // So it is in a state that is met later.
    let options = OpenOptions::default();
    let followed =
        Followed::new(Arc::new(Pack::open_path(directory.path(), options.clone()).unwrap()), options);
    let followed = followed.unwrap();
    let (names, failures) = listed(&followed, followed.root());
    assert_eq!((names, failures.len()), (vec!["d".to_owned()], 1));
}

/// What only the header of a name that is gone would hide is none of it.
#[test]
fn damage_that_hides_no_name_is_no_failure_of_the_listing() {
    let (directory, mut writer) = created();
    for number in 0..5 {
        put(&mut writer, format!("d/{number}"), FileKind::File, noise(number, 5000));
    }
    writer.finish(false).unwrap();
    hit(directory.path(), "d/2", &noise(2, 5000)[1000..1016]);
    for tree in [open(directory.path()), open_by_names(directory.path())] {
        assert!(!tree.pack().damages().is_empty());
        assert_eq!(listed(&tree, tree.root()).1.len(), 0);
        assert_eq!(listed(&tree, id_of(&tree, "d")).0.len(), 5);
        assert!(tree.find(b"d/no").unwrap().is_none());
    }
}

#[test]
fn neighbours_are_read_at_once() {
    let (directory, mut writer) = created();
    for number in 0..2000 {
        put(&mut writer, format!("{number:04}"), FileKind::File, noise(number, 300));
    }
    writer.finish(true).unwrap();
    let tree = open(directory.path());
    let mut ids: Vec<NodeId> = (0..2000).map(|number| id_of(&tree, format!("{number:04}"))).collect();
    // In no order.
    ids.sort_unstable_by_key(|id| id.get() * 7919 % 2003);
    let engines = FaultEngineFactory::new(Backend::Threads);
    let all = gathered(&tree, &ids, &engines);
    assert_eq!(all.len(), 2000);
    assert!(all.values().all(|body| body.as_ref().is_ok_and(|bytes| bytes.len() == 300)));
    let reads = engines.operations().len();
    assert!(reads <= 8, "{reads} reads for less than 1 MiB");
}

/// Makes a pack of a model, or of one that there is another: changed, deleted from, compacted.
fn put_state(directory: &Path, model: &TreeModel, before: Option<&TreeModel>) -> Box<dyn Tree> {
    let options = WriterOptions { chunk_log2: 12, segment_len: 8 << 20, ..WriterOptions::default() };
    let mut writer = match before {
        Some(_) => PackWriter::open(local(directory), options).unwrap(),
        None => PackWriter::create(local(directory), options).unwrap(),
    };
    for (path, _) in
        before.iter().flat_map(|before| before.iter()).filter(|(path, _)| model.get(path).is_none())
    {
        writer.delete(&key(path)).unwrap();
    }
    for (path, entry) in model.iter() {
        match entry {
            TreeEntry::File(bytes) => put(&mut writer, path, FileKind::File, bytes),
            _ => put(&mut writer, path, FileKind::Directory, ""),
        }
    }
    if before.is_some() {
        writer.compact(&CompactOptions::default(), &mut |_| true).unwrap();
    }
    writer.finish(true).unwrap();
    Box::new(open(directory))
}

#[test]
fn a_tree_of_a_pack_that_changes_meanwhile_stays_what_it_was() {
    let (directory, mut before) = (tempfile::tempdir().unwrap(), None::<TreeModel>);
    let mut put = |model: &TreeModel| {
        let tree = put_state(directory.path(), model, before.as_ref());
        before = Some(model.clone());
        tree
    };
    changed_medium_conformance(&mut put, AfterChange::Stays, &Backend::Auto);
}

#[test]
fn a_pack_of_very_many_names_is_its_model() {
    let model = many_files(1_000_000 / stride(19));
    tree_matches_model(&open(packed(&model).path()), &model, &Backend::Threads);
}

#[test]
fn a_tree_stays_at_its_generation() {
    let directory = ten(70_000);
    let tree = open(directory.path());
    let three = id_of(&tree, "d/3");
    let mut writer = PackWriter::open(local(directory.path()), WriterOptions::default()).unwrap();
    for number in 0..10 {
        assert!(writer.delete(&key(format!("d/{number}"))).unwrap());
    }
    put(&mut writer, "new", FileKind::File, "");
    writer.compact(&CompactOptions::default(), &mut |_| true).unwrap();
    writer.finish(true).unwrap();
    assert_eq!(read_all(&*tree.open(three).unwrap()), noise(3, 70_000));
    assert_eq!((listed(&tree, tree.root()).0, tree.find(b"new").unwrap()), (vec!["d".to_owned()], None));
    let now = open(directory.path());
    assert_eq!((now.find(b"d/3").unwrap(), bytes_of(&now, "new")), (None, Vec::new()));
    let error = now.list(id_of(&now, "new"), &Cursor::Start, &mut Page::new()).unwrap_err();
    assert_eq!(error.io_kind(), Some(ErrorKind::NotADirectory));
}
