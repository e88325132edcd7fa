//! Members whose bytes can be read wherever they are.

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
use super::{Stepped, is_read};
use crate::extent::ByteRange;
use crate::source::{Source as _, read_range};

/// Bytes and pieces asked for and not handed out, at most.
const AHEAD_BYTES: u64 = 32 << 20;
const AHEAD_PIECES: usize = 256;

/// One read, in bytes.
const PIECE_LEN: u64 = 1 << 20;

/// Holes that are at least this long are reported, not read as zeroes.
const HOLE_LEN: u64 = 64 << 10;

/// What the header of a member of a zip may have besides its name, without one more read.
const EXTRA_LEN: u64 = 512;

/// Members whose places speak for all when it is decided how to read.
const SAMPLES: usize = 16;

/// Reads members in any order, others running ahead.
#[derive(Debug)]
pub(super) struct Random<'a> {
    archive: &'a Archive,
    /// What was not handed out yet.
    wanted: VecDeque<u64>,
    ahead: Ahead,
    /// Which of `wanted` is asked for next, and what is left of the one before.
    asked: usize,
    rest: Option<Rest>,
    /// The pieces that were asked for, in their order: how long they are, and whether they are
    /// holes, which are not read.
    pieces: VecDeque<(u64, bool)>,
    /// Bytes of the current member, as they lie in the file, that did not come yet.
    left: u64,
    /// Where in the file the next of them is, and the body that they are of.
    at: u64,
    zip: Option<ZipBody>,
    held: Bytes,
}

/// What of a member was not asked for yet.
#[derive(Debug)]
struct Rest {
    source: MemberSource,
    at: u64,
    /// Its long holes from there on.
    holes: VecDeque<ByteRange>,
}

impl Rest {
    fn new(source: MemberSource, extents: &[Extent]) -> Self {
        let (mut holes, mut end) = (VecDeque::new(), 0);
        let ends = extents.iter().map(|extent| (extent.at, extent.at.saturating_add(extent.len)));
        for (at, next) in ends.chain([(source.len(), source.len())]) {
            let hole = ByteRange::new(end, at).filter(|hole| hole.len() >= HOLE_LEN);
            holes.extend(hole);
            end = next;
        }
        Self { source, at: 0, holes }
    }

    /// What comes next, and whether it is a hole.
    fn next(&mut self) -> Option<(ByteRange, bool)> {
        let hole = self.holes.front().copied();
        let (range, is_hole) = match hole {
            Some(hole) if hole.start() == self.at => {
                self.holes.pop_front();
                (hole, true)
            }
            _ => {
                let end = hole.map_or(self.source.len(), |hole| hole.start());
                (ByteRange::at(self.at, PIECE_LEN.min(end.saturating_sub(self.at)))?, false)
            }
        };
        self.at = range.end();
        (!range.is_empty()).then_some((range, is_hole))
    }
}

/// What was asked for, when it is there.
enum Came {
    Bytes(Bytes),
    Hole(u64),
}

impl<'a> Random<'a> {
    pub(super) fn new(archive: &'a Archive, numbers: Vec<u64>) -> Result<Self> {
        let mut ranges = Vec::new();
        for number in numbers.iter().step_by(numbers.len().div_ceil(SAMPLES).max(1)) {
            let member = archive.index().member(*number);
            ranges.extend(member.and_then(|member| ByteRange::at(member.data_at, member.stored_len)));
        }
        ranges.retain(|range| !range.is_empty());
        let options = archive.options();
        let access = options.access.decide_for(&*archive.file(), &ranges);
        Ok(Self {
            archive,
            wanted: numbers.into(),
            ahead: Ahead::new(&*options.engines, access)?,
            asked: 0,
            rest: None,
            pieces: VecDeque::new(),
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

    /// Passes over what is left of a member: what was not asked for is never read.
    fn pass(&mut self) {
        let is_last_asked = self.asked == 0;
        while self.left > 0 {
            let Some((len, is_hole)) = self.pieces.pop_front() else { break };
            if !is_hole {
                // A read that failed belongs to the member that is passed over.
                self.ahead.pop().ok();
            }
            self.left = self.left.saturating_sub(len);
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

    /// What the last step made ready.
    pub(super) fn held(&self) -> &[u8] {
        self.zip.as_ref().map_or(&self.held, |zip| zip.ready())
    }

    fn fault(&self, fault: Fault, at: u64) -> Error {
        fault.of(self.archive.path(), at)
    }

    /// The next bytes of a member of a zip: such as were asked for, or, behind a header that is
    /// longer than was thought, such as nobody asked for yet.
    fn more(&mut self, zip: &ZipBody) -> Result<Bytes> {
        if self.left > 0 {
            return match self.piece()? {
                Came::Bytes(bytes) => Ok(bytes),
                Came::Hole(_) => Ok(Bytes::new()),
            };
        }
        let end = self.archive.file_bytes();
        let len = zip.wanted().unwrap_or(0).min(PIECE_LEN).min(end.saturating_sub(self.at));
        let Some(range) = ByteRange::at(self.at, len).filter(|range| !range.is_empty()) else {
            return Ok(Bytes::new());
        };
        self.at = range.end();
        let options = self.archive.options();
        let file = self.archive.file();
        let access = options.access.decide(&*file, range);
        Ok(read_range(&*options.engines, &*file, range, access)?)
    }

    /// The next of the pieces that were asked for.
    fn piece(&mut self) -> Result<Came> {
        self.read_ahead()?;
        let Some((len, is_hole)) = self.pieces.pop_front() else {
            self.left = 0;
            return Err(Error::Invalid("bytes of a member are wanted that were not asked for".into()));
        };
        self.left = self.left.saturating_sub(len);
        self.at = self.at.saturating_add(len);
        if is_hole {
            return Ok(Came::Hole(len));
        }
        let bytes = self.ahead.pop()?.unwrap_or_default();
        debug_assert_eq!(bytes.len() as u64, len, "pieces come in their order");
        Ok(Came::Bytes(bytes))
    }

    /// How much is asked for of a member: in a zip its header too, whose length is not known.
    fn raw_len(&self, member: &Member<'_>) -> u64 {
        if self.archive.format() != Format::Zip {
            return member.len;
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
        Rest::new(self.archive.piece(member, len, extents.clone()), &extents)
    }

    /// Asks for pieces of this member and of those that follow.
    fn read_ahead(&mut self) -> Result<()> {
        while self.ahead.bytes() < AHEAD_BYTES && self.pieces.len() < AHEAD_PIECES {
            if let Some(rest) = &mut self.rest {
                if let Some((range, is_hole)) = rest.next() {
                    if !is_hole {
                        self.ahead.push(&rest.source, range)?;
                    }
                    self.pieces.push_back((range.len(), is_hole));
                    continue;
                }
                self.rest = None;
            }
            let Some(number) = self.wanted.get(self.asked) else { break };
            let member = self.archive.index().member(*number).filter(is_read);
            self.asked += 1;
            self.rest = member.map(|member| self.raw(&member));
        }
        Ok(())
    }
}
