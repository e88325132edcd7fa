//! [`ByteRange`]: a half-open range of byte offsets.

use std::fmt;

/// The bytes from `start` up to but not including `end`; `start <= end` always holds.
///
/// ```
/// use stook::extent::ByteRange;
///
/// let header = ByteRange::to(512);
/// let body = ByteRange::at(512, 1000).unwrap();
/// assert_eq!(body.to_string(), "[512, 1512)");
/// assert_eq!(header.intersection(&body), None);
/// assert_eq!(body.aligned(4096), ByteRange::to(4096));
/// assert_eq!(ByteRange::at(1, u64::MAX), None, "it would end past the last offset");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteRange {
    start: u64,
    end: u64,
}

impl ByteRange {
    /// The range `[start, end)`, or `None` when it would run backwards.
    #[inline]
    pub const fn new(start: u64, end: u64) -> Option<Self> {
        if start <= end { Some(Self { start, end }) } else { None }
    }

    /// `len` bytes from `start`, or `None` when the end does not fit in a `u64`.
    #[inline]
    pub const fn at(start: u64, len: u64) -> Option<Self> {
        match start.checked_add(len) {
            Some(end) => Some(Self { start, end }),
            None => None,
        }
    }

    /// The first `len` bytes.
    #[inline]
    pub const fn to(len: u64) -> Self {
        Self { start: 0, end: len }
    }

    /// The first offset in it.
    #[inline]
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// The first offset after it.
    #[inline]
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// How many bytes it spans.
    #[inline]
    pub const fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether it spans none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether `offset` lies in it.
    #[inline]
    pub const fn contains(&self, offset: u64) -> bool {
        self.start <= offset && offset < self.end
    }

    /// Whether all of `other` lies in it.
    #[inline]
    pub const fn covers(&self, other: &Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// What both have in common, if that is at least one byte.
    #[inline]
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        (start < end).then_some(Self { start, end })
    }

    /// Rounded outwards to multiples of `alignment` (a power of two).
    ///
    /// Where the multiple after the end does not fit in a `u64` the end becomes `u64::MAX`, so that
    /// the result always covers the range.
    #[inline]
    pub fn aligned(&self, alignment: u64) -> Self {
        debug_assert!(alignment.is_power_of_two());
        let mask = alignment - 1;
        let end = self.end.checked_add(mask).map_or(u64::MAX, |end| end & !mask);
        Self { start: self.start & !mask, end }
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligning_covers_the_range_even_at_the_last_offsets() {
        for (range, alignment, aligned) in [
            ((0, 0), 4096, (0, 0)),
            ((1, 1), 4096, (0, 4096)),
            ((0, 4096), 4096, (0, 4096)),
            ((4095, 4097), 4096, (0, 8192)),
            ((7, 9), 1, (7, 9)),
            ((u64::MAX - 1, u64::MAX), 4096, (u64::MAX - 4095, u64::MAX)),
            ((u64::MAX, u64::MAX), 1 << 63, (1 << 63, u64::MAX)),
        ] {
            let range = ByteRange::new(range.0, range.1).unwrap();
            let got = range.aligned(alignment);
            assert_eq!((got.start(), got.end()), aligned, "{range} to {alignment}");
            assert!(got.covers(&range));
        }
    }

    #[test]
    fn ranges_that_run_backwards_or_past_the_last_offset_do_not_exist() {
        assert_eq!(ByteRange::new(2, 1), None);
        assert_eq!(ByteRange::at(1, u64::MAX), None);
        assert_eq!(ByteRange::at(0, u64::MAX), Some(ByteRange::to(u64::MAX)));
    }
}
