//! What file systems keep for themselves among the names of users.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, OwnedFd};

use crate::tree::outbox::Calls;

/// The number of the top of ext2, ext3 and ext4, and what these are to `statfs(2)`.
const EXT_TOP: u64 = 2;
const EXT: u32 = 0xEF53;

/// Whether a name in a directory is that of the place in which a check of the file system puts what
/// it finds. It has to be there before: a check makes none on a file system that is damaged.
pub(super) fn is_for_repairs(calls: &dyn Calls, directory: &OwnedFd, name: &OsStr) -> bool {
    name == "lost+found"
        && rustix::fs::fstat(directory).is_ok_and(|top| top.st_ino == EXT_TOP)
        && calls.kind_of_file_system(directory.as_fd()) == Some(EXT)
}
