//! Large files: read at depth, past the page cache, and handed to the lanes of all destinations
//! from the same memory.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;

use bytes::Bytes;

use super::body::FileJob;
use super::decide::Place;
use super::hash_lane::{Digests, ToHash};
use super::lane::{Begin, Message, blocks};
use super::ledger::{Permit, held};
use super::resume::Resumed;
use super::run::Run;
use super::sharing::whole_file;
use super::waits::{For, WaitClock};
use crate::engine::Access;
use crate::error::{Error, Result};
use crate::extent::ByteRange;
use crate::source::{Session, Source};
use crate::tree::{Holes, NodeId, Xattrs};

/// Blocks that one file may have in memory that are read and not yet due.
const EARLY_MAX: usize = 16;

/// The lanes of one thread that reads.
pub(super) struct Lanes {
    /// One for each destination.
    pub(super) writing: Vec<SyncSender<Message>>,
    /// The one that hashes, if hashes are asked for.
    pub(super) hashing: Option<SyncSender<ToHash>>,
}

/// A file that is handed to lanes while it is read.
pub(super) struct Pouring<'a> {
    lanes: &'a Lanes,
    /// Which of them take it.
    takers: Vec<usize>,
    wanted: Arc<AtomicUsize>,
    /// Where the bytes begin that are poured.
    start: u64,
    clock: &'a WaitClock,
}

impl<'a> Pouring<'a> {
    /// Begins a file in these places, by destination.
    pub(super) fn begin(
        run: &'a Run<'_>,
        lanes: &'a Lanes,
        places: Vec<(usize, Place)>,
        xattrs: &Xattrs,
        holes: &Holes,
        mut resumed: Resumed,
    ) -> Self {
        let wanted = Arc::new(AtomicUsize::new(places.len()));
        let mut takers = Vec::with_capacity(places.len());
        for (index, place) in places {
            let lane = lanes.writing.get(index);
            let Some((lane, receiver)) = lane.zip(run.receivers.get(index)) else { continue };
            let metadata = receiver.metadata(&place.job.node, xattrs.clone()).with_holes(holes.clone());
            let (partial, start) = (resumed.partials.remove(&index), resumed.start);
            let begin = Begin { place, metadata, wanted: wanted.clone(), partial, start };
            // A lane ends only after those who send.
            let send = || lane.send(Message::Begin(Box::new(begin)));
            if run.clock.timed(For::Destination(index), 1, send).is_ok() {
                takers.push(index);
            }
        }
        Self { lanes, takers, wanted, start: resumed.start, clock: &run.clock }
    }

    /// Whether any destination still takes it.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    fn lanes(&self) -> impl Iterator<Item = (usize, &SyncSender<Message>)> {
        self.takers.iter().filter_map(|index| Some((*index, self.lanes.writing.get(*index)?)))
    }

    fn send(&self, message: impl Fn() -> Message, to_hash: ToHash) {
        // A lane ends only after those who send.
        if let Some(lane) = &self.lanes.hashing {
            let _ = lane.send(to_hash);
        }
        for (index, lane) in self.lanes() {
            let _ = self.clock.timed(For::Destination(index), 1, || lane.send(message()));
        }
    }

    /// The next bytes.
    pub(super) fn block(&mut self, bytes: &Bytes) {
        self.send(|| Message::Block(bytes.clone()), ToHash::Block(bytes.clone()));
    }

    /// This many zeros of a hole.
    pub(super) fn hole(&mut self, len: u64) {
        self.send(|| Message::Hole(len), ToHash::Hole(len));
    }

    /// The source has changed.
    fn changed(&self) {
        for (_, lane) in self.lanes() {
            let _ = lane.send(Message::Changed);
        }
    }

    /// The file is whole, or is given up.
    pub(super) fn end(self, is_whole: bool) {
        let mut takers = Vec::with_capacity(self.takers.len());
        for (index, lane) in self.lanes() {
            let digests = match (is_whole, &self.lanes.hashing) {
                (false, _) => None,
                (true, None) => Some(Digests::None),
                (true, Some(_)) => {
                    let (sender, digests) = Digests::coming();
                    takers.push(sender);
                    Some(digests)
                }
            };
            let end = || lane.send(Message::End(digests));
            let _ = self.clock.timed(For::Destination(index), 1, end);
        }
        if let Some(lane) = &self.lanes.hashing {
            let _ = lane.send(ToHash::End(takers));
        }
    }
}

impl Run<'_> {
    /// Copies a large file to all destinations that need it.
    pub(super) fn copy_large(&self, session: &mut Session, lanes: &Lanes, job: &FileJob) {
        self.begin_file(job);
        let (mut result, mut now) = (Ok(()), job.clone());
        for _ in 0..2 {
            let places = self.decide(&now);
            result = match places.is_empty() {
                true => Ok(()),
                false => self.try_large(session, lanes, &now, places),
            };
            match &result {
                // It is read once more, as it is now: for those, too, that have it as it was.
                Err(Error::SourceChanged { .. }) if !self.is_stopped() => {
                    self.receivers.iter().for_each(|receiver| receiver.withdraw(&job.key));
                    now = self.as_it_is_now(job);
                }
                _ => break,
            }
        }
        self.end_file(job, result);
    }

    fn try_large(
        &self,
        session: &mut Session,
        lanes: &Lanes,
        job: &FileJob,
        mut places: Vec<(usize, Place)>,
    ) -> Result<()> {
        let opened = self.open(job)?;
        for (_, place) in &mut places {
            place.job.node = opened.node;
        }
        let holes = self.trusted_holes((job.source, opened.id), &*opened.source)?;
        if self.options.hashes.is_empty() {
            places.retain(|(index, place)| !self.copy_by_system(*index, place, &opened, &holes));
            if places.is_empty() {
                return Ok(());
            }
        }
        let Some(resumed) = self.resume(session, lanes, &places, (&*opened.source, &holes)) else {
            return Ok(());
        };
        let mut pouring = Pouring::begin(self, lanes, places, &opened.xattrs, &holes, resumed);
        let read = self.pour(session, &*opened.source, &holes, &mut pouring);
        let checked = read.and_then(|is_whole| opened.source.check_unchanged().map(|()| is_whole));
        if matches!(checked, Err(Error::SourceChanged { .. })) {
            pouring.changed();
        }
        pouring.end(matches!(checked, Ok(true)));
        checked.map(drop)
    }

    /// Reads a file in order of its bytes; whether all of it was wanted and read.
    fn pour(
        &self,
        session: &mut Session,
        source: &dyn Source,
        holes: &Holes,
        pouring: &mut Pouring<'_>,
    ) -> Result<bool> {
        let access = self.options.access.decide(source, ByteRange::to(source.len()));
        let block_bytes = self.tuning.block_of(source.len());
        let parts = blocks(holes, pouring.start, source.len(), block_bytes);
        let parts: Parts<'_> = Box::new((0..).zip(parts));
        let mut flow = Flow {
            parts: parts.peekable(),
            early: BTreeMap::new(),
            due: 0,
            permits: BTreeMap::new(),
            failed: None,
        };
        loop {
            let goes_on = flow.failed.is_none() && pouring.is_wanted() && !self.is_stopped();
            if goes_on {
                self.ask(&mut flow, session, source, access);
                // The device is busy while lanes are waited for.
                session.start();
                flow.pour_due(pouring);
            } else {
                flow.early.clear();
            }
            match self.clock.timed(For::Sources, 1, || session.next()) {
                Some((number, read)) => self.take_read(&mut flow, number, read),
                None if !goes_on || flow.is_over() => break,
                None => {}
            }
        }
        match flow.failed {
            Some(error) => Err(error),
            None => Ok(flow.parts.peek().is_none() && pouring.is_wanted() && !self.is_stopped()),
        }
    }

    /// Asks for the next blocks while there is room for them.
    fn ask(&self, flow: &mut Flow<'_>, session: &mut Session, source: &dyn Source, access: Access) {
        while flow.permits.len() < self.tuning.depth && flow.early.len() < EARLY_MAX {
            let Some((number, (range, is_hole))) = flow.parts.peek().copied() else { return };
            if is_hole {
                flow.early.insert(number, Part::Hole(range.len()));
                flow.parts.next();
                continue;
            }
            // A thread that waits for room must hold nothing that others wait for.
            let is_idle = flow.permits.is_empty() && flow.early.is_empty();
            let permit = match self.ledger.try_take(range.len()) {
                Some(permit) => permit,
                None if is_idle => self.clock.timed(For::Destinations, 1, || self.ledger.take(range.len())),
                None => return,
            };
            self.throttle(range.len(), 1);
            if let Err(error) = session.submit(number, source, range, access) {
                flow.failed = Some(error);
                return;
            }
            flow.permits.insert(number, permit);
            flow.parts.next();
        }
    }

    fn take_read(&self, flow: &mut Flow<'_>, number: u64, read: Result<Bytes>) {
        match (read, flow.permits.remove(&number)) {
            (Ok(bytes), Some(permit)) => {
                self.add_read(bytes.len() as u64);
                flow.early.insert(number, Part::Bytes(held(bytes, permit)));
            }
            (Ok(_), None) => {}
            (Err(error), _) => {
                flow.failed.get_or_insert(error);
            }
        }
    }

    /// The holes of a file. Where the system may not know yet that bytes were written there, it is
    /// made to.
    fn trusted_holes(&self, (number, id): (usize, NodeId), source: &dyn Source) -> Result<Holes> {
        let Some(from) = self.sources.get(number) else { return Ok(Holes::default()) };
        let holes = from.tree.holes(id)?;
        if holes.is_empty() {
            return Ok(holes);
        }
        match whole_file(source) {
            // What cannot be synced is read, holes and all.
            Some(file) if file.sync_data().is_err() => Ok(Holes::default()),
            Some(_) => from.tree.holes(id),
            None => Ok(holes),
        }
    }
}

/// Blocks and holes by their position in the file.
type Parts<'a> = Box<dyn Iterator<Item = (u64, (ByteRange, bool))> + 'a>;

/// A file that is being read.
struct Flow<'a> {
    /// What was not asked for yet.
    parts: Peekable<Parts<'a>>,
    /// What was read before its turn, and holes.
    early: BTreeMap<u64, Part>,
    /// Whose turn it is.
    due: u64,
    /// Room for what was asked for.
    permits: BTreeMap<u64, Permit>,
    failed: Option<Error>,
}

impl Flow<'_> {
    /// Hands on what is next.
    fn pour_due(&mut self, pouring: &mut Pouring<'_>) {
        while let Some(part) = self.early.remove(&self.due) {
            self.due += 1;
            match part {
                Part::Hole(len) => pouring.hole(len),
                Part::Bytes(bytes) => pouring.block(&bytes),
            }
        }
    }

    /// Whether nothing is left to be read or handed on.
    fn is_over(&mut self) -> bool {
        self.early.is_empty() && self.permits.is_empty() && self.parts.peek().is_none()
    }
}

/// A block, or a hole, that waits for its turn.
enum Part {
    Hole(u64),
    Bytes(Bytes),
}
