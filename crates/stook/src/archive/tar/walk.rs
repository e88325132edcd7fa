//! From header to header through a tar.

use super::super::error::{Error, Fault, Result};
use super::super::input::Input;
use super::super::member::{Extent, KEY_LEN_MAX, MemberKind, both_file_and_directory, key_of};
use super::super::source::holes_of;
use crate::format::tar::Extended;
use crate::format::tar::header::{BLOCK_LEN, Block, Header, decode, padding_len};
use crate::format::tar::sparse::SparseMap;
use crate::tree::{Holes, Kind, Node, Xattrs};

/// Extended headers before one member.
const EXTENDED_MAX: usize = 32;

/// A member as it is in a tar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path, without empty parts and parts `.`.
    pub key: Vec<u8>,
    /// What it is in a tree, as far as its headers say, with one name. Of a hard link to a file
    /// they do not say the length.
    pub node: Node,
    /// Whether it is a hard link to a file that stands before it.
    pub is_hard_link: bool,
    /// Whether it is a file that is named like a directory and has bytes, which are of no use then.
    pub is_refused: bool,
    /// Bytes of these that are stored.
    pub stored_len: u64,
    /// Where its first header is, extended ones included.
    pub header_at: u64,
    /// Where its bytes begin.
    pub data_at: u64,
    /// The stored pieces of a sparse member.
    pub extents: Option<Vec<Extent>>,
    /// The target of a link: verbatim for a symbolic one, the key for a hard one.
    pub link: Vec<u8>,
    /// Its extended attributes. Those that cannot be taken as they are have no value.
    pub xattrs: Xattrs,
}

impl Entry {
    /// What it is as a member.
    pub fn kind(&self) -> MemberKind {
        MemberKind::of(self.node.kind, self.is_hard_link)
    }

    /// Why it is refused, if it is: the others are read.
    pub fn refusal(&self) -> Option<String> {
        self.is_refused.then(|| both_file_and_directory(&self.key))
    }

    /// What is not stored of it because it is zeros.
    pub fn holes(&self) -> Holes {
        self.extents.as_deref().map(|extents| holes_of(extents, self.node.len)).unwrap_or_default()
    }
}

/// Goes through a tar.
#[derive(Debug)]
pub struct Walk<I> {
    input: I,
    extended: Extended,
    /// Bytes of the current member that were not consumed, and what fills up its last block.
    left: u64,
    padding: u64,
    is_over: bool,
    has_end: bool,
}

impl<I: Input> Walk<I> {
    /// Begins at the front.
    pub fn new(input: I) -> Self {
        let extended = Extended::default();
        Self { input, extended, left: 0, padding: 0, is_over: false, has_end: false }
    }

    /// Whether the two blocks of zeroes that end a tar were found.
    pub fn has_end(&self) -> bool {
        self.has_end
    }

    /// The input, at its position.
    pub fn input(&mut self) -> &mut I {
        &mut self.input
    }

    /// The next member; the unread rest of the one before is skipped.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a tar, or cannot be read.
    #[expect(clippy::should_implement_trait, reason = "an iterator could not lend the bytes of a member")]
    pub fn next(&mut self) -> Result<Option<Entry>> {
        self.pass()?;
        let header_at = self.input.position();
        self.extended.begin();
        for extended in 0.. {
            let at = self.input.position();
            let Some(block) = self.block()? else {
                return if extended == 0 { Ok(self.end(false)) } else { Err(self.cut(at, "a header")) };
            };
            let header = match decode(&block).map_err(|fault| self.error(fault, at))? {
                Block::Header(header) => header,
                Block::Zero if extended == 0 => return Ok(self.end(true)),
                Block::Zero => return Err(self.damaged(at, "an extended header is followed by no header")),
            };
            if extended == EXTENDED_MAX {
                return Err(self.damaged(at, "there are too many extended headers before one member"));
            }
            let Some(most) = Extended::len_max(header.type_flag) else {
                return self.member(header_at, at, &block, header).map(Some);
            };
            let body = self.body(&header, most, at)?;
            let taken = self.extended.take(header.type_flag, &body);
            taken.map_err(|fault| self.error(fault, at.saturating_add(BLOCK_LEN as u64)))?;
        }
        Ok(None)
    }

    /// The next stored bytes of the current member; none after the last.
    ///
    /// # Errors
    /// Returns an error if reading fails, or the archive ends before.
    pub fn chunk(&mut self) -> Result<Option<&[u8]>> {
        if self.left == 0 {
            return Ok(None);
        }
        let there = self.input.fill()?.len();
        if there == 0 {
            return Err(self.cut(self.input.position(), "the bytes of a member"));
        }
        let len = usize::try_from(self.left).unwrap_or(usize::MAX).min(there);
        Ok(self.input.fill()?.get(..len))
    }

    /// Advances by this many bytes of the result of [`chunk`](Self::chunk).
    pub fn consume(&mut self, len: usize) {
        let len = usize::try_from(self.left).unwrap_or(usize::MAX).min(len);
        self.input.consume(len);
        self.left = self.left.saturating_sub(len as u64);
    }

    /// Passes over this many stored bytes of the current member.
    ///
    /// # Errors
    /// Returns an error if reading fails, or the archive ends before.
    pub fn skip(&mut self, len: u64) -> Result<()> {
        let len = len.min(self.left);
        let at = self.input.position();
        if self.input.skip(len)? < len {
            return Err(self.cut(at, "the bytes of a member"));
        }
        self.left = self.left.saturating_sub(len);
        Ok(())
    }

    fn pass(&mut self) -> Result<()> {
        self.skip(self.left)?;
        // Some programs leave out what fills up the last block of all; what else is missing, the
        // next header shows.
        self.input.skip(std::mem::take(&mut self.padding))?;
        Ok(())
    }

    fn end<T>(&mut self, is_marked: bool) -> Option<T> {
        (self.is_over, self.has_end) = (true, is_marked);
        None
    }

    /// The next block; none at the end.
    fn block(&mut self) -> Result<Option<[u8; BLOCK_LEN]>> {
        if self.is_over {
            return Ok(None);
        }
        let at = self.input.position();
        let mut block = [0; BLOCK_LEN];
        match self.input.read(&mut block)? {
            0 => Ok(None),
            BLOCK_LEN => Ok(Some(block)),
            _ => Err(self.cut(at, "a header")),
        }
    }

    /// The bytes that follow an extended header.
    fn body(&mut self, header: &Header, most: u64, at: u64) -> Result<Vec<u8>> {
        if header.size > most {
            let what = format!("an extended header has {} bytes; at most {most} are taken", header.size);
            return Err(self.damaged(at, what));
        }
        self.check_end(at, header.size, "an extended header")?;
        // What is not there is not allocated: it is read in steps.
        let (mut bytes, mut left) = (Vec::new(), header.size);
        while left > 0 {
            let there = self.input.fill()?;
            let step = usize::try_from(left).unwrap_or(usize::MAX).min(there.len());
            if step == 0 {
                return Err(self.cut(at, "an extended header"));
            }
            bytes.extend_from_slice(there.get(..step).unwrap_or_default());
            self.input.consume(step);
            left = left.saturating_sub(step as u64);
        }
        self.input.skip(padding_len(header.size))?;
        Ok(bytes)
    }

    fn member(&mut self, header_at: u64, at: u64, block: &[u8; BLOCK_LEN], header: Header) -> Result<Entry> {
        let mut member = self.extended.member(header, block).map_err(|fault| self.error(fault, at))?;
        let key = key_of(&member.name).map_err(|what| self.damaged(at, what))?;
        let link = match member.kind {
            MemberKind::HardLink => key_of(&member.link).map_err(|what| self.damaged(at, what))?,
            MemberKind::Symlink if member.link.len() > KEY_LEN_MAX => {
                return Err(self.damaged(at, "the target of a link is too long"));
            }
            MemberKind::Symlink => member.link,
            _ => Vec::new(),
        };
        self.check_end(at, member.stored_len, "a member")?;
        let (stored, len, extents) = self.stored(at, member.stored_len, member.sparse.take())?;
        (self.left, self.padding) = (stored, padding_len(stored));
        Ok(Entry {
            key,
            node: Node {
                mode: member.mode,
                mtime_ns: member.mtime_ns,
                owner: member.owner,
                len: match member.kind {
                    MemberKind::Symlink => link.len() as u64,
                    MemberKind::Directory => 0,
                    _ => len,
                },
                ..Node::new(if member.is_pipe { Kind::Fifo } else { member.kind.in_tree() })
            },
            is_hard_link: member.kind == MemberKind::HardLink,
            is_refused: member.is_refused,
            stored_len: stored,
            header_at,
            data_at: self.input.position(),
            extents,
            link,
            xattrs: member.xattrs,
        })
    }

    /// The stored length of a member, its real length, and the pieces of a sparse one, whose map
    /// may continue in blocks that are read here.
    fn stored(
        &mut self,
        at: u64,
        mut stored: u64,
        map: Option<SparseMap>,
    ) -> Result<(u64, u64, Option<Vec<Extent>>)> {
        let Some(mut map) = map else { return Ok((stored, stored, None)) };
        while map.goes_on() {
            let block_at = self.input.position();
            let block = self.block()?.ok_or_else(|| self.cut(block_at, "the map of a sparse member"))?;
            let taken = map.take(&block).map_err(|fault| self.error(fault, block_at))?;
            stored = stored.saturating_sub(taken);
        }
        self.check_end(at, stored, "a member")?;
        let extents = map.extents(self.input.position(), stored);
        Ok((stored, map.member_len(), Some(extents.map_err(|fault| self.error(fault, at))?)))
    }

    /// Refuses what reaches past the end of a file, before anything of it is read.
    fn check_end(&self, at: u64, len: u64, what: &str) -> Result<()> {
        let Some(end) = self.input.total() else { return Ok(()) };
        let from = self.input.position();
        if from.checked_add(len).is_none_or(|to| to > end) {
            let what = format!("{what} of {len} bytes reaches past the end of the archive ({end} bytes)");
            return Err(self.damaged(at, what));
        }
        Ok(())
    }

    fn error(&self, fault: Fault, base: u64) -> Error {
        fault.of(self.input.path(), base)
    }

    fn damaged(&self, at: u64, what: impl Into<String>) -> Error {
        self.error(Fault::damaged(0, what), at)
    }

    fn cut(&self, at: u64, what: &str) -> Error {
        self.damaged(at, format!("the archive ends in the middle of {what}; it was cut off"))
    }
}
