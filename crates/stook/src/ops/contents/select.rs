//! [`Selected`]: the records of a pack that keys, a prefix, patterns and groups mean.

use std::collections::BTreeSet;

use super::error::Result;
use super::patterns::KeyPatterns;
use crate::pack::{self, Key, KeyEntry, Pack, Stop, is_in_groups};

/// Keys that are matched in one batch.
const BATCH: usize = 4096;

/// Records that are meant.
#[derive(Debug, Default)]
pub struct Selected {
    keys: BTreeSet<Key>,
    group: String,
    stored_bytes: u64,
}

/// Why a record is not selected.
#[derive(Debug)]
pub enum Unselected<'k> {
    /// No record in the groups has this key.
    Missing(&'k Key),
    /// It is damaged, so it is not known whether it is meant.
    Damaged(pack::Error),
}

/// Which records are meant, beside those of a list of keys.
#[derive(Debug)]
pub struct Matching<'a> {
    /// The prefix of the sort forms of their keys.
    pub prefix: &'a [u8],
    /// Patterns that their keys match.
    pub patterns: &'a KeyPatterns,
    /// The groups that they are in; any if empty.
    pub groups: &'a [String],
    /// Asked whether to end.
    pub stop: Stop,
}

impl Selected {
    /// The keys.
    pub fn keys(&self) -> &BTreeSet<Key> {
        &self.keys
    }

    /// The group of the first that was selected; the default group if nothing is.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Bytes of their frames.
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    /// Adds the records with these keys that are in one of the groups (in any if none is given);
    /// `unselected` receives the others.
    ///
    /// # Errors
    /// Returns an error if looking up the keys fails; damage of single records is not an error
    /// here.
    pub fn add_listed(
        &mut self,
        pack: &Pack,
        keys: &[Key],
        groups: &[String],
        unselected: &mut dyn FnMut(Unselected<'_>),
    ) -> Result<()> {
        for (key, entry) in keys.iter().zip(pack.locate(keys)?) {
            match entry {
                Ok(Some(entry)) if is_in_groups(groups, pack.group_of_entry(&entry)) => {
                    self.add(pack, entry)?
                }
                Ok(_) => unselected(Unselected::Missing(key)),
                Err(error) => unselected(Unselected::Damaged(error)),
            }
        }
        Ok(())
    }

    /// Adds the records that match, and returns whether any did; `unselected` receives the damage
    /// of those that may be meant, and stay.
    ///
    /// # Errors
    /// Returns an error if listing fails, and [`Error::Interrupted`](super::Error::Interrupted).
    pub fn add_matching(
        &mut self,
        pack: &Pack,
        matching: &Matching<'_>,
        unselected: &mut dyn FnMut(Unselected<'_>),
    ) -> Result<bool> {
        let (mut has_met, mut batch) = (false, Vec::new());
        let mut entries = pack.keys(matching.prefix)?;
        loop {
            matching.stop.check()?;
            let next = entries.next().transpose()?;
            let is_last = next.is_none();
            let is_wanted = |entry: &KeyEntry| is_in_groups(matching.groups, pack.group_of_entry(entry));
            batch.extend(next.filter(is_wanted));
            if batch.len() == BATCH || is_last {
                for entry in matching.patterns.matching(pack, std::mem::take(&mut batch))? {
                    has_met = true;
                    match entry {
                        Ok(entry) => self.add(pack, entry)?,
                        Err(error) if error.damage().is_some() => unselected(Unselected::Damaged(error)),
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            if is_last {
                return Ok(has_met);
            }
        }
    }

    fn add(&mut self, pack: &Pack, entry: KeyEntry) -> Result<()> {
        if self.keys.is_empty() {
            pack.group_of_entry(&entry).clone_into(&mut self.group);
        }
        let bytes = pack.bytes_of(&entry)?;
        self.stored_bytes += if self.keys.insert(entry.key) { bytes } else { 0 };
        Ok(())
    }
}
