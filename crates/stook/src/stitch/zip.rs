//! [`Zip`]: a tree as a zip of stored members, of which nothing is read before it is asked for.
//!
//! The CRC-32 of a member stands behind its bytes, in a data descriptor, and in the directory at
//! the end, so that where everything is follows from names and lengths alone. Who reads a
//! descriptor has its member read, and who reads the directory all members that were not yet, in
//! one pass. Who reads the zip from its front computes them on the way.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::bodies::Bodies;
use super::crcs::Crcs;
use super::error::{Error, Result};
use super::file::{Parts, VirtualFile, no_part};
use super::layout::{Laid, Layout};
use super::members::{Member, Members};
use super::merged::MadeBy;
use super::pieces::Pieces;
use crate::error;
use crate::format::Fault;
use crate::format::MemberKind;
use crate::format::zip::directory::crc32;
use crate::format::zip::write::{Head, end};
use crate::source::Source;

/// A zip of stored members. A hard link is a file of its own: a zip has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Zip {
    /// Times are the first that a zip knows, and owners are left out: the same files give the same
    /// bytes anywhere.
    pub deterministic: bool,
}

/// The number of the part that is the directory and the end of the zip. Of a member, two times its
/// number is that of its header, and one more that of what follows its bytes.
const DIRECTORY: u32 = u32::MAX;

impl Layout for Zip {
    fn ending(&self) -> &'static str {
        "zip"
    }

    fn lay_out(&self, path: PathBuf, mut members: Members) -> Result<Laid> {
        members.settle(false)?;
        let count = members.count()?;
        // A header, bytes and a descriptor.
        let (mut pieces, mut directory_len) = (Pieces::with_capacity(count as usize * 3 + 1), 0_u64);
        let (mut headers, mut starts) =
            (Vec::with_capacity(count as usize), Vec::with_capacity(count as usize));
        for (number, member) in (0..count).zip(members.all()) {
            let refused = |fault: Fault| Error::Member { key: member.key.to_vec(), why: fault.to_string() };
            let head = self.head(member, 0);
            headers.push(pieces.len());
            directory_len += head.entry_len(pieces.len()).map_err(refused)? as u64;
            pieces.made(2 * number, head.local_len().map_err(refused)? as u64);
            starts.push(pieces.len());
            match member.kind {
                MemberKind::File => pieces.whole_body(number, member.len),
                _ => pieces.bytes(Bytes::copy_from_slice(&member.link)),
            }
            pieces.made(2 * number + 1, head.descriptor_len() as u64);
        }
        let directory_at = pieces.len();
        let end_len = end(count.into(), directory_at, directory_len).len() as u64;
        pieces.made(DIRECTORY, directory_len.saturating_add(end_len));
        let members = Arc::new(members);
        let parts = ZipParts {
            members: members.clone(),
            zip: *self,
            crcs: Crcs::new(members.clone()),
            headers,
            directory_at,
            directory: OnceLock::new(),
        };
        let file = VirtualFile::new(path, pieces, Arc::new(parts))?;
        Ok(Laid { file, members, starts: starts.into() })
    }
}

struct ZipParts {
    members: Arc<Members>,
    zip: Zip,
    /// Where the header of each member begins.
    headers: Vec<u64>,
    directory_at: u64,
    directory: OnceLock<Bytes>,
    crcs: Crcs,
}

impl std::fmt::Debug for ZipParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ZipParts").field("members", &self.headers.len()).finish_non_exhaustive()
    }
}

impl Parts for ZipParts {
    fn open(&self, number: u32) -> error::Result<Arc<dyn Source>> {
        self.members.open(number)
    }

    fn make(&self, number: u32, bodies: &Bodies) -> error::Result<Bytes> {
        if number == DIRECTORY {
            return self.directory(bodies);
        }
        let member = self.members.all().get(number as usize / 2).ok_or_else(|| no_part(number))?;
        let encoded = match number % 2 {
            0 => self.zip.head(member, 0).local().map_err(|fault| impossible(&fault))?,
            _ => {
                self.crcs.read(bodies, number / 2..number / 2 + 1)?;
                self.zip.head(member, self.crcs.get(number / 2)).descriptor()
            }
        };
        Ok(encoded.into())
    }

    fn passed(&self, number: u32, at: u64, bytes: &[u8]) {
        self.crcs.passed(number, at, bytes);
    }

    fn made_by(&self) -> Option<MadeBy> {
        let options = [u8::from(self.zip.deterministic)];
        Some(MadeBy::new("zip", 1).with("deterministic", options).with_members(&self.members))
    }
}

impl ZipParts {
    /// The directory and the end of the zip.
    fn directory(&self, bodies: &Bodies) -> error::Result<Bytes> {
        if let Some(directory) = self.directory.get() {
            return Ok(directory.clone());
        }
        self.crcs.read(bodies, 0..self.headers.len() as u32)?;
        let mut out = Vec::new();
        for ((number, member), start) in (0..).zip(self.members.all()).zip(&self.headers) {
            let entry = self.zip.head(member, self.crcs.get(number)).entry(*start);
            out.extend(entry.map_err(|fault| impossible(&fault))?);
        }
        let (count, len) = (self.headers.len() as u64, out.len() as u64);
        out.extend(end(count, self.directory_at, len));
        Ok(self.directory.get_or_init(|| out.into()).clone())
    }
}

impl Zip {
    pub(super) fn head<'m>(&self, member: &'m Member, crc: u32) -> Head<'m> {
        let (mtime_ns, owner) = match self.deterministic {
            true => (0, None),
            false => (member.mtime_ns, member.owner),
        };
        let Member { key, kind, mode, link, .. } = member;
        let len = if *kind == MemberKind::File { member.len } else { link.len() as u64 };
        let has_descriptor = *kind == MemberKind::File;
        // What is here already needs nothing behind it.
        let crc32 = if has_descriptor { crc } else { crc32(link) };
        Head { key, kind: *kind, mode: *mode, mtime_ns, owner, len, crc32, has_descriptor }
    }
}

/// A member that was refused when it was laid out.
pub(super) fn impossible(fault: &Fault) -> error::Error {
    error::Error::io("make", "a zip", std::io::Error::other(fault.to_string()))
}
