//! Members whose bytes can be read at random.

use std::collections::VecDeque;

use bytes::Bytes;

use super::super::ahead::Ahead;
use super::super::error::{Error, Fault, Result};
use super::super::format::Format;
use super::super::member::{Extent, Member};
use super::super::open::Archive;
use super::super::source::MemberSource;
use super::super::zip::body::{Step, ZipBody};
use super::super::zip::directory::LOCAL_LEN;
use super::{ReadingOptions, Stepped, is_read};
use crate::extent::ByteRange;
use crate::plan::merged_whole;
use crate::profile::Profile;
use crate::source::{Source as _, read_range};

/// The most reads requested and not yet returned.
const AHEAD_READS: usize = 256;

/// One read, in bytes, where there is little memory: this much is read nevertheless.
const PIECE_LEN_MIN: u64 = 64 << 10;

/// Pieces at most that reads bring for many members: they are but places in what comes.
const PIECES_MAX: usize = 64 << 10;

/// Holes that are at least this long are reported, not read as zeroes.
const HOLE_LEN: u64 = 64 << 10;

/// How many bytes the header of a zip member may have besides its name without another read.
const EXTRA_LEN: u64 = 512;

/// Members whose places speak for all when it is decided how to read.
const SAMPLES: usize = 16;

/// Reads members in any order, others running ahead.
#[derive(Debug)]
pub(super) struct Random<'a> {
    archive: &'a Archive,
    options: ReadingOptions<'a>,
    /// Members that were not returned yet.
    wanted: VecDeque<u64>,
    ahead: Ahead,
    /// How long one request is, and what may lie between two members that it is for.
    profile: Profile,
    /// Which of `wanted` is asked for next, and what is left of the one before.
    asked: usize,
    rest: Option<Rest>,
    /// The requested pieces, in order.
    pieces: VecDeque<Planned>,
    /// The bytes of the last read for several members, if it succeeded.
    shared: Option<Bytes>,
    /// How much is requested at once.
    piece_len: u64,
    /// Bytes of the current member, as they lie in the file, that did not come yet.
    left: u64,
    /// Where in the file the next of them is, and the body that they are of.
    at: u64,
    zip: Option<ZipBody>,
    held: Bytes,
}

/// A requested piece of a member.
#[derive(Debug, Clone, Copy)]
struct Planned {
    len: u64,
    brought: Brought,
}

/// Where a piece comes from.
#[derive(Debug, Clone, Copy)]
enum Brought {
    /// It is a hole, which is not read.
    Hole,
    /// A read of its own.
    Read,
    /// A read for several members: where in that it begins, and whether it is the first piece of
    /// it.
    Shared { at: u64, is_first: bool },
}

/// The part of a member that was not requested yet.
#[derive(Debug)]
struct Rest {
    source: MemberSource,
    at: u64,
    /// Its long holes from there on.
    holes: VecDeque<ByteRange>,
    piece_len: u64,
}

impl Rest {
    fn new(source: MemberSource, extents: &[Extent], piece_len: u64) -> Self {
        let (mut holes, mut end) = (VecDeque::new(), 0);
        let ends = extents.iter().map(|extent| (extent.at, extent.at.saturating_add(extent.len)));
        for (at, next) in ends.chain([(source.len(), source.len())]) {
            let hole = ByteRange::new(end, at).filter(|hole| hole.len() >= HOLE_LEN);
            holes.extend(hole);
            end = next;
        }
        Self { source, at: 0, holes, piece_len }
    }

    /// The next range, and whether it is a hole.
    fn next(&mut self) -> Option<(ByteRange, bool)> {
        let hole = self.holes.front().copied();
        let (range, is_hole) = match hole {
            Some(hole) if hole.start() == self.at => {
                self.holes.pop_front();
                (hole, true)
            }
            _ => {
                let end = hole.map_or(self.source.len(), |hole| hole.start());
                (ByteRange::at(self.at, self.piece_len.min(end.saturating_sub(self.at)))?, false)
            }
        };
        self.at = range.end();
        (!range.is_empty()).then_some((range, is_hole))
    }
}

/// A completed request.
enum Came {
    Bytes(Bytes),
    Hole(u64),
}

impl<'a> Random<'a> {
    pub(super) fn new(archive: &'a Archive, numbers: Vec<u64>, options: ReadingOptions<'a>) -> Result<Self> {
        let mut ranges = Vec::new();
        for number in numbers.iter().step_by(numbers.len().div_ceil(SAMPLES).max(1)) {
            let member = archive.index().member(*number);
            ranges.extend(member.and_then(|member| ByteRange::at(member.data_at, member.stored_len)));
        }
        ranges.retain(|range| !range.is_empty());
        let profile = Profile::of(&*archive.file());
        let longest = profile.block_bytes;
        let piece_len = match archive.reads_by_request() {
            true => longest,
            false => longest.min(options.ahead_bytes.max(PIECE_LEN_MIN)),
        };
        Ok(Self {
            archive,
            options,
            wanted: numbers.into(),
            ahead: Ahead::new(options.engines, &profile, options.access_to(archive, &ranges))?,
            profile,
            asked: 0,
            rest: None,
            pieces: VecDeque::new(),
            shared: None,
            piece_len,
            left: 0,
            at: 0,
            zip: None,
            held: Bytes::new(),
        })
    }

    pub(super) fn next(&mut self) -> Result<Option<u64>> {
        self.pass();
        let Some(number) = self.wanted.front().copied() else { return Ok(None) };
        self.read_ahead()?;
        self.wanted.pop_front();
        self.asked = self.asked.saturating_sub(1);
        self.zip = None;
        if let Some(member) = self.archive.index().member(number).filter(is_read) {
            self.left = self.raw_len(&member);
            self.at = member.data_at;
            self.zip = (self.archive.format() == Format::Zip).then(|| ZipBody::new(&member));
        }
        Ok(Some(number))
    }

    /// Skips the rest of a member: what was not requested is never read.
    fn pass(&mut self) {
        let is_last_asked = self.asked == 0;
        while self.left > 0 {
            let Some(planned) = self.pieces.pop_front() else { break };
            match planned.brought {
                Brought::Hole | Brought::Shared { is_first: false, .. } => {}
                // A read that failed belongs to the member that is passed over.
                Brought::Read => drop(self.ahead.pop()),
                // Others read their part again.
                Brought::Shared { is_first: true, .. } => self.shared = self.ahead.pop().ok().flatten(),
            }
            self.left = self.left.saturating_sub(planned.len);
        }
        if is_last_asked {
            self.rest = None;
        }
        self.left = 0;
    }

    pub(super) fn step(&mut self) -> Result<Stepped> {
        let Some(mut zip) = self.zip.take() else {
            if self.left == 0 {
                return Ok(Stepped::End);
            }
            return Ok(match self.piece()? {
                Came::Hole(len) => Stepped::Hole(len),
                Came::Bytes(bytes) => {
                    self.held = bytes;
                    Stepped::Bytes
                }
            });
        };
        let start = self.at;
        loop {
            match zip.step().map_err(|fault| self.fault(fault, start))? {
                Step::Done => return Ok(Stepped::End),
                Step::Ready if zip.ready().is_empty() => {}
                Step::Ready => break,
                Step::Feed => {
                    let bytes = self.more(&zip)?;
                    if bytes.is_empty() {
                        let cut = Fault::damaged(0, "a member reaches past the end of the archive");
                        return Err(self.fault(cut, self.at));
                    }
                    zip.feed(bytes);
                }
            }
        }
        self.zip = Some(zip);
        Ok(Stepped::Bytes)
    }

    /// The bytes that the last step prepared.
    pub(super) fn held(&self) -> &[u8] {
        self.zip.as_ref().map_or(&self.held, |zip| zip.ready())
    }

    fn fault(&self, fault: Fault, at: u64) -> Error {
        fault.of(self.archive.path(), at)
    }

    /// The next bytes of a member of a zip: requested ones, or, after a header that is longer than
    /// assumed, bytes that were not requested yet.
    fn more(&mut self, zip: &ZipBody) -> Result<Bytes> {
        if self.left > 0 {
            return match self.piece()? {
                Came::Bytes(bytes) => Ok(bytes),
                Came::Hole(_) => Ok(Bytes::new()),
            };
        }
        let end = self.archive.file_bytes();
        let len = zip.wanted().unwrap_or(0).min(self.piece_len).min(end.saturating_sub(self.at));
        let Some(range) = ByteRange::at(self.at, len).filter(|range| !range.is_empty()) else {
            return Ok(Bytes::new());
        };
        self.at = range.end();
        self.read_now(range)
    }

    /// Reads a range that was not requested before.
    fn read_now(&self, range: ByteRange) -> Result<Bytes> {
        let access = self.options.access_to(self.archive, &[range]);
        Ok(read_range(self.options.engines, &*self.archive.file(), range, access)?)
    }

    /// The next requested piece.
    fn piece(&mut self) -> Result<Came> {
        self.read_ahead()?;
        let Some(Planned { len, brought }) = self.pieces.pop_front() else {
            self.left = 0;
            return Err(Error::Invalid("bytes of a member are wanted that were not asked for".into()));
        };
        self.left = self.left.saturating_sub(len);
        let place = ByteRange::at(self.at, len);
        self.at = self.at.saturating_add(len);
        let bytes = match brought {
            Brought::Hole => return Ok(Came::Hole(len)),
            Brought::Read => self.ahead.pop()?.unwrap_or_default(),
            Brought::Shared { at, is_first } => {
                if is_first {
                    self.shared = None;
                    self.shared = match self.ahead.pop() {
                        // A file has other sectors for other members.
                        Err(_) if !self.archive.reads_by_request() => None,
                        read => read?,
                    };
                }
                match (self.shared_part(at, len), place) {
                    (Some(part), _) => part,
                    // It failed; of a server, the member that it was read for first got the error.
                    (None, Some(place)) => self.read_now(place)?,
                    (None, None) => Bytes::new(),
                }
            }
        };
        debug_assert_eq!(bytes.len() as u64, len, "pieces come in their order");
        Ok(Came::Bytes(bytes))
    }

    /// A part of the bytes that were read for several members.
    fn shared_part(&self, at: u64, len: u64) -> Option<Bytes> {
        let shared = self.shared.as_ref()?;
        let (from, to) = (usize::try_from(at).ok()?, usize::try_from(at.checked_add(len)?).ok()?);
        (to <= shared.len()).then(|| shared.slice(from..to))
    }

    /// How much of a member is requested: in a zip its header too, whose length is not known.
    fn raw_len(&self, member: &Member<'_>) -> u64 {
        if self.archive.format() != Format::Zip {
            return member.node.len;
        }
        let header = (LOCAL_LEN + member.key.len()) as u64 + EXTRA_LEN;
        let end = self.archive.file_bytes();
        header.saturating_add(member.stored_len).min(end.saturating_sub(member.data_at))
    }

    fn raw(&self, member: &Member<'_>) -> Rest {
        let len = self.raw_len(member);
        let extents = match self.archive.format() {
            Format::Zip => vec![Extent { at: 0, stored_at: member.data_at, len }],
            _ => self.archive.stored(member),
        };
        Rest::new(self.archive.piece(member, len, extents.clone()), &extents, self.piece_len)
    }

    /// Whether more may be requested: one piece in any case.
    fn may_ask(&self) -> bool {
        let bytes = self.ahead.bytes();
        let has_room = bytes == 0 || bytes < self.options.ahead_bytes;
        has_room && self.pieces.len() < PIECES_MAX && self.ahead.len() < AHEAD_READS
    }

    /// Requests pieces of this member and of those that follow.
    fn read_ahead(&mut self) -> Result<()> {
        while self.may_ask() {
            if let Some(rest) = &mut self.rest {
                if let Some((range, is_hole)) = rest.next() {
                    if !is_hole {
                        self.ahead.push(&rest.source, range)?;
                    }
                    let brought = if is_hole { Brought::Hole } else { Brought::Read };
                    self.pieces.push_back(Planned { len: range.len(), brought });
                    continue;
                }
                self.rest = None;
            }
            if self.ask_together()? {
                continue;
            }
            let Some(number) = self.wanted.get(self.asked) else { break };
            let member = self.archive.index().member(*number).filter(is_read);
            self.asked += 1;
            self.rest = member.map(|member| self.raw(&member));
        }
        Ok(())
    }

    /// Requests the next members that are close to each other in the requested order by one read;
    /// returns whether there are any.
    fn ask_together(&mut self) -> Result<bool> {
        let (mut together, mut members) = (None::<ByteRange>, 0_usize);
        let mut parts: Vec<ByteRange> = Vec::new();
        for number in self.wanted.iter().skip(self.asked).take(PIECES_MAX) {
            // Members that are not read need no request.
            if let Some(member) = self.archive.index().member(*number).filter(is_read) {
                let Some(part) = self.part(&member) else { break };
                if !part.is_empty() {
                    let all = together.map_or(Some(part), |before| {
                        merged_whole(before, part, self.profile.gap_bytes, self.piece_len)
                    });
                    let Some(all) = all else { break };
                    together = Some(all);
                    parts.push(part);
                }
            }
            members = members.saturating_add(1);
        }
        self.asked = self.asked.saturating_add(members);
        let Some(together) = together else { return Ok(members > 0) };
        self.ahead.push(&*self.archive.file(), together)?;
        for (number, part) in parts.iter().enumerate() {
            let at = part.start().saturating_sub(together.start());
            let brought = Brought::Shared { at, is_first: number == 0 };
            self.pieces.push_back(Planned { len: part.len(), brought });
        }
        Ok(true)
    }

    /// The range of all bytes that are read of a member, if it is one range and not long.
    fn part(&self, member: &Member<'_>) -> Option<ByteRange> {
        let len = self.raw_len(member);
        let part = ByteRange::at(member.data_at, len).filter(|_| !member.is_sparse)?;
        (len < self.piece_len).then_some(part)
    }
}
