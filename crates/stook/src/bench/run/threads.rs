//! [`Threads`]: what every thread of a run uses of the processors, also those that no job knows of: the pool of an
//! engine, and the workers that the kernel starts for a ring.

use std::collections::BTreeMap;
use std::fs;

/// Where the system lists the threads of this process.
const TASKS: &str = "/proc/self/task";

/// Threads of this process by number, with the nanoseconds that each spent on a processor.
type Times = BTreeMap<u32, u64>;

/// Looks at all threads but those that were there before the run.
#[derive(Debug)]
pub(super) struct Threads {
    /// They belong to somebody else.
    others: Times,
    first: Option<(u64, Times)>,
    busiest_share: f64,
}

impl Threads {
    /// Notes who is there already.
    pub(super) fn now() -> Self {
        Self { others: times(), first: None, busiest_share: 0.0 }
    }

    /// Reads the clocks of all threads; the first look is what later ones are counted from.
    pub(super) fn look(&mut self, now_ns: u64) {
        let mut times = times();
        times.retain(|thread, _| !self.others.contains_key(thread));
        let Some((since_ns, first)) = &self.first else {
            self.first = Some((now_ns, times));
            return;
        };
        let passed_ns = now_ns.saturating_sub(*since_ns);
        let used =
            times.iter().map(|(thread, ns)| ns.saturating_sub(first.get(thread).copied().unwrap_or(0)));
        if let Some(most_ns) = used.max()
            && passed_ns > 0
        {
            self.busiest_share = most_ns as f64 / passed_ns as f64;
        }
    }

    /// Processor time of the busiest one ÷ time, from the first look to the last. 0 where nothing can be known: on a
    /// system that does not tell, and in a run that is shorter than the distance of two looks.
    pub(super) fn busiest_share(&self) -> f64 {
        self.busiest_share
    }
}

fn times() -> Times {
    let Ok(tasks) = fs::read_dir(TASKS) else { return Times::new() };
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let threads = tasks.filter_map(Result::ok).filter_map(number);
    // A thread that ends meanwhile has no file any more.
    threads.filter_map(|thread: u32| Some((thread, time_ns(thread)?))).collect()
}

/// Time on a processor, queue and number of slices, as `Documentation/scheduler/sched-stats.rst` of Linux says.
fn time_ns(thread: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("{TASKS}/{thread}/schedstat")).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_thread_that_never_rests_is_found_and_one_from_before_is_not() {
        let ended = AtomicBool::new(false);
        let spin = || {
            while !ended.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(spin);
            std::thread::sleep(Duration::from_millis(20));
            let mut alone = Threads::now();
            let begin = Instant::now();
            let look = |threads: &mut Threads| threads.look(begin.elapsed().as_nanos() as u64);
            look(&mut alone);
            let spinning = scope.spawn(spin);
            std::thread::sleep(Duration::from_millis(100));
            look(&mut alone);
            let found = alone.busiest_share();
            let mut after = Threads::now();
            look(&mut after);
            look(&mut after);
            ended.store(true, Ordering::Relaxed);
            drop(spinning);
            assert!(found > 0.0, "{found}");
            assert_eq!(after.busiest_share(), 0.0, "all of them were there before");
        });
    }
}
