//! `stook copy` against the world: full disks, kills, dead devices, and all that can be in a tree.
//! Other programs say what a copy has to be: rsync, getfattr, getfacl, stat, filefrag.

mod full;
mod holes;
mod killed;
mod kinds;
mod names;
mod published;
mod shutdown;
mod wide;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use stook_testing::trees::rsync_would;

use super::program::{ended, stook};

/// `stook copy ARGS…`.
fn copy<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = stook(["copy"]);
    command.args(args);
    command
}

/// Copies without a failure; what it said.
fn copied<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> String {
    let mut command = copy(args);
    let (code, stdout, stderr) = ended(&mut command);
    assert_eq!((code, stderr.as_str()), (0, ""), "{command:?}: {stdout}");
    stdout
}

/// Copies with failures; what was said of them.
fn failed<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> String {
    ended_with(1, args)
}

/// Asks for what makes no sense; what was said of it.
fn refused<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> String {
    ended_with(2, args)
}

fn ended_with<S: AsRef<OsStr>>(wanted: i32, args: impl IntoIterator<Item = S>) -> String {
    let mut command = copy(args);
    let (code, stdout, stderr) = ended(&mut command);
    assert_eq!(code, wanted, "{command:?}: {stdout}{stderr}");
    assert!(!stderr.contains("panicked") && !stderr.is_empty(), "{stderr}");
    stderr
}

/// The report of a copy that met no failure.
fn report<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> serde_json::Value {
    let mut command = copy(args);
    let (code, stdout, stderr) = ended(command.arg("--json"));
    assert_eq!(code, 0, "{command:?}: {stderr}");
    serde_json::from_str(&stdout).unwrap()
}

/// The trees are the same, says rsync.
fn assert_same(from: &Path, to: &Path) {
    let would = rsync_would(from, to);
    assert!(would.is_empty(), "rsync would\n{}", would.join("\n"));
}

/// The same extended attributes and access control lists, say the programs that show them.
fn assert_same_attributes(from: &Path, to: &Path) {
    let shown: [&[&str]; 2] = [
        &["getfattr", "-R", "-P", "-h", "-d", "-m", "-", "-e", "hex", "."],
        &["getfacl", "-R", "-P", "-n", "."],
    ];
    for program in shown {
        assert_eq!(shown_by(program, from), shown_by(program, to), "{program:?}");
    }
}

/// What a program shows of each file below a directory, whatever the order.
fn shown_by(program: &[&str], directory: &Path) -> Vec<Vec<String>> {
    let ended = Command::new(program[0]).args(&program[1..]).current_dir(directory).output().unwrap();
    assert!(ended.status.success(), "{program:?}: {}", String::from_utf8_lossy(&ended.stderr));
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    let sorted = |file: &str| {
        // XFS shows access control lists once more, in a form of its own.
        let lines = file.lines().filter(|line| !line.starts_with("trusted.SGI_ACL_"));
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let mut files: Vec<_> = text.split("\n\n").map(sorted).collect();
    files.sort();
    files
}

/// Whether whole sweeps were asked for.
fn is_whole_sweep() -> bool {
    stook_testing::sweep::stride(2) == 1
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
