//! Extended attributes of what a walk meets, access control lists among them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{fgetxattr, flistxattr, lgetxattr, llistxattr};
use rustix::io::Errno;

use crate::tree::Xattrs;
use crate::tree::target::path_in;
use crate::tree::xattrs::is_of_the_system;

/// Room for the names, or the value, that nearly every file has at most, in bytes.
const SHORT_LEN: usize = 1024;

/// The longest list, and the longest value, that the system gives.
const LONG_LEN: usize = 64 << 10;

/// Those of an open file or directory. What cannot be read is among them without its value, or its
/// name.
pub(crate) fn read(file: impl AsFd) -> Xattrs {
    read_all(|names| flistxattr(&file, names), |name, value| fgetxattr(&file, name, value))
        .unwrap_or_else(|_| Xattrs::unreadable())
}

/// Those of what is called so in a directory; of a link, its own.
///
/// # Errors
/// That they cannot be listed. A file system without such attributes has none.
pub(crate) fn read_at(parent: &OwnedFd, name: &[u8]) -> io::Result<Xattrs> {
    let path = path_in(parent, name);
    let path = path.as_slice();
    Ok(read_all(|names| llistxattr(path, names), |name, value| lgetxattr(path, name, value))?)
}

/// Those of a link, or of what is not opened. Where the system has no `/proc`, they cannot be read.
pub(super) fn read_unopened(parent: &OwnedFd, name: &[u8]) -> Xattrs {
    match read_at(parent, name) {
        Ok(xattrs) => xattrs,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Xattrs::default(),
        Err(_) => Xattrs::unreadable(),
    }
}

fn read_all(
    list: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>,
    mut get: impl FnMut(&[u8], &mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Xattrs> {
    let mut all = Xattrs::default();
    let Some(listed) = filled(list)? else { return Ok(all) };
    let mut names: Vec<&[u8]> = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
    // One whose value is not asked for costs nothing.
    names.retain(|name| !is_of_the_system(name));
    names.sort_unstable();
    names.dedup();
    for name in names {
        match filled(|value| get(name, value)) {
            Ok(value) => all.push(name, value.as_deref()),
            // It was removed meanwhile.
            Err(Errno::NODATA) => {}
            Err(_) => all.push(name, None),
        }
    }
    Ok(all)
}

/// What a call fills a buffer with that says how long that is, or that the buffer is too short;
/// `None` where the file system has no such thing.
fn filled(
    mut fill: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Option<Vec<u8>>> {
    let mut short = [0; SHORT_LEN];
    match fill(&mut short) {
        Err(Errno::NOTSUP) => Ok(None),
        Err(Errno::RANGE) => {
            let mut long = vec![0; LONG_LEN];
            let len = fill(&mut long)?;
            long.truncate(len);
            Ok(Some(long))
        }
        len => Ok(Some(short.get(..len?).unwrap_or_default().to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills a buffer as the system does.
    fn give(bytes: &[u8], buffer: &mut [u8]) -> rustix::io::Result<usize> {
        buffer.get_mut(..bytes.len()).ok_or(Errno::RANGE)?.copy_from_slice(bytes);
        Ok(bytes.len())
    }

    #[test]
    fn values_come_with_their_names_and_those_of_the_system_are_left_out() {
        let long = vec![7; 3 * SHORT_LEN];
        let list = |buffer: &mut [u8]| {
            give(b"user.b\0security.selinux\0user.gone\0user.a\0user.secret\0user.odd\0user.huge\0", buffer)
        };
        let all = read_all(list, |name, buffer| match name {
            b"user.a" => give(b"1\0", buffer),
            b"user.b" => give(&long, buffer),
            b"user.gone" => Err(Errno::NODATA),
            b"user.huge" => Err(Errno::TOOBIG),
            b"user.odd" => Err(Errno::NOTSUP),
            b"user.secret" => Err(Errno::ACCESS),
            other => panic!("{other:?} was asked for"),
        });
        let all = all.unwrap();
        assert_eq!((all.get(b"user.a"), all.get(b"user.b")), (Some(&b"1\0"[..]), Some(&long[..])));
        assert_eq!(all.as_slice().len(), 5);
        assert_eq!(all.lost().as_deref(), Some("user.huge, user.odd, user.secret"));
    }

    #[test]
    fn a_list_that_is_longer_than_the_room_is_asked_for_again() {
        let names: Vec<u8> = (0..300).flat_map(|at| format!("user.{at:03}\0").into_bytes()).collect();
        let all = read_all(|buffer| give(&names, buffer), |_, buffer| give(b"v", buffer)).unwrap();
        assert_eq!((all.as_slice().len(), all.lost()), (300, None));
        let none = |_: &[u8], _: &mut [u8]| Err(Errno::IO);
        assert!(read_all(|_| Err(Errno::NOTSUP), none).unwrap().is_empty());
        assert_eq!(read_all(|_| Err(Errno::IO), none), Err(Errno::IO));
    }
}
