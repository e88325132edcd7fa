//! An archive into a tree of files.
//!
//! Files appear under their names when they are whole, with mode, times and owner set; what a zip
//! says of its bytes was checked by then. Directories get their mode and time last, hard links when
//! all files are there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use super::error::{Error, Result};
use super::member::{Member, MemberKind};
use super::open::Archive;
use super::reading::{self, Reading};
use crate::source::Inodes;
use crate::storage::free_at;
use crate::tree::existing::Overwrite;
use crate::tree::outbox::{Calls, Durability, System};
use crate::tree::paths::Paths;
use crate::tree::target::FileMetadata;
use crate::tree::unpack::{Entries, Entry, EntryError, EntryKind, Next, Piece, UnpackOptions, Unpacking};
use crate::tree::{SelectKeys, Xattrs, room};

/// A member that could not be unpacked, and why.
pub type Failure = crate::tree::Failure<Error>;

/// What unpacking did.
pub type UnpackSummary = crate::tree::UnpackSummary<Error>;

/// How an archive is to be unpacked.
pub struct Unpack<'a> {
    /// Where to.
    pub target: PathBuf,
    /// What becomes of files and links that are there.
    pub overwrite: Overwrite,
    /// Whether owners are restored. If they are not, set-user-id and set-group-id bits that would
    /// mean somebody else are dropped.
    pub with_owner: bool,
    /// Whether extended attributes are set, access control lists among them. Those that grant
    /// rights (`security.*`, `trusted.*`) are only where an owner is restored.
    pub xattrs: bool,
    /// Threads that write small files.
    pub threads: usize,
    /// When files are on the medium.
    pub durability: Durability,
    /// Which keys are unpacked.
    pub select: SelectKeys<'a>,
    /// Writes even where there is less room than all of it needs.
    pub force: bool,
}

impl std::fmt::Debug for Unpack<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpack").field("target", &self.target).finish_non_exhaustive()
    }
}

impl Unpack<'_> {
    /// Unpacks. `progress` is called with members and bytes so far; when it returns `false`,
    /// unpacking stops, with every file either whole or absent.
    ///
    /// Unsafe paths, damaged members and files that cannot be written are
    /// [failures](UnpackSummary::failures); the rest is unpacked.
    ///
    /// # Errors
    /// That the target cannot be made or synced, that the archive changed meanwhile, or that the
    /// server that it is on does not give it.
    pub fn run(
        &self,
        archive: &Archive,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<UnpackSummary> {
        self.run_through(archive, Arc::new(System), progress)
    }

    /// The same, with system calls that somebody else makes.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_through(
        &self,
        archive: &Archive,
        calls: Arc<dyn Calls>,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<UnpackSummary> {
        let mut members = archive.selection(|key| key.is_empty() || (self.select)(key));
        members.sort_by_key(|member| member.data_at);
        self.check_room(&members)?;
        let (links, read): (Vec<_>, Vec<_>) =
            members.into_iter().partition(|member| member.kind() == MemberKind::HardLink);
        let mut read_from = Inodes::new();
        archive.note_files(&mut read_from);
        let options = UnpackOptions {
            target: self.target.clone(),
            overwrite: self.overwrite,
            read_from,
            threads: self.threads,
            durability: self.durability,
        };
        let mut paths = Paths::default();
        archive.members(b"").for_each(|member| paths.note(member.key));
        let mut unpacking = Unpacking::begin(&options, calls, progress)?;
        let mut members = MemberEntries::new((self, &paths), archive, &read, 0)?;
        unpacking.files(&mut members)?;
        unpacking.links(&mut MemberEntries::new((self, &paths), archive, &links, members.seen)?)?;
        archive.check_unchanged()?;
        unpacking.finish()
    }

    /// What is there already needs no room, and neither do the holes of a sparse member.
    fn check_room(&self, members: &[Member<'_>]) -> Result<()> {
        if self.force {
            return Ok(());
        }
        let free = free_at(&self.target)?;
        let is_wanted = |member: &&Member<'_>| {
            member.kind() == MemberKind::File && !self.target.join(OsStr::from_bytes(member.key)).exists()
        };
        let wanted = members.iter().filter(is_wanted);
        let needed = wanted.map(Member::kept_bytes).fold(0, u64::saturating_add);
        room::too_little(&self.target, needed, free).map_or(Ok(()), |why| Err(Error::Invalid(why)))
    }
}

impl EntryError for Error {
    fn refused(why: String) -> Self {
        Self::Invalid(why)
    }

    fn is_of_all(&self) -> bool {
        self.is_of_all_members()
    }
}

/// Members of an archive, in the order of the archive.
struct MemberEntries<'a> {
    unpack: &'a Unpack<'a>,
    paths: &'a Paths,
    archive: &'a Archive,
    reading: Reading<'a>,
    /// How many members did not come yet. After the last there may be a checksum.
    left: usize,
    seen: u64,
}

impl<'a> MemberEntries<'a> {
    fn new(
        (unpack, paths): (&'a Unpack<'a>, &'a Paths),
        archive: &'a Archive,
        members: &[Member<'_>],
        seen: u64,
    ) -> Result<Self> {
        let reading = archive.read(members.iter().map(|member| member.number).collect())?;
        Ok(Self { unpack, paths, archive, reading, left: members.len(), seen })
    }

    /// A step towards the checksum of all that was read.
    fn verify(&mut self) -> Result<Next<Error>> {
        match self.reading.verify() {
            Ok(true) => Ok(Next::Passed),
            Ok(false) => Ok(Next::End),
            Err(error) if error.is_of_all_members() => Err(error),
            // It is reported once.
            Err(error) => {
                let key = self.archive.path().as_os_str().as_bytes().to_vec();
                Ok(Next::Failed(Failure { key, error }))
            }
        }
    }

    fn metadata(&self, member: &Member<'_>) -> FileMetadata {
        let (mode, mtime_ns, owner) = (member.node.mode, member.node.mtime_ns, member.node.owner);
        FileMetadata::new(mode, mtime_ns, owner, self.unpack.with_owner)
            .with_xattrs(Xattrs::decode(member.xattrs), self.unpack.xattrs)
            .with_holes(self.archive.holes(member))
    }
}

impl Entries for MemberEntries<'_> {
    type Error = Error;

    fn next(&mut self) -> Result<Next<Error>> {
        if self.left == 0 {
            return self.verify();
        }
        let Some(member) = self.reading.next()? else {
            self.left = 0;
            return Ok(Next::Passed);
        };
        (self.left, self.seen) = (self.left.saturating_sub(1), self.seen.saturating_add(1));
        // Whatever the order and the selection, what others lie below is a directory.
        if let Err(why) = self.paths.check(member.key, member.kind() == MemberKind::Directory) {
            return Ok(Next::Failed(Failure { key: member.key.to_vec(), error: Error::Invalid(why) }));
        }
        Ok(Next::Entry(Entry {
            key: member.key.to_vec(),
            kind: match member.kind() {
                MemberKind::Directory => EntryKind::Directory,
                MemberKind::Symlink => EntryKind::Symlink,
                _ => EntryKind::File,
            },
            metadata: self.metadata(&member),
            len: Some(member.node.len),
            file: has_names(&member).then(|| member.data_at.to_le_bytes().to_vec()),
            first: None,
        }))
    }

    fn piece(&mut self) -> Result<Option<Piece<'_>>> {
        Ok(self.reading.piece()?.map(|piece| match piece {
            reading::Piece::Bytes(bytes) => Piece::Bytes(bytes),
            reading::Piece::Hole(len) => Piece::Hole(len),
        }))
    }

    fn link_target(&mut self) -> Result<Vec<u8>> {
        self.reading.link_target()
    }

    fn rewind(&mut self) -> Result<()> {
        Err(Error::Invalid("members are read forward only".into()))
    }

    fn seen(&self) -> u64 {
        self.seen
    }
}

/// Whether the archive has several names for a file.
fn has_names(member: &Member<'_>) -> bool {
    member.node.links > 1 || member.kind() == MemberKind::HardLink
}
