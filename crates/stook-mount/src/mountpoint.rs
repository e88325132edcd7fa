//! What is mounted where, and unmounting it from outside.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::error::{Error, Result};

/// The type that the system shows for what this mounts.
pub(crate) const FILE_SYSTEM: &str = "fuse.stook";
/// What mounts and unmounts for those who are not root.
pub(crate) const HELPER: &str = "fusermount3";

/// Where the kernel lists what is mounted.
const MOUNTS: &str = "/proc/self/mountinfo";

/// Where this is mounted, the last first.
fn mounted() -> io::Result<Vec<PathBuf>> {
    let text = std::fs::read(MOUNTS)?;
    let mut found: Vec<PathBuf> = text.split(|byte| *byte == b'\n').filter_map(mountpoint_of).collect();
    found.reverse();
    Ok(found)
}

/// The mountpoint of a line, if that is a mount of this.
fn mountpoint_of(line: &[u8]) -> Option<PathBuf> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let separator = fields.iter().position(|field| *field == b"-")?;
    let kind = fields.get(separator + 1)?;
    (*kind == FILE_SYSTEM.as_bytes()).then(|| unescaped(fields.get(4)?).into()).flatten()
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

/// The full path of a mountpoint, also of one whose file system does not answer any more.
fn resolved(mountpoint: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(mountpoint)?;
    // What is mounted there is not asked: it may be dead.
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.canonicalize()?.join(name)),
        _ => absolute.canonicalize(),
    }
}

/// Whether something is mounted there by [`Mounted`](crate::Mounted), whether it answers or not.
pub(crate) fn is_mounted(mountpoint: &Path) -> io::Result<bool> {
    let path = resolved(mountpoint)?;
    Ok(mounted()?.contains(&path))
}

/// Whether what serves a mountpoint is gone, so that everything there is an error.
pub(crate) fn is_dead(mountpoint: &Path) -> bool {
    let found = rustix::fs::stat(mountpoint);
    matches!(found, Err(Errno::NOTCONN | Errno::CONNABORTED))
}

/// How often, and at what distance, it is looked whether a mount is dead, once its process is gone.
const TRIES: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(50);

/// For who knows that the process is gone that served a mountpoint: if its mount was left, takes it
/// away as soon as it is dead. Where it was unmounted, or something else answers there, nothing is
/// done.
///
/// # Errors
/// Errors of the system.
pub fn unmount_dead(mountpoint: &Path) -> Result<()> {
    let failed = |source| Error::Io { operation: "unmount", path: mountpoint.to_path_buf(), source };
    for _ in 0..TRIES {
        if !is_mounted(mountpoint).map_err(failed)? {
            return Ok(());
        }
        if is_dead(mountpoint) {
            return unmount(mountpoint, true);
        }
        std::thread::sleep(BETWEEN);
    }
    Ok(())
}

/// Unmounts what is mounted there, as root by the system, as another user by `fusermount3`. With
/// `lazy`, what is in use vanishes from the tree of names at once, and ends when it is closed.
///
/// # Errors
/// When nothing of Stook is mounted there; [`Error::Busy`]; errors of the system.
pub fn unmount(mountpoint: &Path, lazy: bool) -> Result<()> {
    let failed = |source| Error::Io { operation: "unmount", path: mountpoint.to_path_buf(), source };
    if !is_mounted(mountpoint).map_err(failed)? {
        let others = mounted().map_err(failed)?;
        let others: Vec<String> = others.iter().map(|path| path.display().to_string()).collect();
        let what = match others.is_empty() {
            true => "nothing is mounted there by `stook mount`".to_owned(),
            false => format!("nothing is mounted there by `stook mount`, but at {}", others.join(", ")),
        };
        return Err(Error::Mountpoint { path: mountpoint.to_path_buf(), what });
    }
    let path = resolved(mountpoint).map_err(failed)?;
    let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(&path, flags | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(Error::Busy { path: mountpoint.to_path_buf() }),
        Err(Errno::PERM) => by_helper(&path, lazy),
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
    match said.contains("busy") {
        true => Err(Error::Busy { path: path.to_path_buf() }),
        false => Err(failed(io::Error::other(said))),
    }
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
        assert_eq!(mountpoint_of(line), Some(PathBuf::from(r"/mnt/a b\c")));
        assert_eq!(mountpoint_of(b"36 35 0:98 / /mnt/other rw - fuse.sshfs x ro"), None);
        assert_eq!(mountpoint_of(b""), None);
        assert_eq!(mountpoint_of(b"36 35 -"), None);
    }
}
