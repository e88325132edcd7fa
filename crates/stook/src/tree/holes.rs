//! [`Holes`]: what of a file its medium does not keep, because it is nothing but zeros.

use crate::extent::ByteRange;

/// Holes of one file that are kept at most: memory is bounded, whatever a file looks like. What
/// comes after them counts as bytes.
pub(crate) const HOLES_MAX: usize = 16 << 10;

/// The holes of a file: ranges that read as zeros and take no room on its medium. In order, none
/// empty, none touching another.
///
/// They say how a file was stored, not what is in it: zeros that were written are no hole. They
/// need not be believed, either: what makes a file with these holes looks whether the bytes are
/// zeros.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holes(Vec<ByteRange>);

impl Holes {
    /// These ranges, which are in order. Those that are empty, or begin before the end of the one
    /// before, are left out; those that touch are one.
    pub fn of(ranges: impl IntoIterator<Item = ByteRange>) -> Self {
        let mut all = Self::default();
        for range in ranges {
            if !all.push(range) {
                break;
            }
        }
        all
    }

    /// What lies between ranges of bytes that are kept, in order, of a file of this length.
    pub fn between(kept: impl IntoIterator<Item = ByteRange>, len: u64) -> Self {
        let mut at = 0;
        let mut all = Self::default();
        for range in kept.into_iter().chain([ByteRange::new(len, u64::MAX).unwrap_or_default()]) {
            // Of ranges that overlap nothing is a hole.
            if ByteRange::new(at, range.start().min(len)).is_some_and(|hole| !all.push(hole)) {
                break;
            }
            at = at.max(range.end());
        }
        all
    }

    /// Takes one more; whether there is room for another.
    pub(crate) fn push(&mut self, hole: ByteRange) -> bool {
        match self.0.last().copied() {
            _ if hole.is_empty() => {}
            Some(last) if last.end() == hole.start() => {
                self.0.pop();
                self.0.extend(ByteRange::new(last.start(), hole.end()));
            }
            Some(last) if last.end() > hole.start() => {}
            _ => self.0.push(hole),
        }
        self.0.len() < HOLES_MAX
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn as_slice(&self) -> &[ByteRange] {
        &self.0
    }

    /// The first that ends after an offset: the one that it lies in, or the next.
    pub fn next_from(&self, offset: u64) -> Option<ByteRange> {
        let at = self.0.partition_point(|hole| hole.end() <= offset);
        self.0.get(at).copied()
    }

    /// Bytes that stand at an offset of the file, cut at its holes. What is not zeros is no hole,
    /// whatever they say.
    pub(crate) fn cut<'b>(&self, at: u64, bytes: &'b [u8]) -> impl Iterator<Item = Part<'b>> {
        let (mut at, mut left) = (at, bytes);
        std::iter::from_fn(move || {
            if left.is_empty() {
                return None;
            }
            let hole = self.next_from(at);
            let is_in = hole.is_some_and(|hole| hole.start() <= at);
            let end = hole.map_or(u64::MAX, |hole| if is_in { hole.end() } else { hole.start() });
            let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(left.len());
            let (part, after) = left.split_at(len);
            (at, left) = (at.saturating_add(len as u64), after);
            let is_hole = is_in && part.iter().all(|byte| *byte == 0);
            Some(if is_hole { Part::Hole(len as u64) } else { Part::Bytes(part) })
        })
    }

    /// Without those that are shorter.
    pub(crate) fn without_short(&self, len_min: u64) -> Self {
        Self(self.0.iter().copied().filter(|hole| hole.len() >= len_min).collect())
    }

    /// How many bytes of a file of this length lie in none of them.
    pub fn kept_bytes(&self, len: u64) -> u64 {
        let file = ByteRange::to(len);
        let holes = self.0.iter().filter_map(|hole| hole.intersection(&file));
        holes.fold(len, |left, hole| left.saturating_sub(hole.len()))
    }

    /// Bytes that they take in memory.
    pub(crate) fn memory(&self) -> u64 {
        (self.0.len() * size_of::<ByteRange>()) as u64
    }
}

/// A part of the bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'b> {
    /// Bytes that its medium kept.
    Bytes(&'b [u8]),
    /// This many zeros that it did not.
    Hole(u64),
}

impl Part<'_> {
    /// How many bytes it has.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Hole(len) => *len,
        }
    }

    /// How many bytes of it lie in a hole.
    pub(crate) fn hole_bytes(&self) -> u64 {
        match self {
            Self::Bytes(_) => 0,
            Self::Hole(len) => *len,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange::new(start, end).unwrap()
    }

    #[test]
    fn they_are_in_order_and_apart() {
        let holes = Holes::of([range(0, 4), range(4, 8), range(9, 9), range(7, 20), range(10, 12)]);
        assert_eq!(holes.as_slice(), [range(0, 8), range(10, 12)]);
        assert_eq!((holes.next_from(0), holes.next_from(7)), (Some(range(0, 8)), Some(range(0, 8))));
        assert_eq!((holes.next_from(8), holes.next_from(12)), (Some(range(10, 12)), None));
        assert_eq!((holes.kept_bytes(12), holes.kept_bytes(11), holes.kept_bytes(100)), (2, 2, 90));
        assert_eq!(holes.without_short(3).as_slice(), [range(0, 8)]);
    }

    #[test]
    fn what_lies_between_kept_bytes_is_a_hole() {
        let between = |kept: &[ByteRange], len| Holes::between(kept.iter().copied(), len).0;
        assert_eq!(between(&[], 5), [range(0, 5)]);
        assert!(between(&[range(0, 5)], 5).is_empty());
        assert_eq!(between(&[range(2, 3), range(3, 4)], 9), [range(0, 2), range(4, 9)]);
        assert_eq!(between(&[range(0, 4), range(2, 3), range(6, 20)], 9), [range(4, 6)]);
        assert!(between(&[], 0).is_empty());
    }

    #[test]
    fn bytes_are_cut_at_holes_and_only_zeros_are_one() {
        let holes = Holes::of([range(2, 5), range(8, 20)]);
        let bytes = [1, 1, 0, 0, 0, 0, 1, 1, 0, 0];
        let parts: Vec<Part<'_>> = holes.cut(0, &bytes).collect();
        assert_eq!(parts, [Part::Bytes(&[1, 1]), Part::Hole(3), Part::Bytes(&[0, 1, 1]), Part::Hole(2)]);
        assert_eq!(holes.cut(4, &[0, 0]).collect::<Vec<_>>(), [Part::Hole(1), Part::Bytes(&[0])]);
        assert_eq!(holes.cut(2, &[0, 9, 0]).collect::<Vec<_>>(), [Part::Bytes(&[0, 9, 0])]);
        assert_eq!(Holes::default().cut(0, &[0; 9]).collect::<Vec<_>>(), [Part::Bytes(&[0; 9])]);
        assert_eq!(holes.cut(7, &[]).count(), 0);
    }

    #[test]
    fn there_are_only_so_many() {
        let many = (0..2 * HOLES_MAX as u64).map(|at| range(2 * at, 2 * at + 1));
        assert_eq!(Holes::of(many).as_slice().len(), HOLES_MAX);
    }
}
