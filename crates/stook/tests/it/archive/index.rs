//! The index beside a tar: used if it is of this tar, rebuilt whenever anything is wrong with it.

use std::fs;
use std::path::{Path, PathBuf};

use stook::archive::{Archive, OpenOptions, Origin};

use super::contents;
use super::made::{end, member};

struct Place {
    dir: tempfile::TempDir,
    tar: PathBuf,
    index: PathBuf,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let (tar, index) = (dir.path().join("t.tar"), dir.path().join("t.tar.stook-index"));
    let members: Vec<u8> = (0..50)
        .flat_map(|n| member(format!("m{n}").as_bytes(), b'0', format!("body {n}").as_bytes()))
        .collect();
    fs::write(&tar, [members, end()].concat()).unwrap();
    Place { dir, tar, index }
}

fn open(tar: &Path) -> Archive {
    Archive::open(tar, OpenOptions::default()).unwrap()
}

/// Why the index that was there was not used.
fn useless(archive: &Archive) -> String {
    match archive.origin() {
        Origin::Made { useless: Some(why), not_kept: None } => why.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_index_is_made_once_and_then_used() {
    let place = place();
    let first = open(&place.tar);
    assert_eq!(first.origin(), &Origin::Made { useless: None, not_kept: None });
    let bytes = fs::read(&place.index).unwrap();
    let second = open(&place.tar);
    assert_eq!(second.origin(), &Origin::Sidecar);
    assert_eq!(first.index().bytes(), second.index().bytes());
    assert_eq!(contents(&second).len(), 50);
    assert_eq!(fs::read(&place.index).unwrap(), bytes);
    let names: Vec<_> = fs::read_dir(place.dir.path()).unwrap().collect();
    assert_eq!(names.len(), 2, "no temporary file is left");
}

#[test]
fn a_tar_that_changed_gets_a_new_index() {
    let place = place();
    open(&place.tar);
    let mut bytes = fs::read(&place.tar).unwrap();
    bytes.truncate(bytes.len() - 1024);
    fs::write(&place.tar, [bytes, member(b"new", b'0', b"x"), end()].concat()).unwrap();
    let archive = open(&place.tar);
    assert!(useless(&archive).contains("changed"));
    assert!(archive.find(b"new").is_some());
    assert_eq!(open(&place.tar).origin(), &Origin::Sidecar);
}

#[test]
fn a_tar_rewritten_with_the_same_length_and_time_is_noticed() {
    let place = place();
    open(&place.tar);
    let time = fs::metadata(&place.tar).unwrap().modified().unwrap();
    let mut bytes = fs::read(&place.tar).unwrap();
    bytes[512] = b'B';
    fs::write(&place.tar, bytes).unwrap();
    fs::File::options().write(true).open(&place.tar).unwrap().set_modified(time).unwrap();
    let archive = open(&place.tar);
    assert!(useless(&archive).contains("changed"));
    assert_eq!(contents(&archive)[&b"m0"[..]].1, b"Body 0");
}

#[test]
fn a_damaged_index_is_never_used() {
    let place = place();
    let expected = contents(&open(&place.tar));
    let good = fs::read(&place.index).unwrap();
    for at in (0..good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        fs::write(&place.index, &bad).unwrap();
        let archive = open(&place.tar);
        assert!(!useless(&archive).is_empty(), "byte {at}");
        assert_eq!(contents(&archive), expected);
        assert_eq!(fs::read(&place.index).unwrap(), good, "byte {at}: it is whole again");
    }
    for len in [0, 1, 8, 111, 112, 113, good.len() - 1] {
        fs::write(&place.index, &good[..len]).unwrap();
        useless(&open(&place.tar));
    }
    fs::write(&place.index, [&good[..], b"x"].concat()).unwrap();
    useless(&open(&place.tar));
}

#[test]
fn an_index_whose_checksums_are_right_and_whose_content_is_not_is_refused() {
    let place = place();
    open(&place.tar);
    let good = fs::read(&place.index).unwrap();
    // Places in the first entry: key, kind, data, stored length, header, link, pieces.
    for (at, byte) in [(7, 1), (12, 9), (55, 1), (56, 99), (71, 1), (79, 1), (0, 200), (13, 16 | 8)] {
        let mut bad = good.clone();
        bad[112 + at] = byte;
        let sum = crc32c::crc32c(&bad[112..]);
        bad[88..92].copy_from_slice(&sum.to_le_bytes());
        let sum = crc32c::crc32c(&bad[..108]);
        bad[108..112].copy_from_slice(&sum.to_le_bytes());
        fs::write(&place.index, &bad).unwrap();
        let archive = open(&place.tar);
        assert!(useless(&archive).contains("entry"), "byte {at}: {}", useless(&archive));
        assert_eq!(contents(&archive).len(), 50);
    }
}

#[test]
fn where_an_index_cannot_lie_it_is_held_in_memory() {
    let place = place();
    let long = place.dir.path().join("n".repeat(250));
    fs::rename(&place.tar, &long).unwrap();
    let archive = open(&long);
    assert!(matches!(archive.origin(), Origin::Made { useless: None, not_kept: Some(_) }));
    assert_eq!(contents(&archive).len(), 50);
    let taken = place.dir.path().join("t.tar");
    fs::rename(&long, &taken).unwrap();
    fs::create_dir(&place.index).unwrap();
    let archive = open(&taken);
    assert!(
        matches!(archive.origin(), Origin::Made { useless: Some(_), not_kept: Some(_) }),
        "{:?}",
        archive.origin()
    );
}

#[test]
fn a_tar_that_changes_while_it_is_read_is_noticed() {
    let place = place();
    let archive = open(&place.tar);
    fs::write(&place.tar, b"something else").unwrap();
    assert!(archive.read(vec![0]).is_err());
}

#[test]
fn what_somebody_else_put_beside_an_archive_is_neither_believed_nor_waited_for() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    let place = place();
    open(&place.tar);
    let bytes = fs::read(&place.index).unwrap();
    let elsewhere = place.dir.path().join("elsewhere");
    fs::rename(&place.index, &elsewhere).unwrap();
    symlink(&elsewhere, &place.index).unwrap();
    assert!(useless(&open(&place.tar)).contains("it is a link"));
    assert_eq!(fs::read(&elsewhere).unwrap(), bytes, "what a link leads to is not touched");
    assert!(fs::symlink_metadata(&place.index).unwrap().is_file());
    fs::remove_file(&place.index).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &place.index, mode).unwrap();
    assert!(useless(&open(&place.tar)).contains("it is no regular file"));
    // Only root can give a file away, so only root can try.
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&place.index, Some(12_345), None).unwrap();
        assert!(useless(&open(&place.tar)).contains("it belongs to somebody else"));
        assert_eq!(fs::metadata(&place.index).unwrap().uid(), 0);
    }
    // Names in an archive that only its owner may read must not be visible to others.
    fs::remove_file(&place.index).unwrap();
    fs::set_permissions(&place.tar, fs::Permissions::from_mode(0o600)).unwrap();
    open(&place.tar);
    assert_eq!(fs::metadata(&place.index).unwrap().mode() & 0o777, 0o600);
}
