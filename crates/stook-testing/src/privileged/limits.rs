//! Limits that a control group sets: how often a process may read from a device, as cloud volumes
//! have it, how much may be written to one, and how much of a processor it gets, as containers have
//! it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::LoopDevice;

/// The group that all processes begin in, in version 1.
const TOPMOST: &str = "/sys/fs/cgroup/blkio";

/// A control group in which a device takes little; it goes when this goes.
#[derive(Debug)]
pub struct Throttle {
    group: PathBuf,
    /// Whether control groups are of version 2.
    is_version_2: bool,
    device: String,
}

impl Throttle {
    /// A group without a limit so far.
    ///
    /// # Errors
    /// I/O errors, and that there is no such controller.
    pub fn of(device: &LoopDevice) -> io::Result<Self> {
        let root = controller("io")?;
        let is_version_2 = root.is_some();
        let group = make(&root.unwrap_or_else(|| PathBuf::from(TOPMOST)), "throttle")?;
        Ok(Self { group, is_version_2, device: device.number()? })
    }

    /// Limits the group to this many reads a second on the device.
    ///
    /// # Errors
    /// I/O errors.
    pub fn limit(&self, reads_per_s: u32) -> io::Result<()> {
        self.set("riops", "read_iops_device", u64::from(reads_per_s))
    }

    /// Limits the group to this many bytes a second that are written to the device.
    ///
    /// # Errors
    /// I/O errors.
    pub fn limit_write_bytes(&self, bytes_per_s: u64) -> io::Result<()> {
        self.set("wbps", "write_bps_device", bytes_per_s)
    }

    /// Each version has its own names.
    fn set(&self, key: &str, file: &str, value: u64) -> io::Result<()> {
        let device = &self.device;
        let (file, line) = match self.is_version_2 {
            true => ("io.max".to_owned(), format!("{device} {key}={value}")),
            false => (format!("blkio.throttle.{file}"), format!("{device} {value}")),
        };
        fs::write(self.group.join(file), line)
    }

    /// The same command, run by a process of the group.
    pub fn command(&self, command: &Command) -> Command {
        inside(&self.group, command)
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        remove(&self.group);
    }
}

/// A control group in which processes get a fifth of a processor; it goes when this goes.
#[derive(Debug)]
pub struct Quota(PathBuf);

impl Quota {
    /// Makes the group.
    ///
    /// # Errors
    /// As [`Throttle::of`].
    pub fn of_a_fifth() -> io::Result<Self> {
        // The period of version 1 is 100 ms where nothing else is set.
        let (root, file, quota) = match controller("cpu")? {
            Some(root) => (root, "cpu.max", "20000 100000"),
            None => (PathBuf::from("/sys/fs/cgroup/cpu"), "cpu.cfs_quota_us", "20000"),
        };
        let group = Self(make(&root, "quota")?);
        fs::write(group.0.join(file), quota)?;
        Ok(group)
    }

    /// The same command, run by a process of the group.
    pub fn command(&self, command: &Command) -> Command {
        inside(&self.0, command)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// A limit of what a device takes, for all processes of the topmost group, until this goes: what a
/// process writes itself is counted for its group, what the kernel writes back later for the
/// topmost. Control groups of version 2 limit no topmost group.
#[derive(Debug)]
pub struct WriteLimit {
    device: String,
}

impl WriteLimit {
    /// Whether there can be such limits here.
    ///
    /// # Errors
    /// An error that says what is missing.
    pub fn check() -> io::Result<()> {
        let limits = Self::path();
        match (rustix::process::geteuid().is_root(), limits.exists()) {
            (true, true) => Ok(()),
            (false, _) => Err(io::Error::other("only root may attach devices and limit them")),
            (true, false) => Err(io::Error::other(format!(
                "devices are limited by control groups of version 1: no {}",
                limits.display()
            ))),
        }
    }

    fn path() -> PathBuf {
        Path::new(TOPMOST).join("blkio.throttle.write_bps_device")
    }

    /// From now on the device takes no more than this.
    ///
    /// # Errors
    /// I/O errors.
    pub fn of(device: &LoopDevice, bytes_per_s: u64) -> io::Result<Self> {
        let limit = Self { device: device.number()? };
        limit.set(bytes_per_s)?;
        Ok(limit)
    }

    /// 0 is no limit.
    fn set(&self, bytes_per_s: u64) -> io::Result<()> {
        fs::write(Self::path(), format!("{} {bytes_per_s}", self.device))
    }

    /// The same command, run by a process of the topmost group, where the limits are.
    pub fn command(command: &Command) -> Command {
        inside(Path::new(TOPMOST), command)
    }
}

impl Drop for WriteLimit {
    fn drop(&mut self) {
        if let Err(error) = self.set(0) {
            eprintln!("the limit of {} stays: {error}", self.device);
        }
    }
}

/// Where groups with this controller are made, where control groups are of version 2; version 1 has
/// a tree of its own for each controller.
fn controller(name: &str) -> io::Result<Option<PathBuf>> {
    let root = Path::new("/sys/fs/cgroup");
    let Ok(controllers) = fs::read_to_string(root.join("cgroup.controllers")) else { return Ok(None) };
    if !controllers.split_whitespace().any(|found| found == name) {
        return Err(io::Error::other(format!("no {name} in {controllers}")));
    }
    fs::write(root.join("cgroup.subtree_control"), format!("+{name}"))?;
    Ok(Some(root.to_path_buf()))
}

fn make(root: &Path, purpose: &str) -> io::Result<PathBuf> {
    let group = root.join(format!("stook-{purpose}-{}", std::process::id()));
    fs::create_dir(&group)?;
    Ok(group)
}

/// The same command with its arguments and variables, run by a process of a group.
fn inside(group: &Path, command: &Command) -> Command {
    let mut inside = Command::new("sh");
    inside.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(group.join("cgroup.procs"));
    inside.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => inside.env(name, value),
            None => inside.env_remove(name),
        };
    }
    inside
}

fn remove(group: &Path) {
    if let Err(error) = fs::remove_dir(group) {
        eprintln!("{} was not removed: {error}", group.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_keeps_its_arguments_and_variables_in_the_topmost_group() {
        let mut command = Command::new("program");
        command.args(["copy", "a b"]).env("SET", "1").env_remove("UNSET");
        let inside = WriteLimit::command(&command);
        let arguments: Vec<_> = inside.get_args().skip(2).collect();
        assert_eq!(arguments, ["/sys/fs/cgroup/blkio/cgroup.procs", "program", "copy", "a b"]);
        let variables: Vec<_> = inside.get_envs().collect();
        assert_eq!(variables, [("SET".as_ref(), Some("1".as_ref())), ("UNSET".as_ref(), None)]);
    }
}
