//! [`Wds`]: shards of WebDataset: tars in which the files of a sample stand together.

use std::path::PathBuf;

use super::error::Result;
use super::layout::{Laid, Layout as _};
use super::members::Members;
use super::tar::Tar;

/// What the end of a tar takes, at most: it is filled up to a multiple of that.
const END_BYTES: u64 = 20 * 512;

/// Shards of WebDataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wds {
    /// How many bytes a shard has at most; one that has a single sample may have more. `None`: all
    /// samples are in one.
    pub shard_bytes: Option<u64>,
    /// What the names of shards begin with, before the number.
    pub prefix: String,
    /// As of a [`Tar`].
    pub deterministic: bool,
}

impl Wds {
    /// Lays members out in shards, each with its name (`000000.tar`). A sample is what has the same
    /// path up to the first dot in its name. Samples stand in the order of their paths.
    ///
    /// # Errors
    /// As [`Members::into_shards`].
    pub fn lay_out(&self, members: Members) -> Result<Vec<Laid>> {
        let tar = Tar { deterministic: self.deterministic };
        let most = self.shard_bytes.map(|bytes| bytes.saturating_sub(END_BYTES));
        let shards = members.into_shards(most, |member| tar.len_of(member))?;
        let named = shards.into_iter().enumerate();
        let lay_out = |(number, members)| {
            tar.lay_out(PathBuf::from(format!("{}{number:06}.tar", self.prefix)), members)
        };
        named.map(lay_out).collect()
    }
}
