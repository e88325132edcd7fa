//! Drivers: run a workload once, then check everything a crash may have left of it.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::{Failure, SimStorage, crash_states_of};

/// How many of the possible states are tried.
#[derive(Debug, Clone, Copy)]
pub struct ExploreOptions {
    /// Which states are drawn; the same seed draws the same.
    pub seed: u64,
    /// How many states at most are built for each crash point. The first five are the corners: all
    /// lost, all kept, names without bytes, lengths without bytes, bytes without names.
    pub variants: usize,
}

impl Default for ExploreOptions {
    fn default() -> Self {
        Self { seed: 1, variants: 12 }
    }
}

/// The promises to a workload, in order, each with its moment.
#[derive(Debug)]
pub struct Acknowledgements<A> {
    storage: SimStorage,
    given: Mutex<Vec<(usize, A)>>,
}

impl<A> Acknowledgements<A> {
    fn new(storage: &SimStorage) -> Self {
        Self { storage: storage.clone(), given: Mutex::new(Vec::new()) }
    }

    /// For a workload that runs alone.
    pub fn none(storage: &SimStorage) -> Self {
        Self::new(storage)
    }

    /// Notes a promise: after every operation so far has ended, it must be kept.
    pub fn acknowledge(&self, promise: A) {
        let operations = self.storage.operation_count();
        self.given.lock().unwrap_or_else(PoisonError::into_inner).push((operations, promise));
    }

    /// The moments and the promises.
    fn into_parts(self) -> (Vec<usize>, Vec<A>) {
        self.given.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().unzip()
    }
}

/// Where a state that is being checked comes from.
#[derive(Debug, Clone)]
pub struct CrashPoint {
    /// The operation that was under way, all before it having ended.
    pub operation: usize,
    /// Which of the states that may be left.
    pub variant: usize,
    /// The operation in words, and the failure that was injected, if one was.
    pub description: String,
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "crash in operation {} ({}), state {}", self.operation, self.description, self.variant)
    }
}

/// Reports which state was being checked when a check panics: otherwise, the panic could not be
/// attributed to one of thousands of states.
struct PrintOnPanic<'a>(&'a CrashPoint);

impl Drop for PrintOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("the check failed after a {}", self.0);
        }
    }
}

/// Runs `run` once on `start`, then calls `check` for every crash point from its first operation to
/// after its last, with each of the states that may be found and with the promises given until
/// then. Returns how many states were checked.
///
/// `check` recovers from the state it is handed and panics when a promise is broken. It may write
/// to the state; it is its own.
pub fn explore<A>(
    options: &ExploreOptions,
    start: &SimStorage,
    run: impl FnOnce(&SimStorage, &Acknowledgements<A>),
    check: impl Fn(&SimStorage, &[A], &CrashPoint),
) -> usize {
    let first = start.operation_count();
    let acknowledgements = Acknowledgements::new(start);
    run(start, &acknowledgements);
    let (moments, promises) = acknowledgements.into_parts();
    let (base, log) = {
        let state = start.state();
        (state.base.clone(), state.log.clone())
    };
    let mut ended = base;
    log[..first].iter().for_each(|recorded| ended.end(recorded));
    let mut checked = 0;
    for index in first..=log.len() {
        let mut medium = ended.clone();
        if let Some(recorded) = log.get(index) {
            medium.begin(recorded);
            ended.end(recorded);
        }
        let given = moments.partition_point(|moment| *moment <= index);
        let description =
            log.get(index).map_or("none: after the last".to_owned(), |r| r.operation.to_string());
        let mut point = CrashPoint { operation: index, variant: 0, description };
        for (variant, state) in crash_states_of(medium, index, options).enumerate() {
            point.variant = variant;
            let guard = PrintOnPanic(&point);
            check(&state, &promises[..given], &point);
            drop(guard);
            checked += 1;
        }
    }
    checked
}

/// Runs `run` once undisturbed on a copy of `start`, then once more for every operation it did,
/// with that one made to fail by `EIO` and then by `ENOSPC`, and once with the process dying there.
/// After each run `check` gets the state that another process finds, and the states that a crash
/// directly after the run may leave, with the promises made. Returns how many states were checked.
///
/// `run` has to pass errors on by ending early: anything that it acknowledges after an error must
/// hold.
pub fn explore_failures<A>(
    options: &ExploreOptions,
    start: &SimStorage,
    run: impl Fn(&SimStorage, &Acknowledgements<A>),
    check: impl Fn(&SimStorage, &[A], &CrashPoint),
) -> usize {
    let undisturbed = start.settled_copy();
    run(&undisturbed, &Acknowledgements::new(&undisturbed));
    let mut checked = 0;
    for (index, recorded) in undisturbed.operations().iter().enumerate() {
        for failure in [Some(Failure::Io), Some(Failure::NoSpace), None] {
            let storage = start.settled_copy();
            match failure {
                Some(failure) => storage.fail_at(index, failure),
                None => storage.die_at(index),
            }
            let acknowledgements = Acknowledgements::new(&storage);
            run(&storage, &acknowledgements);
            let (_, promises) = acknowledgements.into_parts();
            let what =
                failure.map_or("the process died".to_owned(), |failure| format!("{failure:?} failure"));
            let description = format!("{}: {what}", recorded.operation);
            let mut point = CrashPoint { operation: index, variant: 0, description };
            let last = storage.operation_count();
            let states = std::iter::once(storage.after_process_death());
            for (variant, state) in states.chain(storage.crash_states(last, options)).enumerate() {
                point.variant = variant;
                let guard = PrintOnPanic(&point);
                check(&state, &promises, &point);
                drop(guard);
                checked += 1;
            }
        }
    }
    checked
}
