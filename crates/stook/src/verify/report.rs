//! [`VerifyReport`]: what was found.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::device::Attachment;
use crate::engine::Passage;
use crate::extent::ByteRange;
use crate::hash::{Digest, HashKind};
use crate::report::units;
use crate::tree::Kind;

/// What distinguishes what is there from what should be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// It is something else.
    Kind {
        /// What should be there.
        expected: Kind,
        /// What is.
        found: Kind,
    },
    /// It has another length.
    Len {
        /// Bytes that it should have.
        expected: u64,
        /// Bytes that it has.
        found: u64,
    },
    /// It has another digest than its list says.
    Digest {
        /// What the list says.
        expected: Digest,
        /// What it has.
        found: Option<Digest>,
    },
    /// It has none of the digests that a line of its list may mean, which does not say of which
    /// function it is.
    AnyDigest {
        /// What the list says.
        expected: String,
        /// The functions that it may be of.
        kinds: Vec<HashKind>,
    },
    /// It has other bytes than the file that it was compared with.
    Content,
    /// It is a link that leads elsewhere.
    Target {
        /// Where it should lead.
        expected: Vec<u8>,
        /// Where it leads.
        found: Vec<u8>,
    },
    /// It stands for another device.
    Device {
        /// The number that it should have.
        expected: u64,
        /// The number that it has.
        found: u64,
    },
}

impl Difference {
    /// It in one word: `kind`, `length`, `digest`, `content`, `target` or `device`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Kind { .. } => "kind",
            Self::Len { .. } => "length",
            Self::Digest { .. } | Self::AnyDigest { .. } => "digest",
            Self::Content => "content",
            Self::Target { .. } => "target",
            Self::Device { .. } => "device",
        }
    }
}

impl Difference {
    /// The hash function, where digests differ.
    pub fn hash(&self) -> Option<HashKind> {
        match self {
            Self::Digest { expected, .. } => Some(expected.kind),
            _ => None,
        }
    }

    /// What should be there, and what is, as text where there is one: digests, lengths in bytes,
    /// kinds, targets of links with control characters escaped, numbers of devices.
    pub fn sides(&self) -> (Option<String>, Option<String>) {
        let target = |bytes: &[u8]| Some(crate::names::escaped(bytes).to_string());
        match self {
            Self::Kind { expected, found } => (Some(expected.to_string()), Some(found.to_string())),
            Self::Len { expected, found } | Self::Device { expected, found } => {
                (Some(expected.to_string()), Some(found.to_string()))
            }
            Self::Digest { expected, found } => {
                (Some(expected.to_string()), found.as_ref().map(ToString::to_string))
            }
            Self::AnyDigest { expected, .. } => (Some(expected.clone()), None),
            Self::Content => (None, None),
            Self::Target { expected, found } => (target(expected), target(found)),
        }
    }
}

/// The names of functions in words: `md5, xxh3 and xxh128`.
pub fn joined_names(kinds: &[HashKind], last: &str) -> String {
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    match names.split_last() {
        Some((end, rest)) if !rest.is_empty() => format!("{} {last} {end}", rest.join(", ")),
        _ => names.join(", "),
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind { expected, found } => {
                write!(f, "it is {}, and should be {}", found.noun(), expected.noun())
            }
            Self::Len { expected, found } => {
                let (expected, found) = (units::bytes_exact(*expected), units::bytes_exact(*found));
                write!(f, "it has {found}, and should have {expected}")
            }
            Self::Digest { expected, found: Some(found) } => {
                write!(f, "{} is {found}, and should be {expected}", expected.kind.name())
            }
            Self::Digest { expected, found: None } => {
                write!(f, "{} should be {expected}", expected.kind.name())
            }
            Self::AnyDigest { expected, kinds } => {
                write!(f, "none of {} is {expected}", joined_names(kinds, "and"))
            }
            Self::Content => f.write_str("it has other bytes"),
            Self::Target { expected, found } => {
                let (expected, found) = (crate::names::escaped(expected), crate::names::escaped(found));
                write!(f, "the link leads to {found}, and should lead to {expected}")
            }
            Self::Device { expected, found } => {
                write!(f, "it stands for device {found:#x}, and should for {expected:#x}")
            }
        }
    }
}

/// The blocks of a file, of 1 MiB each, that are not what its list says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BadBlocks {
    /// Where they are, in order, those that touch as one; the first thousand ranges. What a file
    /// has beyond its end is one, too.
    pub ranges: Vec<ByteRange>,
    /// How many blocks are bad.
    pub bad: u64,
    /// How many it should have.
    pub blocks: u64,
    /// Blocks of which it is not known, because the proof is damaged above them.
    pub unknown: u64,
    /// Why the first block that cannot be read cannot, with its offset. It is bad.
    pub read_error: Option<String>,
}

impl BadBlocks {
    /// Whether all of these blocks are what the list says, and nothing follows them.
    pub fn is_none(&self) -> bool {
        self.bad == 0 && self.unknown == 0 && self.ranges.is_empty()
    }

    /// Ranges in order, those that touch as one, and no more of them than this.
    pub(crate) fn settle(&mut self, most: usize) {
        self.ranges.sort_unstable_by_key(|range| range.start());
        let mut settled: Vec<ByteRange> = Vec::with_capacity(self.ranges.len());
        for range in &self.ranges {
            match settled.last_mut() {
                Some(last) if last.end() >= range.start() => {
                    let end = last.end().max(range.end());
                    *last = ByteRange::new(last.start(), end).unwrap_or(*last);
                }
                _ => settled.push(*range),
            }
        }
        settled.truncate(most);
        self.ranges = settled;
    }
}

/// A path that is there, and is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Its path in the tree.
    pub key: Vec<u8>,
    /// What is different.
    pub difference: Difference,
    /// The first byte that differs from the file that it was compared with, where there is one. If
    /// one of them is the beginning of the other, it is the length of that one.
    pub offset: Option<u64>,
    /// Whether it was compared with another file byte by byte, and had the same. It differs from
    /// its list then, or a read before gave other bytes.
    pub is_like_other: bool,
    /// Which of its blocks are bad, where its list has a proof of it.
    pub bad: Option<BadBlocks>,
}

/// A path that nothing says should be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extra {
    /// Its path in the tree.
    pub key: Vec<u8>,
    /// What it is.
    pub kind: Kind,
}

/// A path of which it is not known what is there, and why. The error names the file that it is
/// about: it may be that of the other tree.
#[derive(Debug)]
pub struct Unreadable {
    /// Its path in the tree.
    pub key: Vec<u8>,
    /// Where in the file, if that is known: the first byte of what could not be read at once.
    pub offset: Option<u64>,
    /// Why.
    pub error: crate::Error,
    /// Which of its blocks are bad, where its list has a proof of it.
    pub bad: Option<BadBlocks>,
}

impl Unreadable {
    pub(super) fn new(key: Vec<u8>, error: crate::Error) -> Self {
        let offset = match &error {
            crate::Error::Io { offset, .. } => *offset,
            crate::Error::ShortRead { offset, .. }
            | crate::Error::LongRead { offset, .. }
            | crate::Error::Damaged { offset, .. } => Some(*offset),
            crate::Error::Remote(error) => error.range.map(|range| range.start()),
            _ => None,
        };
        Self { key, offset, error, bad: None }
    }
}

/// What was found of one tree. Every path counts once.
#[derive(Debug, Default)]
pub struct SubjectReport {
    /// The tree.
    pub path: PathBuf,
    /// Whether it is a single file, whose path is all of `path`.
    pub is_file: bool,
    /// Whether its files are none on disk by themselves: they are in an archive, say. Bytes that
    /// were read and bytes of files may not be the same then.
    pub is_packed: bool,
    /// What is as it should be: files, and, compared with another tree, links and special files.
    pub matching: u64,
    /// Bytes of files that are as they should be.
    pub matching_bytes: u64,
    /// Directories that both trees have.
    pub directories: u64,
    /// Files that no list has, where digests for a new list were asked for.
    pub new: u64,
    /// What is not as it should be.
    pub mismatching: Vec<Mismatch>,
    /// Paths of what should be there, and is not.
    pub missing: Vec<Vec<u8>>,
    /// What is there, and should not.
    pub extra: Vec<Extra>,
    /// What could not be read.
    pub unreadable: Vec<Unreadable>,
    /// Bytes that were read and hashed, those of files that were read again included.
    pub read_bytes: u64,
    /// Which way they took.
    pub passage: Passage,
    /// What the tree lies on.
    pub lies_on: Attachment,
    /// How long it was read, after it was listed. Trees on one disk are verified one after another.
    pub elapsed: Duration,
}

impl SubjectReport {
    /// How many paths are not as they should be; extras among them.
    pub fn wrong(&self) -> u64 {
        self.damaged() + self.extra.len() as u64
    }

    /// The same without extras.
    pub fn damaged(&self) -> u64 {
        (self.mismatching.len() + self.missing.len() + self.unreadable.len()) as u64
    }

    /// Where a path of it is.
    pub fn place(&self, key: &[u8]) -> PathBuf {
        match key.is_empty() || self.is_file {
            true => self.path.clone(),
            false => self.path.join(OsStr::from_bytes(key)),
        }
    }

    /// Whether all bytes came from below the page cache of this machine: they went past it, no file
    /// system keeps them in memory or has a process serve them, and no device on the way does, such
    /// as a loop device that reads its file through the page cache. What a disk, or the server of
    /// a network file system, has in its own memory is not known. `None` where nothing was read,
    /// and where it cannot be known: compressed files of an archive are unpacked from fewer bytes,
    /// and servers are no disks.
    pub fn is_past_cache(&self) -> Option<bool> {
        if self.read_bytes == 0 {
            return None;
        }
        let Passage { direct_bytes, cached_bytes, .. } = self.passage;
        let is_served = self.lies_on.file_system.as_ref().is_some_and(|kind| kind.starts_with("fuse"));
        let is_direct = cached_bytes == 0 && direct_bytes >= self.read_bytes;
        let is_kept = self.lies_on.is_memory || self.lies_on.cached_by.is_some();
        let is_unknown = self.is_packed && cached_bytes == 0 && !is_direct && !is_kept && !is_served;
        (!is_unknown).then_some(is_direct && !is_kept && !is_served)
    }
}

/// What was found.
#[derive(Debug, Default)]
pub struct VerifyReport {
    /// Each tree, in the order in which they were given.
    pub subjects: Vec<SubjectReport>,
    /// Whether the caller stopped it before its end.
    pub interrupted: bool,
    /// How long it took.
    pub elapsed: Duration,
}

impl VerifyReport {
    /// How many paths are not as they should be; extras among them.
    pub fn wrong(&self) -> u64 {
        self.subjects.iter().map(SubjectReport::wrong).sum()
    }

    /// The same without extras.
    pub fn damaged(&self) -> u64 {
        self.subjects.iter().map(SubjectReport::damaged).sum()
    }
}
