//! Any tree into a pack: what directories on disk have a walk for.
//!
//! Entries go the same way as those of a walk; only where they come from is another matter. They
//! are listed directory by directory, and many bodies are read as one gather. A body that is too
//! long for that is a gather of its own, piece by piece.

use std::ops::ControlFlow;

use super::existing::{Existing, Holds};
use super::gone::Delete;
use super::names::{Claims, Unread};
use super::packing::{Abort, Item, ItemBody, PackSummary, PackTree, Packing, Whole, is_unfinished};
use super::records::{LongBody, Take};
use crate::engine::EngineFactory;
use crate::pack::error::{Error, Result};
use crate::pack::state::open::Pack;
use crate::pack::writer::PackWriter;
use crate::tree::{BodyPiece, Cursor, GatherOptions, Gathered, Holes, Node, NodeId, Page, Tree, Xattrs};
use crate::walk::{Candidate, Decision, Kind, Status};

/// Bodies up to this length are gathered with others, in bytes.
const WHOLE_MAX: u64 = 8 << 20;

/// Files that are gathered at once.
const BATCH_LEN: usize = 4096;

/// A tree, and what reads it.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnyTree<'p> {
    tree: &'p dyn Tree,
    engines: &'p dyn EngineFactory,
}

/// A file that was listed.
struct ListedFile {
    key: Vec<u8>,
    id: NodeId,
    node: Node,
}

/// A directory that is to be listed.
struct Unlisted {
    key: Vec<u8>,
    id: NodeId,
    /// If nothing is known of it, and it is to be packed: only when it is empty is there a record.
    unknown: Option<Node>,
}

/// What is still to be gone through of a tree.
struct TreeListing {
    directories: Vec<Unlisted>,
    files: Vec<ListedFile>,
}

impl PackTree<'_> {
    /// Packs any tree (an archive, another pack, a union) as [`run`](Self::run) packs directories:
    /// what `before` has unchanged is not put again, names of one file are hard links, and what is
    /// wrong with one entry is a failure of it alone. [`roots`](Self::roots) are not looked at.
    ///
    /// Of a directory of which the tree knows nothing there is a record only if it is empty: those
    /// of what is in it say that it is there. What has no mode or no time, as in some zips, is put
    /// again by each run.
    ///
    /// # Errors
    /// What writing the pack meets; [`Error::Invalid`] when records of what is gone were to be
    /// deleted, which is done for directories on disk alone.
    pub fn run_tree(
        &self,
        tree: &dyn Tree,
        engines: &dyn EngineFactory,
        writer: Option<&mut PackWriter>,
        before: Option<&Pack>,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<PackSummary> {
        if self.delete != Delete::Nothing {
            let why = "records of what is gone are deleted only where directories on disk are packed";
            return Err(Error::Invalid(why.into()));
        }
        let existing = before.map(Existing::read).transpose()?.unwrap_or_default();
        let of = AnyTree { tree, engines };
        let mut packing = self.packing(writer, before, &existing, progress)?;
        packing.of = Some(of);
        match packing.go_through(of).and_then(|()| packing.link_names()) {
            Ok(()) => {}
            Err(Abort::Interrupted) => packing.summary.interrupted = true,
            Err(Abort::Failed(error)) => return Err(error),
        }
        Ok(packing.summary)
    }
}

impl AnyTree<'_> {
    fn xattrs(&self, id: NodeId, are_wanted: bool) -> Result<Xattrs> {
        Ok(if are_wanted { self.tree.xattrs(id)? } else { Xattrs::default() })
    }

    /// Extended attributes and holes of a file.
    fn beside_bytes(&self, id: NodeId, with_xattrs: bool) -> Result<(Xattrs, Holes)> {
        Ok((self.xattrs(id, with_xattrs)?, self.tree.holes(id)?))
    }
}

impl Packing<'_, '_> {
    /// Goes through the whole tree.
    fn go_through(&mut self, of: AnyTree<'_>) -> Result<(), Abort> {
        let claims = Claims::default();
        let root = of.tree.root();
        if self.before.is_some() {
            self.root_keys = vec![Vec::new()];
        }
        match of.tree.node(root) {
            Ok(node) => _ = self.take_other(of, Vec::new(), root, node)?,
            Err(error) => self.take_failure(Vec::new(), error.into())?,
        }
        let root = Unlisted { key: Vec::new(), id: root, unknown: None };
        let mut listing = TreeListing { directories: vec![root], files: Vec::new() };
        while let Some(directory) = listing.directories.pop() {
            self.list(of, directory, &mut listing, &claims)?;
        }
        self.take_files(of, listing.files, &claims)?;
        // Of an empty tree all was taken.
        if self.summary.asked == 0 {
            self.take_held_roots()?;
        }
        self.compare_waiting()
    }

    /// Lists a directory: what is no file is taken at once, files when there are enough of them.
    fn list(
        &mut self,
        of: AnyTree<'_>,
        directory: Unlisted,
        listing: &mut TreeListing,
        claims: &Claims,
    ) -> Result<(), Abort> {
        let tree = self.tree;
        let Unlisted { key: above, id: directory, unknown } = directory;
        let (mut page, mut from, mut is_empty) = (Page::new(), Some(Cursor::Start), true);
        while let Some(cursor) = from {
            from = match of.tree.list(directory, &cursor, &mut page) {
                Ok(next) => next,
                Err(error) => return self.take_failure(above, error.into()),
            };
            is_empty &= page.is_empty() && page.failures().is_empty();
            for error in page.take_failures() {
                // It names the path.
                self.take_failure(above.clone(), error.into())?;
            }
            for entry in page.iter() {
                let key = join(&above, entry.name);
                let node = match entry.node.map_or_else(|| of.tree.node(entry.id), Ok) {
                    Ok(node) => node,
                    Err(error) => {
                        self.take_failure(key, error.into())?;
                        continue;
                    }
                };
                let decision = tree.decide(&self.summary.own, &key, node.kind);
                if is_unfinished(&key, node.kind) {
                    self.summary.temporary.push(key.clone());
                }
                self.summary.asked += u64::from(decision != Decision::Prune);
                match (decision, node.kind) {
                    (Decision::Prune, _) => {}
                    (decision, Kind::Directory) => {
                        let (id, is_wanted) = (entry.id, decision == Decision::Take);
                        let is_taken = is_wanted && self.take_other(of, key.clone(), id, node)?;
                        let unknown = Some(node).filter(|_| is_wanted && !is_taken);
                        listing.directories.push(Unlisted { key, id, unknown });
                    }
                    (Decision::Skip, _) => {}
                    (_, Kind::File) => listing.files.push(ListedFile { key, id: entry.id, node }),
                    _ => _ = self.take_other(of, key, entry.id, node)?,
                }
            }
            if listing.files.len() >= BATCH_LEN {
                self.take_files(of, std::mem::take(&mut listing.files), claims)?;
            }
        }
        match unknown.filter(|_| is_empty) {
            Some(node) => self.take_item(item(above, Status::of_node(directory, node), ItemBody::None)),
            None => Ok(()),
        }
    }

    /// Takes what is no file; false for a directory of which nothing is known.
    fn take_other(&mut self, of: AnyTree<'_>, key: Vec<u8>, id: NodeId, node: Node) -> Result<bool, Abort> {
        let read = || -> Result<(ItemBody<'static>, Xattrs)> {
            let body = match node.kind {
                Kind::Symlink => ItemBody::Target(of.tree.link_target(id)?),
                _ => ItemBody::None,
            };
            Ok((body, of.xattrs(id, self.tree.xattrs && !node.kind.is_special())?))
        };
        match read() {
            Ok((_, xattrs)) if node == Node::new(Kind::Directory) && xattrs.is_empty() => return Ok(false),
            Ok((body, xattrs)) => {
                let (status, holes) = (Status::of_node(id, node), Holes::default());
                self.take_item(Item { key, status, body, xattrs, holes })?;
            }
            Err(error) => self.take_failure(key, error)?,
        }
        Ok(true)
    }

    /// Takes files, those that are wanted with their bytes.
    fn take_files(&mut self, of: AnyTree<'_>, files: Vec<ListedFile>, claims: &Claims) -> Result<(), Abort> {
        let (existing, dry, rule) = (self.existing, self.writer.is_none(), self.rule());
        let mut wanted = Vec::new();
        for file in files {
            let status = Status::of_node(file.id, file.node);
            let is_asked = !dry || existing.holds_file(&file.key, &status, rule) == Holds::Alike;
            let candidate = Candidate { key: &file.key, status: &status };
            if is_asked && claims.wants(candidate, existing, rule) {
                wanted.push(file);
            } else {
                self.take_item(item(file.key, status, ItemBody::NotRead))?;
            }
        }
        self.read_files(of, wanted)
    }

    /// Takes files with their bytes.
    fn read_files(&mut self, of: AnyTree<'_>, files: Vec<ListedFile>) -> Result<(), Abort> {
        let (short, long): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| file.node.len <= WHOLE_MAX);
        self.read_short(of, short.into_iter().map(Some).collect())?;
        for ListedFile { key, id, node } in long {
            let mut body = LongNode { of, id, len: node.len };
            self.take_item(item(key, Status::of_node(id, node), ItemBody::Long(&mut body)))?;
        }
        Ok(())
    }

    /// Takes files whose bytes are read in one pass.
    fn read_short(&mut self, of: AnyTree<'_>, mut files: Vec<Option<ListedFile>>) -> Result<(), Abort> {
        let ids: Vec<NodeId> = files.iter().flatten().map(|file| file.id).collect();
        let options = GatherOptions { piece_bytes: WHOLE_MAX, ..GatherOptions::default() };
        let mut taken = Ok(());
        of.tree.gather(&ids, of.engines, &options, &mut |gathered| {
            // What came in pieces after all has failed with the first of them.
            let Some(file) = files.get_mut(gathered.index).and_then(Option::take) else {
                return ControlFlow::Continue(());
            };
            taken = self.take_gathered(of, file, gathered);
            if taken.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        taken
    }

    fn take_gathered(&mut self, of: AnyTree<'_>, file: ListedFile, gathered: Gathered) -> Result<(), Abort> {
        let ListedFile { key, id, node } = file;
        let read = || -> Result<(BodyPiece, (Xattrs, Holes))> {
            let piece = gathered.result?;
            if piece.body_len != node.len || !piece.is_whole() {
                return Err(changed());
            }
            Ok((piece, of.beside_bytes(id, self.tree.xattrs)?))
        };
        match read() {
            Ok((piece, (xattrs, holes))) => {
                let body = ItemBody::Whole(Whole::Gathered(piece.bytes));
                self.take_item(Item { key, status: Status::of_node(id, node), body, xattrs, holes })
            }
            Err(error) => self.take_failure(key, error),
        }
    }

    /// Reads files under these names.
    pub(super) fn read_again_in(&mut self, of: AnyTree<'_>, unread: &Unread) -> Result<(), Abort> {
        let mut files = Vec::new();
        for key in unread.iter() {
            let found = || -> Result<Option<(NodeId, Node)>> {
                let Some(id) = of.tree.find(key)? else { return Ok(None) };
                Ok(Some((id, of.tree.node(id)?)))
            };
            match found() {
                Ok(Some((id, node))) => files.push(ListedFile { key: key.to_vec(), id, node }),
                // The caller reports that it could not be read.
                Ok(None) => {}
                Err(error) => self.take_failure(key.to_vec(), error)?,
            }
        }
        self.read_files(of, files)?;
        self.compare_waiting()
    }
}

/// An entry without what is known of it beside its node.
fn item(key: Vec<u8>, status: Status, body: ItemBody<'_>) -> Item<'_> {
    Item { key, status, body, xattrs: Xattrs::default(), holes: Holes::default() }
}

/// The key of an entry of a directory.
fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory {
        [] => name.to_vec(),
        directory => [directory, b"/", name].concat(),
    }
}

fn changed() -> Error {
    Error::Invalid("it has another length than it had when it was listed; pack it again".into())
}

/// The body of a node that is too long to be held.
struct LongNode<'t> {
    of: AnyTree<'t>,
    id: NodeId,
    len: u64,
}

impl LongBody for LongNode<'_> {
    fn open(&mut self, with_xattrs: bool) -> Result<(Xattrs, Holes)> {
        self.of.beside_bytes(self.id, with_xattrs)
    }

    fn pour(&mut self, take: &mut Take<'_>) -> Result<Result<bool>, Abort> {
        let options = GatherOptions { in_order: true, ..GatherOptions::default() };
        let mut poured = Ok(Ok(true));
        self.of.tree.gather(&[self.id], self.of.engines, &options, &mut |gathered| {
            poured = match gathered.result {
                Ok(piece) if piece.body_len != self.len => Ok(Err(changed())),
                Ok(piece) => take(&piece.bytes).map(Ok),
                Err(error) => Ok(Err(error.into())),
            };
            if matches!(poured, Ok(Ok(true))) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        poured
    }
}
