//! Where a walk begins: names, limits, and opening what the caller named.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::{Resource, getrlimit};

use super::directory::{Directory, OpenDirectories, Root, open_root};
use super::entry::Status;
use super::file;
use super::queue::Task;
use crate::error::{Error, Result};

/// Each root with what its keys begin with.
pub(super) fn with_prefixes(roots: Vec<PathBuf>) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    if roots.len() < 2 {
        return Ok(roots.into_iter().map(|root| (root, Vec::new())).collect());
    }
    let mut named: Vec<(PathBuf, Vec<u8>)> = Vec::with_capacity(roots.len());
    for root in roots {
        let name = last_part(&root)?;
        if let Some((other, _)) = named.iter().find(|(_, taken)| *taken == name) {
            let what = format!(
                "its keys would begin with the same name as those of {}; take them one by one",
                other.display()
            );
            let source = std::io::Error::new(std::io::ErrorKind::InvalidInput, what);
            return Err(Error::io("list the tree", &root, source));
        }
        named.push((root, name));
    }
    Ok(named)
}

/// The last part of a path; `.` and `..` are resolved to have one.
fn last_part(path: &Path) -> Result<Vec<u8>> {
    if let Some(name) = path.file_name() {
        return Ok(name.as_bytes().to_vec());
    }
    let resolved = path.canonicalize().map_err(|e| Error::io("resolve", path, e))?;
    match resolved.file_name() {
        Some(name) => Ok(name.as_bytes().to_vec()),
        None => {
            let what = "the root directory has no name that its keys could begin with; take it alone";
            Err(Error::io("list the tree", path, std::io::Error::new(std::io::ErrorKind::InvalidInput, what)))
        }
    }
}

/// Threads that the limit on open files allows: each may hold a file, a directory and a listing.
pub(super) fn threads_within_limits(wanted: usize) -> usize {
    wanted.clamp(1, (open_files_max() / 8).max(1))
}

/// What may stay open of directories that are not in use right now.
fn open_directories_max() -> usize {
    (open_files_max() / 8).clamp(8, 1024)
}

/// The limit on open files of this process; the usual one where there is none.
fn open_files_max() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(1024);
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// Opens every root.
pub(super) fn open_all(roots: &[(PathBuf, Vec<u8>)]) -> Result<Vec<Task>> {
    let open = Arc::new(OpenDirectories::with_limit(open_directories_max()));
    // The queue gives out the newest first.
    roots.iter().rev().map(|(path, prefix)| open_one(path, prefix, &open)).collect()
}

fn open_one(path: &Path, prefix: &[u8], open: &Arc<OpenDirectories>) -> Result<Task> {
    let failed = |e| Error::io("open", path, e);
    let is_directory = std::fs::metadata(path).map_err(failed)?.is_dir();
    if is_directory {
        return Ok(Task::Root { directory: open_directory(path, prefix, open)? });
    }
    // A file is an entry of its directory, of which nothing else is looked at. A link is resolved
    // because the caller named it; it keeps the name that the caller gave.
    let resolved = path.canonicalize().map_err(failed)?;
    let (Some(parent), Some(name)) = (resolved.parent(), resolved.file_name()) else {
        return Err(failed(std::io::Error::from(std::io::ErrorKind::InvalidInput)));
    };
    let name = CString::new(name.as_bytes()).map_err(|e| failed(e.into()))?;
    let key = match prefix {
        [] => path.file_name().map_or_else(|| name.as_bytes().to_vec(), |n| n.as_bytes().to_vec()),
        prefix => prefix.to_vec(),
    };
    Ok(Task::RootFile { directory: open_directory(parent, &[], open)?, name, key })
}

/// The root of a tree of its own, which keeps its own number of directories open.
pub(super) fn open_alone(path: &Path) -> Result<Arc<Directory>> {
    open_directory(path, &[], &Arc::new(OpenDirectories::with_limit(open_directories_max())))
}

fn open_directory(path: &Path, prefix: &[u8], open: &Arc<OpenDirectories>) -> Result<Arc<Directory>> {
    let handle = open_root(path).map_err(|e| Error::io("open", path, e))?;
    let status: Status = file::status(&handle).map_err(|e| Error::io("stat", path, e))?;
    let root =
        Root { path: path.to_path_buf(), prefix: prefix.to_vec(), device: status.device, open: open.clone() };
    Ok(Directory::root(root, handle, &status))
}
