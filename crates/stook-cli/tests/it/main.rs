//! Runs the built `stook` and looks at what it prints and how it exits.
#![expect(clippy::unwrap_used, reason = "a helper that cannot set up a test should fail on the spot")]

mod advise;
mod archive;
mod archive_checksums;
mod bench;
mod bulk_copy;
mod cat;
mod check;
mod compact;
mod completing;
mod copy;
mod copy_lists;
mod copy_mirror;
mod copy_read_back;
mod copy_resume;
mod copy_surface;
mod damage;
mod frame;
mod get;
mod info;
mod load;
mod ls;
mod mirror;
mod names;
mod options;
mod pack;
mod packs;
mod proven;
mod put;
mod remote;
mod rm;
mod roundtrip;
mod serve;
mod shell;
mod sparse_file;
mod ssd_profile;
mod stitch;
mod study;
mod trees;
mod unpack;
mod verify;
#[cfg(target_os = "linux")]
mod xattrs;

use std::ffi::OsStr;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// The built program, without variables of the caller's environment that change its output.
fn stook<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stook"));
    command.args(args).env_remove("STOOK_ENGINE").env_remove("CLICOLOR_FORCE").stdin(Stdio::null());
    command
}

/// Waits until something is so; fails if the program ends before.
fn wait_until(child: &mut Child, mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Sends a signal to the program, by its name: `-INT` is Ctrl-C.
fn send(signal: &str, child: &Child) {
    let status = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(status.unwrap().success(), "{signal} was not sent");
}

/// Exit code, stdout and stderr.
fn ended(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}
