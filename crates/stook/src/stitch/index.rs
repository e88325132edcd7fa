//! [`PieceIndex`]: which piece an offset is in.
//!
//! The length is cut into equal cells, about as many as there are pieces. Each says which piece its
//! first byte is in, and how far into the cell that reaches: where no more than one piece ends in
//! it, as in most, a look-up is one step into memory, and no branch that would be guessed wrong
//! half of the time. Of other cells it is a binary search among the pieces that begin in them. The
//! starts of the pieces stand in one array, apart from what the pieces are.

/// Up to so many pieces cells are half as long: fewer of them have ends of several pieces, and all
/// of them fit into the caches of a processor.
const FEW: u64 = 1 << 16;

/// Where pieces begin that lie one after another.
#[derive(Debug, Clone)]
pub(super) struct PieceIndex {
    /// The start of each piece, and at the end the length of all.
    starts: Box<[u64]>,
    /// A cell is two to the power of this many bytes.
    shift: u32,
    /// All cells, and one that begins in the last piece.
    cells: Box<[Cell]>,
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    /// The number of the piece in which it begins.
    first: u32,
    /// Where that piece ends, counted from where the cell begins; [`Cell::BEYOND`] if it does not
    /// end in it, and [`Cell::SEVERAL`] if another one ends there, too.
    end: u32,
}

impl Cell {
    /// No offset in a cell is as much, so that it need not be asked for.
    const BEYOND: u32 = u32::MAX;
    /// No end is counted so: the piece has the first byte.
    const SEVERAL: u32 = 0;
}

impl PieceIndex {
    /// Of pieces with these lengths, of which none is 0; `None` if all of them are longer than a
    /// file can be, or there are more than 2^32 - 2.
    pub(super) fn new(lens: impl Iterator<Item = u64>) -> Option<Self> {
        let mut starts = Vec::with_capacity(lens.size_hint().0.saturating_add(1));
        let mut at = 0_u64;
        starts.push(0);
        for len in lens {
            at = at.checked_add(len).filter(|end| i64::try_from(*end).is_ok())?;
            starts.push(at);
        }
        let count = starts.len() as u64 - 1;
        let last = u32::try_from(count).ok().filter(|count| *count < u32::MAX)?.saturating_sub(1);
        let shift = (at / count.max(1)).max(1).ilog2().saturating_sub(u32::from(count <= FEW));
        let count_of_cells = (at >> shift) + 1;
        let mut cells = Vec::with_capacity(usize::try_from(count_of_cells).ok()?.saturating_add(1));
        let mut first = 0_u32;
        for begin in (0..count_of_cells).map(|cell| cell << shift) {
            while first < last && starts.get(first as usize + 1).is_some_and(|end| *end <= begin) {
                first += 1;
            }
            let mut ends = starts.iter().skip(first as usize + 1).map(|end| end.saturating_sub(begin));
            let mut next = || ends.next().filter(|end| end >> shift == 0);
            let end = match (next(), next()) {
                // One that is too long to be counted in is searched like one with several.
                _ if shift >= u32::BITS => Cell::SEVERAL,
                (None, _) => Cell::BEYOND,
                (Some(end), None) => end as u32,
                _ => Cell::SEVERAL,
            };
            cells.push(Cell { first, end });
        }
        cells.push(Cell { first: last, end: Cell::BEYOND });
        Some(Self { starts: starts.into(), shift, cells: cells.into() })
    }

    /// How many pieces there are.
    pub(super) fn count(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// How many bytes all have.
    pub(super) fn len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Where a piece begins; the length of all for the one after the last.
    pub(super) fn start(&self, piece: usize) -> u64 {
        self.starts.get(piece).copied().unwrap_or_else(|| self.len())
    }

    /// The number of the piece that an offset before the end is in.
    #[inline]
    pub(super) fn piece_at(&self, offset: u64) -> usize {
        let at = (offset >> self.shift) as usize;
        let Some(Cell { first, end }) = self.cells.get(at).copied() else { return 0 };
        let first = first as usize;
        if end == Cell::SEVERAL {
            return self.piece_among(first, at, offset);
        }
        first + usize::from(offset & ((1 << self.shift) - 1) >= u64::from(end))
    }

    /// The same where several pieces end in a cell.
    fn piece_among(&self, first: usize, cell: usize, offset: u64) -> usize {
        let last = self.cells.get(cell + 1).map_or(0, |next| next.first) as usize;
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
        let huge = vec![(1 << 40) + 1; 5];
        let many = vec![3; (FEW + 1) as usize];
        for lens in of_counts.into_iter().chain([one_long, many_short, huge, many]) {
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
