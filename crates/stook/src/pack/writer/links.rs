//! Content that several names share, moved to another name before the record that holds it dies.
//!
//! A file with several names is stored once; the records of its hard links hold the key of that
//! record. Before it is replaced or deleted, its content is put under one of the other names, and
//! the rest become links to that. Every intermediate state is correct: each name still leads to the
//! same bytes.
//!
//! Only a record that is marked as having hard links costs a look at the hard links of the pack:
//! once per writer at all of them, whose keys it then keeps in memory. It also remembers those that
//! it puts itself.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::{At, PackWriter};
use crate::engine::Access;
use crate::extent::ByteRange;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::attributes::{Attributes, FileKind, NAMES, Name as AttributeName, Value};
use crate::pack::format::frame::{BodyLen, FrameHeader, HEADER_LEN};
use crate::pack::format::segment::Salt;
use crate::pack::key::{KEY_LEN_MAX, Key};
use crate::pack::list::hard_links::HOPS_MAX;
use crate::pack::read::frames::Frames;
use crate::pack::state::names::PackFile;
use crate::pack::state::open::{OpenOptions, Pack};
use crate::source::Source;

/// Read of a record to see whether it has hard links, in bytes: nearly always all of its head.
const HEAD_LEN: u64 = 512;

/// What a writer knows about hard links.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// For segments that grow or grew: from which offset on this writer wrote them.
    own_from: HashMap<u64, u64>,
    /// Those that it did not begin, open for reading.
    sources: HashMap<u64, Arc<dyn Source>>,
    /// Keys of files that this writer put last and that say that they have hard links.
    several: HashSet<Key>,
    /// Keys of hard links by the key that they may lead to; none is missing, but some may have
    /// gone.
    by_first: HashMap<Key, BTreeSet<Key>>,
    /// Whether the links that were there before this writer are in it.
    is_complete: bool,
}

/// The target of a hard link to a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkTarget {
    /// The file with this key: the link is a hard link to it.
    File(Key),
    /// A symbolic link with this target: the link is to be another like it.
    Symlink(Vec<u8>),
    /// Nothing that could have a hard link.
    Nothing,
}

/// A name that leads to a record.
pub(super) struct LinkRecord {
    pub(super) key: Key,
    pub(super) at: At,
    pub(super) attributes: Attributes,
}

/// A record whose head was read; the body follows.
pub(super) struct Content {
    frames: Frames,
    pub(super) attributes: Attributes,
    /// Bytes of the body, if it is known before its end.
    pub(super) len: Option<u64>,
}

impl Links {
    /// Notes that everything in a segment from this offset on is put by this writer.
    pub(super) fn begin_segment(&mut self, segment: u64, from: u64) {
        self.own_from.insert(segment, from);
    }

    /// Takes notice of a record that is put; of a hard link `body` is the key that it leads to.
    pub(super) fn note(&mut self, key: &Key, attributes: &[u8], body: &[u8]) {
        // Most records have no attributes.
        let (is_link, has_hard_links) = match attributes.is_empty() {
            true => (false, false),
            false => Attributes::name_flags(attributes),
        };
        if has_hard_links && !is_link {
            self.several.insert(key.clone());
        } else if !self.several.is_empty() {
            self.several.remove(key);
        }
        if let (true, Ok(first)) = (is_link, Key::bytes(body)) {
            self.by_first.entry(first).or_default().insert(key.clone());
        }
    }

    /// Whether this writer put a record.
    fn is_own(&self, at: At) -> bool {
        self.own_from.get(&at.segment).is_some_and(|&from| at.place.offset >= from)
    }
}

impl PackWriter {
    /// Moves the content that the record at `old` holds for other names, before a record in `group`
    /// replaces it.
    pub(super) fn free_content(&mut self, key: &Key, old: At, group: &str) -> Result<()> {
        if !self.may_hold_content(key, old)? {
            return Ok(());
        }
        let links = self.links_to(key, &Self::find)?;
        let Some((first, others)) = links.split_first() else { return Ok(()) };
        let mut is_elsewhere = false;
        let mut group_of = |writer: &Self, link: &LinkRecord| -> Result<String> {
            let name = writer.manifest.groups.get(writer.group_of(link.at.segment)? as usize).cloned();
            let name = name.unwrap_or_default();
            is_elsewhere |= name != group;
            Ok(name)
        };
        let to = group_of(self, first)?;
        let target = self.link_at(old).map_err(|error| cannot_move(key, &first.key, error))?;
        let moved = if target.is_some() {
            Ok(0)
        } else {
            self.content(old).and_then(|mut content| {
                let mut record = self.begin(&to, &first.key, &content.attributes, content.len)?;
                while let Some(bytes) = content.next()? {
                    record.write(bytes)?;
                }
                record.finish()
            })
        };
        moved.map_err(|error| cannot_move(key, &first.key, error))?;
        // A link to a link becomes a link to its target.
        let (leads_to, rest) = match &target {
            Some(target) => (target.as_slice(), links.as_slice()),
            None => (first.key.as_bytes().unwrap_or_default(), others),
        };
        for link in rest.iter().filter(|link| link.key.as_bytes() != Some(leads_to)) {
            let to = group_of(self, link)?;
            self.put(&to, &link.key, &link.attributes, leads_to)?;
        }
        // Within a segment what was written first is there first after a crash, too; another may be
        // late.
        if is_elsewhere { self.sync() } else { Ok(()) }
    }

    /// Marks the record with this key, or the one at the end of the links that begin there, as
    /// holding the content of hard links, if it is not marked yet: for callers that learn of hard
    /// links after their file was put. The record is rewritten then. Returns the target for a hard
    /// link.
    ///
    /// # Errors
    /// Returns the errors of [`put`](Self::put), and of reading the record.
    pub fn mark_hard_links(&mut self, first: &Key) -> Result<LinkTarget> {
        self.check_usable()?;
        let mut key = first.clone();
        for _ in 0..HOPS_MAX {
            let Some(at) = self.find(&key)? else { return Ok(LinkTarget::Nothing) };
            // What this writer put itself it knows without reading: a tree may have a million
            // names.
            if self.links.is_own(at) && self.links.several.contains(&key) {
                return Ok(LinkTarget::File(key));
            }
            let mut content = self.content(at)?;
            match content.attributes.file_kind() {
                Some(FileKind::Directory) => return Ok(LinkTarget::Nothing),
                Some(FileKind::Symlink) => return Ok(LinkTarget::Symlink(content.link()?)),
                Some(FileKind::HardLink) => key = Key::bytes(&content.link()?)?,
                Some(FileKind::File) | None => {
                    self.mark(&key, at, content)?;
                    return Ok(LinkTarget::File(key));
                }
            }
        }
        Ok(LinkTarget::Nothing)
    }

    fn mark(&mut self, key: &Key, at: At, mut content: Content) -> Result<()> {
        if content.attributes.has_hard_links() {
            return Ok(());
        }
        content.attributes.set(AttributeName::Id(NAMES), Value::U32(2));
        let group = self.manifest.groups.get(self.group_of(at.segment)? as usize).cloned();
        let group = group.unwrap_or_default();
        let mut record = self.begin(&group, key, &content.attributes, content.len)?;
        while let Some(bytes) = content.next()? {
            record.write(bytes)?;
        }
        record.finish().map(drop)
    }

    /// The target of the record at this place, if it is a hard link.
    pub(super) fn link_at(&mut self, at: At) -> Result<Option<Vec<u8>>> {
        let mut content = self.content(at)?;
        let is_link = content.attributes.file_kind() == Some(FileKind::HardLink);
        is_link.then(|| content.link()).transpose()
    }

    /// Whether a record may hold the content of other names: it is marked so, or cannot be read.
    pub(super) fn may_hold_content(&mut self, key: &Key, old: At) -> Result<bool> {
        if key.as_bytes().is_none() {
            return Ok(false);
        }
        if self.links.is_own(old) {
            return Ok(self.links.several.contains(key) || self.links.by_first.contains_key(key));
        }
        let (source, salt) = self.older_source(old.segment)?;
        let mut len = old.place.len.unwrap_or(HEAD_LEN).min(HEAD_LEN);
        loop {
            let range = ByteRange::at(old.place.offset, len).unwrap_or_default();
            let Ok(bytes) = self.reader.read(source.as_ref(), range) else { return Ok(true) };
            match names_in(&bytes, &salt, old.place.offset) {
                // Targets of links to links are content, too: ours have none, but other writers may
                // put them.
                NamesOfHead::Read { is_link, has_hard_links } => return Ok(is_link || has_hard_links),
                NamesOfHead::Longer(needed) if needed > len => len = needed,
                NamesOfHead::Longer(_) | NamesOfHead::Damaged => return Ok(true),
            }
        }
    }

    /// The source for records from before this writer.
    fn older_source(&mut self, segment: u64) -> Result<(Arc<dyn Source>, Salt)> {
        if let Some(sealed) = self.sealed.get(&segment).and_then(|sealed| sealed.segment.as_ref()) {
            return Ok((sealed.source.clone(), sealed.salt));
        }
        let salt = self.salt_of(segment)?;
        if let Some(source) = self.links.sources.get(&segment) {
            return Ok((source.clone(), salt));
        }
        let source = self.storage.open(&PackFile::Segment(segment).to_string())?;
        self.links.sources.insert(segment, source.clone());
        Ok((source, salt))
    }

    fn salt_of(&self, segment: u64) -> Result<Salt> {
        let sealed = self.sealed.get(&segment).and_then(|sealed| sealed.segment.as_ref());
        let active = || self.active.values().find(|active| active.header.id == segment);
        sealed
            .map(|sealed| sealed.salt)
            .or_else(|| active().map(|active| active.salt))
            .ok_or_else(|| Error::Invalid(format!("no segment {segment:016x} is open")))
    }

    /// The names that may lead to this key: none is missing, but some may have gone.
    pub(super) fn names_of(&mut self, key: &Key) -> Result<BTreeSet<Key>> {
        self.learn_links().map_err(|error| names_unknown(key, error))?;
        Ok(self.links.by_first.get(key).cloned().unwrap_or_default())
    }

    /// The names that lead to this key, in order; `find` returns the place of the record of a key.
    pub(super) fn links_to(
        &mut self,
        key: &Key,
        find: &dyn Fn(&Self, &Key) -> Result<Option<At>>,
    ) -> Result<Vec<LinkRecord>> {
        let mut links = Vec::new();
        for candidate in self.names_of(key)? {
            let Some(at) = find(self, &candidate)?.filter(|_| candidate != *key) else { continue };
            match self.is_link_to(at, key) {
                Ok(Some(attributes)) => links.push(LinkRecord { key: candidate, at, attributes }),
                // What is damaged leads nowhere any more.
                Ok(None) | Err(Error::Damaged(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(links)
    }

    /// The attributes of the record at this place, if it is a link to this key.
    fn is_link_to(&mut self, at: At, key: &Key) -> Result<Option<Attributes>> {
        let mut content = self.content(at)?;
        if content.attributes.file_kind() != Some(FileKind::HardLink) {
            return Ok(None);
        }
        let mut body = Vec::new();
        while let Some(bytes) = content.next()? {
            body.extend_from_slice(bytes);
            if body.len() > KEY_LEN_MAX {
                return Ok(None);
            }
        }
        Ok((key.as_bytes() == Some(&body)).then_some(content.attributes))
    }

    /// Takes notice of the links that were there before this writer.
    fn learn_links(&mut self) -> Result<()> {
        if self.links.is_complete {
            return Ok(());
        }
        let options = OpenOptions { engines: self.options.engines.clone(), ..OpenOptions::default() };
        let before = Pack::open(self.storage.clone(), options)?;
        let by_first = &mut self.links.by_first;
        before.each_hard_link(|link, first| {
            by_first.entry(first).or_default().insert(link);
        })?;
        self.links.is_complete = true;
        Ok(())
    }

    /// Opens the record at this place, no matter who put it.
    pub(super) fn content(&mut self, at: At) -> Result<Content> {
        if let Some(active) = self.active.values_mut().find(|active| active.header.id == at.segment) {
            let flushed = active.flush();
            self.change(|_| flushed)?;
        }
        let salt = self.salt_of(at.segment)?;
        let source = self.storage.open(&PackFile::Segment(at.segment).to_string())?;
        let range = at.place.range_to(source.len());
        let path = source.path().to_path_buf();
        let window = self.reader.window(source, range, Access::Cached, salt.chunk_len)?;
        let frames = Frames::of_record(window, salt)?;
        let attributes = Attributes::decode(&frames.head().attributes).map_err(|invalid| {
            let offset = at.place.offset;
            Error::Damaged(Damage { file: path, offset, key: None, what: invalid.what, cause: None })
        })?;
        let len = match frames.head().header.body {
            BodyLen::Known(len) => Some(len),
            BodyLen::Framed => None,
        };
        Ok(Content { frames, attributes, len })
    }
}

impl Content {
    /// Reads the whole body of a link: its target.
    pub(super) fn link(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        while let Some(bytes) = self.next()? {
            body.extend_from_slice(bytes);
            if body.len() > KEY_LEN_MAX {
                return Err(Error::Invalid("what a link leads to is too long".into()));
            }
        }
        Ok(body)
    }

    /// The next verified bytes of the body; `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>> {
        let span = self.frames.next_of_record()?;
        Ok(span.map(|span| self.frames.view(span).1))
    }
}

/// Damage must not make another name lead to other bytes; any other error is reported as it is.
pub(super) fn cannot_move(key: &Key, link: &Key, error: Error) -> Error {
    match error {
        Error::Damaged(damage) => Error::Invalid(format!(
            "{key} holds the content of {link} (they are names of one file), which cannot be moved there first, because it \
             is damaged: {damage}; delete {link}, or put it anew, and try again"
        )),
        other => other,
    }
}

fn names_unknown(key: &Key, error: Error) -> Error {
    match error {
        Error::Damaged(damage) => Error::Invalid(format!(
            "{key} may have hard links that cannot be determined because of damage: {damage}; repair the \
             pack first"
        )),
        other => other,
    }
}

/// What the bytes of a record show about its names.
enum NamesOfHead {
    Read {
        is_link: bool,
        has_hard_links: bool,
    },
    /// This many bytes of it are needed.
    Longer(u64),
    Damaged,
}

fn names_in(bytes: &[u8], salt: &Salt, offset: u64) -> NamesOfHead {
    let Some(fixed) = bytes.first_chunk::<HEADER_LEN>() else { return NamesOfHead::Damaged };
    let Ok(header) = FrameHeader::decode(fixed, salt) else { return NamesOfHead::Damaged };
    let len = header.head_len();
    let Some(rest) = bytes.get(HEADER_LEN..len as usize) else { return NamesOfHead::Longer(len) };
    let (key, attributes) = rest.split_at(usize::from(header.key_len).min(rest.len()));
    if !header.verify(fixed, salt, offset, key, attributes) {
        return NamesOfHead::Damaged;
    }
    let (is_link, has_hard_links) = Attributes::name_flags(attributes);
    NamesOfHead::Read { is_link, has_hard_links }
}
