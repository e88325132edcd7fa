//! Trees of files: the table of names in memory, and a directory on disk.

use std::fs;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use stook::engine::{Access, Backend};
use stook::extent::ByteRange;
use stook::source::{Identity, Leaf, Source, read_range};
use stook::tree::{Cursor, GatherOptions, Gathered, Kind, Node, NodeId, Page, Tree};
use stook::walk::DirectoryTree;
use stook::{Error, Result};
use stook_testing::conformance::{
    Strange, TreeFeatures, changing_tree_conformance, many_files, read_all, tree_conformance,
    tree_matches_model,
};
use stook_testing::model::tree::{TreeModel, tree_models, with_random_xattrs};
use stook_testing::trees::{MemoryTree, has_holes, make_files};
use tempfile::TempDir;

/// A directory with the files of a model, and the tree of it.
fn directory_of(model: &TreeModel) -> (TempDir, DirectoryTree) {
    let directory = tempfile::tempdir().unwrap();
    make_files(model, directory.path());
    let tree = DirectoryTree::open(directory.path()).unwrap();
    (directory, tree)
}

/// What there is on the disk of temporary directories.
fn on_disk() -> TreeFeatures {
    TreeFeatures { holes: has_holes(tempfile::tempdir().unwrap().path()), ..TreeFeatures::ALL }
}

#[test]
fn a_table_of_names_passes_the_suite() {
    let mut make = |model: &TreeModel| -> Box<dyn Tree> { Box::new(MemoryTree::new(model)) };
    tree_conformance(TreeFeatures::ALL, &mut make, &Backend::Threads);
}

#[test]
fn a_directory_on_disk_passes_the_suite() {
    for backend in [Backend::Threads, Backend::Auto] {
        let mut kept = Vec::new();
        let mut make = |model: &TreeModel| -> Box<dyn Tree> {
            let (directory, tree) = directory_of(model);
            kept.push(directory);
            Box::new(tree)
        };
        tree_conformance(on_disk(), &mut make, &backend);
    }
}

#[test]
fn a_directory_on_disk_may_change_meanwhile() {
    let mut open = |path: &Path| -> Box<dyn Tree> { Box::new(DirectoryTree::open(path).unwrap()) };
    changing_tree_conformance(&mut open, &Backend::Threads);
}

#[test]
fn a_directory_of_a_hundred_thousand_names_is_its_model() {
    let model = many_files(100_000);
    tree_matches_model(&MemoryTree::new(&model), &model, &Backend::Threads);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn random_trees_are_their_models(model in with_random_xattrs(tree_models(true))) {
        tree_matches_model(&MemoryTree::new(&model), &model, &Backend::Threads);
        let (_directory, tree) = directory_of(&model);
        tree_matches_model(&tree, &model, &Backend::Threads);
    }
}

fn id_of(tree: &dyn Tree, path: &str) -> NodeId {
    tree.find(path.as_bytes()).unwrap().unwrap()
}

/// The path that an error names.
fn named(error: &Error) -> &Path {
    match error {
        Error::Io { path, .. } | Error::SourceChanged { path, .. } | Error::NotARegularFile { path, .. } => {
            path
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_on_disk_is_what_its_inode_says() {
    let (directory, tree) = directory_of(&TreeModel::new().file("d/file", "bytes"));
    let path = directory.path().join("d/file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).unwrap();
    let metadata = fs::metadata(&path).unwrap();
    let node = tree.node(id_of(&tree, "d/file")).unwrap();
    assert_eq!(node.mode, Some(0o4751));
    assert_eq!(node.mtime_ns, Some(metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec()));
    assert_eq!(node.owner, Some((metadata.uid(), metadata.gid())));
    let source = tree.open(id_of(&tree, "d/file")).unwrap();
    assert_eq!(source.path(), path);
    assert_eq!(source.identity().inode, metadata.ino());
}

#[test]
fn what_is_no_file_is_listed_and_never_opened() {
    let directory = tempfile::tempdir().unwrap();
    let made: Vec<Strange> = Strange::ALL
        .into_iter()
        .filter(|strange| strange.make(&directory.path().join(format!("{strange:?}"))))
        .collect();
    let tree = DirectoryTree::open(directory.path()).unwrap();
    for strange in made {
        let id = id_of(&tree, &format!("{strange:?}"));
        let error = tree.open(id).unwrap_err();
        assert!(matches!(error, Error::NotARegularFile { .. }), "{error}");
        assert!(tree.whole_file(id).unwrap().is_none());
        tree.xattrs(id).unwrap();
        let kind = tree.node(id).unwrap().kind;
        assert_eq!(kind.is_special(), !matches!(strange, Strange::Directory | Strange::Link));
    }
}

#[test]
fn a_directory_that_became_a_link_is_not_entered() {
    let (directory, tree) = directory_of(&TreeModel::new().file("d/file", "inside").file("e/file", "2"));
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("file"), "outside").unwrap();
    let d = tree.lookup(tree.root(), b"d").unwrap().unwrap();
    fs::rename(directory.path().join("d"), directory.path().join("was d")).unwrap();
    symlink(elsewhere.path(), directory.path().join("d")).unwrap();
    for error in [
        tree.lookup(d, b"file").unwrap_err(),
        tree.list(d, &Cursor::Start, &mut Page::new()).unwrap_err(),
        tree.node(d).unwrap_err(),
    ] {
        assert_eq!(named(&error), directory.path().join("d"));
    }
    // The name has another id now, and so has the directory under its new one.
    let link = tree.lookup(tree.root(), b"d").unwrap().unwrap();
    assert_eq!(tree.node(link).unwrap().kind, Kind::Symlink);
    assert_eq!(tree.find(b"d/file").unwrap(), None);
    let was = tree.lookup(tree.root(), b"was d").unwrap().unwrap();
    assert_ne!(was, d);
    assert!(tree.lookup(was, b"file").unwrap().is_some() && tree.lookup(d, b"file").is_err());
}

#[test]
fn a_file_that_another_took_the_name_of_is_an_error_with_its_path() {
    let (directory, tree) = directory_of(&TreeModel::new().file("file", "first").file("gone", "x"));
    let (file, gone) = (id_of(&tree, "file"), id_of(&tree, "gone"));
    let path = directory.path().join("file");
    let source = tree.open(file).unwrap();
    fs::write(directory.path().join("new"), "second").unwrap();
    fs::rename(directory.path().join("new"), &path).unwrap();
    fs::remove_file(directory.path().join("gone")).unwrap();
    let errors = [tree.node(file).unwrap_err(), tree.open(file).unwrap_err(), tree.xattrs(file).unwrap_err()];
    for error in errors {
        assert_eq!(named(&error), path);
    }
    let error = tree.open(gone).unwrap_err();
    assert_eq!((error.io_kind(), named(&error)), (Some(ErrorKind::NotFound), &*tree.path_of(gone)));
    assert_eq!(tree.lookup(tree.root(), b"gone").unwrap(), None);
    // An open source stays unchanged, or reports that it has changed.
    assert_eq!(source.len(), 5);
    let other = tree.lookup(tree.root(), b"file").unwrap().unwrap();
    assert_ne!(other, file);
    assert_eq!(read_all(&*tree.open(other).unwrap()), b"second");
}

#[test]
fn a_file_that_grew_after_it_was_opened_is_an_error_of_its_source() {
    let (directory, tree) = directory_of(&TreeModel::new().file("file", "first"));
    let source = tree.open(id_of(&tree, "file")).unwrap();
    fs::write(directory.path().join("file"), "first and more").unwrap();
    let whole = ByteRange::to(source.len());
    let read = read_range(&Backend::Threads, &*source, whole, Access::Cached);
    assert!(matches!(read, Err(Error::SourceChanged { .. })));
    assert_eq!(tree.node(id_of(&tree, "file")).unwrap().len, 14);
}

#[test]
fn an_id_stays_with_its_name_and_is_never_that_of_what_has_its_inode_later() {
    let (directory, tree) = directory_of(&TreeModel::new().file("a/file", "1").file("b/x", "2"));
    let at = |name: &str| directory.path().join(name);
    let file = id_of(&tree, "a/file");
    // To those who do not ask for more than the inode, both look the same.
    fs::rename(at("a/file"), at("b/file")).unwrap();
    let renamed = tree.find(b"b/file").unwrap().unwrap();
    assert_ne!(renamed, file);
    assert_eq!((tree.path_of(file), tree.path_of(renamed)), (at("a/file"), at("b/file")));
    assert_eq!(tree.open(file).unwrap_err().io_kind(), Some(ErrorKind::NotFound));
    assert_eq!(read_all(&*tree.open(renamed).unwrap()), b"1");
    fs::write(at("a/file"), "new").unwrap();
    assert_eq!(named(&tree.open(file).unwrap_err()), at("a/file"));
    assert_eq!(tree.find(b"b/file").unwrap(), Some(renamed));
    // All names of one file have one id while they are there.
    fs::hard_link(at("b/file"), at("a/link")).unwrap();
    assert_eq!(tree.find(b"a/link").unwrap(), Some(renamed));
    fs::remove_file(at("b/file")).unwrap();
    let left = tree.find(b"a/link").unwrap().unwrap();
    assert_ne!(left, renamed);
    assert_eq!(read_all(&*tree.open(left).unwrap()), b"1");
}

#[test]
fn what_comes_and_goes_between_two_pages_spoils_nothing() {
    let mut model = TreeModel::new();
    for number in 0..3000 {
        model = model.file(format!("{number:04}"), "");
    }
    let (directory, tree) = directory_of(&model);
    let (mut page, mut names) = (Page::new(), Vec::new());
    let mut next = tree.list(tree.root(), &Cursor::Start, &mut page).unwrap();
    names.extend(page.iter().map(|entry| entry.name.to_vec()));
    // Of those that were listed, and of those that were not.
    for number in (0..3000).step_by(10) {
        fs::remove_file(directory.path().join(format!("{number:04}"))).unwrap();
    }
    while let Some(from) = next {
        next = tree.list(tree.root(), &from, &mut page).unwrap();
        assert!(page.failures().is_empty());
        names.extend(page.iter().map(|entry| entry.name.to_vec()));
    }
    let stayed = |name: &&Vec<u8>| !name.ends_with(b"0");
    let mut listed: Vec<&Vec<u8>> = names.iter().filter(stayed).collect();
    listed.sort_unstable();
    assert_eq!(listed.len(), 2700);
    listed.dedup();
    assert_eq!(listed.len(), 2700, "once each");
}

#[test]
fn a_root_that_is_no_directory_or_not_there_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let error = DirectoryTree::open(&file).unwrap_err();
    assert_eq!((error.io_kind(), named(&error)), (Some(ErrorKind::NotADirectory), &*file));
    let error = DirectoryTree::open(directory.path().join("no")).unwrap_err();
    assert_eq!(error.io_kind(), Some(ErrorKind::NotFound));
    // A link that the caller named is followed.
    symlink(directory.path(), directory.path().join("link")).unwrap();
    let tree = DirectoryTree::open(directory.path().join("link")).unwrap();
    assert!(tree.find(b"file").unwrap().is_some());
}

/// A tree that counts which of its files are open.
#[derive(Debug)]
struct Counting {
    tree: MemoryTree,
    open: Arc<AtomicUsize>,
    most: AtomicUsize,
}

impl Tree for Counting {
    fn path(&self) -> &Path {
        self.tree.path()
    }

    fn root(&self) -> NodeId {
        self.tree.root()
    }

    fn lookup(&self, parent: NodeId, name: &[u8]) -> Result<Option<NodeId>> {
        self.tree.lookup(parent, name)
    }

    fn list(&self, directory: NodeId, from: &Cursor, page: &mut Page) -> Result<Option<Cursor>> {
        self.tree.list(directory, from, page)
    }

    fn node(&self, id: NodeId) -> Result<Node> {
        self.tree.node(id)
    }

    fn path_of(&self, id: NodeId) -> PathBuf {
        self.tree.path_of(id)
    }

    fn link_target(&self, id: NodeId) -> Result<Vec<u8>> {
        self.tree.link_target(id)
    }

    fn open(&self, id: NodeId) -> Result<Arc<dyn Source>> {
        let source = self.tree.open(id)?;
        let open = Arc::clone(&self.open);
        self.most.fetch_max(open.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        Ok(Arc::new(Counted { source, open }))
    }

    /// The last that was made comes first.
    fn medium_order(&self, id: NodeId) -> u64 {
        u64::MAX - id.get()
    }
}

#[derive(Debug)]
struct Counted {
    source: Arc<dyn Source>,
    open: Arc<AtomicUsize>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Source for Counted {
    fn path(&self) -> &Path {
        self.source.path()
    }

    fn len(&self) -> u64 {
        self.source.len()
    }

    fn identity(&self) -> Identity {
        self.source.identity()
    }

    fn current_identity(&self) -> Result<Identity> {
        self.source.current_identity()
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        self.source.resolve(range, leaves)
    }
}

#[test]
fn a_gather_opens_few_files_at_once_and_begins_where_the_medium_does() {
    let mut model = TreeModel::new();
    for number in 0..2000 {
        model = model.file(format!("{number}"), [7_u8; 1000]);
    }
    let tree = Counting { tree: MemoryTree::new(&model), open: Arc::default(), most: AtomicUsize::new(0) };
    let ids: Vec<NodeId> = model.iter().map(|(path, _)| tree.find(path).unwrap().unwrap()).collect();
    for (memory_bytes, most_open) in [(64 << 20, 200), (10_000, 10), (1, 1)] {
        tree.most.store(0, Ordering::Relaxed);
        let options = GatherOptions { piece_bytes: 1000, memory_bytes, ..GatherOptions::default() };
        let mut arrived = Vec::new();
        let mut take = |gathered: Gathered| -> ControlFlow<()> {
            assert!(gathered.result.unwrap().is_whole());
            arrived.push(gathered.id);
            ControlFlow::Continue(())
        };
        tree.gather(&ids, &Backend::Threads, &options, &mut take).unwrap();
        assert!(tree.most.load(Ordering::Relaxed) <= most_open, "{:?}", tree.most);
        assert_eq!(tree.open.load(Ordering::Relaxed), 0);
        // What is in memory arrives in the order in which it is begun.
        let mut wanted = ids.clone();
        wanted.sort_unstable();
        wanted.reverse();
        assert_eq!(arrived, wanted);
    }
}
