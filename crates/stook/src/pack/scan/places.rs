//! [`Places`]: where many records of one segment are, in a few bytes each.

use crate::pack::format::index::{EntryContent, Place};

/// Places whose beginning is noted: so many are gone through at most to find one.
const PER_MARK: usize = 64;

/// Places of one segment by number. Of frames that follow each other it takes one byte and the
/// length of each.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Places {
    bytes: Vec<u8>,
    marks: Vec<Mark>,
    len: usize,
    /// Where the last frame ends.
    end: u64,
}

/// The state before each [`PER_MARK`]th place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    at: usize,
    end: u64,
}

impl Places {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// They as bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// So many places from their bytes, all of them.
    pub(super) fn decode(bytes: &[u8], count: usize) -> Option<Self> {
        // None takes less than two bytes.
        if count > bytes.len() / 2 {
            return None;
        }
        let (mut rest, mut places) = (bytes, Self::default());
        for len in 0..count {
            if len.is_multiple_of(PER_MARK) {
                places.marks.push(Mark { at: bytes.len() - rest.len(), end: places.end });
            }
            places.end = next(&mut rest, places.end)?.1;
        }
        places.bytes = rest.is_empty().then(|| bytes.to_vec())?;
        places.len = count;
        places.finish();
        Some(places)
    }

    /// Memory that it takes, bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.marks.capacity() * size_of::<Mark>()
    }

    /// Adds one. Any order is right; the order of the medium takes least memory.
    pub(super) fn push(&mut self, place: Place) {
        if self.len.is_multiple_of(PER_MARK) {
            self.marks.push(Mark { at: self.bytes.len(), end: self.end });
        }
        let gap = (place.offset / 8).wrapping_sub(self.end / 8).cast_signed();
        // Gaps forwards are even, and those backwards odd.
        push_number(&mut self.bytes, ((gap << 1) ^ (gap >> 63)).cast_unsigned());
        // No frame has no bytes.
        push_number(&mut self.bytes, place.len.unwrap_or(0) / 8);
        self.end = place.offset.saturating_add(place.len.unwrap_or(0)) / 8 * 8;
        self.len += 1;
    }

    /// Gives back what was reserved for more.
    pub(super) fn finish(&mut self) {
        self.bytes.shrink_to_fit();
        self.marks.shrink_to_fit();
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = Place> {
        let mut rest = self.bytes.as_slice();
        let mut end = 0;
        std::iter::from_fn(move || {
            let (place, after) = next(&mut rest, end)?;
            end = after;
            Some(place)
        })
    }

    /// The place of a number; `None` where there are not so many.
    pub(super) fn get(&self, number: usize) -> Option<Place> {
        let Mark { at, mut end } = *self.marks.get(number / PER_MARK)?;
        let mut rest = self.bytes.get(at..)?;
        for _ in 0..number % PER_MARK {
            end = next(&mut rest, end)?.1;
        }
        next(&mut rest, end).map(|(place, _)| place)
    }
}

/// The next place after one that ended there, and where that ends.
fn next(rest: &mut &[u8], end: u64) -> Option<(Place, u64)> {
    let gap = take_number(rest)?;
    let gap = (gap >> 1).cast_signed() ^ -((gap & 1).cast_signed());
    let offset = (end / 8).wrapping_add_signed(gap).wrapping_mul(8);
    let len = take_number(rest)?.wrapping_mul(8);
    let place = Place { offset, len: (len > 0).then_some(len), content: EntryContent::Unsaid };
    Some((place, offset.saturating_add(len) / 8 * 8))
}

/// Seven bits a byte, the lowest first; all but the last have the highest bit set.
fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_pushed_is_there(
            wanted in prop::collection::vec((0..1_u64 << 61, prop::option::of(1..1_u64 << 32)), 0..300),
        ) {
            let wanted: Vec<Place> =
                wanted.into_iter().map(|(at, len)| Place { len: len.map(|len| len * 8), ..Place::new(at * 8, 0) }).collect();
            let mut places = Places::default();
            wanted.iter().for_each(|place| places.push(*place));
            places.finish();
            prop_assert!(Places::decode(places.bytes(), wanted.len()).is_some_and(|again| again == places));
            prop_assert_eq!(Places::decode(places.bytes(), wanted.len() + 1), None);
            let found: Vec<Option<Place>> = (0..=wanted.len()).map(|number| places.get(number)).collect();
            let wanted: Vec<Option<Place>> = wanted.into_iter().map(Some).chain([None]).collect();
            prop_assert_eq!(found, wanted);
        }
    }

    #[test]
    fn frames_that_follow_each_other_take_little() {
        let mut places = Places::default();
        (0..100_000).for_each(|number| places.push(Place::new(4096 + number * 20_040, 20_040)));
        places.finish();
        assert_eq!(places.len(), 100_000);
        assert!(places.memory_bytes() < 100_000 * 7 / 2, "{}", places.memory_bytes());
        assert_eq!(places.get(99_999), Some(Place::new(4096 + 99_999 * 20_040, 20_040)));
    }
}
