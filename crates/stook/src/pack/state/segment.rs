//! A segment as it is opened for reading.

use std::sync::Arc;

use crate::engine::Access;
use crate::extent::ByteRange;
use crate::pack::damages::{DamageLog, Damages};
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::deletes::{DELETES_LEN_AT, DELETES_LEN_MAX, Death, Deaths, DeletionVector};
use crate::pack::format::footer::{FOOTER_LEN, Footer, FooterKind, LastFrame, Tally};
use crate::pack::format::frame::{FrameHeader, FrameKind, HEADER_LEN, stored_crc};
use crate::pack::format::index::{Place, Top};
use crate::pack::format::manifest::{Manifest, SegmentEntry, SegmentForm, SegmentState};
use crate::pack::format::mark::Edition;
use crate::pack::format::segment::{Salt, SegmentHeader};
use crate::pack::format::{Invalid, UNIT};
use crate::pack::index::run::{LostIndex, Run, rebuild};
use crate::pack::read::frames::{Frames, Head};
use crate::pack::read::reader::Reader;
use crate::pack::state::copies::{Copies, Layout, read_copies};
use crate::pack::state::later::beyond_generation;
use crate::pack::state::names::PackFile;
use crate::pack::state::recover::{Beyond, Fresh, Recovered, RecoverySpan, TornTail, recover};
use crate::pack::state::snapshot::{Opening, Uncommitted};
use crate::report::units;
use crate::source::{AccessRule, Source};
use crate::storage::Storage;

/// Read at once from the end of a sealed segment: nearly always footer and top are in it.
const TAIL_READ_LEN: u64 = 64 * 1024;

/// If an index is rebuilt from all frames of a sealed segment, it is built in runs of this many
/// bytes: entries that are not encoded yet take ten times the memory.
const RUN_LEN: u64 = 64 << 20;

/// Longest top of an index that is read, in bytes.
const TOP_LEN_MAX: u64 = 1 << 30;

/// A segment and everything known about it.
#[derive(Debug)]
pub(crate) struct Segment {
    /// As its manifest names it.
    pub(crate) entry: SegmentEntry,
    /// Its own header.
    pub(crate) header: SegmentHeader,
    /// The salt of its checksums.
    pub(crate) salt: Salt,
    /// Its bytes.
    pub(crate) source: Arc<dyn Source>,
    /// Its indexes, oldest span first.
    pub(crate) runs: Vec<Run>,
    /// Where its frames end.
    pub(crate) frames_end: u64,
    /// Where the last checkpoint ends; frames after it are only in the run in memory.
    pub(crate) checkpointed_len: u64,
    /// Its records.
    pub(crate) tally: Tally,
    /// The last of its frames that are whole.
    pub(crate) last_frame: LastFrame,
    /// The dead among them.
    pub(crate) deaths: Deaths,
    /// Uncommitted records killed some more, which no deletion vector says yet.
    pub(crate) replayed: bool,
    /// It grows, and this much of it is known to be on the medium; what follows was read, which is
    /// not the same.
    pub(crate) durable_len: u64,
    /// It grows, and some of its frames are damaged: nothing is appended to it.
    pub(crate) damaged: bool,
    /// Its index may be incomplete, so that it cannot be replaced by the records that the index
    /// lists.
    pub(crate) unlisted: bool,
    /// Whether it is the one that the manifest speaks of.
    pub(crate) whose: Whose,
    /// Its deletion vector could not be read: dead records may look alive.
    pub(crate) vector_lost: bool,
    /// One copy of its deletion vector could not be read: it must be rewritten.
    pub(crate) vector_hurt: bool,
    /// A frame about which nothing is known, not even the key, and which no index describes.
    doubt: Option<Damage>,
}

/// Whether a record is still live, according to its own segment alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Alive,
    Dead,
    /// The data that would show it is lost: see
    /// [`Snapshot::refusal`](crate::pack::state::snapshot::Snapshot::refusal).
    Unknown,
}

/// Whether a segment is the one that its manifest speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    Own,
    /// The part that is shown is; what follows was written after generations that are gone.
    OwnUntil,
    /// It is from another copy of the pack, which diverged: nothing in it ever becomes part of this
    /// pack.
    Foreign,
}

/// What opening a segment brought to light.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) damages: Damages,
    pub(crate) torn: Vec<TornTail>,
    /// Uncommitted records, with the number of their segment.
    pub(crate) fresh: Vec<(usize, Fresh)>,
}

impl Segment {
    /// The frames of the segment.
    pub(crate) fn frames(&self) -> ByteRange {
        ByteRange::new(UNIT as u64, self.frames_end).unwrap_or_default()
    }

    /// Whether the record of the frame at this offset still counts.
    pub(crate) fn life(&self, offset: u64) -> Life {
        if self.deaths.contains_key(&offset) { Life::Dead } else { self.life_untold(offset) }
    }

    /// The same for one that nothing says is dead.
    pub(crate) fn life_untold(&self, offset: u64) -> Life {
        // Frames after the committed length were replayed: they are in no vector yet.
        if self.vector_lost && offset < self.entry.frames_end { Life::Unknown } else { Life::Alive }
    }

    /// Records that no longer count.
    pub(crate) fn dead_records(&self) -> u64 {
        if self.vector_lost { self.entry.dead_records } else { self.deaths.len() as u64 }
    }

    /// The places of all versions of a key, newest first.
    pub(crate) fn versions(&self, form: &[u8], reader: &Reader) -> Result<Vec<Place>> {
        let mut places = Vec::new();
        for run in self.runs.iter().rev() {
            places.extend(run.versions(form, reader)?);
        }
        Ok(places)
    }

    /// Why a key that is not found in it may be there all the same.
    pub(crate) fn doubt(&self, form: &[u8]) -> Option<&Damage> {
        self.doubt.as_ref().or_else(|| self.runs.iter().find_map(|run| run.doubt(form)))
    }

    /// What may hide records of which nothing is known, as far as its index was read.
    pub(crate) fn hiding(&self) -> impl Iterator<Item = &Damage> {
        self.doubt.iter().chain(self.runs.iter().flat_map(Run::doubts))
    }

    /// Whether the index has the record of this frame.
    pub(crate) fn lists(&self, head: &Head, reader: &Reader) -> Result<bool> {
        let Some(key) = head.key() else { return Ok(false) };
        Ok(self.versions(key.sort_form(), reader)?.iter().any(|place| place.offset == head.offset))
    }

    /// Opens a segment that a manifest names. Damage that leaves something readable is put into
    /// `findings`; with `None` the last of them says why there is no segment. A segment that needs
    /// a newer version affects only itself, too: the others can be read.
    pub(crate) fn open(
        opening: &Opening<'_>,
        number: usize,
        findings: &mut Findings,
    ) -> Result<Option<Self>> {
        match (Self::open_known(opening, number, findings), opening.manifest.segments.get(number)) {
            (Err(Error::Unsupported { path, what }), Some(entry)) => {
                findings.damages.push(lost(Damage::of_newer(path, &what), entry));
                Ok(None)
            }
            (opened, _) => opened,
        }
    }

    /// The same of one that this version knows.
    fn open_known(opening: &Opening<'_>, number: usize, findings: &mut Findings) -> Result<Option<Self>> {
        let &Opening { storage, reader, manifest, .. } = opening;
        let Some(entry) = manifest.segments.get(number).copied() else { return Ok(None) };
        let name = PackFile::Segment(entry.id).to_string();
        let path = storage.path(&name);
        // Looked up by name: a listing made while files come and go may lack a file that was there
        // all the time. It is not removed while its generation is held.
        let source = match storage.open(&name) {
            Ok(source) => source,
            Err(error) => {
                findings.damages.push(lost(Damage::of_unopened(error, path)?, &entry));
                return Ok(None);
            }
        };
        let lost = match Self::read_header(reader, source.as_ref(), manifest, &entry) {
            Ok(header) => Ok(header),
            Err(Error::Damaged(damage)) => Err(damage),
            Err(other) => return Err(other),
        };
        let is_lost = lost.is_err();
        let header = lost.unwrap_or_else(|damage| {
            findings.damages.push(damage);
            Self::header_by_manifest(manifest, &entry)
        });
        let mut segment = Self {
            salt: header.salt(),
            header,
            runs: Vec::new(),
            frames_end: entry.frames_end.min(source.len()),
            checkpointed_len: UNIT as u64,
            tally: entry.tally,
            last_frame: entry.last_frame,
            deaths: Deaths::new(),
            replayed: false,
            // Without its header it is read, and not appended to.
            damaged: is_lost,
            unlisted: is_lost,
            whose: Whose::Own,
            durable_len: entry.committed_len,
            vector_lost: false,
            vector_hurt: false,
            doubt: None,
            entry,
            source,
        };
        findings.damages.extend(segment.note_short());
        match entry.state {
            SegmentState::Sealed => segment.open_sealed(reader, &opening.log, findings)?,
            SegmentState::Active => segment.open_growing(opening, number, findings)?,
        }
        segment.open_vector(storage, reader, manifest, findings)?;
        Ok(Some(segment))
    }

    /// Opens a growing segment: its contents come from its checkpoints and, after those, from its
    /// frames.
    fn open_growing(&mut self, opening: &Opening<'_>, number: usize, findings: &mut Findings) -> Result<()> {
        let &Opening { storage, reader, manifest, .. } = opening;
        self.open_checkpoints(storage, reader)?;
        let (end, edition) = match opening.uncommitted {
            Uncommitted::Nothing => (self.frames_end, None),
            Uncommitted::Own => (self.source.len(), Some(manifest.edition())),
            Uncommitted::All => (self.source.len(), None),
        };
        let mut recovered = self.recover(reader, end, edition)?;
        let committed_len = self.entry.frames_end;
        if recovered.damages.iter().any(|damage| damage.offset >= committed_len) {
            // A writer may have cut what a killed one left, and gone on there while it was read.
            recovered = self.recover(reader, end, edition)?;
        }
        let scanned = self.take_recovered(recovered, number, findings)?;
        self.ask_whose(scanned, findings);
        self.ask_beyond(scanned, opening, findings)
    }

    /// Notes the damage if the file is shorter than its committed length.
    fn note_short(&mut self) -> Option<Damage> {
        if !source_is_short(self) {
            return None;
        }
        (self.damaged, self.unlisted) = (true, true);
        let (len, committed_len) = (self.source.len(), self.entry.committed_len);
        let what = format!("the file has {len} bytes, {committed_len} were committed");
        let cut =
            Damage { file: self.source.path().to_path_buf(), offset: len, key: None, what, cause: None };
        self.doubt = (len < self.entry.frames_end).then(|| cut.clone());
        Some(cut)
    }

    /// Counts records that were put later as dead, whatever is looked at. All heads are read: in a
    /// compacted segment they are not ordered by time.
    pub(crate) fn hide_later(
        &mut self,
        reader: &Reader,
        is_later: impl Fn(&FrameHeader) -> bool,
    ) -> Result<()> {
        let access = AccessRule::default().decide(self.source.as_ref(), self.frames());
        let mut frames = reader.frames(&self.source, self.salt, self.frames(), access)?;
        let mut later = Vec::new();
        // Damaged records stay as they are; a get reports them.
        frames.visit(&mut |frames: &mut Frames| {
            let (offset, header) = (frames.head().offset, frames.head().header);
            let is_hidden = header.kind == FrameKind::Record && is_later(&header);
            if is_hidden && self.lists(frames.head(), reader)? {
                later.push((offset, Death { sequence: 0, time_ns: header.time_ns }));
            }
            frames.step_over()
        })?;
        self.deaths.extend(later);
        reader.take_back(frames)
    }

    fn read_header(
        reader: &Reader,
        source: &dyn Source,
        manifest: &Manifest,
        entry: &SegmentEntry,
    ) -> Result<SegmentHeader> {
        let bytes = reader.read(source, ByteRange::to(source.len().min(UNIT as u64)))?;
        let header = SegmentHeader::decode(&bytes).and_then(|header| {
            let same = (header.id, header.nonce, header.pack_nonce)
                == (entry.id, entry.nonce, manifest.pack_nonce)
                && header.form() == entry.form;
            same.then_some(header)
                .ok_or_else(|| Invalid::damaged(24, "this is a segment of another pack, or another segment"))
        });
        header.map_err(|invalid| refused(source, 0, invalid))
    }

    /// The header of a segment whose own is damaged, rebuilt from the manifest. Only its creation
    /// time is not known.
    fn header_by_manifest(manifest: &Manifest, entry: &SegmentEntry) -> SegmentHeader {
        let SegmentForm { marker, by_key, chunk_log2 } = entry.form;
        SegmentHeader {
            chunk_log2,
            group: manifest.groups.get(entry.group as usize).cloned().unwrap_or_default(),
            id: entry.id,
            pack_nonce: manifest.pack_nonce,
            nonce: entry.nonce,
            marker,
            sequence_first: entry.tally.sequence_first,
            created_ns: entry.tally.time_first_ns,
            by_key,
            made_after: 0,
        }
    }

    fn open_sealed(&mut self, reader: &Reader, log: &DamageLog, findings: &mut Findings) -> Result<()> {
        let damage = match self.read_index(reader, FooterKind::Sealed, self.source.clone(), Some(log)) {
            Ok((run, last_frame)) => {
                let is_same = run.frames
                    == ByteRange::new(UNIT as u64, self.entry.frames_end).unwrap_or_default()
                    && (run.tally, last_frame) == (self.entry.tally, self.entry.last_frame);
                if is_same {
                    self.take_index(run);
                    return Ok(());
                }
                self.foreign(self.source.len().saturating_sub(FOOTER_LEN as u64))
            }
            Err(Error::Damaged(damage)) => damage,
            Err(other) => return Err(other),
        };
        findings.damages.push(damage);
        let (source, frames) = (&self.source, self.frames());
        let tally = self.entry.tally;
        match rebuild(&LostIndex { source, frames, tally, salt: self.salt, log }, reader)? {
            Some(run) => {
                self.take_index(run);
                Ok(())
            }
            // The records can still be found by looking at all of them.
            None => {
                let recovered = self.recover(reader, self.frames_end, None)?;
                self.take_recovered(recovered, usize::MAX, findings).map(drop)
            }
        }
    }

    /// Takes the index of all its frames.
    fn take_index(&mut self, run: Run) {
        self.frames_end = run.frames.end();
        self.checkpointed_len = self.frames_end;
        self.tally = run.tally;
        self.runs.push(run);
    }

    /// The run of a sealed segment or of a checkpoint file, and the last frame that it covers.
    fn read_index(
        &self,
        reader: &Reader,
        kind: FooterKind,
        source: Arc<dyn Source>,
        log: Option<&DamageLog>,
    ) -> Result<(Run, LastFrame)> {
        let len = source.len();
        let tail_at = len.saturating_sub(TAIL_READ_LEN);
        let range = ByteRange::new(tail_at, len).unwrap_or_default();
        // Pages may be in it, too: unreadable pages do not matter here.
        let (tail, holes) = reader.read_around(source.as_ref(), range)?;
        let footer_at = len.saturating_sub(FOOTER_LEN as u64);
        let at = (footer_at - tail_at) as usize;
        let footer_range = ByteRange::new(footer_at, len).unwrap_or_default();
        let footer = Footer::decode(tail.get(at..).unwrap_or_default(), kind, len).map_err(|invalid| {
            holes.explain(source.as_ref(), footer_range, refused(source.as_ref(), footer_at, invalid))
        })?;
        if footer.nonce != self.header.nonce || footer.segment != self.header.id {
            return Err(refused(
                source.as_ref(),
                footer_at,
                Invalid::damaged(24, "the footer of another segment"),
            ));
        }
        if footer.top.len() > TOP_LEN_MAX {
            let invalid = Invalid::damaged(80, "the top of the index is longer than any can be");
            return Err(refused(source.as_ref(), footer_at, invalid));
        }
        let top = match footer.top.start().checked_sub(tail_at) {
            Some(from) => tail.slice(from as usize..from as usize + footer.top.len() as usize),
            None => reader.read(source.as_ref(), footer.top)?,
        };
        let salt_crc = self.salt.crc;
        if footer.tally.records == 0 {
            let index = crate::pack::format::index::EncodedIndex { pages: Vec::new(), top: top.to_vec() };
            return Run::in_memory(index, footer.frames, footer.tally, salt_crc)
                .map(|run| (run, footer.last_frame))
                .map_err(|invalid| refused(source.as_ref(), footer.top.start(), invalid));
        }
        let top = Top::decode(&top, salt_crc, footer.index.len()).map_err(|invalid| {
            holes.explain(source.as_ref(), footer.top, refused(source.as_ref(), footer.top.start(), invalid))
        })?;
        let home = (source, footer.index, top);
        let run = Run::on_disk(home, footer.frames, footer.tally, self.salt, log.cloned());
        Ok((run, footer.last_frame))
    }

    /// Takes the checkpoints that join up below the committed length; a bad one only costs a scan.
    /// They are read whole: no generation keeps their files.
    fn open_checkpoints(&mut self, storage: &dyn Storage, reader: &Reader) -> Result<()> {
        let mut tally = Tally::default();
        loop {
            let name = PackFile::Checkpoint(self.entry.id, self.checkpointed_len).to_string();
            let source = match storage.open(&name) {
                Ok(source) => source,
                // Any error in it only costs a scan.
                Err(error) => match Damage::of_unopened(error, storage.path(&name)) {
                    Ok(_) => break,
                    Err(error) => return Err(error.into()),
                },
            };
            match self.read_index(reader, FooterKind::Checkpoint, source, None) {
                Ok((run, last_frame))
                    if run.frames.start() == self.checkpointed_len
                        && run.frames.end() > self.checkpointed_len
                        && run.frames.end() <= self.entry.committed_len
                        && self.has_frame(last_frame, reader)?
                        && run.take_all(reader)? =>
                {
                    self.checkpointed_len = run.frames.end();
                    self.last_frame = last_frame;
                    tally.join(&run.tally);
                    self.runs.push(run);
                }
                // One of a newer version, too: a scan does without it.
                Ok(_) | Err(Error::Damaged(_) | Error::Unsupported { .. }) => break,
                Err(other) => return Err(other),
            }
        }
        self.tally = tally;
        Ok(())
    }

    /// Whether this frame is in the segment, as far as that can be read.
    fn has_frame(&self, frame: LastFrame, reader: &Reader) -> Result<bool> {
        let at = ByteRange::at(frame.offset, HEADER_LEN as u64).unwrap_or_default();
        if at.end() > self.source.len() {
            // The file was cut, which is reported as such; the index still says what was in it.
            return Ok(true);
        }
        match reader.read(self.source.as_ref(), at) {
            Ok(fixed) => Ok(stored_crc(&fixed) == Some(frame.crc)),
            // Reading that frame reports the damage.
            Err(Error::Damaged(_)) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Checks whether the committed frames of a growing segment are those that the manifest means.
    /// If two copies of a pack diverged, files of one may end up beside files of the other: nonces
    /// and ids are the same.
    fn ask_whose(&mut self, scanned: Scanned, findings: &mut Findings) {
        let has_frames = self.entry.frames_end > UNIT as u64;
        // Where something of it is damaged or missing, that is reported already.
        if has_frames
            && !scanned.is_damaged
            && !source_is_short(self)
            && scanned.last_committed != self.entry.last_frame
        {
            findings.damages.push(self.foreign(scanned.last_committed.offset));
        }
    }

    /// Handles frames that were not written after the generation being opened. If a newer
    /// generation exists by now, a writer was active meanwhile, and this state ends here. Otherwise
    /// the frames are from another copy, or from generations that are gone.
    fn ask_beyond(&mut self, scanned: Scanned, opening: &Opening<'_>, findings: &mut Findings) -> Result<()> {
        let Some(Beyond { offset, after }) = scanned.beyond else { return Ok(()) };
        let generation = opening.manifest.generation;
        let later = after.map(|after| after.generation).filter(|&later| later > generation);
        let Some(later) = later else {
            findings.damages.push(self.foreign(offset));
            return Ok(());
        };
        if opening.is_superseded()? {
            return Ok(());
        }
        let whose = if self.whose == Whose::Own { Whose::OwnUntil } else { self.whose };
        findings.damages.push(self.is_not_all(whose, offset, beyond_generation(generation, later)));
        Ok(())
    }

    /// It is of another copy of this pack; keys that are not found in it may have been in it.
    fn foreign(&mut self, offset: u64) -> Damage {
        let what = "the segment is not the one that the manifest speaks of: one of them comes from another copy of this pack, \
                    and records may be missing";
        self.is_not_all(Whose::Foreign, offset, what.to_owned())
    }

    fn is_not_all(&mut self, whose: Whose, offset: u64, what: String) -> Damage {
        let damage = Damage { file: self.source.path().to_path_buf(), offset, key: None, what, cause: None };
        (self.damaged, self.unlisted, self.whose) = (true, true, whose);
        self.doubt = self.doubt.take().or(Some(damage.clone()));
        damage
    }

    /// Scans what no index covers, up to `end`.
    fn recover(&self, reader: &Reader, end: u64, edition: Option<Edition>) -> Result<Recovered> {
        let from = self.checkpointed_len;
        let last_frame = if from == UNIT as u64 { LastFrame::default() } else { self.last_frame };
        Ok(match ByteRange::new(from, end) {
            Some(range) if !range.is_empty() => {
                let mut frames = reader.frames(&self.source, self.salt, range, Access::Cached)?;
                let committed_len = self.entry.frames_end;
                // The tail of a growing segment is one run, which its writer continues.
                let is_sealed = self.entry.state == SegmentState::Sealed;
                let run_len = if is_sealed { RUN_LEN } else { u64::MAX };
                let (segment, path) = (self.entry.id, self.source.path());
                let span = RecoverySpan { segment, path, last_frame, committed_len, edition, run_len };
                let recovered = recover(&mut frames, span);
                reader.take_back(frames)?;
                recovered?
            }
            _ => {
                Recovered { frames_end: from, last_frame, last_committed: last_frame, ..Recovered::default() }
            }
        })
    }

    /// Takes the result of a recovery.
    fn take_recovered(
        &mut self,
        recovered: Recovered,
        number: usize,
        findings: &mut Findings,
    ) -> Result<Scanned> {
        let from = self.checkpointed_len;
        self.frames_end = recovered.frames_end;
        self.tally = if from == UNIT as u64 { Tally::default() } else { self.tally };
        self.tally.join(&recovered.tally());
        let from = recovered.runs.last().map_or(from, |run| run.frames.end());
        let range = ByteRange::new(from, self.frames_end).unwrap_or_default();
        let last = recovered.tail.to_run(range, self.salt.crc)?;
        self.runs.extend(recovered.runs.into_iter().chain(last));
        self.doubt = self.doubt.take().or(recovered.doubt);
        self.durable_len = self.durable_len.max(recovered.durable_len);
        self.last_frame = recovered.last_frame;
        let is_damaged = !recovered.damages.is_empty();
        self.damaged |= is_damaged;
        self.unlisted |= recovered.unlisted;
        findings.damages.extend(recovered.damages);
        findings.torn.extend(recovered.torn);
        findings.fresh.extend(recovered.fresh.into_iter().map(|fresh| (number, fresh)));
        let Recovered { last_committed, beyond, .. } = recovered;
        Ok(Scanned { is_damaged, last_committed, beyond })
    }

    fn open_vector(
        &mut self,
        storage: &dyn Storage,
        reader: &Reader,
        manifest: &Manifest,
        findings: &mut Findings,
    ) -> Result<()> {
        let Some(vector) = self.entry.vector else { return Ok(()) };
        let name = PackFile::Deletes(self.entry.id, vector.generation).to_string();
        self.vector_lost = true;
        let source = match storage.open(&name) {
            Ok(source) => source,
            Err(error) => {
                let damage = Damage::of_unopened(error, storage.path(&name))?;
                findings.damages.push(self.without_vector(damage));
                return Ok(());
            }
        };
        let layout = Layout { len_at: DELETES_LEN_AT, len_max: DELETES_LEN_MAX, copy_len: Some(vector.len) };
        let read = read_copies(reader, source.as_ref(), layout, |copy| {
            let read = DeletionVector::decode(copy)?;
            let same = (read.segment, read.pack_nonce) == (self.entry.id, manifest.pack_nonce)
                && copy.last_chunk::<4>() == Some(&vector.crc.to_le_bytes());
            same.then_some(read).ok_or_else(|| Invalid::damaged(16, "this is another deletion vector"))
        });
        match read {
            Ok(Copies { value: read, damages, .. }) => {
                self.deaths = read.deaths;
                self.vector_lost = false;
                self.vector_hurt = !damages.is_empty();
                findings.damages.extend(damages);
            }
            Err(Error::Damaged(damage)) => findings.damages.push(self.without_vector(damage)),
            Err(other) => return Err(other),
        }
        Ok(())
    }

    /// Adds what the loss of the deletion vector means.
    fn without_vector(&self, mut damage: Damage) -> Damage {
        let SegmentEntry { id, dead_records, tally, .. } = self.entry;
        damage.what.push_str(&format!(
            "; {} of the {} records of segment {id:016x} were deleted or replaced, and nothing says which of those \
             without a newer version: all of these are refused",
            units::count(dead_records),
            units::count(tally.records)
        ));
        damage
    }
}

/// The damage of a segment that cannot be opened says how much was in it.
fn lost(mut damage: Damage, entry: &SegmentEntry) -> Damage {
    let live = entry.tally.records.saturating_sub(entry.dead_records);
    let records = units::count_of(live, "live record was", "live records were");
    damage.what.push_str(&format!("; {records} in it"));
    damage
}

/// The result of a scan of the end of a segment.
#[derive(Clone, Copy)]
struct Scanned {
    is_damaged: bool,
    /// The last frame in it that ends at or below the committed length.
    last_committed: LastFrame,
    beyond: Option<Beyond>,
}

fn source_is_short(segment: &Segment) -> bool {
    let len = segment.source.len();
    match segment.entry.state {
        SegmentState::Active => len < segment.entry.committed_len,
        SegmentState::Sealed => len != segment.entry.committed_len,
    }
}

/// Bytes of a file that were refused, as an error that says where.
pub(crate) fn refused(source: &dyn Source, base: u64, invalid: Invalid) -> Error {
    let file = source.path().to_path_buf();
    if invalid.unsupported {
        return Error::Unsupported { path: file, what: invalid.what };
    }
    Error::Damaged(Damage {
        file,
        offset: base.saturating_add(invalid.offset),
        key: None,
        what: invalid.what,
        cause: None,
    })
}
