//! Repair: all that can still be read of a pack, in a new one; and the rest, byte for byte, beside it.
//!
//! Nothing of the old pack is changed or believed more than its checksums: every frame of every segment is looked at. Of
//! the whole records with a key the newest counts, unless a deletion vector lists it or a later deletion names its key.

use std::collections::HashMap;
use std::sync::Arc;

use super::error::{Damage, Error, Result};
use super::format::frame::FrameKind;
use super::format::index::Place;
use super::frames::{Frames, Step, Trouble};
use super::names::Name;
use super::reader::Reader;
use super::recover::go_behind;
use super::segment::Segment;
use super::snapshot::Snapshot;
use super::writer::{Copied, Feed, PackWriter, Window, WriterOptions};
use crate::extent::ByteRange;
use crate::source::AccessRule;
use crate::storage::{Appender, Storage};

/// Memory for records on their way, in bytes.
const MEMORY_LEN: usize = 256 << 20;

/// One piece of quarantined bytes, as it is copied.
const PIECE_LEN: u64 = 1 << 20;

/// What a repair found and saved.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repaired {
    /// Records in the new pack.
    pub records: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// All damage that was met.
    pub damages: Vec<Damage>,
    /// Stretches that could not be read, each in a file of the quarantine.
    pub quarantined: Vec<Quarantined>,
    /// What the new pack may have that the old one had not, or the other way round, and why.
    pub notes: Vec<String>,
}

/// Bytes that are no whole record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// Id of the segment.
    pub segment: u64,
    /// Where in it.
    pub range: ByteRange,
    /// The file that holds a copy of them, in the quarantine.
    pub file: String,
}

/// A whole record of the old pack.
#[derive(Debug, Clone, Copy)]
struct Found {
    /// Where its sort form is among all.
    form: (usize, usize),
    segment: usize,
    place: Place,
    sequence: u64,
}

/// All that was found. It takes about 60 bytes of memory for each record, and its key.
#[derive(Debug, Default)]
struct Survey {
    forms: Vec<u8>,
    records: Vec<Found>,
    /// The last deletion of each key.
    deleted: HashMap<Box<[u8]>, u64>,
    broken: Vec<(usize, ByteRange)>,
    damages: Vec<Damage>,
}

/// Where unreadable bytes go; made when there are any.
pub type Quarantine<'a> = &'a mut dyn FnMut() -> Result<Arc<dyn Storage>>;

/// Writes all whole, live records of the pack in `from` into a new pack in `to`, with their groups, attributes, sequence
/// numbers and times, in the order of their keys. `progress` is told bytes read and written, of about twice the size of
/// the pack, and stops the repair by giving `false`.
///
/// # Errors
/// What reading and writing meet: damage is no error. [`Error::Stopped`] when it was stopped; the new pack is then incomplete.
pub fn repair(
    from: &dyn Storage,
    to: Arc<dyn Storage>,
    options: WriterOptions,
    quarantine: Quarantine<'_>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Repaired> {
    let reader = Reader::new(options.engines.clone());
    let (snapshot, notes) = Snapshot::salvage(from, &reader)?;
    let mut repaired = Repaired { notes, ..Repaired::default() };
    let chunk_log2 = snapshot.manifest.chunk_log2;
    let options = WriterOptions { chunk_log2, segment_len: snapshot.manifest.segment_len, ..options };
    let mut writer = PackWriter::create(to, options)?;
    writer.set_roots(snapshot.manifest.roots.clone());
    let mut survey = Survey::default();
    let mut passed = 0;
    for (number, segment) in snapshot.segments.iter().enumerate() {
        survey.walk(number, segment, &reader, &mut |at| progress(passed + at))?;
        segment.runs.iter().try_for_each(|run| run.look_at_all(&reader))?;
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
    survey.settle(&snapshot.segments);
    write(&mut writer, &snapshot, &survey, &reader, &mut repaired, &mut |bytes| progress(passed + bytes))?;
    repaired.damages = snapshot.log.all();
    repaired.damages.append(&mut survey.damages);
    let mut seen = std::collections::HashSet::new();
    repaired.damages.retain(|damage| seen.insert(damage.clone()));
    for (number, range) in &survey.broken {
        let Some(segment) = snapshot.segments.get(*number) else { continue };
        repaired.quarantined.push(set_aside(segment, *range, &reader, quarantine()?.as_ref())?);
    }
    writer.set_complete(true);
    writer.finish(true)?;
    Ok(repaired)
}

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
        let records: Vec<Found> =
            survey.records.iter().filter(|found| is_ours(found.segment)).copied().collect();
        let mut feed = Listed { survey, records: records.iter() };
        let before = repaired.bytes;
        let copied = writer.take_over(group, &mut feed, (&segments, reader), MEMORY_LEN, &mut |bytes| {
            progress(before + bytes)
        })?;
        repaired.records += copied.records;
        repaired.bytes += copied.bytes;
    }
    writer.publish()
}

impl Survey {
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
        let mut frames = Frames::new(
            reader.window(segment.source.clone(), range, access, segment.salt.chunk_len)?,
            segment.salt,
        );
        let mut goes_on = true;
        let mut tell = |at: u64| {
            goes_on = goes_on && progress(at.saturating_sub(range.start()));
            goes_on
        };
        loop {
            if !tell(frames.window.pos()) {
                return Err(Error::Stopped);
            }
            let broken = match frames.step()? {
                Step::End => break,
                Step::Invalid(broken) => broken,
                Step::Frame => match frames.finish_frame_telling(&mut tell) {
                    // It was left where it stood.
                    Ok(_) if !tell(frames.window.pos()) => return Err(Error::Stopped),
                    Ok(body_len) => {
                        self.take(number, &frames, body_len.is_some());
                        continue;
                    }
                    Err(Trouble::Source(error)) => return Err(error.into()),
                    Err(Trouble::Broken(broken)) => broken,
                },
            };
            let (frame, next) = (broken.frame, broken.next);
            self.damages.push(broken.into_damage(segment.source.path()));
            let goes_on = go_behind(&mut frames, frame, next)?;
            let end = if goes_on { frames.window.pos() } else { range.end() };
            self.broken.extend(ByteRange::new(frame, end).map(|range| (number, range)));
            if !goes_on {
                break;
            }
        }
        let untold = frames.window.holes().untold(segment.source.path(), &self.damages);
        self.damages.extend(untold);
        reader.give_back(frames.window.into_engine()?);
        Ok(())
    }

    fn take(&mut self, segment: usize, frames: &Frames, is_record: bool) {
        let head = frames.head();
        let Some(key) = head.key() else { return };
        let sequence = head.header.sequence;
        if head.header.kind == FrameKind::Deletion {
            let last = self.deleted.entry(key.sort_form().into()).or_default();
            *last = sequence.max(*last);
        } else if is_record {
            let start = self.forms.len();
            self.forms.extend_from_slice(key.sort_form());
            let place = Place::new(head.offset, frames.window.pos() - head.offset);
            self.records.push(Found { form: (start, self.forms.len()), segment, place, sequence });
        }
    }

    fn form(&self, found: &Found) -> &[u8] {
        self.forms.get(found.form.0..found.form.1).unwrap_or_default()
    }

    /// Leaves what counts, in the order of the keys.
    fn settle(&mut self, segments: &[Segment]) {
        let mut records = std::mem::take(&mut self.records);
        records.retain(|found| {
            let is_dead = segments
                .get(found.segment)
                .is_some_and(|segment| segment.deaths.contains_key(&found.place.offset));
            let deleted = self.deleted.get(self.form(found)).copied().unwrap_or(0);
            !is_dead && deleted < found.sequence
        });
        // The newest version of each key comes first, and the others go.
        records.sort_unstable_by(|a, b| self.form(a).cmp(self.form(b)).then(b.sequence.cmp(&a.sequence)));
        records.dedup_by(|later, kept| self.form(later) == self.form(kept));
        self.records = records;
    }
}

/// Feeds the records of one group.
struct Listed<'a> {
    survey: &'a Survey,
    records: std::slice::Iter<'a, Found>,
}

impl Feed for Listed<'_> {
    fn fill(&mut self, window: &mut Window, memory_len: usize, _: &mut Copied) -> Result<bool> {
        window.clear();
        while !window.is_full(memory_len) {
            let Some(found) = self.records.next() else { return Ok(false) };
            window.push(found.segment, found.place, None, self.survey.form(found));
        }
        Ok(true)
    }
}

/// Copies bytes that could not be understood into a file of their own.
fn set_aside(
    segment: &Segment,
    range: ByteRange,
    reader: &Reader,
    quarantine: &dyn Storage,
) -> Result<Quarantined> {
    let id = segment.entry.id;
    let file = format!("{}-{:016x}.bin", Name::Segment(id), range.start());
    let mut appender: Box<dyn Appender> = quarantine.create(&file)?;
    let mut at = range.start();
    while at < range.end() {
        let piece = ByteRange::new(at, range.end().min(at + PIECE_LEN)).unwrap_or_default();
        // Zeros stand where the medium gives nothing back.
        let (bytes, _) = reader.read_around(segment.source.as_ref(), piece)?;
        appender.append(&[&bytes])?;
        at = piece.end();
    }
    appender.sync()?;
    quarantine.sync_directory()?;
    Ok(Quarantined { segment: id, range, file })
}
