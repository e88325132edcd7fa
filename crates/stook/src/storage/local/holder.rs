//! The note that says who holds a lock: written for people, and read for one thing, whether the
//! holder is about to let go because it is dying.

use std::io;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// `holder`, with process, host and time.
pub(super) fn describe(holder: &str) -> io::Result<String> {
    let since = OffsetDateTime::now_utc().replace_nanosecond(0).map_err(io::Error::other)?;
    let since = since.format(&Rfc3339).map_err(io::Error::other)?;
    Ok(format!("{holder}, process {} on {}, since {since}", std::process::id(), host()))
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Whether a note names a process of this host that lives, as far as can be known. Of another
/// host nothing is.
pub(super) fn lives(note: &str) -> bool {
    process_of(note, &host()).is_none_or(|process| !is_dying(process))
}

/// The process that a note names, if it is on this host.
fn process_of(note: &str, host: &str) -> Option<i32> {
    // From the end: the text before it is the holder's own.
    let (rest, _since) = note.rsplit_once(", since ")?;
    let (rest, on_host) = rest.rsplit_once(" on ")?;
    let (_, process) = rest.rsplit_once(", process ")?;
    (on_host == host).then(|| process.parse().ok()).flatten()
}

/// Whether a process is gone, or has begun to go and cannot come back. A killed process may keep
/// its files, and the locks on them, until all its reads and writes are done.
fn is_dying(process: i32) -> bool {
    let Some(pid) = rustix::process::Pid::from_raw(process) else { return true };
    rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH) || is_ending(process)
}

#[cfg(target_os = "linux")]
fn is_ending(process: i32) -> bool {
    let read = |what: &str| std::fs::read_to_string(format!("/proc/{process}/{what}"));
    // What cannot be read belongs to another user, or is not mounted: nothing is known.
    read("stat").is_ok_and(|stat| stat_says_ending(&stat))
        || read("status").is_ok_and(|status| is_killed(&status))
}

#[cfg(not(target_os = "linux"))]
fn is_ending(_process: i32) -> bool {
    false
}

/// A zombie, or flags of the kernel: exiting, or killed by a signal.
#[cfg(target_os = "linux")]
fn stat_says_ending(stat: &str) -> bool {
    const PF_EXITING: u64 = 0x4;
    const PF_SIGNALED: u64 = 0x400;
    // The name of the command is in parentheses, and may have any.
    let Some((_, fields)) = stat.rsplit_once(')') else { return false };
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let is_zombie = matches!(fields.first(), Some(&("Z" | "X" | "x")));
    let flags = fields.get(6).and_then(|flags| flags.parse::<u64>().ok()).unwrap_or(0);
    is_zombie || flags & (PF_EXITING | PF_SIGNALED) != 0
}

/// SIGKILL is on its way to it.
#[cfg(target_os = "linux")]
fn is_killed(status: &str) -> bool {
    const KILL: u64 = 1 << 8;
    status.lines().any(|line| {
        let pending = line.strip_prefix("SigPnd:").or_else(|| line.strip_prefix("ShdPnd:"));
        pending.is_some_and(|set| u64::from_str_radix(set.trim(), 16).is_ok_and(|set| set & KILL != 0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_a_process_of_this_host_or_none() {
        let note = describe("stook, process 7 on moon, since ever").unwrap();
        assert_eq!(process_of(&note, &host()), i32::try_from(std::process::id()).ok());
        assert_eq!(process_of(&note, "elsewhere"), None);
        for note in ["", "stook", "stook, process x on h, since y", ", process 99999999999 on h, since y"] {
            assert_eq!(process_of(note, "h"), None, "{note}");
        }
    }

    #[test]
    fn this_process_lives_and_one_that_was_waited_for_does_not() {
        assert!(lives(&describe("test").unwrap()));
        assert!(lives("test, process 1 on another host, since 2026-01-01T00:00:00Z"));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let process = i32::try_from(child.id()).unwrap();
        child.wait().unwrap();
        assert!(is_dying(process));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_that_ends_is_known_by_what_the_kernel_says_of_it() {
        let stat = |state: &str, flags: u64| format!("7 (a) b) {state} 1 7 7 0 -1 {flags} 0 0");
        assert!(!stat_says_ending(&stat("S", 0x40_0100)));
        assert!(stat_says_ending(&stat("Z", 0)), "a zombie");
        assert!(stat_says_ending(&stat("D", 0x4)), "exiting");
        assert!(stat_says_ending(&stat("D", 0x400)), "killed by a signal");
        assert!(!stat_says_ending("nonsense"));
        assert!(is_killed("Name:\tx\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n"));
        assert!(!is_killed("Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000004002\n"));
    }
}
