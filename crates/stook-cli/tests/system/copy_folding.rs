//! `stook copy` to a file system that takes two spellings of a name for one.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use stook_testing::fuse::{FaultMount, PageCache};

use super::program::{ended, stook};

/// Sources, and a destination that folds case.
struct Place {
    directory: tempfile::TempDir,
    mount: FaultMount,
}

impl Place {
    /// Files by their paths, in sources and in what is below the destination (`below/…`), each with
    /// its bytes.
    fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("below")).unwrap();
        let mount = FaultMount::mount(&directory.path().join("below"), PageCache::On).unwrap();
        mount.fold_case();
        let place = Self { directory, mount };
        for (name, bytes) in files {
            fs::create_dir_all(place.at(name).parent().unwrap()).unwrap();
            fs::write(place.at(name), bytes).unwrap();
            let seconds = if name.starts_with("below/") { 1_000_000_000 } else { 1_100_000_000 };
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            fs::File::open(place.at(name)).unwrap().set_modified(time).unwrap();
        }
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Copies to the destination.
    fn copy(&self, args: &[&str]) -> (i32, String, String) {
        let to = self.mount.path().to_str().unwrap();
        let args = args.iter().map(|arg| if *arg == "TO" { to } else { arg });
        ended(stook(["copy"]).args(args).current_dir(self.directory.path()))
    }

    /// What is in the destination: the bytes of each file by its path.
    fn found(&self) -> BTreeMap<String, String> {
        let (mut found, mut waiting) = (BTreeMap::new(), vec![self.at("below")]);
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    waiting.push(path);
                    continue;
                }
                let name = path.strip_prefix(self.at("below")).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
        found
    }

    fn bytes(&self) -> Vec<String> {
        let mut bytes: Vec<String> = self.found().into_values().collect();
        bytes.sort();
        bytes
    }
}

const SAID: &str = "the destination takes this name for that of";

/// Before: the second replaced the first, with exit code 0.
#[test]
fn of_two_files_that_are_one_name_there_the_first_stays_and_the_other_is_named() {
    for overwrite in ["never", "older", "different", "always"] {
        for durability in ["batch", "file"] {
            let place = Place::new(&[("s/Read", "one"), ("s/read", "two"), ("s/z", "z")]);
            let args = ["s", "TO", "--overwrite", overwrite, "--durability", durability];
            let (code, stdout, stderr) = place.copy(&args);
            assert!(code == 1 && stderr.contains(SAID), "{args:?}: {stdout}{stderr}");
            let first = place.found();
            assert_eq!(first.len(), 2, "{args:?}: {first:?}");
            // However often it runs: also where both look the same.
            for more in [&[][..], &["--checksum"], &["--mirror", "--force"]] {
                let (code, stdout, stderr) = place.copy(&[&args[..], more].concat());
                assert!(code == 1 && stderr.contains(SAID), "{args:?} {more:?}: {stdout}{stderr}");
                assert_eq!(place.found(), first, "{args:?} {more:?}");
            }
        }
    }
}

/// What is there already is spelled as neither of the two.
#[test]
fn of_two_files_that_are_there_under_a_third_spelling_one_takes_its_place() {
    let place = Place::new(&[("s/Read", "one"), ("s/read", "two"), ("below/READ", "old")]);
    for _ in 0..2 {
        let (code, stdout, stderr) = place.copy(&["s", "TO", "--overwrite", "different"]);
        assert!(code == 1 && stderr.contains(SAID), "{stdout}{stderr}");
        assert_eq!(place.bytes(), ["one"], "the first by its bytes");
    }
}

#[test]
fn one_file_takes_the_place_of_another_spelling_of_its_name() {
    let place = Place::new(&[
        ("s/photo.jpg", "new"),
        ("s/d/x", "x"),
        ("below/PHOTO.JPG", "old"),
        ("below/D/X", "old"),
    ]);
    let (code, stdout, stderr) = place.copy(&["s", "TO", "--overwrite", "different", "--mirror"]);
    assert_eq!(code, 0, "{stdout}{stderr}");
    assert_eq!(place.bytes(), ["new", "x"]);
    let (code, stdout, _) = place.copy(&["s", "TO"]);
    assert!(code == 0 && stdout.contains("2 unchanged"), "{stdout}");
}

/// Before: what was just copied was deleted as extra.
#[test]
fn directories_that_are_one_there_do_not_mix_and_nothing_of_them_is_deleted() {
    for args in [
        &["s", "TO", "--mirror", "--force"][..],
        &["s", "TO", "--mirror", "--force", "--include", "o*", "--include", "t*"],
        &["s/Photos", "s/photos", "TO", "--mirror", "--force"],
    ] {
        let place =
            Place::new(&[("s/Photos/one", "one"), ("s/photos/two", "two"), ("s/photos/one", "other")]);
        for _ in 0..2 {
            let (code, stdout, stderr) = place.copy(args);
            assert!(code == 1 && stderr.contains(SAID), "{args:?}: {stdout}{stderr}");
            let found = place.bytes();
            let is_one = found == ["one"] || found == ["other", "two"];
            assert!(is_one, "{args:?}: {:?}", place.found());
            assert!(!stdout.contains("deleted"), "{args:?}: {stdout}");
        }
    }
}

/// Before: the backup of one file took the place of another that was just copied.
#[test]
fn no_backup_takes_the_name_of_what_is_copied_however_it_is_spelled() {
    let place = Place::new(&[("s/x", "new"), ("s/X~", "other"), ("below/x", "old")]);
    for _ in 0..2 {
        let (code, stdout, stderr) = place.copy(&["s", "TO", "--overwrite", "different", "--backup"]);
        assert_eq!(code, 0, "{stdout}{stderr}");
        assert_eq!(place.bytes(), ["new", "old", "other"], "{:?}", place.found());
    }
}

#[test]
fn two_destinations_that_are_one_there_are_refused() {
    let place = Place::new(&[("s/x", "x")]);
    let to = place.mount.path().join("D");
    let other = place.mount.path().join("d");
    let (code, _, stderr) = place.copy(&["s", to.to_str().unwrap(), "--to", other.to_str().unwrap()]);
    assert!(code != 0 && stderr.contains("one in the other"), "{stderr}");
}
