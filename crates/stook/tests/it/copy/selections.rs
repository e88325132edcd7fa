//! Lists of paths, what a dry run says of links, and what is left out of a source.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use stook::copy::{Action, Copy, CopyOptions, CopyReport, CopySource, Destination, Why};
use stook::names::{Patterns, Selection};

use super::{copy, heard};

struct Place(tempfile::TempDir);

impl Place {
    fn new(files: &[&str]) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for name in files {
            let path = place.at(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn listed(&self, sources: &[&str], only: &[&str]) -> CopyReport {
        let only = only.iter().map(|path| path.as_bytes().to_vec()).collect::<BTreeSet<_>>();
        let options = CopyOptions { only: Some(only), ..CopyOptions::default() };
        let sources = sources.iter().map(|name| CopySource::directory(self.at(name)).unwrap()).collect();
        let copy = Copy::new(sources, vec![Destination::new(self.at("to"))]).with_options(options);
        copy.run(&mut ()).unwrap()
    }
}

#[test]
fn a_listed_path_that_no_source_has_is_named_however_many_there_are() {
    let place = Place::new(&["one/a", "two/b"]);
    let report = place.listed(&["one", "two"], &["a", "b", "c", "d/e"]);
    let failed: Vec<_> = report.failures.iter().map(|failure| failure.key.as_slice()).collect();
    assert_eq!(failed, [&b"c"[..], b"d/e"], "{report:?}");
    assert!(format!("{:?}", report.failures[0].error).contains("no source has it"));
    assert!(place.at("to/one/a").exists() && place.at("to/two/b").exists());
}

/// Before: a dry run said that all was copied where a directory was not there yet, and of names of
/// one file that each was copied.
#[test]
fn a_dry_run_says_which_files_become_links() {
    let place = Place::new(&["from/d/same", "from/d/other"]);
    fs::hard_link(place.at("from/d/other"), place.at("from/d/twin")).unwrap();
    assert_eq!(copy(&place.at("from"), &place.at("monday")).undone(), 0);
    fs::write(place.at("from/d/other"), "changed since then").unwrap();
    let whats = |dry_run| {
        let link_dest = Some(place.at("monday"));
        let options = CopyOptions { dry_run, link_dest, ..CopyOptions::default() };
        let (report, events) = heard(&place.at("from"), &place.at("tuesday"), options);
        assert_eq!(report.undone(), 0, "{report:?}");
        let files = events.items.iter().filter(|item| item.kind == stook::tree::Kind::File);
        let mut all: Vec<_> = files.map(|item| (item.action, item.why)).collect();
        all.sort_by_key(|(action, _)| format!("{action:?}"));
        all
    };
    let dry = whats(true);
    assert_eq!(
        dry,
        [(Action::Copy, Why::New), (Action::HardLink, Why::New), (Action::LinkEarlier, Why::New)]
    );
    assert_eq!(whats(false), dry);
}

#[test]
fn a_destination_in_what_is_left_out_is_not_inside() {
    let place = Place::new(&["disk/file", "disk/mnt/other/kept"]);
    let run = |exclude: &str, to: &str| {
        let selection = Selection::of(Patterns::default(), Patterns::new([exclude]).unwrap());
        let sources = vec![CopySource::directory(place.at("disk")).unwrap()];
        let copy = Copy::new(sources, vec![Destination::new(place.at(to))]);
        copy.with_options(CopyOptions { selection, ..CopyOptions::default() }).run(&mut ())
    };
    assert!(run("file", "disk/mnt/backup").is_err());
    assert!(run("mn", "disk/mnt/backup").is_err());
    assert!(!place.at("disk/mnt/backup").exists());
    for to in ["disk/mnt/backup", "disk/mnt/other"] {
        let report = run("/mnt", to).unwrap();
        assert_eq!((report.undone(), report.destinations[0].files), (0, 1), "{report:?}");
        assert!(place.at(to).join("file").exists() && !place.at(to).join("mnt").exists());
    }
}

#[test]
fn directories_that_are_made_to_have_the_copy_are_named() {
    let place = Place::new(&["from/x"]);
    let made = |to: &str| copy(&place.at("from"), &place.at(to)).destinations[0].made.clone();
    assert_eq!(made("a/b/c"), ["a", "a/b", "a/b/c"].map(|name| place.at(name)));
    assert_eq!(made("a/b/d"), [place.at("a/b/d")]);
    assert_eq!(made("a/b"), [PathBuf::new(); 0]);
}
