//! [`PieceIndex`]: which piece an offset is in.
//!
//! The starts of the pieces stand in one array, apart from what the pieces are. Above it lies a
//! grid: the length is cut into equal cells, about as many as there are pieces, and each knows the
//! piece that its first byte is in. A look-up is one step in the grid and one in the array: of the
//! few starts from there on, those are counted that come before the offset, without a branch that
//! would be guessed wrong half of the time. Only where more pieces than that begin in one cell it
//! is a binary search among them.

/// Starts that are compared at once.
const NEAR: usize = 4;

/// Where pieces begin that lie one after another.
#[derive(Debug, Clone)]
pub(super) struct PieceIndex {
    /// The start of each piece, after them the length of all, and at the end what no offset
    /// reaches, so that there are always as many as are compared at once.
    starts: Box<[u64]>,
    count: usize,
    len: u64,
    /// A cell is two to the power of this many bytes.
    shift: u32,
    /// The number of the piece in which each cell begins, and at the end that of the last piece.
    grid: Box<[u32]>,
}

impl PieceIndex {
    /// Of pieces with these lengths, of which none is 0; `None` if all of them are longer than a
    /// file can be, or there are more than 2^32 - 2.
    pub(super) fn new(lens: impl Iterator<Item = u64>) -> Option<Self> {
        let mut starts = Vec::with_capacity(lens.size_hint().0.saturating_add(1 + NEAR));
        let mut at = 0_u64;
        starts.push(0);
        for len in lens {
            at = at.checked_add(len).filter(|end| i64::try_from(*end).is_ok())?;
            starts.push(at);
        }
        let count = starts.len() - 1;
        let last = u32::try_from(count).ok().filter(|count| *count < u32::MAX)?.saturating_sub(1);
        let shift = (at / (count as u64).max(1)).max(1).ilog2();
        let cells = (at >> shift) + 1;
        let mut grid = Vec::with_capacity(usize::try_from(cells).ok()?.saturating_add(1));
        let mut piece = 0_u32;
        for cell in 0..cells {
            while starts.get(piece as usize + 1).is_some_and(|end| *end <= cell << shift) && piece < last {
                piece += 1;
            }
            grid.push(piece);
        }
        grid.push(last);
        starts.extend([u64::MAX; NEAR]);
        Some(Self { starts: starts.into(), count, len: at, shift, grid: grid.into() })
    }

    /// How many pieces there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// How many bytes all have.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Where a piece begins; the length of all for the one after the last.
    pub(super) fn start(&self, piece: usize) -> u64 {
        self.starts.get(piece).map_or(self.len, |start| *start.min(&self.len))
    }

    /// The number of the piece that an offset before the end is in.
    #[inline]
    pub(super) fn piece_at(&self, offset: u64) -> usize {
        let cell = (offset >> self.shift) as usize;
        let first = self.grid.get(cell).copied().unwrap_or(0) as usize;
        let after = self.starts.get(first + 1..).unwrap_or_default();
        let near: &[u64; NEAR] = after.first_chunk().unwrap_or(&[u64::MAX; NEAR]);
        let passed = near.iter().map(|start| usize::from(*start <= offset)).sum::<usize>();
        if passed < NEAR {
            return first + passed;
        }
        let last = self.grid.get(cell + 1).copied().unwrap_or(0) as usize;
        let within = self.starts.get(first + 1..=last).unwrap_or_default();
        first + within.partition_point(|start| *start <= offset)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn index(lens: &[u64]) -> PieceIndex {
        PieceIndex::new(lens.iter().copied()).unwrap()
    }

    #[test]
    fn the_first_and_the_last_byte_of_each_piece_are_found() {
        let of_counts = [1, 2, 12, 13, 14, 16_384].map(|count| vec![1000; count]);
        let one_long = vec![1, 1, 1 << 40, 1, 1];
        let many_short = [vec![1 << 40], vec![1; 5000], vec![1 << 41]].concat();
        for lens in of_counts.into_iter().chain([one_long, many_short]) {
            let index = index(&lens);
            for piece in 0..lens.len() {
                assert_eq!(index.piece_at(index.start(piece)), piece);
                assert_eq!(index.piece_at(index.start(piece + 1) - 1), piece);
            }
            assert_eq!((index.count(), index.len()), (lens.len(), lens.iter().sum()));
        }
    }

    #[test]
    fn nothing_is_longer_than_a_file_can_be() {
        assert_eq!(index(&[]).len(), 0);
        assert!(PieceIndex::new([i64::MAX as u64, 1].into_iter()).is_none());
        assert!(PieceIndex::new([u64::MAX, 2].into_iter()).is_none());
        assert_eq!(index(&[i64::MAX as u64]).piece_at(1 << 62), 0);
    }

    proptest! {
        #[test]
        fn a_piece_is_found_as_by_counting(
            lens in proptest::collection::vec(prop_oneof![1_u64..4, 1_u64..100_000], 1..200),
            at in any::<prop::sample::Index>(),
        ) {
            let index = index(&lens);
            let offset = at.index(usize::try_from(index.len()).unwrap()) as u64;
            let counted = (0..lens.len()).rposition(|piece| index.start(piece) <= offset);
            prop_assert_eq!(Some(index.piece_at(offset)), counted);
        }
    }
}
