//! Goes through the live records of a pack: in the order in which they are on the medium, or in the
//! order of keys.
//!
//! On the medium's order records are walked frame by frame ([`walk`]), unless the index says that
//! most of them are not wanted: then, and in the order of keys, they are read by their places
//! ([`gather`]).

mod batch;
mod columns;
mod cursor;
mod entries;
mod filter;
mod gather;
mod ordinals;
mod places;
mod range;
mod rows;
mod shuffle;
mod split;
mod token;
mod view;
mod walk;

use std::collections::VecDeque;

use bytes::Bytes;

use super::damages::Damages;
use super::error::{Damage, Error, Result};
use super::key::Key;
use crate::pack::format::frame::BodyLen;
use crate::pack::read::frames::{BodySpan, Head};
use crate::pack::state::open::{Pack, is_in_groups};
use crate::pack::state::segment::Segment;
pub use columns::{
    ColumnCells, ColumnContent, ColumnData, ColumnType, TableBatch, TableColumn, TableRows, TableSource,
    WantedColumn,
};
pub use cursor::Cursor;
use cursor::Position;
use entries::AfterKey;
pub(super) use entries::Entries;
pub use filter::RecordFilter;
use gather::Gather;
pub use ordinals::{OrdinalOptions, Ordinals};
pub use range::KeyRange;
pub use rows::{Row, Rows};
pub use shuffle::lanes::ShuffleShare;
pub use shuffle::reader::{ShuffleReader, ShuffleReaderOptions};
pub use shuffle::state::ShuffleState;
pub use shuffle::{Shuffle, ShuffleOptions};
use split::Piece;
pub use split::Split;
use view::View;
use walk::{ScanFilter, SegmentSpan, Walk};

/// What to do when a record is not what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDamage {
    /// Stop with the error.
    #[default]
    Stop,
    /// Note it in [`Scan::damages`] and continue after it.
    Skip,
}

/// In which order records are handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScanOrder {
    /// As they are on the medium: at the speed of the device, whatever was written in which order.
    #[default]
    Disk,
    /// By key. Records are read some MiB ahead, in the order of the medium, so that a pack that was
    /// written in the order of its keys is read nearly as fast.
    Key,
}

/// Which records, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScanOptions {
    /// Only these groups; all if empty.
    pub groups: Vec<String>,
    /// What to do about damage.
    pub on_damage: OnDamage,
    /// In which order.
    pub order: ScanOrder,
    /// Only keys in this range.
    pub keys: KeyRange,
    /// Asked where a record may be long in coming.
    pub stop: Stop,
}

/// Says whether to stop; never, if nothing else is given. What is stopped returns
/// [`Error::Stopped`].
#[derive(Clone, Copy)]
pub struct Stop(pub fn() -> bool);

impl Stop {
    /// Whether to continue.
    pub(crate) fn goes_on(self) -> bool {
        !(self.0)()
    }

    pub(crate) fn check(self) -> Result<()> {
        if self.goes_on() { Ok(()) } else { Err(Error::Stopped) }
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self(|| false)
    }
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stop")
    }
}

/// It says nothing of what is gone through.
impl PartialEq for Stop {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Stop {}

/// A walk over live records; made by [`Pack::scan`].
pub struct Scan<'p> {
    pack: &'p Pack,
    options: ScanOptions,
    filter: ScanFilter,
    /// The split that it goes through, if it is one.
    pieces: Option<Vec<Piece>>,
    /// What was not begun yet, in the order of the medium.
    spans: VecDeque<SegmentSpan<'p>>,
    /// A walk by keys that was not begun yet.
    by_key: Option<Option<AfterKey>>,
    current: Option<Current<'p>>,
    position: Position,
    /// What `next` returned last.
    lent: Option<RecordAt>,
    /// After an error that is not to be skipped there is nothing more to come.
    failed: bool,
    damages: Damages,
    bytes_passed: u64,
}

enum Current<'p> {
    Walk(Box<Walk<'p>>),
    Gather(Box<Gather<'p>>),
}

/// A record of a scan. Everything it shows has been verified.
pub struct ScanRecord<'a> {
    head: &'a Head,
    body: LentBody<'a>,
    segment: &'a Segment,
}

enum LentBody<'a> {
    Whole(&'a [u8]),
    Long,
}

/// What [`Scan::next`] stands at.
#[derive(Debug, Clone, Copy)]
enum RecordAt {
    Whole(BodySpan),
    Long,
}

impl Pack {
    /// Refuses a pack with known damage, unless that is passed over: records may be hidden by it,
    /// so that the rest is not all that was asked for.
    ///
    /// # Errors
    /// [`Error::Damaged`], with the first damage.
    pub(crate) fn check_whole(&self, on_damage: OnDamage) -> Result<()> {
        match (on_damage, self.damages().first()) {
            (OnDamage::Stop, Some(damage)) => Err(Error::Damaged(damage.clone())),
            _ => Ok(()),
        }
    }

    /// Goes through live records.
    pub fn scan(&self, options: ScanOptions) -> Scan<'_> {
        Scan::new(self, options, self.view(), None, &Position::Start)
    }

    /// Number of a segment in the snapshot.
    fn number_of(&self, segment: u64) -> Option<usize> {
        self.snapshot.segments.iter().position(|known| known.entry.id == segment)
    }

    /// This pack as it is seen now.
    fn view(&self) -> View {
        View { sequence_end: self.snapshot.manifest.sequence_next }
    }
}

impl<'p> Scan<'p> {
    fn new(
        pack: &'p Pack,
        options: ScanOptions,
        view: View,
        pieces: Option<Vec<Piece>>,
        position: &Position,
    ) -> Self {
        let filter =
            ScanFilter { keys: options.keys.clone(), view, on_damage: options.on_damage, stop: options.stop };
        let by_key = (options.order == ScanOrder::Key).then(|| position.after_key(pack));
        let mut scan = Self {
            pack,
            options,
            filter,
            pieces,
            spans: VecDeque::new(),
            by_key,
            current: None,
            position: position.clone(),
            lent: None,
            failed: false,
            damages: Damages::default(),
            bytes_passed: 0,
        };
        if *position == Position::End {
            scan.by_key = None;
        } else if scan.options.order == ScanOrder::Disk {
            scan.spans = scan.all_spans();
            scan.go_to(position);
        }
        scan
    }

    fn is_wanted(&self, segment: &Segment) -> bool {
        is_in_groups(&self.options.groups, self.pack.group_of(segment))
    }

    /// Everything it is to go through, in the order of the medium.
    fn all_spans(&self) -> VecDeque<SegmentSpan<'p>> {
        let segments = self.pack.snapshot.segments.iter().enumerate();
        let segments = segments.filter(|(_, segment)| self.is_wanted(segment));
        let spans = segments.flat_map(|(number, segment)| {
            let ranges = match &self.pieces {
                None => vec![segment.frames()],
                Some(pieces) => split::ranges_in(pieces, segment),
            };
            let span = move |range| SegmentSpan { number, segment, range, after: None };
            ranges.into_iter().map(span)
        });
        spans.filter(|span| !span.range.is_empty()).collect()
    }

    /// Leaves out what was handed out up to here.
    fn go_to(&mut self, position: &Position) {
        let Position::Disk { segment, offset } = position else { return };
        let Some(number) = self.pack.number_of(*segment) else { return };
        while let Some(first) = self.spans.front_mut() {
            if (first.number, first.range.end()) > (number, *offset) {
                let is_within = first.number == number && *offset >= first.range.start();
                first.after = is_within.then_some(*offset);
                break;
            }
            self.spans.pop_front();
        }
    }

    /// Asks this where a record may be long in coming, as [`ScanOptions::stop`] has it: a cursor
    /// does not know whom to ask.
    pub fn with_stop(mut self, stop: Stop) -> Self {
        self.filter.stop = stop;
        self
    }

    /// The contents of the files that hard links lead to which it handed out: of each its segment
    /// and offset, its key, and its body. Where one leads to no file, or to one that is damaged,
    /// that is an error, or, where damage is skipped, listed in [`damages`](Self::damages), and
    /// `None`.
    ///
    /// # Errors
    /// What reading meets.
    pub fn contents_of(&mut self, names: &[(u64, u64, Key, Bytes)]) -> Result<Vec<Option<Bytes>>> {
        let firsts: Vec<(Key, Bytes)> =
            names.iter().map(|(.., key, first)| (key.clone(), first.clone())).collect();
        let contents = self.pack.contents_before(&firsts, self.filter.view.sequence_end)?;
        let mut found = Vec::with_capacity(names.len());
        for ((segment, offset, key, _), content) in names.iter().zip(contents) {
            let damage = match content {
                Ok(content) => {
                    found.push(Some(content));
                    continue;
                }
                Err(error) if self.options.on_damage == OnDamage::Stop => return Err(error),
                Err(Error::Damaged(damage)) => damage,
                Err(error @ (Error::Invalid(_) | Error::Limit { .. })) => {
                    self.pack.lost_link(*segment, *offset, key.clone(), &error)
                }
                Err(error) => return Err(error),
            };
            self.damages.push(damage);
            found.push(None);
        }
        Ok(found)
    }

    /// Damage that was skipped so far.
    pub fn damages(&self) -> &[Damage] {
        &self.damages
    }

    /// Bytes gone through so far, heads included: of segments, or, where records are read by their
    /// places, of the frames that were handed out.
    pub fn bytes_passed(&self) -> u64 {
        self.bytes_passed + self.current.as_ref().map_or(0, Current::passed)
    }

    /// Where it is: right after the record that was returned last. [`Pack::scan_from`] continues
    /// from there, in another process too.
    pub fn cursor(&self) -> Cursor {
        Cursor::new(self)
    }

    /// The next record; `None` after the last. A long body that was not read is stepped over.
    ///
    /// # Errors
    /// [`Error::Damaged`] unless damage is skipped, what reading meets.
    #[expect(clippy::should_implement_trait, reason = "a record lends from the scan, which no Iterator can")]
    pub fn next(&mut self) -> Result<Option<ScanRecord<'_>>> {
        self.lent = None;
        let at = match self.advance() {
            Ok(Some(at)) => at,
            Ok(None) => {
                if !self.failed {
                    self.position = Position::End;
                }
                return Ok(None);
            }
            Err(error) => {
                self.failed = true;
                return Err(error);
            }
        };
        let Some(record) = self.current.as_ref().and_then(|current| current.record(at)) else {
            return Ok(None);
        };
        (self.position, self.lent) = (Position::after(&record, self.options.order), Some(at));
        Ok(Some(record))
    }

    fn advance(&mut self) -> Result<Option<RecordAt>> {
        loop {
            if self.failed {
                self.bytes_passed += self.current.take().map_or(0, |current| current.passed());
                return Ok(None);
            }
            if self.current.is_none() {
                self.current = self.open_next()?;
            }
            let Some(current) = &mut self.current else { return Ok(None) };
            let found = match current {
                Current::Walk(walk) => walk.advance(&self.filter, &mut self.damages)?,
                Current::Gather(gather) => gather.advance(&self.filter, &mut self.damages)?,
            };
            if found.is_some() {
                return Ok(found);
            }
            self.close()?;
        }
    }

    fn open_next(&mut self) -> Result<Option<Current<'p>>> {
        if let Some(after) = self.by_key.take() {
            let within = self
                .pieces
                .is_some()
                .then(|| self.all_spans().iter().map(|span| (span.number, span.range)).collect());
            let wanted = |segment: &Segment| self.is_wanted(segment);
            let gather = Gather::by_key(self.pack, wanted, within, &self.filter, after)?;
            return Ok(Some(Current::Gather(Box::new(gather))));
        }
        let Some(span) = self.spans.pop_front() else { return Ok(None) };
        // Where most is not wanted, the index says what is.
        let entry = &span.segment.entry;
        let by_place = !self.filter.keys.is_all() || entry.dead_bytes > span.segment.frames().len() / 2;
        if by_place && let Some(gather) = Gather::by_place(self.pack, &span, &self.filter)? {
            return Ok(Some(Current::Gather(Box::new(gather))));
        }
        Ok(Some(Current::Walk(Box::new(Walk::new(self.pack, span)?))))
    }

    fn close(&mut self) -> Result<()> {
        let Some(current) = self.current.take() else { return Ok(()) };
        self.bytes_passed += current.passed();
        match current {
            Current::Walk(walk) => walk.close(),
            Current::Gather(gather) => gather.close(),
        }
    }

    /// The body of the record that `next` gave, if it is whole.
    pub(crate) fn whole_body(&self) -> Option<&[u8]> {
        self.current.as_ref()?.record(self.lent?)?.body()
    }

    /// The next piece of the long body of the record that `next` gave; `None` after the last.
    ///
    /// # Errors
    /// As [`next`](Self::next), whatever is to be done about damage: what was handed out of the
    /// record is not all of it.
    pub fn next_chunk(&mut self) -> Result<Option<&[u8]>> {
        let chunk = match &mut self.current {
            None => Ok(None),
            Some(Current::Walk(walk)) => walk.next_chunk(&self.filter),
            Some(Current::Gather(gather)) => gather.next_chunk(),
        };
        if let Err(error) = &chunk {
            // Damage that is to be skipped ends this record only.
            self.failed |= error.damage().is_none() || self.filter.on_damage == OnDamage::Stop;
        }
        chunk
    }
}

impl Current<'_> {
    fn passed(&self) -> u64 {
        match self {
            Self::Walk(walk) => walk.passed(),
            Self::Gather(gather) => gather.passed(),
        }
    }

    fn record(&self, at: RecordAt) -> Option<ScanRecord<'_>> {
        let (segment, head, body) = match self {
            Self::Walk(walk) => {
                let body = match at {
                    RecordAt::Whole(span) => LentBody::Whole(walk.frames().view(span).1),
                    RecordAt::Long => LentBody::Long,
                };
                (walk.segment(), walk.head(), body)
            }
            Self::Gather(gather) => {
                let (segment, head) = gather.current()?;
                let body = match at {
                    RecordAt::Whole(span) => LentBody::Whole(gather.body(span)),
                    RecordAt::Long => LentBody::Long,
                };
                (segment, head, body)
            }
        };
        Some(ScanRecord { head, body, segment })
    }
}

impl<'a> ScanRecord<'a> {
    /// The key.
    pub fn key(&self) -> Option<Key> {
        self.head.key()
    }

    /// The attributes, encoded.
    pub fn attributes(&self) -> &'a [u8] {
        &self.head.attributes
    }

    /// The whole body, or `None` when it is long: then [`Scan::next_chunk`] gives it in pieces.
    pub fn body(&self) -> Option<&'a [u8]> {
        match self.body {
            LentBody::Whole(body) => Some(body),
            LentBody::Long => None,
        }
    }

    /// How many bytes the body has; `None` when only its end shows it.
    pub fn body_len(&self) -> Option<u64> {
        match self.head.header.body {
            BodyLen::Known(len) => Some(len),
            BodyLen::Framed => None,
        }
    }

    /// The sequence number.
    pub fn sequence(&self) -> u64 {
        self.head.header.sequence
    }

    /// When it was put, ns.
    pub fn time_ns(&self) -> i64 {
        self.head.header.time_ns
    }

    /// Id of the segment it is in.
    pub fn segment(&self) -> u64 {
        self.segment.entry.id
    }

    /// Offset of its frame.
    pub fn offset(&self) -> u64 {
        self.head.offset
    }
}
