//! A pack or an archive into a directory: which paths, what becomes of those that are there, and
//! what is a failure.

mod filter;

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use filter::Filtering;
pub use filter::{PathFilter, Prefix};

use super::contents::{self, Opened};
use crate::archive::{self, Archive, MemberKind};
use crate::pack::tree::UnpackTree;
use crate::pack::{self, Damage, Pack};
use crate::source::check_path;
pub use crate::tree::outbox::Durability;
use crate::tree::outbox::{Calls, System};
use crate::tree::{self, Kept, Overwrite, WhyKept, target};

/// Threads that write small files, unless the caller says how many.
pub const THREADS: usize = 8;

/// The most threads that a caller may ask for.
pub const THREADS_MAX: usize = 256;

/// A result of unpacking.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A path that could not be unpacked, and why.
pub type Failure = tree::Failure<Error>;

/// What unpacking did.
pub type Summary = tree::UnpackSummary<Error>;

/// What went wrong: as [`contents::Error`], or an error of writing files or a tar.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory or the file that is written.
    #[error(transparent)]
    Core(#[from] crate::Error),
    /// The pack, or what is below it.
    #[error(transparent)]
    Pack(#[from] pack::Error),
    /// The archive, or what is below it.
    #[error(transparent)]
    Archive(#[from] archive::Error),
    /// What the caller gave to write to.
    #[error("cannot write the tar")]
    Write(#[source] std::io::Error),
    /// What only packs have was asked of an archive.
    #[error("{what} is for packs, and {} is a {format}", path.display())]
    OnlyPacks {
        /// The name of the option.
        what: &'static str,
        /// The archive.
        path: PathBuf,
        /// What it is.
        format: archive::Format,
    },
    /// What was to be unpacked cannot be opened.
    #[error(transparent)]
    Open(contents::Error),
    /// The caller ended it.
    #[error("interrupted")]
    Interrupted,
}

impl From<contents::Error> for Error {
    fn from(error: contents::Error) -> Self {
        match error {
            contents::Error::Pack(error) => Self::Pack(error),
            contents::Error::Archive(error) => Self::Archive(error),
            contents::Error::Interrupted => Self::Interrupted,
            error => Self::Open(error),
        }
    }
}

impl Error {
    /// That an archive does not have what this option is about.
    pub fn only_packs(what: &'static str, archive: &Archive) -> Self {
        Self::OnlyPacks { what, path: archive.path().to_path_buf(), format: archive.format() }
    }

    /// The damage of a pack that this error reports, if it reports damage.
    pub fn damage(&self) -> Option<&Damage> {
        match self {
            Self::Pack(error) => error.damage(),
            _ => None,
        }
    }
}

/// What is unpacked.
#[derive(Debug, Clone, Copy)]
pub enum Packed<'a> {
    /// A pack.
    Pack(&'a Pack),
    /// A tar or zip archive.
    Archive(&'a Archive),
}

impl<'a> From<&'a Opened> for Packed<'a> {
    fn from(opened: &'a Opened) -> Self {
        match opened {
            Opened::Pack(contents) => Self::Pack(contents.pack()),
            Opened::Archive(archive) => Self::Archive(archive),
        }
    }
}

/// How a pack or an archive is unpacked.
#[derive(Debug)]
pub struct Unpack<'a> {
    /// The directory, made if it is not there.
    pub target: PathBuf,
    /// Which paths are unpacked.
    pub filter: PathFilter<'a>,
    /// What becomes of files and links that are there.
    pub overwrite: Overwrite,
    /// Whether root restores owners; no other user can. Set-user-id and set-group-id bits that
    /// would apply to another owner are dropped.
    pub with_owner: bool,
    /// Whether extended attributes are set, access control lists among them. Those that grant
    /// rights (`security.*`, `trusted.*`) are only where an owner is restored.
    pub xattrs: bool,
    /// Threads that write small files.
    pub threads: usize,
    /// When files are on the medium.
    pub durability: Durability,
    /// Writes what fits, even where there is less room than all of it needs.
    pub force: bool,
}

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Records or members so far.
    pub entries: u64,
    /// Bytes of files so far. What was begun and could not be finished is taken back.
    pub bytes: u64,
    /// Bytes of files in all; of a pack, before anything is left out.
    pub total_bytes: u64,
}

/// Called with the progress; ends the work by returning `false`.
pub type OnProgress<'a> = &'a mut dyn FnMut(Progress) -> bool;

/// Why nothing was unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nothing {
    /// There is nothing.
    Empty,
    /// Exclusions leave nothing: that is what they are for.
    Excluded,
    /// Nothing matches what was asked for; more often a misspelling than meant.
    Missing,
}

/// What unpacking did.
#[derive(Debug)]
pub struct Unpacked {
    /// What was written, what was there, what failed.
    pub summary: Summary,
    /// Whether the pack is complete, or the archive ends as its format says.
    pub is_complete: bool,
    /// What keeps the result from being all that was asked for: failures, files that were kept with
    /// other content, extended attributes that are missing, that the pack is incomplete or the
    /// archive was cut off.
    pub undone: u64,
    /// Why nothing was unpacked, where nothing was and nothing else is wrong.
    pub nothing: Option<Nothing>,
}

impl Unpacked {
    pub(super) fn of_pack(summary: Summary, pack: &Pack, filtering: &Filtering<'_>) -> Self {
        Self::new(summary, pack.is_complete(), filtering)
    }

    fn new(summary: Summary, is_complete: bool, filtering: &Filtering<'_>) -> Self {
        let undone = contents::undone(is_complete) + (summary.failures.len() + summary.kept.len()) as u64;
        let undone = undone + summary.unset_xattrs.entries;
        let is_done = undone == 0 && !summary.interrupted;
        let nothing = filtering.nothing().filter(|_| is_done);
        Self { summary, is_complete, undone, nothing }
    }

    /// That the file which was to be written is there and stays: nothing came of all the rest.
    pub(super) fn with_kept(self, path: &Path) -> Self {
        let kept = vec![Kept { key: path.as_os_str().as_bytes().to_vec(), why: WhyKept::Incomplete }];
        let Summary { failures, unset_xattrs, .. } = self.summary;
        let summary = Summary { kept, failures, unset_xattrs, ..Summary::default() };
        Self { summary, undone: self.undone + 1, nothing: None, ..self }
    }
}

impl Unpack<'_> {
    /// Unpacks. Unsafe paths, damage and files that cannot be written are
    /// [failures](Summary::failures); the rest continues. A directory that was made for what is
    /// [missing](Nothing::Missing) is removed again.
    ///
    /// # Errors
    /// The target cannot be made or synced, I/O errors of what is unpacked, groups that are not
    /// there or of an archive, [`Error::Interrupted`] before anything was written.
    pub fn run(&self, packed: Packed<'_>, progress: OnProgress<'_>) -> Result<Unpacked> {
        self.run_through(packed, Arc::new(System), progress)
    }

    /// The same; `calls` makes the system calls of the way out.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_through(
        &self,
        packed: Packed<'_>,
        calls: Arc<dyn Calls>,
        progress: OnProgress<'_>,
    ) -> Result<Unpacked> {
        check_path(&self.target)?;
        let is_new = !self.target.exists();
        let mut unpacked = match packed {
            Packed::Pack(pack) => self.pack(pack, calls.clone(), progress)?,
            Packed::Archive(archive) => self.archive(archive, calls.clone(), progress)?,
        };
        if is_new && unpacked.nothing == Some(Nothing::Missing) {
            let failed = |error| crate::Error::io("remove", &self.target, error);
            target::remove_if_empty_through(&*calls, &self.target).map_err(failed)?;
            // It was the root's.
            unpacked.summary.directories = 0;
        }
        Ok(unpacked)
    }

    fn with_owner(&self) -> bool {
        self.with_owner && rustix::process::geteuid().is_root()
    }

    fn pack(&self, pack: &Pack, calls: Arc<dyn Calls>, progress: OnProgress<'_>) -> Result<Unpacked> {
        pack.check_groups(&self.filter.groups)?;
        let total_bytes = pack.segments().iter().map(|segment| segment.tally.body_bytes).sum();
        let mut report = |entries, bytes| progress(Progress { entries, bytes, total_bytes });
        let directories = self.filter.directories(pack, &mut || report(0, 0))?;
        let filtering = Filtering::new(&self.filter, |path| directories.contains(path));
        let tree = UnpackTree {
            target: self.target.clone(),
            overwrite: self.overwrite,
            with_owner: self.with_owner(),
            xattrs: self.xattrs,
            groups: self.filter.groups.clone(),
            threads: self.threads,
            durability: self.durability,
            select: Box::new(|path| filtering.takes(path)),
            force: self.force,
        };
        let mut go_on = |entries, bytes| !filtering.has_failed() && report(entries, bytes);
        let summary = tree.run_through(pack, calls, &mut go_on)?.with_errors_as();
        Ok(Unpacked::of_pack(summary, pack, &filtering))
    }

    fn archive(
        &self,
        archive: &Archive,
        calls: Arc<dyn Calls>,
        progress: OnProgress<'_>,
    ) -> Result<Unpacked> {
        if !self.filter.groups.is_empty() {
            return Err(Error::only_packs("group", archive));
        }
        let is_directory =
            |path: &[u8]| archive.find(path).is_some_and(|found| found.kind() == MemberKind::Directory);
        let filtering = Filtering::new(&self.filter, is_directory);
        let taken = archive.members(b"").filter(|member| filtering.takes(member.key));
        let total_bytes = taken.map(|member| member.node.len).fold(0, u64::saturating_add);
        let unpack = archive::Unpack {
            target: self.target.clone(),
            overwrite: self.overwrite,
            with_owner: self.with_owner(),
            xattrs: self.xattrs,
            threads: self.threads,
            durability: self.durability,
            select: Box::new(|path| filtering.takes(path)),
            force: self.force,
        };
        let mut go_on =
            |entries, bytes| !filtering.has_failed() && progress(Progress { entries, bytes, total_bytes });
        let summary = unpack.run_through(archive, calls, &mut go_on)?.with_errors_as();
        Ok(Unpacked::new(summary, archive.has_end(), &filtering))
    }
}
