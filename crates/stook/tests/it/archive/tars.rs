//! Tars of GNU tar and of Python, compared with the trees they were made of.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, symlink};
use std::path::Path;

use proptest::prelude::*;
use stook::archive::{MemberKind, Unpack};
use stook::engine::{Access, Backend};
use stook::extent::ByteRange;
use stook::source::read_batch;
use stook::tree::Overwrite;

use super::made::{end, link, member, pax};
use super::{Content, contents, open, run};

/// A tree with what tars find hard; `longest` bytes in one name.
fn tree(root: &Path, longest: usize) {
    fs::create_dir_all(root.join("d/deeper")).unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    fs::write(root.join("a"), b"alpha").unwrap();
    fs::write(root.join("nothing"), b"").unwrap();
    fs::write(root.join("d/with space"), vec![7; 70_000]).unwrap();
    fs::write(root.join("d/deeper").join("n".repeat(longest)), b"long").unwrap();
    fs::write(root.join(std::ffi::OsString::from_vec(b"\xff\n\xfe".to_vec())), b"bytes").unwrap();
    symlink("a", root.join("link")).unwrap();
    symlink("../nowhere", root.join("d/dangling")).unwrap();
    fs::hard_link(root.join("a"), root.join("z-further")).unwrap();
    let mut sparse = File::create(root.join("sparse")).unwrap();
    for at in [1 << 20, 3 << 20, 9 << 20] {
        sparse.seek(SeekFrom::Start(at)).unwrap();
        sparse.write_all(&vec![at as u8 | 1; 5000]).unwrap();
    }
    sparse.set_len(12 << 20).unwrap();
    File::create(root.join("hole")).unwrap().set_len(3 << 20).unwrap();
    fs::write(root.join("big"), noise(3_000_001)).unwrap();
}

fn noise(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// What a tree holds, as an archive of it should show it; hard links as files.
fn on_disk(root: &Path) -> BTreeMap<Vec<u8>, (MemberKind, Vec<u8>, u32, i64)> {
    let mut all = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).chain([folder.clone()])
        {
            let key = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            let found = path.symlink_metadata().unwrap();
            let (kind, bytes) = if found.is_dir() {
                if path != folder {
                    folders.push(path.clone());
                }
                (MemberKind::Directory, Vec::new())
            } else if found.is_symlink() {
                (MemberKind::Symlink, fs::read_link(&path).unwrap().into_os_string().into_vec())
            } else {
                (MemberKind::File, fs::read(&path).unwrap())
            };
            all.insert(key, (kind, bytes, found.mode() & 0o7777, found.mtime()));
        }
    }
    all
}

#[test]
fn tars_of_gnu_tar_read_as_the_trees_they_were_made_of() {
    let dir = tempfile::tempdir().unwrap();
    let formats: [(&[&str], usize); 8] = [
        (&["--format=gnu"], 200),
        (&["--format=gnu", "--sparse"], 200),
        (&["--format=pax"], 200),
        (&["--format=pax", "--sparse", "--sparse-version=0.0"], 200),
        (&["--format=pax", "--sparse", "--sparse-version=0.1"], 200),
        (&["--format=pax", "--sparse", "--sparse-version=1.0"], 200),
        (&["--format=ustar"], 99),
        (&["--format=v7"], 80),
    ];
    for (number, (options, longest)) in formats.into_iter().enumerate() {
        let root = dir.path().join(number.to_string());
        tree(&root, longest);
        let tar = format!("{number}.tar");
        run("tar", &[options, &["-cf", &tar, "-C", &number.to_string(), "."]].concat(), dir.path());
        let archive = open(&dir.path().join(&tar)).unwrap();
        assert!(archive.index().summary().has_end);
        let expected = on_disk(&root);
        let got = contents(&archive);
        assert_eq!(got.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{options:?}");
        for (key, (kind, bytes, mode, mtime)) in &expected {
            let (got_kind, got_bytes): &Content = &got[key];
            let shown = String::from_utf8_lossy(key);
            assert!(got_bytes == bytes, "{options:?}: the bytes of {shown}");
            let member = archive.find(key).unwrap();
            let one_file = *got_kind == MemberKind::HardLink && *kind == MemberKind::File;
            assert!(got_kind == kind || one_file, "{options:?}: {shown} is {got_kind:?}");
            assert_eq!(member.node.mode, Some(*mode), "{options:?}: {shown}");
            assert_eq!(member.node.mtime_ns.map(|ns| ns.div_euclid(1_000_000_000)), Some(*mtime), "{shown}");
        }
        let links = got.values().filter(|(kind, _)| *kind == MemberKind::HardLink).count();
        assert_eq!(links, 1, "{options:?}: of `a` and `z-further` one is a link");
    }
}

#[test]
fn nanoseconds_of_pax_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), b"x").unwrap();
    run("touch", &["-d", "1969-12-31 23:59:58.123456789 UTC", "f"], dir.path());
    run("tar", &["--format=pax", "-cf", "t.tar", "f"], dir.path());
    let archive = open(&dir.path().join("t.tar")).unwrap();
    assert_eq!(archive.find(b"f").unwrap().node.mtime_ns, Some(-1_876_543_211));
}

#[test]
fn python_lists_the_same_members() {
    let dir = tempfile::tempdir().unwrap();
    tree(&dir.path().join("t"), 200);
    let script = "
import json, os, sys, tarfile
rows = []
with tarfile.open(sys.argv[1], 'w', format=getattr(tarfile, sys.argv[2] + '_FORMAT')) as tar:
    tar.add('t', arcname='top')
with tarfile.open(sys.argv[1]) as tar:
    for m in tar:
        kind = 'directory' if m.isdir() else 'symlink' if m.issym() else 'hardlink' if m.islnk() else 'file'
        rows.append([os.fsencode(m.name).hex(), kind, m.mode, m.uid, m.gid, m.size, os.fsencode(m.linkname).hex()])
print(json.dumps(sorted(rows)))
";
    for format in ["PAX", "GNU"] {
        let name = format!("{format}.tar");
        let said = run("python3", &["-c", script, &name, format], dir.path());
        let rows: Vec<(String, String, u32, u32, u32, u64, String)> = serde_json::from_slice(&said).unwrap();
        let archive = open(&dir.path().join(&name)).unwrap();
        assert_eq!(archive.len(), rows.len() as u64);
        for (key, kind, mode, user, group, size, link) in rows {
            let (key, link) = (unhex(&key), unhex(&link));
            let member = archive.find(&key).unwrap();
            let (expected, len) = match kind.as_str() {
                "directory" => (MemberKind::Directory, 0),
                "symlink" => (MemberKind::Symlink, link.len() as u64),
                "hardlink" => (MemberKind::HardLink, archive.find(&link).unwrap().node.len),
                _ => (MemberKind::File, size),
            };
            assert_eq!(
                (member.kind(), member.node.len),
                (expected, len),
                "{}",
                String::from_utf8_lossy(&key)
            );
            assert_eq!((member.node.mode, member.node.owner), (Some(mode), Some((user, group))));
            assert_eq!(member.link, link);
        }
        assert_eq!(contents(&archive)[&b"top/big"[..]].1, noise(3_000_001));
    }
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn of_members_with_one_key_the_last_one_counts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.tar");
    let parts = [
        member(b"a", b'0', b"old"),
        link(b"b", b'1', b"a"),
        member(b"./a", b'0', b"newer"),
        link(b"c", b'1', b"a"),
        link(b"d", b'1', b"later"),
        member(b"later", b'0', b"x"),
        link(b"e", b'1', b"b"),
        end(),
    ];
    fs::write(&path, parts.concat()).unwrap();
    let archive = open(&path).unwrap();
    assert_eq!(archive.index().summary().replaced, 1);
    let all = contents(&archive);
    assert_eq!(all[&b"a"[..]].1, b"newer");
    assert_eq!(all[&b"b"[..]].1, b"old", "a link is a name of the file that was there when it was made");
    assert_eq!(all[&b"c"[..]].1, b"newer");
    assert_eq!(all[&b"e"[..]].1, b"old", "a link to a link is a link to the file");
    assert!(!all.contains_key(&b"d"[..]), "what comes later is no file to link to");
    assert!(!archive.find(b"d").unwrap().has_body);
    assert_eq!(archive.find(b"a").unwrap().node.links, 2);
}

#[test]
fn what_gnu_tar_appends_replaces() {
    let dir = tempfile::tempdir().unwrap();
    for (step, text) in ["one", "the second"].into_iter().enumerate() {
        fs::write(dir.path().join("f"), text).unwrap();
        run("tar", &[if step == 0 { "-cf" } else { "-rf" }, "t.tar", "f"], dir.path());
    }
    let archive = open(&dir.path().join("t.tar")).unwrap();
    assert_eq!((archive.len(), &contents(&archive)[&b"f"[..]].1[..]), (1, &b"the second"[..]));
}

#[test]
fn global_headers_and_their_taking_back_are_followed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.tar");
    let mut global = pax(&[("mtime", b"5.5"), ("uid", b"77"), ("path", b"everywhere")]);
    global[156] = b'g';
    super::made::sign(&mut global[..512]);
    let parts = [
        global,
        member(b"a", b'0', b"1"),
        pax(&[("mtime", b"")]),
        member(b"b", b'0', b"2"),
        pax(&[("path", b"c/long"), ("size", b"3")]),
        member(b"c", b'0', b"333"),
        end(),
    ];
    fs::write(&path, parts.concat()).unwrap();
    let archive = open(&path).unwrap();
    let time = |key: &[u8]| archive.find(key).unwrap().node.mtime_ns;
    assert_eq!(
        (time(b"a"), time(b"b"), time(b"c/long")),
        (Some(5_500_000_000), Some(10_000_000_000), Some(5_500_000_000))
    );
    assert_eq!(archive.find(b"a").unwrap().node.owner, Some((77, 2)));
    assert_eq!(contents(&archive)[&b"c/long"[..]].1, b"333");
}

#[test]
fn a_tar_without_members_is_one() {
    let dir = tempfile::tempdir().unwrap();
    run("tar", &["-cf", "t.tar", "-T", "/dev/null"], dir.path());
    assert!(open(&dir.path().join("t.tar")).unwrap().is_empty());
}

#[test]
fn a_tar_cut_at_any_block_says_so_and_gives_nothing_that_is_not_whole() {
    let dir = tempfile::tempdir().unwrap();
    tree(&dir.path().join("t"), 150);
    fs::remove_file(dir.path().join("t/big")).unwrap();
    run("tar", &["--format=pax", "--sparse", "-cf", "t.tar", "t"], dir.path());
    let bytes = fs::read(dir.path().join("t.tar")).unwrap();
    let whole = contents(&open(&dir.path().join("t.tar")).unwrap());
    let path = dir.path().join("cut.tar");
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    let mut cut_silently = 0;
    for len in (512..=last + 1).step_by(512) {
        fs::write(&path, &bytes[..len]).unwrap();
        match open(&path) {
            Ok(archive) => {
                assert!(!archive.index().summary().has_end, "cut at {len}");
                for (key, content) in contents(&archive) {
                    assert!(whole[&key] == content, "cut at {len}: {}", String::from_utf8_lossy(&key));
                }
                cut_silently += 1;
            }
            Err(error) => assert!(error.to_string().contains("offset"), "{error}"),
        }
    }
    assert!(cut_silently > 5, "a tar may end after any of its members");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn ranges_of_sparse_members_are_those_of_the_file(
        pieces in prop::collection::vec((0_u64..40_000, 1_u64..9_000), 0..12),
        tail in 0_u64..30_000,
        wanted in prop::collection::vec((0.0..1.0_f64, 0.0..1.0_f64), 1..20),
    ) {
        let (mut map, mut stored, mut at) = (Vec::new(), Vec::new(), 0);
        let mut flat = Vec::new();
        for (gap, len) in pieces {
            at += gap;
            map.push(format!("{at},{len}"));
            flat.resize(at as usize, 0);
            let bytes = noise(len as usize);
            flat.extend_from_slice(&bytes);
            stored.extend_from_slice(&bytes);
            at += len;
        }
        at += tail;
        flat.resize(at as usize, 0);
        let (len, map) = (at.to_string(), map.join(","));
        let head = pax(&[("GNU.sparse.size", len.as_bytes()), ("GNU.sparse.map", map.as_bytes())]);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.tar");
        fs::write(&path, [head, member(b"s", b'0', &stored), end()].concat()).unwrap();
        let archive = open(&path).unwrap();
        let source = archive.source(&archive.find(b"s").unwrap()).unwrap().unwrap();
        let ranges: Vec<ByteRange> = wanted.iter().map(|(a, b)| {
            let (a, b) = ((a * at as f64) as u64, (b * at as f64) as u64);
            ByteRange::new(a.min(b), a.max(b)).unwrap()
        }).collect();
        let read = read_batch(&Backend::Auto, &source, &ranges, Access::Cached).unwrap();
        for (range, bytes) in ranges.iter().zip(read) {
            prop_assert_eq!(&flat[range.start() as usize..range.end() as usize], &bytes[..]);
        }
        prop_assert!(contents(&archive)[&b"s"[..]].1 == flat);
    }
}

/// Every form in which GNU tar stores a sparse file.
pub(super) const SPARSE_FORMS: [&[&str]; 4] = [
    &["--format=gnu"],
    &["--format=pax", "--sparse-version=0.0"],
    &["--format=pax", "--sparse-version=0.1"],
    &["--format=pax", "--sparse-version=1.0"],
];

fn everything_to(target: &Path) -> Unpack<'static> {
    Unpack {
        target: target.to_path_buf(),
        overwrite: Overwrite::Never,
        with_owner: false,
        xattrs: true,
        threads: 2,
        durability: Default::default(),
        force: false,
        select: Box::new(|_| true),
    }
}

#[test]
fn a_hole_of_a_terabyte_stays_one_and_costs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (len, middle) = (1_u64 << 40, 1_u64 << 39);
    let file = File::create(dir.path().join("hole")).unwrap();
    file.set_len(len).unwrap();
    file.write_all_at(&[7; 5000], middle).unwrap();
    drop(file);
    fs::write(dir.path().join("short"), "after it").unwrap();
    for form in SPARSE_FORMS {
        for (name, packer) in [("t.tar", &[][..]), ("t.tar.gz", &["-z"])] {
            let all = [form, packer, &["--sparse", "-cf", name, "hole", "short"]].concat();
            run("tar", &all, dir.path());
            let archive = open(&dir.path().join(name)).unwrap();
            let target = dir.path().join("out");
            let unpack = everything_to(&target);
            let mut asked = 0_u64;
            let summary = unpack.run(&archive, &mut |_, _| {
                asked += 1;
                // A terabyte in pieces of a megabyte would be a million.
                asked < 1_000
            });
            let summary = summary.unwrap();
            assert!(!summary.interrupted && summary.failures.is_empty(), "{form:?} {name}: {asked} pieces");
            assert_eq!((summary.files, summary.bytes), (2, len + 8));
            let made = File::open(target.join("hole")).unwrap();
            let found = made.metadata().unwrap();
            assert!(found.len() == len && found.blocks() * 512 < 1 << 20, "{} blocks", found.blocks());
            let mut read = [1; 5002];
            made.read_exact_at(&mut read, middle - 1).unwrap();
            assert!(read[0] == 0 && read[1..5001] == [7; 5000] && read[5001] == 0);
            assert_eq!(fs::read(target.join("short")).unwrap(), b"after it");
            fs::remove_dir_all(&target).unwrap();
        }
    }
}

#[test]
fn unpacking_stops_inside_a_long_member_and_leaves_nothing_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let long: Vec<u8> =
        (0..8_000_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    fs::write(dir.path().join("long"), &long).unwrap();
    fs::write(dir.path().join("short"), "before it").unwrap();
    for (name, packer) in [("t.tar", "-cf"), ("t.tar.gz", "-czf")] {
        run("tar", &[packer, name, "short", "long"], dir.path());
        let archive = open(&dir.path().join(name)).unwrap();
        let target = dir.path().join("out");
        let unpack = everything_to(&target);
        let mut reported = vec![0];
        let summary = unpack.run(&archive, &mut |_, bytes| {
            reported.push(bytes);
            bytes < 16_000_000
        });
        assert!(summary.unwrap().interrupted, "{name}");
        assert!(reported.is_sorted() && reported.windows(2).all(|two| two[1] - two[0] <= 1 << 20), "{name}");
        assert!(*reported.last().unwrap() < 18_000_000, "{name}: it was asked once more at most");
        let there: Vec<_> = fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(there, ["short"], "{name}");
        fs::remove_dir_all(&target).unwrap();
    }
}
