//! [`HashKind`]: which hash functions there are.

use super::c4;

/// A hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum HashKind {
    /// XXH3 with 64 bits: finds accidents, at the speed of memory.
    Xxh3,
    /// XXH3 with 128 bits.
    Xxh128,
    /// XXH64: what came before XXH3, and what many lists of media have.
    Xxh64,
    /// BLAKE3: cannot be forged, and is faster than most devices.
    Blake3,
    /// SHA-256: cannot be forged, and every system has a program for it.
    Sha256,
    /// SHA-1: for the lists that have it. It has been forged.
    Sha1,
    /// MD5: for the lists that have it. Forging it takes seconds.
    Md5,
    /// C4 (SMPTE ST 2114): SHA-512, written with digits to the base 58.
    C4,
}

/// These functions, each once: nobody wants two lists of one.
pub(crate) fn each_once(kinds: Vec<HashKind>) -> Vec<HashKind> {
    let mut all = Vec::with_capacity(kinds.len());
    for kind in kinds {
        if !all.contains(&kind) {
            all.push(kind);
        }
    }
    all
}

impl HashKind {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Xxh3, Self::Xxh128, Self::Xxh64, Self::Blake3, Self::Sha256, Self::Sha1, Self::Md5, Self::C4];

    /// What it is called: `xxh3`, `xxh128`, `xxh64`, `blake3`, `sha256`, `sha1`, `md5`, `c4`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xxh3 => "xxh3",
            Self::Xxh128 => "xxh128",
            Self::Xxh64 => "xxh64",
            Self::Blake3 => "blake3",
            Self::Sha256 => "sha256",
            Self::Sha1 => "sha1",
            Self::Md5 => "md5",
            Self::C4 => "c4",
        }
    }

    /// The one with this [`name`](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// How many bytes a value of it has.
    pub const fn value_len(self) -> usize {
        match self {
            Self::Xxh3 | Self::Xxh64 => 8,
            Self::Xxh128 | Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Blake3 | Self::Sha256 => 32,
            Self::C4 => 64,
        }
    }

    /// How many characters a value of it has as text.
    pub const fn text_len(self) -> usize {
        match self {
            Self::C4 => c4::TEXT_LEN,
            hex => hex.value_len() * 2,
        }
    }
}
