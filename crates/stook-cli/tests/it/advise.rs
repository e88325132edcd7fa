//! `stook advise`, and profiles.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::packs::documented;
use super::{ended, stook};

/// A tree of small files two deep, with what else a tree may have.
fn tree(place: &Path) {
    for directory in 0..4 {
        let directory = place.join(format!("tree/{directory}/below"));
        fs::create_dir_all(&directory).unwrap();
        for number in 0..20 {
            fs::write(directory.join(number.to_string()), vec![7; 500 * number]).unwrap();
        }
    }
    fs::hard_link(place.join("tree/0/below/3"), place.join("tree/again")).unwrap();
    std::os::unix::fs::symlink("/", place.join("tree/link")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, place.join("tree/fifo"), rustix::fs::Mode::RWXU).unwrap();
}

fn names(below: &Path) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> = fs::read_dir(below).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

#[test]
fn a_warm_tree_is_called_warm_and_nothing_is_guessed() {
    let place = tempfile::tempdir().unwrap();
    tree(place.path());
    let run = |flags: &[&str]| {
        let words = [&["advise", "tree", "--keep-caches", "--rounds", "2"], flags].concat();
        ended(stook(words).current_dir(place.path()))
    };
    let (code, stdout, stderr) = run(&[]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("warm: the caches of the system could not be emptied"), "{stdout}");
    for said in ["81 files in 9 directories", "2 are names of files with several", "1 link is not followed"] {
        assert!(stdout.contains(said), "{said}: {stdout}");
    }
    assert!(!stdout.contains("MB/s") && stdout.lines().count() <= 14, "{stdout}");
    let (code, stdout, _) = run(&["--json"]);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    documented("advise", &report);
    let advice = &report["advice"][0]["tree"];
    assert_eq!((code, &advice["state"], &advice["prediction"]), (0, &"warm".into(), &Value::Null));
    assert_eq!((&advice["facts"]["names"], &advice["facts"]["specials"]), (&81.into(), &1.into()));
    assert_eq!(names(place.path()), ["tree"], "nothing is left");
    let (code, ..) = run(&["--html", "page.html"]);
    let page = fs::read_to_string(place.path().join("page.html")).unwrap();
    assert!(code == 0 && page.contains("nothing is predicted") && page.contains("shorter than"));
    assert_eq!(names(place.path()), ["page.html", "tree"]);
}

#[test]
fn each_archive_gets_what_helps_it_and_nothing_is_written_beside_it() {
    let place = tempfile::tempdir().unwrap();
    tree(place.path());
    fs::remove_file(place.path().join("tree/fifo")).unwrap();
    for (kind, name) in [("tar", "x.tar"), ("zip", "x.zip")] {
        let made = ended(stook(["stitch", kind, "tree", "--write", name]).current_dir(place.path()));
        assert_eq!(made.0, 0, "{}", made.2);
    }
    let (code, stdout, stderr) = ended(stook(["advise", "x.tar", "x.zip"]).current_dir(place.path()));
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.contains("x.tar: tar, ") && stdout.contains("x.zip: zip, "), "{stdout}");
    let (code, stdout, _) = ended(stook(["advise", "x.tar", "--json"]).current_dir(place.path()));
    let report: Value = serde_json::from_str(&stdout).unwrap();
    documented("advise", &report);
    let archive = &report["advice"][0]["archive"];
    assert_eq!((code, &archive["format"], &archive["has_index"]), (0, &"tar".into(), &false.into()));
    assert_eq!(names(place.path()), ["tree", "x.tar", "x.zip"]);
}

#[test]
fn what_cannot_be_looked_at_is_refused_by_name() {
    let place = tempfile::tempdir().unwrap();
    tree(place.path());
    fs::create_dir(place.path().join("empty")).unwrap();
    let packed = ended(stook(["pack", "tree/0", "p.stook"]).current_dir(place.path()));
    assert_eq!(packed.0, 0, "{}", packed.2);
    for (path, why) in [
        ("none", "none"),
        ("empty", "has no files"),
        ("tree/fifo", "is neither a directory nor a regular file"),
        ("p.stook", "is a pack: `stook info`"),
    ] {
        let (code, stdout, stderr) =
            ended(stook(["advise", path, "--keep-caches"]).current_dir(place.path()));
        assert_eq!((code, stdout.as_str()), (1, ""), "{path}: {stderr}");
        assert!(stderr.contains(why), "{path}: {stderr}");
    }
    // Of several, the others are looked at.
    let words = ["advise", "none", "tree", "--keep-caches", "--rounds", "1"];
    let (code, stdout, stderr) = ended(stook(words).current_dir(place.path()));
    assert!(code == 1 && stdout.contains("tree: ") && stderr.contains("none"), "{stderr}");
}

#[test]
fn a_profile_is_kept_listed_and_documented() {
    let place = tempfile::tempdir().unwrap();
    let kept = place.path().join("profiles");
    let run = |words: &[&str]| ended(stook(words).current_dir(place.path()).env("STOOK_PROFILE_DIR", &kept));
    let (code, stdout, _) = run(&["bench", "--profiles"]);
    assert!(code == 0 && stdout.contains("No profile was kept"), "{stdout}");
    let short = ["--file-size", "8M", "--time", "20ms", "--ramp", "1ms", "--keep-caches"];
    let (code, stdout, stderr) = run(&[&["bench", ".", "--save", "--json"], &short[..]].concat());
    assert_eq!(code, 0, "{stderr}");
    let saved: Value = serde_json::from_str(&stdout).unwrap();
    documented("profile", &saved);
    let survey = &saved["survey"];
    for part in ["kernel", "time", "path"] {
        assert!(!survey["taken"][part].as_str().unwrap().is_empty(), "{part}");
    }
    assert!(survey["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains("cold")));
    let (code, stdout, _) = run(&["bench", "--profiles", "--json"]);
    let list: Value = serde_json::from_str(&stdout).unwrap();
    documented("profiles", &list);
    assert_eq!((code, &list["profiles"][0]["of"]), (0, &saved["of"]));
    assert_eq!(list["profiles"][0]["measured"], saved["measured"]);
    assert_eq!(names(place.path()), ["profiles"], "no test file is left");
    // A damaged one is named, and the others are listed.
    fs::write(kept.join("0000.json"), "{").unwrap();
    let (code, stdout, stderr) = run(&["bench", "--profiles"]);
    assert!(code == 0 && stdout.lines().count() == 2 && stderr.contains("it is damaged"), "{stderr}");
}

#[test]
fn a_profile_is_refused_where_it_could_not_be_kept_before_anything_is_measured() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("file"), "x").unwrap();
    let none = ended(stook(["bench", ".", "--save"]).current_dir(place.path()).env("STOOK_PROFILE_DIR", ""));
    assert!(none.0 == 1 && none.2.contains("no directory is set for it"), "{}", none.2);
    let file = ended(stook(["bench", "file", "--save"]).current_dir(place.path()));
    assert!(file.0 == 2 && file.2.contains("--save measures the device below a directory"), "{}", file.2);
    let both = ended(stook(["bench", ".", "--save", "--depth", "4"]).current_dir(place.path()));
    assert!(both.0 == 2 && both.2.contains("--depth"), "{}", both.2);
}
