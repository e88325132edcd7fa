//! Which neighbouring segments of a leaf are worth becoming one.

use std::ops::Range;

use super::index::Leaf;

/// Which segments are to be joined.
#[derive(Debug, Default)]
pub(super) struct Joins {
    /// Indices in the leaf, ascending, disjoint.
    pub(super) joins: Vec<Range<usize>>,
    /// How many segments fewer there are then.
    pub(super) gain: usize,
}

/// Finds runs of segments that touch and together have at most `grain` bytes.
///
/// No segment is joined with fewer bytes than it has itself. So a byte is copied only when its
/// segment at least doubles: at most 16 times from 1 byte to 64 KiB, in any order of writes.
pub(super) fn joins_of(leaf: &Leaf, grain: usize) -> Joins {
    let mut found = Joins::default();
    let mut from = 0;
    for at in 1..=leaf.len() {
        if !touches(leaf, at) {
            joins_in(leaf, from..at, grain, &mut found);
            from = at;
        }
    }
    found
}

/// Whether the segment at `at` begins where the one before it ends.
fn touches(leaf: &Leaf, at: usize) -> bool {
    let pair = leaf.get(at.wrapping_sub(1)).zip(leaf.get(at));
    pair.is_some_and(|((before, place), (start, _))| before + place.len() as u64 == start)
}

/// The same for a run of segments that touch. Where one is longer than all others together it is
/// left out and parts the run; where all are too much, the run is halved.
fn joins_in(leaf: &Leaf, run: Range<usize>, grain: usize, found: &mut Joins) {
    if run.len() < 2 {
        return;
    }
    let len_of = |at: usize| leaf.get(at).map_or(0, |(_, place)| place.len());
    let total: usize = run.clone().map(len_of).sum();
    let Some(longest) = run.clone().max_by_key(|&at| len_of(at)) else { return };
    if len_of(longest) * 2 > total {
        joins_in(leaf, run.start..longest, grain, found);
        joins_in(leaf, longest + 1..run.end, grain, found);
    } else if total > grain {
        let middle = run.start + run.len() / 2;
        joins_in(leaf, run.start..middle, grain, found);
        joins_in(leaf, middle..run.end, grain, found);
    } else {
        found.gain += run.len() - 1;
        found.joins.push(run);
    }
}
