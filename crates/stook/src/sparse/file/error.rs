//! Errors of reads through a cache.

use std::sync::Arc;

use crate::Error;
use crate::sparse::SparseError;

/// Why a read through a cache failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SparseFileError {
    /// The source could not be read, or has changed. All threads that waited for the same bytes
    /// receive the same.
    #[error(transparent)]
    Source(Arc<Error>),
    /// The cache refused bytes of the source.
    #[error(transparent)]
    Cache(Arc<SparseError>),
}

impl SparseFileError {
    /// Whether the source has changed since it was opened.
    pub fn is_changed_source(&self) -> bool {
        matches!(self.source_error(), Some(Error::SourceChanged { .. }))
    }

    /// The error of the source, if it is one.
    pub(super) fn source_error(&self) -> Option<&Error> {
        match self {
            Self::Source(error) => Some(error),
            Self::Cache(_) => None,
        }
    }
}

impl From<Error> for SparseFileError {
    fn from(error: Error) -> Self {
        Self::Source(Arc::new(error))
    }
}

impl From<SparseError> for SparseFileError {
    fn from(error: SparseError) -> Self {
        Self::Cache(Arc::new(error))
    }
}
