//! Files and directories as the kernel knows them: by number.
//!
//! The number is that of the inode below. An opened path of each is kept as long as the mount, so
//! that renames do not matter, and no number is given twice.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};

/// The number of the directory that is mounted.
pub(super) const ROOT: u64 = INodeNo::ROOT.0;

/// What was looked up so far.
#[derive(Debug)]
pub(super) struct Nodes {
    directory: PathBuf,
    /// The number that the root has below.
    root: u64,
    nodes: HashMap<u64, Arc<File>>,
    /// Whether names that differ only in upper and lower case are one.
    pub(super) folds_case: bool,
}

impl Nodes {
    pub(super) fn new(directory: &Path) -> io::Result<Self> {
        let directory = directory.canonicalize()?;
        let root = Arc::new(open_path(&directory)?);
        let number = root.metadata()?.ino();
        Ok(Self { directory, root: number, nodes: HashMap::from([(ROOT, root)]), folds_case: false })
    }

    /// The directory below.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn number(&self, metadata: &Metadata) -> u64 {
        if metadata.ino() == self.root { ROOT } else { metadata.ino() }
    }

    pub(super) fn get(&self, number: u64) -> io::Result<Arc<File>> {
        self.nodes.get(&number).cloned().ok_or_else(|| io::Error::from_raw_os_error(libc::ESTALE))
    }

    /// A path that leads to it now, whatever its names are. A link is not followed further.
    pub(super) fn path(&self, number: u64) -> io::Result<PathBuf> {
        Ok(format!("/proc/self/fd/{}", self.get(number)?.as_raw_fd()).into())
    }

    /// The path of a name in a directory.
    pub(super) fn child(&self, parent: u64, name: &OsStr) -> io::Result<PathBuf> {
        Ok(self.path(parent)?.join(self.spelled(parent, name)?))
    }

    /// How a name is spelled in a directory, if it is there.
    pub(super) fn spelled(&self, parent: u64, name: &OsStr) -> io::Result<OsString> {
        let directory = self.path(parent)?;
        if self.folds_case && directory.join(name).symlink_metadata().is_err() {
            for entry in directory.read_dir()? {
                let there = entry?.file_name();
                if there.eq_ignore_ascii_case(name) {
                    return Ok(there);
                }
            }
        }
        Ok(name.to_os_string())
    }

    /// Looks up a name: number and metadata.
    pub(super) fn look_up(&mut self, parent: u64, name: &OsStr) -> io::Result<(u64, Metadata)> {
        let node = open_path(&self.child(parent, name)?)?;
        let metadata = node.metadata()?;
        let number = self.number(&metadata);
        self.nodes.entry(number).or_insert_with(|| Arc::new(node));
        Ok((number, metadata))
    }

    /// Its path below the mount; `None` when it has none any more.
    pub(super) fn name(&self, number: u64) -> Option<PathBuf> {
        let path = std::fs::read_link(self.path(number).ok()?).ok()?;
        path.strip_prefix(&self.directory).map(Path::to_path_buf).ok()
    }

    /// The target of a symbolic link, even of one that has no name any more.
    pub(super) fn link_target(&self, number: u64) -> io::Result<std::ffi::CString> {
        Ok(rustix::fs::readlinkat(&*self.get(number)?, "", Vec::new())?)
    }
}

/// Opens whatever has this name, for nothing but naming it.
fn open_path(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path)
}

pub(super) fn attributes(number: u64, metadata: &Metadata) -> FileAttr {
    let time = |seconds: i64, ns: i64| {
        UNIX_EPOCH + Duration::new(seconds.max(0).unsigned_abs(), u32::try_from(ns).unwrap_or(0))
    };
    FileAttr {
        ino: INodeNo(number),
        size: metadata.len(),
        blocks: metadata.blocks(),
        atime: time(metadata.atime(), metadata.atime_nsec()),
        mtime: time(metadata.mtime(), metadata.mtime_nsec()),
        ctime: time(metadata.ctime(), metadata.ctime_nsec()),
        crtime: UNIX_EPOCH,
        kind: FileType::from_std(metadata.file_type()).unwrap_or(FileType::RegularFile),
        perm: (metadata.permissions().mode() & 0o7777) as u16,
        nlink: metadata.nlink() as u32,
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: 0,
        flags: 0,
        blksize: 4096,
    }
}
