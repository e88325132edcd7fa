//! Requirements on a tree whose files change while it is in use: the files are below a directory,
//! where the suite changes them.
#![expect(clippy::unwrap_used, reason = "a suite that meets an error fails on the spot")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use stook::Error;
use stook::engine::EngineFactory;
use stook::tree::{Cursor, GatherOptions, Kind, NodeId, Page, Tree};
use tempfile::TempDir;

use super::noise;
use super::tree::{gathered, many_files, tree_matches_model};
use crate::model::tree::TreeModel;
use crate::trees::make_files;

/// Makes a tree of the files below a directory.
type Open<'a> = dyn FnMut(&Path) -> Box<dyn Tree> + 'a;

/// Runs every test of the suite, each on a directory of its own.
///
/// # Panics
/// Panics if a guarantee is violated.
pub fn changing_tree_conformance(open: &mut Open<'_>, factory: &dyn EngineFactory) {
    let mut made = |model: &TreeModel| {
        let directory = tempfile::tempdir().unwrap();
        make_files(model, directory.path());
        let tree = open(directory.path());
        (directory, tree)
    };
    what_becomes_another_kind_is_another_node(made(&TreeModel::new().file("x", "a file").file("y", "")));
    what_comes_is_found_and_what_goes_is_not(made(&TreeModel::new().file("d/goes", "")));
    what_stays_is_listed_once_whatever_comes_and_goes(made(&many_files(5000)));
    a_gather_passes_over_what_is_gone(made(&many_files(20)), factory);
}

/// What becomes of a tree whose medium is given another state: the pack is written to and
/// compacted, another archive takes the place of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterChange {
    /// It stays what it was, bytes included.
    Stays,
    /// Its names and nodes stay. Bytes are those that it had, or an error.
    MayFail,
    /// The same, and all bytes are errors.
    Fails,
}

/// Makes a tree of a model, or, on the medium of the last one, of another model.
type Put<'a> = dyn FnMut(&TreeModel) -> Box<dyn Tree> + 'a;

/// Holds a tree against what it was when it was opened, while its medium gets another state: files
/// grow and shrink, become others, come and go. `put` makes the first state of a medium, then the
/// second, and returns the tree of each.
///
/// # Panics
/// Panics if a guarantee is violated.
pub fn changed_medium_conformance(put: &mut Put<'_>, after: AfterChange, factory: &dyn EngineFactory) {
    let many = |mut model: TreeModel, step: usize, bytes: &[u8]| {
        for number in (0..3000).step_by(step) {
            model = model.file(format!("many/{number}"), bytes);
        }
        model
    };
    let before = TreeModel::new()
        .file("grows", noise(1, 5000))
        .file("shrinks", noise(2, 300_000))
        .file("other bytes", noise(3, 100_000))
        .file("goes", "soon")
        .file("kind", "a file");
    let (before, changed) = (
        many(before, 1, b"before"),
        TreeModel::new()
            .file("grows", noise(1, 500_000))
            .file("shrinks", noise(2, 3))
            .file("other bytes", noise(4, 100_000))
            .file("kind/below", "it is a directory")
            .file("comes", "new"),
    );
    let changed = many(changed, 2, b"after!");
    let tree = put(&before);
    let directory = id_of(&*tree, "many").unwrap();
    let (mut page, mut names) = (Page::new(), BTreeSet::new());
    let mut from = tree.list(directory, &Cursor::Start, &mut page).unwrap();
    names.extend(page.iter().map(|entry| entry.name.to_vec()));
    let paths = ["grows", "shrinks", "other bytes", "goes", "kind", "many/2", "many/3"];
    let ids = paths.map(|path| id_of(&*tree, path).unwrap());
    let now = put(&changed);
    tree_matches_model(&*now, &changed, factory);
    // A listing goes on where it was.
    while let Some(at) = from {
        from = tree.list(directory, &at, &mut page).unwrap();
        assert!(page.failures().is_empty(), "{:?}", page.failures());
        names.extend(page.iter().map(|entry| entry.name.to_vec()));
    }
    assert_eq!(names.len(), 3000, "each name, and once");
    assert_eq!((id_of(&*tree, "comes"), id_of(&*tree, "kind/below")), (None, None));
    for (path, id) in paths.iter().zip(ids) {
        let node = tree.node(id).unwrap();
        assert_eq!(
            (node.kind, Some(node.len as usize)),
            (Kind::File, before.bytes(path.as_bytes()).map(<[u8]>::len))
        );
        assert_eq!(id_of(&*tree, path), Some(id));
    }
    for (path, delivered) in paths.iter().zip(gathered(&*tree, &ids, &GatherOptions::default(), factory)) {
        let (bytes, has_failed) = (before.bytes(path.as_bytes()).unwrap(), !delivered.errors.is_empty());
        assert!(has_failed || delivered.bytes == bytes, "{path}: bytes of another state");
        match after {
            AfterChange::Stays => assert!(!has_failed, "{path}: {:?}", delivered.errors),
            AfterChange::MayFail => {}
            AfterChange::Fails => assert!(has_failed, "{path}"),
        }
        let is_change = |error: &Error| matches!(error, Error::SourceChanged { .. });
        assert!(delivered.errors.iter().all(is_change), "{path}: {:?}", delivered.errors);
    }
    if after == AfterChange::Stays {
        tree_matches_model(&*tree, &before, factory);
    }
}

fn id_of(tree: &dyn Tree, path: &str) -> Option<NodeId> {
    tree.find(path.as_bytes()).unwrap()
}

fn what_becomes_another_kind_is_another_node((directory, tree): (TempDir, Box<dyn Tree>)) {
    let (tree, path) = (&*tree, directory.path().join("x"));
    let file = id_of(tree, "x").unwrap();
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("in it"), "new").unwrap();
    assert!(tree.open(file).is_err() && tree.node(file).is_err());
    let below = id_of(tree, "x").unwrap();
    assert_ne!(below, file);
    assert_eq!(tree.node(below).unwrap().kind, Kind::Directory);
    assert_eq!(tree.node(id_of(tree, "x/in it").unwrap()).unwrap().len, 3);
    fs::remove_dir_all(&path).unwrap();
    fs::write(&path, "a file again").unwrap();
    assert!(tree.node(below).is_err());
    // Listed entries of the removed directory do not belong to the one that has its name now.
    let mut page = Page::new();
    assert!(tree.list(below, &Cursor::Start, &mut page).is_err() || page.is_empty());
    let again = id_of(tree, "x").unwrap();
    assert_eq!((tree.node(again).unwrap().kind, tree.node(again).unwrap().len), (Kind::File, 12));
    assert_eq!(id_of(tree, "x/in it"), None);
    assert!(id_of(tree, "y").is_some());
}

fn what_comes_is_found_and_what_goes_is_not((directory, tree): (TempDir, Box<dyn Tree>)) {
    let (tree, path) = (&*tree, directory.path());
    assert_eq!((id_of(tree, "new"), id_of(tree, "d/new")), (None, None));
    assert!(id_of(tree, "d/goes").is_some());
    fs::write(path.join("new"), "1").unwrap();
    fs::write(path.join("d/new"), "2").unwrap();
    fs::remove_file(path.join("d/goes")).unwrap();
    let ids = ["new", "d/new"].map(|path| id_of(tree, path).unwrap());
    assert_eq!(ids, ["new", "d/new"].map(|path| id_of(tree, path).unwrap()));
    assert_eq!(id_of(tree, "d/goes"), None);
    fs::remove_dir_all(path.join("d")).unwrap();
    assert_eq!((id_of(tree, "d"), id_of(tree, "d/new")), (None, None));
    assert!(tree.node(ids[1]).is_err() && tree.open(ids[1]).is_err());
    assert!(id_of(tree, "new").is_some());
}

fn what_stays_is_listed_once_whatever_comes_and_goes((directory, tree): (TempDir, Box<dyn Tree>)) {
    let below = directory.path().join("many");
    let (id, mut page, mut names) = (id_of(&*tree, "many").unwrap(), Page::new(), Vec::new());
    let mut from = Some(Cursor::Start);
    while let Some(at) = from {
        from = tree.list(id, &at, &mut page).unwrap();
        assert!(page.failures().is_empty(), "{:?}", page.failures());
        names.extend(page.iter().map(|entry| entry.name.to_vec()));
        // After the first page: of those that were listed, and of those that were not.
        for number in (0..5000).step_by(10).filter(|_| !below.join("new 0").exists()) {
            fs::remove_file(below.join(number.to_string())).unwrap();
        }
        for number in 0..300 {
            fs::write(below.join(format!("new {number}")), "").unwrap();
        }
    }
    let count = names.len();
    let listed: BTreeSet<Vec<u8>> = names.into_iter().collect();
    assert_eq!(listed.len(), count, "no name is listed twice");
    for number in (0..5000).filter(|number| number % 10 != 0) {
        assert!(listed.contains(number.to_string().as_bytes()), "{number}");
    }
}

fn a_gather_passes_over_what_is_gone(
    (directory, tree): (TempDir, Box<dyn Tree>),
    factory: &dyn EngineFactory,
) {
    let path_of = |number: usize| directory.path().join(format!("many/{number}"));
    (0..20).for_each(|number| fs::write(path_of(number), number.to_string()).unwrap());
    let ids: Vec<NodeId> = (0..20).map(|number| id_of(&*tree, &format!("many/{number}")).unwrap()).collect();
    (0..20).step_by(3).for_each(|number| fs::remove_file(path_of(number)).unwrap());
    let all = gathered(&*tree, &ids, &GatherOptions::default(), factory);
    for (number, delivered) in all.iter().enumerate() {
        if number % 3 == 0 {
            assert!(delivered.errors.len() == 1 && delivered.bytes.is_empty(), "{delivered:?}");
        } else {
            assert!(delivered.errors.is_empty() && delivered.bytes == number.to_string().as_bytes());
        }
    }
}
