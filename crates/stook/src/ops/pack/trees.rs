//! Trees of files into a pack.

use std::sync::Arc;

use rustix::fs::FileType;

use super::completing::Packed;
use super::hooks::{Reporting, Stage};
use super::opening::Input;
use super::{Error, PackReport, PackSources, Result};
use crate::ops::choice::Choice;
use crate::pack::tree::{MoveSummary, OwnAttributes, PackSummary, PackTree};
use crate::pack::{self, AccessRule, OpenOptions, Pack};
use crate::profile::Profile;
use crate::storage::Storage;
use crate::tree::Kind;

impl PackSources<'_> {
    pub(super) fn pack_trees(&self, reporting: &mut Reporting<'_>) -> Result<PackReport> {
        let mut tree = self.tree(reporting.choice)?;
        let mut opened = self.open(Input::Tree(&tree), reporting)?;
        tree.own = self.pack.exists().then(|| self.pack.clone());
        tree.keeps_moved = self.keeps_moved(opened.before.as_ref());
        let mut progress = |entries: u64, bytes: u64| reporting.goes_on(Stage::Packing, entries, bytes);
        let packed = tree.run(opened.writer.as_mut(), opened.before.as_ref(), &mut progress);
        reporting.finish(Stage::Packing);
        let nothing = packed.as_ref().ok().filter(|summary| self.is_all_asked(summary));
        let nothing = nothing.and_then(|summary| reporting.choice.nothing_of(summary.asked));
        // Another directory may have the path of the pack by now.
        let storage = opened.storage.clone().filter(|_| self.move_originals);
        let done = packed.as_ref().ok().map(|summary| Packed { summary, has_all: false });
        let complete = self.close(opened, done, nothing, reporting)?;
        if let Some(counted) = packed.as_ref().ok().filter(|counted| self.dry_run && !counted.interrupted) {
            self.check_counted(counted)?;
        }
        let mut summary = packed.map_err(|source| Error::Stopped { pack: self.pack.clone(), source })?;
        let moved = match storage.filter(|_| !summary.interrupted) {
            // The pack may have been taken back.
            Some(_) if nothing.is_some() => Some(MoveSummary::default()),
            Some(storage) => Some(self.remove(storage, &tree, &mut summary, reporting)?),
            None => None,
        };
        Ok(PackReport { summary, left_out: Vec::new(), moved, complete, nothing })
    }

    /// The caller's additions to the attributes of records. Their failure ends the run.
    pub(super) fn attributes_noted<'t>(&'t self, choice: &'t Choice<'t>) -> Option<OwnAttributes<'t>> {
        let attributes = self.attributes.as_ref()?;
        Some(Box::new(move |key| choice.noted(attributes(key))))
    }

    /// The tree to pack, checked before anything is made.
    fn tree<'t>(&'t self, choice: &'t Choice<'t>) -> Result<PackTree<'t>> {
        for source in &self.sources {
            let into_error = |error| pack::Error::from(crate::Error::io("read", source, error));
            source.symlink_metadata().map_err(into_error)?;
            // That a link leads nowhere is reported by the walk.
            let found = rustix::fs::stat(source.as_path()).ok().map(|found| found.st_mode);
            let kind = found.map(|mode| Kind::of(FileType::from_raw_mode(mode)));
            if let Some(kind) = kind.filter(|kind| kind.is_special()) {
                return Err(Error::Special { path: source.clone(), kind });
            }
        }
        let tree = PackTree {
            roots: self.sources.clone(),
            grouping: self.grouping.clone(),
            with_owner: self.with_owner,
            xattrs: self.xattrs,
            threads: self.threads.unwrap_or_else(|| self.opens()),
            select: Box::new(|key, kind| choice.decide(key, kind)),
            own: self.pack.exists().then(|| self.pack.clone()),
            delete: self.delete,
            checksum: self.checksum,
            keeps_moved: false,
            attributes: self.attributes_noted(choice),
        };
        tree.check()?;
        if !self.as_file {
            tree.check_no_packs().map_err(Error::IsPack)?;
        }
        Ok(tree)
    }

    /// Files that are opened at once unless the caller says how many.
    fn opens(&self) -> usize {
        self.sources.first().map_or(Profile::LOCAL, |source| Profile::of_path(source)).opens
    }

    /// Whether the selection was asked about every path, and nothing went wrong.
    fn is_all_asked(&self, summary: &PackSummary) -> bool {
        let is_clean = !summary.interrupted && summary.failures.is_empty() && summary.refused.is_none();
        // A file that is named itself is packed without being asked about.
        is_clean && self.sources.iter().all(|source| source.is_dir())
    }

    /// Removes the files that the pack in this directory holds. Files kept because of a failure,
    /// and an interruption, are added to the failures of packing.
    fn remove(
        &self,
        storage: Arc<dyn Storage>,
        tree: &PackTree<'_>,
        summary: &mut PackSummary,
        reporting: &mut Reporting<'_>,
    ) -> Result<MoveSummary> {
        // From the medium: the page cache proves nothing about the medium.
        let options = OpenOptions { access: AccessRule::Direct, ..OpenOptions::default() };
        let pack = Pack::open(storage, options)?;
        reporting.hooks.watch(pack.damage_log());
        let mut progress = |entries: u64, bytes: u64| reporting.goes_on(Stage::Removing, entries, bytes);
        let removed = tree.remove_packed(&pack, &summary.failures, &mut progress);
        reporting.finish(Stage::Removing);
        let mut moved = removed.map_err(|source| Error::Removing { pack: self.pack.clone(), source })?;
        summary.failures.append(&mut moved.failures);
        summary.interrupted = moved.interrupted;
        Ok(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Selection;

    #[test]
    fn a_number_of_threads_that_is_asked_for_comes_before_the_profile() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("tree");
        std::fs::create_dir(&source).unwrap();
        let patterns = Selection::default();
        let choice = Choice::new(&patterns, None, None);
        let threads = |threads: Option<usize>| {
            let pack = directory.path().join("p.stook");
            let all = PackSources { threads, ..PackSources::new(vec![source.clone()], pack) };
            let tree = all.tree(&choice).unwrap();
            tree.threads
        };
        assert_eq!(threads(Some(3)), 3);
        assert_eq!(threads(None), Profile::of_path(&source).opens);
    }
}
