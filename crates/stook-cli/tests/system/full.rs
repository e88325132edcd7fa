//! `stook pack`, `unpack`, `compact` and `study` where there is no room, or no longer.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use stook_testing::privileged::{BTRFS, LoopDevice, XFS};
use tempfile::TempDir;

use super::program::{ended, stook};
use super::trees::{assert_same, noise};

const MIB: u64 = 1 << 20;

/// A tree of `count` files of 1 MiB, on another file system than the device's.
fn tree(count: u64) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    let mut body = noise(1, MIB as usize);
    for number in 0..count {
        let folder = tree.join(format!("{:02}", number / 16));
        fs::create_dir_all(&folder).unwrap();
        body[..8].copy_from_slice(&number.to_le_bytes());
        fs::write(folder.join(number.to_string()), &body).unwrap();
    }
    (dir, tree)
}

/// Names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// Takes all the space that is left but `spared`, to the last block.
pub(crate) fn fill(path: &Path, spared: u64) {
    let file = fs::File::create(path).unwrap();
    let (mut at, mut len) = (0, MIB as usize);
    let body = noise(2, len);
    while len >= 512 {
        match file.write_at(&body[..len], at) {
            Ok(written) => at += written as u64,
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => len /= 2,
            Err(error) => panic!("{error}"),
        }
    }
    file.set_len(at.saturating_sub(spared)).unwrap();
    // Space that was only promised is not taken yet, or not given back.
    file.sync_all().unwrap();
}

/// Shortens what takes space, and waits until the file system counts that as free.
pub(crate) fn give_back(path: &Path, bytes: u64) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() - bytes).unwrap();
    let synced = Command::new("sync").arg("--file-system").arg(path.parent().unwrap()).status().unwrap();
    assert!(synced.success());
}

fn pack(tree: &Path, pack: &Path, more: &[&str]) -> Command {
    let mut command = stook(["pack".as_ref(), tree.as_os_str(), pack.as_os_str()]);
    command.args(more);
    command
}

/// What a run leaves that ended for want of space, and what the next makes of it when there is
/// some.
fn stays_whole_and_is_completed(tree: &Path, packed: &Path, kept_min: u64, make_room: impl FnOnce(u64)) {
    let of = |command: &str| ended(stook([command.as_ref(), packed.as_os_str()]).arg("--json"));
    let (code, checked, stderr) = of("check");
    let checked: serde_json::Value = serde_json::from_str(&checked).unwrap();
    assert_eq!((code, &checked["complete"]), (1, &false.into()), "{checked} {stderr}");
    assert_eq!(checked["damages"], serde_json::json!([]), "{checked}");
    let (code, loaded, _) = of("load");
    let loaded: serde_json::Value = serde_json::from_str(&loaded).unwrap();
    assert_eq!((code, &loaded["complete"]), (1, &false.into()), "{loaded}");
    let kept = loaded["bytes"].as_u64().unwrap();
    assert!(kept >= kept_min, "{loaded}");
    make_room(kept);
    let (code, stdout, stderr) = ended(&mut pack(tree, packed, &["--json"]));
    assert_eq!(code, 0, "{stdout}{stderr}");
    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&report["complete"], &report["replaced"]), (&true.into(), &0.into()), "{report}");
    // Nothing that was there is written again.
    assert!(report["unchanged"].as_u64().unwrap() >= kept / MIB, "{report}");
    let checked = of("check");
    assert_eq!(checked.0, 0, "{checked:?}");
    let out = tempfile::tempdir().unwrap();
    let target = out.path().join("out");
    let unpacked = ended(&mut stook(["unpack".as_ref(), packed.as_os_str(), target.as_os_str()]));
    assert_eq!(unpacked.0, 0, "{unpacked:?}");
    assert_same(tree, &target);
}

fn refused_before_anything_is_made(device: &LoopDevice) {
    let free = stook::storage::free_bytes(device.path()).unwrap();
    // More than fits, and little enough for the half of it to fit.
    let count = free / MIB + 4;
    let (_dir, tree) = tree(count);
    let packed = device.path().join("p.stook");
    let before = names(device.path());
    // Before: a dry run said what would be packed.
    for more in [&[][..], &["--json"], &["--group-by", "hash:3"], &["--dry-run"]] {
        let (code, stdout, stderr) = ended(&mut pack(&tree, &packed, more));
        assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
        assert!(stderr.contains(" MB would be needed in "), "{stderr}");
        assert!(stderr.contains(" are free: make room, or choose another place"), "{stderr}");
        assert!(stderr.contains(device.path().to_str().unwrap()) && stderr.lines().count() == 1, "{stderr}");
        assert_eq!(names(device.path()), before);
    }
    // What is in the pack already is not needed again.
    let folders = names(&tree);
    let half = &folders[folders.len() / 2..];
    half.iter().for_each(|folder| fs::remove_dir_all(tree.join(folder)).unwrap());
    let (code, _, stderr) = ended(&mut pack(&tree, &packed, &[]));
    assert_eq!(code, 0, "{stderr}");
    let checked = ended(&mut stook(["check".as_ref(), packed.as_os_str()]));
    assert_eq!(checked.0, 0, "{checked:?}");
    fill(&device.path().join("filler"), 4 * MIB);
    let (code, stdout, stderr) = ended(&mut pack(&tree, &packed, &["--json"]));
    assert_eq!(code, 0, "{stderr}");
    let report: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&report["files"], &report["complete"]), (&0.into(), &true.into()), "{report}");
}

/// Before: the pack was begun, and filled the file system; a dry run said what would be packed.
#[test]
fn an_archive_that_cannot_fit_is_refused_before_anything_is_made() {
    let device = LoopDevice::mount(64 * MIB, 512).unwrap();
    let (dir, tree) = tree(stook::storage::free_bytes(device.path()).unwrap() / MIB + 4);
    let (archive, packed) = (dir.path().join("tree.tar"), device.path().join("p.stook"));
    let make = |more: &[&str]| {
        let mut tar = Command::new("tar");
        assert!(
            tar.arg("cf").arg(&archive).args(more).arg("-C").arg(&tree).arg(".").status().unwrap().success()
        );
    };
    make(&[]);
    let before = names(device.path());
    for more in [&[][..], &["--json"], &["--dry-run"]] {
        let (code, stdout, stderr) = ended(&mut pack(&archive, &packed, more));
        assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
        assert!(stderr.contains(" MB would be needed in ") && stderr.lines().count() == 1, "{stderr}");
        assert_eq!(names(device.path()), before);
    }
    // What is left out needs no room, and what is in the pack is not needed again.
    let (code, _, stderr) = ended(&mut pack(&archive, &packed, &["--include", "00/*"]));
    assert_eq!(code, 0, "{stderr}");
    make(&["--exclude", "./0[1-9]", "--exclude", "./[1-9]*"]);
    fill(&device.path().join("filler"), 4 * MIB);
    let (code, _, stderr) = ended(&mut pack(&archive, &packed, &[]));
    assert_eq!(code, 0, "{stderr}");
}

#[test]
fn a_tree_that_cannot_fit_is_refused_before_anything_is_made() {
    refused_before_anything_is_made(&LoopDevice::mount(64 * MIB, 512).unwrap());
}

#[test]
fn a_compaction_that_cannot_fit_is_refused_and_so_is_its_dry_run() {
    let device = LoopDevice::mount(64 * MIB, 512).unwrap();
    let (_dir, tree) = tree(16);
    let packed = device.path().join("p.stook");
    let run = |args: &[&str]| ended(stook([args[0].as_ref(), packed.as_os_str()]).args(&args[1..]));
    assert_eq!(ended(&mut pack(&tree, &packed, &[])).0, 0);
    assert_eq!(run(&["rm", "00/0"]).0, 0);
    fill(&device.path().join("filler"), 4 * MIB);
    let before = names(&packed);
    for more in
        [&["compact", "--extra-space", "1GiB", "--dry-run"][..], &["compact", "--extra-space", "1GiB"]]
    {
        let (code, stdout, stderr) = run(more);
        assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
        assert!(stderr.contains("a step needs 15.") && stderr.contains("(--extra-space)"), "{stderr}");
        assert!(stderr.contains(packed.to_str().unwrap()) && stderr.lines().count() == 1, "{stderr}");
        assert_eq!(names(&packed), before);
    }
    let (code, _, stderr) = run(&["compact"]);
    assert!(code == 1 && stderr.contains("is left as it is"), "{stderr}");
    give_back(&device.path().join("filler"), 20 * MIB);
    let (code, _, stderr) = run(&["compact", "--extra-space", "1GiB"]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(run(&["check"]).0, 0);
}

#[test]
fn a_tree_that_cannot_fit_is_refused_on_xfs() {
    refused_before_anything_is_made(&LoopDevice::mount_as(XFS, 320 * MIB, 512).unwrap());
}

#[test]
fn a_tree_that_cannot_fit_is_refused_on_btrfs() {
    refused_before_anything_is_made(&LoopDevice::mount_as(BTRFS, 192 * MIB, 512).unwrap());
}

/// Starts a command, and stops it (as Ctrl-Z does) when `begun`.
pub(crate) fn stopped_when(command: &mut Command, begun: impl Fn() -> bool) -> Child {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !begun() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended before it began");
    }
    signal(&child, "-STOP");
    child
}

pub(crate) fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
}

fn becomes_full_while_it_is_written(device: &LoopDevice, slack: u64) {
    let (_dir, tree) = tree(256);
    let packed = device.path().join("p.stook");
    // The second manifest is the first that names a segment.
    let begun = || packed.join("manifest-0000000000000002").exists();
    let child = stopped_when(&mut pack(&tree, &packed, &[]), begun);
    // Another file takes the space that was free when the program looked.
    fill(&device.path().join("filler"), 0);
    signal(&child, "-CONT");
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]), "{stderr}");
    assert!(stderr.contains("No space left on device") && stderr.lines().count() == 1, "{stderr}");
    assert!(stderr.contains(packed.to_str().unwrap()), "{stderr}");
    assert!(stderr.contains("running it again continues"), "{stderr}");
    // Room for what is missing; the whole tree would not fit beside what is there.
    stays_whole_and_is_completed(&tree, &packed, 16 * MIB, |kept| {
        give_back(&device.path().join("filler"), 256 * MIB - kept + slack);
    });
}

#[test]
fn a_device_that_becomes_full_while_it_is_written_costs_nothing_that_was_packed() {
    becomes_full_while_it_is_written(&LoopDevice::mount(1024 * MIB, 512).unwrap(), 8 * MIB);
}

#[test]
fn xfs_that_becomes_full_while_it_is_written_costs_nothing_that_was_packed() {
    becomes_full_while_it_is_written(&LoopDevice::mount_as(XFS, 1024 * MIB, 4096).unwrap(), 8 * MIB);
}

#[test]
fn btrfs_that_becomes_full_while_it_is_written_costs_nothing_that_was_packed() {
    // It reports less free space than it got back.
    becomes_full_while_it_is_written(&LoopDevice::mount_as(BTRFS, 1024 * MIB, 512).unwrap(), 128 * MIB);
}

#[test]
fn a_file_system_that_takes_no_more_files_costs_nothing_that_was_packed() {
    let device = LoopDevice::mount(256 * MIB, 512).unwrap();
    let (_dir, tree) = tree(40);
    let (packed, many) = (device.path().join("p.stook"), device.path().join("many"));
    // All inodes but a few are taken: there is space, and no way to use it.
    fs::create_dir(&many).unwrap();
    let mut made = 0_u32;
    while fs::File::create(many.join(made.to_string())).is_ok() {
        made += 1;
    }
    for number in 0..12 {
        fs::remove_file(many.join(number.to_string())).unwrap();
    }
    let (code, stdout, stderr) = ended(&mut pack(&tree, &packed, &["--segment-size", "2MiB"]));
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("No space left on device") && stderr.lines().count() == 1, "{stderr}");
    assert!(stderr.contains(packed.to_str().unwrap()), "{stderr}");
    stays_whole_and_is_completed(&tree, &packed, 4 * MIB, |_| fs::remove_dir_all(&many).unwrap());
}

#[test]
fn what_does_not_fit_when_it_is_unpacked_is_named_and_the_rest_is_whole() {
    let device = LoopDevice::mount(64 * MIB, 512).unwrap();
    let (dir, tree) = tree(40);
    let packed = dir.path().join("p.stook");
    assert_eq!(ended(&mut pack(&tree, &packed, &[])).0, 0);
    let (filler, target) = (device.path().join("filler"), device.path().join("out"));
    fs::write(&filler, noise(3, 40 << 20)).unwrap();
    let unpack = |flags: &[&str]| {
        ended(stook(["unpack".as_ref(), packed.as_os_str(), target.as_os_str()]).args(flags))
    };
    let (code, stdout, stderr) = unpack(&[]);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("would be needed in") && stderr.contains("`--force`"), "{stderr}");
    assert!(!target.exists(), "nothing was begun");
    let (code, stdout, stderr) = unpack(&["--force", "--verbose"]);
    assert_eq!(code, 1, "{stdout}{stderr}");
    assert!(stderr.contains("No space left on device"), "{stderr}");
    let out: Vec<_> = names(&target).iter().flat_map(|folder| names(&target.join(folder))).collect();
    assert!(!out.is_empty() && out.len() < 40, "{out:?}");
    assert!(!out.iter().any(|name| name.ends_with(".part")), "{out:?}");
    let failed = stderr.lines().filter(|line| line.contains("No space left on device")).count();
    assert_eq!(failed, 40 - out.len(), "{stderr}");
    for name in &out {
        let number: u64 = name.parse().unwrap();
        let below = format!("{:02}/{name}", number / 16);
        assert!(fs::read(target.join(&below)).unwrap() == fs::read(tree.join(&below)).unwrap(), "{below}");
    }
    fs::remove_file(&filler).unwrap();
    // Existing directories keep their times, unless everything is written again.
    let again = ended(
        stook(["unpack".as_ref(), packed.as_os_str(), target.as_os_str()]).args(["--overwrite", "always"]),
    );
    assert_eq!(again.0, 0, "{again:?}");
    assert_same(&tree, &target);
}

#[test]
fn a_study_that_cannot_fit_is_refused_before_its_data_is_made() {
    let device = LoopDevice::mount(64 * MIB, 512).unwrap();
    let (dir, tree) = tree(40);
    let work = device.path().join("work");
    let sample: [&std::ffi::OsStr; 4] =
        ["--files".as_ref(), "400".as_ref(), "--size".as_ref(), "100000".as_ref()];
    let given = ["--dir".as_ref(), tree.as_os_str()];
    for args in [&sample[..], &given[..]] {
        let mut command = stook(["study", "many-small-files", "--keep-caches", "--work"]);
        command.arg(&work).arg("--out").arg(dir.path()).args(args);
        let (code, stdout, stderr) = ended(&mut command);
        assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
        assert!(stderr.contains("work needs ") && stderr.contains("name another place"), "{stderr}");
        let is_made = work.exists().then(|| names(&work));
        let marker = vec!["made-by-stook-study".to_owned()];
        // Of a sample it is known beforehand how long it is.
        assert_eq!(is_made, (args == &given[..]).then_some(marker));
    }
}
