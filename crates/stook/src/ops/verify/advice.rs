//! What may be done next: [`Repairable`], and what was meant where a list was given as a tree.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use super::{Error, ListReport};
use crate::format::{mhl, sums};
use crate::tree::Kind;
use crate::verify::{Branch, Subject, SubjectReport, Unreadable};

/// A directory of which files can be repaired, with a good copy of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repairable {
    /// The directory, which has the lists.
    pub tree: PathBuf,
    /// Files that are damaged or missing. What this user may not read is not known to be.
    pub files: u64,
}

/// Those among trees that were verified by their own lists. What is in a pack or an archive cannot
/// be repaired.
pub(super) fn repairable(
    reports: &[SubjectReport],
    subjects: &[Subject],
    lists: &[ListReport],
) -> Vec<Repairable> {
    let mut trees: BTreeMap<PathBuf, BTreeSet<PathBuf>> = BTreeMap::new();
    for (at, (report, subject)) in reports.iter().zip(subjects).enumerate() {
        let Some(list) = lists.iter().find(|list| list.subject == at) else { continue };
        if !subject.branch.is_on_disk {
            continue;
        }
        let is_barred = |one: &Unreadable| one.error.io_kind() == Some(io::ErrorKind::PermissionDenied);
        let unreadable = report.unreadable.iter().filter(|one| !is_barred(one)).map(|one| &one.key);
        let keys = report.mismatching.iter().map(|one| &one.key).chain(&report.missing).chain(unreadable);
        // Of two trees one may lie in the other.
        trees.entry(list.tree.clone()).or_default().extend(keys.map(|key| report.place(key)));
    }
    let damaged = trees.into_iter().filter(|(_, files)| !files.is_empty());
    damaged.map(|(tree, files)| Repairable { tree, files: files.len() as u64 }).collect()
}

/// That a tree has no list, and what was meant if it is one itself.
pub(super) fn or_a_list(error: Error, branch: &Branch) -> Error {
    let Error::NoList(path) = error else { return error };
    let name = path.file_name().unwrap_or_default().as_bytes();
    let is_list = sums::is_list_name(name) || mhl::generation_of(name).is_some();
    match branch.tree.node(branch.id).map(|node| node.kind) {
        Ok(Kind::File) if is_list && branch.is_on_disk => Error::IsList(path),
        Ok(Kind::Directory) if name == mhl::FOLDER.as_bytes() => Error::IsHistory(path),
        _ => Error::NoList(path),
    }
}

/// Says of which tree each list is: where the first problem is with a chain, the lists know it.
pub(super) fn name_tree(lists: &mut [ListReport], branch: &Branch) {
    let known = lists.iter().map(|list| &list.tree).find(|tree| !tree.as_os_str().is_empty());
    let tree = known.cloned().unwrap_or_else(|| branch.path());
    let unknown = lists.iter_mut().filter(|list| list.tree.as_os_str().is_empty());
    unknown.for_each(|list| list.tree = tree.clone());
}
