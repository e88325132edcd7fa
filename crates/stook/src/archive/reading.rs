//! [`Reading`]: many members one after another, with reads running ahead across them.

use std::collections::VecDeque;

use bytes::Bytes;

use super::ahead::Ahead;
use super::error::{Error, Result};
use super::member::{Member, MemberKind, Method};
use super::open::Archive;
use crate::extent::ByteRange;
use crate::source::Source as _;

/// Bytes and pieces asked for and not handed out, at most.
const AHEAD_BYTES: u64 = 32 << 20;
const AHEAD_PIECES: usize = 256;

/// One read, in bytes.
const PIECE_LEN: u64 = 1 << 20;

/// Members whose places speak for all when it is decided how to read.
const SAMPLES: usize = 16;

/// Reads members in the order in which they were asked for.
#[derive(Debug)]
pub struct Reading<'a> {
    archive: &'a Archive,
    /// What was not handed out yet.
    wanted: VecDeque<u64>,
    ahead: Ahead,
    /// Which of `wanted` is asked for next, and the pieces that are left of the one before.
    asked: usize,
    rest: Option<(super::source::MemberSource, u64)>,
    /// Bytes of the current member that were not handed out.
    left: u64,
    held: Bytes,
    /// What is known without reading: the target of a link.
    ready: Option<&'a [u8]>,
    refused: Option<Error>,
}

impl<'a> Reading<'a> {
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
            left: 0,
            held: Bytes::new(),
            ready: None,
            refused: None,
        })
    }

    /// The next member; what was not read of the one before is passed over. Its bytes come from
    /// [`chunk`](Self::chunk).
    ///
    /// # Errors
    /// What reading meets.
    #[expect(clippy::should_implement_trait, reason = "an iterator could not lend the bytes of a member")]
    pub fn next(&mut self) -> Result<Option<Member<'a>>> {
        while self.left > 0 {
            // A read that failed belongs to the member that is passed over.
            self.take_piece().ok();
        }
        self.refused = None;
        let Some(number) = self.wanted.front().copied() else { return Ok(None) };
        self.read_ahead()?;
        self.wanted.pop_front();
        self.asked = self.asked.saturating_sub(1);
        let archive = self.archive;
        let Some(member) = archive.index().member(number) else {
            return Err(Error::Invalid(format!("there is no member {number}")));
        };
        self.ready = (member.kind == MemberKind::Symlink && !member.link.is_empty()).then_some(member.link);
        self.refused = self.refusal(&member);
        self.left = if self.is_read(&member) { member.len } else { 0 };
        Ok(Some(member))
    }

    /// The next bytes of the member; none after the last.
    ///
    /// # Errors
    /// What reading meets, or why its bytes cannot be had. The next member can be.
    pub fn chunk(&mut self) -> Result<Option<&[u8]>> {
        if let Some(error) = self.refused.take() {
            return Err(error);
        }
        if let Some(link) = self.ready.take() {
            return Ok(Some(link));
        }
        if self.left == 0 {
            return Ok(None);
        }
        self.read_ahead()?;
        self.take_piece()?;
        Ok(Some(&self.held))
    }

    fn take_piece(&mut self) -> Result<()> {
        let len = self.left.min(PIECE_LEN);
        self.left -= len;
        self.held = self.ahead.pop()?.unwrap_or_default();
        debug_assert_eq!(self.held.len() as u64, len, "pieces come in their order");
        Ok(())
    }

    /// Whether the bytes of a member are read from the file.
    fn is_read(&self, member: &Member<'_>) -> bool {
        self.refusal(member).is_none() && self.archive.source(member).is_some()
    }

    /// Why the bytes of a member cannot be had.
    fn refusal(&self, member: &Member<'_>) -> Option<Error> {
        let key = String::from_utf8_lossy(member.key);
        let why = match (member.kind, member.method) {
            (MemberKind::Other, _) => format!("{key} is a pipe, a device or something of its program's own"),
            (MemberKind::HardLink, _) if !member.has_body => format!(
                "{key} is a further name of {}, and there is no such file before it",
                String::from_utf8_lossy(member.link)
            ),
            (_, Method::Encrypted) => format!("{key} is encrypted"),
            (_, Method::Unknown(method)) => {
                format!("{key} is compressed by method {method}, which is not known here")
            }
            _ => return None,
        };
        Some(Error::Invalid(why))
    }

    /// Asks for pieces of this member and of those that follow.
    fn read_ahead(&mut self) -> Result<()> {
        while self.ahead.bytes() < AHEAD_BYTES && self.ahead.len() < AHEAD_PIECES {
            if let Some((source, at)) = &mut self.rest {
                let len = PIECE_LEN.min(source.len().saturating_sub(*at));
                if let Some(range) = ByteRange::at(*at, len).filter(|range| !range.is_empty()) {
                    self.ahead.push(source, range)?;
                    *at = range.end();
                    continue;
                }
                self.rest = None;
            }
            let Some(number) = self.wanted.get(self.asked) else { break };
            let member = self.archive.index().member(*number);
            self.asked += 1;
            let member = member.filter(|member| self.is_read(member));
            self.rest = member.and_then(|member| self.archive.source(&member)).map(|source| (source, 0));
        }
        Ok(())
    }
}
