//! [`Stated`]: what a listing or a layout says of a file, which it has to be when it is opened.

use crate::source::Identity;
use crate::tree::InodeState;

/// What is known of a file before it is opened. What is not known is anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stated {
    /// Its length.
    pub(super) len: Option<u64>,
    /// When it was modified.
    pub(super) mtime_ns: Option<i64>,
    /// Which state of which inode it is. A listing of a directory says so; a layout does not,
    /// because it may be copied elsewhere with its files, where they are other inodes.
    pub(super) inode: Option<InodeState>,
}

/// What of a file is not what was said of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Difference {
    /// Another length.
    Len,
    /// Another time.
    Mtime,
    /// Another file, or one that was changed without a trace in both.
    Inode,
}

impl Stated {
    /// What of a file is something else, if anything is.
    pub(super) fn difference(&self, found: &Identity) -> Option<Difference> {
        let inode = InodeState { device: found.device, inode: found.inode, ctime_ns: found.ctime_ns };
        let of = |is_same: bool, difference| (!is_same).then_some(difference);
        of(self.len.is_none_or(|len| len == found.len), Difference::Len)
            .or(of(self.mtime_ns.is_none_or(|mtime_ns| mtime_ns == found.mtime_ns), Difference::Mtime))
            .or(of(self.inode.is_none_or(|stated| stated == inode), Difference::Inode))
    }

    /// The same for messages.
    pub(super) fn identity(&self) -> Identity {
        let inode = self.inode.unwrap_or(InodeState { device: 0, inode: 0, ctime_ns: 0 });
        Identity {
            len: self.len.unwrap_or(0),
            mtime_ns: self.mtime_ns.unwrap_or(0),
            device: inode.device,
            inode: inode.inode,
            ctime_ns: inode.ctime_ns,
            ..Identity::default()
        }
    }
}
