//! The index of an archive: what `docs/formats/archive-index-v3.md` lays down, in memory and beside
//! the archive.
//!
//! It is one run of bytes, checked once and then read in place: opening one with a million members
//! decodes none of them.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used, clippy::expect_used)]

mod build;
mod layout;

pub(super) use build::{Builder, Seen};
pub use layout::{HEADER_LEN, Summary};

use bytes::Bytes;

use super::error::{Decoded, Fault};
use super::member::{Extent, Member, MemberKind, Method};
use crate::format::bytes::{i64_at, u16_at, u32_at, u64_at};
use crate::tree::{Kind, Node};
use layout::{ENTRY_LEN, EXTENT_LEN, Layout, flag};

/// A checked index.
#[derive(Debug, Clone)]
pub struct Index {
    summary: Summary,
    bytes: Bytes,
    layout: Layout,
}

impl Index {
    /// Decodes the bytes of an index.
    ///
    /// # Errors
    /// Returns an error if they are damaged or invalid.
    pub fn decode(bytes: Bytes) -> Decoded<Self> {
        let (summary, layout) = layout::decode_header(&bytes)?;
        let index = Self { summary, bytes, layout };
        index.check()?;
        Ok(index)
    }

    /// All of it.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// What it states about the archive.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Members.
    pub fn len(&self) -> u64 {
        self.layout.entries
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A member by its number in the order of keys.
    pub fn member(&self, number: u64) -> Option<Member<'_>> {
        if number >= self.len() {
            return None;
        }
        let entry = self.entry(number)?;
        let at = |at| u64_at(entry, at);
        let flags = *entry.get(13)?;
        let has = |bit: u8| flags & bit != 0;
        let kind = MemberKind::from_code(*entry.get(12)?)?;
        Some(Member {
            number,
            key: self.text(at(0)?, u32_at(entry, 8)?)?,
            node: Node {
                kind: if has(flag::PIPE) && kind == MemberKind::Other { Kind::Fifo } else { kind.in_tree() },
                mode: if has(flag::MODE) { u32_at(entry, 16) } else { None },
                mtime_ns: if has(flag::MTIME) { i64_at(entry, 32) } else { None },
                owner: if has(flag::OWNER) { u32_at(entry, 20).zip(u32_at(entry, 24)) } else { None },
                len: at(40)?,
                links: u32_at(entry, 96)?.max(1),
                device: 0,
            },
            is_hard_link: kind == MemberKind::HardLink,
            stored_len: at(56)?,
            header_at: at(64)?,
            data_at: at(48)?,
            method: Method::from_code(u16_at(entry, 14)?),
            crc32: if has(flag::CRC) { u32_at(entry, 28) } else { None },
            link: self.text(at(72)?, u32_at(entry, 80)?)?,
            xattrs: self.text(at(72)?.checked_add(u64::from(u32_at(entry, 80)?))?, u32_at(entry, 100)?)?,
            is_sparse: has(flag::SPARSE),
            has_body: has(flag::BODY),
        })
    }

    /// The member with a key.
    pub fn find(&self, key: &[u8]) -> Option<Member<'_>> {
        self.member(self.first_from(key)).filter(|member| member.key == key)
    }

    /// The number of the first member whose key is not before this one.
    pub fn first_from(&self, key: &[u8]) -> u64 {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = from.midpoint(to);
            match self.key(middle) {
                Some(there) if there < key => from = middle.saturating_add(1),
                _ => to = middle,
            }
        }
        from
    }

    /// The stored pieces of a sparse member.
    pub fn extents(&self, number: u64) -> Vec<Extent> {
        let Some(entry) = self.entry(number) else { return Vec::new() };
        let (first, count) = (u64_at(entry, 88).unwrap_or(0), u64::from(u32_at(entry, 84).unwrap_or(0)));
        (first..first.saturating_add(count)).map_while(|extent| self.extent(extent)).collect()
    }

    fn extent(&self, number: u64) -> Option<Extent> {
        let bytes = self.layout.extent(&self.bytes, number)?;
        Some(Extent { at: u64_at(bytes, 0)?, stored_at: u64_at(bytes, 8)?, len: u64_at(bytes, 16)? })
    }

    fn entry(&self, number: u64) -> Option<&[u8]> {
        self.layout.entry(&self.bytes, number)
    }

    fn key(&self, number: u64) -> Option<&[u8]> {
        let entry = self.entry(number)?;
        self.text(u64_at(entry, 0)?, u32_at(entry, 8)?)
    }

    fn text(&self, at: u64, len: u32) -> Option<&[u8]> {
        self.layout.text(&self.bytes, at, len)
    }

    /// Looks at every entry once, so that nothing has to be doubted later.
    fn check(&self) -> Decoded<()> {
        let mut before: Option<&[u8]> = None;
        for number in 0..self.len() {
            let fault = |what: &str| {
                let at = number.saturating_mul(ENTRY_LEN as u64).saturating_add(HEADER_LEN as u64);
                Fault::damaged(at, format!("entry {number} of the index {what}"))
            };
            let member = self.member(number).ok_or_else(|| fault("points out of it"))?;
            if before.is_some_and(|before| before >= member.key) {
                return Err(fault("is not in order"));
            }
            before = Some(member.key);
            self.check_place(&member).map_err(|what| fault(&what))?;
        }
        Ok(())
    }

    /// Whether the bytes of a member lie in the archive.
    fn check_place(&self, member: &Member<'_>) -> Result<(), String> {
        // The end of a compressed tar is not known before it is read.
        let end = if self.summary.format.is_sequential() { u64::MAX } else { self.summary.identity.len };
        let is_within = |at: u64, len: u64| at.checked_add(len).is_some_and(|to| to <= end);
        if !is_within(member.data_at, member.stored_len) || !is_within(member.header_at, 0) {
            return Err("points out of the archive".into());
        }
        if !member.is_sparse {
            let is_plain = member.has_body && member.method == Method::Stored;
            let in_file = is_plain && member.kind() != MemberKind::Symlink;
            return match in_file && member.node.len != member.stored_len {
                true => Err("has two lengths".into()),
                false => Ok(()),
            };
        }
        let entry = self.entry(member.number).unwrap_or_default();
        let (count, first) = (u32_at(entry, 84).unwrap_or(0), u64_at(entry, 88).unwrap_or(u64::MAX));
        let (mut at, mut stored) = (0_u64, 0_u64);
        for number in first..first.saturating_add(u64::from(count)) {
            let extent = self.extent(number).ok_or("points out of the pieces")?;
            let to = extent.at.checked_add(extent.len).filter(|to| *to <= member.node.len && extent.at >= at);
            at = to.ok_or("has pieces that do not fit")?;
            if !is_within(extent.stored_at, extent.len) {
                return Err("has pieces out of the archive".into());
            }
            stored = stored.saturating_add(extent.len);
        }
        if stored == member.stored_len { Ok(()) } else { Err("has two lengths".into()) }
    }
}

/// The length of an index of this many entries, pieces and bytes of text; `None` if that overflows.
pub(super) fn len_of(entries: u64, extents: u64, text: u64) -> Option<u64> {
    let entries = entries.checked_mul(ENTRY_LEN as u64)?;
    let extents = extents.checked_mul(EXTENT_LEN as u64)?;
    (HEADER_LEN as u64).checked_add(entries)?.checked_add(extents)?.checked_add(text)
}
