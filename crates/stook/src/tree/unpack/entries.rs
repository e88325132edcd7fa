//! What is unpacked, whatever it lies in: entries one after another, each with its bytes.

use crate::tree::Failure;
use crate::tree::target::FileMetadata;

/// Entries on their way out: the records of a pack, the members of an archive.
///
/// Bytes are asked for between two entries, or not at all; what is left of them is skipped. They
/// are verified as they come, and are the right ones only when none follow.
pub(crate) trait Entries {
    /// Why something cannot be unpacked.
    type Error: EntryError;

    /// The next entry, in any order; directories need not come before what is in them.
    ///
    /// # Errors
    /// What ends all of it. What costs one entry is a [`Next::Failed`].
    fn next(&mut self) -> Result<Next<Self::Error>, Self::Error>;

    /// The next bytes of the file that [`next`](Self::next) returned; nothing after the last.
    ///
    /// # Errors
    /// That they are not there, or not the right ones. The next entry can still be asked for.
    fn piece(&mut self) -> Result<Option<Piece<'_>>, Self::Error>;

    /// What the symbolic link that [`next`](Self::next) returned leads to.
    ///
    /// # Errors
    /// As [`piece`](Self::piece), and that no link can lead there.
    fn link_target(&mut self) -> Result<Vec<u8>, Self::Error>;

    /// Begins the bytes of an entry again. It is asked only of one with [`Entry::first`].
    ///
    /// # Errors
    /// As [`piece`](Self::piece).
    fn rewind(&mut self) -> Result<(), Self::Error>;

    /// How many it has gone through, with those that are not wanted.
    fn seen(&self) -> u64;
}

/// What entries fail with.
pub(crate) trait EntryError: From<crate::Error> + Send {
    /// That an entry is refused.
    fn refused(why: String) -> Self;

    /// Whether no other entry can be unpacked either.
    fn is_of_all(&self) -> bool {
        false
    }
}

/// What comes next.
#[derive(Debug)]
pub(crate) enum Next<E> {
    /// An entry to be unpacked.
    Entry(Entry),
    /// Nothing yet: what was gone through is not wanted. The caller may stop here.
    Passed,
    /// Something that cannot be unpacked.
    Failed(Failure<E>),
    /// Nothing more.
    End,
}

/// An entry to be unpacked.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its path below the target. What could lead out of that is refused.
    pub(crate) key: Vec<u8>,
    pub(crate) kind: EntryKind,
    pub(crate) metadata: FileMetadata,
    /// How many bytes a file has, if that is known before they come.
    pub(crate) len: Option<u64>,
    /// Of a file that may have several names: the same bytes for all of them, and for no other.
    pub(crate) file: Option<Vec<u8>>,
    /// The key that an earlier run may have given to the same file.
    pub(crate) first: Option<Vec<u8>>,
}

/// What an entry becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Directory,
    /// A file; in [`Unpacking::links`](super::Unpacking::links), a further name of one.
    File,
    Symlink,
}

/// A part of the bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// Bytes; none at all where much had to be skipped first, so that the caller may stop.
    Bytes(&'a [u8]),
    /// This many zeros, which are a hole of what they come from.
    Hole(u64),
}

impl Piece<'_> {
    /// Its bytes, those of a hole included.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Hole(len) => *len,
        }
    }
}
