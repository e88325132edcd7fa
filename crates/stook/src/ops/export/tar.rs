//! A tar on its way out, entry by entry: what the tars of packs and of any other tree have in
//! common.

use super::{OnProgress, Sink};
use crate::format::MemberKind;
use crate::format::tar::write::{Head, end, padding};
use crate::ops::unpack::{Error, Filtering, Result, Summary};
use crate::source::zeroes;
use crate::tree::target::Unset;
use crate::tree::{Holes, Kind, Node, Xattrs};

/// A tar that is written.
pub(super) struct Tar<'a> {
    to: Sink<'a>,
    progress: OnProgress<'a>,
    filtering: &'a Filtering<'a>,
    with_xattrs: bool,
    /// Entries so far.
    pub(super) seen: u64,
    /// Bytes so far.
    pub(super) at: u64,
    pub(super) summary: Summary,
}

/// An entry, but for what is in it.
#[derive(Clone, Copy)]
pub(super) struct Entry<'e> {
    pub(super) key: &'e [u8],
    pub(super) node: &'e Node,
    pub(super) xattrs: &'e Xattrs,
}

impl Entry<'_> {
    fn head<'h>(&'h self, kind: MemberKind, len: u64, link: &'h [u8], xattrs: &'h Xattrs) -> Head<'h> {
        // What a tree does not say, a tar has to.
        let mode = if self.node.kind == Kind::Directory { 0o755 } else { 0o644 };
        Head {
            key: self.key,
            kind,
            mode: self.node.mode.unwrap_or(mode),
            mtime_ns: self.node.mtime_ns.unwrap_or(0),
            owner: self.node.owner,
            len,
            link,
            xattrs: xattrs.as_slice(),
        }
    }
}

impl<'a> Tar<'a> {
    pub(super) fn new(
        to: Sink<'a>,
        progress: OnProgress<'a>,
        filtering: &'a Filtering<'a>,
        with_xattrs: bool,
    ) -> Self {
        Self { to, progress, filtering, with_xattrs, seen: 0, at: 0, summary: Summary::default() }
    }

    /// An error where the caller wants no more, or a predicate of what is taken failed.
    pub(super) fn check_progress(&mut self) -> Result<()> {
        match !self.filtering.has_failed() && (self.progress)(self.seen, self.at) {
            true => Ok(()),
            false => Err(Error::Interrupted),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.at += bytes.len() as u64;
        let Self { to, progress, seen, at, .. } = self;
        to(bytes, &mut || progress(*seen, *at))
    }

    /// The extended attributes that go into the tar. Those that grant rights do not, as set-user-id
    /// bits do not, where the owner that they were meant for was not recorded.
    fn xattrs(&mut self, entry: &Entry<'_>) -> Xattrs {
        if !self.with_xattrs {
            return Xattrs::default();
        }
        let xattrs = match entry.node.owner {
            Some(_) => entry.xattrs.clone(),
            None => entry.xattrs.clone().without_granting(),
        };
        let lost = xattrs.lost().map(|names| format!("{names}: the values are not there"));
        self.summary.unset_xattrs.note(entry.key, Unset { why: lost, ..Unset::default() });
        xattrs
    }

    pub(super) fn directory(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.summary.directories += 1;
        let xattrs = self.xattrs(entry);
        self.write(&entry.head(MemberKind::Directory, 0, b"", &xattrs).encode())
    }

    pub(super) fn symlink(&mut self, entry: &Entry<'_>, target: &[u8]) -> Result<()> {
        self.summary.symlinks += 1;
        let xattrs = self.xattrs(entry);
        self.write(&entry.head(MemberKind::Symlink, 0, target, &xattrs).encode())
    }

    /// Another name of a file that stands before it.
    pub(super) fn hard_link(&mut self, entry: &Entry<'_>, first: &[u8]) -> Result<()> {
        self.summary.hard_links += 1;
        // The file has them.
        self.write(&entry.head(MemberKind::HardLink, 0, first, &Xattrs::default()).encode())
    }

    /// What stands before the bytes of a file of this length: those outside of its holes follow.
    pub(super) fn begin_file(&mut self, entry: &Entry<'_>, len: u64, holes: &Holes) -> Result<()> {
        let xattrs = self.xattrs(entry);
        let head = entry.head(MemberKind::File, len, b"", &xattrs);
        self.write(&if holes.is_empty() { head.encode() } else { head.encode_sparse(holes) })
    }

    /// What follows the bytes.
    pub(super) fn end_file(&mut self, len: u64, holes: &Holes) -> Result<()> {
        self.summary.files += 1;
        self.summary.bytes += len;
        self.write(&padding(holes.kept_bytes(len)))
    }

    /// Fills up a file whose bytes could not all be had: readers find the next member by the length
    /// in the head. `end` is where its bytes end, `stored` how many they are.
    pub(super) fn fill_up(&mut self, end: u64, stored: u64) -> Result<()> {
        while self.at < end {
            self.check_progress()?;
            self.write(zeroes(end - self.at))?;
        }
        self.write(&padding(stored))
    }

    /// The end of the tar.
    pub(super) fn end(mut self) -> Result<Summary> {
        let at = self.at;
        self.write(&end(at))?;
        Ok(self.summary)
    }
}
