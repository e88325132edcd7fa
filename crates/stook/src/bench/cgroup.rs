//! [`Group`]: the control groups of a process. The files in their directories state their limits.

use std::path::{Component, Path, PathBuf};

use crate::device::Mount;

/// The two kinds of trees that control groups form (`cgroups(7)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// A tree for each controller.
    One,
    /// One tree for all.
    Two,
}

/// The control group of a process that a controller looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) version: Version,
    /// Its directory, and those of the groups above it, upwards, as far as they are mounted.
    pub(super) directories: Vec<PathBuf>,
}

impl Group {
    /// All of them for a controller, by its name in version 1, from the mounts and the groups of a
    /// process.
    pub(super) fn all(controller: &str, mounts: &str, groups: &str) -> Vec<Self> {
        groups.lines().filter_map(|line| Self::of_line(controller, mounts, line)).collect()
    }

    /// The group that a line of `/proc/self/cgroup` names.
    fn of_line(controller: &str, mounts: &str, line: &str) -> Option<Self> {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        let version = match controllers {
            "" => Version::Two,
            all if all.split(',').any(|name| name == controller) => Version::One,
            _ => return None,
        };
        let is_tree = |mount: &Mount| match version {
            Version::One => {
                let mut options = mount.options.split([' ', ',']);
                mount.kind == "cgroup" && options.any(|name| name == controller)
            }
            Version::Two => mount.kind == "cgroup2",
        };
        let mount = Mount::all(mounts).find(is_tree)?;
        let own = directory(&mount, group);
        let seen = own.ancestors().take_while(|path| path.starts_with(&mount.point));
        Some(Self { version, directories: seen.map(Path::to_path_buf).collect() })
    }
}

/// The directory of a group. In a container the mount begins at the group of the container, or
/// below it.
fn directory(mount: &Mount, group: &str) -> PathBuf {
    let inside = Path::new(group).strip_prefix(&mount.root).unwrap_or(Path::new(""));
    let is_above = inside.components().any(|part| part == Component::ParentDir);
    if is_above { mount.point.clone() } else { mount.point.join(inside) }
}

/// A directory with these files, for tests that make groups of their own.
#[cfg(test)]
pub(super) fn made(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
32 31 0:29 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct
33 31 0:35 / /cg/blkio rw - cgroup cgroup rw,blkio
41 31 0:38 /docker/x /cg/unified rw - cgroup2 cgroup2 rw";

    #[test]
    fn a_group_lies_below_the_mount_of_its_controller_and_so_do_those_above_it() {
        let groups = "2:cpu,cpuacct:/a/b\n3:cpuset:/c\n0::/docker/x/d\n";
        let of = |controller| Group::all(controller, MOUNTS, groups);
        let group = |version, directories: &[&str]| Group {
            version,
            directories: directories.iter().map(PathBuf::from).collect(),
        };
        let unified = group(Version::Two, &["/cg/unified/d", "/cg/unified"]);
        let own = group(Version::One, &["/cg/cpu/a/b", "/cg/cpu/a", "/cg/cpu"]);
        assert_eq!(of("cpu"), [own, unified.clone()]);
        assert_eq!(of("blkio"), [unified], "the process is in no group of it");
    }

    #[test]
    fn a_group_outside_of_what_is_mounted_is_looked_for_at_the_mount() {
        let found = Group::all("cpu", MOUNTS, "0::/docker/x/../y\n");
        assert_eq!(found[0].directories, [PathBuf::from("/cg/unified")]);
        assert!(Group::all("cpu", "", "0::/\n1:cpu:/\n").is_empty());
        assert!(Group::all("cpu", MOUNTS, "nothing of the kind").is_empty());
    }
}
