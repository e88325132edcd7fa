//! `stook study` with and without the right to empty the caches of the system.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::Command;

use super::program::{Home, SOMEBODY, ended};

const SMALL: [&str; 12] = [
    "study",
    "many-small-files",
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
