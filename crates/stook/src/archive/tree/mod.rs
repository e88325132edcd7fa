//! [`ArchiveTree`]: an archive as a tree of files.
//!
//! Names and nodes are in a [`NodeTable`], made once from the index of the archive; the member of
//! each node is stored beside it. The table has the rules for paths that lead out, paths that
//! conflict and missing parents; [`SharedFile`] has the rule for the target of a hard link, which
//! unpacking and importing follow too.

mod gather;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{Error, Result};
use super::format::Format;
use super::member::Member;
use super::open::{Archive, SharedFile};
use super::reading::{Reading, ReadingOptions};
use crate::engine::EngineFactory;
use crate::names::key_text;
use crate::source::{Inodes, Source};
use crate::tree::{
    Cursor, Deliver, Fact, GatherOptions, Holes, Kind, Node, NodeId, NodeTable, NodeTableBuilder, Page, Tree,
    Xattrs, gather_by_session, not_a_file, parts, unknown,
};

/// In place of the number of a member: there is none, because the directory is implied.
const NO_MEMBER: u64 = u64::MAX;

/// The members of an archive as a tree of files. [`Archive::tree`] makes it.
///
/// The cost of reading them:
/// - members that lie in the archive as they are (those of a plain tar, stored ones of a zip) are
///   opened by their place, and read by range;
/// - compressed ones are unpacked as far as they are read, once, into the
///   [`Spool`](super::Spool) that the archive was opened with, and read there by range. Of a tar
///   that is compressed as a whole, all of them together are one stream, so that any number of them
///   takes one pass ([`Archive::passes`] counts them); only what had to be dropped because there is
///   more than the spool holds takes another;
/// - a gather of a zip reads in the order of the archive, and holds no body as a whole. So does one
///   of a compressed tar that asks for more than the spool holds.
#[derive(Debug)]
pub struct ArchiveTree {
    archive: Archive,
    table: NodeTable,
    /// The number of the member that a node is, by the number of the node.
    members: Vec<u64>,
    refused: Vec<crate::Error>,
    has_xattrs: bool,
}

impl ArchiveTree {
    pub(super) fn new(archive: &Archive) -> Self {
        let (table, members, refused) = Building::of(archive);
        let has_xattrs = archive.members(b"").any(|member| !member.xattrs.is_empty());
        Self { archive: archive.clone(), table, members, refused, has_xattrs }
    }

    /// The archive.
    pub fn archive(&self) -> &Archive {
        &self.archive
    }

    /// The members that are not in the tree, each with its path and why: those that lead out of it
    /// (an absolute path, `..`), those that have others below them but are not directories, and
    /// hard links to anything but a file before them.
    pub fn refused(&self) -> &[crate::Error] {
        &self.refused
    }

    fn member(&self, id: NodeId) -> Option<Member<'_>> {
        let node = usize::try_from(id.get()).ok()?;
        self.archive.index().member(*self.members.get(node)?)
    }

    /// The member that a file is, if its bytes can be had.
    fn file(&self, id: NodeId) -> crate::Result<Member<'_>> {
        let kind = self.table.node(id)?.kind;
        if kind != Kind::File {
            return Err(not_a_file(kind, self.path_of(id)));
        }
        let member = self.member(id).ok_or_else(|| unknown(self.path(), id))?;
        match member.refusal() {
            Some(why) => Err(Error::Invalid(why).into_core(&self.path_of(id))),
            None => Ok(member),
        }
    }

    /// Whether the spool holds all of these.
    fn fit_into_spool(&self, ids: &[NodeId]) -> bool {
        let lens = ids.iter().filter_map(|id| self.member(*id)).map(|member| member.stored_len);
        lens.fold(0, u64::saturating_add) <= self.archive.options().spool.file_bytes_max()
    }
}

impl Tree for ArchiveTree {
    fn path(&self) -> &Path {
        self.table.path()
    }

    fn root(&self) -> NodeId {
        self.table.root()
    }

    fn note_files(&self, files: &mut Inodes) {
        self.archive.note_files(files);
    }

    fn lookup(&self, parent: NodeId, name: &[u8]) -> crate::Result<Option<NodeId>> {
        self.table.lookup(parent, name)
    }

    fn list(&self, directory: NodeId, from: &Cursor, page: &mut Page) -> crate::Result<Option<Cursor>> {
        self.table.list(directory, from, page)
    }

    fn node(&self, id: NodeId) -> crate::Result<Node> {
        self.table.node(id)
    }

    fn path_of(&self, id: NodeId) -> PathBuf {
        self.table.path_of(id)
    }

    /// Of a tar it is in the index; of a zip it is read.
    fn link_target(&self, id: NodeId) -> crate::Result<Vec<u8>> {
        if self.table.node(id)?.kind != Kind::Symlink {
            let no_link = io::ErrorKind::InvalidInput.into();
            return Err(crate::Error::io("read link", self.path_of(id), no_link));
        }
        let member = self.member(id).ok_or_else(|| unknown(self.path(), id))?;
        let read = || -> Result<Vec<u8>> {
            let numbers = vec![member.number];
            let mut reading = Reading::new(&self.archive, numbers, ReadingOptions::of(&self.archive))?;
            reading.next()?;
            let target = reading.link_target()?;
            self.archive.check_unchanged()?;
            Ok(target)
        };
        match member.link {
            b"" => read().map_err(|error| error.into_core(&self.path_of(id))),
            target => Ok(target.to_vec()),
        }
    }

    fn has_xattrs(&self) -> bool {
        self.has_xattrs
    }

    fn xattrs(&self, id: NodeId) -> crate::Result<Xattrs> {
        self.table.node(id)?;
        Ok(self.member(id).map(|member| Xattrs::decode(member.xattrs)).unwrap_or_default())
    }

    /// Members have no group, and only those of zips a checksum.
    fn fact(&self, id: NodeId, fact: Fact) -> crate::Result<Option<Vec<u8>>> {
        let is_file = self.table.node(id)?.kind == Kind::File;
        let Some(member) = self.member(id) else { return Ok(None) };
        Ok(match fact {
            Fact::Key => Some(key_text(member.key).into_bytes()),
            Fact::Group => None,
            Fact::Checksum => {
                member.crc32.filter(|_| is_file).map(|crc32| format!("crc32:{crc32:08x}").into_bytes())
            }
        })
    }

    fn has_facts(&self) -> bool {
        true
    }

    fn holes(&self, id: NodeId) -> crate::Result<Holes> {
        Ok(self.archive.holes(&self.file(id)?))
    }

    fn reads_by_request(&self, _: NodeId) -> bool {
        self.archive.reads_by_request()
    }

    /// A member as a source, as [`Archive::open_member`] gives it.
    ///
    /// # Errors
    /// Returns the errors of [`Tree::open`]; `Unsupported` if it is encrypted, compressed by an
    /// unknown method, or longer than the spool holds; and damage of compressed data.
    fn open(&self, id: NodeId) -> crate::Result<Arc<dyn Source>> {
        let member = self.file(id)?;
        self.archive.body(&member).map_err(|error| error.into_core(&self.path_of(id)))
    }

    /// Where its bytes begin: in a compressed tar, in the tar.
    fn medium_order(&self, id: NodeId) -> u64 {
        self.member(id).map_or(0, |member| member.data_at)
    }

    /// In the order of the archive. Bodies of a zip that arrive whole were checked by their CRC-32,
    /// and so was a longer one when its last piece arrives. A compressed tar has one checksum for
    /// everything, which the last body waits for.
    fn gather(
        &self,
        ids: &[NodeId],
        factory: &dyn EngineFactory,
        options: &GatherOptions,
        deliver: &mut Deliver<'_>,
    ) -> crate::Result<()> {
        match self.archive.format() {
            // Each body is a range of the file, and nothing has to be passed on the way to it.
            Format::Tar | Format::Layout if !self.archive.reads_by_request() => {
                gather_by_session(self, ids, factory, options, deliver)
            }
            // One pass for this and all other gathers.
            Format::TarGzip | Format::TarZstd | Format::TarXz if self.fit_into_spool(ids) => {
                gather_by_session(self, ids, factory, options, deliver)
            }
            _ => gather::gather(self, ids, factory, options, deliver),
        }
    }
}

/// A tree that is being made.
struct Building<'a> {
    archive: &'a Archive,
    builder: NodeTableBuilder,
    members: Vec<u64>,
    refused: Vec<crate::Error>,
    /// Nodes of files with several names, by where their bytes are.
    shared: HashMap<u64, NodeId>,
}

impl<'a> Building<'a> {
    fn of(archive: &'a Archive) -> (NodeTable, Vec<u64>, Vec<crate::Error>) {
        // A refused member is not the first name of any file.
        let files = SharedFile::among(archive.members(b"").filter(can_be));
        let mut building = Building {
            archive,
            builder: NodeTableBuilder::new(archive.path()),
            members: vec![NO_MEMBER],
            refused: Vec::new(),
            shared: HashMap::new(),
        };
        let mut links = Vec::new();
        for member in archive.members(b"") {
            let file = SharedFile::of(&member, &files).filter(|_| can_be(&member));
            match file.is_some_and(|file| file.first != member.key) {
                true => links.push(member),
                false => building.add(&member, file.is_some()),
            }
        }
        for link in links {
            building.link(&link);
        }
        let Self { builder, members, mut refused, .. } = building;
        let (table, in_the_way) = builder.finish();
        refused.extend(in_the_way.into_iter().map(|(_, error)| error));
        (table, members, refused)
    }

    fn add(&mut self, member: &Member<'_>, is_shared: bool) {
        let Some(node) = node_of(member) else {
            let link = String::from_utf8_lossy(member.link);
            return self.refuse(member, format!("it is a hard link to {link}, which is no file before it"));
        };
        match self.builder.add(member.key, node) {
            Ok(id) => {
                if id != self.builder.root() {
                    self.members.push(member.number);
                } else if let Some(root) = self.members.first_mut() {
                    *root = member.number;
                }
                if is_shared {
                    self.shared.insert(member.data_at, id);
                }
            }
            Err(error) => self.refused.push(error),
        }
    }

    fn link(&mut self, member: &Member<'_>) {
        match self.shared.get(&member.data_at) {
            Some(file) => self.refused.extend(self.builder.link(member.key, *file).err()),
            None => self.refuse(member, "the file that it is a name of cannot be there either".into()),
        }
    }

    fn refuse(&mut self, member: &Member<'_>, what: String) {
        let path = self.archive.path().join(OsStr::from_bytes(member.key));
        self.refused.push(crate::Error::Entry { path, what });
    }
}

/// Whether something in a tree can have the path of a member.
fn can_be(member: &Member<'_>) -> bool {
    parts::split(member.key).is_ok()
}

/// The node of a member; `None` for a name of a file that is not in the archive.
fn node_of(member: &Member<'_>) -> Option<Node> {
    if member.is_hard_link && !member.has_body {
        return None;
    }
    let len = if matches!(member.node.kind, Kind::File | Kind::Symlink) { member.node.len } else { 0 };
    // How many names it has is counted in the tree.
    Some(Node { len, links: 1, ..member.node })
}
