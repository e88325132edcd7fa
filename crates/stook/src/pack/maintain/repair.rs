//! Repair: copies everything readable of a pack into a new one, and the rest, byte for byte, beside
//! it.
//!
//! Nothing of the old pack is changed or believed more than its checksums: every frame of every
//! segment is looked at. Of the whole records with a key the newest counts, unless a deletion
//! vector lists it or a later deletion names its key. Hard links to files that then lead to no file
//! are taken out of the new pack again: it has no damage.
//!
//! Memory is bounded, however many records there are: keys are settled one range of them after
//! another, in as many walks over the segments as that takes. The first walk looks at every byte;
//! later ones verify the records of their range.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::extent::ByteRange;
use crate::pack::damages::Damages;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::attributes::Attributes;
use crate::pack::format::frame::FrameKind;
use crate::pack::format::index::Place;
use crate::pack::format::manifest::PackState;
use crate::pack::index::lost::Lost;
use crate::pack::key::Key;
use crate::pack::read::frames::{Broken, Checked, Frames};
use crate::pack::read::reader::Reader;
use crate::pack::read::walker::FrameVisitor;
use crate::pack::state::names::PackFile;
use crate::pack::state::open::{OpenOptions, Pack};
use crate::pack::state::segment::{Life, Segment};
use crate::pack::state::snapshot::Snapshot;
use crate::pack::writer::{Copied, CopyWindow, Feed, PackWriter, WriterOptions};
use crate::plan::merged_whole;
use crate::source::AccessRule;
use crate::storage::{Appender, Storage};

/// Memory for the keys of one walk, and as much again for records on their way, in bytes.
const MEMORY_LEN: usize = 128 << 20;

/// Memory that a key takes besides its bytes, about.
const KEY_LEN: usize = 160;

/// Whole bytes between two quarantined ranges up to which they are one.
const GAP_LEN: u64 = 64 << 10;

/// One piece of quarantined bytes, as it is copied.
const PIECE_LEN: u64 = 1 << 20;

/// The result of a repair.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repaired {
    /// Records in the new pack.
    pub records: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// All damage that was found.
    pub damages: Damages,
    /// Spans that could not be saved, each in a file of the quarantine.
    pub quarantined: Vec<Quarantined>,
    /// Differences between the new pack and the old one, and why.
    pub notes: Vec<String>,
    /// Whether the new pack is incomplete, because the old one was or may have been.
    pub is_incomplete: bool,
}

impl Repaired {
    /// How much keeps the new pack from being all that the old one was to be: damage, and that it
    /// is incomplete.
    pub fn undone(&self) -> u64 {
        self.damages.len() as u64 + u64::from(self.is_incomplete)
    }
}

/// Bytes that are not an intact record, or are hard links to a lost file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// Id of the segment.
    pub segment: u64,
    /// Where in it.
    pub range: ByteRange,
    /// The file that holds a copy of them, in the quarantine.
    pub file: String,
}

/// How to repair a pack.
#[derive(Debug, Clone)]
pub struct RepairOptions {
    /// How the new pack is written.
    pub writer: WriterOptions,
    /// Memory for the keys of one walk over the pack, in bytes; the records on their way take as
    /// much again. With less there are more walks. In addition there are reads in flight (at most
    /// 32, of at most 1 MiB), pending writes, and 8 bytes a record for the index of the segment
    /// being written.
    pub memory_len: usize,
}

impl From<WriterOptions> for RepairOptions {
    fn from(writer: WriterOptions) -> Self {
        Self { writer, memory_len: MEMORY_LEN }
    }
}

/// The records found for a key.
#[derive(Debug, Clone, Copy, Default)]
struct NewestOfKey {
    /// Sequence number, segment and place of its newest whole record that no deletion vector lists.
    record: Option<(u64, usize, Place)>,
    /// Sequence number of the last deletion that names it.
    deleted: u64,
}

impl NewestOfKey {
    /// The record, if it counts.
    fn counts(&self) -> Option<(usize, Place)> {
        self.record
            .filter(|&(sequence, ..)| self.deleted < sequence)
            .map(|(_, segment, place)| (segment, place))
    }
}

/// The keys of one range. Keys that do not fit into the memory are left for the next walk: always
/// the last of them.
#[derive(Debug)]
struct Survey {
    keys: BTreeMap<Box<[u8]>, NewestOfKey>,
    /// Memory that the keys take, about, and may take.
    len: usize,
    memory_len: usize,
    /// The range begins here.
    from: Box<[u8]>,
    /// The key before which it ends; `None` if it continues to the last.
    to: Option<Box<[u8]>>,
    /// Only these keys, if there are any given.
    only: Option<BTreeSet<Box<[u8]>>>,
    /// Whether everything is checked, and damage is noted.
    is_first: bool,
    /// Whether there are versions that no longer count: those are left out, and with them earlier
    /// states.
    has_history: bool,
    /// Whether there are hard links to files.
    has_links: bool,
    /// Whether there is a record at all, and whether one states a kind of file: packing trees or
    /// archives states it, and may have been interrupted.
    has_records: bool,
    has_files: bool,
    broken: Vec<(usize, ByteRange)>,
    damages: Damages,
}

/// Where bytes go that cannot be saved; made when there are any.
pub type Quarantine<'a> = &'a mut dyn FnMut() -> Result<Arc<dyn Storage>>;

/// Writes all whole, live records of the pack in `from` into a new pack in `to`, with their groups,
/// attributes, sequence numbers and times, in the order of their keys. Hard links that then lead to
/// no file are damage, and not in it. `progress` receives bytes read and written, of about twice
/// the size of the pack, and stops the repair by giving `false`.
///
/// # Errors
/// Returns an error if reading or writing fails; damage is not an error. [`Error::Stopped`] if it
/// was stopped; the new pack is then incomplete.
pub fn repair(
    from: &dyn Storage,
    to: Arc<dyn Storage>,
    options: impl Into<RepairOptions>,
    quarantine: Quarantine<'_>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Repaired> {
    let RepairOptions { writer: options, memory_len } = options.into();
    let reader = Reader::new(options.engines.clone(), from.path(""));
    let (snapshot, notes) = Snapshot::salvage(from, &reader)?;
    let mut repaired = Repaired { notes, ..Repaired::default() };
    let chunk_log2 = snapshot.manifest.chunk_log2;
    let options = WriterOptions { chunk_log2, segment_len: snapshot.manifest.segment_len, ..options };
    let mut writer = PackWriter::create(to.clone(), options.clone())?;
    writer.set_roots(snapshot.manifest.roots.clone());
    writer.set_unfinished(snapshot.manifest.unfinished.clone());
    if snapshot.manifest.moved {
        writer.set_moved(snapshot.manifest.moved_from.clone());
    }
    let mut survey = Survey::new(memory_len);
    let passed = first_walk(&mut survey, &snapshot, &reader, &mut repaired, progress)?;
    loop {
        write(&mut writer, &snapshot, &survey, &reader, &mut repaired, &mut |bytes| {
            progress(passed + bytes)
        })?;
        if !survey.go_on() {
            break;
        }
        for (number, segment) in snapshot.segments.iter().enumerate() {
            survey.walk(number, segment, &reader, &mut |_| progress(passed + repaired.bytes))?;
        }
    }
    // What was taken over is published.
    let lost = match survey.has_links {
        true => Pack::open(to.clone(), OpenOptions::default())?.lost_links()?,
        false => Vec::new(),
    };
    if !lost.is_empty() {
        writer.finish(true)?;
        writer = leave_out(&lost, to, options)?;
        survey.has_history = true;
    }
    if survey.has_history {
        // Versions that were replaced or deleted are not copied: no state before the last can be
        // reported.
        let times = snapshot.segments.iter().map(|segment| segment.tally.time_last_ns);
        writer.begin_history(times.fold(snapshot.manifest.time_last_ns, i64::max));
    }
    let files = snapshot.look_at_files(from, &reader)?;
    // Files set aside, and others that no manifest names, are not in the new pack.
    repaired.notes.extend(files.notes);
    repaired.damages = snapshot.log.damages();
    repaired.damages.join(std::mem::take(&mut survey.damages));
    repaired.damages.extend(files.damages);
    report_lost(lost, &snapshot, &reader, &mut survey, &mut repaired, &mut |bytes| progress(passed + bytes))?;
    for (number, range) in joined(&survey.broken) {
        let Some(segment) = snapshot.segments.get(number) else { continue };
        repaired.quarantined.push(set_aside(segment, range, &reader, quarantine()?.as_ref())?);
    }
    let (is_complete, note) = new_state(&snapshot, &survey, &repaired.damages);
    writer.set_complete(is_complete);
    repaired.is_incomplete = !is_complete;
    repaired.notes.extend(note);
    writer.finish(true)?;
    Ok(repaired)
}

/// Whether the new pack is complete, and a note about that. A pack that was incomplete, or may have
/// been, does not become complete by repair. Packs of single records are complete from the start.
fn new_state(snapshot: &Snapshot, survey: &Survey, damages: &Damages) -> (bool, Option<String>) {
    let is_all_there = survey.broken.is_empty() && snapshot.lost.is_empty();
    let is_of_single_records = survey.has_records && !survey.has_files && snapshot.manifest.roots.is_empty();
    let (is_complete, note) = match snapshot.manifest.state {
        _ if snapshot.manifest_lost && is_all_there && is_of_single_records => (
            true,
            "the manifest that said whether the pack was complete is lost; no record came from a tree or \
             an archive, so that no `stook pack` has to continue it, and the new pack says that it is complete",
        ),
        _ if snapshot.manifest_lost => (
            false,
            "whether the pack was complete is not known: its manifest is lost; the new one does not say so \
             (`stook check --accept` accepts it as it is)",
        ),
        PackState::Incomplete => (
            false,
            "the pack was incomplete, and so is the new one (`stook check --accept` accepts it as it is)",
        ),
        PackState::Complete if damages.is_empty() => return (true, None),
        PackState::Complete => (
            true,
            "the new pack says that it is complete, as the old one did; what is lost is reported only here",
        ),
    };
    (is_complete, Some(note.into()))
}

/// Takes hard links out of the new pack that lead to no file, because that could not be saved or
/// never was there.
fn leave_out(lost: &[Damage], to: Arc<dyn Storage>, options: WriterOptions) -> Result<PackWriter> {
    let host = options.host.clone();
    // A writer does not know the keys that it took over; the next one does.
    let mut writer = PackWriter::open(to, options)?;
    for key in lost.iter().filter_map(|damage| damage.key.as_ref()) {
        writer.delete(key)?;
    }
    // No earlier state is to show them.
    writer.begin_history(host.now_ns());
    Ok(writer)
}

/// Reports hard links that were left out where they are in the old pack, and sets them aside.
fn report_lost(
    lost: Vec<Damage>,
    snapshot: &Snapshot,
    reader: &Reader,
    survey: &mut Survey,
    repaired: &mut Repaired,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<()> {
    if lost.is_empty() {
        return Ok(());
    }
    let keys = lost.iter().filter_map(|damage| damage.key.as_ref());
    let only = keys.map(|key| Box::from(key.sort_form())).collect();
    let mut found = Survey { only: Some(only), is_first: false, ..Survey::new(usize::MAX) };
    let written = repaired.bytes;
    for (number, segment) in snapshot.segments.iter().enumerate() {
        found.walk(number, segment, reader, &mut |_| progress(written))?;
    }
    for mut damage in lost {
        let newest = damage.key.as_ref().and_then(|key| found.keys.get(key.sort_form()));
        if let Some((number, place)) = newest.and_then(NewestOfKey::counts)
            && let Some(segment) = snapshot.segments.get(number)
        {
            damage.file = segment.source.path().to_path_buf();
            damage.offset = place.offset;
            survey.broken.extend(ByteRange::at(place.offset, place.len_min()).map(|range| (number, range)));
            repaired.bytes = repaired.bytes.saturating_sub(place.len_min());
        }
        damage.what.push_str("; it is not in the new pack");
        repaired.records = repaired.records.saturating_sub(1);
        repaired.damages.push(damage);
    }
    Ok(())
}

/// Checks everything, and returns its size in bytes.
fn first_walk(
    survey: &mut Survey,
    snapshot: &Snapshot,
    reader: &Reader,
    repaired: &mut Repaired,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<u64> {
    let mut passed = 0;
    for (number, segment) in snapshot.segments.iter().enumerate() {
        survey.walk(number, segment, reader, &mut |at| progress(passed + at))?;
        segment.runs.iter().try_for_each(|run| run.look_at_all(reader))?;
        for torn in snapshot.torn.iter().filter(|torn| torn.segment == segment.entry.id) {
            let (id, offset, len) = (torn.segment, torn.offset, torn.len);
            let what = format!(
                "segment {id:016x} has an unfinished end of {len} bytes at offset {offset}, which is set aside"
            );
            repaired.notes.push(what);
            survey.broken.extend(ByteRange::at(offset, len).map(|range| (number, range)));
        }
        passed += segment.frames().len();
        if segment.vector_lost {
            let what = "the list of deleted records of segment";
            let id = segment.entry.id;
            repaired
                .notes
                .push(format!("{what} {id:016x} is lost: records that had been deleted may be there again"));
        }
    }
    Ok(passed)
}

/// Writes what counts of one range of keys, group by group.
fn write(
    writer: &mut PackWriter,
    snapshot: &Snapshot,
    survey: &Survey,
    reader: &Reader,
    repaired: &mut Repaired,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<()> {
    let segments: Vec<&Segment> = snapshot.segments.iter().collect();
    for (number, group) in (0u32..).zip(&snapshot.manifest.groups) {
        let is_ours =
            |segment: usize| segments.get(segment).is_some_and(|segment| segment.entry.group == number);
        let mut records = survey.keys.iter().filter_map(|(form, newest)| {
            newest
                .counts()
                .filter(|&(segment, _)| is_ours(segment))
                .map(|(segment, place)| (&**form, segment, place))
        });
        let mut feed = RecordFeed { records: &mut records };
        let before = repaired.bytes;
        let sources = (&segments[..], reader);
        let copied = writer
            .take_over(group, &mut feed, sources, survey.memory_len, &mut |bytes| progress(before + bytes))?;
        repaired.records += copied.records;
        repaired.bytes += copied.bytes;
    }
    writer.publish()
}

impl Survey {
    fn new(memory_len: usize) -> Self {
        Self {
            keys: BTreeMap::new(),
            len: 0,
            memory_len,
            from: Box::default(),
            to: None,
            only: None,
            is_first: true,
            has_history: false,
            has_links: false,
            has_records: false,
            has_files: false,
            broken: Vec::new(),
            damages: Damages::default(),
        }
    }

    /// Continues with the keys after it; `false` if there are none.
    fn go_on(&mut self) -> bool {
        let Some(to) = self.to.take() else { return false };
        (self.from, self.len, self.is_first) = (to, 0, false);
        self.keys.clear();
        true
    }

    /// Looks at every frame of a segment.
    fn walk(
        &mut self,
        number: usize,
        segment: &Segment,
        reader: &Reader,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<()> {
        let range = segment.frames();
        if range.is_empty() {
            return Ok(());
        }
        let access = AccessRule::default().decide(segment.source.as_ref(), range);
        let mut frames = reader.frames(&segment.source, segment.salt, range, access)?;
        let (is_first, start) = (self.is_first, range.start());
        let mut walk = SurveyWalk {
            survey: self,
            number,
            segment,
            lost: Lost::default(),
            start,
            goes_on: true,
            progress,
        };
        if !frames.visit(&mut walk)? {
            return Err(Error::Stopped);
        }
        let lost = walk.lost;
        if is_first {
            let unreported = frames.window.holes().unreported(segment.source.path(), &self.damages);
            self.damages.extend(unreported);
            let is_live = |_: &Key, offset| segment.life(offset) != Life::Dead;
            self.damages.extend(lost.records(segment, reader, &is_live)?);
            self.broken.extend(lost.spans().iter().map(|range| (number, *range)));
        }
        reader.take_back(frames)
    }

    /// Whether the key of the current frame is in the range.
    fn wants(&self, frames: &Frames) -> bool {
        frames.head().key().is_some_and(|key| self.has(key.sort_form()))
    }

    fn has(&self, form: &[u8]) -> bool {
        let is_in_range = *form >= *self.from && self.to.as_deref().is_none_or(|to| form < to);
        is_in_range && self.only.as_ref().is_none_or(|only| only.contains(form))
    }

    /// Notes what the frame says about its key, if that is in the range.
    fn take(&mut self, number: usize, segment: &Segment, frames: &Frames, is_record: bool) {
        let head = frames.head();
        let Some(key) = head.key().filter(|key| self.has(key.sort_form())) else { return };
        let is_deletion = head.header.kind == FrameKind::Deletion;
        let is_dead = segment.deaths.contains_key(&head.offset);
        self.has_history |= is_deletion || is_dead;
        self.has_records |= is_record;
        self.has_files |= Attributes::kind_of(&head.attributes).is_some();
        if !is_deletion && (!is_record || is_dead) {
            return;
        }
        self.has_links |= Attributes::name_flags(&head.attributes).0;
        let form = key.sort_form();
        if !self.keys.contains_key(form) {
            self.len += KEY_LEN + form.len();
            self.keys.insert(form.into(), NewestOfKey::default());
        }
        if let Some(newest) = self.keys.get_mut(form) {
            let sequence = head.header.sequence;
            if is_deletion {
                newest.deleted = newest.deleted.max(sequence);
            } else if newest.record.is_none_or(|(before, ..)| before < sequence) {
                self.has_history |= newest.record.is_some();
                let place = Place::new(head.offset, frames.window.pos() - head.offset);
                newest.record = Some((sequence, number, place));
            }
        }
        self.make_room();
    }

    /// Leaves the last keys to the next walk as long as there are too many. One stays, so that
    /// every walk gets on.
    fn make_room(&mut self) {
        while self.len > self.memory_len && self.keys.len() > 1 {
            let Some((form, _)) = self.keys.pop_last() else { return };
            self.len = self.len.saturating_sub(KEY_LEN + form.len());
            self.to = Some(form);
        }
    }
}

/// The survey of one segment.
struct SurveyWalk<'a> {
    survey: &'a mut Survey,
    number: usize,
    segment: &'a Segment,
    lost: Lost,
    /// Where the frames begin.
    start: u64,
    /// Whether it was not stopped: once it was, the caller is not asked again.
    goes_on: bool,
    progress: &'a mut dyn FnMut(u64) -> bool,
}

impl FrameVisitor for SurveyWalk<'_> {
    fn goes_on(&mut self, at: u64) -> bool {
        self.goes_on = self.goes_on && (self.progress)(at.saturating_sub(self.start));
        self.goes_on
    }

    fn take(&mut self, frames: &mut Frames) -> Checked<()> {
        // The first walk verified it, and another one takes it.
        if !self.survey.is_first && !self.survey.wants(frames) && frames.skip_frame()? {
            return Ok(());
        }
        let body_len = frames.finish_frame_reporting(&mut |at| self.goes_on(at))?;
        if !self.goes_on {
            // The walk stopped where it was.
            return Err(Error::Stopped.into());
        }
        self.survey.take(self.number, self.segment, frames, body_len.is_some());
        Ok(())
    }

    fn pass(&mut self, broken: Broken, end: u64) -> Result<()> {
        if self.survey.is_first {
            self.lost.note(broken.frame, end, broken.key.is_some());
            self.survey.damages.push(broken.into_damage(self.segment.source.path()));
        }
        Ok(())
    }
}

/// Feeds the records of one group, by key.
struct RecordFeed<'r, 'k> {
    records: &'r mut (dyn Iterator<Item = (&'k [u8], usize, Place)> + 'r),
}

impl Feed for RecordFeed<'_, '_> {
    fn fill(&mut self, window: &mut CopyWindow, memory_len: usize, _: &mut Copied) -> Result<bool> {
        window.clear();
        while !window.is_full(memory_len) {
            let Some((form, segment, place)) = self.records.next() else { return Ok(false) };
            window.push(segment, place, None, form);
        }
        Ok(true)
    }
}

/// Ranges of one segment with little between them are set aside as one: a file and its sync for
/// each of thousands of hit records would take longer than all the rest.
fn joined(broken: &[(usize, ByteRange)]) -> Vec<(usize, ByteRange)> {
    let mut all = broken.to_vec();
    all.sort_unstable_by_key(|(segment, range)| (*segment, range.start()));
    let mut joined: Vec<(usize, ByteRange)> = Vec::new();
    for (segment, range) in all {
        let before = joined.last_mut().filter(|(last, _)| *last == segment);
        let merged =
            before.and_then(|(_, before)| Some((merged_whole(*before, range, GAP_LEN, u64::MAX)?, before)));
        match merged {
            Some((merged, before)) => *before = merged,
            None => joined.push((segment, range)),
        }
    }
    joined
}

/// Copies bytes that could not be understood into a file of their own.
fn set_aside(
    segment: &Segment,
    range: ByteRange,
    reader: &Reader,
    quarantine: &dyn Storage,
) -> Result<Quarantined> {
    let id = segment.entry.id;
    let file = format!("{}-{:016x}.bin", PackFile::Segment(id), range.start());
    let mut appender: Box<dyn Appender> = quarantine.create(&file)?;
    let mut at = range.start();
    while at < range.end() {
        let piece = ByteRange::new(at, range.end().min(at + PIECE_LEN)).unwrap_or_default();
        // Unreadable bytes are zeros.
        let (bytes, _) = reader.read_around(segment.source.as_ref(), piece)?;
        appender.append(&[&bytes])?;
        at = piece.end();
    }
    appender.sync()?;
    quarantine.sync_directory()?;
    Ok(Quarantined { segment: id, range, file })
}
