//! [`Durability`]: the time until all written data is on the medium.

use std::fs;
use std::path::Path;
use std::time::Instant;

use super::super::error::Result;
use super::super::layout::TestFile;
use crate::device::Below;
use crate::engine::File;

/// What must be synced.
#[derive(Debug)]
pub(super) struct Durability {
    file: File,
    /// Something on its file system, where all of that has to be.
    file_system: Option<fs::File>,
}

impl Durability {
    pub(super) fn of(target: &TestFile, below: &Below) -> Result<Self> {
        // Syncing an overlay syncs the file system of its upper directory.
        let file_system = if below.is_copy_on_write() { Some(open_there(target.path())?) } else { None };
        Ok(Self { file: target.reopen()?, file_system })
    }

    /// Waits until everything is durable; returns how many seconds that took.
    pub(super) fn sync_s(&self) -> Result<f64> {
        let begin = Instant::now();
        match &self.file_system {
            None => self.file.sync_all()?,
            Some(file_system) => rustix::fs::syncfs(file_system).map_err(|error| {
                crate::Error::io("sync the file system of", self.file.path(), error.into())
            })?,
        }
        Ok(begin.elapsed().as_secs_f64())
    }
}

/// A file without a name any more lies where its directory does.
fn open_there(path: &Path) -> Result<fs::File> {
    let opened = fs::File::open(path).or_else(|_| fs::File::open(path.parent().unwrap_or(path)));
    opened.map_err(|error| crate::Error::io("open", path, error).into())
}
