//! Archives given to the commands that read packs.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use super::{ended, stook};

struct Place {
    dir: TempDir,
}

impl Place {
    /// A folder with a tree `t` in it.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("t");
        fs::create_dir_all(root.join("d/e")).unwrap();
        fs::write(root.join("a"), b"alpha").unwrap();
        fs::write(root.join("d/b"), vec![b'b'; 200_000]).unwrap();
        fs::write(root.join("d/e/c"), b"").unwrap();
        fs::hard_link(root.join("a"), root.join("further")).unwrap();
        std::os::unix::fs::symlink("d/b", root.join("link")).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn tar(&self, args: &[&str]) {
        let status = Command::new("tar").args(args).current_dir(self.dir.path()).status();
        assert!(status.unwrap().success(), "tar {args:?}");
    }

    fn stook(&self, args: &[&str]) -> (i32, String, String) {
        ended(stook(args).current_dir(self.dir.path()))
    }
}

#[test]
fn a_tar_is_listed_like_a_pack() {
    let place = Place::new();
    place.tar(&["--format=pax", "-cf", "x.tar", "-C", "t", "a", "d", "link"]);
    let (code, stdout, stderr) = place.stook(&["ls", "x.tar"]);
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "a\nd\nd/b\nd/e\nd/e/c\nlink\n", ""));
    assert!(place.path("x.tar.stook-index").exists());
    assert_eq!(place.stook(&["ls", "x.tar", "--prefix", "d/", "*/b"]).1, "d/b\n");
    assert_eq!(place.stook(&["ls", "x.tar", "-0", "a"]).1, "a\0");
    assert_eq!(place.stook(&["ls", "x.tar", "--prefix", "id:"]).1, "");
    let (_, stdout, _) = place.stook(&["ls", "x.tar", "--long", "--json", "d/b"]);
    let line: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&line["key"], &line["kind"], &line["group"]), (&"d/b".into(), &"file".into(), &"".into()));
    assert_eq!((line["body_bytes"].as_u64(), line["stored_bytes"].as_u64()), (Some(200_000), Some(200_000)));
    let (code, _, stderr) = place.stook(&["ls", "x.tar", "--group", "g"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("--group is for packs"), "{stderr}");
}

#[test]
fn members_are_got_by_key() {
    let place = Place::new();
    place.tar(&["-cf", "x.tar", "-C", "t", "."]);
    assert_eq!(place.stook(&["get", "x.tar", "a"]), (0, "alpha".into(), String::new()));
    assert_eq!(place.stook(&["get", "x.tar//further"]).1, "alpha", "a further name gives the file's content");
    let (code, _, stderr) = place.stook(&["get", "x.tar", "a", "d/b", "d/e", "nothing", "--output", "out"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("x.tar has no member nothing"), "{stderr}");
    assert_eq!(fs::read(place.path("out/d/b")).unwrap(), fs::read(place.path("t/d/b")).unwrap());
    assert!(place.path("out/d/e").is_dir());
    assert_eq!(place.stook(&["get", "x.tar", "d/e/c", "a", "further", "--concat"]).1, "alphaalpha");
    let (code, stdout, _) = place.stook(&["get", "x.tar", "a", "no", "--output", "o2/", "--json"]);
    assert_eq!(code, 1);
    let lines: Vec<serde_json::Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["status"], &lines[1]["status"]), (&"ok".into(), &"missing".into()));
    assert_eq!(place.stook(&["get", "x.tar", "a", "--group", "g"]).0, 2);
}

#[test]
fn a_stale_or_missing_index_and_a_cut_archive_are_remarked_on() {
    let place = Place::new();
    place.tar(&["-cf", "x.tar", "-C", "t", "a"]);
    assert_eq!(place.stook(&["ls", "x.tar"]).2, "");
    place.tar(&["-rf", "x.tar", "-C", "t", "link"]);
    let (code, stdout, stderr) = place.stook(&["ls", "x.tar"]);
    assert_eq!((code, stdout.as_str()), (0, "a\nlink\n"));
    assert!(
        stderr.contains("x.tar.stook-index was not used, and made anew: the archive has changed"),
        "{stderr}"
    );
    let bytes = fs::read(place.path("x.tar")).unwrap();
    fs::write(place.path("cut.tar"), &bytes[..1024]).unwrap();
    let (code, stdout, stderr) = place.stook(&["ls", "cut.tar"]);
    assert_eq!((code, stdout.as_str()), (0, "a\n"));
    assert!(stderr.contains("cut.tar does not end as a tar does"), "{stderr}");
    fs::write(place.path("bad.tar"), &bytes[..514]).unwrap();
    let (code, stdout, stderr) = place.stook(&["ls", "bad.tar"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("bad.tar") && stderr.contains("offset 0"), "{stderr}");
    assert!(!place.path("bad.tar.stook-index").exists());
}

#[test]
fn a_file_that_is_no_archive_is_called_so() {
    let place = Place::new();
    let (code, _, stderr) = place.stook(&["ls", "t/a"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("t/a is no archive"), "{stderr}");
    let (code, _, stderr) = place.stook(&["get", "nowhere.tar", "a"]);
    assert_eq!(code, 1);
    assert!(stderr.contains("nowhere.tar"), "{stderr}");
}
