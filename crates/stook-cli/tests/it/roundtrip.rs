//! `stook pack` and `stook unpack`: what goes in comes out, and nothing else.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use stook::pack::{Attributes, FileKind, Key};

use super::packs::Place;
use super::trees::{assert_same, nasty, noise};
use super::{ended, stook};

/// `stook pack ARGS…` in a place, as JSON.
fn pack(place: &Place, args: &[&str]) -> (i32, serde_json::Value) {
    let mut command = stook(["pack", "--json"]);
    let (code, stdout, stderr) = ended(command.args(args).current_dir(place.dir.path()));
    (code, serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}{stderr}")))
}

fn unpack(place: &Place, args: &[&str]) -> (i32, String, String) {
    place.run("unpack", args)
}

#[test]
fn a_nasty_tree_comes_out_as_it_went_in() {
    let place = Place::new();
    nasty(&place.path("tree"));
    let (code, report) = pack(&place, &["tree", "p.stook"]);
    assert_eq!((code, &report["complete"]), (0, &true.into()));
    assert_eq!((&report["hard_links"], &report["symlinks"]), (&2.into(), &5.into()));
    assert_eq!(place.run("check", &[]).0, 0);
    assert_eq!(unpack(&place, &["out"]).0, 0);
    assert_same(&place.path("tree"), &place.path("out"));
}

/// Before: `pack` held an object with that field in it.
#[test]
fn a_report_names_its_pack() {
    let place = Place::new();
    fs::create_dir(place.path("tree")).unwrap();
    let (code, report) = pack(&place, &["tree", "p.stook"]);
    assert_eq!((code, &report["pack"]), (0, &"p.stook".into()), "{report}");
    let (_, report) = pack(&place, &["tree", "p.stook", "--dry-run"]);
    assert_eq!(report["pack"], "p.stook", "{report}");
}

#[test]
fn segments_and_groups_do_not_change_what_comes_out() {
    for how in ["top", "hash:5", "none"] {
        let place = Place::new();
        nasty(&place.path("tree"));
        let (code, _) = pack(&place, &["tree", "p.stook", "--group-by", how, "--segment-size", "1MiB"]);
        assert_eq!(code, 0);
        assert_eq!(place.run("check", &[]).0, 0);
        assert_eq!(unpack(&place, &["out"]).0, 0);
        assert_same(&place.path("tree"), &place.path("out"));
    }
    let place = Place::new();
    fs::create_dir(place.path("tree")).unwrap();
    let wrong = ended(stook(["pack", "tree", "p.stook", "--group-by", "size"]).current_dir(place.dir.path()));
    assert_eq!(wrong.0, 2, "{}", wrong.2);
}

#[test]
fn a_second_run_adds_only_what_is_new_or_changed() {
    let place = Place::new();
    let tree = place.path("tree");
    nasty(&tree);
    let (_, first) = pack(&place, &["tree", "p.stook"]);
    let (code, again) = pack(&place, &["tree", "p.stook"]);
    let added = |report: &serde_json::Value| {
        ["files", "directories", "symlinks", "hard_links"].map(|name| report[name].as_u64().unwrap())
    };
    assert_eq!((code, added(&again)), (0, [0; 4]));
    assert_eq!(again["unchanged"].as_u64().unwrap(), added(&first).iter().sum::<u64>());
    // The same length and a new time; new bytes in a large file; a new file; another target;
    // another mode.
    fs::write(tree.join("a/plain"), b"TEXT").unwrap();
    fs::write(tree.join("a/b/c/3000000"), noise(99, 2_999_999)).unwrap();
    fs::write(tree.join("sticky/new"), b"new").unwrap();
    fs::remove_file(tree.join("link")).unwrap();
    symlink("a/other", tree.join("link")).unwrap();
    let (code, changed) = pack(&place, &["tree", "p.stook"]);
    assert_eq!((code, changed["files"].as_u64(), changed["symlinks"].as_u64()), (0, Some(3), Some(1)));
    assert_eq!(place.run("check", &[]).0, 0);
    assert_eq!(unpack(&place, &["out"]).0, 0);
    assert_same(&tree, &place.path("out"));
}

#[test]
fn a_killed_run_goes_on_where_it_stopped() {
    let place = Place::new();
    let tree = place.path("tree");
    for dir in 0..40 {
        fs::create_dir_all(tree.join(dir.to_string())).unwrap();
        for file in 0..50 {
            let seed = dir * 50 + file;
            fs::write(tree.join(format!("{dir}/{file}")), noise(seed, 3_000 + seed as usize * 7)).unwrap();
        }
    }
    fs::write(tree.join("large"), noise(1, 40 << 20)).unwrap();
    let mut killed = 0;
    for attempt in 0..12 {
        let mut command = stook(["pack", "tree", "p.stook", "--segment-size", "8M"]);
        let mut child =
            command.current_dir(place.dir.path()).stdout(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(4 + attempt * 13));
        child.kill().unwrap();
        killed += u32::from(child.wait().unwrap().code().is_none());
        if place.pack.join("manifest-0000000000000001").exists() {
            let checked = place.run("check", &[]);
            assert!(checked.1.contains("no damage"), "{}{}", checked.1, checked.2);
            // Nothing is damaged, and anything may be missing.
            let is_incomplete = checked.2.contains("is incomplete");
            assert_eq!(checked.0, i32::from(is_incomplete), "{}{}", checked.1, checked.2);
        }
    }
    assert!(killed > 0, "every run ended before it was killed");
    let (code, report) = pack(&place, &["tree", "p.stook"]);
    assert_eq!((code, &report["complete"]), (0, &true.into()));
    assert_eq!(place.run("check", &[]).0, 0);
    assert_eq!(place.run("load", &[]).0, 0);
    assert_eq!(unpack(&place, &["out"]).0, 0);
    assert_same(&tree, &place.path("out"));
}

#[test]
fn an_incomplete_pack_says_so() {
    let place = Place::new();
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree/file"), b"x").unwrap();
    drop(place.writer());
    assert_eq!(place.run("load", &[]).0, 1);
    assert_eq!(pack(&place, &["tree", "p.stook"]).0, 0);
    assert_eq!(place.run("load", &[]).0, 0);
}

/// Before: it was left out with exit code 0, and an empty pack was made, which called itself
/// complete.
#[test]
fn a_special_file_that_is_named_itself_is_an_error_and_leaves_no_pack() {
    let place = Place::new();
    fs::create_dir(place.path("tree")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(place.path("pipe")).status().unwrap().success());
    symlink("pipe", place.path("link")).unwrap();
    for sources in [&["pipe"][..], &["link"], &["/dev/null"], &["tree", "pipe"]] {
        for more in [&[][..], &["--dry-run"]] {
            let args = [&["pack"][..], sources, &["new"], more].concat();
            let (code, stdout, stderr) = ended(stook(&args).current_dir(place.dir.path()));
            assert_eq!((code, stdout.as_str()), (1, ""), "{args:?}: {stderr}");
            assert!(stderr.contains("packs hold directories, files and links"), "{args:?}: {stderr}");
            assert!(!place.path("new").exists(), "{args:?}");
        }
    }
}

#[test]
fn special_files_are_named_and_left_out() {
    let place = Place::new();
    fs::create_dir(place.path("tree")).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(place.path("tree/pipe")).status().unwrap();
    assert!(fifo.success());
    let _socket = std::os::unix::net::UnixListener::bind(place.path("tree/socket")).unwrap();
    let (code, report) = pack(&place, &["tree", "p.stook"]);
    assert_eq!((code, report["special"].as_array().unwrap().len()), (0, 2));
    assert_eq!(place.run("ls", &[]).1.lines().count(), 1);
}

#[test]
fn patterns_choose_on_the_way_in_and_on_the_way_out() {
    let place = Place::new();
    for name in ["keep.txt", "drop.tmp", "sub/keep.txt", "sub/drop.tmp", "cache/keep.txt"] {
        let path = place.path("tree").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    assert_eq!(pack(&place, &["tree", "p.stook", "--exclude", "*.tmp", "--exclude", "/cache"]).0, 0);
    let (_, listed, _) = place.run("ls", &[]);
    assert!(
        !listed.contains("tmp") && !listed.contains("cache") && listed.contains("sub/keep.txt"),
        "{listed}"
    );
    assert_eq!(unpack(&place, &["out", "--include", "sub/*"]).0, 0);
    assert!(place.path("out/sub/keep.txt").exists() && !place.path("out/keep.txt").exists());
    assert_eq!(unpack(&place, &["more", "--prefix", "keep"]).0, 0);
    assert!(place.path("more/keep.txt").exists() && !place.path("more/sub").exists());
    assert_eq!(unpack(&place, &["none", "--group", "misspelt"]).0, 1);
}

#[test]
fn a_dry_run_counts_and_changes_nothing() {
    let place = Place::new();
    nasty(&place.path("tree"));
    let (code, dry) = pack(&place, &["tree", "p.stook", "--dry-run"]);
    assert!(code == 0 && !place.pack.exists());
    let (_, real) = pack(&place, &["tree", "p.stook"]);
    for name in ["files", "directories", "symlinks", "hard_links", "bytes"] {
        assert_eq!(dry[name], real[name], "{name}");
    }
    let (_, again) = pack(&place, &["tree", "p.stook", "--dry-run"]);
    assert_eq!((&again["files"], &again["unchanged"]), (&0.into(), &real_total(&real).into()));
}

fn real_total(report: &serde_json::Value) -> u64 {
    ["files", "directories", "symlinks", "hard_links"].iter().map(|name| report[name].as_u64().unwrap()).sum()
}

#[test]
fn a_pack_inside_its_tree_does_not_pack_itself() {
    let place = Place::new();
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree/file"), b"x").unwrap();
    for _ in 0..2 {
        assert_eq!(pack(&place, &["tree", "tree/p.stook"]).0, 0);
    }
    let (_, listed, _) = ended(stook(["ls", "tree/p.stook"]).current_dir(place.dir.path()));
    assert!(!listed.contains("segment") && !listed.contains("p.stook"), "{listed}");
}

#[test]
fn several_roots_keep_their_names_and_missing_ones_are_an_error() {
    let place = Place::new();
    for name in ["one", "two"] {
        fs::create_dir(place.path(name)).unwrap();
        fs::write(place.path(name).join("file"), name).unwrap();
    }
    assert_eq!(pack(&place, &["one", "two", "p.stook"]).0, 0);
    assert_eq!(place.run("get", &["two/file"]).1, "two");
    let missing = ended(stook(["pack", "three", "q.stook"]).current_dir(place.dir.path()));
    assert!(missing.0 != 0 && missing.2.contains("three") && !place.path("q.stook").exists(), "{missing:?}");
}

#[test]
fn existing_files_are_kept_unless_told_otherwise() {
    let place = Place::filled();
    fs::create_dir_all(place.path("out/a")).unwrap();
    fs::write(place.path("out/a/one"), b"mine").unwrap();
    // The pack holds a number for a key, which is no path.
    let (code, _, stderr) = unpack(&place, &["out"]);
    assert_eq!((code, fs::read(place.path("out/a/one")).unwrap()), (1, b"mine".to_vec()));
    assert!(stderr.contains("a/one is there with other content") && stderr.contains("id:7"), "{stderr}");
    assert_eq!(unpack(&place, &["out", "--overwrite", "always"]).0, 1);
    assert_eq!(fs::read(place.path("out/a/one")).unwrap(), b"first of all");
}

#[test]
fn a_damaged_record_leaves_nothing_and_the_rest_comes_out() {
    let place = Place::filled();
    place.hurt(&Key::bytes("long").unwrap(), 70_000);
    let (code, _, stderr) = unpack(&place, &["out"]);
    assert!(code == 1 && stderr.contains("long") && stderr.contains("offset"), "{stderr}");
    assert!(!place.path("out/long").exists() && place.path("out/a/two").exists());
    let names: Vec<_> =
        fs::read_dir(place.path("out")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.as_bytes().starts_with(b".stook")), "{names:?}");
}

/// Packs whose records try to get out of the target.
#[test]
fn nothing_is_written_outside_the_target() {
    let place = Place::new();
    let mut writer = place.writer();
    let of = |kind| Attributes::of_file(kind, 0o644, 0, None);
    let outside = place.path("outside");
    let absolute = outside.as_os_str().as_bytes().to_vec();
    let mut put = |key: &[u8], kind, body: &[u8]| {
        writer.put("", &Key::bytes(key).unwrap(), &of(kind), body).unwrap();
    };
    for key in
        [&b"../outside"[..], b"a/../../outside", &absolute, b"./x", b"a//b", b"trailing/", b"..", b"nul\0"]
    {
        put(key, FileKind::File, b"owned");
    }
    put(&[b"x/".as_slice(), &[b'n'; 256]].concat(), FileKind::File, b"name too long");
    // A link that leads out, and things that want to go through it.
    put(b"door", FileKind::Symlink, place.dir.path().as_os_str().as_bytes());
    put(b"door/outside", FileKind::File, b"owned");
    put(b"door/outside-directory", FileKind::Directory, b"");
    put(b"up", FileKind::Symlink, b"..");
    put(b"up/outside", FileKind::File, b"owned");
    // Hard links to what is not of the pack.
    put(b"shadow", FileKind::HardLink, b"/etc/passwd");
    put(b"shadow2", FileKind::HardLink, b"../secret");
    put(b"shadow3", FileKind::HardLink, b"door/secret");
    put(b"good", FileKind::File, b"good");
    writer.set_complete(true);
    writer.finish(true).unwrap();
    fs::write(place.path("secret"), b"secret").unwrap();

    for more in [&[][..], &["--overwrite", "always"]] {
        let (code, _, stderr) = unpack(&place, &[&["out"], more].concat());
        assert_eq!(code, 1, "{stderr}");
        assert_eq!(fs::read(place.path("out/good")).unwrap(), b"good");
        assert!(!outside.exists() && !place.path("outside-directory").exists(), "{stderr}");
        for name in ["shadow", "shadow2", "shadow3"] {
            assert!(!place.path("out").join(name).exists(), "{name}");
        }
        let mut there: Vec<_> =
            fs::read_dir(place.dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        there.sort();
        assert_eq!(there, ["out", "p.stook", "secret"], "{stderr}");
    }
}

#[test]
fn a_link_planted_in_the_target_is_not_followed() {
    let place = Place::new();
    fs::create_dir_all(place.path("tree/sub")).unwrap();
    fs::write(place.path("tree/sub/file"), b"x").unwrap();
    assert_eq!(pack(&place, &["tree", "p.stook"]).0, 0);
    fs::create_dir(place.path("elsewhere")).unwrap();
    fs::create_dir(place.path("out")).unwrap();
    symlink(place.path("elsewhere"), place.path("out/sub")).unwrap();
    let (code, _, stderr) = unpack(&place, &["out", "--overwrite", "always"]);
    assert!(code == 1 && stderr.contains("sub"), "{stderr}");
    assert_eq!(fs::read_dir(place.path("elsewhere")).unwrap().count(), 0);
}

#[test]
fn four_gigabytes_of_nothing_cost_no_space() {
    let place = Place::new();
    fs::create_dir(place.path("tree")).unwrap();
    let len = (1 << 32) + 1;
    fs::File::create(place.path("tree/hole")).unwrap().set_len(len).unwrap();
    assert_eq!(pack(&place, &["tree", "p.stook"]).0, 0);
    assert_eq!(unpack(&place, &["out"]).0, 0);
    let space = |path: &Path| std::os::unix::fs::MetadataExt::blocks(&path.metadata().unwrap()) * 512;
    assert_eq!(place.path("out/hole").metadata().unwrap().len(), len);
    assert!(space(&place.path("out/hole")) < 1 << 20);
    let packed: u64 = fs::read_dir(&place.pack).unwrap().map(|entry| space(&entry.unwrap().path())).sum();
    assert!(packed < 4 << 20, "{packed}");
}
