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
