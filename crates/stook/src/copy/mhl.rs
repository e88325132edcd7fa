//! The list of ASC MHL that a copy leaves: written when all files are there, as the next generation
//! of the history of the destination.

use std::ffi::OsStr;
use std::io::{BufReader, Read as _};

use super::body::FileJob;
use super::destination::{Receiver, Spot};
use super::events::{Action, Why};
use super::lists::CHAIN;
use crate::engine::Access;
use crate::error::Result;
use crate::extent::ByteRange;
use crate::format::mhl::{Chain, FOLDER, MhlProcess, checked_kinds};
use crate::hash::HashKind;
use crate::source::read_range;
use crate::tree::history::{CHAIN_MAX, Generation, Listed, is_ignored, open_in};
use crate::tree::outbox::Durability;
use crate::tree::{NodeId, find_below, target};

/// The chain that is in a destination.
fn chain_in(spot: &Spot) -> Option<Chain> {
    let file = open_in(&spot.parent, &spot.name).ok()?;
    Chain::decode(BufReader::new(file.take(CHAIN_MAX))).ok()
}

impl Receiver {
    /// Writes the list, if one is asked for, and its chain. `directories` are all that were copied.
    pub(super) fn write_mhl(&self, directories: &dyn Fn() -> Vec<Vec<u8>>) {
        let (Some(lists), Some(kinds)) = (&self.lists, &self.options.mhl) else { return };
        let mut records = lists.take_records();
        let directories = if self.has_all(records.len() as u64) { Some(directories()) } else { None };
        records.retain(|record| !is_ignored(&record.key));
        if records.is_empty() || self.is_stopped() {
            return;
        }
        // Options are checked before anything begins.
        let kinds = checked_kinds(kinds).unwrap_or_default();
        match self.try_write_mhl((&kinds, &lists.date), records, directories) {
            Ok(Some(key)) => self.state().report.lists.push(key),
            Ok(None) => {}
            Err(error) => self.fail(FOLDER.as_bytes(), error),
        }
    }

    fn try_write_mhl(
        &self,
        (kinds, date): (&[HashKind], &str),
        records: Vec<Listed>,
        directories: Option<Vec<Vec<u8>>>,
    ) -> Result<Option<Vec<u8>>> {
        let made = self.target().map(|mut target| target.directory(&[OsStr::new(FOLDER)])).transpose();
        let Some(folder) = made.map_err(|error| self.io("make", FOLDER.as_bytes(), error))? else {
            return Ok(None);
        };
        let ignored: Vec<String> = {
            let report = &self.state().report;
            let proofs = report.proofs.iter().map(|(name, _)| name);
            report.lists.iter().chain(proofs).map(|name| String::from_utf8_lossy(name).into_owned()).collect()
        };
        let generation = Generation {
            outbox: &self.outbox,
            path: &self.path,
            folder: &folder,
            kinds,
            process: MhlProcess::Transfer,
            date,
            ignored: &ignored,
            is_durable: self.options.durability != Durability::None,
        };
        let written =
            generation.write(records, directories, &mut |key, error| self.fail_to_list(key, error))?;
        Ok(Some(written.key))
    }

    /// Whether a file is the chain of a history, and what is there continues it: with the lists of
    /// copies that were made later. It stays, whatever is to be replaced.
    pub(super) fn continues_chain(&self, job: &FileJob, spot: &Spot) -> bool {
        if &job.key[..] != CHAIN || job.node.len > CHAIN_MAX {
            return false;
        }
        match (self.chain_of(job.source, job.id), chain_in(spot)) {
            (Some(ours), Some(there)) => {
                there.entries.len() > ours.entries.len() && there.entries.starts_with(&ours.entries)
            }
            // What cannot be read is copied, or reported, as any other file.
            _ => false,
        }
    }

    fn chain_of(&self, source: usize, id: NodeId) -> Option<Chain> {
        let source = self.sources.get(source)?.tree.open(id).ok()?;
        if source.len() > CHAIN_MAX {
            return None;
        }
        let whole = ByteRange::to(source.len());
        Chain::decode(&read_range(&*self.factory, &*source, whole, Access::Cached).ok()?[..]).ok()
    }

    /// Whether a file is of the history of a source, and the destination has another one, of which
    /// nothing is replaced, and to which nothing is added: neither would be whole then.
    pub(super) fn has_other_history(&self, job: &FileJob) -> bool {
        if !job.key.starts_with(FOLDER.as_bytes()) || job.key.get(FOLDER.len()) != Some(&b'/') {
            return false;
        }
        let mut others = self.state();
        if let Some(is_other) = others.other_histories.get(&job.source) {
            return *is_other;
        }
        drop(others);
        let is_other = self.is_other_history(job.source);
        others = self.state();
        *others.other_histories.entry(job.source).or_insert(is_other)
    }

    fn is_other_history(&self, number: usize) -> bool {
        let Ok(Some(spot)) = self.spot(CHAIN) else { return false };
        if !matches!(target::status(&spot.parent, &spot.name), Ok(Some(_))) {
            return false;
        }
        let id = self.sources.get(number).map(|source| find_below(&*source.tree, source.id, CHAIN));
        let ours = id.and_then(|id| self.chain_of(number, id.ok()??));
        match (ours, chain_in(&spot)) {
            (Some(ours), Some(there)) => {
                !there.entries.starts_with(&ours.entries) && !ours.entries.starts_with(&there.entries)
            }
            // Of one that cannot be read it is not known.
            _ => true,
        }
    }

    /// Notes that the chain of a history stays.
    pub(super) fn note_continued(&self, job: &FileJob) {
        self.add_file();
        self.state().report.unchanged += 1;
        self.report_file(job, (Action::Skip, Why::Same));
    }

    /// Whether nothing is in the destination but this many files, and directories.
    fn has_all(&self, files: u64) -> bool {
        let is_own = match self.target() {
            Some(target) => target.made(&target.root()).unwrap_or(false),
            None => false,
        };
        let state = self.state();
        let report = &state.report;
        is_own
            && report.failures.is_empty()
            && report.kept.is_empty()
            && report.unlisted + report.symlinks + report.specials + report.backups == 0
            && report.unfinished.is_empty()
            && report.files + report.hard_links + report.unchanged + report.linked == files
    }
}
