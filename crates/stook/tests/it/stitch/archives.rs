//! Tars and zips of trees: read by our own readers and by the tools that everybody has.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use stook::Error;
use stook::archive::{Archive, OpenOptions};
use stook::engine::Backend;
use stook::extent::ByteRange;
use stook::format::MemberKind;
use stook::format::tar::write::{Head, end};
use stook::source::{Session, SessionOptions, Source};
use stook::stitch::{Layout, Members, Tar, Zip};

use super::{members, read_through, tar_of, zip_of};

/// A tree with all that a tar has.
fn tree() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::create_dir_all(at("d/e/empty")).unwrap();
    fs::create_dir_all(at("d-")).unwrap();
    for (name, len) in [("a", 0), ("d/one", 1), ("d/e/block", 512), ("d/e/more", 513), ("d-/long", 2_500_000)]
    {
        let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        fs::write(at(name), bytes).unwrap();
    }
    fs::write(at(&format!("d/{}", "n".repeat(150))), "a long name").unwrap();
    fs::write(at("d/ü"), "no ASCII").unwrap();
    fs::hard_link(at("d/e/more"), at("z")).unwrap();
    symlink("e/more", at("d/link")).unwrap();
    symlink("t".repeat(180), at("d/far")).unwrap();
    place
}

/// What GNU tar makes of a tree with the options that the documentation states.
fn gnu_tar(tree: &Path) -> Vec<u8> {
    let script = "ls -A | LC_ALL=C sort | tar --format=pax --sort=name --mtime=@0 --owner=0 --group=0 \
                  --numeric-owner --pax-option=delete=atime,delete=ctime -cf - -T -";
    let output = Command::new("sh").args(["-c", script]).current_dir(tree).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Bytes at many places, read by themselves, are those of the whole.
fn check_parts(file: &stook::stitch::VirtualFile, whole: &[u8]) {
    for step in 0..200_usize {
        let start = step * 7_919_333 % whole.len();
        let end = (start + 1 + step * 97).min(whole.len());
        let range = ByteRange::new(start as u64, end as u64).unwrap();
        assert!(file.read_at(range).unwrap() == whole[start..end], "{range}");
    }
}

#[test]
fn a_deterministic_tar_is_that_of_gnu_tar_byte_for_byte() {
    let place = tree();
    let made = Tar { deterministic: true }.lay_out("x.tar".into(), members(place.path())).unwrap();
    let whole = read_through(&made.file).unwrap();
    assert!(whole == gnu_tar(place.path()));
    check_parts(&made.file, &whole);
}

#[test]
fn a_tar_is_unpacked_as_the_tree_that_it_is_of() {
    let (place, out) = (tree(), tempfile::tempdir().unwrap());
    let made = tar_of(place.path());
    fs::write(out.path().join("x.tar"), read_through(&made.file).unwrap()).unwrap();
    fs::create_dir(out.path().join("x")).unwrap();
    let script = "tar xf x.tar -C x && diff -r --no-dereference x \"$TREE\"";
    let mut shell = Command::new("sh");
    let status = shell.args(["-c", script]).env("TREE", place.path()).current_dir(out.path()).status();
    assert!(status.unwrap().success());
    let linked = |name: &str| {
        use std::os::unix::fs::MetadataExt;
        out.path().join("x").join(name).metadata().unwrap().ino()
    };
    assert_eq!(linked("z"), linked("d/e/more"));
}

/// The members of an archive of this file: paths and bytes.
fn read_archive(path: &Path) -> Vec<(Vec<u8>, MemberKind, u64)> {
    let archive = Archive::open(path, OpenOptions::default()).unwrap();
    archive.members(b"").map(|member| (member.key.to_vec(), member.kind(), member.node.len)).collect()
}

#[test]
fn a_zip_is_accepted_by_unzip_and_python_and_parts_of_it_are_those_of_the_whole() {
    let (place, out) = (tree(), tempfile::tempdir().unwrap());
    // The directory first: the bytes before it are read for it.
    let made = zip_of(place.path());
    let len = made.file.len();
    let last = made.file.read_at(ByteRange::new(len - 1000, len).unwrap()).unwrap();
    let whole = read_through(&made.file).unwrap();
    assert!(whole[whole.len() - 1000..] == last);
    // And the same from the front, where it is computed on the way.
    assert!(read_through(&zip_of(place.path()).file).unwrap() == whole);
    check_parts(&zip_of(place.path()).file, &whole);
    fs::write(out.path().join("x.zip"), &whole).unwrap();
    let script = "unzip -tq x.zip && zipinfo -v x.zip > /dev/null && mkdir x && unzip -q x.zip -d x && \
                  diff -r --no-dereference x \"$TREE\" && \
                  python3 -c 'import zipfile; z = zipfile.ZipFile(\"x.zip\"); assert z.testzip() is None'";
    let mut shell = Command::new("sh");
    let status = shell.args(["-c", script]).env("TREE", place.path()).current_dir(out.path()).status();
    assert!(status.unwrap().success());
    let kinds = read_archive(&out.path().join("x.zip"));
    let of = |key: &[u8]| kinds.iter().find(|one| one.0 == key).map(|one| (one.1, one.2));
    assert_eq!(of(b"z"), Some((MemberKind::File, 513)));
    assert_eq!(of(b"d/link"), Some((MemberKind::Symlink, 6)));
}

#[test]
fn ranges_that_are_read_one_after_another_are_those_of_the_whole() {
    let place = tree();
    let layouts: [&dyn Layout; 2] = [&Tar::default(), &Zip::default()];
    for layout in layouts {
        let laid = || layout.lay_out("x".into(), members(place.path())).unwrap().file;
        let whole = read_through(&laid()).unwrap();
        let mut session =
            Session::new(&Backend::Auto, SessionOptions { depth: 3, ..Default::default() }).unwrap();
        // Nothing is known of a file before: what is computed is computed of what passes.
        for step in [97_u64, 4096, 262_144, u64::MAX] {
            let (file, mut at, mut read) = (laid(), 0, Vec::new());
            while at < file.len() {
                let range = ByteRange::at(at, step.min(file.len() - at)).unwrap();
                read.extend_from_slice(&file.read_on(&mut session, range).unwrap());
                at = range.end();
            }
            assert!(read == whole, "in steps of {step}");
        }
        // In no order.
        let file = laid();
        for at in (0..100_u64).map(|step| step * 7_919_333 % file.len()) {
            let range = ByteRange::at(at, 70_000.min(file.len() - at)).unwrap();
            let read = file.read_on(&mut session, range).unwrap();
            assert!(read == whole[range.start() as usize..range.end() as usize], "{range}");
        }
        let past = ByteRange::at(file.len(), 1).unwrap();
        assert!(matches!(file.read_on(&mut session, past), Err(Error::OutOfBounds { .. })));
    }
}

#[test]
fn a_range_with_a_body_that_changed_is_an_error() {
    let place = tree();
    let file = zip_of(place.path()).file;
    let mut session = Session::new(&Backend::Auto, SessionOptions::default()).unwrap();
    let half = ByteRange::to(file.len() / 2);
    file.read_on(&mut session, half).unwrap();
    fs::write(place.path().join("d-/long"), vec![9; 2_500_000]).unwrap();
    let error = file.read_on(&mut session, half).unwrap_err();
    assert!(matches!(error, Error::SourceChanged { .. }), "{error}");
}

#[test]
fn deterministic_archives_do_not_depend_on_times_and_names_of_the_place() {
    let (one, other) = (tree(), tree());
    for name in ["a", "d", "d/one"] {
        let file = fs::File::open(other.path().join(name)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_007)).unwrap();
    }
    let zips = [&one, &other].map(|tree| {
        let zip = Zip { deterministic: true };
        read_through(&zip.lay_out("x.zip".into(), members(tree.path())).unwrap().file).unwrap()
    });
    assert!(zips[0] == zips[1]);
    assert!(
        read_through(&zip_of(one.path()).file).unwrap() != read_through(&zip_of(other.path()).file).unwrap()
    );
}

/// Archives with as many members, from the tree of a tar.
#[test]
fn zips_of_65_535_and_more_members_are_read_by_everybody() {
    let place = tempfile::tempdir().unwrap();
    for count in [65_534, 65_535, 65_536] {
        let mut bytes = Vec::new();
        for number in 0..count {
            let key = format!("{number:05}");
            let head = Head {
                key: key.as_bytes(),
                kind: MemberKind::File,
                mode: 0o644,
                mtime_ns: 0,
                owner: None,
                len: 0,
                link: b"",
                xattrs: &[],
            };
            bytes.extend(head.encode());
        }
        bytes.extend(end(bytes.len() as u64));
        let path = place.path().join("many.tar");
        fs::write(&path, bytes).unwrap();
        let archive = Archive::open(&path, OpenOptions::default()).unwrap();
        let mut members = Members::new();
        members.add_tree(Arc::new(archive.tree()), false, b"", &mut |_| true).unwrap();
        let made = Zip::default().lay_out("many.zip".into(), members).unwrap();
        let zip = place.path().join("many.zip");
        fs::write(&zip, read_through(&made.file).unwrap()).unwrap();
        assert_eq!(read_archive(&zip).len(), count);
        let script =
            "import sys, zipfile; assert len(zipfile.ZipFile('many.zip').infolist()) == int(sys.argv[1])";
        let mut python = Command::new("python3");
        let status = python.args(["-c", script, &count.to_string()]).current_dir(place.path()).status();
        assert!(status.unwrap().success(), "{count}");
        fs::remove_file(path.with_extension("tar.stook-index")).ok();
    }
}

#[test]
fn members_of_4_gib_and_of_8_gib_have_the_numbers_that_readers_expect() {
    let place = tempfile::tempdir().unwrap();
    for len in [u64::from(u32::MAX) - 1, u64::from(u32::MAX), 1 << 32, (8 << 30) - 1, 8 << 30] {
        fs::File::create(place.path().join("big")).unwrap().set_len(len).unwrap();
        let made = Tar { deterministic: true }.lay_out("x.tar".into(), members(place.path())).unwrap();
        let script = "tar --format=pax --mtime=@0 --owner=0 --group=0 --numeric-owner \
                      --pax-option=delete=atime,delete=ctime -cf - big | head -c 2048";
        let gnu = Command::new("sh").args(["-c", script]).current_dir(place.path()).output().unwrap().stdout;
        assert!(made.file.read_at(ByteRange::to(2048)).unwrap() == gnu, "{len}");
        // What follows from the length: a zip with numbers of 64 bits, where 32 are not enough.
        let made = Zip::default().lay_out("x.zip".into(), members(place.path())).unwrap();
        let needed = made.file.read_at(ByteRange::new(4, 6).unwrap()).unwrap()[0];
        assert_eq!(needed, if len >= u64::from(u32::MAX) { 45 } else { 20 }, "{len}");
    }
}

#[test]
fn what_no_archive_holds_is_said_and_the_archive_itself_is_left_out() {
    let place = tree();
    let fifo = place.path().join("d/fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut all = members(place.path());
    assert_eq!(all.left_out().iter().map(|one| one.0.clone()).collect::<Vec<_>>(), [b"d/fifo".to_vec()]);
    all.leave_out_file(&place.path().join("d/one"));
    let made = Tar::default().lay_out("x.tar".into(), all).unwrap();
    assert!(made.members.all().iter().all(|member| &*member.key != b"d/one"));
    assert_eq!(made.members.left_out().len(), 1);
    // Two trees with the same paths.
    let mut twice = members(place.path());
    let again = stook::walk::DirectoryTree::open(place.path()).unwrap();
    twice.add_tree(Arc::new(again), true, b"", &mut |_| true).unwrap();
    assert!(Tar::default().lay_out("x.tar".into(), twice).is_err());
}
