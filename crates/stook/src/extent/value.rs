//! What an extent can hold, and how it is cut and joined.

use bytes::Bytes;

use super::ByteRange;

/// The value of an extent: what its bytes are, or where they are found.
///
/// Cutting and joining must be cheap: they touch what describes the bytes, never the bytes.
pub trait ExtentValue: Sized {
    /// Whether the value can represent an extent of `len` bytes.
    fn fits(&self, len: u64) -> bool {
        let _ = len;
        true
    }

    /// Keeps the first `offset` bytes and returns the value of the rest. The map calls it with an
    /// `offset` strictly inside the extent.
    fn split_off(&mut self, offset: u64) -> Self;

    /// Takes over the value of the extent that begins where this one (`len` bytes) ends, if both
    /// can be one; `next` is then dropped. Otherwise leaves both as they are and says `false`.
    fn try_join(&mut self, len: u64, next: &mut Self) -> bool;
}

/// Mere coverage: neighbours are always one.
impl ExtentValue for () {
    fn split_off(&mut self, _offset: u64) -> Self {}

    fn try_join(&mut self, _len: u64, _next: &mut Self) -> bool {
        true
    }
}

/// The place of an extent's first byte in something else, such as its offset in a file. Neighbours
/// are one where their places follow one another too.
///
/// An extent whose bytes would lie past the last offset does not fit.
impl ExtentValue for u64 {
    fn fits(&self, len: u64) -> bool {
        self.checked_add(len).is_some()
    }

    fn split_off(&mut self, offset: u64) -> Self {
        // The extent fits, so no place in it lies past the last offset.
        self.saturating_add(offset)
    }

    fn try_join(&mut self, len: u64, next: &mut Self) -> bool {
        self.checked_add(len) == Some(*next)
    }
}

/// The bytes themselves. They are cut without a copy and never joined: that would need one.
impl ExtentValue for Bytes {
    fn fits(&self, len: u64) -> bool {
        self.len() as u64 == len
    }

    fn split_off(&mut self, offset: u64) -> Self {
        // The extent is as long as the bytes, and the offset lies in it.
        let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        Bytes::split_off(self, offset)
    }

    fn try_join(&mut self, _len: u64, _next: &mut Self) -> bool {
        false
    }
}

/// Where something that is being inserted meets something that is there.
#[derive(Debug)]
pub struct Overlap<'a, V> {
    /// The bytes that both speak of; at least one.
    pub range: ByteRange,
    /// The value that is there.
    pub old: &'a V,
    /// Where `range` begins in the extent of `old`, in bytes.
    pub old_offset: u64,
    /// The value that is being inserted.
    pub new: &'a V,
    /// Where `range` begins in the extent of `new`, in bytes.
    pub new_offset: u64,
}

/// The offset of the first byte that is not the same in both, or `None`; for
/// [`OnOverlap::Compare`](super::OnOverlap::Compare).
pub fn first_byte_difference(overlap: &Overlap<'_, Bytes>) -> Option<u64> {
    let part = |bytes: &Bytes, offset: u64| {
        // Both extents are as long as their bytes and contain the range, so nothing is cut short
        // here.
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let len = usize::try_from(overlap.range.len()).unwrap_or(usize::MAX);
        bytes.slice(from..from.saturating_add(len).min(bytes.len()))
    };
    let (old, new) = (part(overlap.old, overlap.old_offset), part(overlap.new, overlap.new_offset));
    if old == new {
        return None;
    }
    let same = old.iter().zip(new.iter()).take_while(|(old, new)| old == new).count();
    Some(overlap.range.start() + same as u64)
}
