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
    let mut pieces = Vec::with_capacity(wanted.len().min(PlanOptions::MAX_PIECES));
    let mut first = Vec::with_capacity(wanted.len() + 1);
    for (index, range) in wanted.iter().enumerate() {
        first.push(pieces.len());
        let Some(within) = range.intersection(&ByteRange::to(end)) else { continue };
        let from = reads.partition_point(|read| read.end() <= within.start());
        let to = reads.partition_point(|read| read.start() < within.end());
        if to.saturating_sub(from) > PlanOptions::MAX_PIECES - pieces.len() {
            return Err(PlanError::TooManyPieces);
        }
        pieces.extend(reads.iter().enumerate().take(to).skip(from).filter_map(|(read, span)| {
            let part = span.intersection(&within)?;
            let (wanted_offset, read_offset) = (part.start() - range.start(), part.start() - span.start());
            Some(PlanPiece { wanted: index, wanted_offset, read, read_offset, len: part.len() })
        }));
    }
    first.push(pieces.len());
    Ok((pieces, first))
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
