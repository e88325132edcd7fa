//! What tells one state of a source from another.

use std::fmt;

/// Size, times and inode of a file, or the like for other sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Identity {
    /// Length in bytes.
    pub len: u64,
    /// Device number (0 where there is none).
    pub device: u64,
    /// Inode number (0 where there is none).
    pub inode: u64,
    /// Modification time, nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Change time of the inode, nanoseconds since 1970.
    pub ctime_ns: i64,
}

impl Identity {
    /// Whether both say the bytes are the same. Any difference counts: a moved ctime may be no more
    /// than a new link, but it may also be a rewrite within one tick of the mtime.
    pub fn same_content(&self, other: &Self) -> bool {
        self == other
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes, inode {}, modified {}.{:09}, changed {}.{:09}",
            self.len,
            self.inode,
            self.mtime_ns.div_euclid(1_000_000_000),
            self.mtime_ns.rem_euclid(1_000_000_000),
            self.ctime_ns.div_euclid(1_000_000_000),
            self.ctime_ns.rem_euclid(1_000_000_000),
        )
    }
}
