//! Many records by their places, most of which are next to others: neighbours are read at once.

use crate::engine::Access;
use crate::extent::ByteRange;
use crate::pack::error::Result;
use crate::pack::read::gets::{Gets, whole_frame};
use crate::pack::read::record::Record;
use crate::pack::state::open::Pack;
use crate::pack::state::segment::Segment;
use crate::pack::state::snapshot::Found;

/// One read is at most so long, bytes; longer records are read for themselves. Records of one read
/// share its memory.
const JOINED_BYTES_MAX: u64 = 1 << 20;

/// So many bytes that are not wanted are read over.
const GAP_MAX: u64 = 64 << 10;

/// A read of several frames.
struct JoinedRead {
    segment: usize,
    range: ByteRange,
    /// Which of the places are in it.
    members: Vec<usize>,
}

impl Pack {
    /// The records at these places, in their order, with an error for each that cannot be read.
    pub(in crate::pack) fn get_neighbours(&self, found: &[Found]) -> Result<Vec<Result<Option<Record>>>> {
        let mut records: Vec<Result<Option<Record>>> = found.iter().map(|_| Ok(None)).collect();
        let (reads, mut alone) = joined(found);
        let mut ranges = vec![Vec::new(); self.snapshot.segments.len()];
        for read in &reads {
            if let Some(ranges) = ranges.get_mut(read.segment) {
                ranges.push(read.range);
            }
        }
        let access = |(segment, ranges): (&Segment, &Vec<ByteRange>)| match ranges.is_empty() {
            true => Access::Cached,
            false => self.access_of_gets(segment, ranges),
        };
        let accesses: Vec<Access> = self.snapshot.segments.iter().zip(&ranges).map(access).collect();
        let known =
            |read: &JoinedRead| self.snapshot.segments.get(read.segment).zip(accesses.get(read.segment));
        let reads: Vec<_> =
            reads.into_iter().filter_map(|read| known(&read).map(|known| (read, known))).collect();
        let asked =
            reads.iter().map(|(read, (segment, access))| (segment.source.as_ref(), read.range, **access));
        let read_bytes = self.reader.read_many(asked)?;
        for ((JoinedRead { range, members, .. }, (segment, _)), bytes) in reads.iter().zip(read_bytes) {
            // What of it can be read at all, each of them says.
            let Ok(bytes) = bytes else {
                alone.extend_from_slice(members);
                continue;
            };
            for &member in members {
                let Some(found) = found.get(member) else { continue };
                let within = whole_frame(found).and_then(|frame| {
                    let from = frame.start().checked_sub(range.start())?;
                    let (from, to) = (usize::try_from(from).ok()?, usize::try_from(from + frame.len()).ok()?);
                    (to <= bytes.len()).then(|| bytes.slice(from..to))
                });
                match (within, records.get_mut(member)) {
                    (Some(frame), Some(slot)) => {
                        *slot = segment.record_in(found.place, &frame, &self.reader).map(Some);
                    }
                    _ => alone.push(member),
                }
            }
        }
        let places: Vec<Found> = alone.iter().filter_map(|&member| found.get(member).copied()).collect();
        for (member, record) in alone.into_iter().zip(Gets::at(self, &places)?.run()?) {
            if let Some(slot) = records.get_mut(member) {
                *slot = record;
            }
        }
        Ok(records)
    }
}

/// Reads for frames that are near each other, and which are read for themselves.
fn joined(found: &[Found]) -> (Vec<JoinedRead>, Vec<usize>) {
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by_key(|&number| found.get(number).map(|found| (found.segment, found.place.offset)));
    let (mut reads, mut alone) = (Vec::<JoinedRead>::new(), Vec::new());
    for number in order {
        let Some(one) = found.get(number) else { continue };
        let Some(frame) = whole_frame(one).filter(|frame| frame.len() <= JOINED_BYTES_MAX) else {
            alone.push(number);
            continue;
        };
        let last = reads.last_mut().filter(|last| {
            last.segment == one.segment
                && frame.start().saturating_sub(last.range.end()) <= GAP_MAX
                && frame.end().saturating_sub(last.range.start()) <= JOINED_BYTES_MAX
        });
        let wider = last.and_then(|last| {
            Some((ByteRange::new(last.range.start(), frame.end().max(last.range.end()))?, last))
        });
        match wider {
            Some((range, last)) => {
                last.range = range;
                last.members.push(number);
            }
            None => reads.push(JoinedRead { segment: one.segment, range: frame, members: vec![number] }),
        }
    }
    (reads, alone)
}
