//! Attributes that changed since an earlier copy, with the same bytes and the same time.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags, getxattr, setxattr, utimensat};
use stook::copy::{Action, Copy, CopyOptions, CopySource, Destination};
use stook::tree::Overwrite;
use stook_testing::fault::{FaultCalls, OutFault};
use stook_testing::sweep::each_call;

use super::{copy, copy_with, heard};

const EPERM: i32 = 1;

fn value(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = [0; 64];
    let len = getxattr(path, name, &mut value).ok()?;
    Some(value[..len].to_vec())
}

fn set(path: &Path, name: &str, value: &[u8]) {
    setxattr(path, name, value, XattrFlags::empty()).unwrap();
}

fn different() -> CopyOptions {
    CopyOptions { overwrite: Overwrite::Different, ..CopyOptions::default() }
}

/// A file and a directory with extended attributes, copied, of which the source then has others.
fn changed() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    fs::create_dir_all(from.join("folder")).unwrap();
    for name in ["file", "folder"] {
        if name == "file" {
            fs::write(from.join(name), "bytes").unwrap();
        }
        set(&from.join(name), "user.gone", b"1");
        set(&from.join(name), "user.changed", b"1");
    }
    assert!(copy(&from, &to).destinations[0].failures.is_empty());
    for name in ["file", "folder"] {
        rustix::fs::removexattr(from.join(name), "user.gone").unwrap();
        set(&from.join(name), "user.changed", b"2");
        set(&from.join(name), "user.new", b"3");
    }
    directory
}

fn assert_attributes(at: &Path) {
    for name in ["file", "folder"] {
        let of = |xattr| value(&at.join(name), xattr);
        let all = (of("user.gone"), of("user.changed"), of("user.new"));
        assert_eq!(all, (None, Some(b"2".to_vec()), Some(b"3".to_vec())), "{name}");
    }
}

#[test]
fn extended_attributes_that_changed_alone_are_corrected_where_that_is_asked() {
    let directory = changed();
    let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    let before = fs::metadata(to.join("file")).unwrap().ino();
    let dry = heard(&from, &to, CopyOptions { dry_run: true, ..different() }).1;
    assert!(dry.whats().iter().any(|(key, action, _)| key == "file" && *action == Action::Correct));
    assert_eq!(value(&to.join("file"), "user.gone").as_deref(), Some(&b"1"[..]));
    let report = copy_with(&from, &[&to], different());
    assert_eq!((report.destinations[0].corrected, report.destinations[0].files), (1, 0));
    assert_attributes(&to);
    assert_eq!(fs::metadata(to.join("file")).unwrap().ino(), before, "nothing was written");
    assert_eq!(copy_with(&from, &[&to], different()).destinations[0].corrected, 0);
    // Without extended attributes those that are there stay.
    set(&to.join("file"), "user.own", b"4");
    let without = CopyOptions { xattrs: false, ..different() };
    assert_eq!(copy_with(&from, &[&to], without).destinations[0].corrected, 0);
    assert!(value(&to.join("file"), "user.own").is_some());
}

#[test]
fn a_file_of_an_earlier_copy_with_other_extended_attributes_is_not_linked() {
    let directory = changed();
    let [from, to, next] = ["from", "to", "next"].map(|name| directory.path().join(name));
    let options = CopyOptions { link_dest: Some(to.clone()), ..CopyOptions::default() };
    let report = copy_with(&from, &[&next], options.clone());
    assert_eq!((report.destinations[0].linked, report.destinations[0].files), (0, 1));
    assert_attributes(&next);
    assert_eq!(value(&to.join("file"), "user.gone").as_deref(), Some(&b"1"[..]), "the earlier one stays");
    let again = CopyOptions { link_dest: Some(next), ..options };
    assert_eq!(copy_with(&from, &[&directory.path().join("last")], again).destinations[0].linked, 1);
}

#[test]
fn the_time_of_a_link_is_corrected_where_that_is_asked() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    fs::create_dir(&from).unwrap();
    symlink("nowhere", from.join("link")).unwrap();
    copy(&from, &to);
    let time = Timespec { tv_sec: 1_000, tv_nsec: 5 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, from.join("link"), &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    let mtime = || {
        let there = to.join("link").symlink_metadata().unwrap();
        (there.mtime(), there.mtime_nsec())
    };
    assert_eq!(copy(&from, &to).destinations[0].corrected, 0);
    assert_ne!(mtime(), (1_000, 5));
    assert_eq!(copy_with(&from, &[&to], different()).destinations[0].corrected, 1);
    assert_eq!(mtime(), (1_000, 5));
    assert_eq!(copy_with(&from, &[&to], different()).destinations[0].corrected, 0);
}

#[test]
fn an_empty_directory_of_another_user_keeps_what_is_his_and_one_that_was_made_does_not() {
    let place = tempfile::tempdir().unwrap();
    let (from, to) = (place.path().join("from"), place.path().join("to"));
    fs::create_dir(&from).unwrap();
    for is_there in [true, false] {
        let run = |calls: Arc<FaultCalls>| {
            let _ = fs::remove_dir_all(&to);
            if is_there {
                fs::create_dir(&to).unwrap();
            }
            let destination = Destination { calls, ..Destination::new(&to) };
            let sources = vec![CopySource::directory(&from).unwrap()];
            Copy::new(sources, vec![destination]).run(&mut ())
        };
        let refused = |nth| FaultCalls::nth(nth, OutFault::Fails(EPERM));
        let mut seen = Vec::new();
        each_call(1, refused, run, |report, nth, name| {
            if ["set_mode", "set_mtime"].contains(&name) {
                seen.push(name);
                let report = report.unwrap();
                assert_eq!(report.undone() == 0, is_there, "{nth}, {name}, {is_there}: {report:?}");
            }
        });
        assert!(seen.contains(&"set_mode") && seen.contains(&"set_mtime"), "{seen:?}");
    }
}

/// A read that fails while a file is copied costs the attribute. Before: the next run took the file
/// for the same, and ended with 0.
#[test]
fn what_a_file_lacks_is_found_by_the_next_run_which_changes_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    fs::create_dir(&from).unwrap();
    fs::write(from.join("file"), "bytes").unwrap();
    set(&from.join("file"), "user.here", b"1");
    set(&from.join("file"), "user.lacking", b"2");
    let acl = posix_acl();
    set(&from.join("file"), "system.posix_acl_access", &acl);
    copy(&from, &to);
    let file = to.join("file");
    rustix::fs::removexattr(&file, "user.lacking").unwrap();
    rustix::fs::removexattr(&file, "system.posix_acl_access").unwrap();
    set(&file, "user.here", b"changed");
    set(&file, "user.own", b"3");
    for overwrite in [Overwrite::Never, Overwrite::Older] {
        let options = CopyOptions { overwrite, ..CopyOptions::default() };
        let dry = heard(&from, &to, CopyOptions { dry_run: true, ..options.clone() }).1;
        let report = copy_with(&from, &[&to], options);
        let one = &report.destinations[0];
        let is_first = overwrite == Overwrite::Never;
        assert_eq!((one.unchanged, one.corrected), (1, u64::from(is_first)), "{report:?}");
        let action = if is_first { Action::Correct } else { Action::Skip };
        assert!(dry.whats().iter().any(|(key, what, _)| key == "file" && *what == action), "{dry:?}");
        // Who may read it is the owner's to say, and is only reported.
        let first = one.unset_xattrs.first.as_ref().unwrap();
        assert!(report.undone() == 1 && first.1.contains("posix_acl_access"), "{report:?}");
        let of = |name| value(&file, name);
        assert_eq!(of("user.lacking").as_deref(), Some(&b"2"[..]));
        assert_eq!(of("user.here").as_deref(), Some(&b"changed"[..]), "what is there stays");
        assert!(of("user.own").is_some() && of("system.posix_acl_access").is_none());
    }
    let without = CopyOptions { xattrs: false, ..CopyOptions::default() };
    assert_eq!(copy_with(&from, &[&to], without).undone(), 0);
    assert_eq!(copy_with(&from, &[&to], different()).undone(), 0);
    assert_eq!(value(&file, "system.posix_acl_access"), Some(acl));
}

/// A list of rights in which one more user has some: version 2, then tag, rights and id of each.
fn posix_acl() -> Vec<u8> {
    let entries =
        [(1_u16, 6_u16, u32::MAX), (2, 4, 7), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)];
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        acl.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
        acl.extend(id.to_le_bytes());
    }
    acl
}
