//! [`Others`]: what other programs use of the processors.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use rustix::thread::{CpuSet, sched_getaffinity};

const PROC: &str = "/proc";
/// Begins all other threads of the kernel.
const KTHREADD: &str = "2";
/// `PF_KTHREAD` of `include/linux/sched.h`.
const OF_KERNEL: i64 = 0x0020_0000;

/// What other programs had used of the processors at a moment.
#[derive(Debug, Clone)]
pub(super) struct Others {
    at: Instant,
    used: Used,
}

/// Processor time ÷ time: more than 1 on several processors.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct OthersShare {
    /// The use by other programs of the processors that this one may use: lower and upper bound.
    /// Kernel threads are excluded as far as they can be distinguished: they work for any program,
    /// mostly for this one.
    pub(super) least: f64,
    pub(super) most: f64,
    /// The use of these processors by all programs, with that by interrupts, and what a hypervisor
    /// took away.
    pub(super) by_anybody: f64,
}

/// Processor time, in ticks of the system.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Used {
    /// Of each other program, by its number and the moment when it began: with its children that
    /// ended and that it waited for. `None` in a container, where other programs cannot be seen:
    /// system-wide work for them cannot be separated from that for this program.
    programs: Option<BTreeMap<(i64, i64), i64>>,
    /// Of this program.
    own: Ticks,
    /// Of everybody, on the processors that this program may use.
    allowed: Ticks,
    /// The same on the others.
    elsewhere: Ticks,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Ticks {
    user: i64,
    /// In the system, for programs and for itself.
    system: i64,
    /// Of processors: in interrupts, or taken away by a hypervisor.
    taken: i64,
}

impl Others {
    /// The current values, if the system reports them.
    pub(super) fn now() -> Option<Self> {
        let allowed = sched_getaffinity(None).ok()?;
        let is_allowed = |processor: usize| processor < CpuSet::MAX_CPU && allowed.is_set(processor);
        Some(Self { at: Instant::now(), used: Used::read(Path::new(PROC), is_allowed)? })
    }

    /// What was used since `before`.
    pub(super) fn share_since(&self, before: &Self) -> Option<OthersShare> {
        let seconds = self.at.checked_duration_since(before.at)?.as_secs_f64();
        let per_tick = 1.0 / rustix::param::clock_ticks_per_second() as f64 / seconds;
        let [least, most, by_anybody] = self.used.since(&before.used)?.map(|ticks| ticks as f64 * per_tick);
        (seconds > 0.0).then_some(OthersShare { least, most, by_anybody })
    }
}

impl Used {
    fn read(proc: &Path, is_allowed: impl Fn(usize) -> bool) -> Option<Self> {
        let this = Program::read(&proc.join("self"))?;
        let (allowed, elsewhere) = of_processors(&fs::read_to_string(proc.join("stat")).ok()?, is_allowed)?;
        let sees_kernel = Program::read(&proc.join(KTHREADD)).is_some_and(|program| program.is_of_kernel);
        let programs = if sees_kernel { Some(others(proc, this.number)?) } else { None };
        Some(Self { programs, own: this.own, allowed, elsewhere })
    }

    /// The use since then by other programs of the processors that this one may use, as lower and
    /// upper bound, and the use by all programs; `None` if the two were not read in the same way.
    fn since(&self, before: &Self) -> Option<[i64; 3]> {
        let own = self.own.since(before.own);
        let allowed = self.allowed.since(before.allowed);
        let by_anybody = allowed.all().saturating_add(allowed.taken);
        let (now, then) = match (&self.programs, &before.programs) {
            (Some(now), Some(then)) => (now, then),
            (None, None) => {
                let in_user_mode = allowed.user.saturating_sub(own.user).max(0);
                return Some([in_user_mode, in_user_mode, by_anybody]);
            }
            _ => return None,
        };
        // One that is new began with nothing.
        let used_then = |program: &(i64, i64)| then.get(program).copied().unwrap_or(0);
        let added = now.iter().map(|(program, ticks)| ticks.saturating_sub(used_then(program)).max(0));
        let known = added.fold(0, i64::saturating_add);
        let mut gone = then.iter().filter(|&(program, _)| !now.contains_key(program)).peekable();
        // The program that waited for an ended one inherits all of its use, including earlier use.
        // If none waited for it, its use is in no program any more: only the processor counters
        // include it.
        let on_allowed = allowed.all().saturating_sub(own.all()).max(0);
        let elsewhere = self.elsewhere.since(before.elsewhere).all();
        // A program's own use is exact, and that of processors is who was there at each tick. What
        // rests at every tick is in the first only, and which processor it used is not known.
        let avoids_ticks = known / 2 > on_allowed.saturating_add(elsewhere);
        let most = match gone.peek() {
            Some(_) => on_allowed,
            None if avoids_ticks => known,
            None => known.min(on_allowed),
        };
        let used_before = gone.fold(0i64, |sum, (_, ticks)| sum.saturating_add(*ticks));
        let sure = known.saturating_sub(used_before).saturating_sub(elsewhere);
        let least = sure.min(most).min(on_allowed).max(0);
        Some([least, most, by_anybody])
    }
}

impl Ticks {
    fn all(self) -> i64 {
        self.user.saturating_add(self.system)
    }

    fn since(self, before: Self) -> Self {
        self.each(before, i64::saturating_sub)
    }

    fn each(self, other: Self, of: fn(i64, i64) -> i64) -> Self {
        let (user, system) = (of(self.user, other.user), of(self.system, other.system));
        Self { user, system, taken: of(self.taken, other.taken) }
    }
}

/// What each program but this one, of those that are not threads of the kernel, used so far.
fn others(proc: &Path, this: i64) -> Option<BTreeMap<(i64, i64), i64>> {
    let entries = fs::read_dir(proc).ok()?.filter_map(Result::ok);
    let numbered =
        entries.filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit));
    // One that has ended meanwhile has no file any more.
    let programs = numbered.filter_map(|entry| Program::read(&entry.path()));
    let others = programs.filter(|program| !program.is_of_kernel && program.number != this);
    Some(others.map(|program| ((program.number, program.began), program.ticks())).collect())
}

/// A program, as the file `stat` in its directory says (`proc_pid_stat(5)`).
#[derive(Debug, PartialEq, Eq)]
struct Program {
    number: i64,
    /// In ticks since the system began.
    began: i64,
    is_of_kernel: bool,
    /// Of all its threads.
    own: Ticks,
    /// Of its children that ended, and that it waited for.
    of_ended: Ticks,
}

impl Program {
    fn read(directory: &Path) -> Option<Self> {
        // A name may be any bytes.
        Self::parse(&String::from_utf8_lossy(&fs::read(directory.join("stat")).ok()?))
    }

    fn parse(text: &str) -> Option<Self> {
        let (number, _) = text.split_once(' ')?;
        // The name is in brackets, and may contain brackets.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The first of these is the third of all.
        let field = |place: usize| fields.get(place - 3)?.parse::<i64>().ok();
        Some(Self {
            number: number.parse().ok()?,
            began: field(22)?,
            is_of_kernel: field(9)? & OF_KERNEL != 0,
            own: Ticks { user: field(14)?, system: field(15)?, taken: 0 },
            of_ended: Ticks { user: field(16)?, system: field(17)?, taken: 0 },
        })
    }

    fn ticks(&self) -> i64 {
        self.own.all().saturating_add(self.of_ended.all())
    }
}

/// What was used of the processors that a program may use, and of the others, from the text of
/// `/proc/stat` (`proc_stat(5)`): the fields user and nice, and system; and irq, softirq and
/// steal, which old kernels lack. `None` where it names none
/// that may be used.
fn of_processors(text: &str, is_allowed: impl Fn(usize) -> bool) -> Option<(Ticks, Ticks)> {
    let (mut allowed, mut elsewhere) = (None, Ticks::default());
    for line in text.lines() {
        let Some((processor, ticks)) = of_processor(line) else { continue };
        if is_allowed(processor) {
            let so_far: Ticks = allowed.unwrap_or_default();
            allowed = Some(so_far.each(ticks, i64::saturating_add));
        } else {
            elsewhere = elsewhere.each(ticks, i64::saturating_add);
        }
    }
    Some((allowed?, elsewhere))
}

/// A line of one processor: `cpu0 10 0 5 80`.
fn of_processor(line: &str) -> Option<(usize, Ticks)> {
    let mut fields = line.split_ascii_whitespace();
    let processor = fields.next()?.strip_prefix("cpu")?.parse().ok()?;
    let mut next = || fields.next()?.parse::<i64>().ok();
    let (user, nice, system) = (next()?, next()?, next()?);
    let (_idle, _iowait) = (next(), next());
    let taken = [next(), next(), next()].into_iter().flatten().fold(0, i64::saturating_add);
    Some((processor, Ticks { user: user.saturating_add(nice), system, taken }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tempfile::TempDir;

    use super::*;

    /// A directory like `/proc`, where each program has this number, flags, start time and use: in
    /// user mode, in the system, and the same of its children. Two processors have this use.
    fn made(programs: &[(&str, i64, i64, [i64; 4])], processors: [[i64; 2]; 2]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, flags, began, [user, system, user_of_ended, system_of_ended]) in programs {
            fs::create_dir(dir.path().join(name)).unwrap();
            let number = if *name == "self" { "77" } else { name };
            let text = format!(
                "{number} (a ) b) S 1 1 1 0 -1 {flags} 9 9 9 9 {user} {system} {user_of_ended} \
                 {system_of_ended} 20 0 1 0 {began} 7\n"
            );
            fs::write(dir.path().join(name).join("stat"), text).unwrap();
        }
        fs::create_dir(dir.path().join("net")).unwrap();
        let [first, second] = processors.map(|[user, system]| format!("{user} 0 {system} 4000 0 0 0 0 0 0"));
        let text = format!("cpu  1 2 3 4\ncpu0 {first}\ncpu1 {second}\nintr 5\n");
        fs::write(dir.path().join("stat"), text).unwrap();
        dir
    }

    const KERNEL: (&str, i64, i64, [i64; 4]) = ("2", OF_KERNEL | 0x8040, 0, [1, 16, 0, 0]);
    const PROGRAM: i64 = 0x40_0000;

    fn this(user: i64, system: i64) -> (&'static str, i64, i64, [i64; 4]) {
        ("self", PROGRAM, 32, [user, system, 0, 0])
    }

    fn other(name: &'static str, began: i64, ticks: [i64; 4]) -> (&'static str, i64, i64, [i64; 4]) {
        (name, PROGRAM, began, ticks)
    }

    /// With both processors for this program.
    fn read(programs: &[(&str, i64, i64, [i64; 4])], processors: [[i64; 2]; 2]) -> Used {
        Used::read(made(programs, processors).path(), |_| true).unwrap()
    }

    #[test]
    fn programs_count_with_their_children_and_neither_this_one_nor_the_kernel() {
        let of_this = ("77", PROGRAM, 32, [70, 30, 0, 0]);
        let worker = |ticks| ("12", OF_KERNEL, 1, [0, ticks, 0, 0]);
        let first = other("900", 50, [1, 2, 3, 4]);
        let before = read(&[this(70, 30), KERNEL, of_this, first, worker(5)], [[500, 500]; 2]);
        assert_eq!(before.programs, Some(BTreeMap::from([((900, 50), 10)])));
        let later = [this(80, 40), KERNEL, of_this, other("900", 50, [11, 4, 3, 7]), worker(500)];
        let after = read(&later, [[600, 700], [500, 500]]);
        assert_eq!(after.since(&before), Some([15, 15, 300]));
        // One that began meanwhile counts as a whole, also under a number that was another's.
        let new = [this(80, 40), KERNEL, first, other("901", 60, [20, 5, 0, 0])];
        assert_eq!(read(&new, [[600, 700], [500, 500]]).since(&before), Some([25, 25, 300]));
    }

    /// Before: the sum over all programs went down by what this one had used, others counted as
    /// nothing, and a run beside a busy loop was valid: `processor_wait` read 0.0%.
    #[test]
    fn a_program_that_ended_and_that_nobody_waited_for_takes_nothing_with_it() {
        let parent = |of_ended| other("900", 50, [0, 0, of_ended, 0]);
        let child = other("901", 51, [1370, 0, 0, 0]);
        let before = read(&[this(10, 10), KERNEL, parent(0), child], [[2000, 100], [300, 100]]);
        // It used 100 ticks more; this program 40, and the kernel 30.
        let processors = [[2110, 130], [300, 130]];
        let lost = read(&[this(20, 40), KERNEL, parent(0)], processors).since(&before);
        assert_eq!(lost, Some([0, 130, 170]), "what was used by anybody but this program, at most");
        // Its parent waited for it, and has inherited its earlier use as well.
        let waited_for = read(&[this(20, 40), KERNEL, parent(1470)], processors).since(&before);
        assert_eq!(waited_for, Some([100, 130, 170]));
        // Its number is another's by now, which has used more.
        let again = other("901", 7000, [1400, 0, 0, 0]);
        let [least, most, _] =
            read(&[this(20, 40), KERNEL, parent(0), again], processors).since(&before).unwrap();
        assert!(least <= 100 && most == 130, "{least} {most}");
    }

    /// Before: what programs used of any processor of the machine counted.
    #[test]
    fn only_what_was_used_of_the_processors_that_this_program_may_use_counts() {
        let on_first = |programs: &[_], processors| {
            Used::read(made(programs, processors).path(), |processor| processor == 0).unwrap()
        };
        let before = on_first(&[this(0, 0), KERNEL, other("900", 50, [0; 4])], [[0, 0]; 2]);
        // The other one ran on the second processor, or on both.
        let programs = [this(10, 20), KERNEL, other("900", 50, [200, 0, 0, 0])];
        assert_eq!(on_first(&programs, [[10, 20], [200, 0]]).since(&before), Some([0, 0, 30]));
        assert_eq!(on_first(&programs, [[110, 20], [100, 0]]).since(&before), Some([100, 100, 130]));
    }

    /// Before: such a program hid between the ticks: beside it a run was valid whose thread had
    /// waited for half of its time.
    #[test]
    fn a_program_that_rests_at_every_tick_is_not_taken_for_an_idle_one() {
        let before = read(&[this(0, 0), KERNEL, other("900", 50, [0; 4])], [[0, 0]; 2]);
        let seen = |used, processors| {
            read(&[this(10, 20), KERNEL, other("900", 50, [used, 0, 0, 0])], processors).since(&before)
        };
        assert_eq!(seen(100, [[10, 20], [0, 0]]), Some([0, 100, 30]));
        assert_eq!(seen(100, [[14, 20], [6, 0]]), Some([10, 100, 40]));
        // Ticks that miss some of it, by chance, are as good as any.
        assert_eq!(seen(100, [[60, 20], [0, 0]]), Some([50, 50, 80]));
    }

    #[test]
    fn where_other_programs_cannot_be_seen_time_in_user_mode_counts() {
        // In a container the number of the thread of the kernel is that of any program.
        for programs in [&[this(70, 30)][..], &[this(70, 30), other("2", 5, [5, 5, 5, 5])]] {
            let before = read(programs, [[1000, 10], [200, 10]]);
            assert_eq!(before.programs, None);
            let after = read(&[this(90, 80)], [[1100, 60], [210, 20]]);
            assert_eq!(after.since(&before), Some([90, 90, 170]));
            assert_eq!(read(&[this(90, 80), KERNEL], [[1100, 60]; 2]).since(&before), None);
        }
        assert_eq!(Used::read(tempfile::tempdir().unwrap().path(), |_| true), None);
        assert_eq!(Used::read(made(&[this(1, 1)], [[1, 1]; 2]).path(), |_| false), None);
        // Interrupts and what a hypervisor took are no program's.
        let taken = of_processor("cpu1 1 2 3 4 5 6 7 8 9 10").unwrap();
        assert_eq!(taken, (1, Ticks { user: 3, system: 3, taken: 21 }));
        assert_eq!(of_processor("cpu1 1 2 3").unwrap().1.taken, 0);
        for line in ["", "cpu 1 2 3", "cpu1", "cpu1 1 2", "cpux 1 2 3", "cpu1 1 x 3"] {
            assert_eq!(of_processor(line), None, "{line:?}");
        }
        for text in ["", "1 (a", "1 (a) S 1 1", "x (a) S 1 1 1 0 -1 0 9 9 9 9 1 2 3 4 20 0 1 0 32"] {
            assert_eq!(Program::parse(text), None, "{text:?}");
        }
    }

    /// The use of one other program after this many seconds.
    fn at(begin: Instant, seconds: f64, used_s: f64) -> Others {
        let ticks = |s: f64| (s * rustix::param::clock_ticks_per_second() as f64) as i64;
        let used = Used {
            programs: Some(BTreeMap::from([((900, 50), ticks(used_s))])),
            own: Ticks::default(),
            allowed: Ticks { user: ticks(used_s), ..Ticks::default() },
            elsewhere: Ticks::default(),
        };
        Others { at: begin + Duration::from_secs_f64(seconds), used }
    }

    #[test]
    fn a_share_is_per_time() {
        let begin = Instant::now();
        let share = at(begin, 3.0, 4.0).share_since(&at(begin, 1.0, 1.0)).unwrap();
        for share in [share.least, share.most, share.by_anybody] {
            assert!((share - 1.5).abs() < 0.01, "{share}");
        }
        assert_eq!(at(begin, 1.0, 4.0).share_since(&at(begin, 1.0, 1.0)), None);
        assert_eq!(at(begin, 0.0, 4.0).share_since(&at(begin, 1.0, 1.0)), None);
    }

    /// Before: others were counted from before the ramp: of a program that kept a processor busy
    /// for the 2 s that were measured, after a ramp of 60 s, a thirtieth was left.
    #[test]
    fn what_is_counted_from_the_end_of_the_ramp_is_not_thinned_by_it() {
        let begin = Instant::now();
        let (end_of_ramp, end) = (at(begin, 60.0, 0.0), at(begin, 62.0, 2.0));
        let share = end.share_since(&end_of_ramp).unwrap();
        assert!((share.most - 1.0).abs() < 0.01, "{share:?}");
        let with_ramp = end.share_since(&at(begin, 0.0, 0.0)).unwrap();
        assert!(with_ramp.most < 0.04, "{with_ramp:?}");
    }
}
