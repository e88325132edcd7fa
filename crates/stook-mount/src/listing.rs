//! An open directory: the pages of the tree, by the offsets that the kernel goes by.

use std::sync::atomic::Ordering;

use fuser::{INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use stook::tree::{Cursor, Kind, Node, NodeId, Page, Tree};

use crate::shared::Shared;
use crate::survey::refusal;

/// `.` and `..` come before all entries.
const DOTS: u64 = 2;

/// Takes entries until it is full.
pub(crate) trait Fill {
    /// Adds an entry, and says whether it was full before.
    fn add(&mut self, shared: &Shared, number: INodeNo, offset: u64, name: &[u8], node: &Node) -> bool;

    /// Whether the kernel knows the nodes of what was added, not only their names.
    fn has_nodes(&self) -> bool;
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) directory: NodeId,
    /// Where the pages begin that were met: the position of the first entry, and the cursor.
    starts: Vec<(u64, Cursor)>,
    /// Which of them is in memory.
    loaded: Option<usize>,
    page: Page,
    /// Where the directory ends, once that was met.
    end: Option<u64>,
    /// Whether entries of it could not be read.
    has_failed: bool,
    /// Which state of the tree the page is of, and the entry that was given last: of a newer one
    /// the listing continues after its name.
    state: u64,
    last: Option<(u64, Vec<u8>)>,
    /// Whether the kernel got no more than the names of some.
    pub(crate) has_bare_names: bool,
}

/// How a part of a listing went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filled {
    /// There is more, or all of it was given.
    Some,
    /// Nothing was left to give.
    Nothing,
    /// Nothing was left to give, and some of it could not be read.
    Failed,
}

impl Listing {
    pub(crate) fn new(directory: NodeId) -> Self {
        let starts = vec![(0, Cursor::Start)];
        Self {
            directory,
            starts,
            loaded: None,
            page: Page::new(),
            end: None,
            has_failed: false,
            has_bare_names: false,
            state: 0,
            last: None,
        }
    }

    /// Reads the page that has the entries after an offset, so that [`fill`](Self::fill) need not
    /// wait for it.
    pub(crate) fn prepare(&mut self, shared: &Shared, offset: u64) -> stook::Result<()> {
        self.load(shared, offset.saturating_sub(DOTS)).map(|_| ())
    }

    /// Gives the entries after an offset, as many as fit.
    pub(crate) fn fill(&mut self, shared: &Shared, offset: u64, to: &mut dyn Fill) -> stook::Result<Filled> {
        let mut given = 0;
        for (position, name) in [(0, &b"."[..]), (1, b"..")] {
            if position < offset {
                continue;
            }
            let id = if position == 0 { self.directory } else { shared.parent_of(self.directory) };
            let node = shared.tree.node(id)?;
            if to.add(shared, shared.numbers.inode(id), position + 1, name, &node) {
                return Ok(Filled::Some);
            }
            given += 1;
        }
        let mut next = offset.saturating_sub(DOTS);
        while self.load(shared, next)? {
            let start = self.loaded.and_then(|loaded| self.starts.get(loaded)).map_or(0, |(start, _)| *start);
            for (entry, position) in self.page.iter().zip(start..).skip((next - start) as usize) {
                next = position + 1;
                let node = match entry.node.map_or_else(|| shared.tree.node(entry.id), Ok) {
                    Ok(node) => node,
                    Err(error) => {
                        shared.failed(entry.id, &error);
                        self.has_failed = true;
                        note(&mut self.last, shared, next, entry.name);
                        continue;
                    }
                };
                if refusal(entry.name, &node, self.directory == shared.numbers.root).is_some() {
                    note(&mut self.last, shared, next, entry.name);
                    continue;
                }
                let number = shared.numbers.inode(entry.id);
                if to.add(shared, number, next + DOTS, entry.name, &node) {
                    return Ok(Filled::Some);
                }
                note(&mut self.last, shared, next, entry.name);
                self.has_bare_names |= !to.has_nodes();
                given += 1;
            }
        }
        Ok(match (given, self.has_failed) {
            (0, false) => Filled::Nothing,
            (0, true) => Filled::Failed,
            _ => Filled::Some,
        })
    }

    /// Where the tree has a newer state, forgets the pages: the listing continues after the entry
    /// that was given last.
    fn renew(&mut self, shared: &Shared, position: u64) {
        let state = shared.state.load(Ordering::SeqCst);
        if self.state == state {
            return;
        }
        self.state = state;
        // The kernel may go on before the last that it was given.
        let before = position.checked_sub(1).and_then(|before| {
            let (start, _) = self.starts.get(self.loaded?)?;
            let at = usize::try_from(before.checked_sub(*start)?).ok()?;
            self.page.iter().nth(at).map(|entry| entry.name.to_vec())
        });
        let last = self.last.take().filter(|(at, _)| *at == position && position > 0);
        let name = before.or(last.map(|(_, name)| name));
        (self.loaded, self.end) = (None, None);
        self.starts.truncate(1);
        if let (Some(name), Some(followed)) = (name, &shared.followed) {
            self.starts.push((position, followed.after(&name)));
        }
    }

    /// Whether there is an entry with this position; the page with it is in memory then.
    fn load(&mut self, shared: &Shared, position: u64) -> stook::Result<bool> {
        self.renew(shared, position);
        loop {
            if self.end.is_some_and(|end| position >= end) {
                return Ok(false);
            }
            let at = self.starts.partition_point(|(start, _)| *start <= position).saturating_sub(1);
            let Some((start, cursor)) = self.starts.get(at).cloned() else { return Ok(false) };
            if self.loaded != Some(at) {
                self.loaded = None;
                let next = shared.tree.list(self.directory, &cursor, &mut self.page)?;
                self.loaded = Some(at);
                for failure in self.page.take_failures() {
                    shared.failed(self.directory, &failure);
                    self.has_failed = true;
                }
                let end = start + self.page.len() as u64;
                match next {
                    None => self.end = Some(end),
                    // An empty page leads on from where it is.
                    Some(cursor) if self.page.is_empty() => {
                        self.starts.truncate(at);
                        self.starts.push((start, cursor));
                        self.loaded = None;
                        continue;
                    }
                    Some(cursor) if at + 1 == self.starts.len() => self.starts.push((end, cursor)),
                    Some(_) => {}
                }
            }
            if position < start + self.page.len() as u64 {
                return Ok(true);
            }
            // A page that is shorter than it was: the directory has changed.
            if at + 1 < self.starts.len() && self.starts.get(at + 1).is_some_and(|(next, _)| *next > position)
            {
                return Ok(false);
            }
        }
    }
}

/// Notes the entry that was given last, where the listing may have to continue after its name.
fn note(last: &mut Option<(u64, Vec<u8>)>, shared: &Shared, next: u64, name: &[u8]) {
    if shared.followed.is_some() {
        let (at, kept) = last.get_or_insert_default();
        *at = next;
        kept.clear();
        kept.extend_from_slice(name);
    }
}

impl Fill for ReplyDirectoryPlus {
    fn add(&mut self, shared: &Shared, number: INodeNo, offset: u64, name: &[u8], node: &Node) -> bool {
        let Some(attributes) = shared.attributes(number, node) else { return false };
        let (name, kept) = (std::os::unix::ffi::OsStrExt::from_bytes(name), &shared.kept);
        let name: &std::ffi::OsStr = name;
        Self::add(self, number, offset, name, kept, &attributes, fuser::Generation(0))
    }

    fn has_nodes(&self) -> bool {
        true
    }
}

impl Fill for ReplyDirectory {
    fn add(&mut self, _: &Shared, number: INodeNo, offset: u64, name: &[u8], node: &Node) -> bool {
        let Some(kind) = crate::attributes::file_type(node.kind) else { return false };
        let name: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(name);
        Self::add(self, number, offset, kind, name)
    }

    fn has_nodes(&self) -> bool {
        false
    }
}

/// What may be read ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// A file of this many bytes.
    File(u64),
    Directory,
}

/// The files and directories of a directory that are shown, in the order of its listing. What
/// cannot be read is left out.
pub(crate) fn contents_of(
    tree: &dyn Tree,
    directory: NodeId,
    each: &mut dyn FnMut(NodeId, Content),
) -> stook::Result<()> {
    let (mut page, mut cursor) = (Page::new(), Some(Cursor::Start));
    while let Some(from) = cursor {
        cursor = tree.list(directory, &from, &mut page)?;
        for entry in page.iter() {
            if entry.kind == Some(Kind::Directory) {
                each(entry.id, Content::Directory);
                continue;
            }
            let Ok(node) = entry.node.map_or_else(|| tree.node(entry.id), Ok) else { continue };
            match node.kind {
                Kind::Directory => each(entry.id, Content::Directory),
                Kind::File if refusal(entry.name, &node, false).is_none() => {
                    each(entry.id, Content::File(node.len));
                }
                _ => {}
            }
        }
    }
    Ok(())
}
