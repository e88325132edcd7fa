//! Publication: a whole file appears durably under its name, or nothing does.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;

use super::super::{Prepared, TEMPORARY_PREFIX};
use super::directory::Directory;
use crate::error::{Error, Result};

/// A temporary file that is on the medium.
#[derive(Debug)]
pub(super) struct LocalPrepared {
    directory: Arc<Directory>,
    temporary: String,
    name: String,
    renamed: bool,
}

/// See [`Storage::prepare`](super::super::Storage::prepare).
pub(super) fn prepare(directory: &Arc<Directory>, name: &str, bytes: &[u8]) -> Result<LocalPrepared> {
    // Only spares the work: whether the name is taken is decided by the rename.
    if directory.exists(name)? {
        return Err(Error::AlreadyExists { path: directory.path().join(name) });
    }
    let temporary = temporary_name(directory)?;
    let file = directory.create_file(&temporary)?;
    let name = name.to_owned();
    let prepared = LocalPrepared { directory: Arc::clone(directory), temporary, name, renamed: false };
    prepared.write(File::from(file), bytes)?;
    Ok(prepared)
}

impl LocalPrepared {
    fn write(&self, mut file: File, bytes: &[u8]) -> Result<()> {
        let fail = |operation| {
            let path = self.directory.path().join(&self.temporary);
            move |source| Error::io(operation, path, source)
        };
        file.write_all(bytes).map_err(fail("write"))?;
        file.sync_all().map_err(fail("sync"))
    }
}

impl Prepared for LocalPrepared {
    fn publish(mut self: Box<Self>) -> Result<()> {
        rename_if_absent(&self.directory, &self.temporary, &self.name)
            .map_err(|errno| self.directory.error("publish", &self.name, errno))?;
        self.renamed = true;
        self.directory.sync()
    }
}

impl Drop for LocalPrepared {
    /// A temporary file that cannot be removed is hidden from everybody and goes with the next
    /// `remove_leftovers`.
    fn drop(&mut self) {
        if !self.renamed {
            drop(self.directory.unlink(&self.temporary));
        }
    }
}

/// A name that no other process or thread takes, on any host that shares the directory.
pub(super) fn temporary_name(directory: &Directory) -> Result<String> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let chance = getrandom::u64().map_err(|error| {
        let source = io::Error::other(error.to_string());
        Error::io("draw a temporary name in", directory.path(), source)
    })?;
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    Ok(format!("{TEMPORARY_PREFIX}{}-{count}-{chance:016x}", std::process::id()))
}

fn rename_if_absent(directory: &Directory, from: &str, to: &str) -> rustix::io::Result<()> {
    let fd = directory.fd();
    match rustix::fs::renameat_with(fd, from, fd, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => link_if_absent(directory, from, to),
        other => other,
    }
}

/// For file systems that cannot refuse to replace in a rename: a hard link refuses by nature. A
/// crash between its steps leaves the temporary name beside the final one.
fn link_if_absent(directory: &Directory, from: &str, to: &str) -> rustix::io::Result<()> {
    let fd = directory.fd();
    rustix::fs::linkat(fd, from, fd, to, AtFlags::empty())?;
    rustix::fs::unlinkat(fd, from, AtFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fallback_by_link_publishes_once_and_refuses_a_taken_name() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Directory::open(temporary.path()).unwrap();
        std::fs::write(temporary.path().join("a"), b"a").unwrap();
        link_if_absent(&directory, "a", "c").unwrap();
        std::fs::write(temporary.path().join("b"), b"b").unwrap();
        assert_eq!(link_if_absent(&directory, "b", "c"), Err(Errno::EXIST));
        assert_eq!(std::fs::read(temporary.path().join("c")).unwrap(), b"a");
        assert!(!directory.exists("a").unwrap() && directory.exists("b").unwrap());
    }
}
