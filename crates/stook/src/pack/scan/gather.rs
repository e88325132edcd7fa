//! Records by their places in the index: read in the order in which they are on the medium, a batch
//! at a time, and handed out in the order in which they are wanted.
//!
//! While one batch is handed out the next is being read.

use std::collections::VecDeque;

use bytes::Bytes;

use super::batch::{BATCH_LEN, RecordBatch, Wanted};
use super::entries::{AfterKey, Entries};
use super::walk::{ScanFilter, SegmentSpan};
use super::{OnDamage, RecordAt};
use crate::engine::Access;
use crate::extent::ByteRange;
use crate::pack::damages::Damages;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::frame::FrameHeader;
use crate::pack::format::index::Place;
use crate::pack::key::Key;
use crate::pack::read::frames::{BodySpan, Frames, Head};
use crate::pack::read::reader::read_if_cached;
use crate::pack::read::record::{checked_head, verify_body};
use crate::pack::state::open::Pack;
use crate::pack::state::segment::Segment;
use crate::pack::state::snapshot::Found;
use crate::source::Session;

/// Batches that are planned: the one that is handed out, and the next.
const BATCHES: usize = 2;

/// Records of a batch at first, and at most.
const RECORDS_FIRST: usize = 1024;
const RECORDS_MAX: usize = 64 << 10;

/// Places of one segment that are sorted in memory; of more, the frames are walked.
const SORTED_MAX: usize = 4 << 20;

/// What is to be read, in the order in which it is handed out.
enum Order<'p> {
    Keys(Box<Entries<'p>>),
    /// Of one segment.
    Places(usize, std::vec::IntoIter<Place>),
}

/// Hands out records by their places.
pub(super) struct Gather<'p> {
    pack: &'p Pack,
    order: Order<'p>,
    /// Only records in these spans, by the number of the segment; all where there is none.
    within: Option<Vec<(usize, ByteRange)>>,
    /// Taken from the order, and in no batch yet.
    waiting: VecDeque<Wanted>,
    batches: VecDeque<RecordBatch<'p>>,
    /// Reads of batches that are gone.
    tokens_gone: u64,
    session: Option<Session>,
    /// How many records the next batch may have.
    records_max: usize,
    current: GatheredRecord<'p>,
    passed: u64,
}

/// The record that was handed out last.
enum GatheredRecord<'p> {
    None,
    Whole(&'p Segment, Head, Bytes),
    /// Its frame, which is walked; whether a long body was not read to its end.
    Framed(&'p Segment, Box<Frames>, bool),
}

impl<'p> Gather<'p> {
    /// In the order of keys. `within` are the only spans to look at, if there are any.
    pub(super) fn by_key(
        pack: &'p Pack,
        wanted: impl Fn(&Segment) -> bool,
        within: Option<Vec<(usize, ByteRange)>>,
        filter: &ScanFilter,
        after: Option<AfterKey>,
    ) -> Result<Self> {
        let skips = filter.on_damage == OnDamage::Skip;
        let entries = Entries::seek(pack, wanted, filter.keys.clone(), filter.view, after, skips)?;
        Ok(Self::new(pack, Order::Keys(Box::new(entries)), within))
    }

    /// The records of a span that the index names, in the order in which they are there. `None`
    /// when it is better to look at the frames: they are too many, or some are refused.
    pub(super) fn by_place(
        pack: &'p Pack,
        span: &SegmentSpan<'p>,
        filter: &ScanFilter,
    ) -> Result<Option<Self>> {
        let is_it = |segment: &Segment| std::ptr::eq(segment, span.segment);
        let mut entries = Entries::seek(pack, is_it, filter.keys.clone(), filter.view, None, false)?;
        let mut places = Vec::new();
        loop {
            let found = match entries.next() {
                Ok(Some((_, found))) => found,
                Ok(None) => break,
                // Some are refused: the frames are walked, which reports each.
                Err(Error::Damaged(_)) => return Ok(None),
                Err(error) => return Err(error),
            };
            let is_new = span.after.is_none_or(|after| found.place.offset > after);
            if is_new && span.range.contains(found.place.offset) {
                if places.len() == SORTED_MAX {
                    return Ok(None);
                }
                places.push(found.place);
            }
        }
        places.sort_unstable_by_key(|place| place.offset);
        Ok(Some(Self::new(pack, Order::Places(span.number, places.into_iter()), None)))
    }

    fn new(pack: &'p Pack, order: Order<'p>, within: Option<Vec<(usize, ByteRange)>>) -> Self {
        Self {
            pack,
            order,
            within,
            waiting: VecDeque::new(),
            batches: VecDeque::new(),
            tokens_gone: 0,
            session: None,
            records_max: RECORDS_FIRST,
            current: GatheredRecord::None,
            passed: 0,
        }
    }

    pub(super) fn close(mut self) -> Result<()> {
        self.drop_current()?;
        if let Some(mut session) = self.session.take() {
            while session.next().is_some() {}
            self.pack.reader.give_back_session(session);
        }
        Ok(())
    }

    /// Bytes of the frames that were handed out.
    pub(super) fn passed(&self) -> u64 {
        self.passed
    }

    /// The record at hand.
    pub(super) fn current(&self) -> Option<(&'p Segment, &Head)> {
        match &self.current {
            GatheredRecord::None => None,
            GatheredRecord::Whole(segment, head, _) => Some((segment, head)),
            GatheredRecord::Framed(segment, frames, _) => Some((segment, frames.head())),
        }
    }

    /// Its body.
    pub(super) fn body(&self, span: BodySpan) -> &[u8] {
        match &self.current {
            GatheredRecord::None => &[],
            GatheredRecord::Whole(_, _, body) => body,
            GatheredRecord::Framed(_, frames, _) => frames.view(span).1,
        }
    }

    /// The next record; `None` after the last. Damage is noted, if it is to be skipped.
    pub(super) fn advance(&mut self, filter: &ScanFilter, damages: &mut Damages) -> Result<Option<RecordAt>> {
        self.drop_current()?;
        loop {
            self.plan(filter, damages)?;
            if self.batches.is_empty() {
                return Ok(None);
            }
            let found = self.take_next(filter);
            match found {
                Ok(Some(at)) => return Ok(Some(at)),
                Ok(None) => {}
                Err(Error::Damaged(damage)) if filter.on_damage == OnDamage::Skip => {
                    damages.push(damage);
                    filter.stop.check()?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn drop_current(&mut self) -> Result<()> {
        if let GatheredRecord::Framed(_, frames, _) =
            std::mem::replace(&mut self.current, GatheredRecord::None)
        {
            self.pack.reader.take_back(*frames)?;
        }
        Ok(())
    }

    /// Keeps batches planned and reads under way.
    fn plan(&mut self, filter: &ScanFilter, damages: &mut Damages) -> Result<()> {
        while let Some(batch) = self.batches.front()
            && batch.at >= batch.wanted.len()
        {
            // What was not waited for is still on its way; its token must not be taken for another.
            while let Some(number) = self.batches.front().and_then(RecordBatch::under_way) {
                self.wait_for(number)?;
            }
            let gone = self.batches.pop_front();
            self.tokens_gone += gone.map_or(0, |batch| batch.reads_len() as u64);
        }
        while self.batches.len() < BATCHES && self.add_batch(filter, damages)? {}
        self.begin_reads()
    }

    /// Takes what comes next into a batch; whether there was something.
    fn add_batch(&mut self, filter: &ScanFilter, damages: &mut Damages) -> Result<bool> {
        let mut wanted = Vec::new();
        let mut len = 0_u64;
        while wanted.len() < self.records_max && len < BATCH_LEN {
            let next = match self.waiting.pop_front() {
                Some(waiting) => Some(waiting),
                None => self.next_wanted(filter, damages)?,
            };
            let Some(next) = next else { break };
            len += next.whole_len().unwrap_or(0);
            wanted.push(next);
        }
        if wanted.is_empty() {
            return Ok(false);
        }
        let full = wanted.len() == self.records_max;
        loop {
            let pack = self.pack;
            match RecordBatch::plan(pack, wanted)? {
                Ok(batch) => {
                    if full && self.records_max == batch.wanted.len() {
                        self.records_max = (self.records_max * 2).min(RECORDS_MAX);
                    }
                    self.batches.push_back(batch);
                    return Ok(true);
                }
                Err(mut too_many) => {
                    let half = too_many.len().div_ceil(2);
                    too_many.drain(half..).rev().for_each(|one| self.waiting.push_front(one));
                    self.records_max = half;
                    wanted = too_many;
                }
            }
        }
    }

    fn next_wanted(&mut self, filter: &ScanFilter, damages: &mut Damages) -> Result<Option<Wanted>> {
        loop {
            match &mut self.order {
                Order::Places(segment, places) => {
                    let segment = *segment;
                    return Ok(places.next().map(|place| Wanted::new(Found { segment, place }, None)));
                }
                Order::Keys(entries) => {
                    let next = entries.next();
                    damages.extend(entries.take_skipped());
                    let Some((key, found)) = next? else { return Ok(None) };
                    debug_assert!(filter.keys.contains(&key), "the walk was of these keys");
                    if self.within.as_ref().is_none_or(|within| is_within(within, found)) {
                        return Ok(Some(Wanted::new(found, Some(key))));
                    }
                }
            }
        }
    }

    /// Gives the session as much as it takes.
    fn begin_reads(&mut self) -> Result<()> {
        let lazy = self.pack.reader.may_bypass();
        let mut first = self.tokens_gone;
        for batch in &mut self.batches {
            while !self.session.as_ref().is_some_and(Session::is_full) {
                let Some((number, segment, range, access)) = batch.next_to_begin(lazy) else { break };
                let session = match &mut self.session {
                    Some(session) => session,
                    none => none.insert(self.pack.reader.session()?),
                };
                let token = first + number as u64;
                if let Err(error) = session.submit(token, segment.source.as_ref(), range, access) {
                    batch.supply(number, Err(error));
                }
            }
            first += batch.reads_len() as u64;
        }
        Ok(())
    }

    /// Waits for a read of the first batch.
    fn wait_for(&mut self, number: usize) -> Result<()> {
        while let Some(batch) = self.batches.front_mut().filter(|batch| batch.is_open(number)) {
            if let Some((segment, range, access)) = batch.not_begun(number) {
                if let Some(bytes) = read_if_cached(segment.source.as_ref(), range, access) {
                    batch.supply(number, Ok(bytes));
                    break;
                }
                if access == Access::Cached {
                    // It left the page cache, or is half there: from now on reads run ahead.
                    batch.set_cold();
                }
                self.begin_reads()?;
            }
            let next = self.session.as_mut().and_then(Session::next);
            if let Some((token, result)) = next {
                self.take(token, result);
                self.begin_reads()?;
            } else if self.batches.front().is_some_and(|batch| batch.is_open(number)) {
                return Err(Error::Invalid("a read of a scan was lost".into()));
            }
        }
        Ok(())
    }

    /// What became of a read, of whichever batch.
    fn take(&mut self, token: u64, result: crate::Result<Bytes>) {
        let mut number = (token - self.tokens_gone) as usize;
        for batch in &mut self.batches {
            if number < batch.reads_len() {
                return batch.supply(number, result);
            }
            number -= batch.reads_len();
        }
    }

    /// The record at hand in the first batch; `None` when it does not count.
    fn take_next(&mut self, filter: &ScanFilter) -> Result<Option<RecordAt>> {
        while let Some(number) = self.batches.front().and_then(RecordBatch::missing) {
            self.wait_for(number)?;
        }
        let Some(batch) = self.batches.front_mut() else { return Ok(None) };
        let frame = batch.take_frame();
        let wanted = batch.wanted.get_mut(batch.at).map(|wanted| (wanted.found, wanted.key.take()));
        batch.at += 1;
        let Some((found, key)) = wanted else { return Ok(None) };
        let Some(segment) = self.pack.snapshot.segments.get(found.segment) else { return Ok(None) };
        self.passed = self.passed.saturating_add(found.place.len.unwrap_or(0));
        match frame? {
            Some(bytes) => self.show_whole(segment, found, key, bytes, filter),
            None => {
                let frames = segment.open_record(found.place, &self.pack.reader, self.pack.access);
                self.show_framed(segment, found, key, frames, filter)
            }
        }
    }

    fn show_whole(
        &mut self,
        segment: &'p Segment,
        found: Found,
        key: Option<Key>,
        bytes: Bytes,
        filter: &ScanFilter,
    ) -> Result<Option<RecordAt>> {
        let place = found.place;
        let (header, found_key, attributes) =
            checked_head(segment, place, &bytes).map_err(|error| with_key(error, key.as_ref()))?;
        if !self.counts(segment, found, &header, key.as_ref(), &found_key, filter)? {
            return Ok(None);
        }
        let attributes = attributes.to_vec();
        let Some(body) = verify_body(segment, place, &header, &found_key, &bytes)? else {
            let frames = segment.open_held_record(place, bytes, &self.pack.reader);
            return self.show_framed(segment, found, key, frames, filter);
        };
        let stored = found_key.stored().as_ref().to_vec();
        let head = Head { offset: place.offset, header, key: stored, attributes };
        let span = BodySpan { offset: 0, len: body.len() };
        self.current = GatheredRecord::Whole(segment, head, body);
        Ok(Some(RecordAt::Whole(span)))
    }

    fn show_framed(
        &mut self,
        segment: &'p Segment,
        found: Found,
        key: Option<Key>,
        opened: Result<Frames>,
        filter: &ScanFilter,
    ) -> Result<Option<RecordAt>> {
        let mut frames = opened.map_err(|error| with_key(error, key.as_ref()))?;
        let Some(found_key) = frames.head().key() else {
            return Err(damaged(segment, found, key, "the index names a frame that is no record"));
        };
        let header = frames.head().header;
        if !self.counts(segment, found, &header, key.as_ref(), &found_key, filter)? {
            return Ok(None);
        }
        let at = match frames.whole_body().map_err(|trouble| trouble.into_error(segment.source.path()))? {
            Some(span) => RecordAt::Whole(span),
            None => RecordAt::Long,
        };
        let unfinished = matches!(at, RecordAt::Long);
        self.current = GatheredRecord::Framed(segment, Box::new(frames), unfinished);
        Ok(Some(at))
    }

    /// Whether the record is one of those that were asked for.
    fn counts(
        &self,
        segment: &Segment,
        found: Found,
        header: &FrameHeader,
        wanted: Option<&Key>,
        key: &Key,
        filter: &ScanFilter,
    ) -> Result<bool> {
        let as_named = wanted.map_or_else(|| filter.keys.contains(key), |wanted| wanted == key);
        if !as_named {
            let what = format!("the index names this place for another key, here is {key}");
            return Err(damaged(segment, found, wanted.cloned(), &what));
        }
        Ok(header.live && filter.view.has(header.sequence))
    }

    /// The next piece of the long body at hand; `None` after the last.
    pub(super) fn next_chunk(&mut self) -> Result<Option<&[u8]>> {
        let GatheredRecord::Framed(_, frames, unfinished) = &mut self.current else { return Ok(None) };
        if !*unfinished {
            return Ok(None);
        }
        match frames.next_of_record() {
            Ok(Some(span)) => Ok(Some(frames.view(span).1)),
            ended => {
                *unfinished = false;
                ended.map(|_| None)
            }
        }
    }
}

fn is_within(within: &[(usize, ByteRange)], found: Found) -> bool {
    within.iter().any(|(number, range)| *number == found.segment && range.contains(found.place.offset))
}

/// Damage of a frame whose key only the index has.
fn with_key(error: Error, key: Option<&Key>) -> Error {
    match error {
        Error::Damaged(damage) if damage.key.is_none() => {
            Error::Damaged(Damage { key: key.cloned(), ..damage })
        }
        other => other,
    }
}

fn damaged(segment: &Segment, found: Found, key: Option<Key>, what: &str) -> Error {
    let file = segment.source.path().to_path_buf();
    Error::Damaged(Damage { file, offset: found.place.offset, key, what: what.into(), cause: None })
}
