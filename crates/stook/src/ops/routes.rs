//! Trees with what folders change in their archives: listed, or written out.

use std::path::Path;

use super::copy;
use super::given::Given;
use super::stitch::{Error, Result, branch_of};
use crate::copy::{Copy, CopyEvents, CopyOptions, CopyReport, CopySource, Destination};
use crate::stitch::{RouteFolder, Routed, Routes, routed};
use crate::tree::{CaseRule, Failure, Kind};

/// A tree, and what changes archives in it.
#[derive(Debug)]
pub struct RoutesGiven {
    /// A directory, a pack or an archive.
    pub tree: Given,
    /// What [`Routes`] are made of. A later one counts more.
    pub folders: Vec<Given>,
    /// Whether names that differ only in case are one.
    pub case: CaseRule,
}

/// A tree with the changed archives in it.
#[derive(Debug)]
pub struct RoutedTree {
    /// It, and what is in the folders for nothing.
    pub routed: Routed,
    /// What packs and archives among the folders should have, and have not.
    pub misplaced: Vec<Failure<crate::Error>>,
    source: CopySource,
}

impl RoutesGiven {
    /// Finds what the folders name: lists them and the tree, and reads nothing. `go_on` is asked
    /// now and then, with the entries so far.
    ///
    /// # Errors
    /// What cannot be opened, and folders that cannot be listed; what [`Routes::of`] refuses.
    pub fn find(self, go_on: &mut dyn FnMut(u64) -> bool) -> Result<RoutedTree> {
        let Self { tree, folders, case } = self;
        let source = tree.into_source()?;
        if source.id != source.tree.root() || source.tree.node(source.id)?.kind != Kind::Directory {
            let what = format!(
                "{} is not all of a directory, a pack or an archive",
                source.tree.path_of(source.id).display()
            );
            return Err(Error::Invalid(what));
        }
        let mut misplaced = Vec::new();
        let folders = folders.into_iter().map(|folder| folder_of(folder, &mut misplaced));
        let folders = folders.collect::<Result<Vec<_>>>()?;
        let routes = Routes::of(folders, case, go_on)?;
        let routed = routed(source.tree.clone(), routes, go_on)?;
        let source = source.with_tree(routed.tree());
        Ok(RoutedTree { routed, misplaced, source })
    }
}

pub(super) fn folder_of(folder: Given, misplaced: &mut Vec<Failure<crate::Error>>) -> Result<RouteFolder> {
    let branch = branch_of(folder, misplaced)?;
    if branch.tree.node(branch.id)?.kind != Kind::Directory {
        let what = format!("{} is no folder with changes", branch.path().display());
        return Err(Error::Invalid(what));
    }
    Ok(RouteFolder { tree: branch.tree, id: branch.id, is_on_disk: branch.is_on_disk })
}

impl RoutedTree {
    /// Writes all of it into a directory, which is made or has to be empty. A file that cannot be
    /// read, or made, is one of the failures of the report.
    ///
    /// # Errors
    /// A directory that is not empty, or lies in the tree; what cannot be written there at all.
    pub fn write(&self, path: &Path, events: &mut dyn CopyEvents) -> copy::Result<CopyReport> {
        let there = path.symlink_metadata().is_ok();
        let failed = |error| crate::Error::io("list", path, error);
        if there && std::fs::read_dir(path).map_err(failed)?.next().is_some() {
            let what = format!("{} is not empty: what is there would be mixed with it", path.display());
            return Err(crate::copy::Error::Invalid(what).into());
        }
        let copy = Copy::new(vec![self.source.clone()], vec![Destination::new(path)]);
        Ok(copy.with_options(CopyOptions::default()).run(events)?)
    }
}
