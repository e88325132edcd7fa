//! Frames from many places, read together at queue depth and placed contiguously in memory in the
//! requested order.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::engine::Access;
use crate::extent::ByteRange;
use crate::pack::error::{Error, Result, is_unreadable};
use crate::pack::read::around::{Holes, read_around};
use crate::pack::read::reader::{Read, ReadBatch, Reader};
use crate::pack::state::segment::Segment;
use crate::plan::{Plan, PlanOptions};

/// Longest gap between two wanted frames that is read over out of the page cache, where every byte
/// is copied. Past it, the profile of the device says.
pub(crate) const GAP_CACHED: u64 = 4 << 10;

/// What reads from a device are aligned to.
const ALIGNMENT: u64 = 4096;

/// The reads for some frames of a segment, and where each frame is in them.
pub(crate) fn plan_frames(
    reader: &Reader,
    segment: &Segment,
    ranges: &[ByteRange],
    access: Access,
) -> Result<Plan> {
    let (max_gap, alignment) = match access {
        Access::Direct => (reader.profile().gap_bytes, ALIGNMENT),
        Access::Cached => (GAP_CACHED, 1),
    };
    let options = PlanOptions { max_gap, alignment, end: segment.frames_end, ..PlanOptions::default() };
    Plan::new(ranges, &options).map_err(|error| Error::Invalid(error.to_string()))
}

/// A frame that is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WantedFrame {
    /// Number of its segment among those given.
    pub(crate) segment: usize,
    /// Where it is.
    pub(crate) range: ByteRange,
}

/// A segment to read from, and which way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameOrigin<'a> {
    pub(crate) segment: &'a Segment,
    pub(crate) access: Access,
}

/// Bytes of frames, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    bytes: Vec<u8>,
    /// Where each of them begins, and the end.
    starts: Vec<usize>,
    /// The unreadable ranges, by segment.
    holes: BTreeMap<usize, Holes>,
}

impl Gathered {
    /// Reads the wanted frames, replacing those gathered before. Unreadable bytes are zeros, which
    /// fail every checksum: see [`explain`](Self::explain).
    ///
    /// # Errors
    /// Returns an error if reading fails.
    pub(crate) fn read(
        &mut self,
        reader: &Reader,
        origins: &[FrameOrigin<'_>],
        wanted: &[WantedFrame],
    ) -> Result<()> {
        self.starts.clear();
        let mut len = 0usize;
        for frame in wanted {
            self.starts.push(len);
            len = len.saturating_add(usize::try_from(frame.range.len()).unwrap_or(usize::MAX));
        }
        self.starts.push(len);
        self.bytes.clear();
        self.holes.clear();
        let missing = len.saturating_sub(self.bytes.capacity());
        self.bytes
            .try_reserve_exact(missing)
            .map_err(|error| Error::Invalid(format!("no memory for {len} bytes of records: {error}")))?;
        self.bytes.resize(len, 0);
        let parts = SegmentReads::plan_all(reader, origins, wanted)?;
        let mut filling =
            Filling { gathered: self, origins, parts, next: (0, 0), asked: Vec::new(), failure: None };
        reader.read_batch(&mut filling)?;
        match filling.failure.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Why one of them is damaged.
    pub(crate) fn explain(&self, origin: &FrameOrigin<'_>, wanted: WantedFrame, found: Error) -> Error {
        match self.holes.get(&wanted.segment) {
            Some(holes) => holes.explain(origin.segment.source.as_ref(), wanted.range, found),
            None => found,
        }
    }

    /// The bytes of one frame, by its position in the request.
    pub(crate) fn frame(&self, number: usize) -> &[u8] {
        let ends = self.starts.get(number).zip(self.starts.get(number + 1));
        ends.and_then(|(&start, &end)| self.bytes.get(start..end)).unwrap_or_default()
    }
}

/// The reads from one segment.
struct SegmentReads {
    /// Which of the wanted frames these are.
    numbers: Vec<usize>,
    plan: Plan,
}

impl SegmentReads {
    fn plan_all(reader: &Reader, origins: &[FrameOrigin<'_>], wanted: &[WantedFrame]) -> Result<Vec<Self>> {
        let mut numbers = vec![Vec::new(); origins.len()];
        for (number, frame) in wanted.iter().enumerate() {
            if let Some(of_segment) = numbers.get_mut(frame.segment) {
                of_segment.push(number);
            }
        }
        let plans = numbers.into_iter().zip(origins).map(|(numbers, origin)| {
            let ranges: Vec<ByteRange> =
                numbers.iter().filter_map(|&number| wanted.get(number)).map(|frame| frame.range).collect();
            let plan = plan_frames(reader, origin.segment, &ranges, origin.access)?;
            Ok(Self { numbers, plan })
        });
        plans.collect()
    }
}

/// Frames on their way.
struct Filling<'g, 'a> {
    gathered: &'g mut Gathered,
    origins: &'a [FrameOrigin<'a>],
    parts: Vec<SegmentReads>,
    /// The next read: part, number of the read.
    next: (usize, usize),
    asked: Vec<(usize, usize)>,
    failure: Option<Error>,
}

impl Filling<'_, '_> {
    fn fail(&mut self, error: crate::Error) {
        self.failure.get_or_insert(error.into());
    }
}

impl<'a> ReadBatch<'a> for Filling<'_, 'a> {
    fn next(&mut self) -> Option<Read<'a>> {
        while self.failure.is_none() {
            let (part, read) = self.next;
            let origin = self.origins.get(part)?;
            match self.parts.get(part).and_then(|part| part.plan.reads().get(read)) {
                None => self.next = (part + 1, 0),
                Some(&range) => {
                    self.next.1 += 1;
                    self.asked.push((part, read));
                    return Some((origin.segment.source.as_ref(), range, origin.access));
                }
            }
        }
        None
    }

    fn take(&mut self, number: usize, result: crate::Result<Bytes>) {
        let Some(&(number, read)) = self.asked.get(number) else { return };
        let (Some(part), Some(origin)) = (self.parts.get(number), self.origins.get(number)) else { return };
        let source = origin.segment.source.as_ref();
        let bytes = match result {
            Ok(bytes) => bytes,
            // Bytes between the frames, or another frame, must not cost the rest: unreadable bytes
            // are zeros.
            Err(error) if is_unreadable(&error) => {
                let range = part.plan.reads().get(read).copied().unwrap_or_default();
                match read_around(source, range, self.gathered.holes.entry(number).or_default()) {
                    Ok(bytes) => bytes.into(),
                    Err(error) => return self.fail(error),
                }
            }
            Err(error) => return self.fail(error),
        };
        for piece in part.plan.pieces_in(read) {
            let start = part.numbers.get(piece.wanted).and_then(|&number| self.gathered.starts.get(number));
            let Some(start) = start.map(|start| start + piece.wanted_offset as usize) else { continue };
            let (from, len) = (piece.read_offset as usize, piece.len as usize);
            let parts = self.gathered.bytes.get_mut(start..start + len).zip(bytes.get(from..from + len));
            if let Some((to, from)) = parts {
                to.copy_from_slice(from);
            }
        }
    }
}
