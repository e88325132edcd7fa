//! One cell, measured: a thread for each job, and one that watches them.
//!
//! The watching thread counts requests in flight about a thousand times a second (in open loops
//! half as often: `pace.rs` says why), at random moments, so that the mean is over time and
//! independent of the counts of the jobs. It reads the counters of the device, of the processors
//! and of control groups when measuring begins and when everything is done, and passes on
//! interruptions. It samples from the end of the ramp until nothing is in flight any more; rates
//! refer to this time.
//!
//! Dirty data is made durable before a cell that writes begins, and its own writes after its end.
//! This time is not part of the measured time, and is reported.

mod arrivals;
mod clock;
mod durability;
mod job;
mod offsets;
mod others;
mod pace;
mod policy;
mod quota;
mod record;
mod stops;
mod threads;
mod zipf;

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};
use std::thread::{self, Builder, ScopedJoinHandle};

use self::clock::{Clock, process_cpu_ns, thread_cpu_ns};
use self::durability::Durability;
use self::job::{JobOutcome, JobThread};
use self::others::{Others, OthersShare};
use self::pace::Pace;
use self::quota::Quota;
use self::stops::Stops;
use self::threads::Threads;
use super::error::{Error, Result};
use super::gates::{Looks, QuotaStop};
use super::layout::TestFile;
use super::limits::Limits;
use super::observer::Observer;
use super::random::Random;
use super::workload::Workload;
use crate::device::{Below, Counters, DeviceUse, DisksUse};
use crate::engine::EngineFactory;

pub(super) use self::record::{Record, TICK_NS, Tick};

/// The distance of two looks at what threads use of processors. Each reads a small file for every
/// thread.
const THREADS_EVERY_NS: u64 = 250_000_000;

/// What all threads of a cell share.
struct Shared {
    /// Which of all runs it is.
    turn: u64,
    clock: Clock,
    begin_ns: AtomicU64,
    ramp_ns: u64,
    /// `u64::MAX` when only a size ends it.
    time_ns: u64,
    /// Requests in flight, for each job.
    gauges: Vec<Gauge>,
    /// Everything is to end now.
    aborted: AtomicBool,
    /// Some job starts no more requests.
    draining: AtomicBool,
    /// How many jobs have nothing in flight any more, and start no more requests.
    drained: AtomicUsize,
    finished: AtomicUsize,
    direct_refused: AtomicBool,
}

/// A counter with a cache line to itself.
#[derive(Default)]
#[repr(align(128))]
struct Gauge(AtomicU32);

impl Shared {
    fn new(workload: &Workload, turn: u64) -> Self {
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        Self {
            turn,
            clock: Clock::start(),
            begin_ns: AtomicU64::new(0),
            ramp_ns: ns(workload.ramp_s),
            time_ns: workload.time_s.map_or(u64::MAX, ns),
            gauges: (0..workload.jobs).map(|_| Gauge::default()).collect(),
            aborted: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            drained: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
            direct_refused: AtomicBool::new(false),
        }
    }

    fn begin_ns(&self) -> u64 {
        self.begin_ns.load(Ordering::Relaxed)
    }

    fn measure_from_ns(&self) -> u64 {
        self.begin_ns().saturating_add(self.ramp_ns)
    }

    fn end_ns(&self) -> u64 {
        self.measure_from_ns().saturating_add(self.time_ns)
    }

    fn in_flight(&self, job: u32) -> &AtomicU32 {
        static UNUSED: AtomicU32 = AtomicU32::new(0);
        self.gauges.get(job as usize).map_or(&UNUSED, |gauge| &gauge.0)
    }

    fn all_in_flight(&self) -> u64 {
        self.gauges.iter().map(|gauge| u64::from(gauge.0.load(Ordering::Relaxed))).sum()
    }
}

/// All counts of one run of a cell.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) engine: &'static str,
    /// Whether the page cache was passed by.
    pub(super) direct: bool,
    /// From the end of the ramp until nothing was in flight any more.
    pub(super) seconds: f64,
    /// From the end of the ramp until the first job started no more requests.
    pub(super) steady_s: f64,
    pub(super) record: Record,
    pub(super) in_flight: Looks,
    /// Whether the watching thread, and those that it began, run before all ordinary ones.
    pub(super) is_real_time: bool,
    pub(super) process_cpu_s: f64,
    /// The greatest share of its time that a thread spent on a processor: one of a job, of its
    /// engine, or of the kernel for them.
    pub(super) busiest_thread: f64,
    /// The greatest share of its time that such a thread was ready and waited for a processor that
    /// other programs used, or that a quota kept from it, where that is known.
    pub(super) waiting_thread: Option<f64>,
    /// How much of that may have been something else: other threads of the run, say.
    pub(super) waiting_unsure: f64,
    /// Processor time of the process ÷ that of all processors that it may use.
    pub(super) processors_share: f64,
    /// The control group that stopped the process because its processor quota was used up.
    pub(super) quota_stop: Option<QuotaStop>,
    /// How much of the time the whole program stood still and wanted no processor.
    pub(super) stopped_share: f64,
    /// The process that traced a thread of the run.
    pub(super) tracer: Option<NonZeroU32>,
    pub(super) device: Option<DeviceUse>,
    /// What the whole disks below did, where that is more than the device shows.
    pub(super) disks: Option<DisksUse>,
    /// Why the counters of the device prove nothing, or why there are none.
    pub(super) device_doubt: Option<String>,
    /// How often a byte that is written reaches the devices.
    pub(super) copies: u64,
    /// The limits of the control group on the device.
    pub(super) limits: Limits,
    /// Open loop: requests that were due in the measured time, and those that ended in it.
    pub(super) due: u64,
    pub(super) done: u64,
    pub(super) overruns: u64,
    pub(super) unserved: u64,
    pub(super) verified_bytes: u64,
    /// How long it took after the end until all writes were durable; `None` if nothing is written.
    pub(super) durable_after_s: Option<f64>,
}

/// Runs a cell once: it requests other blocks in each turn.
pub(super) fn run(
    workload: &Workload,
    turn: u64,
    target: &TestFile,
    engines: &dyn EngineFactory,
    observer: &dyn Observer,
) -> Result<Measured> {
    target.check_still_there()?;
    let below = Below::of(target.path(), target.device());
    let durability = if workload.writes() { Some(Durability::of(target, &below)?) } else { None };
    if let Some(durability) = &durability {
        // Dirty data of others does not belong to this cell.
        durability.sync_s()?;
    }
    let threads_before = Threads::now();
    let shared = Shared::new(workload, turn);
    let jobs = (0..workload.jobs)
        .map(|number| JobThread::new(number, workload, target, engines, &shared))
        .collect::<Result<Vec<_>>>()?;
    let engine = jobs.first().map_or("none", JobThread::engine_name);
    let (outcomes, seen) =
        drive(jobs, &shared, || watch(&shared, workload, &below, observer, threads_before))?;
    if observer.is_interrupted() {
        return Err(Error::Interrupted);
    }
    let durable_after_s = durability.as_ref().map(Durability::sync_s).transpose()?;
    Ok(Measured { durable_after_s, ..summary(&shared, engine, workload, &outcomes, seen) })
}

/// Runs every job in a thread of its own, and watches them from this one.
fn drive(
    jobs: Vec<JobThread<'_>>,
    shared: &Shared,
    watch: impl FnOnce() -> Seen,
) -> Result<(Vec<JobOutcome>, Seen)> {
    // Jobs wait for this lock until all of them are ready.
    let start = RwLock::new(());
    thread::scope(|scope| {
        let closed = start.write().unwrap_or_else(PoisonError::into_inner);
        let mut threads = Vec::with_capacity(jobs.len());
        for job in jobs {
            let start = &start;
            let work = move || {
                drop(start.read().unwrap_or_else(PoisonError::into_inner));
                let outcome = job.run();
                shared.aborted.fetch_or(outcome.is_err(), Ordering::Relaxed);
                shared.finished.fetch_add(1, Ordering::Release);
                outcome
            };
            match Builder::new().name("stook-bench".to_owned()).spawn_scoped(scope, work) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    shared.aborted.store(true, Ordering::Relaxed);
                    return Err(Error::from(crate::Error::io("start", "a thread of a job", error)));
                }
            }
        }
        shared.begin_ns.store(shared.clock.now_ns(), Ordering::Relaxed);
        drop(closed);
        let seen = watch();
        Ok((collect(threads)?, seen))
    })
}

/// Waits for all jobs. The first error in the order of jobs is reported; others are most likely its
/// echo.
fn collect(threads: Vec<ScopedJoinHandle<'_, Result<JobOutcome>>>) -> Result<Vec<JobOutcome>> {
    let ended: Vec<_> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        .collect();
    ended.into_iter().collect()
}

/// The observations of the watching thread.
#[derive(Default)]
struct Seen {
    in_flight: Looks,
    process_cpu_ns: u64,
    /// The processor time of other programs ÷ time, if known.
    others_share: Option<OthersShare>,
    quota_stop: Option<QuotaStop>,
    /// Whether a quota may well have stopped the process that cannot be seen from here: one above
    /// its container, or one for threads of real time.
    is_quota_hidden: bool,
    /// Whether the watching thread, and those that it began, run before all ordinary ones.
    is_real_time: bool,
    /// How long the whole program stood still and wanted no processor.
    stopped_ns: u64,
    /// The process that traced a thread of the run.
    tracer: Option<NonZeroU32>,
    device: Option<DeviceUse>,
    disks: Option<DisksUse>,
    device_doubt: Option<String>,
    copies: u64,
    limits: Limits,
    draining_ns: Option<u64>,
    busiest_thread: Option<f64>,
    /// What threads did that no job knows of.
    threads: Vec<Shares>,
}

/// The times of a thread ÷ time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Shares {
    cpu: f64,
    /// Ready, and waiting for a processor.
    waiting: f64,
    /// How much of that idle processors may have taken to begin, each time that it was woken.
    waking: f64,
}

/// How much of its time a thread waited for a processor that other programs used, or that a quota
/// kept from it: at least, and at most.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct KeptWaiting {
    least: f64,
    most: f64,
}

/// The counters when measuring began.
struct Begun {
    cpu_ns: u64,
    counters: Option<Counters>,
    quota: Quota,
    others: Option<Others>,
    stops: Stops,
    limits: Limits,
}

impl Begun {
    fn now(below: &Below) -> Self {
        let (cpu_ns, counters) = (own_cpu_ns(), below.counters());
        let (quota, limits) = (Quota::now(), Limits::on(below));
        Self { cpu_ns, counters, quota, others: Others::now(), stops: Stops::now(), limits }
    }

    /// Notes the counters since then.
    fn note(&self, below: &Below, seen: &mut Seen) {
        seen.process_cpu_ns = own_cpu_ns().saturating_sub(self.cpu_ns);
        let counted = self.counters.zip(below.counters());
        seen.disks = counted.and_then(|(before, after)| below.disks_between(before, after));
        seen.limits = self.limits.least(Limits::on(below));
        seen.device = counted.map(|(before, after)| below.use_between(before, after));
        seen.quota_stop = self.quota.stop_since();
        seen.stopped_ns = self.stops.stopped_ns();
        seen.is_quota_hidden = quota::is_hidden() || seen.is_real_time;
        let others = Others::now().zip(self.others.as_ref());
        seen.others_share = others.and_then(|(now, before)| now.share_since(before));
    }
}

impl Seen {
    /// How much of `seconds` any of these threads waited for a processor that other programs used,
    /// or that a quota kept from it.
    ///
    /// Any further wait of a thread belongs to its requests, or to executing them: until the kernel
    /// has handled all simultaneous completions, until a thread is woken, until other threads of
    /// the same run release a processor. If these use up all processors, another check says so.
    fn kept_waiting(&self, threads: &[Shares], seconds: f64, processors: f64) -> Option<KeptWaiting> {
        let all_cpu = self.process_cpu_ns as f64 / 1e9 / seconds;
        let stopped = self.quota_stop.as_ref().map_or(0.0, |stop| stop.stopped_s / seconds);
        let nobody_knows =
            OthersShare { least: f64::INFINITY, most: f64::INFINITY, by_anybody: f64::INFINITY };
        let others = self.others_share.unwrap_or(nobody_knows);
        let each = threads.iter().map(|&Shares { cpu, waiting, waking }| {
            // Waiting beyond the use of all programs meanwhile is due to a quota, an invisible one
            // if the visible stops do not account for it. Where none is to be expected, threads
            // may just have been woken often.
            let used = others.by_anybody.max(all_cpu + others.most);
            let by_nobody = (waiting - (used - cpu).max(0.0)).max(0.0);
            let waking = if self.is_quota_hidden { 0.0 } else { waking };
            let unseen = (by_nobody - stopped - waking).max(0.0);
            let most = waiting.min(others.most + stopped + unseen);
            // Other threads of the run may all have been on its processor.
            let beyond_own = (waiting - (all_cpu - cpu).max(0.0)).max(0.0);
            // What is counted of a stop is the sum over all processors.
            let least = beyond_own.min(others.least + stopped).max(waiting.min(stopped / processors));
            KeptWaiting { least: least.min(most), most }
        });
        each.reduce(|a, b| KeptWaiting { least: a.least.max(b.least), most: a.most.max(b.most) })
    }
}

fn watch(
    shared: &Shared,
    workload: &Workload,
    below: &Below,
    observer: &dyn Observer,
    mut threads: Threads,
) -> Seen {
    let _punctual = Punctual::now();
    let mut random = Random::new(workload.seed, u64::MAX - 1);
    let mut seen = Seen { is_real_time: policy::is_real_time(), ..Seen::default() };
    let pace = Pace::of(workload, seen.is_real_time);
    let mut begun: Option<Begun> = None;
    let mut reported_ms = 0;
    let mut look_at_threads_ns = 0;
    while shared.finished.load(Ordering::Acquire) < shared.gauges.len() {
        let now_ns = shared.clock.now_ns();
        if now_ns >= shared.measure_from_ns() {
            begun.get_or_insert_with(|| Begun::now(below));
            if shared.drained.load(Ordering::Relaxed) < shared.gauges.len() {
                seen.in_flight.add(shared.all_in_flight());
            }
            let is_draining = shared.draining.load(Ordering::Relaxed);
            // Also once at the end, while the threads are there.
            if now_ns >= look_at_threads_ns || (is_draining && seen.draining_ns.is_none()) {
                threads.look(now_ns);
                look_at_threads_ns = now_ns + THREADS_EVERY_NS;
            }
            if is_draining {
                seen.draining_ns.get_or_insert(now_ns);
            }
        }
        let ms = now_ns.saturating_sub(shared.begin_ns()) / 1_000_000;
        observer.ran(ms - reported_ms);
        reported_ms = ms;
        if observer.is_interrupted() {
            shared.aborted.store(true, Ordering::Relaxed);
        }
        let late_ns = pace.wait(shared.clock, pace.pause_ns(&mut random));
        if let Some(begun) = &mut begun {
            begun.stops.note(late_ns);
        }
    }
    if let Some(begun) = begun {
        begun.note(below, &mut seen);
    }
    seen.busiest_thread = threads.busiest_share();
    seen.threads = threads.shares();
    seen.tracer = threads.tracer();
    seen.device_doubt = below.doubt().map(str::to_owned);
    seen.copies = below.copies();
    seen
}

/// While it exists, sleeping ends at the requested moment. Otherwise the kernel may let a thread
/// sleep 50 µs longer, to wake it together with another one: with a job whose request is due, so
/// that looks would not be at random moments.
struct Punctual {
    slack_before: Option<NonZeroU64>,
}

impl Punctual {
    fn now() -> Self {
        let slack_before = rustix::thread::current_timer_slack().ok().and_then(NonZeroU64::new);
        // Where it is refused, looks are as good as they are.
        let _refused = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        Self { slack_before }
    }
}

impl Drop for Punctual {
    fn drop(&mut self) {
        // `None` restores the initial value of the thread.
        let _refused = rustix::thread::set_current_timer_slack(self.slack_before);
    }
}

/// Processor time of everything but the watching.
fn own_cpu_ns() -> u64 {
    process_cpu_ns().saturating_sub(thread_cpu_ns())
}

fn summary(
    shared: &Shared,
    engine: &'static str,
    workload: &Workload,
    outcomes: &[JobOutcome],
    seen: Seen,
) -> Measured {
    let from_ns = shared.measure_from_ns();
    let mut record = Record::new(from_ns, 0.0, &[]);
    outcomes.iter().for_each(|outcome| record.merge(&outcome.record));
    let last_ns = outcomes.iter().map(|outcome| outcome.ended_ns).max().unwrap_or(from_ns);
    // A run that ended by time lasted that time, even if nothing was requested at its end.
    let ended_ns = if workload.size_bytes.is_none() { last_ns.max(shared.end_ns()) } else { last_ns };
    let since = |ns: u64| ns.saturating_sub(from_ns) as f64 / 1e9;
    let steady_ns = seen.draining_ns.unwrap_or(ended_ns).min(ended_ns).min(shared.end_ns());
    let measured = || outcomes.iter().filter(|outcome| outcome.wall_ns > 0);
    let busy = measured().map(|outcome| outcome.cpu_ns as f64 / outcome.wall_ns as f64);
    let waiting = measured().filter_map(|outcome| Some(outcome.spent?.of_time(outcome.wall_ns)));
    let threads: Vec<Shares> = waiting.chain(seen.threads.iter().copied()).collect();
    let (seconds, process_cpu_s) = (since(ended_ns), seen.process_cpu_ns as f64 / 1e9);
    let processors = thread::available_parallelism().map_or(1.0, |count| count.get() as f64);
    let kept_waiting = seen.kept_waiting(&threads, seconds, processors);
    let sum = |of: fn(&JobOutcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    Measured {
        engine,
        direct: !workload.buffered && !shared.direct_refused.load(Ordering::Relaxed),
        seconds,
        steady_s: since(steady_ns),
        record,
        in_flight: seen.in_flight,
        is_real_time: seen.is_real_time,
        process_cpu_s,
        processors_share: process_cpu_s / (seconds * processors),
        busiest_thread: busy.chain(seen.busiest_thread).fold(0.0, f64::max),
        waiting_thread: kept_waiting.map(|kept| kept.most),
        waiting_unsure: kept_waiting.map_or(0.0, |kept| kept.most - kept.least),
        quota_stop: seen.quota_stop,
        stopped_share: seen.stopped_ns as f64 / 1e9 / seconds,
        tracer: seen.tracer,
        device: seen.device,
        disks: seen.disks,
        device_doubt: seen.device_doubt,
        copies: seen.copies,
        limits: seen.limits,
        due: sum(|outcome| outcome.due),
        done: sum(|outcome| outcome.done),
        overruns: sum(|outcome| outcome.overruns),
        unserved: sum(|outcome| outcome.unserved),
        verified_bytes: sum(|outcome| outcome.verified_bytes),
        durable_after_s: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The observations of a run of 2 s, with these values of other programs, stops, and its own
    /// processor time.
    fn seen(others_share: Option<[f64; 3]>, stopped_s: Option<f64>, own_cpu_s: f64) -> Seen {
        let others_share =
            others_share.map(|[least, most, by_anybody]| OthersShare { least, most, by_anybody });
        let quota_stop = stopped_s.map(|stopped_s| QuotaStop { limit: String::new(), stopped_s });
        Seen { others_share, quota_stop, process_cpu_ns: (own_cpu_s * 1e9) as u64, ..Seen::default() }
    }

    fn kept(seen: &Seen, threads: &[Shares]) -> (f64, f64) {
        let KeptWaiting { least, most } = seen.kept_waiting(threads, 2.0, 2.0).unwrap();
        ((least * 1e6).round() / 1e6, (most * 1e6).round() / 1e6)
    }

    fn share(cpu: f64, waiting: f64) -> Shares {
        Shares { cpu, waiting, waking: 0.0 }
    }

    /// Before: `--engine threads` and several jobs were always refused on a machine with nothing
    /// else to do, as were most runs at depth 256 and on btrfs: threads of the same run counted as
    /// others, and those of the kernel that worked for it.
    #[test]
    fn a_thread_was_kept_waiting_as_far_as_other_programs_or_a_quota_kept_it() {
        let alone = [share(0.25, 0.75)];
        // The kernel used the rest.
        let others = Some([0.01, 0.01, 1.1]);
        assert_eq!(kept(&seen(others, None, 0.5), &alone), (0.01, 0.01));
        assert_eq!(kept(&seen(others, Some(1.0), 0.5), &alone), (0.51, 0.51));
        assert_eq!(kept(&seen(None, None, 0.5), &alone), (0.75, 0.75), "others are not known: all counts");
        assert_eq!(seen(others, None, 0.5).kept_waiting(&[], 2.0, 2.0), None);
    }

    /// Before: 32 threads of an engine beside a busy program were refused for having waited 28% for
    /// it, first among all as they were: what they waited for each other counted.
    #[test]
    fn what_a_thread_may_have_waited_for_others_of_its_run_is_not_sure() {
        let busy = Some([1.5, 1.5, 2.0]);
        let pool = [share(0.02, 0.28); 32];
        assert_eq!(kept(&seen(busy, None, 1.28), &pool), (0.0, 0.28));
        // A thread of its own, or one that waited longer than all others of the run worked.
        let alone = [share(0.5, 0.5)];
        assert_eq!(kept(&seen(busy, None, 1.0), &alone), (0.5, 0.5));
        let starved = [share(0.1, 0.8), share(0.1, 0.0)];
        assert_eq!(kept(&seen(busy, None, 0.4), &starved), (0.7, 0.8));
        // One that ended, and whose use is not known: it may have been that.
        assert_eq!(kept(&seen(Some([0.0, 0.5, 1.0]), None, 1.0), &alone), (0.0, 0.5));
        // The threads did wait for the quota; two processors counted it.
        assert_eq!(kept(&seen(Some([0.0, 0.0, 0.6]), Some(0.4), 1.28), &pool), (0.1, 0.2));
    }

    /// Before: on a machine with nothing else to do a run passed that a quota had stopped for 70%
    /// of its time, where the group of that quota lay above the namespace of the process.
    #[test]
    fn waiting_while_nobody_used_a_processor_may_be_a_quota_that_is_not_seen() {
        let hidden = |others, stopped_s| Seen { is_quota_hidden: true, ..seen(Some(others), stopped_s, 0.6) };
        let stopped = [share(0.3, 0.7)];
        assert_eq!(kept(&hidden([0.0, 0.0, 0.32], None), &stopped), (0.0, 0.68));
        // What threads of the run and of the kernel did is no such thing.
        assert_eq!(kept(&hidden([0.0, 0.0, 1.1], None), &stopped), (0.0, 0.0));
        // One that is seen has stopped it for as long.
        assert_eq!(kept(&hidden([0.0, 0.0, 0.32], Some(1.4)), &stopped), (0.7, 0.7));
    }

    /// Before: a quota for threads of real time (`cpu.rt_runtime_us`), which counts no stops, was
    /// called "other programs", and with nothing else to do the run was valid.
    #[test]
    fn waiting_while_nobody_used_a_processor_is_not_sure_anywhere() {
        let quiet = seen(Some([0.0, 0.0, 0.32]), None, 0.6);
        let stopped = [share(0.3, 0.7)];
        assert_eq!(kept(&quiet, &stopped), (0.0, 0.68));
        // A thread that is woken again and again waits a little each time, on an idle machine, too.
        let woken = [Shares { waking: 0.8, ..share(0.3, 0.7) }];
        assert_eq!(kept(&quiet, &woken), (0.0, 0.0));
        // Where a quota is to be expected that is no excuse.
        assert_eq!(kept(&Seen { is_quota_hidden: true, ..quiet }, &woken), (0.0, 0.68));
        // What the run itself used is known exactly, and need not show in ticks.
        assert_eq!(kept(&seen(Some([0.0, 0.0, 0.1]), None, 2.0), &stopped), (0.0, 0.0));
    }
}
