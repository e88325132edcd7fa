//! [`Merger`]: ascending ranges in, merged and cut reads out, one range at a time.

use super::options::{PlanError, PlanOptions};
use crate::extent::ByteRange;

/// Merges ranges in ascending order into reads, by the rules of [`Plan`](super::Plan), without
/// keeping track of the pieces. For callers that need only the reads, and often.
///
/// ```
/// use stook::extent::ByteRange;
/// use stook::plan::{Merger, PlanOptions};
///
/// let options = PlanOptions { max_gap: 10, ..PlanOptions::default() };
/// let merger = Merger::new(&options)?;
/// let mut reads = Vec::new();
/// for (start, end) in [(0, 5), (8, 20), (40, 50)] {
///     merger.add(ByteRange::new(start, end).unwrap(), &mut reads)?;
/// }
/// assert_eq!(reads, [ByteRange::to(20), ByteRange::new(40, 50).unwrap()]);
/// # Ok::<(), stook::plan::PlanError>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Merger {
    max_gap: u64,
    min_len: u64,
    max_len: u64,
    alignment: u64,
    within: ByteRange,
}

impl Merger {
    /// A merger by these rules.
    ///
    /// # Errors
    /// Returns an error if the options contradict themselves.
    #[inline]
    pub fn new(options: &PlanOptions) -> Result<Self, PlanError> {
        let max_len = options.checked_max_len()?;
        // A multiple of the alignment, so that all reads but the last of all still end at one.
        let min_len = ByteRange::to(options.min_len).aligned(options.alignment).end().min(max_len);
        let PlanOptions { max_gap, alignment, end, .. } = *options;
        Ok(Self { max_gap, min_len, max_len, alignment, within: ByteRange::to(end) })
    }

    /// Adds a range that begins no earlier than those before it: the last of `reads` becomes
    /// longer, or more are added.
    ///
    /// # Errors
    /// Returns an error if there would be more than [`MAX_PIECES`](PlanOptions::MAX_PIECES) reads.
    #[inline]
    pub fn add(&self, range: ByteRange, reads: &mut Vec<ByteRange>) -> Result<(), PlanError> {
        match self.rounded(range) {
            Some(range) => self.take_in(range, reads),
            None => Ok(()),
        }
    }

    /// The range cut at the end and rounded outwards, or `None` if nothing is left.
    #[inline]
    pub(super) fn rounded(&self, range: ByteRange) -> Option<ByteRange> {
        range.intersection(&self.within)?.aligned(self.alignment).intersection(&self.within)
    }

    /// Adds a range that is already cut and rounded.
    #[inline]
    pub(super) fn take_in(&self, range: ByteRange, reads: &mut Vec<ByteRange>) -> Result<(), PlanError> {
        let mut start = range.start();
        if let Some(last) = reads.last_mut() {
            // No read ends at an unaligned offset except the end of all, so what is left over of
            // the range begins at an aligned one.
            let limit = last.start().saturating_add(self.max_len);
            if start <= last.end().saturating_add(self.max_gap) && start < limit {
                let end = range.end().clamp(last.end(), limit);
                *last = ByteRange::new(last.start(), end).unwrap_or(*last);
            }
            start = start.max(last.end());
        }
        // Counted before any is made: a single range may need more reads than fit into memory.
        let more = range.end().saturating_sub(start).div_ceil(self.max_len);
        if more > PlanOptions::MAX_PIECES.saturating_sub(reads.len()) as u64 {
            return Err(PlanError::TooManyPieces);
        }
        for _ in 0..more {
            let whole = start.saturating_add(self.max_len).min(range.end());
            let end = whole.max(start.saturating_add(self.min_len).min(self.within.end()));
            reads.extend(ByteRange::new(start, end));
            start = end;
        }
        Ok(())
    }
}

/// The range from the start of `before` to the end of both, if one read may bring both: `next`
/// begins in `before`, or at most `max_gap` bytes after it, and together they are at most `max_len`
/// bytes.
///
/// The rule of [`Merger`] for callers whose ranges each have to lie in one read. A `Merger` cuts a
/// range that reaches past `max_len`; here it begins the next read.
pub(crate) fn merged_whole(
    before: ByteRange,
    next: ByteRange,
    max_gap: u64,
    max_len: u64,
) -> Option<ByteRange> {
    let reach = before.end().saturating_add(max_gap);
    let is_near = next.start() >= before.start() && next.start() <= reach;
    let merged = ByteRange::new(before.start(), before.end().max(next.end()))?;
    (is_near && merged.len() <= max_len).then_some(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PlanOptions;

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange::new(start, end).unwrap()
    }

    #[test]
    fn whole_ranges_that_are_near_are_merged_within_the_longest_read() {
        let merged = |before, next| merged_whole(before, next, 5, 100);
        assert_eq!(merged(range(10, 20), range(20, 30)), Some(range(10, 30)));
        assert_eq!(merged(range(10, 20), range(12, 15)), Some(range(10, 20)), "within the first");
        assert_eq!(merged(range(10, 20), range(25, 26)), Some(range(10, 26)));
        assert_eq!(merged(range(10, 20), range(26, 27)), None, "too far");
        assert_eq!(merged(range(10, 20), range(9, 30)), None, "backwards");
        assert_eq!(merged(range(0, 100), range(100, 101)), None, "too long");
    }

    #[test]
    fn whole_ranges_are_merged_where_a_merger_makes_one_read_of_both() {
        let options = PlanOptions { max_gap: 2, max_len: 6, ..PlanOptions::default() };
        let merger = Merger::new(&options).unwrap();
        let before = range(3, 6);
        for (start, end) in (3..12).flat_map(|start| (start + 1..14).map(move |end| (start, end))) {
            let mut reads = Vec::new();
            merger.add(before, &mut reads).unwrap();
            merger.add(range(start, end), &mut reads).unwrap();
            let expected = match reads[..] {
                [one] => Some(one),
                _ => None,
            };
            assert_eq!(merged_whole(before, range(start, end), 2, 6), expected, "{start}..{end}");
        }
    }
}
