//! A mount that fails on command.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fuser::{BackgroundSession, Config, MountOption};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;

use super::PageCache;
use super::nodes::Nodes;
use super::passthrough::Passthrough;
use super::script::{Operation, Rule};
use super::shared::Shared;

/// A directory seen through a file system that fails on command; unmounted when it is dropped.
///
/// One thread serves it, so operations come one after another, and their numbers are the same in
/// each run of a program that makes them one after another.
#[derive(Debug)]
pub struct FaultMount {
    shared: Arc<Shared>,
    session: Option<BackgroundSession>,
    mountpoint: TempDir,
}

impl FaultMount {
    /// Mounts a directory; it can be written to. Nothing fails yet, and all that is there is
    /// durable. A copy of it is kept in memory.
    ///
    /// # Errors
    /// Returns an error if it cannot be read or mounted.
    pub fn mount(directory: &Path, page_cache: PageCache) -> io::Result<Self> {
        Self::with(directory, page_cache, true)
    }

    pub(super) fn with(directory: &Path, page_cache: PageCache, is_writable: bool) -> io::Result<Self> {
        // Each file and directory that was seen is kept open. Where that is refused, opening one
        // too many says so.
        let limit = getrlimit(Resource::Nofile);
        let _raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
        let shared = Arc::new(Shared::new(Nodes::new(directory)?, is_writable)?);
        let mountpoint = tempfile::tempdir()?;
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("faults".into())];
        if !is_writable {
            config.mount_options.push(MountOption::RO);
        }
        let file_system = Passthrough { shared: shared.clone(), page_cache };
        let session = fuser::spawn_mount(file_system, mountpoint.path(), &config)?;
        Ok(Self { shared, session: Some(session), mountpoint })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.mountpoint.path()
    }

    /// From now on names that differ only in upper and lower case are one, as on FAT.
    pub fn fold_case(&self) {
        self.shared.state().nodes.folds_case = true;
    }

    /// From now on this fails. The rule counts from here.
    pub fn add(&self, rule: Rule) {
        self.shared.state().script.add(rule);
    }

    /// From now on nothing fails.
    pub fn heal(&self) {
        self.shared.state().script.clear();
    }

    /// How many operations of each kind there were since it was mounted. Kinds that did not come
    /// are missing.
    pub fn counts(&self) -> BTreeMap<Operation, u64> {
        self.shared.state().script.counts().clone()
    }

    /// How many operations met a fault since it was mounted.
    pub fn struck(&self) -> u64 {
        self.shared.state().script.struck()
    }

    /// Unmounts it.
    ///
    /// # Errors
    /// Returns an error if that is refused: a file may be open.
    pub fn unmount(mut self) -> io::Result<()> {
        self.end()
    }

    /// Cuts the power: unmounts it, and takes from the directory below what was not synced. Bytes
    /// are those of the last sync of their file, names those of the last sync of their directory.
    ///
    /// # Errors
    /// Returns an error if it cannot be unmounted, or I/O errors of the directory below.
    pub fn lose_unsynced(mut self) -> io::Result<()> {
        self.end()?;
        let state = self.shared.state();
        state.durable.as_ref().map_or(Ok(()), |durable| durable.rewind(&state.nodes))
    }

    fn end(&mut self) -> io::Result<()> {
        let Some(session) = self.session.take() else { return Ok(()) };
        match unmount_when_free(self.mountpoint.path())? {
            // Its thread may have been told so while it waited for an operation.
            true => match session.join() {
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
                ended => ended,
            },
            false => session.umount_and_join(),
        }
    }
}

/// How long files may still be open after the programs that had them have ended.
const BUSY_MAX: Duration = Duration::from_secs(10);

/// Unmounts it as root, and says whether that was done: for others, the session has another program
/// do it. The kernel closes the files of an io_uring, and of a program that was killed, some time
/// after its end was reported.
fn unmount_when_free(mountpoint: &Path) -> io::Result<bool> {
    let begun = Instant::now();
    loop {
        match rustix::mount::unmount(mountpoint, UnmountFlags::empty()) {
            Ok(()) => return Ok(true),
            Err(Errno::PERM) => return Ok(false),
            Err(Errno::BUSY) if begun.elapsed() < BUSY_MAX => std::thread::sleep(Duration::from_millis(5)),
            Err(error) => return Err(error.into()),
        }
    }
}

impl Drop for FaultMount {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("cannot unmount {}: {error}", self.mountpoint.path().display());
        }
    }
}
