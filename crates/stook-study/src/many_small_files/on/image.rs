//! [`Image`]: a file system in a file, on a loop device. Nothing of it stays, whatever happens.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use super::kinds::{Driver, FileSystem, KINDS, program};
use crate::sample;

/// How often it is tried to unmount what something else, like a search for new devices, still uses.
const TRIES: u32 = 50;
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

/// A file system in a file below a directory, on a loop device; mounted or not.
#[derive(Debug)]
pub(super) struct Image {
    place: Place,
    driver: Driver,
    /// The loop device: `/dev/loop0`.
    node: Option<String>,
    is_mounted: bool,
}

/// Where the parts of an image are.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    file: PathBuf,
    point: PathBuf,
}

impl Place {
    fn of(work: &Path, name: &str) -> Self {
        let part = |kind: &str| work.join(format!("on-{name}.{kind}"));
        Self { file: part("image"), point: part("mounted") }
    }
}

/// Whether a name in a work directory is one of an image.
pub(crate) fn is_part(name: &str) -> bool {
    KINDS.iter().any(|kind| {
        let part = |extension: &str| format!("on-{}.{extension}", kind.name);
        name == part("image") || name == part("mounted")
    })
}

impl Image {
    /// Makes an empty file system of this kind, which is not mounted yet.
    ///
    /// # Errors
    /// Returns an error if the file, the device or the file system cannot be made.
    pub(super) fn make(
        work: &Path,
        kind: FileSystem,
        (maker, driver): (&Path, Driver),
        len_bytes: u64,
    ) -> anyhow::Result<Self> {
        let place = Place::of(work, kind.name);
        fs::create_dir(&place.point).with_context(|| format!("cannot make {}", place.point.display()))?;
        // From here on what is made is removed.
        let mut image = Self { place, driver, node: None, is_mounted: false };
        let file = &image.place.file;
        let made = File::create_new(file).and_then(|file| file.set_len(len_bytes));
        made.with_context(|| format!("cannot make {}", file.display()))?;
        // Past the page cache, so that what the device reads is read from what the file lies on.
        let mut attach = command("losetup");
        let node = output_of(attach.args(["--find", "--show", "--direct-io=on"]).arg(file))?;
        image.node = Some(node.clone());
        output_of(command(maker).args(kind.options).arg(node))?;
        Ok(image)
    }

    /// Where it is mounted.
    pub(super) fn root(&self) -> &Path {
        &self.place.point
    }

    /// The file that it is in.
    pub(super) fn file(&self) -> &Path {
        &self.place.file
    }

    /// Mounts it.
    ///
    /// # Errors
    /// Returns an error if the kernel or the driver does not.
    pub(super) fn mount(&mut self) -> anyhow::Result<()> {
        let node = self.node.as_deref().context("no device is left")?;
        let mut mount = match &self.driver {
            Driver::Kernel(kind) => {
                let mut mount = command("mount");
                mount.args(["-t", kind]);
                mount
            }
            Driver::Fuse(program) => command(program),
        };
        output_of(mount.arg(node).arg(&self.place.point))?;
        self.is_mounted = true;
        Ok(())
    }

    /// Unmounts it, which puts all that was written onto the device.
    ///
    /// # Errors
    /// Returns an error if it stays in use.
    pub(super) fn unmount(&mut self) -> anyhow::Result<()> {
        if self.is_mounted {
            unmount(&self.place.point)?;
            self.is_mounted = false;
        }
        Ok(())
    }

    /// Removes it.
    ///
    /// # Errors
    /// Returns an error if a part stays.
    pub(super) fn remove(mut self) -> anyhow::Result<()> {
        self.remove_all()
    }

    fn remove_all(&mut self) -> anyhow::Result<()> {
        self.unmount()?;
        if let Some(node) = &self.node {
            output_of(command("losetup").arg("--detach").arg(node))?;
            self.node = None;
        }
        remove_files(&self.place)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // Only where something failed before, which is reported; what stays then is removed by the
        // next run and by --clean.
        let _ = self.remove_all();
    }
}

/// Removes what a run that was killed left of its images.
///
/// # Errors
/// Returns an error if something cannot be removed, or is not unmounted.
pub(crate) fn remove_left(work: &Path) -> anyhow::Result<()> {
    for place in KINDS.iter().map(|kind| Place::of(work, kind.name)) {
        if place.point.exists() {
            while is_mounted(&place.point)? {
                unmount(&place.point)?;
            }
        }
        if place.file.exists() {
            let mut list = command("losetup");
            list.args(["--noheadings", "--output", "NAME", "--associated"]).arg(&place.file);
            for node in output_of(&mut list)?.lines() {
                output_of(command("losetup").arg("--detach").arg(node.trim()))?;
            }
        }
        remove_files(&place)?;
    }
    Ok(())
}

/// The mount point is removed as an empty directory: what is mounted is never removed with it.
fn remove_files(place: &Place) -> anyhow::Result<()> {
    match fs::remove_dir(&place.point) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        other => other.with_context(|| format!("cannot remove {}", place.point.display()))?,
    }
    sample::remove(&place.file)
}

/// Whether something is mounted at a directory: it is on another device than what it lies in.
fn is_mounted(point: &Path) -> anyhow::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let device = |path: &Path| -> anyhow::Result<u64> {
        Ok(path.metadata().with_context(|| format!("cannot look at {}", path.display()))?.dev())
    };
    let above = point.parent().context("a mount point lies in a directory")?;
    Ok(device(point)? != device(above)?)
}

fn unmount(point: &Path) -> anyhow::Result<()> {
    let mut tries = 0;
    loop {
        tries += 1;
        match output_of(command("umount").arg(point)) {
            Ok(_) => return Ok(()),
            Err(error) if tries == TRIES => return Err(error),
            Err(_) => std::thread::sleep(BETWEEN_TRIES),
        }
    }
}

/// A program that Ctrl-C on this one does not end: what was begun is completed, and then undone.
fn command(name: impl AsRef<Path>) -> Command {
    let name = name.as_ref();
    let mut command = Command::new(program(name).unwrap_or_else(|| name.to_path_buf()));
    command.process_group(0).stdin(Stdio::null());
    command
}

/// What a program prints, without the line end.
fn output_of(command: &mut Command) -> anyhow::Result<String> {
    let name =
        Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let output = match command.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!("{name} is not installed"),
        other => other.with_context(|| format!("cannot start {name}"))?,
    };
    let reported = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} failed: {}", reported.trim().replace('\n', "; "));
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_images_are_those_of_known_file_systems() {
        assert!(is_part("on-ext4.image") && is_part("on-ntfs.mounted"));
        assert!(!is_part("on-zfs.image") && !is_part("on-ext4.tree") && !is_part("ext4.image"));
    }

    /// The file system is the last that is made: where it fails, what was made before is removed.
    #[test]
    fn what_cannot_be_made_leaves_nothing() {
        let work = tempfile::tempdir().unwrap();
        let driver = Driver::Kernel("ext4");
        // A file of this length cannot be.
        let made = Image::make(work.path(), KINDS[0], (Path::new("true"), driver), u64::MAX);
        assert!(made.unwrap_err().to_string().contains("on-ext4.image"));
        assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0);
        remove_left(work.path()).unwrap();
    }

    #[test]
    fn what_a_program_says_is_in_the_error() {
        let error = output_of(command("sh").args(["-c", "echo no >&2; echo way >&2; exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "sh failed: no; way");
        let error = output_of(&mut command("of-nowhere")).unwrap_err();
        assert_eq!(error.to_string(), "of-nowhere is not installed");
        assert_eq!(output_of(command("echo").arg("a b")).unwrap(), "a b");
    }
}
