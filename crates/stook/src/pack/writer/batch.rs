//! [`Batch`]: records and deletions that count together, or not at all.
//!
//! They are appended one after another as frames that do not count alone; the frame that ends the
//! batch makes all of them count. A crash before it leaves a torn tail, which is cut off like any
//! other.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::active::{Appended, Member};
use super::links::{self, LinkRecord};
use super::{At, PackWriter, Parts, RecordWriter, chunk_sums};
use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::Attributes;
use crate::pack::format::frame::FrameKind;
use crate::pack::key::Key;

/// Puts and deletions that readers see all at once. It counts once [`commit`](Self::commit)
/// returned, and is safe when a put would be; dropped before, nothing of it stays.
///
/// All its records go to one group. A segment is not sealed within a batch, so a long one makes a
/// long segment. Bodies go to the segment at once, but the key and the place of every member are in
/// memory until the end.
#[derive(Debug)]
pub struct Batch<'w> {
    writer: &'w mut PackWriter,
    group: u32,
    /// Where its first frame is.
    offset: Option<u64>,
    /// The time of all of it: a view at a time sees all or nothing.
    time_ns: Option<i64>,
    members: Vec<Member>,
    /// The version of each of its keys that counts after it; `None` for a key that it deleted.
    newest: HashMap<Key, Option<At>>,
    /// How many records of each segment die by it.
    dying: HashMap<u64, u64>,
}

impl<'w> Batch<'w> {
    pub(super) fn begin(writer: &'w mut PackWriter, group: u32) -> Self {
        Self {
            writer,
            group,
            offset: None,
            time_ns: None,
            members: Vec::new(),
            newest: HashMap::new(),
            dying: HashMap::new(),
        }
    }

    /// Puts a record, replacing any older one with this key, also of this batch, and returns its
    /// sequence number.
    ///
    /// # Errors
    /// Returns the errors of [`PackWriter::put`].
    pub fn put(&mut self, key: &Key, attributes: &Attributes, body: &[u8]) -> Result<u64> {
        let attributes = attributes.encode()?;
        let sums = chunk_sums(body, self.writer.chunk_log2());
        self.append(key, FrameKind::Record, &attributes, &[body, &sums])
    }

    /// Deletes the record with this key, also one of this batch; whether there was one.
    ///
    /// # Errors
    /// Returns the errors of [`PackWriter::delete`].
    pub fn delete(&mut self, key: &Key) -> Result<bool> {
        let was_there = self.find(key)?.is_some();
        if was_there {
            self.append(key, FrameKind::Deletion, &[], &[])?;
        }
        Ok(was_there)
    }

    /// Deletes the records with these keys, also those of this batch, and returns how many there
    /// were. Hard links are deleted before the file that they lead to, so that content is not moved
    /// to a name that is deleted as well.
    ///
    /// `progress` is called with how many are deleted so far. When it returns `false`, this returns
    /// `None`, and some may be deleted: the batch is to be dropped then.
    ///
    /// # Errors
    /// Returns the errors of [`PackWriter::delete`].
    pub fn delete_all<'k>(
        &mut self,
        keys: impl IntoIterator<Item = &'k Key>,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<u64>> {
        let going: BTreeSet<&Key> = keys.into_iter().collect();
        let mut deleted = 0;
        // Those that wait for their hard links. Names may lead to one another, in a circle, too.
        let mut held: HashSet<Key> = HashSet::new();
        for &key in &going {
            let mut waiting = vec![key.clone()];
            while let Some(key) = waiting.pop() {
                if !progress(deleted) {
                    return Ok(None);
                }
                let mut before =
                    if held.contains(&key) { BTreeSet::new() } else { self.hard_links_of(&key)? };
                before.retain(|name| *name != key && going.contains(name) && !held.contains(name));
                if before.is_empty() {
                    deleted += u64::from(self.delete(&key)?);
                } else {
                    held.insert(key.clone());
                    waiting.push(key);
                    waiting.extend(before);
                }
            }
        }
        Ok(Some(deleted))
    }

    /// Names that may lead to the record with this key; none is missing.
    fn hard_links_of(&mut self, key: &Key) -> Result<BTreeSet<Key>> {
        if self.writer.stopped {
            return Err(Error::Stopped);
        }
        match self.find(key)? {
            Some(old) if self.writer.may_hold_content(key, old)? => self.writer.names_of(key),
            _ => Ok(BTreeSet::new()),
        }
    }

    /// Whether a live record has this key, with all of this batch so far.
    ///
    /// # Errors
    /// Returns the errors of [`PackWriter::contains`].
    pub fn contains(&self, key: &Key) -> Result<bool> {
        Ok(self.find(key)?.is_some())
    }

    fn find(&self, key: &Key) -> Result<Option<At>> {
        match self.newest.get(key) {
            Some(&found) => Ok(found),
            None => self.writer.find(key),
        }
    }

    /// Moves the content that the record at `old` holds for other names, as part of this batch.
    fn free_content(&mut self, key: &Key, old: At) -> Result<()> {
        if !self.writer.may_hold_content(key, old)? {
            return Ok(());
        }
        let newest = &self.newest;
        let links = self.writer.links_to(key, &|writer, key| match newest.get(key) {
            Some(&found) => Ok(found),
            None => writer.find(key),
        })?;
        let Some((first, others)) = links.split_first() else { return Ok(()) };
        let cannot = |error| links::cannot_move(key, &first.key, error);
        let target = self.writer.link_at(old).map_err(cannot)?;
        if target.is_none() {
            let sequence = self.writer.manifest.sequence_next;
            if let Err(error) = self.move_content(old, first) {
                // Nothing of it is there, and the numbers of a batch have no gaps.
                self.writer.manifest.sequence_next = sequence;
                return Err(cannot(error));
            }
        }
        // A link to a link becomes a link to its target.
        let (body, rest) = match &target {
            Some(target) => (target.as_slice(), links.as_slice()),
            None => (first.key.as_bytes().unwrap_or_default(), others),
        };
        for link in rest.iter().filter(|link| link.key.as_bytes() != Some(body)) {
            let sums = chunk_sums(body, self.writer.chunk_log2());
            self.append(&link.key, FrameKind::Record, &link.attributes.encode()?, &[body, &sums])?;
        }
        Ok(())
    }

    /// Puts the body of the record at `old` under the name of a link.
    fn move_content(&mut self, old: At, link: &LinkRecord) -> Result<()> {
        let mut content = self.writer.content(old)?;
        let time_ns = self.time_ns();
        let mut record = RecordWriter::begin(
            self.writer,
            (self.group, true),
            (&link.key, Some(link.at)),
            time_ns,
            content.attributes.encode()?,
            content.len,
        )?;
        while let Some(bytes) = content.next()? {
            record.write(bytes)?;
        }
        let member = record.finish_member()?;
        if let Some((place, _)) = member.record {
            self.offset.get_or_insert(place.offset);
        }
        self.take(member)
    }

    /// The time of all of it.
    fn time_ns(&mut self) -> i64 {
        let time_ns = self.time_ns.unwrap_or_else(|| self.writer.next_time());
        self.time_ns = Some(time_ns);
        time_ns
    }

    /// Takes notice of a record or deletion that was appended.
    fn take(&mut self, member: Member) -> Result<()> {
        let segment = self.writer.active_of(self.group)?.header.id;
        let at = member.record.map(|(place, _)| At { segment, place });
        self.newest.insert(member.key.clone(), at);
        if let Some(old) = member.old {
            *self.dying.entry(old.segment).or_default() += 1;
        }
        self.members.push(member);
        Ok(())
    }

    fn append(
        &mut self,
        key: &Key,
        kind: FrameKind,
        attributes: &[u8],
        body_and_sums: &[&[u8]],
    ) -> Result<u64> {
        if self.writer.stopped {
            return Err(Error::Stopped);
        }
        let old = self.find(key)?;
        if let Some(old) = old {
            let others = self.dying.get(&old.segment).copied().unwrap_or(0);
            self.writer.check_death(old, others)?;
            self.free_content(key, old)?;
        }
        let sequence = self.writer.next_sequence()?;
        let time_ns = self.time_ns();
        let parts = Parts { key, attributes, sequence, time_ns };
        let group = self.group;
        let body = body_and_sums.first().copied().unwrap_or_default();
        self.writer.links.note(key, attributes, body);
        let Appended { place, digest } =
            self.writer.guard(|writer| writer.active_of(group)?.append_member(kind, parts, body_and_sums))?;
        self.offset.get_or_insert(place.offset);
        let record = (kind == FrameKind::Record).then_some((place, body.len() as u64));
        self.take(Member { key: key.clone(), sequence, time_ns, record, old, digest })?;
        Ok(sequence)
    }

    /// Puts and deletions so far.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there was none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Makes all of it count. An empty batch changes nothing.
    ///
    /// # Errors
    /// Returns an error of the storage. The writer is then [stopped](Error::Stopped); the batch
    /// counts as a whole or not at all.
    pub fn commit(mut self) -> Result<()> {
        let members = std::mem::take(&mut self.members);
        let group = self.group;
        self.writer.guard(|writer| writer.active_of(group)?.end_batch(&members))?;
        // From here on, a manifest may name it even if something fails.
        self.offset = None;
        self.writer.guard(|writer| {
            for Member { key, sequence, time_ns, record, old, .. } in &members {
                writer.unpublished = true;
                if record.is_some() {
                    writer.known.insert(key.sort_form());
                }
                if let Some(old) = old {
                    writer.note_death(*old, *sequence, *time_ns);
                }
            }
            writer.after_record(group)
        })
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let Some(offset) = self.offset.take() else { return };
        if self.writer.stopped {
            // Then that has given its room back.
            return;
        }
        let group = self.group;
        // A failure stops the writer, so its next call reports it.
        let _ = self.writer.guard(|writer| writer.active_of(group)?.abandon(offset));
    }
}
