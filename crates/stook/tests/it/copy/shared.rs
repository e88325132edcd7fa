//! Files of a destination that have other names: in an earlier copy, or in a source.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use stook::copy::{CopyOptions, CopyReport, HashKind};
use stook::error::chain;
use stook::tree::Overwrite;

use super::copy_with;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.at("from")).unwrap();
        fs::create_dir(place.at("to")).unwrap();
        place
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn file(&self, path: &str, bytes: &[u8], mode: u32, seconds: u64) {
        let path = self.at(path);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        fs::File::open(&path).unwrap().set_modified(time).unwrap();
    }

    fn link(&self, from: &str, to: &str) {
        fs::hard_link(self.at(from), self.at(to)).unwrap();
    }

    fn copy(&self, options: CopyOptions) -> CopyReport {
        let options = CopyOptions { overwrite: Overwrite::Different, ..options };
        copy_with(&self.at("from"), &[&self.at("to")], options)
    }
}

/// Mode, time and inode.
fn state(path: &Path) -> (u32, i64, u64) {
    let found = path.symlink_metadata().unwrap();
    (found.mode() & 0o7777, found.mtime(), found.ino())
}

#[test]
fn a_source_that_is_also_a_file_of_the_destination_keeps_what_it_has() {
    for (name, checksum) in [("a", false), ("b", true), ("b", false)] {
        let place = Place::new();
        place.file("from/a", b"hello", 0o4711, 1_000);
        place.file("from/b", b"hello", 0o644, if checksum { 2_000 } else { 1_000 });
        // Under a name that is of another file in the source.
        let other = if name == "a" { "b" } else { "a" };
        place.link(&format!("from/{name}"), &format!("to/{other}"));
        let before = [state(&place.at("from/a")), state(&place.at("from/b"))];
        let report = place.copy(CopyOptions { checksum, ..CopyOptions::default() });
        assert_eq!(report.undone(), 0, "{report:?}");
        assert_eq!([state(&place.at("from/a")), state(&place.at("from/b"))], before);
        for (one, before) in ["to/a", "to/b"].into_iter().zip(before) {
            assert_eq!((state(&place.at(one)).0, state(&place.at(one)).1), (before.0, before.1), "{one}");
        }
    }
}

#[test]
fn names_of_one_file_with_times_of_their_own_in_the_source_are_copied_in_one_run() {
    for (len, lists) in
        [(5, vec![HashKind::Sha256]), (4_000_000, Vec::new()), (4_000_000, vec![HashKind::Xxh3])]
    {
        let place = Place::new();
        let names = ["a", "b", "c", "d", "e"];
        for (name, seconds) in names.iter().zip(1_000..) {
            place.file(&format!("from/{name}"), &vec![7; len], 0o644, seconds);
        }
        place.file("to/a", &vec![7; len], 0o644, 500);
        names[1..].iter().for_each(|name| place.link("to/a", &format!("to/{name}")));
        let report = place.copy(CopyOptions { lists: lists.clone(), ..CopyOptions::default() });
        assert_eq!(report.undone(), 0, "{report:?}");
        let times = names.map(|name| state(&place.at(&format!("to/{name}"))).1);
        assert_eq!(times, [1_000, 1_001, 1_002, 1_003, 1_004]);
        let again = place.copy(CopyOptions::default());
        assert_eq!((again.undone(), again.destinations[0].unchanged), (0, 5));
    }
}

#[test]
fn no_list_says_of_a_link_what_the_file_does_not_have_that_it_leads_to() {
    // By length and time it is the one that is listed first.
    for there in ["a", "b"] {
        let place = Place::new();
        place.file("from/a", b"world", 0o644, 1_000);
        place.link("from/a", "from/b");
        place.file(&format!("to/{there}"), b"hello", 0o644, 1_000);
        let report = place.copy(CopyOptions { lists: vec![HashKind::Sha256], ..CopyOptions::default() });
        let is_linked = fs::read(place.at("to/a")).unwrap() == b"hello";
        let failures: Vec<String> =
            report.destinations[0].failures.iter().map(|failure| chain(&failure.error)).collect();
        match is_linked {
            true => assert!(failures[0].contains("other bytes than its source"), "{failures:?}"),
            // The other name was first, and was copied.
            false => assert_eq!(failures, Vec::<String>::new()),
        }
    }
}
