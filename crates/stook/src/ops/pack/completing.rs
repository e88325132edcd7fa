//! When a pack counts as complete: which run can complete one that is not.
//!
//! A pack says of which sources the runs are that have not come to their end. A run of the same
//! sources completes it, if it leaves out nothing of what the pack has.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::hooks::Reporting;
use super::opening::root_of;
use super::{NothingSelected, PackSources, Result};
use crate::ops::contents::is_object;
use crate::ops::import::STREAM;
use crate::pack::tree::PackSummary;
use crate::pack::{self, Pack};

/// What a run packed.
#[derive(Clone, Copy)]
pub(super) struct Packed<'s> {
    pub(super) summary: &'s PackSummary,
    /// Whether it was a stream that has everything that is in the pack.
    pub(super) has_all: bool,
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RunEnd {
    /// All of it was packed.
    Done,
    /// Deleting was refused, and nothing was packed: the pack is as it was.
    Refused,
    /// Some of it could not be packed.
    Failed,
    /// It stopped early.
    CutOff,
}

impl RunEnd {
    pub(super) fn of(summary: &PackSummary) -> Self {
        match summary {
            _ if summary.interrupted => Self::CutOff,
            _ if summary.refused.is_some() => Self::Refused,
            _ if summary.failures.is_empty() => Self::Done,
            _ => Self::Failed,
        }
    }
}

impl PackSources<'_> {
    /// The sources as they are recorded: absolute, so that they mean the same in any directory.
    pub(super) fn roots(&self) -> Result<Vec<Vec<u8>>> {
        let root = |source: &PathBuf| {
            if is_object(source) {
                return Ok(root_of(source));
            }
            let path = if self.is_stream(source) { source.clone() } else { absolute(source)? };
            Ok(path.into_os_string().into_encoded_bytes())
        };
        self.sources.iter().map(root).collect()
    }

    fn is_stream(&self, source: &Path) -> bool {
        !self.as_file && source == Path::new(STREAM)
    }

    /// Of which sources runs are unfinished from the first change of this run on.
    pub(super) fn unfinished_with(&self, before: &Pack) -> Result<Vec<Vec<u8>>> {
        if before.is_complete() {
            return self.roots();
        }
        let mut all = before.unfinished().to_vec();
        // Of a pack that does not say, any run may be the one.
        if !all.is_empty() && !self.is_run_of(&all) {
            let new = self.roots()?.into_iter().filter(|root| !all.contains(root));
            all.extend(new.collect::<Vec<_>>());
        }
        Ok(all)
    }

    /// Whether a run that packed everything makes the pack complete. Records that are missing in an
    /// incomplete pack are elsewhere if nothing was selected, if the run was of other sources, or
    /// if its patterns exclude records of the pack.
    pub(super) fn may_complete(
        &self,
        before: &Pack,
        packed: Option<Packed<'_>>,
        nothing: Option<NothingSelected>,
        reporting: &Reporting<'_>,
    ) -> Result<bool> {
        if before.is_complete() {
            return Ok(true);
        }
        let is_in_vain = nothing.is_some() && reporting.choice.is_selective();
        let unfinished = before.unfinished();
        // Two streams are never known to be the same. But if the pack has nothing that is not in
        // this one, all that it is to have is there.
        let is_stream = |path: &Vec<u8>| path.as_slice() == STREAM.as_bytes();
        let is_known = match unfinished {
            [path] if is_stream(path) => packed.is_some_and(|packed| packed.has_all),
            paths if paths.iter().any(is_stream) => false,
            paths => paths.is_empty() || self.is_run_of(paths),
        };
        if is_in_vain || !is_known {
            return Ok(false);
        }
        if self.patterns.is_all() {
            return Ok(true);
        }
        let takes = |path: &[u8]| [false, true].iter().any(|kind| self.patterns.takes_below(path, || *kind));
        let log = before.damage_log();
        for entry in before.keys(&[])? {
            let Some(entry) = log.unless_damaged(entry)? else { return Ok(false) };
            if entry.key.as_bytes().is_some_and(|path| !self.is_root(path) && !takes(path)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a key is that of a source itself, which is packed regardless of the patterns.
    fn is_root(&self, path: &[u8]) -> bool {
        let mut names = self.sources.iter().filter_map(|source| source.file_name());
        path.is_empty() || names.any(|name| name.as_encoded_bytes() == path)
    }

    /// Keys begin with the names of directories only where there are several sources: a directory
    /// of the pack that comes alone now, or not alone any more, would be packed again under other
    /// keys.
    ///
    /// # Errors
    /// [`pack::Error::Invalid`], with what to do instead.
    pub(super) fn check_keys(&self, before: &Pack) -> Result<(), pack::Error> {
        let (then, now) = (before.roots(), &self.sources);
        let is_in_pack = |source: &&PathBuf| {
            source.is_dir() && then.iter().any(|root| is_same(Path::new(OsStr::from_bytes(root)), source))
        };
        let Some(again) = now.iter().find(is_in_pack).filter(|_| (then.len() == 1) != (now.len() == 1))
        else {
            return Ok(());
        };
        let again = again.display();
        Err(pack::Error::Invalid(match then.len() {
            1 => format!(
                "{again} is in the pack by itself, with keys that do not begin with its name; named with others, it \
                 would be packed again under keys that do: pack the others alone, or make another pack of all"
            ),
            _ => format!(
                "{again} is in the pack beside others, with keys that begin with its name; named alone, it would be \
                 packed again under keys that do not: name all of them again, or make another pack of it"
            ),
        }))
    }

    /// Whether records of files are not replaced by files of these sources: they were moved into
    /// the pack from elsewhere, and may be the only copies.
    pub(super) fn keeps_moved(&self, before: Option<&Pack>) -> bool {
        let before = before.filter(|before| before.is_moved_into() && !self.replace_moved);
        before.is_some_and(|before| !self.is_run_of(before.moved_from()))
    }

    /// Whether the sources are these.
    fn is_run_of(&self, paths: &[Vec<u8>]) -> bool {
        let is_named = |path: &Vec<u8>| {
            let path = Path::new(OsStr::from_bytes(path));
            self.sources.iter().any(|source| is_same(path, source))
        };
        paths.len() == self.sources.len() && paths.iter().all(is_named)
    }

    /// What is said of a pack that a run did not complete.
    pub(super) fn stays_incomplete(&self, before: &Pack) -> String {
        let of: Vec<String> =
            before.unfinished().iter().map(|path| path.escape_ascii().to_string()).collect();
        let of = if of.is_empty() { String::new() } else { format!(" ({})", of.join(", ")) };
        format!(
            "{} was incomplete, and stays so until a run packs all of what it was made from{of}; where that is \
             gone, `stook check --accept` accepts it as it is",
            self.pack.display()
        )
    }
}

/// Whether a recorded path is that of a source. Packs made by older versions have paths as they
/// were given, relative to a directory that is not known: those are looked for in this one.
fn is_same(recorded: &Path, source: &Path) -> bool {
    if is_object(source) {
        return recorded.as_os_str().as_bytes() == root_of(source);
    }
    let real = |path: &Path| path.canonicalize().ok();
    let is_named = match recorded.is_absolute() {
        true => absolute(source).is_ok_and(|source| source == recorded),
        false => recorded == source,
    };
    is_named || real(recorded).is_some_and(|recorded| real(source) == Some(recorded))
}

/// A path that means the same in any directory; links in it stay as they are.
fn absolute(path: &Path) -> Result<PathBuf, pack::Error> {
    Ok(std::path::absolute(path).map_err(|error| crate::Error::io("find", path, error))?)
}
