//! Loads: every entry is read and verified, and goes nowhere.

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::error::{Error, Feature, Result};
use super::undone;
use crate::archive::{self, Archive, MemberKind, Piece, Reading};
use crate::pack::{self, Cursor, Damages, KeyRange, OnDamage, Pack, Scan, ScanOptions, ScanOrder, Stop};

/// Splits for each thread: segments, and their dead parts, differ in length.
const SPLITS_PER_THREAD: usize = 4;

/// One of several parts, numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
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

/// Options of a load.
#[derive(Debug, Default)]
pub struct LoadOptions {
    /// Only these groups; all if empty.
    pub groups: Vec<String>,
    /// Only keys of this range.
    pub keys: KeyRange,
    /// In which order.
    pub order: ScanOrder,
    /// Keeps all entries in memory until the end, rather than one after another.
    pub in_memory: bool,
    /// Only this part of several of about equal length. There may be fewer.
    pub part: Option<Part>,
    /// Threads that load at once; 0 is 1. With several, parts, limits and cursors mean nothing.
    pub threads: usize,
    /// The load ends after this many entries.
    pub records_max: Option<u64>,
    /// Whether the report is to say where it ended.
    pub wants_cursor: bool,
    /// Continues after the last record of an earlier load with the same options.
    pub from: Option<Cursor>,
    /// Asked whether to end.
    pub stop: Stop,
}

impl LoadOptions {
    /// The features that they need.
    pub fn features(&self) -> Vec<Feature> {
        let asked = [
            (Feature::Groups, !self.groups.is_empty()),
            (Feature::LoadByKey, self.order == ScanOrder::Key),
            (Feature::Parts, self.part.is_some()),
            (Feature::Threads, self.threads > 1),
            (Feature::Limit, self.records_max.is_some()),
            (Feature::Cursors, self.wants_cursor || self.from.is_some()),
            (Feature::LoadOfKeys, !self.keys.is_all()),
        ];
        asked.into_iter().filter_map(|(feature, is_asked)| is_asked.then_some(feature)).collect()
    }

    /// Checks what no I/O is needed for.
    ///
    /// # Errors
    /// Returns [`Error::ThreadsByKey`].
    pub fn check(&self) -> Result<()> {
        match self.threads > 1 && self.order == ScanOrder::Key {
            true => Err(Error::ThreadsByKey),
            false => Ok(()),
        }
    }

    /// The options of a scan of a pack.
    fn scan(&self) -> ScanOptions {
        ScanOptions {
            groups: self.groups.clone(),
            on_damage: OnDamage::Skip,
            order: self.order,
            keys: self.keys.clone(),
            stop: self.stop,
        }
    }
}

/// Events of a load.
pub trait LoadEvents: Sync {
    /// This many bytes will be read. Not called if that is not known.
    fn total(&self, bytes: u64);

    /// This many more bytes were read. Called by every loading thread.
    fn passed(&self, bytes: u64);

    /// A member of an archive cannot be read, and is left out.
    fn failed(&self, key: &[u8], error: &archive::Error);
}

/// Called with bytes so far and in all; where it returns `false`, [`LoadOptions::stop`] has to end
/// the load.
pub type OnLoaded<'a> = dyn FnMut(u64, u64) -> bool + Send + 'a;

/// [`LoadEvents`] as two functions: one for how far it is, one for members that failed.
pub struct LoadWatch<'a> {
    passed: Mutex<(u64, u64, &'a mut OnLoaded<'a>)>,
    failed: &'a (dyn Fn(&[u8], &archive::Error) + Sync),
}

impl std::fmt::Debug for LoadWatch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LoadWatch")
    }
}

impl<'a> LoadWatch<'a> {
    /// Events that call these.
    pub fn new(passed: &'a mut OnLoaded<'a>, failed: &'a (dyn Fn(&[u8], &archive::Error) + Sync)) -> Self {
        Self { passed: Mutex::new((0, 0, passed)), failed }
    }
}

impl LoadEvents for LoadWatch<'_> {
    fn total(&self, bytes: u64) {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner).1 = bytes;
    }

    fn passed(&self, bytes: u64) {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        let (done, total, report) = &mut *passed;
        *done += bytes;
        report(*done, *total);
    }

    fn failed(&self, key: &[u8], error: &archive::Error) {
        (self.failed)(key, error);
    }
}

/// What was loaded.
#[derive(Debug, Default)]
pub struct LoadReport {
    /// Entries.
    pub records: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Of these bytes, those that are stored nowhere: nothing was read for them.
    pub hole_bytes: u64,
    /// Damage of the pack, including that found when it was opened.
    pub damages: Damages,
    /// Members of an archive that could not be read.
    pub failures: u64,
    /// What makes the result incomplete: damage, failures, an incomplete pack, an archive without
    /// its end.
    pub undone: u64,
    /// There is more: the requested number of entries was loaded.
    pub is_partial: bool,
    /// It was ended by [`LoadOptions::stop`], which is an error where no cursor is wanted.
    pub interrupted: bool,
    /// Where it ended, if that is wanted; `None` where the part has nothing in it.
    pub cursor: Option<Cursor>,
}

/// Loads a pack.
pub(super) fn load_pack(pack: &Pack, options: &LoadOptions, events: &dyn LoadEvents) -> Result<LoadReport> {
    options.check()?;
    let mut report = if options.in_memory {
        let loaded = pack.load(&options.scan())?;
        let damages = loaded.damages().iter().cloned().collect();
        let (records, bytes) = (loaded.len() as u64, loaded.body_bytes());
        LoadReport { records, bytes, damages, ..LoadReport::default() }
    } else {
        let spans = pack.segment_ranges(&options.groups);
        let has_cursor = options.wants_cursor || options.from.is_some();
        if options.keys.is_all() && options.part.is_none() && !has_cursor {
            events.total(spans.iter().map(|(_, range)| range.len()).sum());
        }
        match options.threads > 1 {
            true => in_parallel(pack, options, events)?,
            false => match begin(pack, options)? {
                Some(scan) => one_after_another(scan, options, events)?,
                None => LoadReport::default(),
            },
        }
    };
    // Damage found when opening the pack counts, too; damage found twice counts once.
    report.damages = pack.damages().into_iter().chain(report.damages).collect();
    report.undone = report.damages.len() as u64 + undone(pack.is_complete());
    Ok(report)
}

/// Begins the scan, from its cursor if there is one; `None` for an empty part.
fn begin<'p>(pack: &'p Pack, options: &LoadOptions) -> Result<Option<Scan<'p>>> {
    let scan = options.scan();
    if let Some(cursor) = &options.from {
        // A cursor states what it scans; options given with it must be the same.
        if cursor.options(OnDamage::Skip) != scan || cursor.is_of_split() != options.part.is_some() {
            return Err(Error::OtherCursor);
        }
        return Ok(Some(pack.scan_from(cursor, OnDamage::Skip)?.with_stop(options.stop)));
    }
    let Some(part) = options.part else { return Ok(Some(pack.scan(scan))) };
    let splits = pack.splits(part.of, &options.groups)?;
    match splits.get(part.number.saturating_sub(1)) {
        Some(split) => Ok(Some(pack.scan_split(split, scan)?)),
        None => Ok(None),
    }
}

/// How a step of a scan ended.
enum Stepped {
    Loaded,
    /// There are no more records.
    Ended,
    /// It is to end, before the current record was read to its end.
    Interrupted,
}

fn one_after_another(
    mut scan: Scan<'_>,
    options: &LoadOptions,
    events: &dyn LoadEvents,
) -> Result<LoadReport> {
    let mut report = LoadReport::default();
    // Where it ends for an error there is no cursor: a load from the one before would end the same.
    let mut cursor = options.wants_cursor.then(|| scan.cursor());
    loop {
        if Some(report.records) == options.records_max {
            report.is_partial = true;
            break;
        }
        let passed = scan.bytes_passed();
        let stepped = step(&mut scan, options.stop, &mut report)?;
        events.passed(scan.bytes_passed().saturating_sub(passed));
        if matches!(stepped, Stepped::Interrupted) {
            if cursor.is_none() {
                return Err(Error::Interrupted);
            }
            report.interrupted = true;
            break;
        }
        if let Some(cursor) = &mut cursor {
            *cursor = scan.cursor();
        }
        if matches!(stepped, Stepped::Ended) {
            break;
        }
    }
    report.damages.extend(scan.damages().iter().cloned());
    report.cursor = cursor;
    Ok(report)
}

/// One record further.
fn step(scan: &mut Scan<'_>, stop: Stop, report: &mut LoadReport) -> Result<Stepped> {
    if !stop.goes_on() {
        return Ok(Stepped::Interrupted);
    }
    let record = match scan.next() {
        Err(pack::Error::Stopped) => return Ok(Stepped::Interrupted),
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
                Err(pack::Error::Damaged(damage)) => {
                    report.damages.push(damage);
                    return Ok(Stepped::Loaded);
                }
                Err(error) => return Err(error.into()),
            }
            if !stop.goes_on() {
                return Ok(Stepped::Interrupted);
            }
        }
    }
    report.records += 1;
    report.bytes += len;
    Ok(Stepped::Loaded)
}

/// Splits, each gone through by whichever thread is free.
fn in_parallel(pack: &Pack, options: &LoadOptions, events: &dyn LoadEvents) -> Result<LoadReport> {
    let splits = pack.splits(options.threads.saturating_mul(SPLITS_PER_THREAD), &options.groups)?;
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let all = Mutex::new(LoadReport::default());
    let each = LoadOptions { stop: options.stop, ..LoadOptions::default() };
    let work = || -> Result<()> {
        while let Some(split) = splits.get(next.fetch_add(1, Ordering::Relaxed)) {
            if failed.load(Ordering::Relaxed) {
                break;
            }
            let part = one_after_another(pack.scan_split(split, options.scan())?, &each, events)?;
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.records += part.records;
            all.bytes += part.bytes;
            all.damages.extend(part.damages);
        }
        Ok(())
    };
    let work = || work().inspect_err(|_| failed.store(true, Ordering::Relaxed));
    std::thread::scope(|scope| {
        let threads = options.threads.min(splits.len());
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

/// Loads an archive, in the order of the medium. Hard links to files are not read again.
pub(super) fn load_archive(
    archive: &Archive,
    options: &LoadOptions,
    events: &dyn LoadEvents,
) -> Result<LoadReport> {
    let mut members: Vec<_> = archive.members(b"").collect();
    members.sort_by_key(|member| member.data_at);
    let all = members.len();
    members.retain(|member| match member.kind() {
        MemberKind::File | MemberKind::Symlink => true,
        // Reading one that leads to no file says so.
        MemberKind::HardLink => !member.has_body,
        MemberKind::Directory | MemberKind::Other => false,
    });
    events.total(members.iter().map(|member| member.node.len).fold(0, u64::saturating_add));
    let mut report = LoadReport { records: (all - members.len()) as u64, ..LoadReport::default() };
    let mut held = options.in_memory.then(Vec::new);
    let numbers: Vec<u64> = members.iter().map(|member| member.number).collect();
    let count = numbers.len();
    let mut reading = archive.read(numbers)?;
    for _ in 0..count {
        let Some(member) = reading.next()? else { break };
        let (mut bytes, mut hole_bytes) = (0, 0);
        match load_member(&mut reading, options.stop, &mut held, &mut bytes, &mut hole_bytes) {
            Ok(()) => {
                report.records += 1;
                report.bytes += bytes;
                report.hole_bytes += hole_bytes;
            }
            Err(archive::Error::Interrupted) => return Err(Error::Interrupted),
            Err(error) if error.is_of_all_members() => return Err(error.into()),
            Err(error) => {
                report.failures += 1;
                events.failed(member.key, &error);
            }
        }
        events.passed(bytes);
    }
    while reading.verify()? {
        options.stop.check()?;
    }
    drop(held);
    archive.check_unchanged()?;
    report.undone = report.failures + undone(archive.has_end());
    Ok(report)
}

/// Reads one member to its end, and adds to how many bytes it has, those of holes included.
fn load_member(
    reading: &mut Reading<'_>,
    stop: Stop,
    held: &mut Option<Vec<Vec<u8>>>,
    bytes: &mut u64,
    hole_bytes: &mut u64,
) -> archive::Result<()> {
    loop {
        if !stop.goes_on() {
            return Err(archive::Error::Interrupted);
        }
        match reading.piece()? {
            // What is stored nowhere is not loaded either: a few bytes may say that they are a
            // terabyte.
            Some(Piece::Hole(len)) => {
                *bytes += len;
                *hole_bytes += len;
            }
            Some(Piece::Bytes(piece)) => {
                *bytes += piece.len() as u64;
                if let Some(held) = held {
                    held.push(piece.to_vec());
                }
            }
            None => return Ok(()),
        }
    }
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
