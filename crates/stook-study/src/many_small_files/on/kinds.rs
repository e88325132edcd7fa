//! File systems that are made for a measurement: the programs that make them, and what mounts them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::OptionError;

/// What stands for those of the published table, and those that Linux has of its own.
const ALL: &str = "all";

/// A kind of file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileSystem {
    /// What `--on` calls it.
    pub(super) name: &'static str,
    /// Its type in the kernel.
    kernel: &'static str,
    /// A driver of FUSE that stands in for the kernel, and mounts a device where it is asked to.
    fuse: Option<&'static str>,
    /// The program that makes an empty one.
    pub(super) maker: &'static str,
    /// Its options.
    pub(super) options: &'static [&'static str],
    /// The least device that it can be made on, bytes.
    pub(super) least_bytes: u64,
    /// What a file takes is a multiple of this, bytes.
    pub(super) cluster_bytes: u64,
    /// Whether it is one of those that `all` stands for.
    is_common: bool,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// All kinds. Those of the published table have its clusters: FAT32 64 KiB, NTFS 4 KiB. ext4 has an
/// inode for every block, so that any sample fits, and is complete when it is made: otherwise the
/// kernel would complete it while it is measured.
pub(super) const KINDS: [FileSystem; 7] = [
    FileSystem {
        name: "ext4",
        kernel: "ext4",
        fuse: None,
        maker: "mkfs.ext4",
        options: &[
            "-q",
            "-F",
            "-b",
            "4096",
            "-i",
            "4096",
            "-m",
            "0",
            "-E",
            "lazy_itable_init=0,lazy_journal_init=0",
        ],
        least_bytes: 64 * MIB,
        cluster_bytes: 4 * KIB,
        is_common: true,
    },
    FileSystem {
        name: "xfs",
        kernel: "xfs",
        fuse: None,
        maker: "mkfs.xfs",
        options: &["-q", "-f"],
        least_bytes: 512 * MIB,
        cluster_bytes: 4 * KIB,
        is_common: true,
    },
    FileSystem {
        name: "btrfs",
        kernel: "btrfs",
        fuse: None,
        maker: "mkfs.btrfs",
        options: &["-q", "-f"],
        least_bytes: 512 * MIB,
        cluster_bytes: 4 * KIB,
        is_common: true,
    },
    FileSystem {
        name: "vfat",
        kernel: "vfat",
        fuse: None,
        maker: "mkfs.vfat",
        options: &["-F", "32", "-s", "128"],
        least_bytes: 64 * MIB,
        cluster_bytes: 64 * KIB,
        is_common: true,
    },
    FileSystem {
        name: "exfat",
        kernel: "exfat",
        fuse: Some("mount.exfat-fuse"),
        maker: "mkfs.exfat",
        options: &[],
        least_bytes: 64 * MIB,
        cluster_bytes: 32 * KIB,
        is_common: false,
    },
    FileSystem {
        name: "ntfs",
        kernel: "ntfs3",
        fuse: Some("ntfs-3g"),
        maker: "mkfs.ntfs",
        options: &["-q", "-F", "-Q", "-c", "4096"],
        least_bytes: 64 * MIB,
        cluster_bytes: 4 * KIB,
        is_common: true,
    },
    FileSystem {
        name: "ntfs3",
        kernel: "ntfs3",
        fuse: None,
        maker: "mkfs.ntfs",
        options: &["-q", "-F", "-Q", "-c", "4096"],
        least_bytes: 64 * MIB,
        cluster_bytes: 4 * KIB,
        is_common: false,
    },
];

/// What mounts a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Driver {
    /// The kernel, with this type.
    Kernel(&'static str),
    /// A program that mounts it through FUSE.
    Fuse(PathBuf),
}

impl Driver {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Kernel(kind) => format!("{kind} of the kernel"),
            Self::Fuse(program) => {
                let name = program.file_name().unwrap_or_default().to_string_lossy();
                format!("{name}, a driver of FUSE")
            }
        }
    }
}

/// The file systems of these names, each once, in the order of the names.
///
/// # Errors
/// Returns an error if there is none of a name.
pub(crate) fn named(names: &[String]) -> Result<Vec<FileSystem>, OptionError> {
    let mut all: Vec<FileSystem> = Vec::new();
    for name in names {
        let found: Vec<FileSystem> =
            KINDS.into_iter().filter(|kind| kind.name == name || name == ALL && kind.is_common).collect();
        if found.is_empty() {
            let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
            return Err(OptionError::new(format!(
                "--on: no file system “{name}” is known here; expected some of {}, or {ALL}",
                known.join(", ")
            )));
        }
        for kind in found {
            if !all.contains(&kind) {
                all.push(kind);
            }
        }
    }
    Ok(all)
}

impl FileSystem {
    /// What makes and what mounts it, or why it is not to be had.
    pub(super) fn found(&self) -> Result<(PathBuf, Driver), String> {
        let maker = program(self.maker).ok_or_else(|| format!("{} is not installed", self.maker))?;
        if is_in_kernel(self.kernel) {
            return Ok((maker, Driver::Kernel(self.kernel)));
        }
        let kernel = format!("this kernel has no {}", self.kernel);
        let Some(fuse) = self.fuse else { return Err(kernel) };
        match program(fuse) {
            Some(program) => Ok((maker, Driver::Fuse(program))),
            None => Err(format!("{kernel}, and {fuse} is not installed")),
        }
    }

    /// A device for the records in a tree of files and in one file, bytes.
    pub(super) fn device_bytes(&self, files: u64, record_bytes: u64) -> u64 {
        let clusters = |bytes: u64| bytes.div_ceil(self.cluster_bytes).saturating_mul(self.cluster_bytes);
        // One directory for ten files, and two more for ten of these.
        let directories = files.div_ceil(10).saturating_mul(6).div_ceil(5).saturating_add(8);
        let tree = files.saturating_mul(clusters(record_bytes.max(1)));
        let one_file = clusters(files.saturating_mul(record_bytes));
        let data = tree.saturating_add(one_file);
        let data = data.saturating_add(directories.saturating_mul(self.cluster_bytes));
        // Inodes, journals and what a file system keeps free.
        (data.saturating_add(data / 4).saturating_add(64 * MIB)).max(self.least_bytes)
    }
}

/// A program of this name where root looks for them.
pub(super) fn program(name: impl AsRef<Path>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let directories = std::env::split_paths(&path).filter(|path| path.is_absolute()).chain(usual);
    directories.map(|directory| directory.join(&name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Whether the kernel has a type of file system, loaded now where it is a module.
fn is_in_kernel(kind: &str) -> bool {
    let is_there = || {
        let text = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        has_kind(&text, kind)
    };
    if is_there() {
        return true;
    }
    let Some(modprobe) = program("modprobe") else { return false };
    let mut command = Command::new(modprobe);
    command.args([OsStr::new("-q"), OsStr::new(kind)]).stdin(Stdio::null());
    // What it prints says no more than what is there afterwards.
    command.output().is_ok_and(|output| output.status.success()) && is_there()
}

/// Whether a type stands in the list of the kernel, in which types without a device are marked.
fn has_kind(list: &str, kind: &str) -> bool {
    list.lines().filter_map(|line| line.strip_prefix('\t')).any(|name| name.trim() == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[&str]) -> Result<Vec<&'static str>, OptionError> {
        let words: Vec<String> = of.iter().map(|&name| name.to_owned()).collect();
        Ok(named(&words)?.iter().map(|kind| kind.name).collect())
    }

    #[test]
    fn names_stand_for_kinds_and_all_for_those_that_are_wanted() {
        assert_eq!(names(&["xfs", "ext4", "xfs"]).unwrap(), ["xfs", "ext4"]);
        assert_eq!(names(&["all"]).unwrap(), ["ext4", "xfs", "btrfs", "vfat", "ntfs"]);
        assert_eq!(names(&["exfat", "all"]).unwrap()[..2], ["exfat", "ext4"]);
        assert_eq!(names(&[]).unwrap(), [""; 0]);
        for wrong in ["", "nonsense", "EXT4", "-1", "0"] {
            let error = names(&["ext4", wrong]).unwrap_err().to_string();
            assert!(error.starts_with("--on:") && error.contains(&format!("“{wrong}”")), "{error}");
        }
    }

    #[test]
    fn types_of_the_kernel_that_take_a_device_are_found_in_its_list() {
        let list = "nodev\tsysfs\nnodev\tfuse\n\text4\n\tfuseblk\n";
        assert!(has_kind(list, "ext4") && has_kind(list, "fuseblk"));
        assert!(!has_kind(list, "sysfs") && !has_kind(list, "ext") && !has_kind(list, "vfat"));
    }

    #[test]
    fn a_device_has_room_for_both_forms_of_the_records_in_its_clusters() {
        let of = |name: &str| KINDS.into_iter().find(|kind| kind.name == name).unwrap();
        let (files, record) = (50_000, 20_008);
        let ext4 = of("ext4").device_bytes(files, record);
        assert!((2_048_000_000 + 20_000_000..2_800_000_000).contains(&ext4), "{ext4}");
        let vfat = of("vfat").device_bytes(files, record);
        assert!(vfat > files * 65_536 + files * record, "{vfat}");
        assert_eq!(of("xfs").device_bytes(3, 108), 512 * MIB);
    }

    #[test]
    fn what_is_not_installed_or_not_in_the_kernel_is_said() {
        let none = FileSystem { maker: "mkfs.of-nowhere", ..KINDS[0] };
        assert_eq!(none.found().unwrap_err(), "mkfs.of-nowhere is not installed");
        let kernel = FileSystem { maker: "sh", kernel: "of-nowhere", ..KINDS[0] };
        assert_eq!(kernel.found().unwrap_err(), "this kernel has no of-nowhere");
        let neither = FileSystem { fuse: Some("fuse-of-nowhere"), ..kernel };
        let because = "this kernel has no of-nowhere, and fuse-of-nowhere is not installed";
        assert_eq!(neither.found().unwrap_err(), because);
        let fuse = FileSystem { fuse: Some("cat"), ..kernel };
        assert!(matches!(fuse.found().unwrap().1, Driver::Fuse(path) if path.ends_with("cat")));
    }
}
