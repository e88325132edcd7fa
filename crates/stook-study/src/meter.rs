//! A stopwatch that also measures processor time.

use std::time::Instant;

use anyhow::Context as _;

/// What something took.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Taken {
    /// Time on the wall, seconds.
    pub seconds: f64,
    /// Processor time of this process, and of those that it started and waited for, outside the
    /// kernel, seconds; in steps of 10 ms.
    pub user_cpu_s: f64,
    /// The same in the kernel.
    pub system_cpu_s: f64,
}

impl Taken {
    /// Returns the cost of `work`, and its result.
    ///
    /// # Errors
    /// Returns the errors of `work`, and an error if the kernel does not report processor times.
    pub fn by<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(Self, T)> {
        let (user_before, system_before) = cpu_times()?;
        let started = Instant::now();
        let value = work()?;
        let seconds = started.elapsed().as_secs_f64();
        let (user, system) = cpu_times()?;
        let taken = Self { seconds, user_cpu_s: user - user_before, system_cpu_s: system - system_before };
        Ok((taken, value))
    }
}

/// User and system time of this process and of its children that ended, seconds.
fn cpu_times() -> anyhow::Result<(f64, f64)> {
    let path = "/proc/self/stat";
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    parse(&text).with_context(|| format!("{path} is not as expected: {text:?}"))
}

fn parse(stat: &str) -> Option<(f64, f64)> {
    // The second field is the name in parentheses, and may hold anything; fields are counted from
    // 1.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let mut next = |skipped| fields.nth(skipped)?.parse::<f64>().ok();
    let (user, system) = (next(14 - 3)?, next(0)?);
    let (user_of_children, system_of_children) = (next(0)?, next(0)?);
    let seconds = |ticks: f64| ticks / rustix::param::clock_ticks_per_second() as f64;
    Some((seconds(user + user_of_children), seconds(system + system_of_children)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "7 (a) b (c) R 1 2 3 4 5 6 7 8 9 10 250 125 1000 2000 20 0 1 0";
        let ticks_per_s = rustix::param::clock_ticks_per_second() as f64;
        assert_eq!(parse(stat), Some((1250.0 / ticks_per_s, 2125.0 / ticks_per_s)));
        assert_eq!(parse("7 (a) R 1"), None);
    }

    /// Before: a program that was run to be measured took "CPU 0.00 + 0.00".
    #[test]
    fn what_a_child_did_counts() {
        let count = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
        let (taken, status) =
            Taken::by(|| Ok(std::process::Command::new("sh").args(["-c", count]).status()?)).unwrap();
        assert!(status.success());
        assert!(taken.user_cpu_s + taken.system_cpu_s > 0.0, "{taken:?}");
    }

    #[test]
    fn the_value_and_the_times_come_back() {
        let (taken, value) = Taken::by(|| Ok(3)).unwrap();
        assert_eq!(value, 3);
        assert!(taken.seconds >= 0.0 && taken.user_cpu_s >= 0.0 && taken.system_cpu_s >= 0.0);
    }
}
