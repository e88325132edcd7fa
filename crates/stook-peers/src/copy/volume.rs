//! File systems of their own, on loop devices that take only as many bytes a second as they are
//! told. What is mounted and attached goes when the value goes.
//!
//! The limits are those of control groups of version 1, set for the topmost group: what a process
//! writes itself is counted for its group, what the kernel writes back later for the topmost.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use stook_study::sample;

use crate::unpack::ended;

const TOPMOST_GROUP: &str = "/sys/fs/cgroup/blkio";
const LIMITS: &str = "blkio.throttle.write_bps_device";

/// Whether devices can be limited here.
///
/// # Errors
/// Returns an error that says what is missing.
pub(super) fn check() -> anyhow::Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "only root may attach devices and limit them");
    let limits = Path::new(TOPMOST_GROUP).join(LIMITS);
    ensure!(limits.exists(), "devices are limited by control groups of version 1: no {}", limits.display());
    Ok(())
}

/// The same command, run by a process of the topmost group, where the limits are.
pub(super) fn in_topmost_group(command: &Command) -> Command {
    let mut inside = Command::new("sh");
    let group = Path::new(TOPMOST_GROUP).join("cgroup.procs");
    inside.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(group);
    inside.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => inside.env(name, value),
            None => inside.env_remove(name),
        };
    }
    inside
}

/// An ext4 on a loop device.
pub(super) struct Volume {
    // In the order in which they have to go.
    _limit: Option<WriteLimit>,
    mounted: Mounted,
    device: Attached,
}

impl Volume {
    /// Makes one of this name and length in a directory.
    pub(super) fn make(work: &Path, name: &str, len_bytes: u64) -> anyhow::Result<Self> {
        let device = Attached::new(&work.join(format!("{name}.image")), len_bytes)?;
        // Complete when it is made: otherwise the kernel writes to it later.
        let complete = ["-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
        ended(Command::new("mkfs.ext4").args(complete).arg(&device.node))?;
        let mounted = Mounted::new(&device.node, work.join(name))?;
        Ok(Self { _limit: None, mounted, device })
    }

    /// From now on it takes no more than this.
    pub(super) fn limit_writes(&mut self, bytes_per_s: u64) -> anyhow::Result<()> {
        let number = fs::read_to_string(self.device.sys().join("dev"))?.trim().to_owned();
        let limit = WriteLimit { number };
        limit.set(bytes_per_s)?;
        self._limit = Some(limit);
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.mounted.0
    }

    /// What the device has read since it was attached.
    pub(super) fn read_bytes(&self) -> anyhow::Result<u64> {
        let path = self.device.sys().join("stat");
        let text = fs::read_to_string(&path)?;
        bytes_in(&text).with_context(|| format!("{} is not as expected: {text:?}", path.display()))
    }
}

/// Of reads, reads that were merged, sectors that were read, … (Documentation/block/stat.rst). A
/// sector has 512 bytes there, whatever it has on the device.
fn bytes_in(stat: &str) -> Option<u64> {
    stat.split_ascii_whitespace().nth(2)?.parse::<u64>().ok()?.checked_mul(512)
}

/// A limit of a device.
struct WriteLimit {
    number: String,
}

impl WriteLimit {
    /// 0 is no limit.
    fn set(&self, bytes_per_s: u64) -> anyhow::Result<()> {
        let path = Path::new(TOPMOST_GROUP).join(LIMITS);
        let written = fs::write(&path, format!("{} {bytes_per_s}", self.number));
        written.with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Drop for WriteLimit {
    fn drop(&mut self) {
        if let Err(error) = self.set(0) {
            eprintln!("the limit of {} stays: {error:#}", self.number);
        }
    }
}

struct Mounted(PathBuf);

impl Mounted {
    fn new(node: &str, point: PathBuf) -> anyhow::Result<Self> {
        fs::create_dir_all(&point)?;
        ended(Command::new("mount").arg(node).arg(&point))?;
        Ok(Self(point))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        done_or_said(Command::new("umount").arg(&self.0));
    }
}

struct Attached {
    node: String,
    image: PathBuf,
}

impl Attached {
    fn new(image: &Path, len_bytes: u64) -> anyhow::Result<Self> {
        sample::remove(image)?;
        File::create(image)?.set_len(len_bytes)?;
        let mut attach = Command::new("losetup");
        // The memory of its file would take what the device has to take.
        attach.args(["--find", "--show", "--direct-io=on"]).arg(image);
        let output = attach.stdin(Stdio::null()).output().context("cannot start losetup")?;
        ensure!(output.status.success(), "{attach:?}: {}", String::from_utf8_lossy(&output.stderr));
        let node = String::from_utf8(output.stdout)?.trim_end().to_owned();
        let attached = Self { node, image: image.to_path_buf() };
        // Where the file system of the image cannot do it, the kernel says nothing.
        let is_direct = fs::read_to_string(attached.sys().join("loop/dio"))?;
        ensure!(is_direct.trim() == "1", "{} cannot be read past the page cache", image.display());
        Ok(attached)
    }

    /// Its directory in `/sys`.
    fn sys(&self) -> PathBuf {
        let name = Path::new(&self.node).file_name().unwrap_or(OsStr::new(""));
        Path::new("/sys/block").join(name)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        done_or_said(Command::new("losetup").arg("-d").arg(&self.node));
        if let Err(error) = sample::remove(&self.image) {
            eprintln!("{error:#}");
        }
    }
}

/// Clears up: what fails here must not hide an earlier failure.
fn done_or_said(command: &mut Command) {
    if let Err(error) = ended(command) {
        eprintln!("{error:#}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_device_read_is_found() {
        let stat = "     112        3     8056       12       40        1     2048        9        0       16       21\n";
        assert_eq!(bytes_in(stat), Some(8056 * 512));
        assert_eq!(bytes_in("112 3"), None);
    }

    #[test]
    fn a_command_keeps_its_arguments_and_variables_in_the_topmost_group() {
        let mut command = Command::new("program");
        command.args(["copy", "a b"]).env("SET", "1").env_remove("UNSET");
        let inside = in_topmost_group(&command);
        let arguments: Vec<_> = inside.get_args().skip(2).collect();
        assert_eq!(arguments, ["/sys/fs/cgroup/blkio/cgroup.procs", "program", "copy", "a b"]);
        let variables: Vec<_> = inside.get_envs().collect();
        assert_eq!(variables, [("SET".as_ref(), Some("1".as_ref())), ("UNSET".as_ref(), None)]);
    }
}
