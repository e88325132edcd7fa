//! Sources into a pack: trees of files, or the members of archives, by one call.
//!
//! It decides what may be packed together, what is refused before anything is made, whether there
//! is space, when the pack counts as complete, and when a pack that was made for nothing is
//! removed. How a tree is walked and compared is in [`crate::pack::tree`], how members of archives
//! are converted in [`import`](super::import).

mod archives;
mod completing;
mod error;
mod hooks;
mod making;
mod opening;
mod trees;

use std::io::BufRead;
use std::path::{Path, PathBuf};

pub use error::{Error, Result};
pub use hooks::{Answer, Hooks, Stage};
pub(super) use making::check_segment_len;
pub use making::{Made, Making, OpenedWriter, open_writer, open_writer_with, put_into};

use self::hooks::Reporting;
use super::choice::Choice;
use super::contents::is_object;
use super::import::{STREAM, are_archives};
use super::{NothingSelected, Predicate};
use crate::names::Selection;
use crate::pack::WriterOptions;
use crate::pack::tree::{Delete, Grouping, MoveSummary, OwnAttributes, PackSummary};

/// The most threads that a caller may ask for.
pub const THREADS_MAX: usize = 1024;

/// Opens the stream for [`STREAM`] among the sources.
pub type OpenStream<'a> = Box<dyn Fn() -> Result<Box<dyn BufRead + Send>, crate::Error> + Send + Sync + 'a>;

/// Sources that are to be packed, and how.
pub struct PackSources<'a> {
    /// Directories and files, or archives, which may have an address (`https://…`, `s3://…`); with
    /// several trees, keys begin with the name of each.
    pub sources: Vec<PathBuf>,
    /// The pack: made if it is not there.
    pub pack: PathBuf,
    /// Which paths are packed, by patterns.
    pub patterns: Selection,
    /// Paths to exclude; directories with all their contents.
    pub exclude: Option<Predicate<'a>>,
    /// Of the rest, which are packed. Directories are entered all the same.
    pub select: Option<Predicate<'a>>,
    /// Adds attributes to each record that is put. Unchanged records keep theirs; a member of an
    /// archive is unchanged only if these are, too.
    pub attributes: Option<OwnAttributes<'a>>,
    /// Which group each record goes to.
    pub grouping: Grouping,
    /// How many records of missing files may be deleted; not for archives.
    pub delete: Delete,
    /// Whether packed files are removed, once the pack was read back; not for archives.
    pub move_originals: bool,
    /// Whether files of these sources take the place of others that were moved into the pack from
    /// elsewhere, of which it may have the only copies. Otherwise those fail.
    pub replace_moved: bool,
    /// Whether bytes are compared, regardless of times and checksums.
    pub checksum: bool,
    /// Whether archives and packs among the sources are packed as the files that they are.
    pub as_file: bool,
    /// Whether nothing is done, and only said what would be.
    pub dry_run: bool,
    /// Whether owners are kept.
    pub with_owner: bool,
    /// Whether extended attributes are kept, access control lists among them.
    pub xattrs: bool,
    /// Threads that walk and read trees; `None` for as many as the profile of the first source has
    /// files opened at once.
    pub threads: Option<usize>,
    /// Length at which segments of a new pack are sealed, in bytes.
    pub segment_len: u64,
    /// The stream for [`STREAM`], if there is one.
    pub stream: Option<OpenStream<'a>>,
}

impl std::fmt::Debug for PackSources<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sources = self.sources.iter().map(|source| opening::root_of(source).escape_ascii().to_string());
        f.debug_struct("PackSources")
            .field("sources", &sources.collect::<Vec<_>>())
            .field("pack", &self.pack)
            .finish_non_exhaustive()
    }
}

/// What packing did.
#[derive(Debug, Default)]
pub struct PackReport {
    /// Added files, existing files, failures. With [`move_originals`](PackSources::move_originals),
    /// also why originals stay.
    pub summary: PackSummary,
    /// Members of archives that packs do not hold: pipes, devices and the like.
    pub left_out: Vec<Vec<u8>>,
    /// What was removed, if that was requested and packing was completed.
    pub moved: Option<MoveSummary>,
    /// Whether the run was completed and nothing is missing from the pack, as far as is known;
    /// never with [`dry_run`](PackSources::dry_run).
    pub complete: bool,
    /// Whether nothing was selected.
    pub nothing: Option<NothingSelected>,
}

impl<'a> PackSources<'a> {
    /// Everything in these sources, into one group, deleting nothing.
    pub fn new(sources: Vec<PathBuf>, pack: PathBuf) -> Self {
        Self {
            sources,
            pack,
            patterns: Selection::default(),
            exclude: None,
            select: None,
            attributes: None,
            grouping: Grouping::Default,
            delete: Delete::Nothing,
            move_originals: false,
            replace_moved: false,
            checksum: false,
            as_file: false,
            dry_run: false,
            with_owner: rustix::process::geteuid().is_root(),
            xattrs: true,
            threads: None,
            segment_len: WriterOptions::default().segment_len,
            stream: None,
        }
    }

    /// Packs everything that is new or changed since the last run into the same pack, if there was
    /// one.
    ///
    /// An entry that cannot be read fails alone. From its first change on, the pack is marked
    /// incomplete; a run that ends early leaves it so, and the next run continues from there. A run
    /// that ends before it changes anything leaves the pack as it was. If the pack was made for
    /// this run, and nothing matched the selection or the caller failed, it is removed.
    ///
    /// An incomplete pack stays so after a run of other sources, one whose patterns exclude
    /// existing records, and one that selects nothing, which does not change an existing pack.
    ///
    /// # Errors
    /// Returns an error if the request is invalid ([`Error::is_usage`]), a source cannot be opened,
    /// there is no space, or the pack cannot be written.
    pub fn run(&self, hooks: &mut dyn Hooks) -> Result<PackReport> {
        self.check()?;
        let choice = Choice::new(&self.patterns, self.exclude.as_ref(), self.select.as_ref());
        let mut reporting = Reporting::new(hooks, &choice);
        let mut report = match !self.as_file && are_archives(&self.sources)? {
            true => self.pack_archives(&mut reporting),
            false => self.pack_trees(&mut reporting),
        }?;
        // Nothing was done, so nothing was completed.
        report.complete &= !self.dry_run;
        Ok(report)
    }

    /// Checks that need no I/O.
    fn check(&self) -> Result<()> {
        check_segment_len(&self.writer_options()).map_err(Error::SegmentLen)?;
        if self.delete != Delete::Nothing && self.move_originals {
            return Err(Error::DeleteAndMove);
        }
        let streams = self.sources.iter().filter(|source| source.as_path() == Path::new(STREAM));
        if !self.as_file && streams.count() > 1 {
            return Err(Error::StreamTwice);
        }
        if let Some(source) = self.sources.iter().find(|source| self.as_file && is_object(source)) {
            let shown = String::from_utf8_lossy(&opening::root_of(source)).into_owned();
            return Err(Error::ObjectAsFile(shown));
        }
        // A variable that is not set: instead of some group, records of the default one would go.
        if self.delete == Delete::UpToHalf && self.grouping == Grouping::Named(String::new()) {
            return Err(Error::EmptyGroup);
        }
        Ok(())
    }

    fn writer_options(&self) -> WriterOptions {
        WriterOptions { segment_len: self.segment_len, ..WriterOptions::bulk() }
    }
}

/// The grouping that a name of a group, or how records are spread over groups, stands for.
///
/// # Errors
/// What is wrong with them.
pub fn grouping_of(group: Option<String>, group_by: Option<&str>) -> std::result::Result<Grouping, String> {
    match (group, group_by) {
        (Some(_), Some(_)) => Err("either group or group_by, not both".to_owned()),
        (Some(group), None) => Ok(Grouping::Named(group)),
        (None, None) => Ok(Grouping::Default),
        (None, Some(how)) => {
            parse_grouping(how).ok_or_else(|| format!("group_by is 'none', 'top' or 'hash:N', not '{how}'"))
        }
    }
}

/// How records are spread over groups: `none`, `top` (by first directory) or `hash:N`, N from 1 to
/// 10,000. `None` for any other text.
pub fn parse_grouping(text: &str) -> Option<Grouping> {
    match text {
        "none" => Some(Grouping::Default),
        "top" => Some(Grouping::Top),
        _ => {
            let groups = text.strip_prefix("hash:")?.parse().ok()?;
            (1..=10_000).contains(&groups).then_some(Grouping::Hash(groups))
        }
    }
}
