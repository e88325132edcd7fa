//! How much of what is to be read is in the page cache.

use std::sync::Arc;

use crate::Result;
use crate::engine::{CacheResidency, File};
use crate::extent::ByteRange;
use crate::source::{Leaf, Source};

/// Bytes of one source.
pub type SourceSpan = (Arc<dyn Source>, ByteRange);

/// What is known of the page cache before something is read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cached {
    /// This share of the bytes is in it, 0 to 1.
    Share(f64),
    /// The system does not say.
    Unknown,
    /// The system says it only to users who may write to the files.
    Denied,
    /// Bytes come from a server, and there is no page cache of them here.
    Elsewhere,
}

impl Cached {
    /// The share, where it is known.
    pub fn share(self) -> Option<f64> {
        match self {
            Self::Share(share) => Some(share),
            Self::Unknown | Self::Denied | Self::Elsewhere => None,
        }
    }

    /// How much of these bytes is in the page cache.
    ///
    /// # Errors
    /// Errors of finding out where they lie.
    pub fn of(spans: &[SourceSpan]) -> Result<Self> {
        let leaves = leaves(spans)?;
        let (mut files, mut is_elsewhere) = (Vec::new(), false);
        add_files(&leaves, &mut files, &mut is_elsewhere);
        if is_elsewhere {
            return Ok(Self::Elsewhere);
        }
        let (mut cached, mut total) = (0_u64, 0_u64);
        for (file, range) in files {
            let cached_bytes = match CacheResidency::of(&file, range) {
                CacheResidency::Known { cached_bytes, .. } => cached_bytes,
                CacheResidency::Denied => return Ok(Self::Denied),
                CacheResidency::Unknown => return Ok(Self::Unknown),
            };
            cached = cached.saturating_add(cached_bytes);
            total = total.saturating_add(range.len());
        }
        Ok(Self::Share(cached as f64 / total.max(1) as f64))
    }
}

/// The files that bytes lie in, and the ranges of them.
///
/// # Errors
/// Errors of finding out where they lie.
pub fn files_of(spans: &[SourceSpan]) -> Result<Vec<(Arc<File>, ByteRange)>> {
    let mut files = Vec::new();
    add_files(&leaves(spans)?, &mut files, &mut false);
    Ok(files)
}

fn leaves(spans: &[SourceSpan]) -> Result<Vec<Leaf>> {
    let mut leaves = Vec::new();
    for (source, range) in spans {
        source.resolve(*range, &mut leaves)?;
    }
    Ok(leaves)
}

fn add_files(leaves: &[Leaf], files: &mut Vec<(Arc<File>, ByteRange)>, is_elsewhere: &mut bool) {
    for leaf in leaves {
        match leaf {
            Leaf::File { file, range } => files.push((Arc::clone(file), *range)),
            Leaf::Checked { check, .. } => add_files(check.leaves(), files, is_elsewhere),
            Leaf::Object { .. } => *is_elsewhere = true,
            Leaf::Bytes(_) | Leaf::Fill { .. } => {}
        }
    }
}
