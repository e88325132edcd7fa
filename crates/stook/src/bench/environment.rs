//! [`Environment`]: the context that makes measurements comparable: file system, mount, device,
//! kernel, this version.

use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::limits::Limits;
use crate::device::{Below, Mount};

/// Where something was measured. Facts that the system does not report are `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Name, release and architecture of the kernel.
    pub kernel: String,
    /// The version that measured.
    pub stook: String,
    /// Processors that it may use.
    pub processors: u64,
    /// Whether a block device itself was measured on, and no file: then there is no file system.
    #[serde(default)]
    pub is_raw_device: bool,
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
        let is_raw_device = std::fs::metadata(path).is_ok_and(|node| node.file_type().is_block_device());
        let mount = Mount::of(path).filter(|_| !is_raw_device);
        let below = Below::of(path, device);
        let joined = |facts: Vec<String>| (!facts.is_empty()).then(|| facts.join(", "));
        let rotates = below.facts("queue/rotational");
        let schedulers = below.facts("queue/scheduler").iter().map(|text| chosen(text)).collect();
        Self {
            kernel: format!("{} {} {}", text(uname.sysname()), text(uname.release()), text(uname.machine())),
            stook: env!("CARGO_PKG_VERSION").to_owned(),
            is_raw_device,
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
            throttle: Limits::on(&below).in_words(),
        }
    }
}

/// The one in brackets: `none [mq-deadline] kyber`.
fn chosen(schedulers: &str) -> String {
    let inside = schedulers.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(schedulers, |(name, _)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

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
