//! Extended attributes of the directory below.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{XattrFlags, getxattr, listxattr, setxattr};

/// As long as a value, or a list of names, can be.
const LEN_MAX: usize = 64 << 10;

pub(super) fn value(path: &Path, name: &OsStr) -> io::Result<Vec<u8>> {
    let mut value = vec![0; LEN_MAX];
    let len = getxattr(path, name, &mut value)?;
    value.truncate(len);
    Ok(value)
}

/// The names, each with a zero byte at its end.
pub(super) fn names(path: &Path) -> io::Result<Vec<u8>> {
    let mut names = vec![0; LEN_MAX];
    let len = listxattr(path, &mut names)?;
    names.truncate(len);
    Ok(names)
}

/// Gives one file those of another.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for name in names(from)?.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = OsStr::from_bytes(name);
        setxattr(to, name, &value(from, name)?, XattrFlags::empty())?;
    }
    Ok(())
}
