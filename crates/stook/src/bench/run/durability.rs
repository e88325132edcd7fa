//! [`Durability`]: what it takes until all that was written is on the medium.

use std::fs;
use std::path::Path;
use std::time::Instant;

use super::super::environment::Mount;
use super::super::error::Result;
use super::super::layout::TestFile;
use crate::engine::File;

/// File systems that write elsewhere what is overwritten, and later the tree that leads there. Syncing a file
/// of theirs writes a log, and leaves the rest of the work for later.
const COPY_ON_WRITE: [&str; 3] = ["bcachefs", "btrfs", "zfs"];

/// What has to be synced.
#[derive(Debug)]
pub(super) struct Durability {
    file: File,
    /// Something on its file system, where all of that has to be.
    file_system: Option<fs::File>,
}

impl Durability {
    pub(super) fn of(target: &TestFile) -> Result<Self> {
        let mount = Mount::of(target.path());
        let is_copied = mount.is_some_and(|mount| COPY_ON_WRITE.contains(&mount.kind.as_str()));
        let file_system = if is_copied { Some(open_there(target.path())?) } else { None };
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
