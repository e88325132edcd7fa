//! What every tree of files must do, as `stook::tree` promises it: against a map of paths.
#![expect(clippy::unwrap_used, reason = "a suite that meets an error fails on the spot")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::ops::ControlFlow;

use stook::Error;
use stook::engine::{Access, EngineFactory};
use stook::extent::ByteRange;
use stook::source::{Session, SessionOptions};
use stook::tree::{Cursor, GatherOptions, Gathered, Holes, Kind, NodeId, PAGE_LEN, Page, Tree, Xattr};

use super::noise;
use crate::model::tree::{TreeEntry, TreeModel};

/// The features of a tree: not every medium has all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeFeatures {
    /// Several names of one file.
    pub hard_links: bool,
    /// Names of any bytes but NUL and `/`.
    pub any_names: bool,
    /// Extended attributes of files and directories.
    pub xattrs: bool,
    /// Holes of files, whole blocks of [`HOLE_LEN`](crate::model::tree::HOLE_LEN) zeros.
    pub holes: bool,
}

impl TreeFeatures {
    /// All of it.
    pub const ALL: Self = Self { hard_links: true, any_names: true, xattrs: true, holes: true };
}

/// Makes a tree of a model.
type Make<'a> = dyn FnMut(&TreeModel) -> Box<dyn Tree> + 'a;

/// Runs every test of the suite, each on a tree that `make` made of a model.
///
/// # Panics
/// Panics if a guarantee is violated.
pub fn tree_conformance(features: TreeFeatures, make: &mut Make<'_>, factory: &dyn EngineFactory) {
    let mut check = |model: &TreeModel| {
        let tree = make(model);
        tree_matches_model(&*tree, model, factory);
        tree
    };
    check(&TreeModel::new());
    check(&plain_files());
    check(&deep(300));
    check(&many_files(20_000));
    if features.any_names {
        check(&odd_names());
    }
    if features.hard_links {
        check(&hard_links());
    }
    if features.xattrs {
        check(&with_xattrs(features.hard_links));
    }
    let tree = check(&links_that_lead_out());
    no_link_is_followed(&*tree);
    a_gather_follows_no_link(&*tree, factory);
    let model = plain_files();
    let tree = check(&model);
    holes_are_those_that_the_medium_has(&*tree, &model, features.holes);
    what_is_not_there_is_not_found(&*tree);
    the_wrong_kind_is_an_error_with_its_path(&*tree);
    a_gather_delivers_each_body_and_each_error(&*tree, &model, factory);
    a_gather_ends_when_its_delivery_breaks(&*tree, factory);
}

/// What holes a file has does not depend on how it is asked.
fn holes_are_those_that_the_medium_has(tree: &dyn Tree, model: &TreeModel, are_there: bool) {
    assert!(!model.holes(b"d/e/holes").is_empty());
    for (path, _) in model.iter().filter(|(path, _)| model.bytes(path).is_some()) {
        let id = tree.find(path).unwrap().unwrap();
        let wanted = if are_there { model.holes(path) } else { Holes::default() };
        assert_eq!(tree.holes(id).unwrap(), wanted, "{}", path.escape_ascii());
    }
    assert!(matches!(tree.holes(tree.root()), Err(Error::NotARegularFile { .. })));
}

fn plain_files() -> TreeModel {
    TreeModel::new()
        .file("empty", "")
        .file("file", "seven b")
        .file("d/page", noise(1, 4096))
        .file("d/page and one", noise(2, 4097))
        .file("d/e/large", noise(3, 3_000_000))
        .file("d/e/holes", with_holes())
        .with("nothing in it", TreeEntry::Directory)
        .with("d/nothing either", TreeEntry::Directory)
        .with("link", TreeEntry::Symlink(b"file".to_vec()))
        // Neighbours of `d/` in the order of bytes.
        .file("d-", "1")
        .file("d.", "2")
        .file("d0", "3")
}

/// Zeros between data, and at the end.
fn with_holes() -> Vec<u8> {
    let mut bytes = vec![0_u8; 1_000_000];
    bytes[..4096].copy_from_slice(&noise(4, 4096));
    bytes[500_000..500_100].copy_from_slice(&noise(5, 100));
    bytes
}

/// Not so deep that removing it, which opens all levels at once, exhausts the descriptors.
fn deep(levels: usize) -> TreeModel {
    let mut path = Vec::new();
    let mut model = TreeModel::new();
    for level in 0..levels {
        path.extend_from_slice(b"d/");
        if level % 50 == 49 {
            model = model.file([&path[..], b"file"].concat(), level.to_string());
        }
    }
    model
}

/// A directory of this many empty files.
pub fn many_files(count: usize) -> TreeModel {
    let mut model = TreeModel::new();
    for number in 0..count {
        assert!(model.add(format!("many/{number}").as_bytes(), TreeEntry::File(Vec::new())));
    }
    model
}

fn odd_names() -> TreeModel {
    let mut model = TreeModel::new();
    for byte in (1..=255_u8).filter(|byte| *byte != b'/') {
        model = model.file([b'n', byte], [byte]);
    }
    model
        .file(b"\xff\xfe/\x80", "not UTF-8")
        .file("...", "three dots")
        .file("..a/ ", "a space")
        .file("line\nbreak", "")
        .file([b'x'; 255], "as long as a name can be")
}

fn hard_links() -> TreeModel {
    TreeModel::new()
        .file("a/file", "shared")
        .with("b/other name", TreeEntry::Link(b"a/file".to_vec()))
        .with("third", TreeEntry::Link(b"a/file".to_vec()))
        .file("alone", "shared")
        .file("z", "")
        .with("0", TreeEntry::Link(b"z".to_vec()))
}

/// Only `user.`: all others belong to the system, which may refuse them or set some itself.
fn with_xattrs(hard_links: bool) -> TreeModel {
    let model = TreeModel::new()
        .file("d/noted", "bytes")
        .xattr("d/noted", "user.note", "not text: \0 \u{ff}")
        .xattr("d/noted", "user.empty", "")
        .file("d/long", "")
        .xattr("d/long", "user.long", noise(6, 2000))
        .xattr("d", "user.note", "of a directory")
        .file("plain", "of it nothing is said")
        .with("link", TreeEntry::Symlink(b"d/noted".to_vec()));
    match hard_links {
        true => model.with("other name", TreeEntry::Link(b"d/noted".to_vec())),
        false => model,
    }
}

fn links_that_lead_out() -> TreeModel {
    let link = |target: &[u8]| TreeEntry::Symlink(target.to_vec());
    TreeModel::new()
        .with("up", link(b".."))
        .with("away", link(b"/etc"))
        .with("far", link(b"../../../../../../etc/passwd"))
        .with("nowhere", link(b"no such file"))
        .with("itself", link(b"itself"))
        .with("to d", link(b"d"))
        .with("any bytes", link(b"\xff/\x01 \n//../"))
        .with("a thousand bytes", link(&[b'x'; 1000]))
        .with("d/up", link(b"../d"))
        .file("d/file", "below")
}

/// All entries of a directory, in the order of the listing.
fn listed(tree: &dyn Tree, directory: NodeId) -> Vec<(Vec<u8>, NodeId)> {
    let (mut page, mut from, mut all) = (Page::new(), Cursor::Start, Vec::new());
    // What was on a page before is gone.
    page.push_name(b"left over", NodeId::new(u64::MAX), None);
    loop {
        let next = tree.list(directory, &from, &mut page).unwrap();
        assert!(page.failures().is_empty(), "{:?}", page.failures());
        assert!(page.len() <= PAGE_LEN);
        for entry in page.iter() {
            let node = tree.node(entry.id).unwrap();
            assert!(entry.kind.is_none_or(|kind| kind == node.kind));
            assert!(entry.node.is_none_or(|listed| listed == node));
            all.push((entry.name.to_vec(), entry.id));
        }
        match next {
            Some(next) => from = next,
            None => return all,
        }
    }
}

/// Holds all of a tree against its model: names, kinds, ids, links, bytes.
///
/// # Panics
/// Panics if they differ.
pub fn tree_matches_model(tree: &dyn Tree, model: &TreeModel, factory: &dyn EngineFactory) {
    let ids = ids_of_all(tree, model);
    assert_eq!(ids.len(), model.len());
    names_of_one_file_share_its_id(tree, model, &ids);
    let mut session = Session::new(factory, SessionOptions::default()).unwrap();
    for (path, entry) in model.iter() {
        let id = ids[path];
        let node = tree.node(id).unwrap();
        assert!(tree.path_of(id).starts_with(tree.path()));
        // Of very many levels, each is found on the way to the last.
        if path.len() < 100 || *entry != TreeEntry::Directory {
            assert_eq!(tree.find(path).unwrap(), Some(id), "{}", path.escape_ascii());
        }
        match entry {
            TreeEntry::Directory => {
                assert_eq!((node.kind, node.len, node.links), (Kind::Directory, 0, 1));
            }
            TreeEntry::Symlink(target) => {
                assert_eq!((node.kind, node.len), (Kind::Symlink, target.len() as u64));
                assert_eq!(tree.link_target(id).unwrap(), *target);
            }
            TreeEntry::File(_) | TreeEntry::Link(_) => {
                let bytes = model.bytes(path).unwrap();
                assert_eq!((node.kind, node.len), (Kind::File, bytes.len() as u64));
                let source = tree.open(id).unwrap();
                let whole = ByteRange::to(source.len());
                let read = session.read_batch(&*source, &[whole], Access::Cached).unwrap();
                assert!(read[0] == bytes, "{}", path.escape_ascii());
                if let Some(file) = tree.whole_file(id).unwrap() {
                    assert_eq!(file.len().unwrap(), node.len);
                }
            }
        }
        let xattrs = tree.xattrs(id).unwrap();
        let is_own = |xattr: &&Xattr| xattr.name.starts_with(b"user.");
        let own: Vec<&Xattr> = xattrs.as_slice().iter().filter(is_own).collect();
        assert!(own.into_iter().eq(model.xattrs(path).as_slice()), "{}: {xattrs:?}", path.escape_ascii());
    }
}

/// Lists and looks up everything, twice, and compares the names with those of the model.
fn ids_of_all(tree: &dyn Tree, model: &TreeModel) -> BTreeMap<Vec<u8>, NodeId> {
    let mut children: BTreeMap<&[u8], BTreeSet<&[u8]>> = BTreeMap::new();
    for (path, _) in model.iter() {
        let (directory, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&b""[..], path),
        };
        children.entry(directory).or_default().insert(name);
    }
    assert_eq!(tree.node(tree.root()).unwrap().kind, Kind::Directory);
    assert_eq!(tree.find(b"").unwrap(), Some(tree.root()));
    let mut ids = BTreeMap::new();
    let mut waiting = vec![(Vec::new(), tree.root())];
    while let Some((path, directory)) = waiting.pop() {
        let entries = listed(tree, directory);
        assert_eq!(entries, listed(tree, directory), "the order and the ids are stable");
        let names: BTreeSet<&[u8]> = entries.iter().map(|(name, _)| name.as_slice()).collect();
        assert_eq!(names.len(), entries.len(), "no name is listed twice");
        let wanted = children.get(&path[..]).cloned().unwrap_or_default();
        assert!(names == wanted, "{}", path.escape_ascii());
        for (name, id) in &entries {
            assert_eq!(tree.lookup(directory, name).unwrap(), Some(*id));
            let below = if path.is_empty() { name.clone() } else { [&path[..], name.as_slice()].join(&b'/') };
            if tree.node(*id).unwrap().kind == Kind::Directory {
                waiting.push((below.clone(), *id));
            }
            ids.insert(below, *id);
        }
    }
    ids
}

fn names_of_one_file_share_its_id(tree: &dyn Tree, model: &TreeModel, ids: &BTreeMap<Vec<u8>, NodeId>) {
    let mut names: BTreeMap<&[u8], Vec<NodeId>> = BTreeMap::new();
    for (path, id) in ids {
        names.entry(model.file_of(path)).or_default().push(*id);
    }
    let mut different = BTreeSet::from([tree.root()]);
    for (path, shared) in &names {
        assert!(shared.iter().all(|id| *id == shared[0]), "{}", path.escape_ascii());
        assert!(different.insert(shared[0]), "{}", path.escape_ascii());
        let names = shared.len() + model.hidden_names(path);
        assert_eq!(tree.node(shared[0]).unwrap().links as usize, names, "{}", path.escape_ascii());
    }
}

fn id_of(tree: &dyn Tree, path: &str) -> NodeId {
    tree.find(path.as_bytes()).unwrap().unwrap()
}

fn no_link_is_followed(tree: &dyn Tree) {
    for link in ["up", "away", "itself", "to d"] {
        let id = id_of(tree, link);
        let error = tree.lookup(id, b"file").unwrap_err();
        assert_eq!(error.io_kind(), Some(ErrorKind::NotADirectory), "{error}");
        assert!(tree.list(id, &Cursor::Start, &mut Page::new()).is_err());
        assert!(matches!(tree.open(id), Err(Error::NotARegularFile { .. })));
    }
    for path in ["to d/file", "away/passwd", "up/x", "d/up/file", "d/../d/file", "/etc/passwd"] {
        assert_eq!(tree.find(path.as_bytes()).unwrap(), None, "{path}");
    }
}

/// Each is an error, and other bodies of the same gather arrive.
fn a_gather_follows_no_link(tree: &dyn Tree, factory: &dyn EngineFactory) {
    let ids = ["up", "d/file", "away", "itself", "d/up"].map(|path| id_of(tree, path));
    let all = gathered(tree, &ids, &GatherOptions::default(), factory);
    for (number, delivered) in all.iter().enumerate() {
        let wanted: &[u8] = if number == 1 { b"below" } else { b"" };
        assert_eq!(delivered.bytes, wanted);
        let refused = |error: &Error| matches!(error, Error::NotARegularFile { .. });
        assert_eq!(delivered.errors.iter().filter(|error| refused(error)).count(), usize::from(number != 1));
        assert_eq!(delivered.errors.len() + delivered.pieces, 1);
    }
}

fn what_is_not_there_is_not_found(tree: &dyn Tree) {
    let long = [b'x'; 300];
    for name in [&b"no"[..], b"", b".", b"..", b"d/page", b"/", b"fil", b"file\0", b"\xff", &long] {
        assert_eq!(tree.lookup(tree.root(), name).unwrap(), None, "{}", name.escape_ascii());
    }
    for path in ["no", "d/no", "no/such/file", "file/x", "nothing in it/x", "d/", "d//page", "../x"] {
        assert_eq!(tree.find(path.as_bytes()).unwrap(), None, "{path}");
    }
    let unknown = NodeId::new(u64::MAX);
    assert_eq!(tree.node(unknown).unwrap_err().io_kind(), Some(ErrorKind::NotFound));
    assert_eq!(tree.open(unknown).unwrap_err().io_kind(), Some(ErrorKind::NotFound));
    assert_eq!(tree.xattrs(unknown).unwrap_err().io_kind(), Some(ErrorKind::NotFound));
    assert_eq!(tree.lookup(unknown, b"file").unwrap_err().io_kind(), Some(ErrorKind::NotFound));
    assert_eq!(tree.path_of(unknown), tree.path());
}

fn the_wrong_kind_is_an_error_with_its_path(tree: &dyn Tree) {
    let (file, link, directory) = (id_of(tree, "file"), id_of(tree, "link"), id_of(tree, "d"));
    let mut page = Page::new();
    for id in [file, link] {
        for error in
            [tree.lookup(id, b"x").unwrap_err(), tree.list(id, &Cursor::Start, &mut page).unwrap_err()]
        {
            let path = tree.path_of(id);
            let reported = matches!(&error, Error::Io { path: reported, .. } if *reported == path);
            assert!(reported && error.io_kind() == Some(ErrorKind::NotADirectory), "{error}");
        }
    }
    for id in [tree.root(), directory, link] {
        let error = tree.open(id).unwrap_err();
        let path = tree.path_of(id);
        assert!(matches!(&error, Error::NotARegularFile { path: reported, .. } if *reported == path));
        assert!(tree.whole_file(id).unwrap().is_none());
    }
    for id in [tree.root(), directory, file] {
        assert_eq!(tree.link_target(id).unwrap_err().io_kind(), Some(ErrorKind::InvalidInput));
    }
    let foreign = Cursor::Token((&b"of another tree"[..]).into());
    let error = tree.list(directory, &foreign, &mut page).unwrap_err();
    assert_eq!(error.io_kind(), Some(ErrorKind::InvalidInput));
}

/// The delivery of a gather for one id.
#[derive(Debug, Default)]
pub(super) struct Delivered {
    pub(super) bytes: Vec<u8>,
    /// How many of them arrived.
    count: usize,
    pieces: usize,
    pub(super) errors: Vec<Error>,
}

pub(super) fn gathered(
    tree: &dyn Tree,
    ids: &[NodeId],
    options: &GatherOptions,
    factory: &dyn EngineFactory,
) -> Vec<Delivered> {
    let mut all: Vec<Delivered> = ids.iter().map(|_| Delivered::default()).collect();
    let mut take = |Gathered { index, id, result }: Gathered| -> ControlFlow<()> {
        assert_eq!(ids[index], id);
        let delivered = &mut all[index];
        assert!(delivered.errors.is_empty(), "an error is the last that arrives");
        match result {
            Ok(piece) => {
                let (start, len) = (piece.offset as usize, piece.bytes.len());
                assert!(len as u64 <= options.piece_bytes && (len > 0 || piece.body_len == 0));
                assert!(!options.in_order || start == delivered.count, "the next piece of each body");
                delivered.bytes.resize(piece.body_len as usize, 0);
                delivered.bytes[start..start + len].copy_from_slice(&piece.bytes);
                delivered.count += len;
                delivered.pieces += 1;
            }
            Err(error) => delivered.errors.push(error),
        }
        ControlFlow::Continue(())
    };
    tree.gather(ids, factory, options, &mut take).unwrap();
    all
}

fn a_gather_delivers_each_body_and_each_error(
    tree: &dyn Tree,
    model: &TreeModel,
    factory: &dyn EngineFactory,
) {
    let files: Vec<&[u8]> =
        model.iter().map(|(path, _)| path).filter(|path| model.bytes(path).is_some()).collect();
    let mut ids: Vec<NodeId> = files.iter().map(|path| tree.find(path).unwrap().unwrap()).collect();
    // Once more in the other order, and between them what cannot be read.
    ids.extend([tree.root(), NodeId::new(u64::MAX)]);
    ids.extend(files.iter().rev().map(|path| tree.find(path).unwrap().unwrap()));
    let whole = GatherOptions::default();
    let pieces = GatherOptions { piece_bytes: 4000, memory_bytes: 9000, ..whole };
    for options in [whole, pieces, GatherOptions { in_order: true, ..pieces }] {
        let all = gathered(tree, &ids, &options, factory);
        let (first, rest) = all.split_at(files.len());
        let (failed, again) = rest.split_at(2);
        assert!(failed.iter().all(|delivered| delivered.errors.len() == 1 && delivered.pieces == 0));
        for (path, delivered) in files.iter().zip(first).chain(files.iter().rev().zip(again)) {
            let bytes = model.bytes(path).unwrap();
            assert!(delivered.errors.is_empty(), "{:?}", delivered.errors);
            assert!(delivered.count == bytes.len() && delivered.bytes == bytes, "{}", path.escape_ascii());
            let pieces = (bytes.len() as u64).div_ceil(options.piece_bytes).max(1);
            assert_eq!(delivered.pieces as u64, pieces);
        }
    }
    assert!(gathered(tree, &[], &whole, factory).is_empty());
}

fn a_gather_ends_when_its_delivery_breaks(tree: &dyn Tree, factory: &dyn EngineFactory) {
    let ids = [id_of(tree, "file"), id_of(tree, "d/page"), id_of(tree, "d/e/large")];
    let mut count = 0;
    let mut take = |_: Gathered| -> ControlFlow<()> {
        count += 1;
        ControlFlow::Break(())
    };
    tree.gather(&ids, factory, &GatherOptions::default(), &mut take).unwrap();
    assert_eq!(count, 1);
}
