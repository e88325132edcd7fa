//! `stook study` with and without the right to empty the caches of the system.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::program::{Home, SOMEBODY, ended};

const SMALL: [&str; 13] = [
    "study",
    "many-small-files",
    "--verbose",
    "--files",
    "150",
    "--size",
    "2000",
    "--runs",
    "1",
    "--work",
    "work",
    "--out",
    "out",
];

fn study(home: &Home) -> serde_json::Value {
    serde_json::from_slice(&fs::read(home.path("out/study.json")).unwrap()).unwrap()
}

/// Runs it, and expects a report everywhere that it could only drop single files from the caches.
fn says_that_caches_stayed(home: &Home, command: &mut Command, why: &str) {
    let (code, stdout, stderr) = ended(command);
    assert_eq!(code, 0, "{stderr}");
    let reported = format!("The system's caches were not dropped ({why}");
    for text in [&stdout, &stderr] {
        assert!(text.contains(&reported), "{text}");
        assert!(text.contains("Instead the pages of the files that were read next were given up"), "{text}");
    }
    let result = study(home);
    assert_eq!(result["data"]["method"]["caches_dropped"], false);
    assert!(result["data"]["method"]["cold"].as_str().unwrap().starts_with(&reported), "{result}");
    let page = fs::read_to_string(home.path("out/study.html")).unwrap();
    assert!(page.contains("caches were not dropped ("), "{page}");
    assert_eq!(result["data"]["returned"]["records"], 150);
}

#[test]
fn without_root_it_says_that_caches_could_not_be_dropped_and_what_it_did_instead() {
    let home = Home::new();
    says_that_caches_stayed(
        &home,
        &mut home.somebody(SMALL),
        "cannot write to /proc/sys/vm/drop_caches: only root may empty the page cache",
    );
}

#[test]
fn root_drops_all_caches_unless_told_not_to() {
    let home = Home::new();
    let (code, stdout, stderr) = ended(&mut home.root(SMALL));
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("the system's caches were dropped (`sync; echo 3 >"), "{stdout}");
    assert_eq!(study(&home)["data"]["method"]["caches_dropped"], true);
    says_that_caches_stayed(&home, home.root(SMALL).arg("--keep-caches"), "they were to be left alone)");
}

#[test]
fn what_somebody_may_not_read_or_write_is_an_error_with_its_path() {
    let home = Home::new();
    fs::create_dir_all(home.path("tree/sub")).unwrap();
    for name in ["tree/open", "tree/sub/closed"] {
        fs::write(home.path(name), name).unwrap();
    }
    let close = |name: &str, mode| {
        fs::set_permissions(home.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    let run = |work: &str, out: &str| {
        let args =
            ["study", "many-small-files", "--runs", "1", "--dir", "tree", "--work", work, "--out", out];
        ended(&mut home.somebody(args))
    };
    for (name, mode) in [("tree/sub/closed", 0o000), ("tree/sub", 0o000)] {
        close(name, mode);
        let (code, stdout, stderr) = run("work", "out");
        assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
        assert!(stderr.contains(&format!("{name}: Permission denied")), "{stderr}");
        close(name, if name == "tree/sub" { 0o755 } else { 0o644 });
    }
    fs::create_dir(home.path("theirs")).unwrap();
    for (work, out) in [("theirs/work", "out"), ("work", "theirs/out"), ("work", "theirs")] {
        let (code, stdout, stderr) = run(work, out);
        assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
        assert!(stderr.contains("theirs") && stderr.contains("Permission denied"), "{stderr}");
    }
    assert!(!home.path("out/study.json").exists());
    chown(home.path("theirs"), Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    assert_eq!(run("theirs/work", "theirs/out").0, 0);
}

/// What is mounted in a directory, and loop devices whose files are there.
fn left_in(directory: &Path) -> Vec<String> {
    let directory = directory.to_str().unwrap();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut left: Vec<String> =
        mounts.lines().filter(|line| line.contains(directory)).map(str::to_owned).collect();
    for device in fs::read_dir("/sys/block").unwrap() {
        // One that is not attached has no such file.
        let file = fs::read_to_string(device.unwrap().path().join("loop/backing_file")).unwrap_or_default();
        left.extend(file.contains(directory).then_some(file));
    }
    left
}

/// A device is detached when the last that has it open, as a search for new devices, closes it.
fn expect_nothing_left(home: &Home) {
    let began = Instant::now();
    loop {
        let left = left_in(&home.path(""));
        if left.is_empty() {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let work = home.path("work");
    let names = fs::read_dir(work).into_iter().flatten().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name.to_str().unwrap().starts_with("on-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Puts a program of this name before all others, which says why it fails.
fn with_failing(home: &Home, command: &mut Command, name: &str) {
    let bin = home.path("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join(name), "#!/bin/sh\necho not today >&2\nexit 1\n").unwrap();
    fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", bin.display()));
}

#[test]
fn file_systems_are_made_and_measured_or_not_to_be_had_and_leave_nothing() {
    let home = Home::new();
    let mut command = home.root(SMALL);
    with_failing(&home, command.args(["--on", "ext4,btrfs,ntfs,vfat"]), "mkfs.btrfs");
    let (code, stdout, stderr) = ended(&mut command);
    assert_eq!(code, 0, "{stderr}");
    expect_nothing_left(&home);
    let result = study(&home);
    let all = result["data"]["file_systems"].as_array().unwrap();
    let names: Vec<_> = all.iter().map(|on| on["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ext4", "btrfs", "ntfs", "vfat"]);
    for on in all {
        assert_ne!(on["measured"].is_null(), on["not_had"].is_null(), "{on}");
        let Some(measured) = on["measured"].as_object() else { continue };
        assert_eq!(measured["files"], 150);
        for way in ["one_file", "loose_files"] {
            assert!(measured[way]["seconds"].as_f64().unwrap() > 0.0, "{on}");
            // What is cold comes from the device, where that counts.
            let read = measured[way]["read_amplification"].as_f64();
            assert!(read.is_none_or(|times| times >= 1.0), "{on}");
        }
    }
    assert_eq!(all[0]["measured"]["cluster_bytes"], 4096);
    assert_eq!(all[1]["not_had"], "mkfs.btrfs failed: not today");
    assert!(stdout.contains("not to be had here: mkfs.btrfs failed: not today"), "{stdout}");
    // The rows of the document have them.
    let rows = result["tables"][0]["here"].as_array().unwrap();
    assert!(rows[..2].iter().all(|row| row[0].as_str().unwrap().ends_with(" s")), "{rows:?}");
}

#[test]
fn a_file_system_that_cannot_be_mounted_is_no_error_and_leaves_nothing() {
    let home = Home::new();
    let mut command = home.root(SMALL);
    with_failing(&home, command.args(["--on", "ext4"]), "mount");
    let (code, _, stderr) = ended(&mut command);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("not to be had here: mount failed: not today"), "{stderr}");
    assert_eq!(study(&home)["data"]["file_systems"][0]["not_had"], "mount failed: not today");
    expect_nothing_left(&home);
}

#[test]
fn only_root_may_make_file_systems() {
    let home = Home::new();
    for args in [["many-small-files", "--work", "work"], ["all", "--work", "."]] {
        let mut command =
            home.somebody(["study"].iter().chain(&args).chain(&["--on", "ext4", "--out", "out"]));
        let (code, stdout, stderr) = ended(&mut command);
        assert_eq!((code, stdout.as_str()), (2, ""), "{stderr}");
        assert!(stderr.contains("--on makes and mounts file systems: only root may"), "{stderr}");
        assert!(!home.path("work").exists() && !home.path("out").exists());
    }
}

/// Before: what was mounted where a sample lies was removed with it by --clean.
#[test]
fn what_is_mounted_in_a_work_directory_is_not_removed_with_it() {
    let home = Home::new();
    assert_eq!(ended(&mut home.root(SMALL)).0, 0);
    fs::create_dir(home.path("precious")).unwrap();
    fs::write(home.path("precious/file"), "mine").unwrap();
    let tree = home.path("work/150x2000-numbered.tree");
    let bound = Command::new("mount").arg("--bind").args([&home.path("precious"), &tree]).status().unwrap();
    assert!(bound.success());
    let clean = ["study", "many-small-files", "--clean", "--work", "work"];
    let refused = [ended(&mut home.root(clean)), ended(&mut home.root(SMALL))];
    let unbound = Command::new("umount").arg(&tree).status().unwrap();
    for (code, _, stderr) in refused {
        assert!(code == 1 && stderr.contains("is mounted below"), "{stderr}");
    }
    assert!(unbound.success() && home.path("precious/file").exists());
    assert_eq!(ended(&mut home.root(clean)).0, 0);
    assert!(home.path("precious/file").exists() && !home.path("work").exists());
}

/// Before: it would have read the copy that it was writing, without an end.
#[test]
fn a_tree_that_holds_the_work_directory_by_another_name_is_refused() {
    let home = Home::new();
    fs::create_dir_all(home.path("photos/below")).unwrap();
    fs::write(home.path("photos/one"), "mine").unwrap();
    fs::create_dir(home.path("bound")).unwrap();
    let names = [home.path("photos"), home.path("bound")];
    assert!(Command::new("mount").arg("--bind").args(names).status().unwrap().success());
    let args = ["study", "many-small-files", "--dir", "bound", "--work", "photos/below/work", "--out", "out"];
    let (code, _, stderr) = ended(&mut home.root(args));
    assert!(Command::new("umount").arg(home.path("bound")).status().unwrap().success());
    assert!(code == 2 && stderr.contains("must not lie in one another"), "{stderr}");
}

/// While records are written on the file system.
#[test]
fn ctrl_c_unmounts_and_after_a_kill_clean_does() {
    let args = ["study", "many-small-files", "--files", "300000", "--size", "100", "--work", "work"];
    for signal in ["-INT", "-KILL"] {
        let home = Home::new();
        let mut command = home.root(args);
        command.args(["--on", "ext4", "--out", "out"]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        while !home.path("work/on-ext4.mounted/records.tree.partial/00").exists() {
            assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
            std::thread::sleep(Duration::from_millis(2));
        }
        let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let code = child.wait().unwrap().code();
        if signal == "-KILL" {
            assert!(!left_in(&home.path("")).is_empty());
            let (code, _, stderr) =
                ended(&mut home.root(["study", "many-small-files", "--clean", "--work", "work"]));
            assert_eq!(code, 0, "{stderr}");
            assert!(!home.path("work").exists());
        } else {
            assert_eq!(code, Some(130));
        }
        expect_nothing_left(&home);
    }
}
