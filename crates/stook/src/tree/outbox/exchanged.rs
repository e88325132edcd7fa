//! What a run that was killed left while it exchanged a file with what has its name.
//!
//! Such a file is either the new one, whole, or the one that it replaced. Only the new one is found
//! under its name as well, once the next run has written it: that is how the two are told apart.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{Dir, FileType, Mode, OFlags, openat};

use super::names::is_exchanged_with;
use super::{COMPARED_LEN, Outbox, again};
use crate::tree::existing::{Comparison, mtime_of};
use crate::tree::target;

/// Names of a directory that are looked at for the one that something had.
const NAMES_MAX: usize = 100_000;

/// What became of something that was exchanged.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// It is gone, or another run has it.
    Gone,
    /// It stays, and this is the name that it had, where something has that.
    Stays(Option<OsString>),
}

impl Outbox {
    /// Removes what was exchanged, if the file with its name has the same bytes and time.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn settle(&self, directory: &OwnedFd, exchanged: &OsStr) -> io::Result<Settled> {
        let Some(there) = target::status(directory, exchanged)? else { return Ok(Settled::Gone) };
        let of = name_of(directory, exchanged)?;
        if FileType::from_raw_mode(there.st_mode) != FileType::RegularFile {
            return Ok(Settled::Stays(of));
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        // What this user may not read stays.
        let Ok(file) = openat(directory, exchanged, flags, Mode::empty()) else {
            return Ok(Settled::Stays(of));
        };
        let mut file = File::from(file);
        match again(|| self.calls.lock(&file)) {
            // The run that makes the exchange holds it.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Settled::Gone),
            Err(_) => return Ok(Settled::Stays(of)),
            Ok(()) => {}
        }
        let Some(name) = of else { return Ok(Settled::Stays(None)) };
        let Some(named) = target::status(directory, &name)? else { return Ok(Settled::Stays(None)) };
        let is_alike = named.st_size == there.st_size && mtime_of(&named) == mtime_of(&there);
        if is_alike && has_bytes_of(&mut file, directory, &name)? {
            again(|| self.calls.unlink(directory.as_fd(), exchanged))?;
            return Ok(Settled::Gone);
        }
        Ok(Settled::Stays(Some(name)))
    }
}

/// The name that something had that was exchanged, where something has it now.
fn name_of(directory: &OwnedFd, exchanged: &OsStr) -> io::Result<Option<OsString>> {
    for entry in Dir::read_from(directory)?.take(NAMES_MAX) {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if is_exchanged_with(exchanged, name) {
            return Ok(Some(name.to_os_string()));
        }
    }
    Ok(None)
}

/// Whether two names are of files with the same bytes. What cannot be read is another.
pub(super) fn have_same_bytes(directory: &OwnedFd, one: &OsStr, other: &OsStr) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let Ok(opened) = openat(directory, one, flags, Mode::empty()) else { return Ok(false) };
    let mut file = File::from(opened);
    Ok(file.metadata()?.is_file() && has_bytes_of(&mut file, directory, other).unwrap_or(false))
}

fn has_bytes_of(file: &mut File, directory: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    let mut comparison = Comparison::open(directory, name)?;
    let mut buffer = vec![0; COMPARED_LEN];
    while comparison.is_same() {
        let read = again(|| file.read(&mut buffer))?;
        if read == 0 {
            break;
        }
        comparison.take(buffer.get(..read).unwrap_or_default())?;
    }
    comparison.finish()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use super::super::names::Names;
    use super::super::{Calls as _, System};
    use super::*;

    fn write(path: &Path, bytes: &str, seconds: u64) {
        std::fs::write(path, bytes).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        File::open(path).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn only_what_is_there_under_its_name_as_well_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let directory = target::open(place.path()).unwrap();
        let outbox = Outbox::new(Arc::new(System)).unwrap();
        let exchanged = Names::new().unwrap().next_for_exchange(OsStr::new("file"));
        let settled = || outbox.settle(&directory, &exchanged).unwrap();
        let left = place.path().join(&exchanged);
        assert_eq!(settled(), Settled::Gone);
        write(&left, "earlier", 100);
        assert_eq!(settled(), Settled::Stays(None));
        let stays = Settled::Stays(Some("file".into()));
        for (bytes, seconds) in [("new", 100), ("anothr7", 100), ("earlier", 200)] {
            write(&place.path().join("file"), bytes, seconds);
            assert_eq!(settled(), stays, "{bytes}");
        }
        write(&place.path().join("file"), "earlier", 100);
        // The run that makes the exchange holds it.
        let held = File::open(&left).unwrap();
        System.lock(&held).unwrap();
        assert_eq!(settled(), Settled::Gone);
        assert!(left.exists());
        drop(held);
        assert_eq!(settled(), Settled::Gone);
        assert!(!left.exists() && place.path().join("file").exists());
        std::os::unix::fs::symlink("elsewhere", &left).unwrap();
        assert_eq!(settled(), stays);
    }
}
