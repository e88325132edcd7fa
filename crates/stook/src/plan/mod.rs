//! Which reads serve which wanted ranges.
//!
//! One planner serves every gather: ranges in, few large reads out, with the place of every wanted
//! byte in them. Pure arithmetic: nothing here reads.

mod merger;
mod options;
mod pieces;

pub use merger::Merger;
pub(crate) use merger::merged_whole;
pub use options::{PlanError, PlanOptions};
pub use pieces::PlanPiece;

use crate::extent::ByteRange;

/// The reads that serve a batch of wanted ranges.
///
/// The rules, with every wanted range cut at `end` and rounded outwards to `alignment` first:
///
/// 1. A read begins at the first byte that is not served yet, rounded down, and includes following
///    ranges while the unwanted gap before each is at most `max_gap` bytes.
/// 2. It ends after the last byte it includes, rounded up, or at `max_len` bytes from its start;
///    the rest begins the next read. `max_len` includes rounding.
/// 3. A read that would be shorter than `min_len` is made that long, within `max_len`; later ranges
///    that it already contains need no read of their own.
/// 4. No read goes past `end`: the last one may end where the file does, aligned or not.
///
/// So reads are ascending, never empty, never overlap, and (where `min_len` is 0) no other choice
/// within the rules needs fewer. Without `min_len`, unwanted bytes are at most `max_gap` in each
/// gap that is read over, and less than `alignment` at each end of a read and at each side of a
/// gap.
///
/// Takes O(n log n) for `n` wanted ranges, and O(1) more for every piece.
///
/// ```
/// use stook::extent::ByteRange;
/// use stook::plan::{Plan, PlanOptions};
///
/// let range = |start, end| ByteRange::new(start, end).unwrap();
/// let wanted = [range(5_000, 5_100), range(0, 1_000), range(1_200, 1_300)];
/// let options = PlanOptions { max_gap: 512, ..PlanOptions::default() };
/// let plan = Plan::new(&wanted, &options)?;
///
/// assert_eq!(plan.reads(), [range(0, 1_300), range(5_000, 5_100)]);
/// let piece = plan.pieces_of(2)[0];
/// assert_eq!((piece.read, piece.read_offset, piece.len), (0, 1_200, 100));
/// # Ok::<(), stook::plan::PlanError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    reads: Vec<ByteRange>,
    pieces: Vec<PlanPiece>,
    /// Where in `pieces` those of each wanted range begin, and the length at the end.
    first_piece: Vec<usize>,
    /// Indices into `pieces`, ordered by read.
    by_read: Vec<usize>,
    /// Where in `by_read` those of each read begin, and the length at the end.
    first_of_read: Vec<usize>,
}

impl Plan {
    /// Plans the reads for `wanted`: in any order, overlapping, repeated or empty.
    ///
    /// # Errors
    /// Returns an error if the options contradict themselves, or if the plan would have more than
    /// [`MAX_PIECES`](PlanOptions::MAX_PIECES) reads or pieces.
    pub fn new(wanted: &[ByteRange], options: &PlanOptions) -> Result<Self, PlanError> {
        let reads = reads(wanted, options)?;
        let (pieces, first_piece) = pieces::of_wanted(wanted, &reads, options.end)?;
        let (by_read, first_of_read) = pieces::by_read(&pieces, reads.len());
        Ok(Self { reads, pieces, first_piece, by_read, first_of_read })
    }

    /// The reads, ascending.
    pub fn reads(&self) -> &[ByteRange] {
        &self.reads
    }

    /// How many ranges were wanted.
    pub fn wanted_len(&self) -> usize {
        self.first_piece.len().saturating_sub(1)
    }

    /// All pieces: those of the first wanted range, then those of the second, and so on.
    pub fn pieces(&self) -> &[PlanPiece] {
        &self.pieces
    }

    /// Where the bytes of the wanted range at index `wanted` come from, ascending. None for an
    /// empty range, one past the end, and an index that was not planned.
    pub fn pieces_of(&self, wanted: usize) -> &[PlanPiece] {
        let bounds = self.first_piece.get(wanted).zip(self.first_piece.get(wanted + 1));
        bounds.and_then(|(&from, &to)| self.pieces.get(from..to)).unwrap_or_default()
    }

    /// The pieces that the read at index `read` serves, in the order of the wanted ranges: to be
    /// delivered when it completes.
    pub fn pieces_in(&self, read: usize) -> impl Iterator<Item = PlanPiece> + '_ {
        let bounds = self.first_of_read.get(read).zip(self.first_of_read.get(read + 1));
        let indices = bounds.and_then(|(&from, &to)| self.by_read.get(from..to)).unwrap_or_default();
        indices.iter().filter_map(|&index| self.pieces.get(index).copied())
    }

    /// The bytes of all reads together.
    pub fn read_len(&self) -> u64 {
        self.reads.iter().map(ByteRange::len).sum()
    }
}

/// The reads, by the rules of [`Plan`].
fn reads(wanted: &[ByteRange], options: &PlanOptions) -> Result<Vec<ByteRange>, PlanError> {
    let merger = Merger::new(options)?;
    let mut needed: Vec<ByteRange> = wanted.iter().filter_map(|range| merger.rounded(*range)).collect();
    needed.sort_unstable();
    let mut reads: Vec<ByteRange> = Vec::new();
    for range in needed {
        merger.take_in(range, &mut reads)?;
    }
    Ok(reads)
}
