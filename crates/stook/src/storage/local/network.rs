//! File systems on which a lock excludes no other machine.
//!
//! Over a network an exclusive lock may be missing, be known to only one machine, or be lost when
//! the server restarts, and a directory cannot be locked at all. So nothing is written there. FUSE
//! file systems cannot be distinguished, and are trusted.

use rustix::fd::AsFd;

use super::directory::Directory;
use crate::error::{Error, Result};

/// Refuses a directory on which locks are not reliable.
pub(super) fn refuse(directory: &Directory) -> Result<()> {
    match name_of(magic_of(directory)?) {
        None => Ok(()),
        Some(file_system) => Err(Error::NoLocks { path: directory.path().to_path_buf(), file_system }),
    }
}

#[cfg(target_os = "linux")]
fn magic_of(directory: &Directory) -> Result<u32> {
    let stat = rustix::fs::fstatfs(directory.fd().as_fd())
        .map_err(|errno| Error::io("ask for the file system of", directory.path(), errno.into()))?;
    // The type of the field differs between machines; the numbers have 32 bits.
    Ok((stat.f_type as u64 & u64::from(u32::MAX)) as u32)
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "it can fail on Linux")]
fn magic_of(_: &Directory) -> Result<u32> {
    Ok(0)
}

/// The name of the network file system with this number (`statfs(2)`), if it is one.
fn name_of(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517B | 0xFF53_4D42 | 0xFE53_4D42 => "SMB",
        0x5346_414F | 0x6B41_4653 => "AFS",
        0x0102_1997 => "9P",
        0x7375_7245 => "Coda",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_of_networks_are_known_by_their_numbers_and_others_are_not_refused() {
        let network = [
            (0x6969, "NFS"),
            (0x517B, "SMB"),
            (0xFF53_4D42, "SMB"),
            (0xFE53_4D42, "SMB"),
            (0x5346_414F, "AFS"),
            (0x6B41_4653, "AFS"),
            (0x0102_1997, "9P"),
            (0x7375_7245, "Coda"),
        ];
        for (magic, name) in network {
            assert_eq!(name_of(magic), Some(name), "{magic:x}");
        }
        // ext4, XFS, btrfs, tmpfs, overlayfs, ZFS, F2FS, FUSE, Ceph.
        let others = [
            0xEF53,
            0x5846_5342,
            0x9123_683E,
            0x0102_1994,
            0x794C_7630,
            0x2FC1_2FC1,
            0xF2F5_2010,
            0x6573_5546,
            0x00C3_6400,
        ];
        for magic in others {
            assert_eq!(name_of(magic), None, "{magic:x}");
        }
    }

    #[test]
    fn the_error_says_which_file_system_it_is_and_what_to_do() {
        let error = Error::NoLocks { path: "/nfs/p.stook".into(), file_system: "NFS" };
        let reported = error.to_string();
        assert!(
            reported.starts_with("/nfs/p.stook is on NFS") && reported.contains("local file system"),
            "{reported}"
        );
    }
}
