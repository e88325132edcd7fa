//! Which positions are pinned, and how often.

use std::collections::BTreeMap;

use crate::extent::ByteRange;

/// Counts for ranges of positions. Takes O(log n) for every range, and more for every boundary
/// inside of it.
#[derive(Debug, Default)]
pub(super) struct Pins {
    /// From each position on, up to the next: how many pins there are. 0 before the first.
    counts: BTreeMap<u64, u32>,
}

impl Pins {
    pub(super) fn pin(&mut self, range: ByteRange) {
        self.change(range, |count| count.saturating_add(1));
    }

    pub(super) fn unpin(&mut self, range: ByteRange) {
        self.change(range, |count| count.saturating_sub(1));
    }

    fn count_at(&self, position: u64) -> u32 {
        self.counts.range(..=position).next_back().map_or(0, |(_, &count)| count)
    }

    fn change(&mut self, range: ByteRange, new: impl Fn(u32) -> u32) {
        if range.is_empty() {
            return;
        }
        for position in [range.start(), range.end()] {
            let count = self.count_at(position);
            self.counts.entry(position).or_insert(count);
        }
        self.counts.range_mut(range.start()..range.end()).for_each(|(_, count)| *count = new(*count));
        // Boundaries with the same count on both sides go.
        let mut before = range.start().checked_sub(1).map_or(0, |position| self.count_at(position));
        let inside: Vec<(u64, u32)> = self
            .counts
            .range(range.start()..=range.end())
            .map(|(&position, &count)| (position, count))
            .collect();
        for (position, count) in inside {
            if count == before {
                self.counts.remove(&position);
            }
            before = count;
        }
    }

    /// The parts of `range` that are not pinned, ascending.
    pub(super) fn free_in(&self, range: ByteRange) -> Vec<ByteRange> {
        let mut free = Vec::new();
        let (mut from, mut count) = (range.start(), self.count_at(range.start()));
        let inside =
            self.counts.range(range.start()..range.end()).map(|(&position, &count)| (position, count));
        for (position, next) in inside.chain([(range.end(), 1)]) {
            if count == 0 && next > 0 {
                free.extend(ByteRange::new(from, position).filter(|range| !range.is_empty()));
            }
            if count > 0 && next == 0 {
                from = position;
            }
            count = next;
        }
        free
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.counts.len() * (size_of::<u64>() + size_of::<u32>()) * 3 / 2
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_free_is_what_no_pin_covers(
            pins in prop::collection::vec((0..40_u64, 0..12_u64), 0..12), asked in (0..40_u64, 0..30_u64),
            gone in 0..12_usize,
        ) {
            let mut map = Pins::default();
            let ranges: Vec<ByteRange> = pins.iter().filter_map(|&(at, len)| ByteRange::at(at, len)).collect();
            ranges.iter().for_each(|range| map.pin(*range));
            let gone = gone.min(ranges.len());
            ranges[..gone].iter().for_each(|range| map.unpin(*range));
            let asked = ByteRange::at(asked.0, asked.1).unwrap();
            let free = map.free_in(asked);
            for position in 0..80 {
                let pinned = ranges[gone..].iter().any(|range| range.contains(position));
                let is_free = free.iter().filter(|range| range.contains(position)).count();
                prop_assert_eq!(is_free, usize::from(!pinned && asked.contains(position)), "{}", position);
            }
            prop_assert!(free.windows(2).all(|pair| pair[0].end() < pair[1].start()));
            ranges[gone..].iter().for_each(|range| map.unpin(*range));
            prop_assert!(map.counts.is_empty(), "{:?}", map.counts);
        }
    }
}
