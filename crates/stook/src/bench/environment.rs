//! [`Environment`]: what a measurement can be compared by: file system, mount, device, kernel, this version.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::device::BlockDevice;

/// Where something was measured. What the system does not tell is `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Name, release and architecture of the kernel.
    pub kernel: String,
    /// The version that measured.
    pub stook: String,
    /// Processors that it may use.
    pub processors: u64,
    /// The type of the file system.
    pub file_system: Option<String>,
    /// Where it is mounted.
    pub mount_point: Option<String>,
    /// Its mount options, those of the file system included.
    pub mount_options: Option<String>,
    /// What is mounted there.
    pub mount_source: Option<String>,
    /// The block device: `nvme0n1p2`.
    pub device: Option<String>,
    /// What the device calls itself.
    pub device_model: Option<String>,
    /// The size of the device or partition.
    pub device_bytes: Option<u64>,
    /// Whether the device says that it rotates.
    pub device_rotates: Option<bool>,
    /// The scheduler of its queue.
    pub scheduler: Option<String>,
    /// Whether the kernel takes it to have a cache that loses power.
    pub write_cache: Option<String>,
    /// The most that its link carries.
    pub link_limit_bytes_per_s: Option<f64>,
}

impl Environment {
    /// The environment of a file or directory, with the number of its device.
    pub fn of(path: &Path, device: u64) -> Self {
        let uname = rustix::system::uname();
        let text = |value: &std::ffi::CStr| value.to_string_lossy().into_owned();
        let mount = Mount::of(path);
        let device = BlockDevice::of_file(path, device);
        let fact = |name: &str| device.as_ref().and_then(|device| device.fact(name));
        Self {
            kernel: format!("{} {} {}", text(uname.sysname()), text(uname.release()), text(uname.machine())),
            stook: env!("CARGO_PKG_VERSION").to_owned(),
            processors: std::thread::available_parallelism().map_or(0, |count| count.get() as u64),
            file_system: mount.as_ref().map(|mount| mount.kind.clone()),
            mount_point: mount.as_ref().map(|mount| mount.point.display().to_string()),
            mount_options: mount.as_ref().map(|mount| mount.options.clone()),
            mount_source: mount.as_ref().map(|mount| mount.source.clone()),
            device: device.as_ref().map(|device| device.name().to_owned()),
            device_model: fact("device/model"),
            device_bytes: device.as_ref().and_then(BlockDevice::len),
            device_rotates: fact("queue/rotational").map(|text| text == "1"),
            scheduler: fact("queue/scheduler").map(|text| chosen(&text)),
            write_cache: fact("queue/write_cache"),
            link_limit_bytes_per_s: device.as_ref().and_then(BlockDevice::link_limit_bytes_per_s),
        }
    }
}

/// The one in brackets: `none [mq-deadline] kyber`.
fn chosen(schedulers: &str) -> String {
    let inside = schedulers.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(schedulers, |(name, _)| name).to_owned()
}

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) point: PathBuf,
    pub(super) options: String,
    pub(super) kind: String,
    pub(super) source: String,
}

impl Mount {
    /// The mount that a path lies on.
    pub(super) fn of(path: &Path) -> Option<Self> {
        // A file without a name any more lies where its directory does.
        let path =
            fs::canonicalize(path).or_else(|_| fs::canonicalize(path.parent().unwrap_or(path))).ok()?;
        Self::find(&fs::read_to_string("/proc/self/mountinfo").ok()?, &path)
    }

    fn find(mounts: &str, path: &Path) -> Option<Self> {
        let above = mounts.lines().filter_map(Self::parse).filter(|mount| path.starts_with(&mount.point));
        // The longest, and of two at one place the later, which hides the earlier.
        above.max_by_key(|mount| mount.point.components().count())
    }

    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(4);
        let (point, options) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, source, own) = (after.next()?, after.next()?, after.next().unwrap_or_default());
        Some(Self {
            // Spaces in names are written as octal.
            point: PathBuf::from(point.replace("\\040", " ")),
            options: format!("{options} {own}").trim().to_owned(),
            kind: kind.to_owned(),
            source: source.replace("\\040", " "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 253:0 / / rw,relatime - ext4 /dev/vda rw
23 22 0:27 / /mnt rw - tmpfs none rw,size=1k
24 22 0:31 / /mnt/a\\040b rw,noatime shared:1 - btrfs /dev/vdb rw,compress=zstd
25 22 0:32 / /mnt/a\\040b ro - xfs /dev/vdc rw";

    #[test]
    fn the_mount_of_a_path_is_the_last_of_the_deepest() {
        let of = |path: &str| Mount::find(MOUNTS, Path::new(path)).unwrap();
        assert_eq!((of("/home").kind.as_str(), of("/mnt/c").kind.as_str()), ("ext4", "tmpfs"));
        let deep = of("/mnt/a b/c");
        assert_eq!(
            (deep.kind.as_str(), deep.options.as_str(), deep.source.as_str()),
            ("xfs", "ro rw", "/dev/vdc")
        );
        assert_eq!(of("/mnt/a bc").kind, "tmpfs");
    }

    #[test]
    fn the_scheduler_is_the_one_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber"), "mq-deadline");
        assert_eq!(chosen("none"), "none");
    }

    #[test]
    fn the_facts_that_every_linux_tells_are_there() {
        let here = Environment::of(Path::new("/"), 0);
        assert!(here.kernel.starts_with("Linux ") && here.processors > 0, "{here:?}");
        assert!(here.file_system.is_some() && here.mount_point.as_deref() == Some("/"), "{here:?}");
    }
}
