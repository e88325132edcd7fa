//! A pack that is followed: what is kept of one state holds in the next, unless it is said not to.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use stook::engine::{Access, Backend};
use stook::extent::ByteRange;
use stook::pack::tree::{Changes, Followed, RecordTree};
use stook::pack::{Attributes, CompactOptions, Error, Key, OpenOptions, Pack, PackWriter, WriterOptions};
use stook::source::read_range;
use stook::storage::{LocalStorage, LocalStorageOptions};
use stook::tree::{Cursor, Kind, Node, NodeId, Page, Tree};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// What is done to a pack between two looks at it.
#[derive(Debug, Clone)]
enum Step {
    Put(String, u8),
    Delete(String),
    Compact,
}

fn steps() -> impl Strategy<Value = Vec<Vec<Step>>> {
    let path =
        proptest::collection::vec(prop::sample::select(&NAMES[..]), 1..4).prop_map(|parts| parts.join("/"));
    let step = prop_oneof![
        6 => (path.clone(), any::<u8>()).prop_map(|(path, byte)| Step::Put(path, byte)),
        3 => path.prop_map(Step::Delete),
        1 => Just(Step::Compact),
    ];
    proptest::collection::vec(proptest::collection::vec(step, 0..6), 1..8)
}

fn storage(path: &Path) -> Arc<LocalStorage> {
    Arc::new(LocalStorage::open(path, LocalStorageOptions::default()).unwrap())
}

fn write(path: &Path, steps: &[Step]) {
    let mut writer = PackWriter::open(storage(path), WriterOptions::default()).unwrap();
    for step in steps {
        match step {
            Step::Put(path, byte) => {
                let body = vec![*byte; usize::from(*byte) * 3];
                writer.put("", &Key::bytes(path).unwrap(), &Attributes::new(), &body).unwrap();
            }
            Step::Delete(path) => drop(writer.delete(&Key::bytes(path).unwrap()).unwrap()),
            Step::Compact => {
                writer.compact(&CompactOptions::default(), &mut |_| true).unwrap();
            }
        }
    }
    writer.finish(true).unwrap();
}

fn opened(path: &Path) -> Arc<Pack> {
    Arc::new(Pack::open_path(path, OpenOptions::default()).unwrap())
}

fn bytes_of(tree: &dyn Tree, id: NodeId) -> stook::Result<Vec<u8>> {
    let source = tree.open(id)?;
    Ok(read_range(&Backend::Auto, &*source, ByteRange::to(source.len()), Access::Cached)?.to_vec())
}

fn entries(tree: &dyn Tree, directory: NodeId) -> Vec<(Vec<u8>, NodeId, Node)> {
    let (mut all, mut page, mut cursor) = (Vec::new(), Page::new(), Some(Cursor::Start));
    while let Some(from) = cursor {
        cursor = tree.list(directory, &from, &mut page).unwrap();
        all.extend(page.iter().map(|entry| (entry.name.to_vec(), entry.id, entry.node.unwrap())));
    }
    all
}

/// All paths of a tree with their nodes, and the bytes of files.
fn whole(tree: &dyn Tree) -> BTreeMap<Vec<u8>, (Node, Option<Vec<u8>>)> {
    let (mut all, mut waiting) = (BTreeMap::new(), vec![(Vec::new(), tree.root())]);
    while let Some((path, directory)) = waiting.pop() {
        for (name, id, node) in entries(tree, directory) {
            let path = [&path[..], b"/", &name].concat();
            let bytes = (node.kind == Kind::File).then(|| bytes_of(tree, id).unwrap());
            all.insert(path.clone(), (node, bytes));
            if node.kind == Kind::Directory {
                waiting.push((path, id));
            }
        }
    }
    all
}

/// What a kernel has learned of a mount, which it keeps until it is named otherwise.
#[derive(Default)]
struct Learned {
    entries: HashMap<(NodeId, Vec<u8>), Option<NodeId>>,
    nodes: HashMap<NodeId, Node>,
    bytes: HashMap<NodeId, Vec<u8>>,
    listings: HashMap<NodeId, Vec<Vec<u8>>>,
}

impl Learned {
    fn learn(&mut self, tree: &dyn Tree) {
        let mut waiting = vec![tree.root()];
        while let Some(directory) = waiting.pop() {
            self.nodes.insert(directory, tree.node(directory).unwrap());
            for name in NAMES {
                let found = tree.lookup(directory, name.as_bytes()).unwrap();
                self.entries.insert((directory, name.as_bytes().to_vec()), found);
            }
            let listed = entries(tree, directory);
            self.listings.insert(directory, listed.iter().map(|(name, ..)| name.clone()).collect());
            for (_, id, node) in listed {
                self.nodes.insert(id, node);
                match node.kind {
                    Kind::Directory => waiting.push(id),
                    _ => drop(self.bytes.insert(id, bytes_of(tree, id).unwrap())),
                }
            }
        }
    }

    fn forget(&mut self, changes: &Changes) {
        for (directory, name) in &changes.entries {
            self.entries.remove(&(*directory, name.clone()));
        }
        for node in &changes.nodes {
            self.nodes.remove(node);
            self.listings.remove(node);
        }
    }

    /// What is left of it, as far as names lead there, is what the tree says. Bytes never change.
    fn check(&self, tree: &dyn Tree) {
        let (mut waiting, mut seen) = (vec![tree.root()], HashSet::new());
        while let Some(id) = waiting.pop() {
            if !seen.insert(id) {
                continue;
            }
            let node = tree.node(id).unwrap();
            if let Some(known) = self.nodes.get(&id) {
                assert_eq!(*known, node);
            }
            if let Some(known) = self.bytes.get(&id) {
                assert_eq!(*known, bytes_of(tree, id).unwrap());
            }
            if node.kind != Kind::Directory {
                continue;
            }
            if let Some(known) = self.listings.get(&id) {
                let listed: Vec<Vec<u8>> = entries(tree, id).into_iter().map(|(name, ..)| name).collect();
                assert_eq!(*known, listed);
            }
            for name in NAMES {
                let found = tree.lookup(id, name.as_bytes()).unwrap();
                if let Some(known) = self.entries.get(&(id, name.as_bytes().to_vec())) {
                    assert_eq!(*known, found, "{name} in {id:?}");
                }
                waiting.extend(found);
            }
        }
        for (id, bytes) in &self.bytes {
            // What is gone is an error.
            if let Ok(now) = bytes_of(tree, *id) {
                assert_eq!(now, *bytes);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn what_was_learned_holds_unless_it_is_said_not_to(rounds in steps()) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.stook");
        let storage = Arc::new(LocalStorage::create(&path, LocalStorageOptions::default()).unwrap());
        PackWriter::create(storage, WriterOptions::default()).unwrap().finish(true).unwrap();
        let followed = Followed::new(opened(&path), OpenOptions::default()).unwrap();
        let mut learned = Learned::default();
        for steps in rounds {
            learned.learn(&followed);
            write(&path, &steps);
            if let Some(changes) = followed.refresh().unwrap() {
                learned.forget(&changes);
            }
            learned.check(&followed);
            let fresh = RecordTree::new(opened(&path)).unwrap();
            prop_assert_eq!(whole(&followed), whole(&fresh));
            prop_assert!(followed.refresh().unwrap().is_none());
        }
    }
}

#[test]
fn what_was_not_put_again_keeps_its_id_and_a_listing_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.stook");
    let storage = Arc::new(LocalStorage::create(&path, LocalStorageOptions::default()).unwrap());
    PackWriter::create(storage, WriterOptions::default()).unwrap().finish(true).unwrap();
    let many: Vec<Step> = (0..3000).map(|number| Step::Put(format!("d/{number:04}"), 1)).collect();
    write(&path, &many);
    let followed = Followed::new(opened(&path), OpenOptions::default()).unwrap();
    let directory = followed.find(b"d").unwrap().unwrap();
    let before: HashMap<Vec<u8>, NodeId> =
        entries(&followed, directory).into_iter().map(|(name, id, _)| (name, id)).collect();
    // The first page, then others are put and deleted, then the rest.
    let mut page = Page::new();
    let mut cursor = followed.list(directory, &Cursor::Start, &mut page).unwrap();
    let mut names: Vec<Vec<u8>> = page.iter().map(|entry| entry.name.to_vec()).collect();
    let changed = ["d/0000", "d/0007", "d/1500"].map(|path| Step::Put(path.to_owned(), 2));
    write(&path, &[&changed[..], &[Step::Delete("d/0500".into()), Step::Put("d/0500a".into(), 3)]].concat());
    let changes = followed.refresh().unwrap().unwrap();
    let mut named: Vec<&[u8]> = changes.entries.iter().map(|(_, name)| &name[..]).collect();
    named.sort_unstable();
    assert_eq!(named, [&b"0000"[..], b"0007", b"0500", b"0500a", b"1500"]);
    assert_eq!(changes.nodes, [directory]);
    while let Some(from) = cursor {
        cursor = followed.list(directory, &from, &mut page).unwrap();
        names.extend(page.iter().map(|entry| entry.name.to_vec()));
    }
    // What was there all the time is listed once.
    let wanted: Vec<Vec<u8>> = (0..3000).map(|number| format!("{number:04}").into_bytes()).collect();
    assert_eq!(names, wanted);
    for (name, id, _) in entries(&followed, directory) {
        let is_new = [&b"0000"[..], b"0007", b"0500a", b"1500"].contains(&&name[..]);
        assert_eq!(before.get(&name) != Some(&id), is_new, "{}", String::from_utf8_lossy(&name));
    }
    // The old ones are gone, by their ids.
    assert!(bytes_of(&followed, before[&b"0007"[..]]).unwrap_err().to_string().contains("read"));
}

#[test]
fn another_pack_in_its_place_is_an_error_and_the_state_before_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("p.stook"), dir.path().join("other.stook"));
    for path in [&path, &other] {
        let storage = Arc::new(LocalStorage::create(path, LocalStorageOptions::default()).unwrap());
        PackWriter::create(storage, WriterOptions::default()).unwrap().finish(true).unwrap();
        write(path, &[Step::Put("a".into(), 5)]);
    }
    // Longer files show it.
    let more: Vec<Step> = (0..500).map(|number| Step::Put(format!("more/{number}"), 200)).collect();
    write(&other, &more);
    let followed = Followed::new(opened(&path), OpenOptions::default()).unwrap();
    let id = followed.find(b"a").unwrap().unwrap();
    for entry in std::fs::read_dir(&path).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for entry in std::fs::read_dir(&other).unwrap() {
        let from = entry.unwrap().path();
        std::fs::copy(&from, path.join(from.file_name().unwrap())).unwrap();
    }
    assert_refused(&followed, "another is there by now", &path);
    assert_eq!(bytes_of(&followed, id).unwrap(), vec![5; 15]);
}

/// That the next state is refused for this reason, with the path.
fn assert_refused(followed: &Followed, why: &str, path: &Path) {
    match followed.refresh() {
        Err(Error::Invalid(what)) => {
            assert!(what.contains(why) && what.contains(path.to_str().unwrap()), "{what}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pack_that_is_deleted_moved_or_made_anew_is_said_to_be() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.stook");
    let make = |byte| {
        let storage = Arc::new(LocalStorage::create(&path, LocalStorageOptions::default()).unwrap());
        PackWriter::create(storage, WriterOptions::default()).unwrap().finish(true).unwrap();
        write(&path, &[Step::Put("a".into(), byte)]);
    };
    make(5);
    let followed = Followed::new(opened(&path), OpenOptions::default()).unwrap();
    let id = followed.find(b"a").unwrap().unwrap();
    // Where it was moved to, it is still followed.
    let moved = dir.path().join("moved.stook");
    std::fs::rename(&path, &moved).unwrap();
    assert!(followed.refresh().unwrap().is_none());
    write(&moved, &[Step::Put("b".into(), 6)]);
    assert!(followed.refresh().unwrap().is_some() && followed.find(b"b").unwrap().is_some());
    // Unless another took its place.
    make(7);
    assert_refused(&followed, "another is there by now", &path);
    std::fs::remove_dir_all(&path).unwrap();
    assert!(followed.refresh().unwrap().is_none());
    std::fs::remove_dir_all(&moved).unwrap();
    assert_refused(&followed, "was deleted", &path);
    make(8);
    assert_refused(&followed, "another is there by now", &path);
    assert_eq!(bytes_of(&followed, id).unwrap(), vec![5; 15]);
}

/// Puts one record under a key.
fn put(path: &Path, key: &Key, body: &[u8]) {
    let mut writer = PackWriter::open(storage(path), WriterOptions::default()).unwrap();
    writer.put("", key, &Attributes::new(), body).unwrap();
    writer.finish(false).unwrap();
}

#[test]
fn a_name_that_another_record_takes_over_is_another_node() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.stook");
    let storage_of = LocalStorage::create(&path, LocalStorageOptions::default()).unwrap();
    PackWriter::create(Arc::new(storage_of), WriterOptions::default()).unwrap().finish(true).unwrap();
    let text = Key::bytes("id:7").unwrap();
    put(&path, &Key::id(7), b"the number");
    put(&path, &text, b"the text");
    let followed = Followed::new(opened(&path), OpenOptions::default()).unwrap();
    let before = followed.find(b"id:7").unwrap().unwrap();
    assert_eq!(bytes_of(&followed, before).unwrap(), b"the text");
    let mut writer = PackWriter::open(storage(&path), WriterOptions::default()).unwrap();
    assert!(writer.delete(&text).unwrap());
    writer.finish(false).unwrap();
    let changes = followed.refresh().unwrap().unwrap();
    assert_eq!(changes.entries, [(followed.root(), b"id:7".to_vec())]);
    let after = followed.find(b"id:7").unwrap().unwrap();
    assert!(after != before && bytes_of(&followed, before).is_err());
    assert_eq!(bytes_of(&followed, after).unwrap(), b"the number");
}

#[test]
fn a_state_that_is_restored_from_a_copy_is_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("p.stook"), dir.path().join("copy"));
    let storage_of = LocalStorage::create(&path, LocalStorageOptions::default()).unwrap();
    PackWriter::create(Arc::new(storage_of), WriterOptions::default()).unwrap().finish(true).unwrap();
    write(&path, &[Step::Put("a".into(), 5), Step::Put("b".into(), 6)]);
    let files = |from: &Path, to: &Path| {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(to).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        for entry in std::fs::read_dir(from).unwrap() {
            let from = entry.unwrap().path();
            std::fs::copy(&from, to.join(from.file_name().unwrap())).unwrap();
        }
    };
    files(&path, &copy);
    write(&path, &[Step::Put("a".into(), 7)]);
    let followed = Followed::new(opened(&path), OpenOptions::default()).unwrap();
    let (a, b) = (followed.find(b"a").unwrap().unwrap(), followed.find(b"b").unwrap().unwrap());
    assert_eq!(bytes_of(&followed, a).unwrap(), vec![7; 21]);
    files(&copy, &path);
    write(&path, &[Step::Put("c".into(), 250)]);
    followed.refresh().unwrap().unwrap();
    let restored = followed.find(b"a").unwrap().unwrap();
    assert_ne!(restored, a);
    assert_eq!(bytes_of(&followed, restored).unwrap(), vec![5; 15]);
    assert_eq!(followed.find(b"b").unwrap(), Some(b));
    // What is written on then lies where the other was, with the same number and length.
    files(&copy, &path);
    write(&path, &[Step::Put("c".into(), 7)]);
    followed.refresh().unwrap().unwrap();
    let c = followed.find(b"c").unwrap().unwrap();
    files(&copy, &path);
    write(&path, &[Step::Put("c".into(), 7), Step::Put("d".into(), 9)]);
    followed.refresh().unwrap().unwrap();
    assert_ne!(followed.find(b"c").unwrap(), Some(c));
    assert_eq!(bytes_of(&followed, followed.find(b"c").unwrap().unwrap()).unwrap(), vec![7; 21]);
    assert_eq!(followed.find(b"b").unwrap(), Some(b));
}
