//! What becomes a record: all that is known of an entry of a tree, however it was met.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use super::own_attributes;
use super::packing::{Abort, Failure, PackSummary, Packing};
use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::{Attributes, FileKind};
use crate::pack::key::Key;
use crate::pack::writer::chunk_sums;
use crate::tree::{Holes, Node, Part, Xattrs, target};
use crate::walk::{LargeFile, Status, xattrs};

/// One read of a file that is streamed, in bytes.
const STREAM_LEN: usize = 1 << 20;

/// The most of a hole that is taken at once, in bytes: each step can be the last.
const HOLE_LEN: u64 = 1 << 30;

/// A node as it is recorded: with its owner only if that is wanted, or there are set-user-id or
/// set-group-id bits, because without one they are never restored.
pub(super) fn recorded(node: &Node, with_owner: bool) -> Node {
    let is_wanted = with_owner || node.mode.is_some_and(|mode| mode & target::SET_ID != 0);
    Node { owner: node.owner.filter(|_| is_wanted), ..*node }
}

/// An entry of a tree on its way into a pack: what its record says beside key and body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewRecord<'a> {
    /// What the record is: a hard link to a file is a link to the first.
    pub(crate) kind: FileKind,
    pub(crate) node: &'a Node,
    /// Change time and number of the inode that its bytes are of, if they vouch for them.
    pub(crate) inode: Option<(i64, u64)>,
    pub(crate) xattrs: &'a Xattrs,
    pub(crate) holes: &'a Holes,
}

impl NewRecord<'_> {
    /// The attributes of the record. Those of a hard link are those of the name: what the file has,
    /// its own record says.
    pub(crate) fn attributes(&self, with_owner: bool) -> Attributes {
        let mut all = Attributes::of_node(Some(self.kind), &recorded(self.node, with_owner));
        if let (FileKind::File, Some((ctime_ns, inode))) = (self.kind, self.inode) {
            all.set_inode(ctime_ns, inode);
        }
        if self.kind != FileKind::HardLink {
            all.set_xattrs(self.xattrs);
        }
        if self.kind == FileKind::File {
            all.set_holes(self.holes);
        }
        all
    }
}

impl PackSummary {
    /// Counts a record that was put, of a node of this length; whether it took the place of
    /// another.
    pub(crate) fn note_put(&mut self, key: &[u8], kind: FileKind, len: u64, replaces: bool, xattrs: &Xattrs) {
        *match kind {
            FileKind::File => &mut self.files,
            FileKind::Directory => &mut self.directories,
            FileKind::Symlink => &mut self.symlinks,
            FileKind::HardLink => &mut self.hard_links,
        } += 1;
        if kind == FileKind::File {
            self.bytes += len;
        }
        self.replaced += u64::from(replaces);
        self.lost_xattrs.extend(xattrs.lost().map(|names| (key.to_vec(), names)));
    }
}

/// Takes the next part, and says whether it wants more.
pub(super) type Take<'a> = dyn FnMut(Part<'_>) -> Result<bool, Abort> + 'a;

/// A file that is too long to be held: it is opened, and then its bytes come from its front, read
/// by the thread that packs.
pub(super) struct OpenedFile<'a> {
    file: &'a LargeFile,
    opened: Option<File>,
    holes: Holes,
    /// Memory for reads.
    buffer: &'a mut Vec<u8>,
}

impl<'a> OpenedFile<'a> {
    pub(super) fn new(file: &'a LargeFile, buffer: &'a mut Vec<u8>) -> Self {
        Self { file, opened: None, holes: Holes::default(), buffer }
    }

    /// Opens it, and gives what is asked of the file itself before its bytes are read: extended
    /// attributes, if they are wanted, and holes. A change of these while the bytes are read
    /// changes a time that is looked at after them.
    pub(super) fn open(&mut self, with_xattrs: bool) -> Result<(Xattrs, Holes)> {
        let opened = self.file.open()?;
        let xattrs = if with_xattrs { xattrs::read(&opened) } else { Xattrs::default() };
        self.holes = self.file.holes(&opened)?;
        self.opened = Some(opened);
        Ok((xattrs, self.holes.clone()))
    }

    /// Gives all bytes in order, until `take` wants no more; whether it took all. The inner error
    /// is the file's, which among others is no longer what was met; the outer one is that of
    /// `take`.
    pub(super) fn pour(&mut self, take: &mut Take<'_>) -> Result<Result<bool>, Abort> {
        let Some(opened) = &self.opened else { return Ok(Ok(false)) };
        self.buffer.resize(STREAM_LEN, 0);
        let mut done = 0_u64;
        let took_all = loop {
            let hole = self.holes.next_from(done);
            if let Some(hole) = hole.filter(|hole| hole.start() <= done) {
                // What is not kept need not be read.
                let len = (hole.end() - done).min(HOLE_LEN);
                done += len;
                if !take(Part::Hole(len))? {
                    break false;
                }
                continue;
            }
            let most = hole.map_or(STREAM_LEN, |hole| {
                usize::try_from(hole.start() - done).unwrap_or(STREAM_LEN).min(STREAM_LEN)
            });
            let read = match opened.read_at(self.buffer.get_mut(..most).unwrap_or_default(), done) {
                Ok(0) => break true,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Ok(Err(crate::Error::io_at("read", self.file.path(), done, error).into()));
                }
            };
            done += read as u64;
            if !take(Part::Bytes(self.buffer.get(..read).unwrap_or_default()))? {
                break false;
            }
        };
        Ok(self.file.check(opened).map(|()| took_all).map_err(Error::from))
    }
}

impl Packing<'_, '_> {
    /// The attributes of a record. What is wrong with those that the caller adds is a failure of
    /// it.
    fn attributes(
        &self,
        key: &[u8],
        kind: FileKind,
        status: &Status,
        (xattrs, holes): (&Xattrs, &Holes),
    ) -> Result<Result<Attributes>, Abort> {
        // Without it the bytes are compared the next time.
        let is_settled = || status.identity().unsettled_for(self.began_ns).is_zero();
        let inode = status.inode_state().filter(|_| kind == FileKind::File && is_settled());
        let record = NewRecord { kind, node: &status.node, inode, xattrs, holes };
        let mut attributes = record.attributes(self.tree.with_owner);
        let own = self.tree.attributes.as_ref().filter(|_| self.writer.is_some());
        if let Some(own) = own {
            let own = own(key).ok_or(Abort::Interrupted)?;
            return Ok(own_attributes::add(own, &mut attributes).map(|()| attributes));
        }
        Ok(Ok(attributes))
    }

    /// Puts an entry, its chunk checksums given where they were made already. Whether it was put:
    /// what is wrong with this record alone is noted.
    pub(super) fn put(
        &mut self,
        key: &[u8],
        kind: FileKind,
        status: &Status,
        (body, sums): (&[u8], Option<&[u8]>),
        (xattrs, holes): (&Xattrs, &Holes),
    ) -> Result<bool, Abort> {
        let attributes = match self.attributes(key, kind, status, (xattrs, holes))? {
            Ok(attributes) => attributes.encode()?,
            Err(error) => {
                self.summary.failures.push(Failure { key: key.to_vec(), error });
                return Ok(false);
            }
        };
        if let Some(error) = self.refuses(key, kind, body)? {
            self.summary.failures.push(Failure { key: key.to_vec(), error });
            return Ok(false);
        }
        let group = self.tree.grouping.of(key, kind == FileKind::Directory);
        if let Some(writer) = self.writer.as_deref_mut() {
            let sums = sums.map_or_else(|| chunk_sums(body, writer.chunk_log2()).into(), Cow::Borrowed);
            match writer.put_encoded(&group, &Key::bytes(key)?, &attributes, body, &sums) {
                Ok(_) => {}
                Err(error) if writer.is_stopped() => return Err(error.into()),
                Err(error) => {
                    self.summary.failures.push(Failure { key: key.to_vec(), error });
                    return Ok(false);
                }
            }
        }
        self.summary.note_put(key, kind, status.node.len, self.existing.has(key), xattrs);
        Ok(true)
    }

    /// Puts what is no file: a link with its target, a hard link with the first, a directory with
    /// nothing.
    pub(super) fn put_link(
        &mut self,
        key: &[u8],
        kind: FileKind,
        status: &Status,
        target: &[u8],
        xattrs: &Xattrs,
    ) -> Result<bool, Abort> {
        self.put(key, kind, status, (target, None), (xattrs, &Holes::default()))
    }

    /// Streams a file. Gives what the file did wrong, if it did; then nothing of it is kept. What
    /// the pack did wrong is an error.
    pub(super) fn put_long(
        &mut self,
        key: &[u8],
        status: &Status,
        body: &mut OpenedFile<'_>,
    ) -> Result<Option<Error>, Abort> {
        let (xattrs, holes) = match body.open(self.tree.xattrs) {
            Ok(opened) => opened,
            Err(error) => return Ok(Some(error)),
        };
        let attributes = match self.attributes(key, FileKind::File, status, (&xattrs, &holes))? {
            Ok(attributes) => attributes,
            Err(error) => return Ok(Some(error)),
        };
        let group = self.tree.grouping.of(key, false);
        let len = status.node.len;
        let Some(writer) = self.writer.as_deref_mut() else { return Ok(None) };
        let mut record = match writer.begin(&group, &Key::bytes(key)?, &attributes, Some(len)) {
            Ok(record) => record,
            // What is wrong with this record alone stops nothing else.
            Err(error @ Error::Invalid(_)) => return Ok(Some(error)),
            Err(error) => return Err(error.into()),
        };
        let (progress, seen, before, mut done) = (&mut self.progress, self.seen, self.summary.bytes, 0);
        let poured = body.pour(&mut |part| {
            done += part.len();
            // More than it had: their source would say so, but not before all were read.
            if done > len {
                return Ok(false);
            }
            match part {
                Part::Bytes(bytes) => record.write(bytes)?,
                Part::Hole(len) => record.write_zeros(len)?,
            }
            if progress(seen, before + done) { Ok(true) } else { Err(Abort::Interrupted) }
        })?;
        match poured {
            Ok(_) if done > len => {
                let key = Key::bytes(key)?;
                return Ok(Some(Error::BodyLength { key, announced: len, found: done }));
            }
            Ok(_) => {}
            Err(error) => return Ok(Some(error)),
        }
        match record.finish() {
            Ok(_) => {
                let replaces = self.existing.has(key);
                self.summary.note_put(key, FileKind::File, len, replaces, &xattrs);
                Ok(None)
            }
            Err(error @ Error::BodyLength { .. }) => Ok(Some(error)),
            Err(error) => Err(error.into()),
        }
    }
}
