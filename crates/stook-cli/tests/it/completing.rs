//! Which run completes an incomplete pack, and what of a pack no other tree replaces.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;
use stook::pack::{PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions};

use super::packs::Place;
use super::{ended, stook};

fn write(place: &Place, name: &str, bytes: &str) {
    let path = place.path(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// `stook pack ARGS… --json` in a directory of the place; with what it notes.
fn pack_in(place: &Place, directory: &str, args: &[&str]) -> (i32, Value, String) {
    let args = [&["pack"], args, &["--json"]].concat();
    let (code, stdout, stderr) = ended(stook(args).current_dir(place.path(directory)));
    (code, serde_json::from_str(&stdout).unwrap_or(Value::Null), stderr)
}

fn is_complete(place: &Place) -> bool {
    place.json("info", &[]).1["complete"] == true
}

/// As a run leaves the pack that was stopped before its end: the first one, or one of this
/// directory.
fn cut_off(place: &Place, directory: Option<&str>) {
    let storage = LocalStorage::open(&place.pack, LocalStorageOptions::default()).unwrap();
    let mut writer = PackWriter::open(Arc::new(storage), WriterOptions::default()).unwrap();
    writer.set_complete(false);
    let unfinished = directory.map(|name| place.path(name).into_os_string().into_encoded_bytes());
    writer.set_unfinished(unfinished.into_iter().collect());
    writer.finish(false).unwrap();
}

/// Before: `.` of any directory was the `.` that the pack was made from, and the full path of a
/// directory was another than its name.
#[test]
fn a_pack_is_completed_by_a_run_of_the_same_directory_however_it_is_named() {
    let place = Place::new();
    for name in ["many/a", "many/b", "other/c"] {
        write(&place, name, name);
    }
    assert_eq!(pack_in(&place, "many", &[".", "../p.stook"]).0, 0);
    let roots = place.json("info", &[]).1["roots"].clone();
    assert_eq!(Path::new(roots[0]["path"].as_str().unwrap()), place.path("many").as_path());
    cut_off(&place, None);
    let (code, report, stderr) = pack_in(&place, "other", &[".", "../p.stook"]);
    assert_eq!((code, &report["complete"]), (0, &false.into()), "{stderr}");
    assert!(stderr.contains("stays so until") && stderr.contains("many"), "{stderr}");
    assert!(!is_complete(&place));
    let many = place.path("many");
    let (code, report, stderr) = pack_in(&place, "other", &[many.to_str().unwrap(), "../p.stook"]);
    assert_eq!((code, &report["complete"]), (0, &true.into()), "{stderr}");
    assert!(is_complete(&place));
}

/// Before: only a run of what the pack was made from completed it, so that one of another directory
/// that had been stopped was completed by a run of the first, and never by itself.
#[test]
fn a_run_of_another_directory_that_was_stopped_is_completed_by_that_one_alone() {
    let place = Place::new();
    for name in ["one/a", "two/b"] {
        write(&place, name, name);
    }
    assert_eq!(pack_in(&place, ".", &["one", "p.stook"]).0, 0);
    assert_eq!(pack_in(&place, ".", &["two", "p.stook"]).0, 0);
    cut_off(&place, Some("two"));
    let (code, report, stderr) = pack_in(&place, ".", &["one", "p.stook"]);
    assert_eq!((code, &report["complete"]), (0, &false.into()), "{stderr}");
    assert!(stderr.contains("/two)") && !is_complete(&place), "{stderr}");
    let (code, report, stderr) = pack_in(&place, ".", &["two", "p.stook"]);
    assert_eq!((code, &report["complete"]), (0, &true.into()), "{stderr}");
    assert!(is_complete(&place));
}

/// Before: whatever tar came next through stdin completed a pack whose stream had been cut off.
#[test]
fn a_stream_completes_a_pack_only_if_it_has_all_that_is_in_it() {
    let place = Place::new();
    for name in ["a", "b", "c", "z"] {
        write(&place, name, name);
    }
    let tar = |names: &[&str]| {
        let mut command = Command::new("tar");
        command.args(["-c", "-f", "-"]).args(names).current_dir(place.dir.path());
        command.output().unwrap().stdout
    };
    let through_stdin = |bytes: &[u8]| {
        let command = ["pack", "-", "p.stook", "--json"];
        let (code, stdout, stderr) = super::packs::fed(stook(command).current_dir(place.dir.path()), bytes);
        (code, serde_json::from_slice::<Value>(&stdout).unwrap()["complete"] == true, stderr)
    };
    let whole = tar(&["a", "b", "c"]);
    let (code, complete, stderr) = through_stdin(&whole[..2048]);
    assert_eq!((code, complete), (1, false), "{stderr}");
    let (code, complete, stderr) = through_stdin(&tar(&["z"]));
    assert_eq!((code, complete), (0, false), "{stderr}");
    assert!(stderr.contains("--accept"), "{stderr}");
    assert!(!is_complete(&place));
    // `z` is in none of these, so nothing shows that all is there.
    assert!(!through_stdin(&whole).1 && !is_complete(&place));
    let (code, complete, stderr) = through_stdin(&tar(&["a", "b", "c", "z"]));
    assert_eq!((code, complete), (0, true), "{stderr}");
    assert!(is_complete(&place));
}

/// Before: the file of the second tree took the place of the only copy of the first, with exit
/// code 0.
#[test]
fn a_file_of_another_tree_does_not_replace_the_only_copy_of_one_that_was_moved() {
    let place = Place::new();
    write(&place, "a1/DSC1", "one");
    write(&place, "a1/same", "same");
    write(&place, "a2/DSC1", "two");
    write(&place, "a2/same", "same");
    write(&place, "a2/long", &"long".repeat(1 << 20));
    write(&place, "a3/long", &"LONG".repeat(1 << 20));
    assert_eq!(pack_in(&place, ".", &["a1", "p.stook", "--move"]).0, 0);
    let (code, report, stderr) = pack_in(&place, ".", &["a2", "p.stook", "--move"]);
    let failed = report["failures"].as_array().unwrap();
    assert_eq!((code, failed.len(), &failed[0]["key"]), (1, 1, &"DSC1".into()), "{report}");
    assert!(stderr.contains("may be its only copy"), "{stderr}");
    // It stays where it is, and what has no such rival was moved.
    assert_eq!(fs::read(place.path("a2/DSC1")).unwrap(), b"two");
    assert!(!place.path("a2/long").exists() && !place.path("a2/same").exists(), "{stderr}");
    assert_eq!(place.run("get", &["DSC1"]).1, "one");
    let (code, _, stderr) = pack_in(&place, ".", &["a3", "p.stook"]);
    assert!(code == 1 && stderr.contains("long"), "{stderr}");
    let (code, _, stderr) = pack_in(&place, ".", &["a3", "p.stook", "--dry-run"]);
    assert!(code == 0 || stderr.contains("long"), "{stderr}");
    // Nor does a member of an archive.
    let mut tar = Command::new("tar");
    tar.args(["-cf", "x.tar", "-C", "a2", "DSC1"]).current_dir(place.dir.path());
    assert!(tar.status().unwrap().success());
    let (code, _, stderr) = pack_in(&place, ".", &["x.tar", "p.stook"]);
    assert!(code == 1 && stderr.contains("may be its only copy"), "{stderr}");
    assert_eq!(place.run("get", &["DSC1"]).1, "one");
    let (code, _, stderr) = pack_in(&place, ".", &["a2", "p.stook", "--move", "--force"]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!((place.run("get", &["DSC1"]).1.as_str(), place.path("a2/DSC1").exists()), ("two", false));
}

#[test]
fn a_file_of_the_tree_that_others_were_moved_from_replaces_its_record() {
    let place = Place::new();
    write(&place, "log/today", "one");
    assert_eq!(pack_in(&place, ".", &["log", "p.stook", "--move"]).0, 0);
    write(&place, "log/today", "two");
    let (code, _, stderr) = pack_in(&place, "log", &[".", "../p.stook", "--move"]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(place.run("get", &["today"]).1, "two");
}

/// Before: everything was packed once more, under other keys.
#[test]
fn a_directory_is_not_packed_again_under_other_keys() {
    let place = Place::new();
    for name in ["r1/data/x", "r2/y"] {
        write(&place, name, name);
    }
    assert_eq!(pack_in(&place, ".", &["r1/data", "p.stook"]).0, 0);
    let (code, _, stderr) = pack_in(&place, ".", &["r1/data", "r2", "p.stook"]);
    assert!(code == 2 && stderr.contains("pack the others alone"), "{stderr}");
    assert_eq!(place.run("ls", &[]).1, "bytes:\nx\n");
    assert_eq!(pack_in(&place, ".", &["r2", "p.stook"]).0, 0);
    assert_eq!(place.run("ls", &[]).1, "bytes:\nx\ny\n");
    assert_eq!(pack_in(&place, ".", &["r1/data", "r2", "q.stook"]).0, 0);
    let (code, _, stderr) = pack_in(&place, ".", &["r2", "q.stook"]);
    assert!(code == 2 && stderr.contains("name all of them again"), "{stderr}");
}

/// Before: `complete` was true, of a pack that had been removed, or of one that was left as it was.
#[test]
fn a_run_that_did_nothing_completed_nothing() {
    let place = Place::new();
    for name in ["tree/a", "tree/b", "empty/keep"] {
        write(&place, name, name);
    }
    let (code, report, stderr) = pack_in(&place, ".", &["tree", "p.stook", "--include", "zz"]);
    assert_eq!((code, &report["complete"], place.pack.exists()), (1, &false.into(), false), "{stderr}");
    assert_eq!(pack_in(&place, ".", &["tree", "p.stook"]).0, 0);
    let (code, report, stderr) = pack_in(&place, ".", &["empty", "p.stook", "--delete"]);
    assert!(report["refused"].is_string(), "{report}");
    assert_eq!((code, &report["complete"]), (1, &false.into()), "{stderr}");
    assert!(is_complete(&place), "it is as it was");
}

/// Before: packed as complete, with exit code 0, where the tar came by its name.
#[test]
fn a_tar_that_was_cut_off_between_members_is_a_failure_through_every_door() {
    let place = Place::new();
    let member = vec![b'm'; 3000];
    fs::write(place.path("one"), &member).unwrap();
    fs::write(place.path("two"), &member).unwrap();
    let in_place = |program: &str, args: &[&str]| {
        let status = Command::new(program).args(args).current_dir(place.dir.path()).status();
        assert!(status.unwrap().success(), "{program} {args:?}");
    };
    let run = |args: &[&str]| ended(stook(args).current_dir(place.dir.path()));
    in_place("tar", &["-cf", "whole.tar", "one", "two"]);
    let bytes = fs::read(place.path("whole.tar")).unwrap();
    // The first member with its padding, and nothing after it.
    fs::write(place.path("cut.tar"), &bytes[..512 + 3072]).unwrap();
    in_place("gzip", &["-k", "cut.tar"]);
    let is_complete = |pack: &str| {
        let info = run(&["info", "--json", pack]).1;
        serde_json::from_str::<Value>(&info).unwrap()["complete"] == true
    };
    let cases = [("cut.tar", "a"), ("cut.tar.gz", "b"), ("-", "c")];
    for (source, pack) in cases {
        let input = fs::File::open(place.path("cut.tar")).unwrap();
        let (code, stdout, stderr) =
            ended(stook(["pack", "--json", source, pack]).stdin(input).current_dir(place.dir.path()));
        let report: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!((code, &report["complete"], &report["files"]), (1, &false.into(), &1.into()), "{source}");
        assert!(stderr.contains(source) && stderr.contains("cut off"), "{source}: {stderr}");
        assert!(!is_complete(pack), "{source}");
    }
    assert_eq!(run(&["pack", "whole.tar", "cut.tar", "d"]).0, 1, "the second of two archives");
    assert!(!is_complete("d"));
    for archive in ["cut.tar", "cut.tar.gz"] {
        let out = format!("{archive}.out");
        for args in [&["load", archive][..], &["unpack", archive, &out]] {
            let (code, stdout, stderr) = run(&[args, &["--json"]].concat());
            let report: Value = serde_json::from_str(&stdout).unwrap();
            assert_eq!((code, &report["complete"]), (1, &false.into()), "{args:?}: {stderr}");
            assert!(stderr.contains("does not end as a tar does"), "{args:?}: {stderr}");
        }
        assert_eq!(fs::read(place.path(&out).join("one")).unwrap(), member);
        // What is asked for by name is there.
        for args in [&["ls", archive][..], &["get", archive, "one"], &["info", archive]] {
            let (code, _, stderr) = run(args);
            assert!(code == 0 && stderr.contains("does not end as a tar does"), "{args:?}: {stderr}");
        }
    }
}
