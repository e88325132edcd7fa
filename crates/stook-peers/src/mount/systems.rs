//! What is mounted: Stook, and the file systems and programs that it is compared with.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};

use super::Place;

/// Something that shows the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    /// The loose files, on the file system that everything is on.
    Loose,
    /// A pack.
    Stook,
    Erofs,
    Squashfs,
    Dwarfs,
    /// A tar.
    Ratarmount,
    /// A zip.
    FuseZip,
    /// A tar.
    Archivemount,
}

const ALL: [System; 8] = [
    System::Loose,
    System::Stook,
    System::Erofs,
    System::Squashfs,
    System::Dwarfs,
    System::Ratarmount,
    System::FuseZip,
    System::Archivemount,
];

/// A system that is mounted.
pub(super) struct Mounted<'a> {
    system: System,
    place: &'a Place,
    path: PathBuf,
}

impl System {
    /// Those that are here. What is not is said.
    pub(super) fn all(without_peers: bool) -> Vec<Self> {
        let is_here = |system: &Self| match system.program() {
            _ if matches!(system, Self::Loose | Self::Stook) => true,
            _ if without_peers => false,
            Some((program, argument)) => {
                // Some end with a failure where they are asked for their version.
                let asked = Command::new(program).arg(argument).stdin(Stdio::null()).output();
                let is_here = asked.is_ok();
                if !is_here {
                    eprintln!("{program} is not installed: {} is left out", system.name());
                }
                is_here
            }
            None => true,
        };
        ALL.into_iter().filter(is_here).collect()
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Loose => "the loose files",
            Self::Stook => "`stook mount` of a pack",
            Self::Erofs => "EROFS",
            Self::Squashfs => "squashfs",
            Self::Dwarfs => "DwarFS",
            Self::Ratarmount => "ratarmount",
            Self::FuseZip => "fuse-zip",
            Self::Archivemount => "archivemount",
        }
    }

    /// What has to be installed, and how it says its version.
    pub(super) fn program(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::Loose | Self::Stook => return None,
            Self::Erofs => ("mkfs.erofs", "--version"),
            Self::Squashfs => ("mksquashfs", "-version"),
            Self::Dwarfs => ("mkdwarfs", "--help"),
            Self::Ratarmount => ("ratarmount", "--version"),
            Self::FuseZip => ("fuse-zip", "--version"),
            Self::Archivemount => ("archivemount", "--version"),
        })
    }

    /// The file that it is mounted from.
    pub(super) fn file(self, place: &Place) -> PathBuf {
        let kind = match self {
            Self::Loose => return place.work.join("no such file"),
            Self::Stook => "stook",
            Self::Erofs => "erofs",
            Self::Squashfs => "squashfs",
            Self::Dwarfs => "dwarfs",
            Self::Ratarmount | Self::Archivemount => "tar",
            Self::FuseZip => "zip",
        };
        place.work.join(format!("{}.{kind}", place.name))
    }

    /// Makes it, uncompressed: what is compared is not compression.
    pub(super) fn make(self, place: &Place) -> anyhow::Result<()> {
        let (file, tree) = (self.file(place), &place.tree);
        if self == Self::Loose || file.exists() {
            return Ok(());
        }
        let mut command = match self {
            Self::Loose => return Ok(()),
            Self::Stook => {
                let mut command = Command::new(&place.stook);
                command.args(["pack", "--quiet"]).arg(tree).arg(&file);
                command
            }
            Self::Erofs => {
                let mut command = Command::new("mkfs.erofs");
                command.arg("--quiet").arg(&file).arg(tree);
                command
            }
            Self::Squashfs => {
                let mut command = Command::new("mksquashfs");
                command.arg(tree).arg(&file).args(["-noI", "-noD", "-noF", "-noX", "-no-progress", "-quiet"]);
                command
            }
            Self::Dwarfs => {
                let mut command = Command::new("mkdwarfs");
                command.arg("-i").arg(tree).arg("-o").arg(&file).args(["-l", "0", "--no-progress"]);
                command
            }
            Self::Ratarmount | Self::Archivemount => {
                let mut command = Command::new("tar");
                command.arg("-cf").arg(&file).arg("-C").arg(tree).arg(".");
                command
            }
            Self::FuseZip => {
                let mut command = Command::new("zip");
                command.args(["-qr0"]).arg(&file).arg(".").current_dir(tree);
                command
            }
        };
        ended(&mut command)
    }

    /// Mounts it; nothing of it is in memory that was not before.
    pub(super) fn mount(self, place: &Place) -> anyhow::Result<Mounted<'_>> {
        match self {
            Self::Loose => Ok(Mounted { system: self, place, path: place.tree.clone() }),
            _ => self.mount_file(&self.file(place), place),
        }
    }

    /// Mounts any file that it can.
    pub(super) fn mount_file<'a>(self, file: &Path, place: &'a Place) -> anyhow::Result<Mounted<'a>> {
        let mountpoint = place.mountpoint();
        std::fs::create_dir_all(&mountpoint)?;
        let mut command = match self {
            Self::Stook => {
                let mut command = Command::new(&place.stook);
                command.args(["mount", "--quiet"]);
                command
            }
            Self::Erofs | Self::Squashfs => {
                let mut command = Command::new("mount");
                command.args(["-o", "ro,loop", "-t", if self == Self::Erofs { "erofs" } else { "squashfs" }]);
                command
            }
            Self::Dwarfs => Command::new("dwarfs"),
            Self::Ratarmount => Command::new("ratarmount"),
            Self::FuseZip => {
                let mut command = Command::new("fuse-zip");
                command.arg("-r");
                command
            }
            Self::Archivemount => {
                let mut command = Command::new("archivemount");
                command.args(["-o", "readonly"]);
                command
            }
            Self::Loose => bail!("loose files are not mounted"),
        };
        ended(command.arg(file).arg(&mountpoint))?;
        // Some return before they can be used.
        let is_there = || std::fs::read_dir(&mountpoint).is_ok_and(|mut entries| entries.next().is_some());
        for _ in 0..600 {
            if is_there() {
                return Ok(Mounted { system: self, place, path: mountpoint });
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        bail!("{} shows nothing", self.name())
    }
}

impl Mounted<'_> {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn unmount(self) -> anyhow::Result<()> {
        match self.system {
            System::Loose => Ok(()),
            System::Stook => {
                let mut command = Command::new(&self.place.stook);
                ended(command.args(["umount", "--quiet"]).arg(&self.path))
            }
            _ => ended(Command::new("umount").arg(&self.path)),
        }
    }
}

/// Runs a program that succeeds.
pub(super) fn ended(command: &mut Command) -> anyhow::Result<()> {
    let name = format!("{:?}", command.get_program());
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {name}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name} ended with {}: {said}", output.status);
    Ok(())
}
