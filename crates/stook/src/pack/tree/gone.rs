//! Records of what is no longer in the tree, deleted at the end of a run.
//!
//! What the walk did not meet is gone only where the walk was: what was left out, or is near
//! something that could not be read, is not known to be gone, and stays. Before a record goes, its
//! path is looked at once more.

use std::collections::{BTreeMap, BTreeSet};

use super::grouping::Grouping;
use super::packing::{Abort, Failure, Met, Packing};
use super::roots::Roots;
use crate::pack::error::Result;
use crate::pack::format::attributes::FileKind;
use crate::pack::key::Key;
use crate::pack::state::open::{KeyEntry, Pack};
use crate::report::units;
use crate::tree::gone::{GoneCount, MORE_THAN_HALF, more_than};
use crate::tree::target;
use crate::walk::{Decision, Kind, Walk};

/// Records that are looked up at once.
const BATCH_LEN: usize = 4096;

/// How many records of what is gone may be deleted. If there are more, none is: an empty mount
/// point, or another root by mistake, looks like a tree from which all is gone.
///
/// With a [grouping](super::Grouping) that was asked for, only records in the group that they would
/// be packed into now are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delete {
    /// None.
    #[default]
    Nothing,
    /// Half of the files that the pack has below each root, of those that this run would pack; none
    /// if [files were moved into it](Pack::is_moved_into).
    UpToHalf,
    /// This many.
    UpTo(u64),
    /// All.
    Any,
}

impl Delete {
    /// What is meant where deleting is asked for or not: up to `max` if it is given, and all with
    /// `any`.
    pub fn asked(is_asked: bool, max: Option<u64>, any: bool) -> Self {
        match (is_asked, max) {
            (false, _) => Self::Nothing,
            (true, _) if any => Self::Any,
            (true, Some(max)) => Self::UpTo(max),
            (true, None) => Self::UpToHalf,
        }
    }
}

/// A record that stays because it holds the content of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Its key.
    pub key: Vec<u8>,
    /// A name of the same file that stays.
    pub link: Vec<u8>,
}

/// What is reported of a root where more than half of its files in the pack are gone. Each root is
/// counted by itself: one that is not mounted may be a small part of them all.
fn refusal_of(root: &[u8], count: GoneCount) -> Option<String> {
    let root = if root.is_empty() { "this tree".to_owned() } else { root.escape_ascii().to_string() };
    let of = units::count_of(count.of, "record", "records");
    count.is_more_than_half().then(|| format!("{} of the {of} of files in {root}", units::count(count.gone)))
}

impl Delete {
    /// Whether it may be too much that is gone.
    pub(super) fn may_be_refused(self) -> bool {
        matches!(self, Self::UpToHalf | Self::UpTo(_))
    }

    /// Why this many of the records of a tree may not be deleted, if they may not. Whether they are
    /// more than half is found by [`Packing::more_than_half`].
    fn refusal(self, gone: usize, of: usize, moved: bool) -> Option<String> {
        let why = match self {
            _ if gone == 0 => return None,
            Self::Nothing | Self::Any => return None,
            Self::UpTo(max) if gone as u64 <= max => return None,
            Self::UpTo(max) => more_than(max),
            Self::UpToHalf if moved => "and files were moved into the pack: it may hold the only copy".into(),
            Self::UpToHalf => return None,
        };
        let (gone, of) = (units::count(gone as u64), units::count_of(of as u64, "record", "records"));
        Some(format!("{gone} of the {of} of this tree would be deleted, {why}; none was"))
    }
}

impl<'p> Packing<'p, '_> {
    /// Deletes the records of what is gone, if that is asked for.
    pub(super) fn delete_gone(&mut self, before: Option<&Pack>) -> Result<(), Abort> {
        let Some(before) = before.filter(|_| self.tree.delete != Delete::Nothing) else { return Ok(()) };
        let mut roots = Roots::open(&Walk::new(&self.tree.roots)?)?;
        let failed: BTreeSet<Vec<u8>> = self.summary.failures.iter().map(|f| f.key.clone()).collect();
        let candidates = self.not_met(&roots, &failed);
        let mut gone = Vec::new();
        for batch in candidates.chunks(BATCH_LEN) {
            self.report_progress(0)?;
            self.confirm(batch, before, &mut roots, &mut gone)?;
        }
        self.hold_content(&mut gone, &failed);
        let of = self.existing.all().filter(|(_, key, _)| roots.above(key).is_some()).count();
        self.summary.refused = match self.tree.delete.refusal(gone.len(), of, before.is_moved_into()) {
            None => self.more_than_half(&gone, &failed, before, &roots)?,
            refused => refused,
        };
        if self.writer.is_none() {
            let is_refused = self.summary.refused.is_some();
            self.summary.deleted = if is_refused { 0 } else { gone.len() as u64 };
            self.summary.gone = gone.into_iter().map(<[u8]>::to_vec).collect();
            return Ok(());
        }
        if self.summary.refused.is_some() { Ok(()) } else { self.delete(&gone) }
    }

    /// What the walk should have met and did not, in the order of the keys.
    fn not_met(&mut self, roots: &Roots, failed: &BTreeSet<Vec<u8>>) -> Vec<&'p [u8]> {
        let (existing, mut all) = (self.existing, Vec::new());
        for (number, key, kind) in existing.all() {
            let is_met = self.is_met(number, key, failed);
            let Some(root) = roots.above(key).filter(|_| !is_met) else { continue };
            if !self.is_selected(key, kind, root) {
                continue;
            }
            if self.is_near_failure(key, root, failed) {
                self.summary.uncertain += 1;
            } else {
                all.push(key);
            }
        }
        all.sort_unstable();
        all
    }

    /// Why what is gone may not be deleted unasked, where it is more than half of the files of a
    /// root.
    fn more_than_half(
        &mut self,
        gone: &[&[u8]],
        failed: &BTreeSet<Vec<u8>>,
        before: &Pack,
        roots: &Roots,
    ) -> Result<Option<String>, Abort> {
        let existing = self.existing;
        let is_file = |key: &&[u8]| existing.kind(key) != Some(FileKind::Directory);
        if self.tree.delete != Delete::UpToHalf || !gone.iter().any(is_file) {
            return Ok(None);
        }
        let mut tallies: BTreeMap<&[u8], GoneCount> = BTreeMap::new();
        for batch in self.files(failed, roots).chunks(BATCH_LEN) {
            self.report_progress(0)?;
            for key in self.in_group(batch, before)? {
                let Some(root) = roots.above(key) else { continue };
                let tally = tallies.entry(root).or_default();
                tally.of += 1;
                tally.gone += u64::from(gone.binary_search(&key).is_ok());
            }
        }
        let refusals = tallies.into_iter().filter_map(|(root, tally)| refusal_of(root, tally));
        let refusals: Vec<String> = refusals.collect();
        let refused = || format!("{} would be deleted, {MORE_THAN_HALF}", refusals.join(" and "));
        Ok((!refusals.is_empty()).then(refused))
    }

    /// The files of the pack that this run met, or would have met if they were there, in the order
    /// of their keys.
    fn files(&self, failed: &BTreeSet<Vec<u8>>, roots: &Roots) -> Vec<&'p [u8]> {
        let (existing, mut files) = (self.existing, Vec::new());
        for (number, key, kind) in existing.all().filter(|(_, _, kind)| *kind != FileKind::Directory) {
            let Some(root) = roots.above(key) else { continue };
            if self.is_met(number, key, failed) || self.is_selected(key, kind, root) {
                files.push(key);
            }
        }
        files.sort_unstable();
        files
    }

    /// Those of a batch that are in a group that counts. What cannot be located is not known to be
    /// in one.
    fn in_group(&self, batch: &[&'p [u8]], before: &Pack) -> Result<Vec<&'p [u8]>> {
        if self.tree.grouping == Grouping::Default {
            return Ok(batch.to_vec());
        }
        let keys = batch.iter().map(Key::bytes).collect::<Result<Vec<_>>>()?;
        let mut counted = Vec::new();
        for (&key, entry) in batch.iter().zip(before.locate(&keys)?) {
            if entry.ok().flatten().is_some_and(|entry| self.is_in_group(key, &entry, before)) {
                counted.push(key);
            }
        }
        Ok(counted)
    }

    /// Whether a record is in a group that counts: the one that it would be packed into now, where
    /// one was asked for.
    fn is_in_group(&self, key: &[u8], entry: &KeyEntry, before: &Pack) -> bool {
        let is_directory = self.existing.kind(key) == Some(FileKind::Directory);
        self.tree.grouping == Grouping::Default
            || self.tree.grouping.of(key, is_directory) == before.group_of_entry(entry)
    }

    /// Whether the walk came to the path of a record, be it in vain.
    fn is_met(&self, number: usize, key: &[u8], failed: &BTreeSet<Vec<u8>>) -> bool {
        self.met.get(number).is_none_or(|met| *met != Met::Not) || failed.contains(key)
    }

    /// Whether the walk would have come to this path, and packed it.
    fn is_selected(&self, key: &[u8], kind: FileKind, root: &[u8]) -> bool {
        let (tree, own) = (self.tree, &self.summary.own);
        let is_entered = |above| tree.decide(own, above, Kind::Directory) != Decision::Prune;
        target::parts(key).is_ok()
            && tree.decide(own, key, kind.in_tree()) == Decision::Take
            && directories(key, root).all(is_entered)
    }

    /// Whether anything failed in the directory in which this path is missing, at any depth: what
    /// is missing here may be what could not be read there, by another name.
    fn is_near_failure(&self, key: &[u8], root: &[u8], failed: &BTreeSet<Vec<u8>>) -> bool {
        let is_there = |directory: &&[u8]| {
            let met = self.existing.number(directory).and_then(|number| self.met.get(number));
            met.is_some_and(|met| *met != Met::Not) || failed.contains(*directory)
        };
        let nearest = directories(key, root).find(is_there).unwrap_or(root);
        if nearest.is_empty() || failed.contains(nearest) {
            return !failed.is_empty();
        }
        let below = [nearest, b"/"].concat();
        failed.range(below.clone()..).next().is_some_and(|key| key.starts_with(&below))
    }

    /// Adds to `gone` what of a batch is in a group that counts, and at whose path nothing is now.
    fn confirm(
        &mut self,
        batch: &[&'p [u8]],
        before: &Pack,
        roots: &mut Roots,
        gone: &mut Vec<&'p [u8]>,
    ) -> Result<()> {
        let keys = batch.iter().map(Key::bytes).collect::<Result<Vec<_>>>()?;
        for (&key, entry) in batch.iter().zip(before.locate(&keys)?) {
            let entry = match entry {
                Ok(Some(entry)) => entry,
                Ok(None) => continue,
                // What it is cannot be known: it stays.
                Err(error) => {
                    self.summary.failures.push(Failure { key: key.to_vec(), error });
                    continue;
                }
            };
            if !self.is_in_group(key, &entry, before) {
                continue;
            }
            match roots.has(key) {
                Ok(true) => {}
                Ok(false) => gone.push(key),
                Err(error) => {
                    let path = String::from_utf8_lossy(key).into_owned();
                    let error = crate::Error::io("look for", path, error).into();
                    self.summary.failures.push(Failure { key: key.to_vec(), error });
                }
            }
        }
        Ok(())
    }

    /// Takes out what holds the content of names that stay. A name that was packed in this run
    /// leads to what the walk met; what was not met, or failed, leads where it led before.
    fn hold_content(&mut self, gone: &mut Vec<&'p [u8]>, failed: &BTreeSet<Vec<u8>>) {
        let existing = self.existing;
        let old: Vec<(&[u8], &[u8])> = existing
            .hard_links()
            .filter(|(link, _)| {
                let met = existing.number(link).and_then(|number| self.met.get(number));
                met != Some(&Met::Packed) || failed.contains(*link)
            })
            .collect();
        let mut held = BTreeMap::new();
        loop {
            let before = held.len();
            for &(link, first) in &old {
                let stays = gone.binary_search(&link).is_err() || held.contains_key(link);
                if stays && gone.binary_search(&first).is_ok() {
                    held.entry(first).or_insert(link);
                }
            }
            // What is held may be a link itself.
            if held.len() == before {
                break;
            }
        }
        gone.retain(|key| !held.contains_key(key));
        let held = held.into_iter().map(|(key, link)| Held { key: key.to_vec(), link: link.to_vec() });
        self.summary.held = held.collect();
    }

    fn delete(&mut self, gone: &[&[u8]]) -> Result<(), Abort> {
        let Some(writer) = self.writer.as_deref_mut().filter(|_| !gone.is_empty()) else { return Ok(()) };
        // What took the place of a record, under another name of the same file, is safe before that
        // record goes.
        writer.sync()?;
        // Links go first: what they lead to is then no longer needed.
        let is_link = |key: &&[u8]| self.existing.kind(key) == Some(FileKind::HardLink);
        let (links, others): (Vec<&[u8]>, Vec<&[u8]>) = gone.iter().copied().partition(is_link);
        for batch in [links, others].concat().chunks(BATCH_LEN) {
            for key in batch {
                if let Some(writer) = self.writer.as_deref_mut() {
                    self.summary.deleted += u64::from(writer.delete(&Key::bytes(key)?)?);
                }
            }
            self.report_progress(0)?;
        }
        Ok(())
    }
}

/// The directories between a root and a key below it, the deepest first.
fn directories<'k>(key: &'k [u8], root: &[u8]) -> impl Iterator<Item = &'k [u8]> + use<'k> {
    let from = root.len();
    let ends = key.iter().enumerate().rev().filter(move |&(at, &byte)| byte == b'/' && at > from);
    ends.filter_map(|(at, _)| key.get(..at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_tells_how_many_and_why() {
        let reported = Delete::UpTo(1000).refusal(1001, 5000, false).unwrap();
        assert!(
            reported.contains("1,001 of the 5,000 records") && reported.contains("more than the 1,000 "),
            "{reported}"
        );
        assert!(reported.ends_with("; none was") && !reported.contains('?'), "{reported}");
        let moved = Delete::UpToHalf.refusal(1, 4, true).unwrap();
        assert!(moved.contains("moved into the pack"), "{moved}");
    }

    #[test]
    fn half_of_the_files_of_a_root_is_not_too_much() {
        let reported = refusal_of(b"", GoneCount { gone: 3258, of: 3258 }).unwrap();
        assert_eq!(reported, "3,258 of the 3,258 records of files in this tree");
        let reported = refusal_of(b"a", GoneCount { gone: 2, of: 3 }).unwrap();
        assert_eq!(reported, "2 of the 3 records of files in a");
        assert_eq!(refusal_of(b"", GoneCount { gone: 2, of: 4 }), None);
    }
}
