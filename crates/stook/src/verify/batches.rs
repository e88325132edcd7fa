//! Files that are read together, and what is found of them.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use super::expected::Entry;
use super::pool::HashPool;
use super::reading::{Outcomes, Pass, ReadFile, Wanted};
use super::report::Difference;
use super::run::{Prepared, Run, Sink};
use super::subject::Branch;
use crate::error::Result;
use crate::hash::{Digest, HashKind};
use crate::source::{Session, SessionOptions};
use crate::tree::{Kind, NodeId};

/// A file that is to be read.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) key: Vec<u8>,
    pub(super) id: NodeId,
    pub(super) len: u64,
    /// The number of what lists say of it.
    pub(super) entry: Option<usize>,
    /// The file that it should be like, and its length.
    pub(super) other: Option<(NodeId, u64)>,
}

/// Puts together what is read together.
pub(super) struct Batcher {
    jobs: Vec<Job>,
    bytes: u64,
    files_max: usize,
    bytes_max: u64,
    /// Those who read end when it is dropped.
    to: SyncSender<Vec<Job>>,
}

impl Batcher {
    /// Of so many files and bytes, at most.
    pub(super) fn new((files_max, bytes_max): (usize, u64), to: SyncSender<Vec<Job>>) -> Self {
        Self { jobs: Vec::new(), bytes: 0, files_max, bytes_max, to }
    }

    pub(super) fn put(&mut self, job: Job) {
        if self.jobs.len() >= self.files_max || self.bytes.saturating_add(job.len) > self.bytes_max {
            self.flush();
        }
        self.bytes = self.bytes.saturating_add(job.len);
        self.jobs.push(job);
    }

    pub(super) fn flush(&mut self) {
        self.bytes = 0;
        if !self.jobs.is_empty() {
            // Those who read end only after this.
            let _ = self.to.send(std::mem::take(&mut self.jobs));
        }
    }
}

/// Verifies batches of one tree.
pub(super) struct Verifier<'v, 'a> {
    pub(super) run: &'v Run<'a>,
    pub(super) prepared: &'v Prepared<'a>,
    pub(super) pool: HashPool,
    pub(super) sink: Sink,
}

impl Verifier<'_, '_> {
    /// Reads files, and reports what was found of them.
    pub(super) fn verify(&self, jobs: Vec<Job>) {
        let is_longer = |job: &Job| job.other.is_some_and(|(_, len)| len != job.len);
        let (longer, mut alike): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(is_longer);
        for job in longer {
            if self.run.is_stopped() {
                return;
            }
            // They may have one length by now.
            alike.extend(self.verify_longer(job));
        }
        let (own, mut others) = self.read(&alike);
        for (job, own) in alike.into_iter().zip(own) {
            let other = job.other.and_then(|_| others.next());
            // What is not known was not wanted any more.
            let Some(own) = own else { continue };
            match (job.other, other) {
                (Some(_), Some(Some(other))) => self.compare(job, own, Some(other)),
                (Some(_), _) => continue,
                (None, _) => self.compare(job, own, None),
            }
            self.run.end_file();
        }
    }

    /// Of files of two lengths, it is only asked where they begin to differ. Gives back one that
    /// has the same length after all.
    fn verify_longer(&self, job: Job) -> Option<Job> {
        let Some((other, expected)) = job.other else { return Some(job) };
        let mut counted = 0;
        let located = self.locate(&job, other, &mut counted);
        let difference = Difference::Len { expected, found: job.len };
        match located {
            Ok(None) if !self.run.is_stopped() => {
                self.run.take_back(counted);
                return Some(job);
            }
            Ok(None) => return None,
            Ok(offset) => self.sink.mismatches(job.key, difference, offset, false, Arc::default()),
            Err(error) => self.sink.unreadable(job.key, Kind::File, error),
        }
        self.run.add_read(job.len.saturating_mul(2).saturating_sub(counted));
        self.run.end_file();
        None
    }

    /// The bytes of files, and those of the files that they should be like.
    fn read(&self, jobs: &[Job]) -> (Outcomes, std::vec::IntoIter<Option<Result<ReadFile>>>) {
        let manner = &self.prepared.manner;
        let wanted = jobs.iter().map(|job| Wanted { id: job.id, key: &job.key, kinds: self.kinds(job) });
        let wanted: Vec<Wanted<'_>> = wanted.collect();
        let compared = jobs.iter().filter_map(|job| {
            let (id, _) = job.other?;
            Some(Wanted { id, key: &job.key, kinds: vec![comparing(&self.kinds(job))] })
        });
        let compared: Vec<Wanted<'_>> = compared.collect();
        let own = self.pass(&self.prepared.subject.branch, true);
        let Some(other) = self.prepared.subject.against.as_ref().filter(|_| !compared.is_empty()) else {
            return (own.read(wanted), Vec::new().into_iter());
        };
        let other = self.pass(other, false);
        let (own, others) = match manner.in_turn {
            true => (own.read(wanted), other.read(compared)),
            false => std::thread::scope(|scope| {
                let others = scope.spawn(|| other.read(compared));
                let own = own.read(wanted);
                (own, others.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            }),
        };
        (own, others.into_iter())
    }

    fn pass<'p>(&'p self, branch: &'p Branch, is_own: bool) -> Pass<'p, 'p> {
        let prepared = self.prepared;
        let (engines, read_bytes) = match is_own {
            true => (&prepared.engines, &prepared.read_bytes),
            false => (&prepared.other_engines, &prepared.other_read_bytes),
        };
        let options = prepared.manner.gather(self.run.options, branch, self.run.passes);
        let hands_over = prepared.manner.hands_over();
        // Only what is read to be listed is proven.
        let proves = is_own && self.run.options.proofs;
        Pass { run: self.run, branch, engines, read_bytes, options, pool: &self.pool, hands_over, proves }
    }

    /// The hash functions that are needed for a file.
    fn kinds(&self, job: &Job) -> Vec<HashKind> {
        let mut kinds = self.entry(job).map(|entry| entry.kinds()).unwrap_or_default();
        let more = self.run.options.digests.iter().copied();
        let comparing = job.other.map(|_| comparing(&kinds));
        for kind in more.chain(comparing) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }

    fn entry(&self, job: &Job) -> Option<Entry<'_>> {
        self.prepared.subject.listed.as_ref()?.entry_at(job.entry?)
    }

    /// Reports what was found of a file that was read.
    fn compare(&self, job: Job, own: Result<ReadFile>, other: Option<Result<ReadFile>>) {
        let is_new = job.entry.is_none() && job.other.is_none();
        let own = match own {
            // It was there when it was listed.
            Err(error) if error.io_kind() == Some(io::ErrorKind::NotFound) => {
                if !is_new {
                    self.sink.missing(job.key, Kind::File);
                }
                return;
            }
            Err(error) => return self.sink.unreadable(job.key, Kind::File, error),
            Ok(own) => own,
        };
        let other = match other.transpose() {
            Err(error) => return self.sink.unreadable(job.key, Kind::File, error),
            Ok(other) => other,
        };
        let unlike = other.as_ref().and_then(|other| differs_from(&own, other));
        let unlisted = self.entry(&job).and_then(|entry| entry.differs(own.len, &own.digests));
        let Some(difference) = unlisted.or_else(|| unlike.clone()) else {
            return self.sink.found(job.key, is_new, own);
        };
        let (offset, is_like_other) = match job.other {
            None => (None, false),
            Some(_) if unlike.is_none() => (None, true),
            Some((other, _)) => match self.locate(&job, other, &mut 0) {
                Ok(offset) => (offset, offset.is_none() && !self.run.is_stopped()),
                // That they differ is known.
                Err(_) => (None, false),
            },
        };
        self.sink.mismatches(job.key, difference, offset, is_like_other, own.digests);
    }

    /// Where a file begins to differ from another one; `counted` are the bytes that were read.
    fn locate(&self, job: &Job, other: NodeId, counted: &mut u64) -> Result<Option<u64>> {
        let subject = self.prepared.subject;
        let Some(against) = &subject.against else { return Ok(None) };
        let own = subject.branch.tree.open(job.id)?;
        let other = against.tree.open(other)?;
        let mut session = Session::new(&*self.run.reading, SessionOptions::default())?;
        let access = self.run.options.access();
        super::locate::first_difference(&mut session, [&*own, &*other], access, &mut |bytes| {
            *counted += bytes;
            self.run.add_read(bytes);
            !self.run.is_stopped()
        })
    }
}

/// The hash function by which two files are compared: one that is computed anyway, if no two files
/// can be made that have one value.
fn comparing(kinds: &[HashKind]) -> HashKind {
    const STRONG: [HashKind; 3] = [HashKind::Blake3, HashKind::Sha256, HashKind::C4];
    STRONG.into_iter().find(|kind| kinds.contains(kind)).unwrap_or(HashKind::Blake3)
}

/// What distinguishes a file from another one, of which one digest is known.
fn differs_from(own: &ReadFile, other: &ReadFile) -> Option<Difference> {
    if own.len != other.len {
        return Some(Difference::Len { expected: other.len, found: own.len });
    }
    let is_same = |digest: &Digest| own.digests.contains(digest);
    (!other.digests.iter().any(is_same)).then_some(Difference::Content)
}
