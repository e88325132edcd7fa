//! [`Pass`]: reads files of a tree in the order of the medium, and hashes them.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};

use super::passed::CountingEngines;
use super::pool::{HashPool, HashTask, Hashed};
use super::run::Run;
use super::subject::Branch;
use super::subtrees::{FROM_BYTES, Subtrees};
use crate::error::{Error, Result, chain};
use crate::format::proof::BLOCK_BYTES;
use crate::hash::{Digest, HashKind, Hashing};
use crate::tree::descriptors::is_short_of_descriptors;
use crate::tree::{BodyPiece, GatherOptions, Gathered, NodeId};

/// Files of these lengths are handed to other threads as a whole: to hash a shorter one takes no
/// longer than to wake a thread.
const HANDED_OVER: std::ops::RangeInclusive<u64> = 32 << 10..=1 << 20;

/// A file that is to be read.
#[derive(Debug)]
pub(super) struct Wanted<'k> {
    pub(super) id: NodeId,
    pub(super) key: &'k [u8],
    pub(super) kinds: Vec<HashKind>,
}

/// A file that was read.
#[derive(Debug, Clone)]
pub(super) struct ReadFile {
    pub(super) len: u64,
    pub(super) digests: Arc<[Digest]>,
    /// The proof of its parts, if that was asked for.
    pub(super) proof: Option<Arc<[u8]>>,
}

/// Reads files of one tree.
pub(super) struct Pass<'r, 'a> {
    pub(super) run: &'r Run<'a>,
    pub(super) branch: &'r Branch,
    pub(super) engines: &'r CountingEngines,
    /// Bytes that were read of this tree.
    pub(super) read_bytes: &'r AtomicU64,
    pub(super) options: GatherOptions,
    pub(super) pool: &'r HashPool,
    /// Whether others hash the small files.
    pub(super) hands_over: bool,
    /// Whether proofs are made.
    pub(super) proves: bool,
}

/// What became of files that were read together. `None` where the caller wanted no more.
pub(super) type Outcomes = Vec<Option<Result<ReadFile>>>;

impl Pass<'_, '_> {
    /// Reads files. One that changes meanwhile is read once more, as it is then.
    pub(super) fn read(&self, mut wanted: Vec<Wanted<'_>>) -> Outcomes {
        let mut outcomes: Outcomes = wanted.iter().map(|_| None).collect();
        let all: Vec<usize> = (0..wanted.len()).collect();
        self.read_these(&wanted, &all, &mut outcomes);
        let is_again = |outcome: &Option<Result<ReadFile>>| match outcome {
            Some(Err(error)) => may_be_otherwise(error),
            _ => false,
        };
        let again = outcomes.iter().enumerate().filter(|(_, outcome)| is_again(outcome));
        let mut again: Vec<usize> = again.map(|(at, _)| at).collect();
        if again.is_empty() || self.run.is_stopped() {
            return outcomes;
        }
        // Another file may have the name by now.
        again.retain(|at| {
            let (Some(one), Some(outcome)) = (wanted.get_mut(*at), outcomes.get_mut(*at)) else {
                return false;
            };
            let gone = || Error::io("open", self.branch.tree.path_of(one.id), io::ErrorKind::NotFound.into());
            match self.branch.find(one.key).and_then(|found| found.ok_or_else(gone)) {
                Ok(id) => one.id = id,
                Err(error) => *outcome = Some(Err(error)),
            }
            matches!(outcome, Some(Err(error)) if may_be_otherwise(error))
        });
        self.read_these(&wanted, &again, &mut outcomes);
        outcomes
    }

    /// Reads these of the files.
    fn read_these(&self, wanted: &[Wanted<'_>], which: &[usize], outcomes: &mut Outcomes) {
        let ids: Vec<NodeId> = which.iter().filter_map(|at| wanted.get(*at)).map(|one| one.id).collect();
        let (to, hashed) = channel();
        let mut reading = Reading { pass: self, wanted, to, partial: HashMap::new() };
        for at in which {
            if let Some(outcome) = outcomes.get_mut(*at) {
                *outcome = None;
            }
        }
        let mut deliver = |gathered: Gathered| {
            if self.run.is_stopped() {
                return ControlFlow::Break(());
            }
            let Some(&at) = which.get(gathered.index) else { return ControlFlow::Continue(()) };
            let outcome = match gathered.result {
                Ok(piece) => reading.take(at, piece),
                Err(error) => {
                    reading.give_up(at);
                    Some(Err(error))
                }
            };
            if let (Some(outcome), Some(place)) = (outcome, outcomes.get_mut(at)) {
                *place = Some(outcome);
            }
            ControlFlow::Continue(())
        };
        let gathered = self.branch.tree.gather(&ids, self.engines, &self.options, &mut deliver);
        drop(reading);
        // All that was handed over is waited for.
        for Hashed { at, len, digests } in hashed {
            if let Some(place) = outcomes.get_mut(at) {
                *place = Some(Ok(ReadFile { len, digests, proof: None }));
            }
        }
        let why = match gathered {
            Ok(()) if self.run.is_stopped() => return,
            Ok(()) => "its bytes did not come".to_owned(),
            Err(error) => chain(&error),
        };
        for at in which {
            let id = wanted.get(*at).map(|one| one.id);
            if let (Some(place @ None), Some(id)) = (outcomes.get_mut(*at), id) {
                let path = self.branch.tree.path_of(id);
                *place = Some(Err(Error::io("read", path, io::Error::other(why.clone()))));
            }
        }
    }
}

/// Whether reading it once more may give something else: it has changed, or another has its name,
/// or too many files were open.
fn may_be_otherwise(error: &Error) -> bool {
    let is_replaced = matches!(error, Error::Io { operation: "find", .. });
    matches!(error, Error::SourceChanged { .. }) || is_replaced || is_short_of_descriptors(error)
}

/// Files of which pieces have come.
struct Reading<'p, 'r, 'a, 'k> {
    pass: &'p Pass<'r, 'a>,
    wanted: &'p [Wanted<'k>],
    /// Takes what other threads have hashed.
    to: Sender<Hashed>,
    partial: HashMap<usize, Partial>,
}

/// A file of which some bytes have come.
struct Partial {
    taken: u64,
    hashing: By,
}

/// Who hashes a file.
enum By {
    This(Hashing),
    /// BLAKE3 by several threads, and what else there is by this one.
    Several(Hashing, Box<Subtrees>),
}

impl By {
    fn new(kinds: &[HashKind], len: u64, pass: &Pass<'_, '_>) -> Self {
        let proves = pass.proves && len > BLOCK_BYTES && kinds.contains(&HashKind::Blake3);
        if !proves && (kinds != [HashKind::Blake3] || len < FROM_BYTES) {
            return Self::This(Hashing::new(kinds));
        }
        let others: Vec<HashKind> = kinds.iter().copied().filter(|kind| *kind != HashKind::Blake3).collect();
        let subtrees = Subtrees::new(pass.pool.clone(), pass.options.piece_bytes, proves);
        Self::Several(Hashing::new(&others), Box::new(subtrees))
    }
}

impl Reading<'_, '_, '_, '_> {
    /// Takes bytes of a file: what became of it, if these were the last, and no other thread hashes
    /// it.
    fn take(&mut self, at: usize, piece: BodyPiece) -> Option<Result<ReadFile>> {
        let BodyPiece { offset, body_len, bytes } = piece;
        let wanted = self.wanted.get(at)?;
        let (is_whole, len) = (bytes.len() as u64 == body_len, bytes.len() as u64);
        if offset == 0 {
            self.pass.run.begin_file(wanted.key);
        }
        self.pass.run.add_read(len);
        self.pass.read_bytes.fetch_add(len, Ordering::Relaxed);
        if is_whole && self.pass.hands_over && HANDED_OVER.contains(&body_len) {
            let (kinds, to) = (wanted.kinds.clone(), self.to.clone());
            self.pass.pool.hash(HashTask::Whole { at, kinds, bytes, to });
            return None;
        }
        let new = || Partial { taken: 0, hashing: By::new(&wanted.kinds, body_len, self.pass) };
        let partial = self.partial.entry(at).or_insert_with(new);
        if partial.taken != offset {
            self.give_up(at);
            let path = self.pass.branch.tree.path_of(wanted.id);
            let why = io::Error::other("its bytes came in another order");
            return Some(Err(Error::io_at("read", path, offset, why)));
        }
        partial.taken += len;
        match &mut partial.hashing {
            By::This(hashing) => hashing.take(&bytes),
            By::Several(others, subtrees) => {
                others.take(&bytes);
                subtrees.take(bytes);
            }
        }
        if partial.taken < body_len {
            return None;
        }
        let (digests, proof) = match self.partial.remove(&at)?.hashing {
            By::This(hashing) => (hashing.finish(), None),
            By::Several(others, subtrees) => {
                let (digest, proof) = subtrees.finish()?;
                (others.finish().into_iter().chain([digest]).collect(), proof.map(Arc::from))
            }
        };
        Some(Ok(ReadFile { len: body_len, digests: digests.into(), proof }))
    }

    /// No more bytes of a file come; those that did count no more.
    fn give_up(&mut self, at: usize) {
        if let Some(partial) = self.partial.remove(&at) {
            self.pass.run.take_back(partial.taken);
        }
    }
}
