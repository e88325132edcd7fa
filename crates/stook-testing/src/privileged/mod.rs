//! What only root can make: block devices of files, file systems on them, limits of control groups.
//! All of it goes when the value goes.

mod limits;
mod loop_device;
mod mounts;

use std::io;
use std::process::{Command, Stdio};

pub use limits::{Quota, Throttle, WriteLimit};
pub use loop_device::{BTRFS, EXT4, Kind, LoopDevice, XFS};
pub use mounts::{Attached, Mounted};

/// What a command printed, without the line feed at its end.
///
/// # Errors
/// It cannot be started, or fails: with what it printed on stderr.
pub fn run(command: &mut Command) -> io::Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let failed = |why: &dyn std::fmt::Display| io::Error::other(format!("{command:?}: {why}"));
    let output = output.map_err(|error| failed(&error))?;
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr)));
    }
    let printed = String::from_utf8(output.stdout).map_err(|error| failed(&error))?;
    Ok(printed.trim_end().to_owned())
}

/// Runs what cleans up: its failure must not hide an earlier one.
fn run_or_warn(command: &mut Command) {
    if let Err(error) = run(command) {
        eprintln!("{error}");
    }
}
