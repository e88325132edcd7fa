//! Limits that a control group sets: how often a process may read from a device, as cloud volumes
//! have it, and how much of a processor it gets, as containers have it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::loop_device::LoopDevice;

/// A control group in which a device takes few reads a second; it goes when this goes.
pub(crate) struct Throttle {
    group: PathBuf,
    /// The file that takes a limit, and the name of the limit in it.
    file: &'static str,
    key: &'static str,
    device: String,
}

impl Throttle {
    /// A group without a limit so far.
    pub(crate) fn of(device: &LoopDevice) -> Self {
        let device = fs::read_to_string(device.sys().join("dev")).unwrap().trim().to_owned();
        let (root, file, key) = controller("io")
            .map_or((PathBuf::from("/sys/fs/cgroup/blkio"), "blkio.throttle.read_iops_device", ""), |root| {
                (root, "io.max", "riops=")
            });
        let group = make(&root, "throttle");
        Self { group, file, key, device }
    }

    /// Limits the group to this many reads a second on the device.
    pub(crate) fn limit(&self, reads_per_s: u32) {
        let line = format!("{} {}{reads_per_s}", self.device, self.key);
        fs::write(self.group.join(self.file), line).unwrap();
    }

    /// The same command, run by a process of the group.
    pub(crate) fn command(&self, command: &Command) -> Command {
        inside(&self.group, command)
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        remove(&self.group);
    }
}

/// A control group in which processes get a fifth of a processor; it goes when this goes.
pub(crate) struct Quota(PathBuf);

impl Quota {
    pub(crate) fn of_a_fifth() -> Self {
        // The period of version 1 is 100 ms where nothing else is set.
        let (root, file, quota) = controller("cpu")
            .map_or((PathBuf::from("/sys/fs/cgroup/cpu"), "cpu.cfs_quota_us", "20000"), |root| {
                (root, "cpu.max", "20000 100000")
            });
        let group = make(&root, "quota");
        fs::write(group.join(file), quota).unwrap();
        Self(group)
    }

    /// The same command, run by a process of the group.
    pub(crate) fn command(&self, command: &Command) -> Command {
        inside(&self.0, command)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Where groups with this controller are made, where control groups are of version 2; version 1 has
/// a tree of its own for each controller.
fn controller(name: &str) -> Option<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let controllers = fs::read_to_string(root.join("cgroup.controllers")).ok()?;
    assert!(controllers.split_whitespace().any(|found| found == name), "no {name} in {controllers}");
    fs::write(root.join("cgroup.subtree_control"), format!("+{name}")).unwrap();
    Some(root.to_path_buf())
}

fn make(root: &Path, purpose: &str) -> PathBuf {
    let group = root.join(format!("stook-{purpose}-{}", std::process::id()));
    fs::create_dir(&group).unwrap();
    group
}

fn inside(group: &Path, command: &Command) -> Command {
    let mut inside = Command::new("sh");
    inside.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(group.join("cgroup.procs"));
    inside.arg(command.get_program()).args(command.get_args());
    inside
}

fn remove(group: &Path) {
    if let Err(error) = fs::remove_dir(group) {
        eprintln!("{} was not removed: {error}", group.display());
    }
}
