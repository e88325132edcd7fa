//! Trees that are shown to other programs: several as one, with what folders change in their
//! archives.

use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::given::Given;
use super::routes::folder_of;
use super::stitch::{Error, Result, branch_of, failures_of};
use crate::pack::OpenOptions;
use crate::pack::tree::Followed;
use crate::source::Inodes;
use crate::stitch::{MergedCache, MergedOpener, RouteFolder, Routed, Routes, routed};
use crate::tree::descent::{Descending, Met, descend};
use crate::tree::{CaseRule, Failure, Kind, Layer, NodeId, Tree, Union};
use crate::verify::Branch;
use crate::walk::DirectoryTree;

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
    /// Of one pack, all of it: that it is followed, and how newer states of it are opened.
    pub follow: Option<OpenOptions>,
    /// Where it will be shown, if that is a path: not in what is shown.
    pub target: Option<PathBuf>,
    /// A cache with copies of archives that folders change.
    pub merged: Option<Arc<MergedCache>>,
}

/// What is shown.
#[derive(Debug)]
pub struct Presented {
    /// A tree.
    pub tree: Arc<dyn Tree>,
    /// The directory or file of it that is shown.
    pub root: NodeId,
    /// The same, where it is a pack that is followed.
    pub followed: Option<Arc<Followed>>,
    /// What packs and archives have, or should have, that is not in it; what could not be listed to
    /// find the archives that folders change; and what in these folders changes none.
    pub misplaced: Vec<Failure<crate::Error>>,
}

impl PresentGiven {
    /// Puts them together: nothing but folders with changes, and the trees that they are for, is
    /// listed. `go_on` is asked now and then, with the entries so far.
    ///
    /// # Errors
    /// [`Error::Invalid`] where several are given and one is no whole directory, where something
    /// else than a pack is to be followed, where copies have nothing to be of, and where the
    /// target lies in a directory on disk that is shown, or hides a file that is read: each look at
    /// it would wait for another; what cannot be listed; what [`Routes::of`] refuses.
    pub fn open(self, go_on: &mut dyn FnMut(u64) -> bool) -> Result<Presented> {
        let Self { sources, routes, case, follow, target, merged } = self;
        if merged.is_some() && routes.is_empty() {
            let what = "copies are of archives that folders change, and no folder is given";
            return Err(Error::Invalid(what.to_owned()));
        }
        let mut misplaced = Vec::new();
        if let Some(options) = follow {
            let refused = || Error::Invalid("only one pack, and all of it, can be followed".to_owned());
            let is_alone = sources.len() == 1 && routes.is_empty();
            let given = sources.into_iter().next().filter(|_| is_alone).ok_or_else(refused)?;
            let (followed, lacking) = given.into_followed(options)?.ok_or_else(refused)?;
            misplaced.extend(failures_of(followed.path(), lacking));
            let followed = Arc::new(followed);
            let (tree, root) = (followed.clone() as Arc<dyn Tree>, followed.root());
            return Ok(Presented { tree, root, followed: Some(followed), misplaced });
        }
        let sources = sources.into_iter().map(|source| branch_of(source, &mut misplaced));
        let sources = sources.collect::<Result<Vec<_>>>()?;
        if let Some(target) = &target {
            sources.iter().try_for_each(|source| refuse_within(source, target))?;
        }
        let sources = sources.into_iter().map(without_presented);
        let mut sources = sources.collect::<Result<Vec<_>>>()?;
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
            let shown = folders.clone();
            let mut routed = routed(tree, Routes::of(folders, case, go_on)?, go_on)?;
            misplaced.extend(unused_in(&routed, &shown));
            misplaced.extend(routed.take_failures());
            if let Some(cache) = merged {
                routed.use_merged(MergedOpener::new(cache));
            }
            root = routed.tree().root();
            tree = routed.tree();
        }
        if let Some(target) = &target {
            refuse_hiding(&*tree, target)?;
        }
        Ok(Presented { tree, root, followed: None, misplaced })
    }
}

/// What of folders changes nothing that is shown.
fn unused_in(routed: &Routed, folders: &[RouteFolder]) -> Vec<Failure<crate::Error>> {
    let unused = routed.unused().into_iter().filter_map(|unused| {
        let folder = folders.get(unused.folder)?;
        let path = folder.tree.path_of(folder.id).join(OsStr::from_bytes(&unused.key));
        let why = io::Error::other("it is for nothing: no archive that is shown has such a path");
        Some(Failure { error: crate::Error::io("use", path, why), key: unused.key })
    });
    unused.collect()
}

/// The type of file system that the system shows for what is mounted by this.
pub const FILE_SYSTEM: &str = "fuse.stook";

/// A directory on disk without what is shown in it by others like this: where two have one another
/// in them, each would wait for the other.
fn without_presented(branch: Branch) -> Result<Branch> {
    let is_directory = branch.is_on_disk && branch.tree.kind(branch.id)? == Kind::Directory;
    Ok(match &branch.lies_in {
        Some(path) if is_directory => Branch::directory_without_mounts_of(path, FILE_SYSTEM)?,
        _ => branch,
    })
}

/// What is read from files at the target would be read from itself: they cannot be reached there
/// once it is shown.
fn refuse_hiding(tree: &dyn Tree, target: &Path) -> Result<()> {
    let mut read_from = Inodes::new();
    tree.note_files(&mut read_from);
    let Ok(found) = target.metadata() else { return Ok(()) };
    if read_from.is_empty() {
        return Ok(());
    }
    let found = match found.is_dir() {
        true => {
            let below = DirectoryTree::open(target)?.without_mounts_of(FILE_SYSTEM);
            let mut looking = Looking { below: &below, read_from, found: None };
            let _broken_off = descend(&below, (below.root(), Vec::new(), ()), &mut looking);
            looking.found
        }
        false => read_from.contains(&(found.dev(), found.ino())).then(Vec::new),
    };
    let Some(key) = found else { return Ok(()) };
    let (hidden, target) = (target.join(OsStr::from_bytes(&key)), target.display());
    Err(Error::Invalid(format!(
        "it is read from {}, which would be hidden by what is shown at {target}",
        hidden.display()
    )))
}

/// Looks for files that are read from.
struct Looking<'a> {
    below: &'a DirectoryTree,
    read_from: Inodes,
    found: Option<Vec<u8>>,
}

impl Descending for Looking<'_> {
    type Kept = ();

    fn met(&mut self, met: Met, (): &()) -> ControlFlow<(), Option<()>> {
        if self.below.inode(met.id).is_ok_and(|inode| self.read_from.contains(&inode)) {
            self.found = Some(met.key);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue((met.node.kind == Kind::Directory).then_some(()))
    }

    /// What cannot be listed cannot be read from either.
    fn failed(&mut self, _: &[u8], _: crate::Error) {}
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
