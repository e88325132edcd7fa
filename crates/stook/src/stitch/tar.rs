//! [`Tar`]: a tree as a tar, of which nothing is read before it is asked for.
//!
//! Where each member is follows from its path and its length, so laying it out takes a listing and
//! nothing else. Headers are computed when they are read.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::bodies::Bodies;
use super::error::Result;
use super::file::{Parts, VirtualFile, no_part};
use super::layout::{Laid, Layout};
use super::members::{Member, Members};
use super::merged::MadeBy;
use super::pieces::Pieces;
use crate::error;
use crate::format::MemberKind;
use crate::format::tar::header::padding_len;
use crate::format::tar::write::{Head, end};
use crate::source::Source;

/// A tar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tar {
    /// Times are 0 and everything belongs to root: the same files give the same bytes anywhere,
    /// those of GNU tar with `--format=pax --sort=name --mtime=@0 --owner=0 --group=0
    /// --numeric-owner --pax-option=delete=atime,delete=ctime`.
    pub deterministic: bool,
}

impl Layout for Tar {
    fn ending(&self) -> &'static str {
        "tar"
    }

    fn lay_out(&self, path: PathBuf, mut members: Members) -> Result<Laid> {
        members.settle(true)?;
        let count = members.count()?;
        // A header, bytes and what fills up their last block.
        let mut pieces = Pieces::with_capacity(count as usize * 3 + 1);
        let mut starts = Vec::with_capacity(count as usize);
        for (number, member) in (0..count).zip(members.all()) {
            pieces.made(number, self.head(member).encoded_len() as u64);
            starts.push(pieces.len());
            if member.kind == MemberKind::File {
                pieces.whole_body(number, member.len);
                pieces.fill(0, padding_len(member.len));
            }
        }
        let end = end(pieces.len()).len() as u64;
        pieces.fill(0, end);
        let members = Arc::new(members);
        let parts = TarParts { members: members.clone(), tar: *self };
        let file = VirtualFile::new(path, pieces, Arc::new(parts))?;
        Ok(Laid { file, members, starts: starts.into() })
    }
}

impl Tar {
    /// How many bytes a member takes, header and padding among them.
    pub fn len_of(&self, member: &Member) -> u64 {
        let len = if member.kind == MemberKind::File { member.len } else { 0 };
        let head = self.head(member).encoded_len() as u64;
        head.saturating_add(len).saturating_add(padding_len(len))
    }

    pub(super) fn head<'m>(&self, member: &'m Member) -> Head<'m> {
        let (mtime_ns, owner) = match self.deterministic {
            // An owner that is known keeps all bits of the mode.
            true => (0, Some((0, 0))),
            false => (member.mtime_ns, member.owner),
        };
        let Member { key, kind, mode, len, link, .. } = member;
        Head { key, kind: *kind, mode: *mode, mtime_ns, owner, len: *len, link, xattrs: &[] }
    }
}

#[derive(Debug)]
struct TarParts {
    members: Arc<Members>,
    tar: Tar,
}

impl Parts for TarParts {
    fn open(&self, number: u32) -> error::Result<Arc<dyn Source>> {
        self.members.open(number)
    }

    fn make(&self, number: u32, _bodies: &Bodies) -> error::Result<Bytes> {
        let member = self.members.all().get(number as usize).ok_or_else(|| no_part(number))?;
        Ok(self.tar.head(member).encode().into())
    }

    fn made_by(&self) -> Option<MadeBy> {
        let options = [u8::from(self.tar.deterministic)];
        Some(MadeBy::new("tar", 1).with("deterministic", options).with_members(&self.members))
    }
}
