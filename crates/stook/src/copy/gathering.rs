//! Files of trees whose bodies lie side by side in others (packs, archives, objects): read many in
//! one pass, in the order of the medium.

use std::ops::ControlFlow;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::body::{Body, FileJob};
use super::decide::Place;
use super::large::{Lanes, Pouring};
use super::ledger::held;
use super::resume::Resumed;
use super::run::Run;
use super::small::{SMALL_MAX, SmallTask};
use super::waits::For;
use crate::error::{Error, Result};
use crate::hash::Hashing;
use crate::tree::{BodyPiece, GatherOptions, Gathered, Holes, Part, Xattrs};

/// Files of one pass.
pub(super) const GATHERED_MAX: usize = 1024;

/// Bytes that a pass has under way; those that were delivered count elsewhere.
const MEMORY_BYTES: u64 = 16 << 20;

/// A file of a pass that some destination needs.
struct Wanted {
    job: FileJob,
    places: Vec<(usize, Place)>,
    is_done: bool,
}

/// The long body that pieces arrive of.
struct Long<'a> {
    index: usize,
    pouring: Pouring<'a>,
    /// The holes that it had where it was stored.
    holes: Holes,
    taken: u64,
}

impl Long<'_> {
    /// Takes the next bytes, of which those in holes are not written where they are zeros.
    fn pour(&mut self, bytes: &Bytes) {
        for part in self.holes.cut(self.taken, bytes) {
            match part {
                Part::Bytes(part) => self.pouring.block(&bytes.slice_ref(part)),
                Part::Hole(len) => self.pouring.hole(len),
            }
        }
        self.taken = self.taken.saturating_add(bytes.len() as u64);
    }
}

impl Run<'_> {
    /// Copies files of one source.
    pub(super) fn gather(&self, jobs: Vec<FileJob>, lanes: &Lanes, small: &SyncSender<SmallTask>) {
        let Some(source) = jobs.first().and_then(|job| self.sources.get(job.source)) else { return };
        let mut wanted = Vec::with_capacity(jobs.len());
        for job in jobs {
            let places = self.decide(&job);
            match places.is_empty() {
                true => self.end_file(&job, Ok(())),
                false => wanted.push(Wanted { job, places, is_done: false }),
            }
        }
        let ids: Vec<_> = wanted.iter().map(|wanted| wanted.job.id).collect();
        let options = GatherOptions {
            access: self.options.access,
            piece_bytes: self.tuning.block_bytes.max(SMALL_MAX),
            memory_bytes: MEMORY_BYTES,
            in_order: true,
            ..GatherOptions::default()
        };
        let mut long: Option<Long<'_>> = None;
        let mut taking = Duration::ZERO;
        let mut take = |gathered: Gathered| -> ControlFlow<()> {
            if self.is_stopped() {
                return ControlFlow::Break(());
            }
            let Some(one) = wanted.get_mut(gathered.index) else { return ControlFlow::Continue(()) };
            match gathered.result {
                Ok(piece) => self.take_piece(gathered.index, one, piece, lanes, small, &mut long),
                Err(error) => {
                    // Others may fail to open while the pieces of this one arrive.
                    if let Some(long) = long.take_if(|long| long.index == gathered.index) {
                        long.pouring.end(false);
                    }
                    one.is_done = true;
                    self.end_file(&one.job, Err(error));
                }
            }
            ControlFlow::Continue(())
        };
        let mut deliver = |gathered: Gathered| {
            let began = Instant::now();
            let goes_on = take(gathered);
            taking += began.elapsed();
            goes_on
        };
        let began = Instant::now();
        let gathered = source.tree.gather(&ids, &*self.reading, &options, &mut deliver);
        // What was not needed to take what came was needed to read it.
        self.clock.add(For::Sources, 1, began.elapsed().saturating_sub(taking));
        if let Some(long) = long.take() {
            long.pouring.end(false);
        }
        let why = match gathered {
            Err(error) => crate::error::chain(&error),
            Ok(()) if self.is_stopped() => return,
            Ok(()) => "its bytes did not come".to_owned(),
        };
        for one in wanted.iter().filter(|one| !one.is_done) {
            let cause = std::io::Error::other(why.clone());
            self.end_file(&one.job, Err(Error::io("read", source.tree.path_of(one.job.id), cause)));
        }
    }

    fn take_piece<'l>(
        &'l self,
        index: usize,
        one: &mut Wanted,
        piece: BodyPiece,
        lanes: &'l Lanes,
        small: &SyncSender<SmallTask>,
        long: &mut Option<Long<'l>>,
    ) {
        if one.is_done {
            return;
        }
        self.throttle(piece.bytes.len() as u64, 1);
        self.add_read(piece.bytes.len() as u64);
        let is_whole = piece.is_whole();
        let len = piece.bytes.len() as u64;
        let permit = self.clock.timed(For::Destinations, 1, || self.ledger.take(len));
        let body_len = piece.body_len;
        let bytes = held(piece.bytes, permit);
        // A piece of another body: what came before it is not whole, and is reported at the end.
        if let Some(long) = long.take_if(|long| long.index != index) {
            long.pouring.end(false);
        }
        if long.is_none() {
            self.begin_file(&one.job);
            let (xattrs, holes) = match self.attributes(&one.job) {
                Ok(attributes) => attributes,
                Err(error) => {
                    one.is_done = true;
                    return self.end_file(&one.job, Err(error));
                }
            };
            let mut places = std::mem::take(&mut one.places);
            // Trees say how long a body is when it was read: a pipe in an archive does not before.
            places.iter_mut().for_each(|(_, place)| place.job.node.len = body_len);
            if is_whole && body_len <= SMALL_MAX {
                let mut hashing = Hashing::new(&self.options.hashes);
                hashing.take(&bytes);
                let body = Body { bytes, xattrs, holes, digests: hashing.finish().into() };
                one.is_done = true;
                self.end_file(&one.job, Ok(()));
                // Those who write end only after this one.
                let send = || drop(small.send(SmallTask::Write(places, body)));
                self.clock.timed(For::Destinations, 1, send);
                return;
            }
            // What comes in one pass begins at its beginning.
            let resumed = Resumed::nothing();
            let pouring = Pouring::begin(self, lanes, places, &xattrs, &holes, resumed);
            *long = Some(Long { index, pouring, holes, taken: 0 });
        }
        if let Some(long) = long.as_mut().filter(|long| long.index == index) {
            long.pour(&bytes);
        }
        if let Some(done) = long.take_if(|long| long.taken >= body_len) {
            one.is_done = true;
            done.pouring.end(true);
            self.end_file(&one.job, Ok(()));
        }
    }

    fn attributes(&self, job: &FileJob) -> Result<(Xattrs, Holes)> {
        let Some(source) = self.sources.get(job.source) else { return Ok(Default::default()) };
        let xattrs = match self.options.xattrs {
            true => source.tree.xattrs(job.id)?,
            false => Xattrs::default(),
        };
        Ok((xattrs, source.tree.holes(job.id)?))
    }
}
