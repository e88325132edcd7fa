//! `stook study sparse-file`, from Rust and from Python.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::packs::{Place, documented};
use super::{ended, send, stook, wait_until};

/// A package that holds blocks in a dictionary: it is called as the real one is, which the tests of
/// the package show.
const STAND_IN: &str = "\
__version__ = '0.0.test'
class SparseBuffer:
    memory_bytes = 0
    def __init__(self):
        self.blocks = {}
    def write(self, at, data):
        self.blocks[at] = data
    def read(self, at, length):
        found = self.blocks.get(at)
        return found if found is not None and len(found) == length else self.blocks[0][at:at + length]
    def need(self, at, length):
        return [(at, at + length)]
";

/// An interpreter that finds the stand-in.
fn python(place: &Place) -> String {
    let is_debug = if cfg!(debug_assertions) { "True" } else { "False" };
    fs::write(place.path("stook.py"), format!("{STAND_IN}_DEBUG = {is_debug}\n")).unwrap();
    // Also where it is installed.
    fs::write(place.path("svfsc.py"), "raise ImportError('left out by this test')\n").unwrap();
    let program = place.path("python");
    let script = format!("#!/bin/sh\nPYTHONPATH='{}' exec python3 \"$@\"\n", place.dir.path().display());
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program.to_str().unwrap().to_owned()
}

#[test]
fn everything_is_measured_from_rust_and_from_python_and_what_is_not_there_says_why() {
    let place = Place::new();
    let python = python(&place);
    let args = ["study", "sparse-file", "--verbose", "--rounds", "1", "--out", "out", "--python", &python];
    let (code, stdout, stderr) = ended(stook(args).current_dir(place.dir.path()));
    assert_eq!(code, 0, "{stderr}");
    for line in [
        "Our own package, stook 0.0.test was measured from Python",
        "svfsc is not measured from",
        "One question over more and more blocks",
        "What locks cost",
        "34,603,192 bytes",
    ] {
        assert!(stdout.contains(line), "{line}: {stdout}");
    }
    let written = fs::read(place.path("out/study.json")).unwrap();
    let result: Value = serde_json::from_slice(&written).unwrap();
    documented("study", &result);
    let data = &result["data"];
    assert_eq!(data["stook_python"]["version"], "0.0.test");
    assert!(
        data["svfsc"]["left_out"].as_str().unwrap().contains("left out by this test"),
        "{}",
        data["svfsc"]
    );
    for row in data["rows"].as_array().unwrap() {
        let is_native = matches!(row["work"].as_str().unwrap(), "locks" | "read_one_lock");
        assert_eq!(row["python_s"].is_null(), is_native, "{row}");
        assert!(row["seconds"].as_f64().unwrap() > 0.0 && row["svfsc_python_s"].is_null(), "{row}");
    }
    // Two experiments, each from Rust and from Python.
    let growth = data["growth"].as_array().unwrap();
    assert_eq!(growth.len(), 4, "{growth:?}");
    let measured = |words: &str| {
        let conclusions = result["conclusions"].as_array().unwrap();
        let one = conclusions.iter().find(|one| one["published"].as_str().unwrap().contains(words)).unwrap();
        one["verdict"] != "not_measured"
    };
    for words in ["Need has", "Reading from Python", "Writing from Python", "Several threads", "33 times"] {
        assert!(measured(words), "{words}");
    }
    let page = fs::read_to_string(place.path("out/study.html")).unwrap();
    for part in ["What locks cost", "The same from Python", "800 bytes between them", "R²"] {
        assert!(page.contains(part), "{part}");
    }
}

/// Nothing is measured for minutes before it is found out.
#[test]
fn a_package_that_returns_other_bytes_ends_the_study_with_what_was_wrong() {
    let place = Place::new();
    let python = python(&place);
    let wrong = fs::read_to_string(place.path("stook.py")).unwrap().replace("= data", "= data[::-1]");
    fs::write(place.path("stook.py"), wrong).unwrap();
    let args = ["study", "sparse-file", "--rounds", "1", "--out", "out", "--python", &python];
    let (code, stdout, stderr) = ended(stook(args).current_dir(place.dir.path()));
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("stook from Python failed: the bytes at 0 are not those"), "{stderr}");
    assert!(!place.path("out/study.json").exists());
}

/// Before: both waited without end, and one signal did not end them.
#[test]
fn a_signal_ends_the_wait_for_a_trace_and_for_an_interpreter() {
    let place = Place::new();
    let pipe = place.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let program = place.path("python");
    fs::write(&program, "#!/bin/sh\n: > begun\nsleep 1000; exit\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let begun = place.path("begun");
    for args in [["--trace", pipe.to_str().unwrap()], ["--python", program.to_str().unwrap()]] {
        let mut command = stook(["study", "sparse-file", "--out", "out"]);
        command.args(args).current_dir(place.dir.path()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let id = child.id();
        // The one has begun when it says so; nothing shows when the other opens its pipe, and until
        // then the signal has to be heeded as well.
        match args[0] {
            "--python" => wait_until(&mut child, || begun.exists()),
            _ => wait_until(&mut child, || listens(id)),
        }
        send("-TERM", &child);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{args:?}");
    }
}

/// Whether the program has a handler for SIGTERM.
fn listens(id: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    caught & 1 << (15 - 1) != 0
}

/// Before: it was looked for, and not found under no name.
#[test]
fn an_interpreter_without_a_name_is_refused() {
    for study in ["sparse-file", "all"] {
        let (code, stdout, stderr) = ended(&mut stook(["study", study, "--python", ""]));
        assert_eq!((code, stdout.as_str()), (2, ""), "{stderr}");
        assert!(stderr.contains("--python"), "{stderr}");
    }
}
