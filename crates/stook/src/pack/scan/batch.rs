//! [`RecordBatch`]: records that are read together, in the order in which they are on the medium,
//! and handed out in another.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::engine::Access;
use crate::extent::ByteRange;
use crate::pack::error::{Result, is_unreadable};
use crate::pack::key::Key;
use crate::pack::read::gather::plan_frames;
use crate::pack::state::open::Pack;
use crate::pack::state::segment::Segment;
use crate::pack::state::snapshot::Found;
use crate::plan::Plan;

/// Frames of a batch together, in bytes. A longer frame is not read in one piece.
pub(super) const BATCH_LEN: u64 = 16 << 20;

/// Reads of a batch together, gaps included.
const READ_LEN_MAX: u64 = 2 * BATCH_LEN;

/// A record to be handed out.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) found: Found,
    /// Its key, where the index was walked by keys.
    pub(super) key: Option<Key>,
    /// Which part of the plan has it, and as which of its ranges; `None` when it is too long for
    /// one piece.
    planned: Option<(usize, usize)>,
}

impl Wanted {
    pub(super) fn new(found: Found, key: Option<Key>) -> Self {
        Self { found, key, planned: None }
    }

    /// Bytes of its frame, if it is read in one piece.
    pub(super) fn whole_len(&self) -> Option<u64> {
        self.found.place.len.filter(|&len| len <= BATCH_LEN)
    }
}

/// One read, and what became of it.
struct PlannedRead<'p> {
    segment: &'p Segment,
    range: ByteRange,
    access: Access,
    begun: bool,
    result: Option<crate::Result<Bytes>>,
}

struct Part {
    plan: Plan,
    first_read: usize,
}

/// Records and the reads that give them.
pub(super) struct RecordBatch<'p> {
    pub(super) wanted: Vec<Wanted>,
    /// The next to hand out.
    pub(super) at: usize,
    parts: Vec<Part>,
    reads: Vec<PlannedRead<'p>>,
    /// Reads before this one were looked at by [`next_to_begin`](Self::next_to_begin).
    looked_at: usize,
    /// Something that was said to be in the page cache is not: nothing waits for its turn any more.
    is_cold: bool,
}

impl<'p> RecordBatch<'p> {
    /// Plans the reads. Gives the records back when these would be too many bytes for so few
    /// records.
    pub(super) fn plan(pack: &'p Pack, mut wanted: Vec<Wanted>) -> Result<Result<Self, Vec<Wanted>>> {
        let mut by_segment: BTreeMap<usize, Vec<ByteRange>> = BTreeMap::new();
        for one in &mut wanted {
            let Some(len) = one.whole_len() else { continue };
            let ranges = by_segment.entry(one.found.segment).or_default();
            one.planned = Some((one.found.segment, ranges.len()));
            ranges.push(ByteRange::at(one.found.place.offset, len).unwrap_or_default());
        }
        let (mut parts, mut reads) = (Vec::new(), Vec::new());
        let mut part_of = BTreeMap::new();
        for (number, ranges) in by_segment {
            let Some(segment) = pack.snapshot.segments.get(number) else { continue };
            part_of.insert(number, parts.len());
            let access = pack.access.decide_for(segment.source.as_ref(), &ranges);
            let plan = plan_frames(&pack.reader, segment, &ranges, access)?;
            let first_read = reads.len();
            reads.extend(plan.reads().iter().map(|&range| PlannedRead {
                segment,
                range,
                access,
                begun: false,
                result: None,
            }));
            parts.push(Part { plan, first_read });
        }
        let read_len: u64 = reads.iter().map(|read| read.range.len()).sum();
        if read_len > READ_LEN_MAX && wanted.len() > 1 {
            return Ok(Err(wanted));
        }
        for one in &mut wanted {
            one.planned = one.planned.and_then(|(segment, range)| Some((*part_of.get(&segment)?, range)));
        }
        Ok(Ok(Self { wanted, at: 0, parts, reads, looked_at: 0, is_cold: false }))
    }

    pub(super) fn reads_len(&self) -> usize {
        self.reads.len()
    }

    /// The next read to begin. Those through the page cache wait until they are needed, if `lazy`:
    /// they take no time, and what is copied too early has left the processor's caches.
    pub(super) fn next_to_begin(&mut self, lazy: bool) -> Option<(usize, &'p Segment, ByteRange, Access)> {
        let lazy = lazy && !self.is_cold;
        while let Some(read) = self.reads.get_mut(self.looked_at) {
            let number = self.looked_at;
            self.looked_at += 1;
            let waits = lazy && read.access == Access::Cached;
            if !(read.begun || waits) {
                read.begun = true;
                return Some((number, read.segment, read.range, read.access));
            }
        }
        None
    }

    /// A read that was not begun.
    pub(super) fn not_begun(&self, number: usize) -> Option<(&'p Segment, ByteRange, Access)> {
        let read = self.reads.get(number).filter(|read| !read.begun)?;
        Some((read.segment, read.range, read.access))
    }

    /// What was said to be in the page cache is not.
    pub(super) fn set_cold(&mut self) {
        (self.is_cold, self.looked_at) = (true, 0);
    }

    /// Whether a read is still to come.
    pub(super) fn is_open(&self, number: usize) -> bool {
        self.reads.get(number).is_some_and(|read| read.result.is_none())
    }

    /// A read that was begun and is still under way.
    pub(super) fn under_way(&self) -> Option<usize> {
        self.reads.iter().position(|read| read.begun && read.result.is_none())
    }

    pub(super) fn supply(&mut self, number: usize, result: crate::Result<Bytes>) {
        if let Some(read) = self.reads.get_mut(number) {
            (read.begun, read.result) = (true, Some(result));
        }
    }

    /// The first read that is still to come for the record at hand.
    pub(super) fn missing(&self) -> Option<usize> {
        let (part, range) = self.wanted.get(self.at)?.planned?;
        let part = self.parts.get(part)?;
        let reads = part.plan.pieces_of(range).iter().map(|piece| part.first_read + piece.read);
        reads.into_iter().find(|&read| self.is_open(read))
    }

    /// The frame of the record at hand, when nothing of it is missing; shorter than it should be
    /// where the frames of its segment end before. `None` for one that is not read in one piece, or
    /// cannot be.
    pub(super) fn take_frame(&mut self) -> crate::Result<Option<Bytes>> {
        let Some(planned) = self.wanted.get(self.at).and_then(|one| one.planned) else { return Ok(None) };
        let Some(part) = self.parts.get(planned.0) else { return Ok(None) };
        let pieces = part.plan.pieces_of(planned.1);
        let mut joined = Vec::new();
        for piece in pieces {
            let Some(read) = self.reads.get_mut(part.first_read + piece.read) else { continue };
            let bytes = match read.result.replace(Ok(Bytes::new())) {
                Some(Ok(bytes)) => &*read.result.insert(Ok(bytes)),
                Some(Err(error)) if is_unreadable(&error) => {
                    // Other records are in what was read along: each is read by itself, which says
                    // what is damaged.
                    read.result = Some(Err(error));
                    return Ok(None);
                }
                // It ends the scan.
                Some(Err(error)) => return Err(error),
                None => continue,
            };
            let Ok(bytes) = bytes else { continue };
            let from = piece.read_offset as usize;
            let to = (from + piece.len as usize).min(bytes.len());
            if pieces.len() == 1 {
                return Ok(Some(bytes.slice(from.min(to)..to)));
            }
            joined.extend_from_slice(bytes.get(from..to).unwrap_or_default());
        }
        Ok(Some(joined.into()))
    }
}
