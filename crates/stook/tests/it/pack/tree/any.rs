//! Any tree into a pack: models in memory, archives, unions, and packs themselves.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use stook::archive::{Archive, OpenOptions as ArchiveOptions};
use stook::engine::Backend;
use stook::pack::tree::RecordTree;
use stook::tree::{CaseRule, Layer, Tree, Union};
use stook::walk::DirectoryTree;
use stook_testing::archives::{Directories, tar_of};
use stook_testing::conformance::tree_matches_model;
use stook_testing::model::tree::{TreeModel, tree_models, with_random_xattrs};
use stook_testing::trees::MemoryTree;

use super::{Delete, PackSummary, PackTree, Place, set_mode, set_time, write};

impl Place {
    /// Packs any tree, once or again.
    fn pack_of(&self, tree: &dyn Tree) -> PackSummary {
        let packing = PackTree { roots: Vec::new(), ..self.packing() };
        self.write_with(|writer, before| {
            packing.run_tree(tree, &Backend::Threads, Some(writer), before, &mut |_, _| true).unwrap()
        })
    }

    fn record_tree(&self) -> RecordTree {
        RecordTree::new(Arc::new(self.open())).unwrap()
    }
}

fn directory(path: &Path) -> Arc<dyn Tree> {
    Arc::new(DirectoryTree::open(path).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_pack_of_a_tree_is_that_tree(model in with_random_xattrs(tree_models(true))) {
        let place = Place::new();
        let summary = place.pack_of(&MemoryTree::new(&model));
        prop_assert!(summary.failures.is_empty(), "{summary:?}");
        tree_matches_model(&place.record_tree(), &model, &Backend::Threads);
        // And a pack of that pack.
        let again = Place::new();
        again.pack_of(&place.record_tree());
        tree_matches_model(&again.record_tree(), &model, &Backend::Threads);
    }
}

#[test]
fn a_directory_is_packed_as_its_walk_packs_it() {
    let place = Place::new();
    write(place.tree().join("d/small"), "small");
    // Too long to be gathered with others, and with pieces that are all different.
    let long: Vec<u8> = (0..5_000_000_u32).flat_map(u32::to_le_bytes).collect();
    write(place.tree().join("d/long"), long);
    write(place.tree().join("d/empty"), "");
    fs::create_dir(place.tree().join("nothing")).unwrap();
    fs::hard_link(place.tree().join("d/small"), place.tree().join("name")).unwrap();
    symlink("d/small", place.tree().join("link")).unwrap();
    set_mode(&place.tree().join("d"), 0o710);
    set_time(&place.tree().join("d/small"), 1_000_000_000_000_000_007);
    let tree = directory(&place.tree());
    let summary = place.pack_of(&*tree);
    assert_eq!((summary.files, summary.hard_links, summary.symlinks, summary.directories), (3, 1, 1, 3));
    assert!(summary.failures.is_empty(), "{summary:?}");
    place.comes_back("out");
    let again = place.pack_of(&*tree);
    assert_eq!((again.added(), again.unchanged), (0, summary.added()), "{again:?}");
    // The walk finds all of it as well, though no inode vouches for a file.
    assert_eq!(place.pack().added(), 0);
    write(place.tree().join("d/empty"), "not any more");
    let changed = place.pack_of(&*directory(&place.tree()));
    assert!(changed.files == 1 && changed.replaced >= 1, "{changed:?}");
    place.comes_back("changed");
}

#[test]
fn a_union_is_packed_as_it_is_seen() {
    let place = Place::new();
    let (first, second) = (place.path("first"), place.path("second"));
    write(first.join("d/a"), "first");
    write(first.join("d/gone"), "deleted by the second");
    write(second.join("d/a"), "second");
    write(second.join("e/b"), "only there");
    let layers = [Layer::new(directory(&first)), Layer::new(directory(&second)).deleting(&b"d/gone"[..])];
    let summary = place.pack_of(&Union::new("union", layers, CaseRule::Exact).unwrap());
    assert!(summary.failures.is_empty(), "{summary:?}");
    let out = place.path("out");
    place.unpack("out");
    assert_eq!(fs::read(out.join("d/a")).unwrap(), b"second");
    assert_eq!(fs::read(out.join("e/b")).unwrap(), b"only there");
    assert!(!out.join("d/gone").exists());
}

#[test]
fn an_archive_is_packed_as_its_import_packs_it() {
    let place = Place::new();
    let model = TreeModel::new().file("d/a", b"bytes").file("d/b", vec![7_u8; 3 << 20]).file("c", b"");
    let path = place.path("x.tar");
    fs::write(&path, tar_of(&model, Directories::All)).unwrap();
    let options = ArchiveOptions { sidecar: false, ..ArchiveOptions::default() };
    let summary = place.pack_of(&Archive::open(&path, options).unwrap().tree());
    assert!(summary.failures.is_empty(), "{summary:?}");
    tree_matches_model(&place.record_tree(), &model, &Backend::Threads);
}

#[test]
fn nothing_is_deleted_because_a_tree_does_not_have_it() {
    let place = Place::new();
    let packing = PackTree { roots: Vec::new(), delete: Delete::UpToHalf, ..place.packing() };
    let tree = MemoryTree::new(&TreeModel::new());
    let refused = packing.run_tree(&tree, &Backend::Threads, None, None, &mut |_, _| true);
    assert!(refused.unwrap_err().to_string().contains("directories on disk"));
}
