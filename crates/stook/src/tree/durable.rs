//! Makes durable what lies in a directory.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use super::outbox::Calls;

/// File systems whose `syncfs` says that data could not be written, by the numbers of `statfs(2)`:
/// ext2 to ext4, XFS, Btrfs, F2FS. They keep the pages of their files themselves, so that the error
/// of any of them is one of the file system (`s_wb_err`). What passes files on to another file
/// system (overlay, FUSE, eCryptfs), or to another machine (NFS, CIFS, 9p), does not hear of it.
const REPORTING: [u32; 4] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010];

/// The first version of Linux whose `syncfs` says that data could not be written.
const SINCE: (u32, u32) = (5, 8);

/// All names below a directory, and its own, are on the medium when this returns. The bytes of
/// files were made durable before they got their names, and those of others are not ours to sync.
///
/// That is one `syncfs`, where that says when it fails. Elsewhere each directory is synced, and
/// those above it on the same file system, as they may be new. What may not be read is left out.
///
/// # Errors
/// I/O errors; the data may then be lost although a second call succeeds.
pub(crate) fn sync_below(calls: &dyn Calls, root: impl AsFd) -> io::Result<()> {
    if has_syncfs(calls, &root) {
        return calls.sync_file_system(root.as_fd());
    }
    sync_each(calls, &root)?;
    sync_above(calls, &root)
}

/// Whether one call makes everything durable on the file system of a directory, or says that it
/// could not.
pub(crate) fn has_syncfs(calls: &dyn Calls, root: impl AsFd) -> bool {
    is_new_enough() && calls.kind_of_file_system(root.as_fd()).is_some_and(|kind| REPORTING.contains(&kind))
}

/// Whether the system is one whose `syncfs` reports.
fn is_new_enough() -> bool {
    cfg!(target_os = "linux")
        && version(&rustix::system::uname().release().to_string_lossy()).is_some_and(|found| found >= SINCE)
}

/// The first two numbers of a version.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|char: char| !char.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Device and inode of what is open.
pub(crate) fn identity(file: impl AsFd) -> io::Result<(u64, u64)> {
    let status = fstat(file)?;
    Ok((status.st_dev as u64, status.st_ino as u64))
}

/// Syncs directories.
fn sync_each(calls: &dyn Calls, root: &impl AsFd) -> io::Result<()> {
    let root = openat(root, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut waiting = vec![root];
    while let Some(directory) = waiting.pop() {
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let may_be_one = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
            if may_be_one && ![c".", c".."].contains(&name) {
                waiting.extend(open(&directory, name)?);
            }
        }
        calls.sync(directory.as_fd())?;
    }
    Ok(())
}

/// Opens a directory to sync it. `None` if that is refused, or it is none.
fn open(directory: &OwnedFd, name: &std::ffi::CStr) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(directory, name, flags, Mode::empty()) {
        Ok(opened) => Ok(Some(opened)),
        // A link, gone meanwhile, or nothing that may be opened.
        Err(Errno::LOOP | Errno::NOTDIR | Errno::NOENT | Errno::ACCESS) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Syncs the directories that lead to it.
fn sync_above(calls: &dyn Calls, root: &impl AsFd) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut place = fstat(root)?;
    let mut parent = openat(root, c"..", flags, Mode::empty());
    loop {
        // What may not be read was not made now.
        let Ok(directory) = parent else { return Ok(()) };
        let above = fstat(&directory)?;
        // At the root of all, the directory above is itself.
        if above.st_dev != place.st_dev || above.st_ino == place.st_ino {
            return Ok(());
        }
        calls.sync(directory.as_fd())?;
        place = above;
        parent = openat(&directory, c"..", flags, Mode::empty());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::BorrowedFd;
    use std::os::unix::fs::symlink;

    use rustix::fs::CWD;

    use super::super::outbox::System;
    use super::*;

    #[test]
    fn directories_are_synced_one_by_one_whatever_is_in_them() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir_all(path("a/b/c")).unwrap();
        fs::write(path("a/b/c/file"), b"x").unwrap();
        symlink("nowhere", path("a/link")).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        let opened = openat(CWD, directory.path(), OFlags::RDONLY, Mode::empty()).unwrap();
        sync_each(&System, &opened).unwrap();
        sync_above(&System, &opened).unwrap();
        sync_below(&System, &opened).unwrap();
    }

    /// Counts the syncs of directories, on a file system whose `syncfs` does not report.
    #[derive(Debug, Default)]
    struct Counted(std::sync::atomic::AtomicUsize);

    impl Calls for Counted {
        fn kind_of_file_system(&self, _: BorrowedFd<'_>) -> Option<u32> {
            None
        }

        fn sync(&self, file: BorrowedFd<'_>) -> io::Result<()> {
            assert!(FileType::from_raw_mode(fstat(file)?.st_mode).is_dir(), "files are synced before");
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        }
    }

    #[test]
    fn files_that_others_put_there_are_not_synced() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("a/b")).unwrap();
        for number in 0..50 {
            fs::write(directory.path().join(format!("a/{number}")), b"x").unwrap();
        }
        let opened = openat(CWD, directory.path(), OFlags::RDONLY, Mode::empty()).unwrap();
        let counted = Counted::default();
        sync_each(&counted, &opened).unwrap();
        assert_eq!(counted.0.into_inner(), 3);
    }

    /// A system whose directories lie on a file system of a kind.
    #[derive(Debug)]
    struct On(Option<u32>);

    impl Calls for On {
        fn kind_of_file_system(&self, _: BorrowedFd<'_>) -> Option<u32> {
            self.0
        }
    }

    #[test]
    fn only_file_systems_whose_syncfs_reports_are_synced_by_it() {
        let directory = tempfile::tempdir().unwrap();
        let opened = openat(CWD, directory.path(), OFlags::RDONLY, Mode::empty()).unwrap();
        let has = |kind| has_syncfs(&On(kind), &opened);
        let (ext4, xfs, btrfs, f2fs) = (0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010);
        assert!([ext4, xfs, btrfs, f2fs].iter().all(|kind| has(Some(*kind)) == is_new_enough()));
        let (overlay, fuse, nfs, cifs, smb2, v9fs, tmpfs) =
            (0x794C_7630, 0x6573_5546, 0x6969, 0xFF53_4D42, 0xFE53_4D42, 0x0102_1997, 0x0102_1994);
        let others = [overlay, fuse, nfs, cifs, smb2, v9fs, tmpfs, 7];
        assert!(others.iter().all(|kind| !has(Some(*kind))) && !has(None));
        assert_eq!(version("5.10.0-28-amd64"), Some((5, 10)));
        assert_eq!(version("6.18.44-fc-v657"), Some((6, 18)));
        assert!(version("4.19") < Some(SINCE) && version("5.7.1") < Some(SINCE) && version("x").is_none());
    }
}
