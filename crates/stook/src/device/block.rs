//! [`BlockDevice`]: a device as described in `/sys`: its counters, its parts, how it is connected.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{major, minor};

use super::System;
use super::attachment::Transport;
use super::link::{self, Link};

/// The unit of the counters, regardless of the sector size of the device.
const SECTOR_BYTES: u64 = 512;

/// How names of SCSI, SATA and IDE disks begin.
const DISKS: [&str; 2] = ["sd", "hd"];

/// What hypervisors and targets call disks that are none, in lower case: `QEMU HARDDISK`,
/// `VBOX HARDDISK`, `Virtual disk`, `PersistentDisk`, `Amazon Elastic Block Store`, `nvme_card`,
/// `MSFT NVMe Accelerator`, `scsi_debug`.
const VIRTUAL_MODELS: [&str; 8] =
    ["qemu", "vbox", "virtual", "persistentdisk", "amazon", "nvme_card", "msft", "scsi_debug"];

/// A block device, or a partition of one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BlockDevice {
    name: String,
    /// Its directory below `/sys/devices`.
    directory: PathBuf,
}

/// What devices have done since the system found them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Totals {
    pub(super) reads: u64,
    pub(super) read_bytes: u64,
    pub(super) writes: u64,
    pub(super) write_bytes: u64,
}

impl BlockDevice {
    /// The device with this number: the partition if it is one, because other partitions do not
    /// matter.
    pub(super) fn of_number(system: &System, device: u64) -> Option<Self> {
        let number = format!("{}:{}", major(device), minor(device));
        Self::at(&system.sys.join("dev/block").join(number))
    }

    /// The device that a mount names as its source. In a container it may have no node, and the
    /// name still leads to it.
    pub(super) fn of_source(system: &System, source: &str) -> Option<Self> {
        let source = Path::new(source);
        match fs::metadata(source) {
            Ok(node) if node.file_type().is_block_device() => Self::of_number(system, node.rdev()),
            Ok(_) => None,
            Err(_) => {
                let name = source.strip_prefix("/dev").ok()?;
                (name.components().count() == 1)
                    .then(|| Self::at(&system.sys.join("class/block").join(name)))?
            }
        }
    }

    /// The device that a link in `/sys` leads to.
    pub(super) fn at(link: &Path) -> Option<Self> {
        let directory = fs::canonicalize(link).ok()?;
        let name = directory.file_name()?.to_string_lossy().into_owned();
        Some(Self { name, directory })
    }

    /// Its name: `nvme0n1p2`.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Its directory below `/sys/devices`.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its counters so far.
    fn totals(&self) -> Option<Totals> {
        parse_totals(&fs::read_to_string(self.directory.join("stat")).ok()?)
    }

    /// Whether its statistics are enabled. Otherwise its counters do not change.
    pub(super) fn counts(&self) -> bool {
        self.fact("queue/iostats").as_deref() != Some("0")
    }

    /// The directory of the whole disk: queues and models are not those of partitions.
    fn disk(&self) -> &Path {
        match self.directory.parent() {
            Some(disk) if self.directory.join("partition").exists() => disk,
            _ => &self.directory,
        }
    }

    /// The whole disk that it is a part of; itself where it is no partition.
    pub(super) fn whole(&self) -> Self {
        Self { name: self.disk_name(), directory: self.disk().to_path_buf() }
    }

    /// The name of the whole disk.
    pub(super) fn disk_name(&self) -> String {
        self.disk().file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// The number of the whole disk: `254:0`. Limits are set on disks.
    pub(super) fn disk_number(&self) -> Option<String> {
        self.fact("dev")
    }

    /// The devices that it is made of, if it is made of any.
    pub(super) fn parts(&self) -> Vec<Self> {
        let parts = fs::read_dir(self.disk().join("slaves")).into_iter().flatten().filter_map(Result::ok);
        let mut parts: Vec<Self> = parts.filter_map(|part| Self::at(&part.path())).collect();
        parts.sort();
        parts
    }

    /// The contents of a file below the whole disk.
    pub(super) fn fact(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.disk().join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// Its size in bytes.
    pub(super) fn len(&self) -> Option<u64> {
        let sectors: u64 = fs::read_to_string(self.directory.join("size")).ok()?.trim().parse().ok()?;
        sectors.checked_mul(SECTOR_BYTES)
    }

    /// Whether it surely is a disk that rotates. A kernel says so of whatever does not deny it:
    /// of virtual disks, and of what is reached through a bridge to USB.
    pub(super) fn surely_rotates(&self) -> bool {
        let disk = self.disk_name();
        let is_disk = DISKS.iter().any(|name| disk.starts_with(name));
        let is_usb = |part: Component<'_>| part.as_os_str().as_bytes().starts_with(b"usb");
        is_disk
            && self.fact("queue/rotational").as_deref() == Some("1")
            && !self.directory.components().any(is_usb)
            && !self.is_virtual()
    }

    /// What it is called wherever it is plugged in: its world-wide or its serial number.
    pub(super) fn lasting_name(&self) -> Option<String> {
        ["wwid", "device/wwid", "serial", "device/serial"].iter().find_map(|name| self.fact(name))
    }

    /// What it says of itself, in one line: its maker and its model. What is printed is escaped.
    pub(super) fn model(&self) -> Option<String> {
        // A SATA disk has no maker but this.
        let maker = self.fact("device/vendor").filter(|maker| maker != "ATA" && !maker.starts_with("0x"));
        let model = self.fact("device/model").or_else(|| self.fact("device/name"));
        let words = [maker, model].into_iter().flatten();
        let words: Vec<String> = words.flat_map(|text| words_of(&text)).collect();
        (!words.is_empty()).then(|| words.join(" "))
    }

    /// Whether it is no device that somebody could touch: what a hypervisor shows has no link.
    pub(super) fn is_virtual(&self) -> bool {
        let model = self.fact("device/model").unwrap_or_default().to_ascii_lowercase();
        VIRTUAL_MODELS.iter().any(|name| model.contains(name))
    }

    /// How it is connected.
    pub(super) fn transport(&self) -> Transport {
        let disk = self.disk_name();
        let has = |is: &dyn Fn(&Path) -> bool| link::above(self.disk()).any(is);
        let begins = |path: &Path, begin: &str| {
            path.file_name().is_some_and(|name| name.as_bytes().starts_with(begin.as_bytes()))
        };
        let kinds = [
            (self.is_virtual() || has(&|path| begins(path, "virtio")), Transport::Virtual),
            (has(&link::is_usb_device), Transport::Usb),
            (has(&|path| begins(path, "ata")), Transport::Sata),
            (disk.starts_with("nvme"), Transport::Nvme),
            (disk.starts_with("mmcblk"), Transport::Card),
            (DISKS.iter().any(|name| disk.starts_with(name)), Transport::Scsi),
        ];
        kinds.into_iter().find(|(is_so, _)| *is_so).map_or(Transport::Unknown, |(_, kind)| kind)
    }

    /// The narrowest link above it. `None` if the system reports none; what it reports of virtual
    /// devices is made up.
    pub(super) fn link(&self) -> Option<Link> {
        let is_real = self.transport() != Transport::Virtual;
        Link::narrowest(self.disk()).filter(|_| is_real)
    }
}

/// The words of a text that was padded with spaces.
fn words_of(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn parse_totals(text: &str) -> Option<Totals> {
    let mut fields = text.split_whitespace().map(|field| field.parse::<u64>().ok());
    let mut skip_to = |skip: usize| fields.nth(skip).flatten();
    // reads, reads merged, sectors read, ms reading, writes, writes merged, sectors written.
    let (reads, read_sectors) = (skip_to(0)?, skip_to(1)?);
    let (writes, write_sectors) = (skip_to(1)?, skip_to(1)?);
    let bytes = |sectors: u64| sectors.checked_mul(SECTOR_BYTES);
    Some(Totals { reads, read_bytes: bytes(read_sectors)?, writes, write_bytes: bytes(write_sectors)? })
}

impl Totals {
    /// The sums of several devices; `None` if there is none, or one does not report them.
    pub(super) fn of(devices: &[BlockDevice]) -> Option<Self> {
        let mut all = devices.iter().map(BlockDevice::totals);
        let first = all.next()??;
        all.try_fold(first, |sum, next| next.map(|next| sum.each(next, u64::saturating_add)))
    }

    /// The difference to an earlier reading.
    pub(super) fn since(self, before: Self) -> Self {
        self.each(before, u64::saturating_sub)
    }

    /// The lesser of each.
    pub(super) fn least(self, other: Self) -> Self {
        self.each(other, u64::min)
    }

    /// The written amount for a single copy.
    pub(super) fn of_one_copy(self, copies: u64) -> Self {
        let copies = copies.max(1);
        Self { writes: self.writes / copies, write_bytes: self.write_bytes / copies, ..self }
    }

    fn each(self, other: Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            reads: of(self.reads, other.reads),
            read_bytes: of(self.read_bytes, other.read_bytes),
            writes: of(self.writes, other.writes),
            write_bytes: of(self.write_bytes, other.write_bytes),
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
        let expected = Totals { reads: 100, read_bytes: 1_024_000, writes: 400, write_bytes: 3_072_000 };
        assert_eq!(parse_totals(text), Some(expected));
        assert_eq!(parse_totals("1 2 3"), None);
    }
}
