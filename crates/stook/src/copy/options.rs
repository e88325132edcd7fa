//! [`CopyOptions`]: how trees are copied.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::error::{Error, Result};
use crate::format::mhl::checked_kinds;
use crate::hash::{HashKind, each_once};
use crate::names::Selection;
use crate::source::AccessRule;
use crate::tree::Overwrite;
use crate::tree::outbox::Durability;

/// How trees are copied.
#[derive(Debug, Clone)]
pub struct CopyOptions {
    /// What becomes of files and links that are there. What is there unchanged is skipped, unless
    /// all are replaced. Directories always get what their source has.
    pub overwrite: Overwrite,
    /// Whether files count as unchanged only if their bytes are the same. Otherwise those are that
    /// have the same length and modification time.
    pub checksum: bool,
    /// When files are on the medium.
    pub durability: Durability,
    /// What is replaced, or deleted, stays under its name with this at the end.
    pub backup: Option<OsString>,
    /// Whether what is only in a destination is deleted, once everything has been copied. What the
    /// selection leaves out stays.
    pub mirror: bool,
    /// How much a mirror may delete. If it is not said, no more than half of the files that were
    /// there where a source goes.
    pub max_delete: Option<u64>,
    /// Nothing is changed; items say what would be.
    pub dry_run: bool,
    /// Which paths, relative to each source, are copied.
    pub selection: Selection,
    /// Whether directories that are there keep mode, owner and time.
    pub keep_directories: bool,
    /// Only these paths, relative to each source, with all that is in them.
    pub only: Option<BTreeSet<Vec<u8>>>,
    /// A directory with an earlier copy: files that it has unchanged become hard links of its.
    pub link_dest: Option<PathBuf>,
    /// Whether root sets owners.
    pub with_owner: bool,
    /// Whether extended attributes are set, access control lists among them.
    pub xattrs: bool,
    /// Whether pipes, and by root devices, are made. Otherwise they are listed.
    pub specials: bool,
    /// What is computed of each file that is read.
    pub hashes: Vec<HashKind>,
    /// Lists of checksums that are written beside the copy, one for each function.
    pub lists: Vec<HashKind>,
    /// Whether the proofs of files of more than 1 MiB that are read are written beside a list of
    /// BLAKE3, which is made then.
    pub proofs: bool,
    /// Functions of the list of ASC MHL that is written at the end, if one is.
    pub mhl: Option<Vec<HashKind>>,
    /// How long one read or write of a large file is; as long as is best for the devices where it
    /// is not said.
    pub block_bytes: Option<u64>,
    /// How many of them are in flight for each file.
    pub depth: Option<usize>,
    /// How many small files are copied at once.
    pub jobs: Option<usize>,
    /// Which way bytes are read and written: `Auto` is past the page cache for large files.
    pub access: AccessRule,
    /// Bytes a second that are read, at most: [`Self::BYTES_PER_S_MIN`] at least.
    pub bytes_per_s: Option<u64>,
    /// Writes what fits, and deletes whatever is extra.
    pub force: bool,
    /// Which files stay when their copy ends before they are whole, so that the next run continues
    /// them; none where it is not said.
    pub resume: Option<Resume>,
}

/// Which files the next run continues, and how much of one it may have to write again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resume {
    /// Files from this length on. What is shorter is copied again sooner than it is verified.
    pub from_bytes: u64,
    /// A file is made durable, and its journal says how far it is, after this many bytes,
    pub checkpoint_bytes: u64,
    /// or after this long, whichever comes first.
    pub checkpoint_after: Duration,
}

impl Default for Resume {
    /// From 64 MiB on; a checkpoint every 2 s or 1 GiB. At a sync of some milliseconds that is less
    /// than a hundredth of the time.
    fn default() -> Self {
        let checkpoint_after = Duration::from_secs(2);
        Self { from_bytes: 64 << 20, checkpoint_bytes: 1 << 30, checkpoint_after }
    }
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            overwrite: Overwrite::Never,
            checksum: false,
            durability: Durability::Batch,
            backup: None,
            mirror: false,
            max_delete: None,
            dry_run: false,
            selection: Selection::default(),
            keep_directories: false,
            only: None,
            link_dest: None,
            with_owner: true,
            xattrs: true,
            specials: false,
            hashes: Vec::new(),
            lists: Vec::new(),
            proofs: false,
            mhl: None,
            block_bytes: None,
            depth: None,
            jobs: None,
            access: AccessRule::Auto,
            bytes_per_s: None,
            force: false,
            resume: Some(Resume::default()),
        }
    }
}

/// The least and the greatest length of a block.
pub(super) const BLOCK_MIN: u64 = 4 << 10;
pub(super) const BLOCK_MAX: u64 = 16 << 20;
/// Blocks in flight of one file, at most.
const DEPTH_MAX: usize = 256;
/// Threads at most.
const JOBS_MAX: usize = 256;

impl CopyOptions {
    /// The lowest limit, in bytes a second. A copy would take years with less: what was meant are
    /// thousands of them.
    pub const BYTES_PER_S_MIN: u64 = 4 << 10;

    /// Refuses what cannot be meant.
    pub(crate) fn check(&self) -> Result<()> {
        let invalid = |what: String| Err(Error::Invalid(what));
        if let Some(bytes) = self.block_bytes
            && (!(BLOCK_MIN..=BLOCK_MAX).contains(&bytes) || !bytes.is_multiple_of(BLOCK_MIN))
        {
            return invalid(format!(
                "the block size must be a multiple of 4 KiB up to 16 MiB, not {bytes} bytes"
            ));
        }
        if let Some(depth) = self.depth.filter(|depth| !(1..=DEPTH_MAX).contains(depth)) {
            return invalid(format!("the depth must be 1 to {DEPTH_MAX}, not {depth}"));
        }
        if let Some(jobs) = self.jobs.filter(|jobs| !(1..=JOBS_MAX).contains(jobs)) {
            return invalid(format!("the number of jobs must be 1 to {JOBS_MAX}, not {jobs}"));
        }
        if let Some(kinds) = &self.mhl {
            match checked_kinds(kinds) {
                Ok(kinds) if kinds.is_empty() => return invalid("a list of ASC MHL needs a hash".into()),
                Ok(_) => {}
                Err(refused) => return invalid(refused.to_string()),
            }
        }
        if self.max_delete.is_some() && !self.mirror {
            return invalid("how much may be deleted is said of a mirror, and none is asked for".into());
        }
        if let Some(bytes) = self.bytes_per_s.filter(|bytes| *bytes < Self::BYTES_PER_S_MIN) {
            return invalid(format!("the limit must be at least 4 KiB a second, not {bytes} bytes"));
        }
        let is_part = |suffix: &OsString| {
            let bytes = suffix.as_encoded_bytes();
            !bytes.is_empty() && !bytes.contains(&b'/') && !bytes.contains(&0)
        };
        if let Some(suffix) = self.backup.as_ref().filter(|suffix| !is_part(suffix)) {
            return invalid(format!("the suffix of backups must be the end of a name, not {suffix:?}"));
        }
        Ok(())
    }

    /// Refuses what leaves nothing on the medium that could be read again.
    pub(super) fn check_read_back(&self) -> Result<()> {
        match self.durability {
            Durability::None => Err(Error::Invalid(
                "what is not made durable may be in memory alone, so that it cannot be read back".into(),
            )),
            Durability::File | Durability::Batch => Ok(()),
        }
    }

    /// The same, with a hash of what is read: one that finds accidents, and is no slower than
    /// memory.
    pub(super) fn with_some_hash(mut self) -> Self {
        if self.hashes.is_empty() && !self.dry_run {
            self.hashes.push(HashKind::Xxh128);
        }
        self
    }

    /// Whether a list of ASC MHL is written.
    pub(super) fn makes_mhl(&self) -> bool {
        self.mhl.is_some() && !self.dry_run
    }

    /// The same, with the hashes that lists need among those that are computed, and those that
    /// histories have which are continued.
    pub(super) fn with_hashes_of_lists(mut self, of_histories: &BTreeSet<HashKind>) -> Self {
        (self.hashes, self.lists) = (each_once(self.hashes), each_once(self.lists));
        if self.proofs && !self.lists.contains(&HashKind::Blake3) {
            self.lists.push(HashKind::Blake3);
        }
        if !self.dry_run {
            let asked = self.lists.iter().chain(self.mhl.iter().flatten()).chain(of_histories);
            for kind in asked.copied().collect::<Vec<_>>() {
                if !self.hashes.contains(&kind) {
                    self.hashes.push(kind);
                }
            }
        }
        self
    }

    /// Whether lists of checksums are written.
    pub(crate) fn has_lists(&self) -> bool {
        self.mhl.is_some() || self.proofs || !self.lists.is_empty()
    }

    /// Whether root sets owners.
    pub(super) fn sets_owner(&self) -> bool {
        self.with_owner && rustix::process::geteuid().is_root()
    }
}
