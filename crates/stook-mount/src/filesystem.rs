//! The file system as the kernel asks it: requests become calls of the tree, results become
//! answers.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fuser::{
    Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};
use stook::engine::File;
use stook::source::{Source, within};
use stook::tree::{Fact, Kind, Node, NodeId};

use crate::attributes::BLOCK;
use crate::listing::{Fill, Filled, Listing};
use crate::opened::Reading;
use crate::reading::read;
use crate::shared::Shared;
use crate::status::{Mode, STATUS_NAME, STATUS_XATTR, count};
use crate::survey::{NAME_LEN_MAX, Survey, refusal};
use crate::waiting::Refuse;
use crate::workers::WaitsFor;

/// The longest read-ahead of the kernel, and the longest read, in bytes.
const READ_BYTES: u32 = 1 << 20;
/// Reads ahead, and reads past the page cache, that the kernel sends before it has an answer: far
/// more than a server that hangs should hold up, since it sends no others then.
const BACKGROUND_MAX: u16 = 1024;

/// A file that was opened, and the file on disk that it is, if the kernel can have that.
type Opening = (Arc<dyn Source>, Option<Arc<File>>);
/// Entries of one directory up to which directories are always listed with their nodes, so that all
/// that is in them can be pushed. Where one is longer, the kernel asks for the nodes with the first
/// entries of a directory, and further on while somebody looks at them.
const WITH_NODES_MAX: u64 = 64 << 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Served(pub(crate) Arc<Shared>);

impl Served {
    /// Answers a request that may wait, for a disk or a server: with what `give` makes of what
    /// `work` finds.
    fn answer<R: Refuse, T>(
        &self,
        request: &Request,
        waits_for: WaitsFor,
        reply: R,
        work: impl FnOnce(&Shared) -> Result<T, Errno> + Send + 'static,
        give: impl FnOnce(&Shared, R, T) + Send + 'static,
    ) {
        let (number, slot) = self.0.waiting.begin(request.pid(), reply);
        let (shared, answer) = (self.0.clone(), slot.share());
        let run = self.0.workers.run(waits_for, move || {
            // Its program may have been killed before its turn came.
            if slot.is_given() {
                return shared.waiting.end(number);
            }
            // Also where it panics: the reply, when nobody has it any more, says so.
            let noted = Noted(&shared, number);
            let found = work(&shared);
            drop(noted);
            // It may have been given up.
            if let Some(reply) = slot.take() {
                match found {
                    Ok(found) => give(&shared, reply, found),
                    Err(errno) => reply.refuse(errno),
                }
            }
        });
        if run.is_err() {
            self.0.waiting.end(number);
            answer.refuse(self.0.full());
        }
    }

    /// What the bytes of a file wait for.
    fn bytes_wait_for(&self, id: NodeId) -> WaitsFor {
        if self.0.tree.reads_by_request(id) { WaitsFor::Server } else { WaitsFor::Disk }
    }

    fn list<R: Refuse + Fill>(
        &self,
        request: &Request,
        handle: FileHandle,
        offset: u64,
        reply: R,
        ok: impl FnOnce(R) + Send + 'static,
    ) {
        count(&self.0.counters.readdir);
        let Some(listing) = self.0.opened.directory(handle.0) else { return reply.refuse(Errno::EBADF) };
        let ahead = listing.clone();
        self.answer(
            request,
            WaitsFor::Names,
            reply,
            move |shared| {
                let mut listing = locked(&ahead);
                listing.prepare(shared, offset).map_err(|error| shared.failed(listing.directory, &error))
            },
            move |shared, mut reply, ()| match fill(shared, &mut locked(&listing), offset, &mut reply) {
                Ok(()) => ok(reply),
                Err(errno) => reply.refuse(errno),
            },
        );
    }
}

/// How much a file system has: blocks of so many bytes, each of which is read as units, and nodes.
struct Room {
    blocks: u64,
    nodes: u64,
    unit: u32,
    fragment: u32,
}

/// A request that is noted as waiting until this is dropped.
struct Noted<'a>(&'a Shared, u64);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        self.0.waiting.end(self.1);
    }
}

fn locked(listing: &Mutex<Listing>) -> MutexGuard<'_, Listing> {
    listing.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fill(shared: &Shared, listing: &mut Listing, offset: u64, to: &mut dyn Fill) -> Result<(), Errno> {
    match listing.fill(shared, offset, to).map_err(|error| shared.failed(listing.directory, &error))? {
        Filled::Some => {}
        Filled::Failed => return Err(Errno::EIO),
        Filled::Nothing => {
            // The kernel takes pages of nodes that it knows only.
            if let Some(pusher) = shared.pusher.as_ref().filter(|_| !listing.has_bare_names) {
                pusher.listed(listing.directory);
            }
        }
    }
    Ok(())
}

impl Shared {
    fn id(&self, number: INodeNo) -> NodeId {
        self.numbers.id(number)
    }

    /// What a file is read from: what was opened, or, where nothing is, what was read last.
    fn source(&self, id: NodeId, handle: FileHandle) -> stook::Result<Arc<dyn Source>> {
        if let Some(source) = self.opened.file(handle.0).or_else(|| self.opened.last(id)) {
            return Ok(source);
        }
        let source = self.tree.open(id)?;
        self.opened.note_last(id, source.clone());
        Ok(source)
    }

    /// What a request gets where too many wait already.
    fn full(&self) -> Errno {
        self.log.say("too many requests wait: those beyond 16,384 for the same kind of source are errors");
        Errno::EIO
    }

    fn status_text(&self) -> Result<Vec<u8>, Errno> {
        serde_json::to_vec(&self.status()).map_err(|_| Errno::EIO)
    }

    /// The file with the status, which is another one each time.
    fn snapshot(&self) -> Result<FileAttr, Errno> {
        let text = self.status_text()?;
        let node = Node { mode: Some(0o444), ..Node::file(text.len() as u64) };
        self.attributes(self.snapshots.add(text), &node).ok_or(Errno::EIO)
    }

    /// What has a name in a directory, if it is shown.
    fn find(&self, parent: NodeId, name: &[u8]) -> Result<Option<FileAttr>, Errno> {
        let found = self.tree.lookup(parent, name).and_then(|id| match id {
            Some(id) => Ok(Some((id, self.tree.node(id)?))),
            None => Ok(None),
        });
        let found = found.map_err(|error| self.failed(parent, &error))?;
        let shown = found.filter(|(_, node)| refusal(name, node, false).is_none());
        Ok(shown.and_then(|(id, node)| self.attributes(self.numbers.inode(id), &node)))
    }

    /// What is asked by a handle is what that has: its name may stand for another by now, which
    /// would be looked up again for nothing.
    fn node(&self, number: INodeNo, handle: Option<FileHandle>) -> Result<FileAttr, Errno> {
        let id = self.id(number);
        // What was mounted can be asked for its status whatever became of it.
        let is_root = number == INodeNo::ROOT;
        let node = self.tree.node(id).or_else(|error| match is_root {
            true => Ok(self.root_node),
            false => Err(error),
        });
        let node = node.map_err(|error| match handle {
            Some(_) => self.unreadable(id, &error),
            None => self.failed(id, &error),
        })?;
        self.attributes(number, &node).ok_or(Errno::ENOENT)
    }

    /// The bytes of a range, fewer at the end.
    fn range(&self, id: NodeId, handle: FileHandle, offset: u64, size: u32) -> Result<Bytes, Errno> {
        if let Some(errno) = self.stalled.errno(id) {
            return Err(errno);
        }
        if let Some(whole) = self.pusher.as_ref().and_then(|pusher| pusher.read_ahead(id)) {
            let from = usize::try_from(offset).map_or(whole.len(), |offset| offset.min(whole.len()));
            return Ok(whole.slice(from..whole.len().min(from.saturating_add(size as usize))));
        }
        let begun = Instant::now();
        let bytes = self.source(id, handle).and_then(|source| {
            let range = within(&*source, offset, u64::from(size));
            range.map_or_else(|| Ok(Bytes::new()), |range| read(&*source, range))
        });
        bytes.map_err(|error| {
            let errno = self.unreadable(id, &error);
            self.stalled.note(id, begun, errno);
            errno
        })
    }

    /// The value of an extended attribute.
    fn xattr(&self, number: INodeNo, name: &[u8]) -> Result<Vec<u8>, Errno> {
        if number == INodeNo::ROOT && name == STATUS_XATTR.as_bytes() {
            return self.status_text();
        }
        let id = self.id(number);
        if let Some(fact) = Fact::of_xattr_name(name).filter(|_| self.has_facts()) {
            let value = self.tree.fact(id, fact).map_err(|error| self.failed(id, &error))?;
            return value.ok_or(Errno::NO_XATTR);
        }
        if !self.has_xattrs() {
            // The kernel would not ask again, for facts either.
            return Err(if self.has_facts() { Errno::NO_XATTR } else { Errno::ENOSYS });
        }
        let xattrs = self.tree.xattrs(id).map_err(|error| self.failed(id, &error))?;
        match xattrs.as_slice().iter().find(|xattr| xattr.name == name) {
            Some(xattr) => xattr.value.clone().ok_or(Errno::EIO),
            None => Err(Errno::NO_XATTR),
        }
    }

    /// The names of its extended attributes, each with a zero byte.
    fn xattr_names(&self, number: INodeNo) -> Result<Vec<u8>, Errno> {
        if !self.has_xattrs() {
            return Err(Errno::ENOSYS);
        }
        let id = self.id(number);
        let xattrs = self.tree.xattrs(id).map_err(|error| self.failed(id, &error))?;
        Ok(xattrs.as_slice().iter().flat_map(|xattr| [&xattr.name[..], b"\0"].concat()).collect())
    }

    /// Where data or a hole begins.
    fn seek(&self, number: INodeNo, handle: FileHandle, offset: i64, whence: i32) -> Result<i64, Errno> {
        let id = self.id(number);
        let source = self.source(id, handle).map_err(|error| self.failed(id, &error))?;
        let from = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
        if from >= source.len() {
            return Err(Errno::ENXIO);
        }
        let holes = source.holes().map_err(|error| self.failed(id, &error))?;
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

    /// Opens a file, or shares what it is open by already where nothing changes; with the file on
    /// disk that it is, if the kernel can have that.
    fn open(&self, id: NodeId) -> Result<Opening, Errno> {
        let failed = |error| self.failed(id, &error);
        if self.mode != Mode::Live {
            let open = self.opened.shared(id).map_or_else(|| self.tree.open(id), Ok);
            return open.map(|source| (source, None)).map_err(failed);
        }
        let source = self.tree.open(id).map_err(failed)?;
        self.log_merged();
        let is_granted = self.passthrough.load(Ordering::Relaxed);
        let whole = source.whole_file().filter(|_| is_granted).cloned();
        Ok((source, whole))
    }

    fn opened(&self, id: NodeId, (source, whole): Opening, reply: ReplyOpen) {
        let back = || {
            let backing = reply.open_backing(whole.as_ref()?);
            // Who may not, or cannot on that file system, is served by requests.
            backing.ok()
        };
        let Some((handle, reading)) = self.opened.add_file(id, source, back) else {
            self.log_of(id, "it has changed, and a program has it open as it was");
            return reply.error(Errno::ESTALE);
        };
        let handle = FileHandle(handle);
        match reading {
            Reading::Backed(backing) => {
                count(&self.counters.passed);
                reply.opened_passthrough(handle, FopenFlags::empty(), &backing);
            }
            // Pages of two states would be mixed, and nobody would be asked again.
            Reading::Direct if self.mode == Mode::Live => reply.opened(handle, FopenFlags::FOPEN_DIRECT_IO),
            Reading::Cached if self.mode == Mode::Live => reply.opened(handle, FopenFlags::empty()),
            Reading::Cached | Reading::Direct => reply.opened(handle, FopenFlags::FOPEN_KEEP_CACHE),
        }
    }

    fn opened_directory(&self, id: NodeId, kind: Kind, reply: ReplyOpen) {
        if kind != Kind::Directory {
            return reply.error(Errno::ENOTDIR);
        }
        let flags = match self.mode {
            Mode::Live => FopenFlags::empty(),
            // The kernel would put parts of two states together.
            _ if self.followed.is_some() => FopenFlags::empty(),
            Mode::Small | Mode::Large => FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE,
        };
        reply.opened(FileHandle(self.opened.add_directory(id)), flags);
    }

    /// What a file system has: of a tree that changes, that of the disk that it is on.
    fn room(&self) -> Room {
        let block = BLOCK as u32;
        if let Some(survey) = self.survey() {
            return Room { blocks: survey.blocks, nodes: survey.nodes, unit: block, fragment: block };
        }
        match rustix::fs::statvfs(self.tree.path()) {
            Ok(found) => {
                let (unit, fragment) = (found.f_bsize as u32, found.f_frsize as u32);
                Room { blocks: found.f_blocks, nodes: found.f_files, unit, fragment }
            }
            Err(_) => Room { blocks: 0, nodes: 0, unit: block, fragment: block },
        }
    }
}

/// The two ways of seeking that reach a file system.
mod seek {
    pub(super) const DATA: i32 = 3;
    pub(super) const HOLE: i32 = 4;
}

/// A value, or its length where that alone is asked for.
fn reply_value(value: Vec<u8>, size: u32, reply: ReplyXattr) {
    match value.len() {
        len if size == 0 => reply.size(len as u32),
        len if len > size as usize => reply.error(Errno::ERANGE),
        _ => reply.data(&value),
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
        if self.0.mode == Mode::Live && self.0.may_pass_through {
            // Not of files on an overlay: then no overlay could be put over this.
            let _most = config.set_max_stack_depth(1);
            let is_there = config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok();
            self.0.passthrough.store(is_there, Ordering::Relaxed);
        }
        // The kernel goes by access control lists, where there may be some.
        let acls = if self.0.has_xattrs.get() != Some(&false) {
            InitFlags::FUSE_POSIX_ACL
        } else {
            InitFlags::empty()
        };
        // Else the kernel makes a node of each entry that is listed, which takes a second, and a
        // gigabyte of its memory, for a million.
        let is_long = |survey: &Survey| survey.most_entries > WITH_NODES_MAX;
        let names = match self.0.survey().as_deref().is_some_and(is_long) {
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

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        count(&self.0.counters.lookup);
        if name.len() > NAME_LEN_MAX {
            return reply.error(Errno::ENAMETOOLONG);
        }
        if parent == INodeNo::ROOT && name == STATUS_NAME {
            return match self.0.snapshot() {
                Ok(attributes) => reply.entry(&Duration::ZERO, &attributes, Generation(0)),
                Err(errno) => reply.error(errno),
            };
        }
        let name = name.as_bytes().to_vec();
        self.answer(
            request,
            WaitsFor::Names,
            reply,
            move |shared| shared.find(shared.id(parent), &name),
            |shared, reply, found| {
                // The kernel remembers for as long that nothing is there.
                let nothing = || shared.attributes(INodeNo(0), &Node::file(0));
                match found.or_else(nothing) {
                    Some(attributes) => reply.entry(&shared.kept, &attributes, Generation(0)),
                    None => reply.error(Errno::ENOENT),
                }
            },
        );
    }

    fn getattr(&self, request: &Request, number: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        let shared = &self.0;
        count(&shared.counters.getattr);
        if let Some(text) = shared.snapshots.get(number) {
            let node = Node { mode: Some(0o444), ..Node::file(text.len() as u64) };
            return match shared.attributes(number, &node) {
                Some(attributes) => reply.attr(&shared.kept, &attributes),
                None => reply.error(Errno::EIO),
            };
        }
        let give = |shared: &Shared, reply: ReplyAttr, found| reply.attr(&shared.kept, &found);
        self.answer(request, WaitsFor::Names, reply, move |shared| shared.node(number, handle), give);
    }

    fn readlink(&self, request: &Request, number: INodeNo, reply: ReplyData) {
        count(&self.0.counters.readlink);
        let id = self.0.id(number);
        let target =
            move |shared: &Shared| shared.tree.link_target(id).map_err(|error| shared.failed(id, &error));
        self.answer(request, self.bytes_wait_for(id), reply, target, |_, reply, target| reply.data(&target));
    }

    fn open(&self, request: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        count(&self.0.counters.open);
        if self.0.mode == Mode::Small {
            // From now on the kernel opens and closes without asking.
            return reply.error(Errno::ENOSYS);
        }
        if self.0.snapshots.get(number).is_some() {
            return reply.opened(FileHandle(0), FopenFlags::empty());
        }
        let id = self.0.id(number);
        let give = move |shared: &Shared, reply, opened| shared.opened(id, opened, reply);
        self.answer(request, self.bytes_wait_for(id), reply, move |shared| shared.open(id), give);
    }

    fn read(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let id = self.0.id(number);
        if let Some(text) = self.0.snapshots.get(number) {
            let rest = text.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
            return reply.data(rest.get(..size as usize).unwrap_or(rest));
        }
        count(&self.0.counters.read);
        self.answer(
            request,
            self.bytes_wait_for(id),
            reply,
            move |shared| shared.range(id, handle, offset, size),
            move |shared, reply, bytes| {
                shared.counters.read_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                reply.data(&bytes);
                if let Some(pusher) = &shared.pusher {
                    pusher.read(shared, id);
                }
            },
        );
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

    fn opendir(&self, request: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        count(&self.0.counters.opendir);
        let id = self.0.id(number);
        let kind = move |shared: &Shared| shared.tree.kind(id).map_err(|error| shared.failed(id, &error));
        let give = move |shared: &Shared, reply, kind| shared.opened_directory(id, kind, reply);
        self.answer(request, WaitsFor::Names, reply, kind, give);
    }

    fn readdir(&self, request: &Request, _: INodeNo, handle: FileHandle, offset: u64, reply: ReplyDirectory) {
        self.list(request, handle, offset, reply, ReplyDirectory::ok);
    }

    fn readdirplus(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        self.list(request, handle, offset, reply, ReplyDirectoryPlus::ok);
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.0.opened.close_directory(handle.0);
        reply.ok();
    }

    fn statfs(&self, request: &Request, _: INodeNo, reply: ReplyStatfs) {
        count(&self.0.counters.statfs);
        let give = |_: &Shared, reply: ReplyStatfs, Room { blocks, nodes, unit, fragment }| {
            reply.statfs(blocks, 0, 0, nodes, 0, unit, NAME_LEN_MAX as u32, fragment);
        };
        self.answer(request, WaitsFor::Names, reply, |shared| Ok(shared.room()), give);
    }

    fn getxattr(&self, request: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        count(&self.0.counters.xattr);
        let name = name.as_bytes().to_vec();
        let give = move |_: &Shared, reply, value| reply_value(value, size, reply);
        self.answer(request, WaitsFor::Names, reply, move |shared| shared.xattr(number, &name), give);
    }

    fn listxattr(&self, request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        count(&self.0.counters.xattr);
        let give = move |_: &Shared, reply, names| reply_value(names, size, reply);
        self.answer(request, WaitsFor::Names, reply, move |shared| shared.xattr_names(number), give);
    }

    fn lseek(
        &self,
        request: &Request,
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
        let waits_for = self.bytes_wait_for(self.0.id(number));
        let seek = move |shared: &Shared| shared.seek(number, handle, offset, whence);
        self.answer(request, waits_for, reply, seek, |_, reply, found| reply.offset(found));
    }
}
