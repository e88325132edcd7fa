//! [`Threads`]: what every thread of a run uses of the processors, and how long it waits for one,
//! also those that no job knows of: the pool of an engine, and the workers that the kernel starts
//! for a ring.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::clock::thread_cpu_ns;

/// Where the system lists the threads of this process.
const TASKS: &str = "/proc/self/task";
const THIS_THREAD: &str = "/proc/thread-self/schedstat";
const PROCESSORS: &str = "/proc/stat";

/// What a thread has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Spent {
    /// On a processor.
    pub(super) cpu_ns: u64,
    /// Ready, and waiting for one.
    pub(super) waiting_ns: u64,
}

/// When threads were looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Moment {
    at_ns: u64,
    /// What all threads of the machine but the one that looks had used of the processors by then,
    /// where the system tells.
    busy_ns: Option<u64>,
}

/// Looks at all threads but those that were there before the run.
#[derive(Debug)]
pub(super) struct Threads {
    /// They belong to somebody else.
    others: BTreeSet<u32>,
    first: Option<(Moment, BTreeMap<u32, Spent>)>,
    /// What each had done when it was seen last: one that has ended is still what it was.
    last: BTreeMap<u32, (Moment, Spent)>,
}

impl Threads {
    /// Notes who is there already.
    pub(super) fn now() -> Self {
        Self { others: numbers().collect(), first: None, last: BTreeMap::new() }
    }

    /// Reads the clocks of all threads; the first look is what later ones are counted from.
    pub(super) fn look(&mut self, now_ns: u64) {
        let ours = numbers().filter(|thread| !self.others.contains(thread));
        // A thread that ends meanwhile has no file any more.
        let spent = ours.filter_map(|thread| Some((thread, Spent::of(thread)?)));
        let now = Moment { at_ns: now_ns, busy_ns: busy_but_for_this_thread_ns() };
        if self.first.is_none() {
            self.first = Some((now, spent.collect()));
        } else {
            self.last.extend(spent.map(|(thread, spent)| (thread, (now, spent))));
        }
    }

    /// Processor time of the busiest one ÷ time, from the first look to the last of it; nothing
    /// where that is not known: on a system that does not tell, and where there was one look only.
    pub(super) fn busiest_share(&self) -> Option<f64> {
        self.greatest_share(|spent, _| spent.cpu_ns)
    }

    /// The same of what [`Spent::kept_waiting_ns`] says.
    pub(super) fn waiting_share(&self, stopped_ns: u64) -> Option<f64> {
        self.greatest_share(|spent, busy_ns| spent.kept_waiting_ns(busy_ns, stopped_ns))
    }

    fn greatest_share(&self, of: impl Fn(Spent, Option<u64>) -> u64) -> Option<f64> {
        let (since, first) = self.first.as_ref()?;
        let share = |(thread, (moment, spent)): (&u32, &(Moment, Spent))| {
            let passed_ns = moment.at_ns.checked_sub(since.at_ns).filter(|passed_ns| *passed_ns > 0)?;
            let busy_ns = moment.busy_ns.zip(since.busy_ns).map(|(now, then)| now.saturating_sub(then));
            // A thread that began later had done nothing.
            let before = first.get(thread).copied().unwrap_or_default();
            Some(of(spent.since(before), busy_ns) as f64 / passed_ns as f64)
        };
        self.last.iter().filter_map(share).reduce(f64::max)
    }
}

/// What all threads of the machine but the calling one have used of the processors, where the
/// system tells. The one that looks lets others go first ([`Pace`](super::pace::Pace)): nobody
/// waits for it.
pub(super) fn busy_but_for_this_thread_ns() -> Option<u64> {
    let busy_ns = fs::read_to_string(PROCESSORS).ok().and_then(busy_ns)?;
    Some(busy_ns.saturating_sub(thread_cpu_ns()))
}

/// What all threads have used of all processors, from the text of `/proc/stat` (`proc(5)`): user,
/// nice and system. Interrupts are not among them.
fn busy_ns(text: impl AsRef<str>) -> Option<u64> {
    let mut fields = text.as_ref().lines().next()?.split_ascii_whitespace();
    fields.next().filter(|name| *name == "cpu")?;
    let ticks: Option<Vec<u64>> = fields.take(3).map(|field| field.parse().ok()).collect();
    let ticks: u64 = ticks.filter(|ticks| ticks.len() == 3)?.iter().sum();
    ticks.checked_mul(1_000_000_000)?.checked_div(rustix::param::clock_ticks_per_second())
}

impl Spent {
    /// Of the calling thread, where the system tells.
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
        (slices > 0).then_some(Self { cpu_ns, waiting_ns })
    }

    /// For how long a thread was ready and waited for a processor that other threads used, those of
    /// its own process among them, or that a quota kept from it. `busy_ns` is what all threads used
    /// meanwhile, this one included, and `stopped_ns` for how long a quota stopped the process.
    ///
    /// Where many requests end at once, a thread that they wake waits until the kernel is done with
    /// all of them, too: that belongs to the requests, and is what is beyond these two.
    pub(super) fn kept_waiting_ns(self, busy_ns: Option<u64>, stopped_ns: u64) -> u64 {
        let others_ns = busy_ns.map_or(u64::MAX, |busy_ns| busy_ns.saturating_sub(self.cpu_ns));
        self.waiting_ns.min(others_ns.saturating_add(stopped_ns))
    }

    /// What was done since.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            waiting_ns: self.waiting_ns.saturating_sub(before.waiting_ns),
        }
    }
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
        // Half of the time each, where nobody else is there; more, where somebody is.
        assert!(found.waiting_share(0).is_some_and(|share| share > 0.2), "{found:?}");
    }

    #[test]
    fn a_thread_that_has_ended_still_counts_for_as_long_as_it_was_seen() {
        let threads = Threads {
            others: BTreeSet::new(),
            first: Some((at(1000, None), BTreeMap::from([(1, spent(50, 7))]))),
            last: BTreeMap::from([
                (1, (at(1200, None), spent(150, 27))),
                (2, (at(2000, None), spent(100, 300))),
            ]),
        };
        assert_eq!((threads.busiest_share(), threads.waiting_share(0)), (Some(0.5), Some(0.3)));
    }

    fn spent(cpu_ns: u64, waiting_ns: u64) -> Spent {
        Spent { cpu_ns, waiting_ns }
    }

    fn at(at_ns: u64, busy_ns: Option<u64>) -> Moment {
        Moment { at_ns, busy_ns }
    }

    /// Before: at depth 256 and 1024 every run on a quiet machine was refused, because the one
    /// thread waited 9% of the time while the kernel ended many of its requests at once.
    #[test]
    fn waiting_counts_as_far_as_other_threads_used_a_processor() {
        let waiting = |busy_ns: u64| {
            let first = Some((at(0, Some(500)), BTreeMap::new()));
            let last = BTreeMap::from([(1, (at(1000, Some(500 + busy_ns)), spent(260, 100)))]);
            Threads { others: BTreeSet::new(), first, last }.waiting_share(0)
        };
        assert_eq!((waiting(270), waiting(300), waiting(1260)), (Some(0.01), Some(0.04), Some(0.1)));
    }

    /// Before: the clock of a job's own thread was asked without that bound, and its waiting
    /// counted in full.
    #[test]
    fn what_a_quota_kept_from_a_thread_counts_as_well() {
        let waited = |busy_ns, stopped_ns| spent(260, 100).kept_waiting_ns(busy_ns, stopped_ns);
        assert_eq!((waited(Some(270), 0), waited(Some(270), 70), waited(Some(270), 700)), (10, 80, 100));
        assert_eq!((waited(Some(200), 0), waited(Some(200), 30)), (0, 30), "ticks are coarse");
        assert_eq!((waited(None, 0), waited(None, u64::MAX)), (100, 100), "who used it is not known");
    }

    #[test]
    fn what_threads_use_of_all_processors_is_the_sum_of_three_fields() {
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        let text = "cpu  10 2 30 4000 5 60 7 0 0 0\ncpu0 5 1 15 2000 2 30 3 0 0 0\n";
        assert_eq!(busy_ns(text), Some(42 * tick_ns));
        for other in ["", "cpu", "cpu 1 2", "cpu0 1 2 3 4", "cpu 1 x 3"] {
            assert_eq!(busy_ns(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_kernel_that_does_not_count_tells_nothing() {
        assert_eq!(Spent::parse("12 34 5\n"), Some(Spent { cpu_ns: 12, waiting_ns: 34 }));
        assert_eq!((Spent::parse("0 0 0\n"), Spent::parse("1 2"), Spent::parse("")), (None, None, None));
    }
}
