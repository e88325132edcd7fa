//! Folders that change members of every archive that their paths name.

mod model;
mod rules;

use std::path::Path;
use std::sync::Arc;

use stook::engine::{Access, Backend};
use stook::extent::ByteRange;
use stook::source::{Source, read_range};
use stook::stitch::{Error, RouteFolder, Routed, Routes, routed};
use stook::tree::{CaseRule, Tree};
use stook::walk::DirectoryTree;

fn folder(path: &Path) -> RouteFolder {
    let tree = Arc::new(DirectoryTree::open(path).unwrap());
    RouteFolder { id: tree.root(), tree, is_on_disk: true }
}

/// A directory with folders laid over it.
fn routed_over(tree: &Path, folders: &[&Path], case: CaseRule) -> Result<Routed, Error> {
    let routes = Routes::of(folders.iter().map(|path| folder(path)), case, &mut |_| true)?;
    routed(Arc::new(DirectoryTree::open(tree).unwrap()), routes, &mut |_| true)
}

fn all_of(source: &dyn Source) -> Vec<u8> {
    let range = ByteRange::new(0, source.len()).unwrap();
    read_range(&Backend::Threads, source, range, Access::Cached).unwrap().into()
}

/// All bytes of a file of a tree.
fn read(tree: &dyn Tree, path: &str) -> stook::Result<Vec<u8>> {
    let id = tree.find(path.as_bytes())?.unwrap_or_else(|| panic!("{path} is not there"));
    let source = tree.open(id)?;
    let range = ByteRange::new(0, source.len()).unwrap();
    Ok(read_range(&Backend::Threads, &*source, range, Access::Cached)?.into())
}
