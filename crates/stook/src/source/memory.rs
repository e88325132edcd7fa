//! [`MemorySource`]: bytes in memory that are read like a file.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::{Identity, Leaf, Source, check_bounds};
use crate::error::Result;
use crate::extent::ByteRange;

/// Zeroes for holes: `len` of them, but at most 64 KiB at once. There is only one array of them,
/// since it takes space in the binary.
pub fn zeroes(len: u64) -> &'static [u8] {
    static ZEROES: [u8; 64 << 10] = [0; 64 << 10];
    usize::try_from(len).ok().and_then(|len| ZEROES.get(..len)).unwrap_or(&ZEROES)
}

/// Bytes under a name. They never change, and reading them copies nothing.
#[derive(Debug, Clone)]
pub struct MemorySource {
    path: PathBuf,
    bytes: Bytes,
}

impl MemorySource {
    /// These bytes, called `path` in messages.
    pub fn new(path: impl Into<PathBuf>, bytes: impl Into<Bytes>) -> Self {
        Self { path: path.into(), bytes: bytes.into() }
    }
}

impl Source for MemorySource {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn identity(&self) -> Identity {
        Identity { len: self.len(), ..Identity::default() }
    }

    fn current_identity(&self) -> Result<Identity> {
        Ok(self.identity())
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        check_bounds(self, range)?;
        if !range.is_empty() {
            // The bounds are those of a slice in memory, so they fit.
            let bytes = self.bytes.slice(range.start() as usize..range.end() as usize);
            leaves.push(Leaf::Bytes(bytes));
        }
        Ok(())
    }
}
