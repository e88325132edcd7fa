//! From header to header through a tar.

use super::super::error::{Error, Fault, Result};
use super::super::input::Input;
use super::super::member::{Extent, KEY_LEN_MAX, MemberKind, key_of};
use super::header::{BLOCK_LEN, Block, Header, decode, text};
use super::pax::{Pax, decimal};
use super::sparse::{self, Map};

/// A path, and the zero after it.
const LONG_LEN_MAX: u64 = 65_536;
/// The longest extended header, in bytes: one with the map of a very sparse member.
const PAX_LEN_MAX: u64 = 16 << 20;
/// Extended headers before one member.
const EXTENDED_MAX: usize = 32;

/// A member as it stands in a tar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path, without `./` before it and `/` after it.
    pub key: Vec<u8>,
    /// What it is.
    pub kind: MemberKind,
    /// Permission bits.
    pub mode: Option<u32>,
    /// Modification time, nanoseconds since 1970.
    pub mtime_ns: Option<i64>,
    /// User and group.
    pub owner: Option<(u32, u32)>,
    /// Bytes it has.
    pub len: u64,
    /// Bytes of these that are stored.
    pub stored_len: u64,
    /// Where its first header is, extended ones included.
    pub header_at: u64,
    /// Where its bytes begin.
    pub data_at: u64,
    /// What is stored of a sparse member.
    pub extents: Option<Vec<Extent>>,
    /// What a link leads to: of a symbolic one as it stands there, of a hard one the key.
    pub link: Vec<u8>,
}

/// What was said before a member.
#[derive(Debug, Default)]
struct Said {
    pax: Pax,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
}

/// Goes through a tar.
#[derive(Debug)]
pub struct Walk<I> {
    input: I,
    globals: Pax,
    /// Bytes of the current member that were not consumed, and what fills up its last block.
    left: u64,
    padding: u64,
    is_over: bool,
    has_end: bool,
}

impl<I: Input> Walk<I> {
    /// Begins at the front.
    pub fn new(input: I) -> Self {
        Self { input, globals: Pax::default(), left: 0, padding: 0, is_over: false, has_end: false }
    }

    /// Whether the two blocks of zeroes were met that end a tar.
    pub fn has_end(&self) -> bool {
        self.has_end
    }

    /// The input, where it stands.
    pub fn input(&mut self) -> &mut I {
        &mut self.input
    }

    /// The next member; what was not read of the one before is passed over.
    ///
    /// # Errors
    /// When the bytes are not a tar, and what reading meets.
    #[expect(clippy::should_implement_trait, reason = "an iterator could not lend the bytes of a member")]
    pub fn next(&mut self) -> Result<Option<Entry>> {
        self.pass()?;
        let header_at = self.input.position();
        let mut said = Said { pax: self.globals.clone(), ..Said::default() };
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
            match header.type_flag {
                b'x' | b'X' => {
                    let bytes = self.body(&header, PAX_LEN_MAX, at)?;
                    said.pax
                        .take(&bytes)
                        .map_err(|fault| self.error(fault, at.saturating_add(BLOCK_LEN as u64)))?;
                    sparse::check_count(said.pax.sparse.map.len()).map_err(|fault| self.error(fault, at))?;
                }
                b'g' => {
                    let bytes = self.body(&header, PAX_LEN_MAX, at)?;
                    let mut globals = std::mem::take(&mut self.globals);
                    globals
                        .take(&bytes)
                        .map_err(|fault| self.error(fault, at.saturating_add(BLOCK_LEN as u64)))?;
                    // What can only be true of one member is not taken for all.
                    globals.sparse = Default::default();
                    (globals.size, globals.path, globals.link) = (None, None, None);
                    self.globals = globals;
                    said.pax = self.globals.clone();
                }
                b'L' => said.long_name = Some(self.long(&header, at)?),
                b'K' => said.long_link = Some(self.long(&header, at)?),
                b'M' => {
                    let what = "it is one of several volumes, and begins in the middle of a member";
                    return Err(self.error(Fault::unsupported(0, what), at));
                }
                _ => return self.member(header_at, at, &block, header, said).map(Some),
            }
        }
        Ok(None)
    }

    /// The next stored bytes of the current member; none after the last.
    ///
    /// # Errors
    /// What reading meets, or that the archive ends before.
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

    /// Advances by this many bytes of what [`chunk`](Self::chunk) gave.
    pub fn consume(&mut self, len: usize) {
        let len = usize::try_from(self.left).unwrap_or(usize::MAX).min(len);
        self.input.consume(len);
        self.left = self.left.saturating_sub(len as u64);
    }

    /// Passes over this many stored bytes of the current member.
    ///
    /// # Errors
    /// What reading meets, or that the archive ends before.
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
        self.input.skip(padding(header.size))?;
        Ok(bytes)
    }

    /// A long name of GNU tar.
    fn long(&mut self, header: &Header, at: u64) -> Result<Vec<u8>> {
        let mut bytes = self.body(header, LONG_LEN_MAX, at)?;
        bytes.truncate(text(&bytes).len());
        Ok(bytes)
    }

    fn member(
        &mut self,
        header_at: u64,
        at: u64,
        block: &[u8; BLOCK_LEN],
        header: Header,
        said: Said,
    ) -> Result<Entry> {
        let Said { mut pax, long_name, long_link } = said;
        let name = pax.sparse.name.take().or(pax.path.take()).or(long_name).unwrap_or(header.name);
        let link = pax.link.take().or(long_link).unwrap_or(header.link);
        let kind = kind_of(header.type_flag, &name);
        // Links, directories, pipes and devices have no bytes, whatever their size says: so all who
        // read tars hold it.
        let stored = match header.type_flag {
            b'1'..=b'6' => 0,
            _ => pax.size.unwrap_or(header.size),
        };
        if kind == MemberKind::Directory && stored > 0 && header.type_flag != b'D' {
            return Err(self.damaged(at, "a file that is named like a directory has bytes"));
        }
        let key = key_of(&name).map_err(|what| self.damaged(at, what))?;
        let link = match kind {
            MemberKind::HardLink => key_of(&link).map_err(|what| self.damaged(at, what))?,
            MemberKind::Symlink if link.len() > KEY_LEN_MAX => {
                return Err(self.damaged(at, "the target of a link is too long"));
            }
            MemberKind::Symlink => link,
            _ => Vec::new(),
        };
        self.check_end(at, stored, "a member")?;
        let (map, len, stored) = self.sparse(at, block, header.type_flag, pax.sparse, stored)?;
        let data_at = self.input.position();
        let extents = match map {
            Some(map) => {
                let extents = sparse::extents(&map, len, data_at, stored);
                Some(extents.map_err(|fault| self.error(fault, at))?)
            }
            None => None,
        };
        (self.left, self.padding) = (stored, padding(stored));
        let mtime = header.mtime.and_then(|seconds| seconds.checked_mul(1_000_000_000));
        let small = |wide: Option<u64>, narrow: Option<u32>| match wide {
            Some(wide) => u32::try_from(wide).ok(),
            None => narrow,
        };
        Ok(Entry {
            key,
            kind,
            mode: header.mode,
            mtime_ns: pax.mtime_ns.or(mtime),
            owner: small(pax.uid, header.uid).zip(small(pax.gid, header.gid)),
            len: match kind {
                MemberKind::Symlink => link.len() as u64,
                MemberKind::Directory => 0,
                _ => len,
            },
            stored_len: stored,
            header_at,
            data_at,
            extents,
            link,
        })
    }

    /// The map of a sparse member, the length of a member, and what is stored of it.
    fn sparse(
        &mut self,
        at: u64,
        block: &[u8; BLOCK_LEN],
        type_flag: u8,
        pax: super::pax::PaxSparse,
        stored: u64,
    ) -> Result<(Option<Map>, u64, u64)> {
        if type_flag == b'S' {
            let (mut map, len, mut goes_on) =
                sparse::of_header(block).map_err(|fault| self.error(fault, at))?;
            while goes_on {
                let at = self.input.position();
                let block = self.block()?.ok_or_else(|| self.cut(at, "the map of a sparse member"))?;
                goes_on = sparse::of_block(&block, &mut map).map_err(|fault| self.error(fault, at))?;
            }
            self.check_end(at, stored, "a member")?;
            return Ok((Some(map), len, stored));
        }
        match (pax.version, pax.len) {
            ((None, None), None) => Ok((None, stored, stored)),
            ((Some(1), Some(0)), Some(len)) => {
                let (map, map_len) = self.map_before_bytes(stored)?;
                Ok((Some(map), len, stored.saturating_sub(map_len)))
            }
            ((None | Some(0), _), Some(len)) => Ok((Some(pax.map), len, stored)),
            ((major, minor), _) => {
                let shown = |n: Option<u64>| n.map_or("?".to_owned(), |n| n.to_string());
                let what = format!("sparse members of version {}.{}", shown(major), shown(minor));
                Err(self.error(Fault::unsupported(0, what), at))
            }
        }
    }

    /// A map that stands before the bytes, in lines of text, filled up to whole blocks; and its
    /// length with that.
    fn map_before_bytes(&mut self, stored: u64) -> Result<(Map, u64)> {
        let start = self.input.position();
        let (mut numbers, mut line) = (Vec::<u64>::new(), Vec::new());
        let (mut wanted, mut used) = (1_u64, 0_u64);
        while (numbers.len() as u64) < wanted {
            if stored.saturating_sub(used) < BLOCK_LEN as u64 {
                return Err(self.damaged(start, "the map of a sparse member does not end within it"));
            }
            let block = self.block()?.ok_or_else(|| self.cut(start, "the map of a sparse member"))?;
            used = used.saturating_add(BLOCK_LEN as u64);
            for byte in block {
                if numbers.len() as u64 == wanted {
                    break;
                }
                if byte != b'\n' {
                    line.push(byte);
                    continue;
                }
                let bad = || self.damaged(start, "the map of a sparse member is not numbers in lines");
                let number = decimal(&line).ok_or_else(bad)?;
                line.clear();
                if numbers.is_empty() {
                    let count = usize::try_from(number).unwrap_or(usize::MAX);
                    sparse::check_count(count).map_err(|fault| self.error(fault, start))?;
                    wanted = number.saturating_mul(2).saturating_add(1);
                }
                numbers.push(number);
            }
            if line.len() > 20 {
                return Err(self.damaged(start, "the map of a sparse member is not numbers in lines"));
            }
        }
        let pairs = numbers.get(1..).unwrap_or_default().chunks_exact(2);
        let map = pairs.filter_map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect();
        Ok((map, used))
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

/// What fills up the last block of this many bytes.
fn padding(len: u64) -> u64 {
    let unit = BLOCK_LEN as u64;
    len.checked_next_multiple_of(unit).map_or(0, |whole| whole.saturating_sub(len))
}

fn kind_of(type_flag: u8, name: &[u8]) -> MemberKind {
    match type_flag {
        // Before there was a type for directories, their names ended so.
        b'0' | 0 | b'7' if name.ends_with(b"/") => MemberKind::Directory,
        b'0' | 0 | b'7' | b'S' => MemberKind::File,
        b'1' => MemberKind::HardLink,
        b'2' => MemberKind::Symlink,
        b'5' | b'D' => MemberKind::Directory,
        // Devices and pipes; the name of a volume, a part of a file of another volume, long names
        // of GNU tar before 1989.
        b'3' | b'4' | b'6' | b'V' | b'M' | b'N' => MemberKind::Other,
        // POSIX: what is not known is a file.
        _ => MemberKind::File,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_block_is_filled_up() {
        assert_eq!([0, 1, 511, 512, 513].map(padding), [0, 511, 1, 0, 511]);
    }
}
