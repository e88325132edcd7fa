//! [`Others`]: what other programs use of the processors.

use std::fs;
use std::path::Path;
use std::time::Instant;

const PROC: &str = "/proc";
/// Begins all other threads of the kernel.
const KTHREADD: &str = "2";
/// `PF_KTHREAD` of `include/linux/sched.h`.
const OF_KERNEL: i64 = 0x0020_0000;

/// What other programs had used of the processors at a moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Others {
    at: Instant,
    used: Used,
}

/// Processor time, in ticks of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Used {
    /// Of all other programs, and of those that have ended and were waited for. Threads of the
    /// kernel are not among them: they work for any program, most of all for this program.
    ByPrograms(i64),
    /// In user mode, of all but this program: in a container other programs cannot be seen, and
    /// what the system as a whole did for them cannot be separated from what it did for this one.
    InUserMode(i64),
}

impl Others {
    /// What it is now, where the system reports it.
    pub(super) fn now() -> Option<Self> {
        Some(Self { at: Instant::now(), used: Used::read(Path::new(PROC))? })
    }

    /// Processor time since `before` ÷ time: more than 1 on several processors.
    pub(super) fn share_since(&self, before: &Self) -> Option<f64> {
        let seconds = self.at.checked_duration_since(before.at)?.as_secs_f64();
        let ticks_per_s = rustix::param::clock_ticks_per_second() as f64;
        let ticks = self.used.since(before.used)?;
        (seconds > 0.0).then(|| ticks as f64 / ticks_per_s / seconds)
    }
}

impl Used {
    fn read(proc: &Path) -> Option<Self> {
        let this = Program::read(&proc.join("self"))?;
        let sees_kernel = Program::read(&proc.join(KTHREADD)).is_some_and(|program| program.is_of_kernel);
        if !sees_kernel {
            let text = fs::read_to_string(proc.join("stat")).ok()?;
            return Some(Self::InUserMode(in_user_mode(&text)?.saturating_sub(this.user_ticks)));
        }
        let mut ticks = 0i64;
        for entry in fs::read_dir(proc).ok()?.filter_map(Result::ok) {
            if !entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
                continue;
            }
            // One that has ended meanwhile has no file any more.
            let Some(program) = Program::read(&entry.path()) else { continue };
            if !program.is_of_kernel && program.number != this.number {
                ticks = ticks.saturating_add(program.ticks);
            }
        }
        Some(Self::ByPrograms(ticks))
    }

    /// What was used since; nothing where the two were not read in the same way.
    fn since(self, before: Self) -> Option<i64> {
        let (now, then) = match (self, before) {
            (Self::ByPrograms(now), Self::ByPrograms(then)) => (now, then),
            (Self::InUserMode(now), Self::InUserMode(then)) => (now, then),
            _ => return None,
        };
        // One that ended, and that nobody waits for, takes what it had used with it.
        Some(now.saturating_sub(then).max(0))
    }
}

/// A program, as the file `stat` in its directory says (`proc_pid_stat(5)`).
#[derive(Debug, PartialEq, Eq)]
struct Program {
    number: i64,
    is_of_kernel: bool,
    user_ticks: i64,
    /// In user mode and in the system, of all its threads, and of its children that ended.
    ticks: i64,
}

impl Program {
    fn read(directory: &Path) -> Option<Self> {
        // A name may be any bytes.
        Self::parse(&String::from_utf8_lossy(&fs::read(directory.join("stat")).ok()?))
    }

    fn parse(text: &str) -> Option<Self> {
        let (number, _) = text.split_once(' ')?;
        // The name stands in brackets, and may have some itself.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The first of these is the third of all.
        let field = |place: usize| fields.get(place - 3)?.parse::<i64>().ok();
        let (flags, user_ticks) = (field(9)?, field(14)?);
        let ticks = [user_ticks, field(15)?, field(16)?, field(17)?];
        Some(Self {
            number: number.parse().ok()?,
            is_of_kernel: flags & OF_KERNEL != 0,
            user_ticks,
            ticks: ticks.iter().fold(0, |sum, ticks| sum.saturating_add(*ticks)),
        })
    }
}

/// What all programs have used of all processors in user mode, from the text of `/proc/stat`
/// (`proc_stat(5)`): the fields user and nice.
fn in_user_mode(text: &str) -> Option<i64> {
    let mut fields = text.lines().next()?.split_ascii_whitespace();
    fields.next().filter(|name| *name == "cpu")?;
    let mut next = || fields.next()?.parse::<i64>().ok();
    Some(next()?.saturating_add(next()?))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tempfile::TempDir;

    use super::*;

    /// A directory like `/proc`, where each program has this number, these flags, and used so much.
    fn made(programs: &[(&str, i64, [i64; 4])]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, flags, [user, system, user_of_ended, system_of_ended]) in programs {
            fs::create_dir(dir.path().join(name)).unwrap();
            let number = if *name == "self" { "77" } else { name };
            let text = format!(
                "{number} (a ) b) S 1 1 1 0 -1 {flags} 9 9 9 9 {user} {system} {user_of_ended} \
                 {system_of_ended} 20 0 1 0 32\n"
            );
            fs::write(dir.path().join(name).join("stat"), text).unwrap();
        }
        fs::create_dir(dir.path().join("net")).unwrap();
        fs::write(dir.path().join("stat"), "cpu  1000 200 3000 4000\ncpu0 1 2 3 4\n").unwrap();
        dir
    }

    const THIS: (&str, i64, [i64; 4]) = ("self", 0x40_0000, [70, 30, 0, 0]);

    #[test]
    fn programs_count_with_their_children_and_neither_this_one_nor_the_kernel() {
        let kernel = ("2", OF_KERNEL | 0x8040, [1, 16, 0, 0]);
        let of_this = ("77", 0x40_0000, [70, 30, 0, 0]);
        let other = |ticks| ("900", 0x40_0000, ticks);
        let worker = |ticks| ("12", OF_KERNEL, [0, ticks, 0, 0]);
        let used = |programs: &[_]| Used::read(made(programs).path()).unwrap();
        let before = used(&[THIS, kernel, of_this, other([1, 2, 3, 4]), worker(5)]);
        assert_eq!(before, Used::ByPrograms(10));
        let after = used(&[THIS, kernel, of_this, other([11, 4, 3, 7]), worker(500)]);
        assert_eq!((after.since(before), before.since(after)), (Some(15), Some(0)));
    }

    #[test]
    fn where_other_programs_cannot_be_seen_time_in_user_mode_counts() {
        // In a container the number of the thread of the kernel is that of any program.
        for programs in [&[THIS][..], &[THIS, ("2", 0x40_0000, [5, 5, 5, 5])]] {
            assert_eq!(Used::read(made(programs).path()), Some(Used::InUserMode(1130)));
        }
        assert_eq!(Used::InUserMode(1).since(Used::ByPrograms(0)), None);
        assert_eq!(Used::read(tempfile::tempdir().unwrap().path()), None);
        for text in ["", "cpu", "cpu 1", "cpu0 1 2 3", "cpu 1 x 3"] {
            assert_eq!(in_user_mode(text), None, "{text:?}");
        }
        for text in ["", "1 (a", "1 (a) S 1 1", "x (a) S 1 1 1 0 -1 0 9 9 9 9 1 2 3 4"] {
            assert_eq!(Program::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_share_is_per_time_and_what_this_program_does_is_none_of_it() {
        let begin = Instant::now();
        let at = |seconds: f64, ticks: f64| Others {
            at: begin + Duration::from_secs_f64(seconds),
            used: Used::ByPrograms((ticks * rustix::param::clock_ticks_per_second() as f64) as i64),
        };
        let share = at(3.0, 4.0).share_since(&at(1.0, 1.0)).unwrap();
        assert!((share - 1.5).abs() < 0.01, "{share}");
        assert_eq!(at(1.0, 4.0).share_since(&at(1.0, 1.0)), None);
        assert_eq!(at(0.0, 4.0).share_since(&at(1.0, 1.0)), None);
    }
}
