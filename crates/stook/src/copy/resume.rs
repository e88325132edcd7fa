//! What earlier runs left of a large file: found, verified by reading it, and continued.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;
use std::thread;

use bytes::Bytes;

use super::decide::Place;
use super::destination::is_fat_at;
use super::hash_lane::ToHash;
use super::journal::{BLOCK_BYTES, JournalHeader};
use super::large::Lanes;
use super::ledger::{Permit, held};
use super::options::Resume;
use super::partial::{Partial, is_verified};
use super::run::Run;
use super::sharing::whole_file;
use crate::engine::Access;
use crate::source::{Session, Source};
use crate::tree::Holes;
use crate::tree::existing::Plan;

/// How much longer a file may be than what it has outside of its holes, so that it is continued:
/// the journal has records of holes, too.
const HOLES_MAX: u64 = 16;

/// What a file is continued from.
pub(super) struct Resumed {
    /// By destination. The others get a fresh file.
    pub(super) partials: BTreeMap<usize, Partial>,
    /// Up to where every destination has it: that is not read again, and is hashed.
    pub(super) start: u64,
}

impl Resumed {
    /// From the beginning.
    pub(super) fn nothing() -> Self {
        Self { partials: BTreeMap::new(), start: 0 }
    }
}

impl Run<'_> {
    /// Finds what there is of a file in its places, and verifies it; `None` if the run was stopped
    /// meanwhile: all stays as it is.
    pub(super) fn resume(
        &self,
        session: &mut Session,
        lanes: &Lanes,
        places: &[(usize, Place)],
        (source, holes): (&dyn Source, &Holes),
    ) -> Option<Resumed> {
        // What is nearly all hole is copied sooner than it is verified.
        let is_worth = holes.kept_bytes(source.len()).saturating_mul(HOLES_MAX) >= source.len();
        let found = places.iter().filter_map(|(index, place)| {
            let resume = self.options.resume.filter(|resume| is_worth && may_stay(place, *resume))?;
            let header = header_of(source, place)?;
            Some((*index, Partial::open(self.receivers.get(*index)?, place, header, resume)?))
        });
        let mut partials: BTreeMap<usize, Partial> = found.collect();
        let in_all = partials.len() == places.len() && partials.values().all(|one| one.journal.records() > 0);
        // Hashes are of all bytes in their order. One partial file gives those that need not be
        // read again: it is read anyway. With the shortest the fewest are left over.
        let shortest = partials.iter().min_by_key(|(_, one)| one.journal.records());
        let shortest = shortest.map(|(index, _)| *index).filter(|_| in_all);
        let hashed = shortest.filter(|_| lanes.hashing.is_some());
        let others = partials.iter().filter(|(index, _)| Some(**index) != hashed).collect::<Vec<_>>();
        let mut verified = self.verify_each(session, &others, shortest);
        let least = others.iter().map(|(index, one)| bytes_of(one, verified.get(*index)));
        let due = least.min().unwrap_or(source.len());
        let mut hashed_bytes = 0;
        if let Some((index, partial)) = hashed.and_then(|index| Some((index, partials.get(&index)?))) {
            let mut hash = |number, bytes: &Bytes| {
                let range = partial.journal.block_at(number).filter(|range| range.end() <= due);
                if let Some((range, lane)) = range.zip(lanes.hashing.as_ref()) {
                    // It ends only after those who send.
                    let _ = lane.send(ToHash::Block(bytes.clone()));
                    hashed_bytes = range.end();
                }
            };
            verified.insert(index, self.verify(session, index, partial, &mut hash, true));
        }
        if self.is_stopped() {
            forget_hashed(lanes);
            self.leave(places, partials);
            return None;
        }
        partials.retain(|index, one| one.cut_to(verified.get(index).copied().unwrap_or(0)).is_ok());
        let has = |(index, _): &(usize, Place)| partials.get(index).map_or(0, |one| one.journal.bytes());
        let mut start = places.iter().map(has).min().unwrap_or(0);
        if lanes.hashing.is_some() && start != hashed_bytes {
            start = 0;
            forget_hashed(lanes);
        }
        let counted = shortest.map_or(0, |index| verified.get(&index).copied().unwrap_or(0));
        self.correct_resumed(counted.saturating_mul(BLOCK_BYTES).min(source.len()), start);
        Some(Resumed { partials, start })
    }

    /// All stays as it is.
    fn leave(&self, places: &[(usize, Place)], mut partials: BTreeMap<usize, Partial>) {
        for (index, place) in places {
            if let Some((partial, receiver)) = partials.remove(index).zip(self.receivers.get(*index)) {
                receiver.leave(place, partial);
            }
        }
    }

    /// How many blocks of each are what their journals say: those of several at once. One counts
    /// as progress.
    fn verify_each(
        &self,
        session: &mut Session,
        partials: &[(&usize, &Partial)],
        counts: Option<usize>,
    ) -> BTreeMap<usize, u64> {
        let verify = |session: &mut Session, index: usize, partial: &Partial| {
            self.verify(session, index, partial, &mut |_, _| {}, Some(index) == counts)
        };
        if let [(index, partial)] = partials {
            return BTreeMap::from([(**index, verify(session, **index, partial))]);
        }
        let verify_alone = |index: usize, partial: &Partial| match self.session(self.tuning.depth) {
            Ok(mut session) => verify(&mut session, index, partial),
            // What cannot be read is written again.
            Err(_) => 0,
        };
        let verify_alone = &verify_alone;
        thread::scope(|scope| {
            let started: Vec<_> = partials
                .iter()
                .map(|(index, partial)| (**index, scope.spawn(move || verify_alone(**index, partial))))
                .collect();
            let joined = started.into_iter().map(|(index, thread)| {
                (index, thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            });
            joined.collect()
        })
    }

    /// How many blocks of a file are what its journal says. `each` gets them in their order, and
    /// they may count as progress.
    ///
    /// It is read past the page cache: what the device gives back is what counts. A block that
    /// cannot be read is written again, as one that is another.
    fn verify(
        &self,
        session: &mut Session,
        index: usize,
        partial: &Partial,
        each: &mut dyn FnMut(u64, &Bytes),
        counts: bool,
    ) -> u64 {
        let journal = &partial.journal;
        let shown = self.receivers.get(index).map(|receiver| receiver.path.clone()).unwrap_or_default();
        let Ok(source) = partial.source(&shown) else { return 0 };
        let (mut asked, mut due, mut end) = (0, 0, journal.records());
        let (mut first, mut hashes) = (0, journal.hashes_from(0));
        let (mut permits, mut early) = (BTreeMap::<u64, Permit>::new(), BTreeMap::<u64, Bytes>::new());
        while due < end && !self.is_stopped() {
            while asked < end && permits.len() + early.len() < self.tuning.depth {
                let Some(range) = journal.block_at(asked) else { break };
                // As for blocks of sources: who waits holds nothing that others wait for.
                let is_idle = permits.is_empty() && early.is_empty();
                let permit = match self.ledger.try_take(range.len()) {
                    Some(permit) => permit,
                    None if is_idle => self.ledger.take(range.len()),
                    None => break,
                };
                match session.submit(asked, &source, range, Access::Direct) {
                    Ok(()) => permits.insert(asked, permit),
                    Err(_) => {
                        end = asked;
                        break;
                    }
                };
                asked += 1;
            }
            match session.next() {
                Some((number, read)) => match (read, permits.remove(&number)) {
                    (Ok(bytes), Some(permit)) => drop(early.insert(number, held(bytes, permit))),
                    _ => end = end.min(number),
                },
                None => end = end.min(asked),
            }
            while due < end {
                let Some(bytes) = early.remove(&due) else { break };
                if due - first >= hashes.len() as u64 {
                    (first, hashes) = (due, journal.hashes_from(due));
                }
                let hash = usize::try_from(due - first).ok().and_then(|at| hashes.get(at));
                if hash.is_some_and(|hash| is_verified(hash, due, &bytes)) {
                    each(due, &bytes);
                    self.add_resumed(if counts { bytes.len() as u64 } else { 0 });
                    due += 1;
                } else {
                    end = due;
                }
            }
        }
        // What is on its way is in memory of the session.
        while session.next().is_some() {}
        due
    }
}

/// The file is hashed from its beginning.
fn forget_hashed(lanes: &Lanes) {
    if let Some(lane) = &lanes.hashing {
        // It ends only after those who send.
        let _ = lane.send(ToHash::End(Vec::new()));
    }
}

/// How many bytes so many blocks are.
fn bytes_of(partial: &Partial, blocks: Option<&u64>) -> u64 {
    let last = blocks.and_then(|blocks| blocks.checked_sub(1));
    last.and_then(|last| partial.journal.block_at(last)).map_or(0, |range| range.end())
}

/// Whether a file stays when its copy ends before it is whole. One that is compared may not be
/// written at all, and one that is written again is written afresh.
fn may_stay(place: &Place, resume: Resume) -> bool {
    let is_written = place.compared.is_none() && place.plan != Plan::Compare;
    is_written && !place.job.is_alone && place.job.node.len >= resume.from_bytes
}

/// What the next run knows a source by; `None` if a later change could look the same.
fn header_of(source: &dyn Source, place: &Place) -> Option<JournalHeader> {
    whole_file(source)?;
    let identity = source.identity();
    if !identity.is_settled() {
        return None;
    }
    // The numbers of FAT are made up when a disk is put in.
    let has_inodes = !is_fat_at(source.path());
    let path = std::path::absolute(source.path()).unwrap_or_else(|_| source.path().to_path_buf());
    let path = path.as_os_str().as_bytes();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(path.len() as u64).to_le_bytes()).update(path).update(place.spot.name.as_bytes());
    Some(JournalHeader {
        len: identity.len,
        mtime_ns: identity.mtime_ns,
        ctime_ns: if has_inodes { identity.ctime_ns } else { 0 },
        inode: if has_inodes { identity.inode } else { 0 },
        own_inode: 0,
        place: *hasher.finalize().as_bytes(),
    })
}
