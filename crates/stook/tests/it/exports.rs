//! Tars of any tree, and of packs of files with holes.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use stook::archive::{Archive, OpenOptions};
use stook::engine::Backend;
use stook::ops::export::Export;
use stook::ops::pack::PackSources;
use stook::ops::unpack::Summary;
use stook::pack::{self, Key, Pack};
use stook::source::{FileSource, Source as _};
use stook::tree::Tree;
use stook::walk::DirectoryTree;
use stook_testing::conformance::tree_matches_model;
use stook_testing::model::tree::{TreeEntry, TreeModel, tree_models};
use stook_testing::trees::MemoryTree;

fn export(tree: &dyn Tree, path: &Path) -> Summary {
    let mut file = File::create(path).unwrap();
    Export::default().run_tree(tree, &Backend::Threads, &mut file, &mut |_, _| true).unwrap()
}

fn open(path: &Path) -> Archive {
    Archive::open(path, OpenOptions { sidecar: false, ..OpenOptions::default() }).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_tar_of_a_tree_is_that_tree(model in tree_models(true)) {
        let directory = tempfile::tempdir().unwrap();
        let (path, again) = (directory.path().join("x.tar"), directory.path().join("again.tar"));
        let summary = export(&MemoryTree::new(&model), &path);
        prop_assert!(summary.failures.is_empty(), "{summary:?}");
        tree_matches_model(&open(&path).tree(), &model, &Backend::Threads);
        // And the tar of that archive.
        export(&open(&path).tree(), &again);
        tree_matches_model(&open(&again).tree(), &model, &Backend::Threads);
    }
}

#[test]
fn what_a_tar_cannot_have_is_a_failure_and_the_rest_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    fs::create_dir_all(tree.join("d")).unwrap();
    // Longer than one piece of a gather.
    let long: Vec<u8> = (0..5_000_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(tree.join("d/long"), &long).unwrap();
    fs::hard_link(tree.join("d/long"), tree.join("another")).unwrap();
    let fifo = tree.join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o644.into(), 0).unwrap();
    let path = directory.path().join("x.tar");
    let summary = export(&DirectoryTree::open(&tree).unwrap(), &path);
    assert_eq!((summary.files, summary.hard_links, summary.directories), (1, 1, 2));
    let failed: Vec<&[u8]> = summary.failures.iter().map(|failure| failure.key.as_slice()).collect();
    assert_eq!(failed, [b"fifo"]);
    let out = directory.path().join("out");
    fs::create_dir(&out).unwrap();
    let extracted = Command::new("tar").arg("-xf").arg(&path).arg("-C").arg(&out).status().unwrap();
    assert!(extracted.success());
    assert!(fs::read(out.join("another")).unwrap() == long);
    assert_eq!(out.join("another").metadata().unwrap().ino(), out.join("d/long").metadata().unwrap().ino());
}

#[test]
fn a_tar_of_a_tree_ends_where_the_caller_wants_it_to() {
    let model = TreeModel::new().with("d", TreeEntry::Directory).file("d/a", b"a").file("b", b"b");
    let tree = MemoryTree::new(&model);
    let mut asked = 0;
    let mut stop = |_, _| {
        asked += 1;
        asked < 2
    };
    let stopped = Export::default().run_tree(&tree, &Backend::Threads, &mut Vec::new(), &mut stop);
    assert!(matches!(stopped, Err(stook::ops::unpack::Error::Interrupted)), "{stopped:?}");
}

/// Those of sparse tars, as GNU tar makes them; of a pack that was made of one; and of a tar that
/// was made of that.
#[test]
fn holes_go_through_packs_and_tars_and_no_room_is_taken_for_them() {
    const MIB: u64 = 1 << 20;
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::create_dir(path("tree")).unwrap();
    for (name, len, data) in [("short", 2 * MIB, MIB), ("long", 40 * MIB, 39 * MIB), ("end", 20 * MIB, 0)] {
        let file = File::create(path("tree").join(name)).unwrap();
        file.set_len(len).unwrap();
        file.write_all_at(&[7; 4096], data).unwrap();
        file.sync_all().unwrap();
    }
    let holes = |path: &Path| FileSource::open(path).unwrap().holes().unwrap();
    if holes(&path("tree/end")).is_empty() {
        // The file system does not report them.
        return;
    }
    PackSources::new(vec![path("tree")], path("p.stook")).run(&mut ()).unwrap();
    let packed = Pack::open_path(path("p.stook"), pack::OpenOptions::default()).unwrap();
    let exported = Export::default().run_to_file(&packed, &path("x.tar"), &mut |_, _| true).unwrap();
    assert_eq!((exported.undone, exported.summary.bytes), (0, 62 * MIB));
    assert!(path("x.tar").metadata().unwrap().len() < 100_000, "holes are not in it");
    fs::create_dir(path("out")).unwrap();
    let (tar, out) = (path("x.tar"), path("out"));
    let extracted = Command::new("tar").arg("-xf").arg(&tar).arg("-C").arg(&out).status().unwrap();
    assert!(extracted.success());
    PackSources::new(vec![tar.clone()], path("again.stook")).run(&mut ()).unwrap();
    let again = Pack::open_path(path("again.stook"), pack::OpenOptions::default()).unwrap();
    for name in ["short", "long", "end"] {
        let before = path("tree").join(name);
        assert!(fs::read(out.join(name)).unwrap() == fs::read(&before).unwrap(), "{name}");
        let wanted = holes(&before);
        let record = again.open_source(&Key::bytes(name).unwrap()).unwrap().unwrap();
        assert_eq!(record.holes().unwrap(), wanted, "{name}: through a tar into a pack");
        let tree = open(&tar);
        let id = tree.tree().find(name.as_bytes()).unwrap().unwrap();
        assert_eq!(tree.tree().holes(id).unwrap(), wanted, "{name}: in the tar");
    }
}
