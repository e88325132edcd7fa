//! Locks that die with their holder: an exclusive one for the writer, shared ones that keep a file
//! from removal.
//!
//! The exclusive lock is a `flock` on the directory itself. A lock file could be removed while it
//! is locked, and another one made and locked in its place; the directory being written to cannot.
//! The note beside it names the holder of the lock. It is written under another name and renamed
//! into place, so that anything that had its name (such as a link to one of the user's files) is
//! replaced and not written to.
//!
//! A `flock` belongs to an opening, which a forked child shares. An exclusive lock is let go for
//! all of them when the process that took it drops it, so that no child keeps a pack locked; and a
//! child that drops its copy takes nothing from its parent. A shared one is kept until the last
//! copy is closed: a child continues to read what its parent held.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FlockOperation, OFlags};
use rustix::io::Errno;

use super::super::Lock;
use super::directory::Directory;
use super::publish::temporary_name;
use super::{holder, network};
use crate::error::{Error, Result};

/// How much of a note is read: more than any holder writes.
const NOTE_LEN_MAX: usize = 4096;

/// How long a holder that is dying is waited for.
const DYING_WAIT: Duration = Duration::from_secs(10);

/// How long one is that has left no note: it may be about to write it, or have let go just now.
const NAMELESS_WAIT: Duration = Duration::from_secs(1);

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// A lock held; dropping it lets it go.
#[derive(Debug)]
pub(super) struct LocalLock {
    /// An opening of the directory. The kernel lets the lock go when this is closed, and when the
    /// process dies.
    directory: OwnedFd,
    note: String,
    /// Who took it.
    process: u32,
    waited_for: Option<String>,
}

impl Lock for LocalLock {
    fn waited_for(&self) -> Option<&str> {
        self.waited_for.as_deref()
    }
}

impl Drop for LocalLock {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // A note that stays says who held the lock last, and does no harm.
            let _ = rustix::fs::unlinkat(&self.directory, &self.note, AtFlags::empty());
            // Closing the directory comes next and does the same, unless a child has it too.
            let _ = rustix::fs::flock(&self.directory, FlockOperation::Unlock);
        }
    }
}

/// A file that is kept from removal.
#[derive(Debug)]
pub(super) struct LocalHold {
    _file: Option<File>,
}

impl Lock for LocalHold {}

/// Holds a file that is there; `NotFound` when it is not, or is being removed.
pub(super) fn hold(directory: &Directory, name: &str) -> Result<LocalHold> {
    let fail = |errno| directory.error("open", name, errno);
    let file = File::from(directory.open_file("open", name, OFlags::RDONLY)?.0);
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(fail(Errno::NOENT)),
        // Where locks are not supported, nothing is removed: see `unlink_unless_held`.
        Err(errno) if cannot_lock(errno) => return Ok(LocalHold { _file: None }),
        Err(errno) => return Err(fail(errno)),
    }
    // It may have been removed between the opening and the lock.
    if rustix::fs::fstat(&file).map_err(fail)?.st_nlink == 0 {
        return Err(fail(Errno::NOENT));
    }
    Ok(LocalHold { _file: Some(file) })
}

/// Removes a file that no process holds; whether it is gone.
pub(super) fn unlink_unless_held(directory: &Directory, name: &str) -> Result<bool> {
    let fail = |errno| directory.error("remove", name, errno);
    // Over NFS an exclusive lock needs an opening for writing.
    let file = match directory.open_file("remove", name, OFlags::RDWR) {
        Ok((fd, _)) => File::from(fd),
        Err(error) if error.io_kind() == Some(io::ErrorKind::NotFound) => return Ok(true),
        Err(error) => return Err(error),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(false),
        Err(errno) if cannot_lock(errno) => return Ok(false),
        Err(errno) => return Err(fail(errno)),
    }
    match directory.unlink(name) {
        Err(error) if error.io_kind() != Some(io::ErrorKind::NotFound) => Err(error),
        _ => Ok(true),
    }
}

/// Whether the file system has no locks.
fn cannot_lock(errno: Errno) -> bool {
    [Errno::NOLCK, Errno::NOSYS, Errno::OPNOTSUPP].contains(&errno)
}

/// Limits a wait, by the clock.
#[derive(Debug)]
pub(super) struct Patience {
    since: Instant,
}

impl Default for Patience {
    fn default() -> Self {
        Self { since: Instant::now() }
    }
}

impl Patience {
    /// Waits a moment, unless it has been waiting for `limit`.
    pub(super) fn waits(&mut self, limit: Duration) -> bool {
        let may_wait = self.since.elapsed() < limit;
        if may_wait {
            std::thread::sleep(PAUSE);
        }
        may_wait
    }
}

/// Takes the lock, or says who holds it. Waits only for a holder that is dying, or has not said who
/// it is; `waits` is asked before each further try, with the longest time to wait in all.
pub(super) fn take(
    directory: &Directory,
    note: &str,
    holder: &str,
    waits: &mut dyn FnMut(Duration) -> bool,
) -> Result<LocalLock> {
    network::refuse(directory)?;
    let fail = |errno: Errno| Error::io("lock", directory.path(), errno.into());
    let opened = directory.open_again().map_err(fail)?;
    let mut waited_for = None;
    loop {
        match rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(Errno::WOULDBLOCK) => {}
            Err(errno) => return Err(fail(errno)),
        }
        let left = read_note(directory, note);
        let limit = match &left {
            None => NAMELESS_WAIT,
            Some(left) if holder::lives(left) => Duration::ZERO,
            Some(_) => DYING_WAIT,
        };
        if limit.is_zero() || !waits(limit) {
            let holder = left.unwrap_or_else(|| "somebody who has left no name".into());
            return Err(Error::Locked { holder, path: directory.path().to_path_buf() });
        }
        waited_for = left.or(waited_for);
    }
    let lock =
        LocalLock { directory: opened, note: note.to_owned(), process: std::process::id(), waited_for };
    match write_note(directory, note, holder) {
        // It is for people, and must not keep a full disk from being given room back. A note that
        // is there names another.
        Err(error) if is_full(&error) => drop(directory.unlink(note)),
        written => written?,
    }
    Ok(lock)
}

fn is_full(error: &Error) -> bool {
    let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    error.io_kind().is_some_and(|kind| full.contains(&kind))
}

fn write_note(directory: &Directory, note: &str, holder: &str) -> Result<()> {
    let fail = |source| Error::io("write who holds the lock to", directory.path().join(note), source);
    let text = holder::describe(holder).map_err(fail)?;
    let temporary = temporary_name(directory)?;
    let mut file = File::from(directory.create_file(&temporary)?);
    let written = writeln!(file, "{text}").map_err(fail);
    let rename = || rustix::fs::renameat(directory.fd(), &temporary, directory.fd(), note);
    let written = written.and_then(|()| rename().map_err(|errno| fail(errno.into())));
    if written.is_err() {
        // The first error is reported; the next `remove_leftovers` removes the temporary file.
        drop(directory.unlink(&temporary));
    }
    written
}

/// The note of the holder, for a message: one line of bounded length. `None` if there is none.
fn read_note(directory: &Directory, note: &str) -> Option<String> {
    let mut bytes = [0; NOTE_LEN_MAX];
    // What has its name may be anything; who holds the lock is then not known.
    let (fd, _) = directory.open_file("read", note, OFlags::RDONLY).ok()?;
    let len = File::from(fd).read_at(&mut bytes, 0).ok()?;
    let text = String::from_utf8_lossy(bytes.get(..len).unwrap_or_default()).into_owned();
    let line: String = text.trim_end().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    (!line.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> (tempfile::TempDir, Directory) {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Directory::open(temporary.path()).unwrap();
        (temporary, directory)
    }

    /// A note of a dead process, and the lock that it still has.
    fn dead_holder(temporary: &tempfile::TempDir, directory: &Directory) -> (OwnedFd, String) {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let own = format!("process {}", std::process::id());
        let text = holder::describe("test").unwrap().replace(&own, &format!("process {}", child.id()));
        std::fs::write(temporary.path().join("note"), &text).unwrap();
        let held = directory.open_again().unwrap();
        rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
        (held, text)
    }

    #[test]
    fn a_dying_holder_is_waited_for_and_reported() {
        let (temporary, directory) = directory();
        let (held, text) = dead_holder(&temporary, &directory);
        let (mut held, mut tries) = (Some(held), 0);
        let lock = take(&directory, "note", "next", &mut |limit| {
            assert_eq!(limit, DYING_WAIT);
            tries += 1;
            if tries == 3 {
                held = None;
            }
            true
        });
        assert_eq!(lock.unwrap().waited_for(), Some(text.as_str()));
        assert_eq!(tries, 3);
    }

    #[test]
    fn a_dead_holder_that_never_lets_go_is_named_when_patience_ends() {
        let (temporary, directory) = directory();
        let (_held, text) = dead_holder(&temporary, &directory);
        let mut tries = 0;
        let refused = take(&directory, "note", "next", &mut |_| {
            tries += 1;
            tries < 5
        });
        assert!(matches!(refused, Err(Error::Locked { holder, .. }) if holder == text));
    }

    #[test]
    fn a_live_holder_is_not_waited_for() {
        let (_temporary, directory) = directory();
        let never = &mut |_: Duration| panic!("there is nothing to wait for");
        let held = take(&directory, "note", "first", never).unwrap();
        assert_eq!(held.waited_for(), None);
        assert!(matches!(take(&directory, "note", "second", never), Err(Error::Locked { .. })));
        drop(held);
        take(&directory, "note", "third", never).unwrap();
    }
}
