//! [`Quota`]: for how long the control groups of this process kept it from the processors, because
//! it had used up what they allow; and whether there may be groups that cannot be seen.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::cgroup::{Group, Version};
use super::super::gates::QuotaStop;
use crate::device::mountinfo;

/// The namespace of control groups that the system begins with, as a link of `/proc` names it:
/// `PROC_CGROUP_INIT_INO` of `include/linux/proc_ns.h`.
const FIRST_NAMESPACE: &str = "cgroup:[4026531835]";

/// Whether this process lives in a namespace of control groups: a quota of a parent group cannot be
/// seen from there, but still applies.
pub(super) fn is_hidden() -> bool {
    // Kernels without such namespaces have no link.
    fs::read_link("/proc/self/ns/cgroup").is_ok_and(|name| is_of_container(&name))
}

fn is_of_container(namespace: &Path) -> bool {
    namespace != Path::new(FIRST_NAMESPACE)
}

/// The groups that can stop this process, and for how long each had until now. The quotas of all
/// groups above hold as well, in both versions.
#[derive(Debug)]
pub(super) struct Quota(Vec<Counted>);

/// A group that counts.
#[derive(Debug)]
struct Counted {
    version: Version,
    directory: PathBuf,
    stopped_ns: u64,
}

impl Quota {
    /// Reads what they have counted.
    pub(super) fn now() -> Self {
        Self::of(&mountinfo(), &fs::read_to_string("/proc/self/cgroup").unwrap_or_default())
    }

    /// The same, from the mounts and the groups of a process.
    fn of(mounts: &str, groups: &str) -> Self {
        let mut counted = Vec::new();
        for Group { version, directories } in Group::all("cpu", mounts, groups) {
            counted.extend(directories.into_iter().filter_map(|directory| {
                let stopped_ns = stopped_ns(&directory)?;
                Some(Counted { version, directory, stopped_ns })
            }));
        }
        Self(counted)
    }

    /// What the group that stopped it for longest has done since; nothing where none did.
    pub(super) fn stop_since(&self) -> Option<QuotaStop> {
        let since = |group: &Counted| stopped_ns(&group.directory)?.checked_sub(group.stopped_ns);
        let stops = self.0.iter().filter_map(|group| Some((group, since(group)?)));
        let (group, longest_ns) =
            stops.filter(|(_, stopped_ns)| *stopped_ns > 0).max_by_key(|(_, stopped_ns)| *stopped_ns)?;
        Some(QuotaStop { limit: group.limit(), stopped_s: longest_ns as f64 / 1e9 })
    }
}

impl Counted {
    /// What it allows, as its files have it: `cpu.max 20000 100000`.
    fn limit(&self) -> String {
        let names: &[&str] = match self.version {
            Version::One => &["cpu.cfs_quota_us", "cpu.cfs_period_us"],
            Version::Two => &["cpu.max"],
        };
        let lines = names.iter().map(|name| {
            let text = fs::read_to_string(self.directory.join(name)).unwrap_or_default();
            format!("{name} {}", text.trim()).trim_end().to_owned()
        });
        lines.collect::<Vec<_>>().join(", ")
    }
}

/// How long the processes of a group were stopped so far, on all processors added up. A group
/// whose controller is off counts nothing.
fn stopped_ns(directory: &Path) -> Option<u64> {
    let text = fs::read_to_string(directory.join("cpu.stat")).ok()?;
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        let unit_ns = match name {
            "throttled_time" => 1,
            "throttled_usec" => 1000,
            _ => return None,
        };
        value.trim().parse::<u64>().ok()?.checked_mul(unit_ns)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cgroup::made;

    fn set(directory: &Path, name: &str, text: &str) {
        fs::write(directory.join(name), text).unwrap();
    }

    /// Before: "other threads used" the processors, and the machine was to be left to the
    /// measurement, where a quota had stopped it.
    #[test]
    fn a_quota_of_version_1_that_stops_this_process_is_found() {
        let stat = |ns: u64| format!("nr_periods 9\nnr_throttled 3\nthrottled_time {ns}\nnr_bursts 0\n");
        let dir = made(&[
            ("cpu.stat", stat(0).as_str()),
            ("a/cpu.stat", stat(1_000_000_000).as_str()),
            ("a/cpu.cfs_quota_us", "20000\n"),
            ("a/cpu.cfs_period_us", "100000\n"),
        ]);
        let mounts = format!("32 31 0:29 / {} rw - cgroup cgroup rw,cpu,cpuacct", dir.path().display());
        let before = Quota::of(&mounts, "2:cpu,cpuacct:/a\n");
        assert_eq!(before.stop_since(), None, "it was stopped before, and not since");
        set(dir.path(), "a/cpu.stat", &stat(1_350_000_000));
        let limit = "cpu.cfs_quota_us 20000, cpu.cfs_period_us 100000".to_owned();
        assert_eq!(before.stop_since(), Some(QuotaStop { limit, stopped_s: 0.35 }));
    }

    #[test]
    fn a_quota_of_a_group_above_is_found_in_version_2() {
        let stat = |us: u64| format!("usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec {us}\n");
        let dir = made(&[
            // The first of all groups has no quota, and counts no stops.
            ("cpu.stat", "usage_usec 5\nuser_usec 3\nsystem_usec 2\n"),
            ("a/cpu.stat", stat(7).as_str()),
            ("a/cpu.max", "20000 100000\n"),
            ("a/b/cpu.stat", stat(0).as_str()),
            ("a/b/cpu.max", "max 100000\n"),
        ]);
        let mounts = format!("41 31 0:38 / {} rw - cgroup2 cgroup2 rw", dir.path().display());
        let before = Quota::of(&mounts, "0::/a/b\n");
        set(dir.path(), "a/cpu.stat", &stat(250_007));
        let limit = "cpu.max 20000 100000".to_owned();
        assert_eq!(before.stop_since(), Some(QuotaStop { limit, stopped_s: 0.25 }));
        // Of two that stopped it, the one that did for longer.
        set(dir.path(), "a/b/cpu.stat", &stat(300_000));
        assert_eq!(before.stop_since().unwrap().limit, "cpu.max max 100000");
    }

    #[test]
    fn any_namespace_but_the_first_hides_the_groups_above_it() {
        for (name, hides) in [(FIRST_NAMESPACE, false), ("cgroup:[4026532999]", true)] {
            assert_eq!(is_of_container(Path::new(name)), hides, "{name}");
        }
    }

    #[test]
    fn without_groups_that_count_nothing_stops_a_process() {
        assert_eq!(Quota::of("", "0::/\n").stop_since(), None);
        let dir = made(&[("a/cpu.stat", "nr_throttled 3\nthrottled_usec many\n")]);
        let mounts = format!("41 31 0:38 / {} rw - cgroup2 cgroup2 rw", dir.path().display());
        assert_eq!(Quota::of(&mounts, "0::/a\n").stop_since(), None);
    }
}
