//! [`Patch`]: an archive with members replaced, added and deleted by folders, of which nothing else
//! is another byte.
//!
//! What is not changed is a part of the archive as it is there, in as few pieces as possible; only
//! what says where members are is read to lay it out, never a body.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::unwrap_used, clippy::expect_used)]

mod afs;
mod changes;
mod inner;
mod tar;
mod window;
mod zip;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

pub(super) use self::changes::deleted;
pub(super) use self::inner::Finder;
use self::window::Window;
use super::error::{Error, Result};
use super::layout::{Laid, Layout};
use super::members::{Member, Members};
use super::merged::MadeBy;
use crate::error;
use crate::format::tar::header::{BLOCK_LEN, has_checksum};
use crate::format::{Fault, MemberKind, afs as afs_format, zip as zip_format};
use crate::source::Source;
use crate::tree::CaseRule;

/// The number of the body that is the archive. Those of the others are their members'.
const ARCHIVE: u32 = u32::MAX;
/// Members between two questions whether to go on.
const MEMBERS_PER_LOOK: u64 = 1024;
/// The longest tar without members.
const EMPTY_TAR_MAX: u64 = 1 << 20;

/// How compressed files begin.
const COMPRESSED: [(&str, &[u8]); 6] = [
    ("gzip", &[0x1f, 0x8b]),
    ("zstd", &[0x28, 0xb5, 0x2f, 0xfd]),
    ("xz", &[0xfd, b'7', b'z', b'X', b'Z', 0]),
    ("bzip2", b"BZh"),
    ("lz4", &[0x04, 0x22, 0x4d, 0x18]),
    ("lzip", b"LZIP"),
];

/// An archive (tar, zip, AFS) that folders are laid over. Its layout takes [`Members`] of trees:
///
/// - a file replaces the member with its path below the root of the tree, and a later tree counts
///   more than an earlier one. The member is then a regular file with the mode, time and owner of
///   the file; in a tar or zip under the name that it has in the archive, at its place;
/// - a file `NAME.del` deletes the member NAME of the archive and of earlier trees, and what is
///   below it. That there is none is an error, and so is one tree with both NAME and `NAME.del`. A
///   member whose own name ends in `.del` can only be deleted;
/// - in an AFS, a file at the root of the tree may also begin with the number of its member
///   (`00012_theme.adx`, `12.adx`), where no member has its name; the number after the last adds
///   one. Numbers do not move: what is deleted leaves its number without a member;
/// - other files are added, in the order of their paths, behind all members; not to an AFS;
/// - directories of trees only stand in paths. Links are refused.
///
/// Of several members with one name all are replaced by one at the place of the last; in an AFS
/// such a name is refused.
#[derive(Debug)]
pub struct Patch {
    archive: Arc<dyn Source>,
    case: CaseRule,
    table: Table,
}

/// Where the members of an archive are.
#[derive(Debug)]
enum Table {
    Tar(tar::TarTable),
    Zip(zip::ZipTable),
    Afs(afs::AfsTable),
}

impl Patch {
    /// Finds the members of an archive: reads the headers of a tar, the directory of a zip, the
    /// table of an AFS. `case` says whether names that differ only in case are one. `go_on` is
    /// asked now and then, with the members so far.
    ///
    /// # Errors
    /// [`Error::Core`]: it is no archive, compressed as a whole, damaged, or cannot be read;
    /// [`Error::Interrupted`].
    pub fn open(
        archive: Arc<dyn Source>,
        case: CaseRule,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Self> {
        let mut window = Window::new(&*archive)?;
        let what = "it is no tar, zip or AFS, or its beginning is damaged or cut off";
        let none = || damaged(&*archive, Fault::damaged(0, what));
        let table = match recognise(&mut window)?.ok_or_else(none)? {
            Format::Tar => Table::Tar(tar::TarTable::read(&mut window, go_on)?),
            Format::Zip => Table::Zip(zip::ZipTable::read(&mut window, go_on)?),
            Format::Afs => Table::Afs(afs::AfsTable::read(&mut window)?),
        };
        archive.check_unchanged()?;
        Ok(Self { archive, case, table })
    }

    /// Whether a file begins or ends as an archive does, also one that is compressed as a whole and
    /// therefore refused.
    pub(super) fn is_archive(source: &dyn Source) -> Result<bool> {
        let mut window = Window::new(source)?;
        let first = window.get(0, source.len().min(BLOCK_LEN as u64), "the beginning")?;
        Ok(compression(&first).is_some() || recognise(&mut window)?.is_some())
    }
}

impl Layout for Patch {
    fn ending(&self) -> &'static str {
        match self.table {
            Table::Tar(_) => "tar",
            Table::Zip(_) => "zip",
            Table::Afs(_) => "afs",
        }
    }

    /// The members of the file are those that stay ([`Member::is_kept`]), which cannot be opened
    /// by themselves, and those of the trees. Of a member that stays in a zip the header begins
    /// where its bytes are said to.
    ///
    /// # Errors
    /// [`Error::Change`]: what cannot be done to this archive; also as [`Layout::lay_out`].
    fn lay_out(&self, path: PathBuf, mut members: Members) -> Result<Laid> {
        let mut given = members.take();
        refuse_links(&given)?;
        given.retain(|member| member.kind == MemberKind::File);
        given.sort_by_key(Member::layer);
        let job = Job { archive: &self.archive, case: self.case, given, members };
        let laid = match &self.table {
            Table::Tar(table) => table.lay_out(path, job)?,
            Table::Zip(table) => table.lay_out(path, job)?,
            Table::Afs(table) => table.lay_out(path, job)?,
        };
        self.archive.check_unchanged()?;
        Ok(laid)
    }
}

/// What an archive is patched with.
struct Job<'a> {
    archive: &'a Arc<dyn Source>,
    case: CaseRule,
    /// The files of the trees, those of the first tree in front.
    given: Vec<Member>,
    /// What becomes of them.
    members: Members,
}

/// A member that comes from a tree, by its number.
#[derive(Debug, Default)]
struct News {
    /// Names in the archive that are written in another way than keys.
    names: HashMap<u32, Box<[u8]>>,
}

impl News {
    fn name<'a>(&'a self, number: u32, member: &'a Member) -> &'a [u8] {
        self.names.get(&number).map_or(&member.key, |name| name)
    }

    /// What decides the bytes that are made of members, beside what all layouts have.
    fn made_by(&self, layout: &'static str, members: &Members) -> MadeBy {
        let mut names: Vec<(&u32, &Box<[u8]>)> = self.names.iter().collect();
        names.sort_unstable();
        let made_by = MadeBy::new(layout, 1).with_members(members);
        names.into_iter().fold(made_by, |made_by, (number, name)| made_by.with(&number.to_string(), name))
    }
}

fn refuse_links(given: &[Member]) -> Result<()> {
    given.iter().find(|member| !member.link.is_empty()).map_or(Ok(()), |link| Err(is_link(&link.key)))
}

/// For a link among what changes an archive.
pub(super) fn is_link(key: &[u8]) -> Error {
    change(key, "it is a link, and only files are members: put the file there that it leads to")
}

/// A change that cannot be made.
fn change(key: &[u8], why: impl Into<String>) -> Error {
    Error::Change { key: key.to_vec(), why: why.into() }
}

/// What is wrong in an archive.
fn damaged(source: &dyn Source, fault: Fault) -> Error {
    let Fault { offset, what, unsupported } = fault;
    let path = source.path().to_path_buf();
    Error::Core(match unsupported {
        true => {
            let what = std::io::Error::new(std::io::ErrorKind::Unsupported, what);
            error::Error::io_at("patch", path, offset, what)
        }
        false => error::Error::Damaged { path, offset, what },
    })
}

/// The same, of a part of it that begins at `base`.
fn damaged_at(source: &dyn Source, base: u64, fault: Fault) -> Error {
    damaged(source, Fault { offset: base.saturating_add(fault.offset), ..fault })
}

/// What is not there any more, or does not fit, when it is written.
fn refused(key: &[u8]) -> impl Fn(Fault) -> Error {
    move |fault| Error::Member { key: key.to_vec(), why: fault.to_string() }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Tar,
    Zip,
    Afs,
}

/// What a file is compressed with that begins so.
fn compression(first: &[u8]) -> Option<&'static str> {
    COMPRESSED.iter().find(|(_, magic)| first.starts_with(magic)).map(|(name, _)| *name)
}

/// The format of an archive, by its first and last bytes.
fn recognise(window: &mut Window<'_>) -> Result<Option<Format>> {
    let source = window.source();
    let len = source.len();
    let first = window.get(0, len.min(BLOCK_LEN as u64), "the beginning")?;
    // The first member of a tar may have any name, one of those that others begin with, too.
    if let Some(block) = first.first_chunk::<BLOCK_LEN>()
        && (has_checksum(block) || is_empty_tar(window, len)?)
    {
        return Ok(Some(Format::Tar));
    }
    if afs_format::has_magic(&first) {
        return Ok(Some(Format::Afs));
    }
    if let Some(name) = compression(&first) {
        let what = format!(
            "it is compressed as a whole ({name}), so that every byte after a change would be another: \
             decompress it first"
        );
        return Err(damaged(source, Fault::unsupported(0, what)));
    }
    let is_zip = zip_format::has_magic(&first) || zip::has_end(window)?;
    Ok(is_zip.then_some(Format::Zip))
}

fn is_empty_tar(window: &mut Window<'_>, len: u64) -> Result<bool> {
    if len > EMPTY_TAR_MAX || !len.is_multiple_of(BLOCK_LEN as u64) {
        return Ok(false);
    }
    Ok(window.get(0, len, "a tar without members")?.iter().all(|byte| *byte == 0))
}
