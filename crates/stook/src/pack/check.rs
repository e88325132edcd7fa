//! Looks at every byte of a pack that carries meaning, and lists all that is wrong.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use super::batches::BatchWatch;
use super::error::{Damage, Error, Result};
use super::format::frame::FrameKind;
use super::format::index::Place;
use super::frames::{Frames, Step, Trouble};
use super::names::Name;
use super::open::Pack;
use super::recover::go_behind;
use super::route::Route;
use super::run::Run;
use super::segment::{Life, Segment};
use super::snapshot::read_manifest;

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// Records that are whole, dead ones included.
    pub records: u64,
    /// Of these, live.
    pub live_records: u64,
    /// Bytes of bodies verified.
    pub body_bytes: u64,
    /// All damage.
    pub damages: Vec<Damage>,
    /// What is no damage but worth knowing: foreign files, torn tails, an unfinished build.
    pub notes: Vec<String>,
}

/// A record found by walking the frames.
#[derive(Debug, Clone, Copy)]
struct Seen {
    form_hash: u64,
    len: u64,
    listed: bool,
}

/// Records of one segment by offset, and frames that are broken.
#[derive(Debug, Default)]
struct Walked {
    records: HashMap<u64, Seen>,
    broken: Vec<u64>,
}

impl Pack {
    /// Verifies every record, live or dead, every index page, that indexes and records agree, that deletions
    /// speak of records, and that no key is alive twice. `progress` is told the bytes of segments gone through.
    ///
    /// # Errors
    /// What reading meets. Damage is not an error here; it is what the report is for.
    pub fn check(&self, mut progress: impl FnMut(u64)) -> Result<CheckReport> {
        let mut report = CheckReport { damages: self.damages().to_vec(), ..CheckReport::default() };
        self.note_state(&mut report)?;
        let hasher = RandomState::new();
        let mut passed = 0;
        for segment in &self.snapshot.segments {
            let mut walked = Walked::default();
            self.walk(segment, &hasher, &mut walked, &mut report, &mut |at| progress(passed + at))?;
            passed += segment.frames().len();
            for run in &segment.runs {
                self.check_run(segment, run, &hasher, &mut walked, &mut report)?;
            }
            check_agreement(segment, &walked, &mut report);
        }
        self.check_unique(&mut report)?;
        dedup(&mut report.damages);
        Ok(report)
    }

    fn note_state(&self, report: &mut CheckReport) -> Result<()> {
        for torn in self.torn_tails() {
            let what = format!(
                "segment {:016x} has an unfinished end of {} bytes at offset {}; the next writer cuts it off",
                torn.segment, torn.len, torn.offset
            );
            report.notes.push(what);
        }
        if !self.is_complete() {
            report.notes.push("the pack is incomplete: what built it has not come to its end".into());
        }
        for file in &self.snapshot.files {
            match Name::parse(&file.name) {
                None => report.notes.push(format!("{} is no file of a pack", file.name)),
                Some(Name::Manifest(generation)) if generation != self.generation() => {
                    self.check_old_manifest(generation, report)?;
                }
                Some(Name::Segment(id))
                    if !self.snapshot.manifest.segments.iter().any(|entry| entry.id == id) =>
                {
                    report.notes.push(format!("{} is not named by the manifest", file.name));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn check_old_manifest(&self, generation: u64, report: &mut CheckReport) -> Result<()> {
        match read_manifest(self.storage.as_ref(), &self.reader, generation) {
            Ok(read) => report.damages.extend(read.damages),
            Err(Error::Damaged(damage)) => report.damages.push(damage),
            // A writer took it away since this pack was opened.
            Err(Error::Core(error)) if error.io_kind() == Some(std::io::ErrorKind::NotFound) => {}
            Err(Error::Core(error)) => {
                let path = self.storage.path(&Name::Manifest(generation).to_string());
                report.damages.push(Damage::of_unopened(error, path)?);
            }
            Err(Error::Unsupported { path: file, what }) => {
                report.damages.push(Damage { file, offset: 0, key: None, what });
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn walk(
        &self,
        segment: &Segment,
        hasher: &RandomState,
        walked: &mut Walked,
        report: &mut CheckReport,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let range = segment.frames();
        if range.is_empty() {
            return Ok(());
        }
        let route = Route::new(self.access, segment.source.as_ref(), range);
        let mut frames = Frames::new(
            self.reader.window(segment.source.clone(), range, route, segment.salt.chunk_len)?,
            segment.salt,
        );
        let mut batches = BatchWatch::default();
        let damage =
            |(offset, what)| Damage { file: segment.source.path().to_path_buf(), offset, key: None, what };
        loop {
            progress(frames.window.pos() - range.start());
            let broken = match frames.step()? {
                Step::End => break,
                Step::Invalid(broken) => broken,
                Step::Frame => match frames.finish_frame() {
                    Ok(body_len) => {
                        report.damages.extend(batches.take(&frames).map(damage));
                        if let Some(body_len) = body_len {
                            note_record(segment, &frames, body_len, hasher, walked, report);
                        }
                        continue;
                    }
                    Err(Trouble::Source(error)) => return Err(error.into()),
                    Err(Trouble::Broken(broken)) => broken,
                },
            };
            let (frame, next) = (broken.frame, broken.next);
            walked.broken.push(frame);
            batches.note_damage();
            report.damages.push(broken.into_damage(segment.source.path()));
            if !go_behind(&mut frames, frame, next)? {
                break;
            }
        }
        report.damages.extend(batches.end().map(damage));
        let path = segment.source.path();
        let untold = frames.window.holes().untold(path, &report.damages);
        report.damages.extend(untold);
        self.reader.give_back(frames.window.into_engine()?);
        Ok(())
    }

    /// Every page of a run, and whether every entry names a record that is there.
    fn check_run(
        &self,
        segment: &Segment,
        run: &Run,
        hasher: &RandomState,
        walked: &mut Walked,
        report: &mut CheckReport,
    ) -> Result<()> {
        let mut buffer = Vec::new();
        for number in 0..run.pages() {
            let page = match run.page(number, &self.reader) {
                Ok(page) => page,
                Err(Error::Damaged(damage)) => {
                    report.damages.push(damage);
                    // What its entries were cannot be told: none of them is to be reported as missing.
                    walked.records.values_mut().for_each(|seen| seen.listed = true);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let mut entries = page.entries_in(std::mem::take(&mut buffer));
            while let Some(place) = entries.place() {
                let form = entries.form();
                if let Some(what) = disagreement(walked, place, hasher.hash_one(form)) {
                    let key = super::key::Key::from_sort_form(form);
                    let file = segment.source.path().to_path_buf();
                    report.damages.push(Damage { file, offset: place.offset, key, what: what.into() });
                }
                entries.advance();
            }
            buffer = entries.into_buffer();
        }
        Ok(())
    }

    fn check_unique(&self, report: &mut CheckReport) -> Result<()> {
        let mut before = None;
        for entry in self.keys(&[])? {
            let entry = match entry {
                Ok(entry) => entry,
                // The list of the dead that is lost has been reported, or the page; what is behind that cannot be compared.
                Err(Error::Damaged(damage)) if damage.key.is_some() => continue,
                Err(Error::Damaged(_)) => break,
                Err(error) => return Err(error),
            };
            if before.as_ref() == Some(&entry.key) {
                report.damages.push(Damage {
                    file: self.storage.path(""),
                    offset: 0,
                    key: Some(entry.key.clone()),
                    what: "two live records have this key".into(),
                });
            }
            before = Some(entry.key);
        }
        Ok(())
    }
}

/// What is wrong with an entry of an index; it counts as listed where there is a record.
fn disagreement(walked: &mut Walked, place: Place, form_hash: u64) -> Option<&'static str> {
    let Some(seen) = walked.records.get_mut(&place.offset) else {
        let known = is_broken(&walked.broken, place.offset);
        return (!known).then_some("the index names a record here, and there is none");
    };
    seen.listed = true;
    let same = seen.form_hash == form_hash && place.len.is_none_or(|len| len == seen.len);
    (!same).then_some("the index names another record here")
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
    if let Err(invalid) = super::format::attributes::Attributes::decode(&head.attributes) {
        let file = segment.source.path().to_path_buf();
        let what = format!("the attributes cannot be read: {}", invalid.what);
        report.damages.push(Damage { file, offset: head.offset, key: Some(key.clone()), what });
    }
    debug_assert_eq!(head.header.kind, FrameKind::Record);
    report.records += 1;
    report.body_bytes += body_len;
    if segment.life(head.offset) == Life::Alive {
        report.live_records += 1;
    }
    let len = frames.window.pos() - head.offset;
    let seen = Seen { form_hash: hasher.hash_one(key.sort_form()), len, listed: false };
    walked.records.insert(head.offset, seen);
}

/// Records that no index lists, and deletions of records that do not exist.
fn check_agreement(segment: &Segment, walked: &Walked, report: &mut CheckReport) {
    let file = segment.source.path();
    let damage =
        |offset, what: &str| Damage { file: file.to_path_buf(), offset, key: None, what: what.into() };
    let mut unlisted: Vec<u64> =
        walked.records.iter().filter(|(_, seen)| !seen.listed).map(|(offset, _)| *offset).collect();
    unlisted.sort_unstable();
    report
        .damages
        .extend(unlisted.into_iter().map(|offset| damage(offset, "a record here is missing from the index")));
    for &offset in segment.deaths.keys() {
        if !walked.records.contains_key(&offset) && !is_broken(&walked.broken, offset) {
            report.damages.push(damage(offset, "a deletion speaks of a record here, and there is none"));
        }
    }
}

/// Whether a frame may be lost in damage that was reported at or before it.
fn is_broken(broken: &[u64], offset: u64) -> bool {
    broken.iter().any(|&at| at <= offset)
}

/// The same damage is met when a pack is opened and when its records are walked.
fn dedup(damages: &mut Vec<Damage>) {
    let mut seen = HashSet::new();
    damages.retain(|damage| seen.insert(damage.clone()));
}
