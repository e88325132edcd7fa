//! What a test mounts and attaches: it goes when the value goes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A file system that is mounted in a directory of its own.
pub(crate) struct Mounted {
    point: PathBuf,
    _folder: TempDir,
}

impl Mounted {
    /// Mounts what these arguments of `mount` name.
    pub(crate) fn new(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let point = folder.path().join("mounted");
        fs::create_dir(&point).unwrap();
        run(Command::new("mount").args(args).arg(&point));
        Self { point, _folder: folder }
    }

    /// A file system in memory.
    pub(crate) fn in_memory(len_bytes: u64) -> Self {
        Self::new(&["-t", "tmpfs", "-o", &format!("size={len_bytes}"), "tmpfs"])
    }

    pub(crate) fn path(&self) -> &Path {
        &self.point
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run_or_warn(Command::new("umount").arg(&self.point));
    }
}

/// A loop device on a sparse file.
pub(crate) struct Attached {
    node: String,
    // Last, because it holds the file.
    folder: TempDir,
}

impl Attached {
    /// Attaches it with sectors of `sector_bytes`. With direct I/O it counts what the device below
    /// its file does; without, also what the page cache of that file does.
    pub(crate) fn new(len_bytes: u64, sector_bytes: u32, is_direct: bool) -> Self {
        Self::on(tempfile::tempdir().unwrap(), len_bytes, sector_bytes, is_direct)
    }

    /// The same with the file in this directory.
    pub(crate) fn on(folder: TempDir, len_bytes: u64, sector_bytes: u32, is_direct: bool) -> Self {
        let image = folder.path().join("image");
        File::create(&image).unwrap().set_len(len_bytes).unwrap();
        let sector_size = format!("--sector-size={sector_bytes}");
        let direct = if is_direct { "--direct-io=on" } else { "--direct-io=off" };
        let mut attach = Command::new("losetup");
        let node = run(attach.args(["--find", "--show", &sector_size, direct]).arg(&image));
        let attached = Self { node, folder };
        // Where the file system of the file cannot do it, the kernel says nothing and uses the page
        // cache.
        let dio = fs::read_to_string(attached.sys().join("loop/dio")).unwrap();
        assert_eq!(dio.trim() == "1", is_direct, "{}", image.display());
        attached
    }

    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// The file that it is made of.
    pub(crate) fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    /// `loop0`.
    pub(crate) fn name(&self) -> &str {
        self.node.trim_start_matches("/dev/")
    }

    /// The directory of the device in `/sys`.
    pub(crate) fn sys(&self) -> PathBuf {
        Path::new("/sys/block").join(self.name())
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        run_or_warn(Command::new("losetup").args(["-d", &self.node]));
    }
}

/// What a command printed. It must succeed.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Runs a clean-up command: its failure must not hide an earlier failure of the test.
fn run_or_warn(command: &mut Command) {
    match command.output() {
        Ok(output) if output.status.success() => {}
        outcome => eprintln!("{command:?} did not work: {outcome:?}"),
    }
}
