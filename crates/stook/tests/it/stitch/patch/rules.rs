//! What replaces, adds and deletes what, and that sources are what they were.

use std::fs;
use std::path::Path;

use stook::format::MemberKind;
use stook::format::tar::write::Head;
use stook::stitch::{Error, Layout as _, Patch};
use stook::tree::CaseRule;

use super::{folder, folders, in_memory, on_disk, patched, read_through};

/// A tar of empty files, directories, and symbolic links.
fn tar(keys: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    for key in keys {
        let (kind, key, link) = match (key.strip_suffix('/'), key.split_once('>')) {
            (Some(key), _) => (MemberKind::Directory, key, ""),
            (_, Some((key, link))) => (MemberKind::Symlink, key, link),
            _ => (MemberKind::File, *key, ""),
        };
        let (key, link) = (key.as_bytes(), link.as_bytes());
        let head = Head { key, kind, mode: 0o644, mtime_ns: 0, owner: None, len: 0, link, xattrs: &[] };
        out.extend(head.encode());
    }
    out.extend([0; 1024]);
    out
}

/// The members after a patch, those that come from a folder with their lengths; or why there is
/// none.
fn result(keys: &[&str], layers: &[&[&str]], case: CaseRule) -> Result<Vec<String>, String> {
    let places: Vec<tempfile::TempDir> = (1..)
        .zip(layers)
        .map(|(len, names)| folder(&names.iter().map(|name| (*name, &b"123456"[..len])).collect::<Vec<_>>()))
        .collect();
    let paths: Vec<&Path> = places.iter().map(tempfile::TempDir::path).collect();
    let laid = patched(in_memory(&tar(keys)), &paths, case).map_err(|error| error.to_string())?;
    read_through(&laid.file).unwrap();
    let shown = |member: &stook::stitch::Member| {
        let key = String::from_utf8_lossy(&member.key).into_owned();
        if member.is_kept() { key } else { format!("{key}={}", member.len) }
    };
    Ok(laid.members.all().iter().map(shown).collect())
}

#[test]
fn later_folders_count_more_and_deletions_are_of_what_was_before() {
    let keys = ["a", "d/", "d/x", "d/y", "e"];
    let cases: [(&[&[&str]], &[&str]); 13] = [
        (&[], &["a", "d", "d/x", "d/y", "e"]),
        (&[&["a", "n"]], &["a=1", "d", "d/x", "d/y", "e", "n=1"]),
        (&[&["a"], &["a"]], &["a=2", "d", "d/x", "d/y", "e"]),
        (&[&["a", "d/z"], &["d/z", "b"]], &["a=1", "d", "d/x", "d/y", "e", "b=2", "d/z=2"]),
        (&[&["a.del"]], &["d", "d/x", "d/y", "e"]),
        (&[&["a.del"], &["a"]], &["a=2", "d", "d/x", "d/y", "e"]),
        (&[&["a"], &["a.del"]], &["d", "d/x", "d/y", "e"]),
        (&[&["n"], &["n.del"]], &["a", "d", "d/x", "d/y", "e"]),
        (&[&["a.del"], &["a.del"]], &["d", "d/x", "d/y", "e"]),
        (&[&["d.del"]], &["a", "e"]),
        (&[&["d.del", "d/y", "d/n"]], &["a", "d/y=1", "e", "d/n=1"]),
        (&[&["d/x", "d/n"], &["d.del"], &["d/y"]], &["a", "d/y=3", "e"]),
        (&[&["d.del"], &["d"]], &["a", "e", "d=2"]),
    ];
    for (layers, wanted) in cases {
        assert_eq!(result(&keys, layers, CaseRule::Exact).unwrap(), wanted, "{layers:?}");
    }
    // What is no directory by itself, and names that look like deletions.
    assert_eq!(result(&["d/x", "d/y", "e"], &[&["d.del"]], CaseRule::Exact).unwrap(), ["e"]);
    assert_eq!(result(&["x.del", "x"], &[&["x.del.del"]], CaseRule::Exact).unwrap(), ["x"]);
    assert_eq!(result(&["x.del", "x"], &[&["x.del"]], CaseRule::Exact).unwrap(), ["x.del"]);
    // Several members of one name.
    assert_eq!(result(&["a", "b", "a", "c"], &[&["a"]], CaseRule::Exact).unwrap(), ["b", "a=1", "c"]);
}

#[test]
fn case_is_a_rule() {
    let keys = ["Data/Map.txt", "data/other", "a", "A"];
    let of = |layers: &[&[&str]], case| result(&keys, layers, case).unwrap();
    let exact = ["Data/Map.txt", "data/other", "a=1", "A", "data/map.TXT=1"];
    assert_eq!(of(&[&["data/map.TXT", "a"]], CaseRule::Exact), exact);
    assert_eq!(of(&[&["data/map.TXT", "a"]], CaseRule::Ignored), ["Data/Map.txt=1", "data/other", "A=1"]);
    assert_eq!(of(&[&["DATA.DEL"]], CaseRule::Ignored), ["a", "A"]);
    assert_eq!(of(&[&["DATA.DEL"]], CaseRule::Exact).len(), 5, "it is a file with such a name");
    let said = result(&keys, &[&["n", "N"]], CaseRule::Ignored).unwrap_err();
    assert!(said.contains("the same member"), "{said}");
}

#[test]
fn what_contradicts_itself_or_the_archive_is_refused_and_named() {
    let keys = ["a", "d/", "d/x", "i/x", "link>d"];
    let cases: [(&[&[&str]], &[&str]); 12] = [
        (&[&["b.del"]], &["b.del", "no member b "]),
        (&[&["d/b.del"]], &["d/b.del", "no member d/b "]),
        (&[&["A.del"]], &["no member A "]),
        (&[&["a", "a.del"]], &["a: ", "a.del"]),
        (&[&[".del"]], &["no name"]),
        (&[&["d/.del"]], &["no name"]),
        (&[&["d"]], &["d: ", "directory"]),
        (&[&["i"]], &["i: ", "i/x"]),
        (&[&["a/n"]], &["a/n", "a is no directory"]),
        (&[&["link/n"]], &["link/n", "link is no directory"]),
        (&[&["n"], &["n/m"]], &["n/m", "n is a file"]),
        (&[&["n/m"], &["n"]], &["n/m", "n is a file"]),
    ];
    for (layers, parts) in cases {
        let said = result(&keys, layers, CaseRule::Exact).unwrap_err();
        assert!(parts.iter().all(|part| said.contains(part)), "{layers:?}: {said}");
    }
    let over = folder(&[]);
    std::os::unix::fs::symlink("x", over.path().join("a")).unwrap();
    let said = patched(in_memory(&tar(&keys)), &[over.path()], CaseRule::Exact).unwrap_err().to_string();
    assert!(said.starts_with("a: ") && said.contains("link"), "{said}");
}

#[test]
fn the_caller_may_end_it() {
    let tar = tar(&["a"; 3000]);
    let mut asked = Vec::new();
    let opened = Patch::open(in_memory(&tar), CaseRule::Exact, &mut |members| {
        asked.push(members);
        members < 2000
    });
    assert!(matches!(opened, Err(Error::Interrupted)), "{opened:?}");
    assert_eq!(asked, [0, 1024, 2048]);
}

/// A tar, a zip and an AFS with two members.
fn archives(place: &Path) -> Vec<std::path::PathBuf> {
    let script = "printf aaaa > a; head -c 2000000 /dev/zero > b; tar cf x.tar a b; zip -q x.zip a b";
    super::script(place, script);
    let detail = |name: &[u8]| stook::format::afs::Detail::new(name, 0, 4).unwrap();
    let bodies = [Some(b"aaaa".to_vec()), Some(vec![0; 2_000_000])];
    let afs = crate::afs::written(&bodies, Some(&[detail(b"a"), detail(b"b")]));
    fs::write(place.join("x.afs"), afs).unwrap();
    ["x.tar", "x.zip", "x.afs"].map(|name| place.join(name)).to_vec()
}

#[test]
fn a_replacement_or_an_archive_that_is_not_what_it_was_is_an_error_that_names_it() {
    let place = tempfile::tempdir().unwrap();
    for path in archives(place.path()) {
        let over = folder(&[("a", &[1; 700_000])]);
        let lay_out = || {
            let patch = Patch::open(on_disk(&path), CaseRule::Exact, &mut |_| true).unwrap();
            patch.lay_out("patched".into(), folders(&[over.path()])).unwrap()
        };
        let laid = lay_out();
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(over.path().join("a"), vec![2; 700_000]).unwrap();
        let said = stook::error::chain(&read_through(&laid.file).unwrap_err());
        assert!(said.contains(&*over.path().join("a").to_string_lossy()), "{said}");
        // And now the archive.
        let laid = lay_out();
        read_through(&laid.file).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let said = stook::error::chain(&read_through(&laid.file).unwrap_err());
        assert!(said.contains(&*path.to_string_lossy()), "{said}");
    }
}

#[test]
fn one_patch_is_laid_out_with_any_folders() {
    let place = tempfile::tempdir().unwrap();
    for path in archives(place.path()) {
        let before = fs::read(&path).unwrap();
        let patch = Patch::open(on_disk(&path), CaseRule::Exact, &mut |_| true).unwrap();
        assert_eq!(Some(patch.ending()), path.extension().and_then(|ending| ending.to_str()));
        let over = folder(&[("b.del", b"")]);
        let laid = patch.lay_out("one".into(), folders(&[over.path()])).unwrap();
        assert_eq!((laid.members.all().len(), &*laid.members.all()[0].key), (1, &b"a"[..]));
        assert!(laid.members.open(0).is_err(), "it stays in the archive");
        let laid = patch.lay_out("two".into(), folders(&[])).unwrap();
        assert!(read_through(&laid.file).unwrap() == before);
        assert_eq!(laid.file.pieces(), if path.ends_with("x.afs") { 2 } else { 1 });
    }
}
