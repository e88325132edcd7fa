//! Files in the directory of a pack besides those of the opened generation.

use std::path::PathBuf;

use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::deletes::{DELETES_LEN_AT, DELETES_LEN_MAX, DeletionVector};
use crate::pack::format::manifest::{Manifest, SegmentEntry, SegmentState};
use crate::pack::read::reader::Reader;
use crate::pack::state::copies::{Layout, read_copies};
use crate::pack::state::names::{PackFile, named_by};
use crate::pack::state::snapshot::{Snapshot, read_manifest};
use crate::storage::Storage;
use crate::tree::Kind;

/// The result.
#[derive(Debug, Default)]
pub(crate) struct FilesReport {
    /// Files of older generations that cannot be read.
    pub(crate) damages: Vec<Damage>,
    /// Notes on anything but damage.
    pub(crate) notes: Vec<String>,
}

/// Where the files are.
#[derive(Clone, Copy)]
struct Home<'a> {
    storage: &'a dyn Storage,
    reader: &'a Reader,
}

impl Snapshot {
    /// Files that have no place in this generation or the ones before, and what of older ones
    /// cannot be read.
    ///
    /// # Errors
    /// Returns an error if reading fails; damage is not an error here.
    pub(crate) fn look_at_files(&self, storage: &dyn Storage, reader: &Reader) -> Result<FilesReport> {
        let mut report = FilesReport::default();
        self.note_files(Home { storage, reader }, &mut report)?;
        Ok(report)
    }

    fn note_files(&self, home: Home<'_>, report: &mut FilesReport) -> Result<()> {
        let mut named = named_by(&self.manifest);
        for file in &self.files {
            if let Some(PackFile::Manifest(generation)) = PackFile::parse(&file.name)
                && generation != self.manifest.generation
            {
                named.extend(home.check_old_manifest(generation, report)?.iter().flat_map(named_by));
            }
        }
        for file in &self.files {
            let note = match PackFile::parse(&file.name) {
                None => "is no file of a pack",
                Some(PackFile::Segment(_) | PackFile::Deletes(..)) if file.kind != Kind::File => "is no file",
                Some(name @ (PackFile::Segment(_) | PackFile::Deletes(..))) if !named.contains(&name) => {
                    match self.manifest_lost {
                        true => "is named by no manifest that can be read",
                        false => "is not named by the manifest",
                    }
                }
                Some(PackFile::Deletes(id, generation)) if !self.names_vector(id, generation) => {
                    home.check_old_vector(&file.name, report)?;
                    continue;
                }
                Some(PackFile::OrphanSegment(_) | PackFile::OrphanDeletes(..)) => {
                    "belongs to a generation whose manifest is gone, and was set aside: put the newest manifest of the \
                     same backup back, or remove it if it is not needed"
                }
                Some(PackFile::Checkpoint(id, from)) if !self.uses_checkpoint(id, from) => {
                    "is not used by any segment"
                }
                Some(_) => continue,
            };
            report.notes.push(format!("{} {note}", file.name));
        }
        Ok(())
    }

    fn uses_checkpoint(&self, id: u64, from: u64) -> bool {
        let segment = self.segments.iter().find(|segment| segment.entry.id == id);
        segment.is_some_and(|segment| {
            segment.entry.state == SegmentState::Active
                && from < segment.checkpointed_len
                && segment.runs.iter().any(|run| run.frames.start() == from)
        })
    }

    fn names_vector(&self, id: u64, generation: u64) -> bool {
        let vector = |entry: &SegmentEntry| entry.vector.map(|vector| (entry.id, vector.generation));
        self.manifest.segments.iter().any(|entry| vector(entry) == Some((id, generation)))
    }
}

impl Home<'_> {
    /// The manifest of an older generation, if it is there and can be read.
    fn check_old_manifest(self, generation: u64, report: &mut FilesReport) -> Result<Option<Manifest>> {
        let read = read_manifest(self.storage, self.reader, generation);
        let path = self.storage.path(&PackFile::Manifest(generation).to_string());
        let (manifest, read) = match read {
            Ok(read) => (Some(read.value), Ok(read.damages)),
            Err(error) => (None, Err(error)),
        };
        note_old(path, read, report)?;
        Ok(manifest)
    }

    /// A deletion vector that only an older generation names.
    fn check_old_vector(self, name: &str, report: &mut FilesReport) -> Result<()> {
        let layout = Layout { len_at: DELETES_LEN_AT, len_max: DELETES_LEN_MAX, copy_len: None };
        let read = self
            .storage
            .open(name)
            .map_err(Error::from)
            .and_then(|source| read_copies(self.reader, source.as_ref(), layout, DeletionVector::decode));
        note_old(self.storage.path(name), read.map(|read| read.damages), report)
    }
}

/// Notes the result of reading a file of an older generation.
fn note_old(path: PathBuf, read: Result<Vec<Damage>>, report: &mut FilesReport) -> Result<()> {
    match read {
        Ok(damages) => report.damages.extend(damages),
        Err(Error::Damaged(damage)) => report.damages.push(damage),
        // A writer took it away since this pack was opened.
        Err(Error::Core(error)) if error.io_kind() == Some(std::io::ErrorKind::NotFound) => {}
        Err(Error::Core(error)) => report.damages.push(Damage::of_unopened(error, path)?),
        Err(error @ (Error::Limit { .. } | Error::Unsupported { .. })) => {
            report.damages.push(Damage {
                file: path,
                offset: 0,
                key: None,
                what: error.to_string(),
                cause: None,
            });
        }
        Err(error) => return Err(error),
    }
    Ok(())
}
