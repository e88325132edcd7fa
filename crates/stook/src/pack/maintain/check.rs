//! Checks every meaningful byte of a pack, and lists all damage.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};

use crate::extent::ByteRange;
use crate::pack::damages::Damages;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::attributes::{Attributes, FileKind};
use crate::pack::format::frame::FrameKind;
use crate::pack::format::index::{EntryContent, Place};
use crate::pack::index::lost::Lost;
use crate::pack::index::run::MergeCursor;
use crate::pack::key::Key;
use crate::pack::maintain::batches::BatchWatch;
use crate::pack::read::frames::{Broken, Checked, Frames};
use crate::pack::read::reader::Reader;
use crate::pack::read::route::Route;
use crate::pack::read::walker::FrameVisitor;
use crate::pack::state::open::{OpenOptions, Pack};
use crate::pack::state::segment::{Life, Segment};
use crate::pack::state::snapshot::Snapshot;
use crate::pack::writer::host::{Host as _, SystemHost};
use crate::report::units;
use crate::storage::Storage;

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// Records that are whole, dead ones included.
    pub records: u64,
    /// Of these, live.
    pub live_records: u64,
    /// Bytes of bodies verified.
    pub body_bytes: u64,
    /// All damage.
    pub damages: Damages,
    /// Notes on anything but damage: foreign files, torn tails, an unfinished build.
    pub notes: Vec<String>,
    /// Nothing can be written to the pack, or it cannot even be opened, before it is repaired.
    pub needs_repair: bool,
    /// Whether the pack is incomplete, so that anything may be missing, after the check.
    pub is_incomplete: bool,
    /// Whether the pack was incomplete, and the caller of the check called it complete because of
    /// it.
    pub accepted: bool,
}

/// Bytes of frames that are held against the index as one. Only where they differ the records are
/// gone through one by one, which is when they are in memory: at most 350,000 of them.
const SPAN_LEN: u64 = 16 << 20;

/// Spans of a segment that are gone through one by one; of more, only that they differ is reported.
const NARROWED_MAX: usize = 64;

/// A summary of a set of records: their number and the sum of their hashes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    count: u64,
    hashes: u64,
}

impl Sum {
    fn add(&mut self, hasher: &RandomState, form: &[u8], place: Place) {
        self.count += 1;
        self.hashes = self.hashes.wrapping_add(hasher.hash_one((form, place.offset, place.len)));
    }
}

/// A span of a segment, as its frames have it and as its index does.
#[derive(Debug, Clone, Copy, Default)]
struct SpanSums {
    /// Its first frame.
    first: Option<u64>,
    frames: Sum,
    index: Sum,
    /// What is not a file, as the heads have it and as the index does.
    others: Sum,
    index_others: Sum,
    /// Records of which the index does not say what they hold.
    unsaid: u64,
    /// Records that the deletion vector has.
    dead: u64,
}

impl SpanSums {
    fn add_entry(&mut self, hasher: &RandomState, form: &[u8], place: Place) {
        self.index.add(hasher, form, place);
        match place.content {
            EntryContent::Other => self.index_others.add(hasher, form, place),
            EntryContent::Unsaid => self.unsaid += 1,
            EntryContent::File => {}
        }
    }

    fn add_frame(&mut self, hasher: &RandomState, form: &[u8], place: Place) {
        self.frames.add(hasher, form, place);
        if place.content == EntryContent::Other {
            self.others.add(hasher, form, place);
        }
    }

    /// Whether frames and index speak of the same records.
    fn agree(&self) -> bool {
        self.frames == self.index && (self.unsaid > 0 || self.others == self.index_others)
    }
}

/// The result of a walk over the frames of a segment.
#[derive(Debug, Default)]
struct Walked {
    spans: BTreeMap<u64, SpanSums>,
    /// Where frames are broken, to the next whole one.
    lost: Lost,
    /// Whether there is a live hard link to a file.
    has_links: bool,
}

impl Walked {
    fn span(&mut self, offset: u64) -> &mut SpanSums {
        self.spans.entry(offset / SPAN_LEN).or_default()
    }
}

impl CheckReport {
    /// How much keeps the pack from being whole: damage, and that it is incomplete.
    pub fn undone(&self) -> u64 {
        self.damages.len() as u64 + u64::from(self.is_incomplete)
    }
}

impl Pack {
    /// Verifies every record, live or dead, every index page, that indexes and records agree, that
    /// deletions speak of records, that no key is alive twice, and that hard links to files lead to
    /// files. `progress` receives the bytes of segments gone through.
    ///
    /// # Errors
    /// Returns an error if reading fails. Damage is not an error here; it is in the report.
    pub fn check(&self, mut progress: impl FnMut(u64)) -> Result<CheckReport> {
        self.check_until(&mut |at| {
            progress(at);
            true
        })
    }

    /// The same; `progress` ends it by returning `false`.
    ///
    /// # Errors
    /// Returns those errors, and [`Error::Stopped`] if it was stopped.
    pub fn check_until(&self, progress: &mut dyn FnMut(u64) -> bool) -> Result<CheckReport> {
        let mut report = CheckReport {
            damages: self.snapshot.log.damages(),
            is_incomplete: !self.is_complete(),
            ..CheckReport::default()
        };
        self.note_state(&mut report)?;
        let hasher = RandomState::new();
        let (mut passed, mut has_links) = (0, false);
        for segment in &self.snapshot.segments {
            let mut walked = Walked::default();
            self.walk(segment, &hasher, &mut walked, &mut report, &mut |at| progress(passed + at))?;
            passed += segment.frames().len();
            self.check_index(segment, &hasher, &mut walked)?;
            if !progress(passed) {
                return Err(Error::Stopped);
            }
            self.check_agreement(segment, &walked, &mut report)?;
            let is_live = |_: &Key, offset| segment.life(offset) != Life::Dead;
            report.damages.extend(walked.lost.records(segment, &self.reader, &is_live)?);
            has_links |= walked.has_links;
        }
        self.check_unique(&mut report)?;
        if has_links {
            report.damages.extend(self.lost_links()?);
        }
        // Lost pages, and other damage that was worked around.
        report.damages.join(self.snapshot.log.damages());
        Ok(report)
    }

    /// Opens a pack for [`check`](Self::check), even if its newest manifest cannot be read: by an
    /// older one, or by its segments alone. The notes of the report explain the consequences.
    ///
    /// # Errors
    /// Returns [`Error::NotAPack`], or an error of the storage.
    pub fn open_what_is_left(storage: Arc<dyn Storage>, options: OpenOptions) -> Result<Self> {
        let reader = Arc::new(Reader::new(options.engines, storage.path("")));
        let (snapshot, notes) = Snapshot::salvage(storage.as_ref(), &reader)?;
        let (access, fits) = (options.access, OnceLock::new());
        Ok(Self {
            storage,
            reader,
            snapshot,
            access,
            fits,
            numbered: OnceLock::new(),
            maps: Vec::new(),
            notes,
        })
    }

    fn note_state(&self, report: &mut CheckReport) -> Result<()> {
        report.notes.clone_from(&self.notes);
        report.needs_repair = !self.notes.is_empty() || self.check_appendable().is_err();
        for torn in self.torn_tails() {
            let what = format!(
                "segment {:016x} has an unfinished end of {} bytes at offset {}; the next writer cuts it off",
                torn.segment, torn.len, torn.offset
            );
            report.notes.push(what);
        }
        if self.snapshot.manifest_lost {
            let what = "whether the pack is complete is not known: the manifest that says it is lost";
            report.notes.push(what.into());
        } else if !self.is_complete() {
            report.notes.push("the pack is incomplete: what built it has not come to its end".into());
        }
        self.note_clock(report);
        let files = self.snapshot.look_at_files(self.storage.as_ref(), &self.reader)?;
        report.damages.extend(files.damages);
        report.notes.extend(files.notes);
        Ok(())
    }

    /// A clock that was ahead once makes all later times meaningless.
    fn note_clock(&self, report: &mut CheckReport) {
        let last_ns = self.snapshot.manifest.time_last_ns;
        let ahead = crate::pack::writer::host::clock_is_behind(SystemHost.now_ns(), last_ns);
        report.notes.extend(ahead);
    }

    fn walk(
        &self,
        segment: &Segment,
        hasher: &RandomState,
        walked: &mut Walked,
        report: &mut CheckReport,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<()> {
        let range = segment.frames();
        if range.is_empty() {
            return Ok(());
        }
        let route = Route::new(self.access, segment.source.as_ref(), range);
        let mut frames = self.reader.frames(&segment.source, segment.salt, range, route)?;
        let batches = BatchWatch::default();
        let start = range.start();
        let mut looking =
            Looking { segment, hasher, batches, walked, report, start, progress, is_stopped: false };
        if !frames.visit(&mut looking)? {
            return Err(Error::Stopped);
        }
        let unended = looking.batches.end();
        looking.report_batch(unended);
        let path = segment.source.path();
        let unreported = frames.window.holes().unreported(path, &report.damages);
        report.damages.extend(unreported);
        self.reader.take_back(frames)
    }

    /// Every page of the index, whose entries are added up.
    fn check_index(&self, segment: &Segment, hasher: &RandomState, walked: &mut Walked) -> Result<()> {
        let mut cursor = MergeCursor::seek(segment.runs.iter(), &self.reader, &[])?;
        while let Some((_, entry)) = cursor.peek() {
            let place = entry.place();
            if !walked.lost.contains(place.offset) {
                walked.span(place.offset).add_entry(hasher, entry.form(), place);
            }
            cursor.advance()?;
        }
        Ok(())
    }

    /// Whether frames, index and deletions speak of the same records.
    fn check_agreement(&self, segment: &Segment, walked: &Walked, report: &mut CheckReport) -> Result<()> {
        let mut narrowed = 0;
        let last_death = segment.deaths.keys().next_back().map_or(0, |last| last / SPAN_LEN);
        let last = walked.spans.keys().next_back().copied().unwrap_or(0).max(last_death);
        for number in 0..=last {
            let span = walked.spans.get(&number).copied().unwrap_or_default();
            let start = number * SPAN_LEN;
            let range = ByteRange::at(start, SPAN_LEN).unwrap_or_default();
            let dead = segment.deaths.range(range.start()..range.end());
            let dead = dead.filter(|(offset, _)| !walked.lost.contains(**offset)).count() as u64;
            if span.agree() && span.dead == dead {
                continue;
            }
            narrowed += 1;
            if narrowed > NARROWED_MAX {
                let what = format!("the index and the {SPAN_LEN} bytes of records here do not agree");
                let file = segment.source.path().to_path_buf();
                report.damages.push(Damage { file, offset: start, key: None, what, cause: None });
            } else {
                self.narrow(segment, walked, range, span.first, report)?;
            }
        }
        Ok(())
    }

    /// Reports the differences in a span.
    fn narrow(
        &self,
        segment: &Segment,
        walked: &Walked,
        span: ByteRange,
        first: Option<u64>,
        report: &mut CheckReport,
    ) -> Result<()> {
        let file = segment.source.path();
        let mut report_damage = |offset, key, what: &str| {
            report.damages.push(Damage {
                file: file.to_path_buf(),
                offset,
                key,
                what: what.into(),
                cause: None,
            });
        };
        let mut records = self.records_in(segment, span, first)?;
        let mut cursor = MergeCursor::seek(segment.runs.iter(), &self.reader, &[])?;
        while let Some((_, entry)) = cursor.peek() {
            let place = entry.place();
            if span.contains(place.offset) && !walked.lost.contains(place.offset) {
                let key = || Key::from_sort_form(entry.form());
                match records.get_mut(&place.offset) {
                    None => {
                        report_damage(place.offset, key(), "the index names a record here, and there is none")
                    }
                    Some(seen) => {
                        seen.listed = true;
                        if seen.form.as_ref() != entry.form() || seen.len != place.len {
                            report_damage(place.offset, key(), "the index names another record here");
                        } else if place.content != EntryContent::Unsaid && place.content != seen.content {
                            let what =
                                "the index says that this is a file, or that it is not, and it is the other";
                            report_damage(place.offset, key(), what);
                        }
                    }
                }
            }
            cursor.advance()?;
        }
        for (&offset, _) in segment.deaths.range(span.start()..span.end()) {
            if !records.contains_key(&offset) && !walked.lost.contains(offset) {
                report_damage(offset, None, "a deletion names a record here, and there is none");
            }
        }
        for (offset, seen) in records.into_iter().filter(|(_, seen)| !seen.listed) {
            report_damage(offset, Key::from_sort_form(&seen.form), "a record here is missing from the index");
        }
        Ok(())
    }

    /// The records of a span, by their offsets.
    fn records_in(
        &self,
        segment: &Segment,
        span: ByteRange,
        first: Option<u64>,
    ) -> Result<BTreeMap<u64, Seen>> {
        let mut records = BTreeMap::new();
        let Some(range) = first.and_then(|first| ByteRange::new(first, segment.frames_end)) else {
            return Ok(records);
        };
        let route = Route::new(self.access, segment.source.as_ref(), range);
        let mut frames = self.reader.frames(&segment.source, segment.salt, range, route)?;
        frames.visit(&mut RecordCollector { records: &mut records, end: span.end() })?;
        self.reader.take_back(frames)?;
        Ok(records)
    }

    fn check_unique(&self, report: &mut CheckReport) -> Result<()> {
        let (mut before, mut replaced) = (None, 0);
        for entry in self.keys(&[])? {
            let entry = match entry {
                Ok(entry) => entry,
                // The list of the dead that is lost has been reported.
                Err(Error::Damaged(damage)) if damage.key.is_some() => continue,
                Err(Error::Damaged(damage)) => {
                    // What follows it cannot be compared.
                    report.damages.push(damage);
                    break;
                }
                Err(error) => return Err(error),
            };
            if before.as_ref() == Some(&entry.key) && self.snapshot.manifest_lost {
                // One was replaced, which the manifest would have shown.
                replaced += 1;
            } else if before.as_ref() == Some(&entry.key) {
                report.damages.push(Damage {
                    file: self.storage.path(""),
                    offset: 0,
                    key: Some(entry.key.clone()),
                    what: "two live records have this key".into(),
                    cause: None,
                });
            }
            before = Some(entry.key);
        }
        report.live_records = report.live_records.saturating_sub(replaced);
        if replaced > 0 {
            let records = units::count_of(replaced, "record was", "records were");
            report
                .notes
                .push(format!("{records} replaced by a newer one with the same key, which is what counts"));
        }
        Ok(())
    }
}

/// A record of a span whose records are gone through one by one.
#[derive(Debug)]
struct Seen {
    form: Box<[u8]>,
    len: Option<u64>,
    content: EntryContent,
    listed: bool,
}

/// Collects the records that begin before `end`.
struct RecordCollector<'a> {
    records: &'a mut BTreeMap<u64, Seen>,
    end: u64,
}

impl FrameVisitor for RecordCollector<'_> {
    fn goes_on(&mut self, at: u64) -> bool {
        at < self.end
    }

    fn take(&mut self, frames: &mut Frames) -> Checked<()> {
        let is_record = frames.finish_frame()?.is_some();
        let head = frames.head();
        if let Some(key) = head.key().filter(|_| is_record) {
            let len = Place::new(head.offset, frames.window.pos() - head.offset).len;
            let content = EntryContent::of(&head.attributes);
            let seen = Seen { form: key.sort_form().into(), len, content, listed: false };
            self.records.insert(head.offset, seen);
        }
        Ok(())
    }
}

/// Checks every frame of a segment, and reports damage.
struct Looking<'a> {
    segment: &'a Segment,
    hasher: &'a RandomState,
    batches: BatchWatch,
    walked: &'a mut Walked,
    report: &'a mut CheckReport,
    /// Where the frames begin.
    start: u64,
    progress: &'a mut dyn FnMut(u64) -> bool,
    is_stopped: bool,
}

impl Looking<'_> {
    /// Reports an invalid batch.
    fn report_batch(&mut self, batch: Option<(u64, String)>) {
        let file = self.segment.source.path();
        self.report.damages.extend(batch.map(|(offset, what)| Damage {
            file: file.to_path_buf(),
            offset,
            key: None,
            what,
            cause: None,
        }));
    }
}

impl FrameVisitor for Looking<'_> {
    fn goes_on(&mut self, at: u64) -> bool {
        self.is_stopped = self.is_stopped || !(self.progress)(at - self.start);
        !self.is_stopped
    }

    fn take(&mut self, frames: &mut Frames) -> Checked<()> {
        let offset = frames.head().offset;
        self.walked.span(offset).first.get_or_insert(offset);
        let body_len = frames.finish_frame_reporting(&mut |at| self.goes_on(at))?;
        if self.is_stopped {
            // The walk stopped within the frame.
            return Err(Error::Stopped.into());
        }
        let batch = self.batches.take(frames);
        self.report_batch(batch);
        if let Some(body_len) = body_len {
            note_record(self.segment, frames, body_len, self.hasher, self.walked, self.report);
        }
        Ok(())
    }

    fn pass(&mut self, broken: Broken, end: u64) -> Result<()> {
        self.batches.note_damage();
        self.walked.lost.note(broken.frame, end, broken.key.is_some());
        self.report.damages.push(broken.into_damage(self.segment.source.path()));
        Ok(())
    }
}

fn note_record(
    segment: &Segment,
    frames: &Frames,
    body_len: u64,
    hasher: &RandomState,
    walked: &mut Walked,
    report: &mut CheckReport,
) {
    let head = frames.head();
    let Some(key) = head.key() else { return };
    let attributes = Attributes::decode(&head.attributes);
    if let Err(invalid) = &attributes {
        let file = segment.source.path().to_path_buf();
        let what = format!("the attributes cannot be read: {}", invalid.what);
        report.damages.push(Damage { file, offset: head.offset, key: Some(key.clone()), what, cause: None });
    }
    debug_assert_eq!(head.header.kind, FrameKind::Record);
    report.records += 1;
    report.body_bytes += body_len;
    let span = walked.span(head.offset);
    let place = Place::new(head.offset, frames.window.pos() - head.offset);
    span.add_frame(hasher, key.sort_form(), place.with(EntryContent::of(&head.attributes)));
    span.dead += u64::from(segment.deaths.contains_key(&head.offset));
    if segment.life(head.offset) == Life::Alive {
        report.live_records += 1;
        let kind = attributes.ok().and_then(|attributes| attributes.file_kind());
        walked.has_links |= kind == Some(FileKind::HardLink);
    }
}
