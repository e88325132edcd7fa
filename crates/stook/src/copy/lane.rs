//! [`Lane`]: writes large files to one destination, with an engine and a thread of its own, so that
//! a slow or failing destination is in no other's way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver as Incoming;

use bytes::Bytes;

use super::decide::Place;
use super::destination::{Receiver, Way};
use super::finish::{Written, new_file};
use super::hash_lane::{Computed, Digests};
use super::partial::{Journal, Partial};
use crate::engine::{self, Access, Completion, Engine, Operation, Request};
use crate::error::{Error, Result};
use crate::extent::ByteRange;
use crate::source::AccessRule;
use crate::tree::Holes;
use crate::tree::existing::{Comparison, Plan};
use crate::tree::outbox::{Durability, OutFile, SYNC};
use crate::tree::target::FileMetadata;

/// How much of a hole is taken at once where its hashes are kept.
const HOLE_BYTES: u64 = 32 << 30;

/// What a lane is handed, in order.
pub(super) enum Message {
    Begin(Box<Begin>),
    /// The next bytes.
    Block(Bytes),
    /// This many zeros that are not written.
    Hole(u64),
    /// The source has changed: nothing of the file is of use to the next run.
    Changed,
    /// The file is whole, with these digests; or it is to be given up.
    End(Option<Digests>),
}

/// A file that is begun.
pub(super) struct Begin {
    pub(super) place: Place,
    pub(super) metadata: FileMetadata,
    /// How many lanes still want its bytes.
    pub(super) wanted: Arc<AtomicUsize>,
    /// What an earlier run left of it, or what the next one may continue.
    pub(super) partial: Option<Partial>,
    /// Where the bytes begin that come.
    pub(super) start: u64,
}

/// Where a file is written that is being read.
struct InProgress {
    begin: Begin,
    /// `None` where it is only compared.
    out: Option<(OutFile, Arc<engine::File>)>,
    comparison: Option<Comparison>,
    /// Bytes so far, holes included.
    taken: u64,
    has_failed: bool,
    /// Bytes that were counted as written.
    counted: u64,
    /// What the next run can continue from, where it can.
    journal: Option<Journal>,
    /// Up to where the file was there before.
    had: u64,
    /// Whether the next run must not continue it.
    is_lost: bool,
}

impl InProgress {
    /// No more of it is wanted here.
    fn stop(&mut self) {
        self.has_failed = true;
        self.begin.wanted.fetch_sub(1, Ordering::Relaxed);
    }

    /// Compares what comes next, where something is compared; whether the file is still wanted.
    fn compare(
        &mut self,
        receiver: &Receiver,
        take: impl FnOnce(&mut Comparison) -> std::io::Result<()>,
    ) -> bool {
        let Some(Err(error)) = self.comparison.as_mut().map(take) else { return true };
        let is_other = receiver.takes_for_other(&self.begin.place, error);
        match is_other {
            true => self.comparison = Some(Comparison::unlike()),
            false => self.stop(),
        }
        is_other
    }
}

/// A file that was begun, and what takes its bytes beside the comparison.
type Out = Option<(OutFile, Arc<engine::File>)>;

/// A destination on its way from one large file to the next.
pub(super) struct Lane {
    receiver: Arc<Receiver>,
    depth: usize,
    rule: AccessRule,
    engine: Option<Box<dyn Engine>>,
    completions: Vec<Completion>,
    current: Option<InProgress>,
}

impl Lane {
    pub(super) fn new(receiver: Arc<Receiver>, depth: usize, rule: AccessRule) -> Self {
        let depth = if receiver.is_in_order() { 1 } else { depth };
        Self { receiver, depth, rule, engine: None, completions: Vec::new(), current: None }
    }

    /// Takes messages until no more come.
    pub(super) fn run(mut self, incoming: &Incoming<Message>) {
        while let Ok(message) = incoming.recv() {
            match message {
                Message::Begin(begin) => self.begin(*begin),
                Message::Block(bytes) => self.block(bytes),
                Message::Hole(len) => self.hole(len),
                Message::Changed => self.current.iter_mut().for_each(|current| current.is_lost = true),
                Message::End(digests) => self.end(digests),
            }
        }
        self.end(None);
    }

    fn begin(&mut self, mut begin: Begin) {
        let (partial, start) = (begin.partial.take(), begin.start);
        let had = partial.as_ref().map_or(0, |partial| partial.journal.bytes());
        let opened = self.open(&begin.place, &begin.metadata, partial);
        let mut current = InProgress {
            begin,
            out: None,
            comparison: None,
            taken: start,
            has_failed: false,
            counted: start,
            journal: None,
            had,
            is_lost: false,
        };
        self.receiver.add_bytes(start);
        match opened {
            Ok((out, comparison, journal)) => {
                self.receiver.state().report.resumed_bytes += had;
                (current.out, current.comparison, current.journal) = (out, comparison, journal);
            }
            Err(error) => {
                current.stop();
                error.into_iter().for_each(|error| self.receiver.fail(&current.begin.place.job.key, error));
            }
        }
        self.current = Some(current);
    }

    /// Opens what is compared, and makes what is written, or continues it, with room for all of it.
    /// An error that was reported already is `None`.
    fn open(
        &mut self,
        place: &Place,
        metadata: &FileMetadata,
        partial: Option<Partial>,
    ) -> Result<(Out, Option<Comparison>, Option<Journal>), Option<Error>> {
        let (receiver, key) = (self.receiver.clone(), place.job.key.clone());
        let io = |operation: &'static str| {
            let (receiver, key) = (receiver.clone(), key.clone());
            move |error| receiver.io(operation, &key, error)
        };
        let comparison = place.compared.as_ref().map(|other| Comparison::open(&other.parent, &other.name));
        let comparison = match comparison {
            Some(Err(error)) => match receiver.takes_for_other(place, error) {
                true => Some(Comparison::unlike()),
                false => return Err(None),
            },
            Some(Ok(comparison)) => Some(comparison),
            None => None,
        };
        if place.plan == Plan::Compare {
            return Ok((None, comparison, None));
        }
        let (file, journal) = match partial {
            Some(Partial { file, journal }) => (file, Some(journal)),
            None => {
                let new = new_file(metadata, place.plan);
                (receiver.new_file(&place.spot.parent, new).map_err(io("create"))?, None)
            }
        };
        match self.make_room(&file, place, metadata) {
            Ok(out) => Ok((Some((file, out)), comparison, journal)),
            Err(error) => {
                if let Some(journal) = journal {
                    receiver.leave(place, Partial { file, journal });
                }
                Err(Some(error))
            }
        }
    }

    /// A file as the engine writes it, as long as it will be.
    fn make_room(
        &mut self,
        file: &OutFile,
        place: &Place,
        metadata: &FileMetadata,
    ) -> Result<Arc<engine::File>> {
        let (receiver, key, len) = (self.receiver.clone(), &place.job.key, place.job.node.len);
        let failed = |operation| {
            let receiver = receiver.clone();
            move |error| receiver.io(operation, key, error)
        };
        let out = Arc::new(file.for_engine(&receiver.path_of(key)).map_err(failed("create"))?);
        if !receiver.is_in_order() {
            // A write inside a file costs far less than one that extends it.
            if !self.grows(&out) {
                file.set_len(len).map_err(failed("set the length of"))?;
            }
            self.allocate(&out, &metadata.holes, len)?;
        }
        Ok(out)
    }

    /// Whether a file has no more length than bytes on their way: where nothing is synced and all
    /// goes through the page cache, a loss of power would else leave one with the right length and
    /// time, and zeros in it, which the next run takes for the same.
    fn grows(&self, out: &engine::File) -> bool {
        let is_cached = self.rule == AccessRule::Cached || !out.is_direct_possible();
        self.receiver.options.durability == Durability::None && is_cached
    }

    /// Reserves room for all that is no hole, so that a full medium is met at once.
    fn allocate(&mut self, out: &Arc<engine::File>, holes: &Holes, len: u64) -> Result<()> {
        let kept = Holes::between(holes.as_slice().iter().copied(), len);
        for range in kept.as_slice() {
            let operation = Operation::Allocate { range: *range, keep_len: true };
            match self.operate(out, operation) {
                Ok(()) => {}
                Err(Error::Unsupported { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Makes one operation, with nothing else in flight.
    fn operate(&mut self, out: &Arc<engine::File>, operation: Operation) -> Result<()> {
        let request = Request { token: 0, file: out.clone(), access: Access::Cached, operation };
        self.engine()?.submit(request);
        let mut completions = std::mem::take(&mut self.completions);
        let reaped = self.engine()?.reap(1, &mut completions);
        let done = completions.pop();
        self.completions = completions;
        reaped?;
        done.map_or(Ok(()), |done| done.result.map(drop))
    }

    /// Made when it is needed first: a destination may get no large file at all.
    fn engine(&mut self) -> Result<&mut Box<dyn Engine>> {
        match &mut self.engine {
            Some(engine) => Ok(engine),
            none => Ok(none.insert(self.receiver.factory.build(self.depth)?)),
        }
    }

    fn block(&mut self, bytes: Bytes) {
        let Some(current) = self.current.as_mut().filter(|current| !current.has_failed) else { return };
        let (offset, len) = (current.taken, bytes.len() as u64);
        current.taken = offset.saturating_add(len);
        if !current.compare(&self.receiver, |comparison| comparison.take(&bytes)) {
            return;
        }
        if let Some(journal) = &mut current.journal {
            journal.take(&bytes, offset);
        }
        if current.taken <= current.had {
            current.counted = current.counted.saturating_add(len);
            return self.receiver.add_bytes(len);
        }
        let Some((_, out)) = &current.out else { return };
        // What is written in order, on file systems where a gap is filled with zeros, goes the way
        // that they are made for.
        let is_cached = self.rule == AccessRule::Cached || self.receiver.is_in_order();
        let access = if is_cached { Access::Cached } else { Access::Direct };
        let operation = Operation::WriteShared { offset, bytes };
        let request = Request { token: len, file: out.clone(), access, operation };
        current.counted = current.counted.saturating_add(len);
        self.receiver.add_bytes(len);
        let submitted = self.engine().map(|engine| {
            engine.submit(request);
            engine.in_flight()
        });
        match submitted {
            Ok(in_flight) if in_flight >= self.depth => self.reap(1),
            Ok(_) => {}
            Err(error) => self.fail(error),
        }
        self.check_in(false);
    }

    fn hole(&mut self, mut len: u64) {
        // However long it is, no more hashes of it wait than this.
        while len > HOLE_BYTES && self.current.as_ref().is_some_and(|current| current.journal.is_some()) {
            self.part_of_hole(HOLE_BYTES);
            self.check_in(false);
            len -= HOLE_BYTES;
        }
        self.part_of_hole(len);
    }

    fn part_of_hole(&mut self, len: u64) {
        let Some(current) = self.current.as_mut().filter(|current| !current.has_failed) else { return };
        if let Some(journal) = &mut current.journal {
            journal.take_zeroes(len, current.taken);
        }
        current.taken = current.taken.saturating_add(len);
        if !current.compare(&self.receiver, |comparison| comparison.take_zeroes(len)) {
            return;
        }
        current.counted = current.counted.saturating_add(len);
        self.receiver.add_bytes(len);
    }

    /// Takes completed writes, at least so many.
    fn reap(&mut self, least: usize) {
        let Some(engine) = &mut self.engine else { return };
        let mut completions = std::mem::take(&mut self.completions);
        let reaped = engine.reap(least.min(engine.in_flight()), &mut completions);
        let mut failed = reaped.err();
        for Completion { token, result, passage, .. } in completions.drain(..) {
            match result {
                Ok(written) if written as u64 == token => self.receiver.add_passage(passage),
                // An engine goes on until all is written, or says why not.
                Ok(_) => failed = failed.or_else(|| Some(self.short())),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        self.completions = completions;
        if let Some(error) = failed {
            self.fail(error);
        }
    }

    fn short(&self) -> Error {
        let key = self.current.as_ref().map(|current| current.begin.place.job.key.clone());
        self.receiver.io("write", &key.unwrap_or_default(), std::io::ErrorKind::WriteZero.into())
    }

    /// The file is given up here; the other destinations go on.
    fn fail(&mut self, error: Error) {
        let Some(current) = self.current.as_mut().filter(|current| !current.has_failed) else { return };
        current.stop();
        self.receiver.fail(&current.begin.place.job.key, error);
    }

    /// Waits for all writes.
    fn drain(&mut self) {
        while self.engine.as_ref().is_some_and(|engine| engine.in_flight() > 0) {
            let before = self.engine.as_ref().map(|engine| engine.in_flight());
            self.reap(1);
            // A broken engine gives nothing back.
            if before == self.engine.as_ref().map(|engine| engine.in_flight()) {
                self.engine = None;
            }
        }
    }

    /// Makes a checkpoint if one is due, or the file ends here: so far the next run need not write
    /// it again.
    fn check_in(&mut self, is_end: bool) {
        let journal = self.current.as_ref().and_then(|current| current.journal.as_ref());
        if !journal.is_some_and(|journal| is_end || journal.is_due()) {
            return;
        }
        self.drain();
        let Some(current) = self.current.as_mut().filter(|current| !current.has_failed) else { return };
        let (Some((file, _)), Some(journal)) = (&current.out, &mut current.journal) else { return };
        if let Err(error) = journal.checkpoint(file) {
            // It is not known which bytes were lost: none of the file is used.
            current.is_lost = true;
            let job = current.begin.place.job.clone();
            if !self.receiver.is_written_again(&job) {
                let error = self.receiver.io(SYNC, &job.key, error);
                return self.fail(error);
            }
            current.stop();
            self.receiver.write_again(job);
        }
    }

    /// The file is given up. What the next run can continue stays.
    fn give_up(&mut self) {
        if self.current.as_ref().is_some_and(|current| !current.is_lost) {
            self.check_in(true);
        }
        let Some(current) = self.current.take() else { return };
        self.receiver.take_back(current.counted);
        if let (Some((file, _)), Some(journal), false) = (current.out, current.journal, current.is_lost) {
            self.receiver.leave(&current.begin.place, Partial { file, journal });
        }
    }

    /// Waits for all writes, and gives the file its name if it is whole.
    fn end(&mut self, digests: Option<Digests>) {
        self.drain();
        let has_failed = self.current.as_ref().is_none_or(|current| current.has_failed);
        let Some(digests) = digests.filter(|_| !has_failed) else { return self.give_up() };
        let Some(current) = self.current.take() else { return };
        let InProgress { begin, out, comparison, counted, journal, .. } = current;
        let (receiver, key) = (&self.receiver, begin.place.job.key.clone());
        let seen = comparison.as_ref().and_then(Comparison::seen);
        let mut place = begin.place;
        let Some(Computed { digests, proof }) = digests.wait() else {
            receiver.take_back(counted);
            return receiver.fail_io("hash", &key, std::io::Error::other("the thread that hashes has ended"));
        };
        if let Some(comparison) = comparison {
            receiver.take_back(counted);
            let is_same = match comparison.finish() {
                Ok(is_same) => is_same,
                Err(error) => match receiver.takes_for_other(&place, error) {
                    true => false,
                    false => return,
                },
            };
            if is_same && receiver.lists.is_some() {
                receiver.list_same(&place.job, &digests, proof.as_ref());
            }
            if receiver.settle(&place, is_same, seen.as_ref(), &digests) {
                return;
            }
            place = place.compared(is_same);
            receiver.add_bytes(counted);
        }
        let Some((file, out)) = out else { return };
        if (receiver.is_in_order() || self.grows(&out))
            && let Err(error) = file.set_len(place.job.node.len)
        {
            receiver.take_back(counted);
            return receiver.fail_io("set the length of", &key, error);
        }
        if journal.is_none() {
            receiver.forget_partial(&place.job, &place.spot);
        }
        let metadata = begin.metadata;
        receiver.finish(Written { place, file, metadata, digests, proof, way: Way::Written });
    }
}

/// Ranges that are read of a file: all but its holes, cut into blocks that begin at multiples of
/// their length, from an offset on. Holes lie between them.
pub(super) fn blocks(
    holes: &Holes,
    from: u64,
    len: u64,
    block: u64,
) -> impl Iterator<Item = (ByteRange, bool)> + '_ {
    let mut at = from;
    std::iter::from_fn(move || {
        if at >= len {
            return None;
        }
        let hole = holes.next_from(at);
        let is_hole = hole.is_some_and(|hole| hole.start() <= at);
        let end = match hole {
            Some(hole) if is_hole => hole.end().min(len),
            hole => {
                let block_end = at.saturating_add(1).next_multiple_of(block.max(1));
                hole.map_or(len, |hole| hole.start()).min(len).min(block_end)
            }
        };
        let range = ByteRange::new(at, end)?;
        at = end;
        Some((range, is_hole))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_holes_cover_a_file_once_and_in_order() {
        let range = |start, end| ByteRange::new(start, end).unwrap();
        let holes = Holes::of([range(5, 20), range(30, 100)]);
        let all: Vec<_> = blocks(&holes, 0, 40, 8).collect();
        let expected = [(0, 5, false), (5, 20, true), (20, 24, false), (24, 30, false), (30, 40, true)]
            .map(|(start, end, is_hole)| (range(start, end), is_hole));
        assert_eq!(all, expected);
        assert_eq!(blocks(&Holes::default(), 0, 0, 8).count(), 0);
        assert_eq!(blocks(&Holes::default(), 0, 17, 8).count(), 3);
        let later: Vec<_> = blocks(&holes, 12, 40, 8).collect();
        assert_eq!(later[0], (range(12, 20), true));
        assert_eq!(later[1..], expected[2..]);
    }
}
