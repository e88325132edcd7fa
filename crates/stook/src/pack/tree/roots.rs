//! The trees that are packed, as places in which keys are looked up again.
//!
//! Like unpacking, this goes down part by part and follows no link but a root that the caller
//! named.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::pack::error::{Error, Result};
use crate::tree::target::{self, Target};
use crate::walk::Walk;

/// A root.
#[derive(Debug)]
struct Root {
    /// What its keys begin with; empty if it is the only one.
    key: Vec<u8>,
    /// The directory, or the one that holds the file.
    directory: Target,
    /// The name of a root that is a file.
    file: Option<OsString>,
    /// As the caller named it.
    path: PathBuf,
}

/// All roots.
#[derive(Debug)]
pub(super) struct Roots(Vec<Root>);

/// Where an entry is, or was.
#[derive(Debug)]
pub(super) struct EntryLocation {
    pub(super) parent: Arc<OwnedFd>,
    pub(super) name: OsString,
}

impl Roots {
    /// Opens the roots of a walk.
    pub(super) fn open(walk: &Walk<'_>) -> Result<Self> {
        let roots = walk.roots().iter();
        let opened = roots.map(|(path, key)| {
            Root::open(path, key)
                .map_err(|error| Error::from(crate::Error::io("open", path.as_path(), error)))
        });
        Ok(Self(opened.collect::<Result<_>>()?))
    }

    /// The key of the root that a key is below, be that now a file; `None` for roots themselves and
    /// for what is elsewhere.
    pub(super) fn above(&self, key: &[u8]) -> Option<&[u8]> {
        self.0.iter().find_map(|root| root.below(key).map(|_| root.key.as_slice()))
    }

    /// The directory that holds an entry, and its name in it; `None` where that directory is not,
    /// or no longer one.
    pub(super) fn find(&mut self, key: &[u8]) -> io::Result<Option<EntryLocation>> {
        for root in &mut self.0 {
            if let Some(name) = root.file.clone().filter(|name| root.is_key_of_file(name, key)) {
                return Ok(Some(EntryLocation { parent: root.directory.root(), name }));
            }
            let Some(below) = root.below(key) else { continue };
            if root.file.is_some() {
                return Ok(None);
            }
            let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
            let parts = target::parts(below).map_err(wrong)?;
            let Some((name, parents)) = parts.split_last() else { return Ok(None) };
            let parent = match root.directory.existing(parents) {
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => None,
                other => other?,
            };
            return Ok(parent.map(|parent| EntryLocation { parent, name: name.to_os_string() }));
        }
        Ok(None)
    }

    /// Device and inode of the roots that are directories.
    pub(super) fn inodes(&self) -> Result<HashSet<(u64, u64)>> {
        let directories = self.0.iter().filter(|root| root.file.is_none());
        let inodes = directories.map(|root| {
            let of =
                |errno: rustix::io::Errno| Error::from(crate::Error::io("stat", &root.path, errno.into()));
            let status = rustix::fs::fstat(root.directory.root()).map_err(of)?;
            Ok((status.st_dev as u64, status.st_ino as u64))
        });
        inodes.collect()
    }

    /// Whether anything is at the path of a key.
    pub(super) fn has(&mut self, key: &[u8]) -> io::Result<bool> {
        let Some(EntryLocation { parent, name }) = self.find(key)? else { return Ok(false) };
        Ok(target::status(&parent, &name)?.is_some())
    }
}

impl Root {
    fn open(path: &Path, key: &[u8]) -> io::Result<Self> {
        let (key, named) = (key.to_vec(), path.to_path_buf());
        if path.metadata()?.is_dir() {
            return Ok(Self { key, directory: Target::at(path)?, file: None, path: named });
        }
        let parent = path.parent().filter(|parent| *parent != Path::new(""));
        let directory = Target::at(parent.unwrap_or(Path::new(".")))?;
        Ok(Self { key, directory, file: path.file_name().map(OsString::from), path: named })
    }

    /// What of a key is below this root, if that is not the root itself. A root that is a file, one
    /// of several, was a directory when something was packed from below it; keys of a single one do
    /// not begin with its name.
    fn below<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let below = match self.key.as_slice() {
            [] => Some(key),
            prefix => key.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(b"/")),
        };
        let may_be = self.file.is_none() || !self.key.is_empty();
        below.filter(|below| may_be && !below.is_empty())
    }

    fn is_key_of_file(&self, name: &OsString, key: &[u8]) -> bool {
        if self.key.is_empty() { name.as_encoded_bytes() == key } else { self.key == key }
    }
}
