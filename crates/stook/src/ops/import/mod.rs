//! Archives into packs: the members become records, as if they had been unpacked and packed again.
//!
//! It joins two capabilities, [`archive`] and [`pack`](crate::pack), and so stands above both.
//! Which files are taken for archives, what a member becomes, which names of files lead to what,
//! and what is a failure: these rules are here.

mod count;
mod members;
mod names;
mod put;
mod run;
mod seen;

pub(crate) use count::count;
pub use members::{head, kind};
pub use names::are_archives;
pub(crate) use names::is_called_archive;

use std::collections::VecDeque;

use crate::archive::{self, Archive, TarStream};
use crate::ops::pack::{Error, Result};
use crate::pack::tree::{OwnAttributes, PackSummary};
use crate::pack::{Pack, PackWriter};
use crate::walk::Kind;

/// What stands among paths for a tar that comes through a stream.
pub const STREAM: &str = "-";

/// An archive that is imported.
pub enum Source<'a> {
    /// A file.
    Archive(Box<Archive>),
    /// A tar that comes through a stream, opened when it is its turn.
    Stream(Box<dyn FnOnce() -> Result<TarStream, archive::Error> + 'a>),
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Archive(archive) => f.debug_tuple("Archive").field(archive).finish(),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// The hook that says which members are imported, by path and kind.
type Takes<'a> = Box<dyn Fn(&[u8], Kind) -> bool + 'a>;

/// How archives are imported.
pub struct Import<'a> {
    /// Which group the members go to.
    pub group: &'a str,
    /// Whether owners are kept.
    pub with_owner: bool,
    /// Whether extended attributes are kept, access control lists among them.
    pub xattrs: bool,
    /// Whether bytes are compared also where the checksum of a zip vouches for them.
    pub checksum: bool,
    /// Whether files and links that the pack has are not replaced by others: they were moved into
    /// it, and may be the only copies.
    pub keeps_moved: bool,
    /// What the caller adds to the attributes of each member.
    pub attributes: Option<OwnAttributes<'a>>,
    /// Whether a member is imported. Roots always are, without being asked about.
    pub takes: Takes<'a>,
    /// Called with the members and bytes that were gone through, before each member and often
    /// within a long one; when it says no, importing ends there.
    pub progress: Box<dyn Fn(u64, u64) -> bool + 'a>,
}

impl std::fmt::Debug for Import<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Import").field("group", &self.group).finish_non_exhaustive()
    }
}

/// What an import did.
#[derive(Debug, Default)]
pub struct Imported {
    /// What was added, what was there already, what failed.
    pub summary: PackSummary,
    /// Keys of pipes and devices, and of what only the program knows that made the archive: packs
    /// do not hold those.
    pub left_out: Vec<Vec<u8>>,
    /// Whether a stream was imported to its end, and every record that an incomplete pack had is of
    /// one of its members.
    pub has_all: bool,
}

impl Import<'_> {
    /// Imports all members of these archives. Of those with one key the last one counts, and what
    /// `before` has unchanged is not put again. Without a writer nothing is changed.
    ///
    /// # Errors
    /// Errors of reading an archive or writing the pack. What is wrong with one member is a
    /// failure of it alone.
    pub fn run(
        &self,
        sources: Vec<Source<'_>>,
        writer: Option<&mut PackWriter>,
        before: Option<&Pack>,
    ) -> Result<Imported> {
        let mut importing = run::Importing::new(self, writer, before);
        let mut sources = VecDeque::from(sources);
        while let Some(source) = sources.pop_front() {
            importing.source(source, &sources)?;
        }
        Ok(importing.end())
    }
}
