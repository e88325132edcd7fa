//! Small files: read whole, and written to every destination by the thread that met them.

use std::sync::Arc;

use super::body::{Body, FileJob};
use super::decide::Place;
use super::destination::{Receiver, Way};
use super::finish::{Written, new_file};
use super::ledger::{Permit, held};
use super::reopening::Opened;
use super::run::Run;
use super::waits::For;
use crate::engine::Access;
use crate::error::{Error, Result};
use crate::extent::ByteRange;
use crate::hash::Hashing;
use crate::source::{AccessRule, Identity, Session, Source};
use crate::tree::existing::Comparison;
use crate::tree::filling::{Failed, Filling};
use crate::tree::outbox::OutFile;
use crate::tree::{Holes, Part};

/// A file up to this length is small, in bytes: one read, one buffered write.
pub(super) const SMALL_MAX: u64 = 256 << 10;

/// One that has grown beyond this since it was listed is not read at once.
const GROWN_MAX: u64 = 4 << 20;

/// What could be a hole has this many zeros at least.
const PAGE: usize = 4096;

/// Small files to be read, or one that is read already.
pub(super) enum SmallTask {
    Read(Vec<FileJob>),
    Write(Vec<(usize, Place)>, Body),
}

impl Run<'_> {
    /// Copies small files to all destinations that need them.
    pub(super) fn copy_small(&self, session: &mut Session, task: SmallTask) {
        match task {
            SmallTask::Read(jobs) => jobs.iter().for_each(|job| {
                self.begin_file(job);
                let result = self.read_and_write(session, job);
                self.end_file(job, result);
            }),
            SmallTask::Write(places, body) => self.write_to_all(places, &body),
        }
    }

    fn read_and_write(&self, session: &mut Session, job: &FileJob) -> Result<()> {
        let places = self.decide(job);
        if places.is_empty() {
            return Ok(());
        }
        let permit = self.clock.timed(For::Destinations, self.jobs, || self.ledger.take(job.node.len));
        let read = match self.read_small(session, job) {
            // Once more, as it is now.
            Err(Error::SourceChanged { .. }) => self.read_small(session, job),
            read => read,
        };
        let (body, node) = read?;
        let mut places = places;
        for (_, place) in &mut places {
            place.job.node = node;
        }
        self.write_to_all(places, &with_permit(body, permit));
        Ok(())
    }

    fn read_small(&self, session: &mut Session, job: &FileJob) -> Result<(Body, crate::tree::Node)> {
        let opened = self.clock.timed(For::Sources, self.jobs, || self.open(job));
        let Opened { source, id, xattrs, node } = opened?;
        let range = ByteRange::to(source.len());
        if range.len() > GROWN_MAX {
            let before = Identity { len: job.node.len, ..source.identity() };
            return Err(Error::changed(source.path(), before, source.identity()));
        }
        self.throttle(range.len(), self.jobs);
        // What is empty now may be about to be written.
        let read = match range.is_empty() {
            true => Ok(bytes::Bytes::new()),
            false => self.clock.timed(For::Sources, self.jobs, || self.read_range(session, &*source, range)),
        };
        let bytes = match (read, source.check_unchanged()) {
            // That it has changed explains whatever else was met.
            (_, Err(changed @ Error::SourceChanged { .. })) | (Ok(_), Err(changed)) => {
                return Err(changed);
            }
            (read, Ok(()) | Err(_)) => read?,
        };
        self.add_read(bytes.len() as u64);
        let may_have_holes =
            bytes.chunks(PAGE).any(|page| page.len() == PAGE && page.iter().all(|b| *b == 0));
        let holes = match self.sources.get(job.source).filter(|_| may_have_holes) {
            Some(from) => from.tree.holes(id)?,
            None => Holes::default(),
        };
        let mut hashing = Hashing::new(&self.options.hashes);
        hashing.take(&bytes);
        Ok((Body { bytes, xattrs, holes, digests: hashing.finish().into() }, node))
    }

    fn read_range(
        &self,
        session: &mut Session,
        source: &dyn Source,
        range: ByteRange,
    ) -> Result<bytes::Bytes> {
        // A direct read of so few bytes costs more than their pages.
        let access = match self.options.access {
            AccessRule::Auto => Access::Cached,
            rule => rule.decide(source, range),
        };
        session.submit(0, source, range, access)?;
        session.next().map_or_else(
            || Err(Error::io("read", source.path(), std::io::Error::other("the engine gave no answer"))),
            |(_, read)| read,
        )
    }

    /// Writes a file that was read. What one destination meets is in no other's way.
    fn write_to_all(&self, places: Vec<(usize, Place)>, body: &Body) {
        for (index, place) in places {
            if let Some(receiver) = self.receivers.get(index) {
                let write = || receiver.write_small(place, body);
                self.clock.timed(For::Destination(index), self.jobs, write);
            }
        }
    }
}

fn with_permit(body: Body, permit: Permit) -> Body {
    Body { bytes: held(body.bytes, permit), ..body }
}

impl Receiver {
    fn write_small(&self, mut place: Place, body: &Body) {
        if self.is_stopped() {
            return;
        }
        let key: Arc<[u8]> = place.job.key.clone();
        if let Some(other) = &place.compared {
            let compare = || -> std::io::Result<_> {
                let mut comparison = Comparison::open(&other.parent, &other.name)?;
                comparison.take(&body.bytes)?;
                let seen = comparison.seen();
                Ok((comparison.finish()?, seen))
            };
            let (is_same, seen) = match compare() {
                Ok(compared) => compared,
                Err(error) => match self.takes_for_other(&place, error) {
                    true => (false, None),
                    false => return,
                },
            };
            if is_same {
                self.list_same(&place.job, &body.digests, None);
            }
            if self.settle(&place, is_same, seen.as_ref(), &body.digests) {
                return;
            }
            place = place.compared(is_same);
        }
        let metadata = self.metadata(&place.job.node, body.xattrs.clone()).with_holes(body.holes.clone());
        let file = match self.new_file(&place.spot.parent, new_file(&metadata, place.plan)) {
            Ok(file) => file,
            Err(error) => return self.fail_io("create", &key, error),
        };
        match fill(&file, &metadata.holes, body) {
            Ok(len) => {
                self.add_bytes(len);
                let digests = body.digests.clone();
                self.finish(Written { place, file, metadata, digests, proof: None, way: Way::Written });
            }
            Err((operation, error)) => self.fail_io(operation, &key, error),
        }
    }
}

/// Writes all of a file but its holes.
fn fill(file: &OutFile, holes: &Holes, body: &Body) -> Result<u64, Failed> {
    let mut filling = Filling::new(Some(file), None);
    for part in holes.cut(0, &body.bytes) {
        match part {
            Part::Bytes(bytes) => filling.take(bytes)?,
            Part::Hole(len) => filling.take_hole(len)?,
        }
    }
    filling.finish()
}
