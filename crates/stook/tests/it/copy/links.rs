//! Hard links of what is copied, whatever is in the way of one of the names.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

use stook::copy::{Action, CopyOptions, Why};
use stook::tree::Overwrite;

use super::{assert_same, copy, copy_with, heard};

/// A file with three names, of which something else has the first in the destination.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::create_dir(at("from")).unwrap();
    fs::create_dir(at("to")).unwrap();
    fs::write(at("from/1"), "the file").unwrap();
    for name in ["from/2", "from/3"] {
        fs::hard_link(at("from/1"), at(name)).unwrap();
    }
    place
}

/// The name that is listed first is the one that is copied as a file.
fn first_of(from: &Path) -> String {
    let name = fs::read_dir(from).unwrap().next().unwrap().unwrap().file_name();
    name.into_string().unwrap()
}

/// Before: the third name became one of what was kept under the first.
#[test]
fn no_name_of_a_file_leads_to_what_stays_under_another() {
    for dry_run in [true, false] {
        let place = place();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        let first = first_of(&from);
        fs::write(to.join(&first), "something else").unwrap();
        let (report, events) = heard(&from, &to, CopyOptions { dry_run, ..CopyOptions::default() });
        assert_eq!((report.undone(), report.destinations[0].kept.len()), (1, 1), "{report:?}");
        let mut whats: Vec<_> = events.whats().into_iter().map(|(_, action, why)| (action, why)).collect();
        whats.sort_by_key(|(action, _)| action.name());
        let expected = [(Action::Copy, Why::New), (Action::HardLink, Why::New), (Action::Keep, Why::Len)];
        assert_eq!(whats, expected, "dry run {dry_run}");
        if dry_run {
            continue;
        }
        assert_eq!(fs::read(to.join(&first)).unwrap(), b"something else");
        let others: Vec<_> = ["1", "2", "3"].into_iter().filter(|name| *name != first).collect();
        for name in &others {
            assert_eq!(fs::read(to.join(name)).unwrap(), b"the file", "{name}");
        }
        let inode = |name: &str| fs::metadata(to.join(name)).unwrap().ino();
        assert_eq!(inode(others[0]), inode(others[1]));
    }
}

#[test]
fn links_and_pipes_with_several_names_keep_them() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    fs::create_dir_all(from.join("d")).unwrap();
    symlink("nowhere", from.join("link")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, from.join("pipe"), 0o640.into()).unwrap();
    for name in ["link", "pipe"] {
        fs::hard_link(from.join(name), from.join("d").join(name)).unwrap();
    }
    let options = CopyOptions { specials: true, ..CopyOptions::default() };
    for _ in 0..2 {
        let report = copy_with(&from, &[&to], options.clone());
        assert_eq!(report.undone(), 0, "{report:?}");
        assert_same(&from, &to);
    }
    // Two links of an earlier copy that lead to the same become one where they may be replaced.
    fs::remove_file(to.join("d/link")).unwrap();
    symlink("nowhere", to.join("d/link")).unwrap();
    assert_eq!(copy_with(&from, &[&to], options.clone()).destinations[0].symlinks, 0);
    let different = CopyOptions { overwrite: Overwrite::Different, ..options };
    assert_eq!(copy_with(&from, &[&to], different).destinations[0].symlinks, 1);
    assert_same(&from, &to);
    let report = copy(&from, &place.path().join("plain"));
    assert_eq!((report.not_copied.len(), report.destinations[0].symlinks), (2, 2), "{report:?}");
}
