//! Members, each put together from its header and the extended ones before it.

use super::super::fault::{Decoded, Fault};
use super::super::member::MemberKind;
use super::header::{BLOCK_LEN, Header, text};
use super::pax::{Pax, PaxSparse};
use super::sparse::{SparseMap, check_count};
use crate::tree::Xattrs;

/// A path, and the zero after it.
const LONG_LEN_MAX: u64 = 65_536;
/// The longest extended header, in bytes: one with the map of a very sparse member.
const PAX_LEN_MAX: u64 = 16 << 20;

/// A member, as its headers describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its path, as stored.
    pub name: Vec<u8>,
    /// Its kind.
    pub kind: MemberKind,
    /// Whether it contradicts itself: a file that is named like a directory, and has bytes.
    pub is_refused: bool,
    /// Whether it is a named pipe, of all that is of another kind.
    pub is_pipe: bool,
    /// Permission bits.
    pub mode: Option<u32>,
    /// Modification time, nanoseconds since 1970; of one that is farther away the nearest that
    /// fits, as of files on disk.
    pub mtime_ns: Option<i64>,
    /// User and group.
    pub owner: Option<(u32, u32)>,
    /// Bytes stored after its header, without continuation blocks of a GNU header.
    pub stored_len: u64,
    /// The map, if it is sparse.
    pub sparse: Option<SparseMap>,
    /// The target of a link, as stored.
    pub link: Vec<u8>,
    /// Its extended attributes. Those that cannot be taken as they are have no value.
    pub xattrs: Xattrs,
}

/// What extended headers say: those before a member, and those that hold for all that follow.
#[derive(Debug, Clone, Default)]
pub struct Extended {
    globals: Pax,
    said: Said,
}

/// What was said before a member.
#[derive(Debug, Clone, Default)]
struct Said {
    pax: Pax,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
}

impl Extended {
    /// The longest body of an extended header of this type; `None` if it is not one.
    pub fn len_max(type_flag: u8) -> Option<u64> {
        match type_flag {
            b'x' | b'X' | b'g' => Some(PAX_LEN_MAX),
            b'L' | b'K' => Some(LONG_LEN_MAX),
            _ => None,
        }
    }

    /// Begins with the next member: only what holds for all is left.
    pub fn begin(&mut self) {
        self.said = Said { pax: self.globals.clone(), ..Said::default() };
    }

    /// Takes in the body of an extended header.
    ///
    /// # Errors
    /// Returns an error if it is invalid.
    pub fn take(&mut self, type_flag: u8, body: &[u8]) -> Decoded<()> {
        match type_flag {
            b'x' | b'X' => {
                self.said.pax.take(body)?;
                check_count(self.said.pax.sparse.map.len())?;
            }
            b'g' => {
                self.globals.take(body)?;
                // What can only be true of one member is not taken for all.
                self.globals.sparse = PaxSparse::default();
                self.globals.xattrs.clear();
                (self.globals.size, self.globals.path, self.globals.link) = (None, None, None);
                self.said.pax = self.globals.clone();
            }
            b'L' => self.said.long_name = Some(text(body).to_vec()),
            b'K' => self.said.long_link = Some(text(body).to_vec()),
            _ => {}
        }
        Ok(())
    }

    /// The member of a header that is no extended one; `block` is what that was decoded from.
    ///
    /// # Errors
    /// Returns an error if they contradict each other, or require an unknown feature.
    pub fn member(&mut self, header: Header, block: &[u8; BLOCK_LEN]) -> Decoded<Member> {
        if header.type_flag == b'M' {
            let what = "it is one of several volumes, and begins in the middle of a member";
            return Err(Fault::unsupported(0, what));
        }
        let Said { mut pax, long_name, long_link } = std::mem::take(&mut self.said);
        let name = pax.sparse.name.take().or(pax.path.take()).or(long_name).unwrap_or(header.name);
        let kind = kind_of(header.type_flag, &name);
        // Links, directories, pipes and devices have no bytes, whatever their size says: all
        // readers of tars do it this way.
        let stored_len = match header.type_flag {
            b'1'..=b'6' => 0,
            _ => pax.size.unwrap_or(header.size),
        };
        let is_refused = kind == MemberKind::Directory && stored_len > 0 && header.type_flag != b'D';
        let mtime = header.mtime.map(|seconds| seconds.saturating_mul(1_000_000_000));
        let small = |wide: Option<Option<u64>>, narrow: Option<u32>| match wide {
            Some(wide) => wide.and_then(|wide| u32::try_from(wide).ok()),
            None => narrow,
        };
        Ok(Member {
            name,
            kind: if is_refused { MemberKind::File } else { kind },
            is_refused,
            is_pipe: header.type_flag == b'6',
            mode: header.mode,
            mtime_ns: pax.mtime_ns.unwrap_or(mtime),
            owner: small(pax.uid, header.uid).zip(small(pax.gid, header.gid)),
            stored_len,
            sparse: match header.type_flag {
                b'S' => Some(SparseMap::of_header(block)?),
                _ => of_records(pax.sparse, stored_len)?,
            },
            link: pax.link.take().or(long_link).unwrap_or(header.link),
            xattrs: Xattrs::of(pax.xattrs),
        })
    }
}

/// The map from extended headers, or one that they say precedes the bytes.
fn of_records(pax: PaxSparse, stored: u64) -> Decoded<Option<SparseMap>> {
    match (pax.version, pax.len) {
        ((None, None), None) => Ok(None),
        ((Some(1), Some(0)), Some(len)) => Ok(Some(SparseMap::of_lines(len, stored))),
        ((None | Some(0), _), Some(len)) => Ok(Some(SparseMap::of_records(pax.map, len))),
        ((major, minor), _) => {
            let shown = |n: Option<u64>| n.map_or("?".to_owned(), |n| n.to_string());
            let what = format!("sparse members of version {}.{}", shown(major), shown(minor));
            Err(Fault::unsupported(0, what))
        }
    }
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
