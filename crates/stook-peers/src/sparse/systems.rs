//! Those who are measured within this process.

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::Instant;

use anyhow::{Context as _, anyhow, bail};
use bytes::Bytes;
use range_cache::{CacheCapacity, RangeCache};
use rangemap::RangeSet;
use stook::extent::ByteRange;
use stook::plan::PlanOptions;
use stook::report::stats::median;
use stook::sparse::{OnDifference, SparseBuffer, SparseOptions};

use super::work::{Kind, Prepared, Work, content};

/// Fast work is repeated this often, or until it took this many seconds in total.
const REPEATS_MAX: usize = 15;
const SECONDS: f64 = 0.05;

/// Does the work; how long that took, the median where it is repeated.
pub(crate) fn seconds(work: &Work, once: fn(&Work) -> anyhow::Result<f64>) -> anyhow::Result<f64> {
    let mut each = Vec::new();
    while each.len() < work.repeats || (each.len() < REPEATS_MAX && each.iter().sum::<f64>() < SECONDS) {
        each.push(once(work)?);
    }
    Ok(median(&each)?)
}

/// Runs `thread` with the calls of each thread at once.
fn timed(work: &Work, thread: impl Fn(&Prepared) -> anyhow::Result<()> + Sync) -> anyhow::Result<f64> {
    let prepared: Vec<Prepared> = work.threads.iter().map(|calls| Prepared::of(calls)).collect();
    let began = Instant::now();
    if let [alone] = prepared.as_slice() {
        thread(alone)?;
        return Ok(began.elapsed().as_secs_f64());
    }
    std::thread::scope(|scope| {
        let thread = &thread;
        let start = |calls| scope.spawn(move || thread(calls));
        let running: Vec<_> = prepared.iter().map(start).collect();
        running.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow!("a thread panicked"))?)
    })?;
    Ok(began.elapsed().as_secs_f64())
}

/// Stook, with writes that compare what they overlap.
pub(crate) fn stook(work: &Work) -> anyhow::Result<f64> {
    let budget_bytes = work.budget_bytes.unwrap_or(u64::MAX);
    let file = SparseBuffer::with_options(SparseOptions { budget_bytes, ..SparseOptions::default() })?;
    let write = |calls: &Prepared| {
        let bytes = content(calls.longest());
        calls.each(|at, len| {
            file.write(at, &bytes[..len as usize], OnDifference::Error)?;
            Ok(())
        })
    };
    write(&Prepared::of(&work.before))?;
    match work.kind {
        Kind::Write => timed(work, write),
        Kind::Read => timed(work, |calls| {
            let mut out = content(calls.longest());
            calls.each(|at, len| Ok(file.read(at, &mut out[..len as usize])?))?;
            black_box(&out);
            Ok(())
        }),
        Kind::Need => timed(work, |calls| {
            let (options, reader) = (PlanOptions::default(), file.reader());
            let (mut reads, mut count) = (Vec::new(), 0);
            calls.each(|at, len| {
                reads.clear();
                reader.need_into(ByteRange::at(at, len).context("past the end")?, &options, &mut reads)?;
                count += reads.len();
                Ok(())
            })?;
            black_box(count);
            Ok(())
        }),
    }
}

/// The one file of range-cache.
const KEY: u8 = 0;

/// A cache that holds no more than this.
pub(crate) fn cache(budget_bytes: Option<u64>) -> RangeCache<u8> {
    let most = budget_bytes.and_then(|most| NonZeroUsize::new(most as usize));
    RangeCache::new(most.map_or(CacheCapacity::Unbounded, CacheCapacity::Bounded))
}

/// range-cache. It keeps what is there without comparing; what is read is copied out, as from all
/// others.
pub(crate) fn range_cache(work: &Work) -> anyhow::Result<f64> {
    let cache = cache(work.budget_bytes);
    let write = |calls: &Prepared| {
        let bytes = content(calls.longest());
        calls.each(|at, len| {
            let block = Bytes::copy_from_slice(&bytes[..len as usize]);
            cache.insert(KEY, at as usize..(at + len) as usize, block)?;
            Ok(())
        })
    };
    write(&Prepared::of(&work.before))?;
    match work.kind {
        Kind::Write => timed(work, write),
        Kind::Read => timed(work, |calls| {
            let mut out = content(calls.longest());
            calls.each(|at, len| {
                let found = cache.get(&KEY, at as usize..(at + len) as usize)?.context("is not held")?;
                out[..len as usize].copy_from_slice(&found);
                Ok(())
            })?;
            black_box(&out);
            Ok(())
        }),
        Kind::Need => timed(work, |calls| {
            let mut count = 0;
            calls.each(|at, len| {
                count += cache.missing_ranges(&KEY, at as usize..(at + len) as usize)?.len();
                Ok(())
            })?;
            black_box(count);
            Ok(())
        }),
    }
}

/// rangemap: only which bytes are there, not the bytes.
pub(crate) fn range_set(work: &Work) -> anyhow::Result<f64> {
    let mut set = RangeSet::new();
    let write = |set: &mut RangeSet<u64>, calls: &Prepared| {
        calls.each(|at, len| {
            set.insert(at..at + len);
            Ok(())
        })
    };
    write(&mut set, &Prepared::of(&work.before))?;
    let [calls] = work.threads.as_slice() else { bail!("a set is of one thread") };
    let calls = Prepared::of(calls);
    let began = Instant::now();
    match work.kind {
        Kind::Write => write(&mut set, &calls)?,
        Kind::Read => bail!("a set has nothing to read"),
        Kind::Need => {
            let mut gaps = Vec::new();
            calls.each(|at, len| {
                gaps.clear();
                gaps.extend(set.gaps(&(at..at + len)));
                black_box(&gaps);
                Ok(())
            })?;
        }
    }
    black_box(&set);
    Ok(began.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sparse::work::Pattern;

    #[test]
    fn everyone_does_all_that_is_asked_of_it() {
        let mut all = vec![Work::read(512), Work::write(512, 1), Work::write(512, 0), Work::need(16_384)];
        all.extend(
            [Pattern::Reverse, Pattern::Fill, Pattern::Bridge, Pattern::Evict]
                .map(|one| Work::pattern(one, 64)),
        );
        for work in &all {
            for once in [stook, range_cache] {
                assert!(seconds(work, once).unwrap() > 0.0, "{work:?}");
            }
            if work.kind != Kind::Read && work.budget_bytes.is_none() {
                assert!(seconds(work, range_set).unwrap() > 0.0, "{work:?}");
            }
        }
        for work in [Work::thread_reads(2), Work::thread_writes(2)] {
            assert!(stook(&work).unwrap() > 0.0 && range_set(&work).is_err());
        }
    }
}
