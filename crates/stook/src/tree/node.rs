//! What a tree says of a file: its [`NodeId`], its [`Kind`] and its [`Node`].
//!
//! One type for what an inode, a record of a pack and a member of an archive say alike. What only
//! one of them knows stays with it: the state of the bytes is the
//! [`Identity`](crate::source::Identity) of the opened source, where they are stored is the
//! medium's affair, and names belong to directories.

use std::fmt;

use rustix::fs::FileType;

/// What an entry of a directory is. Links are links: they are never followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharDevice,
    /// What the system has no name for, or only the program knows that made it.
    Other,
}

impl Kind {
    /// Neither a directory nor a file nor a link: nothing that has bytes to read.
    pub const fn is_special(self) -> bool {
        !matches!(self, Self::Directory | Self::File | Self::Symlink)
    }

    /// `None` where the file system does not say.
    pub(crate) fn from_type(file_type: FileType) -> Option<Self> {
        match file_type {
            FileType::Directory => Some(Self::Directory),
            FileType::RegularFile => Some(Self::File),
            FileType::Symlink => Some(Self::Symlink),
            FileType::Fifo => Some(Self::Fifo),
            FileType::Socket => Some(Self::Socket),
            FileType::BlockDevice => Some(Self::BlockDevice),
            FileType::CharacterDevice => Some(Self::CharDevice),
            FileType::Unknown => None,
        }
    }

    /// The same, whatever the system says.
    pub(crate) fn of(file_type: FileType) -> Self {
        Self::from_type(file_type).unwrap_or(Self::Other)
    }

    /// What it is called where a file was expected: `a directory`.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Directory => "a directory",
            Self::File => "a regular file",
            Self::Symlink => "a symbolic link",
            Self::Fifo => "a named pipe",
            Self::Socket => "a socket",
            Self::BlockDevice => "a block device",
            Self::CharDevice => "a character device",
            Self::Other => "something unknown",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Directory => "directory",
            Self::File => "file",
            Self::Symlink => "symbolic link",
            Self::Fifo => "named pipe",
            Self::Socket => "socket",
            Self::BlockDevice => "block device",
            Self::CharDevice => "character device",
            Self::Other => "unknown kind",
        })
    }
}

/// Which node of a tree: the same for the life of the tree, and meaningless in any other tree. All
/// names of one file (hard links) have one id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u64);

impl NodeId {
    /// The id of a number: for implementations of [`Tree`](super::Tree), which choose them.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Which state of which inode a node on disk is: what distinguishes a file from another one, or
/// from its own past, where both have one length and one modification time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InodeState {
    /// Device that holds the inode.
    pub device: u64,
    /// Its number.
    pub inode: u64,
    /// Its change time, nanoseconds since 1970.
    pub ctime_ns: i64,
}

/// What a tree says of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Permission bits with set-uid, set-gid and sticky, without the file type (`0o7777` at most),
    /// where the tree has it.
    pub mode: Option<u32>,
    /// Modification time, nanoseconds since 1970, where the tree has it.
    pub mtime_ns: Option<i64>,
    /// User and group, where the tree has them.
    pub owner: Option<(u32, u32)>,
    /// Bytes of a file when it is read, of the target of a symbolic link; 0 for all else.
    pub len: u64,
    /// Names that the file has, those outside of the tree included where it knows of them; at least
    /// 1, and always 1 for a directory.
    pub links: u32,
    /// Which device a block or character device stands for, as `makedev` makes it; else 0.
    pub device: u64,
}

impl Node {
    /// A node of which no more is known than its kind: no bytes, one name.
    pub const fn new(kind: Kind) -> Self {
        Self { kind, mode: None, mtime_ns: None, owner: None, len: 0, links: 1, device: 0 }
    }

    /// A regular file of this many bytes, of which no more is known.
    pub const fn file(len: u64) -> Self {
        Self { len, ..Self::new(Kind::File) }
    }
}

/// What is known of all nodes of a tree before they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outline {
    /// How many there are, at most.
    pub nodes: u64,
    /// Bytes of all files, at most.
    pub bytes_max: u64,
    /// Bytes of the longest file, at most.
    pub longest_max: u64,
    /// Entries of the directory that has the most.
    pub most_entries: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_files_and_links_are_not_special() {
        let plain = [Kind::Directory, Kind::File, Kind::Symlink];
        assert!(plain.iter().all(|kind| !kind.is_special()));
        let special = [Kind::Fifo, Kind::Socket, Kind::BlockDevice, Kind::CharDevice, Kind::Other];
        assert!(special.iter().all(|kind| kind.is_special()));
        assert_eq!(Kind::from_type(FileType::Unknown), None);
        assert_eq!(Kind::from_type(FileType::Fifo), Some(Kind::Fifo));
    }
}
