//! The state of a pack at one generation, with what was recovered after it.

use std::sync::Arc;

use crate::pack::damages::DamageLog;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::Invalid;
use crate::pack::format::deletes::Death;
use crate::pack::format::index::Place;
use crate::pack::format::manifest::{MANIFEST_LEN_AT, MANIFEST_LEN_MAX, Manifest};
use crate::pack::key::Key;
use crate::pack::read::frames::{Checked, Frames, Trouble};
use crate::pack::read::reader::Reader;
use crate::pack::state::copies::{Copies, Layout, read_copies};
use crate::pack::state::names::PackFile;
use crate::pack::state::open::Pack;
use crate::pack::state::recover::TornTail;
use crate::pack::state::segment::{Findings, Life, Segment};
use crate::storage::{Entry, Lock, Storage};

/// Why a directory that lost its manifests is not a pack.
pub(crate) const NO_MANIFEST: &str =
    "it has segments, but no manifest; `stook check --repair` saves what is whole";

/// Why a directory with these files and no manifest is not a pack, and what helps.
pub(crate) fn why_no_pack(files: &[Entry]) -> &'static str {
    match files.iter().any(|file| PackFile::parse(&file.name).is_some()) {
        true => NO_MANIFEST,
        false => "it holds no manifest; `stook pack DIR NEW` makes a pack of a directory",
    }
}

/// How often opening begins again when files vanish or become shorter under it.
const LOAD_TRIES_MAX: u32 = 10;

/// One state of a pack.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The generation.
    pub(crate) manifest: Manifest,
    /// Its segments that can be read, oldest first.
    pub(crate) segments: Vec<Segment>,
    /// Unfinished ends.
    pub(crate) torn: Vec<TornTail>,
    /// Damage found when it was opened, and since.
    pub(crate) log: DamageLog,
    /// Segments that could not be opened: what may be in them is not known to be nowhere.
    pub(crate) lost: Vec<Damage>,
    /// The newest manifest cannot be read: facts about segments and records that only it states are
    /// not known.
    pub(crate) manifest_lost: bool,
    /// All files there were.
    pub(crate) files: Vec<Entry>,
    /// The time, in ns, if it is the state at an earlier time.
    pub(crate) at_ns: Option<i64>,
    /// The manifest of its generation is gone, and it is what this later one has of it.
    pub(crate) read_from: Option<u64>,
    /// The next sequence number according to the generation: higher ones were recovered.
    pub(crate) sequence_committed: u64,
    /// Keeps its manifest, and with it all files that the manifest names, for it and for records
    /// opened from it; a salvaged one has none to keep.
    pub(crate) hold: Option<Arc<dyn Lock>>,
}

/// Which state to open.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WantedState {
    /// This generation, as it was published; otherwise the newest, with everything appended since.
    pub(crate) generation: Option<u64>,
    /// Where the manifest of that is gone, what the oldest later one has of it: records and
    /// deletions below this number.
    pub(crate) sequence_end: Option<u64>,
    /// What counted at this time, ns.
    pub(crate) at_ns: Option<i64>,
}

impl WantedState {
    /// Which of the manifests among these files to read: that of a generation, or the first after
    /// it, which has most of it.
    fn manifest_among(&self, files: &[Entry], wanted: u64) -> Option<u64> {
        let generations = || {
            files.iter().filter_map(|file| match PackFile::parse(&file.name) {
                Some(PackFile::Manifest(generation)) => Some(generation),
                _ => None,
            })
        };
        match self.sequence_end {
            None => generations().find(|&generation| generation == wanted),
            Some(_) => generations().filter(|&generation| generation >= wanted).min(),
        }
    }
}

/// The context in which a segment is opened.
pub(crate) struct Opening<'a> {
    pub(crate) storage: &'a dyn Storage,
    pub(crate) reader: &'a Reader,
    pub(crate) manifest: &'a Manifest,
    /// What of that which was appended since the generation was published counts.
    pub(crate) uncommitted: Uncommitted,
    pub(crate) log: DamageLog,
}

/// Which frames after the committed length of a growing segment count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Uncommitted {
    /// It is not looked at.
    Nothing,
    /// Frames written after the opened generation, and before the next one.
    Own,
    /// All of it: newer generations there were cannot be read.
    All,
}

/// Where a live record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// Number of the segment in the snapshot.
    pub(crate) segment: usize,
    /// Its frame.
    pub(crate) place: Place,
}

impl Snapshot {
    /// A state of a storage.
    pub(crate) fn load(storage: &dyn Storage, reader: &Reader, view: WantedState) -> Result<Self> {
        let mut tries = 0;
        loop {
            match Self::load_once(storage, reader, view) {
                Err(Error::Core(error)) if tries < LOAD_TRIES_MAX && is_passing(storage, &error) => {
                    tries += 1
                }
                loaded => return loaded,
            }
        }
    }

    fn load_once(storage: &dyn Storage, reader: &Reader, view: WantedState) -> Result<Self> {
        let files = storage.list()?;
        let last = newest(&files)
            .ok_or_else(|| Error::NotAPack { path: storage.path(""), why: why_no_pack(&files).into() })?;
        let wanted = view.generation.unwrap_or(last);
        let generation =
            view.manifest_among(&files, wanted).ok_or_else(|| no_such_generation(storage, &files, wanted))?;
        let name = PackFile::Manifest(generation).to_string();
        // Held before it is read: from then on, no writer removes the files that it names.
        let hold = storage.hold(&name).map_err(Error::of_opening)?;
        let Copies { value: manifest, damages, .. } = read_manifest(storage, reader, generation)?;
        // A generation that is asked for is as it was published: the same for all who open it.
        let uncommitted = match view.generation {
            Some(_) => Uncommitted::Nothing,
            None => Uncommitted::Own,
        };
        let log = DamageLog::default();
        let opening = Opening { storage, reader, manifest: &manifest, uncommitted, log: log.clone() };
        let mut findings = Findings { damages: damages.into_iter().collect(), ..Findings::default() };
        let (mut segments, mut lost) = (Vec::with_capacity(manifest.segments.len()), Vec::new());
        for number in 0..manifest.segments.len() {
            let at = findings.fresh.len();
            if let Some(segment) = Segment::open(&opening, number, &mut findings)? {
                for (number, _) in findings.fresh.iter_mut().skip(at) {
                    *number = segments.len();
                }
                segments.push(segment);
            } else {
                findings.fresh.truncate(at);
                lost.extend(findings.damages.last().cloned());
            }
        }
        if uncommitted == Uncommitted::Own {
            findings.damages.extend(opening.find_later(&files)?);
        }
        let Findings { damages, torn, fresh } = findings;
        log.note(damages);
        let at_ns = view.at_ns;
        let sequence_committed = manifest.sequence_next;
        let hold = Some(Arc::from(hold));
        let mut snapshot = Self {
            manifest,
            segments,
            torn,
            log,
            lost,
            manifest_lost: false,
            files,
            at_ns,
            read_from: None,
            sequence_committed,
            hold,
        };
        snapshot.replay(fresh, reader)?;
        if let Some(end) = view.sequence_end.filter(|_| generation != wanted) {
            snapshot.end_before(storage, reader, (wanted, end))?;
        }
        if let Some(at_ns) = view.at_ns {
            snapshot.go_back(storage, reader, at_ns)?;
        }
        Ok(snapshot)
    }

    /// When the first record ever was put, if all are still known. A time before it would make the
    /// pack look empty; it is usually a wrong unit or year. After a compaction that dropped
    /// versions, the pack may really have been empty.
    fn first_ns(&self) -> Option<i64> {
        let with_records = self.segments.iter().filter(|segment| segment.tally.records > 0);
        let first_ns = with_records.map(|segment| segment.tally.time_first_ns).min();
        first_ns.filter(|_| self.manifest.history_from_ns.is_none())
    }

    /// Makes it the state at an earlier time: records that died later are live, records that were
    /// put later are absent.
    fn go_back(&mut self, storage: &dyn Storage, reader: &Reader, at_ns: i64) -> Result<()> {
        if let Some(from_ns) = self.manifest.history_from_ns.filter(|&from_ns| at_ns < from_ns) {
            let shown = |ns| crate::report::time::time_of(ns);
            let what =
                format!("state of {}: compaction kept what counted from {} on", shown(at_ns), shown(from_ns));
            return Err(Error::NoSuchState { path: storage.path(""), what });
        }
        if let Some(first_ns) = self.first_ns().filter(|&first_ns| at_ns < first_ns) {
            let shown = |ns| crate::report::time::time_of(ns);
            let what =
                format!("state of {}: the first of its records was put at {}", shown(at_ns), shown(first_ns));
            return Err(Error::NoSuchState { path: storage.path(""), what });
        }
        self.segments.retain(|segment| segment.tally.records == 0 || segment.tally.time_first_ns <= at_ns);
        for segment in &mut self.segments {
            segment.deaths.retain(|_, death| death.time_ns <= at_ns);
            if segment.tally.time_last_ns > at_ns {
                segment.hide_later(reader, |header| header.time_ns > at_ns)?;
            }
        }
        Ok(())
    }

    /// Makes it what it has of an earlier generation, which ended before this number: what died
    /// later is live, what was put later is absent. What was compacted since lies elsewhere, or is
    /// gone: whether all is where it was, a checksum of the places has to say.
    fn end_before(
        &mut self,
        storage: &dyn Storage,
        reader: &Reader,
        (generation, end): (u64, u64),
    ) -> Result<()> {
        if end > self.manifest.sequence_next {
            let what = format!("generation {generation} with records up to number {}", end.saturating_sub(1));
            return Err(Error::NoSuchState { path: storage.path(""), what });
        }
        self.segments.retain(|segment| segment.tally.records == 0 || segment.tally.sequence_first < end);
        for segment in &mut self.segments {
            segment.deaths.retain(|_, death| death.sequence < end);
            if segment.tally.sequence_last >= end {
                segment.hide_later(reader, |header| header.sequence >= end)?;
            }
        }
        self.read_from = Some(std::mem::replace(&mut self.manifest.generation, generation));
        (self.manifest.sequence_next, self.sequence_committed) = (end, end);
        Ok(())
    }

    /// Lets uncommitted records and deletions take the place of older versions, in the order in
    /// which they were written.
    fn replay(
        &mut self,
        mut fresh: Vec<(usize, crate::pack::state::recover::Fresh)>,
        reader: &Reader,
    ) -> Result<()> {
        fresh.sort_by_key(|(_, record)| record.sequence);
        let mut newest: std::collections::HashMap<Box<[u8]>, Option<Found>> =
            std::collections::HashMap::new();
        for (segment, record) in fresh {
            self.manifest.sequence_next = self.manifest.sequence_next.max(record.sequence.saturating_add(1));
            self.manifest.time_last_ns = self.manifest.time_last_ns.max(record.time_ns);
            let overwritten = self.segments.get(segment).map(|segment| &segment.deaths);
            let is_dead = |place: Place| overwritten.is_some_and(|deaths| deaths.contains_key(&place.offset));
            if record.place.is_some_and(is_dead) {
                continue;
            }
            let old = match newest.get(&record.form) {
                Some(&old) => Versions { alive: old, unknown: Vec::new() },
                None => self.versions(&record.form, reader, |segment, place| {
                    place.offset < segment.entry.frames_end
                })?,
            };
            let death = Death { sequence: record.sequence, time_ns: record.time_ns };
            for found in old.unknown {
                // Dead by now, if it was not before.
                if let Some(old) = self.segments.get_mut(found.segment) {
                    old.deaths.insert(found.place.offset, death);
                    old.entry.dead_records = old.entry.dead_records.saturating_add(1);
                }
            }
            if let Some(found) = old.alive
                && let Some(old) = self.segments.get_mut(found.segment)
            {
                old.deaths.insert(found.place.offset, death);
                old.entry.dead_records += 1;
                old.entry.dead_bytes = old.entry.dead_bytes.saturating_add(found.place.len_min());
                old.replayed = true;
            }
            newest.insert(record.form, record.place.map(|place| Found { segment, place }));
        }
        Ok(())
    }

    /// The live record with this key.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if there may be one but it is not known whether it was deleted,
    /// or damage may hide it. Also returns errors of reading the index.
    pub(crate) fn find(&self, form: &[u8], reader: &Reader) -> Result<Option<Found>> {
        let Versions { alive, unknown } = self.versions(form, reader, |_, _| true)?;
        if alive.is_some() {
            return Ok(alive);
        }
        let refused = unknown.first().and_then(|found| self.refused(form, *found));
        refused.or_else(|| self.doubt(form)).map_or(Ok(None), |damage| Err(Error::Damaged(damage)))
    }

    /// Why a record is refused when damage hides whether it is live; `None` when it is dead
    /// whatever the segment has lost. This is the one place where that is decided, for every kind
    /// of access.
    pub(crate) fn refusal(
        &self,
        form: &[u8],
        segment: &Segment,
        offset: u64,
        reader: &Reader,
    ) -> Result<Option<Damage>> {
        let Versions { alive, unknown } = self.versions(form, reader, |_, _| true)?;
        let is_it = |found: &&Found| {
            let at = self.segments.get(found.segment).map(|segment| segment.entry.id);
            (at, found.place.offset) == (Some(segment.entry.id), offset)
        };
        // A key has at most one live record, and within a segment a newer version has superseded
        // the older ones.
        let found = unknown.iter().find(is_it).filter(|_| alive.is_none());
        Ok(found.and_then(|found| self.refused(form, *found)))
    }

    fn refused(&self, form: &[u8], found: Found) -> Option<Damage> {
        let segment = self.segments.get(found.segment)?;
        let vector = segment.entry.vector?;
        let what = format!(
            "whether this record was deleted is not known, because {} is lost; `stook check --repair` saves what is whole",
            PackFile::Deletes(segment.entry.id, vector.generation)
        );
        let file = segment.source.path().to_path_buf();
        Some(Damage { file, offset: found.place.offset, key: Key::from_sort_form(form), what, cause: None })
    }

    /// The versions of a key.
    fn versions(
        &self,
        form: &[u8],
        reader: &Reader,
        counts: impl Fn(&Segment, Place) -> bool,
    ) -> Result<Versions> {
        let mut versions = Versions::default();
        for (number, segment) in self.segments.iter().enumerate().rev() {
            for place in segment.versions(form, reader)? {
                if !counts(segment, place) {
                    continue;
                }
                let found = Found { segment: number, place };
                match segment.life(place.offset) {
                    Life::Dead => {}
                    Life::Alive => {
                        versions.alive = Some(found);
                        return Ok(versions);
                    }
                    Life::Unknown => {
                        // Older ones are dead.
                        versions.unknown.push(found);
                        break;
                    }
                }
            }
        }
        Ok(versions)
    }

    /// What may hide records of which not even the keys are known, as far as indexes were read:
    /// segments that are lost, and of each other segment the first frame that no index has.
    pub(crate) fn hiding(&self) -> impl Iterator<Item = &Damage> {
        self.lost.iter().chain(self.segments.iter().flat_map(Segment::hiding))
    }

    /// Why a record that is not found may be there all the same.
    fn doubt(&self, form: &[u8]) -> Option<Damage> {
        if self.log.is_empty() {
            return None;
        }
        let doubt =
            self.lost.first().or_else(|| self.segments.iter().find_map(|segment| segment.doubt(form)))?;
        let what = format!("{}; the record may be in there", doubt.what);
        Some(Damage { what, key: Key::from_sort_form(form), ..doubt.clone() })
    }
}

/// The versions of a key that may count.
#[derive(Debug, Default)]
struct Versions {
    /// The one that does.
    alive: Option<Found>,
    /// Those that would be live if they were not deleted, which is not known. If there is a live
    /// one, they are dead.
    unknown: Vec<Found>,
}

impl Frames {
    /// Why the current record is refused when damage hides whether it is live.
    pub(crate) fn refusal(&self, pack: &Pack, segment: &Segment) -> Checked<Option<Damage>> {
        let head = self.head();
        let Some(key) = head.key() else { return Ok(None) };
        match pack.snapshot.refusal(key.sort_form(), segment, head.offset, &pack.reader) {
            Ok(refusal) => Ok(refusal),
            // Where an index is damaged, too, nothing more is known.
            Err(Error::Damaged(damage)) => {
                let file = segment.source.path().to_path_buf();
                Ok(Some(Damage { file, offset: head.offset, key: Some(key), what: damage.what, cause: None }))
            }
            Err(other) => Err(Trouble::Failed(other)),
        }
    }
}

/// Whether a writer may have caused this error, so that a retry may succeed: a writer removes
/// generations between listing and opening, and truncates what a killed writer left unfinished
/// between a look at the length and the read. A read that ends early in a file of unchanged length
/// is neither.
fn is_passing(storage: &dyn Storage, error: &crate::Error) -> bool {
    let crate::Error::ShortRead { path, offset, wanted, .. } = error else {
        return error.io_kind() == Some(std::io::ErrorKind::NotFound);
    };
    let name = path.file_name().and_then(|name| name.to_str());
    let now = name.and_then(|name| storage.open(name).ok()).map(|source| source.len());
    now.is_none_or(|len| len < offset.saturating_add(*wanted))
}

fn no_such_generation(storage: &dyn Storage, files: &[Entry], generation: u64) -> Error {
    let there: Vec<String> = files
        .iter()
        .filter_map(|file| match PackFile::parse(&file.name) {
            Some(PackFile::Manifest(other)) => Some(other.to_string()),
            _ => None,
        })
        .collect();
    let verb = if there.len() > 1 { "are" } else { "is" };
    let what = format!("generation {generation}; there {verb} {}", there.join(", "));
    Error::NoSuchState { path: storage.path(""), what }
}

/// The highest generation among these files.
pub(crate) fn newest(files: &[Entry]) -> Option<u64> {
    let generations = files.iter().filter_map(|file| match PackFile::parse(&file.name) {
        Some(PackFile::Manifest(generation)) => Some(generation),
        _ => None,
    });
    generations.max()
}

/// The manifest of a generation.
pub(crate) fn read_manifest(
    storage: &dyn Storage,
    reader: &Reader,
    generation: u64,
) -> Result<Copies<Manifest>> {
    let source = storage.open(&PackFile::Manifest(generation).to_string()).map_err(Error::of_opening)?;
    let layout = Layout { len_at: MANIFEST_LEN_AT, len_max: MANIFEST_LEN_MAX, copy_len: None };
    read_copies(reader, source.as_ref(), layout, |copy| {
        let manifest = Manifest::decode(copy)?;
        let found = manifest.generation;
        let named = (found == generation).then_some(manifest);
        named.ok_or_else(|| Invalid::damaged(16, format!("it says generation {found}")))
    })
}
