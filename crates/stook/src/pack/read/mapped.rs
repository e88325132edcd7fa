//! Records returned in place: in mapped sealed segments, or in buffers read from others.

use std::ops::Range;

use bytes::Bytes;

use crate::engine::{Mapping, prefetch};
use crate::extent::ByteRange;
use crate::pack::error::{Error, Result, is_unreadable};
use crate::pack::format::attributes::{Attributes, FileKind};
use crate::pack::format::frame::FrameHeader;
use crate::pack::format::index::Place;
use crate::pack::format::manifest::SegmentState;
use crate::pack::index::run::{Newest, Run};
use crate::pack::key::Key;
use crate::pack::read::gets::Gets;
use crate::pack::read::record::{RawHead, Record, decode_attributes, decode_head, raw_body, raw_head};
use crate::pack::state::open::Pack;
use crate::pack::state::segment::{Life, Segment};
use crate::pack::state::snapshot::{Found, Snapshot};
use crate::source::Leaf;

/// Whether records are read, or segments mapped into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MapRule {
    /// Nothing is mapped.
    #[default]
    Never,
    /// Sealed segments are mapped, and gets (not scans) read records from there without a system
    /// call. For packs that are in memory or fit in it. Damage is reported as usual.
    ///
    /// **A sealed segment must not be truncated or overwritten meanwhile**, and its device must not
    /// fail: that is no error but a `SIGBUS`, which ends the process. Writers of packs never do
    /// either; removing and replacing files is harmless.
    Sealed,
}

/// A record in the memory where it was found. It was verified as a [`Record`] is; nothing is
/// copied.
#[derive(Debug, Clone, Copy)]
pub struct RecordView<'a> {
    head: ViewHead<'a>,
    /// The body.
    pub body: &'a [u8],
    /// Its sequence number.
    pub sequence: u64,
    /// When it was put, ns.
    pub time_ns: i64,
}

#[derive(Debug, Clone, Copy)]
enum ViewHead<'a> {
    Read(&'a Record),
    Mapped { segment: &'a Segment, offset: u64, header: FrameHeader, key: &'a Key, attributes: &'a [u8] },
}

impl<'a> RecordView<'a> {
    fn of(record: &'a Record) -> Self {
        let (sequence, time_ns) = (record.head.sequence, record.head.time_ns);
        Self { head: ViewHead::Read(record), body: &record.body, sequence, time_ns }
    }

    /// Its key.
    pub fn key(&self) -> &'a Key {
        match self.head {
            ViewHead::Read(record) => &record.head.key,
            ViewHead::Mapped { key, .. } => key,
        }
    }

    /// Whether it is a hard link to a file: its body is the key of that file.
    pub fn is_hard_link(&self) -> bool {
        match self.head {
            ViewHead::Read(record) => record.head.is_hard_link(),
            ViewHead::Mapped { attributes, .. } => {
                Attributes::kind_of(attributes) == Some(FileKind::HardLink)
            }
        }
    }

    /// Its attributes.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if a newer version wrote them.
    pub fn attributes(&self) -> Result<Attributes> {
        match self.head {
            ViewHead::Read(record) => Ok(record.head.attributes.clone()),
            ViewHead::Mapped { segment, offset, header, key, attributes } => {
                decode_attributes(segment, &header, offset, key, attributes)
            }
        }
    }
}

/// Keys between one stage of a look-up and the next: enough that the memory prefetched by a stage
/// has arrived, and few enough that it is still in the processor's cache.
const STAGE: usize = 6;
/// Keys between the first stage and the last.
const TRAVEL: usize = 3 * STAGE;
/// At most this much of a frame is prefetched; the processor continues by itself with longer ones.
const PREFETCH_LEN_MAX: usize = 4096;
/// More than are on their way.
const SLOTS: usize = 32;

/// Keys on their way to their records. Each step of a search waits for memory; that of one key is
/// waited for while others make theirs.
struct Line<'a> {
    pack: &'a Pack,
    keys: &'a [Key],
    /// Of a pack with one run, all steps of a search are made apart.
    sole: Option<(usize, &'a Run)>,
    slots: [LineSlot; SLOTS],
    /// Keys that damage of an index hides.
    damaged: Vec<(usize, Error)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct LineSlot {
    /// The page of the index.
    page: usize,
    found: Option<Found>,
}

impl<'a> Line<'a> {
    fn slot(&self, number: usize) -> LineSlot {
        self.slots.get(number % SLOTS).copied().unwrap_or_default()
    }

    /// The next step of every key that is on its way.
    #[inline]
    fn look_up_to(&mut self, step: usize) -> Result<()> {
        let key = |after: usize| {
            let number = step.checked_sub(after)?;
            Some((number, self.keys.get(number)?))
        };
        let [first, second, third] = [0, STAGE, 2 * STAGE].map(key);
        if let Some((_, run)) = self.sole {
            if let Some((number, key)) = first {
                let page = run.prefetch_page(key.sort_form());
                self.put(number, LineSlot { page, found: None });
            }
            if let Some((number, key)) = second {
                run.prefetch(self.slot(number).page, key.sort_form());
            }
        }
        if let Some((number, key)) = third {
            let page = self.slot(number).page;
            let found = match self.find(page, key) {
                Err(error @ Error::Damaged(_)) => {
                    self.damaged.push((number, error.of(key)));
                    None
                }
                found => found?,
            };
            if let Some((_, frame)) = found.and_then(|found| self.pack.mapped_frame(found)) {
                prefetch(frame.get(..frame.len().min(PREFETCH_LEN_MAX)).unwrap_or_default());
            }
            self.put(number, LineSlot { page, found });
        }
        Ok(())
    }

    fn find(&self, page: usize, key: &Key) -> Result<Option<Found>> {
        let Some((segment, run)) = self.sole else { return self.pack.find_quickly(key) };
        let newest = run.newest_in(page, key.sort_form(), &self.pack.reader)?;
        self.pack.counted(key, segment, newest)
    }

    /// What hides the key with this number, if anything does.
    fn take_damage(&mut self, number: usize) -> Option<Error> {
        let at = self.damaged.iter().position(|(damaged, _)| *damaged == number)?;
        Some(self.damaged.swap_remove(at).1)
    }

    fn put(&mut self, number: usize, slot: LineSlot) {
        if let Some(place) = self.slots.get_mut(number % SLOTS) {
            *place = slot;
        }
    }
}

/// A verified frame in a mapping.
struct VerifiedFrame<'a> {
    segment: &'a Segment,
    map: &'a Bytes,
    found: Found,
    raw: RawHead<'a>,
    /// Where its body is in the mapping.
    body: Range<usize>,
}

impl<'a> VerifiedFrame<'a> {
    fn view(&self, key: &'a Key) -> RecordView<'a> {
        let RawHead { header, attributes, .. } = self.raw;
        let offset = self.found.place.offset;
        let head = ViewHead::Mapped { segment: self.segment, offset, header, key, attributes };
        let body = self.map.get(self.body.clone()).unwrap_or_default();
        RecordView { head, body, sequence: header.sequence, time_ns: header.time_ns }
    }

    fn record(&self) -> Result<Record> {
        let head = decode_head(self.segment, self.found.place, &self.raw)?;
        Ok(Record { head, body: self.map.slice(self.body.clone()) })
    }
}

/// Maps the segments that the rule selects: for each segment its bytes.
pub(crate) fn map_segments(snapshot: &Snapshot, rule: MapRule) -> Result<Vec<Option<Bytes>>> {
    if rule == MapRule::Never {
        return Ok(Vec::new());
    }
    snapshot.segments.iter().map(map_segment).collect()
}

fn map_segment(segment: &Segment) -> Result<Option<Bytes>> {
    let source = segment.source.as_ref();
    if segment.entry.state != SegmentState::Sealed || source.is_empty() {
        return Ok(None);
    }
    let mut leaves = Vec::with_capacity(1);
    match source.resolve(ByteRange::to(source.len()), &mut leaves) {
        // What cannot be read in one piece is read piece by piece.
        Err(error) if is_unreadable(&error) => return Ok(None),
        resolved => resolved?,
    }
    Ok(match leaves.as_slice() {
        [Leaf::File { file, range }] if range.start() == 0 => {
            Some(Bytes::from_owner(Mapping::of(file, range.len())?))
        }
        [Leaf::Bytes(bytes)] => Some(bytes.clone()),
        // Composed of several: there is nothing to map.
        _ => None,
    })
}

impl Pack {
    /// Has `each` look at the record with this key where it lies: see
    /// [`get_many_with`](Self::get_many_with).
    ///
    /// # Errors
    /// Returns the errors of [`get`](Self::get).
    pub fn get_with<T>(&self, key: &Key, look: impl FnOnce(RecordView<'_>) -> T) -> Result<Option<T>> {
        let Some(found) = self.find_quickly(key)? else { return Ok(None) };
        if let Some(verified) = self.verify_frame(key, found)? {
            return Ok(Some(look(verified.view(key))));
        }
        let record = Gets::new(self, std::slice::from_ref(key), Some(&[found]))?.run()?.pop();
        Ok(record.transpose()?.flatten().as_ref().map(|record| look(RecordView::of(record))))
    }

    /// Has `each` look at the records with these keys, one after another and in no certain order:
    /// at the number of the key, and what became of it. Where the pack was opened with
    /// [`MapRule::Sealed`] nothing is copied, allocated or locked for a record; elsewhere it is as
    /// [`get_many`](Self::get_many).
    ///
    /// # Errors
    /// Returns an error if the index cannot be read. The outcome of each record is passed to
    /// `each`.
    pub fn get_many_with(
        &self,
        keys: &[Key],
        mut each: impl FnMut(usize, Result<Option<RecordView<'_>>>),
    ) -> Result<()> {
        let others = self.each_mapped(keys, &mut |number, key, verified| {
            each(number, verified.map(|verified| verified.map(|verified| verified.view(key))));
        })?;
        self.read_others(keys, others, &mut |number, record| match record {
            Ok(record) => each(number, Ok(record.as_ref().map(RecordView::of))),
            Err(error) => each(number, Err(error)),
        })
    }

    /// The records with these keys in their order: mapped ones from their mappings, the others read
    /// as one batch.
    pub(crate) fn get_many_mapped(&self, keys: &[Key]) -> Result<Vec<Result<Option<Record>>>> {
        let mut records: Vec<_> = keys.iter().map(|_| Ok(None)).collect();
        let others = self.each_mapped(keys, &mut |number, _, verified| {
            if let Some(slot) = records.get_mut(number) {
                *slot = verified.and_then(|verified| verified.map(|verified| verified.record()).transpose());
            }
        })?;
        self.read_others(keys, others, &mut |number, record| {
            if let Some(slot) = records.get_mut(number) {
                *slot = record;
            }
        })?;
        Ok(records)
    }

    /// Reads the records that are not in mappings: see [`each_mapped`](Self::each_mapped).
    fn read_others(
        &self,
        keys: &[Key],
        others: Option<Vec<(usize, Found)>>,
        take: &mut dyn FnMut(usize, Result<Option<Record>>),
    ) -> Result<()> {
        let Some(others) = others else {
            let records = self.read_many_records(keys)?.into_iter().enumerate();
            records.for_each(|(number, record)| take(number, record));
            return Ok(());
        };
        let keys: Vec<Key> = others.iter().filter_map(|&(number, _)| keys.get(number).cloned()).collect();
        let known: Vec<Found> = others.iter().map(|&(_, found)| found).collect();
        let records = Gets::new(self, &keys, Some(&known))?.run()?;
        others.iter().zip(records).for_each(|(&(number, _), record)| take(number, record));
        Ok(())
    }

    /// Looks keys up, and verifies the frames of those that are mapped while the next ones come
    /// from memory. Returns the numbers of the keys that are to be read in another way, and where
    /// their records are; `None` if nothing is mapped, and no key was looked up.
    fn each_mapped<'a>(
        &'a self,
        keys: &'a [Key],
        each: &mut dyn FnMut(usize, &'a Key, Result<Option<VerifiedFrame<'a>>>),
    ) -> Result<Option<Vec<(usize, Found)>>> {
        if self.maps.iter().all(Option::is_none) {
            return Ok(None);
        }
        self.read_pages_for(keys)?;
        let (sole, slots) = (self.sole_run(), [LineSlot::default(); SLOTS]);
        let mut line = Line { pack: self, keys, sole, slots, damaged: Vec::new() };
        let mut others = Vec::new();
        for step in 0..keys.len() + TRAVEL {
            line.look_up_to(step)?;
            let Some(number) = step.checked_sub(TRAVEL) else { continue };
            let Some(key) = keys.get(number) else { continue };
            if let Some(error) = line.take_damage(number) {
                each(number, key, Err(error));
                continue;
            }
            let Some(found) = line.slot(number).found else {
                each(number, key, Ok(None));
                continue;
            };
            match self.verify_frame(key, found) {
                Ok(None) => others.push((number, found)),
                verified => each(number, key, verified),
            }
        }
        Ok(Some(others))
    }

    /// The one run of a pack that has a single one, and the number of its segment.
    fn sole_run(&self) -> Option<(usize, &Run)> {
        let segments = self.snapshot.segments.iter().enumerate();
        let mut runs =
            segments.flat_map(|(number, segment)| segment.runs.iter().map(move |run| (number, run)));
        runs.next().filter(|_| runs.next().is_none())
    }

    /// The mapping a record is in, and its frame there, where both are known.
    #[inline]
    fn mapped_frame(&self, found: Found) -> Option<(&Bytes, &[u8])> {
        let map = self.maps.get(found.segment)?.as_ref()?;
        let start = usize::try_from(found.place.offset).ok()?;
        let len = usize::try_from(found.place.len?).ok()?;
        Some((map, map.get(start..start.checked_add(len)?)?))
    }

    /// Verifies a frame in its mapping; `None` when it is not mapped whole, or its body is in
    /// pieces.
    #[inline]
    fn verify_frame<'a>(&'a self, key: &Key, found: Found) -> Result<Option<VerifiedFrame<'a>>> {
        let Some((map, frame)) = self.mapped_frame(found) else { return Ok(None) };
        let Some(segment) = self.snapshot.segments.get(found.segment) else { return Ok(None) };
        let of_key = |error: Error| error.of(key);
        let raw = raw_head(segment, found.place, frame).map_err(of_key)?;
        let body = raw_body(segment, found.place, &raw, frame).map_err(of_key)?;
        let Some(body) = body else { return Ok(None) };
        let start = found.place.offset as usize;
        let verified = VerifiedFrame { segment, map, found, raw, body: start + body.start..start + body.end };
        if verified.raw.has_key(key) {
            return Ok(Some(verified));
        }
        Err(self.misplaced(key, &verified.record()?))
    }

    /// Where the live record of a key is, as [`find`](Self::find) says it.
    fn find_quickly(&self, key: &Key) -> Result<Option<Found>> {
        let form = key.sort_form();
        for (number, segment) in self.snapshot.segments.iter().enumerate().rev() {
            for run in segment.runs.iter().rev() {
                match run.newest(form, &self.reader)? {
                    Newest::Absent => {}
                    newest => return self.counted(key, number, newest),
                }
            }
        }
        self.counted(key, 0, Newest::Absent)
    }

    /// The place of the live record of a key, given the result of a quick search in the newest
    /// segment that may have it.
    #[inline]
    fn counted(&self, key: &Key, segment: usize, newest: Newest) -> Result<Option<Found>> {
        let life = |place: Place| Some(self.snapshot.segments.get(segment)?.life(place.offset));
        match newest {
            Newest::Absent if self.snapshot.log.is_empty() => Ok(None),
            Newest::At(place) if life(place) == Some(Life::Alive) => Ok(Some(Found { segment, place })),
            // Another version may count, or damage may hide it.
            Newest::At(_) | Newest::Unsure | Newest::Absent => self.find(key),
        }
    }
}
