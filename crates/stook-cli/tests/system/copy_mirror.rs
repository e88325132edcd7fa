//! `stook copy` where file systems are mounted in what is copied, or where it goes; and in a
//! directory that belongs to somebody else.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use stook_testing::fuse::{FaultMount, PageCache};
use stook_testing::privileged::{EXT4, LoopDevice, run};

use super::program::{Home, SOMEBODY, ended, stook};

/// Something that is mounted at a place, until this goes.
struct MountedAt(PathBuf);

impl MountedAt {
    fn new(args: &[&str], what: &Path, at: PathBuf) -> Self {
        run(Command::new("mount").args(args).arg(what).arg(&at)).unwrap();
        Self(at)
    }

    fn in_memory(at: PathBuf) -> Self {
        Self::new(&["-t", "tmpfs", "-o", "size=1m"], Path::new("tmpfs"), at)
    }

    fn bound(what: &Path, at: PathBuf) -> Self {
        Self::new(&["--bind"], what, at)
    }
}

impl Drop for MountedAt {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.0).status();
        if !unmounted.as_ref().is_ok_and(std::process::ExitStatus::success) {
            eprintln!("{} stays mounted: {unmounted:?}", self.0.display());
        }
    }
}

struct Place(tempfile::TempDir);

impl Place {
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

    fn copy(&self, args: &[&str]) -> (i32, String, String) {
        ended(stook(["copy"]).args(args).current_dir(self.0.path()))
    }
}

#[test]
fn a_mirror_deletes_nothing_in_a_file_system_that_is_mounted_in_something_extra() {
    let place = Place::new(&["from/x", "to/extra/a", "to/extra/m/hidden"]);
    // Another file system, and another directory of the same.
    for is_bound in [false, true] {
        place.write("elsewhere/kept");
        let at = place.at("to/extra/m");
        let mounted =
            if is_bound { MountedAt::bound(&place.at("elsewhere"), at) } else { MountedAt::in_memory(at) };
        place.write("to/extra/m/kept");
        let (code, _, stderr) = place.copy(&["from", "to", "--mirror", "--max-delete", "9"]);
        assert_eq!(code, 1);
        assert!(stderr.contains("another file system is mounted there"), "{stderr}");
        assert!(place.at("to/extra/m/kept").exists());
        drop(mounted);
    }
    assert!(place.at("to/extra/m/hidden").exists() && place.at("elsewhere/kept").exists());
    let (code, _, stderr) = place.copy(&["from", "to", "--mirror", "--max-delete", "9"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(!place.at("to/extra").exists());
}

#[test]
fn a_mirror_on_one_file_system_deletes_nothing_on_another_and_nothing_where_one_was_left_out() {
    let place =
        Place::new(&["from/both/x", "from/left/hidden", "to/both/hidden", "to/left/kept", "to/extra"]);
    let _one = MountedAt::in_memory(place.at("to/both"));
    let _other = MountedAt::in_memory(place.at("from/left"));
    place.write("to/both/kept");
    place.write("from/left/not copied");
    let (code, stdout, stderr) = place.copy(&["from", "to", "--mirror", "--force", "--one-file-system"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("deleted extra\n") && !stdout.contains("kept"), "{stdout}");
    assert!(place.at("to/both/kept").exists() && place.at("to/both/x").exists());
    assert!(place.at("to/left/kept").exists() && !place.at("to/left/not copied").exists());
}

/// Before: it never ended, and could not be interrupted.
#[test]
fn a_destination_that_is_mounted_from_within_the_source_is_named_and_not_copied_into_itself() {
    for to in ["to", "to/new"] {
        let place = Place::new(&["from/sub/x", "from/y"]);
        fs::create_dir(place.at("to")).unwrap();
        let _bound = MountedAt::bound(&place.at("from/sub"), place.at("to"));
        let (code, stdout, stderr) = place.copy(&["from", to]);
        assert_eq!(code, 1, "{stdout}");
        assert!(stderr.contains("the copy would never end"), "{stderr}");
        assert!(place.at(to).join("y").exists());
        assert!(!place.at(to).join("sub/sub").exists() && !place.at(to).join("sub/new").exists());
    }
}

#[test]
fn all_of_a_file_system_is_copied_to_another_that_is_mounted_in_it() {
    let place = Place::new(&["disk/x", "disk/mnt/hidden"]);
    let _mounted = MountedAt::in_memory(place.at("disk/mnt"));
    assert_eq!(place.copy(&["disk", "disk/mnt/backup"]).0, 2);
    for to in ["disk/mnt/backup", "disk/mnt"] {
        let (code, _, stderr) = place.copy(&["disk", to, "--one-file-system"]);
        assert_eq!(code, 0, "{stderr}");
        assert!(place.at(to).join("x").exists() && !place.at(to).join("mnt/backup").exists());
    }
}

/// Before: `photo.jpg` was found to be `Photo.JPG`, and then deleted as something extra.
#[test]
fn a_mirror_deletes_nothing_that_was_found_under_another_spelling() {
    let place = Place::new(&["from/Photo.JPG", "below/photo.jpg", "below/extra"]);
    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    for name in ["from/Photo.JPG", "below/photo.jpg"] {
        fs::write(place.at(name), "a photo").unwrap();
        fs::File::open(place.at(name)).unwrap().set_modified(time).unwrap();
    }
    let mount = FaultMount::mount(&place.at("below"), PageCache::On).unwrap();
    mount.fold_case();
    let (code, stdout, stderr) = place.copy(&["from", mount.path().to_str().unwrap(), "--mirror"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("deleted extra\n") && stdout.contains("1 unchanged"), "{stdout}");
    assert_eq!(fs::read(place.at("below/photo.jpg")).unwrap(), b"a photo");
    assert!(!place.at("below/extra").exists());
}

#[test]
fn a_directory_that_others_may_write_to_is_copied_to_without_a_complaint() {
    let home = Home::new();
    fs::create_dir(home.path("tree")).unwrap();
    fs::write(home.path("tree/x"), "x").unwrap();
    fs::create_dir(home.path("shared")).unwrap();
    fs::set_permissions(home.path("shared"), fs::Permissions::from_mode(0o1777)).unwrap();
    fs::write(home.path("shared/of root"), "x").unwrap();
    for _ in 0..2 {
        let (code, _, stderr) = ended(&mut home.somebody(["copy", "tree", "shared"]));
        assert_eq!((code, stderr.as_str()), (0, ""));
    }
    let mode = fs::metadata(home.path("shared")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o1777);
}

#[test]
fn a_mirror_leaves_what_a_repair_of_its_file_system_needs() {
    let device = LoopDevice::mount_as(EXT4, 64 << 20, 512).unwrap();
    let place = Place::new(&["from/file"]);
    let top = device.path();
    for name in ["extra", "below/lost+found"] {
        fs::create_dir_all(top.join(name)).unwrap();
    }
    let (code, _, stderr) = place.copy(&["from", top.to_str().unwrap(), "--mirror"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(top.join("lost+found").is_dir() && top.join("file").exists());
    assert!(!top.join("extra").exists() && !top.join("below").exists());
}

/// Before: it stayed for good, and every run ended with 1.
#[test]
fn a_mirror_deletes_in_directories_that_their_owner_may_not_write_to() {
    let home = Home::new();
    for name in ["from/mod", "to/mod/sub/deep"] {
        fs::create_dir_all(home.path(name)).unwrap();
    }
    for name in ["from/mod/a", "to/mod/a", "to/mod/b", "to/mod/sub/c", "to/mod/sub/deep/d"] {
        fs::write(home.path(name), "x").unwrap();
    }
    run(Command::new("chown")
        .arg("-R")
        .arg(format!("{SOMEBODY}"))
        .args([home.path("from"), home.path("to")]))
    .unwrap();
    for name in ["from/mod", "to/mod/sub/deep", "to/mod/sub", "to/mod"] {
        fs::set_permissions(home.path(name), fs::Permissions::from_mode(0o555)).unwrap();
    }
    let args = ["copy", "from", "to", "--mirror", "--force", "--checksum"];
    let (code, stdout, stderr) = ended(&mut home.somebody(args));
    assert_eq!(code, 0, "{stdout}{stderr}");
    let left = fs::read_dir(home.path("to/mod")).unwrap().count();
    let mode = fs::metadata(home.path("to/mod")).unwrap().permissions().mode();
    assert_eq!((left, mode & 0o777), (1, 0o555), "{stdout}");
}
