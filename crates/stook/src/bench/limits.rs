//! [`Limits`]: the limits of the control group of this process on devices.

use std::fs;
use std::path::Path;

use super::cgroup::{Group, Version};
use crate::device::{Below, mountinfo};
use crate::report::units::{rate, significant};

/// The limits of a control group on a device; `None` for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Limits {
    pub(super) read_bytes_per_s: Option<f64>,
    pub(super) write_bytes_per_s: Option<f64>,
    pub(super) reads_per_s: Option<f64>,
    pub(super) writes_per_s: Option<f64>,
}

impl Limits {
    /// What the control group of this process allows now on the devices below a file: the least of
    /// all of them, for bytes of the file.
    pub(super) fn on(below: &Below) -> Self {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::of(&below.disk_numbers(), &mountinfo(), &groups).with_copies(below.copies_on_one_device())
    }

    /// The least that applies to any of the disks (`254:0`), from the mounts and the groups of a
    /// process.
    fn of(disks: &[String], mounts: &str, groups: &str) -> Self {
        let mut limits = Self::default();
        for Group { version, directories } in Group::all("blkio", mounts, groups) {
            match version {
                // There a group's limits hold for it alone.
                Version::One => {
                    if let Some(own) = directories.first() {
                        limits.look_at_version_1(disks, own);
                    }
                }
                // There the limits of all groups above hold too.
                Version::Two => directories.iter().for_each(|group| limits.look_at_version_2(disks, group)),
            }
        }
        limits
    }

    fn look_at_version_1(&mut self, disks: &[String], directory: &Path) {
        for (key, name) in [
            ("rbps", "read_bps_device"),
            ("wbps", "write_bps_device"),
            ("riops", "read_iops_device"),
            ("wiops", "write_iops_device"),
        ] {
            let file = directory.join(format!("blkio.throttle.{name}"));
            lines(&file, disks).iter().for_each(|value| self.lower(key, value));
        }
    }

    fn look_at_version_2(&mut self, disks: &[String], directory: &Path) {
        for values in lines(&directory.join("io.max"), disks) {
            let pairs = values.split_whitespace().filter_map(|pair| pair.split_once('='));
            pairs.for_each(|(key, value)| self.lower(key, value));
        }
    }

    fn lower(&mut self, key: &str, value: &str) {
        // What is not limited is `max`.
        let Ok(value) = value.parse::<f64>() else { return };
        let limit = match key {
            "rbps" => &mut self.read_bytes_per_s,
            "wbps" => &mut self.write_bytes_per_s,
            "riops" => &mut self.reads_per_s,
            "wiops" => &mut self.writes_per_s,
            _ => return,
        };
        *limit = Some(limit.map_or(value, |least| least.min(value)));
    }

    /// The lower limit of two moments: a limit that was set or lifted while something ran held for
    /// a part of it.
    pub(super) fn least(self, other: Self) -> Self {
        let least = |one: Option<f64>, other: Option<f64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self {
            read_bytes_per_s: least(self.read_bytes_per_s, other.read_bytes_per_s),
            write_bytes_per_s: least(self.write_bytes_per_s, other.write_bytes_per_s),
            reads_per_s: least(self.reads_per_s, other.reads_per_s),
            writes_per_s: least(self.writes_per_s, other.writes_per_s),
        }
    }

    /// How many times a device takes every write.
    fn with_copies(self, copies: u64) -> Self {
        let each = |limit: Option<f64>| limit.map(|limit| limit / copies.max(1) as f64);
        Self {
            write_bytes_per_s: each(self.write_bytes_per_s),
            writes_per_s: each(self.writes_per_s),
            ..self
        }
    }

    /// `reads 20.0 MB/s, writes 1,000/s in the control group`; `None` where there are none.
    pub(super) fn in_words(&self) -> Option<String> {
        let often = |per_s: f64| format!("{}/s", significant(per_s));
        let all = [
            ("reads", self.read_bytes_per_s.map(rate)),
            ("reads", self.reads_per_s.map(often)),
            ("writes", self.write_bytes_per_s.map(rate)),
            ("writes", self.writes_per_s.map(often)),
        ];
        let known = all.into_iter().filter_map(|(what, limit)| Some(format!("{what} {}", limit?)));
        let known: Vec<String> = known.collect();
        (!known.is_empty()).then(|| format!("{} in the control group", known.join(", ")))
    }
}

/// The lines of a file about these disks, after their numbers.
fn lines(file: &Path, disks: &[String]) -> Vec<String> {
    // A group without limits has no such file where its controller is off.
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.trim().split_once(char::is_whitespace));
    let ours = lines.filter(|(disk, _)| disks.iter().any(|ours| ours == disk));
    ours.map(|(_, values)| values.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cgroup::made;

    #[test]
    fn version_1_limits_a_group_by_its_own_files() {
        let dir = made(&[
            ("blkio.throttle.write_iops_device", "254:0 5\n"),
            ("a/b/blkio.throttle.read_bps_device", "254:0 20000000\n7:0 4000000\n8:0 1\n"),
            ("a/b/blkio.throttle.write_iops_device", "254:0 1000\n"),
            ("a/b/blkio.throttle.read_iops_device", ""),
        ]);
        let mounts = format!("38 31 0:35 / {} rw - cgroup cgroup rw,blkio", dir.path().display());
        let of = |disks: &[&str], groups: &str| {
            let disks: Vec<String> = disks.iter().map(ToString::to_string).collect();
            Limits::of(&disks, &mounts, groups)
        };
        let limits = of(&["254:0"], "8:pids:/\n7:blkio:/a/b\n0::/\n");
        let expected =
            Limits { read_bytes_per_s: Some(20e6), writes_per_s: Some(1000.0), ..Limits::default() };
        assert_eq!(limits, expected);
        assert_eq!(limits.in_words().unwrap(), "reads 20.0 MB/s, writes 1,000/s in the control group");
        // A loop device on the disk: the least of both.
        assert_eq!(of(&["254:0", "7:0"], "7:blkio:/a/b").read_bytes_per_s, Some(4e6));
        assert_eq!(of(&["254:1"], "7:blkio:/a/b"), Limits::default());
        assert_eq!(of(&["254:0"], "7:pids:/a/b"), Limits::default());
        assert_eq!(Limits::default().in_words(), None);
    }

    /// Before: limits were read once, when a run had ended; one that was lifted just before was not
    /// seen, and the run was valid.
    #[test]
    fn a_limit_that_was_set_or_lifted_during_a_run_counts() {
        let slow = Limits { read_bytes_per_s: Some(4e6), writes_per_s: Some(900.0), ..Limits::default() };
        let other = Limits { read_bytes_per_s: Some(9e6), reads_per_s: Some(10.0), ..Limits::default() };
        let least = Limits { reads_per_s: Some(10.0), ..slow };
        assert_eq!((slow.least(other), other.least(slow)), (least, least));
        assert_eq!(slow.least(Limits::default()), slow);
    }

    #[test]
    fn version_2_adds_the_limits_of_all_groups_above() {
        let dir = made(&[
            ("a/io.max", "8:0 rbps=max wbps=1048576 riops=max wiops=500\n"),
            (
                "a/b/io.max",
                "8:0 rbps=2000000 wbps=max riops=max wiops=600\n8:16 rbps=1 wbps=1 riops=1 wiops=1\n",
            ),
        ]);
        let point = dir.path().display();
        let disks = ["8:0".to_owned()];
        let expected = Limits {
            read_bytes_per_s: Some(2e6),
            write_bytes_per_s: Some(1_048_576.0),
            reads_per_s: None,
            writes_per_s: Some(500.0),
        };
        let mounts = format!("41 31 0:38 / {point} rw - cgroup2 cgroup2 rw");
        assert_eq!(Limits::of(&disks, &mounts, "0::/a/b\n"), expected);
        // As a container sees it: the mount begins at a group of the host.
        let mounts = format!("41 31 0:38 /docker/x {point} rw - cgroup2 cgroup2 rw");
        assert_eq!(Limits::of(&disks, &mounts, "0::/docker/x/a/b"), expected);
        // If each byte is written twice, half of the limit is available.
        assert_eq!(expected.with_copies(2).write_bytes_per_s, Some(524_288.0));
        assert_eq!(expected.with_copies(2).read_bytes_per_s, Some(2e6));
    }
}
