//! The system calls of the way out, made on a directory and recorded as operations of the
//! simulator.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use rustix::fs::Stat;
use stook::engine::{Engine, Operation as EngineOperation, Request};
use stook::tree::outbox::{Calls, System};

use super::SimStorage;
use super::medium::Image;
use super::operation::{Inode, Operation};
use crate::fault::HookedEngine;

/// The kind of file system that is reported, by the number that `statfs(2)` has: one that is synced
/// as a whole, or each file and directory of it.
const EXT4: u32 = 0xEF53;
const OVERLAY: u32 = 0x794C_7630;

/// Calls that reach the system, and are recorded: names as paths relative to a directory, those of
/// directories with a slash at the end. Links hold what they lead to, and their names are never
/// there without it, as on all file systems; the names are not durable by themselves. A sync of a
/// directory makes its own names durable, and no others. Of attributes that is recorded what a file
/// is made with, and what is set.
#[derive(Debug)]
pub struct SimCalls {
    root: PathBuf,
    storage: SimStorage,
    /// Numbers of the system, which it gives again, and numbers of the simulator.
    inodes: Arc<Mutex<BTreeMap<u64, Inode>>>,
    file_system: u32,
    /// How often files, and the file system, were synced.
    syncs: Arc<(AtomicUsize, AtomicUsize)>,
}

impl SimCalls {
    /// For a directory, and what is in it, all of which is durable.
    ///
    /// # Errors
    /// I/O errors.
    pub fn new(root: &Path) -> io::Result<Self> {
        let root = root.canonicalize()?;
        let (mut image, mut inodes) = (Image::default(), BTreeMap::new());
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                let name = relative(&root, &path);
                let inode = inodes.len() as Inode + 1;
                let status = rustix::fs::lstat(&path)?;
                image.attributes.insert(inode, attributes_of(&status).into());
                if path.is_dir() {
                    inodes.insert(number(File::open(&path)?.as_fd())?, inode);
                    image.files.insert(inode, Arc::default());
                    image.names.insert(name + "/", inode);
                    folders.push(path);
                    continue;
                }
                inodes.insert(number(File::open(&path)?.as_fd())?, inode);
                image.files.insert(inode, Arc::new(fs::read(&path)?));
                image.names.insert(name, inode);
            }
        }
        let storage = SimStorage::from_image(image);
        storage.state().next_inode = inodes.len() as Inode;
        let syncs = Arc::default();
        Ok(Self { root, storage, inodes: Arc::new(Mutex::new(inodes)), file_system: EXT4, syncs })
    }

    /// As on a file system on which each file and each directory is synced by itself.
    #[must_use]
    pub fn on_overlay(self) -> Self {
        Self { file_system: OVERLAY, ..self }
    }

    /// The files that can be reached: all directories that lead to them have names, too.
    pub fn reachable(found: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
        let is_reached = |name: &String| {
            let slashes = name.match_indices('/').map(|(at, _)| &name[..=at]);
            !name.ends_with('/') && slashes.into_iter().all(|directory| found.contains_key(directory))
        };
        let reached = found.iter().filter(|(name, _)| is_reached(name));
        reached.map(|(name, bytes)| (name.clone(), bytes.clone())).collect()
    }

    /// What was recorded.
    pub fn storage(&self) -> &SimStorage {
        &self.storage
    }

    /// How often a file, and the file system, were synced.
    pub fn syncs(&self) -> (usize, usize) {
        (self.syncs.0.load(Ordering::Relaxed), self.syncs.1.load(Ordering::Relaxed))
    }

    fn name(&self, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<String> {
        if Path::new(name).is_absolute() {
            return Ok(relative(&self.root, Path::new(name)));
        }
        Ok(relative(&self.root, &path_of(parent)?.join(name)))
    }

    fn record(&self, operation: Operation) -> io::Result<()> {
        self.storage.state().perform(operation)
    }

    /// The number of a file that is there, or of a new one.
    fn inode(&self, file: BorrowedFd<'_>, is_new: bool) -> io::Result<Inode> {
        Ok(self.numbered(number(file)?, is_new))
    }

    fn numbered(&self, number: u64, is_new: bool) -> Inode {
        let mut inodes = self.inodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inode) = inodes.get(&number).filter(|_| !is_new) {
            return *inode;
        }
        let mut state = self.storage.state();
        state.next_inode += 1;
        inodes.insert(number, state.next_inode);
        state.next_inode
    }

    fn set(&self, inode: Inode, attribute: &str, value: impl Into<Vec<u8>>) -> io::Result<()> {
        self.record(Operation::Set { inode, attribute: attribute.to_owned(), value: Some(value.into()) })
    }

    /// Sets the attributes that something is made with.
    fn begin(&self, inode: Inode, status: &Stat) -> io::Result<()> {
        attributes_of(status).into_iter().try_for_each(|(name, value)| self.set(inode, &name, value))
    }

    /// Sets an attribute of what cannot be synced by itself: it is durable at once, as the name of
    /// it is never there without it.
    fn set_of_link(&self, inode: Inode, attribute: &str, value: impl Into<Vec<u8>>) -> io::Result<()> {
        self.set(inode, attribute, value)?;
        self.record(Operation::Sync { inode })
    }

    fn inode_at(&self, parent: BorrowedFd<'_>, name: &OsStr, is_new: bool) -> io::Result<Inode> {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(parent, name, flags, Mode::empty())?;
        self.inode(file.as_fd(), is_new)
    }

    fn moved(&self, parent: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let inode = self.inode_at(parent, to, false)?;
        let (from, to) = (self.name(parent, from)?, self.name(parent, to)?);
        self.record(Operation::Rename { inode, from, to })
    }
}

impl Calls for SimCalls {
    fn kind_of_file_system(&self, _: BorrowedFd<'_>) -> Option<u32> {
        Some(self.file_system)
    }

    fn make_directory(&self, parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<()> {
        System.make_directory(parent, name, mode)?;
        let (inode, path) = (self.inode_at(parent, name, true)?, self.name(parent, name)?);
        self.record(Operation::Create { name: path + "/", inode })?;
        self.begin(inode, &status_at(parent, name)?)
    }

    fn remove_directory(&self, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        System.remove_directory(parent, name)?;
        self.record(Operation::Unlink { name: self.name(parent, name)? + "/" })
    }

    /// What was synced was written.
    fn wait_written(&self, _: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    fn engine(&self, depth: usize) -> stook::Result<Box<dyn Engine>> {
        let (storage, inodes) = (self.storage.clone(), self.inodes.clone());
        let hook = move |request: &Request| {
            let number = request.file.metadata().map_err(io::Error::other)?.ino();
            let inodes = inodes.lock().unwrap_or_else(PoisonError::into_inner);
            let inode = *inodes.get(&number).ok_or(io::ErrorKind::NotFound)?;
            let operation = match &request.operation {
                EngineOperation::Write { offset, buffer } => {
                    let bytes = Bytes::copy_from_slice(buffer.data());
                    Operation::Write { inode, offset: *offset, bytes }
                }
                EngineOperation::Allocate { range, keep_len: false } => {
                    Operation::Truncate { inode, len: range.end() }
                }
                other => unreachable!("{other:?} is on no way out"),
            };
            storage.state().perform(operation)
        };
        Ok(Box::new(HookedEngine::new(System.engine(depth)?, Box::new(hook))))
    }

    fn create(&self, parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<File> {
        let file = System.create(parent, name, mode)?;
        let (inode, name) = (self.inode(file.as_fd(), true)?, self.name(parent, name)?);
        self.record(Operation::Create { name, inode })?;
        self.begin(inode, &rustix::fs::fstat(&file)?)?;
        Ok(file)
    }

    fn create_unnamed(&self, parent: BorrowedFd<'_>, mode: u32) -> io::Result<File> {
        let file = System.create_unnamed(parent, mode)?;
        self.begin(self.inode(file.as_fd(), true)?, &rustix::fs::fstat(&file)?)?;
        Ok(file)
    }

    fn make_symlink(&self, target: &OsStr, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        System.make_symlink(target, parent, name)?;
        let (inode, path) = (self.inode_at(parent, name, true)?, self.name(parent, name)?);
        self.record(Operation::Create { name: path, inode })?;
        self.begin(inode, &status_at(parent, name)?)?;
        let bytes = Bytes::copy_from_slice(target.as_bytes());
        self.record(Operation::Write { inode, offset: 0, bytes })?;
        self.record(Operation::Sync { inode })
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let written = System.write_at(file, bytes, offset)?;
        let inode = self.inode(file.as_fd(), false)?;
        let bytes = Bytes::copy_from_slice(&bytes[..written]);
        self.record(Operation::Write { inode, offset, bytes })?;
        Ok(written)
    }

    fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        System.set_len(file, len)?;
        let inode = self.inode(file.as_fd(), false)?;
        self.record(Operation::Truncate { inode, len })
    }

    fn set_owner(&self, file: BorrowedFd<'_>, owner: (u32, u32)) -> io::Result<()> {
        System.set_owner(file, owner)?;
        self.set(self.inode(file, false)?, "owner", owner_text(owner))
    }

    fn set_mode(&self, file: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
        System.set_mode(file, mode)?;
        self.set(self.inode(file, false)?, "mode", mode_text(mode))
    }

    fn set_mtime(&self, file: BorrowedFd<'_>, mtime_ns: i64) -> io::Result<()> {
        System.set_mtime(file, mtime_ns)?;
        self.set(self.inode(file, false)?, "mtime", mtime_ns.to_string())
    }

    fn set_xattr(&self, file: BorrowedFd<'_>, name: &[u8], value: &[u8]) -> io::Result<()> {
        System.set_xattr(file, name, value)?;
        self.set(self.inode(file, false)?, &String::from_utf8_lossy(name), value)
    }

    fn remove_xattr(&self, file: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
        System.remove_xattr(file, name)?;
        let (inode, attribute) = (self.inode(file, false)?, String::from_utf8_lossy(name).into_owned());
        self.record(Operation::Set { inode, attribute, value: None })
    }

    fn set_link_owner(&self, parent: BorrowedFd<'_>, name: &OsStr, owner: (u32, u32)) -> io::Result<()> {
        System.set_link_owner(parent, name, owner)?;
        self.set_of_link(self.inode_at(parent, name, false)?, "owner", owner_text(owner))
    }

    fn set_link_mtime(&self, parent: BorrowedFd<'_>, name: &OsStr, mtime_ns: i64) -> io::Result<()> {
        System.set_link_mtime(parent, name, mtime_ns)?;
        self.set_of_link(self.inode_at(parent, name, false)?, "mtime", mtime_ns.to_string())
    }

    fn set_link_xattr(&self, path: &[u8], name: &[u8], value: &[u8]) -> io::Result<()> {
        System.set_link_xattr(path, name, value)?;
        let inode = self.numbered(rustix::fs::lstat(path)?.st_ino as u64, false);
        self.set_of_link(inode, &String::from_utf8_lossy(name), value)
    }

    fn set_mode_at(&self, parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<()> {
        System.set_mode_at(parent, name, mode)?;
        self.set_of_link(self.inode_at(parent, name, false)?, "mode", mode_text(mode))
    }

    fn sync(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        let status = rustix::fs::fstat(file)?;
        if rustix::fs::FileType::from_raw_mode(status.st_mode).is_dir() {
            let directory = relative(&self.root, &path_of(file)?);
            self.record(Operation::SyncNames { directory })?;
        }
        self.syncs.0.fetch_add(1, Ordering::Relaxed);
        self.record(Operation::Sync { inode: self.inode(file, false)? })
    }

    fn sync_file_system(&self, _: BorrowedFd<'_>) -> io::Result<()> {
        self.syncs.1.fetch_add(1, Ordering::Relaxed);
        let inodes: Vec<Inode> = self.storage.state().live.files.keys().copied().collect();
        for inode in inodes {
            self.record(Operation::Sync { inode })?;
        }
        self.record(Operation::SyncDirectory)
    }

    fn rename(&self, parent: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
        System.rename(parent, from, to)?;
        self.moved(parent, from, to)
    }

    fn rename_new(&self, parent: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
        System.rename_new(parent, from, to)?;
        self.moved(parent, from, to)
    }

    fn exchange(&self, parent: BorrowedFd<'_>, one: &OsStr, other: &OsStr) -> io::Result<()> {
        System.exchange(parent, one, other)?;
        let at = |name| Ok::<_, io::Error>((self.name(parent, name)?, self.inode_at(parent, name, false)?));
        self.record(Operation::Exchange { one: at(one)?, other: at(other)? })
    }

    fn link(
        &self,
        from: BorrowedFd<'_>,
        name: &OsStr,
        parent: BorrowedFd<'_>,
        new: &OsStr,
    ) -> io::Result<()> {
        System.link(from, name, parent, new)?;
        let (inode, name) = (self.inode_at(parent, new, false)?, self.name(parent, new)?);
        self.record(Operation::Link { inode, name })
    }

    fn link_unnamed(&self, file: &File, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        System.link_unnamed(file, parent, name)?;
        let (inode, name) = (self.inode(file.as_fd(), false)?, self.name(parent, name)?);
        self.record(Operation::Link { inode, name })
    }

    fn unlink(&self, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        System.unlink(parent, name)?;
        self.record(Operation::Unlink { name: self.name(parent, name)? })
    }
}

fn number(file: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(rustix::fs::fstat(file)?.st_ino as u64)
}

fn status_at(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<Stat> {
    Ok(rustix::fs::statat(parent, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?)
}

/// What a file is made with.
fn attributes_of(status: &Stat) -> [(String, Vec<u8>); 2] {
    let owner = owner_text((status.st_uid, status.st_gid));
    [("mode".to_owned(), mode_text(status.st_mode).into_bytes()), ("owner".to_owned(), owner.into_bytes())]
}

/// The permission bits of a mode.
fn mode_text(mode: u32) -> String {
    format!("{:o}", mode & 0o7777)
}

fn owner_text((user, group): (u32, u32)) -> String {
    format!("{user}:{group}")
}

fn path_of(directory: BorrowedFd<'_>) -> io::Result<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd()))
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}
