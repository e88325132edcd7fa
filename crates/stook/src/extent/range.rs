//! [`ByteRange`]: a half-open range of byte offsets.

use std::fmt;

/// The bytes from `start` up to but not including `end`; `start <= end` always holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteRange {
    start: u64,
    end: u64,
}

impl ByteRange {
    /// The range `[start, end)`, or `None` when it would run backwards.
    pub const fn new(start: u64, end: u64) -> Option<Self> {
        if start <= end { Some(Self { start, end }) } else { None }
    }

    /// `len` bytes from `start`, or `None` when the end does not fit in a `u64`.
    pub const fn at(start: u64, len: u64) -> Option<Self> {
        match start.checked_add(len) {
            Some(end) => Some(Self { start, end }),
            None => None,
        }
    }

    /// The first `len` bytes.
    pub const fn to(len: u64) -> Self {
        Self { start: 0, end: len }
    }

    /// The first offset in it.
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// The first offset after it.
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// How many bytes it spans.
    pub const fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether it spans none.
    pub const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether `offset` lies in it.
    pub const fn contains(&self, offset: u64) -> bool {
        self.start <= offset && offset < self.end
    }

    /// Whether all of `other` lies in it.
    pub const fn covers(&self, other: &Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// What both have in common, if that is at least one byte.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        (start < end).then_some(Self { start, end })
    }

    /// Rounded outwards to multiples of `alignment` (a power of two); the end saturates.
    pub fn aligned(&self, alignment: u64) -> Self {
        debug_assert!(alignment.is_power_of_two());
        let mask = alignment - 1;
        Self { start: self.start & !mask, end: self.end.checked_add(mask).unwrap_or(u64::MAX) & !mask }
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {})", self.start, self.end)
    }
}
