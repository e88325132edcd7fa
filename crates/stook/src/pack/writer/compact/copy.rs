//! One step of a compaction: reads the kept records of some segments in key order, and writes them.

use super::super::PackWriter;
use super::super::bounds::check_manifest;
use super::CompactStep;
use super::output::{Finished, Old, Output};
use crate::extent::ByteRange;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::deletes::{Death, Deaths};
use crate::pack::format::frame::{BodyLen, checksums_len};
use crate::pack::format::index::Place;
use crate::pack::format::manifest::Manifest;
use crate::pack::format::segment::SegmentHeader;
use crate::pack::index::run::MergeCursor;
use crate::pack::key::Key;
use crate::pack::read::gather::{FrameOrigin, Gathered, WantedFrame};
use crate::pack::read::reader::Reader;
use crate::pack::read::record::{checked_head, contiguous_body};
use crate::pack::state::names::take_number;
use crate::pack::state::segment::Segment;
use crate::pack::writer::host::Host;
use crate::source::AccessRule;
use crate::storage::Storage;

/// Frames that are longer than this are not gathered with others but copied through a window.
const GATHERED_LEN_MAX: u64 = 16 << 20;

/// The memory of a record in flight besides the bytes of its frame: its place, and those of the
/// reads for it.
const RECORD_LEN: u64 = 192;

/// Progress is reported, and may stop it, at least this often.
const PROGRESS_LEN: u64 = 1 << 20;

/// Counts of copied records.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::pack) struct Copied {
    pub(in crate::pack) records: u64,
    pub(in crate::pack) bytes: u64,
    pub(in crate::pack) dead_records: u64,
    /// The last of the versions that went died then.
    pub(in crate::pack) history_from_ns: Option<i64>,
}

/// A record that is kept.
#[derive(Debug, Clone, Copy)]
struct Kept {
    /// Number of its segment in the step.
    segment: usize,
    place: Place,
    death: Option<Death>,
}

impl Kept {
    /// Bytes of its frame, if it is gathered with others.
    fn gathered_len(&self) -> Option<u64> {
        self.place.len.filter(|&len| len <= GATHERED_LEN_MAX)
    }

    /// Where its frame is, if it is not too long for the index to say.
    fn range(&self) -> ByteRange {
        ByteRange::at(self.place.offset, self.place.len_min()).unwrap_or_default()
    }

    /// Versions of one key in the order in which they were put: each died when the next was, or
    /// before.
    fn age(&self) -> (u64, usize, u64) {
        (self.death.map_or(u64::MAX, |death| death.sequence), self.segment, self.place.offset)
    }
}

/// A key of a window.
#[derive(Debug, Clone, Copy)]
struct OfKey {
    /// Where its sort form ends among those of the window, and its versions among the records.
    form_end: usize,
    kept_end: usize,
}

/// A step under way.
pub(super) struct Copying<'w> {
    writer: &'w mut PackWriter,
    ids: Vec<u64>,
    group: u32,
    horizon_ns: i64,
    memory_len: usize,
    target: CopyTarget,
    made: Vec<u64>,
    copied: Copied,
}

/// Where records go.
#[derive(Default)]
pub(super) struct CopyTarget {
    output: Option<Output>,
    pub(super) finished: Vec<Finished>,
}

/// Makes segments for a target.
pub(super) struct Maker<'a> {
    pub(super) storage: &'a dyn Storage,
    pub(super) host: &'a dyn Host,
    pub(super) manifest: &'a mut Manifest,
    pub(super) group: u32,
    /// The lowest sequence number there will be.
    pub(super) sequence_first: u64,
    /// Ids of the files that were made.
    pub(super) made: &'a mut Vec<u64>,
    /// Segments that are named beside them.
    pub(super) segments: usize,
    /// The longest manifest and list of dead records, in bytes.
    pub(super) list_len_max: u64,
}

impl Maker<'_> {
    fn make(&mut self) -> Result<Output> {
        let segments = self.segments.saturating_add(self.made.len()).saturating_add(1);
        check_manifest(self.manifest, segments, "", self.list_len_max)?;
        let (mut nonce, mut marker) = ([0; 16], [0; 4]);
        self.host.random(&mut nonce)?;
        self.host.random(&mut marker)?;
        let id = take_number("the id of a segment", &mut self.manifest.segment_next)?;
        let header = SegmentHeader {
            chunk_log2: self.manifest.chunk_log2,
            group: self.manifest.groups.get(self.group as usize).cloned().unwrap_or_default(),
            id,
            pack_nonce: self.manifest.pack_nonce,
            nonce,
            marker: u32::from_le_bytes(marker).max(1),
            sequence_first: self.sequence_first,
            created_ns: self.host.now_ns(),
            by_key: true,
            made_after: self.manifest.generation,
        };
        self.made.push(id);
        Output::create(self.storage, header, self.group)
    }
}

impl<'w> Copying<'w> {
    pub(super) fn new(
        writer: &'w mut PackWriter,
        step: &CompactStep,
        horizon_ns: i64,
        memory_len: usize,
    ) -> Result<Self> {
        let group = writer.group(&step.group)?;
        Ok(Self {
            writer,
            ids: step.segments.clone(),
            group,
            horizon_ns,
            memory_len,
            target: CopyTarget::default(),
            made: Vec::new(),
            copied: Copied::default(),
        })
    }

    /// The finished outputs, the ids of all files that were made, and the counts.
    pub(super) fn into_parts(self) -> (Vec<Finished>, Vec<u64>, Copied) {
        (self.target.finished, self.made, self.copied)
    }

    /// Copies all of it; `false` when `progress` stopped it.
    pub(super) fn run(&mut self, progress: &mut dyn FnMut(u64) -> bool) -> Result<bool> {
        let Self { writer, ids, group, horizon_ns, memory_len, target, made, copied } = self;
        let sequence_first = ids
            .iter()
            .filter_map(|id| writer.sealed.get(id))
            .map(|sealed| sealed.entry.tally.sequence_first)
            .filter(|&sequence| sequence > 0)
            .min();
        let PackWriter { storage, options, reader, manifest, active, sealed, dead, .. } = &mut **writer;
        let chunk_len = 1u64 << manifest.chunk_log2;
        let segments = active.len().saturating_add(sealed.len());
        let mut maker = Maker {
            segments,
            list_len_max: options.list_len_max,
            storage: storage.as_ref(),
            host: options.host.as_ref(),
            manifest,
            group: *group,
            sequence_first: sequence_first.unwrap_or(1),
            made,
        };
        let no_deaths = Deaths::new();
        let mut sources = Vec::with_capacity(ids.len());
        for id in ids.iter() {
            let segment = sealed.get(id).and_then(|sealed| sealed.segment.as_ref());
            let segment = segment.ok_or_else(|| Error::Invalid(format!("no segment {id:016x} is open")))?;
            same_chunks(segment, chunk_len)?;
            sources.push((segment, dead.get(id).map_or(&no_deaths, |dead| &dead.deaths)));
        }
        let mut walk = KeptWalk::new(&sources, reader, *horizon_ns)?;
        let origins = origins(sources.iter().map(|(segment, _)| *segment));
        target.take_all((&mut walk, &origins, reader), *memory_len, &mut maker, copied, progress)
    }
}

/// Chunk checksums are taken over as they are.
pub(super) fn same_chunks(segment: &Segment, chunk_len: u64) -> Result<()> {
    if segment.salt.chunk_len == chunk_len {
        return Ok(());
    }
    let (id, found) = (segment.entry.id, segment.salt.chunk_len);
    Err(Error::Invalid(format!("segment {id:016x} has chunks of {found} bytes, the pack of {chunk_len}")))
}

/// Which way each segment is read.
pub(super) fn origins<'a>(segments: impl Iterator<Item = &'a Segment>) -> Vec<FrameOrigin<'a>> {
    let origin = |segment: &'a Segment| {
        let access = AccessRule::default().decide(segment.source.as_ref(), segment.frames());
        FrameOrigin { segment, access }
    };
    segments.map(origin).collect()
}

/// Lists which records are to be copied, by key, the versions of one key together.
pub(in crate::pack) trait Feed {
    /// Fills a window with the next records, whole keys at a time; whether more follow.
    fn fill(&mut self, window: &mut CopyWindow, memory_len: usize, copied: &mut Copied) -> Result<bool>;
}

/// Goes through the kept records of some segments, by key, versions of one key oldest first.
struct KeptWalk<'a> {
    sources: &'a [(&'a Segment, &'a Deaths)],
    /// Which segment a run is of.
    segment_of_run: Vec<usize>,
    cursor: MergeCursor<'a>,
    horizon_ns: i64,
}

impl<'a> KeptWalk<'a> {
    fn new(sources: &'a [(&'a Segment, &'a Deaths)], reader: &'a Reader, horizon_ns: i64) -> Result<Self> {
        let mut segment_of_run = Vec::new();
        for (number, (segment, _)) in sources.iter().enumerate() {
            segment_of_run.extend(segment.runs.iter().map(|_| number));
        }
        let runs = sources.iter().flat_map(|(segment, _)| &segment.runs);
        let cursor = MergeCursor::seek(runs, reader, &[])?;
        Ok(Self { sources, segment_of_run, cursor, horizon_ns })
    }
}

impl Feed for KeptWalk<'_> {
    fn fill(&mut self, window: &mut CopyWindow, memory_len: usize, copied: &mut Copied) -> Result<bool> {
        window.clear();
        while let Some((run, entry)) = self.cursor.peek() {
            if window.is_full(memory_len) && window.last_form() != entry.form() {
                return Ok(true);
            }
            let place = entry.place();
            let segment = self.segment_of_run.get(run).copied().unwrap_or_default();
            let death = self.sources.get(segment).and_then(|(_, deaths)| deaths.get(&place.offset)).copied();
            match death.filter(|death| death.time_ns <= self.horizon_ns) {
                Some(death) => {
                    copied.dead_records += 1;
                    copied.history_from_ns = copied.history_from_ns.max(Some(death.time_ns));
                }
                None => window.push(segment, place, death, entry.form()),
            }
            self.cursor.advance()?;
        }
        Ok(false)
    }
}

/// Records that are read together.
#[derive(Default)]
pub(in crate::pack) struct CopyWindow {
    kept: Vec<Kept>,
    keys: Vec<OfKey>,
    forms: Vec<u8>,
    /// Bytes of memory that all of it will take, the frames that will be gathered included.
    len: u64,
    gathered: Gathered,
}

impl CopyWindow {
    pub(in crate::pack) fn clear(&mut self) {
        self.kept.clear();
        self.keys.clear();
        self.forms.clear();
        self.len = 0;
    }

    pub(in crate::pack) fn is_full(&self, memory_len: usize) -> bool {
        self.len >= memory_len as u64
    }

    pub(in crate::pack) fn push(&mut self, segment: usize, place: Place, death: Option<Death>, form: &[u8]) {
        let kept = Kept { segment, place, death };
        self.len = self.len.saturating_add(kept.gathered_len().unwrap_or(0)).saturating_add(RECORD_LEN);
        self.kept.push(kept);
        let kept_end = self.kept.len();
        let is_same = self.last_form() == form;
        if let Some(last) = self.keys.last_mut().filter(|_| is_same) {
            last.kept_end = kept_end;
            return;
        }
        self.forms.extend_from_slice(form);
        self.len = self.len.saturating_add(form.len() as u64);
        self.keys.push(OfKey { form_end: self.forms.len(), kept_end });
    }

    /// The sort form of a key, by its number.
    fn form(&self, number: usize) -> &[u8] {
        form_of(&self.keys, &self.forms, number)
    }

    fn last_form(&self) -> &[u8] {
        self.form(self.keys.len().saturating_sub(1))
    }

    /// Reads them and writes them, no more at once than fit into memory: the versions of one key
    /// may be more than that. `false` when `progress` stopped it.
    fn write(
        &mut self,
        from: &From<'_>,
        target: &mut CopyTarget,
        maker: &mut Maker<'_>,
        copied: &mut Copied,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool> {
        let Self { kept, keys, forms, gathered, .. } = self;
        let mut start = 0;
        for key in keys.iter() {
            if let Some(versions) = kept.get_mut(start..key.kept_end) {
                versions.sort_unstable_by_key(Kept::age);
            }
            start = key.kept_end;
        }
        let (mut at, mut key, mut newest) = (0, 0, None);
        while at < kept.len() {
            let batch = fitting(kept.get(at..).unwrap_or_default(), from.memory_len);
            from.gather(batch, gathered)?;
            let mut frames = 0;
            for (number, kept) in (at..).zip(batch) {
                while keys.get(key).is_some_and(|of| of.kept_end <= number) {
                    (key, newest) = (key + 1, None);
                }
                let Some(origin) = from.origins.get(kept.segment) else { continue };
                let frame = kept.gathered_len().map(|_| gathered.frame(frames));
                frames += usize::from(frame.is_some());
                let form = form_of(keys, forms, key);
                let version = Version::check(origin.segment, kept, frame, form, from.reader);
                let wanted = WantedFrame { segment: kept.segment, range: kept.range() };
                let version = version.map_err(|error| gathered.explain(origin, wanted, error))?;
                if newest.is_some_and(|newest| version.sequence <= newest) {
                    let what = "its place among the versions of its key is not the one at which it died";
                    return Err(damaged(origin.segment, kept.place.offset, Some(version.key), what.into()));
                }
                newest = Some(version.sequence);
                let before = copied.bytes;
                let len =
                    version.write(from.reader, form, target, maker, &mut |len| progress(before + len))?;
                let Some(len) = len else { return Ok(false) };
                copied.records += 1;
                copied.bytes += len;
                let is_due = before / PROGRESS_LEN != copied.bytes / PROGRESS_LEN;
                if is_due && !progress(copied.bytes) {
                    return Ok(false);
                }
            }
            at += batch.len();
        }
        Ok(true)
    }
}

/// The first of these records that fit into memory together; at least one.
fn fitting(kept: &[Kept], memory_len: usize) -> &[Kept] {
    let mut left = memory_len as u64;
    let fits = |kept: &&Kept| {
        let len = kept.gathered_len().unwrap_or(0).saturating_add(RECORD_LEN);
        left.checked_sub(len).inspect(|rest| left = *rest).is_some()
    };
    let count = kept.iter().take_while(fits).count().max(1);
    kept.get(..count).unwrap_or(kept)
}

fn form_of<'f>(keys: &[OfKey], forms: &'f [u8], number: usize) -> &'f [u8] {
    let start = number.checked_sub(1).and_then(|before| keys.get(before)).map_or(0, |key| key.form_end);
    let end = keys.get(number).map_or(start, |key| key.form_end);
    forms.get(start..end).unwrap_or_default()
}

/// Where records come from.
struct From<'a> {
    origins: &'a [FrameOrigin<'a>],
    reader: &'a Reader,
    memory_len: usize,
}

impl From<'_> {
    /// Reads the frames of those records that are not too long for that.
    fn gather(&self, kept: &[Kept], gathered: &mut Gathered) -> Result<()> {
        let short = kept.iter().filter(|kept| kept.gathered_len().is_some());
        let wanted: Vec<WantedFrame> =
            short.map(|kept| WantedFrame { segment: kept.segment, range: kept.range() }).collect();
        gathered.read(self.reader, self.origins, &wanted)
    }
}

/// A version of a key; its head and its bytes in memory are verified.
struct Version<'a> {
    segment: &'a Segment,
    place: Place,
    key: Key,
    attributes: Vec<u8>,
    sequence: u64,
    time_ns: i64,
    death: Option<Death>,
    body: BodyLen,
    /// Body and chunk checksums, where they are in memory.
    whole: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> Version<'a> {
    fn check(
        segment: &'a Segment,
        kept: &Kept,
        frame: Option<&'a [u8]>,
        form: &[u8],
        reader: &Reader,
    ) -> Result<Self> {
        let place = kept.place;
        let head;
        let bytes = match frame {
            Some(frame) => frame,
            None => {
                let len = place.len_min().min(256 << 10);
                head = reader
                    .read(segment.source.as_ref(), ByteRange::at(place.offset, len).unwrap_or_default())?;
                &head
            }
        };
        let (header, key, attributes) = checked_head(segment, place, bytes)?;
        if key.sort_form() != form {
            let what = "the index names another record here".into();
            return Err(damaged(segment, place.offset, Some(key), what));
        }
        let whole = match (frame, header.body) {
            (Some(frame), BodyLen::Known(len)) => {
                let at = header.head_len() as usize;
                contiguous_body(frame, at, (len, header.sequence), &segment.salt).map_err(
                    |(offset, what)| damaged(segment, place.offset + offset, Some(key.clone()), what),
                )?;
                let rest = frame.get(at..).unwrap_or_default();
                let (body, rest) = rest.split_at_checked(len as usize).unwrap_or_default();
                let sums =
                    rest.get(..checksums_len(len, segment.salt.chunk_len) as usize).unwrap_or_default();
                Some((body, sums))
            }
            _ => None,
        };
        let (sequence, time_ns, death) = (header.sequence, header.time_ns, kept.death);
        let attributes = attributes.to_vec();
        Ok(Self { segment, place, key, attributes, sequence, time_ns, death, body: header.body, whole })
    }

    fn old(&self, body_len: u64) -> Old<'_> {
        Old {
            key: &self.key,
            attributes: &self.attributes,
            body_len,
            sequence: self.sequence,
            time_ns: self.time_ns,
            death: self.death,
        }
    }

    /// Writes it; returns the bytes of its frame, or `None` if `progress`, which gets the number of
    /// bytes written, stopped it.
    fn write(
        &self,
        reader: &Reader,
        form: &[u8],
        target: &mut CopyTarget,
        maker: &mut Maker<'_>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<u64>> {
        let output = target.ready(form, self.place.len_min(), maker)?;
        let before = output.len();
        let goes_on = match self.whole {
            Some((body, sums)) => {
                output.put(self.old(body.len() as u64), body, (sums, &self.segment.salt))?;
                true
            }
            None => self.write_long(reader, output, progress)?,
        };
        Ok(goes_on.then(|| output.len() - before))
    }

    /// Copies a body chunk by chunk. Its length must be known first: that of a body in pieces is
    /// counted.
    fn write_long(
        &self,
        reader: &Reader,
        output: &mut Output,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool> {
        let mut counted = 0;
        let body_len = match self.body {
            BodyLen::Known(len) => len,
            BodyLen::Framed => {
                let whole = self.each_chunk(reader, &mut |chunk| {
                    counted += chunk.len() as u64;
                    Ok(progress(0))
                })?;
                if !whole {
                    return Ok(false);
                }
                counted
            }
        };
        let old = self.old(body_len);
        let offset = output.begin(old)?;
        let mut plain = Vec::new();
        let whole = self.each_chunk(reader, &mut |chunk| {
            plain.extend(crc32c::crc32c(chunk).to_le_bytes());
            output.append(chunk)?;
            Ok(progress(output.len() - offset))
        })?;
        if whole {
            output.append_sums(&plain, old.sequence)?;
            output.end(old, offset)?;
        }
        Ok(whole)
    }

    /// Passes the verified chunks of the body to `take`, until there are no more or it stops.
    fn each_chunk(&self, reader: &Reader, take: &mut dyn FnMut(&[u8]) -> Result<bool>) -> Result<bool> {
        let opened = self.segment.open_record(self.place, reader, AccessRule::default());
        let mut frames = opened.map_err(|error| error.of(&self.key))?;
        while let Some(span) = frames.next_of_record()? {
            // The only piece of an empty body has no chunk here.
            if span.len > 0 && !take(frames.view(span).1)? {
                return Ok(false);
            }
        }
        reader.take_back(frames)?;
        Ok(true)
    }
}

impl CopyTarget {
    /// Copies everything that is fed; `false` when `progress` stopped it.
    pub(super) fn take_all(
        &mut self,
        (feed, origins, reader): (&mut dyn Feed, &[FrameOrigin<'_>], &Reader),
        memory_len: usize,
        maker: &mut Maker<'_>,
        copied: &mut Copied,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool> {
        let mut window = CopyWindow::default();
        let from = From { origins, reader, memory_len };
        loop {
            let more = feed.fill(&mut window, memory_len, copied)?;
            let goes_on = window.write(&from, self, maker, copied, progress)?;
            if !goes_on || !progress(copied.bytes) {
                return Ok(false);
            }
            if !more {
                break;
            }
        }
        self.finished.extend(self.output.take().map(Output::finish).transpose()?);
        Ok(true)
    }

    /// The segment for a record of this length; versions of one key stay together.
    fn ready(&mut self, form: &[u8], len: u64, maker: &mut Maker<'_>) -> Result<&mut Output> {
        let full = self.output.as_ref().is_some_and(|output| {
            !output.is_empty()
                && !output.ends_in(form)
                && (output.len().saturating_add(len) > maker.manifest.segment_len
                    || output.list_len() > maker.list_len_max)
        });
        if full {
            self.finished.extend(self.output.take().map(Output::finish).transpose()?);
        }
        if self.output.is_none() {
            self.output = Some(maker.make()?);
        }
        self.output.as_mut().ok_or_else(|| Error::Invalid("no segment is open".into()))
    }
}

fn damaged(segment: &Segment, offset: u64, key: Option<Key>, what: String) -> Error {
    Error::Damaged(Damage { file: segment.source.path().to_path_buf(), offset, key, what, cause: None })
}
