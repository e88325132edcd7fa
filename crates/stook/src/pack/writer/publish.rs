//! Making the work of a writer count: syncs, seals, generations.

use std::collections::{BTreeMap, BTreeSet};

use super::{Active, Named, PackWriter, Sealed};
use crate::pack::error::{Error, Result};
use crate::pack::format::UNIT;
use crate::pack::format::copies::twice;
use crate::pack::format::deletes::DeletionVector;
use crate::pack::format::manifest::{Manifest, PackState, SegmentEntry, SegmentState, VectorRef};
use crate::pack::state::names::{PackFile, take_number};
use crate::pack::state::segment::{Findings, Segment};
use crate::pack::state::snapshot::{Opening, Uncommitted};
use crate::storage::Appender;

/// Segments shorter than this are left open when a writer finishes, unless it made them: the next
/// writer continues them instead of adding one more small segment.
const SEAL_LEN_MIN: u64 = 64 << 20;

impl PackWriter {
    /// Returns when everything put so far is safe.
    ///
    /// # Errors
    /// Returns an error of the storage; the writer is then stopped, and everything put since the
    /// last sync may be lost.
    pub fn sync(&mut self) -> Result<()> {
        self.guard(Self::sync_all)
    }

    pub(super) fn sync_all(&mut self) -> Result<()> {
        // A segment that no manifest names would not be found again.
        if self.active.values().any(|active| !active.published) {
            self.publish_now()?;
        } else {
            self.active.values_mut().try_for_each(Active::sync)?;
        }
        self.synced_at = std::time::Instant::now();
        Ok(())
    }

    /// Syncs, and publishes a generation that includes everything so far.
    ///
    /// # Errors
    /// Returns the errors of [`sync`](Self::sync).
    pub fn publish(&mut self) -> Result<()> {
        self.guard(Self::publish_now)
    }

    /// Sets whether the next generation marks the pack as complete. No run is unfinished then.
    pub fn set_complete(&mut self, complete: bool) {
        self.incomplete_on_change = None;
        let state = if complete { PackState::Complete } else { PackState::Incomplete };
        self.unpublished |= self.manifest.state != state;
        self.manifest.state = state;
        if complete {
            self.set_unfinished(Vec::new());
        }
    }

    /// Sets the roots that a tree is packed from: which run can complete it depends on them.
    pub fn set_roots(&mut self, roots: Vec<Vec<u8>>) {
        self.manifest.roots = roots;
        self.unpublished = true;
    }

    /// Sets of which paths the next generation says that runs of them are unfinished. Without any,
    /// that is the one that made an incomplete pack, of its [roots](Self::set_roots).
    pub fn set_unfinished(&mut self, paths: Vec<Vec<u8>>) {
        let paths = if paths == self.manifest.roots { Vec::new() } else { paths };
        self.unpublished |= self.manifest.unfinished != paths;
        self.manifest.unfinished = paths;
    }

    /// From the first put, deletion or new segment on, the pack is marked incomplete, and runs of
    /// these paths [as unfinished](Self::set_unfinished): a generation with these marks is
    /// published first. A writer that changes nothing leaves the marks as they are.
    /// [`set_complete`](Self::set_complete) ends this.
    pub fn set_incomplete_on_change(&mut self, unfinished: Vec<Vec<u8>>) {
        self.incomplete_on_change = Some(unfinished);
    }

    /// Something of the pack is about to change: where it is to be called incomplete from then on,
    /// that is made durable first.
    pub(super) fn announce_change(&mut self) -> Result<()> {
        let Some(unfinished) = self.incomplete_on_change.take() else { return Ok(()) };
        let before = (self.manifest.state, self.manifest.unfinished.clone());
        self.manifest.state = PackState::Incomplete;
        self.set_unfinished(unfinished);
        match before == (self.manifest.state, self.manifest.unfinished.clone()) {
            true => Ok(()),
            false => self.publish_now(),
        }
    }

    /// Says in the next generation that files were, or will be, removed from their tree because
    /// they are in the pack, which may hold the only copy from then on. It is never taken back.
    /// These are the paths of the tree.
    pub fn set_moved(&mut self, from: Vec<Vec<u8>>) {
        let before = (self.manifest.moved, self.manifest.moved_from.len());
        self.manifest.moved = true;
        for path in from {
            if !self.manifest.moved_from.contains(&path) {
                self.manifest.moved_from.push(path);
            }
        }
        self.unpublished |= before != (self.manifest.moved, self.manifest.moved_from.len());
    }

    /// Seals every group's segment that is long enough (or new, with `all`), publishes, and lets go
    /// of the pack.
    ///
    /// # Errors
    /// Returns the errors of [`sync`](Self::sync).
    pub fn finish(mut self, all: bool) -> Result<()> {
        self.guard(|writer| {
            let groups: Vec<u32> = writer.active.keys().copied().collect();
            for group in groups {
                if all || writer.active_of(group)?.len() >= SEAL_LEN_MIN {
                    writer.seal_group(group)?;
                }
            }
            // What is merely not known to be on the medium needs no generation.
            match writer.unpublished || writer.is_longer_than_published() {
                true => writer.publish_now()?,
                false => writer.sync_all()?,
            }
            writer.remove_garbage();
            Ok(())
        })
    }

    /// Whether a segment that grows is longer than the newest generation says: another writer had
    /// put something and published no more.
    fn is_longer_than_published(&self) -> bool {
        let is_as_published = |active: &Active| {
            let mut named = self.manifest.segments.iter();
            named.any(|entry| entry.id == active.header.id && entry.committed_len == active.len())
        };
        !self.active.values().all(is_as_published)
    }

    /// Ends a group's segment in its index. The next generation names it as sealed.
    pub(super) fn seal_group(&mut self, group: u32) -> Result<()> {
        let Some(active) = self.active.get_mut(&group) else { return Ok(()) };
        let promised_len = active.promised_len();
        let (entry, checkpoints) = active.seal(&self.reader)?;
        self.active.remove(&group);
        self.sealed.insert(entry.id, Sealed { entry, segment: None });
        self.promised_lens.insert(entry.id, promised_len);
        self.unpublished = true;
        self.publish_now()?;
        self.garbage.extend(checkpoints);
        self.reopen_sealed(entry)
    }

    /// Opens a segment that was just sealed, so that older versions in it can be found.
    pub(super) fn reopen_sealed(&mut self, entry: SegmentEntry) -> Result<()> {
        let number = self.manifest.segments.iter().position(|other| other.id == entry.id);
        let mut findings = Findings::default();
        let opening = Opening {
            storage: self.storage.as_ref(),
            reader: &self.reader,
            manifest: &self.manifest,
            uncommitted: Uncommitted::Nothing,
            log: self.log.clone(),
        };
        let segment = Segment::open(&opening, number.unwrap_or(usize::MAX), &mut findings)?;
        if let Some(damage) = findings.damages.into_iter().next() {
            return Err(Error::Damaged(damage));
        }
        self.sealed.insert(entry.id, Sealed { entry, segment });
        Ok(())
    }

    /// Publishes the next generation. Everything it names is durable before it is.
    pub(super) fn publish_now(&mut self) -> Result<()> {
        self.is_publishing = true;
        self.publish_next()?;
        self.is_publishing = false;
        self.remove_garbage();
        Ok(())
    }

    fn publish_next(&mut self) -> Result<()> {
        self.check_lists()?;
        for active in self.active.values_mut() {
            active.announce()?;
            active.make_durable()?;
        }
        let mut generation_next = self.generation_next;
        let generation = take_number("the number of a generation", &mut generation_next)?;
        self.write_vectors(generation)?;
        self.storage.sync_directory()?;
        let manifest = Manifest {
            generation,
            published_ns: self.options.host.now_ns(),
            segments: self.entries(),
            ..self.manifest.clone()
        };
        let bytes = twice(&manifest.encode());
        let prepared = self.storage.prepare(&PackFile::Manifest(generation).to_string(), &bytes)?;
        self.in_doubt = true;
        prepared.publish()?;
        self.in_doubt = false;
        let before = std::mem::replace(&mut self.manifest, manifest);
        self.generation_next = generation_next;
        self.edition = self.manifest.edition();
        let edition = self.edition;
        self.active.values_mut().for_each(|active| active.go_on_after(edition));
        self.unpublished = false;
        for entry in &before.segments {
            let name = entry.vector.map(|vector| PackFile::Deletes(entry.id, vector.generation));
            self.garbage.extend(
                name.filter(|_| self.dead.get(&entry.id).is_none_or(|dead| dead.vector != entry.vector)),
            );
        }
        if before.generation > 0 {
            self.older.insert(before.generation, Named::by(&before));
        }
        self.promised_lens.clear();
        Ok(())
    }

    /// After a failure: frees the space of everything that was not acknowledged, since the disk may
    /// be full, and so that failed writes do not count. That is what was begun and not finished,
    /// what was put since the last sync if a sync or a publication failed, and all of a segment
    /// that no manifest can name. Names stay, so that none is reused before the directory is
    /// synced. If this fails, too, the next writer does it.
    pub(super) fn give_room_back(&mut self) {
        let takes_back = self.is_publishing && !self.in_doubt;
        let end = |active: &Active| if takes_back { active.promised_len() } else { active.counted_len() };
        let mut ends: BTreeMap<u64, u64> =
            self.active.values().map(|active| (active.header.id, end(active))).collect();
        if !self.in_doubt {
            ends.extend(self.ends_unpublished());
        }
        // A failed appender does nothing more, and its requests in flight must end first.
        self.active.clear();
        for (id, len) in ends {
            let cut = |mut appender: Box<dyn Appender>| match appender.len() > len {
                // What was synced already would be there again after a power failure.
                true => appender.truncate(len).and_then(|()| appender.sync()),
                false => Ok(()),
            };
            let _ = self.storage.open_append(&PackFile::Segment(id).to_string()).and_then(cut);
        }
    }

    /// Where segments end according to the last published generation: those that it does not name,
    /// after their header; those sealed since then, where they ended in it.
    fn ends_unpublished(&self) -> BTreeMap<u64, u64> {
        let named: BTreeMap<u64, SegmentState> =
            self.manifest.segments.iter().map(|entry| (entry.id, entry.state)).collect();
        let growing = self.active.values().map(|active| active.header.id);
        let unnamed = growing.chain(self.sealed.keys().copied()).filter(|id| !named.contains_key(id));
        let sealed = self.sealed.values().map(|sealed| &sealed.entry).filter(|entry| {
            entry.state == SegmentState::Sealed && named.get(&entry.id) == Some(&SegmentState::Active)
        });
        let end =
            |entry: &SegmentEntry| self.promised_lens.get(&entry.id).copied().unwrap_or(entry.frames_end);
        unnamed.map(|id| (id, UNIT as u64)).chain(sealed.map(|entry| (entry.id, end(entry)))).collect()
    }

    pub(super) fn entries(&self) -> Vec<SegmentEntry> {
        let active = self.active.values().map(Active::entry);
        let sealed = self.sealed.values().map(|sealed| sealed.entry);
        let mut entries: Vec<SegmentEntry> = active.chain(sealed).collect();
        for entry in &mut entries {
            if let Some(dead) = self.dead.get(&entry.id) {
                (entry.dead_records, entry.dead_bytes) = (dead.records, dead.bytes);
                entry.vector = dead.vector;
            }
        }
        entries.sort_by_key(|entry| entry.id);
        entries
    }

    fn write_vectors(&mut self, generation: u64) -> Result<()> {
        let storage = self.storage.clone();
        let pack_nonce = self.manifest.pack_nonce;
        for (&segment, dead) in self.dead.iter_mut().filter(|(_, dead)| dead.dirty) {
            let vector =
                DeletionVector { segment, generation, pack_nonce, deaths: std::mem::take(&mut dead.deaths) };
            let copy = vector.encode();
            dead.deaths = vector.deaths;
            let bytes = twice(&copy);
            let name = PackFile::Deletes(segment, generation).to_string();
            match storage.publish_if_absent(&name, &bytes) {
                // Left by a writer that died before its generation was published.
                Err(crate::Error::AlreadyExists { .. }) => {
                    storage.unlink(&name)?;
                    storage.publish_if_absent(&name, &bytes)?;
                }
                other => other?,
            }
            dead.vector = Some(vector_ref(generation, &copy));
            dead.dirty = false;
        }
        Ok(())
    }

    /// Removes generations that are no longer needed, and the files that only they named. The one
    /// before the newest stays, and so does every one that some process has open. Files that cannot
    /// be removed now do no harm: the next publication or the next writer tries again.
    pub(super) fn remove_garbage(&mut self) {
        let before = self.older.keys().next_back().copied();
        let candidates: Vec<u64> = self.older.keys().copied().filter(|&old| Some(old) != before).collect();
        for generation in candidates {
            let name = PackFile::Manifest(generation).to_string();
            if self.storage.unlink_unless_held(&name).unwrap_or(false) {
                self.older.remove(&generation);
            }
        }
        let is_named = |name: &PackFile| self.older.values().any(|named| named.has(name));
        let (kept, gone): (BTreeSet<PackFile>, BTreeSet<PackFile>) =
            std::mem::take(&mut self.garbage).into_iter().partition(is_named);
        self.garbage = kept;
        for name in gone {
            match self.storage.unlink(&name.to_string()) {
                Err(error) if error.io_kind() != Some(std::io::ErrorKind::NotFound) => {
                    // It costs space and nothing else: not worth failing what has just been made
                    // durable.
                    self.garbage.insert(name);
                }
                _ => {}
            }
        }
    }
}

fn vector_ref(generation: u64, copy: &[u8]) -> VectorRef {
    let crc = copy.last_chunk::<4>().map_or(0, |crc| u32::from_le_bytes(*crc));
    VectorRef { generation, len: copy.len() as u64, crc }
}
