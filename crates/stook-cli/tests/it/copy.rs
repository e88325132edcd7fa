//! `stook copy`.

use std::fs;

use serde_json::Value;

use super::packs::{Place, documented};
use super::stook;

/// A place with a tree to copy.
fn place() -> Place {
    let place = Place::new();
    fs::create_dir_all(place.path("card/d")).unwrap();
    fs::write(place.path("card/d/one"), "first").unwrap();
    fs::write(place.path("card/big"), vec![7; 1_000_000]).unwrap();
    fs::write(place.path("notes"), "n").unwrap();
    place
}

fn copy(place: &Place, args: &[&str]) -> (i32, String, String) {
    super::ended(stook(["copy"]).args(args).current_dir(place.dir.path()))
}

fn report(place: &Place, args: &[&str]) -> (i32, Value) {
    let (code, stdout, stderr) = copy(place, &[args, &["--json"]].concat());
    let report = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout} {stderr}"));
    documented("copy", &report);
    (code, report)
}

#[test]
fn the_four_cases_of_the_help_go_where_it_says() {
    let place = place();
    assert_eq!(super::ended(stook(["pack", "card", "p.stook"]).current_dir(place.dir.path())).0, 0);
    let (code, stdout, stderr) = copy(&place, &["card/", "disk", "--to", "spare"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("Copied 2 files") && stdout.contains("to spare"), "{stdout}");
    assert_eq!(copy(&place, &["card", "notes", "both"]).0, 0);
    assert_eq!(copy(&place, &["notes", "file"]).0, 0);
    let (code, stdout, _) = copy(&place, &["p.stook", "packed"]);
    assert_eq!(code, 0);
    assert!(stdout.contains("Copied 2 files"), "{stdout}");
    for name in ["disk/d/one", "spare/d/one", "both/card/d/one", "packed/d/one"] {
        assert_eq!(fs::read(place.path(name)).unwrap(), b"first", "{name}");
    }
    for name in ["both/notes", "file/notes"] {
        assert_eq!(fs::read(place.path(name)).unwrap(), b"n", "{name}");
    }
    assert_eq!(copy(&place, &["p.stook//d", "part", "--hash", "xxh3"]).0, 0);
    assert_eq!(fs::read(place.path("part/one")).unwrap(), b"first");
}

#[test]
fn archives_are_files_unless_two_slashes_follow() {
    let place = place();
    let mut tar = std::process::Command::new("tar");
    assert!(
        tar.args(["cf", "x.tar", "-C", "card", "."])
            .current_dir(place.dir.path())
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(copy(&place, &["x.tar", "as-file"]).0, 0);
    assert!(place.path("as-file/x.tar").is_file());
    assert_eq!(copy(&place, &["x.tar//", "inside"]).0, 0);
    assert_eq!(fs::read(place.path("inside/d/one")).unwrap(), b"first");
    assert_eq!(copy(&place, &["x.tar//", "one", "--to", "two"]).0, 0);
    assert_eq!(fs::read(place.path("two/big")).unwrap().len(), 1_000_000);
    let (code, _, stderr) = copy(&place, &["x.tar//missing", "none"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("has no missing"), "{stderr}");
}

#[test]
fn what_is_kept_is_named_and_a_dry_run_says_what_and_why() {
    let place = place();
    assert_eq!(copy(&place, &["card", "disk"]).0, 0);
    fs::write(place.path("disk/d/one"), "mine").unwrap();
    fs::write(place.path("disk/extra"), "x").unwrap();
    let (code, _, stderr) = copy(&place, &["card", "disk"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("disk/d/one is there with other content, and was kept"), "{stderr}");
    let mirror = ["card", "disk", "--overwrite", "different", "--mirror"];
    let (code, stdout, _) = copy(&place, &[&mirror[..], &["--dry-run"]].concat());
    assert_eq!(code, 0);
    assert_eq!(stdout, "copy      length   d/one\ndelete    extra    extra\n");
    let (_, dry) = report(&place, &[&mirror[..], &["--dry-run"]].concat());
    assert_eq!((dry["items"].as_array().unwrap().len(), &dry["dry_run"]), (2, &true.into()));
    let (code, done) = report(&place, &mirror);
    assert_eq!(code, 0);
    let one = &done["destinations"][0];
    assert_eq!((&one["files"], &one["unchanged"]), (&1.into(), &1.into()));
    assert_eq!(one["deleted"][0]["key"], "extra");
    assert!(!place.path("disk/extra").exists());
    assert_eq!(fs::read(place.path("disk/d/one")).unwrap(), b"first");
}

#[test]
fn lists_say_what_is_copied_and_what_they_name_has_to_be_there() {
    let place = place();
    fs::write(place.path("list"), "d/\n./missing\n").unwrap();
    let (code, _, stderr) = copy(&place, &["card", "disk", "--files-from", "list"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("missing"), "{stderr}");
    assert!(place.path("disk/d/one").exists() && !place.path("disk/big").exists());
}

/// As in the study, where each of these made every copy empty, with exit code 0.
#[test]
fn sizes_that_mean_nothing_are_refused() {
    let place = place();
    for size in ["0", "abc", "128 k k", "1000", "-1", "1T"] {
        let (code, _, stderr) = copy(&place, &["card", "disk", "--block-size", size]);
        assert_eq!(code, 2, "{size}: {stderr}");
        assert!(stderr.contains("--block-size"), "{size}: {stderr}");
    }
    assert!(!place.path("disk").exists());
    assert_eq!(copy(&place, &["card", "disk", "--block-size", "128K"]).0, 0);
    assert_eq!(fs::read(place.path("disk/big")).unwrap(), vec![7; 1_000_000]);
}

#[test]
fn what_cannot_be_meant_is_refused_with_a_reason() {
    let place = place();
    let (code, _, stderr) = copy(&place, &["card", "card/new"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("is inside card, which is to be copied"), "{stderr}");
    let (code, _, stderr) = copy(&place, &["notes", "."]);
    assert_eq!(code, 1);
    assert!(stderr.contains("are the same file"), "{stderr}");
    let (code, _, stderr) = copy(&place, &["card", "card", "disk"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("two sources would both be card"), "{stderr}");
    assert_eq!(copy(&place, &["card"]).0, 2);
    assert_eq!(copy(&place, &["absent", "disk"]).0, 1);
    assert!(!place.path("disk").exists());
}

#[test]
fn a_tree_of_many_directories_is_copied_with_few_descriptors() {
    let place = place();
    for folder in 0..200 {
        fs::create_dir_all(place.path(&format!("many/{folder}"))).unwrap();
        for file in 0..3 {
            fs::write(place.path(&format!("many/{folder}/{file}")), "x").unwrap();
        }
    }
    for args in [&["many", "one"][..], &["many", "two", "--to", "three"]] {
        let limited = format!("ulimit -n 256; exec \"$0\" copy {}", args.join(" "));
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &limited, env!("CARGO_BIN_EXE_stook")]).current_dir(place.dir.path());
        let (code, _, said) = super::ended(&mut shell);
        assert_eq!(code, 0, "{said}");
    }
    for copied in ["one", "two", "three"] {
        let mut files =
            (0..200).flat_map(|folder| (0..3).map(move |file| format!("{copied}/{folder}/{file}")));
        assert!(files.all(|file| place.path(&file).is_file()), "{copied}");
    }
}

#[test]
fn a_pack_in_a_tree_is_copied_again_and_another_one_does_not_mix_with_it() {
    let place = place();
    let pack = |from: &str, pack: &str| {
        let packed = super::ended(stook(["pack", from, pack, "-q"]).current_dir(place.dir.path()));
        assert_eq!(packed.0, 0, "{packed:?}");
    };
    let checked = |pack: &str| super::ended(stook(["check", pack]).current_dir(place.dir.path())).0;
    fs::create_dir(place.path("tree")).unwrap();
    fs::create_dir(place.path("other")).unwrap();
    pack("card", "tree/p.stook");
    pack("card", "other/p.stook");
    assert_eq!(copy(&place, &["tree", "disk"]).0, 0);
    fs::write(place.path("card/more"), "more").unwrap();
    pack("card", "tree/p.stook");
    let (code, _, said) = copy(&place, &["tree", "disk", "--overwrite", "different"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!((checked("disk/p.stook"), checked("tree/p.stook")), (0, 0));
    let got = super::ended(stook(["get", "disk/p.stook", "more"]).current_dir(place.dir.path()));
    assert_eq!((got.0, got.1.as_str()), (0, "more"));
    // What is missing comes back.
    let segment = fs::read_dir(place.path("disk/p.stook")).unwrap().map(|entry| entry.unwrap().path());
    let segment = { segment }.find(|path| path.to_str().unwrap().contains("segment-")).unwrap();
    fs::remove_file(segment).unwrap();
    assert_eq!(copy(&place, &["tree", "disk"]).0, 0);
    assert_eq!(checked("disk/p.stook"), 0);
    let (code, _, said) = copy(&place, &["other", "disk", "--overwrite", "always"]);
    assert_eq!(code, 1);
    assert!(said.contains("only its writer puts files inside the pack"), "{said}");
    assert_eq!(checked("disk/p.stook"), 0);
    // A file that only looks like one of a pack makes no pack.
    fs::create_dir_all(place.path("outer/stray")).unwrap();
    fs::write(place.path("outer/stray/manifest-0000000000000001"), "x").unwrap();
    for _ in 0..2 {
        let (code, _, said) = copy(&place, &["outer", "two", "--overwrite", "always"]);
        assert_eq!(code, 0, "{said}");
    }
}
