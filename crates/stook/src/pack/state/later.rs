//! Data written after generations that are gone: an older manifest was restored from a backup, or a
//! file comes from another copy of the pack. It is neither shown nor reported as absent.

use crate::extent::ByteRange;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::UNIT;
use crate::pack::format::segment::SegmentHeader;
use crate::pack::state::names::PackFile;
use crate::pack::state::snapshot::{Opening, newest};
use crate::storage::Entry;
use crate::tree::Kind;

impl Opening<'_> {
    /// Whether a newer generation exists by now. Then a reader that finds data written after it
    /// sees an active writer.
    pub(crate) fn is_superseded(&self) -> Result<bool> {
        let last = newest(&self.storage.list()?);
        Ok(last.is_some_and(|last| last > self.manifest.generation))
    }

    /// The segments that no manifest names, and that were begun after a generation newer than the
    /// one that is read.
    pub(crate) fn find_later(&self, files: &[Entry]) -> Result<Vec<Damage>> {
        let generation = self.manifest.generation;
        let mut damages = Vec::new();
        for file in files.iter().filter(|file| file.kind == Kind::File) {
            let Some(PackFile::Segment(id)) = PackFile::parse(&file.name) else { continue };
            // Of those before it the manifest knew.
            if id < self.manifest.segment_next {
                continue;
            }
            let Some(header) = self.header_of(&file.name)? else { continue };
            let is_own = (header.id, header.pack_nonce) == (id, self.manifest.pack_nonce);
            if is_own && header.made_after > generation {
                let what = beyond_generation(generation, header.made_after);
                damages.push(Damage {
                    file: self.storage.path(&file.name),
                    offset: 0,
                    key: None,
                    what,
                    cause: None,
                });
            }
        }
        if !damages.is_empty() && self.is_superseded()? {
            damages.clear();
        }
        Ok(damages)
    }

    /// The header of a segment that no manifest names, if it can be read.
    fn header_of(&self, name: &str) -> Result<Option<SegmentHeader>> {
        let source = match self.storage.open(name) {
            Ok(source) => source,
            Err(error) => {
                return Damage::of_unopened(error, self.storage.path(name))
                    .map_or_else(|error| Err(error.into()), |_| Ok(None));
            }
        };
        let range = ByteRange::to(source.len().min(UNIT as u64));
        match self.reader.read(source.as_ref(), range) {
            Ok(bytes) => Ok(SegmentHeader::decode(&bytes).ok()),
            Err(Error::Damaged(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The message about data that was written after generation `later` while `generation` is the
/// newest.
pub(crate) fn beyond_generation(generation: u64, later: u64) -> String {
    format!(
        "what follows was written after generation {later}, and the newest manifest is that of generation {generation}: an older \
         one was restored from a backup, or this file comes from another copy of the pack; nothing of it is shown. Put the \
         newest manifest of the same backup back, or save what is shown by `stook check --repair`"
    )
}
