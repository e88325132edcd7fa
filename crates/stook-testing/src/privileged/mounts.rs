//! What is mounted, and loop devices.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{run, run_or_warn};

/// A file system that is mounted in a directory of its own.
#[derive(Debug)]
pub struct Mounted {
    point: PathBuf,
    _folder: TempDir,
}

impl Mounted {
    /// Mounts what these arguments of `mount` name.
    ///
    /// # Errors
    /// As [`run`].
    pub fn new(args: &[&str]) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let point = folder.path().join("mounted");
        fs::create_dir(&point)?;
        run(Command::new("mount").args(args).arg(&point))?;
        Ok(Self { point, _folder: folder })
    }

    /// A file system in memory.
    ///
    /// # Errors
    /// As [`run`].
    pub fn in_memory(len_bytes: u64) -> io::Result<Self> {
        Self::new(&["-t", "tmpfs", "-o", &format!("size={len_bytes}"), "tmpfs"])
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.point
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run_or_warn(Command::new("umount").arg(&self.point));
    }
}

/// A loop device on a sparse file.
#[derive(Debug)]
pub struct Attached {
    node: String,
    // Last, because it holds the file.
    folder: TempDir,
}

impl Attached {
    /// Attaches it with sectors of `sector_bytes`. With direct I/O it counts what the device below
    /// its file does; without, also what the page cache of that file does.
    ///
    /// # Errors
    /// As [`run`]; that the file system of the file has no direct I/O.
    pub fn new(len_bytes: u64, sector_bytes: u32, is_direct: bool) -> io::Result<Self> {
        Self::on(tempfile::tempdir()?, len_bytes, sector_bytes, is_direct)
    }

    /// The same with the file in a directory of its own below this one.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn below(directory: &Path, len_bytes: u64, sector_bytes: u32, is_direct: bool) -> io::Result<Self> {
        Self::on(tempfile::tempdir_in(directory)?, len_bytes, sector_bytes, is_direct)
    }

    /// The same with the file in this directory.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn on(folder: TempDir, len_bytes: u64, sector_bytes: u32, is_direct: bool) -> io::Result<Self> {
        let image = folder.path().join("image");
        File::create(&image)?.set_len(len_bytes)?;
        let sector_size = format!("--sector-size={sector_bytes}");
        let direct = if is_direct { "--direct-io=on" } else { "--direct-io=off" };
        let mut attach = Command::new("losetup");
        let node = run(attach.args(["--find", "--show", &sector_size, direct]).arg(&image))?;
        let attached = Self { node, folder };
        // Where the file system of the file cannot do it, the kernel says nothing and uses the page
        // cache.
        let dio = fs::read_to_string(attached.sys().join("loop/dio"))?;
        match (dio.trim() == "1") == is_direct {
            true => Ok(attached),
            false => Err(io::Error::other(format!("{}: direct I/O is not {is_direct}", image.display()))),
        }
    }

    /// Its path: `/dev/loop0`.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The file that it is made of.
    pub fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// Its name: `loop0`.
    pub fn name(&self) -> &str {
        Path::new(&self.node).file_name().and_then(OsStr::to_str).unwrap_or_default()
    }

    /// Its directory in `/sys`.
    pub fn sys(&self) -> PathBuf {
        Path::new("/sys/block").join(self.name())
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        run_or_warn(Command::new("losetup").args(["-d", &self.node]));
    }
}
