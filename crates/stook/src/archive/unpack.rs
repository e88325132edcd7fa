//! An archive into a tree of files.
//!
//! Files appear under their names when they are whole, with mode, times and owner set; what a zip
//! says of its bytes was checked by then. Directories get their mode and time last, hard links when
//! all files are there.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::FileType;

use super::error::{Error, Result};
use super::member::{Member, MemberKind};
use super::open::Archive;
use super::reading::{Piece, Reading};
use crate::storage::free_at;
use crate::tree::existing::{self, Comparison, Overwrite, Plan};
use crate::tree::filling::Filling;
use crate::tree::outbox::{Batch, Calls, OutFile, Outbox, Published, System, Waiting};
use crate::tree::room;
use crate::tree::target::{self, FileMetadata, MetadataOutcome, Target};
use crate::tree::{SelectKeys, WhyKept, Xattrs};

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
        let io = |operation| move |error| Error::from(crate::Error::io(operation, &self.target, error));
        let outbox = Outbox::new(calls.clone()).map_err(io("choose names in"))?;
        let mut members = archive.selection(|key| key.is_empty() || (self.select)(key));
        members.sort_by_key(|member| member.data_at);
        self.check_room(&members)?;
        let (links, read): (Vec<_>, Vec<_>) =
            members.into_iter().partition(|member| member.kind() == MemberKind::HardLink);
        let target = Target::open_through(&self.target, calls).map_err(io("open"))?;
        let mut unpacking = Unpacking {
            options: self,
            batch: Some(Batch::new()),
            target,
            outbox,
            summary: UnpackSummary::default(),
            directories: Vec::new(),
            files: HashMap::new(),
            progress,
            seen: 0,
        };
        let read = unpacking.members(archive, &read, false);
        unpacking.publish_waiting();
        read?;
        unpacking.members(archive, &links, true)?;
        unpacking.set_directory_metadata();
        archive.check_unchanged()?;
        // Each file was on the medium when it got its name, and now all names are.
        unpacking.outbox.sync_all(&unpacking.target.root()).map_err(io("sync"))?;
        Ok(unpacking.summary)
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
        let len = |member: &Member<'_>| if member.is_sparse { member.stored_len } else { member.node.len };
        let needed = members.iter().filter(is_wanted).map(len).fold(0, u64::saturating_add);
        room::too_little(&self.target, needed, free).map_or(Ok(()), |why| Err(Error::Invalid(why)))
    }
}

struct Unpacking<'a> {
    options: &'a Unpack<'a>,
    target: Target,
    outbox: Outbox,
    /// Files that wait for their names; `None` when others are linked to them, and each gets its
    /// name at once.
    batch: Option<Batch>,
    summary: UnpackSummary,
    /// What is put off until everything is in them.
    directories: Vec<(Vec<u8>, FileMetadata)>,
    /// Files with several names that were written, or were there already, by where their bytes are.
    files: HashMap<u64, Vec<u8>>,
    progress: &'a mut dyn FnMut(u64, u64) -> bool,
    seen: u64,
}

/// Where a member goes.
struct Destination {
    parent: Arc<OwnedFd>,
    name: OsString,
    metadata: FileMetadata,
}

impl Unpacking<'_> {
    fn members(&mut self, archive: &Archive, members: &[Member<'_>], are_links: bool) -> Result<()> {
        let mut reading = archive.read(members.iter().map(|member| member.number).collect())?;
        for _ in members {
            // Not after the next member: what is left of this one may be long.
            if self.is_stopped() {
                return Ok(());
            }
            let Some(member) = reading.next()? else { break };
            self.seen += 1;
            let done = match are_links && self.files.contains_key(&member.data_at) {
                true => self.link(&member, &mut reading),
                false => self.member(&member, &mut reading),
            };
            match done {
                Ok(()) => {}
                Err(error) if error.is_of_all_members() => return Err(error),
                Err(error) => self.summary.failures.push(Failure { key: member.key.to_vec(), error }),
            }
        }
        loop {
            if self.is_stopped() {
                return Ok(());
            }
            match reading.verify() {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) if error.is_of_all_members() => return Err(error),
                Err(error) => {
                    let key = archive.path().as_os_str().as_bytes().to_vec();
                    self.summary.failures.push(Failure { key, error });
                    return Ok(());
                }
            }
        }
    }

    /// Whether the caller wants no more, which is noted.
    fn is_stopped(&mut self) -> bool {
        let summary = &mut self.summary;
        summary.interrupted = summary.interrupted || !(self.progress)(self.seen, summary.bytes);
        summary.interrupted
    }

    fn member(&mut self, member: &Member<'_>, reading: &mut Reading<'_>) -> Result<()> {
        let metadata = self.metadata(member);
        if member.kind() == MemberKind::Directory {
            let parts = parts(member.key)?;
            self.target.directory(&parts).map_err(|error| self.io("make", member.key, error))?;
            self.directories.push((member.key.to_vec(), metadata));
            return Ok(());
        }
        let place = self.place(member.key, metadata)?;
        let plan = self.plan(member, &place)?;
        match member.kind() {
            MemberKind::Symlink => self.symlink(member, &place, plan, reading),
            _ if plan == Plan::Compare => self.compare(member, &place, plan, reading).map(drop),
            _ => self.file(member, &place, plan, reading),
        }
    }

    /// What is done at a place.
    fn plan(&self, member: &Member<'_>, place: &Destination) -> Result<Plan> {
        let plan = self.options.overwrite.plan(&place.parent, &place.name, member.node.mtime_ns);
        plan.map_err(|error| self.io("write", member.key, error))
    }

    /// Compares what is there with the member, if it is to be, and notes what stays; whether it is
    /// to be replaced.
    fn compare(
        &mut self,
        member: &Member<'_>,
        place: &Destination,
        plan: Plan,
        reading: &mut Reading<'_>,
    ) -> Result<bool> {
        if !plan.compares() {
            return Ok(true);
        }
        let opened = Comparison::open(&place.parent, &place.name);
        let mut comparison = opened.map_err(|error| self.io("read", member.key, error))?;
        if self.fill(None, Some(&mut comparison), member.key, reading)?.is_none() {
            self.summary.interrupted = true;
            return Ok(false);
        }
        self.compared(member, place, comparison, plan)
    }

    /// Notes what stays of what was compared; whether it is to be replaced.
    fn compared(
        &mut self,
        member: &Member<'_>,
        place: &Destination,
        comparison: Comparison,
        plan: Plan,
    ) -> Result<bool> {
        let is_same = comparison.finish().map_err(|error| self.io("read", member.key, error))?;
        if is_same && has_names(member) && !self.files.contains_key(&member.data_at) {
            let is_file = is_file_of(place).map_err(|error| self.io("look for", member.key, error))?;
            if is_file {
                self.files.insert(member.data_at, member.key.to_vec());
            }
        }
        Ok(self.keeps(member, is_same, plan))
    }

    fn keeps(&mut self, member: &Member<'_>, is_same: bool, plan: Plan) -> bool {
        if is_same {
            self.summary.unchanged += 1;
        } else if plan == Plan::Compare {
            self.summary.keep(member.key.to_vec(), WhyKept::OtherContent);
        }
        !is_same && plan != Plan::Compare
    }

    fn file(
        &mut self,
        member: &Member<'_>,
        place: &Destination,
        plan: Plan,
        reading: &mut Reading<'_>,
    ) -> Result<()> {
        let mut comparison = match plan.compares() {
            true => {
                let opened = Comparison::open(&place.parent, &place.name);
                Some(opened.map_err(|error| self.io("read", member.key, error))?)
            }
            false => None,
        };
        let file = self.outbox.file(&place.parent, place.metadata.mode, plan.replaces());
        let file = file.map_err(|error| self.io("create", member.key, error))?;
        let discard = |unpacking: &Self, file: OutFile| {
            file.discard().map_err(|error| unpacking.io("remove the unfinished", member.key, error))
        };
        let Some(len) = self.fill(Some(&file), comparison.as_mut(), member.key, reading)? else {
            self.summary.interrupted = true;
            return discard(self, file);
        };
        if let Some(comparison) = comparison
            && !self.compared(member, place, comparison, plan)?
        {
            return discard(self, file);
        }
        self.finish(file, len, plan, member, place).map_err(|error| self.io("finish", member.key, error))
    }

    /// Gives a whole file its attributes and its name, or has it wait for that.
    fn finish(
        &mut self,
        file: OutFile,
        len: u64,
        plan: Plan,
        member: &Member<'_>,
        place: &Destination,
    ) -> io::Result<()> {
        let unset = file.set_metadata(&place.metadata)?;
        let batch = self.batch.as_ref().filter(|_| !plan.replaces());
        let published = if let Some(batch) = batch {
            let (name, key) = (place.name.clone(), member.key.to_vec());
            batch.put(&self.outbox, Waiting { file, name, key, len, unset, replaces: false, backup: None })
        } else {
            // What takes the place of something must not be lost together with it.
            file.sync()?;
            file.publish(&place.name, plan.replaces())?;
            self.summary.unset_xattrs.note(member.key, unset);
            Vec::new()
        };
        self.summary.files += 1;
        self.summary.bytes += len;
        if has_names(member) {
            self.files.insert(member.data_at, member.key.to_vec());
        }
        self.note_published(published);
        Ok(())
    }

    /// All files that were written get their names; from now on each does at once.
    fn publish_waiting(&mut self) {
        let published = self.batch.take().map(|batch| batch.publish(&self.outbox));
        self.note_published(published.unwrap_or_default());
    }

    /// Notes what became of files that counted as written when they began to wait.
    fn note_published(&mut self, all: Vec<Published>) {
        for Published { key, len, unset, result, .. } in all {
            let Err((_, error)) = result else {
                self.summary.unset_xattrs.note(&key, unset);
                continue;
            };
            self.summary.files = self.summary.files.saturating_sub(1);
            self.summary.bytes = self.summary.bytes.saturating_sub(len);
            // Nothing is linked to it.
            self.files.retain(|_, first| *first != key);
            let error = self.io("finish", &key, error);
            self.summary.failures.push(Failure { key, error });
        }
    }

    /// Goes through all bytes, which are written to a file, compared with another, or both; `None`
    /// when the caller stopped it.
    fn fill(
        &mut self,
        file: Option<&OutFile>,
        comparison: Option<&mut Comparison>,
        key: &[u8],
        reading: &mut Reading<'_>,
    ) -> Result<Option<u64>> {
        let shown = self.target.path_of(key);
        let io = |(operation, error)| Error::from(crate::Error::io(operation, &shown, error));
        let mut filling = Filling::new(file, comparison);
        while let Some(piece) = reading.piece()? {
            match piece {
                Piece::Bytes(bytes) => filling.take(bytes).map_err(io)?,
                Piece::Hole(hole) => {
                    filling.take_hole(hole).map_err(io)?;
                    continue;
                }
            }
            if !(self.progress)(self.seen, self.summary.bytes.saturating_add(filling.taken())) {
                return Ok(None);
            }
        }
        filling.finish().map(Some).map_err(io)
    }

    fn symlink(
        &mut self,
        member: &Member<'_>,
        place: &Destination,
        plan: Plan,
        reading: &mut Reading<'_>,
    ) -> Result<()> {
        let link_to = reading.link_target()?;
        if plan.compares() {
            let is_same = existing::is_link_to(&place.parent, &place.name, &link_to)
                .map_err(|error| self.io("read", member.key, error))?;
            if !self.keeps(member, is_same, plan) {
                return Ok(());
            }
        }
        let place_at = (&*place.parent, place.name.as_os_str());
        let made = self.outbox.symlink(place_at, &link_to, &place.metadata, plan.replaces());
        let unset = made.map_err(|error| self.io("make the link", member.key, error))?;
        self.summary.unset_xattrs.note(member.key, unset);
        self.summary.symlinks += 1;
        Ok(())
    }

    /// One more name of a file that was written.
    fn link(&mut self, member: &Member<'_>, reading: &mut Reading<'_>) -> Result<()> {
        let place = self.place(member.key, self.metadata(member))?;
        let plan = self.plan(member, &place)?;
        if !self.compare(member, &place, plan, reading)? {
            return Ok(());
        }
        let first = self.files.get(&member.data_at).cloned().unwrap_or_default();
        let parts = parts(&first)?;
        let Some((name, parents)) = parts.split_last() else {
            return Err(Error::Invalid("the first name of a file is empty".into()));
        };
        let from = self.target.directory(parents).map_err(|error| self.io("open", &first, error))?;
        let linked = self.outbox.hard_link((&from, name), (&place.parent, &place.name), plan.replaces());
        linked.map_err(|error| self.io("link", member.key, error))?;
        self.summary.hard_links += 1;
        Ok(())
    }

    fn place(&mut self, key: &[u8], metadata: FileMetadata) -> Result<Destination> {
        let parts = parts(key)?;
        let Some((name, parents)) = parts.split_last() else {
            return Err(Error::Invalid("the empty path can only be a directory".into()));
        };
        let parent = self.target.directory(parents);
        let parent = parent.map_err(|error| self.io("make the directory for", key, error))?;
        let refused = self.target.refuse_file_of_pack(&parent, name);
        refused.map_err(|error| self.io("write", key, error))?;
        Ok(Destination { parent, name: name.to_os_string(), metadata })
    }

    fn metadata(&self, member: &Member<'_>) -> FileMetadata {
        FileMetadata::new(member.node.mode, member.node.mtime_ns, member.node.owner, self.options.with_owner)
            .with_xattrs(Xattrs::decode(member.xattrs), self.options.xattrs)
    }

    fn io(&self, operation: &'static str, key: &[u8], error: io::Error) -> Error {
        crate::Error::io(operation, self.target.path_of(key), error).into()
    }

    /// Modes and times of directories, the deepest first, so that nothing is made in a directory
    /// afterwards.
    fn set_directory_metadata(&mut self) {
        self.directories.sort_by(|a, b| b.0.cmp(&a.0));
        for (key, metadata) in std::mem::take(&mut self.directories) {
            match self.target.set_directory_metadata(&key, &metadata, self.options.overwrite) {
                Ok(MetadataOutcome::Set(unset)) => {
                    self.summary.directories += 1;
                    self.summary.unset_xattrs.note(&key, unset);
                }
                Ok(MetadataOutcome::Kept) => {}
                Ok(MetadataOutcome::TooOpen) => self.summary.keep(key, WhyKept::TooOpen),
                Err(error) => {
                    let error = self.io("set mode and time of", &key, error);
                    self.summary.failures.push(Failure { key, error });
                }
            }
        }
    }
}

/// Whether the archive has several names for a file.
fn has_names(member: &Member<'_>) -> bool {
    member.node.links > 1 || member.kind() == MemberKind::HardLink
}

/// Whether what has a name, and the bytes of a member, has its time, mode and owner as well: then
/// it is the file that an earlier run wrote, and further names become links to it.
fn is_file_of(place: &Destination) -> io::Result<bool> {
    let Some(there) = target::status(&place.parent, &place.name)? else { return Ok(false) };
    let has_time = place.metadata.mtime_ns.is_some_and(|ns| existing::mtime_of(&there) == i128::from(ns));
    let is_file = FileType::from_raw_mode(there.st_mode).is_file();
    Ok(is_file && has_time && target::has_metadata(&there, &place.metadata))
}

fn parts(key: &[u8]) -> Result<Vec<&OsStr>> {
    let refused = |why| Error::Invalid(format!("refused: its path could lead out of the target: {why}"));
    target::parts(key).map_err(refused)
}
