//! Records one after another: all of a pack, a split of it, several splits at once, or on from a cursor.

use std::path::Path;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use stook::pack::{Cursor, Damages, Error, OnDamage, Pack, Scan, ScanOptions};

use super::cursor_file;
use crate::context::Context;
use crate::exit::UsageError;
use crate::interrupt;
use crate::progress::{Progress, Unit};

/// Splits for each thread: segments, and what is dead in them, are not of one length.
const SPLITS_PER_THREAD: usize = 4;

/// What was loaded.
#[derive(Debug, Default)]
pub(in crate::commands) struct Outcome {
    pub(in crate::commands) records: u64,
    pub(in crate::commands) bytes: u64,
    /// Of these bytes, those that are stored nowhere: nothing was read for them.
    pub(in crate::commands) hole_bytes: u64,
    pub(in crate::commands) damages: Damages,
    /// There is more: so many records as were wanted have been loaded.
    pub(in crate::commands) is_partial: bool,
    pub(in crate::commands) interrupted: bool,
}

/// One of several parts, numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) struct Part {
    number: usize,
    of: usize,
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let part = text
            .split_once('/')
            .and_then(|(number, of)| Some(Self { number: number.parse().ok()?, of: of.parse().ok()? }));
        part.filter(|part| part.number >= 1 && part.number <= part.of)
            .ok_or_else(|| format!("{text:?} is not K/N with K from 1 to N, as 2/8"))
    }
}

/// How a pack is gone through.
#[derive(Debug)]
pub(super) struct Way<'a> {
    pub(super) options: ScanOptions,
    pub(super) split: Option<Part>,
    pub(super) threads: usize,
    pub(super) records_max: u64,
    pub(super) cursor: Option<&'a Path>,
}

/// Goes through the records.
pub(super) fn stream(
    pack: &Pack,
    way: &Way<'_>,
    segment_bytes: u64,
    context: &Context,
) -> anyhow::Result<Outcome> {
    let all = way.options.keys.is_all() && way.split.is_none() && way.cursor.is_none();
    let bar = context.progress("loading", Unit::Bytes, all.then_some(segment_bytes));
    if way.threads > 1 {
        return in_parallel(pack, way, &bar);
    }
    let Some(scan) = begin(pack, way)? else { return Ok(Outcome::default()) };
    let Some(file) = way.cursor else {
        return one_after_another(scan, way.records_max, &bar, None);
    };
    let mut cursor = scan.cursor();
    let outcome = one_after_another(scan, way.records_max, &bar, Some(&mut cursor));
    // Where it stopped for an error, the file stays as it was: a run from there meets the same.
    let outcome = outcome?;
    cursor_file::write(file, &cursor)?;
    Ok(outcome)
}

/// The scan, on from its cursor if there is one; `None` for a part of which nothing is left.
fn begin<'p>(pack: &'p Pack, way: &Way<'_>) -> anyhow::Result<Option<Scan<'p>>> {
    let kept = way.cursor.map(cursor_file::read).transpose()?.flatten();
    if let (Some(cursor), Some(file)) = (&kept, way.cursor) {
        check_options(cursor, way, file)?;
        return Ok(Some(pack.scan_from(cursor, way.options.on_damage)?.with_stop(way.options.stop)));
    }
    let Some(part) = way.split else { return Ok(Some(pack.scan(way.options.clone()))) };
    let splits = pack.splits(part.of, &way.options.groups)?;
    // There may be fewer parts than were asked for.
    let Some(split) = splits.get(part.number - 1) else { return Ok(None) };
    Ok(Some(pack.scan_split(split, way.options.clone())?))
}

/// A cursor says itself what it goes through; what is asked for beside it must not be anything else.
fn check_options(cursor: &Cursor, way: &Way<'_>, file: &Path) -> Result<(), UsageError> {
    if cursor.options(OnDamage::Skip) == way.options && cursor.is_of_split() == way.split.is_some() {
        return Ok(());
    }
    Err(UsageError::new(format!(
        "the cursor in {} is of a load with another order, other keys, groups or parts: give the same as then, or \
         another file",
        file.display()
    )))
}

/// How a step of a scan ended.
enum Stepped {
    Loaded,
    /// There are no more records.
    Ended,
    /// Somebody wants it to stop, before the record at hand was read to its end.
    Interrupted,
}

fn one_after_another(
    mut scan: Scan<'_>,
    records_max: u64,
    bar: &Progress,
    mut cursor: Option<&mut Cursor>,
) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    loop {
        if outcome.records == records_max {
            outcome.is_partial = true;
            break;
        }
        let passed = scan.bytes_passed();
        let stepped = step(&mut scan, &mut outcome)?;
        bar.add(scan.bytes_passed().saturating_sub(passed));
        match (stepped, cursor.as_deref_mut()) {
            (Stepped::Interrupted, None) => return Err(interrupt::Interrupted.into()),
            (Stepped::Interrupted, Some(_)) => {
                outcome.interrupted = true;
                break;
            }
            (Stepped::Ended, cursor) => {
                if let Some(cursor) = cursor {
                    *cursor = scan.cursor();
                }
                break;
            }
            (Stepped::Loaded, Some(cursor)) => *cursor = scan.cursor(),
            (Stepped::Loaded, None) => {}
        }
    }
    outcome.damages.extend(scan.damages().iter().cloned());
    Ok(outcome)
}

/// One record further.
fn step(scan: &mut Scan<'_>, outcome: &mut Outcome) -> anyhow::Result<Stepped> {
    if interrupt::interrupted() {
        return Ok(Stepped::Interrupted);
    }
    let record = match scan.next() {
        Err(Error::Stopped) => return Ok(Stepped::Interrupted),
        record => record?,
    };
    let Some(record) = record else { return Ok(Stepped::Ended) };
    let mut len = 0;
    if let Some(body) = record.body() {
        len = body.len() as u64;
    } else {
        loop {
            match scan.next_chunk() {
                Ok(Some(chunk)) => len += chunk.len() as u64,
                Ok(None) => break,
                Err(Error::Damaged(damage)) => {
                    outcome.damages.push(damage);
                    return Ok(Stepped::Loaded);
                }
                Err(error) => return Err(error.into()),
            }
            if interrupt::interrupted() {
                return Ok(Stepped::Interrupted);
            }
        }
    }
    outcome.records += 1;
    outcome.bytes += len;
    Ok(Stepped::Loaded)
}

/// Splits, each gone through by whichever thread is free.
fn in_parallel(pack: &Pack, way: &Way<'_>, bar: &Progress) -> anyhow::Result<Outcome> {
    let splits = pack.splits(way.threads.saturating_mul(SPLITS_PER_THREAD), &way.options.groups)?;
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let all = Mutex::new(Outcome::default());
    let work = || -> anyhow::Result<()> {
        while let Some(split) = splits.get(next.fetch_add(1, Ordering::Relaxed)) {
            if failed.load(Ordering::Relaxed) {
                break;
            }
            let scan = pack.scan_split(split, way.options.clone())?;
            let part = one_after_another(scan, u64::MAX, bar, None)?;
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.records += part.records;
            all.bytes += part.bytes;
            all.damages.extend(part.damages);
        }
        Ok(())
    };
    let work = || work().inspect_err(|_| failed.store(true, Ordering::Relaxed));
    std::thread::scope(|scope| {
        let threads = way.threads.min(splits.len());
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut ended = Ok(());
        for thread in threads {
            let result = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            ended = ended.and(result);
        }
        ended
    })?;
    Ok(all.into_inner().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_numbered_from_one() {
        assert_eq!("2/8".parse(), Ok(Part { number: 2, of: 8 }));
        for text in ["", "0/8", "9/8", "1", "1/0", "a/b", "-1/2"] {
            assert!(text.parse::<Part>().is_err(), "{text}");
        }
    }
}
