//! A part of a file against its list, by its proof, without reading the rest.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::above::Above;
use super::blocks::{Part, Proofs};
use super::lists::ListFile;
use super::{Error, Result, own, reading};
use crate::engine::Backend;
use crate::error::chain;
use crate::extent::ByteRange;
use crate::format::proof::BLOCK_BYTES;
use crate::hash::{Digest, HashKind};
use crate::source::{AccessRule, read_range};
use crate::tree::{Kind, NodeId};
use crate::verify::{BadBlocks, Branch, Expected};

/// Which part of which file is verified.
#[derive(Debug, Clone)]
pub struct RangeGiven {
    /// The file.
    pub path: PathBuf,
    /// From which byte on, and up to which; to the end where it is not said.
    pub start: u64,
    /// The byte after the last one.
    pub end: Option<u64>,
    /// Read through the page cache.
    pub cached: bool,
}

/// What was found of a part of a file.
#[derive(Debug, Clone)]
pub struct RangeReport {
    /// The file.
    pub path: PathBuf,
    /// The directory whose list has it.
    pub listed_in: PathBuf,
    /// The newest list that says what the file should be.
    pub list: Option<PathBuf>,
    /// Whether a newer list there has it without BLAKE3: it may have been changed since.
    pub is_older: bool,
    /// What was read: the blocks in which the part lies.
    pub read: ByteRange,
    /// Which of these are bad.
    pub bad: BadBlocks,
    /// The length that the list is of, where the file has another: it is damaged then, or was
    /// changed, whatever this part of it is.
    pub other_len: Option<u64>,
}

impl RangeReport {
    /// Whether all that was read is what the list says, and the file has its length.
    pub fn is_proven(&self) -> bool {
        self.bad.is_none() && self.other_len.is_none()
    }
}

/// A file that a list has.
struct Listed {
    branch: Branch,
    key: Vec<u8>,
    digest: Digest,
    is_older: bool,
    folders: Vec<NodeId>,
}

impl RangeGiven {
    /// Verifies the part. `go_on` is asked for each block, with the bytes that were read.
    ///
    /// # Errors
    /// That no list has the file with BLAKE3 or one of them cannot be read whole, that it has no
    /// proof, that the part reaches past its end, and what cannot be opened.
    pub fn run(&self, go_on: &mut dyn FnMut(u64) -> bool) -> Result<RangeReport> {
        let Listed { branch, key, digest, is_older, folders } = self.listed()?;
        let access = if self.cached { AccessRule::Cached } else { AccessRule::Direct };
        let proofs = Proofs { branch: &branch, tree: &*branch.tree, folders: &folders };
        let (path, listed_in) = (self.path.clone(), branch.path());
        let end = self.end;
        let found = match proofs.bad_in(&key, &digest, access, (self.start, end), go_on)? {
            Some(found) => Some(found),
            None => short(&branch, &key, &digest, access, (self.start, end))?,
        };
        let Part { read, bad, other_len } = found.ok_or_else(|| Error::NoProof(path.clone()))?;
        let list = ListFile::newest_with(&branch, &key, &digest);
        Ok(RangeReport { path, listed_in, list, is_older, read, bad, other_len })
    }

    /// The list that has the file: of its directory, or of one above.
    fn listed(&self) -> Result<Listed> {
        let failed = |error| crate::Error::io("find", &self.path, error);
        let name = self.path.file_name().ok_or_else(|| Error::NotListed(self.path.clone()))?;
        let parent = match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let file = parent.canonicalize().map_err(failed)?.join(name);
        // A file that is not there, or none, is said to be so, and not to be in no list.
        let kind = Kind::of(FileType::from_raw_mode(file.symlink_metadata().map_err(failed)?.mode()));
        if kind != Kind::File {
            let (path, found) = (self.path.clone(), kind.noun());
            return Err(crate::Error::NotARegularFile { path, found }.into());
        }
        for found in Above::all(&file) {
            let (Above { branch, key }, own) = found?;
            let Some(read) = reading::read(&branch, own.lists, 0, &mut || true) else { continue };
            // A line that cannot be read may be a newer one of this file.
            if let Some(bad) = own.problems.iter().chain(&read.reports).find(|list| list.bad_lines > 0) {
                return Err(Error::bad_list(bad));
            }
            let newest = blake3_of(&read.expected, &key);
            let is_older = newest.is_none();
            let older = || {
                let lists = own::lists_of(&branch).ok()?.lists;
                blake3_of(&reading::proven(&branch, lists, &mut || true)?, &key)
            };
            if let Some(digest) = newest.or_else(older) {
                return Ok(Listed { branch, key, digest, is_older, folders: own.proofs });
            }
        }
        Err(Error::NotListed(self.path.clone()))
    }
}

/// What lists say of a file with BLAKE3.
pub(super) fn blake3_of(expected: &Expected, key: &[u8]) -> Option<Digest> {
    let digests = expected.find(key)?.digests();
    digests.into_iter().find(|digest| digest.kind == HashKind::Blake3)
}

/// A file of one block, which has no proof and needs none; `None` for a longer one.
fn short(
    branch: &Branch,
    key: &[u8],
    digest: &Digest,
    rule: AccessRule,
    (start, end): (u64, Option<u64>),
) -> Result<Option<Part>> {
    let Some(id) = branch.find(key)? else { return Ok(None) };
    let file = branch.tree.open(id)?;
    let (len, whole) = (file.len(), ByteRange::to(file.len()));
    if len > BLOCK_BYTES {
        return Ok(None);
    }
    if len > 0 {
        blocks_of(start, end, len).ok_or_else(|| out_of_bounds((start, end), file.path(), len))?;
    }
    let read = read_range(&Backend::Auto, &*file, whole, rule.decide(&*file, whole));
    let is_same = read.as_ref().is_ok_and(|bytes| Digest::of(HashKind::Blake3, bytes) == *digest);
    let ranges = if is_same { Vec::new() } else { vec![whole] };
    let read_error = read.err().map(|error| chain(&error));
    let bad = BadBlocks { bad: ranges.len() as u64, blocks: 1, ranges, read_error, unknown: 0 };
    Ok(Some(Part { read: whole, bad, other_len: None }))
}

/// The error of a part that a file of this length does not have.
pub(super) fn out_of_bounds((start, end): (u64, Option<u64>), path: &Path, len: u64) -> crate::Error {
    let range = ByteRange::new(start, end.unwrap_or(u64::MAX)).unwrap_or(ByteRange::to(start));
    if range.is_empty() {
        let what = std::io::Error::new(std::io::ErrorKind::InvalidInput, "the part has no bytes");
        return crate::Error::io("verify", path, what);
    }
    crate::Error::OutOfBounds { range, path: path.to_path_buf(), len }
}

/// The blocks in which a part of a file lies that has this length; `None` if it has no such bytes.
pub(super) fn blocks_of(start: u64, end: Option<u64>, file_len: u64) -> Option<std::ops::Range<u64>> {
    let end = end.unwrap_or(file_len);
    let is_within = start < end && end <= file_len;
    is_within.then(|| start / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES))
}
