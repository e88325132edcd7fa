//! What unpacks, from the front.

use std::sync::Arc;

use bytes::Bytes;

use crate::archive::ends::look;
use crate::archive::error::{Error, Fault, Result};
use crate::archive::index::Index;
use crate::archive::input::{Input as _, SourceInput};
use crate::archive::member::Member;
use crate::archive::open::{Archive, OpenOptions, TarInput, check_state};
use crate::archive::zip::body::{Step, ZipBody};
use crate::archive::zip::directory::LOCAL_LEN;
use crate::extent::ByteRange;
use crate::source::Source;

/// Unpacks from the front.
pub(in super::super) trait Unpacker: Send {
    /// The next bytes; none only at the end, if all were the right ones. If it is known how many
    /// there are, the last ones come only if all are right.
    ///
    /// # Errors
    /// Damage, and what reading meets.
    fn next(&mut self) -> Result<&[u8]>;
}

/// The tar in a compressed tar.
pub(in super::super) struct TarUnpacker {
    source: Arc<dyn Source>,
    input: TarInput,
    lent: usize,
}

impl TarUnpacker {
    pub(in super::super) fn new(source: Arc<dyn Source>, input: TarInput) -> Self {
        Self { source, input, lent: 0 }
    }
}

impl Unpacker for TarUnpacker {
    fn next(&mut self) -> Result<&[u8]> {
        self.input.consume(std::mem::take(&mut self.lent));
        let read = self.input.fill();
        // What another state of the archive gave is neither its bytes nor its damage.
        check_state(&*self.source)?;
        let bytes = read?;
        self.lent = bytes.len();
        Ok(bytes)
    }
}

/// What is stored of a longer member is read ahead; that of a shorter one at once.
const LOOK_MAX: u64 = 1 << 20;
/// How long the extra fields before a member are guessed to be.
const EXTRA_LEN: u64 = 64;

/// A deflated member of a zip, before it is unpacked. It does not keep the archive open.
pub(in super::super) struct ZipMember {
    source: Arc<dyn Source>,
    options: OpenOptions,
    index: Index,
    number: u64,
}

impl ZipMember {
    pub(in super::super) fn new(archive: &Archive, member: &Member<'_>) -> Self {
        let (source, options, index) = (archive.file(), archive.options().clone(), archive.index().clone());
        Self { source, options, index, number: member.number }
    }

    /// An unpacker at its front.
    ///
    /// # Errors
    /// That the archive has no such member.
    pub(in super::super) fn unpacker(&self) -> Result<ZipUnpacker> {
        let none = || Error::Invalid(format!("there is no member {}", self.number));
        let member = self.index.member(self.number).ok_or_else(none)?;
        let header_len = (LOCAL_LEN as u64).saturating_add(member.key.len() as u64).saturating_add(EXTRA_LEN);
        Ok(ZipUnpacker {
            source: self.source.clone(),
            options: self.options.clone(),
            body: ZipBody::new(&member),
            data_at: member.data_at,
            read_to: member.data_at,
            guessed_len: header_len.saturating_add(member.stored_len),
            input: None,
            len_left: member.node.len,
            is_done: false,
            last: Vec::new(),
        })
    }
}

/// A deflated member of a zip.
pub(in super::super) struct ZipUnpacker {
    source: Arc<dyn Source>,
    options: OpenOptions,
    body: ZipBody,
    /// Where the member begins, and where what was read of it ends.
    data_at: u64,
    read_to: u64,
    /// How many bytes of the archive it has, its header included, as far as that can be known.
    guessed_len: u64,
    input: Option<SourceInput>,
    len_left: u64,
    is_done: bool,
    /// The last bytes, which were checked with all before them.
    last: Vec<u8>,
}

impl ZipUnpacker {
    /// The next bytes of the archive.
    fn more(&mut self) -> Result<Bytes> {
        if let Some(input) = &mut self.input {
            let there = input.take()?;
            if !there.is_empty() {
                return Ok(there);
            }
            self.input = None;
        }
        // What is known of the header is better than what was guessed.
        let len = self.body.wanted().unwrap_or(self.guessed_len);
        let end = self.read_to.saturating_add(len).min(self.source.len());
        let Some(range) = ByteRange::new(self.read_to, end).filter(|range| !range.is_empty()) else {
            let cut = Fault::damaged(0, "the archive ends in the middle of a member; it was cut off");
            return Err(cut.of(self.source.path(), self.read_to));
        };
        self.read_to = range.end();
        if len <= LOOK_MAX {
            return Ok(look(&*self.source, range, &*self.options.engines)?);
        }
        let access = self.options.access.decide(&*self.source, range);
        self.input = Some(SourceInput::within(self.source.clone(), range, &*self.options.engines, access)?);
        self.more()
    }

    /// Continues until there are bytes, which are then in the body; says whether there are.
    fn advance(&mut self) -> Result<bool> {
        while !self.is_done {
            match self.body.step().map_err(|fault| fault.of(self.source.path(), self.data_at))? {
                Step::Ready if !self.body.ready().is_empty() => return Ok(true),
                Step::Ready => {}
                Step::Done => self.is_done = true,
                Step::Feed => {
                    let bytes = self.more()?;
                    self.body.feed(bytes);
                }
            }
        }
        Ok(false)
    }

    fn step(&mut self) -> Result<bool> {
        self.last.clear();
        if !self.advance()? {
            return Ok(false);
        }
        self.len_left = self.len_left.saturating_sub(self.body.ready().len() as u64);
        if self.len_left == 0 {
            self.last.extend_from_slice(self.body.ready());
            // Finds out whether they are right; and that no more come.
            self.advance()?;
        }
        Ok(true)
    }
}

impl Unpacker for ZipUnpacker {
    fn next(&mut self) -> Result<&[u8]> {
        let stepped = self.step();
        check_state(&*self.source)?;
        Ok(match stepped? {
            false => &[],
            true if self.len_left == 0 => &self.last,
            true => self.body.ready(),
        })
    }
}
