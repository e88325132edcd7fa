//! The file system as the kernel asks it: requests become calls of the tree, results become
//! answers.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use fuser::{
    Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};
use stook::source::{Source, within};
use stook::tree::{Fact, Kind, Node, NodeId};

use crate::attributes::BLOCK;
use crate::listing::{Fill, Filled};
use crate::reading::read;
use crate::shared::Shared;
use crate::status::{Mode, STATUS_NAME, STATUS_XATTR, count};
use crate::survey::{NAME_LEN_MAX, Survey, refusal};

/// The longest read-ahead of the kernel, and the longest read, in bytes.
const READ_BYTES: u32 = 1 << 20;
/// Reads that the kernel keeps waiting at most.
const BACKGROUND_MAX: u16 = 64;

/// Entries of one directory up to which directories are always listed with their nodes, so that all
/// that is in them can be pushed. Where one is longer, the kernel asks for the nodes with the first
/// entries of a directory, and further on while somebody looks at them.
const WITH_NODES_MAX: u64 = 64 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Served(pub(crate) Arc<Shared>);

impl Served {
    fn id(&self, number: INodeNo) -> NodeId {
        self.0.numbers.id(number)
    }

    /// What a file is read from: what was opened, or, where nothing is, what was read last.
    fn source(&self, id: NodeId, handle: FileHandle) -> stook::Result<Arc<dyn Source>> {
        if let Some(source) = self.0.opened.file(handle.0).or_else(|| self.0.opened.last(id)) {
            return Ok(source);
        }
        let source = self.0.tree.open(id)?;
        self.0.opened.note_last(id, source.clone());
        Ok(source)
    }

    fn fill(&self, handle: FileHandle, offset: u64, to: &mut dyn Fill) -> Result<(), Errno> {
        count(&self.0.counters.readdir);
        let listing = self.0.opened.directory(handle.0).ok_or(Errno::EBADF)?;
        let mut listing = listing.lock().unwrap_or_else(PoisonError::into_inner);
        match listing.fill(&self.0, offset, to).map_err(|error| self.0.failed(listing.directory, &error))? {
            Filled::Some => {}
            Filled::Failed => return Err(Errno::EIO),
            Filled::Nothing => {
                // The kernel takes pages of nodes that it knows only.
                if let Some(pusher) = self.0.pusher.as_ref().filter(|_| !listing.has_bare_names) {
                    pusher.listed(listing.directory);
                }
            }
        }
        Ok(())
    }

    fn status(&self) -> Result<Vec<u8>, Errno> {
        serde_json::to_vec(&self.0.status()).map_err(|_| Errno::EIO)
    }

    /// The file with the status, which is another one each time.
    fn snapshot(&self) -> Result<FileAttr, Errno> {
        let text = self.status()?;
        let node = Node { mode: Some(0o444), ..Node::file(text.len() as u64) };
        self.0.attributes(self.0.snapshots.add(text), &node).ok_or(Errno::EIO)
    }

    /// The value of an extended attribute.
    fn xattr(&self, number: INodeNo, name: &[u8]) -> Result<Vec<u8>, Errno> {
        count(&self.0.counters.xattr);
        if number == INodeNo::ROOT && name == STATUS_XATTR.as_bytes() {
            return self.status();
        }
        let id = self.id(number);
        if let Some(fact) = Fact::of_xattr_name(name).filter(|_| self.0.has_facts()) {
            let value = self.0.tree.fact(id, fact).map_err(|error| self.0.failed(id, &error))?;
            return value.ok_or(Errno::NO_XATTR);
        }
        if !self.0.has_xattrs() {
            // The kernel would not ask again, for facts either.
            return Err(if self.0.has_facts() { Errno::NO_XATTR } else { Errno::ENOSYS });
        }
        let xattrs = self.0.tree.xattrs(id).map_err(|error| self.0.failed(id, &error))?;
        match xattrs.as_slice().iter().find(|xattr| xattr.name == name) {
            Some(xattr) => xattr.value.clone().ok_or(Errno::EIO),
            None => Err(Errno::NO_XATTR),
        }
    }

    /// The names of its extended attributes, each with a zero byte.
    fn xattr_names(&self, number: INodeNo) -> Result<Vec<u8>, Errno> {
        count(&self.0.counters.xattr);
        if !self.0.has_xattrs() {
            return Err(Errno::ENOSYS);
        }
        let id = self.id(number);
        let xattrs = self.0.tree.xattrs(id).map_err(|error| self.0.failed(id, &error))?;
        Ok(xattrs.as_slice().iter().flat_map(|xattr| [&xattr.name[..], b"\0"].concat()).collect())
    }

    /// Where data or a hole begins.
    fn seek(&self, number: INodeNo, handle: FileHandle, offset: i64, whence: i32) -> Result<i64, Errno> {
        let id = self.id(number);
        let source = self.source(id, handle).map_err(|error| self.0.failed(id, &error))?;
        let from = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
        if from >= source.len() {
            return Err(Errno::ENXIO);
        }
        let holes = source.holes().map_err(|error| self.0.failed(id, &error))?;
        let hole = holes.next_from(from);
        let in_hole = hole.filter(|hole| hole.contains(from));
        let found = match whence {
            seek::DATA => in_hole.map_or(from, |hole| hole.end()),
            seek::HOLE => hole.map_or(source.len(), |hole| hole.start().max(from)),
            _ => return Err(Errno::EINVAL),
        };
        let is_there = whence == seek::HOLE || found < source.len();
        i64::try_from(found).ok().filter(|_| is_there).ok_or(Errno::ENXIO)
    }
}

/// The two ways of seeking that reach a file system.
mod seek {
    pub(super) const DATA: i32 = 3;
    pub(super) const HOLE: i32 = 4;
}

/// A value, or its length where that alone is asked for.
fn reply_value(value: Result<Vec<u8>, Errno>, size: u32, reply: ReplyXattr) {
    match value {
        Err(errno) => reply.error(errno),
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
    }
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What the kernel does not have is done without.
        let wanted = InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_ASYNC_DIO
            | InitFlags::FUSE_CACHE_SYMLINKS
            | InitFlags::FUSE_NO_OPEN_SUPPORT
            | InitFlags::FUSE_EXPLICIT_INVAL_DATA;
        let wanted = match self.0.mode {
            Mode::Live => {
                wanted.difference(InitFlags::FUSE_EXPLICIT_INVAL_DATA) | InitFlags::FUSE_AUTO_INVAL_DATA
            }
            Mode::Small | Mode::Large => wanted,
        };
        // The kernel goes by access control lists, where there may be some.
        let acls = if self.0.has_xattrs.get() != Some(&false) {
            InitFlags::FUSE_POSIX_ACL
        } else {
            InitFlags::empty()
        };
        // Else the kernel makes a node of each entry that is listed, which takes a second, and a
        // gigabyte of its memory, for a million.
        let is_long = |survey: &Survey| survey.most_entries > WITH_NODES_MAX;
        let names = match self.0.survey.as_ref().is_some_and(is_long) {
            true => InitFlags::FUSE_READDIRPLUS_AUTO,
            false => InitFlags::empty(),
        };
        let wanted = wanted | acls | names;
        for flag in wanted.intersection(config.capabilities()).iter() {
            let _added = config.add_capabilities(flag);
        }
        let _before = config.set_max_readahead(READ_BYTES).or_else(|most| config.set_max_readahead(most));
        let _before = config.set_max_write(READ_BYTES);
        let _before = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let shared = &self.0;
        count(&shared.counters.lookup);
        if name.len() > NAME_LEN_MAX {
            return reply.error(Errno::ENAMETOOLONG);
        }
        if parent == INodeNo::ROOT && name == STATUS_NAME {
            return match self.snapshot() {
                Ok(attributes) => reply.entry(&Duration::ZERO, &attributes, Generation(0)),
                Err(errno) => reply.error(errno),
            };
        }
        let found = shared.tree.lookup(self.id(parent), name.as_bytes()).and_then(|id| match id {
            Some(id) => Ok(Some((id, shared.tree.node(id)?))),
            None => Ok(None),
        });
        match found {
            Err(error) => reply.error(shared.failed(self.id(parent), &error)),
            Ok(Some((id, node))) if refusal(name.as_bytes(), node.kind, false).is_none() => {
                let number = shared.numbers.inode(id);
                match shared.attributes(number, &node) {
                    Some(attributes) => reply.entry(&shared.kept, &attributes, Generation(0)),
                    None => reply.error(Errno::ENOENT),
                }
            }
            Ok(_) => {
                // The kernel remembers for as long that nothing is there.
                let nothing = Node::file(0);
                match shared.attributes(INodeNo(0), &nothing) {
                    Some(attributes) => reply.entry(&shared.kept, &attributes, Generation(0)),
                    None => reply.error(Errno::ENOENT),
                }
            }
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let shared = &self.0;
        count(&shared.counters.getattr);
        if let Some(text) = shared.snapshots.get(number) {
            let node = Node { mode: Some(0o444), ..Node::file(text.len() as u64) };
            return match shared.attributes(number, &node) {
                Some(attributes) => reply.attr(&shared.kept, &attributes),
                None => reply.error(Errno::EIO),
            };
        }
        let id = self.id(number);
        // What was mounted can be asked for its status whatever became of it.
        let is_root = number == INodeNo::ROOT;
        let node = shared.tree.node(id).or_else(|error| match is_root {
            true => Ok(shared.root_node),
            false => Err(error),
        });
        match node {
            Err(error) => reply.error(shared.failed(id, &error)),
            Ok(node) => match shared.attributes(number, &node) {
                Some(attributes) => reply.attr(&shared.kept, &attributes),
                None => reply.error(Errno::ENOENT),
            },
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        count(&self.0.counters.readlink);
        match self.0.tree.link_target(self.id(number)) {
            Err(error) => reply.error(self.0.failed(self.id(number), &error)),
            Ok(target) => reply.data(&target),
        }
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        count(&self.0.counters.open);
        if self.0.mode == Mode::Small {
            // From now on the kernel opens and closes without asking.
            return reply.error(Errno::ENOSYS);
        }
        if self.0.snapshots.get(number).is_some() {
            return reply.opened(FileHandle(0), FopenFlags::empty());
        }
        let (id, opened) = (self.id(number), &self.0.opened);
        let shared = (self.0.mode != Mode::Live).then(|| opened.shared(id)).flatten();
        match shared.map_or_else(|| self.0.tree.open(id), Ok) {
            Err(error) => reply.error(self.0.failed(id, &error)),
            Ok(source) => {
                let (handle, is_other) = opened.add_file(id, source);
                let flags = match self.0.mode {
                    // Pages of two states would be mixed, and nobody would be asked again.
                    Mode::Live if is_other => FopenFlags::FOPEN_DIRECT_IO,
                    Mode::Live => FopenFlags::empty(),
                    Mode::Small | Mode::Large => FopenFlags::FOPEN_KEEP_CACHE,
                };
                reply.opened(FileHandle(handle), flags);
            }
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
        let (shared, id) = (&self.0, self.id(number));
        if let Some(text) = shared.snapshots.get(number) {
            let rest = text.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
            return reply.data(rest.get(..size as usize).unwrap_or(rest));
        }
        count(&shared.counters.read);
        let bytes = self.source(id, handle).and_then(|source| {
            let range = within(&*source, offset, u64::from(size));
            range.map_or_else(|| Ok(bytes::Bytes::new()), |range| read(&*source, range))
        });
        match bytes {
            Err(error) => reply.error(shared.unreadable(id, &error)),
            Ok(bytes) => {
                let len = bytes.len() as u64;
                shared.counters.read_bytes.fetch_add(len, std::sync::atomic::Ordering::Relaxed);
                reply.data(&bytes);
                if let Some(pusher) = &shared.pusher {
                    pusher.read(shared, id);
                }
            }
        }
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
        self.0.opened.close_file(handle.0);
        reply.ok();
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let shared = &self.0;
        count(&shared.counters.opendir);
        let id = self.id(number);
        match shared.tree.kind(id) {
            Err(error) => reply.error(shared.failed(self.id(number), &error)),
            Ok(Kind::Directory) => {
                let flags = match shared.mode {
                    Mode::Live => FopenFlags::empty(),
                    Mode::Small | Mode::Large => FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE,
                };
                reply.opened(FileHandle(shared.opened.add_directory(id)), flags);
            }
            Ok(_) => reply.error(Errno::ENOTDIR),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        match self.fill(handle, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        match self.fill(handle, offset, &mut reply) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.0.opened.close_directory(handle.0);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        count(&self.0.counters.statfs);
        let (block, name) = (BLOCK as u32, NAME_LEN_MAX as u32);
        match &self.0.survey {
            Some(survey) => reply.statfs(survey.blocks, 0, 0, survey.nodes, 0, block, name, block),
            None => match rustix::fs::statvfs(self.0.tree.path()) {
                Ok(found) => {
                    let (unit, fragment) = (found.f_bsize as u32, found.f_frsize as u32);
                    reply.statfs(found.f_blocks, 0, 0, found.f_files, 0, unit, name, fragment);
                }
                Err(_) => reply.statfs(0, 0, 0, 0, 0, block, name, block),
            },
        }
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        reply_value(self.xattr(number, name.as_bytes()), size, reply);
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        reply_value(self.xattr_names(number), size, reply);
    }

    fn lseek(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        count(&self.0.counters.lseek);
        if self.0.mode == Mode::Small {
            // The kernel takes all for data from now on, without asking.
            return reply.error(Errno::ENOSYS);
        }
        match self.seek(number, handle, offset, whence) {
            Ok(found) => reply.offset(found),
            Err(errno) => reply.error(errno),
        }
    }
}
