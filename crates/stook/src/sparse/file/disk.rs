//! How a file uses its cache on disk: it looks there before fetching, and keeps fetched bytes
//! there.

use std::sync::Arc;

use super::{SparseFile, SparseFileError};
use crate::extent::ByteRange;
use crate::report::units;
use crate::source::Source;
use crate::sparse::{DiskCache, DiskEntry, OnDifference};

/// How much is loaded from disk at a time, which bounds the memory. A multiple of the alignment of
/// record ends.
const STEP: u64 = 8 << 20;

pub(super) fn entry_of(cache: &Arc<DiskCache>, source: &dyn Source) -> DiskEntry {
    cache.entry(&source.origin(), &source.identity())
}

impl SparseFile {
    /// Loads missing bytes of a range into memory, if they are on disk.
    pub(super) fn load(&self, range: ByteRange) -> Result<(), SparseFileError> {
        let Some(disk) = self.kept.disk.as_ref().filter(|_| self.source().is_proven()) else { return Ok(()) };
        for gap in self.kept.buffer.gaps(range).into_iter().flat_map(steps) {
            for (start, bytes) in disk.read(gap) {
                self.kept.counted.read_from_disk(bytes.len() as u64);
                // What is in memory is the same, and need not be compared.
                self.kept.buffer.adopt(start, bytes, OnDifference::Keep)?;
            }
        }
        Ok(())
    }

    /// What is missing of a part of the file: neither in memory nor on disk. What the disk has of
    /// what is `wanted` was loaded before; what of it is missing now, the disk cannot give.
    pub(super) fn missing_parts(&self, part: ByteRange, wanted: ByteRange) -> Vec<ByteRange> {
        let gaps = self.kept.buffer.gaps(part);
        let Some(disk) = &self.kept.disk else { return gaps };
        let mut missing: Vec<ByteRange> = Vec::with_capacity(gaps.len());
        let mut add = |range: ByteRange| match missing.last_mut() {
            Some(last) if last.end() == range.start() => {
                *last = ByteRange::new(last.start(), range.end()).unwrap_or(*last);
            }
            _ => missing.push(range),
        };
        let not_on_disk = |start, end| match ByteRange::new(start, end).filter(|range| !range.is_empty()) {
            Some(range) => disk.gaps(range),
            None => Vec::new(),
        };
        for gap in gaps {
            let from = wanted.start().clamp(gap.start(), gap.end());
            let to = wanted.end().clamp(gap.start(), gap.end());
            not_on_disk(gap.start(), from).into_iter().for_each(&mut add);
            gap.intersection(&wanted).into_iter().for_each(&mut add);
            not_on_disk(to, gap.end()).into_iter().for_each(&mut add);
        }
        missing
    }

    /// Why the cache on disk is less effective than expected, if it is.
    pub(super) fn disk_remark(&self) -> Option<Arc<str>> {
        let cache = self.kept.disk.as_ref()?.cache();
        let unproven = self.kept.counted.unproven_bytes();
        if unproven > 0 {
            return Some(
                "nothing proves that the source will be the same the next time (no strong ETag, and no time of \
                 its last change that is at least two seconds old), so what was fetched is not kept"
                    .into(),
            );
        }
        let (budget, statistics, len) = (cache.options().budget_bytes, cache.statistics(), self.len());
        let bytes = units::bytes_decimal;
        if budget < len && (statistics.unkept_bytes > 0 || statistics.evicted_bytes > 0) {
            let (budget, len) = (bytes(budget), bytes(len));
            let what = "so that not all that is fetched is kept";
            return Some(
                format!("its budget of {budget} is too small for the {len} of the source, {what}").into(),
            );
        }
        (statistics.unkept_bytes > 0).then(|| {
            let (budget, unkept) = (bytes(budget), bytes(statistics.unkept_bytes));
            format!("its budget of {budget} had no room for {unkept} of what was fetched").into()
        })
    }
}

/// A range cut at multiples of a step.
fn steps(range: ByteRange) -> impl Iterator<Item = ByteRange> {
    let mut at = range.start();
    std::iter::from_fn(move || {
        let end = (at / STEP).saturating_add(1).saturating_mul(STEP).min(range.end());
        let step = ByteRange::new(at, end).filter(|step| !step.is_empty())?;
        at = end;
        Some(step)
    })
}
