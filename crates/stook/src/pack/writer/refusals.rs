//! What may not be written to, and why.

use super::PackWriter;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::manifest::{SegmentEntry, SegmentState};
use crate::pack::state::names::{self, PackFile};
use crate::pack::state::open::Pack;
use crate::pack::state::segment::Segment;
use crate::pack::state::snapshot::{NO_MANIFEST, Snapshot, newest};
use crate::storage::{Entry, Storage};

impl Pack {
    /// Returns the error with which a writer would refuse this pack because of its damage, or
    /// because its place is not writable: for dry runs.
    ///
    /// # Errors
    /// Returns that error.
    pub fn check_writable(&self) -> Result<()> {
        self.storage.check_writable()?;
        self.check_appendable()
    }

    /// The same, only for damage of the pack.
    pub(crate) fn check_appendable(&self) -> Result<()> {
        for entry in &self.snapshot.manifest.segments {
            match self.snapshot.segments.iter().find(|segment| segment.entry.id == entry.id) {
                Some(segment) => refuse_lost(segment)?,
                None => {
                    let Snapshot { files, lost, .. } = &self.snapshot;
                    refuse_hidden(self.storage.as_ref(), entry, files, lost)?;
                }
            }
        }
        Ok(())
    }
}

impl PackWriter {
    /// Refuses the storages in which [`create`](Self::create) makes no pack.
    pub(crate) fn check_create(storage: &dyn Storage) -> Result<()> {
        refuse_what_is_there(storage)?;
        Ok(storage.check_place()?)
    }
}

/// Writing a new list of deleted records would bring back those in the lost one.
pub(super) fn refuse_lost(segment: &Segment) -> Result<()> {
    if !segment.vector_lost {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "the list of deleted records of {} is lost; nothing may be written to this pack before it is repaired",
        segment.source.path().display()
    )))
}

/// Frames after the committed length of a segment that cannot be opened are older than anything put
/// now, and their keys and sequence numbers are unknown. If the file exists and becomes readable
/// later, its records would be live beside those that replaced them meanwhile. The same holds for a
/// segment of a newer version, which this version can neither index nor compact. `lost` says why
/// segments cannot be opened.
pub(super) fn refuse_hidden(
    storage: &dyn Storage,
    entry: &SegmentEntry,
    files: &[Entry],
    lost: &[Damage],
) -> Result<()> {
    let name = PackFile::Segment(entry.id).to_string();
    // The segment itself, or its list of deleted records.
    let is_its_own = |damage: &&Damage| {
        let name = damage.file.file_name().and_then(|name| name.to_str()).and_then(PackFile::parse);
        matches!(name, Some(PackFile::Segment(id) | PackFile::Deletes(id, _)) if id == entry.id)
    };
    if let Some(damage) = lost.iter().filter(|damage| damage.is_of_newer()).find(is_its_own) {
        let what = "this one can neither index nor compact the segment, and so writes nothing to its pack";
        return Err(Error::Unsupported { path: damage.file.clone(), what: what.into() });
    }
    if entry.state == SegmentState::Sealed && !files.iter().any(|file| file.name == name) {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "{} cannot be opened, and what is in it may be replaced or deleted by what is written now; nothing may be written \
         to this pack before it can be opened or the pack is repaired",
        storage.path(&name).display()
    )))
}

/// A new pack is made only in a directory that is empty, or has only what a writer leaves that died
/// at once: segments of a pack that lost its manifests would be taken for leftovers, and a
/// directory of other files is not meant to become a pack.
pub(super) fn refuse_what_is_there(storage: &dyn Storage) -> Result<()> {
    let files = storage.list()?;
    if newest(&files).is_some() {
        return Err(Error::Exists { path: storage.path("") });
    }
    let is_segment = |file: &Entry| matches!(PackFile::parse(&file.name), Some(PackFile::Segment(_)));
    match files.iter().find(|file| file.name != names::LOCK) {
        None => Ok(()),
        Some(_) if files.iter().any(is_segment) => {
            Err(Error::NotAPack { path: storage.path(""), why: NO_MANIFEST.into() })
        }
        Some(file) => Err(Error::NotAPack {
            path: storage.path(""),
            why: format!("it holds {}, but no manifest; make the new pack in another place", file.name),
        }),
    }
}
