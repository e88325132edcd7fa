//! The layers below a file, as the system reports them: devices with counters, or memory; and how
//! the disks at the end are connected.
//!
//! Between a file and the devices that hold its bytes there can be layers: an overlay lies on
//! directories of other file systems, a loop device on a file, a mapped device on others, btrfs on
//! several. Each is followed down, because a layer that keeps bytes in memory answers instead of
//! the device.

mod attachment;
mod block;
mod btrfs;
mod link;
mod loop_device;
mod memory;
mod meter;
mod mount;
mod overlay;
mod raw;
#[cfg(test)]
pub(crate) mod tests;

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use self::attachment::{Attachment, Disk, Transport};
use self::block::{BlockDevice, Totals};
pub use self::link::{Link, LinkKind};
use self::loop_device::FileNumbers;
pub use self::meter::DeviceMeter;
pub(crate) use self::mount::{Mount, copies_on_server, devices_of, mountinfo};
pub(crate) use self::raw::RawDevice;

/// How many layers are followed. Real stacks are lower, and a cycle must end.
const LAYERS_MAX: u32 = 8;

/// Copy-on-write file systems: overwritten data goes elsewhere, and the tree that leads there is
/// written later.
const COPY_ON_WRITE: [&str; 3] = ["bcachefs", "btrfs", "zfs"];

/// The layers below a file.
#[derive(Debug, Clone)]
pub(crate) struct Below {
    /// Every layer, from the file down.
    name: String,
    /// The devices of the file system.
    top: Vec<BlockDevice>,
    /// Where the bytes end up. Empty if that is not a device, or not known.
    lowest: Vec<BlockDevice>,
    /// All devices that a request passes: a limit on any of them limits the file.
    on_the_way: Vec<BlockDevice>,
    /// How often a byte that is written to the file is written to `top`.
    copies: u64,
    /// How often a byte that is written to `top` is written to `lowest`.
    copies_below: u64,
    /// The layer that serves reads from the page cache, so that its counters prove nothing.
    cached: Option<String>,
    /// Why no counters prove that a device was measured.
    doubt: Option<String>,
    /// Whether a file system above the first device is copy-on-write.
    is_copy_on_write: bool,
}

/// Counters of the devices below a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counters {
    /// The topmost devices, unless they pass on what the page cache had.
    top: Option<Totals>,
    lowest: Totals,
    /// The whole disks below, where others than this file may use them without a trace in the other
    /// counters.
    disks: Option<Totals>,
}

/// What the whole disks below a file did in a period, for everybody. Writes count once, as those of
/// the file do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DisksUse {
    /// Their names.
    pub(crate) name: String,
    /// Bytes read.
    pub(crate) read_bytes: u64,
    /// Bytes written.
    pub(crate) write_bytes: u64,
}

/// The operations of a device in a period, for all programs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceUse {
    /// Its name, and those of the devices below: `nvme0n1p2`, `loop0 (direct I/O) on vda`.
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

impl Below {
    /// What lies below a file or directory, with the number of its device.
    pub(crate) fn of(path: &Path, device: u64) -> Self {
        System::here().below(path, device).if_counted()
    }

    /// The same, in doubt where any of the devices whose counters are read does not count.
    fn if_counted(self) -> Self {
        let top = if self.cached.is_none() { self.top.as_slice() } else { &[] };
        let silent = top.iter().chain(&self.lowest).find(|device| !device.counts());
        let silent = silent.map(|device| format!("{} does not count (queue/iostats is 0)", device.name()));
        Self { doubt: self.doubt.clone().or(silent), ..self }
    }

    /// What the devices have done so far.
    pub(crate) fn counters(&self) -> Option<Counters> {
        let lowest = Totals::of(&self.lowest)?;
        let top = match self.cached {
            None => Some(Totals::of(&self.top)?),
            Some(_) => None,
        };
        Some(Counters { top, lowest, disks: Totals::of(&self.disks()) })
    }

    /// The whole disks that hold the bytes. None where the topmost devices are these: their own
    /// counters show what others do.
    fn disks(&self) -> Vec<BlockDevice> {
        let mut disks: Vec<BlockDevice> = self.lowest.iter().map(BlockDevice::whole).collect();
        disks.sort();
        disks.dedup();
        if disks == self.top { Vec::new() } else { disks }
    }

    /// What these did between two readings.
    pub(crate) fn disks_between(&self, before: Counters, after: Counters) -> Option<DisksUse> {
        let used = after.disks?.since(before.disks?).of_one_copy(self.copies_below);
        let disks = self.disks();
        let name = disks.iter().map(BlockDevice::name).collect::<Vec<_>>().join(", ");
        Some(DisksUse { name, read_bytes: used.read_bytes, write_bytes: used.write_bytes })
    }

    /// What happened between two readings. Of two layers of devices it is the one that did less:
    /// where the lower did less, something in between served from memory; where it did more, that
    /// was for others, as with two partitions of a disk.
    pub(crate) fn use_between(&self, before: Counters, after: Counters) -> DeviceUse {
        let lowest = after.lowest.since(before.lowest).of_one_copy(self.copies_below);
        let used = match (before.top, after.top) {
            (Some(before), Some(after)) => after.since(before).least(lowest),
            _ => lowest,
        };
        let Totals { reads, read_bytes, writes, write_bytes } = used;
        DeviceUse { name: self.name.clone(), reads, read_bytes, writes, write_bytes }
    }

    /// How often a byte that is written reaches the devices: 2 on a mirror.
    pub(crate) fn copies(&self) -> u64 {
        self.copies
    }

    /// Whether syncing the file leaves a part of the work for later: it writes a log, and the tree
    /// that leads to what was written is written when the whole file system is synced.
    pub(crate) fn is_copy_on_write(&self) -> bool {
        self.is_copy_on_write
    }

    /// Why counters prove nothing, or why there are none.
    pub(crate) fn doubt(&self) -> Option<&str> {
        self.doubt.as_deref()
    }

    /// The numbers of all disks that a request meets: `254:0`.
    pub(crate) fn disk_numbers(&self) -> Vec<String> {
        self.on_the_way.iter().filter_map(BlockDevice::disk_number).collect()
    }

    /// The first device on the way that may answer from memory.
    fn cached_by(&self) -> Option<String> {
        let cached = self.on_the_way.iter().find_map(|device| {
            if memory::is_device(device) {
                return Some(format!("{} (memory)", device.name()));
            }
            let is_loop = device.fact("loop/backing_file").is_some();
            let is_cached = is_loop && device.fact("loop/dio").as_deref() != Some("1");
            is_cached.then(|| format!("{} (through the page cache)", device.name()))
        });
        // A loop device whose file is in memory, or cannot be seen.
        let first = self.on_the_way.first().filter(|_| self.disks_at_the_end().is_empty());
        cached.or_else(|| first.map(|device| format!("{} (no disk is known below it)", device.name())))
    }

    /// The whole disks at the end of the way, which nothing else lies below.
    fn disks_at_the_end(&self) -> Vec<BlockDevice> {
        let is_last =
            |device: &&BlockDevice| device.parts().is_empty() && device.fact("loop/backing_file").is_none();
        let mut disks: Vec<_> = self.on_the_way.iter().filter(is_last).map(BlockDevice::whole).collect();
        disks.sort();
        disks.dedup();
        disks
    }

    /// How often a byte that is written to the file reaches those disks.
    fn copies_at_the_end(&self) -> u64 {
        self.copies.saturating_mul(self.copies_below).max(1)
    }

    /// How often one device takes what is written once. Copies on devices of their own are written
    /// side by side; on one device, one after the other.
    pub(crate) fn copies_on_one_device(&self) -> u64 {
        if self.lowest.len() == 1 { self.copies * self.copies_below } else { 1 }
    }

    /// Whether the bytes end up on disks that surely rotate, and on nothing else.
    pub(crate) fn surely_rotates(&self) -> bool {
        !self.lowest.is_empty() && self.lowest.iter().all(BlockDevice::surely_rotates)
    }

    /// What the lowest devices are called wherever they are plugged in. Empty where any of them has
    /// no such name.
    pub(crate) fn lasting_names(&self) -> Vec<String> {
        let names: Option<Vec<String>> = self.lowest.iter().map(BlockDevice::lasting_name).collect();
        let mut names = names.unwrap_or_default();
        // Devices are in the order of names that change from one start to the next.
        names.sort();
        names
    }

    /// Every layer, from the file down: `loop0 (direct I/O) on vda`. `None` where there is no
    /// device.
    pub(crate) fn device_name(&self) -> Option<&str> {
        (!self.top.is_empty()).then_some(&self.name)
    }

    /// The size of the devices or partitions that the file system was made on.
    pub(crate) fn len(&self) -> Option<u64> {
        let lens: Option<Vec<u64>> = self.top.iter().map(BlockDevice::len).collect();
        lens.filter(|lens| !lens.is_empty()).map(|lens| lens.iter().sum())
    }

    /// What the lowest devices say of themselves, each answer once.
    pub(crate) fn facts(&self, name: &str) -> Vec<String> {
        let mut facts = Vec::new();
        for fact in self.lowest.iter().filter_map(|device| device.fact(name)) {
            if !facts.contains(&fact) {
                facts.push(fact);
            }
        }
        facts
    }

    /// The most bytes a second that fit through the links of the lowest devices, all of them
    /// together.
    pub(crate) fn link_limit_bytes_per_s(&self) -> Option<f64> {
        let links = self.lowest.iter().map(|device| Some(device.link()?.limit_bytes_per_s));
        let limits: Option<Vec<f64>> = links.collect();
        limits.filter(|limits| !limits.is_empty()).map(|limits| limits.iter().sum())
    }

    /// No device that could be asked.
    fn unknown(name: impl Into<String>, doubt: impl Into<String>) -> Self {
        let (top, lowest, on_the_way) = (Vec::new(), Vec::new(), Vec::new());
        let (name, doubt) = (name.into(), Some(doubt.into()));
        Self {
            name,
            top,
            lowest,
            on_the_way,
            copies: 1,
            copies_below: 1,
            cached: None,
            doubt,
            is_copy_on_write: false,
        }
    }

    /// One device and nothing below.
    fn plain(device: BlockDevice) -> Self {
        let name = device.name().to_owned();
        let one = vec![device];
        let (top, lowest, on_the_way) = (one.clone(), one.clone(), one);
        Self { top, lowest, on_the_way, doubt: None, ..Self::unknown(name, "") }
    }

    /// A device that is known and proves nothing.
    fn doubtful(device: BlockDevice, name: String, doubt: String) -> Self {
        Self { name, lowest: Vec::new(), doubt: Some(doubt), ..Self::plain(device) }
    }

    /// Several devices that share the bytes of one thing. The devices below them count once, even
    /// if they are shared.
    fn side_by_side(parts: Vec<Self>) -> Self {
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        let mut all = Self { name: names.join(", "), ..Self::unknown("", "") };
        all.doubt = None;
        let copies = parts.first().map_or(1, |part| part.copies_below);
        if parts.iter().any(|part| part.copies_below != copies) {
            all.doubt = Some(format!("{} do not write the same number of copies", all.name));
        }
        all.copies_below = copies;
        for part in parts {
            all.top.extend(part.top);
            all.lowest.extend(part.lowest);
            all.on_the_way.extend(part.on_the_way);
            all.cached = all.cached.or(part.cached);
            all.doubt = part.doubt.or(all.doubt);
        }
        for devices in [&mut all.top, &mut all.lowest, &mut all.on_the_way] {
            devices.sort();
            devices.dedup();
        }
        all
    }

    /// The doubt from below a layer.
    fn doubt_below(&self, layer: &str) -> Option<String> {
        self.doubt.as_ref().map(|doubt| format!("below {layer}: {doubt}"))
    }
}

fn too_many() -> String {
    format!("more than {LAYERS_MAX} file systems and devices lie one on another")
}

/// Where the system reports devices and mounts.
#[derive(Debug)]
pub(crate) struct System {
    /// `/sys`, but for tests.
    sys: PathBuf,
    /// The text of `/proc/self/mountinfo`.
    mounts: String,
    /// Returns the number of the mount that a path lies on; replaceable in tests.
    mount_id_of: fn(&Path) -> Option<u64>,
    /// Returns the file of a loop device; replaceable in tests.
    numbers_of_loop_file: fn(&str, &str) -> io::Result<FileNumbers>,
}

impl System {
    /// This one.
    pub(crate) fn here() -> Self {
        Self {
            sys: PathBuf::from("/sys"),
            mounts: mountinfo(),
            mount_id_of: mount::id_of,
            numbers_of_loop_file: loop_device::numbers_of_file,
        }
    }

    /// What lies below a file or directory, with the number of its device.
    pub(crate) fn below(&self, path: &Path, device: u64) -> Below {
        self.below_file(path, device, LAYERS_MAX)
    }

    /// The mount that a path lies on.
    pub(crate) fn mount_of(&self, path: &Path) -> Option<Mount> {
        Mount::among(&self.mounts, (self.mount_id_of)(path), path)
    }

    fn below_file(&self, path: &Path, device: u64, layers: u32) -> Below {
        if layers == 0 {
            return Below::unknown("more layers", too_many());
        }
        let mount = self.mount_of(path);
        let is_copy_on_write =
            mount.as_ref().is_some_and(|mount| COPY_ON_WRITE.contains(&mount.kind.as_str()));
        // Where the number of the file is that of a device, the mount says nothing about devices.
        let below = match (BlockDevice::of_number(self, device), mount) {
            (Some(device), _) => self.below_block(device, layers),
            (None, Some(mount)) => self.below_mount(&mount, path, layers),
            (None, None) => {
                Below::unknown("an unknown file system", "what the file lies on cannot be seen from here")
            }
        };
        Below { is_copy_on_write: below.is_copy_on_write || is_copy_on_write, ..below }
    }

    fn below_mount(&self, mount: &Mount, path: &Path, layers: u32) -> Below {
        let kind = mount.kind.as_str();
        match kind {
            "overlay" => overlay::below(self, mount, path, layers),
            "btrfs" => btrfs::below(self, mount, layers),
            _ if memory::is_file_system(kind) => {
                Below::unknown(kind, format!("{kind} keeps files in memory: this is not a device"))
            }
            // Its source may be any text: with FUSE the caller of `mount` chooses it.
            _ => Below::unknown(kind, format!("{kind} lies on no device whose counters could be read")),
        }
    }

    fn below_block(&self, device: BlockDevice, layers: u32) -> Below {
        let name = device.name().to_owned();
        if layers == 0 {
            return Below::doubtful(device, name, too_many());
        }
        if memory::is_device(&device) {
            let doubt = format!("{name} keeps its blocks in memory: this is not a device");
            return Below::doubtful(device, name, doubt);
        }
        if let Some(backing) = device.fact("loop/backing_file") {
            return loop_device::below(self, device, &backing, layers);
        }
        match device.parts() {
            parts if parts.is_empty() => Below::plain(device),
            parts => self.below_stack(device, parts, layers),
        }
    }

    /// A device made of others: its own counters show what was requested from all of them, and
    /// count each byte once.
    fn below_stack(&self, device: BlockDevice, parts: Vec<BlockDevice>, layers: u32) -> Below {
        let parts = parts.into_iter().map(|part| self.below_block(part, layers - 1)).collect();
        let below = Below::side_by_side(parts);
        let top = Below::plain(device);
        let cached = below.cached.as_ref().map(|cached| {
            format!(
                "below {}: {cached} serves from the page cache, and its counters do not show it",
                top.name
            )
        });
        let mut on_the_way = top.on_the_way;
        on_the_way.extend(below.on_the_way.iter().cloned());
        Below {
            name: format!("{} on {}", top.name, below.name),
            doubt: below.doubt_below(&top.name).or(cached),
            on_the_way,
            ..top
        }
    }
}
