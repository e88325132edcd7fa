//! Keeps the cache within its budget, and removes what was not used for long.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use rustix::fs::OFlags;

use super::build::counted;
use super::record::{RECORD_LEN_MAX, Record};
use super::{MergedCache, data_name, name_of_file, record_name};
use crate::error::{Error, Result};
use crate::format::now_ns;
use crate::storage::cache::{self, About, read_up_to};
use crate::tree::outbox::remove_stale;

/// Names that are looked at for what killed builders left.
const NAMES_MAX: usize = 100_000;

/// What a purge removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Purged {
    /// Entries.
    pub entries: u64,
    /// Bytes of all that was removed.
    pub bytes: u64,
}

/// The files of one entry.
#[derive(Debug, Default)]
struct EntryFiles {
    record: Option<About>,
    data: Vec<(String, About)>,
}

impl EntryFiles {
    fn bytes(&self) -> u64 {
        let data = self.data.iter().map(|(_, about)| counted(about));
        data.chain(self.record.as_ref().map(counted)).fold(0, u64::saturating_add)
    }

    /// When it was used last, ns since 1970: never for what is no entry. No use is in the future,
    /// whatever clocks said.
    fn used_ns(&self, now_ns: i64) -> i64 {
        self.record.map_or(i64::MIN, |about| {
            let (seconds, ns) = about.modified;
            seconds.saturating_mul(1_000_000_000).saturating_add(ns).min(now_ns)
        })
    }
}

impl MergedCache {
    /// Removes entries that were not used for the time that the options say, and what killed
    /// processes left; then, where the budget is exceeded, entries that were used longest ago.
    /// Those in use stay, and so do all files that are not of this cache. Who calls it has opened
    /// all files that are to be found the next time.
    ///
    /// # Errors
    /// Returns I/O errors: what was to be removed stays. If another process is removing or
    /// publishing an entry just now, nothing is done.
    pub fn purge(&self) -> Result<Purged> {
        self.remove_unused().map_err(|error| Error::io("purge the cache in", self.directory.path(), error))
    }

    fn remove_unused(&self) -> io::Result<Purged> {
        let mut purged = Purged::default();
        let Some(_locked) = self.directory.try_lock()? else { return Ok(purged) };
        remove_stale(&*self.calls, self.directory.handle(), NAMES_MAX);
        let now_ns = now_ns();
        let oldest_ns = now_ns.saturating_sub(ns_of(self.options.unused_max));
        let mut left = Vec::new();
        for (name, files) in self.survey()? {
            let is_past_use = files.data.is_empty() || files.used_ns(now_ns) < oldest_ns;
            if is_past_use && self.remove(&name, None)? {
                purged.add(&files);
                continue;
            }
            self.tidy(&name, &files, now_ns)?;
            left.push((files.used_ns(now_ns), name, files));
        }
        self.remove_oldest(left, self.options.budget_bytes, &mut purged)?;
        self.count_removed(purged);
        Ok(purged)
    }

    /// Takes back what does not belong to an entry that stays: copies that are not its own, and a
    /// last use in the future, which would keep it for ever.
    fn tidy(&self, name: &str, files: &EntryFiles, now_ns: i64) -> io::Result<()> {
        let Some(about) = &files.record else { return Ok(()) };
        let is_ahead = about.modified.0 > now_ns / 1_000_000_000 + 1;
        if files.data.len() < 2 && !is_ahead {
            return Ok(());
        }
        let record = self.directory.open_file(&record_name(name), OFlags::RDONLY)?;
        if is_ahead {
            cache::stamp(&record)?;
        }
        match Record::decode(&read_up_to(&record, 0, RECORD_LEN_MAX + 1)?) {
            Ok(said) => self.remove_data(name, Some(&data_name(name, said.nonce))),
            // It is discarded when it is wanted.
            Err(_) => Ok(()),
        }
    }

    /// Whether there is room for an entry; others are removed for it. The directory is locked.
    pub(super) fn make_room(&self, len: u64) -> io::Result<bool> {
        let Some(most) = self.options.budget_bytes.checked_sub(len) else { return Ok(false) };
        let now_ns = now_ns();
        let all = self.survey()?.into_iter();
        let all = all.map(|(name, files)| (files.used_ns(now_ns), name, files)).collect();
        let mut purged = Purged::default();
        let left = self.remove_oldest(all, most, &mut purged)?;
        self.count_removed(purged);
        Ok(left <= most)
    }

    /// Removes entries until no more than `most` bytes are left, and returns how many are.
    fn remove_oldest(
        &self,
        mut all: Vec<(i64, String, EntryFiles)>,
        most: u64,
        purged: &mut Purged,
    ) -> io::Result<u64> {
        let mut left = all.iter().map(|(_, _, files)| files.bytes()).fold(0, u64::saturating_add);
        all.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
        for (_, name, files) in &all {
            if left <= most {
                break;
            }
            if self.remove(name, None)? {
                left = left.saturating_sub(files.bytes());
                purged.add(files);
            }
        }
        Ok(left)
    }

    /// All files, by entry.
    fn survey(&self) -> io::Result<BTreeMap<String, EntryFiles>> {
        let mut entries: BTreeMap<String, EntryFiles> = BTreeMap::new();
        for file in self.directory.names()? {
            let Some((name, is_record)) = name_of_file(&file) else { continue };
            // One that is gone meanwhile takes nothing.
            let Some(about) = self.directory.about(&file)? else { continue };
            let files = entries.entry(name.to_owned()).or_default();
            match is_record {
                true => files.record = Some(about),
                false => files.data.push((file, about)),
            }
        }
        Ok(entries)
    }
}

impl Purged {
    fn add(&mut self, files: &EntryFiles) {
        self.entries = self.entries.saturating_add(u64::from(files.record.is_some()));
        self.bytes = self.bytes.saturating_add(files.bytes());
    }
}

fn ns_of(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
