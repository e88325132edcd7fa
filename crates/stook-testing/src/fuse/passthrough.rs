//! The file system as the kernel asks it. It decides nothing: what an operation meets, and what it
//! does below, is in `shared`.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use stook::extent::ByteRange;

use super::PageCache;
use super::nodes::attributes;
use super::shared::{Changes, Entry, Shared};

/// Names and lengths are requested each time.
const NOT_KEPT: Duration = Duration::ZERO;

/// See the module.
pub(super) struct Passthrough {
    pub(super) shared: Arc<Shared>,
    pub(super) page_cache: PageCache,
}

impl Passthrough {
    fn how_opened(&self) -> FopenFlags {
        match self.page_cache {
            PageCache::Off => FopenFlags::FOPEN_DIRECT_IO,
            PageCache::On => FopenFlags::empty(),
        }
    }
}

fn reply_entry(entry: std::io::Result<Entry>, reply: ReplyEntry) {
    match entry {
        Ok((number, metadata)) => reply.entry(&NOT_KEPT, &attributes(number, &metadata), Generation(0)),
        Err(error) => reply.error(Errno::from(error)),
    }
}

fn reply_empty(done: std::io::Result<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(Errno::from(error)),
    }
}

/// A value, or its length where that alone is asked for.
fn reply_xattr(value: std::io::Result<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match value {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(Errno::from(error)),
    }
}

impl Filesystem for Passthrough {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        reply_entry(self.shared.look_up(parent.0, name), reply);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.shared.about(number.0) {
            Ok(metadata) => reply.attr(&NOT_KEPT, &attributes(number.0, &metadata)),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        len: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.shared.change(number.0, Changes { mode, uid, gid, len, accessed, modified }) {
            Ok(metadata) => reply.attr(&NOT_KEPT, &attributes(number.0, &metadata)),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.shared.link_target(number.0) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        let owner = (request.uid(), request.gid());
        reply_entry(self.shared.make_directory(parent.0, name, mode, owner), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(self.shared.remove(parent.0, name, false), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(self.shared.remove(parent.0, name, true), reply);
    }

    fn symlink(&self, _: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        reply_entry(self.shared.symlink(parent.0, name, target), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((parent.0, name), (new_parent.0, new_name));
        reply_empty(self.shared.rename(from, to, flags.bits()), reply);
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        reply_entry(self.shared.link(number.0, parent.0, name), reply);
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.shared.open(number.0, flags) {
            Ok(handle) => reply.opened(FileHandle(handle), self.how_opened()),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        match self.shared.create(parent.0, name, mode, (request.uid(), request.gid())) {
            Ok(((number, metadata), handle)) => {
                let attributes = attributes(number, &metadata);
                let how = self.how_opened();
                reply.created(&NOT_KEPT, &attributes, Generation(0), FileHandle(handle), how);
            }
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        len: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.shared.read(number.0, handle.0, offset, len) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.shared.write(number.0, handle.0, offset, bytes, flags) {
            Ok(count) => reply.written(count),
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn setxattr(
        &self,
        _: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        reply_empty(self.shared.set_xattr(number.0, name, value, flags), reply);
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        reply_xattr(self.shared.xattr(number.0, name), size, reply);
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        reply_xattr(self.shared.xattr_names(number.0), size, reply);
    }

    fn removexattr(&self, _: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(self.shared.remove_xattr(number.0, name), reply);
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
        self.shared.release(handle.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(self.shared.sync(number.0), reply);
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply_empty(self.shared.sync_directory(number.0), reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        match ByteRange::at(offset, len) {
            Some(range) => reply_empty(self.shared.allocate(number.0, handle.0, range, mode), reply),
            None => reply.error(Errno::EINVAL),
        }
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listed = match self.shared.list(number.0, offset == 0) {
            Ok(listed) => listed,
            Err(error) => return reply.error(Errno::from(error)),
        };
        for ((name, (number, metadata)), next) in listed.into_iter().zip(1_u64..).skip(offset as usize) {
            let kind = FileType::from_std(metadata.file_type()).unwrap_or(FileType::RegularFile);
            if reply.add(
                INodeNo(number),
                next,
                kind,
                <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&name),
            ) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let directory = self.shared.state().nodes.directory().to_path_buf();
        match rustix::fs::statvfs(&directory) {
            Ok(stat) => reply.statfs(
                stat.f_blocks,
                stat.f_bfree,
                stat.f_bavail,
                stat.f_files,
                stat.f_ffree,
                stat.f_bsize as u32,
                stat.f_namemax as u32,
                stat.f_frsize as u32,
            ),
            Err(errno) => reply.error(Errno::from(std::io::Error::from(errno))),
        }
    }
}
