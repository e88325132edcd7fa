//! [`Members`]: what an archive is made of, in the order in which it stands there.

use std::cmp::Ordering;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use super::error::{Error, Result};
use super::file::VirtualFile;
use super::stated::Stated;
use crate::error;
use crate::format::MemberKind;
use crate::source::Source;
use crate::tree::descent::joined;
use crate::tree::{Cursor, Failure, InodeState, Kind, Node, NodeId, Page, Tree};

/// Members between two questions whether to go on.
const MEMBERS_PER_LOOK: usize = 1024;

/// A member of an archive.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its path.
    pub key: Box<[u8]>,
    /// What it is.
    pub kind: MemberKind,
    /// Permission bits.
    pub mode: u32,
    /// Modification time, nanoseconds since 1970.
    pub mtime_ns: i64,
    /// User and group, if they are known.
    pub owner: Option<(u32, u32)>,
    /// Bytes of a file.
    pub len: u64,
    /// What a link leads to: of a hard link, the path of the member that has the bytes.
    pub link: Box<[u8]>,
    tree: u32,
    id: NodeId,
    /// Whether a tree said when it was modified.
    has_mtime: bool,
    /// Which state of which inode it is, where its tree is made of inodes.
    inode: Option<InodeState>,
    /// What counts more where several have one path: the higher one.
    layer: u32,
}

/// What is not in a tree: a member of an archive that is patched, and stays in it.
const KEPT: u32 = u32::MAX;
/// What is not in a tree, but a source by itself; its id is its number among those.
const SOURCE: u32 = KEPT - 1;

impl Member {
    /// One that stays in an archive which is patched. It cannot be opened here.
    pub(super) fn kept(key: &[u8], kind: MemberKind, len: u64) -> Self {
        let (mode, mtime_ns, owner) = (0, 0, None);
        let (key, link) = (key.into(), Box::default());
        let id = NodeId::new(0);
        let (tree, has_mtime, inode, layer) = (KEPT, false, None, 0);
        Self { key, kind, mode, mtime_ns, owner, len, link, tree, id, has_mtime, inode, layer }
    }

    /// The same with another path.
    pub(super) fn with_key(&self, key: &[u8]) -> Self {
        Self { key: key.into(), ..self.clone() }
    }

    /// Whether it stays in an archive which is patched.
    pub fn is_kept(&self) -> bool {
        self.tree == KEPT
    }

    /// Which state of which inode it is, where its tree is made of inodes.
    pub fn inode(&self) -> Option<InodeState> {
        self.inode
    }

    /// The number of its tree, in the order in which they were added, or of what it was given for
    /// instead.
    pub(super) fn layer(&self) -> u32 {
        self.layer
    }
}

/// What an archive is made of: what is in trees, in the order of names, each directory before what
/// is in it. Nothing of it is read but what listings say. A member takes about 150 bytes, and its
/// path.
#[derive(Debug, Default)]
pub struct Members {
    /// Each, and whether its files are files on disk.
    trees: Vec<(Arc<dyn Tree>, bool)>,
    /// Members that are in no tree.
    sources: Vec<Apart>,
    members: Vec<Member>,
    /// What could not be listed, and what no archive holds: pipes, devices.
    failures: Vec<Failure<error::Error>>,
    left_out: Vec<(Vec<u8>, Kind)>,
    /// Whether files of a sample stand together: the order of names does not hold then.
    are_samples: bool,
    changed: Option<Changed>,
}

/// A member that is in no tree.
#[derive(Debug)]
enum Apart {
    Source(Arc<dyn Source>),
    Virtual(VirtualFile),
}

/// How many members of an archive were changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changed {
    /// Members that a file was given for.
    pub replaced: u64,
    /// Files that the archive had no member for.
    pub added: u64,
    /// Members that are gone.
    pub deleted: u64,
}

/// An entry of a directory that is gone through.
struct Entry {
    name: Box<[u8]>,
    id: NodeId,
    node: Node,
    inode: Option<InodeState>,
}

/// A directory that is gone through: its path, and what is left of it, the next one last.
struct Frame {
    key: Vec<u8>,
    entries: Vec<Entry>,
}

impl Members {
    /// None so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what is in the root of a tree, below a path, which becomes a member itself unless it is
    /// empty. Files of a tree on disk have to be the inodes that were listed, and have their times,
    /// when they are opened; those of other trees are held against it by the tree. `go_on` is asked
    /// now and then, with the members so far.
    ///
    /// # Errors
    /// That the root cannot be listed; [`Error::Interrupted`]. What cannot be listed below it is
    /// one of the [`failures`](Self::failures).
    pub fn add_tree(
        &mut self,
        tree: Arc<dyn Tree>,
        is_on_disk: bool,
        below: &[u8],
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<()> {
        let root = tree.root();
        self.add((tree, is_on_disk), root, below, go_on)
    }

    /// The same of any directory of a tree, or a file, which has the path then.
    ///
    /// # Errors
    /// As [`add_tree`](Self::add_tree).
    pub fn add(
        &mut self,
        (tree, is_on_disk): (Arc<dyn Tree>, bool),
        id: NodeId,
        key: &[u8],
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<()> {
        let number = u32::try_from(self.trees.len()).map_err(|_| Error::TooLong { pieces: usize::MAX })?;
        self.trees.push((tree.clone(), is_on_disk));
        let node = tree.node(id)?;
        let mut stack = Vec::new();
        if node.kind != Kind::Directory || !key.is_empty() {
            let (name, inode) = (Box::default(), tree.inode_state(id)?);
            self.push(number, key.to_vec(), &Entry { name, id, node, inode });
        }
        if node.kind == Kind::Directory {
            stack.push(self.frame(&*tree, id, key.to_vec())?);
        }
        while let Some(frame) = stack.last_mut() {
            let Some(entry) = frame.entries.pop() else {
                stack.pop();
                continue;
            };
            let key = joined(&frame.key, &entry.name);
            if self.members.len().is_multiple_of(MEMBERS_PER_LOOK) && !go_on(self.members.len() as u64) {
                return Err(Error::Interrupted);
            }
            self.push(number, key.clone(), &entry);
            if entry.node.kind == Kind::Directory {
                match self.frame(&*tree, entry.id, key.clone()) {
                    Ok(frame) => stack.push(frame),
                    Err(error) => self.failures.push(Failure { key, error }),
                }
            }
        }
        Ok(())
    }

    /// What is in a directory, the first name last.
    fn frame(&mut self, tree: &dyn Tree, id: NodeId, key: Vec<u8>) -> error::Result<Frame> {
        let (mut page, mut entries, mut from) = (Page::new(), Vec::new(), Some(Cursor::Start));
        while let Some(cursor) = from {
            from = tree.list(id, &cursor, &mut page)?;
            for error in page.take_failures() {
                self.failures.push(Failure { key: key.clone(), error });
            }
            for entry in page.iter() {
                let (name, id) = (entry.name.into(), entry.id);
                let asked = || Ok((tree.node(id)?, tree.inode_state(id)?));
                match entry.node.map_or_else(asked, |node| Ok((node, entry.inode))) {
                    Ok((node, inode)) => entries.push(Entry { name, id, node, inode }),
                    Err(error) => {
                        self.failures.push(Failure { key: joined(&key, entry.name), error });
                    }
                }
            }
        }
        entries.sort_unstable_by(|one, other| other.name.cmp(&one.name));
        Ok(Frame { key, entries })
    }

    fn push(&mut self, tree: u32, key: Vec<u8>, entry: &Entry) {
        let Entry { id, node, inode, .. } = *entry;
        let (kind, mode) = match node.kind {
            Kind::File => (MemberKind::File, 0o644),
            Kind::Directory => (MemberKind::Directory, 0o755),
            Kind::Symlink => (MemberKind::Symlink, 0o777),
            _ => return self.left_out.push((key, node.kind)),
        };
        let mut link = Vec::new();
        if kind == MemberKind::Symlink {
            match self.trees.get(tree as usize).map(|(tree, _)| tree.link_target(id)) {
                Some(Ok(target)) => link = target,
                Some(Err(error)) => return self.failures.push(Failure { key, error }),
                None => {}
            }
        }
        self.members.push(Member {
            key: key.into(),
            kind,
            mode: node.mode.unwrap_or(mode),
            mtime_ns: node.mtime_ns.unwrap_or(0),
            owner: node.owner,
            len: if kind == MemberKind::File { node.len } else { 0 },
            link: link.into(),
            tree,
            id,
            has_mtime: node.mtime_ns.is_some(),
            inode,
            layer: tree,
        });
    }

    /// None so far, of trees that were listed already.
    pub(super) fn of_listed(trees: Vec<(Arc<dyn Tree>, bool)>) -> Self {
        Self { trees, ..Self::default() }
    }

    /// Adds a file or a link of a tree that was listed, for a layer.
    pub(super) fn add_listed(&mut self, key: Vec<u8>, (tree, id, node): (u32, NodeId, &Node), layer: u32) {
        let before = self.members.len();
        // What cannot be asked any more is an error when it is opened.
        let inode = self.trees.get(tree as usize).and_then(|(tree, _)| tree.inode_state(id).ok().flatten());
        self.push(tree, key, &Entry { name: Box::default(), id, node: *node, inode });
        self.members.iter_mut().skip(before).for_each(|member| member.layer = layer);
    }

    /// Adds a file that is in no tree, for a layer; what is said of it, but its length.
    pub(super) fn add_source(&mut self, key: Vec<u8>, source: Arc<dyn Source>, node: &Node, layer: u32) {
        let len = source.len();
        self.add_apart(key, (Apart::Source(source), len), node, layer);
    }

    /// The same of one that is itself made of others.
    pub(super) fn add_virtual(&mut self, key: Vec<u8>, file: VirtualFile, node: &Node, layer: u32) {
        let len = file.len();
        self.add_apart(key, (Apart::Virtual(file), len), node, layer);
    }

    fn add_apart(&mut self, key: Vec<u8>, (apart, len): (Apart, u64), node: &Node, layer: u32) {
        let node = Node { kind: Kind::File, len, ..*node };
        let id = NodeId::new(self.sources.len() as u64);
        self.sources.push(apart);
        self.add_listed(key, (SOURCE, id, &node), layer);
    }

    /// What a member is that is in no tree.
    fn apart(&self, member: &Member) -> Option<&Apart> {
        let at = usize::try_from(member.id.get()).ok().filter(|_| member.tree == SOURCE)?;
        self.sources.get(at)
    }

    /// A member that is itself made of others.
    pub(super) fn virtual_file(&self, number: u32) -> Option<&VirtualFile> {
        match self.apart(self.members.get(number as usize)?)? {
            Apart::Virtual(file) => Some(file),
            Apart::Source(_) => None,
        }
    }

    /// Puts all into the order in which they stand in an archive. Where `links` says so, the names
    /// of a file after the first become hard links. Those of [samples](Self::into_shards) are in
    /// their order already, and each of their files is one of its own.
    ///
    /// # Errors
    /// [`Error::Member`] where two have one path.
    pub fn settle(&mut self, links: bool) -> Result<()> {
        if self.are_samples {
            return Ok(());
        }
        let is_sorted = self.members.is_sorted_by(|one, next| order(&one.key, &next.key).is_lt());
        // In that order no two have one path.
        if !is_sorted {
            self.members.sort_by(|one, other| order(&one.key, &other.key));
            for pair in self.members.windows(2) {
                if let [one, other] = pair
                    && one.key == other.key
                {
                    let why = "two of the trees have something with this path".to_owned();
                    return Err(Error::Member { key: one.key.to_vec(), why });
                }
            }
        }
        if links {
            self.make_links();
        }
        Ok(())
    }

    /// Parts them into shards as WebDataset has them: the files of a sample, whose paths are the
    /// same up to the first dot in their names, stand together in one shard, and a shard has at
    /// most `shard_bytes`, or one sample. `len_of` says how many bytes a file takes in a shard. The
    /// first shard has what could not be listed, and what was left out.
    ///
    /// # Errors
    /// [`Error::Member`] for links, which are no samples, and where two have one path;
    /// [`Error::Nothing`] where there is no file.
    pub fn into_shards(
        mut self,
        shard_bytes: Option<u64>,
        len_of: impl Fn(&Member) -> u64,
    ) -> Result<Vec<Self>> {
        self.settle(false)?;
        self.keep_files()?;
        self.members.sort_by(|one, other| sample_of(&one.key).cmp(sample_of(&other.key)));
        let mut shards = Vec::new();
        let (trees, mut shard, mut shard_len) = (self.trees.clone(), Vec::new(), 0_u64);
        let members = std::mem::take(&mut self.members);
        for sample in members.chunk_by(|one, next| sample_of(&one.key) == sample_of(&next.key)) {
            let len = sample.iter().map(&len_of).fold(0, u64::saturating_add);
            let is_full = shard_bytes.is_some_and(|most| shard_len.saturating_add(len) > most);
            if is_full && !shard.is_empty() {
                shards.push(std::mem::take(&mut shard));
                shard_len = 0;
            }
            shard_len = shard_len.saturating_add(len);
            shard.extend_from_slice(sample);
        }
        if shard.is_empty() {
            return Err(Error::Nothing("there is no file in the trees"));
        }
        shards.push(shard);
        let of = |members| Self { trees: trees.clone(), members, are_samples: true, ..Self::default() };
        let mut shards: Vec<Self> = shards.into_iter().map(of).collect();
        if let Some(first) = shards.first_mut() {
            (first.failures, first.left_out) = (self.failures, self.left_out);
        }
        Ok(shards)
    }

    fn make_links(&mut self) {
        let files = self.members.iter().enumerate().filter(|(_, member)| member.kind == MemberKind::File);
        let mut names: Vec<(u32, NodeId, usize)> =
            files.map(|(at, member)| (member.tree, member.id, at)).collect();
        // Trees give ids in about the order of their listings, which sorts in no time.
        names.sort();
        for of_one in names.chunk_by(|one, next| (one.0, one.1) == (next.0, next.1)) {
            let [(.., first), further @ ..] = of_one else { continue };
            for (.., at) in further {
                let link = self.members.get(*first).map(|member| member.key.clone()).unwrap_or_default();
                if let Some(member) = self.members.get_mut(*at) {
                    (member.kind, member.len, member.link) = (MemberKind::HardLink, 0, link);
                }
            }
        }
    }

    /// Leaves a file on disk out, which is where the archive will be written.
    pub fn leave_out_file(&mut self, path: &Path) {
        let Ok(path) = path.canonicalize() else { return };
        let Some(name) = path.file_name().map(OsStrExt::as_bytes) else { return };
        let Self { trees, members, .. } = self;
        members.retain(|member| {
            let may_be = member.kind == MemberKind::File && member.key.ends_with(name);
            let place = || trees.get(member.tree as usize)?.0.path_of(member.id).canonicalize().ok();
            !may_be || place().as_ref() != Some(&path)
        });
    }

    /// Takes out the files of a directory on disk that have such names.
    pub fn leave_out_in(&mut self, directory: &Path, is_out: impl Fn(&[u8]) -> bool) {
        let Ok(directory) = directory.canonicalize() else { return };
        let Self { trees, members, .. } = self;
        members.retain(|member| {
            let name = member.key.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            let place =
                || trees.get(member.tree as usize)?.0.path_of(member.id).parent()?.canonicalize().ok();
            !is_out(name) || place().as_ref() != Some(&directory)
        });
    }

    /// Whether one of them is this file on disk.
    pub fn has_file(&self, path: &Path) -> bool {
        let Ok(path) = path.canonicalize() else { return false };
        self.members.iter().any(|member| {
            let tree = self.trees.get(member.tree as usize).filter(|_| member.kind == MemberKind::File);
            // A member may be called otherwise than its file.
            let place = tree.map(|(tree, _)| tree.path_of(member.id));
            let place = place.filter(|place| place.file_name() == path.file_name());
            place.is_some_and(|place| place.canonicalize().is_ok_and(|place| place == path))
        })
    }

    /// Keeps only some.
    pub fn keep(&mut self, is_kept: impl FnMut(&Member) -> bool) {
        self.members.retain(is_kept);
    }

    /// Takes all of them out, those of the tree that was added first in front.
    pub(super) fn take(&mut self) -> Vec<Member> {
        std::mem::take(&mut self.members)
    }

    /// Of a patched archive: how many of its members were changed.
    pub fn changed(&self) -> Option<Changed> {
        self.changed
    }

    pub(super) fn set_changed(&mut self, changed: Changed) {
        self.changed = Some(changed);
    }

    /// What is there now instead, in this order.
    pub(super) fn put(&mut self, members: Vec<Member>) {
        self.members = members;
    }

    /// All of them, in order.
    pub fn all(&self) -> &[Member] {
        &self.members
    }

    /// Keeps only files, for a format that has nothing else. A link would be missed, so it is
    /// refused; directories are in the paths of files.
    ///
    /// # Errors
    /// [`Error::Member`] for a link.
    pub fn keep_files(&mut self) -> Result<()> {
        let is_link = |member: &&Member| matches!(member.kind, MemberKind::Symlink | MemberKind::HardLink);
        if let Some(link) = self.members.iter().find(is_link) {
            let why = "it is a link, and the format has none: name the file that it leads to".to_owned();
            return Err(Error::Member { key: link.key.to_vec(), why });
        }
        self.keep(|member| member.kind == MemberKind::File);
        Ok(())
    }

    /// How many there are. The numbers of [`Parts`](super::Parts) have 32 bits, of which a layout
    /// may use some for itself.
    ///
    /// # Errors
    /// [`Error::TooLong`] where these do not suffice.
    pub fn count(&self) -> Result<u32> {
        let count = u32::try_from(self.members.len()).ok().filter(|count| *count < u32::MAX / 4);
        count.ok_or(Error::TooLong { pieces: self.members.len() })
    }

    /// What could not be listed, and is in no archive.
    pub fn failures(&self) -> &[Failure<error::Error>] {
        &self.failures
    }

    /// What no archive holds: paths and kinds of pipes, sockets and devices.
    pub fn left_out(&self) -> &[(Vec<u8>, Kind)] {
        &self.left_out
    }

    /// The bytes of a member, which is as it was when it was listed.
    ///
    /// # Errors
    /// I/O errors; [`SourceChanged`](error::Error::SourceChanged) if it is not.
    pub fn open(&self, number: u32) -> error::Result<Arc<dyn Source>> {
        let gone = || error::Error::io("open", "a member", std::io::ErrorKind::NotFound.into());
        let member = self.members.get(number as usize).ok_or_else(gone)?;
        if member.tree == SOURCE {
            return match self.apart(member).ok_or_else(gone)? {
                Apart::Source(source) => Ok(source.clone()),
                Apart::Virtual(file) => Ok(Arc::new(file.clone())),
            };
        }
        let (tree, is_on_disk) = self.trees.get(member.tree as usize).ok_or_else(gone)?;
        let source = tree.open(member.id)?;
        let found = source.identity();
        let mtime_ns = (*is_on_disk && member.has_mtime).then_some(member.mtime_ns);
        let listed = Stated { len: Some(member.len), mtime_ns, inode: member.inode };
        match listed.difference(&found) {
            None => Ok(source),
            Some(_) => Err(error::Error::changed(source.path(), listed.identity(), found)),
        }
    }
}

/// The path of a file up to the first dot in its name: what WebDataset calls its key.
fn sample_of(key: &[u8]) -> &[u8] {
    let name = key.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let dot = key.get(name..).and_then(|name| name.iter().position(|byte| *byte == b'.'));
    key.get(..dot.map_or(key.len(), |dot| name + dot)).unwrap_or(key)
}

/// The order of paths in an archive: name by name.
pub(super) fn order(one: &[u8], other: &[u8]) -> Ordering {
    // No name has a zero byte, and a slash comes before whatever a longer name goes on with.
    let of = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
    let common = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    one.get(common).map(of).cmp(&other.get(common).map(of))
}
