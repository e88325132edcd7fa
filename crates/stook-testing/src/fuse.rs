//! A file system with bad sectors: it mirrors the files of a directory, read-only, and refuses to
//! read chosen bytes (`EIO`).
//!
//! It is mounted by FUSE, which needs root. The program under test runs as usual, through the
//! kernel.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, MountOption, OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, Request,
};
use stook::extent::ByteRange;
use tempfile::TempDir;

/// Names and lengths are requested each time.
const NOT_KEPT: Duration = Duration::ZERO;

/// Whether the kernel's page cache is used for the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageCache {
    /// Exactly the requested bytes are read: a read fails if it touches a bad byte, and only then.
    Off,
    /// As with a real disk: the kernel reads ahead, and does not request cached bytes again.
    On,
}

/// A directory that is mirrored; unmounted when it is dropped.
#[derive(Debug)]
pub struct Mirror {
    shared: Arc<Shared>,
    session: Option<BackgroundSession>,
    mountpoint: TempDir,
}

impl Mirror {
    /// Mounts a mirror of the files of a directory. Nothing of it is bad yet.
    ///
    /// # Errors
    /// Returns an error if it cannot be mounted.
    pub fn mount(directory: &Path, page_cache: PageCache) -> io::Result<Self> {
        let mountpoint = tempfile::tempdir()?;
        let directory = directory.to_path_buf();
        let shared = Arc::new(Shared { directory, page_cache, state: Mutex::default() });
        let mut config = Config::default();
        config.mount_options = vec![MountOption::RO, MountOption::FSName("mirror".into())];
        let session = fuser::spawn_mount(Mirrored(shared.clone()), mountpoint.path(), &config)?;
        Ok(Self { shared, session: Some(session), mountpoint })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.mountpoint.path()
    }

    /// From now on no read that touches this range of a file succeeds.
    pub fn spoil(&self, name: &str, range: ByteRange) {
        self.shared.state().bad.push((name.into(), range));
    }

    /// All of it can be read again.
    pub fn heal(&self) {
        self.shared.state().bad.clear();
    }

    /// How many reads were refused since it was mounted.
    pub fn refused(&self) -> u64 {
        self.shared.state().refused
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        if let Some(session) = self.session.take()
            && let Err(error) = session.umount_and_join()
        {
            eprintln!("cannot unmount {}: {error}", self.mountpoint.path().display());
        }
    }
}

#[derive(Debug)]
struct Shared {
    directory: PathBuf,
    page_cache: PageCache,
    state: Mutex<State>,
}

/// Inode numbers are given in the order of look-ups.
#[derive(Debug, Default)]
struct State {
    numbers: HashMap<OsString, u64>,
    names: Vec<OsString>,
    open: HashMap<u64, Arc<File>>,
    opened: u64,
    bad: Vec<(OsString, ByteRange)>,
    refused: u64,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The inode number of a name; that of the directory is 1.
    fn number(&self, name: &OsStr) -> u64 {
        let mut state = self.state();
        if let Some(number) = state.numbers.get(name) {
            return *number;
        }
        state.names.push(name.to_owned());
        let number = state.names.len() as u64 + 1;
        state.numbers.insert(name.to_owned(), number);
        number
    }

    fn path(&self, number: INodeNo) -> io::Result<PathBuf> {
        if number == INodeNo::ROOT {
            return Ok(self.directory.clone());
        }
        Ok(self.directory.join(self.name(number)?))
    }

    fn name(&self, number: INodeNo) -> io::Result<OsString> {
        let at = usize::try_from(number.0).ok().and_then(|number| number.checked_sub(2));
        let name = at.and_then(|at| self.state().names.get(at).cloned());
        name.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn about(&self, number: INodeNo) -> io::Result<FileAttr> {
        let metadata = fs::symlink_metadata(self.path(number)?)?;
        Ok(attributes(number, &metadata))
    }

    fn look_up(&self, parent: INodeNo, name: &OsStr) -> io::Result<FileAttr> {
        if parent != INodeNo::ROOT {
            return Err(io::ErrorKind::NotFound.into());
        }
        let metadata = fs::symlink_metadata(self.directory.join(name))?;
        Ok(attributes(INodeNo(self.number(name)), &metadata))
    }

    fn open(&self, number: INodeNo) -> io::Result<u64> {
        let file = File::open(self.path(number)?)?;
        let mut state = self.state();
        state.opened += 1;
        let handle = state.opened;
        state.open.insert(handle, Arc::new(file));
        Ok(handle)
    }

    fn read(&self, number: INodeNo, handle: FileHandle, offset: u64, size: u32) -> io::Result<Vec<u8>> {
        let name = self.name(number)?;
        let file = {
            let mut state = self.state();
            let end = offset.saturating_add(size.into());
            let touches = |bad: &ByteRange| bad.start() < end && offset < bad.end();
            if state.bad.iter().any(|(file, bad)| *file == name && touches(bad)) {
                state.refused += 1;
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
            state.open.get(&handle.0).cloned()
        };
        let file = file.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))?;
        let mut bytes = vec![0; size as usize];
        let mut got = 0;
        loop {
            let read = file.read_at(&mut bytes[got..], offset + got as u64)?;
            got += read;
            if read == 0 || got == bytes.len() {
                bytes.truncate(got);
                return Ok(bytes);
            }
        }
    }
}

fn attributes(number: INodeNo, metadata: &Metadata) -> FileAttr {
    let time = |seconds: i64, ns: i64| {
        UNIX_EPOCH + Duration::new(seconds.max(0).unsigned_abs(), u32::try_from(ns).unwrap_or(0))
    };
    FileAttr {
        ino: number,
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

/// The file system, as the kernel asks it.
struct Mirrored(Arc<Shared>);

impl Filesystem for Mirrored {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.0.look_up(parent, name) {
            Ok(attributes) => reply.entry(&NOT_KEPT, &attributes, Generation(0)),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.0.about(number) {
            Ok(attributes) => reply.attr(&NOT_KEPT, &attributes),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(Errno::EROFS);
        }
        let how = match self.0.page_cache {
            PageCache::Off => FopenFlags::FOPEN_DIRECT_IO,
            PageCache::On => FopenFlags::empty(),
        };
        match self.0.open(number) {
            Ok(handle) => reply.opened(FileHandle(handle), how),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.0.read(number, handle, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.0.state().open.remove(&handle.0);
        reply.ok();
    }

    fn readdir(&self, _: &Request, _: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let names = fs::read_dir(&self.0.directory).and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>()
        });
        let mut names = match names {
            Ok(names) => names,
            Err(error) => return reply.error(Errno::from(error)),
        };
        names.sort();
        let dots = [".", ".."].map(|name| (1, FileType::Directory, OsString::from(name)));
        let files = names.into_iter().map(|name| (self.0.number(&name), FileType::RegularFile, name));
        let entries = dots.into_iter().chain(files).zip(1_u64..).skip(offset as usize);
        for ((number, kind, name), next) in entries {
            if reply.add(INodeNo(number), next, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
