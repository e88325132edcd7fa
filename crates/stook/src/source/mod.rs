//! Anything that can be read by range.
//!
//! A [`Source`] does not read. It knows its length and its [`Identity`], and it flattens a range to
//! [`Leaf`]s: ranges of files and of objects, bytes that are already in memory, fills, bytes that
//! are verified on their way. A [`Session`] runs the leaves of any number of sources through one
//! engine, so that the queue stays full across all of them.

mod access;
mod address;
mod check;
mod described;
mod etag;
mod file;
mod forwards;
mod function;
mod identity;
mod memory;
mod object;
mod origin;
mod redact;
#[cfg(feature = "remote")]
pub mod remote;
mod session;

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub use access::AccessRule;
pub(crate) use access::SAMPLED_RANGES;
#[cfg(feature = "remote")]
pub use address::open_with;
pub use address::{check_path, is_remote, local_path, open};
pub use check::Check;
pub(crate) use check::verified;
pub use described::{Described, SETTLING_MAX, who_asks};
pub use file::FileSource;
pub use forwards::Forwards;
pub use function::{Fetch, FunctionSource};
pub use identity::Identity;
pub use memory::{MemorySource, zeroes};
pub use object::{Answer, Object, Pending, read_object};
pub use origin::Origin;
pub use redact::{shown, shown_in};
pub use session::{Session, SessionOptions, read_batch, read_range};

use crate::engine;
use crate::error::Result;
use crate::extent::ByteRange;
use crate::tree::Holes;

/// A piece of a resolved range. Every leaf knows its length.
#[derive(Debug, Clone)]
pub enum Leaf {
    /// A range of a file, to be read by the engine.
    File {
        /// The file.
        file: Arc<engine::File>,
        /// The range in it.
        range: ByteRange,
    },
    /// A range of an object, to be read by a request.
    Object {
        /// The object.
        object: Arc<dyn Object>,
        /// The range in it.
        range: ByteRange,
    },
    /// Bytes that are already here.
    Bytes(Bytes),
    /// One byte repeated.
    Fill {
        /// The byte.
        byte: u8,
        /// How often.
        len: u64,
    },
    /// Bytes that are verified before they are returned.
    Checked {
        /// What is read for them, and how it is verified.
        check: Arc<dyn Check>,
        /// How many.
        len: u64,
    },
}

impl Leaf {
    /// The number of bytes of this leaf.
    pub fn len(&self) -> u64 {
        match self {
            Self::File { range, .. } | Self::Object { range, .. } => range.len(),
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Fill { len, .. } | Self::Checked { len, .. } => *len,
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The cost of reading a source as a whole when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholeRead {
    /// Requests, those among them that were tries after the first.
    pub requests: u64,
    /// Bytes that came, those of tries that broke among them.
    pub bytes: u64,
    /// How long all of it took.
    pub time: Duration,
}

/// Files on disk: the device and the inode of each.
pub type Inodes = HashSet<(u64, u64)>;

/// Something that is read by range.
pub trait Source: Send + Sync + fmt::Debug {
    /// What to call it in messages: a path, or an address.
    fn path(&self) -> &Path;

    /// Its length in bytes, as it was when it was opened.
    fn len(&self) -> u64;

    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its identity when it was opened.
    fn identity(&self) -> Identity;

    /// Asks the medium for the identity it has now.
    ///
    /// # Errors
    /// Returns an error if it is gone or cannot be examined.
    fn current_identity(&self) -> Result<Identity>;

    /// Appends the leaves that make up `range`, in order; their lengths add up to `range.len()`.
    ///
    /// # Errors
    /// Returns [`Error::OutOfBounds`](crate::Error::OutOfBounds) if the range reaches past the end.
    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()>;

    /// [`Error::SourceChanged`](crate::Error::SourceChanged) if it has changed.
    ///
    /// # Errors
    /// Returns that error, and those of [`current_identity`](Self::current_identity).
    fn check_unchanged(&self) -> Result<()> {
        let (before, after) = (self.identity(), self.current_identity()?);
        if before.same_content(&after) {
            return Ok(());
        }
        Err(crate::Error::changed(self.path(), before, after))
    }

    /// The same for the parts of these ranges. A source made of many others checks the identities
    /// of those that the ranges touch; any other source checks its own, once.
    ///
    /// # Errors
    /// Returns the errors of [`check_unchanged`](Self::check_unchanged).
    fn check_ranges(&self, _ranges: &[ByteRange]) -> Result<()> {
        self.check_unchanged()
    }

    /// The origin of its bytes, by which a persistent cache recognises it.
    fn origin(&self) -> Origin {
        Origin::of_path(self.path())
    }

    /// Whether its identity is a proof: bytes read from now on cannot be of another state with the
    /// same identity. A cache keeps bytes beyond this opening only if they were read while that was
    /// so.
    fn is_proven(&self) -> bool {
        self.identity().is_settled()
    }

    /// Whether every read is checked against the identity that it had when it was opened, so that
    /// callers need not check the medium before and after.
    fn checks_reads(&self) -> bool {
        false
    }

    /// Whether its bytes come by requests, each of which has a high latency however short it is:
    /// such a source is best read in few long ranges.
    fn reads_by_request(&self) -> bool {
        false
    }

    /// The ranges that its medium does not keep because they are nothing but zeros: a copy can
    /// leave them out and make the same holes. None where the medium does not say, or knows none.
    /// Where they are asked for before the bytes are read, a source that is unchanged afterwards
    /// had them all the time.
    ///
    /// # Errors
    /// I/O errors.
    fn holes(&self) -> Result<Holes> {
        Ok(Holes::default())
    }

    /// The file on disk that has its bytes and nothing else, where there is one: it can be handed
    /// to the kernel as it is.
    fn whole_file(&self) -> Option<&Arc<engine::File>> {
        None
    }

    /// Notes the files on disk that its bytes are read from, which are lost where one of these is
    /// written over. A source made of others notes theirs.
    fn note_files(&self, files: &mut Inodes) {
        let Identity { device, inode, .. } = self.identity();
        if inode != 0 {
            files.insert((device, inode));
        }
    }

    /// What it took to read all of it when it was opened, if that was done: reads bring nothing
    /// more then, and a count of what was brought includes this.
    fn whole_read(&self) -> Option<WholeRead> {
        None
    }
}

/// The part of a range that a source has, as files give it: `None` where that is no byte.
pub fn within(source: &dyn Source, position: u64, len: u64) -> Option<ByteRange> {
    let left = source.len().saturating_sub(position);
    ByteRange::at(position, len.min(left)).filter(|range| !range.is_empty())
}

/// [`Error::OutOfBounds`](crate::Error::OutOfBounds) when the range reaches past the end of the
/// source: what every [`Source::resolve`] begins with.
///
/// # Errors
/// Returns that error.
pub fn check_bounds(source: &dyn Source, range: ByteRange) -> Result<()> {
    let len = source.len();
    if range.end() <= len {
        return Ok(());
    }
    Err(crate::Error::OutOfBounds { path: source.path().to_path_buf(), range, len })
}
