//! How the system shares processors with the calling thread: its scheduling policy.

use std::fs;

/// `SCHED_FIFO`, `SCHED_RR` and `SCHED_DEADLINE` of `include/uapi/linux/sched.h`.
const REAL_TIME: [u32; 3] = [1, 2, 6];
/// The place of the policy in `/proc/PID/stat` (`proc_pid_stat(5)`), after the name: the first
/// field there is the third of all, the policy the 41st.
const PLACE: usize = 41 - 3;

/// Whether this thread runs before all ordinary ones, as after `chrt`. Such threads have quotas of
/// their own, which count no stops.
pub(super) fn is_real_time() -> bool {
    fs::read("/proc/thread-self/stat").is_ok_and(|text| is_of_real_time(&String::from_utf8_lossy(&text)))
}

fn is_of_real_time(stat: &str) -> bool {
    // A name is in brackets, and may contain brackets.
    let policy = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(PLACE));
    policy.and_then(|policy| policy.parse().ok()).is_some_and(|policy| REAL_TIME.contains(&policy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_time_is_fifo_round_robin_and_deadline() {
        // The priority, 50, stands before the policy.
        let stat = |policy: &str| {
            let before = "0 ".repeat(40 - 3);
            format!("9 (a ) 1 b) S {} 50 {policy} 0 0 0 0 0 0 0 0 0 0 0\n", &before[2..])
        };
        for (policy, expected) in
            [("0", false), ("1", true), ("2", true), ("3", false), ("5", false), ("6", true), ("x", false)]
        {
            assert_eq!(is_of_real_time(&stat(policy)), expected, "{policy}");
        }
        assert!(!is_of_real_time("") && !is_of_real_time("9 (a) S 1 1"));
    }
}
