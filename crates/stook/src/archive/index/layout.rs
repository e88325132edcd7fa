//! The layout of an index.

use crate::format::bytes::{array_at, i64_at, u32_at, u64_at};
use crate::source::Identity;

use super::super::error::{Decoded, Fault};
use super::super::format::Format;
use super::len_of;

/// Bytes of the header.
pub const HEADER_LEN: usize = 112;
pub(super) const ENTRY_LEN: usize = 104;
pub(super) const EXTENT_LEN: usize = 24;
const MAGIC: [u8; 8] = *b"\xd3stkaix\n";
/// Version 1 had no extended attributes; version 2 had keys with empty parts and parts `.`.
const VERSION: u32 = 3;

/// Bits of an entry.
pub(super) mod flag {
    pub(in super::super) const MODE: u8 = 1;
    pub(in super::super) const MTIME: u8 = 2;
    pub(in super::super) const OWNER: u8 = 4;
    pub(in super::super) const BODY: u8 = 8;
    pub(in super::super) const SPARSE: u8 = 16;
    pub(in super::super) const CRC: u8 = 32;
    pub(in super::super) const PIPE: u8 = 64;
}

/// What an index states about its archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The format of the archive.
    pub format: Format,
    /// The archive it was made of. The device is left out: its number changes when a machine starts
    /// again.
    pub identity: Identity,
    /// Whether the archive ended as its format wants it.
    pub has_end: bool,
    /// Members whose place was taken by later ones with the same key.
    pub replaced: u64,
}

/// The numbers of items in an index, which determine their offsets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) entries: u64,
    pub(super) extents: u64,
    pub(super) text_len: u64,
}

impl Layout {
    pub(super) fn entry(self, bytes: &[u8], number: u64) -> Option<&[u8]> {
        if number >= self.entries {
            return None;
        }
        piece(bytes, len_of(number, 0, 0)?, ENTRY_LEN as u64)
    }

    pub(super) fn extent(self, bytes: &[u8], number: u64) -> Option<&[u8]> {
        if number >= self.extents {
            return None;
        }
        piece(bytes, len_of(self.entries, number, 0)?, EXTENT_LEN as u64)
    }

    pub(super) fn text(self, bytes: &[u8], at: u64, len: u32) -> Option<&[u8]> {
        let len = u64::from(len);
        if at.checked_add(len)? > self.text_len {
            return None;
        }
        piece(bytes, len_of(self.entries, self.extents, at)?, len)
    }
}

fn piece(bytes: &[u8], at: u64, len: u64) -> Option<&[u8]> {
    let (from, to) = (usize::try_from(at).ok()?, usize::try_from(at.checked_add(len)?).ok()?);
    bytes.get(from..to)
}

/// Reads the header and checks the sums of everything.
pub(super) fn decode_header(bytes: &[u8]) -> Decoded<(Summary, Layout)> {
    let short = || Fault::damaged(bytes.len() as u64, "the index is cut off");
    if array_at::<8>(bytes, 0).ok_or_else(short)? != MAGIC {
        return Err(Fault::damaged(0, "it is no index of an archive"));
    }
    let version = u32_at(bytes, 8).ok_or_else(short)?;
    if version != VERSION {
        return Err(Fault::unsupported(8, format!("version {version} of an index")));
    }
    let header = bytes.get(..HEADER_LEN).ok_or_else(short)?;
    let stated = u32_at(header, 108);
    if stated != Some(crc32c::crc32c(header.get(..108).unwrap_or_default())) {
        return Err(Fault::damaged(0, "the checksum of the header is not what was written"));
    }
    let (summary, layout, sum) =
        fields(header).ok_or_else(|| Fault::damaged(0, "its header makes no sense"))?;
    let len = len_of(layout.entries, layout.extents, layout.text_len);
    if len != Some(bytes.len() as u64) {
        let what = format!("the index has {} bytes, but its header states another length", bytes.len());
        return Err(Fault::damaged(0, what));
    }
    if sum != crc32c::crc32c(bytes.get(HEADER_LEN..).unwrap_or_default()) {
        return Err(Fault::damaged(HEADER_LEN as u64, "the checksum of the entries is not what was written"));
    }
    Ok((summary, layout))
}

fn fields(header: &[u8]) -> Option<(Summary, Layout, u32)> {
    let at = |at| u64_at(header, at);
    let identity = Identity {
        len: at(16)?,
        device: 0,
        inode: at(24)?,
        mtime_ns: i64_at(header, 32)?,
        ctime_ns: i64_at(header, 40)?,
        ..Identity::default()
    };
    let flags = u32_at(header, 80)?;
    let reserved = [header.get(84..88)?, header.get(92..108)?].concat();
    if flags > 1 || reserved.iter().any(|byte| *byte != 0) {
        return None;
    }
    let format = Format::from_code(u32_at(header, 12)?)?;
    let summary = Summary { format, identity, has_end: flags & 1 != 0, replaced: at(72)? };
    let layout = Layout { entries: at(48)?, extents: at(56)?, text_len: at(64)? };
    Some((summary, layout, u32_at(header, 88)?))
}

/// The header of an index with this after it.
pub(super) fn encode_header(summary: &Summary, layout: Layout, table_sum: u32) -> [u8; HEADER_LEN] {
    let mut header = Vec::with_capacity(HEADER_LEN);
    header.extend(MAGIC);
    header.extend(VERSION.to_le_bytes());
    header.extend(summary.format.code().to_le_bytes());
    header.extend(summary.identity.len.to_le_bytes());
    header.extend(summary.identity.inode.to_le_bytes());
    header.extend(summary.identity.mtime_ns.to_le_bytes());
    header.extend(summary.identity.ctime_ns.to_le_bytes());
    for count in [layout.entries, layout.extents, layout.text_len, summary.replaced] {
        header.extend(count.to_le_bytes());
    }
    header.extend(u32::from(summary.has_end).to_le_bytes());
    header.extend([0; 4]);
    header.extend(table_sum.to_le_bytes());
    header.extend([0; 16]);
    let sum = crc32c::crc32c(&header);
    header.extend(sum.to_le_bytes());
    // All the lengths above are fixed.
    header.first_chunk().copied().unwrap_or([0; HEADER_LEN])
}
