//! [`VerifyOptions`]: how trees are verified.

use super::error::{Error, Result};
use crate::hash::HashKind;
use crate::source::AccessRule;

/// Threads that read one tree, at most.
const JOBS_MAX: usize = 256;

/// How trees are verified.
#[derive(Debug, Clone, Default)]
pub struct VerifyOptions {
    /// Read through the page cache. That is quicker for what is in it, and shows what memory has,
    /// not what the medium has.
    pub cached: bool,
    /// Computed of each file, whatever its list asks for: for lists that are to be made. A file
    /// that no list has is [new](super::Outcome::New) then, and not extra, unless it is compared
    /// with another tree.
    pub digests: Vec<HashKind>,
    /// Whether files of more than a block have their [proof](crate::format::proof) made, where
    /// their BLAKE3 is computed. It takes 64 bytes of memory for each MiB of a file that is read.
    pub proofs: bool,
    /// Threads that read and hash the files of one tree, 1 to 256. As many as there are processors
    /// where it is not said, and one where a disk rotates.
    pub jobs: Option<usize>,
}

impl VerifyOptions {
    /// Refuses what cannot be meant.
    pub(super) fn check(&self) -> Result<()> {
        match self.jobs.filter(|jobs| !(1..=JOBS_MAX).contains(jobs)) {
            Some(jobs) => {
                Err(Error::Invalid(format!("the number of jobs must be 1 to {JOBS_MAX}, not {jobs}")))
            }
            None => Ok(()),
        }
    }

    /// Whether digests are asked for that no list has.
    pub(super) fn makes_lists(&self) -> bool {
        !self.digests.is_empty()
    }

    /// The way that bytes take.
    pub(crate) fn access(&self) -> AccessRule {
        if self.cached { AccessRule::Cached } else { AccessRule::Direct }
    }
}
