//! Readers have limits, so writers must keep to them: checked before anything is changed, so that a
//! compaction is still possible when a limit is reached.

use super::{At, Dead, PackWriter, WriterOptions};
use crate::pack::error::{Error, Result};
use crate::pack::format::SEGMENT_LEN_MAX;
use crate::pack::format::deletes::{ENTRY_GROWTH, encoded_len};
use crate::pack::format::manifest::Manifest;
use crate::pack::format::segment::CHUNK_LOG2;

/// More than a list of none takes, in bytes.
const EMPTY_LEN: u64 = 100;

/// The most bytes that a list of this many takes.
pub(super) fn list_len(deaths: usize) -> u64 {
    (deaths as u64).saturating_mul(ENTRY_GROWTH).saturating_add(EMPTY_LEN)
}

impl Dead {
    /// Whether this many more can be listed in this many bytes. The length is computed only when
    /// the entries added since the last time might be too many.
    fn has_room(&mut self, more: u64, limit: u64) -> std::result::Result<(), u64> {
        let with = |len: u64| len.saturating_add(more.saturating_mul(ENTRY_GROWTH));
        let fits = |counted: Option<u64>| counted.is_some_and(|len| with(len) <= limit);
        self.len_max = Some(self.len_max.unwrap_or_else(|| list_len(self.deaths.len())));
        if !fits(self.len_max) {
            self.len_max = Some(encoded_len(&self.deaths));
        }
        if fits(self.len_max) { Ok(()) } else { Err(with(self.len_max.unwrap_or(u64::MAX))) }
    }

    /// One more is listed.
    pub(super) fn note_growth(&mut self) {
        self.len_max = self.len_max.map(|len| len.saturating_add(ENTRY_GROWTH));
    }
}

impl PackWriter {
    /// Checks that the record at `old` can die, along with this many others of its segment that are
    /// in no list yet.
    pub(super) fn check_death(&mut self, old: At, others: u64) -> Result<()> {
        let limit = self.options.list_len_max;
        let dead = self.dead.entry(old.segment).or_default();
        dead.has_room(others.saturating_add(1), limit).map_err(|found| too_many_dead(found, limit))
    }

    /// Checks that one more segment can be named, in a new group with a name that is not listed
    /// yet, or in a listed one.
    pub(super) fn check_segment(&self, new_group: &str) -> Result<()> {
        let segments = self.active.len().saturating_add(self.sealed.len()).saturating_add(1);
        check_manifest(&self.manifest, segments, new_group, self.options.list_len_max)
    }

    /// Checks that everything to be published is readable, before any of it is written.
    pub(super) fn check_lists(&mut self) -> Result<()> {
        let limit = self.options.list_len_max;
        for dead in self.dead.values_mut().filter(|dead| dead.dirty) {
            dead.has_room(0, limit).map_err(|found| too_many_dead(found, limit))?;
        }
        check_manifest(&self.manifest, self.active.len().saturating_add(self.sealed.len()), "", limit)
    }
}

/// Checks that a manifest can name this many segments.
pub(super) fn check_manifest(
    manifest: &Manifest,
    segments: usize,
    new_group: &str,
    limit: u64,
) -> Result<()> {
    let found = manifest.len_with(segments, new_group.len());
    if found <= limit {
        return Ok(());
    }
    Err(Error::Full { what: "the manifest, with one segment or group more,", found, limit })
}

fn too_many_dead(found: u64, limit: u64) -> Error {
    Error::Full { what: "the list of the deleted and replaced records of a segment", found, limit }
}

/// The least segment length that can be requested: shorter segments cost more than what they hold.
pub const SEGMENT_LEN_MIN: u64 = 1 << 20;

impl WriterOptions {
    /// Checks that a pack can be made so, before anything is made of it.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] or [`Error::Limit`].
    pub fn check(&self) -> Result<()> {
        if !CHUNK_LOG2.contains(&self.chunk_log2) {
            return Err(Error::Invalid(format!("a chunk size of 2^{} is not 2^12 to 2^24", self.chunk_log2)));
        }
        check_segment_len(self.segment_len)
    }
}

/// Checks that a group can have this name.
///
/// # Errors
/// Returns [`Error::Limit`].
pub fn check_group(name: &str) -> Result<()> {
    let (found, limit) = (name.len() as u64, 255);
    match found > limit {
        true => Err(Error::Limit { what: "the length of a group's name in bytes", found, limit }),
        false => Ok(()),
    }
}

/// Checks that offsets reach the end of a segment of this length.
pub(super) fn check_segment_len(len: u64) -> Result<()> {
    // Room for the header, the index and the footer stays.
    let limit = SEGMENT_LEN_MAX / 2;
    if len > limit {
        return Err(Error::Limit { what: "the length of a segment or a record in bytes", found: len, limit });
    }
    Ok(())
}
