//! Several trees under one root: precedence, deletions, case, costs.

use std::fs;
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use stook::engine::{Backend, EngineFactory};
use stook::source::Source;
use stook::tree::{
    CaseRule, Cursor, Deliver, GatherOptions, Gathered, Kind, Layer, Node, NodeId, PAGE_LEN, Page, Tree,
    Union,
};
use stook::walk::DirectoryTree;
use stook::{Error, Result};
use stook_testing::conformance::{
    TreeFeatures, changing_tree_conformance, many_files, read_all, tree_conformance, tree_matches_model,
};
use stook_testing::model::tree::{TreeEntry, TreeModel};
use stook_testing::model::union::{LayerModel, layer_models, layers_of, union_of};
use stook_testing::trees::{MemoryTree, has_holes, make_files, union_tree};
use tempfile::TempDir;

fn in_memory(model: &TreeModel) -> Arc<dyn Tree> {
    Arc::new(MemoryTree::new(model))
}

/// Trees on disk; the directories go when all is over.
#[derive(Default)]
struct OnDisk(Vec<TempDir>);

impl OnDisk {
    fn tree(&mut self, model: &TreeModel) -> Arc<dyn Tree> {
        let directory = tempfile::tempdir().unwrap();
        make_files(model, directory.path());
        let tree = DirectoryTree::open(directory.path()).unwrap();
        self.0.push(directory);
        Arc::new(tree)
    }
}

/// Some of the names in the suite differ in case alone.
const NO_ODD_NAMES: TreeFeatures = TreeFeatures { any_names: false, ..TreeFeatures::ALL };

#[test]
fn unions_of_one_two_and_three_trees_pass_the_suite() {
    for count in 1..=3 {
        let mut make = |model: &TreeModel| -> Box<dyn Tree> {
            Box::new(union_tree(&layers_of(model, count), CaseRule::Exact, &mut in_memory))
        };
        tree_conformance(TreeFeatures::ALL, &mut make, &Backend::Threads);
    }
}

#[test]
fn a_union_of_directories_on_disk_passes_the_suite() {
    for (case, features) in [(CaseRule::Exact, TreeFeatures::ALL), (CaseRule::Ignored, NO_ODD_NAMES)] {
        let mut disk = OnDisk::default();
        let mut make = |model: &TreeModel| -> Box<dyn Tree> {
            Box::new(union_tree(&layers_of(model, 2), case, &mut |model| disk.tree(model)))
        };
        let holes = has_holes(tempfile::tempdir().unwrap().path());
        tree_conformance(TreeFeatures { holes, ..features }, &mut make, &Backend::Threads);
    }
}

#[test]
fn a_union_that_ignores_case_passes_the_suite() {
    let mut make = |model: &TreeModel| -> Box<dyn Tree> {
        Box::new(union_tree(&layers_of(model, 3), CaseRule::Ignored, &mut in_memory))
    };
    tree_conformance(NO_ODD_NAMES, &mut make, &Backend::Threads);
}

#[test]
fn a_union_of_a_union_passes_the_suite() {
    let mut make = |model: &TreeModel| -> Box<dyn Tree> {
        let layers = layers_of(model, 3);
        let (first, last) = layers.split_at(2);
        let inner = Layer::new(Arc::new(union_tree(first, CaseRule::Exact, &mut in_memory)));
        let outer = Layer::new(in_memory(&last[0].tree));
        let outer = last[0].deleted.iter().fold(outer, |layer, path| layer.deleting(path.as_slice()));
        Box::new(Union::new("outer", [inner, outer], CaseRule::Exact).unwrap())
    };
    tree_conformance(TreeFeatures::ALL, &mut make, &Backend::Threads);
}

#[test]
fn a_union_of_nothing_is_an_empty_directory() {
    let union = Union::new("nothing", [], CaseRule::Exact).unwrap();
    tree_matches_model(&union, &TreeModel::new(), &Backend::Threads);
    assert_eq!((union.layer_of(union.root()), union.xattrs(union.root()).unwrap().is_empty()), (None, true));
    let error = union.list(union.root(), &Cursor::At(1), &mut Page::new()).unwrap_err();
    assert_eq!(error.io_kind(), Some(ErrorKind::InvalidInput));
}

/// Layers with this tree at a position, and the others from a model.
fn among(tree: Arc<dyn Tree>, position: usize, others: &TreeModel) -> Vec<Layer> {
    let trees = (0..3).map(|at| if at == position { Arc::clone(&tree) } else { in_memory(others) });
    trees.map(Layer::new).collect()
}

#[test]
fn a_union_of_directories_may_change_meanwhile() {
    for case in [CaseRule::Exact, CaseRule::Ignored] {
        for position in 0..3 {
            let mut open = |path: &Path| -> Box<dyn Tree> {
                let tree = Arc::new(DirectoryTree::open(path).unwrap());
                Box::new(Union::new(path, among(tree, position, &TreeModel::new()), case).unwrap())
            };
            changing_tree_conformance(&mut open, &Backend::Threads);
        }
    }
}

#[test]
fn a_directory_that_goes_in_one_tree_stays_as_the_others_have_it() {
    let others = TreeModel::new().file("d/beside", "");
    for case in [CaseRule::Exact, CaseRule::Ignored] {
        for position in 0..3 {
            let directory = tempfile::tempdir().unwrap();
            fs::create_dir(directory.path().join("d")).unwrap();
            let tree = Arc::new(DirectoryTree::open(directory.path()).unwrap());
            let union = Union::new("union", among(tree, position, &others), case).unwrap();
            let beside = id_of(&union, "d/beside");
            fs::write(directory.path().join("d/new"), "new").unwrap();
            assert_eq!(text_of(&union, "d/new").as_deref(), Some("new"));
            fs::remove_dir_all(directory.path().join("d")).unwrap();
            assert_eq!(union.find(b"d/new").unwrap(), None);
            assert_eq!(union.find(b"d/beside").unwrap(), Some(beside));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_unions_are_their_merged_models(layers in layer_models()) {
        let wanted = union_of(&layers, <[u8]>::to_vec);
        let union = union_tree(&layers, CaseRule::Exact, &mut in_memory);
        tree_matches_model(&union, &wanted, &Backend::Threads);
        let mut disk = OnDisk::default();
        let union = union_tree(&layers, CaseRule::Exact, &mut |model| disk.tree(model));
        tree_matches_model(&union, &wanted, &Backend::Threads);
    }

    #[test]
    fn random_unions_without_case_are_their_merged_models(layers in layer_models()) {
        let lower = |name: &[u8]| str::from_utf8(name).unwrap().to_lowercase().into_bytes();
        let wanted = union_of(&layers, lower);
        let mut disk = OnDisk::default();
        for union in [
            union_tree(&layers, CaseRule::Ignored, &mut in_memory),
            union_tree(&layers, CaseRule::Ignored, &mut |model| disk.tree(model)),
        ] {
            tree_matches_model(&union, &wanted, &Backend::Threads);
            for (path, _) in wanted.iter() {
                let id = union.find(path).unwrap();
                let path = str::from_utf8(path).unwrap();
                for other in [path.to_uppercase(), path.to_lowercase()] {
                    assert_eq!(union.find(other.as_bytes()).unwrap(), id, "{path} as {other}");
                }
            }
        }
    }
}

fn id_of(tree: &dyn Tree, path: &str) -> NodeId {
    tree.find(path.as_bytes()).unwrap().unwrap()
}

fn text_of(tree: &dyn Tree, path: &str) -> Option<String> {
    let id = tree.find(path.as_bytes()).unwrap()?;
    Some(String::from_utf8(read_all(&*tree.open(id).unwrap())).unwrap())
}

fn layer(tree: TreeModel, deleted: &[&str]) -> LayerModel {
    LayerModel { tree, deleted: deleted.iter().map(|path| path.as_bytes().to_vec()).collect() }
}

/// The names in a directory, in the order of the listing.
fn names_in(tree: &dyn Tree, directory: NodeId) -> Vec<String> {
    let (mut page, mut from, mut names) = (Page::new(), Some(Cursor::Start), Vec::new());
    while let Some(at) = from {
        from = tree.list(directory, &at, &mut page).unwrap();
        assert!(page.failures().is_empty(), "{:?}", page.failures());
        names.extend(page.iter().map(|entry| String::from_utf8_lossy(entry.name).into_owned()));
    }
    names
}

#[test]
fn what_a_tree_deletes_is_not_seen_of_those_before_it() {
    let first = TreeModel::new().file("d/a", "1").file("d/b", "1").file("e/f/g", "1").file("h", "1");
    let second = TreeModel::new().file("d/a", "2").file("e/f/x", "2");
    let third = TreeModel::new().file("d/c", "3").file("e/y", "3");
    let layers = [layer(first, &[]), layer(second, &["d/a", "h"]), layer(third, &["d", "e/f"])];
    let union = union_tree(&layers, CaseRule::Exact, &mut in_memory);
    assert_eq!(text_of(&union, "d/c").as_deref(), Some("3"));
    for gone in ["d/a", "d/b", "e/f", "e/f/g", "e/f/x", "h"] {
        assert_eq!(union.find(gone.as_bytes()).unwrap(), None, "{gone}");
    }
    assert_eq!(names_in(&union, id_of(&union, "d")), ["c"]);
    assert_eq!(names_in(&union, id_of(&union, "e")), ["y"]);
    // Without the last, what the second deleted alone.
    let union = union_tree(&layers[..2], CaseRule::Exact, &mut in_memory);
    assert_eq!(text_of(&union, "d/a").as_deref(), Some("2"), "its own stays");
    assert_eq!(text_of(&union, "d/b").as_deref(), Some("1"));
    assert_eq!((union.find(b"h").unwrap(), text_of(&union, "e/f/g").as_deref()), (None, Some("1")));
    // What a later tree has again is there again.
    let again = layer(TreeModel::new().file("h", "4"), &[]);
    let union = union_tree(&[layers[0].clone(), layers[1].clone(), again], CaseRule::Exact, &mut in_memory);
    assert_eq!(text_of(&union, "h").as_deref(), Some("4"));
    // The root: all that was before.
    let root = layer(TreeModel::new().file("only", ""), &[""]);
    let union = union_tree(&[layers[0].clone(), root], CaseRule::Exact, &mut in_memory);
    assert_eq!(names_in(&union, union.root()), ["only"]);
}

#[test]
fn deletions_follow_the_case_rule() {
    let first = TreeModel::new().file("Data/Map", "1").file("Data/Other", "1");
    let layers = [layer(first, &[]), layer(TreeModel::new(), &["data/map"])];
    let union = union_tree(&layers, CaseRule::Exact, &mut in_memory);
    assert!(union.find(b"Data/Map").unwrap().is_some());
    let union = union_tree(&layers, CaseRule::Ignored, &mut in_memory);
    assert_eq!(names_in(&union, id_of(&union, "DATA")), ["Other"]);
}

#[test]
fn a_path_that_nothing_can_have_is_not_deleted() {
    for bad in ["/d", "d/", "a//b", "..", "d/../e", "d\0"] {
        let layers = [Layer::new(in_memory(&TreeModel::new())).deleting(bad)];
        let error = Union::new("union", layers, CaseRule::Exact).unwrap_err();
        assert!(matches!(error, Error::Entry { .. }), "{error}");
    }
}

#[test]
fn a_file_hides_the_directory_before_it_with_all_below_and_only_whole_names_count() {
    let first = TreeModel::new().file("d/below", "1").file("data", "1").file("x", "1");
    let second = TreeModel::new().file("d", "2").file("x/below", "2");
    let third = TreeModel::new().file("d/other", "3");
    let layers = [layer(first, &[]), layer(second, &[]), layer(third, &[])];
    let union = union_tree(&layers[..2], CaseRule::Exact, &mut in_memory);
    assert_eq!((text_of(&union, "d").as_deref(), union.find(b"d/below").unwrap()), (Some("2"), None));
    assert_eq!(text_of(&union, "data").as_deref(), Some("1"));
    assert_eq!(text_of(&union, "x/below").as_deref(), Some("2"));
    // A directory after the file does not bring back what the file hides.
    let union = union_tree(&layers, CaseRule::Exact, &mut in_memory);
    assert_eq!(names_in(&union, id_of(&union, "d")), ["other"]);
    assert_eq!(union.layer_of(id_of(&union, "d")), Some(2));
    assert_eq!(union.layer_of(id_of(&union, "x")), Some(1));
    assert_eq!(union.path_of(id_of(&union, "d/other")), Path::new("union/d/other"));
}

#[test]
fn a_lookup_that_ignores_case_says_which_name_counts() {
    let first = TreeModel::new().file("Readme.txt", "1").file("Data/a", "1").file("ÉTÉ", "1");
    let second = TreeModel::new().file("readme.txt", "b").file("README.TXT", "B").file("DATA/B", "2");
    let layers = [layer(first, &[]), layer(second, &[])];
    let union = union_tree(&layers, CaseRule::Ignored, &mut in_memory);
    let named = |name: &str| {
        let found = union.lookup_named(union.root(), name.as_bytes()).unwrap();
        found.map(|(name, id)| (String::from_utf8(name).unwrap(), id))
    };
    for asked in ["readme.txt", "README.TXT", "Readme.txt", "ReAdMe.TxT"] {
        let (name, id) = named(asked).unwrap();
        assert_eq!((name.as_str(), id), ("README.TXT", id_of(&union, "readme.TXT")));
        assert_eq!(union.path_of(id), Path::new("union/README.TXT"));
    }
    assert_eq!(text_of(&union, "readme.txt").as_deref(), Some("B"));
    assert_eq!((named("été").unwrap().0.as_str(), named("ete")), ("ÉTÉ", None));
    assert_eq!(names_in(&union, union.root()), ["DATA", "README.TXT", "ÉTÉ"]);
    let mut below = names_in(&union, named("data").unwrap().1);
    below.sort_unstable();
    assert_eq!(below, ["B", "a"]);
    // Where case counts, these are six entries.
    let union = union_tree(&layers, CaseRule::Exact, &mut in_memory);
    assert_eq!(names_in(&union, union.root()).len(), 6);
    assert_eq!(union.find(b"READme.txt").unwrap(), None);
}

#[test]
fn names_that_came_or_went_are_seen_where_case_is_ignored() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("first"), "1").unwrap();
    let tree = Layer::new(Arc::new(DirectoryTree::open(directory.path()).unwrap()));
    let union = Union::new("union", [tree], CaseRule::Ignored).unwrap();
    assert_eq!(text_of(&union, "FIRST").as_deref(), Some("1"));
    fs::write(directory.path().join("Second"), "2").unwrap();
    assert_eq!(text_of(&union, "Second").as_deref(), Some("2"), "at once by its own name");
    let later = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    fs::File::open(directory.path()).unwrap().set_modified(later).unwrap();
    assert_eq!(text_of(&union, "SECOND").as_deref(), Some("2"), "by any once the directory has another time");
    fs::remove_file(directory.path().join("first")).unwrap();
    assert_eq!(union.find(b"FIRST").unwrap(), None);
}

/// A tree that counts its calls, and fails at chosen ones.
#[derive(Debug)]
struct Watched {
    tree: Arc<dyn Tree>,
    lookups: AtomicUsize,
    pages: AtomicUsize,
    gathered: Mutex<Vec<Vec<NodeId>>>,
    /// A name that cannot be looked up.
    broken: &'static [u8],
}

impl Watched {
    fn new(tree: Arc<dyn Tree>) -> Self {
        let (lookups, pages) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { tree, lookups, pages, gathered: Mutex::default(), broken: b"" }
    }
}

impl Tree for Watched {
    fn path(&self) -> &Path {
        self.tree.path()
    }

    fn root(&self) -> NodeId {
        self.tree.root()
    }

    fn lookup(&self, parent: NodeId, name: &[u8]) -> Result<Option<NodeId>> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        if name == self.broken {
            return Err(Error::io("stat", self.path(), io::Error::other("a bad sector")));
        }
        self.tree.lookup(parent, name)
    }

    fn list(&self, directory: NodeId, from: &Cursor, page: &mut Page) -> Result<Option<Cursor>> {
        self.pages.fetch_add(1, Ordering::Relaxed);
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
        self.tree.open(id)
    }

    fn gather(
        &self,
        ids: &[NodeId],
        factory: &dyn EngineFactory,
        options: &GatherOptions,
        deliver: &mut Deliver<'_>,
    ) -> Result<()> {
        self.gathered.lock().unwrap().push(ids.to_vec());
        self.tree.gather(ids, factory, options, deliver)
    }
}

/// A directory of empty files named by their number, none of them in memory.
#[derive(Debug)]
struct Numbers {
    count: u64,
}

impl Tree for Numbers {
    fn path(&self) -> &Path {
        Path::new("numbers")
    }

    fn root(&self) -> NodeId {
        NodeId::new(0)
    }

    fn lookup(&self, _parent: NodeId, name: &[u8]) -> Result<Option<NodeId>> {
        let number = str::from_utf8(name).ok().and_then(|name| name.parse::<u64>().ok());
        Ok(number.filter(|number| *number < self.count).map(|number| NodeId::new(number + 1)))
    }

    fn list(&self, _directory: NodeId, from: &Cursor, page: &mut Page) -> Result<Option<Cursor>> {
        page.clear();
        let start = match from {
            Cursor::At(start) => *start,
            _ => 0,
        };
        let end = self.count.min(start + PAGE_LEN as u64);
        for number in start..end {
            page.push(number.to_string().as_bytes(), NodeId::new(number + 1), Node::file(0));
        }
        Ok((end < self.count).then_some(Cursor::At(end)))
    }

    fn node(&self, id: NodeId) -> Result<Node> {
        Ok(if id == self.root() { Node::new(Kind::Directory) } else { Node::file(0) })
    }

    fn path_of(&self, _id: NodeId) -> PathBuf {
        self.path().to_path_buf()
    }

    fn link_target(&self, id: NodeId) -> Result<Vec<u8>> {
        Err(Error::io("read link", self.path_of(id), ErrorKind::InvalidInput.into()))
    }

    fn open(&self, id: NodeId) -> Result<Arc<dyn Source>> {
        Err(Error::io("open", self.path_of(id), ErrorKind::Unsupported.into()))
    }
}

#[test]
fn a_million_entries_and_five_are_listed_page_by_page() {
    const MANY: u64 = 1_000_000;
    let few = TreeModel::new().file("7", "7").file("a", "").file("b", "").file("c", "").file("999999", "9");
    for many_first in [true, false] {
        let many = Arc::new(Watched::new(Arc::new(Numbers { count: MANY })));
        let five = Arc::new(Watched::new(in_memory(&few)));
        let mut layers = [Layer::new(many.clone()), Layer::new(five.clone())];
        if !many_first {
            layers.reverse();
        }
        let union = Union::new("union", layers, CaseRule::Exact).unwrap();
        let (mut page, mut from, mut count) = (Page::new(), Some(Cursor::Start), 0);
        let mut half_way = None;
        while let Some(at) = from {
            from = union.list(union.root(), &at, &mut page).unwrap();
            assert!(page.len() <= PAGE_LEN && page.failures().is_empty());
            count += page.len() as u64;
            if half_way.is_none() && count >= MANY / 2 {
                half_way = Some((at, page.iter().map(|entry| entry.name.to_vec()).collect::<Vec<_>>()));
            }
        }
        assert_eq!(count, MANY + 3);
        // One page of one tree at a time, and a look-up for each entry that another tree may hide.
        let pages = many.pages.load(Ordering::Relaxed) as u64;
        assert_eq!((pages, five.pages.load(Ordering::Relaxed)), (MANY.div_ceil(PAGE_LEN as u64), 1));
        let lookups = [&many, &five].map(|tree| tree.lookups.load(Ordering::Relaxed) as u64);
        assert_eq!(lookups, if many_first { [0, MANY] } else { [5, 0] });
        // A cursor leads to the same page again, regardless of listings since.
        let (at, names) = half_way.unwrap();
        union.list(union.root(), &at, &mut page).unwrap();
        assert!(page.iter().map(|entry| entry.name.to_vec()).eq(names));
        let seven = union.node(id_of(&union, "7")).unwrap().len;
        assert_eq!(seven, u64::from(many_first));
    }
}

#[test]
fn a_directory_of_a_hundred_thousand_names_in_two_trees_is_its_model() {
    let model = many_files(100_000);
    for case in [CaseRule::Exact, CaseRule::Ignored] {
        let union = union_tree(&layers_of(&model, 2), case, &mut in_memory);
        tree_matches_model(&union, &model, &Backend::Threads);
    }
}

#[test]
fn a_gather_makes_one_pass_over_each_tree() {
    let first = TreeModel::new().file("a", "1").file("b", "1").file("hidden", "1");
    let second = TreeModel::new().file("c", "2").file("d/e", "2").file("hidden", "2");
    let trees = [first, second].map(|model| Arc::new(Watched::new(in_memory(&model))));
    let layers = trees.each_ref().map(|tree| Layer::new(tree.clone()));
    let union = Union::new("union", layers, CaseRule::Exact).unwrap();
    let wanted = [("d/e", "2"), ("a", "1"), ("hidden", "2"), ("b", "1"), ("c", "2")];
    let ids = wanted.map(|(path, _)| id_of(&union, path));
    let mut arrived = Vec::new();
    let mut take = |Gathered { index, id, result }: Gathered| -> ControlFlow<()> {
        assert_eq!(ids[index], id);
        assert_eq!(result.unwrap().bytes, wanted[index].1);
        arrived.push(union.layer_of(id).unwrap());
        ControlFlow::Continue(())
    };
    union.gather(&ids, &Backend::Threads, &GatherOptions::default(), &mut take).unwrap();
    assert_eq!(arrived, [0, 0, 1, 1, 1], "one tree after the other");
    for tree in &trees {
        assert_eq!(tree.gathered.lock().unwrap().len(), 1);
    }
    // The hint has the same order.
    let orders = ids.map(|id| (union.medium_order(id), union.layer_of(id)));
    assert!(orders.iter().filter(|(_, layer)| *layer == Some(0)).all(|first| orders[0].0 > first.0));
}

#[test]
fn a_tree_that_cannot_say_whether_it_has_a_name_hides_no_other_silently() {
    let first = TreeModel::new().file("a", "1").file("bad", "1").file("c", "1");
    let mut second = Watched::new(in_memory(&TreeModel::new().file("z", "2")));
    second.broken = b"bad";
    let layers = [Layer::new(in_memory(&first)), Layer::new(Arc::new(second))];
    let union = Union::new("union", layers, CaseRule::Exact).unwrap();
    assert!(union.lookup(union.root(), b"bad").is_err(), "it may be there: that of the first may be hidden");
    let (mut page, mut from) = (Page::new(), Some(Cursor::Start));
    let (mut names, mut failures) = (Vec::new(), 0);
    while let Some(at) = from {
        from = union.list(union.root(), &at, &mut page).unwrap();
        names.extend(page.iter().map(|entry| entry.name.to_vec()));
        failures += page.failures().len();
    }
    assert_eq!((names, failures), (vec![b"z".to_vec(), b"a".to_vec(), b"c".to_vec()], 1));
}

#[test]
fn a_directory_that_became_a_link_is_not_entered() {
    let directory = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("secret"), "outside").unwrap();
    fs::create_dir(directory.path().join("d")).unwrap();
    let on_disk = Layer::new(Arc::new(DirectoryTree::open(directory.path()).unwrap()));
    let other = Layer::new(in_memory(&TreeModel::new().file("d/file", "of the other")));
    let union = Union::new("union", [other, on_disk], CaseRule::Exact).unwrap();
    let d = id_of(&union, "d");
    assert_eq!(names_in(&union, d), ["file"]);
    fs::remove_dir(directory.path().join("d")).unwrap();
    symlink(elsewhere.path(), directory.path().join("d")).unwrap();
    let link = id_of(&union, "d");
    assert_ne!(link, d);
    assert_eq!(union.node(link).unwrap().kind, Kind::Symlink);
    for path in ["d/secret", "d/file"] {
        assert_eq!(union.find(path.as_bytes()).unwrap(), None, "{path}");
    }
    assert_eq!(union.link_target(link).unwrap(), elsewhere.path().as_os_str().as_encoded_bytes());
}

#[test]
fn names_of_one_file_are_one_node_also_where_some_are_hidden() {
    let first = TreeModel::new()
        .file("a", "shared")
        .with("b", TreeEntry::Link(b"a".to_vec()))
        .with("c", TreeEntry::Link(b"a".to_vec()));
    let layers = [layer(first, &[]), layer(TreeModel::new().file("a", "other"), &["b"])];
    let union = union_tree(&layers, CaseRule::Exact, &mut in_memory);
    let (a, c) = (id_of(&union, "a"), id_of(&union, "c"));
    assert_ne!(a, c);
    assert_eq!((union.node(c).unwrap().links, union.path_of(c)), (3, PathBuf::from("union/c")));
    let whole = union_tree(&layers[..1], CaseRule::Exact, &mut in_memory);
    assert_eq!(id_of(&whole, "a"), id_of(&whole, "c"));
}
