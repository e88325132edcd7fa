//! [`Mount`]: what is mounted where, as the system reports it.

use std::fs;
use std::path::{Path, PathBuf};

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount {
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

/// A path without links. A file that has no name any more lies where its directory does.
pub(crate) fn real_path(path: &Path) -> Option<PathBuf> {
    let of_parent = || {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = fs::canonicalize(parent.unwrap_or(Path::new("."))).ok()?;
        Some(parent.join(path.file_name()?))
    };
    fs::canonicalize(path).ok().or_else(of_parent)
}

impl Mount {
    /// The mount that a path lies on.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        Self::among(&mountinfo(), path)
    }

    /// The same, of the mounts in a text.
    pub(crate) fn among(mounts: &str, path: &Path) -> Option<Self> {
        Self::find(mounts, &real_path(path)?)
    }

    /// Every mount in a text.
    pub(crate) fn all(mounts: &str) -> impl Iterator<Item = Self> {
        mounts.lines().filter_map(Self::parse)
    }

    fn find(mounts: &str, path: &Path) -> Option<Self> {
        let above = Self::all(mounts).filter(|mount| path.starts_with(&mount.point));
        // The longest, and of two at one place the later, which hides the earlier.
        above.max_by_key(|mount| mount.point.components().count())
    }

    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point, options) = (before.next()?, before.next()?, before.next()?);
        let mut after = after.split(' ');
        let (kind, source, own) = (after.next()?, after.next()?, after.next().unwrap_or_default());
        Some(Self {
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
24 22 0:31 / /mnt/a\\040b rw,noatime shared:1 - btrfs /dev/vdb rw,compress=zstd
25 22 0:32 / /mnt/a\\040b ro - xfs /dev/vdc rw";

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
