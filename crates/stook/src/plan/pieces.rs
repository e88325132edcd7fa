//! [`PlanPiece`]: where the wanted bytes are in the reads.

use super::options::{PlanError, PlanOptions};
use crate::extent::ByteRange;

/// Bytes of one wanted range that come from one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanPiece {
    /// The index of the wanted range.
    pub wanted: usize,
    /// Where in the wanted range the piece begins, in bytes.
    pub wanted_offset: u64,
    /// The index of the read.
    pub read: usize,
    /// Where in the read the piece begins, in bytes.
    pub read_offset: u64,
    /// Its length in bytes, at least 1.
    pub len: u64,
}

/// The pieces of every wanted range, and where those of each begin.
pub(super) fn of_wanted(
    wanted: &[ByteRange],
    reads: &[ByteRange],
    end: u64,
) -> Result<(Vec<PlanPiece>, Vec<usize>), PlanError> {
    // Counted before any is made: a few long ranges over short reads may need more pieces than fit
    // into memory.
    let mut first = Vec::with_capacity(wanted.len() + 1);
    let mut count = 0;
    for range in wanted {
        first.push(count);
        count += reads_of(range, reads, end).len();
        if count > PlanOptions::MAX_PIECES {
            return Err(PlanError::TooManyPieces);
        }
    }
    first.push(count);
    let mut pieces = Vec::with_capacity(count);
    for (index, range) in wanted.iter().enumerate() {
        for read in reads_of(range, reads, end) {
            let Some(span) = reads.get(read) else { continue };
            let Some(part) = span.intersection(range) else { continue };
            let (wanted_offset, read_offset) = (part.start() - range.start(), part.start() - span.start());
            pieces.push(PlanPiece { wanted: index, wanted_offset, read, read_offset, len: part.len() });
        }
    }
    Ok((pieces, first))
}

/// The indices of the reads that have a byte of `range` before `end`.
fn reads_of(range: &ByteRange, reads: &[ByteRange], end: u64) -> std::ops::Range<usize> {
    let Some(within) = range.intersection(&ByteRange::to(end)) else { return 0..0 };
    let from = reads.partition_point(|read| read.end() <= within.start());
    let to = reads.partition_point(|read| read.start() < within.end());
    from..to
}

/// The indices of the pieces ordered by read, and where those of each read begin.
pub(super) fn by_read(pieces: &[PlanPiece], reads: usize) -> (Vec<usize>, Vec<usize>) {
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    // Stable: within a read the pieces stay in the order of the wanted ranges.
    order.sort_by_key(|&index| pieces.get(index).map(|piece| piece.read));
    let mut first = Vec::with_capacity(reads + 1);
    let mut at = 0;
    for read in 0..reads {
        first.push(at);
        let belongs = |index: &&usize| pieces.get(**index).is_some_and(|piece| piece.read == read);
        at += order.get(at..).unwrap_or_default().iter().take_while(belongs).count();
    }
    first.push(at);
    (order, first)
}
