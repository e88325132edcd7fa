//! What a mirror deletes, and when it deletes nothing.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use stook::copy::{Action, Copy, CopyOptions, CopyReport, CopySource, Destination, Error, Leftover, Why};
use stook::names::{Patterns, Selection};
use stook::tree::Overwrite;
use stook::tree::outbox::{Calls, System};

use super::{assert_same, copy_with, heard, state_of};

struct Place(tempfile::TempDir);

impl Place {
    /// Directories with files, each with its own path in it.
    fn new(files: &[&str]) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        files.iter().for_each(|name| place.write(name));
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str) {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }

    fn copy(&self, sources: &[&str], to: &str, options: CopyOptions) -> Result<CopyReport, Error> {
        let sources = sources.iter().map(|name| CopySource::directory(self.at(name)).unwrap()).collect();
        Copy::new(sources, vec![Destination::new(self.at(to))]).with_options(options).run(&mut ())
    }
}

/// However few files are there.
fn mirror() -> CopyOptions {
    CopyOptions { mirror: true, max_delete: Some(100), ..CopyOptions::default() }
}

fn excluding(patterns: &[&str]) -> CopyOptions {
    let exclude = Patterns::new(patterns).unwrap();
    CopyOptions { selection: Selection::of(Patterns::default(), exclude), ..mirror() }
}

/// What was deleted, in order.
fn deleted(report: &CopyReport) -> Vec<String> {
    let keys = report.destinations[0].deleted.iter();
    let mut all: Vec<String> = keys.map(|key| String::from_utf8(key.clone()).unwrap()).collect();
    all.sort();
    all
}

/// Why the only failure is one.
#[track_caller]
fn failure(report: &CopyReport) -> String {
    let failures = &report.destinations[0].failures;
    assert_eq!((failures.len(), report.undone()), (1, 1), "{report:?}");
    format!("{:?}", failures[0].error)
}

#[test]
fn a_source_of_which_nothing_was_selected_deletes_nothing_and_that_is_said() {
    let place = Place::new(&["full/x", "to/photo"]);
    fs::create_dir(place.at("empty")).unwrap();
    let include = Patterns::new(["*.jpg"]).unwrap();
    let no_jpg = CopyOptions { selection: Selection::of(include, Patterns::default()), ..mirror() };
    place.write("to/photo.jpg");
    for (from, options) in [("empty", mirror()), ("full", excluding(&["x"])), ("full", no_jpg)] {
        for dry_run in [true, false] {
            let options = CopyOptions { dry_run, ..options.clone() };
            let report = place.copy(&[from], "to", options).unwrap();
            assert!(failure(&report).contains("nothing in it was deleted"), "{report:?}");
            assert_eq!(deleted(&report), [""; 0]);
            assert!(place.at("to/photo").exists() && place.at("to/photo.jpg").exists());
        }
    }
    // It is said only where something would be deleted, and forced it is.
    fs::create_dir(place.at("new")).unwrap();
    assert_eq!(place.copy(&["empty"], "new", mirror()).unwrap().undone(), 0);
    let report = place.copy(&["empty"], "to", CopyOptions { force: true, ..mirror() }).unwrap();
    assert_eq!((report.undone(), deleted(&report)), (0, vec!["photo".into(), "photo.jpg".into()]));
}

#[test]
fn each_of_several_sources_answers_for_what_it_became() {
    let place = Place::new(&["full/x", "to/empty/photo", "to/full/extra"]);
    fs::create_dir(place.at("empty")).unwrap();
    let report = place.copy(&["empty", "full"], "to", mirror()).unwrap();
    assert!(failure(&report).contains("nothing in it was deleted"), "{report:?}");
    assert_eq!(deleted(&report), ["full/extra"]);
    assert!(place.at("to/empty/photo").exists() && !place.at("to/full/extra").exists());
}

#[test]
fn what_is_known_to_be_incomplete_deletes_nothing() {
    let place = Place::new(&["from/x", "to/extra"]);
    for (dry_run, force) in [(true, false), (false, false), (false, true)] {
        let source = CopySource::directory(place.at("from")).unwrap().incomplete();
        let options = CopyOptions { dry_run, force, ..mirror() };
        let copy = Copy::new(vec![source], vec![Destination::new(place.at("to"))]).with_options(options);
        let report = copy.run(&mut ()).unwrap();
        assert_eq!((report.undone(), deleted(&report).len()), (1, 0), "{report:?}");
        assert!(place.at("to/extra").exists());
    }
}

#[test]
fn what_is_copied_or_linked_to_is_not_deleted_by_its_own_mirror() {
    let place = Place::new(&["disk/card/x", "disk/yesterday/y", "other/z"]);
    let refused = |sources: &[&str], to: &str, options: CopyOptions| {
        let error = place.copy(sources, to, options).unwrap_err();
        assert!(matches!(error, Error::WouldDelete { .. }), "{sources:?}: {error}");
        assert!(place.at("disk/card/x").exists() && !place.at("disk/x").exists());
    };
    refused(&["disk/card"], "disk", mirror());
    refused(&["disk/card"], "disk", CopyOptions { dry_run: true, ..mirror() });
    // By name they go into directories of the destination, in which one of them lies.
    place.write("disk/other/inner/w");
    refused(&["disk/other/inner", "other"], "disk", mirror());
    let link_dest = Some(place.at("disk/yesterday"));
    refused(&["other"], "disk", CopyOptions { link_dest: link_dest.clone(), ..mirror() });
    fs::remove_dir_all(place.at("disk/other")).unwrap();
    // What a mirror does not delete is in nobody's way.
    place.copy(&["disk/card"], "disk", CopyOptions::default()).unwrap();
    assert!(place.at("disk/x").exists());
    let report = place.copy(&["disk/card"], "disk", excluding(&["/card", "/yesterday"])).unwrap();
    assert_eq!((report.undone(), deleted(&report)), (0, vec![]), "{report:?}");
    let options = CopyOptions { link_dest, ..mirror() };
    let report = place.copy(&["other"], "disk/today", options).unwrap();
    assert_eq!(report.undone(), 0, "{report:?}");
    assert!(place.at("disk/card/x").exists() && place.at("disk/yesterday/y").exists());
}

#[test]
fn nothing_is_deleted_where_something_was_not_copied() {
    let place = Place::new(&["from/file", "to/extra"]);
    place.write("to/file");
    let report = place.copy(&["from"], "to", mirror()).unwrap();
    assert_eq!((report.undone(), report.destinations[0].kept.len(), deleted(&report).len()), (1, 1, 0));
    let options = CopyOptions { overwrite: Overwrite::Different, ..mirror() };
    rustix::fs::mkfifoat(rustix::fs::CWD, place.at("from/pipe"), 0o600.into()).unwrap();
    let report = place.copy(&["from"], "to", options.clone()).unwrap();
    assert_eq!((report.undone(), report.not_copied.len(), deleted(&report).len()), (1, 1, 0));
    assert!(place.at("to/extra").exists());
    fs::remove_file(place.at("from/pipe")).unwrap();
    let report = place.copy(&["from"], "to", options).unwrap();
    assert_eq!((report.undone(), deleted(&report)), (0, vec!["extra".into()]));
    assert_same(&place.at("from"), &place.at("to"));
}

#[test]
fn a_dry_run_lists_every_directory_that_would_be_deleted_and_no_other() {
    let keys = |all: &[&str]| all.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    for dry_run in [true, false] {
        let place = Place::new(&["from/x", "to/gone/a/b", "to/stays/a/b.keep", "to/stays/c/d"]);
        fs::create_dir(place.at("to/bare")).unwrap();
        let options = CopyOptions { dry_run, ..excluding(&["*.keep"]) };
        let (report, events) = heard(&place.at("from"), &place.at("to"), options);
        let expected = keys(&["bare", "gone", "gone/a", "gone/a/b", "stays/c", "stays/c/d"]);
        assert_eq!((report.undone(), deleted(&report)), (0, expected.clone()), "dry run {dry_run}");
        let heard = events.whats().into_iter().filter(|(_, action, _)| *action == Action::Delete);
        let heard: Vec<_> = heard.map(|(key, _, why)| (key, why)).collect();
        assert_eq!(heard, expected.into_iter().map(|key| (key, Why::Extra)).collect::<Vec<_>>());
        assert!(place.at("to/stays/a/b.keep").exists() && place.at("to/gone").exists() == dry_run);
    }
}

#[test]
fn a_mirror_of_several_directories_leaves_what_lies_beside_them() {
    let place = Place::new(&["one/x", "two/y", "to/one/extra", "to/beside"]);
    let report = place.copy(&["one", "two"], "to", mirror()).unwrap();
    assert_eq!((report.undone(), deleted(&report)), (0, vec!["one/extra".into()]));
    assert!(place.at("to/beside").exists());
    let again = copy_with(&place.at("one"), &[&place.at("to/one")], mirror());
    assert_eq!((again.undone(), deleted(&again).len()), (0, 0));
}

#[test]
fn more_than_half_of_what_was_there_is_not_deleted_by_a_slip() {
    let place = Place::new(&["card/1", "card/2", "card/3", "other/readme"]);
    place.copy(&["card"], "disk", CopyOptions::default()).unwrap();
    let unasked = || CopyOptions { max_delete: None, ..mirror() };
    for dry_run in [true, false] {
        let report = place.copy(&["other"], "disk", CopyOptions { dry_run, ..unasked() }).unwrap();
        let why = failure(&report);
        assert!(why.contains("3 of 3 files would be deleted, more than half"), "{why}");
        assert_eq!(deleted(&report), [""; 0]);
    }
    // What was only just copied does not count, what is the same does.
    place.write("card/4");
    for name in ["disk/a", "disk/below/b", "disk/c"] {
        place.write(name);
    }
    let report = place.copy(&["card"], "disk", unasked()).unwrap();
    assert!(failure(&report).contains("4 of 7 files would be deleted"), "{report:?}");
    let report = place.copy(&["card"], "disk", CopyOptions { max_delete: Some(3), ..unasked() }).unwrap();
    assert!(failure(&report).contains("more than the 3 that may be"), "{report:?}");
    fs::remove_file(place.at("disk/readme")).unwrap();
    let report = place.copy(&["card"], "disk", unasked()).unwrap();
    assert_eq!((report.undone(), deleted(&report).len()), (0, 4), "{report:?}");
    assert_same(&place.at("card"), &place.at("disk"));
    // What is kept under another name is not lost.
    let backup = CopyOptions { backup: Some("~".into()), ..unasked() };
    let report = place.copy(&["other"], "disk", backup).unwrap();
    assert_eq!((report.undone(), deleted(&report).len()), (0, 4), "{report:?}");
    let report = place.copy(&["card"], "disk", CopyOptions { max_delete: Some(1), ..CopyOptions::default() });
    assert!(matches!(report, Err(Error::Invalid(_))), "{report:?}");
}

/// A file that another run has, as long as it is held.
fn held(path: &Path) -> fs::File {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "on its way").unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    System.lock(&file).unwrap();
    file
}

#[test]
fn temporary_files_of_another_copy_that_is_running_stay() {
    let place = Place::new(&["from/x", "to/extra/y"]);
    let names = [
        ".stook-0123456789abcdef-1.part",
        ".stook-0123456789abcdef.part",
        "extra/.stook-0123456789abcdef-2.part",
    ];
    let mut files: Vec<_> = names.iter().map(|name| held(&place.at("to").join(name))).collect();
    place.write("to/.stook-0123456789abcdef.journal");
    std::os::unix::fs::symlink("x", place.at("to/extra/.stook-0123456789abcdef-3.part")).unwrap();
    let is_there = |name: &str| place.at("to").join(name).symlink_metadata().is_ok();
    let report = place.copy(&["from"], "to", mirror()).unwrap();
    assert_eq!((report.undone(), deleted(&report)), (0, vec!["extra/y".into()]), "{report:?}");
    assert!(names.iter().all(|name| is_there(name)) && is_there(".stook-0123456789abcdef.journal"));
    assert!(is_there("extra/.stook-0123456789abcdef-3.part"));
    // When that has ended, they are only left over.
    files.clear();
    let report = place.copy(&["from"], "to", mirror()).unwrap();
    assert_eq!(report.undone(), 0, "{report:?}");
    let left: Vec<_> = state_of(&place.at("to")).into_keys().collect();
    assert_eq!(
        left,
        [&b"extra"[..], b"extra/.stook-0123456789abcdef-3.part", b"x"],
        "no run can hold a link"
    );
}

/// The name that something has for a moment that is exchanged with what has this one.
fn exchanged(name: &str) -> String {
    format!(".stook-0123456789abcdef-7-{}.old", &blake3::hash(name.as_bytes()).to_hex()[..16])
}

fn set_time(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn what_a_killed_run_had_just_replaced_is_kept_and_named_and_no_mirror_deletes_it() {
    let place = Place::new(&["from/d/file"]);
    set_time(&place.at("from/d/file"), 2_000);
    place.copy(&["from"], "to", CopyOptions::default()).unwrap();
    let left = format!("to/d/{}", exchanged("file"));
    fs::write(place.at(&left), "the earlier file").unwrap();
    set_time(&place.at(&left), 1_000);
    let replaced_by = Some(b"d/file".to_vec());
    let leftover = |name: &str| Leftover { key: name.as_bytes().to_vec(), replaced_by: replaced_by.clone() };
    for options in [CopyOptions::default(), mirror(), CopyOptions { force: true, ..mirror() }] {
        let report = place.copy(&["from"], "to", options).unwrap();
        assert_eq!((report.undone(), deleted(&report).len()), (0, 0), "{report:?}");
        assert_eq!(report.destinations[0].leftovers, [leftover(left.strip_prefix("to/").unwrap())]);
        assert_eq!(fs::read(place.at(&left)).unwrap(), b"the earlier file");
    }
    // Where backups are kept it becomes one, and takes the place of none.
    fs::write(place.at("to/d/file~"), "another backup").unwrap();
    let backup = CopyOptions { backup: Some("~".into()), ..mirror() };
    let report = place.copy(&["from"], "to", backup.clone()).unwrap();
    assert_eq!((report.undone(), report.destinations[0].backups), (0, 1), "{report:?}");
    assert_eq!(report.destinations[0].leftovers, [leftover("d/file~~")]);
    assert_eq!(fs::read(place.at("to/d/file~~")).unwrap(), b"the earlier file");
    assert_eq!(fs::read(place.at("to/d/file~")).unwrap(), b"another backup");
    assert!(place.copy(&["from"], "to", backup).unwrap().destinations[0].leftovers.is_empty());
}

#[test]
fn what_a_killed_run_was_about_to_put_in_place_is_removed_when_it_is_there() {
    let place = Place::new(&["from/file"]);
    set_time(&place.at("from/file"), 2_000);
    fs::create_dir(place.at("to")).unwrap();
    fs::write(place.at("to/file"), "older").unwrap();
    set_time(&place.at("to/file"), 1_000);
    let left = place.at("to").join(exchanged("file"));
    fs::copy(place.at("from/file"), &left).unwrap();
    set_time(&left, 2_000);
    let options = CopyOptions { overwrite: Overwrite::Older, ..CopyOptions::default() };
    let report = place.copy(&["from"], "to", options).unwrap();
    assert_eq!((report.undone(), report.destinations[0].leftovers.len()), (0, 0), "{report:?}");
    assert_same(&place.at("from"), &place.at("to"));
}

/// Takes files away from the source while the destination is synced.
#[derive(Debug)]
struct EmptiedMeanwhile(Vec<PathBuf>);

impl Calls for EmptiedMeanwhile {
    fn sync_file_system(&self, directory: BorrowedFd<'_>) -> io::Result<()> {
        self.0.iter().for_each(|path| drop(fs::remove_file(path)));
        System.sync_file_system(directory)
    }

    fn sync(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        self.0.iter().for_each(|path| drop(fs::remove_file(path)));
        System.sync(file)
    }
}

/// A card that is emptied when it seems to be read. Before: what had been copied was deleted.
#[test]
fn what_goes_from_the_source_while_it_is_copied_is_not_deleted_from_the_copy() {
    let place = Place::new(&["from/d/1", "from/d/2", "from/d/3", "to/d/extra"]);
    let gone = [place.at("from/d/1"), place.at("from/d/2")];
    let calls = Arc::new(EmptiedMeanwhile(gone.to_vec()));
    let destination = Destination { calls, ..Destination::new(place.at("to")) };
    let sources = vec![CopySource::directory(place.at("from")).unwrap()];
    let report = Copy::new(sources, vec![destination]).with_options(mirror()).run(&mut ()).unwrap();
    assert!(failure(&report).contains("lost something while it was copied"), "{report:?}");
    assert_eq!(deleted(&report), [""; 0]);
    let left = ["to/d/1", "to/d/2", "to/d/3", "to/d/extra"];
    assert!(left.iter().all(|name| place.at(name).exists()));
}

#[test]
fn what_is_left_out_is_neither_deleted_nor_moved_with_what_it_is_in() {
    for backup in [None, Some("~".into())] {
        let place = Place::new(&["from/x", "to/extra/keep/me", "to/extra/other"]);
        let options = CopyOptions { backup: backup.clone(), ..excluding(&["/extra/keep"]) };
        let report = place.copy(&["from"], "to", options).unwrap();
        assert_eq!(report.undone(), 0, "{report:?}");
        assert!(place.at("to/extra/keep/me").exists(), "{backup:?}");
        assert_eq!(place.at("to/extra/other~").exists(), backup.is_some());
        assert!(!place.at("to/extra/other").exists() && !place.at("to/extra~").exists());
    }
}
