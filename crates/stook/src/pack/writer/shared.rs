//! [`SharedWriter`]: many threads put into one pack and wait for the medium together.
//!
//! Requests gather in a queue. The first thread that finds no leader takes all of them, appends
//! them, syncs once, and reports the outcome to each; those that came meanwhile are the next
//! commit, which one of them leads. There is no separate thread: a waiting thread does the work. A
//! sync takes as long for one record as for a hundred, so throughput rises with the number of
//! waiting threads.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{Durability, PackWriter, chunk_sums};
use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::Attributes;
use crate::pack::key::Key;

/// How often at most a leader yields to other threads before it begins, and how often in a row
/// without a new request. Threads whose commit has just ended are about to come back: without this,
/// the first of them would sync alone, and all others would wait for two syncs.
const YIELDS_MAX: u32 = 256;
const IDLE_YIELDS_MAX: u32 = 8;

/// A [`PackWriter`] that any number of threads use at once. Clones are the same writer.
///
/// What [`put`](Self::put) and [`delete`](Self::delete) return is on the medium. Records that are
/// put at the same time share one sync; they count one by one, and in the order of their sequence
/// numbers. The durability of the writer's options is left aside meanwhile.
///
/// When the last clone is dropped the pack is released; the next writer finds everything that was
/// put. [`finish`](Self::finish) returns the writer.
#[derive(Debug, Clone)]
pub struct SharedWriter {
    shared: Arc<Shared>,
    chunk_log2: u8,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Notified when there is no leader any more.
    rests: Condvar,
}

#[derive(Debug)]
struct State {
    /// Not here while a commit is under way, after one that panicked, and once it was taken back.
    writer: Option<PackWriter>,
    durability: Durability,
    queue: Vec<Request>,
    /// A thread leads a commit, or was asked to.
    led: bool,
    /// It was taken back, or is about to be.
    closed: bool,
    /// Requests of the last commit.
    last_len: usize,
}

#[derive(Debug)]
struct Request {
    work: Work,
    seat: Arc<Seat>,
}

#[derive(Debug)]
enum Work {
    Put { group: String, key: Key, attributes: Vec<u8>, body: Vec<u8>, sums: Vec<u8> },
    Delete { key: Key },
}

/// What became of a request.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    Put(u64),
    Deleted(bool),
}

/// Where a thread waits for its request.
#[derive(Debug, Default)]
struct Seat {
    answer: Mutex<Answer>,
    changed: Condvar,
}

#[derive(Debug, Default)]
enum Answer {
    #[default]
    Nothing,
    /// Its request is in the queue, and it is the one to lead the next commit.
    Lead,
    Outcome(Result<Outcome>),
}

impl SharedWriter {
    /// Lets many threads use a writer.
    pub fn new(mut writer: PackWriter) -> Self {
        let chunk_log2 = writer.chunk_log2();
        let durability = std::mem::replace(&mut writer.options.durability, Durability::Explicit);
        let state = State {
            writer: Some(writer),
            durability,
            queue: Vec::new(),
            led: false,
            closed: false,
            last_len: 0,
        };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), rests: Condvar::new() }), chunk_log2 }
    }

    /// Puts a record into a group, replacing any older one with this key, and returns its sequence
    /// number. It is on the medium then.
    ///
    /// # Errors
    /// Returns the errors of [`PackWriter::put`]. If the commit that it was part of failed, every
    /// request in it gets [`Error::Commit`]: whether the record is there is not known before the
    /// pack is opened again. After that the writer is [stopped](Error::Stopped).
    pub fn put(&self, group: &str, key: &Key, attributes: &Attributes, body: &[u8]) -> Result<u64> {
        // All that needs no order is done here, beside the others.
        let work = Work::Put {
            group: group.to_owned(),
            key: key.clone(),
            attributes: attributes.encode()?,
            body: body.to_vec(),
            sums: chunk_sums(body, self.chunk_log2),
        };
        match self.shared.take_part(work)? {
            Outcome::Put(sequence) => Ok(sequence),
            Outcome::Deleted(_) => Err(Error::Stopped),
        }
    }

    /// Deletes the record with this key; whether there was one. It is gone for good then.
    ///
    /// # Errors
    /// Returns the errors of [`put`](Self::put), and of reading an index.
    pub fn delete(&self, key: &Key) -> Result<bool> {
        match self.shared.take_part(Work::Delete { key: key.clone() })? {
            Outcome::Deleted(was_there) => Ok(was_there),
            Outcome::Put(_) => Err(Error::Stopped),
        }
    }

    /// Requests that wait for the next commit.
    pub fn waiting(&self) -> usize {
        self.shared.state().queue.len()
    }

    /// Waits for the commits in progress and returns the writer. Other clones can no longer put.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] if another clone did so before; [`Error::Stopped`] if a thread
    /// panicked in a commit.
    pub fn finish(self) -> Result<PackWriter> {
        let mut state = self.shared.state();
        if std::mem::replace(&mut state.closed, true) {
            return Err(taken_back());
        }
        while state.led {
            state = self.shared.rests.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let mut writer = state.writer.take().ok_or(Error::Stopped)?;
        writer.options.durability = state.durability;
        Ok(writer)
    }
}

fn taken_back() -> Error {
    Error::Invalid("the shared writer was finished: nothing more can be put through it".into())
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code that may panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a request and waits for what becomes of it, leading a commit if need be.
    fn take_part(&self, work: Work) -> Result<Outcome> {
        let seat = Arc::new(Seat::default());
        let mut state = self.state();
        if state.closed {
            return Err(taken_back());
        }
        state.queue.push(Request { work, seat: Arc::clone(&seat) });
        let leads = !std::mem::replace(&mut state.led, true);
        drop(state);
        if leads {
            self.lead();
        }
        loop {
            match seat.wait() {
                Answer::Outcome(outcome) => return outcome,
                Answer::Lead | Answer::Nothing => self.lead(),
            }
        }
    }

    /// Commits all waiting requests.
    fn lead(&self) {
        self.let_others_in();
        let mut state = self.state();
        let requests = std::mem::take(&mut state.queue);
        let writer = state.writer.take();
        drop(state);
        let mut commit = Commit { shared: self, writer, requests, outcomes: Vec::new() };
        commit.run();
    }

    /// Waits while requests keep coming and are fewer than there were in the last commit.
    fn let_others_in(&self) {
        let (mut len_before, mut idle) = (0, 0);
        for _ in 0..YIELDS_MAX {
            let (len, last_len) = {
                let state = self.state();
                (state.queue.len(), state.last_len)
            };
            idle = if len > len_before { 0 } else { idle + 1 };
            if len >= last_len || idle > IDLE_YIELDS_MAX {
                return;
            }
            len_before = len;
            std::thread::yield_now();
        }
    }
}

/// A commit in progress. However it ends, its requests are answered and the next one begins.
struct Commit<'s> {
    shared: &'s Shared,
    writer: Option<PackWriter>,
    requests: Vec<Request>,
    /// One for each request, once the commit has ended.
    outcomes: Vec<Result<Outcome>>,
}

impl Commit<'_> {
    fn run(&mut self) {
        // Out of reach of the drop below: a writer in which something panicked is not used again.
        let Some(mut writer) = self.writer.take() else { return };
        let mut outcomes = Vec::with_capacity(self.requests.len());
        let mut failure = None;
        for request in &self.requests {
            match request.work.run(&mut writer) {
                Err(cause) if writer.stopped => {
                    failure = Some(cause);
                    break;
                }
                // Done, or refused for itself.
                outcome => outcomes.push(outcome),
            }
        }
        if let Some(cause) = failure.or_else(|| writer.sync().err()) {
            fail_all(&mut outcomes, self.requests.len(), cause);
        }
        self.outcomes = outcomes;
        self.writer = Some(writer);
    }
}

/// Nothing of a failed commit is known to be durable. A request that was refused keeps its own
/// error.
fn fail_all(outcomes: &mut Vec<Result<Outcome>>, len: usize, cause: Error) {
    let cause = Arc::new(cause);
    let failed = || match *cause {
        Error::Stopped => Err(Error::Stopped),
        _ => Err(Error::Commit(Arc::clone(&cause))),
    };
    outcomes.iter_mut().filter(|outcome| outcome.is_ok()).for_each(|outcome| *outcome = failed());
    outcomes.resize_with(len, failed);
}

impl Drop for Commit<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.writer = self.writer.take();
        state.last_len = self.requests.len();
        let next = state.queue.first().map(|request| Arc::clone(&request.seat));
        state.led = next.is_some();
        drop(state);
        match next {
            // First, so that the device is busy while the others are answered.
            Some(seat) => seat.answer(Answer::Lead),
            None => self.shared.rests.notify_all(),
        }
        let outcomes = self.outcomes.drain(..).chain(std::iter::repeat_with(|| Err(Error::Stopped)));
        for (request, outcome) in self.requests.drain(..).zip(outcomes) {
            request.seat.answer(Answer::Outcome(outcome));
        }
    }
}

impl Work {
    fn run(&self, writer: &mut PackWriter) -> Result<Outcome> {
        match self {
            Self::Put { group, key, attributes, body, sums } => {
                writer.put_encoded(group, key, attributes, body, sums).map(Outcome::Put)
            }
            Self::Delete { key } => writer.delete(key).map(Outcome::Deleted),
        }
    }
}

impl Seat {
    fn answer(&self, answer: Answer) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = answer;
        self.changed.notify_one();
    }

    fn wait(&self) -> Answer {
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        while matches!(*answer, Answer::Nothing) {
            answer = self.changed.wait(answer).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::take(&mut *answer)
    }
}
