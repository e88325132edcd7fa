//! Many records by key, as one batch: keys are looked up while the device reads what was found already.

use bytes::Bytes;

use super::around::read_again;
use super::error::{Error, Result};
use super::key::Key;
use super::open::Pack;
use super::reader::{Batch, Read};
use super::record::{Record, parse_record};
use super::segment::Segment;
use super::snapshot::Found;
use crate::engine::Access;
use crate::extent::ByteRange;
use crate::source::SAMPLED_RANGES;

/// Frames longer than this are not read in one piece.
const WHOLE_FRAME_MAX: u64 = 64 << 20;

/// A batch of gets on its way.
pub(super) struct Gets<'p> {
    pack: &'p Pack,
    keys: &'p [Key],
    /// Where the record of each key is, as far as they are looked up.
    found: Vec<Option<Found>>,
    /// For each read, which key it is for.
    reads: Vec<usize>,
    /// Which way each segment is read, where that is decided.
    accesses: Vec<Option<Access>>,
    records: Vec<Result<Option<Record>>>,
    /// Something failed that is no damage.
    failure: Option<Error>,
}

impl<'p> Gets<'p> {
    pub(super) fn new(pack: &'p Pack, keys: &'p [Key]) -> Result<Self> {
        let mut gets = Self {
            pack,
            keys,
            found: Vec::with_capacity(keys.len()),
            reads: Vec::with_capacity(keys.len()),
            accesses: vec![None; pack.snapshot.segments.len()],
            records: (0..keys.len()).map(|_| Ok(None)).collect(),
            failure: None,
        };
        gets.decide()?;
        Ok(gets)
    }

    /// Some of the keys say which way each segment is read.
    fn decide(&mut self) -> Result<()> {
        if self.keys.len() < SAMPLED_RANGES {
            return Ok(());
        }
        let mut sampled = vec![Vec::new(); self.accesses.len()];
        for key in self.keys.iter().step_by(self.keys.len() / SAMPLED_RANGES) {
            let found = match self.pack.find(key) {
                // It is told when it is looked up for itself.
                Err(Error::Damaged(_)) => None,
                found => found?,
            };
            let range = found.as_ref().and_then(whole_frame);
            if let Some((found, range)) = found.zip(range)
                && let Some(ranges) = sampled.get_mut(found.segment)
            {
                ranges.push(range);
            }
        }
        let segments = self.pack.snapshot.segments.iter();
        for ((segment, ranges), access) in segments.zip(&sampled).zip(&mut self.accesses) {
            if !ranges.is_empty() {
                *access = Some(self.pack.access.decide_for(segment.source.as_ref(), ranges));
            }
        }
        Ok(())
    }

    /// Reads them; in the order of the keys.
    pub(super) fn run(mut self) -> Result<Vec<Result<Option<Record>>>> {
        let pack = self.pack;
        pack.reader.read_batch(&mut self)?;
        if let Some(error) = self.failure {
            return Err(error);
        }
        for ((key, found), slot) in self.keys.iter().zip(&self.found).zip(&mut self.records) {
            // Framed bodies and very long ones come in pieces.
            if let (Some(found), Ok(None)) = (found, &slot) {
                *slot = pack.read_stream(key, *found);
            }
            if let Ok(Some(record)) = slot
                && record.head.key != *key
            {
                *slot = Err(pack.misplaced(key, record));
            }
        }
        Ok(self.records)
    }

    fn segment(&self, found: &Found) -> Option<&'p Segment> {
        self.pack.snapshot.segments.get(found.segment)
    }

    /// Which way a segment is read; where no sample has said so, the first record does.
    fn access(&mut self, segment: &Segment, number: usize, range: ByteRange) -> Access {
        let rule = self.pack.access;
        let Some(access) = self.accesses.get_mut(number) else { return Access::Cached };
        *access.get_or_insert_with(|| rule.decide(segment.source.as_ref(), range))
    }
}

/// Where the frame of a record is, if it is to be read in one piece.
fn whole_frame(found: &Found) -> Option<ByteRange> {
    let len = found.place.len.filter(|&len| len <= WHOLE_FRAME_MAX)?;
    ByteRange::at(found.place.offset, len)
}

impl<'p> Batch<'p> for Gets<'p> {
    fn next(&mut self) -> Option<Read<'p>> {
        while self.failure.is_none() {
            let number = self.found.len();
            let key = self.keys.get(number)?;
            let found = match self.pack.find(key) {
                Ok(found) => found,
                Err(error @ Error::Damaged(_)) => {
                    // It costs the keys that it hides, and no other.
                    if let Some(slot) = self.records.get_mut(number) {
                        *slot = Err(error);
                    }
                    None
                }
                Err(error) => {
                    self.failure = Some(error);
                    break;
                }
            };
            self.found.push(found);
            let Some((found, range)) = found.zip(found.as_ref().and_then(whole_frame)) else { continue };
            let Some(segment) = self.segment(&found) else { continue };
            self.reads.push(number);
            return Some((segment.source.as_ref(), range, self.access(segment, found.segment, range)));
        }
        None
    }

    fn take(&mut self, number: usize, result: crate::Result<Bytes>) {
        let key = self.reads.get(number).copied();
        let found = key.and_then(|key| self.found.get(key).copied().flatten());
        let (Some(key), Some(found)) = (key, found) else { return };
        let (Some(segment), Some(range)) = (self.segment(&found), whole_frame(&found)) else { return };
        if let (Some(slot), Some(key)) = (self.records.get_mut(key), self.keys.get(key)) {
            let read = read_again(segment.source.as_ref(), range, result);
            *slot = read
                .and_then(|bytes| parse_record(segment, found.place, &bytes))
                .map_err(|error| error.of(key));
        }
    }
}
