//! A source that is not what it was is an error that names it, and never a mixture.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use stook::extent::ByteRange;
use stook::source::Source as _;
use stook::stitch::{Afs, Laid, Layout as _, Raw, VirtualFile};

use super::{members, read_through, tar_of, zip_of};

const LEN: usize = 3 << 20;

fn tree() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("a"), "first").unwrap();
    let path = place.path().join("b");
    fs::write(&path, vec![7; LEN]).unwrap();
    fs::write(place.path().join("c"), "last").unwrap();
    (place, path)
}

/// What happens to a file.
fn hurt(path: &Path, how: &str) {
    match how {
        "truncated" => File::options().write(true).open(path).unwrap().set_len(LEN as u64 / 2).unwrap(),
        "grown" => File::options().append(true).open(path).unwrap().write_all(b"more").unwrap(),
        "replaced" => {
            let new = path.with_extension("new");
            fs::write(&new, vec![8; LEN]).unwrap();
            fs::rename(new, path).unwrap();
        }
        "replaced by one of the same time" => {
            let before = path.metadata().unwrap().modified().unwrap();
            let new = path.with_extension("new");
            fs::write(&new, vec![8; LEN]).unwrap();
            File::options().write(true).open(&new).unwrap().set_modified(before).unwrap();
            fs::rename(new, path).unwrap();
        }
        "rewritten" => fs::write(path, vec![8; LEN]).unwrap(),
        "rewritten at the same time" => {
            let before = path.metadata().unwrap().modified().unwrap();
            fs::write(path, vec![8; LEN]).unwrap();
            File::options().write(true).open(path).unwrap().set_modified(before).unwrap();
        }
        "deleted" => fs::remove_file(path).unwrap(),
        "a pipe" => {
            fs::remove_file(path).unwrap();
            assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        }
        "a link to itself" => {
            fs::remove_file(path).unwrap();
            std::os::unix::fs::symlink("b", path).unwrap();
        }
        other => panic!("{other}"),
    }
}

const BEFORE: [&str; 9] = [
    "truncated",
    "grown",
    "replaced",
    "replaced by one of the same time",
    "rewritten",
    "rewritten at the same time",
    "deleted",
    "a pipe",
    "a link to itself",
];

fn named(error: &(dyn std::error::Error + 'static)) {
    let said = stook::error::chain(error);
    assert!(said.contains("/b"), "{said}");
}

/// Where the bytes of the file are in the archive, far from its beginning.
fn part(laid: &Laid) -> ByteRange {
    ByteRange::at(laid.starts[1] + LEN as u64 - 4096, 4096).unwrap()
}

#[test]
fn what_changed_since_it_was_listed_is_never_read() {
    for lay_out in [tar_of, zip_of] {
        for how in BEFORE {
            let (place, path) = tree();
            let laid = lay_out(place.path());
            // A file system whose clock ticks slowly would not see it.
            std::thread::sleep(std::time::Duration::from_millis(20));
            hurt(&path, how);
            named(&laid.file.read_at(part(&laid)).unwrap_err());
            let mut all = Vec::new();
            let read = laid.file.read_through(&mut |bytes| {
                all.extend_from_slice(bytes);
                Ok(true)
            });
            named(&read.unwrap_err());
            assert!(!all.contains(&8), "{how}");
            // What is elsewhere is read.
            let a = ByteRange::at(laid.starts[0], 5).unwrap();
            assert_eq!(laid.file.read_at(a).unwrap(), "first");
        }
    }
}

#[test]
fn what_changes_after_it_was_opened_is_noticed_by_the_next_read() {
    for how in BEFORE.into_iter().filter(|how| *how != "deleted") {
        let (place, path) = tree();
        let laid = tar_of(place.path());
        let range = part(&laid);
        assert_eq!(laid.file.read_at(range).unwrap(), vec![7; 4096]);
        std::thread::sleep(std::time::Duration::from_millis(20));
        hurt(&path, how);
        let read = stook::source::Session::new(
            &stook::engine::Backend::Auto,
            stook::source::SessionOptions::default(),
        )
        .unwrap()
        .read_batch(&laid.file, &[range], stook::engine::Access::Cached);
        match read {
            // A file that was replaced is still the one that is open.
            Ok(bytes) => {
                let is_other = how.starts_with("replaced") || how.starts_with("a ");
                assert!(is_other, "{how}");
                assert_eq!(bytes[0], vec![7; 4096]);
            }
            Err(error) => named(&error),
        }
    }
}

#[test]
fn what_is_written_while_all_is_read_is_an_error_and_not_half_of_both() {
    for lay_out in [tar_of, zip_of] {
        let (place, path) = tree();
        let laid = lay_out(place.path());
        let (mut all, mut is_hurt) = (Vec::new(), false);
        let read = laid.file.read_through(&mut |bytes| {
            all.extend_from_slice(bytes);
            if !is_hurt && all.len() > 1 << 20 {
                is_hurt = true;
                std::thread::sleep(std::time::Duration::from_millis(20));
                hurt(&path, "rewritten at the same time");
            }
            Ok(true)
        });
        // All of it was perhaps read before; then it is what it was.
        match read {
            Ok(()) => assert!(!all.contains(&8)),
            Err(error) => named(&error),
        }
    }
}

/// A layout of members.
type LayOut = fn(&Path) -> Laid;

#[test]
fn a_file_without_bytes_that_has_some_by_now_is_noticed() {
    let raw: LayOut = |path| Raw.lay_out("x.raw".into(), members(path)).unwrap();
    let afs: LayOut = |path| Afs::default().lay_out("x.afs".into(), members(path)).unwrap();
    let lay_outs: [LayOut; 4] = [tar_of, zip_of, raw, afs];
    for (lay_out, how) in lay_outs.into_iter().flat_map(|of| [(of, "grown"), (of, "touched"), (of, "first")])
    {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("b");
        for (name, bytes) in [("a", "first"), ("b", ""), ("c", "last")] {
            fs::write(place.path().join(name), bytes).unwrap();
        }
        if how == "first" {
            fs::remove_file(place.path().join("a")).unwrap();
        }
        let laid = lay_out(place.path());
        let before = read_through(&laid.file).unwrap();
        let all = ByteRange::to(before.len() as u64);
        assert!(laid.file.read_at(all).unwrap() == before);
        std::thread::sleep(std::time::Duration::from_millis(20));
        match how {
            // Another time than in its header.
            "touched" => File::options().write(true).open(&path).unwrap().set_len(0).unwrap(),
            _ => fs::write(&path, "b").unwrap(),
        }
        named(&read_through(&laid.file).unwrap_err());
        named(&laid.file.read_at(all).unwrap_err());
        let at = laid.starts[laid.members.all().iter().position(|member| *member.key == *b"b").unwrap()];
        if let Some(header) = at.checked_sub(1).and_then(|at| ByteRange::at(at, 1)) {
            named(&laid.file.read_at(header).unwrap_err());
        }
        // What is elsewhere is read; at the front, all that has no bytes is passed.
        let last = *laid.starts.last().unwrap();
        if last > 0 {
            assert_eq!(laid.file.read_at(ByteRange::at(last, 4).unwrap()).unwrap(), "last");
        }
    }
}

#[test]
fn any_number_of_files_without_bytes_is_passed_by_one_read() {
    let place = tempfile::tempdir().unwrap();
    for at in 0..500 {
        fs::write(place.path().join(format!("{at:03}")), if at % 250 == 0 { "bytes" } else { "" }).unwrap();
    }
    let raw = Raw.lay_out("x.raw".into(), members(place.path())).unwrap();
    let tar = tar_of(place.path());
    for laid in [&raw, &tar] {
        let whole = read_through(&laid.file).unwrap();
        assert!(laid.file.read_at(ByteRange::to(whole.len() as u64)).unwrap() == whole);
    }
    assert_eq!(raw.file.read_at(ByteRange::to(10)).unwrap(), "bytesbytes");
    std::thread::sleep(std::time::Duration::from_millis(20));
    fs::write(place.path().join("499"), "late").unwrap();
    for laid in [&raw, &tar] {
        let said = laid.file.read_at(ByteRange::to(laid.file.len())).unwrap_err();
        assert!(stook::error::chain(&said).contains("/499"), "{said}");
    }
}

#[test]
fn a_reader_that_wants_no_more_ends_it() {
    let (place, _) = tree();
    let laid = tar_of(place.path());
    let mut calls = 0;
    let ended = laid.file.read_through(&mut |_| {
        calls += 1;
        Ok(false)
    });
    assert!(matches!(ended, Err(stook::stitch::Error::Interrupted)) && calls == 1);
    assert_eq!(read_through(&laid.file).unwrap().len() as u64, stook::source::Source::len(&laid.file));
}

/// A change of a body that was closed to make room for those of another file, which has many, is
/// the error of its own file. Other threads that make room would close it before it changes.
pub(super) fn changes_are_errors_of_their_own_file(other: &VirtualFile) {
    let (place, path) = tree();
    let laid = tar_of(place.path());
    laid.file.resolve(part(&laid), &mut Vec::new()).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    hurt(&path, "rewritten");
    other.read_at(ByteRange::to(other.len())).unwrap();
    other.check_unchanged().unwrap();
    for _ in 0..2 {
        named(&laid.file.check_unchanged().unwrap_err());
        named(&laid.file.check_ranges(&[part(&laid)]).unwrap_err());
        named(&laid.file.read_at(part(&laid)).unwrap_err());
    }
}
