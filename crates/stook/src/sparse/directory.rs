//! [`LeafDirectory`]: which leaf a position belongs to.

/// The most entries of a chunk.
const CHUNK_MAX: usize = 512;

/// The low ends of some leaves, ascending, and their numbers.
#[derive(Debug, Default)]
struct Chunk {
    lows: Vec<u64>,
    leaves: Vec<u32>,
}

/// Low ends of leaves to their numbers, in sorted chunks of up to 512 under one sorted list.
///
/// A look-up is three binary searches in contiguous lists, including the one in the leaf: about
/// half the time of a map of the standard library. The top list is moved at most once per 16
/// thousand segments, by 8 bytes for every 16 thousand segments: less than one byte per segment at
/// any size that fits into memory.
#[derive(Debug)]
pub(super) struct LeafDirectory {
    /// The first low end of every chunk.
    firsts: Vec<u64>,
    chunks: Vec<Chunk>,
}

impl LeafDirectory {
    /// With one leaf, number 0, for all positions.
    pub(super) fn new() -> Self {
        Self { firsts: vec![0], chunks: vec![Chunk { lows: vec![0], leaves: vec![0] }] }
    }

    /// The chunk that `position` belongs to.
    #[inline]
    fn chunk_of(&self, position: u64) -> usize {
        self.firsts.partition_point(|&first| first <= position).saturating_sub(1)
    }

    /// The leaf that `position` belongs to.
    #[inline]
    pub(super) fn find(&self, position: u64) -> u32 {
        let Some(chunk) = self.chunks.get(self.chunk_of(position)) else { return 0 };
        let at = chunk.lows.partition_point(|&low| low <= position).saturating_sub(1);
        chunk.leaves.get(at).copied().unwrap_or(0)
    }

    /// A new leaf whose span begins at `low`, which is not 0 and not the low end of another.
    pub(super) fn insert(&mut self, low: u64, leaf: u32) {
        let number = self.chunk_of(low);
        let Some(chunk) = self.chunks.get_mut(number) else { return };
        let at = chunk.lows.partition_point(|&other| other < low);
        chunk.lows.insert(at, low);
        chunk.leaves.insert(at, leaf);
        if chunk.lows.len() <= CHUNK_MAX {
            return;
        }
        // Ascending insertion leaves full chunks.
        let half = if at == CHUNK_MAX { CHUNK_MAX } else { CHUNK_MAX / 2 };
        let right = Chunk { lows: chunk.lows.split_off(half), leaves: chunk.leaves.split_off(half) };
        self.firsts.insert(number + 1, right.lows.first().copied().unwrap_or(low));
        self.chunks.insert(number + 1, right);
    }

    /// The leaf at `low`, which is not 0, is gone.
    pub(super) fn remove(&mut self, low: u64) {
        let number = self.chunk_of(low);
        let Some(chunk) = self.chunks.get_mut(number) else { return };
        let Ok(at) = chunk.lows.binary_search(&low) else { return };
        chunk.lows.remove(at);
        chunk.leaves.remove(at);
        match (chunk.lows.first(), self.firsts.get_mut(number)) {
            (Some(&low), Some(first)) => *first = low,
            _ => {
                self.chunks.remove(number);
                self.firsts.remove(number);
                return;
            }
        }
        if chunk.lows.len() < CHUNK_MAX / 8 {
            self.join(number.saturating_sub(1));
        }
    }

    /// Makes one of a chunk and the next, if it then has room to spare.
    fn join(&mut self, left: usize) {
        let sum = self.chunks.get(left).zip(self.chunks.get(left + 1));
        let sum = sum.map_or(usize::MAX, |(left, right)| left.lows.len() + right.lows.len());
        if sum > CHUNK_MAX / 2 {
            return;
        }
        let mut right = self.chunks.remove(left + 1);
        self.firsts.remove(left + 1);
        if let Some(chunk) = self.chunks.get_mut(left) {
            chunk.lows.append(&mut right.lows);
            chunk.leaves.append(&mut right.leaves);
        }
    }

    /// All leaves, those with the highest positions first.
    pub(super) fn backwards(&self) -> impl Iterator<Item = u32> + '_ {
        self.chunks.iter().rev().flat_map(|chunk| chunk.leaves.iter().rev().copied())
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let entry = size_of::<u64>() + size_of::<u32>();
        let lists: usize = self.chunks.iter().map(|chunk| chunk.lows.capacity() * entry).sum();
        lists + self.firsts.capacity() * size_of::<u64>() + self.chunks.capacity() * size_of::<Chunk>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn it_finds_what_an_ordered_map_finds() {
        let (mut directory, mut map) = (LeafDirectory::new(), BTreeMap::from([(0, 0)]));
        let mut random = 1u64;
        for step in 1..60_000_u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let low = (random >> 33) % 20_000 + 1;
            // First it grows, then it shrinks to a few.
            let grows = if step < 30_000 { random & 3 != 0 } else { random & 7 == 0 };
            if map.contains_key(&low) && !grows {
                map.remove(&low);
                directory.remove(low);
            } else if grows {
                let low = if step < 3000 { u64::from(step) } else { low };
                if map.insert(low, step).is_none() {
                    directory.insert(low, step);
                } else {
                    directory.remove(low);
                    directory.insert(low, step);
                }
            }
            let asked = (random >> 13) % 21_000;
            assert_eq!(directory.find(asked), *map.range(..=asked).next_back().unwrap().1, "{step}");
        }
        assert!(directory.backwards().eq(map.values().rev().copied()));
        let most = map.keys().copied().filter(|low| *low > 0).collect::<Vec<_>>();
        most.into_iter().for_each(|low| directory.remove(low));
        assert_eq!((directory.chunks.len(), directory.find(u64::MAX)), (1, 0));
    }
}
