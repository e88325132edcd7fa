//! The bytes of a pack, as `docs/formats/pack-v1.md` lays them down.
//!
//! Pure encoders and decoders: nothing here reads or writes a file. Decoders take untrusted bytes;
//! they never index, never allocate by an unchecked length, and state what they expected.

#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

pub mod attributes;
pub mod batch;
pub(crate) mod bytes;
pub mod copies;
pub mod deletes;
pub(crate) mod finder;
pub mod footer;
pub mod frame;
mod heads;
pub mod index;
pub mod manifest;
pub mod mark;
pub mod page;
pub mod segment;

/// The version of the format that this code writes, and the only one it reads.
pub const VERSION: u16 = 1;

/// The unit in which index pages are laid out, and the length of the segment header, in bytes.
pub const UNIT: usize = 4096;

/// The longest a segment can be in bytes: offsets of frames are stored as multiples of 8 in 40
/// bits.
pub const SEGMENT_LEN_MAX: u64 = 1 << 43;

/// Why bytes were refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// Where in the bytes given.
    pub offset: u64,
    /// What was found and what was expected.
    pub what: String,
    /// Whether they may be right, but for a newer version.
    pub unsupported: bool,
}

impl Invalid {
    /// The bytes are damaged.
    pub fn damaged(offset: u64, what: impl Into<String>) -> Self {
        Self { offset, what: what.into(), unsupported: false }
    }

    /// The bytes want something this version does not know.
    pub fn unsupported(offset: u64, what: impl Into<String>) -> Self {
        Self { offset, what: what.into(), unsupported: true }
    }
}

/// Decoding ends well, or says why not.
pub type Decoded<T> = Result<T, Invalid>;

/// Rounds up to a multiple of 8, or `None` past the end of `u64`.
pub(crate) const fn round_up_8(n: u64) -> Option<u64> {
    match n.checked_add(7) {
        Some(n) => Some(n & !7),
        None => None,
    }
}
