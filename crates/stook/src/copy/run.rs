//! Runs a [copy](super::Copy): the stages and the threads between them.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver as Incoming, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use super::body::FileJob;
use super::current::Current;
use super::decide::Place;
use super::destination::Receiver;
use super::error::Result;
use super::events::{Beginning, Closing, CopyEvents, CopyFailure, Letter, Mailbox, Phase, Progress};
use super::feed::{Collected, Feed};
use super::gathering::GATHERED_MAX;
use super::hash_lane;
use super::lane::{Lane, Message};
use super::large::Lanes;
use super::ledger::Ledger;
use super::links::FirstNames;
use super::listing::{Found, Listed, Listing};
use super::lists::{self, Lists};
use super::mirror::Mirror;
use super::options::CopyOptions;
use super::read_back::{ReadBack, ReadingAgain};
use super::refuse::{self, Total};
use super::report::{self, CopyReport, DestinationReport, Failure, WhyNotMirrored};
use super::small::{SMALL_MAX, SmallTask};
use super::source::CopySource;
use super::spelling::above;
use super::throttle::Throttle;
use super::tuning::Tuning;
use super::waits::{For, WaitClock};
use crate::device::Attachment;
use crate::engine::{Backend, EngineFactory};
use crate::profile::{Class, Profile};
use crate::source::{Session, SessionOptions};
use crate::tree::outbox::{Calls, System};
use crate::tree::target::share_of_descriptors;
use crate::tree::{Kind, NodeId, Xattrs};

/// Bytes of files in memory, at most.
pub(super) const MEMORY_BYTES: u64 = 48 << 20;

/// Tasks with small files that wait for a thread.
const QUEUE_LEN: usize = 64;

/// Blocks that wait in a lane.
const LANE_LEN: usize = 4;

/// Threads for small files, where it is not said how many: what they wait for is the device.
const JOBS: usize = 32;
const JOBS_ROTATING: usize = 4;

/// Descriptors of a process for each small file that is copied at once: the file, twice if it is
/// read directly, an engine, and one for each destination; the rest is for files that wait.
const DESCRIPTORS_PER_JOB: u64 = 32;

/// The same for each directory, in each destination, in which a file waits for its bytes.
const DESCRIPTORS_PER_DIRECTORY: u64 = 16;

/// Large files that are copied at once. One fills most devices; another one is read while the end
/// of the first is made durable.
const LARGE_AT_ONCE: usize = 2;

/// A directory that is copied to.
#[derive(Debug, Clone)]
pub struct Destination {
    /// The directory, made if it is not there.
    pub path: PathBuf,
    /// Who makes the system calls that change it.
    pub calls: Arc<dyn Calls>,
    /// Makes the engines that large files are written with.
    pub factory: Arc<dyn EngineFactory>,
}

impl Destination {
    /// A directory that the system writes to.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), calls: Arc::new(System), factory: Arc::new(Backend::Auto) }
    }
}

/// What is copied, where to, and how.
#[derive(Debug)]
pub struct Copy {
    /// What is copied. What is in the only one, if that is a directory, goes into the destinations
    /// themselves; everything else goes there by its name.
    pub sources: Vec<CopySource>,
    /// Where to.
    pub destinations: Vec<Destination>,
    /// How.
    pub options: CopyOptions,
    /// Makes the engines that are read with.
    pub reading: Arc<dyn EngineFactory>,
    /// Reads again what destinations got, if that is asked for.
    pub read_back: Option<Arc<dyn ReadBack>>,
}

impl Copy {
    /// With the default options.
    pub fn new(sources: Vec<CopySource>, destinations: Vec<Destination>) -> Self {
        let (options, reading) = (CopyOptions::default(), Arc::new(Backend::Auto));
        Self { sources, destinations, options, reading, read_back: None }
    }

    /// With these options.
    #[must_use]
    pub fn with_options(self, options: CopyOptions) -> Self {
        Self { options, ..self }
    }

    /// Copies. Nothing that a single file meets ends it: the report has all.
    ///
    /// # Errors
    /// What is refused before anything is made, and destinations that cannot be opened.
    pub fn run(&self, events: &mut dyn CopyEvents) -> Result<CopyReport> {
        let started = Instant::now();
        self.options.check()?;
        if self.read_back.is_some() {
            self.options.check_read_back()?;
        }
        let is_contents = match self.sources.as_slice() {
            [only] => only.is_directory()?,
            _ => false,
        };
        refuse::check_places(&self.sources, &self.destinations, &self.options, is_contents)?;
        let places = self.destinations.iter().map(|destination| destination.path.as_path());
        let listing = Listing {
            sources: &self.sources,
            options: &self.options,
            is_contents,
            destinations: places.filter_map(refuse::inode_of).collect(),
        };
        let Some(total) = refuse::check_room(&listing, &self.destinations, events)? else {
            return Ok(CopyReport { interrupted: true, ..CopyReport::default() });
        };
        if total.is_nothing() && !self.options.mirror && CopyReport::default().found_nothing(&self.options) {
            // No directory is made for it.
            let report = |one: &Destination| DestinationReport {
                path: one.path.clone(),
                ..DestinationReport::default()
            };
            let destinations = self.destinations.iter().map(report).collect();
            return Ok(CopyReport { destinations, elapsed: started.elapsed(), ..CopyReport::default() });
        }
        let run = Run::new(self, is_contents, total)?;
        let beginning = self.beginning(&run.total);
        events.begin(&beginning);
        thread::scope(|scope| {
            let closing = Closing(&run.mailbox);
            scope.spawn(|| {
                let _closing = Closing(&run.mailbox);
                run.copy_all();
            });
            run.mailbox.report(events, &|| run.progress(), &|| run.stop());
            drop(closing);
        });
        Ok(run.into_report(beginning, started))
    }

    fn beginning(&self, total: &Total) -> Beginning {
        let mut sources = Vec::new();
        for path in self.sources.iter().filter_map(|source| source.path.as_deref()) {
            let source = Attachment::of(path);
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        Beginning {
            total_files: Some(total.files),
            total_bytes: Some(total.bytes),
            sources,
            destinations: self.destinations.iter().map(|one| Attachment::of(&one.path)).collect(),
        }
    }
}

/// A copy on its way.
pub(super) struct Run<'a> {
    pub(super) sources: &'a [CopySource],
    pub(super) options: Arc<CopyOptions>,
    pub(super) reading: Arc<dyn EngineFactory>,
    pub(super) receivers: Vec<Arc<Receiver>>,
    pub(super) ledger: Arc<Ledger>,
    throttle: Throttle,
    pub(super) tuning: Tuning,
    pub(super) jobs: usize,
    /// Directories that files may wait for at a time, each in all destinations.
    pub(super) directories_max: usize,
    pub(super) clock: WaitClock,
    is_contents: bool,
    mailbox: Arc<Mailbox>,
    is_stopped: AtomicBool,
    /// Whether all files were read.
    is_finishing: AtomicBool,
    /// What is known of all destinations alike.
    own: Mutex<CopyReport>,
    total: Total,
    /// Entries that were selected in each source.
    selected: Vec<AtomicU64>,
    /// The same in each directory, by a hash of its key, for a mirror.
    listed: Mutex<HashMap<u64, u64>>,
    files: AtomicU64,
    bytes: AtomicU64,
    read_bytes: AtomicU64,
    /// Bytes that need not be read, because all destinations have them.
    resumed_bytes: AtomicU64,
    current: Mutex<Current>,
    pub(super) again: ReadingAgain,
}

impl<'a> Run<'a> {
    fn new(copy: &'a Copy, is_contents: bool, total: Total) -> Result<Self> {
        let options = copy.options.clone().with_hashes_of_lists(&total.of_histories);
        let options = Arc::new(if copy.read_back.is_some() { options.with_some_hash() } else { options });
        let (mailbox, date) = (Arc::new(Mailbox::default()), lists::date_now());
        let sources: Arc<[CopySource]> = copy.sources.as_slice().into();
        let receiver = |(index, destination): (usize, &Destination)| -> Result<Arc<Receiver>> {
            let receiver = Receiver::new(index, destination, &options, (&sources, is_contents), &mailbox);
            let receiver = receiver?.listing(Lists::new(&options, &date))?;
            Ok(Arc::new(receiver.reading_back(copy.read_back.clone())))
        };
        let receivers = copy.destinations.iter().enumerate().map(receiver).collect::<Result<Vec<_>>>()?;
        // What was not there may be the same, or lie elsewhere, now that it is.
        if !options.dry_run
            && let Err(refused) =
                refuse::check_places(&copy.sources, &copy.destinations, &options, is_contents)
        {
            receivers.iter().for_each(|receiver| receiver.unmake());
            return Err(refused);
        }
        let of_sources = copy.sources.iter().filter_map(|source| source.path.as_deref());
        let paths = of_sources.chain(copy.destinations.iter().map(|destination| destination.path.as_path()));
        let profiles: Vec<Profile> = paths.map(Profile::of_path).collect();
        let is_rotating = profiles.iter().any(|profile| profile.class == Class::Rotating);
        let jobs = options.jobs.unwrap_or(if is_rotating { JOBS_ROTATING } else { JOBS });
        let jobs = jobs.min(share_of_descriptors(DESCRIPTORS_PER_JOB, jobs));
        let per_directory = DESCRIPTORS_PER_DIRECTORY.saturating_mul(receivers.len() as u64);
        let directories_max = share_of_descriptors(per_directory, GATHERED_MAX);
        Ok(Self {
            sources: &copy.sources,
            reading: copy.reading.clone(),
            receivers,
            ledger: Ledger::new(MEMORY_BYTES),
            throttle: Throttle::new(options.bytes_per_s),
            tuning: Tuning::new(&options, &profiles),
            jobs,
            directories_max,
            clock: WaitClock::new(copy.destinations.len()),
            is_contents,
            mailbox,
            is_stopped: AtomicBool::new(false),
            is_finishing: AtomicBool::new(false),
            own: Mutex::new(CopyReport { failures: incomplete_of(&copy.sources), ..CopyReport::default() }),
            total,
            selected: copy.sources.iter().map(|_| AtomicU64::new(0)).collect(),
            listed: Mutex::default(),
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            resumed_bytes: AtomicU64::new(0),
            current: Mutex::default(),
            again: ReadingAgain::default(),
            options,
        })
    }

    /// Whether no more is wanted: by the caller, or because every destination was given up.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed) || self.receivers.iter().all(|receiver| receiver.is_stopped())
    }

    fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    pub(super) fn own(&self) -> MutexGuard<'_, CopyReport> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn progress(&self) -> Progress {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let so_far = of(&self.read_bytes).saturating_add(of(&self.resumed_bytes));
        let copied = (of(&self.bytes).max(so_far), self.total.bytes);
        let again = self.again.progress();
        let (bytes, total_bytes) = again.unwrap_or(copied);
        Progress {
            phase: match self.is_finishing.load(Ordering::Relaxed) {
                _ if again.is_some() => Phase::ReadingBack,
                true => Phase::Finishing,
                false => Phase::Copying,
            },
            files: self.files.load(Ordering::Relaxed),
            bytes,
            total_files: Some(self.total.files),
            total_bytes: Some(total_bytes),
            current: self.current().shown(),
            destinations: self.receivers.iter().map(|receiver| receiver.progress()).collect(),
        }
    }

    fn into_report(self, beginning: Beginning, started: Instant) -> CopyReport {
        let interrupted = self.is_stopped.load(Ordering::Relaxed);
        let reports = self.receivers.iter().map(|receiver| receiver.take_report());
        let destinations: Vec<_> = reports
            .zip(beginning.destinations)
            .map(|(report, attachment)| DestinationReport { attachment, ..report })
            .collect();
        let again = destinations.iter().filter_map(|one| one.read_again).map(|read| read.elapsed).max();
        let read_bytes = self.read_bytes.into_inner();
        let own = self.own.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (sources, waits, elapsed) = (beginning.sources, self.clock.waits(), started.elapsed());
        let elapsed = elapsed.saturating_sub(again.unwrap_or_default());
        CopyReport { destinations, read_bytes, interrupted, sources, waits, elapsed, ..own }
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file is begun.
    pub(super) fn begin_file(&self, job: &FileJob) {
        self.current().begin(job);
    }

    /// A file was dealt with; an error is one of its source.
    pub(super) fn end_file(&self, job: &FileJob, result: crate::Result<()>) {
        self.current().end(job);
        // What nobody wants any more was not copied.
        if !self.is_stopped() {
            self.files.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(job.node.len, Ordering::Relaxed);
        }
        if let Err(error) = result {
            self.fail(&job.key, error);
        }
    }

    /// This many bytes of a file were read.
    pub(super) fn add_read(&self, bytes: u64) {
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// This many bytes of a file, it seems, need not be read.
    pub(super) fn add_resumed(&self, bytes: u64) {
        self.resumed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many of these need not be read in the end.
    pub(super) fn correct_resumed(&self, counted: u64, needless: u64) {
        self.resumed_bytes.fetch_add(needless, Ordering::Relaxed);
        self.resumed_bytes.fetch_sub(counted, Ordering::Relaxed);
    }

    /// Counts what was selected. The source itself always is, and says nothing.
    fn note_selected(&self, found: &Found) {
        if found.is_implied {
            return;
        }
        if self.options.mirror && !found.key.is_empty() {
            *self.listed().entry(hash_of(above(&found.key))).or_default() += 1;
        }
        // A directory of which the contents are meant is not among them: an empty one has none.
        self.own().entries += u64::from(!found.key.is_empty());
        if self.sources.get(found.source).is_some_and(|source| source.id != found.id)
            && let Some(selected) = self.selected.get(found.source)
        {
            selected.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn listed(&self) -> MutexGuard<'_, HashMap<u64, u64>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what could not be read.
    pub(super) fn fail(&self, key: &[u8], error: crate::Error) {
        let (key, text) = (key.to_vec(), crate::error::chain(&error));
        self.own().failures.push(Failure { key: key.clone(), error });
        self.mailbox.put(Letter::Failure(CopyFailure { destination: None, key, error: text }));
    }

    /// Waits until this many more bytes may be read.
    pub(super) fn throttle(&self, bytes: u64, threads: usize) {
        let waited = self.throttle.take(bytes, || self.is_stopped());
        self.clock.add(For::Limit, threads, waited);
    }

    /// Which destinations need the bytes of a file, and where they go.
    pub(super) fn decide(&self, job: &FileJob) -> Vec<(usize, Place)> {
        if self.is_stopped() {
            return Vec::new();
        }
        let decided = self.receivers.iter().enumerate();
        decided.filter_map(|(index, receiver)| Some((index, receiver.decide(job)?))).collect()
    }

    pub(super) fn release_descriptors(&self) {
        self.receivers.iter().for_each(|receiver| receiver.release_descriptors());
    }

    /// A file is read.
    pub(super) fn note_opened(&self) {
        self.own().read_files += 1;
    }

    /// Everything, in the order that the stages need.
    fn copy_all(&self) {
        for failure in &self.own().failures {
            let error = crate::error::chain(&failure.error);
            self.mailbox.put(Letter::Failure(CopyFailure {
                destination: None,
                key: failure.key.clone(),
                error,
            }));
        }
        let mut listed = Lister::new(self);
        self.phase(self.jobs, &mut |feed| {
            listed.feed = Some(feed.clone());
            let places = self.receivers.iter().map(|receiver| receiver.path.as_path());
            let listing = Listing {
                sources: self.sources,
                options: &self.options,
                is_contents: self.is_contents,
                destinations: places.filter_map(refuse::inode_of).collect(),
            };
            let _ = listing.run(&mut listed);
            listed.flush();
            listed.feed = None;
        });
        self.is_finishing.store(true, Ordering::Relaxed);
        self.each_receiver(&|receiver| receiver.publish_waiting());
        self.copy_again();
        let links = self.still_linked(std::mem::take(&mut listed.links));
        self.make_links(&links);
        let Lister { directories, .. } = listed;
        self.each_receiver(&|receiver| receiver.settle_leftovers());
        self.read_back();
        self.each_receiver(&|receiver| self.finish_receiver(receiver, &directories));
    }

    /// Files whose batch could not be synced, into fresh files, each with a sync of its own.
    fn copy_again(&self) {
        let jobs: Vec<FileJob> =
            self.receivers.iter().flat_map(|receiver| std::mem::take(&mut receiver.state().again)).collect();
        self.copy_jobs(jobs);
    }

    pub(super) fn copy_jobs(&self, jobs: Vec<FileJob>) {
        if jobs.is_empty() {
            return;
        }
        let threads = self.jobs.min(jobs.len());
        let mut jobs = Some(jobs);
        self.phase(threads, &mut |feed| {
            let mut collected = Collected::default();
            for job in jobs.take().unwrap_or_default() {
                feed.put(self, job, &mut collected);
            }
            feed.flush(&mut collected);
        });
    }

    /// A file to one destination, synced by itself.
    pub(super) fn copy_file_alone(&self, index: usize, found: &Found) {
        self.copy_jobs(vec![FileJob { only: Some(index), is_alone: true, ..job_of(found) }]);
    }

    /// What is left to be done in a destination when all files are there.
    fn finish_receiver(&self, receiver: &Receiver, directories: &[Directory]) {
        self.mirror(receiver);
        if self.options.dry_run {
            return;
        }
        receiver.write_mhl(&|| {
            directories.iter().filter(|one| !one.is_implied).map(|one| one.key.clone()).collect()
        });
        // The deepest first, so that nothing is made in a directory afterwards.
        receiver.restore_modes(directories.iter().rev().map(|directory| directory.key.as_slice()));
        for directory in directories.iter().rev().take_while(|_| !self.is_stopped()) {
            let Some(source) = self.sources.get(directory.source) else { continue };
            let xattrs = match self.options.xattrs {
                true => source.tree.xattrs(directory.id),
                false => Ok(Xattrs::default()),
            };
            match source.tree.node(directory.id).and_then(|node| Ok((node, xattrs?))) {
                Ok((node, xattrs)) => {
                    receiver.finish_directory(&directory.key, &node, xattrs, directory.is_implied);
                }
                // One that could not be listed was counted then.
                Err(_) if self.has_failed(&directory.key) => {}
                Err(error) => receiver.fail(&directory.key, error),
            }
        }
        receiver.sync_all();
        receiver.note_missing(self.total.files);
    }

    /// Whether a path is among what could not be read.
    fn has_failed(&self, key: &[u8]) -> bool {
        self.own().failures.iter().any(|failure| failure.key == key)
    }

    /// Deletes what is extra, if everything was copied.
    fn mirror(&self, receiver: &Receiver) {
        if !self.options.mirror || self.is_stopped() || receiver.is_stopped() {
            return;
        }
        let why_not = self.why_not_mirrored(receiver);
        receiver.state().report.not_mirrored = why_not;
        if why_not.is_none() {
            let is_stopped = || self.is_stopped();
            let has_selected = |source: usize| {
                let selected = self.selected.get(source);
                selected.is_some_and(|entries| entries.load(Ordering::Relaxed) > 0)
            };
            let (sources, is_contents) = (self.sources, self.is_contents);
            let listed = |key: &[u8]| self.listed().get(&hash_of(key)).copied().unwrap_or(0);
            let (has_selected, is_stopped, listed) = (&has_selected, &is_stopped, &listed);
            Mirror { receiver, sources, is_contents, has_selected, listed, is_stopped }.run();
        }
    }

    /// Why nothing of what is extra in a destination is to be deleted, if that is so.
    fn why_not_mirrored(&self, receiver: &Receiver) -> Option<WhyNotMirrored> {
        let (is_read, has_specials) = {
            let own = self.own();
            (own.failures.is_empty(), !own.not_copied.is_empty())
        };
        let state = receiver.state();
        match &state.report {
            _ if !is_read => Some(WhyNotMirrored::Unread),
            _ if has_specials => Some(WhyNotMirrored::Special),
            report if !report.failures.is_empty() => Some(WhyNotMirrored::Unwritten),
            report if !report.kept.is_empty() => Some(WhyNotMirrored::Kept),
            _ => None,
        }
    }

    fn each_receiver(&self, work: &(dyn Fn(&Receiver) + Sync)) {
        thread::scope(|scope| {
            for receiver in &self.receivers {
                let who = For::Destination(receiver.index);
                scope.spawn(move || self.clock.timed(who, 1, || work(receiver)));
            }
        });
    }

    /// Starts the threads that copy, has them fed, and waits until all is copied.
    fn phase(&self, jobs: usize, feed: &mut dyn FnMut(&Feed)) {
        thread::scope(|scope| {
            let (small, small_in) = sync_channel(self.directories_max.min(QUEUE_LEN));
            let (large, large_in) = sync_channel(LARGE_AT_ONCE);
            let (gathers, gathers_in) = sync_channel(1);
            let (small_in, large_in) = (Arc::new(Mutex::new(small_in)), Arc::new(Mutex::new(large_in)));
            for _ in 0..jobs.max(1) {
                let tasks = small_in.clone();
                scope.spawn(move || self.small_thread(&tasks));
            }
            for _ in 0..LARGE_AT_ONCE {
                let tasks = large_in.clone();
                scope.spawn(move || self.large_thread(&tasks));
            }
            let for_gathers = small.clone();
            scope.spawn(move || self.gather_thread(&gathers_in, &for_gathers));
            feed(&Feed { small, large, gathers });
        });
    }

    pub(super) fn session(&self, depth: usize) -> crate::Result<Session> {
        let max_read_bytes = self.tuning.block_bytes.max(SMALL_MAX) as usize;
        Session::new(&*self.reading, SessionOptions { depth, max_read_bytes, ..SessionOptions::default() })
    }

    fn small_thread(&self, tasks: &Mutex<Incoming<SmallTask>>) {
        let mut session = None;
        while let Some(task) = next_of(tasks) {
            match open_once(&mut session, || self.session(1)) {
                Ok(session) => self.copy_small(session, task),
                Err(error) => {
                    let error = || crate::Error::io("make", "an I/O engine", other(&error));
                    match task {
                        SmallTask::Read(jobs) => jobs.iter().for_each(|job| self.end_file(job, Err(error()))),
                        SmallTask::Write(places, _) => {
                            let first = places.first().map(|(_, place)| &place.job.key);
                            first.into_iter().for_each(|key| self.fail(key, error()));
                        }
                    }
                }
            }
        }
    }

    fn large_thread(&self, tasks: &Mutex<Incoming<FileJob>>) {
        let mut session = None;
        self.with_lanes(|lanes| {
            while let Some(job) = next_of(tasks) {
                match open_once(&mut session, || self.session(self.tuning.depth)) {
                    Ok(session) => self.copy_large(session, lanes, &job),
                    Err(error) => self.end_file(&job, Err(error)),
                }
            }
        });
    }

    fn gather_thread(&self, tasks: &Incoming<Vec<FileJob>>, small: &SyncSender<SmallTask>) {
        self.with_lanes(|lanes| {
            while let Ok(jobs) = tasks.recv() {
                self.gather(jobs, lanes, small);
            }
        });
    }

    /// Runs something with a lane to each destination, and waits until these have ended.
    fn with_lanes(&self, work: impl FnOnce(&Lanes)) {
        thread::scope(|scope| {
            let mut lanes = Lanes { writing: Vec::with_capacity(self.receivers.len()), hashing: None };
            for receiver in &self.receivers {
                let (lane, messages): (SyncSender<Message>, _) = sync_channel(LANE_LEN);
                let receiver = receiver.clone();
                let (depth, rule) = (self.tuning.depth, self.options.access);
                scope.spawn(move || Lane::new(receiver, depth, rule).run(&messages));
                lanes.writing.push(lane);
            }
            if !self.options.hashes.is_empty() {
                let (lane, messages) = sync_channel(LANE_LEN);
                scope.spawn(move || {
                    let wanted = (&self.options.hashes[..], self.options.proofs);
                    hash_lane::run(wanted, &messages, &|| self.is_stopped());
                });
                lanes.hashing = Some(lane);
            }
            work(&lanes);
        });
    }
}

fn hash_of(key: &[u8]) -> u64 {
    twox_hash::XxHash3_64::oneshot(key)
}

/// What is known to be missing from the beginning.
fn incomplete_of(sources: &[CopySource]) -> Vec<Failure> {
    let incomplete = sources.iter().filter(|source| source.is_incomplete);
    let failure = |source: &CopySource| report::incomplete(source.tree.path(), Vec::new());
    incomplete.map(failure).collect()
}

/// Another error of the same kind, where the first is needed elsewhere.
fn other(error: &crate::Error) -> std::io::Error {
    std::io::Error::other(crate::error::chain(error))
}

fn open_once(
    session: &mut Option<Session>,
    open: impl FnOnce() -> crate::Result<Session>,
) -> crate::Result<&mut Session> {
    match session {
        Some(session) => Ok(session),
        none => Ok(none.insert(open()?)),
    }
}

fn next_of<T>(tasks: &Mutex<Incoming<T>>) -> Option<T> {
    tasks.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// A directory that gets mode and time when everything is in it.
struct Directory {
    source: usize,
    id: NodeId,
    key: Vec<u8>,
    is_implied: bool,
}

/// What is done with entries as they are listed.
struct Lister<'r, 'a> {
    run: &'r Run<'a>,
    feed: Option<Feed>,
    collected: Collected,
    directories: Vec<Directory>,
    firsts: FirstNames,
    links: Vec<(Found, Arc<[u8]>)>,
}

impl<'r, 'a> Lister<'r, 'a> {
    fn new(run: &'r Run<'a>) -> Self {
        let (directories, links) = (Vec::new(), Vec::new());
        let collected = Collected::default();
        Self { run, feed: None, collected, directories, firsts: FirstNames::default(), links }
    }

    fn flush(&mut self) {
        if let Some(feed) = &self.feed {
            feed.flush(&mut self.collected);
        }
    }
}

impl Listed for Lister<'_, '_> {
    fn release_descriptors(&mut self) {
        self.run.release_descriptors();
    }

    fn found(&mut self, found: Found) -> ControlFlow<()> {
        if self.run.is_stopped() {
            return ControlFlow::Break(());
        }
        self.run.note_selected(&found);
        match found.node.kind {
            Kind::Directory => {
                if !found.is_implied {
                    let mode = found.node.mode;
                    self.run.receivers.iter().for_each(|one| one.make_directory(&found.key, mode));
                }
                if found.key.is_empty() {
                    self.run.receivers.iter().for_each(|one| one.begin_root(&found.node));
                }
                let Found { source, id, key, is_implied, .. } = found;
                self.directories.push(Directory { source, id, key, is_implied });
            }
            kind if kind.is_special() && !self.run.makes_special(&found) => {}
            kind => match (self.firsts.first_of(&found), kind) {
                (Some(first), _) => self.links.push((found, first)),
                (None, Kind::File) => {
                    if let Some(feed) = &self.feed {
                        feed.put(self.run, job_of(&found), &mut self.collected);
                    }
                }
                (None, _) => self.run.make_other(&found, None),
            },
        }
        ControlFlow::Continue(())
    }

    fn failed(&mut self, key: &[u8], error: crate::Error) {
        self.run.fail(key, error);
    }
}

pub(super) fn job_of(found: &Found) -> FileJob {
    FileJob {
        source: found.source,
        id: found.id,
        parent: found.parent,
        node: found.node,
        key: found.key.as_slice().into(),
        only: None,
        is_alone: false,
    }
}
