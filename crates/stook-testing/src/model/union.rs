//! Several trees under one root, the plainest way: entry by entry into one map.
#![expect(clippy::unwrap_used, reason = "a model that cannot be made ends the test on the spot")]

use std::cmp::Reverse;
use std::collections::BTreeMap;

use proptest::prelude::*;
use stook::tree::Xattrs;

use super::tree::{TreeEntry, TreeModel, tree_models_named, with_random_xattrs};

/// One of the trees of a union, and the paths that it deletes from those before it.
#[derive(Debug, Clone, Default)]
pub struct LayerModel {
    /// The tree.
    pub tree: TreeModel,
    /// The paths; the empty one is the root.
    pub deleted: Vec<Vec<u8>>,
}

/// Names from the root on, by which entries are found.
type Place = Vec<Vec<u8>>;

/// The entry at a place.
#[derive(Debug)]
struct Item {
    /// Its name.
    name: Vec<u8>,
    entry: TreeEntry,
    xattrs: Xattrs,
    /// Of a file: the number of its tree and its path in that, which all of its names have.
    file: (usize, Vec<u8>),
}

/// The union of these trees, the one that counts least first. Names are one name where `fold` makes
/// the same of both.
pub fn union_of(layers: &[LayerModel], fold: fn(&[u8]) -> Vec<u8>) -> TreeModel {
    let place_of = |path: &[u8]| -> Place { names_of(path).map(fold).collect() };
    let mut all: BTreeMap<Place, Item> = BTreeMap::new();
    for (number, layer) in layers.iter().enumerate() {
        for path in &layer.deleted {
            let deleted = place_of(path);
            all.retain(|place, _| !place.starts_with(&deleted));
        }
        // Directories before what is in them. Of names that are one, the first in the order of
        // bytes counts as if it came later.
        let mut paths: Vec<&[u8]> = layer.tree.iter().map(|(path, _)| path).collect();
        paths.sort_by_cached_key(|&path| names_of(path).map(Reverse).collect::<Vec<_>>());
        for path in paths {
            put(&mut all, place_of(path), item_of(layer, number, path));
        }
    }
    model_of(&all, layers)
}

fn names_of(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty())
}

fn item_of(layer: &LayerModel, number: usize, path: &[u8]) -> Item {
    let file = layer.tree.file_of(path);
    Item {
        name: names_of(path).last().unwrap().to_vec(),
        entry: layer.tree.get(file).unwrap().clone(),
        xattrs: layer.tree.xattrs(path),
        file: (number, file.to_vec()),
    }
}

fn put(all: &mut BTreeMap<Place, Item>, place: Place, item: Item) {
    let is_merged = |there: &Item| [&there.entry, &item.entry] == [&TreeEntry::Directory; 2];
    if !all.get(&place).is_some_and(is_merged) {
        all.retain(|other, _| !other.starts_with(&place));
    }
    all.insert(place, item);
}

fn model_of(all: &BTreeMap<Place, Item>, layers: &[LayerModel]) -> TreeModel {
    let mut model = TreeModel::new();
    let mut files: BTreeMap<&(usize, Vec<u8>), Vec<Vec<u8>>> = BTreeMap::new();
    for (place, item) in all {
        let names: Vec<&[u8]> = (1..=place.len()).map(|len| all[&place[..len]].name.as_slice()).collect();
        let path = names.join(&b'/');
        let entry = match &item.entry {
            TreeEntry::File(_) => {
                let names = files.entry(&item.file).or_default();
                names.push(path.clone());
                if names.len() > 1 { TreeEntry::Link(names[0].clone()) } else { item.entry.clone() }
            }
            other => other.clone(),
        };
        assert!(model.add(&path, entry), "{}", path.escape_ascii());
        for xattr in item.xattrs.as_slice() {
            let name = str::from_utf8(&xattr.name).unwrap();
            model = model.xattr(&path, name, xattr.value.as_deref().unwrap_or_default());
        }
    }
    for ((number, file), names) in files {
        let tree = &layers[*number].tree;
        let all = tree.iter().filter(|(path, _)| tree.file_of(path) == file).count();
        let hidden = all + tree.hidden_names(file) - names.len();
        model = model.hiding_names(&names[0], hidden);
    }
    model
}

/// Divides a tree into this many layers, whose union it is. Layers before the last have additional
/// entries that must stay hidden.
///
/// # Panics
/// Panics if the number is 0.
pub fn layers_of(model: &TreeModel, count: usize) -> Vec<LayerModel> {
    let mut layers = vec![LayerModel::default(); count];
    // All names of a file are in one tree.
    let layer_of = |path: &[u8]| path.iter().map(|byte| usize::from(*byte)).sum::<usize>() % count;
    let is_link = |entry: &TreeEntry| matches!(entry, TreeEntry::Link(_));
    for links in [false, true] {
        for (path, entry) in model.iter().filter(|(_, entry)| is_link(entry) == links) {
            let layer = &mut layers[layer_of(model.file_of(path))];
            // A directory may be there already, for what is in it.
            let is_new = layer.tree.add(path, entry.clone());
            assert!(is_new || *entry == TreeEntry::Directory, "{}", path.escape_ascii());
        }
    }
    // The last directory of a path has what is known of it.
    for layer in &mut layers {
        let paths: Vec<&[u8]> =
            model.iter().map(|(path, _)| path).filter(|path| layer.tree.get(path).is_some()).collect();
        for path in paths {
            for xattr in model.xattrs(path).as_slice() {
                let name = str::from_utf8(&xattr.name).unwrap();
                let tree = std::mem::take(&mut layer.tree);
                layer.tree = tree.xattr(path, name, xattr.value.as_deref().unwrap_or_default());
            }
        }
    }
    if count > 1 {
        hide_some(model, &mut layers);
    }
    layers
}

fn hide_some(model: &TreeModel, layers: &mut [LayerModel]) {
    for at in 1..layers.len() {
        let (before, rest) = layers.split_at_mut(at);
        let below = &mut before[at - 1].tree;
        let seen = rest[0].tree.iter().filter(|(_, entry)| **entry != TreeEntry::Directory);
        for (number, (path, _)) in seen.enumerate() {
            let path = if number % 2 == 0 { path.to_vec() } else { [path, b"/below"].concat() };
            // Where it is in the way of something that is seen, nothing is hidden.
            below.add(&path, TreeEntry::File(b"hidden".to_vec()));
        }
    }
    let gone = b"deleted".to_vec();
    if model.get(&gone).is_none() {
        assert!(layers[0].tree.add(b"deleted/and below", TreeEntry::File(b"hidden".to_vec())));
        if let Some(last) = layers.last_mut() {
            last.deleted.extend([gone, b"there is no/such path".to_vec()]);
        }
    }
}

/// A small set of names, some of which differ only in case.
fn meeting_name() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(vec!["a", "A", "b", "B", "ab", "aB", "Ab", "é", "É"])
        .prop_map(|name: &str| name.as_bytes().to_vec())
}

/// Up to three random trees, whose entries often have the same path, with their deletions.
pub fn layer_models() -> impl Strategy<Value = Vec<LayerModel>> {
    let tree = with_random_xattrs(tree_models_named(meeting_name(), true));
    let path = proptest::collection::vec(meeting_name(), 0..4).prop_map(|names| names.join(&b'/'));
    let layer = (tree, proptest::collection::vec(path, 0..4));
    let layer = layer.prop_map(|(tree, deleted)| LayerModel { tree, deleted });
    proptest::collection::vec(layer, 0..4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(tree: TreeModel, deleted: &[&str]) -> LayerModel {
        LayerModel { tree, deleted: deleted.iter().map(|path| path.as_bytes().to_vec()).collect() }
    }

    #[test]
    fn the_later_wins_and_directories_merge() {
        let first = TreeModel::new()
            .file("d/a", "1")
            .file("d/gone", "1")
            .file("hidden/by a file", "1")
            .with("other name", TreeEntry::Link(b"d/a".to_vec()));
        let second = TreeModel::new().file("d/a", "2").file("hidden", "2");
        let wanted = TreeModel::new()
            .file("d/a", "2")
            .file("hidden", "2")
            .file("other name", "1")
            .hiding_names(b"other name", 1);
        assert_eq!(union_of(&[layer(first, &[]), layer(second, &["d/gone"])], <[u8]>::to_vec), wanted);
    }

    #[test]
    fn of_names_that_are_one_the_first_in_the_order_of_bytes_counts() {
        let tree =
            TreeModel::new().file("A/x", "A").file("a/x", "a").file("a/y", "a").file("Z", "").file("z", "!");
        let wanted = TreeModel::new().file("A/x", "A").file("A/y", "a").file("Z", "");
        assert_eq!(union_of(&[layer(tree, &[])], <[u8]>::to_ascii_lowercase), wanted);
    }

    #[test]
    fn a_tree_is_the_union_of_the_layers_that_it_was_divided_into() {
        let model = TreeModel::new()
            .file("a/file", "1")
            .with("b", TreeEntry::Link(b"a/file".to_vec()))
            .with("empty", TreeEntry::Directory)
            .with("link", TreeEntry::Symlink(b"b".to_vec()))
            .file("c/d/e", "2")
            .xattr("c", "user.note", "of a directory");
        for count in 1..=3 {
            let union = union_of(&layers_of(&model, count), <[u8]>::to_vec);
            assert!(union.iter().eq(model.iter()), "{count}");
            assert!(model.iter().all(|(path, _)| union.xattrs(path) == model.xattrs(path)));
        }
    }
}
