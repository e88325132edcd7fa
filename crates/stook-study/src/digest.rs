//! A fingerprint of a set of records that does not depend on the order in which they come.
//!
//! It compares what several readers returned within one run: equal fingerprints mean equal keys and
//! equal bytes, but for a chance of 2⁻⁶⁴. It does not protect against deliberate collisions, and it
//! is not stored: another version may compute it differently.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// Records are hashed in blocks of this many bytes, however they are handed in.
const BLOCK_LEN: usize = 1 << 20;

/// The fingerprint of a set of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Fingerprint {
    /// Records.
    pub records: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// The sum of the hashes of all their blocks, as 16 hexadecimal digits in JSON.
    #[serde(serialize_with = "as_hex")]
    pub sum: u64,
}

fn as_hex<S: serde::Serializer>(sum: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{sum:016x}"))
}

impl Fingerprint {
    fn add_block(&mut self, key: &[u8], number: u64, block: &[u8]) {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(key.len() as u64);
        hasher.write(key);
        hasher.write_u64(number);
        hasher.write(block);
        self.sum = self.sum.wrapping_add(hasher.finish());
        self.bytes += block.len() as u64;
    }

    fn add(&mut self, other: Self) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

/// The record whose pieces a thread is handing in.
#[derive(Default)]
struct Open {
    key: Vec<u8>,
    blocks: u64,
    held: Vec<u8>,
}

impl Open {
    fn push(&mut self, mut data: &[u8], into: &mut Fingerprint) {
        while !data.is_empty() {
            let (now, later) = data.split_at(data.len().min(BLOCK_LEN - self.held.len()));
            self.held.extend_from_slice(now);
            data = later;
            if self.held.len() == BLOCK_LEN {
                self.flush(into);
            }
        }
    }

    fn flush(&mut self, into: &mut Fingerprint) {
        into.add_block(&self.key, self.blocks, &self.held);
        self.blocks += 1;
        self.held.clear();
    }

    fn finish(&mut self, into: &mut Fingerprint) {
        if !self.held.is_empty() || self.blocks == 0 {
            self.flush(into);
        }
        into.records += 1;
    }

    /// The same memory for the next record.
    fn restart(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
        self.blocks = 0;
        self.held.clear();
    }
}

#[derive(Default)]
struct State {
    total: Fingerprint,
    open: HashMap<ThreadId, Open>,
}

/// Takes records from any number of threads.
#[derive(Default)]
pub struct Digest(Mutex<State>);

impl Digest {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A piece of a record: pieces of one come in order from one thread, and no other record of
    /// that thread comes between them. A piece at offset 0 begins a record.
    pub fn piece(&self, key: &[u8], offset: u64, data: &[u8]) {
        let thread = thread::current().id();
        let before = self.state().open.remove(&thread);
        // Hashing is done without the lock: it is what takes the time.
        let mut new = Fingerprint::default();
        let mut open = before.unwrap_or_else(|| {
            let mut first = Open::default();
            first.restart(key);
            first
        });
        if offset == 0 && (open.blocks > 0 || !open.held.is_empty() || open.key != key) {
            open.finish(&mut new);
            open.restart(key);
        }
        open.push(data, &mut new);
        let mut state = self.state();
        state.total.add(new);
        state.open.insert(thread, open);
    }

    /// The fingerprint of all records.
    pub fn finish(self) -> Fingerprint {
        let state = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut total = state.total;
        for mut open in state.open.into_values() {
            open.finish(&mut total);
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pieces: &[(&str, u64, &[u8])]) -> Fingerprint {
        let digest = Digest::default();
        for (key, offset, data) in pieces {
            digest.piece(key.as_bytes(), *offset, data);
        }
        digest.finish()
    }

    #[test]
    fn neither_order_nor_pieces_nor_threads_matter() {
        let long = vec![7; BLOCK_LEN + 5];
        let whole = of(&[("a", 0, b"xyz"), ("b", 0, b""), ("c", 0, &long)]);
        assert_eq!((whole.records, whole.bytes), (3, long.len() as u64 + 3));
        let (head, tail) = long.split_at(BLOCK_LEN - 1);
        let pieces = of(&[
            ("c", 0, head),
            ("c", head.len() as u64, tail),
            ("b", 0, b""),
            ("a", 0, b"x"),
            ("a", 1, b"yz"),
        ]);
        assert_eq!(pieces, whole);
        let digest = Digest::default();
        thread::scope(|scope| {
            scope.spawn(|| digest.piece(b"a", 0, b"xyz"));
            scope.spawn(|| digest.piece(b"b", 0, b""));
            scope.spawn(|| digest.piece(b"c", 0, &long));
        });
        assert_eq!(digest.finish(), whole);
    }

    #[test]
    fn every_byte_key_and_border_matters() {
        let whole = of(&[("a", 0, b"xy"), ("b", 0, b"z")]);
        for other in [
            of(&[("a", 0, b"xx"), ("b", 0, b"z")]),
            of(&[("a", 0, b"x"), ("b", 0, b"yz")]),
            of(&[("b", 0, b"xy"), ("a", 0, b"z")]),
            of(&[("a", 0, b"xy"), ("b", 0, b"z"), ("c", 0, b"")]),
            of(&[("a", 0, b"xyz")]),
        ] {
            assert_ne!(other, whole);
        }
        assert_eq!(of(&[]), Fingerprint::default());
    }
}
