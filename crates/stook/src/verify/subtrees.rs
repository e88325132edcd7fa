//! [`Subtrees`]: BLAKE3 of a large file by several threads. It is a tree of the bytes, of which
//! parts of equal length can be hashed in any order, and put together when they are there.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};

use blake3::hazmat::ChainingValue;
use bytes::Bytes;

use super::pool::{HashPool, HashTask};
use crate::format::proof::{BLOCK_BYTES, ProofBuilder};
use crate::hash::Digest;

/// Files from this length on are hashed so: of shorter ones several are read at once.
pub(super) const FROM_BYTES: u64 = 16 << 20;

/// Bytes of a part, at most: a power of two of at least 1,024, which is what a tree is made of.
const PART_MAX_BYTES: u64 = 1 << 20;

/// A part that was hashed.
#[derive(Debug)]
pub(super) struct Subtree {
    pub(super) number: u64,
    pub(super) value: ChainingValue,
}

/// A file that is being hashed in parts.
pub(super) struct Subtrees {
    pool: HashPool,
    part_bytes: usize,
    /// Parts that were handed out.
    begun: u64,
    /// What is put together so far, and the proof of it, if that is asked for.
    builder: ProofBuilder,
    proof: Vec<u8>,
    proves: bool,
    /// Bytes that came.
    len: u64,
    /// Parts that are hashed before their turn.
    early: BTreeMap<u64, ChainingValue>,
    /// The beginning of the next part.
    rest: Vec<u8>,
    to: Sender<Subtree>,
    hashed: Receiver<Subtree>,
}

impl Subtrees {
    /// Of a file that comes in pieces of this length, a power of two. Its proof takes 64 bytes for
    /// each MiB.
    pub(super) fn new(pool: HashPool, piece_bytes: u64, proves: bool) -> Self {
        let most = if proves { BLOCK_BYTES } else { piece_bytes };
        let part_bytes = most.clamp(1024, PART_MAX_BYTES).next_power_of_two() as usize;
        let (to, hashed) = channel();
        let (early, rest, builder, proof) =
            (BTreeMap::new(), Vec::new(), ProofBuilder::default(), Vec::new());
        Self { pool, part_bytes, begun: 0, builder, proof, proves, len: 0, early, rest, to, hashed }
    }

    /// The next bytes.
    pub(super) fn take(&mut self, mut bytes: Bytes) {
        self.len = self.len.saturating_add(bytes.len() as u64);
        if !self.rest.is_empty() {
            let missing = self.part_bytes.saturating_sub(self.rest.len()).min(bytes.len());
            self.rest.extend_from_slice(&bytes.split_to(missing));
            if self.rest.len() >= self.part_bytes {
                let whole = std::mem::take(&mut self.rest);
                self.begin(whole.into());
            }
        }
        while bytes.len() >= self.part_bytes {
            let part = bytes.split_to(self.part_bytes);
            self.begin(part);
        }
        self.rest.extend_from_slice(&bytes);
        while let Ok(subtree) = self.hashed.try_recv() {
            self.put(subtree);
        }
    }

    fn begin(&mut self, bytes: Bytes) {
        let (number, to) = (self.begun, self.to.clone());
        let offset = number.saturating_mul(self.part_bytes as u64);
        self.begun += 1;
        self.pool.hash(HashTask::Part { number, offset, bytes, to });
    }

    fn put(&mut self, Subtree { number, value }: Subtree) {
        self.early.insert(number, value);
        while let Some(value) = self.early.remove(&self.builder.blocks()) {
            self.builder.push_value(value, &mut self.proof);
            if !self.proves {
                self.proof.clear();
            }
        }
    }

    /// No more bytes: the digest, and the proof if it was asked for. `None` if there was no more
    /// than one part, which is no tree.
    pub(super) fn finish(mut self) -> Option<(Digest, Option<Vec<u8>>)> {
        if !self.rest.is_empty() {
            let last = std::mem::take(&mut self.rest);
            self.begin(last.into());
        }
        while self.builder.blocks() < self.begun {
            let subtree = self.hashed.recv().ok()?;
            self.put(subtree);
        }
        let digest = self.builder.finish(self.len, &mut self.proof)?;
        Some((digest, self.proves.then_some(self.proof)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hash::HashKind;

    const PART: u64 = 256 << 10;
    const PART_BYTES: usize = PART as usize;

    fn in_parts(bytes: &[u8], pieces: &[usize]) -> Option<Digest> {
        std::thread::scope(|scope| {
            let mut subtrees = Subtrees::new(HashPool::start(scope, 2), PART, false);
            let mut rest = Bytes::copy_from_slice(bytes);
            for len in pieces.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let piece = rest.split_to((*len).min(rest.len()));
                subtrees.take(piece);
            }
            subtrees.finish().map(|(digest, _)| digest)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

        #[test]
        fn in_parts_it_is_what_it_is_as_a_whole(
            parts in 1_usize..12,
            more in prop_oneof![Just(0_usize), Just(1), 1..PART_BYTES],
            pieces in proptest::collection::vec(1..3 * PART_BYTES, 1..4),
        ) {
            let len = parts * PART_BYTES + more;
            let bytes: Vec<u8> = (0..len).map(|at| (at / 7 + at / PART_BYTES) as u8).collect();
            let whole = (len > PART_BYTES).then(|| Digest::of(HashKind::Blake3, &bytes));
            prop_assert_eq!(in_parts(&bytes, &pieces), whole);
        }
    }
}
