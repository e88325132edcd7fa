//! [`ListFile`]: a list that is to be read; and [`ListReport`]: what became of it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use rustix::fs::FileType;

use super::dates::date_of_name;
use super::own::{is_chain, lists_of};
use super::range::blake3_of;
use super::reading;
use crate::error::{Error, Result};
use crate::format::{mhl, now_ns, sums};
use crate::hash::Digest;
use crate::source::{Forwards, Source};
use crate::tree::Kind;
use crate::verify::Branch;

/// Problems of one list that are kept; the others are counted.
const PROBLEMS_MAX: usize = 1000;

/// What is wrong with a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListProblem {
    /// The line, from 1; `None` if it is the whole list.
    pub line: Option<u64>,
    /// What is wrong.
    pub what: String,
}

/// What became of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListReport {
    /// Which tree it was read for, by its position.
    pub subject: usize,
    /// The list.
    pub path: PathBuf,
    /// The tree that it is of: that which is verified, or the directory above that has the list.
    pub tree: PathBuf,
    /// When it was made, in nanoseconds since 1970: by its name, else its modification time.
    pub date_ns: i64,
    /// Digests, or lengths, of files that were taken from it.
    pub lines: u64,
    /// Lines that could not be used, and whatever else is wrong with it.
    pub bad_lines: u64,
    /// The first thousand of these.
    pub problems: Vec<ListProblem>,
    /// Whether its paths were taken as those of DOS and Windows, with backslashes between names.
    pub is_dos: bool,
    /// Whether its date is still to come, by more than clocks and zones of time may be apart: it
    /// outranks all lists that are made until then.
    pub is_of_future: bool,
    /// Of a chain: whether a list of its history is lost, or may be.
    pub(super) has_lost: bool,
}

impl ListReport {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, ..Self::default() }
    }

    /// Whether lists said something that is not known any more: nothing can be said to be in none.
    pub(super) fn is_silent(&self) -> bool {
        if is_chain(&self.path) { self.has_lost } else { self.bad_lines > 0 && self.lines == 0 }
    }

    /// Notes what is wrong.
    pub(super) fn add(&mut self, line: Option<u64>, what: impl ToString) {
        self.bad_lines += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(ListProblem { line, what: what.to_string() });
        }
    }
}

/// The second in which a list was written: names say no more, and of two lists of one second it is
/// not known which is the later one.
const fn second_of(ns: i64) -> i64 {
    ns.div_euclid(1_000_000_000).saturating_mul(1_000_000_000)
}

/// How far clocks may be apart.
const MINUTE_NS: i64 = 60 * 1_000_000_000;
/// The same with zones of time that nothing says: lists that are written here are dated in UTC.
const DAY_NS: i64 = 24 * 60 * MINUTE_NS;

/// Whether a list of this name and date counts for more than all that are made until then.
fn is_of_future(name: &[u8], date_ns: i64) -> bool {
    let apart_ns = if sums::is_own_list_name(name) { MINUTE_NS } else { DAY_NS };
    date_ns > now_ns().saturating_add(apart_ns)
}

/// Whether a list that was made now has a date that is still to come: a second after that of the
/// newest list beside it, for which it would else not count.
pub fn is_dated_ahead(list: &Path) -> bool {
    let name = list.file_name().unwrap_or_default().as_bytes();
    sums::is_own_list_name(name) && date_of_name(name).is_some_and(|date_ns| is_of_future(name, date_ns))
}

/// Whether a name is that of an ASC MHL.
pub(super) fn is_mhl_name(name: &[u8]) -> bool {
    name.to_ascii_lowercase().ends_with(b".mhl")
}

/// When a list was made. Names of lists of one second that are written here say in which order.
fn date_of(name: &[u8], modified_ns: i64) -> i64 {
    let date_ns = date_of_name(name).unwrap_or(second_of(modified_ns));
    let later = sums::number_of_name(name).map_or(0, |number| i64::from(number).saturating_sub(1));
    date_ns.saturating_add(later)
}

/// Whether a path is that of a file that is open already: `/dev/stdin`, `/dev/fd/63`.
pub(super) fn is_handed_over(path: &Path) -> bool {
    ["/dev/stdin", "/dev/fd/", "/proc/self/fd/"]
        .iter()
        .any(|open| path.as_os_str().as_bytes().starts_with(open.as_bytes()))
}

/// A list that is to be read.
#[derive(Debug)]
pub(super) struct ListFile {
    /// Where it is, for messages.
    pub(super) path: PathBuf,
    pub(super) name: Vec<u8>,
    /// The directory of the tree that its paths are relative to.
    pub(super) below: Vec<u8>,
    /// When it was made: of two lists the later one counts, and of two equal ones both.
    pub(super) date_ns: i64,
    /// Whether its chain vouches for it, if it is one of a history.
    pub(super) is_vouched: bool,
    bytes: ListBytes,
}

#[derive(Debug)]
enum ListBytes {
    OnDisk(PathBuf),
    Of(Arc<dyn Source>),
}

impl ListFile {
    /// A list that a path names. Its paths are relative to the tree.
    pub(super) fn given(path: &Path) -> Result<Self> {
        let failed = |error| Error::io("open", path, error);
        let metadata = path.metadata().map_err(failed)?;
        if metadata.is_dir() {
            let what = "it is a directory, and a list is a file";
            return Err(failed(std::io::Error::new(std::io::ErrorKind::IsADirectory, what)));
        }
        // A pipe without a writer, or a device, would keep it waiting for ever; what the shell
        // opened for us does not.
        if !metadata.is_file() && !is_handed_over(path) {
            let found = Kind::of(FileType::from_raw_mode(metadata.mode())).noun();
            return Err(Error::NotARegularFile { path: path.to_path_buf(), found });
        }
        let name = path.file_name().unwrap_or_default().as_bytes().to_vec();
        let age = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified_ns = age.and_then(|age| i64::try_from(age.as_nanos()).ok()).unwrap_or(0);
        let date_ns = date_of(&name, modified_ns);
        let (path, bytes) = (path.to_path_buf(), ListBytes::OnDisk(path.to_path_buf()));
        Ok(Self { path, name, below: Vec::new(), date_ns, is_vouched: true, bytes })
    }

    /// A list in a tree.
    pub(super) fn of(source: Arc<dyn Source>, name: &[u8], below: &[u8]) -> Self {
        let date_ns = date_of(name, source.identity().mtime_ns);
        let (path, bytes) = (source.path().to_path_buf(), ListBytes::Of(source));
        Self { path, name: name.to_vec(), below: below.to_vec(), date_ns, is_vouched: true, bytes }
    }

    /// The newest list of a tree that has a file with this digest.
    pub(super) fn newest_with(branch: &Branch, key: &[u8], digest: &Digest) -> Option<PathBuf> {
        let mut lists = lists_of(branch).ok()?.lists;
        lists.sort_by_key(|list| std::cmp::Reverse(list.date_ns));
        lists.into_iter().find_map(|list| {
            let path = list.path.clone();
            let said = blake3_of(&reading::proven(branch, vec![list], &mut || true)?, key)?;
            (said == *digest).then_some(path)
        })
    }

    /// Reads it from its front.
    pub(super) fn open(&self) -> Result<Box<dyn BufRead>> {
        match &self.bytes {
            ListBytes::Of(source) => Ok(Box::new(Forwards::new(source.clone())?)),
            ListBytes::OnDisk(path) => {
                let file = File::open(path).map_err(|error| Error::io("open", path, error))?;
                Ok(Box::new(BufReader::with_capacity(1 << 20, file)))
            }
        }
    }

    /// Whether it can be read twice: a pipe cannot.
    pub(super) fn is_lasting(&self) -> bool {
        match &self.bytes {
            ListBytes::Of(_) => true,
            ListBytes::OnDisk(path) => path.is_file(),
        }
    }

    /// Whether its date is still to come.
    pub(super) fn is_of_future(&self) -> bool {
        is_of_future(&self.name, self.date_ns)
    }

    /// Whether it is an ASC MHL.
    pub(super) fn is_mhl(&self) -> bool {
        is_mhl_name(&self.name)
    }

    /// Its own path in a tree on disk, if it lies in it.
    pub(super) fn key_in(&self, branch: &Branch) -> Option<Vec<u8>> {
        let ListBytes::OnDisk(path) = &self.bytes else { return None };
        let root = branch.lies_in.as_ref().filter(|_| branch.is_on_disk)?.canonicalize().ok()?;
        let path = path.canonicalize().ok()?;
        let key = path.strip_prefix(root).ok()?.as_os_str().as_bytes();
        let folder = mhl::FOLDER.as_bytes();
        // The chain and all other lists are with it.
        let parent = key.strip_suffix(self.name.as_slice()).and_then(|parent| parent.strip_suffix(b"/"));
        let is_in_folder = |parent: &&[u8]| parent.rsplit(|byte| *byte == b'/').next() == Some(folder);
        Some(parent.filter(is_in_folder).unwrap_or(key).to_vec())
    }
}
