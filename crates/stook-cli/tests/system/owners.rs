//! Owners in packs: only root restores them, and no user gets permissions that were meant for
//! others.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown};
use std::path::{Path, PathBuf};

use super::program::{Home, SOMEBODY, ended};
use super::trees::{assert_same, nasty};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Everything below a directory, and itself.
fn below(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.to_path_buf()];
    if root.symlink_metadata().unwrap().is_dir() {
        found.extend(fs::read_dir(root).unwrap().flat_map(|entry| below(&entry.unwrap().path())));
    }
    found
}

/// A tree in which hardly anything belongs to the same user and group as its neighbour.
fn foreign(root: &Path) {
    nasty(root);
    fs::write(root.join("theirs"), "set-user-id of somebody").unwrap();
    for (number, path) in (0..).zip(below(root)) {
        let mode = path.symlink_metadata().unwrap().mode();
        lchown(&path, Some(1234 + number % 5), Some(5678 + number % 3)).unwrap();
        if !path.is_symlink() {
            // A new owner takes set-user-id away.
            set_mode(&path, mode & 0o7777);
        }
    }
    lchown(root.join("theirs"), Some(SOMEBODY), Some(5678)).unwrap();
    set_mode(&root.join("theirs"), 0o6755);
    set_mode(&root.join("a/b"), 0o2775);
}

/// Owner, group and mode of everything below a directory, links with mode 0.
fn rights(root: &Path) -> BTreeMap<PathBuf, (u32, u32, u32)> {
    let of = |path: &PathBuf| {
        let meta = path.symlink_metadata().unwrap();
        (meta.uid(), meta.gid(), if meta.is_symlink() { 0 } else { meta.mode() & 0o7777 })
    };
    let all = below(root);
    all.iter().map(|path| (path.strip_prefix(root).unwrap().to_path_buf(), of(path))).collect()
}

fn packed() -> Home {
    let home = Home::new();
    foreign(&home.path("tree"));
    assert_eq!(ended(&mut home.root(["pack", "tree", "p.stook"])).0, 0);
    home
}

#[test]
fn root_gives_everything_back_to_its_owner() {
    let home = packed();
    let (code, _, stderr) = ended(&mut home.root(["unpack", "p.stook", "out"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    let owners: std::collections::BTreeSet<_> = rights(&home.path("out")).values().map(|of| of.0).collect();
    assert!(owners.len() >= 6, "{owners:?}");
    assert_same(&home.path("tree"), &home.path("out"));
    // A change of owner alone is a change, also of a link and of a directory.
    for name in ["link", "empty", "a/b/empty"] {
        lchown(home.path("tree").join(name), Some(77), Some(78)).unwrap();
    }
    let (code, stdout, _) = ended(&mut home.root(["pack", "tree", "p.stook"]));
    assert!(code == 0 && stdout.starts_with("Packed 1 file, 1 directory, 1 link"), "{stdout}");
    assert_eq!(ended(&mut home.root(["unpack", "p.stook", "again"])).0, 0);
    assert_same(&home.path("tree"), &home.path("again"));
}

#[test]
fn who_is_not_root_gets_everything_but_no_rights_that_were_meant_for_others() {
    let home = packed();
    let (code, _, stderr) = ended(&mut home.somebody(["unpack", "p.stook", "out"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    let (tree, out) = (rights(&home.path("tree")), rights(&home.path("out")));
    assert!(tree.keys().eq(out.keys()), "{out:?}");
    for (path, (uid, gid, mode)) in &out {
        assert_eq!((*uid, *gid), (SOMEBODY, SOMEBODY), "{path:?}");
        let packed = tree[path];
        // The set-id bits say whose rights a program gets: who they were not meant for does not
        // have them.
        let kept = if packed.0 == SOMEBODY { 0o5777 } else { 0o1777 };
        assert_eq!(*mode, packed.2 & kept, "{path:?} was {:o}", packed.2);
    }
    let bits = |name: &str| (tree[Path::new(name)].2 & 0o6000, out[Path::new(name)].2 & 0o6000);
    assert_eq!((bits("a/plain"), bits("a/b")), ((0o4000, 0), (0o2000, 0)));
    assert_eq!(bits("theirs"), (0o6000, 0o4000), "their own program, of another group");
}

#[test]
fn root_that_keeps_everything_for_itself_drops_set_id_bits() {
    let home = packed();
    assert_eq!(ended(&mut home.root(["unpack", "p.stook", "out", "--no-owner"])).0, 0);
    let tree = rights(&home.path("tree"));
    for (path, (uid, gid, mode)) in rights(&home.path("out")) {
        assert_eq!((uid, gid, mode), (0, 0, tree[&path].2 & 0o1777), "{path:?}");
    }
}

#[test]
fn what_one_packed_who_is_not_root_comes_back_with_all_bits() {
    let home = Home::new();
    nasty(&home.path("tree"));
    set_mode(&home.path("tree/a/b"), 0o2775);
    for path in below(&home.path("tree")) {
        let mode = path.symlink_metadata().unwrap().mode();
        lchown(&path, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
        if !path.is_symlink() {
            set_mode(&path, mode & 0o7777);
        }
    }
    assert_eq!(ended(&mut home.somebody(["pack", "tree", "p.stook"])).0, 0);
    let (code, _, stderr) = ended(&mut home.somebody(["unpack", "p.stook", "out"]));
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert_same(&home.path("tree"), &home.path("out"));
}

/// The set-id bits of a file.
fn set_id(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o6000
}

#[test]
fn set_id_bits_without_a_recorded_owner_are_nobodys() {
    let home = Home::new();
    fs::create_dir(home.path("tree")).unwrap();
    fs::write(home.path("tree/program"), "whose?").unwrap();
    set_mode(&home.path("tree/program"), 0o6755);
    // A record that was put from a file has its mode, and no owner; a zip has none either.
    assert_eq!(ended(&mut home.root(["put", "p.stook", "program", "tree/program"])).0, 0);
    let zip = "import sys, zipfile\n\
        info = zipfile.ZipInfo('program')\n\
        info.external_attr = 0o106755 << 16\n\
        zipfile.ZipFile(sys.argv[1], 'w').writestr(info, 'whose?')\n";
    let made = std::process::Command::new("python3").args(["-c", zip]).arg(home.path("x.zip")).status();
    assert!(made.unwrap().success());
    set_mode(&home.path("x.zip"), 0o644);
    for from in ["p.stook", "x.zip"] {
        for (who, mut unpack) in [
            ("root", home.root(["unpack", from, &format!("{from}-root")])),
            ("nobody", home.somebody(["unpack", from, &format!("{from}-nobody")])),
        ] {
            let (code, _, stderr) = ended(&mut unpack);
            assert_eq!((code, stderr.as_str()), (0, ""), "{from} by {who}");
            let program = home.path(format!("{from}-{who}")).join("program");
            assert_eq!(set_id(&program), 0, "{from} by {who}");
            assert_eq!(program.metadata().unwrap().mode() & 0o777, 0o755, "{from} by {who}");
        }
    }
    // And in a tar, where a program without an owner is root's.
    assert_eq!(ended(&mut home.root(["unpack", "p.stook", "--tar", "out.tar"])).0, 0);
    let tar = fs::read(home.path("out.tar")).unwrap();
    // The last: a header of records may have the name, too.
    let at = tar.windows(7).rposition(|name| name == b"program").unwrap();
    assert_eq!(&tar[at + 100..at + 107], b"0000755", "{:?}", String::from_utf8_lossy(&tar[at..at + 512]));
}
