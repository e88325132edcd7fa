//! [`Tree`]: files and directories that can be listed, asked and read, whatever they are made of.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::facts::Fact;
use super::gather::{Deliver, GatherOptions, gather_by_session};
use super::holes::Holes;
use super::node::{InodeState, Kind, Node, NodeId, Outline};
use super::page::{Cursor, Page};
use super::parts;
use super::xattrs::Xattrs;
use crate::engine::{EngineFactory, File};
use crate::error::{Error, Result};
use crate::source::{Inodes, Source};

/// A tree of files: a directory on disk, an archive, a pack at one generation, several under one
/// root.
///
/// What callers may rely on:
/// - ids are those of this tree, and stable for its life: the same node has the same id whenever it
///   is met, under all of its names;
/// - nothing is followed: a link is a node with a target, and `..` is no name;
/// - errors are the core's and name the path of the node that was asked for. An id that the tree
///   never gave is [`NotFound`](io::ErrorKind::NotFound), the wrong kind of node
///   [`NotADirectory`](io::ErrorKind::NotADirectory), [`Error::NotARegularFile`] or
///   [`InvalidInput`](io::ErrorKind::InvalidInput), as each method says;
/// - a tree may change where its medium does (a directory on disk). What was opened before is held
///   against the state it had then; what no longer is what it was is an error.
pub trait Tree: Send + Sync + fmt::Debug {
    /// What to call the tree in messages: a path, or an address without secrets.
    fn path(&self) -> &Path;

    /// The directory that all else is below.
    fn root(&self) -> NodeId;

    /// Notes the files on disk that all of it is read from, and that are not files of the tree
    /// itself: of an archive its own, of one that a layout describes what it is made of.
    fn note_files(&self, _files: &mut Inodes) {}

    /// Whether it stays what it is for its whole life: every name, node and byte. What was learned
    /// of such a tree need not be asked again.
    fn is_fixed(&self) -> bool {
        true
    }

    /// What has this name in a directory; `None` where nothing has, or nothing could have (`..`, a
    /// name with a slash).
    ///
    /// # Errors
    /// `NotADirectory` when the parent is none; I/O errors.
    fn lookup(&self, parent: NodeId, name: &[u8]) -> Result<Option<NodeId>>;

    /// Clears `page` and puts the next entries of a directory on it, at most
    /// [`PAGE_LEN`](super::PAGE_LEN). Says where the page after it begins; `None` at the end. A
    /// page may be empty and yet not the last.
    ///
    /// The order is the tree's own. While the directory does not change, every listing has all
    /// entries once and in the same order; of one that does, what is there all the time is listed
    /// once. Entries that could not be read are on the page as [`failures`](Page::failures), and
    /// the listing continues after them.
    ///
    /// # Errors
    /// `NotADirectory` when it is none, `InvalidInput` for a cursor that is none of this tree's;
    /// I/O errors.
    fn list(&self, directory: NodeId, from: &Cursor, page: &mut Page) -> Result<Option<Cursor>>;

    /// What a node is.
    ///
    /// # Errors
    /// I/O errors.
    fn node(&self, id: NodeId) -> Result<Node>;

    /// Which state of which inode a node is, where the tree is made of inodes. What is opened later
    /// and says the same is that state; `None` where the tree holds what it opens against itself.
    ///
    /// # Errors
    /// I/O errors.
    fn inode_state(&self, _id: NodeId) -> Result<Option<InodeState>> {
        Ok(None)
    }

    /// What kind of node it is, where no more is wanted. Trees that have to compute the rest know
    /// this without.
    ///
    /// # Errors
    /// As [`node`](Self::node).
    fn kind(&self, id: NodeId) -> Result<Kind> {
        self.node(id).map(|node| node.kind)
    }

    /// Where a node is, for messages: one of its names, below [`path`](Self::path). Of an id that
    /// the tree never gave, the path of the tree.
    fn path_of(&self, id: NodeId) -> PathBuf;

    /// The target of a symbolic link, as it is stored: any bytes, which may lead anywhere.
    ///
    /// # Errors
    /// `InvalidInput` when it is none; I/O errors.
    fn link_target(&self, id: NodeId) -> Result<Vec<u8>>;

    /// The extended attributes of a node, access control lists among them, as the system keeps
    /// them: full names (`user.note`) and raw values. None where the tree carries none. What cannot
    /// be read of them is [lost](Xattrs::lost), and no error.
    ///
    /// # Errors
    /// I/O errors of the node.
    fn xattrs(&self, id: NodeId) -> Result<Xattrs> {
        self.node(id).map(|_| Xattrs::default())
    }

    /// Whether any node may have extended attributes. Where none has, nobody need ask for those of
    /// each.
    fn has_xattrs(&self) -> bool {
        true
    }

    /// What the pack or archive that a node is in says of it; `None` where it says nothing of the
    /// kind, or the node is in none. No list of extended attributes has it, so that copies of the
    /// file do not.
    ///
    /// # Errors
    /// I/O errors.
    fn fact(&self, _id: NodeId, _fact: Fact) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// Whether any node may have such [facts](Self::fact).
    fn has_facts(&self) -> bool {
        false
    }

    /// What is known of a whole tree that never changes and has not read all of itself yet, with
    /// all its names, each in its directory; `None` where listing costs no reading.
    fn outline(&self, _name: &mut dyn FnMut(NodeId, &[u8])) -> Option<Outline> {
        None
    }

    /// Reads what a tree has put off until it is asked for, unless `go_on` ends that.
    ///
    /// # Errors
    /// When reading is impossible at all.
    fn complete(&self, _go_on: &dyn Fn() -> bool) -> Result<()> {
        Ok(())
    }

    /// The bytes of a regular file, to be read by range.
    ///
    /// # Errors
    /// [`Error::NotARegularFile`] when it is none; I/O errors.
    fn open(&self, id: NodeId) -> Result<Arc<dyn Source>>;

    /// The bytes of a regular file with its extended attributes, as [`open`](Self::open) and
    /// [`xattrs`](Self::xattrs) give them: from one opening where the tree can.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    fn open_with_xattrs(&self, id: NodeId) -> Result<(Arc<dyn Source>, Xattrs)> {
        Ok((self.open(id)?, self.xattrs(id)?))
    }

    /// The [holes](Source::holes) of a regular file. Trees that know them without opening it say so
    /// here.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    fn holes(&self, id: NodeId) -> Result<Holes> {
        self.open(id)?.holes()
    }

    /// Damage that may hide names of which nothing is known, in any directory. It is among the
    /// failures of the listing of the root.
    fn hiding(&self) -> Vec<Error> {
        Vec::new()
    }

    /// Whether the bytes of a file come by requests to a server, which may take long, as far as
    /// that is known without any: who serves many does not let others wait for that.
    fn reads_by_request(&self, _id: NodeId) -> bool {
        false
    }

    /// The file on disk that holds the bytes of a node and nothing else, where there is one: what
    /// can be cloned, or handed to the kernel as it is. `None` for all else.
    ///
    /// # Errors
    /// I/O errors.
    fn whole_file(&self, id: NodeId) -> Result<Option<Arc<File>>> {
        self.node(id).map(|_| None)
    }

    /// Where the bytes of a node lie among those of the others: who reads many begins with the
    /// lowest. It is only a hint, and made without I/O.
    fn medium_order(&self, id: NodeId) -> u64 {
        id.get()
    }

    /// The node of a path of names with `/` between them, relative to the root; the empty path is
    /// the root. No link is followed. `None` where nothing has this path, or nothing could have it.
    ///
    /// # Errors
    /// I/O errors.
    fn find(&self, path: &[u8]) -> Result<Option<NodeId>> {
        find_below(self, self.root(), path)
    }

    /// Reads the bodies of many files in one pass, in the order of the medium, at the depth of one
    /// engine. Each arrives as soon as it is read, or its error does: nothing is swallowed, and one
    /// that fails stops no other. [`GatherOptions`] bound the memory. It ends early when `deliver`
    /// breaks.
    ///
    /// The same id may stand there twice. Bytes that are delivered are of the state that the file
    /// had when it was opened during the pass.
    ///
    /// This one opens each file by itself. Trees whose bodies lie side by side in few files read
    /// over the gaps instead.
    ///
    /// # Errors
    /// When the engine cannot be made. What a body meets is delivered.
    fn gather(
        &self,
        ids: &[NodeId],
        factory: &dyn EngineFactory,
        options: &GatherOptions,
        deliver: &mut Deliver<'_>,
    ) -> Result<()> {
        gather_by_session(self, ids, factory, options, deliver)
    }
}

/// The same as [`Tree::find`] of a path relative to any node.
pub(crate) fn find_below<T: Tree + ?Sized>(tree: &T, from: NodeId, path: &[u8]) -> Result<Option<NodeId>> {
    let Ok(names) = parts::split(path) else { return Ok(None) };
    let mut at = from;
    for name in names {
        match tree.lookup(at, name) {
            Ok(Some(id)) => at = id,
            Ok(None) => return Ok(None),
            Err(error) if error.io_kind() == Some(io::ErrorKind::NotADirectory) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(at))
}

/// For a node that was to be listed, or looked into, and is no directory.
pub(crate) fn not_a_directory(operation: &'static str, path: PathBuf) -> Error {
    Error::io(operation, path, io::ErrorKind::NotADirectory.into())
}

/// For a node that was to be opened, and is no file.
pub(crate) fn not_a_file(kind: Kind, path: PathBuf) -> Error {
    Error::NotARegularFile { path, found: kind.noun() }
}

/// For a cursor that some other tree gave.
pub(crate) fn foreign_cursor(path: PathBuf) -> Error {
    let what = io::Error::new(io::ErrorKind::InvalidInput, "the listing was not begun in this tree");
    Error::io("list", path, what)
}

/// For an id that the tree did not give.
pub(crate) fn unknown(tree: &Path, id: NodeId) -> Error {
    let what = io::Error::new(io::ErrorKind::NotFound, format!("it has no node {}", id.get()));
    Error::io("look into", tree, what)
}
