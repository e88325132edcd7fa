//! [`BlockDevice`]: the device below a file, as `/sys` tells: what it did, and how fast its link is.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};
use serde::{Deserialize, Serialize};

/// The unit of the counters, whatever the sectors of the device are.
const SECTOR_BYTES: u64 = 512;

/// A block device, or a partition of one.
#[derive(Debug, Clone)]
pub(super) struct BlockDevice {
    /// Its directory below `/sys/devices`.
    directory: PathBuf,
    name: String,
}

/// What a device has done since it was found by the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counters {
    /// Reads completed.
    pub(super) reads: u64,
    /// Bytes read.
    pub(super) read_bytes: u64,
    /// Writes completed.
    pub(super) writes: u64,
    /// Bytes written.
    pub(super) write_bytes: u64,
}

/// What a device did in a stretch of time, for everybody.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceUse {
    /// Its name: `nvme0n1p2`.
    pub name: String,
    /// Reads completed.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
}

impl BlockDevice {
    /// The device that a file lies on, if it lies on one: the partition where there is one, because other
    /// partitions are none of its business.
    pub(super) fn of_file(path: &Path, device: u64) -> Option<Self> {
        Self::of_number(major(device), minor(device)).or_else(|| Self::of_mount(path))
    }

    fn of_number(major: u32, minor: u32) -> Option<Self> {
        let directory = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
        let name = directory.file_name()?.to_string_lossy().into_owned();
        Some(Self { directory, name })
    }

    /// Some file systems (btrfs) have device numbers of their own: the mount tells what they lie on.
    fn of_mount(path: &Path) -> Option<Self> {
        let source = super::environment::Mount::of(path)?.source;
        let device = fs::metadata(source).ok()?.rdev();
        Self::of_number(major(device), minor(device))
    }

    /// Its name: `nvme0n1p2`.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What it has done so far.
    pub(super) fn counters(&self) -> Option<Counters> {
        parse_counters(&fs::read_to_string(self.directory.join("stat")).ok()?)
    }

    /// The directory of the whole disk: queues and models are not those of partitions.
    pub(super) fn disk(&self) -> &Path {
        match self.directory.parent() {
            Some(disk) if self.directory.join("partition").exists() => disk,
            _ => &self.directory,
        }
    }

    /// What a file below the whole disk says.
    pub(super) fn fact(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.disk().join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// Its size in bytes.
    pub(super) fn len(&self) -> Option<u64> {
        let sectors: u64 = fs::read_to_string(self.directory.join("size")).ok()?.trim().parse().ok()?;
        sectors.checked_mul(SECTOR_BYTES)
    }

    /// The most bytes a second that fit through the link of the device: the narrowest PCI Express link above it, or
    /// its SATA link. `None` where the system does not tell.
    pub(super) fn link_limit_bytes_per_s(&self) -> Option<f64> {
        let mut limit: Option<f64> = None;
        for directory in self.directory.ancestors().take_while(|path| path.starts_with("/sys/devices/")) {
            let read = |name: &str| fs::read_to_string(directory.join(name)).ok();
            let here = match (read("current_link_speed"), read("current_link_width")) {
                (Some(speed), Some(width)) => pcie_bytes_per_s(&speed, &width),
                _ => sata_link(directory),
            };
            limit = match (limit, here) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        limit
    }
}

/// The SATA link of an `ataN` directory.
fn sata_link(directory: &Path) -> Option<f64> {
    let number = directory.file_name()?.to_str()?.strip_prefix("ata")?;
    let speed = fs::read_to_string(format!("/sys/class/ata_link/link{number}/sata_spd")).ok()?;
    let gbit: f64 = speed.trim().strip_suffix(" Gbps")?.parse().ok()?;
    // Ten bits on the wire for each byte.
    (gbit > 0.0).then_some(gbit * 1e9 / 10.0)
}

/// Payload bits of a link of that speed (`8.0 GT/s PCIe`) and number of lanes; protocol overhead not taken off.
fn pcie_bytes_per_s(speed: &str, width: &str) -> Option<f64> {
    let gigatransfers: f64 = speed.split_whitespace().next()?.parse().ok()?;
    let lanes: f64 = width.trim().parse().ok()?;
    // Up to 5 GT/s ten bits carry eight, up to 32 GT/s 130 carry 128; above, 256-byte units carry 242.
    let coding = match gigatransfers {
        slow if slow <= 5.0 => 0.8,
        fast if fast <= 32.0 => 128.0 / 130.0,
        _ => 242.0 / 256.0,
    };
    let limit = gigatransfers * 1e9 / 8.0 * coding * lanes;
    (limit > 0.0).then_some(limit)
}

fn parse_counters(text: &str) -> Option<Counters> {
    let mut fields = text.split_whitespace().map(|field| field.parse::<u64>().ok());
    let mut skip_to = |skip: usize| fields.nth(skip).flatten();
    // reads, reads merged, sectors read, ms reading, writes, writes merged, sectors written.
    let (reads, read_sectors) = (skip_to(0)?, skip_to(1)?);
    let (writes, write_sectors) = (skip_to(1)?, skip_to(1)?);
    let bytes = |sectors: u64| sectors.checked_mul(SECTOR_BYTES);
    Some(Counters { reads, read_bytes: bytes(read_sectors)?, writes, write_bytes: bytes(write_sectors)? })
}

impl DeviceUse {
    /// What happened between two readings.
    pub(super) fn between(device: &BlockDevice, before: Counters, after: Counters) -> Self {
        Self {
            name: device.name.clone(),
            reads: after.reads.saturating_sub(before.reads),
            read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
            writes: after.writes.saturating_sub(before.writes),
            write_bytes: after.write_bytes.saturating_sub(before.write_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_the_right_columns() {
        let text =
            "     100       11     2000       33      400       55     6000       77        0       88\n";
        let expected = Counters { reads: 100, read_bytes: 1_024_000, writes: 400, write_bytes: 3_072_000 };
        assert_eq!(parse_counters(text), Some(expected));
        assert_eq!(parse_counters("1 2 3"), None);
    }

    #[test]
    fn links_carry_what_their_coding_leaves() {
        let gigabytes =
            |speed, width| pcie_bytes_per_s(speed, width).map(|limit| (limit / 1e7).round() / 100.0);
        assert_eq!(gigabytes("2.5 GT/s PCIe\n", "1\n"), Some(0.25));
        assert_eq!(gigabytes("8.0 GT/s PCIe", "4"), Some(3.94));
        assert_eq!(gigabytes("16.0 GT/s PCIe", "4"), Some(7.88));
        assert_eq!(gigabytes("64.0 GT/s PCIe", "4"), Some(30.25));
        assert_eq!(gigabytes("Unknown", "255"), None);
        assert_eq!(gigabytes("8.0 GT/s", "0"), None);
    }
}
