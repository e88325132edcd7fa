//! An index on its way: members in the order of the archive in, the newest of each key in the order
//! of keys out.

use bytes::Bytes;

use super::super::error::{Decoded, Fault};
use super::super::member::{Extent, MemberKind, Method};
use super::layout::{ENTRY_LEN, Layout, Summary, encode_header, flag};
use super::{Index, len_of};
use crate::tree::{Kind, Node};

/// A member as it was found.
#[derive(Debug)]
pub(in super::super) struct Seen<'a> {
    pub(in super::super) key: &'a [u8],
    /// As it is in a tree, with one name.
    pub(in super::super) node: Node,
    pub(in super::super) is_hard_link: bool,
    /// Whether what the archive says of it contradicts itself, so that it has no bytes to be read.
    pub(in super::super) is_refused: bool,
    pub(in super::super) stored_len: u64,
    pub(in super::super) header_at: u64,
    pub(in super::super) data_at: u64,
    pub(in super::super) method: Method,
    pub(in super::super) crc32: Option<u32>,
    pub(in super::super) extents: Option<&'a [Extent]>,
    pub(in super::super) link: &'a [u8],
    pub(in super::super) xattrs: &'a [u8],
}

/// Offset and length of a text.
type Text = (u64, u32);

/// A member without its texts.
#[derive(Debug, Clone, Copy)]
struct Row {
    key: Text,
    link: Text,
    xattrs: Text,
    /// Its names are counted when all are there.
    node: Node,
    is_hard_link: bool,
    stored_len: u64,
    header_at: u64,
    data_at: u64,
    method: Method,
    crc32: Option<u32>,
    extents: Option<(u64, u32)>,
    has_body: bool,
    /// The row of the file that a hard link is a name of.
    file: Option<usize>,
}

/// Takes members in.
#[derive(Debug)]
pub(in super::super) struct Builder {
    rows: Vec<Row>,
    text: Vec<u8>,
    extents: Vec<Extent>,
    max_bytes: u64,
}

impl Builder {
    /// An index of at most this many bytes.
    pub(in super::super) fn new(max_bytes: u64) -> Self {
        Self { rows: Vec::new(), text: Vec::new(), extents: Vec::new(), max_bytes }
    }

    /// Takes a member in.
    ///
    /// # Errors
    /// Returns an error if the index becomes too large.
    pub(in super::super) fn push(&mut self, seen: &Seen<'_>) -> Decoded<()> {
        let extents = seen.extents.map(|extents| {
            let first = self.extents.len() as u64;
            self.extents.extend_from_slice(extents);
            // Their number is bounded where maps are read.
            (first, u32::try_from(extents.len()).unwrap_or(u32::MAX))
        });
        let row = Row {
            key: put(&mut self.text, seen.key),
            link: put(&mut self.text, seen.link),
            xattrs: put(&mut self.text, seen.xattrs),
            node: seen.node,
            is_hard_link: seen.is_hard_link,
            stored_len: seen.stored_len,
            header_at: seen.header_at,
            data_at: seen.data_at,
            method: seen.method,
            crc32: seen.crc32,
            extents,
            has_body: matches!(seen.node.kind, Kind::File | Kind::Symlink)
                && !seen.is_hard_link
                && !seen.is_refused,
            file: None,
        };
        self.rows.push(row);
        let len = len_of(self.rows.len() as u64, self.extents.len() as u64, self.text.len() as u64);
        if len.is_none_or(|len| len > self.max_bytes) {
            let what = format!(
                "its index would take more than {} bytes ({} members so far)",
                self.max_bytes,
                self.rows.len()
            );
            return Err(Fault::unsupported(seen.header_at, what));
        }
        Ok(())
    }

    /// The index.
    ///
    /// # Errors
    /// Returns an error if it contradicts itself, which would be a defect of its builder.
    pub(in super::super) fn finish(mut self, mut summary: Summary) -> Decoded<Index> {
        let order = self.order();
        self.resolve_links(&order);
        let newest = self.newest(&order);
        summary.replaced = (self.rows.len() as u64).saturating_sub(newest.len() as u64);
        self.count_names(&newest);
        let (mut entries, mut text) = (Vec::new(), Vec::new());
        for number in &newest {
            let Some(row) = self.rows.get(*number) else { continue };
            let (key, link) = (put(&mut text, self.get(row.key)), put(&mut text, self.get(row.link)));
            // Directly after its link: readers look for them there.
            let xattrs = put(&mut text, self.get(row.xattrs));
            encode(&mut entries, row, key, link, xattrs.1);
        }
        let layout = Layout {
            entries: newest.len() as u64,
            extents: self.extents.len() as u64,
            text_len: text.len() as u64,
        };
        for extent in &self.extents {
            for number in [extent.at, extent.stored_at, extent.len] {
                entries.extend(number.to_le_bytes());
            }
        }
        entries.extend_from_slice(&text);
        let header = encode_header(&summary, layout, crc32c::crc32c(&entries));
        // Put in front at the end, so that only one copy is ever whole.
        entries.splice(0..0, header);
        Index::decode(Bytes::from(entries))
    }

    /// All rows by key, those of one key from the oldest to the newest.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by(|a, b| self.key(*a).cmp(self.key(*b)).then(a.cmp(b)));
        order
    }

    /// The newest row of each key.
    fn newest(&self, order: &[usize]) -> Vec<usize> {
        let is_newest = |at: usize, number: usize| {
            let next = order.get(at.saturating_add(1));
            next.is_none_or(|next| self.key(*next) != self.key(number))
        };
        order.iter().enumerate().filter(|(at, number)| is_newest(*at, **number)).map(|(_, n)| *n).collect()
    }

    /// A hard link gets the bytes of the file that had the name it leads to when it was written: as
    /// unpacking the archive from the front would produce.
    fn resolve_links(&mut self, order: &[usize]) {
        for number in 0..self.rows.len() {
            let Some(link) = self.rows.get(number).copied().filter(|row| row.is_hard_link) else {
                continue;
            };
            let target = self.get(link.link);
            let is_before = |other: &usize| (self.key(*other), *other) < (target, number);
            let at = order.partition_point(is_before).checked_sub(1);
            let found = at.and_then(|at| order.get(at).copied()).filter(|found| self.key(*found) == target);
            let Some((found, file)) = found.and_then(|found| Some((found, *self.rows.get(found)?))) else {
                continue;
            };
            let first = file.file.unwrap_or(found);
            // One more name of a link is a link with the same target.
            let is_hard_link = file.node.kind != Kind::Symlink;
            let is_first = file.node.kind == Kind::File && !file.is_hard_link;
            let text = if is_first { file.key } else { file.link };
            let Node { mode, mtime_ns, owner, .. } = link.node;
            if let Some(row) = self.rows.get_mut(number)
                && file.has_body
            {
                *row = Row {
                    key: link.key,
                    link: text,
                    is_hard_link,
                    header_at: link.header_at,
                    node: Node { mode, mtime_ns, owner, ..file.node },
                    file: Some(first),
                    ..file
                };
            }
        }
    }

    /// Counts the names of files among the members that are left.
    fn count_names(&mut self, newest: &[usize]) {
        for number in newest {
            let first = self.rows.get(*number).filter(|row| row.is_hard_link);
            if let Some(first) = first.and_then(|row| row.file).and_then(|first| self.rows.get_mut(first)) {
                first.node.links = first.node.links.saturating_add(1);
            }
        }
    }

    fn key(&self, number: usize) -> &[u8] {
        self.rows.get(number).map(|row| self.get(row.key)).unwrap_or_default()
    }

    fn get(&self, (at, len): Text) -> &[u8] {
        let from = usize::try_from(at).unwrap_or(usize::MAX);
        self.text.get(from..from.saturating_add(len as usize)).unwrap_or_default()
    }
}

fn put(text: &mut Vec<u8>, bytes: &[u8]) -> Text {
    let at = text.len() as u64;
    text.extend_from_slice(bytes);
    // Texts are bounded where they are read.
    (at, u32::try_from(bytes.len()).unwrap_or(u32::MAX))
}

fn encode(out: &mut Vec<u8>, row: &Row, key: Text, link: Text, xattrs_len: u32) {
    let bits = [
        (row.node.mode.is_some(), flag::MODE),
        (row.node.mtime_ns.is_some(), flag::MTIME),
        (row.node.owner.is_some(), flag::OWNER),
        (row.has_body, flag::BODY),
        (row.extents.is_some(), flag::SPARSE),
        (row.crc32.is_some(), flag::CRC),
        (row.node.kind == Kind::Fifo, flag::PIPE),
    ];
    let flags = bits.iter().filter(|(is_set, _)| *is_set).fold(0, |flags, (_, bit)| flags | bit);
    let (user, group) = row.node.owner.unwrap_or_default();
    let (first, count) = row.extents.unwrap_or_default();
    let before = out.len();
    out.extend(key.0.to_le_bytes());
    out.extend(key.1.to_le_bytes());
    out.extend([MemberKind::of(row.node.kind, row.is_hard_link).code(), flags]);
    out.extend(row.method.code().to_le_bytes());
    for number in [row.node.mode.unwrap_or(0), user, group, row.crc32.unwrap_or(0)] {
        out.extend(number.to_le_bytes());
    }
    out.extend(row.node.mtime_ns.unwrap_or(0).to_le_bytes());
    for number in [row.node.len, row.data_at, row.stored_len, row.header_at, link.0] {
        out.extend(number.to_le_bytes());
    }
    out.extend(link.1.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend(first.to_le_bytes());
    out.extend(row.node.links.to_le_bytes());
    out.extend(xattrs_len.to_le_bytes());
    debug_assert_eq!(out.len().wrapping_sub(before), ENTRY_LEN, "entries have a fixed length");
}
