//! What routes make of one archive, and of those that are members of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use super::Routes;
use crate::source::Source;
use crate::stitch::error::{Error, Result};
use crate::stitch::layout::{Laid, Layout as _};
use crate::stitch::members::Members;
use crate::stitch::patch::{Finder, Patch, deleted, is_link};
use crate::tree::descent::joined;
use crate::tree::{Kind, Node};

/// Archives that lie in one another, at most. Reading the innermost takes a few calls for each.
const NESTED_MAX: usize = 64;

/// An archive with what directories of routes change in it, the one that counts least first.
pub(super) fn lay_out(
    routes: &Routes,
    (path, archive): (PathBuf, Arc<dyn Source>),
    layers: &[u32],
    depth: usize,
) -> Result<Laid> {
    let patch = Patch::open(archive, routes.case, &mut |_| true)?;
    let mut given = Given::new(routes, &patch);
    for (directory, layer) in layers.iter().zip(0_u32..) {
        given.take(*directory, layer)?;
    }
    let Given { mut members, nested, .. } = given;
    for Nested { key, path, archive, node, directories, layer } in nested.into_values() {
        if depth == NESTED_MAX {
            let why = format!("more than {NESTED_MAX} archives lie in one another");
            return Err(Error::Change { key, why });
        }
        let newest =
            directories.iter().filter_map(|directory| Some(routes.node(*directory)?.newest_ns)).max();
        let within = |error| match error {
            Error::Change { key: inner, why } => Error::Change { key: [&*key, b"/", &inner].concat(), why },
            other => other,
        };
        let inner = lay_out(routes, (path, archive), &directories, depth + 1).map_err(within)?;
        let node = Node { mtime_ns: newest, ..node };
        members.add_virtual(key, inner.file, &node, layer);
    }
    patch.lay_out(path, members)
}

/// A member that is an archive, and is changed itself.
struct Nested {
    key: Vec<u8>,
    path: PathBuf,
    archive: Arc<dyn Source>,
    /// What is said of it where it comes from.
    node: Node,
    directories: Vec<u32>,
    /// The last that changes it.
    layer: u32,
}

/// What routes give for the members of an archive, layer by layer.
struct Given<'a> {
    routes: &'a Routes,
    patch: &'a Patch,
    /// Made for the first directory.
    finder: Option<Finder<'a>>,
    members: Members,
    /// By what names of one member have in common: what was changed of it so far.
    nested: BTreeMap<Vec<u8>, Nested>,
    /// Files that were given, and paths that were deleted, until then.
    files: BTreeMap<Vec<u8>, u32>,
    gone: BTreeSet<Vec<u8>>,
}

impl<'a> Given<'a> {
    fn new(routes: &'a Routes, patch: &'a Patch) -> Self {
        let members = Members::new();
        let (finder, nested, files, gone) = (None, BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { routes, patch, finder, members, nested, files, gone }
    }

    /// Takes what is in a directory: what it deletes, then its files, then its directories.
    fn take(&mut self, directory: u32, layer: u32) -> Result<()> {
        let routes = self.routes;
        let mut waiting = vec![(directory, Vec::new())];
        while let Some((directory, key)) = waiting.pop() {
            let Some(directory) = routes.node(directory) else { continue };
            let children = || directory.children.values().filter_map(|at| Some((*at, routes.node(*at)?)));
            let mut files = Vec::new();
            for (number, child) in children() {
                let key = joined(&key, &child.name);
                match child.node.kind {
                    Kind::File => {
                        let source = routes.source(child);
                        self.members.add_source(key.clone(), source, &child.node, layer);
                    }
                    Kind::Symlink => return Err(is_link(&key)),
                    _ => continue,
                }
                if !self.delete()? {
                    files.push((number, key));
                }
            }
            for (number, key) in files {
                let identity = self.identity(&key);
                self.nested.remove(&identity);
                self.files.insert(identity, number);
            }
            for (number, child) in children() {
                if child.node.kind == Kind::Directory && child.has_files {
                    let key = joined(&key, &child.name);
                    if !self.change((number, key.clone()), layer)? {
                        waiting.push((number, key));
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the file that was given last deletes something; that is gone then, and what is below
    /// it.
    fn delete(&mut self) -> Result<bool> {
        let case = self.routes.case;
        let Some(name) = self.members.all().last().map(|file| deleted(file, case)).transpose()?.flatten()
        else {
            return Ok(false);
        };
        let name = name.to_vec();
        let identity = self.identity(&name);
        let below = [&*identity, b"/"].concat();
        let is_below = |path: &[u8]| *path == *identity || path.starts_with(&below);
        self.nested.retain(|path, _| !is_below(path));
        self.files.retain(|path, _| !is_below(path));
        self.gone.insert(identity);
        Ok(true)
    }

    fn finder(&mut self) -> &Finder<'a> {
        let patch = self.patch;
        self.finder.get_or_insert_with(|| Finder::new(patch))
    }

    fn identity(&mut self, key: &[u8]) -> Vec<u8> {
        self.finder().identity(key)
    }

    /// Takes a directory for the member with its path, if that is an archive.
    fn change(&mut self, (directory, key): (u32, Vec<u8>), layer: u32) -> Result<bool> {
        let identity = self.identity(&key);
        if let Some(nested) = self.nested.get_mut(&identity) {
            nested.directories.push(directory);
            (nested.key, nested.layer) = (key, layer);
            return Ok(true);
        }
        let file = self.files.get(&identity).and_then(|number| self.routes.node(*number));
        let archive = match file {
            Some(file) => Some((self.routes.source(file), file.node)),
            None if self.is_gone(&identity) => None,
            None => self.finder().open(&key)?,
        };
        let Some((archive, node)) = archive.filter(|(archive, _)| !archive.is_empty()) else {
            return Ok(false);
        };
        if !Patch::is_archive(&*archive)? {
            return Ok(false);
        }
        let path = archive.path().to_path_buf();
        let nested = Nested { key, path, archive, node, directories: vec![directory], layer };
        self.nested.insert(identity, nested);
        Ok(true)
    }

    /// Whether a path was deleted, or one above it.
    fn is_gone(&self, identity: &[u8]) -> bool {
        let ends = identity.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut above = ends.chain([identity.len()]).filter_map(|end| identity.get(..end));
        above.any(|path| self.gone.contains(path))
    }
}
