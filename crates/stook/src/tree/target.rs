//! A directory into which things are put and out of which nothing can lead.
//!
//! Every path is opened below one directory descriptor, part by part, without following any link:
//! neither `..`, nor an absolute path, nor a link that was there or was just made can lead
//! elsewhere.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::chain::Chain;
use super::durable::identity;
use super::existing::Overwrite;
use super::holes::Holes;
use super::outbox::{Calls, System, again, remove_stale};
use super::xattrs::{ACL_ACCESS, ACL_DEFAULT, Xattrs, is_foreign, names_text};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Directories whose descriptors are kept open at most, and one in how many of the descriptors of a
/// process they may take.
const OPEN_MAX: usize = 256;
const OPEN_SHARE: u64 = 16;

/// Directories deeper than this are kept open only if something is put right into them: the keys of
/// all that lead to a very deep one would take far more memory than it is worth. A [`Chain`] has
/// what leads to the last of them.
const DEPTH_KEPT_MAX: usize = 64;

/// What a directory is made with of which no mode is known, before the mask of the process.
const MODE_OF_DIRECTORIES: u32 = 0o777;

/// Names of a directory that are looked at for what killed runs left.
const SEARCHED_MAX: usize = 100_000;

/// Names of a directory that are looked at to see whether it is a pack.
const NAMES_MAX: usize = 10_000;

/// The longest name that a directory on disk takes, in bytes.
pub(crate) const NAME_ON_DISK_MAX: usize = 255;

/// The parts of a key that is a safe relative path on disk, or why it is not one.
pub(crate) fn parts(key: &[u8]) -> Result<Vec<&OsStr>, &'static str> {
    let parts = super::parts::split(key)?;
    if !parts.clone().all(|part| part.len() <= NAME_ON_DISK_MAX) {
        return Err("it has a part of more than 255 bytes");
    }
    Ok(parts.map(OsStr::from_bytes).collect())
}

/// The bits of a mode that give a program the rights of its owner and group.
pub(crate) const SET_ID: u32 = 0o6000;

/// Mode, time, owner and extended attributes to set on a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileMetadata {
    pub(crate) mode: Option<u32>,
    pub(crate) mtime_ns: Option<i64>,
    pub(crate) owner: Option<(u32, u32)>,
    /// Whom set-user-id and set-group-id bits were meant for, if that was recorded. A bit is set
    /// only if that is who the file belongs to.
    pub(crate) meant_for: Option<(u32, u32)>,
    pub(crate) xattrs: Xattrs,
    /// Whether an access control list that was not recorded is none: what a directory hands on to
    /// what is made in it is taken away.
    pub(crate) is_without_inherited: bool,
    /// The holes that a file had: they are made, where the bytes are zeros.
    pub(crate) holes: Holes,
}

impl FileMetadata {
    /// What was recorded of a file, its owner to be restored or not.
    pub(crate) fn new(
        mode: Option<u32>,
        mtime_ns: Option<i64>,
        recorded: Option<(u32, u32)>,
        with_owner: bool,
    ) -> Self {
        // What root keeps for itself is not what was meant, even where root is who was recorded.
        let is_asked = with_owner || !rustix::process::geteuid().is_root();
        let (owner, meant_for) = (recorded.filter(|_| with_owner), recorded.filter(|_| is_asked));
        let (xattrs, holes) = (Xattrs::default(), Holes::default());
        Self { mode, mtime_ns, owner, meant_for, xattrs, is_without_inherited: false, holes }
    }

    /// With the holes that were recorded.
    pub(crate) fn with_holes(self, holes: Holes) -> Self {
        Self { holes, ..self }
    }

    /// With the extended attributes that were recorded, if they are wanted. Those that grant rights
    /// are set only where the owner is, who they were meant for.
    pub(crate) fn with_xattrs(mut self, xattrs: Xattrs, are_wanted: bool) -> Self {
        // Without a mode it is as any new file is.
        self.is_without_inherited = are_wanted && self.mode.is_some();
        self.xattrs = match are_wanted {
            true if self.owner.is_some() => xattrs,
            true => xattrs.without_granting(),
            false => {
                self.mode = self.mode.map(|mode| xattrs.mode_without_acl(mode));
                Xattrs::default()
            }
        };
        self
    }
}

/// What was to be set and could not be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Unset {
    /// Which extended attributes, or that it is the time, and why.
    pub(crate) why: Option<String>,
    /// Whether there were others, of another system.
    pub(crate) has_foreign: bool,
}

impl Unset {
    /// The same, after this modification time was set.
    fn with_time(self, mtime_ns: Option<i64>) -> Self {
        if !mtime_ns.is_some_and(is_nearest_time) {
            return self;
        }
        let time = "the modification time: it is before 1677 or after 2262, and the nearest was set";
        let why = self.why.map_or_else(|| time.to_owned(), |why| format!("{why}; {time}"));
        Self { why: Some(why), ..self }
    }
}

/// Whether a time in nanoseconds since 1970 only stands for one that is farther away.
pub(crate) fn is_nearest_time(ns: i64) -> bool {
    ns == i64::MAX || ns < i64::MIN + 1_000_000_000
}

/// What became of mode and time of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MetadataOutcome {
    Set(Unset),
    /// It was there, and keeps its own.
    Kept,
    /// It was there, keeps its own, and its mode allows more than the one that was recorded.
    TooOpen,
}

/// The directory.
#[derive(Debug)]
pub(crate) struct Target {
    root: Arc<OwnedFd>,
    path: PathBuf,
    /// Directories by key, and whether each is of this target's making.
    open: HashMap<Vec<u8>, (Arc<OwnedFd>, bool)>,
    open_max: usize,
    /// Device and inode of directories that were not there before; the root counts if it was empty.
    made: HashSet<(u64, u64)>,
    /// Those of the others that were looked through for what killed runs left.
    searched: HashSet<(u64, u64)>,
    /// What of that may be all that there is of something.
    exchanged: Vec<(Vec<u8>, OsString)>,
    /// Whether the root was empty, and whether it was not there at all.
    root_is_made: bool,
    root_is_new: bool,
    /// What leads to the very deep directory that was opened last.
    chain: Chain,
    /// How many directories were opened.
    #[cfg(test)]
    opens: u64,
    calls: Arc<dyn Calls>,
}

impl Target {
    /// Opens a directory, made if it is not there.
    pub(crate) fn open_through(path: &Path, calls: Arc<dyn Calls>) -> io::Result<Self> {
        refuse_inside_pack(path)?;
        let root_is_new = !path.exists();
        make_all(&*calls, path)?;
        // What was not there a moment ago may lead elsewhere: `new/../pack`.
        refuse_inside_pack(path)?;
        let mut target = Self { calls, root_is_new, ..Self::at(path)? };
        if path.read_dir()?.next().is_none() {
            target.made.insert(identity(&target.root)?);
            target.root_is_made = true;
        }
        target.search(b"", &target.root())?;
        Ok(target)
    }

    /// Opens a directory that is there.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        Ok(Self {
            root: Arc::new(open(path)?),
            path: path.to_path_buf(),
            open: HashMap::new(),
            open_max: open_max(),
            made: HashSet::new(),
            searched: HashSet::new(),
            exchanged: Vec::new(),
            root_is_made: false,
            root_is_new: false,
            chain: Chain::default(),
            #[cfg(test)]
            opens: 0,
            calls: Arc::new(System),
        })
    }

    /// The path of a key, for messages.
    pub(crate) fn path_of(&self, key: &[u8]) -> PathBuf {
        self.path.join(OsStr::from_bytes(key))
    }

    /// The directory itself.
    pub(crate) fn root(&self) -> Arc<OwnedFd> {
        self.root.clone()
    }

    /// Whether the directory itself was not there before.
    pub(crate) fn is_new(&self) -> bool {
        self.root_is_new
    }

    /// How many directories are of this target's making.
    pub(crate) fn made_len(&self) -> usize {
        self.made.len()
    }

    /// Whether a directory is of this target's making.
    pub(crate) fn made(&self, directory: &OwnedFd) -> io::Result<bool> {
        Ok(self.made.contains(&identity(directory)?))
    }

    /// Returns an error if a name is one of a pack's own files, and the directory is a pack that
    /// was there before: a foreign manifest would make it unreadable.
    pub(crate) fn refuse_file_of_pack(&self, directory: &OwnedFd, name: &OsStr) -> io::Result<()> {
        if !name.to_str().is_some_and(is_file_of_pack) || self.made(directory)? {
            return Ok(());
        }
        for entry in rustix::fs::Dir::read_from(directory)?.take(NAMES_MAX) {
            if entry?.file_name().to_str().is_ok_and(is_manifest) {
                let why = "the directory is a pack, and only its writer puts files inside the pack";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
        }
        Ok(())
    }

    /// Gives a directory mode, time, owner and extended attributes, if it is of this target's
    /// making or all are to get them. One that was there, and that more may enter than was
    /// recorded, is reported: it may be what a run left that was killed.
    pub(crate) fn set_directory_metadata(
        &mut self,
        key: &[u8],
        metadata: &FileMetadata,
        overwrite: Overwrite,
    ) -> io::Result<MetadataOutcome> {
        let parts = parts(key).unwrap_or_default();
        let Some(directory) = self.existing(&parts)? else { return Err(io::ErrorKind::NotFound.into()) };
        let is_made = self.made(&directory)?;
        if overwrite == Overwrite::Always || is_made {
            // What somebody gave to the root beforehand is for all that comes into it.
            if is_made && (!key.is_empty() || self.root_is_new) {
                drop_inherited(&*self.calls, &*directory, ACL_DEFAULT, metadata)?;
            }
            return Ok(MetadataOutcome::Set(set_metadata(&*self.calls, &*directory, metadata, None)?));
        }
        let mode = rustix::fs::fstat(&*directory)?.st_mode & 0o777;
        let is_open = !key.is_empty() && metadata.mode.is_some_and(|recorded| mode & !recorded != 0);
        Ok(if is_open { MetadataOutcome::TooOpen } else { MetadataOutcome::Kept })
    }

    /// The directory of these parts, its missing parents and itself made with default modes.
    pub(crate) fn directory(&mut self, parts: &[&OsStr]) -> io::Result<Arc<OwnedFd>> {
        self.directory_and_origin(parts).map(|(directory, _)| directory)
    }

    /// The same; if it has to be made, others may do no more in it than with this mode, which it
    /// gets in the end: what is private is so from the first moment, and after a kill. Its owner
    /// may do all that putting things into it takes.
    pub(crate) fn directory_with(&mut self, parts: &[&OsStr], mode: Option<u32>) -> io::Result<Arc<OwnedFd>> {
        let mode = mode.map_or(MODE_OF_DIRECTORIES, |mode| mode & 0o777 | 0o700);
        self.descend(parts, Some(mode)).map(|(directory, _)| directory)
    }

    /// The same, and whether it is of this target's making.
    pub(crate) fn directory_and_origin(&mut self, parts: &[&OsStr]) -> io::Result<(Arc<OwnedFd>, bool)> {
        self.descend(parts, Some(MODE_OF_DIRECTORIES))
    }

    /// The directory of these parts, if it is there.
    pub(crate) fn existing(&mut self, parts: &[&OsStr]) -> io::Result<Option<Arc<OwnedFd>>> {
        match self.descend(parts, None) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(|(directory, _)| Some(directory)),
        }
    }

    /// Where directories are made, the last gets this mode.
    fn descend(&mut self, parts: &[&OsStr], make: Option<u32>) -> io::Result<(Arc<OwnedFd>, bool)> {
        match self.try_descend(parts, make) {
            Err(error) if is_out_of_descriptors(&error) && !self.open.is_empty() => {
                self.open.clear();
                self.try_descend(parts, make)
            }
            done => done,
        }
    }

    fn try_descend(&mut self, parts: &[&OsStr], make: Option<u32>) -> io::Result<(Arc<OwnedFd>, bool)> {
        let key = parts.iter().map(|part| part.as_bytes()).collect::<Vec<_>>().join(&b'/');
        if let Some(open) = self.open.get(&key) {
            return Ok(open.clone());
        }
        // From the nearest parent that is open, down, part by part.
        let (mut at, mut parent, mut is_made) = (0, self.root.clone(), self.root_is_made);
        if parts.len() > DEPTH_KEPT_MAX
            && let Some((len, open, is_of_this)) = self.chain.nearest(&key)
        {
            if len == key.len() {
                return Ok((open, is_of_this));
            }
            (at, (parent, is_made)) = (len + 1, (open, is_of_this));
        }
        // Only what may be nearer: to look for each directory above a very deep one takes longer
        // than to open it.
        let ends = key.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
        for end in ends.take_while(|end| *end >= at) {
            if let Some(open) = key.get(..end).and_then(|above| self.open.get(above)) {
                (at, (parent, is_made)) = (end + 1, open.clone());
                break;
            }
        }
        let first = key.get(..at).unwrap_or_default().iter().filter(|byte| **byte == b'/').count();
        for (depth, name) in parts.iter().enumerate().skip(first) {
            at += name.len();
            let here = key.get(..at).unwrap_or_default();
            let opened = match make {
                Some(mode) if depth + 1 == parts.len() => self.enter(&parent, name, mode),
                Some(_) => self.enter(&parent, name, MODE_OF_DIRECTORIES),
                None => open_directory(&parent, name).map_err(io::Error::from),
            };
            parent = Arc::new(opened.map_err(|error| self.name_link(&parent, name, here, error))?);
            is_made = self.made(&parent)?;
            if make.is_some() {
                self.search(here, &parent)?;
            }
            #[cfg(test)]
            {
                self.opens += 1;
            }
            if depth >= DEPTH_KEPT_MAX {
                self.chain.push(here, depth, &parent, is_made);
            }
            if depth < DEPTH_KEPT_MAX || depth + 1 == parts.len() {
                self.keep_open(here, &parent, is_made);
            }
            at += 1;
        }
        Ok((parent, is_made))
    }

    /// Removes what killed runs left in a directory that was there, once.
    fn search(&mut self, key: &[u8], directory: &OwnedFd) -> io::Result<()> {
        let identity = identity(directory)?;
        if !self.made.contains(&identity) && self.searched.insert(identity) {
            let exchanged = remove_stale(&*self.calls, directory, SEARCHED_MAX);
            self.exchanged.extend(exchanged.into_iter().map(|name| (key.to_vec(), name)));
        }
        Ok(())
    }

    /// What killed runs were exchanging with what has its name, and that stays: the keys of its
    /// directories, and its names there.
    pub(crate) fn take_exchanged(&mut self) -> Vec<(Vec<u8>, OsString)> {
        std::mem::take(&mut self.exchanged)
    }

    /// The error of opening a directory, which says so where a link is in its place.
    fn name_link(&self, parent: &OwnedFd, name: &OsStr, key: &[u8], error: io::Error) -> io::Error {
        let is_link = |there: Stat| FileType::from_raw_mode(there.st_mode) == FileType::Symlink;
        let there = status(parent, name).ok().flatten();
        if error.kind() != io::ErrorKind::NotADirectory || !there.is_some_and(is_link) {
            return error;
        }
        let shown = self.path_of(key);
        let why = format!("{} is a symbolic link, and links are not followed", shown.display());
        io::Error::new(io::ErrorKind::NotADirectory, why)
    }

    /// Opens a directory in another, made if it is not there.
    fn enter(&mut self, parent: &OwnedFd, name: &OsStr, mode: u32) -> io::Result<OwnedFd> {
        match open_directory(parent, name) {
            Err(Errno::NOENT) => {}
            other => return Ok(other?),
        }
        let made = match again(|| self.calls.make_directory(parent.as_fd(), name, mode)) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error),
        };
        let opened = open_directory(parent, name)?;
        if made {
            self.made.insert(identity(&opened)?);
        }
        Ok(opened)
    }

    /// Closes the directories that were kept open; what uses one keeps it.
    pub(crate) fn close_unused(&mut self) {
        self.open.clear();
    }

    fn keep_open(&mut self, key: &[u8], directory: &Arc<OwnedFd>, is_made: bool) {
        if self.open.len() >= self.open_max {
            self.open.clear();
        }
        self.open.insert(key.to_vec(), (directory.clone(), is_made));
    }
}

/// Opens a directory that somebody named: its links are his.
pub(crate) fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

/// Returns an error if a path is, or lies in, a pack: its files are its writer's, and a foreign one
/// could take the place of one of them. What of the path is not there yet does not matter.
pub(crate) fn refuse_inside_pack(path: &Path) -> io::Result<()> {
    let absolute = std::path::absolute(path)?;
    let Some(there) = absolute.ancestors().find_map(|part| part.canonicalize().ok()) else { return Ok(()) };
    for directory in there.ancestors() {
        if is_pack(directory)? {
            let what = format!(
                "{} is a pack, and only its writer puts files inside the pack: name another place",
                directory.display()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
    }
    Ok(())
}

/// What names of files of packs begin with; `pack::names` has them all, and a test that these are
/// they.
const OF_PACKS: [&str; 6] = ["manifest-", "segment-", "checkpoint-", "deletes-", "orphan-", "writer.lock"];

/// Whether a name may be one of a file of a pack.
pub(crate) fn is_file_of_pack(name: &str) -> bool {
    OF_PACKS.iter().any(|begin| name.starts_with(begin))
}

/// Whether a file with this name makes the directory where it is a pack.
pub(crate) fn is_manifest(name: &str) -> bool {
    let digits = name.strip_prefix("manifest-").unwrap_or_default();
    digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What a manifest begins with, and where in it the nonce of its pack is, which is another one for
/// each pack and the same in all copies of one. `pack::format` has the whole of it, and a test that
/// this is so.
pub(crate) const MANIFEST_MAGIC: &[u8; 8] = b"\x89STKMAN\n";
pub(crate) const MANIFEST_NONCE: std::ops::Range<usize> = 32..48;

/// The nonce of the pack that a directory is; `None` where no manifest in it says so.
pub(crate) fn pack_nonce(directory: &OwnedFd) -> io::Result<Option<[u8; 16]>> {
    for entry in rustix::fs::Dir::read_from(directory)?.take(NAMES_MAX) {
        let entry = entry?;
        if !entry.file_name().to_str().is_ok_and(is_manifest) {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(directory, entry.file_name(), flags, Mode::empty());
        let mut begin = [0; MANIFEST_NONCE.end];
        // One that cannot be read says nothing.
        let read = opened.and_then(|file| rustix::io::pread(&file, &mut begin, 0));
        if read == Ok(begin.len()) && begin.starts_with(MANIFEST_MAGIC) {
            let nonce = begin.get(MANIFEST_NONCE).unwrap_or_default();
            return Ok(nonce.try_into().ok());
        }
    }
    Ok(None)
}

/// Removes a directory that was made for nothing. One that somebody put something into stays.
///
/// # Errors
/// I/O errors, but for a directory that is gone already.
pub fn remove_if_empty(directory: &Path) -> io::Result<()> {
    remove_if_empty_through(&System, directory)
}

/// The same, with system calls that somebody else makes.
pub(crate) fn remove_if_empty_through(calls: &dyn Calls, directory: &Path) -> io::Result<()> {
    match calls.remove_directory(CWD, directory.as_os_str()) {
        Err(error) if !matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotFound) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// Whether a directory is a pack. A pack has few files: of a directory with very many not all names
/// are looked at.
///
/// # Errors
/// I/O errors, but for a directory that this user may not list.
pub fn is_pack(directory: &Path) -> io::Result<bool> {
    let names = match directory.read_dir() {
        // A user who may not list it cannot know the names of its files either.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(false),
        names => names?,
    };
    for entry in names.take(NAMES_MAX) {
        if entry?.file_name().to_str().is_some_and(is_manifest) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// One in so many of the descriptors that the process may have, but no more than `max`.
pub(crate) fn share_of_descriptors(share: u64, max: usize) -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(max, |limit| usize::try_from(limit / share).unwrap_or(max)).clamp(1, max)
}

/// How many directories are kept open.
fn open_max() -> usize {
    share_of_descriptors(OPEN_SHARE, OPEN_MAX)
}

/// Whether no more files can be open.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Makes a directory that somebody named, and those above it that are not there.
fn make_all(calls: &dyn Calls, path: &Path) -> io::Result<()> {
    let mut so_far = PathBuf::new();
    for component in path.components() {
        so_far.push(component);
        match so_far.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(there) if there.is_dir() => continue,
            Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
            Err(error) => return Err(error),
        }
        match again(|| calls.make_directory(CWD, so_far.as_os_str(), 0o777)) {
            // Another made it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && so_far.is_dir() => {}
            made => made?,
        }
    }
    Ok(())
}

fn open_directory(parent: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        // A link where a directory should be: what the kernel says of it differs with the flags.
        Err(Errno::LOOP) => Err(Errno::NOTDIR),
        other => other,
    }
}

/// What has this name, if anything has.
pub(crate) fn status(parent: &OwnedFd, name: &OsStr) -> io::Result<Option<Stat>> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(status) => Ok(Some(status)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether something has the mode and owner that a file would get: else its owner could change what
/// another name of it then stands for.
pub(crate) fn has_metadata(status: &Stat, metadata: &FileMetadata) -> bool {
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let (owner, mode) = ((status.st_uid, status.st_gid), status.st_mode & 0o7777);
    // Where the access control list could not be set.
    let is_narrower = |wanted| metadata.xattrs.mode_without_acl(wanted) & 0o7777 == mode;
    owner == metadata.owner.unwrap_or(own)
        && metadata.mode.is_none_or(|wanted| wanted & 0o7777 == mode || is_narrower(wanted))
}

/// Owner, extended attributes, mode and modification time of an open file or directory, in the
/// order in which they do not undo one another: a new owner takes capabilities away, and a mode may
/// forbid what else is set.
///
/// Of a file that was just made, what it has then is not set again.
pub(crate) fn set_metadata(
    calls: &dyn Calls,
    file: impl AsFd,
    metadata: &FileMetadata,
    made: Option<&Stat>,
) -> io::Result<Unset> {
    let file = file.as_fd();
    let has_owner = |owner| made.is_some_and(|made| (made.st_uid, made.st_gid) == owner);
    if let Some(owner) = metadata.owner.filter(|owner| !has_owner(*owner)) {
        again(|| calls.set_owner(file, owner))?;
    }
    let has_dropped = drop_inherited(calls, file, ACL_ACCESS, metadata)?;
    let set = |name: &[u8], value: &[u8]| again(|| calls.set_xattr(file, name, value));
    let (unset, has_lost_acl) = set_xattrs(&metadata.xattrs, set)?;
    let mode = match has_lost_acl {
        true => metadata.mode.map(|mode| metadata.xattrs.mode_without_acl(mode)),
        false => metadata.mode,
    };
    if let Some(mode) = mode {
        let mode = mode & 0o7777 & !misplaced(file, mode, metadata.meant_for)?;
        // An access control list may have changed it.
        let has_acl = has_dropped || !metadata.xattrs.is_empty();
        let has_mode = made.is_some_and(|made| made.st_mode & 0o7777 == mode) && !has_acl;
        if !has_mode {
            again(|| calls.set_mode(file, mode))?;
        }
    }
    if let Some(ns) = metadata.mtime_ns {
        again(|| calls.set_mtime(file, ns))?;
    }
    Ok(unset.with_time(metadata.mtime_ns))
}

/// Takes away an access control list that came from the directory above, where none was recorded;
/// whether there was one. Asking is cheap: the system knows the answer of what it just made.
fn drop_inherited(
    calls: &dyn Calls,
    file: impl AsFd,
    name: &[u8],
    metadata: &FileMetadata,
) -> io::Result<bool> {
    let file = file.as_fd();
    if !metadata.is_without_inherited || metadata.xattrs.get(name).is_some() {
        return Ok(false);
    }
    // A longer list than there is room for is one, too.
    match rustix::fs::fgetxattr(file, name, &mut [0_u8; 64]) {
        Ok(_) | Err(Errno::RANGE) => {}
        Err(_) => return Ok(false),
    }
    again(|| calls.remove_xattr(file, name))?;
    Ok(true)
}

/// Sets extended attributes, and gives those that are not set, because the file system does not
/// take them, this user may not set them, or they were lost before; and whether the access control
/// list is among those. Those of another system are not expected to be set.
///
/// # Errors
/// That the medium fails. What is refused costs only itself.
pub(crate) fn set_xattrs(
    xattrs: &Xattrs,
    set: impl Fn(&[u8], &[u8]) -> io::Result<()>,
) -> io::Result<(Unset, bool)> {
    let (mut refused, mut why, mut has_foreign) = (Vec::new(), None, false);
    for xattr in xattrs.as_slice() {
        let Some(value) = &xattr.value else {
            // What else was lost before is reported below.
            has_foreign |= is_foreign(&xattr.name);
            continue;
        };
        match set(&xattr.name, value) {
            Ok(()) => {}
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::IO | Errno::ROFS)) => {
                return Err(error);
            }
            Err(_) if is_foreign(&xattr.name) => has_foreign = true,
            Err(error) => {
                refused.push(xattr.name.as_slice());
                why.get_or_insert(error);
            }
        }
    }
    let has_lost_acl = refused.contains(&ACL_ACCESS);
    let why = why.map(|error| format!("{}: {error}", names_text(&refused, false)));
    let lost = xattrs.lost_here().map(|names| format!("{names}: the values are not there"));
    let why = match (why, lost) {
        (Some(why), Some(lost)) => Some(format!("{why}; {lost}")),
        (why, lost) => why.or(lost),
    };
    Ok((Unset { why, has_foreign }, has_lost_acl))
}

/// The set-user-id and set-group-id bits of `mode` that would grant rights of somebody whom they
/// were not meant for: a program that was root's must not become one that runs as the user who
/// unpacked it. Where no owner was recorded they were meant for none.
fn misplaced(file: impl AsFd, mode: u32, meant_for: Option<(u32, u32)>) -> io::Result<u32> {
    if mode & SET_ID == 0 {
        return Ok(0);
    }
    let Some((user, group)) = meant_for else { return Ok(SET_ID) };
    let status = rustix::fs::fstat(file)?;
    let user_bit = if status.st_uid == user { 0 } else { 0o4000 };
    let group_bit = if status.st_gid == group { 0 } else { 0o2000 };
    Ok(user_bit | group_bit)
}

/// Owner, extended attributes and modification time of a link itself.
pub(crate) fn set_link_metadata(
    calls: &dyn Calls,
    parent: &OwnedFd,
    name: &OsStr,
    metadata: &FileMetadata,
) -> io::Result<Unset> {
    if let Some(owner) = metadata.owner {
        again(|| calls.set_link_owner(parent.as_fd(), name, owner))?;
    }
    let path = path_in(parent, name.as_bytes());
    let set = |xattr: &[u8], value: &[u8]| again(|| calls.set_link_xattr(&path, xattr, value));
    let (unset, _) = set_xattrs(&metadata.xattrs, set)?;
    if let Some(ns) = metadata.mtime_ns {
        again(|| calls.set_link_mtime(parent.as_fd(), name, ns))?;
    }
    Ok(unset.with_time(metadata.mtime_ns))
}

/// The path of what has a name in an open directory, for calls that take no directory.
pub(crate) fn path_in(parent: &OwnedFd, name: &[u8]) -> Vec<u8> {
    [format!("/proc/self/fd/{}/", parent.as_raw_fd()).as_bytes(), name].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_named_and_takes_no_rights_along() {
        let list = super::super::acl::from_text(b"user::rw-,user:7:rw-,group::---,mask::rw-,other::---");
        let all = [
            (ACL_ACCESS.to_vec(), list),
            (b"security.capability".to_vec(), Some(b"x".to_vec())),
            (b"user.a".to_vec(), Some(b"1".to_vec())),
            (b"user.b".to_vec(), None),
            (b"com.apple.quarantine".to_vec(), Some(b"0081".to_vec())),
            (b"com.apple.ResourceFork".to_vec(), None),
        ];
        let metadata = || FileMetadata::new(Some(0o660), None, Some((7, 7)), false);
        let metadata = |wanted| metadata().with_xattrs(Xattrs::of(all.clone()), wanted);
        assert!(metadata(true).xattrs.get(b"security.capability").is_none());
        assert_eq!((metadata(true).mode, metadata(false).mode), (Some(0o660), Some(0o600)));
        assert!(metadata(false).xattrs.is_empty());
        let refuses = |name: &[u8], _: &[u8]| {
            if name.starts_with(b"user.") { Ok(()) } else { Err(Errno::NOTSUP.into()) }
        };
        let (unset, has_lost_acl) = set_xattrs(&metadata(true).xattrs, refuses).unwrap();
        let why = unset.why.unwrap();
        assert!(has_lost_acl && why.contains("system.posix_acl_access") && why.contains("user.b"), "{why}");
        assert!(unset.has_foreign && !why.contains("com.apple"), "{why}");
        let fails = |_: &[u8], _: &[u8]| Err(Errno::IO.into());
        assert!(set_xattrs(&metadata(true).xattrs, fails).is_err());
        assert_eq!(set_xattrs(&Xattrs::default(), fails).unwrap(), (Unset::default(), false));
    }

    #[test]
    fn a_very_deep_tree_costs_opens_in_proportion_to_its_depth() {
        const DEPTH: usize = 3001;
        let place = tempfile::tempdir().unwrap();
        let mut target = Target::open_through(place.path(), Arc::new(System)).unwrap();
        let parts = vec![OsStr::new("d"); DEPTH];
        for depth in 1..=DEPTH {
            target.directory(&parts[..depth]).unwrap();
        }
        let metadata = FileMetadata::new(Some(0o750), Some(7), None, false);
        for depth in (1..=DEPTH).rev() {
            let key = vec!["d"; depth].join("/");
            target.set_directory_metadata(key.as_bytes(), &metadata, Overwrite::Never).unwrap();
        }
        assert!(target.opens <= 6 * DEPTH as u64, "{} opens", target.opens);
        // The library's way takes a descriptor for each level.
        let removed = std::process::Command::new("rm").arg("-r").arg(place.path().join("d")).status();
        assert!(removed.unwrap().success());
    }

    #[test]
    fn only_relative_paths_without_tricks_have_parts() {
        assert_eq!(parts(b"a/b\xff").unwrap().len(), 2);
        assert_eq!(parts(b"").unwrap().len(), 0);
        for bad in
            [&b"/a"[..], b"a//b", b"a/", b"./a", b"a/..", b"..", b"a\0b", &[b'x'; 256], &[b'x'; 70_000]]
        {
            assert!(parts(bad).is_err(), "{bad:?}");
        }
    }
}
