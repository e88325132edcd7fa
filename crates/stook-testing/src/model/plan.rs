//! The fewest reads that serve a set of bytes, found by trying every place to end each read.

/// The rules that the reads keep, in whole blocks of the alignment.
#[derive(Debug, Clone, Copy)]
pub struct BlockRules {
    /// The longest run of unwanted blocks inside of a read.
    pub max_gap: usize,
    /// The most blocks of a read, at least 1.
    pub max_len: usize,
}

/// The least number of reads so that every wanted block (`true`) is in one, every read begins and
/// ends with a wanted block, and the rules are kept.
///
/// Tries all ends of all reads: quadratic time.
pub fn fewest_reads(wanted: &[bool], rules: BlockRules) -> usize {
    // fewest[i]: for the blocks from i on.
    let mut fewest = vec![0; wanted.len() + 1];
    for start in (0..wanted.len()).rev() {
        if !wanted[start] {
            fewest[start] = fewest[start + 1];
            continue;
        }
        let (mut best, mut gap) = (usize::MAX, 0);
        for end in start..wanted.len().min(start + rules.max_len) {
            if wanted[end] {
                gap = 0;
                best = best.min(1 + fewest[end + 1]);
                continue;
            }
            gap += 1;
            if gap > rules.max_gap {
                break;
            }
        }
        fewest[start] = best;
    }
    fewest[0]
}
