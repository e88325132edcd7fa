//! [`Environment`]: the context that makes measurements comparable: file system, mount, device,
//! kernel, this version.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::device::Below;

/// Where something was measured. Facts that the system does not report are `None`.
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
    /// The mounted source.
    pub mount_source: Option<String>,
    /// The block device, and those below it: `nvme0n1p2`, `dm-0 on sda, sdb`,
    /// `loop0 (direct I/O) on vda`.
    pub device: Option<String>,
    /// Why no counters prove that a device is measured: the file system keeps files in memory, say.
    pub device_doubt: Option<String>,
    /// The model of the lowest device. Here and below, if there are several devices, each answer
    /// once.
    pub device_model: Option<String>,
    /// The size of the device or partition that the file system was made on.
    pub device_bytes: Option<u64>,
    /// Whether the device says that it rotates.
    pub device_rotates: Option<bool>,
    /// The scheduler of its queue.
    pub scheduler: Option<String>,
    /// Whether the kernel takes it to have a cache that loses power.
    pub write_cache: Option<String>,
    /// The most that its link carries.
    pub link_limit_bytes_per_s: Option<f64>,
    /// The limits of the control group of this process on the device:
    /// `reads 20.0 MB/s in the control group`.
    pub throttle: Option<String>,
}

impl Environment {
    /// The environment of a file or directory, with the number of its device.
    pub fn of(path: &Path, device: u64) -> Self {
        let uname = rustix::system::uname();
        let text = |value: &std::ffi::CStr| value.to_string_lossy().into_owned();
        let mount = Mount::of(path);
        let below = Below::of(path, device);
        let joined = |facts: Vec<String>| (!facts.is_empty()).then(|| facts.join(", "));
        let rotates = below.facts("queue/rotational");
        let schedulers = below.facts("queue/scheduler").iter().map(|text| chosen(text)).collect();
        Self {
            kernel: format!("{} {} {}", text(uname.sysname()), text(uname.release()), text(uname.machine())),
            stook: env!("CARGO_PKG_VERSION").to_owned(),
            processors: std::thread::available_parallelism().map_or(0, |count| count.get() as u64),
            file_system: mount.as_ref().map(|mount| mount.kind.clone()),
            mount_point: mount.as_ref().map(|mount| mount.point.display().to_string()),
            mount_options: mount.as_ref().map(|mount| mount.options.clone()),
            mount_source: mount.as_ref().map(|mount| mount.source.clone()),
            device: below.device_name().map(str::to_owned),
            device_doubt: below.doubt().map(str::to_owned),
            device_model: joined(below.facts("device/model")),
            device_bytes: below.len(),
            device_rotates: (!rotates.is_empty()).then(|| rotates.iter().any(|text| text == "1")),
            scheduler: joined(schedulers),
            write_cache: joined(below.facts("queue/write_cache")),
            link_limit_bytes_per_s: below.link_limit_bytes_per_s(),
            throttle: below.limits().in_words(),
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
    /// The directory of the file system that is mounted.
    pub(super) root: PathBuf,
    pub(super) point: PathBuf,
    /// As the kernel writes them: special characters as a backslash and an octal number.
    pub(super) options: String,
    pub(super) kind: String,
    pub(super) source: String,
}

/// All mounts that this process sees; empty where the system does not report them.
pub(super) fn mountinfo() -> String {
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    // One name in another encoding must not hide the rest.
    String::from_utf8_lossy(&text).into_owned()
}

/// A path without links. A file that has no name any more lies where its directory does.
pub(super) fn real_path(path: &Path) -> Option<PathBuf> {
    let of_parent = || {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = fs::canonicalize(parent.unwrap_or(Path::new("."))).ok()?;
        Some(parent.join(path.file_name()?))
    };
    fs::canonicalize(path).ok().or_else(of_parent)
}

impl Mount {
    /// The mount that a path lies on.
    pub(super) fn of(path: &Path) -> Option<Self> {
        Self::among(&mountinfo(), path)
    }

    /// The same, of the mounts in a text.
    pub(super) fn among(mounts: &str, path: &Path) -> Option<Self> {
        Self::find(mounts, &real_path(path)?)
    }

    /// Every mount in a text.
    pub(super) fn all(mounts: &str) -> impl Iterator<Item = Self> {
        mounts.lines().filter_map(Self::parse)
    }

    fn find(mounts: &str, path: &Path) -> Option<Self> {
        let above = Self::all(mounts).filter(|mount| path.starts_with(&mount.point));
        // The longest, and of two at one place the later, which hides the earlier.
        above.max_by_key(|mount| mount.point.components().count())
    }

    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point, options) = (before.next()?, before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, source, own) = (after.next()?, after.next()?, after.next().unwrap_or_default());
        Some(Self {
            root: PathBuf::from(unescaped(root)),
            point: PathBuf::from(unescaped(point)),
            options: format!("{options} {own}").trim().to_owned(),
            kind: kind.to_owned(),
            source: unescaped(source),
        })
    }
}

/// A text of `mountinfo` with its octal escapes of spaces and the like decoded.
pub(super) fn unescaped(text: &str) -> String {
    let octal = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok();
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        match after.split_at_checked(3) {
            Some((digits, after)) if *first == b'\\' && octal(digits).is_some() => {
                plain.extend(octal(digits));
                rest = after;
            }
            _ => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
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
    fn octal_numbers_in_mounts_stand_for_characters() {
        assert_eq!(unescaped("a\\040b\\134\\054c\\011"), "a b\\,c\t");
        assert_eq!(unescaped("plain \\ and \\9, ä\\04"), "plain \\ and \\9, ä\\04");
        let bound =
            Mount::parse("9 1 0:39 /a\\040b /mnt/x rw - btrfs /dev/disk/by-label/a\\040b rw").unwrap();
        assert_eq!(
            (bound.root.as_path(), bound.source.as_str()),
            (Path::new("/a b"), "/dev/disk/by-label/a b")
        );
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
