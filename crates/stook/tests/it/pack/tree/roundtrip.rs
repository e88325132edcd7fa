//! What goes in comes out the same.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, symlink};

use proptest::prelude::*;
use stook::pack::tree::Grouping;
use stook::walk::{Decision, Kind};

use super::{Place, failed, set_mode, set_time, write};

/// Everything that names, modes, times and links can be.
fn nasty(place: &Place) {
    let tree = place.tree();
    let odd =
        [&b"\xff\xfe"[..], b"new\nline", b"-rf", b"back\\slash", b" ", b"...", b"'\"$(x)", &[b'n'; 255]];
    for name in odd {
        write(tree.join("odd").join(OsStr::from_bytes(name)), name);
        fs::create_dir(tree.join("odd").join(OsStr::from_bytes(&[name, b"d"].concat()[name.len() / 200..])))
            .unwrap();
    }
    for len in [0, 1, 4095, 4096, 65_535, 65_536, 65_537, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5_000_001] {
        let body: Vec<u8> = (0..len).map(|n: usize| (n * n / 7) as u8).collect();
        write(tree.join(format!("sizes/{len}")), body);
    }
    for (name, mode) in [("set-id", 0o6755), ("none", 0), ("read-only", 0o400), ("all", 0o7777)] {
        write(tree.join("modes").join(name), name);
        set_mode(&tree.join("modes").join(name), mode);
        fs::create_dir(tree.join("modes").join(format!("{name}.d"))).unwrap();
        set_mode(&tree.join("modes").join(format!("{name}.d")), mode);
    }
    write(tree.join("locked/file"), "in a directory that may not be written");
    symlink("self", tree.join("self")).unwrap();
    symlink("../../nowhere", tree.join("dangling")).unwrap();
    symlink("/etc", tree.join("outside")).unwrap();
    symlink(OsStr::from_bytes(b"\xff\n"), tree.join("odd/link")).unwrap();
    symlink(".", tree.join("sizes/loop")).unwrap();
    for name in ["a", "z", "odd/m"] {
        fs::hard_link(tree.join("sizes/4096"), tree.join(name)).unwrap();
    }
    fs::hard_link(tree.join("sizes/5000001"), tree.join("large")).unwrap();
    fs::create_dir_all(tree.join("deep").join(vec!["d"; 200].join("/"))).unwrap();
    for (number, name) in ["a", "sizes/1", "sizes/65536", "odd", "locked", "deep"].iter().enumerate() {
        set_time(&tree.join(name), 1_000_000_007 * number as u64 + 123_456_789);
    }
    set_mode(&tree.join("locked"), 0o555);
    set_mode(&tree, 0o751);
    set_time(&tree, 999_999_999);
}

#[test]
fn a_nasty_tree_comes_back_as_it_was() {
    let place = Place::new();
    nasty(&place);
    let summary = place.pack();
    assert!(summary.failures.is_empty(), "{summary:?}");
    assert_eq!((summary.hard_links, summary.symlinks), (4, 5));
    place.comes_back("out");
    let again = place.pack();
    assert_eq!((again.added(), again.replaced, again.bytes), (0, 0, 0), "a second run finds all of it");
    assert_eq!(again.unchanged, summary.added());
    place.comes_back("again");
}

#[test]
fn special_files_are_reported_and_left_out() {
    let place = Place::new();
    let fifo = place.tree().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o644.into(), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(place.tree().join("socket")).unwrap();
    let mut summary = place.pack();
    summary.special.sort();
    assert_eq!(summary.special, [(b"fifo".to_vec(), Kind::Fifo), (b"socket".to_vec(), Kind::Socket)]);
    assert!(summary.failures.is_empty());
    fs::remove_file(fifo).unwrap();
    fs::remove_file(place.tree().join("socket")).unwrap();
    assert_eq!(place.unpack("out").failures.len(), 0);
    assert_eq!(fs::read_dir(place.path("out")).unwrap().count(), 0);
}

#[test]
fn four_gib_of_zeroes_take_no_room_in_either_direction() {
    let place = Place::new();
    let file = fs::File::create(place.tree().join("hole")).unwrap();
    file.set_len((1 << 32) + 1).unwrap();
    place.pack();
    let files = fs::read_dir(place.pack_path()).unwrap();
    let taken: u64 = files.map(|file| file.unwrap().metadata().unwrap().blocks() * 512).sum();
    assert!(taken < 4 << 20, "{taken} bytes of disk");
    assert!(place.unpack("out").failures.is_empty());
    let out = fs::metadata(place.path("out/hole")).unwrap();
    assert_eq!(out.len(), (1 << 32) + 1);
    assert!(out.blocks() * 512 < 4 << 20, "{} blocks", out.blocks());
}

#[test]
fn zeroes_within_a_file_stay_where_they_were() {
    let place = Place::new();
    for (name, parts) in [("middle", [1, 0, 1]), ("end", [1, 0, 0]), ("begin", [0, 0, 1])] {
        // Long enough to be read piece by piece, and not a multiple of a chunk.
        let body: Vec<u8> = parts.iter().flat_map(|&byte| vec![byte; 17 << 20]).chain([0; 99]).collect();
        write(place.tree().join(name), body);
    }
    place.pack();
    place.comes_back("out");
}

#[test]
fn several_trees_stand_beside_one_another() {
    let place = Place::new();
    write(place.path("a/x"), "ax");
    write(place.path("b/x"), "bx");
    write(place.path("b/y/z"), "z");
    fs::hard_link(place.path("a/x"), place.path("b/linked")).unwrap();
    let mut packing = place.packing();
    packing.roots = vec![place.path("a"), place.path("b"), place.path("b/y/z")];
    packing.grouping = Grouping::Top;
    let summary = place.pack_with(&packing);
    assert_eq!((summary.files + summary.hard_links, summary.directories), (5, 3));
    let mut groups = place.open().groups().to_vec();
    groups.sort();
    assert_eq!(groups, ["", "a", "b"], "a file stands at the top");
    let summary = place.unpack("out");
    assert!(summary.failures.is_empty(), "{summary:?}");
    super::same_trees(&place.path("a"), &place.path("out/a"));
    super::same_trees(&place.path("b"), &place.path("out/b"));
    assert_eq!(fs::read(place.path("out/z")).unwrap(), b"z");
}

#[test]
fn what_is_not_selected_is_not_there() {
    let place = Place::new();
    for name in ["keep/a", "keep/b", "drop/a", "top"] {
        write(place.tree().join(name), name);
    }
    fs::hard_link(place.tree().join("drop/a"), place.tree().join("keep/linked")).unwrap();
    let mut packing = place.packing();
    packing.select = Box::new(|key, _| match key {
        b"drop" => Decision::Prune,
        b"keep/b" => Decision::Skip,
        _ => Decision::Take,
    });
    packing.grouping = Grouping::Hash(3);
    assert_eq!(place.pack_with(&packing).files, 3);
    assert!(place.open().groups().len() <= 3);
    fs::remove_dir_all(place.tree().join("drop")).unwrap();
    fs::remove_file(place.tree().join("keep/b")).unwrap();
    let summary = place.unpack("out");
    assert!(summary.failures.is_empty());
    assert_eq!(fs::read(place.path("out/keep/linked")).unwrap(), b"drop/a");
    assert_eq!(fs::read_dir(place.path("out/keep")).unwrap().count(), 2);
    assert!(!place.path("out/drop").exists());
}

#[test]
fn a_pack_inside_its_tree_is_left_out_and_a_tree_is_never_its_own_pack() {
    let place = Place::new();
    write(place.tree().join("file"), "x");
    fs::create_dir(place.tree().join("p.stook")).unwrap();
    write(place.tree().join("p.stook/inner"), "part of the pack");
    let mut packing = place.packing();
    packing.own = Some(place.tree().join("p.stook"));
    let summary = place.pack_with(&packing);
    assert_eq!((summary.files, summary.own.as_slice()), (1, &[b"p.stook".to_vec()][..]));
    for root in [place.tree(), place.tree().join("file")] {
        packing.own = Some(place.tree());
        packing.roots = vec![root];
        assert!(packing.check().unwrap_err().to_string().contains("into itself"));
    }
}

#[test]
fn what_cannot_be_packed_is_reported_and_the_rest_goes_on() {
    let place = Place::new();
    write(place.tree().join("good"), "x");
    let mut deep = place.tree();
    // Keys are at most 65,535 bytes long; a path is as long as one likes.
    for _ in 0..14 {
        deep.push("e".repeat(250));
    }
    fs::create_dir_all(&deep).unwrap();
    let mut at =
        rustix::fs::openat(rustix::fs::CWD, &deep, rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty())
            .unwrap();
    for _ in 0..250 {
        let name = "f".repeat(255);
        rustix::fs::mkdirat(&at, &name, 0o755.into()).unwrap();
        at =
            rustix::fs::openat(&at, &name, rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
    }
    let summary = place.pack();
    assert_eq!(summary.files, 1);
    assert!(!summary.failures.is_empty());
    assert!(failed(&summary.failures).iter().all(|key| key.len() > 65_535));
    assert!(summary.failures[0].error.to_string().contains("65535"), "{}", summary.failures[0].error);
    let summary = place.unpack("out");
    assert_eq!((summary.files, failed(&summary.failures).len()), (1, 0), "{:?}", summary.failures.first());
}

#[derive(Debug, Clone)]
enum Made {
    File(Vec<u8>, u32),
    Directory(u32),
    Symlink(Vec<u8>),
    HardLink(usize),
}

fn made() -> impl Strategy<Value = (Vec<u8>, u64, Made)> {
    let name = prop::collection::vec(prop_oneof![b'a'..b'e', Just(0xff), Just(b'\n')], 1..4);
    let path = prop::collection::vec(name, 1..4).prop_map(|parts| parts.join(&b'/'));
    let what = prop_oneof![
        (prop::collection::vec(any::<u8>(), 0..200), 0u32..0o10000).prop_map(|(b, m)| Made::File(b, m)),
        (0u32..0o10000).prop_map(Made::Directory),
        prop::collection::vec(1u8..255, 1..40).prop_map(Made::Symlink),
        (0usize..20).prop_map(Made::HardLink),
    ];
    (path, 0u64..4_000_000_000_000_000_000, what)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_comes_back_and_a_second_run_finds_nothing_new(all in prop::collection::vec(made(), 0..40)) {
        let place = Place::new();
        let mut files = Vec::new();
        let mut directories = Vec::new();
        for (path, time, what) in all {
            let path = place.tree().join(OsStr::from_bytes(&path));
            // If something is in the way, the tree is smaller than generated.
            if fs::create_dir_all(path.parent().unwrap()).is_err() || path.symlink_metadata().is_ok() {
                continue;
            }
            match what {
                Made::File(bytes, mode) => {
                    fs::write(&path, bytes).unwrap();
                    set_mode(&path, mode);
                    set_time(&path, time);
                    files.push(path);
                }
                Made::Directory(mode) => {
                    fs::create_dir(&path).unwrap();
                    directories.push((path, mode | 0o700, time));
                }
                Made::Symlink(target) => symlink(OsStr::from_bytes(&target), &path).unwrap(),
                Made::HardLink(number) => {
                    if let Some(first) = files.get(number) {
                        fs::hard_link(first, &path).unwrap();
                    }
                }
            }
        }
        for (path, mode, time) in directories {
            set_mode(&path, mode);
            set_time(&path, time);
        }
        let summary = place.pack();
        prop_assert!(summary.failures.is_empty());
        place.comes_back("out");
        prop_assert_eq!(place.pack().added(), 0);
        place.comes_back("again");
    }
}
