//! Files that the writer's generation does not name: leftovers of writers that died, files of older
//! generations, foreign files, and, if an older manifest was restored from a backup, files of
//! generations that came after it.
//!
//! Only what is provably this pack's own, and was provably never needed, is removed. Files that a
//! newer generation named are set aside under another name. If neither is certain, a file is left
//! as it is; `check` lists it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{PackWriter, SetAside};
use crate::engine::Access;
use crate::extent::ByteRange;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::UNIT;
use crate::pack::format::footer::{FOOTER_LEN, Footer, FooterKind};
use crate::pack::format::frame::FrameKind;
use crate::pack::format::manifest::Manifest;
use crate::pack::format::segment::SegmentHeader;
use crate::pack::read::frames::Step;
use crate::pack::state::names::{PackFile, named_by};
use crate::pack::state::snapshot::read_manifest;
use crate::source::Source;
use crate::storage::Entry;
use crate::tree::Kind;

/// Where manifests and deletion vectors have the nonce of their pack.
const PACK_NONCE_AT: usize = 32;

/// The next numbers according to the newest generation itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Committed {
    pub(super) segment_next: u64,
    pub(super) sequence_next: u64,
}

/// What becomes of a file that no generation names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It belongs to this pack, and nothing in it was ever acknowledged, or all of it is also
    /// elsewhere.
    Remove,
    /// A newer generation named it; the highest sequence number in it.
    SetAside(u64),
    /// Nothing is known of it.
    Leave,
}

/// The files that a generation cannot do without.
#[derive(Debug)]
pub(super) enum Named {
    These(BTreeSet<PackFile>),
    Anything,
}

impl Named {
    pub(super) fn by(manifest: &Manifest) -> Self {
        Self::These(named_by(manifest))
    }

    pub(super) fn has(&self, name: &PackFile) -> bool {
        match self {
            Self::These(names) => names.contains(name),
            Self::Anything => !matches!(name, PackFile::Checkpoint(..)),
        }
    }
}

impl PackWriter {
    /// Removes files that are no longer needed; sets aside files of a lost generation.
    pub(super) fn find_leftovers(&mut self, files: &[Entry], committed: Committed) -> Result<()> {
        self.storage.remove_leftovers()?;
        let own = || files.iter().filter(|file| file.kind == Kind::File);
        let names = || own().filter_map(|file| PackFile::parse(&file.name));
        for name in names() {
            if let PackFile::Manifest(generation) = name {
                self.find_older(generation)?;
            }
        }
        let newest = Named::by(&self.manifest);
        let mut orphans = BTreeSet::new();
        for name in names().filter(|name| matches!(name, PackFile::Segment(_)) && !newest.has(name)) {
            let PackFile::Segment(id) = name else { continue };
            let fate = match self.is_named_by_older(&name) {
                true => Fate::Remove,
                false => self.fate_of(id, committed)?,
            };
            match fate {
                Fate::Leave => {}
                Fate::Remove => drop(self.garbage.insert(name)),
                Fate::SetAside(sequence_last) => {
                    orphans.insert(id);
                    self.manifest.sequence_next =
                        self.manifest.sequence_next.max(sequence_last.saturating_add(1));
                    self.set_aside(&name, &PackFile::OrphanSegment(id), files)?;
                }
            }
        }
        for name in names().filter(|name| matches!(name, PackFile::Deletes(..)) && !newest.has(name)) {
            let PackFile::Deletes(id, generation) = name else { continue };
            // If nothing else shows a newer generation, the frames that exist account for all
            // deaths.
            let is_newer = !orphans.is_empty() && generation > self.manifest.generation;
            if self.is_named_by_older(&name) {
                self.garbage.insert(name);
            } else if self.is_own_vector(id, generation)? {
                match is_newer || orphans.contains(&id) {
                    true => self.set_aside(&name, &PackFile::OrphanDeletes(id, generation), files)?,
                    false => drop(self.garbage.insert(name)),
                }
            }
        }
        for name in names() {
            if let PackFile::Checkpoint(id, from) = name {
                self.find_checkpoint(id, from)?;
            }
        }
        self.remove_garbage();
        Ok(())
    }

    fn is_named_by_older(&self, name: &PackFile) -> bool {
        self.older.values().any(|named| named.has(name))
    }

    fn find_older(&mut self, generation: u64) -> Result<()> {
        if generation >= self.manifest.generation {
            return Ok(());
        }
        let named = match read_manifest(self.storage.as_ref(), &self.reader, generation) {
            Ok(read) => {
                self.recovery.damages.extend(read.damages);
                Named::by(&read.value)
            }
            // What it names is not known: nothing is removed while it exists, if it belongs to this
            // pack.
            Err(Error::Damaged(_) | Error::Limit { .. } | Error::Unsupported { .. }) => {
                let Some(source) = self.opened(&PackFile::Manifest(generation))? else { return Ok(()) };
                match self.has_pack_nonce(source.as_ref())? {
                    true => Named::Anything,
                    false => return Ok(()),
                }
            }
            // Over a network, what is gone may be listed for a while.
            Err(Error::Core(error)) if error.io_kind() == Some(std::io::ErrorKind::NotFound) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.older.insert(generation, named);
        Ok(())
    }

    /// A file that can be opened; `None` where it cannot, for a reason that lies in the file.
    fn opened(&self, name: &PackFile) -> Result<Option<Arc<dyn Source>>> {
        let name = name.to_string();
        match self.storage.open(&name) {
            Ok(source) => Ok(Some(source)),
            Err(error) => {
                Damage::of_unopened(error, self.storage.path(&name))?;
                Ok(None)
            }
        }
    }

    /// The first bytes of a file, fewer where it ends or cannot be read.
    fn beginning(&self, source: &dyn Source, len: usize) -> Result<bytes::Bytes> {
        match self.reader.read(source, ByteRange::to(source.len().min(len as u64))) {
            Err(Error::Damaged(_)) => Ok(bytes::Bytes::new()),
            read => read,
        }
    }

    fn has_pack_nonce(&self, source: &dyn Source) -> Result<bool> {
        let bytes = self.beginning(source, PACK_NONCE_AT + 16)?;
        Ok(bytes.get(PACK_NONCE_AT..) == Some(&self.manifest.pack_nonce[..]))
    }

    /// Whether a file is a deletion vector of this pack, as its name says.
    fn is_own_vector(&self, id: u64, generation: u64) -> Result<bool> {
        let Some(source) = self.opened(&PackFile::Deletes(id, generation))? else { return Ok(false) };
        let bytes = self.beginning(source.as_ref(), PACK_NONCE_AT)?;
        let said = [id, generation].map(u64::to_le_bytes).concat();
        Ok(bytes.get(16..) == Some(&said[..]) && self.has_pack_nonce(source.as_ref())?)
    }

    /// What becomes of a segment that no generation names.
    fn fate_of(&self, id: u64, committed: Committed) -> Result<Fate> {
        let Some(source) = self.opened(&PackFile::Segment(id))? else { return Ok(Fate::Leave) };
        let Ok(header) = SegmentHeader::decode(&self.beginning(source.as_ref(), UNIT)?) else {
            return Ok(Fate::Leave);
        };
        if header.id != id || header.pack_nonce != self.manifest.pack_nonce {
            return Ok(Fate::Leave);
        }
        if id < committed.segment_next {
            // The generation knew of it and left it out.
            return Ok(Fate::Remove);
        }
        let footer = self.footer_of(&source, FooterKind::Sealed)?;
        let footer = footer.filter(|footer| footer.nonce == header.nonce && footer.segment == id);
        if header.by_key {
            return Ok(footer.map_or(Fate::Remove, |footer| self.fate_of_compacted(&footer, committed)));
        }
        if let Some(footer) = footer {
            let is_empty = footer.frames.end() <= UNIT as u64;
            return Ok(if is_empty { Fate::Remove } else { Fate::SetAside(footer.tally.sequence_last) });
        }
        self.fate_of_unsealed(&source, &header)
    }

    /// A segment that a compaction wrote and sealed. It holds records of the segments that it was
    /// made from: if those all exist, nothing depends on it.
    fn fate_of_compacted(&self, footer: &Footer, committed: Committed) -> Fate {
        let all_there =
            self.recovery.damages.is_empty() && self.sealed.values().all(|sealed| sealed.segment.is_some());
        match all_there && footer.tally.sequence_last < committed.sequence_next {
            true => Fate::Remove,
            false => Fate::SetAside(footer.tally.sequence_last),
        }
    }

    /// A segment that was growing. Before a manifest names one for the first time, a mark is
    /// written into it: without a mark, nothing in it was ever acknowledged. In a file that no
    /// manifest vouches for, only heads are trusted: damage is not skipped by a length, as
    /// [`Frames::visit`](crate::pack::read::frames::Frames::visit) does.
    fn fate_of_unsealed(&self, source: &Arc<dyn Source>, header: &SegmentHeader) -> Result<Fate> {
        let range = ByteRange::new(UNIT as u64, source.len()).unwrap_or_default();
        let mut frames = self.reader.frames(source, header.salt(), range, Access::Cached)?;
        let (mut is_marked, mut last) = (false, None);
        loop {
            let goes_on = match frames.step()? {
                Step::End => false,
                Step::Invalid(broken) => frames.resync(broken.frame.saturating_add(8))?,
                Step::Frame => {
                    let head = frames.head();
                    is_marked |= head.header.kind == FrameKind::SyncMark;
                    last = last.max(head.key().map(|_| head.header.sequence));
                    frames.skip_frame()? || frames.resync(frames.window.pos())?
                }
            };
            if !goes_on {
                break;
            }
        }
        self.reader.take_back(frames)?;
        Ok(last.filter(|_| is_marked).map_or(Fate::Remove, Fate::SetAside))
    }

    fn footer_of(&self, source: &Arc<dyn Source>, kind: FooterKind) -> Result<Option<Footer>> {
        let len = source.len();
        let Some(range) = len.checked_sub(FOOTER_LEN as u64).and_then(|at| ByteRange::new(at, len)) else {
            return Ok(None);
        };
        match self.reader.read(source.as_ref(), range) {
            Ok(bytes) => Ok(Footer::decode(&bytes, kind, len).ok()),
            Err(Error::Damaged(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A checkpoint goes when its segment does not grow any more, and when it was not believed: the
    /// span that it speaks of may have been cut off, and other records be written there.
    fn find_checkpoint(&mut self, id: u64, from: u64) -> Result<()> {
        let name = PackFile::Checkpoint(id, from);
        let active = self.active.values().find(|active| active.header.id == id);
        if active.is_some_and(|active| active.has_checkpoint(&name)) {
            return Ok(());
        }
        let nonce = active.map(|active| active.header.nonce);
        let Some(source) = self.opened(&name)? else { return Ok(()) };
        let footer = self.footer_of(&source, FooterKind::Checkpoint)?;
        let is_own = footer.is_some_and(|footer| {
            footer.segment == id
                && footer.frames.start() == from
                && nonce.is_none_or(|nonce| nonce == footer.nonce)
        });
        if !is_own {
            return Ok(());
        }
        if nonce.is_some() {
            // A reader would believe it as soon as a generation says that the segment is that long.
            self.storage.unlink(&name.to_string())?;
        } else {
            self.garbage.insert(name);
        }
        Ok(())
    }

    fn set_aside(&mut self, name: &PackFile, kept_as: &PackFile, files: &[Entry]) -> Result<()> {
        let (name, kept_as) = (name.to_string(), kept_as.to_string());
        if files.iter().any(|file| file.name == kept_as) {
            return Err(Error::Invalid(format!(
                "{} belongs to a newer generation than there is, and cannot be kept as {kept_as}, which is there already; \
                 move one of them away",
                self.storage.path(&name).display()
            )));
        }
        self.storage.rename(&name, &kept_as)?;
        self.recovery.set_aside.push(SetAside { name, kept_as });
        Ok(())
    }
}
