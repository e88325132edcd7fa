//! The hashes of large files, by threads of their own: SHA-256 takes longer than many devices, and
//! reading and writing go on meanwhile. One hash of a file is as fast as one processor computes it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use bytes::Bytes;

use crate::hash::{Digest, HashKind, HashingTeam};

/// What the thread is handed, in order.
pub(super) enum ToHash {
    /// The next bytes, which the ledger counts until they are hashed and written.
    Block(Bytes),
    /// This many zeros of a hole.
    Hole(u64),
    /// The end of a file: who gets its digests, if it is whole.
    End(Vec<SyncSender<Arc<[Digest]>>>),
}

/// The digests of a file that is whole.
pub(super) enum Digests {
    /// None were to be computed.
    None,
    Coming(Receiver<Arc<[Digest]>>),
}

impl Digests {
    /// Digests to come, and where they are to be sent.
    pub(super) fn coming() -> (SyncSender<Arc<[Digest]>>, Self) {
        let (sender, receiver) = sync_channel(1);
        (sender, Self::Coming(receiver))
    }

    /// Waits for them; `None` where the thread ended before.
    pub(super) fn wait(self) -> Option<Arc<[Digest]>> {
        match self {
            Self::None => Some(Arc::default()),
            Self::Coming(receiver) => receiver.recv().ok(),
        }
    }
}

/// How much of a hole is hashed before it is asked whether that is still wanted.
const HOLE_BYTES: u64 = 256 << 20;

/// Hashes files until no more come. A hole may take hours, so it is given up when nothing more is
/// wanted, and then nobody gets the digests of its file.
pub(super) fn run(kinds: &[HashKind], incoming: &Receiver<ToHash>, is_stopped: &dyn Fn() -> bool) {
    let (mut hashing, mut is_whole) = (HashingTeam::new(kinds), true);
    while let Ok(message) = incoming.recv() {
        match message {
            ToHash::Block(bytes) => hashing.take(&bytes),
            ToHash::Hole(mut len) => {
                while len > 0 && is_whole {
                    is_whole = !is_stopped();
                    let now = if is_whole { len.min(HOLE_BYTES) } else { 0 };
                    hashing.take_zeroes(now);
                    len -= now;
                }
            }
            ToHash::End(takers) => {
                let done = std::mem::replace(&mut hashing, HashingTeam::new(kinds));
                if std::mem::replace(&mut is_whole, true) && !takers.is_empty() {
                    let digests: Arc<[Digest]> = done.finish().into();
                    // A lane that has failed since wants none.
                    takers.iter().for_each(|lane| drop(lane.send(digests.clone())));
                }
            }
        }
    }
}
