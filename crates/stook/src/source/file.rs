//! [`FileSource`]: a file that is read by range.
//!
//! Its length is fixed when it is made. It never reads; its leaves say where the bytes are.

use std::path::Path;
use std::sync::Arc;

use super::{Identity, Leaf, Source, check_bounds};
use crate::engine::File;
use crate::error::Result;
use crate::extent::ByteRange;

/// A file, or the first part of one that grows.
#[derive(Debug, Clone)]
pub struct FileSource {
    file: Arc<File>,
    identity: Identity,
    /// Whether the file may grow behind the length that is fixed here.
    is_prefix: bool,
}

impl FileSource {
    /// Opens a file for reading, with the length it has now.
    ///
    /// # Errors
    /// What the system met.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::new(Arc::new(File::open(path)?))
    }

    /// An open file, with the length it has now.
    ///
    /// # Errors
    /// What the system met.
    pub fn new(file: Arc<File>) -> Result<Self> {
        let identity = file.identity()?;
        Ok(Self { file, identity, is_prefix: false })
    }

    /// The first `len` bytes of a file that others append to. Its identity leaves out the times, and
    /// does not change while the file is at least that long.
    ///
    /// # Errors
    /// What the system met.
    pub fn prefix(file: Arc<File>, len: u64) -> Result<Self> {
        let identity = Identity { len, ..identity_of_prefix(&file, len)? };
        Ok(Self { file, identity, is_prefix: true })
    }

    /// The file it reads.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }
}

fn identity_of_prefix(file: &File, len: u64) -> Result<Identity> {
    let now = file.identity()?;
    Ok(Identity { len: now.len.min(len), mtime_ns: 0, ctime_ns: 0, ..now })
}

impl Source for FileSource {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn len(&self) -> u64 {
        self.identity.len
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn current_identity(&self) -> Result<Identity> {
        if self.is_prefix { identity_of_prefix(&self.file, self.identity.len) } else { self.file.identity() }
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        check_bounds(self, range)?;
        if !range.is_empty() {
            leaves.push(Leaf::File { file: Arc::clone(&self.file), range });
        }
        Ok(())
    }
}
