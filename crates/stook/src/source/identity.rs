//! What tells one state of a source from another.

use std::fmt;
use std::sync::Arc;

/// Size, times and inode of a file; size, ETag or time of an object; or the like for other sources.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Identity {
    /// Length in bytes.
    pub len: u64,
    /// Device number (0 where there is none).
    pub device: u64,
    /// Inode number (0 where there is none).
    pub inode: u64,
    /// Modification time, nanoseconds since 1970 (0 where there is none).
    pub mtime_ns: i64,
    /// Change time of the inode, nanoseconds since 1970 (0 where there is none).
    pub ctime_ns: i64,
    /// What a server calls this state of an object, quotes and a `W/` included.
    pub etag: Option<Arc<str>>,
    /// The version of an object, on servers that keep several.
    pub version: Option<Arc<str>>,
}

impl Identity {
    /// Whether both say the bytes are the same. Any difference counts: a moved ctime may be no more
    /// than a new link, but it may also be a rewrite within one tick of the mtime. Only where both have an ETag,
    /// this and the length decide: servers behind one address may disagree about times.
    pub fn same_content(&self, other: &Self) -> bool {
        match (&self.etag, &other.etag) {
            (Some(before), Some(after)) => self.len == other.len && before == after,
            _ => self == other,
        }
    }

    /// Whether there is more than a length to tell it by.
    fn is_of_an_inode(&self) -> bool {
        self.inode != 0 || self.ctime_ns != 0
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len)?;
        if self.is_of_an_inode() {
            return write!(
                f,
                ", inode {}, modified {}, changed {}",
                self.inode,
                Seconds(self.mtime_ns),
                Seconds(self.ctime_ns)
            );
        }
        if let Some(etag) = &self.etag {
            write!(f, ", ETag {etag}")?;
        } else if self.mtime_ns != 0 {
            write!(f, ", modified {}", Seconds(self.mtime_ns))?;
        } else {
            write!(f, ", with neither an ETag nor a time")?;
        }
        match &self.version {
            Some(version) => write!(f, ", version {version}"),
            None => Ok(()),
        }
    }
}

struct Seconds(i64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0.div_euclid(1_000_000_000), self.0.rem_euclid(1_000_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etag_decides_where_both_have_one() {
        let with = |len, etag: Option<&str>, mtime_ns| Identity {
            len,
            mtime_ns,
            etag: etag.map(Arc::from),
            ..Identity::default()
        };
        assert!(with(5, Some("\"a\""), 1).same_content(&with(5, Some("\"a\""), 2)));
        assert!(!with(5, Some("\"a\""), 1).same_content(&with(6, Some("\"a\""), 1)));
        assert!(!with(5, Some("\"a\""), 1).same_content(&with(5, Some("W/\"a\""), 1)));
        assert!(!with(5, Some("\"a\""), 1).same_content(&with(5, None, 1)));
        assert!(!with(5, None, 1).same_content(&with(5, None, 2)));
    }

    #[test]
    fn it_says_what_it_is_told_by() {
        let mut identity = Identity { len: 7, inode: 3, mtime_ns: 1_500_000_000, ..Identity::default() };
        assert_eq!(identity.to_string(), "7 bytes, inode 3, modified 1.500000000, changed 0.000000000");
        identity.inode = 0;
        assert_eq!(identity.to_string(), "7 bytes, modified 1.500000000");
        identity.etag = Some("\"e\"".into());
        identity.version = Some("v2".into());
        assert_eq!(identity.to_string(), "7 bytes, ETag \"e\", version v2");
        let bare = Identity { len: 7, ..Identity::default() };
        assert_eq!(bare.to_string(), "7 bytes, with neither an ETag nor a time");
    }
}
