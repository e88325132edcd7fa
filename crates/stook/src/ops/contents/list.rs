//! Entries of a list, and options that select them.

use super::error::{Feature, Result};
use super::patterns::KeyPatterns;
use crate::pack::{self, Key, KeyRange, RecordHead, ScanOrder, Stop};

/// Entries of one batch, at most.
pub(super) const BATCH: usize = 4096;

/// Batches of a list; an error is the last of them.
pub type Listing<'a> = Box<dyn Iterator<Item = Result<Vec<Listed<'a>>>> + 'a>;

/// Which entries are listed, and what of them.
#[derive(Debug, Default)]
pub struct ListOptions {
    /// Only keys of this range.
    pub keys: KeyRange,
    /// Only these groups; all if empty.
    pub groups: Vec<String>,
    /// Only keys that match.
    pub patterns: KeyPatterns,
    /// By key, or as entries are on the medium; `None` is by key.
    pub order: Option<ScanOrder>,
    /// Whether heads, and where links lead, are wanted.
    pub details: bool,
    /// Asked whether to end.
    pub stop: Stop,
}

impl ListOptions {
    /// The features that they need.
    pub fn features(&self) -> Vec<Feature> {
        let groups = (!self.groups.is_empty()).then_some(Feature::Groups);
        let order = (self.order == Some(ScanOrder::Disk)).then_some(Feature::ListByPlace);
        groups.into_iter().chain(order).collect()
    }
}

/// An error of a list.
#[derive(Debug)]
pub enum Listed<'a> {
    /// An entry.
    Entry(Entry<'a>),
    /// Damage hides whether an entry is to be listed.
    Hidden(Box<pack::Error>),
}

/// An entry of a list.
#[derive(Debug)]
pub struct Entry<'a> {
    /// Its key.
    pub key: Key,
    /// Its group.
    pub group: &'a str,
    /// Bytes it takes; `None` when the index does not say.
    pub stored_bytes: Option<u64>,
    /// More of it, if that is wanted.
    pub detail: Option<Box<Detail>>,
}

/// The details of an entry in a list.
#[derive(Debug)]
pub struct Detail {
    /// Its head.
    pub head: Result<RecordHead, pack::Error>,
    /// Where it leads, if it is a link: the target, or the key of the file; `?` where that record
    /// is gone.
    pub link: Result<Option<Vec<u8>>, pack::Error>,
}
