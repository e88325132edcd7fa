//! What is mounted where, and unmounting it from outside.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

use stook::ops::present::FILE_SYSTEM;

use crate::error::{Error, Result};
use crate::status::{STATUS_NAME, STATUS_XATTR, status_of};

/// What mounts and unmounts for those who are not root.
pub(crate) const HELPER: &str = "fusermount3";

/// Where the kernel lists what is mounted.
const MOUNTS: &str = "/proc/self/mountinfo";

/// A line of that list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The number of the mount, and the device, as text. Both are given to others once it has
    /// ended, and not before.
    numbers: (Vec<u8>, Vec<u8>),
    path: PathBuf,
}

/// What this has mounted, the last first.
fn mounted() -> io::Result<Vec<Entry>> {
    let text = std::fs::read(MOUNTS)?;
    let mut found: Vec<Entry> = text.split(|byte| *byte == b'\n').filter_map(entry_of).collect();
    found.reverse();
    Ok(found)
}

/// A line, if it is of a mount of this.
fn entry_of(line: &[u8]) -> Option<Entry> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let separator = fields.iter().position(|field| *field == b"-")?;
    let kind = fields.get(separator + 1)?;
    let numbers = (fields.first()?.to_vec(), fields.get(2)?.to_vec());
    (*kind == FILE_SYSTEM.as_bytes()).then(|| Some(Entry { numbers, path: unescaped(fields.get(4)?)? }))?
}

/// A path of the list: spaces and the like are three octal digits there.
fn unescaped(field: &[u8]) -> Option<PathBuf> {
    let (mut path, mut rest) = (Vec::with_capacity(field.len()), field);
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|digits| *byte == b'\\' && digits.iter().all(u8::is_ascii_digit));
        match digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()) {
            Some(escaped) => {
                path.push(escaped);
                rest = after.get(3..)?;
            }
            None => {
                path.push(*byte);
                rest = after;
            }
        }
    }
    Some(PathBuf::from(OsStr::from_bytes(&path)))
}

/// Links that lead to a mountpoint, one to another.
const LINKS_MAX: usize = 40;

/// The full path of a mountpoint, also of one whose file system does not answer any more.
pub(crate) fn resolved(mountpoint: &Path) -> io::Result<PathBuf> {
    let mut path = std::path::absolute(mountpoint)?;
    for _ in 0..LINKS_MAX {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return path.canonicalize();
        };
        let parent = parent.canonicalize()?;
        let full = parent.join(name);
        // What is mounted there is not asked: it may be dead.
        match std::fs::read_link(&full) {
            Ok(target) => path = std::path::absolute(parent.join(target))?,
            Err(_) => return Ok(full),
        }
    }
    Err(Errno::LOOP.into())
}

/// What this has mounted there, whether it answers or not.
pub(crate) fn entry_at(mountpoint: &Path) -> io::Result<Option<Entry>> {
    let path = resolved(mountpoint)?;
    Ok(mounted()?.into_iter().find(|entry| entry.path == path))
}

/// Whether something is mounted there by [`Mounted`](crate::Mounted), whether it answers or not.
pub(crate) fn is_mounted(mountpoint: &Path) -> io::Result<bool> {
    Ok(entry_at(mountpoint)?.is_some())
}

/// Whether what serves a mountpoint is gone, so that everything there is an error.
pub(crate) fn is_dead(mountpoint: &Path) -> bool {
    // What the kernel knows, it answers of a dead one, too: these it never does.
    let found = match rustix::fs::stat(mountpoint.join(STATUS_NAME)) {
        Err(Errno::NOTDIR) => rustix::fs::getxattr(mountpoint, STATUS_XATTR, &mut [0_u8; 0]).map(|_| ()),
        found => found.map(|_| ()),
    };
    matches!(found, Err(Errno::NOTCONN | Errno::CONNABORTED))
}

/// How often it is looked whether a process is gone whose descriptors stay open.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// How often, and at what distance, it is looked whether the mount of a process that is gone is
/// dead: the system closes its descriptors one after another.
const TRIES: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(50);

/// Waits until a process is gone that serves a mountpoint, and takes away what it left of its
/// mount. `alive` is the end of a pipe whose other end that process has, and through which it sends
/// a byte when it has unmounted by itself. Where something else is mounted there by then, nothing
/// is done.
///
/// A process that is killed may stay as a zombie, with the pipe open: a thread of it waits for a
/// page that the kernel has asked it for. It ends when its connection is aborted, which is done
/// here.
///
/// # Errors
/// Errors of the system.
pub fn unmount_after(process: u32, alive: impl AsFd, mountpoint: &Path) -> Result<()> {
    let failed = |source| Error::Io { operation: "unmount", path: mountpoint.to_path_buf(), source };
    let Some(own) = entry_at(mountpoint).map_err(failed)? else { return Ok(()) };
    let mut byte = [0];
    loop {
        match poll(&mut [PollFd::new(&alive, PollFlags::IN)], Some(&LOOK_EVERY)) {
            Ok(0) | Err(Errno::INTR) if !is_zombie(process) => {}
            // Its mount has not ended, so that the numbers are still its own.
            Ok(0) | Err(Errno::INTR) => return own.abort(),
            // It says that it has unmounted.
            Ok(_) if matches!(rustix::io::read(&alive, &mut byte), Ok(1..)) => return Ok(()),
            Ok(_) => break,
            Err(error) => return Err(failed(error.into())),
        }
    }
    for _ in 0..TRIES {
        if entry_at(mountpoint).map_err(failed)?.as_ref() != Some(&own) {
            return Ok(());
        }
        if is_dead(mountpoint) {
            return unmount(mountpoint, true);
        }
        std::thread::sleep(BETWEEN);
    }
    Ok(())
}

/// Whether the first thread of a process has ended, and others have not.
fn is_zombie(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    status.is_ok_and(|status| status.lines().any(|line| line.starts_with("State:\tZ")))
}

impl Entry {
    /// Lets the kernel read so far ahead. It says no to who is not root, and reads less ahead then.
    pub(crate) fn read_ahead(&self, bytes: u32) {
        let path = Path::new("/sys/class/bdi").join(OsStr::from_bytes(&self.numbers.1)).join("read_ahead_kb");
        let _not_root = std::fs::write(path, (bytes >> 10).to_string());
    }

    /// Unmounts it, of which it is known that it has not ended. Says whether it was at its path
    /// still.
    pub(crate) fn unmount(&self) -> Result<bool> {
        self.unmount_with(UnmountFlags::empty())
    }

    /// Takes it away, in use or not, and makes every request an error, those under way too.
    pub(crate) fn abort(&self) -> Result<()> {
        let minor = self.numbers.1.rsplit(|byte| *byte == b':').next().unwrap_or_default();
        let path = Path::new("/sys/fs/fuse/connections").join(OsStr::from_bytes(minor)).join("abort");
        // Where that is not there, only root can: by force.
        let _not_there = std::fs::write(path, "1");
        self.unmount_with(UnmountFlags::FORCE | UnmountFlags::DETACH).map(|_| ())
    }

    fn unmount_with(&self, flags: UnmountFlags) -> Result<bool> {
        let failed = |source| Error::Io { operation: "unmount", path: self.path.clone(), source };
        match entry_at(&self.path).map_err(failed)? {
            Some(there) if there == *self => unmount_with(&self.path, flags).map(|()| true),
            _ => Ok(false),
        }
    }
}

/// Unmounts what is mounted there, as root by the system, as another user by `fusermount3`. With
/// `lazy`, what is in use vanishes from the tree of names at once, and ends when it is closed.
/// Otherwise the process that served it has ended when this returns, and has nothing of the source
/// open any more, unless it takes longer than a few seconds, or does not say which it is.
///
/// # Errors
/// When nothing of Stook is mounted there; [`Error::Busy`]; errors of the system.
pub fn unmount(mountpoint: &Path, lazy: bool) -> Result<()> {
    if lazy {
        return unmount_with(mountpoint, UnmountFlags::DETACH);
    }
    let process = process_of(mountpoint);
    unmount_with(mountpoint, UnmountFlags::empty())?;
    if let Some(process) = process {
        // What is polled for has happened, or has not within that time.
        let _ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&ENDING_MAX));
    }
    Ok(())
}

/// So long it is waited for the process that serves a mountpoint: to say which it is, and to end.
const ANSWERING_MAX: Duration = Duration::from_secs(1);
const ENDING_MAX: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// The process that serves a mountpoint, if it is another than this one, and answers.
fn process_of(mountpoint: &Path) -> Option<OwnedFd> {
    let (path, (answer, answered)) = (mountpoint.to_path_buf(), channel());
    std::thread::spawn(move || answer.send(status_of(&path).map(|status| status.process)));
    let process = answered.recv_timeout(ANSWERING_MAX).ok()?.ok()?;
    let process = Pid::from_raw(i32::try_from(process).ok()?).filter(|process| *process != getpid())?;
    pidfd_open(process, PidfdFlags::empty()).ok()
}

fn unmount_with(mountpoint: &Path, flags: UnmountFlags) -> Result<()> {
    let failed = |source| Error::Io { operation: "unmount", path: mountpoint.to_path_buf(), source };
    if !is_mounted(mountpoint).map_err(failed)? {
        let others = mounted().map_err(failed)?;
        let others: Vec<String> = others.iter().map(|entry| entry.path.display().to_string()).collect();
        let what = match others.is_empty() {
            true => "nothing is mounted there by `stook mount`".to_owned(),
            false => format!("nothing is mounted there by `stook mount`, but at {}", others.join(", ")),
        };
        return Err(Error::Mountpoint { path: mountpoint.to_path_buf(), what });
    }
    let path = resolved(mountpoint).map_err(failed)?;
    match rustix::mount::unmount(&path, flags | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(Error::Busy { path: mountpoint.to_path_buf() }),
        Err(Errno::PERM) => by_helper(&path, flags.contains(UnmountFlags::DETACH)),
        Err(error) => Err(failed(error.into())),
    }
}

fn by_helper(path: &Path, lazy: bool) -> Result<()> {
    let failed = |source| Error::Io { operation: "unmount", path: path.to_path_buf(), source };
    let mut helper = Command::new(HELPER);
    helper.arg("-u").args(lazy.then_some("-z")).arg("--").arg(path);
    let output = helper.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => failed(io::Error::other(missing_helper())),
        _ => failed(error),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(match said {
        said if said.contains("busy") => Error::Busy { path: path.to_path_buf() },
        // It keeps a list of what each user has mounted.
        said if said.contains("not found in") || said.contains("not permitted") => {
            let what = "another user has mounted it, and that one or root can end it".to_owned();
            Error::Mountpoint { path: path.to_path_buf(), what }
        }
        said => failed(io::Error::other(said)),
    })
}

/// That who is not root needs a program that is not there.
pub(crate) fn missing_helper() -> String {
    format!(
        "only root can do so without {HELPER}, which is not installed (Debian and Ubuntu: the package fuse3)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountpoints_are_read_from_the_list_of_the_kernel() {
        let line = br"36 35 0:98 / /mnt/a\040b\134c rw,noatime shared:1 - fuse.stook x.stook ro,user_id=0";
        let numbers = (b"36".to_vec(), b"0:98".to_vec());
        let path = PathBuf::from(r"/mnt/a b\c");
        assert_eq!(entry_of(line), Some(Entry { numbers, path }));
        assert_eq!(entry_of(b"36 35 0:98 / /mnt/other rw - fuse.sshfs x ro"), None);
        assert_eq!(entry_of(b""), None);
        assert_eq!(entry_of(b"36 35 -"), None);
    }
}
