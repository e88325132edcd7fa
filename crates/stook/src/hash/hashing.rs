//! [`Hashing`]: computes several hashes of the same bytes while they pass.

use std::hash::Hasher as _;

use sha2::Digest as _;
use twox_hash::XxHash64;
use twox_hash::xxhash3_64::Hasher as Xxh3;
use twox_hash::xxhash3_128::Hasher as Xxh128;

use super::{Digest, HashKind};
use crate::source::zeroes;

/// Takes the bytes of one file, in order.
pub struct Hashing(Vec<State>);

enum State {
    Xxh3(Box<Xxh3>),
    Xxh128(Box<Xxh128>),
    Xxh64(XxHash64),
    Blake3(Box<blake3::Hasher>),
    Sha256(sha2::Sha256),
    Sha1(sha1::Sha1),
    Md5(md5::Md5),
    C4(Box<sha2::Sha512>),
}

impl State {
    fn new(kind: HashKind) -> Self {
        match kind {
            HashKind::Xxh3 => Self::Xxh3(Box::default()),
            HashKind::Xxh128 => Self::Xxh128(Box::default()),
            HashKind::Xxh64 => Self::Xxh64(XxHash64::with_seed(0)),
            HashKind::Blake3 => Self::Blake3(Box::default()),
            HashKind::Sha256 => Self::Sha256(sha2::Sha256::new()),
            HashKind::Sha1 => Self::Sha1(sha1::Sha1::new()),
            HashKind::Md5 => Self::Md5(md5::Md5::new()),
            HashKind::C4 => Self::C4(Box::default()),
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        match self {
            Self::Xxh3(hasher) => hasher.write(bytes),
            Self::Xxh128(hasher) => hasher.write(bytes),
            Self::Xxh64(hasher) => hasher.write(bytes),
            Self::Blake3(hasher) => {
                hasher.update(bytes);
            }
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha1(hasher) => hasher.update(bytes),
            Self::Md5(hasher) => hasher.update(bytes),
            Self::C4(hasher) => hasher.update(bytes),
        }
    }

    fn finish(self) -> Digest {
        let (kind, value) = match self {
            Self::Xxh3(hasher) => (HashKind::Xxh3, hasher.finish().to_be_bytes().to_vec()),
            Self::Xxh128(hasher) => (HashKind::Xxh128, hasher.finish_128().to_be_bytes().to_vec()),
            Self::Xxh64(hasher) => (HashKind::Xxh64, hasher.finish().to_be_bytes().to_vec()),
            Self::Blake3(hasher) => (HashKind::Blake3, hasher.finalize().as_bytes().to_vec()),
            Self::Sha256(hasher) => (HashKind::Sha256, hasher.finalize().to_vec()),
            Self::Sha1(hasher) => (HashKind::Sha1, hasher.finalize().to_vec()),
            Self::Md5(hasher) => (HashKind::Md5, hasher.finalize().to_vec()),
            Self::C4(hasher) => (HashKind::C4, hasher.finalize().to_vec()),
        };
        Digest { kind, value }
    }
}

impl Hashing {
    /// By these functions.
    pub fn new(kinds: &[HashKind]) -> Self {
        Self(kinds.iter().map(|kind| State::new(*kind)).collect())
    }

    /// Whether there is nothing to compute.
    pub fn is_idle(&self) -> bool {
        self.0.is_empty()
    }

    /// The next bytes.
    pub fn take(&mut self, bytes: &[u8]) {
        self.0.iter_mut().for_each(|state| state.take(bytes));
    }

    /// This many zeros of a hole.
    pub fn take_zeroes(&mut self, mut len: u64) {
        while len > 0 && !self.is_idle() {
            let now = zeroes(len);
            self.take(now);
            len -= now.len() as u64;
        }
    }

    /// No more bytes: the values, in the order of the functions given.
    pub fn finish(self) -> Vec<Digest> {
        self.0.into_iter().map(State::finish).collect()
    }
}

impl std::fmt::Debug for Hashing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Hashing").field(&self.0.len()).finish()
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
        // As `xxhsum -H3`, `-H2` and `-H1`, `b3sum`, `sha256sum`, `sha1sum`, `md5sum` and the C4 of
        // ASC MHL say of no bytes at all.
        let empty = [
            "2d06800538d394c2",
            "99aa06d3014798d86001c324468d497f",
            "ef46db3751d8e999",
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "d41d8cd98f00b204e9800998ecf8427e",
            "c459dsjfscH38cYeXXYogktxf4Cd9ibshE3BHUo6a58hBXmRQdZrAkZzsWcbWtDg5oQstpDuni4Hirj75GEmTc1sFT",
        ];
        assert_eq!(digests(&[]), empty);
    }

    #[test]
    fn zeros_of_a_hole_and_bytes_in_parts_have_the_value_of_the_whole() {
        let mut zeros = Hashing::new(&HashKind::ALL);
        zeros.take(b"a");
        zeros.take_zeroes(3_000_000);
        let zeros: Vec<String> = zeros.finish().iter().map(ToString::to_string).collect();
        let all = [&b"a"[..], &vec![0; 3_000_000]].concat();
        assert_eq!(zeros, digests(&[&all]));
        assert_eq!(digests(&[&all[..1000], &all[1000..]]), zeros);
    }
}
