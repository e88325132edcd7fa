//! Trees that are shown to other programs: several as one, with what folders change in their
//! archives.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::given::Given;
use super::routes::folder_of;
use super::stitch::{Error, Result, branch_of};
use crate::stitch::{Routes, routed};
use crate::tree::{CaseRule, Failure, Kind, Layer, NodeId, Tree, Union};
use crate::verify::Branch;

/// What is to be shown.
#[derive(Debug)]
pub struct PresentGiven {
    /// One directory, pack, archive or file; or several directories as one, in which the later
    /// counts.
    pub sources: Vec<Given>,
    /// Folders whose paths name archives, and members in them that are replaced.
    pub routes: Vec<Given>,
    /// Whether names of archives that differ from those in the folders only in case are one.
    pub case: CaseRule,
    /// Where it will be shown, if that is a path: not in what is shown.
    pub target: Option<PathBuf>,
}

/// What is shown.
#[derive(Debug)]
pub struct Presented {
    /// A tree.
    pub tree: Arc<dyn Tree>,
    /// The directory or file of it that is shown.
    pub root: NodeId,
    /// What packs and archives have, or should have, that is not in it.
    pub misplaced: Vec<Failure<crate::Error>>,
}

impl PresentGiven {
    /// Puts them together: nothing but folders with changes, and the trees that they are for, is
    /// listed. `go_on` is asked now and then, with the entries so far.
    ///
    /// # Errors
    /// [`Error::Invalid`] where several are given and one is no whole directory, and where the
    /// target lies in a directory on disk that is shown: each look at it would wait for another;
    /// what cannot be listed; what [`Routes::of`] refuses.
    pub fn open(self, go_on: &mut dyn FnMut(u64) -> bool) -> Result<Presented> {
        let Self { sources, routes, case, target } = self;
        let mut misplaced = Vec::new();
        let sources = sources.into_iter().map(|source| branch_of(source, &mut misplaced));
        let mut sources = sources.collect::<Result<Vec<_>>>()?;
        if let Some(target) = &target {
            sources.iter().try_for_each(|source| refuse_within(source, target))?;
        }
        let is_alone = sources.len() == 1 && routes.is_empty();
        if !is_alone {
            sources.iter().try_for_each(check_whole)?;
        }
        let Some(last) = sources.pop() else {
            return Err(Error::Invalid("nothing is given that could be shown".to_owned()));
        };
        let (mut tree, mut root) = (last.tree, last.id);
        if !sources.is_empty() {
            let path = tree.path().to_path_buf();
            let layers = sources.into_iter().map(|source| source.tree).chain([tree]).map(Layer::new);
            let union = Union::new(path, layers, CaseRule::Exact)?;
            root = union.root();
            tree = Arc::new(union);
        }
        if !routes.is_empty() {
            let folders = routes.into_iter().map(|folder| folder_of(folder, &mut misplaced));
            let folders = folders.collect::<Result<Vec<_>>>()?;
            let union = routed(tree, Routes::of(folders, case, go_on)?, go_on)?.tree();
            root = union.root();
            tree = union;
        }
        Ok(Presented { tree, root, misplaced })
    }
}

/// Only whole directories can be put together.
fn check_whole(branch: &Branch) -> Result<()> {
    let is_whole = branch.id == branch.tree.root() && branch.tree.kind(branch.id)? == Kind::Directory;
    if is_whole {
        return Ok(());
    }
    let shown = branch.tree.path_of(branch.id);
    Err(Error::Invalid(format!("{} is not all of a directory, a pack or an archive", shown.display())))
}

/// A directory that is shown in itself has no end.
fn refuse_within(branch: &Branch, target: &Path) -> Result<()> {
    let Some(source) = branch.lies_in.as_deref().filter(|_| branch.is_on_disk) else { return Ok(()) };
    // What is not there lies in nothing.
    let (Ok(source), Ok(target)) = (source.canonicalize(), target.canonicalize()) else { return Ok(()) };
    if target == source || source.is_dir() && target.starts_with(&source) {
        let (target, source) = (target.display(), source.display());
        return Err(Error::Invalid(format!("{target} lies in {source}, which would be shown in itself")));
    }
    Ok(())
}
