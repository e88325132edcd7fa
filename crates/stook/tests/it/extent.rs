//! [`ExtentMap`] against a map that stores one value per byte.

use std::cell::Cell;
use std::fmt::Debug;
use std::ops::Range;

use bytes::Bytes;
use proptest::prelude::*;
use stook::extent::{
    ByteRange, ExtentMap, ExtentValue, InsertError, Inserted, OnOverlap, Overlap, first_byte_difference,
};
use stook_testing::model::extent::{FlatMap, FlatPolicy};

/// Bytes that the models hold. The maps are tried at both ends of the offsets.
const LEN: usize = 64;
const BASES: [u64; 3] = [0, 1 << 40, u64::MAX - LEN as u64];

/// A value seen as one value per byte.
trait PerByte: ExtentValue + Clone + PartialEq + Debug {
    type Byte: Clone + PartialEq + Debug;

    fn make(start: u64, len: usize, seed: u8) -> Self;
    fn byte(&self, offset: u64) -> Self::Byte;
    /// Whether two neighbouring bytes of one extent can have these values.
    fn continues(first: &Self::Byte, second: &Self::Byte) -> bool;

    fn first_difference(overlap: &Overlap<'_, Self>) -> Option<u64> {
        (0..overlap.range.len())
            .find(|at| overlap.old.byte(overlap.old_offset + at) != overlap.new.byte(overlap.new_offset + at))
            .map(|at| overlap.range.start() + at)
    }
}

impl PerByte for () {
    type Byte = ();

    fn make(_start: u64, _len: usize, _seed: u8) {}

    fn byte(&self, _offset: u64) {}

    fn continues((): &(), (): &()) -> bool {
        true
    }
}

impl PerByte for u64 {
    type Byte = u64;

    /// One of two places, so that neighbours often follow one another and often do not.
    fn make(start: u64, _len: usize, seed: u8) -> u64 {
        start % 1_000_000 + u64::from(seed % 2) * 1_000_000
    }

    fn byte(&self, offset: u64) -> u64 {
        self + offset
    }

    fn continues(first: &u64, second: &u64) -> bool {
        first + 1 == *second
    }
}

impl PerByte for Bytes {
    type Byte = u8;

    /// The bytes at an offset mostly depend only on the offset, so that overlaps are often equal.
    fn make(start: u64, len: usize, seed: u8) -> Bytes {
        let mut bytes: Vec<u8> = (0..len as u64).map(|at| (start + at) as u8).collect();
        if let (true, Some(byte)) = (seed.is_multiple_of(4), bytes.get_mut(usize::from(seed) % len.max(1))) {
            *byte ^= 1;
        }
        bytes.into()
    }

    fn byte(&self, offset: u64) -> u8 {
        self[offset as usize]
    }

    fn continues(_first: &u8, _second: &u8) -> bool {
        false
    }

    fn first_difference(overlap: &Overlap<'_, Bytes>) -> Option<u64> {
        first_byte_difference(overlap)
    }
}

#[derive(Debug, Clone)]
enum Change {
    Insert { range: Range<usize>, seed: u8, policy: FlatPolicy },
    Remove { range: Range<usize> },
}

fn a_range() -> impl Strategy<Value = Range<usize>> {
    let any = (0..=LEN, 0..=LEN).prop_map(|(a, b)| a.min(b)..a.max(b));
    let short = (0..LEN - 4, 0..4_usize).prop_map(|(start, len)| start..start + len);
    prop_oneof![any, short]
}

fn a_change() -> impl Strategy<Value = Change> {
    let policy = prop::sample::select(vec![
        FlatPolicy::Refuse,
        FlatPolicy::Compare,
        FlatPolicy::Keep,
        FlatPolicy::Replace,
    ]);
    let insert = (a_range(), any::<u8>(), policy).prop_map(|(range, seed, policy)| Change::Insert {
        range,
        seed,
        policy,
    });
    prop_oneof![4 => insert, 1 => a_range().prop_map(|range| Change::Remove { range })]
}

/// The same changes done to the map and to its model.
struct Both<V: PerByte> {
    base: u64,
    map: ExtentMap<V>,
    model: FlatMap<V::Byte>,
}

impl<V: PerByte> Both<V> {
    fn new(base: u64) -> Self {
        Self { base, map: ExtentMap::new(), model: FlatMap::new(LEN) }
    }

    fn range(&self, range: &Range<usize>) -> ByteRange {
        ByteRange::new(self.base + range.start as u64, self.base + range.end as u64).unwrap()
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Insert { range, seed, policy } => self.insert(range, *seed, *policy),
            Change::Remove { range } => self.remove(range),
        }
        self.check();
    }

    fn insert(&mut self, range: &Range<usize>, seed: u8, policy: FlatPolicy) {
        let (wanted, before) = (self.range(range), self.map.clone());
        let value = V::make(wanted.start(), range.len(), seed);
        let bytes: Vec<V::Byte> = (0..wanted.len()).map(|at| value.byte(at)).collect();
        let covered = self.model.covered(range.clone()) as u64;
        let expected = self.model.insert(range.start, &bytes, policy);
        let mut compare = V::first_difference;
        let result = self.map.insert(
            wanted,
            value,
            match policy {
                FlatPolicy::Refuse => OnOverlap::Refuse,
                FlatPolicy::Compare => OnOverlap::Compare(&mut compare),
                FlatPolicy::Keep => OnOverlap::Keep,
                FlatPolicy::Replace => OnOverlap::Replace,
            },
        );
        match (result, expected) {
            (Ok(inserted), Ok(())) => {
                let added = wanted.len() - covered;
                let (kept, replaced) =
                    if policy == FlatPolicy::Replace { (0, covered) } else { (covered, 0) };
                assert_eq!(inserted, Inserted { added, kept, replaced });
            }
            (Err(InsertError::Overlaps { overlap, .. }), Err(index)) => {
                assert_eq!(policy, FlatPolicy::Refuse);
                assert_eq!(overlap.start(), self.base + index as u64);
                assert_eq!(self.map, before, "a failed insertion changed the map");
            }
            (Err(InsertError::Differs { offset, .. }), Err(index)) => {
                assert_eq!(policy, FlatPolicy::Compare);
                assert_eq!(offset, self.base + index as u64);
                assert_eq!(self.map, before, "a failed insertion changed the map");
            }
            (result, expected) => panic!("the map says {result:?}, the model {expected:?}"),
        }
    }

    fn remove(&mut self, range: &Range<usize>) {
        let mut expected = self.model.remove(range.clone());
        for (removed, value) in self.map.remove(self.range(range)) {
            for at in 0..removed.len() {
                let index = (removed.start() + at - self.base) as usize - range.start;
                assert_eq!(expected[index].take(), Some(value.byte(at)));
            }
        }
        assert!(expected.iter().all(Option::is_none), "not everything was given back");
    }

    /// Everything that can be asked about the whole map.
    fn check(&self) {
        assert_eq!(self.map.covered_len(), self.model.covered(0..LEN) as u64);
        let spans: Vec<ByteRange> = self.model.spans(0..LEN).iter().map(|run| self.range(run)).collect();
        assert_eq!(self.map.spans().collect::<Vec<_>>(), spans);
        assert_eq!(self.map.end(), spans.last().map_or(0, ByteRange::end));
        assert_eq!(self.map.is_empty(), spans.is_empty());
        let extents: Vec<(ByteRange, &V)> = self.map.iter().collect();
        assert_eq!(extents.len(), self.map.len());
        for pair in extents.windows(2) {
            let ((left, left_value), (right, right_value)) = (pair[0], pair[1]);
            assert!(left.end() <= right.start(), "extents overlap or are out of order");
            let continues = V::continues(&left_value.byte(left.len() - 1), &right_value.byte(0));
            assert!(left.end() < right.start() || !continues, "neighbours were not joined");
        }
        self.check_range(&(0..LEN));
    }

    /// Everything that can be asked about a range.
    fn check_range(&self, range: &Range<usize>) {
        let wanted = self.range(range);
        let gaps: Vec<ByteRange> = self.model.gaps(range.clone()).iter().map(|run| self.range(run)).collect();
        assert_eq!(self.map.covers(wanted), gaps.is_empty());
        assert_eq!(self.map.gaps(wanted).collect::<Vec<_>>(), gaps);
        let mut bytes = vec![None; range.len()];
        for piece in self.map.pieces(wanted) {
            assert!(
                !piece.range.is_empty() && wanted.covers(&piece.range) && piece.extent.covers(&piece.range)
            );
            for at in 0..piece.range.len() {
                let index = (piece.range.start() + at - wanted.start()) as usize;
                assert_eq!(bytes[index].replace(piece.value.byte(piece.offset() + at)), None);
            }
        }
        assert_eq!(bytes, self.model.values(range.clone()));
        for (index, expected) in bytes.iter().enumerate() {
            let offset = wanted.start() + index as u64;
            let got = self.map.get(offset).map(|(extent, value)| value.byte(offset - extent.start()));
            assert_eq!(&got, expected);
        }
    }
}

fn agrees_with_model<V: PerByte>(changes: &[Change], asked: &Range<usize>) {
    for base in BASES {
        let mut both = Both::<V>::new(base);
        for change in changes {
            both.apply(change);
            both.check_range(asked);
        }
    }
}

proptest! {
    #[test]
    fn coverage_agrees_with_one_flag_per_byte(
        changes in prop::collection::vec(a_change(), 1..40), asked in a_range(),
    ) {
        agrees_with_model::<()>(&changes, &asked);
    }

    #[test]
    fn places_agree_with_one_place_per_byte(
        changes in prop::collection::vec(a_change(), 1..40), asked in a_range(),
    ) {
        agrees_with_model::<u64>(&changes, &asked);
    }

    #[test]
    fn bytes_agree_with_a_flat_buffer(
        changes in prop::collection::vec(a_change(), 1..40), asked in a_range(),
    ) {
        agrees_with_model::<Bytes>(&changes, &asked);
    }
}

fn range(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end).unwrap()
}

#[test]
fn all_offsets_can_be_covered_at_once() {
    let everything = ByteRange::to(u64::MAX);
    let mut map = ExtentMap::new();
    map.insert(everything, (), OnOverlap::Refuse).unwrap();
    assert_eq!((map.len(), map.covered_len()), (1, u64::MAX));
    assert_eq!(map.get(u64::MAX), None, "the last offset belongs to no range");
    assert!(map.covers(everything) && map.gaps(everything).next().is_none());
    assert_eq!(map.remove(range(1, u64::MAX - 1)).len(), 1);
    assert_eq!(map.spans().collect::<Vec<_>>(), [range(0, 1), range(u64::MAX - 1, u64::MAX)]);
}

#[test]
fn a_difference_after_the_first_overlapping_byte_is_found() {
    let mut map = ExtentMap::new();
    map.insert(range(10, 14), Bytes::from_static(b"abcd"), OnOverlap::Refuse).unwrap();
    map.insert(range(20, 24), Bytes::from_static(b"efgh"), OnOverlap::Refuse).unwrap();
    let before = map.clone();
    let bridge = Bytes::from_static(b"bcd......efgX");
    let mut compare = first_byte_difference;
    let result = map.insert(range(11, 24), bridge, OnOverlap::Compare(&mut compare));
    assert_eq!(result, Err(InsertError::Differs { range: range(11, 24), offset: 23 }));
    assert_eq!(map, before);
}

#[test]
fn a_value_that_does_not_fit_its_range_is_refused() {
    let mut bytes = ExtentMap::new();
    let result = bytes.insert(range(0, 3), Bytes::from_static(b"ab"), OnOverlap::Replace);
    assert_eq!(result, Err(InsertError::DoesNotFit { range: range(0, 3) }));
    let mut places = ExtentMap::new();
    let result = places.insert(range(0, 2), u64::MAX - 1, OnOverlap::Replace);
    assert_eq!(result, Err(InsertError::DoesNotFit { range: range(0, 2) }));
    assert!(bytes.is_empty() && places.is_empty());
}

#[test]
fn bytes_are_cut_without_a_copy() {
    let bytes = Bytes::from(vec![7; 100]);
    let mut map = ExtentMap::new();
    map.insert(range(40, 60), Bytes::from(vec![8; 20]), OnOverlap::Refuse).unwrap();
    map.insert(range(0, 100), bytes.clone(), OnOverlap::Keep).unwrap();
    let (_, first) = map.get(0).unwrap();
    let (_, last) = map.get(99).unwrap();
    assert_eq!(first.as_ptr(), bytes.as_ptr());
    assert_eq!(last.as_ptr(), bytes[60..].as_ptr());
}

thread_local! {
    static TOUCHES: Cell<usize> = const { Cell::new(0) };
}

/// Coverage that counts how often it is cut or joined.
#[derive(Debug, Clone, PartialEq)]
struct Counted;

impl ExtentValue for Counted {
    fn split_off(&mut self, _offset: u64) -> Self {
        TOUCHES.set(TOUCHES.get() + 1);
        Self
    }

    fn try_join(&mut self, _len: u64, _next: &mut Self) -> bool {
        TOUCHES.set(TOUCHES.get() + 1);
        true
    }
}

#[test]
fn reverse_alternating_and_bridging_insertions_touch_only_their_neighbours() {
    const BLOCKS: u64 = 20_000;
    let orders: [Box<dyn Iterator<Item = u64>>; 3] = [
        Box::new(0..BLOCKS),
        Box::new((0..BLOCKS).rev()),
        Box::new((0..BLOCKS).step_by(2).chain((1..BLOCKS).step_by(2))),
    ];
    for order in orders {
        TOUCHES.set(0);
        let mut map = ExtentMap::new();
        for block in order {
            map.insert(range(block * 64, block * 64 + 64), Counted, OnOverlap::Refuse).unwrap();
        }
        assert_eq!((map.len(), map.covered_len()), (1, BLOCKS * 64));
        assert_eq!(TOUCHES.get() as u64, BLOCKS - 1, "every block is joined exactly once");
    }
}
