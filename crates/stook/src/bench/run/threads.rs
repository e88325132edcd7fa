//! [`Threads`]: what every thread of a run uses of the processors, and how long it waits for one,
//! also those that no job knows of: the pool of an engine, and the workers that the kernel starts
//! for a ring.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::num::NonZeroU32;

use super::Shares;

/// Where the system lists the threads of this process.
const TASKS: &str = "/proc/self/task";
const THIS_THREAD: &str = "/proc/thread-self/schedstat";
/// How long a thread that is woken may wait until an idle processor takes it: tens of microseconds
/// in virtual machines. A quota stops threads for milliseconds.
const WAKING_MAX_NS: f64 = 50e3;

/// What a thread has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Spent {
    /// On a processor.
    pub(super) cpu_ns: u64,
    /// Ready, and waiting for one.
    pub(super) waiting_ns: u64,
    /// How often it got one.
    slices: u64,
}

/// Looks at all threads but those that were there before the run.
#[derive(Debug)]
pub(super) struct Threads {
    /// They are not threads of the run.
    others: BTreeSet<u32>,
    /// When, and what each had done by then.
    first: Option<(u64, BTreeMap<u32, Spent>)>,
    /// The same when each was last seen: an ended thread keeps its last values.
    last: BTreeMap<u32, (u64, Spent)>,
    /// The process that traced one of them at a look.
    tracer: Option<NonZeroU32>,
}

impl Threads {
    /// Notes who is there already.
    pub(super) fn now() -> Self {
        Self { others: numbers().collect(), first: None, last: BTreeMap::new(), tracer: None }
    }

    /// Reads the clocks of all threads; the first look is what later ones are counted from.
    pub(super) fn look(&mut self, now_ns: u64) {
        let ours: Vec<u32> = numbers().filter(|thread| !self.others.contains(thread)).collect();
        self.tracer = self.tracer.or_else(|| ours.iter().find_map(|&thread| tracer_of(thread)));
        // A thread that ends meanwhile has no file any more.
        let spent = ours.into_iter().filter_map(|thread| Some((thread, Spent::of(thread)?)));
        if self.first.is_none() {
            self.first = Some((now_ns, spent.collect()));
        } else {
            self.last.extend(spent.map(|(thread, spent)| (thread, (now_ns, spent))));
        }
    }

    /// The process that traced any of them when they were looked at: a debugger, or `strace`. It
    /// can stop one thread alone, which no clock counts: a stopped thread sleeps.
    pub(super) fn tracer(&self) -> Option<NonZeroU32> {
        self.tracer
    }

    /// Processor time of the busiest one ÷ time, between the first and the last look at it; `None`
    /// if that is not known: if the system does not report it, or there was only one look.
    pub(super) fn busiest_share(&self) -> Option<f64> {
        self.shares().iter().map(|shares| shares.cpu).reduce(f64::max)
    }

    /// What each did in that time; nothing where that is not known.
    pub(super) fn shares(&self) -> Vec<Shares> {
        let Some((since_ns, first)) = self.first.as_ref() else { return Vec::new() };
        let share = |(thread, (now_ns, spent)): (&u32, &(u64, Spent))| {
            let passed_ns = now_ns.checked_sub(*since_ns).filter(|passed_ns| *passed_ns > 0)?;
            // A thread that began later had done nothing.
            let before = first.get(thread).copied().unwrap_or_default();
            Some(spent.since(before).of_time(passed_ns))
        };
        self.last.iter().filter_map(share).collect()
    }
}

impl Spent {
    /// Of the calling thread, where the system reports it.
    pub(super) fn of_this_thread() -> Option<Self> {
        Self::parse(&fs::read_to_string(THIS_THREAD).ok()?)
    }

    fn of(thread: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("{TASKS}/{thread}/schedstat")).ok()?)
    }

    /// Time on a processor, on a queue for one, and number of slices, as
    /// `Documentation/scheduler/sched-stats.rst` of Linux says. All three are 0 in kernels that do
    /// not count: who asks has had a slice.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split_ascii_whitespace().map(|field| field.parse::<u64>().ok());
        let mut next = || fields.next().flatten();
        let (cpu_ns, waiting_ns, slices) = (next()?, next()?, next()?);
        (slices > 0).then_some(Self { cpu_ns, waiting_ns, slices })
    }

    /// What was done since.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            waiting_ns: self.waiting_ns.saturating_sub(before.waiting_ns),
            slices: self.slices.saturating_sub(before.slices),
        }
    }

    /// Each ÷ the time in which it was done.
    pub(super) fn of_time(self, passed_ns: u64) -> Shares {
        let share = |ns: f64| ns / passed_ns as f64;
        Shares {
            cpu: share(self.cpu_ns as f64),
            waiting: share(self.waiting_ns as f64),
            waking: share(self.slices as f64 * WAKING_MAX_NS),
        }
    }
}

/// Who traces a thread, by its field `TracerPid`.
fn tracer_of(thread: u32) -> Option<NonZeroU32> {
    traced_by(&fs::read_to_string(format!("{TASKS}/{thread}/status")).ok()?)
}

fn traced_by(status: &str) -> Option<NonZeroU32> {
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    NonZeroU32::new(tracer.trim().parse().ok()?)
}

/// The threads of this process.
fn numbers() -> impl Iterator<Item = u32> {
    let tasks = fs::read_dir(TASKS).into_iter().flatten();
    tasks.filter_map(Result::ok).filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;

    /// Looks at the threads that `work` runs in, for so long.
    fn watched(time: Duration, threads: usize, work: impl Fn(&AtomicBool) + Sync) -> Threads {
        let ended = AtomicBool::new(false);
        let mut seen = Threads::now();
        let begin = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| work(&ended));
            }
            seen.look(begin.elapsed().as_nanos() as u64);
            std::thread::sleep(time);
            seen.look(begin.elapsed().as_nanos() as u64);
            ended.store(true, Ordering::Relaxed);
        });
        seen
    }

    fn spin(ended: &AtomicBool) {
        while !ended.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn a_thread_that_never_rests_is_found_and_one_from_before_is_not() {
        let found = watched(Duration::from_millis(100), 1, spin);
        assert!(found.busiest_share().is_some_and(|share| share > 0.0), "{found:?}");
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (begun, is_running) = std::sync::mpsc::channel();
            let ended = &ended;
            scope.spawn(move || {
                begun.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                spin(ended);
            });
            let number = u32::try_from(is_running.recv().unwrap()).unwrap();
            let mut after = Threads::now();
            (1..4).for_each(|now_ns| after.look(now_ns));
            ended.store(true, Ordering::Relaxed);
            assert!(!after.last.contains_key(&number), "it was there before");
        });
    }

    /// Before: beside a busy loop on the same processor the 99th percentile was 885 µs against
    /// 52–121 µs, and the run counted as valid, because only the use of processors was looked at.
    #[test]
    fn threads_that_share_a_processor_wait_for_it() {
        // Whichever this thread may use: not every set begins with 0.
        let allowed = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|&processor| allowed.is_set(processor)).unwrap();
        let mut one = CpuSet::new();
        one.set(first);
        let found = watched(Duration::from_millis(500), 2, |ended| {
            sched_setaffinity(None, &one).unwrap();
            spin(ended);
        });
        // Half of the time each, if nothing else runs; more, if something does.
        assert!(found.shares().iter().any(|shares| shares.waiting > 0.2), "{found:?}");
    }

    #[test]
    fn the_tracer_of_a_thread_is_what_its_status_says() {
        let status = |tracer: &str| format!("Name:\tstook\nPid:\t7\nTracerPid:\t{tracer}\nUid:\t0\n");
        assert_eq!(traced_by(&status("4711")), NonZeroU32::new(4711));
        for other in ["0", "", "-1", "x"] {
            assert_eq!(traced_by(&status(other)), None, "{other}");
        }
        assert_eq!(traced_by("Name:\tTracerPid: 5\n"), None);
    }

    #[test]
    fn a_thread_that_has_ended_still_counts_for_as_long_as_it_was_seen() {
        let threads = Threads {
            others: BTreeSet::new(),
            first: Some((1000, BTreeMap::from([(1, spent(50, 7))]))),
            last: BTreeMap::from([(1, (1200, spent(150, 27))), (2, (2000, spent(100, 300)))]),
            tracer: None,
        };
        assert_eq!(threads.busiest_share(), Some(0.5));
        let share = |cpu, waiting| Shares { cpu, waiting, waking: 0.0 };
        let shares = [share(0.5, 0.1), share(0.1, 0.3)];
        assert_eq!(threads.shares(), shares);
    }

    fn spent(cpu_ns: u64, waiting_ns: u64) -> Spent {
        Spent { cpu_ns, waiting_ns, slices: 0 }
    }

    #[test]
    fn a_kernel_that_does_not_count_tells_nothing() {
        assert_eq!(Spent::parse("12 34 5\n"), Some(Spent { slices: 5, ..spent(12, 34) }));
        let waking = Spent { slices: 5, ..spent(12, 34) }.of_time(1_000_000).waking;
        assert!((waking - 0.25).abs() < 1e-9, "{waking}");
        assert_eq!((Spent::parse("0 0 0\n"), Spent::parse("1 2"), Spent::parse("")), (None, None, None));
    }
}
