//! [`Ordinals`]: the records of a selection by number, for readers that take them in any order.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::entries::Entries;
use super::filter::{FilterWalk, RecordFilter};
use super::places::Places;
use super::split::Split;
use super::token::{self, Origin};
use super::view::View;
use super::{KeyRange, OnDamage, Stop};
use crate::engine::Access;
use crate::extent::ByteRange;
use crate::pack::damages::Damages;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::attributes::{Name, Value};
use crate::pack::format::frame::HEADER_LEN;
use crate::pack::format::index::Place;
use crate::pack::key::Key;
use crate::pack::list::kinds::Kinds;
use crate::pack::read::frames::{Broken, Checked, Frames};
use crate::pack::read::gets::Gets;
use crate::pack::read::record::Record;
use crate::pack::read::walker::FrameVisitor;
use crate::pack::state::open::{KeyEntry, Pack, is_in_groups};
use crate::pack::state::segment::{Life, Segment};
use crate::pack::state::snapshot::Found;

const KIND: &str = "list of ordinals";
/// The same where it is text.
const TOKEN: &str = "ordinals";

/// Places that are held at once until they are in the order of the medium, of 32 bytes each.
const SORTED_MAX: usize = 2 << 20;

/// Entries whose kinds are looked up as one batch.
const KINDS_AT_ONCE: usize = 4096;

/// Which records have ordinals.
#[derive(Debug, Clone)]
pub struct OrdinalOptions {
    /// Only these groups; all if empty.
    pub groups: Vec<String>,
    /// Only keys in this range.
    pub keys: KeyRange,
    /// Only these keys, which all have to be there.
    pub only: Option<Vec<Key>>,
    /// Only records of these kinds. All kinds are listed without reading anything of the records.
    pub kinds: Kinds,
    /// Only records that have each of these attributes with one of these values, as
    /// [`RecordFilter::attributes`].
    pub attributes: Vec<(Name, Vec<Value>)>,
    /// Only records of this split.
    pub split: Option<Split>,
    /// What to do about records of which is not known whether they count.
    pub on_damage: OnDamage,
    /// Asked whether to go on.
    pub stop: Stop,
}

impl Default for OrdinalOptions {
    /// All files of the pack.
    fn default() -> Self {
        Self {
            groups: Vec::new(),
            keys: KeyRange::all(),
            only: None,
            kinds: Kinds::FILES,
            attributes: Vec::new(),
            split: None,
            on_damage: OnDamage::Stop,
            stop: Stop::default(),
        }
    }
}

/// The records of a selection, numbered from 0 in the order in which they are on the medium: of one
/// state of one pack, always the same. It takes about three bytes per record, has no keys, and
/// shares nothing with the pack, so that processes can share it.
#[derive(Debug, Clone)]
pub struct Ordinals {
    origin: Origin,
    parts: Vec<Numbered>,
    len: u64,
    damages: Vec<Damage>,
}

/// What the bytes of a list begin with.
#[derive(Debug, Serialize, Deserialize)]
struct ListHead {
    #[serde(flatten)]
    origin: Origin,
    /// Of each segment its id, how many records it has, and in how many bytes.
    parts: Vec<(u64, usize, usize)>,
    /// CRC-32C of all bytes that follow.
    sum: u32,
}

/// The records of one segment.
#[derive(Debug, Clone)]
struct Numbered {
    /// The number of the first.
    first: u64,
    /// Id of the segment.
    segment: u64,
    places: Places,
}

impl Ordinals {
    /// How many there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What records are left out for: whether they count is not known, or damage of the pack hides
    /// them.
    pub fn damages(&self) -> &[Damage] {
        &self.damages
    }

    /// Memory that it takes, bytes.
    pub fn memory_bytes(&self) -> usize {
        let parts = self.parts.iter().map(|part| part.places.memory_bytes() + size_of::<Numbered>());
        parts.sum::<usize>() + size_of::<Self>()
    }

    /// Cuts all ordinals into spans of about so many bytes of the medium, none of which goes from
    /// one segment into the next: ranges of ordinals, in order.
    pub fn spans(&self, bytes: u64) -> Vec<std::ops::Range<u64>> {
        let starts = self.span_starts(bytes, u64::MAX);
        let ends = starts.iter().copied().skip(1).chain([self.len]);
        starts.iter().zip(ends).map(|(start, end)| *start..end).collect()
    }

    /// Where such spans begin that have no more than this many records each.
    pub(super) fn span_starts(&self, bytes: u64, records: u64) -> Vec<u64> {
        let mut starts = Vec::new();
        for Numbered { first, places, .. } in &self.parts {
            let (mut from, mut begins) = (*first, None);
            for (number, place) in (*first..).zip(places.iter()) {
                let begin = *begins.get_or_insert(place.offset);
                let is_full = place.offset.saturating_sub(begin) >= bytes || number - from >= records;
                if is_full && number > from {
                    starts.push(from);
                    (from, begins) = (number, Some(place.offset));
                }
            }
            if places.len() > 0 {
                starts.push(from);
            }
        }
        starts.shrink_to_fit();
        starts
    }

    /// Bytes of the medium from the first to the last of all records of each segment.
    pub(super) fn medium_bytes(&self) -> u64 {
        let ends = self
            .parts
            .iter()
            .map(|part| (part.places.get(0), part.places.get(part.places.len().wrapping_sub(1))));
        let bytes = ends.filter_map(|(first, last)| {
            let (first, last) = first.zip(last)?;
            Some(last.offset.saturating_add(last.len.unwrap_or(0)).saturating_sub(first.offset))
        });
        bytes.fold(0, u64::saturating_add)
    }

    /// The same for some of one segment; `None` where the length of the last is not known.
    pub(super) fn extent_bytes(&self, numbers: std::ops::Range<u64>) -> Option<u64> {
        let (_, first) = self.place(numbers.start)?;
        let (_, last) = self.place(numbers.end.checked_sub(1)?)?;
        Some(last.offset.saturating_add(last.len?).saturating_sub(first.offset))
    }

    /// The number of the first record that came later than what it is of.
    pub(crate) fn sequence_end(&self) -> u64 {
        self.origin.sequence_end
    }

    /// The state of which pack it is of.
    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// A checksum of which records are in it.
    pub(super) fn sum(&self) -> u32 {
        self.parts.iter().fold(0, |sum, part| {
            let sum = crc32c::crc32c_append(sum, &part.segment.to_le_bytes());
            crc32c::crc32c_append(sum, part.places.bytes())
        })
    }

    /// The list as bytes, for another process; without what is damaged.
    pub fn to_bytes(&self) -> Vec<u8> {
        let parts = self.parts.iter();
        let parts = parts.map(|part| (part.segment, part.places.len(), part.places.bytes().len())).collect();
        let mut sum = 0;
        for part in &self.parts {
            sum = crc32c::crc32c_append(sum, part.places.bytes());
        }
        let mut all = token::write(TOKEN, &ListHead { origin: self.origin.clone(), parts, sum }).into_bytes();
        all.push(b'\n');
        self.parts.iter().for_each(|part| all.extend_from_slice(part.places.bytes()));
        all
    }

    /// The list that was made into these bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`] where they are something else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let refused = || Error::Invalid(format!("these bytes are no {KIND}"));
        let at = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(refused)?;
        let (head, rest) = bytes.split_at(at);
        let mut rest = rest.get(1..).unwrap_or_default();
        let head: ListHead = token::read(TOKEN, std::str::from_utf8(head).map_err(|_| refused())?)?;
        if crc32c::crc32c(rest) != head.sum {
            return Err(refused());
        }
        let (mut parts, mut len) = (Vec::new(), 0_u64);
        for (segment, count, bytes) in head.parts {
            let (of_it, after) = rest.split_at_checked(bytes).ok_or_else(refused)?;
            let places = Places::decode(of_it, count).ok_or_else(refused)?;
            parts.push(Numbered { first: len, segment, places });
            len = len.checked_add(count as u64).ok_or_else(refused)?;
            rest = after;
        }
        match rest.is_empty() {
            true => Ok(Self { origin: head.origin, parts, len, damages: Vec::new() }),
            false => Err(refused()),
        }
    }

    /// Where a record is, by the id of its segment.
    fn place(&self, number: u64) -> Option<(u64, Place)> {
        let after = self.parts.partition_point(|part| part.first <= number);
        let part = self.parts.get(after.checked_sub(1)?)?;
        let place = part.places.get(usize::try_from(number - part.first).ok()?)?;
        Some((part.segment, place))
    }
}

impl Pack {
    /// Numbers the live records of a selection. What of the pack is seen is what this one sees.
    ///
    /// # Errors
    /// What reading the index meets; unless damage is skipped, [`Error::Damaged`] for a record of
    /// which is not known whether it counts, and for damage of the pack that hides records;
    /// [`Error::Invalid`] for a group or a key that is not there, for a split of another state, for
    /// keys and a split, and for a condition on attributes that no record can meet;
    /// [`Error::Stopped`].
    pub fn ordinals(&self, options: &OrdinalOptions) -> Result<Ordinals> {
        let filter = RecordFilter { kinds: options.kinds, attributes: options.attributes.clone() };
        filter.check()?;
        let mut filter = FilterWalk::new(filter);
        self.check_groups(&options.groups)?;
        self.check_whole(options.on_damage)?;
        let view = match &options.split {
            Some(split) => self.view_of(split)?,
            None => self.view(),
        };
        if let Some(keys) = &options.only {
            return self.ordinals_of(keys, options, view, &mut filter);
        }
        let mut damages = Damages::default();
        let mut parts = Vec::new();
        let mut len = 0_u64;
        for (number, segment) in self.snapshot.segments.iter().enumerate() {
            if !is_in_groups(&options.groups, self.group_of(segment)) {
                continue;
            }
            let ranges = match &options.split {
                Some(split) => split.ranges_in(segment),
                None => vec![segment.frames()],
            };
            let mut places = Places::default();
            let mut ranges: Vec<ByteRange> =
                ranges.into_iter().flat_map(|range| windows(segment, range)).rev().collect();
            while let Some(range) = ranges.pop() {
                let found = self.places_in((number, range), options, view, &mut filter, &mut damages)?;
                let Some(mut found) = found else {
                    ranges.extend(halves(range).into_iter().rev());
                    continue;
                };
                found.sort_unstable();
                found.into_iter().for_each(|place| places.push(place));
            }
            places.finish();
            if places.len() > 0 {
                let first = len;
                len += places.len() as u64;
                parts.push(Numbered { first, segment: segment.entry.id, places });
            }
        }
        filter.check_met(self, options.stop)?;
        // What was known or met by now and may hide records that would be among them.
        self.damages().iter().for_each(|damage| damages.push(damage.clone()));
        let damages = damages.to_vec();
        Ok(Ordinals { origin: Origin::of(self, view), parts, len, damages })
    }

    /// Numbers the records with these keys, each once.
    fn ordinals_of(
        &self,
        keys: &[Key],
        options: &OrdinalOptions,
        view: View,
        filter: &mut FilterWalk,
    ) -> Result<Ordinals> {
        if options.split.is_some() {
            return Err(Error::Invalid("keys and a split do not go together".to_owned()));
        }
        let mut damages = Damages::default();
        let mut entries = vec![Vec::new(); self.snapshot.segments.len()];
        for (number, key) in keys.iter().enumerate() {
            if number.is_multiple_of(KINDS_AT_ONCE) {
                options.stop.check()?;
            }
            let found = match self.find(key) {
                Err(Error::Damaged(damage)) if options.on_damage == OnDamage::Skip => {
                    damages.push(damage);
                    continue;
                }
                found => found?.ok_or_else(|| {
                    let here = self.generation();
                    Error::Invalid(format!(
                        "there is no record {key} at generation {here}; an earlier one that had it can be opened as \
                         long as it is there (generation=)"
                    ))
                })?,
            };
            if options.keys.contains(key)
                && let Some(entries) = entries.get_mut(found.segment)
            {
                entries.push(KeyEntry { key: key.clone(), stored_bytes: found.place.len, found });
            }
        }
        let (mut parts, mut len) = (Vec::new(), 0_u64);
        for (segment, entries) in self.snapshot.segments.iter().zip(entries) {
            if entries.is_empty() || !is_in_groups(&options.groups, self.group_of(segment)) {
                continue;
            }
            let mut found = Vec::with_capacity(entries.len());
            for chunk in entries.chunks(KINDS_AT_ONCE) {
                found.extend(self.places_meant(&mut chunk.to_vec(), filter)?);
            }
            found.sort_unstable();
            found.dedup();
            let mut places = Places::default();
            found.into_iter().for_each(|place| places.push(place));
            places.finish();
            let first = len;
            len += places.len() as u64;
            parts.push(Numbered { first, segment: segment.entry.id, places });
        }
        filter.check_met(self, options.stop)?;
        parts.retain(|part| part.places.len() > 0);
        Ok(Ordinals { origin: Origin::of(self, view), parts, len, damages: damages.to_vec() })
    }

    /// All files by number, listed when they are first asked for.
    ///
    /// # Errors
    /// Those of [`ordinals`](Self::ordinals).
    pub fn file_ordinals(&self, stop: Stop) -> Result<Arc<Ordinals>> {
        if let Some(numbered) = self.numbered.get() {
            return Ok(numbered.clone());
        }
        let made = Arc::new(self.ordinals(&OrdinalOptions { stop, ..OrdinalOptions::default() })?);
        Ok(self.numbered.get_or_init(|| made).clone())
    }

    /// Places of the records of a selection that begin in a range of a segment, in any order.
    /// `None` where they are too many to be sorted at once.
    fn places_in(
        &self,
        (number, range): (usize, ByteRange),
        options: &OrdinalOptions,
        view: View,
        filter: &mut FilterWalk,
        damages: &mut Damages,
    ) -> Result<Option<Vec<Place>>> {
        let segment = self.snapshot.segments.get(number);
        let is_it = |one: &Segment| segment.is_some_and(|segment| std::ptr::eq(one, segment));
        let skips = options.on_damage == OnDamage::Skip;
        let mut entries = Entries::seek(self, is_it, options.keys.clone(), view, None, skips)?;
        let (mut places, mut unsorted) = (Vec::new(), Vec::new());
        let mut passed = 0_usize;
        while let Some((key, found)) = entries.next()? {
            passed += 1;
            if passed.is_multiple_of(KINDS_AT_ONCE) {
                options.stop.check()?;
            }
            if !range.contains(found.place.offset) {
                continue;
            }
            if places.len() + unsorted.len() >= SORTED_MAX && range.len() > 1 {
                return Ok(None);
            }
            if filter.is_all() {
                places.push(found.place);
                continue;
            }
            unsorted.push(KeyEntry { key, stored_bytes: found.place.len, found });
            if unsorted.len() == KINDS_AT_ONCE {
                places.extend(self.places_meant(&mut unsorted, filter)?);
            }
        }
        places.extend(self.places_meant(&mut unsorted, filter)?);
        entries.take_skipped().into_iter().for_each(|damage| damages.push(damage));
        Ok(Some(places))
    }

    fn places_meant(&self, entries: &mut Vec<KeyEntry>, filter: &mut FilterWalk) -> Result<Vec<Place>> {
        let mut taken = self.of_kinds(std::mem::take(entries), filter.kinds())?;
        if filter.has_conditions() {
            taken = self.with_attributes(taken, &mut |attributes| filter.takes_attributes(attributes))?;
        }
        Ok(taken.into_iter().map(|entry| entry.found.place).collect())
    }

    /// The records with these ordinals, in their order, read as one batch at queue depth. Of a hard
    /// link to a file the body and its length are those of the file.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the ordinals are of another state of the pack, or one is too great;
    /// an error of reading. The inner ones are those of each record.
    pub fn get_at(&self, ordinals: &Ordinals, numbers: &[u64]) -> Result<Vec<Result<Record>>> {
        self.records_at(ordinals, numbers, |found| Gets::at(self, found)?.run())
    }

    /// The same for many that are near each other: neighbours are read at once.
    pub(super) fn get_near(&self, ordinals: &Ordinals, numbers: &[u64]) -> Result<Vec<Result<Record>>> {
        self.records_at(ordinals, numbers, |found| self.get_neighbours(found))
    }

    fn records_at(
        &self,
        ordinals: &Ordinals,
        numbers: &[u64],
        read: impl FnOnce(&[Found]) -> Result<Vec<Result<Option<Record>>>>,
    ) -> Result<Vec<Result<Record>>> {
        let view = ordinals.origin.view_in(self, KIND)?;
        let found: Result<Vec<Found>> =
            numbers.iter().map(|&number| self.found_at(ordinals, number)).collect();
        let found = found?;
        let mut records = read(&found)?;
        self.fill_links(&mut records, view.sequence_end)?;
        let unread = |found: &Found| {
            Error::Invalid(format!("there is no record at byte {} of its segment", found.place.offset))
        };
        let records = records.into_iter().zip(&found);
        Ok(records
            .map(|(record, found)| record.and_then(|record| record.ok_or_else(|| unread(found))))
            .collect())
    }

    /// The list as it was before headers of some of its records were damaged so that no index has
    /// them any more: with the broken frames near the damage that it knows. Whether these are the
    /// ones, a checksum of the earlier list has to say.
    pub(crate) fn with_broken(&self, ordinals: &Ordinals) -> Result<Ordinals> {
        let mut all = Ordinals { parts: Vec::new(), len: 0, ..ordinals.clone() };
        for part in &ordinals.parts {
            let mut places = part.places.clone();
            let segment = self.number_of(part.segment).and_then(|number| self.snapshot.segments.get(number));
            if let Some(segment) = segment {
                let (known, mut found) = (places.iter().collect::<Vec<_>>(), Vec::new());
                let (here, elsewhere): (Vec<Damage>, Vec<Damage>) = std::mem::take(&mut all.damages)
                    .into_iter()
                    .partition(|it| it.file == segment.source.path());
                all.damages = elsewhere;
                for damage in here {
                    let broken = self.broken_near(segment, &known, damage.offset)?;
                    if broken.is_empty() {
                        all.damages.push(damage);
                    }
                    found.extend(broken);
                }
                if !found.is_empty() {
                    found.extend(known);
                    found.sort_unstable();
                    found.dedup();
                    places = Places::default();
                    found.into_iter().for_each(|place| places.push(place));
                    places.finish();
                }
            }
            all.parts.push(Numbered { first: all.len, segment: part.segment, places });
            all.len += all.parts.last().map_or(0, |part| part.places.len() as u64);
        }
        Ok(all)
    }

    /// The broken frames between the two known ones that are next to a damage.
    fn broken_near(&self, segment: &Segment, known: &[Place], offset: u64) -> Result<Vec<Place>> {
        let after = known.partition_point(|place| place.offset <= offset);
        let before = after.checked_sub(1).and_then(|before| known.get(before));
        let start = before.map_or(segment.frames().start(), |place| place.offset + place.len_min());
        let end = known.get(after).map_or(segment.frames_end, |place| place.offset);
        let Some(gap) = ByteRange::new(start, end).filter(|gap| !gap.is_empty()) else {
            return Ok(Vec::new());
        };
        let mut frames = self.reader.frames(&segment.source, segment.salt, gap, Access::Cached)?;
        let mut broken = BrokenFrames { segment, places: Vec::new() };
        frames.visit(&mut broken)?;
        self.reader.take_back(frames)?;
        Ok(broken.places)
    }

    /// Whether all segments of a list of ordinals are there.
    pub(crate) fn check_places(&self, ordinals: &Ordinals) -> Result<()> {
        match ordinals.parts.iter().find(|part| self.number_of(part.segment).is_none()) {
            None => Ok(()),
            Some(part) => Err(Error::NoSuchState {
                path: self.storage.path(""),
                what: format!(
                    "segment {:016x} any more, which records of generation {} are in: the pack was compacted \
                     since",
                    part.segment, ordinals.origin.generation
                ),
            }),
        }
    }

    fn found_at(&self, ordinals: &Ordinals, number: u64) -> Result<Found> {
        let (segment, place) = ordinals.place(number).ok_or_else(|| {
            Error::Invalid(format!("there is no record {number}: there are {}, from 0 on", ordinals.len))
        })?;
        let segment = self.number_of(segment).ok_or_else(|| {
            Error::Invalid(format!("segment {segment:016x}, which record {number} is in, cannot be read"))
        })?;
        Ok(Found { segment, place })
    }
}

/// Notes where frames are that cannot be read, and that nothing says are dead.
struct BrokenFrames<'s> {
    segment: &'s Segment,
    places: Vec<Place>,
}

impl FrameVisitor for BrokenFrames<'_> {
    fn take(&mut self, frames: &mut Frames) -> Checked<()> {
        frames.step_over()
    }

    fn pass(&mut self, broken: Broken, end: u64) -> Result<()> {
        if self.segment.life(broken.frame) != Life::Dead {
            self.places.push(Place::new(broken.frame, (end - broken.frame) / 8 * 8));
        }
        Ok(())
    }
}

/// Parts of a range with about so few records each that their places can be sorted in memory, as
/// far as the index says how many there are.
fn windows(segment: &Segment, range: ByteRange) -> Vec<ByteRange> {
    let records = segment.runs.iter().fold(0_u64, |sum, run| sum.saturating_add(run.tally.records));
    // No frame is shorter than its header.
    let possible = range.len() / HEADER_LEN as u64;
    let parts = records.min(possible) / (SORTED_MAX as u64 / 2) + 1;
    let step = range.len().div_ceil(parts).max(1);
    let starts = (0..parts).map(|number| range.start().saturating_add(number.saturating_mul(step)));
    let part = |start: u64| ByteRange::new(start, start.saturating_add(step).min(range.end()));
    starts.filter_map(part).filter(|part| !part.is_empty()).collect()
}

fn halves(range: ByteRange) -> Vec<ByteRange> {
    let middle = range.start() + range.len() / 2;
    [(range.start(), middle), (middle, range.end())]
        .into_iter()
        .filter_map(|(start, end)| ByteRange::new(start, end))
        .collect()
}
