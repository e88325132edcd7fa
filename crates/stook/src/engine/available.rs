//! How much memory can still be used: of the machine, and of the control groups that this process
//! is in.

use std::fs;
use std::path::{Path, PathBuf};

const GROUPS: &str = "/sys/fs/cgroup";

/// The bytes that the system could provide without swapping, including reclaimable page cache. In a
/// container with a lower limit, what is left of that limit.
pub(crate) fn available_memory() -> Option<u64> {
    let machine = of_machine(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let member_of = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let groups = of_groups(Path::new(GROUPS), &member_of);
    Some(groups.map_or(machine, |groups| groups.min(machine)))
}

fn of_machine(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// What the tightest of the groups may still use; `None` if none has a limit. `member_of` is the
/// text of `/proc/self/cgroup`: a line `id:controllers:path` for each hierarchy.
fn of_groups(mount: &Path, member_of: &str) -> Option<u64> {
    let own = member_of.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        // The second version has one hierarchy for all; the first has memory in one of its own.
        let files = match controllers {
            "" => &V2,
            controllers => controllers.split(',').any(|name| name == "memory").then_some(&V1)?,
        };
        Some((files, path))
    });
    let available = own.filter_map(|(files, path)| {
        let root = mount.join(files.directory);
        let inside = root.join(path.trim_start_matches('/'));
        // Without a namespace of its own a container is shown the path of the host, and its own
        // group at the root.
        let from = if inside.is_dir() { inside } else { root.clone() };
        from.ancestors().take_while(|path| path.starts_with(&root)).filter_map(|path| files.of(path)).min()
    });
    available.min()
}

/// The files with the limit and the use of a group, in one version.
struct Files {
    directory: &'static str,
    limit: &'static str,
    usage: &'static str,
    /// The line of `memory.stat` that counts the page cache.
    cached: &'static str,
}

const V1: Files = Files {
    directory: "memory",
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    cached: "total_cache",
};

const V2: Files = Files { directory: "", limit: "memory.max", usage: "memory.current", cached: "file" };

impl Files {
    /// What one group may still use; `None` if it has no limit, which the second version calls
    /// `max`.
    fn of(&self, group: &Path) -> Option<u64> {
        let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        let limit = number(group.join(self.limit))?;
        let usage = number(group.join(self.usage))?;
        let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
        let cached = stat.lines().find_map(|line| line.strip_prefix(self.cached)?.trim().parse::<u64>().ok());
        Some(limit.saturating_sub(usage.saturating_sub(cached.unwrap_or(0))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(at: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(at).unwrap();
        files.iter().for_each(|(name, text)| fs::write(at.join(name), text).unwrap());
    }

    #[test]
    fn this_machine_says_what_it_has() {
        assert!(available_memory().is_none_or(|available| available > 0));
        assert_eq!(of_machine("MemTotal: 9 kB\nMemAvailable:      7 kB\n"), Some(7168));
        assert_eq!(of_machine("MemTotal: 9 kB\n"), None);
    }

    #[test]
    fn the_tightest_group_counts_and_its_page_cache_can_go() {
        let mount = tempfile::tempdir().unwrap();
        let root = mount.path();
        group(root, &[("memory.stat", "file 5\n")]);
        group(
            &root.join("a"),
            &[
                ("memory.max", "1000\n"),
                ("memory.current", "900\n"),
                ("memory.stat", "anon 1\nfile 300\nfile_mapped 9\n"),
            ],
        );
        group(&root.join("a/b"), &[("memory.max", "max\n"), ("memory.current", "10\n"), ("memory.stat", "")]);
        assert_eq!(of_groups(root, "0::/a/b\n"), Some(400));
        assert_eq!(of_groups(root, "0::/\n"), None);
        // The path of a host that is not seen from here.
        assert_eq!(of_groups(&root.join("a"), "0::/docker/123\n"), Some(400));
    }

    #[test]
    fn the_first_version_has_memory_in_a_hierarchy_of_its_own() {
        let mount = tempfile::tempdir().unwrap();
        let root = mount.path().join("memory");
        let unlimited = [("memory.limit_in_bytes", "9223372036854771712"), ("memory.usage_in_bytes", "70")];
        group(&root, &unlimited);
        let files = [
            ("memory.limit_in_bytes", "500"),
            ("memory.usage_in_bytes", "600"),
            ("memory.stat", "cache 1\ntotal_cache 250\n"),
        ];
        group(&root.join("job"), &files);
        assert_eq!(of_groups(mount.path(), "4:cpu:/\n3:cpuset,memory:/job\n0::/\n"), Some(150));
        assert_eq!(of_groups(mount.path(), "4:cpu:/job\n0::/\n"), None);
    }
}
