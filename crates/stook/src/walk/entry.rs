//! What a walk reports: entries, their metadata and content, errors and totals.
//!
//! Plain data. The one thing here that touches the file system is [`LargeFile::open`], which opens
//! a file that was too large to be read by the walk itself.

use std::ffi::CString;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{FileType, Stat};

use super::buffers::FileBytes;
use super::directory::Directory;
use super::file;
use crate::engine;
use crate::error::{Error, Result};
use crate::source::Identity;
pub use crate::tree::Kind;
use crate::tree::{Holes, InodeState, Node, Xattrs, target};

/// What the inode of an entry says: the node that it is in a tree, and which state of which inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// What a tree says of it. Mode, modification time and owner are always there.
    pub node: Node,
    /// Device that holds the inode.
    pub device: u64,
    /// Inode number. The same (device, inode) is met under other keys if a file has several names
    /// ([`Node::links`]) inside the tree.
    pub inode: u64,
    /// Change time of the inode, nanoseconds since 1970.
    pub ctime_ns: i64,
    /// Bytes that it takes on the medium, as far as the file system reports them.
    pub stored_len: u64,
}

impl Status {
    /// What distinguishes one state of the file's bytes from another.
    pub fn identity(&self) -> Identity {
        Identity {
            len: self.node.len,
            device: self.device,
            inode: self.inode,
            mtime_ns: self.node.mtime_ns.unwrap_or(0),
            ctime_ns: self.ctime_ns,
            ..Identity::default()
        }
    }

    /// Which state of which inode it is.
    pub fn state(&self) -> InodeState {
        InodeState { device: self.device, inode: self.inode, ctime_ns: self.ctime_ns }
    }

    /// Change time and number of the inode, if there is one.
    pub(crate) fn inode_state(&self) -> Option<(i64, u64)> {
        (self.ctime_ns != 0).then_some((self.ctime_ns, self.inode))
    }

    /// The same, where its times can be recorded: none is ever recorded as another.
    ///
    /// # Errors
    /// `InvalidData` where one is too far away.
    pub(crate) fn with_recordable_times(self) -> io::Result<Self> {
        let out = "its time is before 1677 or after 2262, which cannot be recorded: set another with `touch`";
        let is_far = |ns: &i64| target::is_nearest_time(*ns);
        match [self.node.mtime_ns, Some(self.ctime_ns)].iter().flatten().any(is_far) {
            true => Err(io::Error::new(io::ErrorKind::InvalidData, out)),
            false => Ok(self),
        }
    }

    /// Whether it is a file that may have holes: it takes less room than it has bytes. So do files
    /// that the file system compresses.
    pub fn may_have_holes(&self) -> bool {
        self.node.kind == Kind::File && engine::may_have_holes(self.node.len, self.stored_len)
    }

    /// The widths of these fields differ between architectures, hence the casts.
    #[expect(clippy::unnecessary_cast, reason = "the field types differ between platforms")]
    pub(crate) fn from_stat(stat: &Stat) -> io::Result<Self> {
        let mode = stat.st_mode as u32;
        let kind = Kind::from_type(FileType::from_raw_mode(stat.st_mode)).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("unknown file type in mode {mode:o}"))
        })?;
        let has_bytes = matches!(kind, Kind::File | Kind::Symlink);
        let stands_for = matches!(kind, Kind::BlockDevice | Kind::CharDevice);
        let links = u32::try_from(stat.st_nlink as u64).unwrap_or(u32::MAX).max(1);
        Ok(Self {
            node: Node {
                kind,
                mode: Some(mode & 0o7777),
                mtime_ns: Some(nanoseconds(stat.st_mtime as i64, stat.st_mtime_nsec as i64)),
                owner: Some((stat.st_uid, stat.st_gid)),
                len: if has_bytes { u64::try_from(stat.st_size).unwrap_or(0) } else { 0 },
                links: if kind == Kind::Directory { 1 } else { links },
                device: if stands_for { stat.st_rdev as u64 } else { 0 },
            },
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            ctime_ns: nanoseconds(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
            // Blocks of 512 bytes, whatever those of the file system are.
            stored_len: u64::try_from(stat.st_blocks as i64).unwrap_or(0).saturating_mul(512),
        })
    }
}

/// Nanoseconds since 1970. Of a time before 1677 or after 2262 it is the nearest that fits, as in
/// the [identity](crate::engine::File::identity) of an open file.
fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

/// What the caller wants of an entry that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Report it, and enter it if it is a directory.
    Take,
    /// Do not report it. A directory is entered nevertheless.
    Skip,
    /// Do not report it, and do not enter it.
    Prune,
}

/// A regular file about to be opened, as the `wanted` hook sees it.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// Its key: see [`WalkItem::key`].
    pub key: &'a [u8],
    /// What its inode says.
    pub status: &'a Status,
}

/// An entry of the tree.
#[derive(Debug)]
pub struct WalkItem {
    /// Path relative to the root, any bytes but NUL, `/` between the parts, never a leading `./`.
    /// With several roots it begins with the root's own name. The root itself has the
    /// empty key (or its name alone).
    pub key: Vec<u8>,
    /// What the inode says. For a file whose content was read, before and after that alike.
    pub status: Status,
    /// What is in it.
    pub content: Content,
    /// The extended attributes (access control lists among them) of a directory, a link, or a file
    /// that the walk read; none without [`WalkOptions::xattrs`](super::WalkOptions::xattrs). Those
    /// of a [large](Content::Large) file are read with its bytes.
    pub xattrs: Xattrs,
    /// The holes of a file that the walk read; none without
    /// [`WalkOptions::holes`](super::WalkOptions::holes). Those of a [large](Content::Large) file
    /// are [asked for](LargeFile::holes) when it is open.
    pub holes: Holes,
}

impl WalkItem {
    /// What the entry is.
    pub fn kind(&self) -> Kind {
        self.status.node.kind
    }
}

/// What is in an entry.
#[derive(Debug)]
pub enum Content {
    /// A directory or a special file: nothing to hand over.
    None,
    /// All bytes of a file, exactly as many as its length.
    Bytes(FileBytes),
    /// The target of a symbolic link, as it is stored.
    Target(Vec<u8>),
    /// A file above [`WalkOptions::read_up_to`](super::WalkOptions::read_up_to).
    Large(LargeFile),
    /// A file that the `wanted` hook declined.
    NotRead,
}

/// A file that the consumer has to read itself. It holds no open file, so any number may be kept.
#[derive(Debug)]
pub struct LargeFile {
    pub(super) directory: Arc<Directory>,
    pub(super) name: CString,
    pub(super) status: Status,
}

impl LargeFile {
    /// Opens it for reading, without following a link.
    ///
    /// # Errors
    /// [`Error::SourceChanged`] when it is no longer the file that the walk met.
    pub fn open(&self) -> Result<File> {
        let handle = self.directory.handle().map_err(|e| Error::io("open", self.path(), e))?;
        let opened = file::open_regular(&handle, &self.name, &self.status)
            .map_err(|e| Error::io("open", self.path(), e))?;
        let opened = File::from(opened);
        self.check(&opened)?;
        Ok(opened)
    }

    /// Asks whether the open file is still what the walk met: to be called after the last byte was
    /// read, and before these bytes are believed.
    ///
    /// # Errors
    /// [`Error::SourceChanged`] when it is not.
    pub fn check(&self, opened: &File) -> Result<()> {
        let now = file::status(opened).map_err(|e| Error::io("stat", self.path(), e))?;
        file::same(&self.status, &now, || self.path())
    }

    /// The holes that the open file has now: to be asked before its bytes are read, so that
    /// [`check`](Self::check) vouches for them as well. Moves where the file is read next.
    ///
    /// # Errors
    /// I/O errors.
    pub fn holes(&self, opened: &File) -> Result<Holes> {
        file::holes(opened, &self.status).map_err(|e| Error::io("look for holes in", self.path(), e))
    }

    /// Where it is, for messages. It may be longer than the system accepts as a path.
    pub fn path(&self) -> PathBuf {
        self.directory.path_of(&self.name)
    }
}

/// An entry that could not be read. The walk continues after it.
#[derive(Debug)]
pub struct WalkError {
    pub(super) key: Vec<u8>,
    pub(super) error: Error,
}

impl fmt::Display for WalkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for WalkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl WalkError {
    /// The key that the entry would have had.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// What went wrong, with the path.
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// Gives up the key.
    pub fn into_error(self) -> Error {
        self.error
    }
}

impl From<WalkError> for Error {
    fn from(error: WalkError) -> Self {
        error.error
    }
}

/// What a walk hands to its consumer.
pub type WalkEvent = std::result::Result<WalkItem, WalkError>;

/// What a walk met, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct WalkSummary {
    /// Directories reported.
    pub directories: u64,
    /// Regular files reported, read or not.
    pub files: u64,
    /// Of these, files that the `wanted` hook declined.
    pub files_not_read: u64,
    /// Of these, files too large to be read by the walk.
    pub files_large: u64,
    /// Lengths of all regular files reported, added up.
    pub bytes: u64,
    /// Bytes that the walk read from files.
    pub bytes_read: u64,
    /// Symbolic links reported.
    pub symlinks: u64,
    /// Pipes, sockets and devices reported.
    pub specials: u64,
    /// Entries that could not be read.
    pub errors: u64,
}

impl WalkSummary {
    pub(super) fn count(&mut self, event: &WalkEvent) {
        let Ok(item) = event else {
            self.errors += 1;
            return;
        };
        match item.kind() {
            Kind::Directory => self.directories += 1,
            Kind::Symlink => self.symlinks += 1,
            Kind::File => self.count_file(item),
            _ => self.specials += 1,
        }
    }

    fn count_file(&mut self, item: &WalkItem) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(item.status.node.len);
        match &item.content {
            Content::Bytes(bytes) => self.bytes_read += bytes.len() as u64,
            Content::Large(_) => self.files_large += 1,
            Content::NotRead => self.files_not_read += 1,
            Content::None | Content::Target(_) => {}
        }
    }

    /// Adds up what several threads counted.
    pub(super) fn add(&mut self, other: &Self) {
        self.directories += other.directories;
        self.files += other.files;
        self.files_not_read += other.files_not_read;
        self.files_large += other.files_large;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.bytes_read = self.bytes_read.saturating_add(other.bytes_read);
        self.symlinks += other.symlinks;
        self.specials += other.specials;
        self.errors += other.errors;
    }
}
