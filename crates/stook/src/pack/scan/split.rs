//! [`Split`]: a part of a pack, for scans by several threads or processes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::cursor::Position;
use super::token::{self, Origin};
use super::view::View;
use super::{Scan, ScanOptions};
use crate::engine::Access;
use crate::extent::ByteRange;
use crate::pack::error::{Error, Result};
use crate::pack::format::frame::FrameKind;
use crate::pack::index::run::RunCursor;
use crate::pack::read::frames::{Frames, Step};
use crate::pack::read::window::{Window, WindowOptions};
use crate::pack::state::open::{Pack, is_in_groups};
use crate::pack::state::segment::Segment;

const KIND: &str = "split";

/// So far from where a boundary should be a frame is looked for; then records are so long that the
/// index knows where they are with less effort.
const SEARCH_LEN: u64 = 4 << 20;

/// The ring in which it is looked for: long enough for any header, and no more read ahead than
/// needed.
const SEARCH_BLOCK_LEN: usize = 128 << 10;
const SEARCH_BLOCKS: usize = 6;

/// A span of a segment that begins and ends where records do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Piece {
    segment: u64,
    from: u64,
    to: u64,
}

/// A part of a pack: every record is in exactly one of the parts that [`Pack::splits`] gives. Its
/// text (`to_string`, `parse`, or serde) can be handed to another process.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Split {
    body: SplitBody,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct SplitBody {
    #[serde(flatten)]
    origin: Origin,
    pieces: Vec<Piece>,
}

impl Split {
    /// Bytes of segments in it, dead records included.
    pub fn bytes(&self) -> u64 {
        self.body.pieces.iter().map(|piece| piece.to.saturating_sub(piece.from)).sum()
    }

    /// What of a segment is in it.
    pub(super) fn ranges_in(&self, segment: &Segment) -> Vec<ByteRange> {
        ranges_in(&self.body.pieces, segment)
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&token::write(KIND, &self.body))
    }
}

impl FromStr for Split {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(Self { body: token::read(KIND, text)? })
    }
}

impl TryFrom<String> for Split {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Split> for String {
    fn from(split: Split) -> Self {
        split.to_string()
    }
}

impl Pack {
    /// Cuts what a scan of these groups (all if empty) goes through into `count` parts of about the
    /// same length, or fewer: none is cut within a record, and none is empty.
    ///
    /// # Errors
    /// What reading segments and indexes meets. Damage is no error: it only moves a boundary.
    pub fn splits(&self, count: usize, groups: &[String]) -> Result<Vec<Split>> {
        self.check_groups(groups)?;
        let segments: Vec<&Segment> = self
            .snapshot
            .segments
            .iter()
            .filter(|segment| is_in_groups(groups, self.group_of(segment)))
            .collect();
        let total: u64 = segments.iter().map(|segment| segment.frames().len()).sum();
        let count = count.max(1) as u64;
        let mut parts: Vec<Vec<Piece>> = vec![Vec::new()];
        let mut passed = 0_u64;
        for segment in segments {
            let range = segment.frames();
            // Where parts should end in this segment; one that ends where the segment does is no
            // cut.
            let ends =
                (1..count).map(|number| (u128::from(total) * u128::from(number) / u128::from(count)) as u64);
            let wanted: Vec<u64> = ends
                .filter(|end| (passed..passed + range.len()).contains(end))
                .map(|end| range.start() + (end - passed))
                .collect();
            passed += range.len();
            let mut from = range.start();
            for to in self.boundaries(segment, &wanted)? {
                push(&mut parts, Piece { segment: segment.entry.id, from, to });
                parts.push(Vec::new());
                from = to;
            }
            push(&mut parts, Piece { segment: segment.entry.id, from, to: range.end() });
        }
        let origin = Origin::of(self, self.view());
        let split = |pieces| Split { body: SplitBody { origin: origin.clone(), pieces } };
        Ok(parts.into_iter().filter(|pieces| !pieces.is_empty()).map(split).collect())
    }

    /// Goes through the live records of a split, in the order in which they are on the medium or by
    /// key. Groups and keys of the options narrow it further.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the split is of another pack or another generation.
    pub fn scan_split(&self, split: &Split, options: ScanOptions) -> Result<Scan<'_>> {
        let view = self.view_of(split)?;
        Ok(Scan::new(self, options, view, Some(split.body.pieces.clone()), &Position::Start))
    }

    /// What is seen of this pack in a split, which has to be one of it.
    pub(super) fn view_of(&self, split: &Split) -> Result<View> {
        let view = split.body.origin.view_in(self, KIND)?;
        check_pieces(self, &split.body.pieces)?;
        Ok(view)
    }

    /// The first record at or after each of these offsets, which rise. One for which none is
    /// known is left out.
    fn boundaries(&self, segment: &Segment, wanted: &[u64]) -> Result<Vec<u64>> {
        let mut found = Vec::with_capacity(wanted.len());
        let mut far = Vec::new();
        for &at in wanted {
            match self.record_near(segment, at) {
                Ok(Some(boundary)) => found.push(boundary),
                Ok(None) => far.push(at),
                Err(Error::Damaged(_)) => {}
                Err(error) => return Err(error),
            }
        }
        match self.records_after(segment, &far) {
            Ok(boundaries) => found.extend(boundaries),
            Err(Error::Damaged(_)) => {}
            Err(error) => return Err(error),
        }
        found.sort_unstable();
        found.dedup();
        found.retain(|at| segment.frames().contains(*at));
        Ok(found)
    }

    /// The first record at or shortly after an offset. What looks like a frame may be part of a
    /// body; the index knows.
    fn record_near(&self, segment: &Segment, at: u64) -> Result<Option<u64>> {
        let range = segment.frames();
        if at <= range.start() {
            return Ok(Some(range.start()));
        }
        let Some(rest) = ByteRange::new(at, range.end()) else { return Ok(None) };
        let limit = at.saturating_add(SEARCH_LEN);
        let options = WindowOptions {
            block_len: SEARCH_BLOCK_LEN,
            blocks: SEARCH_BLOCKS,
            route: Access::Cached.into(),
        };
        let window = Window::new(self.reader.session()?, segment.source.clone(), rest, options)?;
        let mut frames = Frames::new(window, segment.salt);
        let mut found = None;
        let mut stands = frames.resync_within(at, limit)?;
        while stands && found.is_none() {
            let here = frames.window.pos();
            let is_record =
                matches!(frames.step()?, Step::Frame) && frames.head().header.kind == FrameKind::Record;
            if is_record && segment.lists(frames.head(), &self.reader)? {
                found = Some(here);
            } else {
                stands = frames.resync_within(here + 8, limit)?;
            }
        }
        self.reader.take_back(frames)?;
        Ok(found)
    }

    /// The same for offsets that rise, by the index.
    fn records_after(&self, segment: &Segment, wanted: &[u64]) -> Result<Vec<u64>> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let mut nearest = vec![segment.frames_end; wanted.len()];
        for run in &segment.runs {
            let mut cursor = RunCursor::seek(run, &self.reader, &[])?;
            while let Some(entry) = cursor {
                let offset = entry.place().offset;
                let last = wanted.partition_point(|&at| at <= offset).checked_sub(1);
                if let Some(nearest) = last.and_then(|last| nearest.get_mut(last)) {
                    *nearest = (*nearest).min(offset);
                }
                cursor = entry.next()?;
            }
        }
        // After an offset is also after those before it.
        let mut least = segment.frames_end;
        for at in nearest.iter_mut().rev() {
            least = least.min(*at);
            *at = least;
        }
        Ok(nearest)
    }
}

fn push(parts: &mut [Vec<Piece>], piece: Piece) {
    if let Some(last) = parts.last_mut().filter(|_| piece.from < piece.to) {
        last.push(piece);
    }
}

/// The spans of a segment that are in a split.
pub(super) fn ranges_in(pieces: &[Piece], segment: &Segment) -> Vec<ByteRange> {
    let of_it = pieces.iter().filter(|piece| piece.segment == segment.entry.id);
    let mut ranges: Vec<ByteRange> = of_it.filter_map(|piece| ByteRange::new(piece.from, piece.to)).collect();
    ranges.sort_unstable();
    ranges
}

/// Whether the pack has these spans.
pub(super) fn check_pieces(pack: &Pack, pieces: &[Piece]) -> Result<()> {
    for Piece { segment, from, to } in pieces {
        let number = pack.number_of(*segment);
        let Some(known) = number.and_then(|number| pack.snapshot.segments.get(number)) else {
            return Err(Error::Invalid(format!(
                "segment {segment:016x}, of which the split is, cannot be read"
            )));
        };
        let is_in = ByteRange::new(*from, *to).is_some_and(|range| known.frames().covers(&range));
        if !is_in {
            return Err(Error::Invalid(format!(
                "the split is of bytes {from} to {to} of segment {segment:016x}, which has frames {}",
                known.frames()
            )));
        }
    }
    Ok(())
}
