//! What makes the work of a writer count: syncs, seals, generations.

use super::{Active, PackWriter, Sealed};
use crate::pack::error::{Error, Result};
use crate::pack::format::deletes::DeletionVector;
use crate::pack::format::manifest::{Manifest, PackState, SegmentEntry, VectorRef};
use crate::pack::names::Name;
use crate::storage::Entry;

/// Segments shorter than this are left open when a writer finishes, unless it made them: the next writer goes
/// on with them instead of adding one more small segment.
const SEAL_LEN_MIN: u64 = 64 << 20;

impl PackWriter {
    /// Returns when everything put so far is safe.
    ///
    /// # Errors
    /// What the storage meets; the writer is then stopped, and what was put since the last sync may be lost.
    pub fn sync(&mut self) -> Result<()> {
        self.guard(Self::sync_all)
    }

    pub(super) fn sync_all(&mut self) -> Result<()> {
        for active in self.active.values_mut() {
            active.sync()?;
        }
        self.synced_at = std::time::Instant::now();
        // A segment that no manifest names would not be found again.
        if self.active.values().any(|active| !active.published) {
            self.publish_now()?;
        }
        Ok(())
    }

    /// Syncs, and publishes a generation that says so.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn publish(&mut self) -> Result<()> {
        self.guard(Self::publish_now)
    }

    /// Says in the next generation whether the pack is what it is meant to be.
    pub fn set_complete(&mut self, complete: bool) {
        let state = if complete { PackState::Complete } else { PackState::Incomplete };
        self.unpublished |= self.manifest.state != state;
        self.manifest.state = state;
    }

    /// Seals every group's segment that is long enough (or new, with `all`), publishes, and lets go of the pack.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn finish(mut self, all: bool) -> Result<()> {
        self.guard(|writer| {
            let groups: Vec<u32> = writer.active.keys().copied().collect();
            for group in groups {
                if all || writer.active_of(group)?.len() >= SEAL_LEN_MIN {
                    writer.seal_group(group)?;
                }
            }
            if writer.unpublished || writer.active.values().any(Active::is_dirty) {
                writer.publish_now()?;
            }
            writer.remove_garbage();
            Ok(())
        })
    }

    /// Ends a group's segment in its index. The next generation names it as sealed.
    pub(super) fn seal_group(&mut self, group: u32) -> Result<()> {
        let Some(active) = self.active.remove(&group) else { return Ok(()) };
        let (entry, checkpoints) = active.seal(&self.reader)?;
        self.sealed.insert(entry.id, Sealed { entry, segment: None });
        self.unpublished = true;
        self.publish_now()?;
        self.garbage.extend(checkpoints);
        self.reopen_sealed(entry)
    }

    /// Opens a segment that was just sealed, so that older versions in it can be found.
    fn reopen_sealed(&mut self, entry: SegmentEntry) -> Result<()> {
        let number = self.manifest.segments.iter().position(|other| other.id == entry.id);
        let mut findings = crate::pack::segment::Findings::default();
        let files = [Entry { name: Name::Segment(entry.id).to_string(), len: entry.committed_len }];
        let segment = crate::pack::segment::Segment::open(
            self.storage.as_ref(),
            &self.reader,
            &self.manifest,
            number.unwrap_or(usize::MAX),
            &files,
            &mut findings,
        )?;
        if let Some(damage) = findings.damages.into_iter().next() {
            return Err(Error::Damaged(damage));
        }
        self.sealed.insert(entry.id, Sealed { entry, segment });
        Ok(())
    }

    /// Publishes the next generation. Everything it names is durable before it is.
    pub(super) fn publish_now(&mut self) -> Result<()> {
        for active in self.active.values_mut() {
            active.sync()?;
        }
        let generation = self.generation_last + 1;
        self.write_vectors(generation)?;
        self.storage.sync_directory()?;
        let manifest = Manifest {
            generation,
            published_ns: self.options.host.now_ns(),
            segments: self.entries(),
            ..self.manifest.clone()
        };
        self.storage.publish_if_absent(&Name::Manifest(generation).to_string(), &manifest.encode())?;
        let before = std::mem::replace(&mut self.manifest, manifest);
        self.generation_last = generation;
        self.active.values_mut().for_each(|active| active.published = true);
        self.unpublished = false;
        self.remove_older(&before);
        Ok(())
    }

    fn entries(&self) -> Vec<SegmentEntry> {
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
            let bytes = vector.encode();
            dead.deaths = vector.deaths;
            let name = Name::Deletes(segment, generation).to_string();
            match storage.publish_if_absent(&name, &bytes) {
                // Left by a writer that died before its generation was published.
                Err(crate::Error::AlreadyExists { .. }) => {
                    storage.unlink(&name)?;
                    storage.publish_if_absent(&name, &bytes)?;
                }
                other => other?,
            }
            dead.vector = Some(vector_ref(generation, &bytes));
            dead.dirty = false;
        }
        Ok(())
    }

    /// Removes what neither the new generation nor the one before it names. A file that stays because it
    /// cannot be removed does no harm, and the next writer tries again.
    fn remove_older(&mut self, before: &Manifest) {
        let named = |manifest: &Manifest, segment: u64, generation: u64| {
            let vector =
                manifest.segments.iter().find(|entry| entry.id == segment).and_then(|entry| entry.vector);
            vector.is_some_and(|vector| vector.generation == generation)
        };
        let old = std::mem::replace(&mut self.generation_before, before.generation);
        let mut garbage = std::mem::take(&mut self.garbage);
        if old > 0 {
            garbage.push(Name::Manifest(old));
        }
        for entry in &before.segments {
            if let Some(vector) = entry.vector
                && !named(&self.manifest, entry.id, vector.generation)
            {
                // Still named by the generation before; gone with the next.
                self.garbage.push(Name::Deletes(entry.id, vector.generation));
            }
        }
        for name in garbage {
            self.remove(name);
        }
    }

    fn remove_garbage(&mut self) {
        // What the generation before still names stays until the next writer publishes.
        let garbage = std::mem::take(&mut self.garbage);
        for name in garbage.into_iter().filter(|name| matches!(name, Name::Checkpoint(..))) {
            self.remove(name);
        }
    }

    fn remove(&self, name: Name) {
        // A leftover costs space and nothing else: it is not worth failing what has just been made durable.
        let _ = self.storage.unlink(&name.to_string());
    }

    /// Removes what writers that died left behind: files that the manifest cannot name any more.
    pub(super) fn remove_leftovers(&mut self, files: &[Entry], segment_next: u64) -> Result<()> {
        self.storage.remove_leftovers()?;
        let generation = self.manifest.generation;
        for file in files {
            let stale = match Name::parse(&file.name) {
                Some(Name::Manifest(other)) => other < self.generation_before,
                Some(Name::Segment(id)) => id >= segment_next,
                Some(Name::Checkpoint(id, _)) => !self.active.values().any(|active| active.header.id == id),
                Some(Name::Deletes(id, other)) => {
                    // Asked of the manifest: a segment that could not be opened keeps its vector too.
                    let named = self.manifest.segments.iter().any(|entry| {
                        entry.id == id && entry.vector.is_some_and(|vector| vector.generation == other)
                    });
                    (other < self.generation_before || other > generation) && !named
                }
                Some(Name::Lock) | None => false,
            };
            if stale {
                self.storage.unlink(&file.name)?;
            }
        }
        Ok(())
    }
}

fn vector_ref(generation: u64, bytes: &[u8]) -> VectorRef {
    let crc = bytes.last_chunk::<4>().map_or(0, |crc| u32::from_le_bytes(*crc));
    VectorRef { generation, len: bytes.len() as u64, crc }
}
