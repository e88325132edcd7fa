//! Tars.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use proptest::prelude::*;
use stook::format::MemberKind;
use stook::format::tar::write::{Head, end, padding};

use super::{TIME, bytes_of, folder, in_memory, patched, put, refusal, script};
use stook::tree::CaseRule;

/// A tree with all that a tar has.
fn tree(place: &Path) {
    let at = |name: &str| place.join(name);
    fs::create_dir_all(at("d/e/empty")).unwrap();
    for (name, len) in [("a", 0), ("d/one", 1), ("d/e/block", 512), ("d/e/more", 513), ("z/long", 250_000)] {
        put(place, name, &(0..len).map(|at| (at % 251) as u8).collect::<Vec<u8>>());
    }
    put(place, &format!("d/{}", "n".repeat(150)), b"a long name");
    put(place, "d/ü", b"no ASCII");
    fs::hard_link(at("d/e/more"), at("y")).unwrap();
    symlink("e/more", at("d/link")).unwrap();
    symlink("t".repeat(180), at("d/far")).unwrap();
    let holes = fs::File::create(at("d/holes")).unwrap();
    holes.set_len(3 << 20).unwrap();
    std::os::unix::fs::FileExt::write_at(&holes, b"in the middle", 1 << 20).unwrap();
}

/// Tars of it by everybody's tar.
const TARS: [&str; 6] = [
    "tar -C x --format=pax -Sc . > t",
    "tar -C x --format=gnu -Sc . > t",
    "tar -C x --format=gnu -b1 -c $(ls x) > t",
    "tar -C x --format=pax --sparse-version=0.0 -Sc $(ls x) > t",
    "tar -C x --format=pax --pax-option=globexthdr.name=g,comment=all -c $(ls x) > t",
    "(tar -C x --format=ustar --exclude='n*' --exclude=far -c $(ls x); echo what follows the end) > t",
];

#[test]
fn a_tar_of_which_nothing_changes_is_the_same() {
    let place = tempfile::tempdir().unwrap();
    tree(&place.path().join("x"));
    let empty = folder(&[]);
    for tar in TARS {
        script(place.path(), tar);
        let before = fs::read(place.path().join("t")).unwrap();
        assert!(bytes_of(&before, &[empty.path()]) == before, "{tar}");
        assert!(bytes_of(&before, &[]) == before, "{tar}");
    }
    assert!(bytes_of(&[0; 10_240], &[]) == [0; 10_240]);
}

#[test]
fn a_patched_tar_is_unpacked_as_the_tree_with_the_folder_laid_over_it() {
    let place = tempfile::tempdir().unwrap();
    tree(&place.path().join("x"));
    let long = format!("d/{}", "n".repeat(150));
    for tar in TARS {
        script(place.path(), tar);
        let before = fs::read(place.path().join("t")).unwrap();
        let over = folder(&[
            ("d/one", b"another one, and longer"),
            ("d/e/block", b""),
            ("d/holes", &[3; 1000]),
            ("d/link", b"no link any more"),
            ("new/deep/er", &[7; 5000]),
            ("a.del", b""),
            ("z.del", b""),
        ]);
        fs::set_permissions(over.path().join("d/one"), fs::Permissions::from_mode(0o640)).unwrap();
        if !tar.contains("ustar") {
            put(over.path(), &long, b"still a long name");
        }
        fs::write(place.path().join("p"), bytes_of(&before, &[over.path()])).unwrap();
        let unpacked = "rm -rf y z; mkdir y z; tar xf t -C y; tar xf p -C z";
        script(place.path(), unpacked);
        let laid = format!("cp -rp {}/. y; rm -r y/a y/z y/a.del y/z.del", over.path().display());
        script(place.path(), &format!("rm y/d/link; {laid}; diff -r --no-dereference y z"));
        let meta = place.path().join("z/d/one").metadata().unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.mtime()), (0o640, TIME as i64), "{tar}");
        let ino = |name: &str| place.path().join(name).metadata().unwrap().ino();
        assert_eq!(ino("z/y"), ino("z/d/e/more"));
    }
}

/// A member, and what fills it up, as it is written before and after.
fn member(key: &str, kind: MemberKind, bytes: &[u8], link: &str) -> Vec<u8> {
    let head = Head {
        key: key.as_bytes(),
        kind,
        mode: 0o600,
        mtime_ns: 1_500_000_000,
        owner: Some((7, 8)),
        len: bytes.len() as u64,
        link: link.as_bytes(),
        xattrs: &[],
    };
    [head.encode(), bytes.to_vec(), padding(bytes.len() as u64)].concat()
}

/// The same of a file in a folder.
fn given(place: &Path, key: &str, bytes: &[u8]) -> Vec<u8> {
    let meta = place.metadata().unwrap();
    let head = Head {
        key: key.as_bytes(),
        kind: MemberKind::File,
        mode: 0o644,
        mtime_ns: TIME as i64 * 1_000_000_000,
        owner: Some((meta.uid(), meta.gid())),
        len: bytes.len() as u64,
        link: b"",
        xattrs: &[],
    };
    [head.encode(), bytes.to_vec(), padding(bytes.len() as u64)].concat()
}

/// The name of a member, and its bytes.
type Written = (u8, Vec<u8>);
/// The same of a file in a folder; with 0, it deletes the member.
type Wanted = (u8, Vec<u8>, u8);

/// Members of few names, some twice, and what becomes of each name.
fn case() -> impl Strategy<Value = (Vec<Written>, Vec<Wanted>)> {
    let len = || prop_oneof![0..5_usize, 505..520_usize, 1000..3000_usize];
    let bytes = move || (len(), 1..=u8::MAX).prop_map(|(len, byte)| vec![byte; len]);
    let members = prop::collection::vec((0..12_u8, bytes()), 0..10);
    let changes = prop::collection::vec((0..16_u8, bytes(), 0..3_u8), 0..8);
    (members, changes)
}

/// Names of any length, none of which is above another.
fn name(number: u8) -> String {
    match number % 3 {
        0 => format!("{number:02}"),
        1 => format!("d/{number:02}{}", "n".repeat(120)),
        _ => format!("d/e/{number:02}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_is_what_a_naive_builder_makes((members, changes) in case(), dotted in any::<bool>()) {
        let place = tempfile::tempdir().unwrap();
        let mode = fs::Permissions::from_mode(0o644);
        let mut wanted = std::collections::BTreeMap::new();
        for (number, bytes, what) in &changes {
            let key = name(*number);
            let is_there = members.iter().any(|member| member.0 == *number);
            if wanted.contains_key(&key) || (*what == 0 && !is_there) {
                continue;
            }
            if *what == 0 {
                put(place.path(), &format!("{key}.del"), b"");
                wanted.insert(key, None);
            } else {
                put(place.path(), &key, bytes);
                fs::set_permissions(place.path().join(&key), mode.clone()).unwrap();
                wanted.insert(key, Some(bytes.clone()));
            }
        }
        let stored = |key: &str| if dotted { format!("./{key}") } else { key.to_owned() };
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for (at, (number, bytes)) in members.iter().enumerate() {
            let key = name(*number);
            let old = member(&stored(&key), MemberKind::File, bytes, "");
            before.extend_from_slice(&old);
            let is_last = !members[at + 1..].iter().any(|later| later.0 == *number);
            match wanted.get(&key) {
                None => after.extend(old),
                Some(Some(bytes)) if is_last => after.extend(given(place.path(), &stored(&key), bytes)),
                Some(_) => {}
            }
        }
        // In the order of paths, name by name.
        let mut added: Vec<_> = wanted.iter().filter_map(|(key, bytes)| Some((key, bytes.as_ref()?))).collect();
        added.retain(|(key, _)| !members.iter().any(|member| name(member.0) == **key));
        for (key, bytes) in added {
            after.extend(given(place.path(), key, bytes));
        }
        let ending = end(before.len() as u64);
        before.extend_from_slice(&ending);
        after.extend(ending);
        prop_assert!(bytes_of(&before, &[place.path()]) == after);
    }
}

#[test]
fn hard_links_to_what_changes_are_refused_unless_they_change_too() {
    let tar = [
        member("d/file", MemberKind::File, b"bytes", ""),
        member("d/other", MemberKind::HardLink, b"", "d/file"),
        member("last", MemberKind::File, b"!", ""),
        vec![0; 1024],
    ]
    .concat();
    for (name, bytes) in [("d/file", "new"), ("d/file.del", "")] {
        let over = folder(&[(name, bytes.as_bytes())]);
        let said = refusal(&tar, &[over.path()]);
        assert!(said.contains("d/other") && said.contains("hard link to d/file"), "{said}");
        put(over.path(), "d/other", b"new, too");
        assert_eq!(bytes_of(&tar, &[over.path()]).len() % 512, 0);
    }
    let over = folder(&[("d.del", b""), ("d/other", b"in its place")]);
    let all = bytes_of(&tar, &[over.path()]);
    assert!(all == [given(over.path(), "d/other", b"in its place"), tar[3584..].to_vec()].concat());
    // The link alone.
    let over = folder(&[("d/other", b"no link")]);
    assert!(bytes_of(&tar, &[over.path()]).starts_with(&tar[..2048]));
}

#[test]
fn a_header_for_all_members_stays_and_what_it_says_is_not_said_of_other_files() {
    let place = tempfile::tempdir().unwrap();
    tree(&place.path().join("x"));
    let over = folder(&[("d/one", b"another"), ("a.del", b"")]);
    let comment = "tar -C x --format=pax --pax-option=globexthdr.name=g,comment=all -c a d > t";
    script(place.path(), comment);
    let before = fs::read(place.path().join("t")).unwrap();
    // The first member goes, and the header before it stays.
    assert_eq!(before[156], b'g');
    let after = bytes_of(&before, &[over.path()]);
    assert!(after[..1024] == before[..1024]);
    assert!(after[1024..2048] != before[1024..2048]);
    let time = comment.replace("comment=all", "mtime=7");
    script(place.path(), &time);
    let before = fs::read(place.path().join("t")).unwrap();
    let said = refusal(&before, &[over.path()]);
    assert!(said.contains("says something of all members") && said.contains("d/one"), "{said}");
    // Also of the member that it stands before.
    let first = folder(&[("a", b"another")]);
    assert!(refusal(&before, &[first.path()]).contains("says something of all members"));
    let less = folder(&[("a.del", b"")]);
    assert!(bytes_of(&before, &[less.path()]).len() < before.len());
}

#[test]
fn what_is_compressed_or_no_archive_is_refused() {
    let place = tempfile::tempdir().unwrap();
    tree(&place.path().join("x"));
    for (name, how) in [("gzip", "gzip"), ("bzip2", "bzip2"), ("xz", "xz")] {
        if std::process::Command::new(how).arg("--version").output().is_err() {
            continue;
        }
        script(place.path(), &format!("tar -C x -c . | {how} > t"));
        let said = refusal(&fs::read(place.path().join("t")).unwrap(), &[]);
        assert!(said.contains("compressed as a whole") && said.contains(name), "{said}");
    }
    for bytes in [&b""[..], b"text", &[1; 4000]] {
        assert!(refusal(bytes, &[]).contains("no tar, zip or AFS"));
    }
    assert!(patched(in_memory(&[0; 512]), &[], CaseRule::Exact).is_ok());
    // A member that is called like the beginning of another format.
    for key in ["AFS", "PK\u{3}\u{4}", "BZh"] {
        let tar = [member(key, MemberKind::File, b"bytes", ""), vec![0; 1024]].concat();
        assert!(bytes_of(&tar, &[]) == tar);
    }
}
