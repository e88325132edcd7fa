//! `stook copy`: mirrors of what is not all there, packs that were copied before, what is said of
//! directories that are made.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::packs::Place;
use super::stook;

fn copy(place: &Place, args: &[&str]) -> (i32, String, String) {
    super::ended(stook(["copy"]).args(args).current_dir(place.dir.path()))
}

/// A place with a directory that has a file of which no source knows.
fn place() -> Place {
    let place = Place::new();
    fs::create_dir_all(place.path("card/d")).unwrap();
    fs::write(place.path("card/d/one"), "first").unwrap();
    fs::create_dir(place.path("disk")).unwrap();
    fs::write(place.path("disk/extra"), "x").unwrap();
    place
}

#[test]
fn an_incomplete_pack_ends_with_1_through_every_door_and_deletes_nothing() {
    let place = place();
    place.writer().finish(true).unwrap();
    let doors: [&[&str]; 8] = [
        &["new"],
        &["disk"],
        &["disk", "--durability", "file"],
        &["disk", "--checksum"],
        &["disk", "--to", "spare"],
        &["disk", "--dry-run"],
        &["disk", "--mirror", "--force"],
        &["disk", "--mirror", "--dry-run"],
    ];
    for door in doors {
        let (code, stdout, stderr) = copy(&place, &[&["p.stook"][..], door].concat());
        assert_eq!(code, 1, "{door:?}: {stdout}{stderr}");
        assert!(stderr.contains("p.stook") && stderr.contains("not complete"), "{door:?}: {stderr}");
        assert!(place.path("disk/extra").exists() && !stdout.contains("delete"), "{door:?}: {stdout}");
    }
}

#[test]
fn an_archive_that_was_cut_between_two_members_deletes_nothing() {
    let place = place();
    let mut tar = Command::new("tar");
    let tar = tar.args(["--format=ustar", "-cf", "x.tar", "-C", "card/d", "one"]);
    assert!(tar.current_dir(place.dir.path()).status().unwrap().success());
    let archive = fs::OpenOptions::new().write(true).open(place.path("x.tar")).unwrap();
    // A header and a block of the file, and nothing of what ends an archive.
    archive.set_len(1024).unwrap();
    let (code, stdout, stderr) = copy(&place, &["x.tar//", "disk", "--mirror"]);
    assert_eq!(code, 1, "{stdout}");
    assert!(stderr.contains("not complete"), "{stderr}");
    assert_eq!(fs::read(place.path("disk/one")).unwrap(), b"first");
    assert!(place.path("disk/extra").exists());
}

#[test]
fn an_empty_source_deletes_nothing_unless_it_is_forced() {
    let place = place();
    fs::create_dir(place.path("empty")).unwrap();
    let mut tar = Command::new("tar");
    let tar = tar.args(["-cf", "empty.tar", "-T", "/dev/null"]).current_dir(place.dir.path());
    assert!(tar.status().unwrap().success());
    for source in ["empty", "empty.tar//"] {
        let (code, _, stderr) = copy(&place, &[source, "disk", "--mirror"]);
        assert!(code == 1 && stderr.contains("`--force` deletes all the same"), "{source}: {stderr}");
        assert!(place.path("disk/extra").exists());
    }
    let (code, stdout, stderr) = copy(&place, &["empty", "disk", "--mirror", "--force"]);
    assert!(code == 0 && stdout.contains("deleted extra"), "{stdout}{stderr}");
    assert!(!place.path("disk/extra").exists());
}

/// Before: the pack, or the archive, was deleted as something extra, or replaced by a member of its
/// own.
#[test]
fn what_is_copied_from_is_neither_deleted_nor_replaced() {
    let place = place();
    fs::write(place.path("card/x.tar"), "a member").unwrap();
    assert_eq!(super::ended(stook(["pack", "card", "disk/p.stook"]).current_dir(place.dir.path())).0, 0);
    let mut tar = Command::new("tar");
    let tar = tar.args(["-cf", "disk/x.tar", "-C", "card", "."]).current_dir(place.dir.path());
    assert!(tar.status().unwrap().success());
    let bytes = fs::read(place.path("disk/x.tar")).unwrap();
    for (source, door) in [
        ("disk/p.stook", &["--mirror", "--force"][..]),
        ("disk/p.stook", &["--mirror", "--force", "--backup"]),
        ("disk/x.tar//", &["--mirror", "--force"]),
        ("disk/x.tar//", &["--mirror", "--force", "--dry-run"]),
        ("disk/x.tar//", &["--overwrite", "different"]),
        ("disk/x.tar//", &["--overwrite", "always", "--backup"]),
    ] {
        let (code, stdout, stderr) = copy(&place, &[&[source, "disk"], door].concat());
        // What is refused before anything is read is wrong usage.
        let expected = if door.contains(&"--mirror") { 2 } else { 1 };
        assert_eq!(code, expected, "{source} {door:?}: {stdout}{stderr}");
        let is_said =
            stderr.contains("where a mirror would delete it") || stderr.contains("it is what is copied");
        assert!(is_said, "{source} {door:?}: {stderr}");
        assert!(place.path("disk/p.stook").is_dir(), "{source} {door:?}");
        assert!(fs::read(place.path("disk/x.tar")).unwrap() == bytes, "{source} {door:?}");
    }
    // Where it does not lie in what is mirrored, it is in nobody's way.
    let (code, stdout, stderr) = copy(&place, &["disk/p.stook", "other", "--mirror"]);
    assert_eq!(code, 0, "{stdout}{stderr}");
}

/// Before: they were named where an archive was unpacked to one empty directory, and dropped
/// without a word everywhere else, where a mirror then deleted what has their names.
#[test]
fn members_that_have_no_place_are_failures_through_every_door() {
    let place = place();
    let script = "import io, tarfile\n\
        def add(t, name, link=None):\n    \
            i = tarfile.TarInfo(name); i.size = 0 if link else 1\n    \
            if link: i.type = tarfile.LNKTYPE; i.linkname = link\n    \
            t.addfile(i, None if link else io.BytesIO(b'1'))\n\
        for path in ['x.tar', 'y.tar']:\n    \
            t = tarfile.open(path, 'w')\n    \
            for name in ['ok', '../evil', 'doc', 'doc/sub']: add(t, name)\n    \
            if path == 'x.tar': add(t, 'lost', 'missing')\n    \
            t.close()";
    let made = Command::new("python3").args(["-c", script]).current_dir(place.dir.path()).status();
    assert!(made.unwrap().success());
    assert_eq!(super::ended(stook(["pack", "y.tar", "p.stook"]).current_dir(place.dir.path())).0, 0);
    fs::write(place.path("disk/lost"), "kept").unwrap();
    for (source, names) in [("x.tar//", &["evil", "doc", "lost"][..]), ("p.stook", &["evil", "doc"])] {
        let doors: [&[&str]; 5] = [
            &["new"],
            &["disk"],
            &["hashed", "--hash", "xxh3"],
            &["one", "--to", "two"],
            &["disk", "--mirror", "--force"],
        ];
        for door in doors {
            let (code, stdout, stderr) = copy(&place, &[&[source][..], door].concat());
            assert_eq!(code, 1, "{source} {door:?}: {stdout}{stderr}");
            for name in names {
                assert!(stderr.contains(name), "{source} {door:?} {name}: {stderr}");
            }
            assert!(place.path("disk/lost").exists() && place.path("disk/extra").exists());
            assert!(place.path(door[0]).join("doc/sub").is_file(), "{source} {door:?}");
        }
        // What is not asked for is not missed.
        let (code, stdout, stderr) = copy(&place, &[source, "some", "--include", "ok", "--hash", "xxh3"]);
        assert_eq!(code, 0, "{source}: {stdout}{stderr}");
        for made in ["new", "hashed", "one", "two", "some"] {
            fs::remove_dir_all(place.path(made)).unwrap();
        }
    }
}

/// Before: unpacking had rules of its own for what is there.
#[test]
fn a_pack_that_was_copied_before_is_corrected_whichever_way_it_is_written() {
    let place = place();
    assert_eq!(super::ended(stook(["pack", "card", "p.stook"]).current_dir(place.dir.path())).0, 0);
    assert_eq!(copy(&place, &["p.stook", "out"]).0, 0);
    let mode = |name: &str| fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o777;
    let (file, folder) = (mode("card/d/one"), mode("card/d"));
    for more in [&[][..], &["--durability", "file"], &["--to", "other"]] {
        for (name, other) in [("out/d/one", 0o600), ("out/d", 0o700)] {
            fs::set_permissions(place.path(name), fs::Permissions::from_mode(other)).unwrap();
        }
        let args = [&["p.stook", "out", "--overwrite", "different"][..], more].concat();
        let (code, stdout, stderr) = copy(&place, &args);
        assert_eq!(code, 0, "{stdout}{stderr}");
        assert_eq!((mode("out/d/one"), mode("out/d")), (file, folder), "{more:?}");
        assert!(stdout.contains("1 with corrected mode, owner or time"), "{stdout}");
    }
}

#[test]
fn directories_that_are_made_for_the_copy_are_said() {
    let place = place();
    let (code, stdout, _) = copy(&place, &["card/d/one", "one.txt"]);
    assert!(code == 0 && stdout.contains("; made the directory one.txt"), "{stdout}");
    assert!(place.path("one.txt/one").is_file());
    let (_, stdout, _) = copy(&place, &["card", "mtn/disk/card"]);
    assert!(stdout.contains("; made the directories mtn to mtn/disk/card"), "{stdout}");
    let (_, stdout, _) = copy(&place, &["card", "mtn/disk/card"]);
    assert!(!stdout.contains("made"), "{stdout}");
}

#[test]
fn only_packs_are_copied_as_they_were() {
    let place = place();
    for source in ["card", "card/d/one"] {
        let (code, _, stderr) = copy(&place, &[source, "out", "--at", "2020-01-01"]);
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains("only packs have earlier states"), "{stderr}");
    }
    assert!(!place.path("out").exists());
}
