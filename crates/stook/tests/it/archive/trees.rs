//! Archives as trees of files.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use stook::archive::{Archive, ArchiveTree, OpenOptions, Spool};
use stook::engine::{Access, Backend};
use stook::extent::ByteRange;
use stook::source::{MemorySource, Source, read_range};
use stook::tree::{Cursor, GatherOptions, Gathered, Kind, NodeId, Page, Tree};
use stook::{Error, Result};
use stook_testing::archives::{Directories, tar_of, zip_of};
use stook_testing::conformance::{
    AfterChange, TreeFeatures, changed_medium_conformance, many_files, noise, tree_conformance,
    tree_matches_model,
};
use stook_testing::model::tree::{TreeModel, tree_models, with_random_xattrs};
use stook_testing::sweep::stride;
use stook_testing::trees::{has_holes, make_files};

use super::made::{end, header, link, member, pax, sign};
use super::{checksums, open, run};

/// Zips have none of the others.
const OF_ZIPS: TreeFeatures =
    TreeFeatures { hard_links: false, any_names: true, xattrs: false, holes: false };

/// All of it, every byte of files written.
const WRITTEN: TreeFeatures = TreeFeatures { holes: false, ..TreeFeatures::ALL };

pub(super) fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn zst(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

/// The tree of an archive in memory.
fn tree_of(bytes: Vec<u8>) -> ArchiveTree {
    let source = Arc::new(MemorySource::new("made", bytes));
    Archive::from_source(source, OpenOptions::default()).unwrap().tree()
}

/// The same with a spool of its own.
fn tree_in(bytes: Vec<u8>, spool: Spool) -> ArchiveTree {
    let source = Arc::new(MemorySource::new("made", bytes));
    Archive::from_source(source, OpenOptions { spool, ..OpenOptions::default() }).unwrap().tree()
}

/// Runs the suite over files with what `make` makes.
fn suite(features: TreeFeatures, backend: Backend, make: &dyn Fn(&TreeModel) -> Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let mut count = 0;
    let mut make_tree = |model: &TreeModel| -> Box<dyn Tree> {
        count += 1;
        let path = directory.path().join(count.to_string());
        fs::write(&path, make(model)).unwrap();
        let tree = open(&path).unwrap().tree();
        assert!(tree.refused().is_empty(), "{:?}", tree.refused());
        Box::new(tree)
    };
    tree_conformance(features, &mut make_tree, &backend);
}

#[test]
fn tars_pass_the_suite() {
    suite(WRITTEN, Backend::Threads, &|model| tar_of(model, Directories::All));
    suite(WRITTEN, Backend::Auto, &|model| tar_of(model, Directories::Needed));
}

#[test]
fn compressed_tars_pass_the_suite() {
    suite(WRITTEN, Backend::Threads, &|model| gzip(&tar_of(model, Directories::Needed)));
    suite(WRITTEN, Backend::Auto, &|model| zst(&tar_of(model, Directories::All)));
}

#[test]
fn zips_pass_the_suite() {
    suite(OF_ZIPS, Backend::Threads, &|model| zip_of(model, Directories::All, None));
    suite(OF_ZIPS, Backend::Auto, &|model| zip_of(model, Directories::Needed, Some(&deflate)));
}

/// Files of a model, made into an archive by a program that runs beside them: they are in `t`.
fn made_by(program: &str, args: &[&str], model: &TreeModel) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("t")).unwrap();
    make_files(model, &directory.path().join("t"));
    run(program, args, directory.path());
    fs::read(directory.path().join("made")).unwrap()
}

#[test]
fn tars_of_gnu_tar_pass_the_suite() {
    let tar = |options: &'static [&'static str]| {
        move |model: &TreeModel| made_by("tar", &[options, &["-cf", "made", "-C", "t", "."]].concat(), model)
    };
    let holes = has_holes(tempfile::tempdir().unwrap().path());
    suite(WRITTEN, Backend::Auto, &tar(&["--format=pax", "--xattrs"]));
    let sparse = TreeFeatures { holes, ..TreeFeatures::ALL };
    suite(sparse, Backend::Threads, &tar(&["--format=pax", "--xattrs", "--sparse", "--gzip"]));
    let without = TreeFeatures { xattrs: false, ..sparse };
    suite(without, Backend::Auto, &tar(&["--format=gnu", "--sparse"]));
}

#[test]
fn zips_of_python_pass_the_suite() {
    let script = "
import os, zipfile
with zipfile.ZipFile('made', 'w', zipfile.ZIP_DEFLATED) as z:
    for folder, folders, files in os.walk('t'):
        for name in folders + files:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                info = zipfile.ZipInfo(path[2:])
                info.create_system, info.external_attr = 3, 0o120777 << 16
                z.writestr(info, os.fsencode(os.readlink(path)))
            else:
                z.write(path, path[2:])
";
    let features = TreeFeatures { any_names: false, ..OF_ZIPS };
    suite(features, Backend::Auto, &|model| made_by("python3", &["-c", script], model));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn tars_of_random_trees_are_their_models(model in with_random_xattrs(tree_models(true))) {
        let tar = tar_of(&model, Directories::Needed);
        tree_matches_model(&tree_of(gzip(&tar)), &model, &Backend::Threads);
        tree_matches_model(&tree_of(tar), &model, &Backend::Threads);
    }

    #[test]
    fn zips_of_random_trees_are_their_models(model in tree_models(false)) {
        let stored = zip_of(&model, Directories::Needed, None);
        tree_matches_model(&tree_of(stored), &model, &Backend::Threads);
        let deflated = zip_of(&model, Directories::All, Some(&deflate));
        tree_matches_model(&tree_of(deflated), &model, &Backend::Threads);
    }
}

pub(super) fn id_of(tree: &dyn Tree, path: &str) -> NodeId {
    tree.find(path.as_bytes()).unwrap().unwrap()
}

fn read(source: &dyn Source, range: ByteRange) -> Result<Vec<u8>> {
    read_range(&Backend::Threads, source, range, Access::Cached).map(|bytes| bytes.to_vec())
}

fn read_file(tree: &dyn Tree, path: &str) -> Result<Vec<u8>> {
    let source = tree.open(id_of(tree, path))?;
    read(&*source, ByteRange::to(source.len()))
}

/// What becomes of each of these ids: all of its bytes, or the error.
pub(super) fn gather(tree: &dyn Tree, ids: &[NodeId], options: &GatherOptions) -> Vec<Result<Vec<u8>>> {
    let mut all: Vec<Result<Vec<u8>>> = ids.iter().map(|_| Ok(Vec::new())).collect();
    let mut take = |gathered: Gathered| -> ControlFlow<()> {
        let slot = &mut all[gathered.index];
        let bytes = slot.as_mut().expect("an error is the last that arrives");
        match gathered.result {
            Ok(piece) => {
                // Here they arrive in their order.
                assert_eq!(bytes.len() as u64, piece.offset);
                bytes.extend_from_slice(&piece.bytes);
            }
            Err(error) => *slot = Err(error),
        }
        ControlFlow::Continue(())
    };
    tree.gather(ids, &Backend::Threads, options, &mut take).unwrap();
    all
}

/// Everything in a tree, by path.
fn paths(tree: &dyn Tree) -> Vec<String> {
    let (mut found, mut waiting) = (Vec::new(), vec![(String::new(), tree.root())]);
    let mut page = Page::new();
    while let Some((path, directory)) = waiting.pop() {
        tree.list(directory, &Cursor::Start, &mut page).unwrap();
        for entry in page.iter() {
            let below = format!("{path}{}", String::from_utf8_lossy(entry.name));
            if entry.kind == Some(Kind::Directory) {
                waiting.push((format!("{below}/"), entry.id));
            }
            found.push(below);
        }
    }
    found.sort();
    found
}

#[test]
fn what_leads_out_is_refused_and_all_else_is_there() {
    let tar = [
        member(b"good", b'0', b"1"),
        member(b"../up", b'0', b"2"),
        member(b"/absolute", b'0', b"3"),
        member(b"d/../sideways", b'0', b"4"),
        member(b"d//twice", b'0', b"5"),
        member(b"./dotted", b'0', b"6"),
        // Another name of a refused member is a file.
        link(b"saved", b'1', b"/absolute"),
        link(b"nothing", b'1', b"nowhere"),
        end(),
    ];
    let tree = tree_of(tar.concat());
    assert_eq!(paths(&tree), ["d", "d/twice", "dotted", "good", "saved"]);
    assert_eq!(read_file(&tree, "saved").unwrap(), b"3");
    assert_eq!(tree.node(id_of(&tree, "saved")).unwrap().links, 1);
    let refused: Vec<String> = tree.refused().iter().map(ToString::to_string).collect();
    for (path, why) in [
        ("made/../up", "`..`"),
        ("/absolute", "absolute"),
        ("made/d/../sideways", "`..`"),
        ("made/nothing", "no file before it"),
    ] {
        assert!(refused.iter().any(|text| text.contains(path) && text.contains(why)), "{path}: {refused:?}");
    }
    assert_eq!(refused.len(), 4);
}

#[test]
fn of_members_with_one_name_the_last_counts_and_links_keep_what_they_meant() {
    let tar = [
        member(b"a", b'0', b"old"),
        link(b"to the old", b'1', b"a"),
        member(b"a", b'0', b"new"),
        link(b"to the new", b'1', b"./a"),
        link(b"again", b'1', b"to the old"),
        end(),
    ];
    let tree = tree_of(tar.concat());
    for (path, bytes) in [("a", "new"), ("to the new", "new"), ("to the old", "old"), ("again", "old")] {
        assert_eq!(read_file(&tree, path).unwrap(), bytes.as_bytes(), "{path}");
        assert_eq!(tree.node(id_of(&tree, path)).unwrap().links, 2, "{path}");
    }
    assert_eq!(id_of(&tree, "a"), id_of(&tree, "to the new"));
    assert_eq!(id_of(&tree, "again"), id_of(&tree, "to the old"));
    assert!(tree.refused().is_empty());
}

#[test]
fn what_others_are_below_is_a_directory() {
    let tar = [member(b"a", b'0', b"in the way"), member(b"a/b", b'0', b"below"), end()];
    let tree = tree_of(tar.concat());
    assert_eq!(paths(&tree), ["a", "a/b"]);
    assert_eq!(tree.refused().len(), 1);
    // Metadata of directories in the archive is kept, and none is invented for others.
    let named = tree_of([member(b"./", b'5', b""), member(b"d/f", b'0', b""), end()].concat());
    let node = named.node(named.root()).unwrap();
    assert_eq!((node.mode, node.owner, node.mtime_ns), (Some(0o644), Some((1, 2)), Some(10_000_000_000)));
    assert_eq!(named.node(id_of(&named, "d")).unwrap().mode, None);
    assert_eq!(named.node(id_of(&named, "d/f")).unwrap().owner, Some((1, 2)));
}

#[test]
fn what_is_no_file_is_listed_and_never_opened() {
    let tar = [member(b"pipe", b'6', b""), member(b"device", b'3', b""), link(b"link", b'2', b"pipe"), end()];
    let tree = tree_of(tar.concat());
    for path in ["pipe", "device", "link"] {
        let id = id_of(&tree, path);
        assert!(matches!(tree.open(id), Err(Error::NotARegularFile { .. })), "{path}");
        assert!(gather(&tree, &[id], &GatherOptions::default())[0].is_err());
    }
    assert_eq!(tree.node(id_of(&tree, "pipe")).unwrap().kind, Kind::Fifo);
    assert_eq!(tree.node(id_of(&tree, "device")).unwrap().kind, Kind::Other);
    assert_eq!(tree.link_target(id_of(&tree, "link")).unwrap(), b"pipe");
}

/// Files of some size, and their ids in the order of the model.
fn many() -> (TreeModel, Vec<String>) {
    let names: Vec<String> = (0..60).map(|number| format!("d{}/{number:02}", number % 3)).collect();
    let file = |model: TreeModel, (name, seed): (&String, u64)| model.file(name, noise(seed, 20_000));
    (names.iter().zip(0..).fold(TreeModel::new(), file), names)
}

#[test]
fn a_gather_of_a_compressed_tar_is_one_pass() {
    let (model, names) = many();
    let tree = tree_of(gzip(&tar_of(&model, Directories::All)));
    // In no order, and some twice.
    let mut ids: Vec<NodeId> = names.iter().rev().map(|name| id_of(&tree, name)).collect();
    ids.extend_from_within(..10);
    let gathered = gather(&tree, &ids, &GatherOptions::default());
    for (bytes, name) in gathered.into_iter().zip(names.iter().rev().chain(names.iter().rev())) {
        assert!(bytes.unwrap() == model.bytes(name.as_bytes()).unwrap(), "{name}");
    }
    assert_eq!(tree.archive().passes(), 1);
    let pieces = GatherOptions { piece_bytes: 7000, memory_bytes: 1, ..GatherOptions::default() };
    assert!(gather(&tree, &ids, &pieces).into_iter().all(|bytes| bytes.unwrap().len() == 20_000));
    assert_eq!(tree.archive().passes(), 1, "it is unpacked already");
}

#[test]
fn members_of_a_compressed_tar_take_one_pass_in_whatever_order_they_are_opened() {
    let (model, names) = many();
    let tree = tree_of(zst(&tar_of(&model, Directories::All)));
    let mut ids: Vec<(NodeId, &String)> = names.iter().map(|name| (id_of(&tree, name), name)).collect();
    ids.sort_by_key(|(id, _)| tree.medium_order(*id));
    for (id, name) in &ids {
        let source = tree.open(*id).unwrap();
        let range = ByteRange::new(1000, 19_000).unwrap();
        assert!(read(&*source, range).unwrap() == model.bytes(name.as_bytes()).unwrap()[1000..19_000]);
    }
    assert_eq!(tree.archive().passes(), 1);
    tree.open(ids[0].0).unwrap();
    assert_eq!(tree.archive().passes(), 1);
}

#[test]
fn what_is_too_long_for_the_spool_is_gathered() {
    let model = TreeModel::new().file("long", noise(1, 1_100_000)).file("short", "short");
    for bytes in [gzip(&tar_of(&model, Directories::All)), zip_of(&model, Directories::All, Some(&deflate))] {
        let tree = tree_in(bytes, Spool::new(std::env::temp_dir(), 1000, 1 << 20));
        assert_eq!(read_file(&tree, "short").unwrap(), b"short");
        let passes = u64::from(tree.archive().is_sequential());
        let long = id_of(&tree, "long");
        let error = tree.open(long).unwrap_err();
        assert_eq!(error.io_kind(), Some(ErrorKind::Unsupported), "{error}");
        assert_eq!(tree.archive().passes(), passes, "it was not looked for");
        let options =
            GatherOptions { piece_bytes: 1 << 12, memory_bytes: 1 << 13, ..GatherOptions::default() };
        assert!(gather(&tree, &[long], &options)[0].as_ref().unwrap() == model.bytes(b"long").unwrap());
    }
    // What is stored takes no room, however long it is.
    let tree = tree_in(zip_of(&model, Directories::All, None), Spool::new("/nowhere", 0, 0));
    assert!(read_file(&tree, "long").unwrap() == model.bytes(b"long").unwrap());
}

#[test]
fn holes_of_a_compressed_tar_are_not_unpacked() {
    let mut sparse = header(b"sparse", b'S', 512);
    sparse[257..265].copy_from_slice(b"ustar  \0");
    // 512 bytes at 1 MiB of 4 GiB.
    sparse[386..398].copy_from_slice(b"00004000000\0");
    sparse[398..410].copy_from_slice(b"00000001000\0");
    sparse[483..495].copy_from_slice(b"40000000000\0");
    sign(&mut sparse);
    let spool = Spool::new(std::env::temp_dir(), 512, 0);
    let tree = tree_in(gzip(&[sparse, vec![b's'; 512], end()].concat()), spool);
    let source = tree.open(id_of(&tree, "sparse")).unwrap();
    assert_eq!(source.len(), 4 << 30);
    let around = ByteRange::new((1 << 20) - 100, (1 << 20) + 1000).unwrap();
    let bytes = read(&*source, around).unwrap();
    assert!(bytes[..100].iter().chain(&bytes[612..]).all(|byte| *byte == 0));
    assert!(bytes[100..612].iter().all(|byte| *byte == b's'));
    assert_eq!(read(&*source, ByteRange::new((4 << 30) - 10, 4 << 30).unwrap()).unwrap(), [0; 10]);
}

#[test]
fn a_zip_is_checked_where_all_of_a_member_is_read() {
    let model = TreeModel::new().file("a", noise(1, 10_000)).file("b", noise(2, 10_000));
    let body = noise(1, 10_000);
    let mut zip = zip_of(&model, Directories::All, None);
    let at = zip.windows(64).position(|window| *window == body[..64]).unwrap();
    zip[at + 5000] ^= 1;
    let tree = tree_of(zip);
    let (a, b) = (id_of(&tree, "a"), id_of(&tree, "b"));
    let error = read_file(&tree, "a").unwrap_err();
    assert!(matches!(&error, Error::Damaged { offset, .. } if *offset == at as u64), "{error}");
    // A range has no checksum of its own.
    let source = tree.open(a).unwrap();
    assert!(read(&*source, ByteRange::to(5000)).unwrap() == body[..5000]);
    let gathered = gather(&tree, &[a, b], &GatherOptions::default());
    assert!(matches!(gathered[0], Err(Error::Damaged { .. })));
    assert!(*gathered[1].as_ref().unwrap() == noise(2, 10_000));
    // What is longer than a piece is found out by its last.
    let pieces = GatherOptions { piece_bytes: 1000, ..GatherOptions::default() };
    assert!(matches!(gather(&tree, &[a], &pieces)[0], Err(Error::Damaged { .. })));
}

#[test]
fn a_deflated_member_that_is_damaged_costs_only_itself() {
    let model = TreeModel::new().file("a", noise(1, 10_000)).file("b", noise(2, 10_000));
    let mut zip = zip_of(&model, Directories::All, Some(&deflate));
    let middle = 1 + 30 + 5000;
    zip[middle] ^= 0x55;
    let tree = tree_of(zip);
    let error = tree.open(id_of(&tree, "a")).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert!(read_file(&tree, "b").unwrap() == noise(2, 10_000));
    let gathered = gather(&tree, &[id_of(&tree, "b"), id_of(&tree, "a")], &GatherOptions::default());
    assert!(gathered[0].is_ok() && matches!(gathered[1], Err(Error::Damaged { .. })));
}

#[test]
fn what_a_compressed_tar_lost_since_its_index_was_made_is_met_by_who_opens_first() {
    let directory = tempfile::tempdir().unwrap();
    let archive = checksums::rotten(&directory.path().join("t.tar.gz"));
    let tree = archive.tree();
    for path in ["first", "second"] {
        let error = tree.open(id_of(&tree, path)).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
    }
    let ids = [id_of(&tree, "first"), id_of(&tree, "second")];
    let gathered = gather(&tree, &ids, &GatherOptions::default());
    assert!(gathered[1].is_err(), "the last body waits for the checksum");
    // One that is right is gone through to its end once.
    let path = directory.path().join("good.tar.gz");
    fs::write(&path, checksums::gzip(&[member(b"a", b'0', b"1"), member(b"b", b'0', b"2"), end()].concat()))
        .unwrap();
    drop(Archive::open(&path, OpenOptions::default()).unwrap());
    let tree = Archive::open(&path, OpenOptions::default()).unwrap().tree();
    for _ in 0..3 {
        assert_eq!(read_file(&tree, "a").unwrap(), b"1");
        assert_eq!(read_file(&tree, "b").unwrap(), b"2");
    }
    assert_eq!(tree.archive().passes(), 1);
}

#[test]
fn an_archive_that_changes_is_an_error_of_what_is_read_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    let model = TreeModel::new().file("a", noise(1, 10_000)).file("b", "b");
    for (name, bytes) in [
        ("tar", tar_of(&model, Directories::All)),
        ("gz", gzip(&tar_of(&model, Directories::All))),
        ("stored", zip_of(&model, Directories::All, None)),
        ("deflated", zip_of(&model, Directories::All, Some(&deflate))),
    ] {
        let path = directory.path().join(name);
        fs::write(&path, &bytes).unwrap();
        let tree = open(&path).unwrap().tree();
        let source = tree.open(id_of(&tree, "a")).unwrap();
        fs::write(&path, [&bytes[..], &[0; 1024]].concat()).unwrap();
        let read = read(&*source, ByteRange::to(100));
        assert!(matches!(read, Err(Error::SourceChanged { .. })), "{name}: {read:?}");
        let ids = [id_of(&tree, "b"), id_of(&tree, "a")];
        for gathered in gather(&tree, &ids, &GatherOptions::default()) {
            assert!(matches!(gathered, Err(Error::SourceChanged { .. })), "{name}: {gathered:?}");
        }
    }
}

#[test]
fn what_cannot_be_decompressed_is_listed() {
    let directory = tempfile::tempdir().unwrap();
    let script = "
import zipfile
z = zipfile.ZipFile('bz.zip', 'w', zipfile.ZIP_BZIP2); z.writestr('b', b'b' * 100); z.close()";
    run("python3", &["-c", script], directory.path());
    let tree = open(&directory.path().join("bz.zip")).unwrap().tree();
    let id = id_of(&tree, "b");
    assert_eq!(tree.node(id).unwrap().len, 100);
    for error in
        [tree.open(id).unwrap_err(), gather(&tree, &[id], &GatherOptions::default()).remove(0).unwrap_err()]
    {
        assert_eq!(error.io_kind(), Some(ErrorKind::Unsupported), "{error}");
        assert!(stook::error::chain(&error).contains("method 12"), "{error}");
    }
}

#[test]
fn extended_attributes_are_those_of_the_file() {
    let tar = [
        pax(&[("SCHILY.xattr.user.note", &b"of a"[..])]),
        member(b"a", b'0', b"1"),
        link(b"b", b'1', b"a"),
        end(),
    ];
    let tree = tree_of(tar.concat());
    assert_eq!(id_of(&tree, "a"), id_of(&tree, "b"));
    assert_eq!(tree.xattrs(id_of(&tree, "b")).unwrap().get(b"user.note"), Some(&b"of a"[..]));
    assert!(tree.xattrs(tree.root()).unwrap().is_empty());
    assert_eq!(tree.path_of(id_of(&tree, "a")), Path::new("made/a"));
}

#[test]
fn a_tree_of_many_members_goes_by_their_places() {
    // In the archive from the last to the first.
    let model: Vec<Vec<u8>> =
        (0..500).rev().map(|number| member(format!("{number:03}").as_bytes(), b'0', b"x")).collect();
    let tree = tree_of([model.concat(), end()].concat());
    let mut ids: Vec<NodeId> = (0..500).map(|number| id_of(&tree, &format!("{number:03}"))).collect();
    let mut arrived = Vec::new();
    let mut take = |gathered: Gathered| -> ControlFlow<()> {
        assert!(gathered.result.unwrap().is_whole());
        arrived.push(gathered.id);
        ControlFlow::Continue(())
    };
    tree.gather(&ids, &Backend::Threads, &GatherOptions::default(), &mut take).unwrap();
    ids.reverse();
    assert_eq!(arrived, ids);
}

/// Archives of a model, each made in another way.
type Makers<'a> = [(&'a str, &'a dyn Fn(&TreeModel) -> Vec<u8>); 4];

#[test]
fn a_tree_of_an_archive_that_another_takes_the_place_of_never_mixes_both() {
    let makers: Makers<'_> = [
        ("tar", &|model| tar_of(model, Directories::All)),
        ("gz", &|model| gzip(&tar_of(model, Directories::All))),
        ("stored", &|model| zip_of(model, Directories::All, None)),
        ("deflated", &|model| zip_of(model, Directories::All, Some(&deflate))),
    ];
    for (name, make) in makers {
        for is_renamed in [true, false] {
            let directory = tempfile::tempdir().unwrap();
            let (path, beside) = (directory.path().join(name), directory.path().join("beside"));
            let mut put = |model: &TreeModel| -> Box<dyn Tree> {
                match is_renamed {
                    true => {
                        fs::write(&beside, make(model)).unwrap();
                        fs::rename(&beside, &path).unwrap();
                    }
                    false => fs::write(&path, make(model)).unwrap(),
                }
                Box::new(open(&path).unwrap().tree())
            };
            // What was renamed over is still open, and may be read to its end.
            let after = if is_renamed { AfterChange::MayFail } else { AfterChange::Fails };
            changed_medium_conformance(&mut put, after, &Backend::Auto);
        }
    }
}

#[test]
fn a_tar_of_very_many_names_is_its_model() {
    let model = many_files(1_000_000 / stride(19));
    let tree = tree_of(tar_of(&model, Directories::All));
    tree_matches_model(&tree, &model, &Backend::Threads);
}
