//! A file system of its own, on a block device made of a file.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Attached, Mounted, run};

/// A kind of file system, with the command that makes an empty one.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    program: &'static str,
    args: &'static [&'static str],
}

/// Complete when it is made: otherwise the kernel writes to it in the background, which shows in
/// the counters of the device.
pub const EXT4: Kind = Kind {
    program: "mkfs.ext4",
    args: &["-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
};
/// XFS.
pub const XFS: Kind = Kind { program: "mkfs.xfs", args: &["-q"] };
/// Btrfs.
pub const BTRFS: Kind = Kind { program: "mkfs.btrfs", args: &["-q"] };

/// A file system on a loop device; both go when it goes.
#[derive(Debug)]
pub struct LoopDevice {
    // First, because nothing that is mounted can be detached.
    mounted: Mounted,
    device: Attached,
}

impl LoopDevice {
    /// Mounts an empty ext4 of `len_bytes` on a device with sectors of `sector_bytes`.
    ///
    /// # Errors
    /// As [`run`] and [`Attached::new`]; the same holds for all functions below.
    pub fn mount(len_bytes: u64, sector_bytes: u32) -> io::Result<Self> {
        Self::mount_as(EXT4, len_bytes, sector_bytes)
    }

    /// The same with another file system.
    ///
    /// # Errors
    /// As [`mount`](Self::mount).
    pub fn mount_as(kind: Kind, len_bytes: u64, sector_bytes: u32) -> io::Result<Self> {
        Self::mount_with(kind, len_bytes, sector_bytes, "defaults")
    }

    /// The same with options of `mount`.
    ///
    /// # Errors
    /// As [`mount`](Self::mount).
    pub fn mount_with(kind: Kind, len_bytes: u64, sector_bytes: u32, options: &str) -> io::Result<Self> {
        Self::mount_on(Attached::new(len_bytes, sector_bytes, true)?, kind, options)
    }

    /// Mounts an empty file system on a device.
    ///
    /// # Errors
    /// As [`run`].
    pub fn mount_on(device: Attached, kind: Kind, options: &str) -> io::Result<Self> {
        run(Command::new(kind.program).args(kind.args).arg(device.node()))?;
        let mounted = Mounted::new(&["-o", options, device.node()])?;
        Ok(Self { mounted, device })
    }

    /// The file that the device is made of.
    pub fn image(&self) -> PathBuf {
        self.device.image()
    }

    /// The root of the file system.
    pub fn path(&self) -> &Path {
        self.mounted.path()
    }

    /// The name of the device: `loop0`.
    pub fn name(&self) -> &str {
        self.device.name()
    }

    /// The directory of the device in `/sys`.
    pub fn sys(&self) -> PathBuf {
        self.device.sys()
    }

    /// Major and minor number of the device, as control groups take them: `7:0`.
    ///
    /// # Errors
    /// I/O errors.
    pub fn number(&self) -> io::Result<String> {
        Ok(std::fs::read_to_string(self.sys().join("dev"))?.trim().to_owned())
    }

    /// What the device has read since it was attached, in bytes.
    ///
    /// # Errors
    /// I/O errors, and that the kernel counts in another way.
    pub fn read_bytes(&self) -> io::Result<u64> {
        let text = std::fs::read_to_string(self.sys().join("stat"))?;
        bytes_in(&text).ok_or_else(|| io::Error::other(format!("not as expected: {text:?}")))
    }

    /// Unmounts it and mounts it again, as after a power cut: its journal is read.
    ///
    /// # Errors
    /// As [`run`].
    pub fn remount(&self) -> io::Result<()> {
        run(Command::new("umount").arg(self.path()))?;
        run(Command::new("mount").arg(self.device.node()).arg(self.path())).map(drop)
    }

    /// Remounts it read-only.
    ///
    /// # Errors
    /// As [`run`].
    pub fn make_read_only(&self) -> io::Result<()> {
        run(Command::new("mount").args(["-o", "remount,ro"]).arg(self.path())).map(drop)
    }
}

/// Of reads, reads that were merged, sectors that were read, … (Documentation/block/stat.rst). A
/// sector has 512 bytes there, whatever it has on the device.
fn bytes_in(stat: &str) -> Option<u64> {
    stat.split_ascii_whitespace().nth(2)?.parse::<u64>().ok()?.checked_mul(512)
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
}
