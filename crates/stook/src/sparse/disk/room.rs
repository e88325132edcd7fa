//! Keeps a cache within its budget: entries that were used longest ago go first, and of an entry
//! that is larger than what must go, the ranges that were written first.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::OFlags;

use super::format::CacheIndex;
use super::{DiskCache, data_name, draft_name, index_name};
use crate::extent::{ByteRange, ExtentMap, OnOverlap};
use crate::storage::cache::{self, About, Locked, read_up_to};

/// After writing this part of the budget, the use by others is checked: 1/32.
const LOOK_SHARE: u64 = 32;
/// How much is evicted at a time, beyond what is needed: 1/8 of the budget.
const EVICT_SHARE: u64 = 8;
/// The most overhead of a write: the blocks at its ends, and its records.
const SLACK: u64 = 12 << 10;
/// The unit that can be freed in a file: blocks of this size, at multiples of it.
const BLOCK: u64 = 4096;
/// An index that is longer (of some 3 TiB) is not shortened; its entry goes as a whole.
const INDEX_LEN_MAX: u64 = 1 << 30;

/// How much is taken, as far as is known.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// At the last look; `None` before it.
    looked: Option<u64>,
    /// What this process wrote since.
    since: u64,
}

/// The files of one entry.
#[derive(Debug, Default)]
struct EntryFiles {
    index: Option<About>,
    others: Vec<(String, About)>,
}

impl EntryFiles {
    fn disk_bytes(&self) -> u64 {
        let others: u64 = self.others.iter().map(|(_, about)| about.disk_bytes).sum();
        others + self.index.map_or(0, |about| about.disk_bytes)
    }
}

impl DiskCache {
    /// Whether there is room for a write; other bytes are evicted for it.
    pub(super) fn make_room(&self, len: u64) -> io::Result<bool> {
        let budget = self.options.budget_bytes;
        let needed = len.saturating_add(SLACK);
        let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let since = usage.since.saturating_add(needed);
        if usage.looked.is_some_and(|looked| since <= budget / LOOK_SHARE && looked + since <= budget) {
            usage.since = since;
            return Ok(true);
        }
        let mut taken = self.survey()?.values().map(EntryFiles::disk_bytes).sum::<u64>();
        if taken.saturating_add(needed) > budget {
            let target = (budget - budget / EVICT_SHARE).saturating_sub(needed);
            taken = self.evict_to(target)?.unwrap_or(taken);
        }
        let has_room = taken.saturating_add(needed) <= budget;
        *usage = Usage { looked: Some(taken), since: if has_room { needed } else { 0 } };
        Ok(has_room)
    }

    /// All files, by entry.
    fn survey(&self) -> io::Result<BTreeMap<String, EntryFiles>> {
        let mut entries: BTreeMap<String, EntryFiles> = BTreeMap::new();
        for file in self.directory.names()? {
            let Some((name, kind)) = file.split_once('.').filter(|(name, _)| cache::is_name(name)) else {
                continue;
            };
            // One that is gone meanwhile takes nothing.
            let Some(about) = self.directory.about(&file)? else { continue };
            let files = entries.entry(name.to_owned()).or_default();
            match kind {
                "index" => files.index = Some(about),
                _ if kind.ends_with(".data") || kind.ends_with(".draft") => files.others.push((file, about)),
                _ => {}
            }
        }
        Ok(entries)
    }

    /// Evicts until no more than `target` is used, and returns how much is; `None` if another
    /// process is evicting.
    fn evict_to(&self, target: u64) -> io::Result<Option<u64>> {
        let Some(_locked) = self.directory.try_lock()? else { return Ok(None) };
        let mut entries = Vec::new();
        for (name, files) in self.survey()? {
            if let Some((index, files)) = self.without_leftovers(&name, files)? {
                entries.push((index.modified, name, files.disk_bytes()));
            }
        }
        let before: u64 = entries.iter().map(|(_, _, disk_bytes)| disk_bytes).sum();
        entries.sort();
        let mut taken = before;
        for (_, name, disk_bytes) in entries {
            let Some(excess) = taken.checked_sub(target).filter(|&excess| excess > 0) else { break };
            let freed = if disk_bytes <= excess { None } else { self.shorten(&name, excess) };
            let freed = match freed {
                Some(freed) => freed,
                None => {
                    self.remove_entry(&name)?;
                    disk_bytes
                }
            };
            taken = taken.saturating_sub(freed);
        }
        self.counted.evicted_bytes.fetch_add(before - taken, Relaxed);
        Ok(Some(taken))
    }

    /// Removes files left by killed processes: the lock keeps others from beginning or removing
    /// entries. `None` if nothing stays.
    fn without_leftovers(
        &self,
        name: &str,
        mut files: EntryFiles,
    ) -> io::Result<Option<(About, EntryFiles)>> {
        let current = match files.index {
            Some(_) if files.others.len() == 1 => return Ok(files.index.map(|index| (index, files))),
            Some(_) => self.index_of(name)?.map(|index| data_name(name, index.header.nonce)),
            None => None,
        };
        for (other, _) in files.others.extract_if(.., |(other, _)| Some(&*other) != current.as_ref()) {
            self.directory.remove(&other)?;
        }
        if files.others.is_empty() {
            self.directory.remove(&index_name(name))?;
            return Ok(None);
        }
        Ok(files.index.map(|index| (index, files)))
    }

    fn index_of(&self, name: &str) -> io::Result<Option<CacheIndex>> {
        match self.directory.open_file(&index_name(name), OFlags::RDONLY) {
            Ok(file) => whole_index(&file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes all files of an entry; the directory is locked.
    pub(super) fn remove_entry(&self, name: &str) -> io::Result<()> {
        // The index first: an index without its data would be taken for damaged.
        self.directory.remove(&index_name(name))?;
        for file in self.directory.names()? {
            if file.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')) {
                self.directory.remove(&file)?;
            }
        }
        Ok(())
    }

    /// Frees about `excess` bytes of an entry, or returns that it must be removed as a whole.
    fn shorten(&self, name: &str, excess: u64) -> Option<u64> {
        let shortened = self.directory.lock_index(&index_name(name)).and_then(|locked| match locked {
            Some((locked, about)) => self.shorten_locked(name, &locked, about, excess),
            None => Ok(Some(0)),
        });
        shortened.unwrap_or_else(|error| {
            self.failed("shorten an entry", &error);
            None
        })
    }

    fn shorten_locked(
        &self,
        name: &str,
        locked: &Locked,
        about: About,
        excess: u64,
    ) -> io::Result<Option<u64>> {
        let Some(mut index) = whole_index(&locked.file)? else { return Ok(None) };
        let nonce = index.header.nonce;
        let data = self.directory.open_file(&data_name(name, nonce), OFlags::RDWR)?;
        let before = cache::about(&data)?;
        let mut dropped = ExtentMap::new();
        let cut = index.records.iter().position(|record| {
            let is_enough = dropped.covered_len() > excess;
            add_blocks(&mut dropped, record.range);
            is_enough
        });
        let Some(cut) = cut else { return Ok(None) };
        index.records.drain(..cut);
        let draft = draft_name(name, nonce);
        let write = || {
            let file = self.directory.create_file(&draft)?;
            file.write_all_at(&index.encode(), 0)?;
            cache::set_modified(&file, about.modified)?;
            // A reader that finds a hole where the index had bytes waits for the lock held here,
            // and then finds another index. In the other order, a write could fall into a hole.
            punch_all_but(&data, &index, before.len)?;
            self.directory.rename(&draft, &index_name(name))
        };
        // Where that fails, the entry is removed with all its files.
        write()?;
        let freed = before.disk_bytes.saturating_sub(cache::about(&data)?.disk_bytes);
        Ok(Some(freed))
    }
}

/// Reads a whole index file; `None` if it is invalid, or larger than is worth its memory.
fn whole_index(file: &std::fs::File) -> io::Result<Option<CacheIndex>> {
    let len = cache::about(file)?.len;
    if len > INDEX_LEN_MAX {
        return Ok(None);
    }
    let bytes = read_up_to(file, 0, len as usize)?;
    Ok(CacheIndex::decode(&bytes).ok())
}

/// Frees the space of everything in a data file that is not in its index.
fn punch_all_but(data: &std::fs::File, index: &CacheIndex, len: u64) -> io::Result<()> {
    let mut kept: ExtentMap<()> = ExtentMap::new();
    index.ranges().for_each(|range| add_blocks(&mut kept, range));
    let end = ByteRange::to(len).aligned(BLOCK);
    kept.gaps(end).try_for_each(|gap| cache::punch(data, gap.start(), gap.len()))
}

/// Adds the blocks that a range has a byte in.
fn add_blocks(blocks: &mut ExtentMap<()>, range: ByteRange) {
    // Keeping what is there, and values that fit any length, leave nothing that could be refused.
    let inserted = blocks.insert(range.aligned(BLOCK), (), OnOverlap::Keep);
    debug_assert!(inserted.is_ok(), "{inserted:?}");
}
