//! The hashes of large files, by threads of their own: SHA-256 takes longer than many devices, and
//! reading and writing go on meanwhile. One hash of a file is as fast as one processor computes it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use bytes::Bytes;

use crate::format::proof::ProofHasher;
use crate::hash::{Digest, HashKind, HashingTeam};

/// What the thread is handed, in order.
pub(super) enum ToHash {
    /// The next bytes, which the ledger counts until they are hashed and written.
    Block(Bytes),
    /// This many zeros of a hole.
    Hole(u64),
    /// The end of a file: who gets its digests, if it is whole.
    End(Vec<SyncSender<Computed>>),
}

/// What was computed of a file.
#[derive(Debug, Clone, Default)]
pub(super) struct Computed {
    pub(super) digests: Arc<[Digest]>,
    /// The proof of its parts, if that was asked for, and it has one.
    pub(super) proof: Option<Arc<[u8]>>,
}

/// The digests of a file that is whole.
pub(super) enum Digests {
    /// None were to be computed.
    None,
    Coming(Receiver<Computed>),
}

impl Digests {
    /// Digests to come, and where they are to be sent.
    pub(super) fn coming() -> (SyncSender<Computed>, Self) {
        let (sender, receiver) = sync_channel(1);
        (sender, Self::Coming(receiver))
    }

    /// Waits for them; `None` where the thread ended before.
    pub(super) fn wait(self) -> Option<Computed> {
        match self {
            Self::None => Some(Computed::default()),
            Self::Coming(receiver) => receiver.recv().ok(),
        }
    }
}

/// How much of a hole is hashed before it is asked whether that is still wanted.
const HOLE_BYTES: u64 = 256 << 20;

/// One file that is hashed.
pub(super) struct OneFile<'k> {
    kinds: &'k [HashKind],
    team: HashingTeam,
    /// What computes its BLAKE3, where a proof is wanted.
    proving: Option<ProofHasher>,
    /// Whether all its bytes are wanted still.
    is_whole: bool,
}

impl<'k> OneFile<'k> {
    pub(super) fn new(kinds: &'k [HashKind], proves: bool) -> Self {
        let (proving, team) = match proves {
            false => (None, HashingTeam::new(kinds)),
            true => {
                let others = kinds.iter().copied().filter(|kind| *kind != HashKind::Blake3);
                (Some(ProofHasher::default()), HashingTeam::new(&others.collect::<Vec<_>>()))
            }
        };
        Self { kinds, team, proving, is_whole: true }
    }

    pub(super) fn take(&mut self, bytes: &Bytes) {
        self.team.take(bytes);
        if let Some(proving) = &mut self.proving {
            proving.take(bytes);
        }
    }

    /// A hole may take hours, so it is given up when nothing more is wanted.
    fn take_hole(&mut self, mut len: u64, is_stopped: &dyn Fn() -> bool) {
        while len > 0 && self.is_whole {
            self.is_whole = !is_stopped();
            let now = if self.is_whole { len.min(HOLE_BYTES) } else { 0 };
            self.team.take_zeroes(now);
            if let Some(proving) = &mut self.proving {
                proving.take_zeroes(now);
            }
            len -= now;
        }
    }

    pub(super) fn finish(self) -> Computed {
        let mut found = self.team.finish();
        let proof = self.proving.and_then(|proving| {
            let (digest, proof) = proving.finish();
            found.push(digest);
            proof.map(Arc::from)
        });
        let of = |kind: &HashKind| found.iter().find(|digest| digest.kind == *kind).cloned();
        Computed { digests: self.kinds.iter().filter_map(of).collect(), proof }
    }
}

/// Hashes files until no more come, with the proofs of their parts if these are wanted. Nobody gets
/// the digests of a file that was given up.
pub(super) fn run(
    (kinds, proves): (&[HashKind], bool),
    incoming: &Receiver<ToHash>,
    is_stopped: &dyn Fn() -> bool,
) {
    let mut file = OneFile::new(kinds, proves);
    while let Ok(message) = incoming.recv() {
        match message {
            ToHash::Block(bytes) => file.take(&bytes),
            ToHash::Hole(len) => file.take_hole(len, is_stopped),
            ToHash::End(takers) => {
                let done = std::mem::replace(&mut file, OneFile::new(kinds, proves));
                if done.is_whole && !takers.is_empty() {
                    let computed = done.finish();
                    // A lane that has failed since wants none.
                    takers.iter().for_each(|lane| drop(lane.send(computed.clone())));
                }
            }
        }
    }
}
