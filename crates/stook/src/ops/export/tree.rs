//! Any tree as a tar.
//!
//! Directories come before what is in them, their names in the order of bytes, and files in the
//! order of the medium, some thousands at a time, read as one gather. Hard links to files come
//! last.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;

use super::tar::{Entry, Tar};
use super::{Export, OnProgress};
use crate::engine::EngineFactory;
use crate::ops::unpack::{Error, Failure, Filtering, Result, Summary};
use crate::pack;
use crate::tree::{
    BodyPiece, Cursor, GatherOptions, Gathered, Holes, Kind, Node, NodeId, Page, Tree, Xattrs,
};

/// Files that are gathered at once.
const BATCH: usize = 4096;

impl Export<'_> {
    /// Writes the tar of any tree: a directory on disk, an archive, a union. What cannot be read
    /// is a [failure](Summary::failures), and so are pipes, sockets and devices; where a file turns
    /// out so only when its length is written already, zeroes stand for the rest of it.
    ///
    /// # Errors
    /// [`Error::Write`] where `to` fails, an engine that cannot be made, [`Error::Interrupted`].
    pub fn run_tree(
        &self,
        tree: &dyn Tree,
        engines: &dyn EngineFactory,
        to: &mut dyn io::Write,
        progress: OnProgress<'_>,
    ) -> Result<Summary> {
        let is_directory = |path: &[u8]| {
            let found = tree.find(path).ok().flatten().and_then(|id| tree.node(id).ok());
            found.is_some_and(|node| node.kind == Kind::Directory)
        };
        let filtering = Filtering::new(&self.filter, is_directory);
        let to = &mut |bytes: &[u8], _: &mut dyn FnMut() -> bool| to.write_all(bytes).map_err(Error::Write);
        let mut exporting = Exporting {
            tree,
            engines,
            filtering: &filtering,
            tar: Tar::new(to, progress, &filtering, self.xattrs),
            files: Vec::new(),
            links: Vec::new(),
            firsts: HashMap::new(),
        };
        exporting.all()?;
        exporting.tar.end()
    }
}

/// An entry that was listed.
struct Listed {
    key: Vec<u8>,
    id: NodeId,
    node: Node,
    is_taken: bool,
}

struct Exporting<'a> {
    tree: &'a dyn Tree,
    engines: &'a dyn EngineFactory,
    filtering: &'a Filtering<'a>,
    tar: Tar<'a>,
    /// Files that are to be written.
    files: Vec<Listed>,
    /// Hard links to files.
    links: Vec<Listed>,
    /// Of files with several names, the one that is the file, and whether it is in the tar.
    firsts: HashMap<NodeId, (Vec<u8>, bool)>,
}

/// A file whose bytes are being written.
struct Begun {
    index: usize,
    /// Where its bytes end in the tar.
    end: u64,
    len: u64,
}

impl Exporting<'_> {
    fn all(&mut self) -> Result<()> {
        let root = self.tree.root();
        match self.tree.node(root) {
            // Modes and times of which the tree says nothing are not written.
            Ok(node) if node == Node::new(Kind::Directory) => {}
            Ok(node) => self.directory(&Listed { key: Vec::new(), id: root, node, is_taken: true })?,
            Err(error) => self.fail(Vec::new(), error),
        }
        let mut waiting = vec![(root, Vec::new())];
        while let Some((directory, key)) = waiting.pop() {
            let mut entries = self.entries(directory, &key)?;
            entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
            let before = waiting.len();
            for entry in entries {
                match entry.node.kind {
                    Kind::Directory => {
                        if entry.is_taken {
                            self.directory(&entry)?;
                        }
                        waiting.push((entry.id, entry.key));
                    }
                    _ => self.other(entry)?,
                }
            }
            // The next is taken from the end.
            waiting.get_mut(before..).unwrap_or_default().reverse();
            if self.files.len() >= BATCH {
                self.write_files()?;
            }
        }
        self.write_files()?;
        self.write_links()
    }

    /// What is taken of a directory, and all directories in it.
    fn entries(&mut self, directory: NodeId, above: &[u8]) -> Result<Vec<Listed>> {
        let (mut page, mut from, mut all) = (Page::new(), Some(Cursor::Start), Vec::new());
        while let Some(cursor) = from {
            self.tar.check_progress()?;
            from = match self.tree.list(directory, &cursor, &mut page) {
                Ok(next) => next,
                Err(error) => {
                    self.fail(above.to_vec(), error);
                    return Ok(all);
                }
            };
            for error in page.take_failures() {
                self.fail(above.to_vec(), error);
            }
            for entry in page.iter() {
                let separator = if above.is_empty() { &b""[..] } else { b"/" };
                let key = [above, separator, entry.name].concat();
                match entry.node.map_or_else(|| self.tree.node(entry.id), Ok) {
                    Ok(node) => {
                        let is_taken = self.filtering.takes(&key);
                        if is_taken || node.kind == Kind::Directory {
                            all.push(Listed { key, id: entry.id, node, is_taken });
                        }
                    }
                    Err(error) => self.fail(key, error),
                }
            }
        }
        Ok(all)
    }

    fn directory(&mut self, entry: &Listed) -> Result<()> {
        self.tar.seen += 1;
        match self.tree.xattrs(entry.id) {
            Ok(xattrs) => self.tar.directory(&entry.with(&xattrs)),
            Err(error) => {
                self.fail(entry.key.clone(), error);
                Ok(())
            }
        }
    }

    /// Takes what is no directory.
    fn other(&mut self, entry: Listed) -> Result<()> {
        self.tar.seen += 1;
        match entry.node.kind {
            Kind::Symlink => {
                let read = self.tree.link_target(entry.id);
                match read.and_then(|target| Ok((target, self.tree.xattrs(entry.id)?))) {
                    Ok((target, xattrs)) => return self.tar.symlink(&entry.with(&xattrs), &target),
                    Err(error) => self.fail(entry.key, error),
                }
            }
            Kind::File if self.firsts.contains_key(&entry.id) => self.links.push(entry),
            Kind::File => {
                if entry.node.links > 1 {
                    self.firsts.insert(entry.id, (entry.key.clone(), false));
                }
                self.files.push(entry);
            }
            kind => {
                let (path, found) = (self.tree.path_of(entry.id), kind.noun());
                self.fail(entry.key, crate::Error::NotARegularFile { path, found });
            }
        }
        Ok(())
    }

    /// Writes the files that were listed: each body as it arrives, one after another.
    fn write_files(&mut self) -> Result<()> {
        let files = std::mem::take(&mut self.files);
        let ids: Vec<NodeId> = files.iter().map(|file| file.id).collect();
        let (tree, engines) = (self.tree, self.engines);
        let options = GatherOptions { in_order: true, ..GatherOptions::default() };
        let (mut begun, mut written) = (None, Ok(()));
        tree.gather(&ids, engines, &options, &mut |gathered| {
            let Some(file) = files.get(gathered.index) else { return ControlFlow::Continue(()) };
            written = self.write_piece(file, gathered, &mut begun);
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        written
    }

    /// Writes what arrived of a file.
    fn write_piece(&mut self, file: &Listed, gathered: Gathered, begun: &mut Option<Begun>) -> Result<()> {
        self.tar.check_progress()?;
        let Gathered { index, result, .. } = gathered;
        let piece = match result {
            Ok(piece) => piece,
            Err(error) => {
                self.fail(file.key.clone(), error);
                return match begun.take_if(|begun| begun.index == index) {
                    Some(Begun { end, len, .. }) => self.tar.fill_up(end, len),
                    None => Ok(()),
                };
            }
        };
        let BodyPiece { offset, body_len: len, bytes } = piece;
        if offset == 0 {
            let xattrs = match self.tree.xattrs(file.id) {
                Ok(xattrs) => xattrs,
                Err(error) => {
                    self.fail(file.key.clone(), error);
                    return Ok(());
                }
            };
            self.tar.begin_file(&file.with(&xattrs), len, &Holes::default())?;
            *begun = Some(Begun { index, end: self.tar.at + len, len });
        }
        // Nothing of one whose head is not there.
        let Some(at) = begun.as_ref().filter(|begun| begun.index == index) else { return Ok(()) };
        let end = at.end;
        self.tar.write(&bytes)?;
        if self.tar.at == end {
            *begun = None;
            self.tar.end_file(len, &Holes::default())?;
            if let Some(first) = self.firsts.get_mut(&file.id) {
                first.1 = true;
            }
        }
        Ok(())
    }

    fn write_links(&mut self) -> Result<()> {
        for link in std::mem::take(&mut self.links) {
            self.tar.check_progress()?;
            match self.firsts.get(&link.id) {
                Some((first, true)) => self.tar.hard_link(&link.with(&Xattrs::default()), first)?,
                _ => {
                    let what = "it is one file with another, which could not be written".to_owned();
                    self.fail(link.key, pack::Error::Invalid(what));
                }
            }
        }
        Ok(())
    }

    fn fail(&mut self, key: Vec<u8>, error: impl Into<Error>) {
        self.tar.summary.failures.push(Failure { key, error: error.into() });
    }
}

impl Listed {
    fn with<'e>(&'e self, xattrs: &'e Xattrs) -> Entry<'e> {
        Entry { key: &self.key, node: &self.node, xattrs }
    }
}
