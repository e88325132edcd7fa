//! What the kernel is told of a node, and its number there.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, INodeNo};
use stook::Error;
use stook::tree::{Kind, Node, NodeId};

/// The unit of what a file system says of its sizes, in bytes.
pub(crate) const BLOCK: u64 = 4096;
/// The unit of `st_blocks`, in bytes.
pub(crate) const SECTOR: u64 = 512;

/// The numbers of nodes in the file system: the root is 1 there, whatever it is in the tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    pub(crate) root: NodeId,
}

impl Numbers {
    pub(crate) fn inode(self, id: NodeId) -> INodeNo {
        if id == self.root { INodeNo::ROOT } else { INodeNo(id.get().saturating_add(2)) }
    }

    pub(crate) fn id(self, inode: INodeNo) -> NodeId {
        if inode == INodeNo::ROOT { self.root } else { NodeId::new(inode.0.saturating_sub(2)) }
    }
}

/// The owner of what has none: who mounted it.
pub(crate) type Owner = (u32, u32);

/// The kind of a node; `None` for what the system has no name for, which is not shown.
pub(crate) fn file_type(kind: Kind) -> Option<FileType> {
    Some(match kind {
        Kind::Directory => FileType::Directory,
        Kind::File => FileType::RegularFile,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::BlockDevice => FileType::BlockDevice,
        Kind::CharDevice => FileType::CharDevice,
        Kind::Other => return None,
    })
}

/// What the kernel is told of a node: what a tree does not have is as for files of who mounted it.
/// A directory has one block, and one link, which says that its directories are not counted.
pub(crate) fn attributes(number: INodeNo, node: &Node, owner: Owner) -> Option<FileAttr> {
    let (default_mode, size) = match node.kind {
        Kind::Directory => (0o755, BLOCK),
        Kind::Symlink => (0o777, node.len),
        _ => (0o644, node.len),
    };
    let time = node.mtime_ns.map_or(UNIX_EPOCH, time_of);
    let (uid, gid) = node.owner.unwrap_or(owner);
    Some(FileAttr {
        ino: number,
        size,
        blocks: size.div_ceil(SECTOR),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: file_type(node.kind)?,
        perm: (node.mode.unwrap_or(default_mode) & 0o7777) as u16,
        nlink: node.links,
        uid,
        gid,
        rdev: device_of(node.device),
        blksize: BLOCK as u32,
        flags: 0,
    })
}

fn time_of(ns: i64) -> SystemTime {
    let distance = Duration::from_nanos(ns.unsigned_abs());
    let time = if ns >= 0 { UNIX_EPOCH.checked_add(distance) } else { UNIX_EPOCH.checked_sub(distance) };
    time.unwrap_or(UNIX_EPOCH)
}

/// A device as FUSE has it: 12 bits of major number and 20 of minor.
fn device_of(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// What programs get for an error of the tree. Damage, a source that changed, and one that cannot
/// be read are all `EIO`: the log says which.
pub(crate) fn errno_of(error: &Error) -> Errno {
    use std::io::ErrorKind;
    match error {
        Error::NotARegularFile { .. } => Errno::EINVAL,
        Error::Unsupported { .. } => Errno::EOPNOTSUPP,
        // No descriptor is left: it is the same for every file, and may pass.
        Error::Io { source, .. }
            if [Some(Errno::EMFILE.code()), Some(Errno::ENFILE.code())].contains(&source.raw_os_error()) =>
        {
            Errno::EMFILE
        }
        error => match error.io_kind() {
            Some(ErrorKind::NotFound) => Errno::ENOENT,
            // The kernel looks the name up again, and asks once more.
            Some(ErrorKind::StaleNetworkFileHandle) => Errno::ESTALE,
            Some(ErrorKind::NotADirectory) => Errno::ENOTDIR,
            Some(ErrorKind::InvalidInput) => Errno::EINVAL,
            Some(ErrorKind::PermissionDenied) => Errno::EACCES,
            Some(ErrorKind::Unsupported) => Errno::EOPNOTSUPP,
            _ => Errno::EIO,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_and_the_root_is_one() {
        let numbers = Numbers { root: NodeId::new(7) };
        assert_eq!(numbers.inode(NodeId::new(7)), INodeNo::ROOT);
        for id in [0, 1, 2, 6, 7, 8, 1 << 40] {
            assert_eq!(numbers.id(numbers.inode(NodeId::new(id))), NodeId::new(id), "{id}");
        }
        let others = [0, 1, 2, 8].map(|id| numbers.inode(NodeId::new(id)));
        assert!(others.iter().all(|inode| *inode != INodeNo::ROOT && inode.0 != 0));
    }

    #[test]
    fn what_a_tree_does_not_say_is_as_for_files_of_who_mounted_it() {
        let bare = attributes(INodeNo(5), &Node::file(1025), (3, 4)).unwrap();
        assert_eq!((bare.perm, bare.uid, bare.gid, bare.blocks), (0o644, 3, 4, 3));
        assert_eq!((bare.mtime, bare.nlink), (UNIX_EPOCH, 1));
        let early = Node { mtime_ns: Some(-1), mode: Some(0o4711), owner: Some((1, 2)), ..Node::file(0) };
        let early = attributes(INodeNo(5), &early, (3, 4)).unwrap();
        assert_eq!((early.perm, early.uid, early.gid), (0o4711, 1, 2));
        assert_eq!(early.mtime, UNIX_EPOCH - Duration::from_nanos(1));
        assert_eq!(attributes(INodeNo(5), &Node::new(Kind::Other), (0, 0)), None);
        let device = Node { device: rustix::fs::makedev(259, 300), ..Node::new(Kind::BlockDevice) };
        assert_eq!(attributes(INodeNo(5), &device, (0, 0)).unwrap().rdev, 0x0011_032c);
    }
}
