//! Extended attributes (access control lists among them), of which nothing here makes a copy: who
//! removes or leaves behind what has some has to know.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{flistxattr, llistxattr};
use rustix::io::Errno;

/// What the system gives to every file by itself, wherever that is made.
const OF_THE_SYSTEM: [&[u8]; 1] = [b"security.selinux"];

/// Room for the names that nearly every file has at most, in bytes.
const NAMES_LEN: usize = 1024;

/// Whether an open file or directory has extended attributes; one that cannot be asked may have
/// some.
pub(crate) fn any(file: impl AsFd) -> bool {
    listed(|names| flistxattr(&file, names)).map_or(true, |names| !names.is_empty())
}

/// The names of the extended attributes of what is called so in a directory; of a link, its own.
///
/// # Errors
/// What the system says. A file system without such attributes has none.
pub(crate) fn of(parent: &OwnedFd, name: &OsStr) -> io::Result<Vec<String>> {
    // There is no call that takes both.
    let path = [format!("/proc/self/fd/{}/", parent.as_raw_fd()).as_bytes(), name.as_bytes()].concat();
    Ok(listed(|names| llistxattr(path.as_slice(), names))?)
}

/// The names that a call lists which says how long they are, or that its buffer is too short.
fn listed(mut list: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<String>> {
    let mut short = [0; NAMES_LEN];
    let len = match list(&mut short) {
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        Err(Errno::RANGE) => None,
        len => Some(len?),
    };
    if let Some(len) = len {
        return Ok(names(short.get(..len).unwrap_or_default()));
    }
    // The longest list that the system makes.
    let mut long = vec![0; 64 << 10];
    let len = list(&mut long)?;
    Ok(names(long.get(..len).unwrap_or_default()))
}

fn names(listed: &[u8]) -> Vec<String> {
    let all = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    all.filter(|name| !OF_THE_SYSTEM.contains(name))
        .map(|name| String::from_utf8_lossy(name).into())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart_and_those_of_the_system_left_out() {
        assert_eq!(
            names(b"user.a\0security.selinux\0system.posix_acl_access\0"),
            ["user.a", "system.posix_acl_access"]
        );
        assert!(names(b"").is_empty() && names(b"security.selinux\0").is_empty());
    }

    #[test]
    fn a_list_that_is_longer_than_the_room_is_asked_for_again() {
        let long = b"user.0123456789\0".repeat(100);
        let list = |buffer: &mut [u8]| {
            buffer.get_mut(..long.len()).ok_or(Errno::RANGE)?.copy_from_slice(&long);
            Ok(long.len())
        };
        assert_eq!(listed(list).unwrap().len(), 100);
        assert!(listed(|_| Err(Errno::NOTSUP)).unwrap().is_empty());
        assert_eq!(listed(|_| Err(Errno::IO)), Err(Errno::IO));
    }
}
