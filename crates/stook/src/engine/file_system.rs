//! The kind of file system that an open file lies on, where it makes a difference.

use std::os::fd::AsFd;

/// FUSE, with and without a block device below.
#[cfg(target_os = "linux")]
const FUSE: u32 = 0x6573_5546;

/// tmpfs, ramfs and hugetlbfs.
#[cfg(target_os = "linux")]
const IN_MEMORY: [u32; 3] = [0x0102_1994, 0x8584_58F6, 0x9584_58F6];

/// Whether it is the page cache and nothing else.
#[cfg(target_os = "linux")]
pub(super) fn is_in_memory(file: impl AsFd) -> bool {
    type_of(file).is_some_and(|kind| IN_MEMORY.contains(&kind))
}

/// Whether a process serves the file system, by FUSE. So it is taken where the system does not
/// answer: FUSE asks that process, which may be gone, and what is done for FUSE is right elsewhere.
#[cfg(target_os = "linux")]
pub(crate) fn is_fuse(file: impl AsFd) -> bool {
    type_of(file).is_none_or(|kind| kind == FUSE)
}

/// The number of the kind of file system, by `statfs(2)`. `None` where the system does not answer.
#[cfg(target_os = "linux")]
pub(crate) fn type_of(file: impl AsFd) -> Option<u32> {
    // The type of the field differs between machines; the numbers have 32 bits.
    rustix::fs::fstatfs(file).ok().map(|stat| (stat.f_type as u64 & u64::from(u32::MAX)) as u32)
}

/// Other systems have no such numbers.
#[cfg(not(target_os = "linux"))]
pub(crate) fn type_of(_: impl AsFd) -> Option<u32> {
    None
}

/// What is known of Linux alone is taken not to matter elsewhere.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_fuse(_: impl AsFd) -> bool {
    false
}
