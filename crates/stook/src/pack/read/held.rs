//! [`HeldFrame`]: a frame in memory, read as if it were in its place in its segment.

use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::error::Result;
use crate::extent::ByteRange;
use crate::source::{Identity, Leaf, Source};

/// Bytes from `base` on; bytes before them read as zeros.
#[derive(Debug)]
pub(crate) struct HeldFrame {
    pub(crate) path: PathBuf,
    pub(crate) base: u64,
    pub(crate) bytes: Bytes,
}

impl Source for HeldFrame {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    fn identity(&self) -> Identity {
        Identity { len: self.len(), ..Identity::default() }
    }

    fn current_identity(&self) -> Result<Identity> {
        Ok(self.identity())
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        crate::source::check_bounds(self, range)?;
        let before = range.end().min(self.base).saturating_sub(range.start());
        if before > 0 {
            leaves.push(Leaf::Fill { byte: 0, len: before });
        }
        let from = range.start().max(self.base) - self.base;
        let to = range.end().saturating_sub(self.base);
        if from < to {
            // The bounds are those of a slice in memory, so they fit.
            leaves.push(Leaf::Bytes(self.bytes.slice(from as usize..to as usize)));
        }
        Ok(())
    }
}
