//! [`Verify`]: runs all of it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use super::batches::{Batcher, Job, Verifier};
use super::counting::{Counted, count};
use super::error::{Error, Result};
use super::events::{self, Finding, Outcome, Phase, Progress, VerifyEvents};
use super::groups::{groups, shared_by};
use super::manner::Manner;
use super::options::VerifyOptions;
use super::passed::CountingEngines;
use super::pool::{HashPool, THREADS_MAX};
use super::reading::ReadFile;
use super::report::{Difference, Mismatch, SubjectReport, Unreadable, VerifyReport};
use super::subject::Subject;
use super::walks::Walks;
use crate::device::Attachment;
use crate::engine::{Backend, EngineFactory};
use crate::hash::Digest;
use crate::tree::Kind;

/// What is verified, and how.
#[derive(Debug)]
pub struct Verify {
    /// The trees. Those that lie on different disks are verified at the same time.
    pub subjects: Vec<Subject>,
    /// How.
    pub options: VerifyOptions,
    /// Makes the engines that are read with.
    pub reading: Arc<dyn EngineFactory>,
}

impl Verify {
    /// With the default options.
    pub fn new(subjects: Vec<Subject>) -> Self {
        Self { subjects, options: VerifyOptions::default(), reading: Arc::new(Backend::Auto) }
    }

    /// With these options.
    #[must_use]
    pub fn with_options(self, options: VerifyOptions) -> Self {
        Self { options, ..self }
    }

    /// Verifies. Nothing that a single file meets ends it: the report has all.
    ///
    /// # Errors
    /// Options that cannot be used, a tree that cannot be looked at, a tree and a file that are to
    /// be compared, a tree of which nothing says what it should have.
    pub fn run(&self, events: &mut dyn VerifyEvents) -> Result<VerifyReport> {
        let started = Instant::now();
        self.options.check()?;
        let prepare = |(at, subject)| Prepared::new(at, subject, self);
        let prepared = self.subjects.iter().enumerate().map(prepare).collect::<Result<Vec<_>>>()?;
        let shared: Vec<_> = self.subjects.iter().map(shared_by).collect();
        let groups = groups(&shared);
        let passes = |group: &Vec<usize>| {
            let of = group.iter().filter_map(|at| prepared.get(*at));
            of.map(|one| one.manner.passes()).max().unwrap_or(0)
        };
        let run = Run::new(self, groups.iter().map(passes).sum());
        let mut reports: Vec<SubjectReport> = prepared.iter().map(Prepared::begin_report).collect();
        let (to, incoming) = sync_channel(events::WAITING_MAX);
        thread::scope(|scope| {
            // Ends all threads, also where what hears of them panics.
            let _ending = Ending(&run);
            let threads = available_parallelism().map_or(2, usize::from).min(THREADS_MAX);
            let pool = HashPool::start(scope, threads);
            for group in &groups {
                let (run, prepared, pool, to) = (&run, &prepared, pool.clone(), to.clone());
                scope.spawn(move || run.verify_group(prepared, group, &pool, &to));
            }
            drop((pool, to));
            let snapshot = || run.progress(prepared.len());
            events::report(&incoming, events, &mut reports, &snapshot, &|| run.stop());
            drop(incoming);
        });
        for (report, prepared) in reports.iter_mut().zip(prepared) {
            prepared.end_report(report);
        }
        let interrupted = run.has_been_stopped.load(Ordering::Relaxed);
        Ok(VerifyReport { subjects: reports, interrupted, elapsed: started.elapsed() })
    }
}

/// A tree that is verified, and what is counted of it.
pub(super) struct Prepared<'a> {
    at: usize,
    pub(super) subject: &'a Subject,
    /// What it is.
    pub(super) kind: Kind,
    pub(super) manner: Manner,
    pub(super) engines: CountingEngines,
    pub(super) other_engines: CountingEngines,
    pub(super) read_bytes: AtomicU64,
    pub(super) other_read_bytes: AtomicU64,
    pub(super) directories: AtomicU64,
    elapsed_ns: AtomicU64,
    lies_on: Attachment,
}

impl<'a> Prepared<'a> {
    fn new(at: usize, subject: &'a Subject, verify: &Verify) -> Result<Self> {
        let branch = &subject.branch;
        let kind = branch.kind()?;
        if let Some(other) = &subject.against {
            let other_kind = other.kind()?;
            if kind != other_kind {
                return Err(Error::Kinds { path: branch.path(), kind, other: other.path(), other_kind });
            }
        }
        let has_expectations = subject.listed.is_some() || subject.against.is_some();
        if !has_expectations && !verify.options.makes_lists() {
            return Err(Error::NothingExpected(branch.path()));
        }
        let engines = || CountingEngines::new(verify.reading.clone());
        Ok(Self {
            at,
            subject,
            kind,
            manner: Manner::of(subject, &verify.options),
            engines: engines(),
            other_engines: engines(),
            read_bytes: AtomicU64::new(0),
            other_read_bytes: AtomicU64::new(0),
            directories: AtomicU64::new(0),
            elapsed_ns: AtomicU64::new(0),
            lies_on: branch.lies_in.as_deref().map(Attachment::of).unwrap_or_default(),
        })
    }

    fn begin_report(&self) -> SubjectReport {
        SubjectReport {
            path: self.subject.branch.path(),
            is_file: self.kind == Kind::File,
            is_packed: !self.subject.branch.is_on_disk,
            lies_on: self.lies_on.clone(),
            ..SubjectReport::default()
        }
    }

    fn end_report(self, report: &mut SubjectReport) {
        report.directories = self.directories.into_inner();
        report.read_bytes = self.read_bytes.into_inner();
        report.passage = self.engines.passage();
        report.elapsed = Duration::from_nanos(self.elapsed_ns.into_inner());
        // Threads end in any order, and people read in that of paths.
        report.mismatching.sort_by(|one, other| one.key.cmp(&other.key));
        report.missing.sort();
        report.extra.sort_by(|one, other| one.key.cmp(&other.key));
        report.unreadable.sort_by(|one, other| one.key.cmp(&other.key));
    }
}

/// Trees that are being verified.
pub(super) struct Run<'a> {
    pub(super) options: &'a VerifyOptions,
    pub(super) reading: Arc<dyn EngineFactory>,
    /// Passes over trees that are made at the same time.
    pub(super) passes: usize,
    is_stopped: AtomicBool,
    /// Whether the caller wanted no more.
    has_been_stopped: AtomicBool,
    /// Trees of which it is known what is there.
    counted: AtomicUsize,
    files: AtomicU64,
    bytes: AtomicU64,
    total_files: AtomicU64,
    total_bytes: AtomicU64,
    current: Mutex<Vec<u8>>,
}

impl<'a> Run<'a> {
    fn new(verify: &'a Verify, passes: usize) -> Self {
        Self {
            options: &verify.options,
            reading: verify.reading.clone(),
            passes,
            is_stopped: AtomicBool::new(false),
            has_been_stopped: AtomicBool::new(false),
            counted: AtomicUsize::new(0),
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            total_files: AtomicU64::new(0),
            total_bytes: AtomicU64::new(0),
            current: Mutex::default(),
        }
    }

    /// Whether no more is wanted.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    fn stop(&self) {
        self.has_been_stopped.store(true, Ordering::Relaxed);
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// A file will be read: this many bytes, those of what it is compared with included.
    pub(super) fn expect(&self, bytes: u64) {
        self.total_files.fetch_add(1, Ordering::Relaxed);
        self.total_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A file need not be read after all.
    pub(super) fn skip(&self, bytes: u64) {
        self.end_file();
        self.add_read(bytes);
    }

    /// The first bytes of a file have come.
    pub(super) fn begin_file(&self, key: &[u8]) {
        key.clone_into(&mut self.current.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn end_file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_read(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes will be read again.
    pub(super) fn take_back(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn progress(&self, subjects: usize) -> Progress {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (total_files, total_bytes) = (of(&self.total_files), of(&self.total_bytes));
        if self.counted.load(Ordering::Relaxed) < subjects {
            let (files, bytes) = (total_files, total_bytes);
            return Progress { phase: Phase::Counting, files, bytes, ..Progress::default() };
        }
        Progress {
            phase: Phase::Verifying,
            files: of(&self.files),
            bytes: of(&self.bytes),
            total_files: Some(total_files),
            total_bytes: Some(total_bytes),
            wrong: 0,
            current: self.current.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Verifies trees one after another.
    fn verify_group(
        &self,
        prepared: &[Prepared<'_>],
        group: &[usize],
        pool: &HashPool,
        to: &SyncSender<Finding>,
    ) {
        let mut counted = Vec::with_capacity(group.len());
        for prepared in group.iter().filter_map(|at| prepared.get(*at)) {
            let sink = Sink { to: to.clone(), subject: prepared.at };
            let Counted { reported, files, bytes } = count(self, prepared, &sink);
            self.counted.fetch_add(1, Ordering::Relaxed);
            counted.push((prepared, sink, reported, prepared.manner.batch(files, bytes)));
        }
        for (prepared, sink, reported, batch) in counted {
            if !self.is_stopped() {
                self.verify_one(prepared, &reported, batch, pool, &sink);
            }
        }
    }

    fn verify_one(
        &self,
        prepared: &Prepared<'_>,
        reported: &HashSet<Vec<u8>>,
        batch: (usize, u64),
        pool: &HashPool,
        sink: &Sink,
    ) {
        let (started, workers) = (Instant::now(), prepared.manner.workers);
        let (batches, incoming) = sync_channel::<Vec<Job>>(workers);
        let incoming = Mutex::new(incoming);
        thread::scope(|scope| {
            for _ in 0..workers {
                let verifier = Verifier { run: self, prepared, pool: pool.clone(), sink: sink.clone() };
                let incoming = &incoming;
                scope.spawn(move || {
                    while let Some(jobs) = next(incoming) {
                        if !verifier.run.is_stopped() {
                            verifier.verify(jobs);
                        }
                    }
                });
            }
            let batcher = Batcher::new(batch, batches);
            let numbers = prepared.subject.listed.as_ref().map_or(0, |listed| listed.numbers());
            Walks { run: self, prepared, sink, reported, batcher, seen: vec![false; numbers], parent: None }
                .run();
        });
        let elapsed_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        prepared.elapsed_ns.store(elapsed_ns, Ordering::Relaxed);
    }
}

fn next(incoming: &Mutex<Receiver<Vec<Job>>>) -> Option<Vec<Job>> {
    incoming.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// Ends all threads when it is dropped.
struct Ending<'r, 'a>(&'r Run<'a>);

impl Drop for Ending<'_, '_> {
    fn drop(&mut self) {
        self.0.is_stopped.store(true, Ordering::Relaxed);
    }
}

/// Takes what is found of a tree, to the thread that reports it. If that one has ended, nothing is
/// wanted any more.
#[derive(Clone)]
pub(super) struct Sink {
    to: SyncSender<Finding>,
    subject: usize,
}

impl Sink {
    fn send(&self, key: Vec<u8>, (kind, len): (Kind, u64), outcome: Outcome, digests: Arc<[Digest]>) {
        let (subject, proof) = (self.subject, None);
        let _ = self.to.send(Finding { subject, key, kind, len, outcome, digests, proof });
    }

    /// A file that is as it should be, or that nothing is known of yet.
    pub(super) fn found(&self, key: Vec<u8>, is_new: bool, read: ReadFile) {
        let outcome = if is_new { Outcome::New } else { Outcome::Matches };
        let (subject, kind, ReadFile { len, digests, proof }) = (self.subject, Kind::File, read);
        let _ = self.to.send(Finding { subject, key, kind, len, outcome, digests, proof });
    }

    /// Something without bytes that is as it should be.
    pub(super) fn matches(&self, key: Vec<u8>, kind: Kind) {
        self.send(key, (kind, 0), Outcome::Matches, Arc::default());
    }

    /// A file that is not as it should be.
    pub(super) fn mismatches(
        &self,
        key: Vec<u8>,
        difference: Difference,
        offset: Option<u64>,
        is_like_other: bool,
        digests: Arc<[Digest]>,
    ) {
        let mismatch = Mismatch { key: key.clone(), difference, offset, is_like_other, bad: None };
        self.send(key, (Kind::File, 0), Outcome::Mismatches(mismatch), digests);
    }

    /// Something of which no bytes had to be read, and that is not as it should be.
    pub(super) fn differs(&self, key: Vec<u8>, kind: Kind, difference: Difference) {
        let mismatch =
            Mismatch { key: key.clone(), difference, offset: None, is_like_other: false, bad: None };
        self.send(key, (kind, 0), Outcome::Mismatches(mismatch), Arc::default());
    }

    pub(super) fn missing(&self, key: Vec<u8>, kind: Kind) {
        self.send(key, (kind, 0), Outcome::Missing, Arc::default());
    }

    pub(super) fn extra(&self, key: Vec<u8>, kind: Kind) {
        self.send(key, (kind, 0), Outcome::Extra, Arc::default());
    }

    pub(super) fn unreadable(&self, key: Vec<u8>, kind: Kind, error: crate::Error) {
        let unreadable = Unreadable::new(key.clone(), error);
        self.send(key, (kind, 0), Outcome::Unreadable(unreadable), Arc::default());
    }
}
