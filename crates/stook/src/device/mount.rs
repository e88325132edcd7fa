//! [`Mount`]: what is mounted where, as the system reports it.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Its number, and that of the mount that it lies on: its own, or one that is not listed, for
    /// the first of all.
    id: u64,
    parent: u64,
    /// The device of what is in it.
    device: Option<u64>,
    /// The directory of the file system that is mounted.
    pub(crate) root: PathBuf,
    pub(crate) point: PathBuf,
    /// As the kernel writes them: what has a meaning in them as a backslash and an octal number.
    pub(crate) options: String,
    pub(crate) kind: String,
    pub(crate) source: String,
}

/// All mounts that this process sees; empty where the system does not report them.
pub(crate) fn mountinfo() -> String {
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    // One name in another encoding must not hide the rest.
    String::from_utf8_lossy(&text).into_owned()
}

/// The devices of all mounts of a kind of file system.
pub(crate) fn devices_of(kind: &str) -> HashSet<u64> {
    Mount::all(&mountinfo()).filter(|mount| mount.kind == kind).filter_map(|mount| mount.device).collect()
}

/// A path without links. A file that has no name any more lies where its directory does.
pub(crate) fn real_path(path: &Path) -> Option<PathBuf> {
    let of_parent = || Some(fs::canonicalize(parent_of(path)).ok()?.join(path.file_name()?));
    fs::canonicalize(path).ok().or_else(of_parent)
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The number of the mount that a path lies on, where the kernel reports it (from 5.8 on). A path
/// may lead to a mount that is not listed: `/proc/PID/root` to that of another view of the files.
pub(super) fn id_of(path: &Path) -> Option<u64> {
    let of = |path: &Path| {
        let found = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
        let is_reported = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
        Some(is_reported.then_some(found.stx_mnt_id))
    };
    // A file that has no name any more lies where its directory does.
    of(path).or_else(|| of(parent_of(path)))?
}

/// Whether a path lies on a file server that copies ranges of its files by itself.
pub(crate) fn copies_on_server(path: &Path) -> bool {
    Mount::of(path).is_some_and(|mount| mount.copies_on_server())
}

impl Mount {
    /// The same: NFS can from version 4.2 on, SMB from 2 on.
    fn copies_on_server(&self) -> bool {
        let since = match self.kind.as_str() {
            "nfs" | "nfs4" => (4, 2),
            "cifs" | "smb3" => (2, 0),
            _ => return false,
        };
        let version = self.options.split([',', ' ']).find_map(|option| option.strip_prefix("vers="));
        let mut numbers = version.unwrap_or_default().split('.').map_while(|part| part.parse::<u32>().ok());
        numbers.next().is_some_and(|first| (first, numbers.next().unwrap_or(0)) >= since)
    }

    /// The device of what is in it, where that is one.
    pub(super) fn device(&self) -> Option<u64> {
        self.device
    }

    /// The mount that a path lies on.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        Self::among(&mountinfo(), id_of(path), path)
    }

    /// The same, of the mounts in a text, with the number of the mount where that is known.
    pub(super) fn among(mounts: &str, id: Option<u64>, path: &Path) -> Option<Self> {
        match id {
            Some(id) => Self::all(mounts).find(|mount| mount.id == id),
            None => Self::find(mounts, &real_path(path)?),
        }
    }

    /// Every mount in a text.
    pub(crate) fn all(mounts: &str) -> impl Iterator<Item = Self> {
        mounts.lines().filter_map(Self::parse)
    }

    /// Follows a path from mount to mount, as the kernel does. The longest mount point of all need
    /// not be on the way: a later mount further up hides it.
    fn find(mounts: &str, path: &Path) -> Option<Self> {
        // Of two at one place the later hides the earlier.
        let mut left: Vec<Self> = Self::all(mounts).filter(|mount| path.starts_with(&mount.point)).collect();
        left.reverse();
        let all: BTreeSet<u64> = Self::all(mounts).map(|mount| mount.id).collect();
        let is_first = |mount: &Self| mount.parent == mount.id || !all.contains(&mount.parent);
        let mut found: Option<Self> = None;
        loop {
            let is_next = |mount: &Self| match &found {
                None => is_first(mount),
                Some(found) => !is_first(mount) && mount.parent == found.id,
            };
            let next = left.iter().enumerate().filter(|(_, mount)| is_next(mount));
            let Some((place, _)) = next.min_by_key(|(_, mount)| mount.point.components().count()) else {
                return found;
            };
            found = Some(left.remove(place));
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ');
        let (id, parent) = (before.next()?.parse().ok()?, before.next()?.parse().ok()?);
        let (major, minor) = before.next()?.split_once(':')?;
        let device = major.parse().ok().zip(minor.parse().ok()).map(|(major, minor)| makedev(major, minor));
        let (root, point, options) = (before.next()?, before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, source, own) = (after.next()?, after.next()?, after.next().unwrap_or_default());
        Some(Self {
            id,
            parent,
            device,
            root: PathBuf::from(unescaped(root)),
            point: PathBuf::from(unescaped(point)),
            options: format!("{options} {own}").trim().to_owned(),
            kind: kind.to_owned(),
            source: unescaped(source),
        })
    }
}

/// A text of `mountinfo` without the octal numbers that stand there for spaces and the like.
pub(crate) fn unescaped(text: &str) -> String {
    let octal = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok();
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        match after.split_at_checked(3) {
            Some((digits, after)) if *first == b'\\' && octal(digits).is_some() => {
                plain.extend(octal(digits));
                rest = after;
            }
            _ => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 253:0 / / rw,relatime - ext4 /dev/vda rw
23 22 0:27 / /mnt rw - tmpfs none rw,size=1k
24 23 0:31 / /mnt/a\\040b rw,noatime shared:1 - btrfs /dev/vdb rw,compress=zstd
25 24 0:32 / /mnt/a\\040b ro - xfs /dev/vdc rw";

    #[test]
    fn the_mount_of_a_path_is_the_last_of_the_deepest() {
        let of = |path: &str| Mount::find(MOUNTS, Path::new(path)).unwrap();
        assert_eq!((of("/home").kind.as_str(), of("/mnt/c").kind.as_str()), ("ext4", "tmpfs"));
        let deep = of("/mnt/a b/c");
        assert_eq!(
            (deep.kind.as_str(), deep.options.as_str(), deep.source.as_str()),
            ("xfs", "ro rw", "/dev/vdc")
        );
        assert_eq!(of("/mnt/a bc").kind, "tmpfs");
    }

    #[test]
    fn servers_copy_by_themselves_from_a_version_on() {
        for (kind, options, copies) in [
            ("nfs4", "rw,vers=4.2,rsize=1048576", true),
            ("nfs4", "rw,vers=4.1", false),
            ("nfs", "rw,vers=3", false),
            ("nfs4", "rw", false),
            ("cifs", "rw,vers=3.1.1,cache=strict", true),
            ("cifs", "rw,vers=1.0", false),
            ("ext4", "rw,vers=9", false),
        ] {
            let line = format!("22 1 0:40 / /srv rw,relatime shared:1 - {kind} host:/srv {options}");
            let mount = Mount::parse(&line).unwrap();
            assert_eq!(mount.copies_on_server(), copies, "{line}");
        }
    }

    /// Before: the longest mount point won: tmpfs that was mounted over a disk was "valid" as that
    /// disk, and btrfs that was mounted over tmpfs was called tmpfs.
    #[test]
    fn a_mount_that_a_later_one_further_up_hides_is_on_no_path() {
        let kind = |mounts: &str, path: &str| Mount::find(mounts, Path::new(path)).map(|mount| mount.kind);
        let hidden = "\
22 1 253:0 / / rw - ext4 /dev/vda rw
30 22 0:31 / /p/x rw - btrfs /dev/vdb rw
31 22 0:40 / /p rw - tmpfs none rw";
        assert_eq!(kind(hidden, "/p/x/file").as_deref(), Some("tmpfs"));
        assert_eq!(kind(hidden, "/q").as_deref(), Some("ext4"));
        let visible = hidden.replace("30 22 ", "30 31 ");
        assert_eq!(kind(&visible, "/p/x/file").as_deref(), Some("btrfs"));
        // Two at one place, one on the other, or both on the same; the first of all is its own.
        for upper in ["32 31", "32 22"] {
            let twice = format!("{hidden}\n{upper} 0:41 / /p rw - xfs /dev/vdc rw");
            assert_eq!(kind(&twice, "/p/x").as_deref(), Some("xfs"), "{upper}");
        }
        assert_eq!(kind(&hidden.replace("22 1 ", "22 22 "), "/p/x").as_deref(), Some("tmpfs"));
        assert_eq!(kind("9 8 0:1 / /p rw - xfs a rw\n8 9 0:2 / /p rw - xfs b rw", "/p"), None, "a circle");
    }

    #[test]
    fn the_number_of_a_mount_decides_where_it_is_known() {
        let of = |id, path: &str| Mount::among(MOUNTS, id, Path::new(path));
        assert_eq!(of(Some(23), "/").unwrap().kind, "tmpfs");
        assert_eq!(of(None, "/").unwrap().kind, "ext4");
        assert_eq!(of(Some(99), "/"), None, "a mount that cannot be seen from here");
    }

    #[test]
    fn the_kernel_knows_the_mount_of_a_file_and_of_one_without_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let id = id_of(dir.path()).unwrap();
        assert_eq!(id_of(&dir.path().join("gone")), Some(id));
        assert!(Mount::all(&mountinfo()).any(|mount| mount.id == id));
        assert_ne!(id_of(Path::new("/proc/self/stat")), Some(id));
    }

    #[test]
    fn octal_numbers_in_mounts_stand_for_characters() {
        assert_eq!(unescaped("a\\040b\\134\\054c\\011"), "a b\\,c\t");
        assert_eq!(unescaped("plain \\ and \\9, ä\\04"), "plain \\ and \\9, ä\\04");
        let bound =
            Mount::parse("9 1 0:39 /a\\040b /mnt/x rw - btrfs /dev/disk/by-label/a\\040b rw").unwrap();
        assert_eq!(
            (bound.root.as_path(), bound.source.as_str()),
            (Path::new("/a b"), "/dev/disk/by-label/a b")
        );
    }
}
