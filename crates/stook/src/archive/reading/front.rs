//! Members of archives that can only be read from the front.

use std::collections::VecDeque;

use super::super::error::{Error, Fault, Result};
use super::super::input::Input as _;
use super::super::member::Extent;
use super::super::open::{Archive, TarInput};
use super::{PASS_MAX, ReadingOptions, Stepped, is_read};

/// Reads members, best in the order in which they lie.
pub(super) struct Front<'a> {
    archive: &'a Archive,
    options: ReadingOptions<'a>,
    wanted: VecDeque<u64>,
    input: Option<TarInput>,
    /// The rest of the current member.
    extents: VecDeque<Extent>,
    at: u64,
    len: u64,
    /// Bytes of the input that were lent and not consumed.
    lent: usize,
    /// Whether the caller knows already that it is damaged.
    is_reported: bool,
}

impl std::fmt::Debug for Front<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Front").field("wanted", &self.wanted.len()).field("input", &self.input).finish()
    }
}

impl<'a> Front<'a> {
    pub(super) fn new(archive: &'a Archive, numbers: Vec<u64>, options: ReadingOptions<'a>) -> Self {
        let (wanted, input, extents) = (numbers.into(), None, VecDeque::new());
        Self { archive, options, wanted, input, extents, at: 0, len: 0, lent: 0, is_reported: false }
    }

    pub(super) fn next(&mut self) -> Option<u64> {
        let number = self.wanted.pop_front()?;
        let member = self.archive.index().member(number).filter(is_read);
        self.extents = member.map(|member| self.archive.stored(&member).into()).unwrap_or_default();
        (self.at, self.len) = (0, member.map_or(0, |member| member.node.len));
        Some(number)
    }

    /// Continues. The last member ends only when the checksum of the whole was read, which takes
    /// several steps.
    pub(super) fn step(&mut self) -> Result<Stepped> {
        let stepped = self.step_in_member();
        self.is_reported |= stepped.is_err();
        match stepped? {
            Stepped::End if self.wanted.is_empty() && self.verify()? => Ok(Stepped::Bytes),
            stepped => Ok(stepped),
        }
    }

    /// Continues reading towards the end, where the checksum of everything read is; returns whether
    /// there may be more. The last pass covers the bytes of earlier ones, too. If there was no
    /// pass, nothing was read.
    pub(super) fn verify(&mut self) -> Result<bool> {
        let lent = std::mem::take(&mut self.lent);
        let Some(input) = self.input.as_mut().filter(|_| !self.is_reported) else { return Ok(false) };
        input.consume(lent);
        let passed = pass_on(input);
        self.is_reported |= passed.is_err();
        passed
    }

    fn step_in_member(&mut self) -> Result<Stepped> {
        let lent = std::mem::take(&mut self.lent);
        if let Some(input) = &mut self.input {
            input.consume(lent);
        }
        if self.at >= self.len {
            return Ok(Stepped::End);
        }
        let next = self.extents.front().copied();
        let hole_to = next.map_or(self.len, |extent| extent.at);
        if self.at < hole_to {
            let len = hole_to.saturating_sub(self.at);
            self.at = hole_to;
            return Ok(Stepped::Hole(len));
        }
        let Some(extent) = next else { return Ok(Stepped::End) };
        if !self.go_to(extent.stored_at)? {
            return Ok(Stepped::Bytes);
        }
        let archive = self.archive;
        let cut = || {
            let fault = Fault::damaged(0, "the archive ends in the middle of a member; it was cut off");
            fault.of(archive.path(), extent.stored_at)
        };
        let there = match &mut self.input {
            Some(input) => input.fill()?,
            None => return Err(cut()),
        };
        if there.is_empty() {
            return Err(cut());
        }
        let len = piece(extent.len, there.len());
        (self.lent, self.at) = (len, self.at.saturating_add(len as u64));
        self.extents.pop_front();
        if extent.len > len as u64 {
            let (len, more) = (extent.len.saturating_sub(len as u64), len as u64);
            let (at, stored_at) = (self.at, extent.stored_at.saturating_add(more));
            self.extents.push_front(Extent { at, stored_at, len });
        }
        Ok(Stepped::Bytes)
    }

    /// The bytes that the last step lends.
    pub(super) fn held(&mut self) -> Result<&[u8]> {
        match &mut self.input {
            Some(input) if self.lent > 0 => Ok(input.fill()?.get(..self.lent).unwrap_or_default()),
            _ => Ok(&[]),
        }
    }

    /// Advances to a place in the tar; from the front again, if it was passed. Returns whether it
    /// is there: a long distance takes several steps.
    fn go_to(&mut self, to: u64) -> Result<bool> {
        if self.input.as_ref().is_none_or(|input| input.position() > to) {
            self.input = Some(self.archive.tar_from_front(&self.options)?);
        }
        let Some(input) = &mut self.input else { return Ok(true) };
        let left = to.saturating_sub(input.position());
        let passed = input.skip(left.min(PASS_MAX))?;
        // If it ends before, the next read reports it.
        Ok(passed == left || passed < PASS_MAX)
    }
}

/// Continues reading for a while towards the end, where the checksum of everything read is; returns
/// whether there may be more.
fn pass_on(input: &mut TarInput) -> Result<bool> {
    let passed = input.skip(PASS_MAX).map_err(|error| match error {
        Error::Damaged { path, offset, what } => {
            let what = format!("{what}; any member that was read may be wrong");
            Error::Damaged { path, offset, what }
        }
        other => other,
    });
    Ok(passed? == PASS_MAX)
}

/// The shorter of both.
fn piece(left: u64, there: usize) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(there)
}
