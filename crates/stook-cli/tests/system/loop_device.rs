//! A file system of its own, on a block device made of a file.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::mounts::{Attached, Mounted, run};

/// A kind of file system, with the command that makes an empty one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind(&'static [&'static str]);

/// Complete when it is made: otherwise the kernel writes to it in the background, which shows in
/// the counters of the device.
pub(crate) const EXT4: Kind =
    Kind(&["mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"]);
pub(crate) const XFS: Kind = Kind(&["mkfs.xfs", "-q"]);
pub(crate) const BTRFS: Kind = Kind(&["mkfs.btrfs", "-q"]);

/// A file system on a loop device; both go when it goes.
pub(crate) struct LoopDevice {
    // First, because nothing that is mounted can be detached.
    mounted: Mounted,
    device: Attached,
}

impl LoopDevice {
    /// Mounts an empty ext4 of `len_bytes` on a device with sectors of `sector_bytes`.
    pub(crate) fn mount(len_bytes: u64, sector_bytes: u32) -> Self {
        Self::mount_as(EXT4, len_bytes, sector_bytes)
    }

    /// The same with another file system.
    pub(crate) fn mount_as(kind: Kind, len_bytes: u64, sector_bytes: u32) -> Self {
        Self::mount_with(kind, len_bytes, sector_bytes, "defaults")
    }

    /// The same with options of `mount`.
    pub(crate) fn mount_with(kind: Kind, len_bytes: u64, sector_bytes: u32, options: &str) -> Self {
        Self::mount_on(Attached::new(len_bytes, sector_bytes, true), kind, options)
    }

    /// Mounts an empty file system on a device.
    pub(crate) fn mount_on(device: Attached, Kind(make): Kind, options: &str) -> Self {
        run(Command::new(make[0]).args(&make[1..]).arg(device.node()));
        let mounted = Mounted::new(&["-o", options, device.node()]);
        Self { mounted, device }
    }

    /// The file that the device is made of.
    pub(crate) fn image(&self) -> PathBuf {
        self.device.image()
    }

    /// The root of the file system.
    pub(crate) fn path(&self) -> &Path {
        self.mounted.path()
    }

    /// The name of the device: `loop0`.
    pub(crate) fn name(&self) -> &str {
        self.device.name()
    }

    /// The directory of the device in `/sys`.
    pub(crate) fn sys(&self) -> PathBuf {
        self.device.sys()
    }

    /// Unmounts it and mounts it again, as after a power cut: its journal is read.
    pub(crate) fn remount(&self) {
        run(Command::new("umount").arg(self.path()));
        run(Command::new("mount").arg(self.device.node()).arg(self.path()));
    }

    /// Remounts it read-only.
    pub(crate) fn make_read_only(&self) {
        run(Command::new("mount").args(["-o", "remount,ro"]).arg(self.path()));
    }
}
