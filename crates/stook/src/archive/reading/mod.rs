//! [`Reading`]: many members one after another, with reads running ahead across them.

mod front;
mod random;

use self::front::Front;
use self::random::Random;
use super::error::{Error, Result};
use super::member::{KEY_LEN_MAX, Member, MemberKind};
use super::open::Archive;
use crate::engine::{Access, EngineFactory};
use crate::extent::ByteRange;
use crate::source::AccessRule;

/// Bytes that are skipped at once: compressed data must be decompressed for that.
pub(super) const PASS_MAX: u64 = 16 << 20;

/// The most bytes requested and not yet returned.
const AHEAD_BYTES: u64 = 32 << 20;

/// What members are read with.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadingOptions<'a> {
    /// Makes the engine.
    pub(super) engines: &'a dyn EngineFactory,
    /// Which way bytes take into memory.
    pub(super) access: AccessRule,
    /// Limit of bytes requested and not yet returned: above it, there are no further requests.
    ahead_bytes: u64,
}

impl<'a> ReadingOptions<'a> {
    /// Those that an archive was opened with.
    pub(super) fn of(archive: &'a Archive) -> Self {
        let options = archive.options();
        Self { engines: &*options.engines, access: options.access, ahead_bytes: AHEAD_BYTES }
    }

    /// The limits for this much memory in bytes.
    pub(super) fn new(engines: &'a dyn EngineFactory, access: AccessRule, memory_bytes: u64) -> Self {
        Self { engines, access, ahead_bytes: memory_bytes.min(AHEAD_BYTES) }
    }

    /// Which way bytes of these ranges of an archive take into memory.
    pub(super) fn access_to(&self, archive: &Archive, ranges: &[ByteRange]) -> Access {
        match archive.reads_by_request() {
            // Finding out where its bytes are may wait for them.
            true => Access::Cached,
            false => self.access.decide_for(&*archive.file(), ranges),
        }
    }
}

/// Reads members in the requested order.
///
/// In a compressed tar, a member before the one read last costs a new pass from the front. Only the
/// checksum after all members shows whether bytes are correct. So the last wanted member ends only
/// when that checksum was read and matches, and so does [`next`](Self::next) when no member is
/// left; otherwise they return an error. A caller that stops before has unverified bytes.
#[derive(Debug)]
pub struct Reading<'a> {
    archive: &'a Archive,
    way: Way<'a>,
    /// Bytes that are known without reading: the target of a link.
    ready: Option<&'a [u8]>,
    refused: Option<Error>,
    /// Zeroes that [`chunk`](Self::chunk) still has to hand out.
    zeroes_left: u64,
}

/// The next part of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes. Empty if much had to be skipped first, so that the caller gets a chance to stop.
    Bytes(&'a [u8]),
    /// This many zeroes, which are not stored.
    Hole(u64),
}

/// The same without its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stepped {
    End,
    Bytes,
    Hole(u64),
}

/// What goes through a member step by step.
pub(super) trait Stepping {
    /// Advances by what `held` then returns, or by a hole.
    fn step(&mut self) -> Result<Stepped>;

    /// The bytes that the last step prepared.
    fn held(&mut self) -> Result<&[u8]>;

    /// Zeroes of the current hole that were not returned yet.
    fn zeroes_left(&mut self) -> &mut u64;

    fn next_piece(&mut self) -> Result<Option<Piece<'_>>> {
        match self.step()? {
            Stepped::End => Ok(None),
            Stepped::Hole(len) => Ok(Some(Piece::Hole(len))),
            Stepped::Bytes => self.held().map(Piece::Bytes).map(Some),
        }
    }

    fn next_chunk(&mut self) -> Result<Option<&[u8]>> {
        if *self.zeroes_left() == 0 {
            match self.step()? {
                Stepped::End => return Ok(None),
                Stepped::Hole(len) => *self.zeroes_left() = len,
                Stepped::Bytes => return self.held().map(Some),
            }
        }
        Ok(Some(zeroes(self.zeroes_left())))
    }
}

/// Some of the zeroes of a hole that has this many left.
fn zeroes(left: &mut u64) -> &'static [u8] {
    let some = crate::source::zeroes(*left);
    *left -= some.len() as u64;
    some
}

#[derive(Debug)]
enum Way<'a> {
    Random(Box<Random<'a>>),
    Front(Box<Front<'a>>),
}

impl<'a> Reading<'a> {
    pub(super) fn new(archive: &'a Archive, numbers: Vec<u64>, options: ReadingOptions<'a>) -> Result<Self> {
        let way = match archive.is_sequential() {
            true => Way::Front(Box::new(Front::new(archive, numbers, options))),
            false => Way::Random(Box::new(Random::new(archive, numbers, options)?)),
        };
        Ok(Self { archive, way, ready: None, refused: None, zeroes_left: 0 })
    }

    /// The next member; the unread rest of the one before is skipped. Its bytes come from
    /// [`chunk`](Self::chunk).
    ///
    /// # Errors
    /// Returns an error if reading fails, and after the last member the errors of
    /// [`verify`](Self::verify).
    #[expect(clippy::should_implement_trait, reason = "an iterator could not lend the bytes of a member")]
    pub fn next(&mut self) -> Result<Option<Member<'a>>> {
        let number = match &mut self.way {
            Way::Random(random) => random.next()?,
            Way::Front(front) => front.next(),
        };
        let Some(number) = number else {
            while self.verify()? {}
            return Ok(None);
        };
        let archive = self.archive;
        let member = archive.index().member(number);
        let member = member.ok_or_else(|| Error::Invalid(format!("there is no member {number}")))?;
        self.ready = (member.kind() == MemberKind::Symlink && !member.link.is_empty()).then_some(member.link);
        self.refused = member.refusal().map(Error::Invalid);
        self.zeroes_left = 0;
        Ok(Some(member))
    }

    /// Continues reading for a while towards the checksum of a compressed tar; returns whether
    /// there may be more to read. For callers that want to stop in between: otherwise
    /// [`next`](Self::next) does it after the last member. The current member returns nothing more.
    /// Other archives have no such checksum.
    ///
    /// # Errors
    /// Returns an error if reading fails, or, once, if the checksum is wrong or missing.
    pub fn verify(&mut self) -> Result<bool> {
        (self.ready, self.refused, self.zeroes_left) = (None, None, 0);
        match &mut self.way {
            Way::Random(_) => Ok(false),
            Way::Front(front) => front.verify(),
        }
    }

    /// The next bytes of the member, or how many zeroes come that are not stored; nothing after the
    /// last. Bytes of a zip are the right ones only when none follow: its checksum is over all of
    /// them.
    ///
    /// # Errors
    /// Returns an error if reading fails, or its bytes are not available. The next member can still
    /// be read.
    pub fn piece(&mut self) -> Result<Option<Piece<'_>>> {
        self.next_piece()
    }

    /// The same with all zeroes as bytes: of a member that is a hole of a terabyte, a terabyte of
    /// them.
    ///
    /// # Errors
    /// Returns the errors of [`piece`](Self::piece).
    pub fn chunk(&mut self) -> Result<Option<&[u8]>> {
        self.next_chunk()
    }

    /// The target of the current symbolic link.
    pub(super) fn link_target(&mut self) -> Result<Vec<u8>> {
        let mut target = Vec::new();
        while let Some(bytes) = self.chunk()? {
            target.extend_from_slice(bytes);
            if target.len() > KEY_LEN_MAX {
                return Err(Error::Invalid("the target of a link is too long".into()));
            }
        }
        Ok(target)
    }
}

impl Stepping for Reading<'_> {
    fn zeroes_left(&mut self) -> &mut u64 {
        &mut self.zeroes_left
    }

    fn step(&mut self) -> Result<Stepped> {
        if let Some(error) = self.refused.take() {
            return Err(error);
        }
        if self.ready.is_some() {
            return Ok(Stepped::Bytes);
        }
        match &mut self.way {
            Way::Random(random) => random.step(),
            Way::Front(front) => front.step(),
        }
    }

    fn held(&mut self) -> Result<&[u8]> {
        if let Some(link) = self.ready.take() {
            return Ok(link);
        }
        match &mut self.way {
            Way::Random(random) => Ok(random.held()),
            Way::Front(front) => front.held(),
        }
    }
}

/// Whether the bytes of a member are read from the file.
fn is_read(member: &Member<'_>) -> bool {
    member.refusal().is_none()
        && member.has_body
        && (member.kind() != MemberKind::Symlink || member.link.is_empty())
}
