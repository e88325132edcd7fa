//! [`HashKind`] and [`Digest`]: what is computed of the bytes of a file while they pass.

use std::fmt;
use std::hash::Hasher as _;

use sha2::Digest as _;
use twox_hash::xxhash3_64::Hasher as Xxh3;
use twox_hash::xxhash3_128::Hasher as Xxh128;

use crate::source::zeroes;

/// A hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum HashKind {
    /// XXH3 with 64 bits: finds accidents, at the speed of memory.
    Xxh3,
    /// XXH3 with 128 bits.
    Xxh128,
    /// BLAKE3: cannot be forged, and is faster than most devices.
    Blake3,
    /// SHA-256: cannot be forged, and every system has a program for it.
    Sha256,
}

impl HashKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Xxh3, Self::Xxh128, Self::Blake3, Self::Sha256];

    /// What it is called: `xxh3`, `xxh128`, `blake3`, `sha256`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xxh3 => "xxh3",
            Self::Xxh128 => "xxh128",
            Self::Blake3 => "blake3",
            Self::Sha256 => "sha256",
        }
    }
}

/// A value of a hash function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// The function.
    pub kind: HashKind,
    /// Its value, in the order in which it is written.
    pub value: Vec<u8>,
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Takes the bytes of one file, in order.
pub(super) struct Hashing(Vec<HashState>);

enum HashState {
    Xxh3(Box<Xxh3>),
    Xxh128(Box<Xxh128>),
    Blake3(Box<blake3::Hasher>),
    Sha256(sha2::Sha256),
}

impl Hashing {
    /// By these functions.
    pub(super) fn new(kinds: &[HashKind]) -> Self {
        let state = |kind: &HashKind| match kind {
            HashKind::Xxh3 => HashState::Xxh3(Box::default()),
            HashKind::Xxh128 => HashState::Xxh128(Box::default()),
            HashKind::Blake3 => HashState::Blake3(Box::default()),
            HashKind::Sha256 => HashState::Sha256(sha2::Sha256::new()),
        };
        Self(kinds.iter().map(state).collect())
    }

    /// Whether there is nothing to compute.
    pub(super) fn is_idle(&self) -> bool {
        self.0.is_empty()
    }

    /// The next bytes.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        for state in &mut self.0 {
            match state {
                HashState::Xxh3(hasher) => hasher.write(bytes),
                HashState::Xxh128(hasher) => hasher.write(bytes),
                HashState::Blake3(hasher) => {
                    hasher.update(bytes);
                }
                HashState::Sha256(hasher) => hasher.update(bytes),
            }
        }
    }

    /// This many zeros of a hole.
    pub(super) fn take_zeroes(&mut self, mut len: u64) {
        while len > 0 && !self.is_idle() {
            let now = zeroes(len);
            self.take(now);
            len -= now.len() as u64;
        }
    }

    /// No more bytes.
    pub(super) fn finish(self) -> Vec<Digest> {
        let digest = |state: HashState| match state {
            HashState::Xxh3(hasher) => {
                Digest { kind: HashKind::Xxh3, value: hasher.finish().to_be_bytes().to_vec() }
            }
            HashState::Xxh128(hasher) => {
                Digest { kind: HashKind::Xxh128, value: hasher.finish_128().to_be_bytes().to_vec() }
            }
            HashState::Blake3(hasher) => {
                Digest { kind: HashKind::Blake3, value: hasher.finalize().as_bytes().to_vec() }
            }
            HashState::Sha256(hasher) => Digest { kind: HashKind::Sha256, value: hasher.finalize().to_vec() },
        };
        self.0.into_iter().map(digest).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(parts: &[&[u8]]) -> Vec<String> {
        let mut hashing = Hashing::new(&HashKind::ALL);
        parts.iter().for_each(|part| hashing.take(part));
        hashing.finish().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn values_are_those_of_the_programs_that_everybody_has() {
        // As `xxhsum -H3`, `xxhsum -H2`, `b3sum` and `sha256sum` say of no bytes at all.
        let empty = [
            "2d06800538d394c2",
            "99aa06d3014798d86001c324468d497f",
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ];
        assert_eq!(digests(&[]), empty);
        let mut zeros = Hashing::new(&HashKind::ALL);
        zeros.take(b"a");
        zeros.take_zeroes(3_000_000);
        let zeros: Vec<String> = zeros.finish().iter().map(ToString::to_string).collect();
        let all = [&b"a"[..], &vec![0; 3_000_000]].concat();
        assert_eq!(zeros, digests(&[&all]));
        assert_eq!(digests(&[&all[..1000], &all[1000..]]), zeros);
    }
}
