//! What becomes of what is there, and why.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use stook::copy::{Action, CopyOptions, Why};
use stook::names::{Patterns, Selection};
use stook::tree::Overwrite;

use super::{assert_same, copy, copy_with, heard};

fn write(path: &Path, bytes: &str, seconds: u64) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

/// A source, and a destination that differs from it in every way.
fn place() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for (name, from, to) in [
        ("same", ("bytes", 100), Some(("bytes", 100))),
        ("touched", ("bytes", 100), Some(("bytes", 200))),
        ("longer", ("bytes", 100), Some(("more bytes", 100))),
        ("newer", ("bytes", 100), Some(("other", 200))),
        ("older", ("bytes", 100), Some(("other", 50))),
        ("hidden", ("bytes", 100), Some(("other", 100))),
        ("new", ("bytes", 100), None),
    ] {
        write(&at("from").join(name), from.0, from.1);
        if let Some(to) = to {
            write(&at("to").join(name), to.0, to.1);
        }
    }
    directory
}

fn with(overwrite: Overwrite) -> CopyOptions {
    CopyOptions { overwrite, ..CopyOptions::default() }
}

#[test]
fn each_rule_replaces_exactly_what_it_says_and_a_dry_run_says_the_same() {
    let copied = |why| (Action::Copy, why);
    let keep = (Action::Keep, Why::Content);
    let skip = (Action::Skip, Why::Same);
    let plain = |overwrite| with(overwrite);
    let checked = |overwrite| CopyOptions { checksum: true, ..with(overwrite) };
    // In the order of names: hidden, longer, new, newer, older, same, touched.
    let new = copied(Why::New);
    for (options, expected) in [
        (plain(Overwrite::Never), [skip, (Action::Keep, Why::Len), new, keep, keep, skip, skip]),
        (
            plain(Overwrite::Older),
            [skip, (Action::Keep, Why::Len), new, keep, copied(Why::Older), skip, skip],
        ),
        (
            plain(Overwrite::Different),
            [
                skip,
                copied(Why::Len),
                new,
                copied(Why::Content),
                copied(Why::Content),
                skip,
                (Action::Correct, Why::Metadata),
            ],
        ),
        (
            plain(Overwrite::Always),
            [copied(Why::Asked), copied(Why::Asked), new]
                .into_iter()
                .chain([copied(Why::Asked); 4])
                .collect::<Vec<_>>()
                .try_into()
                .unwrap(),
        ),
        (
            checked(Overwrite::Different),
            [
                copied(Why::Content),
                copied(Why::Len),
                new,
                copied(Why::Content),
                copied(Why::Content),
                skip,
                (Action::Correct, Why::Metadata),
            ],
        ),
        (checked(Overwrite::Never), [keep, (Action::Keep, Why::Len), new, keep, keep, skip, skip]),
    ] {
        for dry_run in [true, false] {
            let place = place();
            let (from, to) = (place.path().join("from"), place.path().join("to"));
            let options = CopyOptions { dry_run, ..options.clone() };
            let (report, events) = heard(&from, &to, options.clone());
            let whats: Vec<_> = events.whats().into_iter().map(|(_, action, why)| (action, why)).collect();
            assert_eq!(whats, expected, "{options:?}");
            let kept = expected.iter().filter(|(action, _)| *action == Action::Keep).count();
            assert_eq!(report.undone(), kept as u64, "{report:?}");
            assert_eq!(dry_run, !to.join("new").exists());
            for ((name, ..), (action, _)) in events.whats().iter().zip(expected) {
                let is_source = fs::read(to.join(name)).unwrap_or_default() == b"bytes";
                let was_source = ["same", "touched"].contains(&name.as_str());
                let is_written = action == Action::Copy && !dry_run;
                assert_eq!(is_source, is_written || was_source, "{name} {action:?} {options:?}");
            }
        }
    }
}

#[test]
fn a_mirror_deletes_what_is_extra_and_names_it_and_never_after_a_failure() {
    let place = place();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    fs::create_dir_all(to.join("gone/deep/er")).unwrap();
    fs::write(to.join("gone/deep/er/file"), "x").unwrap();
    fs::write(to.join("extra"), "x").unwrap();
    let outside = place.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "x").unwrap();
    std::os::unix::fs::symlink(&outside, to.join("gone/link")).unwrap();
    std::os::unix::fs::symlink(&outside, to.join("link")).unwrap();
    let max_delete = Some(100);
    let options = CopyOptions { mirror: true, max_delete, checksum: true, ..with(Overwrite::Different) };
    // A failure: a directory is where a file goes.
    fs::create_dir(to.join("new")).unwrap();
    let report = copy_with(&from, &[&to], options.clone());
    assert_eq!((report.destinations[0].failures.len(), report.destinations[0].deleted.len()), (1, 0));
    assert!(to.join("extra").exists());
    fs::remove_dir(to.join("new")).unwrap();
    let dry = copy_with(&from, &[&to], CopyOptions { dry_run: true, ..options.clone() });
    assert!(to.join("extra").exists());
    let report = copy_with(&from, &[&to], options.clone());
    let mut deleted = report.destinations[0].deleted.clone();
    deleted.sort();
    let expected = ["extra", "gone", "gone/deep", "gone/deep/er", "gone/deep/er/file", "gone/link", "link"];
    assert_eq!(deleted, expected.map(Vec::from));
    assert_eq!(dry.destinations[0].deleted.len(), expected.len());
    assert_same(&from, &to);
    assert!(outside.join("precious").exists());
    // What is left out stays, and a source that seems to be empty deletes nothing.
    fs::write(to.join("x.keep"), "x").unwrap();
    fs::create_dir_all(to.join("dropped/inner")).unwrap();
    fs::create_dir_all(to.join("empty/deep")).unwrap();
    fs::write(to.join("dropped/inner/y.keep"), "x").unwrap();
    fs::write(to.join("dropped/inner/z"), "x").unwrap();
    let exclude = Patterns::new(["*.keep"]).unwrap();
    let selection = Selection::of(Patterns::default(), exclude);
    let report = copy_with(&from, &[&to], CopyOptions { selection, ..options.clone() });
    assert!(to.join("x.keep").exists() && to.join("dropped/inner/y.keep").exists());
    let mut deleted = report.destinations[0].deleted.clone();
    deleted.sort();
    assert_eq!(
        (report.undone(), deleted),
        (0, ["dropped/inner/z", "empty", "empty/deep"].map(Vec::from).to_vec())
    );
}

#[test]
fn what_is_replaced_or_deleted_is_kept_under_another_name() {
    let place = place();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    fs::write(to.join("extra"), "x").unwrap();
    let options = CopyOptions { mirror: true, backup: Some("~".into()), ..with(Overwrite::Different) };
    let report = copy_with(&from, &[&to], options.clone());
    assert_eq!((report.undone(), report.destinations[0].backups), (0, 3), "{report:?}");
    for (name, bytes) in
        [("longer~", "more bytes"), ("newer~", "other"), ("older~", "other"), ("extra~", "x")]
    {
        assert_eq!(fs::read(to.join(name)).unwrap(), bytes.as_bytes(), "{name}");
    }
    assert!(!to.join("extra").exists());
    let again = copy_with(&from, &[&to], options);
    assert_eq!((again.undone(), again.destinations[0].backups, again.destinations[0].files), (0, 0, 0));
}

#[test]
fn unchanged_files_of_an_earlier_copy_become_hard_links_of_them() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    write(&at("from/d/same"), "bytes", 100);
    write(&at("from/changed"), "bytes", 100);
    assert_eq!(copy(&at("from"), &at("monday")).undone(), 0);
    write(&at("from/changed"), "other", 300);
    for checksum in [false, true] {
        let _ = fs::remove_dir_all(at("tuesday"));
        let options = CopyOptions { link_dest: Some(at("monday")), checksum, ..CopyOptions::default() };
        let report = copy_with(&at("from"), &[&at("tuesday")], options);
        let one = &report.destinations[0];
        assert_eq!((report.undone(), one.linked, one.files), (0, 1, 1), "{report:?}");
        let inode = |path: &str| fs::metadata(at(path)).unwrap().ino();
        assert_eq!(inode("monday/d/same"), inode("tuesday/d/same"));
        assert_ne!(inode("monday/changed"), inode("tuesday/changed"));
        assert_eq!(fs::read(at("monday/changed")).unwrap(), b"bytes");
    }
}

#[test]
fn selections_and_lists_say_what_is_copied() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    for name in ["a/1.jpg", "a/2.txt", "b/c/3.jpg", "b/4", "d/5"] {
        write(&at("from").join(name), name, 100);
    }
    let files = |to: &str| -> Vec<String> {
        let all = super::state_of(&at(to));
        let files = all.into_iter().filter(|(_, known)| known.0 & 0o170_000 == 0o100_000);
        files.map(|(key, _)| String::from_utf8(key).unwrap()).collect()
    };
    let selection = Selection::of(Patterns::new(["*.jpg"]).unwrap(), Patterns::new(["c/"]).unwrap());
    copy_with(&at("from"), &[&at("jpgs")], CopyOptions { selection, ..CopyOptions::default() });
    assert_eq!(files("jpgs"), ["a/1.jpg"]);
    assert!(!at("jpgs/d").exists());
    let only = BTreeSet::from([b"a/2.txt".to_vec(), b"b".to_vec(), b"missing".to_vec()]);
    let options = CopyOptions { only: Some(only), ..CopyOptions::default() };
    let report = copy_with(&at("from"), &[&at("listed")], options);
    assert_eq!(files("listed"), ["a/2.txt", "b/4", "b/c/3.jpg"]);
    assert_eq!((report.failures.len(), report.failures[0].key.as_slice()), (1, &b"missing"[..]));
}

#[test]
fn special_files_are_listed_or_made_and_nothing_waits_for_them() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    write(&at("from/file"), "x", 100);
    rustix::fs::mkfifoat(rustix::fs::CWD, at("from/pipe"), 0o640.into()).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(at("from/socket")).unwrap();
    let report = copy(&at("from"), &at("plain"));
    assert_eq!((report.not_copied.len(), report.undone()), (2, 2));
    assert!(!at("plain/pipe").exists() && at("plain/file").exists());
    let options = CopyOptions { specials: true, ..CopyOptions::default() };
    let report = copy_with(&at("from"), &[&at("all")], options);
    assert_eq!((report.not_copied.len(), report.destinations[0].specials), (1, 1), "{report:?}");
    let mode = fs::symlink_metadata(at("all/pipe")).unwrap().permissions().mode();
    assert_eq!(mode & 0o170_777, 0o010_640);
}

/// As in the study: what is there after an interruption is finished, whatever it looks like.
#[test]
fn a_short_file_of_an_earlier_run_is_never_taken_for_the_whole() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    write(&at("from/file"), "all of its bytes", 100);
    write(&at("to/file"), "all of", 100);
    let report = copy(&at("from"), &at("to"));
    assert_eq!((report.undone(), report.destinations[0].kept.len()), (1, 1), "it is named");
    let report = copy_with(&at("from"), &[&at("to")], with(Overwrite::Different));
    assert_eq!((report.undone(), report.destinations[0].files), (0, 1));
    assert_same(&at("from"), &at("to"));
    // `never` follows no link, and makes nothing where a dangling one leads.
    std::os::unix::fs::symlink(at("elsewhere"), at("to/dangling")).unwrap();
    write(&at("from/dangling"), "bytes", 100);
    let report = copy(&at("from"), &at("to"));
    assert_eq!(report.destinations[0].kept.len(), 1, "{report:?}");
    assert!(!at("elsewhere").exists());
}
