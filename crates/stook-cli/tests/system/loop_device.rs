//! A file system of its own, on a block device made of a file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A kind of file system, with the command that makes an empty one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind(&'static [&'static str]);

/// Complete when it is made: otherwise the kernel writes to it in the background, and the counters of the device tell.
pub(crate) const EXT4: Kind =
    Kind(&["mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"]);
pub(crate) const XFS: Kind = Kind(&["mkfs.xfs", "-q"]);
pub(crate) const BTRFS: Kind = Kind(&["mkfs.btrfs", "-q"]);

/// A file system on a loop device; both go when it goes.
pub(crate) struct LoopDevice {
    device: String,
    mountpoint: PathBuf,
    // Last, because it holds the file and the mount point.
    _folder: TempDir,
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
    pub(crate) fn mount_with(Kind(make): Kind, len_bytes: u64, sector_bytes: u32, options: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        File::create(&image).unwrap().set_len(len_bytes).unwrap();
        let sector_size = format!("--sector-size={sector_bytes}");
        let device = run(Command::new("losetup").args(["--find", "--show", &sector_size]).arg(&image));
        // From here on the value exists, so that a step that fails still detaches the device.
        let mounted = Self { device, mountpoint: folder.path().join("mounted"), _folder: folder };
        std::fs::create_dir(&mounted.mountpoint).unwrap();
        run(Command::new(make[0]).args(&make[1..]).arg(&mounted.device));
        run(Command::new("mount").args(["-o", options]).arg(&mounted.device).arg(&mounted.mountpoint));
        mounted
    }

    /// The root of the file system.
    pub(crate) fn path(&self) -> &Path {
        &self.mountpoint
    }

    /// The directory of the device in `/sys`.
    pub(crate) fn sys(&self) -> PathBuf {
        Path::new("/sys/block").join(self.device.trim_start_matches("/dev/"))
    }

    /// Mounts it anew so that nothing may be written.
    pub(crate) fn make_read_only(&self) {
        run(Command::new("mount").args(["-o", "remount,ro"]).arg(&self.mountpoint));
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // Either may have nothing to do, when a step of `mount` failed.
        for command in
            [Command::new("umount").arg(&self.mountpoint), Command::new("losetup").args(["-d", &self.device])]
        {
            match command.output() {
                Ok(output) if output.status.success() => {}
                outcome => eprintln!("{command:?} did not work: {outcome:?}"),
            }
        }
    }
}

/// What a command printed. It must succeed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}
