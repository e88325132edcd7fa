//! What the simulator records: one entry for every change that reaches the medium.

use std::fmt;

use bytes::Bytes;

/// The number of a file in the simulated medium; names point to it.
pub type Inode = u64;

/// A change of the medium, or a request to make changes durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// A name for a new, empty file.
    Create {
        /// The name.
        name: String,
        /// The file that it leads to.
        inode: Inode,
    },
    /// One more name for a file, or the first one for a file that was made without.
    Link {
        /// The file.
        inode: Inode,
        /// The name.
        name: String,
    },
    /// Bytes handed to the system.
    Write {
        /// The file.
        inode: Inode,
        /// Where the first byte goes.
        offset: u64,
        /// The bytes.
        bytes: Bytes,
    },
    /// The file cut to a length.
    Truncate {
        /// The file.
        inode: Inode,
        /// Its length afterwards, in bytes.
        len: u64,
    },
    /// An attribute of the file set, or taken away.
    Set {
        /// The file.
        inode: Inode,
        /// `mode`, `owner`, `mtime`, or the name of an extended attribute.
        attribute: String,
        /// What it is then; `None` if there is none any more.
        value: Option<Vec<u8>>,
    },
    /// The file made durable, its attributes too, without its name.
    Sync {
        /// The file.
        inode: Inode,
    },
    /// A file gets another name.
    Rename {
        /// The file.
        inode: Inode,
        /// The name it had.
        from: String,
        /// The name it gets.
        to: String,
    },
    /// Two files exchange their names, at once.
    Exchange {
        /// A name, and the file that it leads to afterwards.
        one: (String, Inode),
        /// The other.
        other: (String, Inode),
    },
    /// A name taken away.
    Unlink {
        /// The name.
        name: String,
    },
    /// All names made durable.
    SyncDirectory,
    /// The names of one directory made durable.
    SyncNames {
        /// The directory, empty for the root.
        directory: String,
    },
    /// A lock taken. It changes nothing on the medium: the lock file's creation and content are
    /// operations of their own.
    Lock {
        /// The name of the lock file.
        name: String,
    },
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { name, inode } => write!(f, "create {name} (inode {inode})"),
            Self::Link { inode, name } => write!(f, "link {name} (inode {inode})"),
            Self::Write { inode, offset, bytes } => {
                write!(f, "write {} bytes at {offset} of inode {inode}", bytes.len())
            }
            Self::Truncate { inode, len } => write!(f, "truncate inode {inode} to {len}"),
            Self::Set { inode, attribute, .. } => write!(f, "set {attribute} of inode {inode}"),
            Self::Sync { inode } => write!(f, "sync inode {inode}"),
            Self::Rename { inode, from, to } => write!(f, "rename {from} to {to} (inode {inode})"),
            Self::Exchange { one: (one, _), other: (other, _) } => write!(f, "exchange {one} and {other}"),
            Self::Unlink { name } => write!(f, "unlink {name}"),
            Self::SyncDirectory => f.write_str("sync directory"),
            Self::SyncNames { directory } => write!(f, "sync directory {directory:?}"),
            Self::Lock { name } => write!(f, "lock {name}"),
        }
    }
}

/// An operation and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The requested operation.
    pub operation: Operation,
    /// Whether it was reported as failed. A failed write may have left a part of its bytes; after a
    /// failed sync it is never known whether its bytes are durable.
    pub failed: bool,
}
