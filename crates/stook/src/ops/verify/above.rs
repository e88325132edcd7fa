//! [`Above`]: the lists of a directory above a file or directory, which are its lists too.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::own::{OwnLists, lists_of};
use super::reading::{self, ReadLists};
use crate::error::{Error, Result};
use crate::tree::Kind;
use crate::verify::{Branch, Expected};

/// A directory with lists, above a file or directory.
#[derive(Debug)]
pub(super) struct Above {
    /// The directory.
    pub(super) branch: Branch,
    /// The path in it.
    pub(super) key: Vec<u8>,
}

impl Above {
    /// The directories with lists above a path that has no links in it, the nearest first.
    pub(super) fn all(path: &Path) -> impl Iterator<Item = Result<(Self, OwnLists)>> {
        path.ancestors().skip(1).filter_map(move |directory| {
            let key = path.strip_prefix(directory).ok()?.as_os_str().as_bytes().to_vec();
            let branch = match Branch::directory(directory) {
                Ok(branch) => branch,
                Err(error) => {
                    let error = std::io::Error::other(error);
                    return Some(Err(Error::io("open", directory, error)));
                }
            };
            // Above may be what others may not list.
            let has_any = |own: &OwnLists| !own.lists.is_empty() || !own.problems.is_empty();
            let own = lists_of(&branch).ok().filter(has_any)?;
            Some(Ok((Self { branch, key }, own)))
        })
    }

    /// The nearest directory above a file or directory on disk whose lists have it or something in
    /// it, with its proofs and what its lists say of that: what is wrong with lists on the way,
    /// too, of which any line may have been of it. `None` where there is none, and where `go_on`
    /// ended the search.
    ///
    /// # Errors
    /// I/O errors; [`verify::Error::BadList`](super::Error::BadList) where no list has it, and one
    /// of them cannot be read whole.
    pub(super) fn listing(
        branch: &Branch,
        subject: usize,
        go_on: &mut dyn FnMut() -> bool,
    ) -> super::Result<Option<(Self, OwnLists, ReadLists)>> {
        let Some(path) = branch.lies_in.as_ref().filter(|_| branch.is_on_disk) else { return Ok(None) };
        let path = path.canonicalize().map_err(|error| Error::io("find", path, error))?;
        let mut passed = Vec::new();
        for found in Self::all(&path) {
            let (above, mut own) = found?;
            let lists = std::mem::take(&mut own.lists);
            let read = reading::read(&above.branch, lists, subject, go_on);
            let Some(mut read) = read else { return Ok(None) };
            read.expected = above.part(read.expected, branch);
            if !read.expected.is_empty() {
                let below = |path: Vec<u8>| above.within(&path).map(<[u8]>::to_vec);
                read.folders = read.folders.into_iter().filter_map(below).collect();
                read.reports.extend(passed);
                return Ok(Some((above, own, read)));
            }
            let problems = own.problems.into_iter().chain(read.reports);
            passed.extend(problems.filter(|report| report.bad_lines > 0));
        }
        match passed.first() {
            Some(list) => Err(super::Error::bad_list(list)),
            None => Ok(None),
        }
    }

    /// What lists of the directory say of the file or directory.
    pub(super) fn part(&self, expected: Expected, branch: &Branch) -> Expected {
        let is_file = branch.tree.node(branch.id).is_ok_and(|node| node.kind == Kind::File);
        if is_file { expected.only(&self.key) } else { expected.below(&self.key) }
    }

    /// A path of the directory, in the directory that lies in it.
    fn within<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        path.strip_prefix(self.key.as_slice())?.strip_prefix(b"/")
    }
}
