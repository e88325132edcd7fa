//! [`CopyReport`]: what copying did.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::events::{Action, Why};
use super::options::CopyOptions;
use super::read_back::ReadAgain;
use super::waits::Waits;
use crate::device::Attachment;
use crate::engine::Passage;
use crate::error::Error;
use crate::tree::{Kept, Kind, UnsetXattrs};

/// A path that was not copied, relative to the destination, and why. The error names the file that
/// it is about, with the offset where there is one.
pub type Failure = crate::tree::Failure<Error>;

/// That not all of a source is there.
pub(crate) fn incomplete(path: &Path, key: Vec<u8>) -> Failure {
    let what = io::Error::other("it is not complete: what is in it so far was copied");
    Failure { key, error: Error::io("copy all of", path, what) }
}

/// The directories that lead to one and that have to be made, itself among them: the first is what
/// all others are in.
pub(crate) fn not_there(path: &Path) -> Vec<PathBuf> {
    let named = path.ancestors().filter(|above| !above.as_os_str().is_empty());
    let mut missing: Vec<PathBuf> =
        named.take_while(|above| !above.exists()).map(Path::to_path_buf).collect();
    missing.reverse();
    missing
}

/// A special file that was not asked for, or cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotCopied {
    /// Its path, relative to the destination.
    pub key: Vec<u8>,
    /// What it is.
    pub kind: Kind,
}

/// A file that is not whole, and that the next run continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// Its path, relative to the destination.
    pub key: Vec<u8>,
    /// How much of it is there, in bytes. The next run verifies that before it continues.
    pub bytes: u64,
}

/// What a run that was killed had just replaced, and that may be all that there is of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its path now, relative to the destination.
    pub key: Vec<u8>,
    /// The path of what replaced it, or was to be replaced by it; `None` where nothing has its name
    /// any more.
    pub replaced_by: Option<Vec<u8>>,
}

/// What became of one destination, or with a dry run would.
#[derive(Debug, Default)]
pub struct DestinationReport {
    /// The directory.
    pub path: PathBuf,
    /// The directories that were made to have it, itself the last of them.
    pub made: Vec<PathBuf>,
    /// Regular files written.
    pub files: u64,
    /// Bytes of them, holes included.
    pub bytes: u64,
    /// Files that share the blocks of their source, among those written.
    pub cloned: u64,
    /// Files that their server copied, among those written.
    pub copied_by_server: u64,
    /// Directories that are there, with mode and time set.
    pub directories: u64,
    /// Symbolic links made.
    pub symlinks: u64,
    /// Hard links to files made.
    pub hard_links: u64,
    /// Files that became hard links of an earlier copy.
    pub linked: u64,
    /// Pipes and devices made.
    pub specials: u64,
    /// Files and links that were there already.
    pub unchanged: u64,
    /// Those among them that got another mode, owner or time.
    pub corrected: u64,
    /// What is there and stays, though it is not what was to be copied.
    pub kept: Vec<Kept>,
    /// What was there, replaced, and stays under another name.
    pub backups: u64,
    /// What runs that were killed had replaced just then. It stays.
    pub leftovers: Vec<Leftover>,
    /// Paths that were deleted, because the sources do not have them.
    pub deleted: Vec<Vec<u8>>,
    /// Why a mirror looked for nothing that it could delete, where that is so.
    pub not_mirrored: Option<WhyNotMirrored>,
    /// Lists of checksums that were written, relative to it.
    pub lists: Vec<Vec<u8>>,
    /// The directory of the proofs that were written, by its path in the destination, and how many
    /// files have one.
    pub proofs: Option<(Vec<u8>, u64)>,
    /// Files that are there and in none of those lists, because they were there already and their
    /// bytes were not read.
    pub unlisted: u64,
    /// Files that are there, of which the ASC MHL has none because it has no way to hold their
    /// names. They are among the failures.
    pub unlistable: u64,
    /// Extended attributes that were not set.
    pub unset_xattrs: UnsetXattrs,
    /// What could not be written.
    pub failures: Vec<Failure>,
    /// Why nothing more was written, where the destination was given up, and how many files are
    /// missing there.
    pub stopped: Option<String>,
    /// Which way the bytes of large files took.
    pub passage: Passage,
    /// What was read again, if that was asked for.
    pub read_again: Option<ReadAgain>,
    /// Bytes of files that an earlier run left unfinished: they were verified, and not written
    /// again.
    pub resumed_bytes: u64,
    /// Files that are not whole, and that the next run continues.
    pub unfinished: Vec<Unfinished>,
    /// What it lies on.
    pub attachment: Attachment,
}

impl DestinationReport {
    /// Counts what is neither a file nor a directory, and was made.
    pub(super) fn add_other(&mut self, kind: Kind) {
        match kind {
            Kind::Symlink => self.symlinks += 1,
            _ => self.specials += 1,
        }
    }

    /// Counts what a dry run would do, as the copy counts it. What is there already, and what would
    /// be deleted, counts in both alike.
    pub(super) fn count_planned(
        &mut self,
        (kind, len): (Kind, u64),
        (action, why): (Action, Why),
        keeps: bool,
    ) {
        match (action, kind) {
            (Action::Copy, Kind::File) => {
                self.files += 1;
                self.bytes = self.bytes.saturating_add(len);
            }
            (Action::Copy, Kind::Directory) => self.directories += 1,
            (Action::HardLink, Kind::File) => self.hard_links += 1,
            (Action::Copy | Action::HardLink, kind) => self.add_other(kind),
            (Action::LinkEarlier, _) => self.linked += 1,
            (Action::Delete, _) => {}
            _ => return,
        }
        self.backups += u64::from(keeps && why != Why::New);
    }
}

/// Why a mirror deleted nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WhyNotMirrored {
    /// Something could not be read.
    Unread,
    /// A special file was not copied.
    Special,
    /// Something could not be written.
    Unwritten,
    /// Something is there with other content, and was kept.
    Kept,
}

impl WhyNotMirrored {
    /// It as a sentence ends: `something could not be read`.
    pub fn text(self) -> &'static str {
        match self {
            Self::Unread => "something could not be read",
            Self::Special => "a special file was not copied",
            Self::Unwritten => "something could not be written",
            Self::Kept => "something is there with other content, and was kept",
        }
    }
}

/// What copying did, or with a dry run would do.
#[derive(Debug, Default)]
pub struct CopyReport {
    /// Each destination, in the order in which they were given.
    pub destinations: Vec<DestinationReport>,
    /// What could not be read, for all destinations.
    pub failures: Vec<Failure>,
    /// Special files that were left out.
    pub not_copied: Vec<NotCopied>,
    /// Files that were read.
    pub read_files: u64,
    /// Bytes that were read, once for all destinations.
    pub read_bytes: u64,
    /// Entries that were selected; a directory whose contents were copied is none.
    pub entries: u64,
    /// Whether the caller stopped it before its end.
    pub interrupted: bool,
    /// What the sources on disk lie on, each once.
    pub sources: Vec<Attachment>,
    /// What was waited for.
    pub waits: Waits,
    /// How long it took, counting and the last sync included.
    pub elapsed: Duration,
}

impl CopyReport {
    /// Whether nothing matches what was asked for, and that was hardly meant so.
    pub fn found_nothing(&self, options: &CopyOptions) -> bool {
        let CopyOptions { selection, only, .. } = options;
        let is_asked = only.is_some() || !selection.is_all();
        is_asked && self.entries == 0 && self.undone() == 0 && !selection.leaves_nothing_on_purpose()
    }

    /// How much of what was asked for is not done: failures, what was kept with other content,
    /// missing extended attributes, special files that were left out, destinations given up.
    pub fn undone(&self) -> u64 {
        let of = |one: &DestinationReport| {
            one.failures.len() as u64
                + one.kept.len() as u64
                + one.unset_xattrs.entries
                + u64::from(one.stopped.is_some())
        };
        let own = self.failures.len() as u64 + self.not_copied.len() as u64;
        own + self.destinations.iter().map(of).sum::<u64>()
    }
}
