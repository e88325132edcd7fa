//! [`AccessRule`]: direct or through the page cache, decided by what is cached.

use super::{Leaf, Source};
use crate::engine::{Access, CacheResidency};
use crate::extent::ByteRange;

/// This many ranges of a batch decide what to do with all of it.
pub(crate) const SAMPLED_RANGES: usize = 16;

/// Which way bytes take into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccessRule {
    /// Ranges that are mostly in the page cache are read from there, others directly; gets of packs
    /// that fit into half of the free memory go through the page cache.
    #[default]
    Auto,
    /// Always directly.
    Direct,
    /// Always through the page cache.
    Cached,
}

impl AccessRule {
    /// Decides for a range of a source.
    pub(crate) fn decide(self, source: &dyn Source, range: ByteRange) -> Access {
        self.decide_for(source, std::slice::from_ref(&range))
    }

    /// The rule for single records of files that `fit` into memory or do not. If they do, each is
    /// read through the page cache, so that it is cached the next time: direct reads cache nothing,
    /// and repeated gets of the same few records would always wait for the device.
    pub(crate) fn decide_for_gets(
        self,
        source: &dyn Source,
        ranges: &[ByteRange],
        fit: impl FnOnce() -> bool,
    ) -> Access {
        if self == Self::Auto && fit() { Access::Cached } else { self.decide_for(source, ranges) }
    }

    /// Decides for a batch of ranges of a source, by a sample of them.
    pub(crate) fn decide_for(self, source: &dyn Source, ranges: &[ByteRange]) -> Access {
        match self {
            Self::Direct => return Access::Direct,
            Self::Cached => return Access::Cached,
            Self::Auto => {}
        }
        let (mut asked, mut cached) = (0, 0.0);
        let mut leaves = Vec::with_capacity(1);
        for range in ranges.iter().step_by(ranges.len().div_ceil(SAMPLED_RANGES).max(1)) {
            leaves.clear();
            // The read will fail with this error and report it.
            let Ok(()) = source.resolve(*range, &mut leaves) else { return Access::Cached };
            for leaf in leaves.iter().step_by(leaves.len().div_ceil(SAMPLED_RANGES).max(1)) {
                let Some((len, held)) = residency(leaf) else { return Access::Cached };
                asked += len;
                cached += held;
            }
        }
        if asked > 0 && cached < asked as f64 / 2.0 { Access::Direct } else { Access::Cached }
    }
}

/// How many bytes of a leaf are read from files, and how many of those are in the page cache;
/// `None` if that cannot be determined.
fn residency(leaf: &Leaf) -> Option<(u64, f64)> {
    match leaf {
        Leaf::Bytes(_) | Leaf::Fill { .. } => Some((0, 0.0)),
        Leaf::Object { .. } => None,
        Leaf::File { file, range } => {
            let share = CacheResidency::of(file, *range).cached_share(range.len())?;
            Some((range.len(), share * range.len() as f64))
        }
        Leaf::Checked { check, .. } => {
            let each = check.leaves().iter().map(residency);
            each.reduce(|sum, leaf| sum.zip(leaf).map(|(sum, leaf)| (sum.0 + leaf.0, sum.1 + leaf.1)))?
        }
    }
}
