//! Iterators that own what they read: keys, records and files for callers whose values may not
//! borrow, such as objects of an interpreter.
//!
//! Each has `ready`, which costs nothing, and `next`, which reads where nothing is ready.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use self_cell::self_cell;

use super::Contents as _;
use super::archives::files_in_order;
use super::error::{Error, Result};
use super::get::{GetOptions, Getting};
use super::list::{ListOptions, Listed};
use super::values::{ValueError, next_value};
use crate::archive::Archive;
use crate::pack::{
    self, Damages, Key, KeyRange, Kinds, Pack, RecordFilter, Row, Rows, ScanOptions, ScanOrder, Split, Stop,
};

/// Keys of a batch.
const BATCH_LEN: usize = 1024;

type IndexKeys<'p> = pack::Keys<'p>;
pub(super) type PackScan<'p> = pack::Scan<'p>;
type BoxedGetting<'a> = Box<dyn Getting<'a> + 'a>;

self_cell!(
    struct IndexCell {
        owner: Arc<Pack>,
        #[not_covariant]
        dependent: IndexKeys,
    }
);

self_cell!(
    pub(super) struct ScanCell {
        owner: Arc<Pack>,
        #[not_covariant]
        dependent: PackScan,
    }
);

self_cell!(
    struct GettingCell {
        owner: Request,
        #[not_covariant]
        dependent: BoxedGetting,
    }
);

/// Reads the next keys of an index into a batch; whether there may be more.
type Fill = Box<dyn FnMut(&mut VecDeque<Key>) -> Result<bool> + Send>;

/// The keys of a pack or an archive in order, byte strings first, then ids.
pub struct OwnedKeys {
    fill: Fill,
    batch: VecDeque<Key>,
    /// Whether the index has no more.
    ended: bool,
    /// What came after the batch.
    error: Option<Error>,
}

impl fmt::Debug for OwnedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedKeys").field("ready", &self.batch.len()).finish_non_exhaustive()
    }
}

impl OwnedKeys {
    /// The keys in a range of records of these kinds.
    ///
    /// # Errors
    /// Returns an error if reading the start of the index fails.
    pub fn of_pack(pack: Arc<Pack>, range: KeyRange, kinds: Kinds) -> Result<Self> {
        let mut cell = IndexCell::try_new(pack, |pack| pack.keys_in(range))?;
        Ok(Self::filled_by(Box::new(move |batch| {
            let mut entries = Vec::with_capacity(BATCH_LEN);
            cell.with_dependent_mut(|pack, keys| {
                let taken = keys.take(BATCH_LEN).try_for_each(|entry| entry.map(|entry| entries.push(entry)));
                let has_more = !entries.is_empty();
                batch.extend(pack.of_kinds(entries, kinds)?.into_iter().map(|entry| entry.key));
                Ok(taken.map(|()| has_more)?)
            })
        })))
    }

    /// The keys of an archive in a range.
    pub fn of_archive(archive: Arc<Archive>, keys: KeyRange) -> Self {
        let mut options = ListOptions { keys, ..ListOptions::default() };
        let mut last = None;
        Self::filled_by(Box::new(move |batch| {
            let listed = archive.list(&options)?.next().transpose()?.unwrap_or_default();
            batch.extend(listed.into_iter().filter_map(|listed| match listed {
                // A batch begins with the last key of the one before.
                Listed::Entry(entry) => Some(entry.key).filter(|key| last.as_ref() != Some(key)),
                Listed::Hidden(_) => None,
            }));
            let Some(key) = batch.back() else { return Ok(false) };
            options.keys = std::mem::take(&mut options.keys).from(key);
            last = Some(key.clone());
            Ok(true)
        }))
    }

    fn filled_by(fill: Fill) -> Self {
        Self { fill, batch: VecDeque::new(), ended: false, error: None }
    }

    /// The next key, if it has been read.
    pub fn ready(&mut self) -> Option<Key> {
        self.batch.pop_front()
    }

    /// The next key; nothing after the last.
    ///
    /// # Errors
    /// Returns an error of reading the index, after the keys before it.
    #[expect(clippy::should_implement_trait, reason = "it is fallible, as `next` of a scan is")]
    pub fn next(&mut self) -> Result<Option<Key>> {
        // A batch may have no key of the kinds that are wanted.
        while self.batch.is_empty() && self.error.is_none() && !self.ended {
            match (self.fill)(&mut self.batch) {
                Ok(has_more) => self.ended = !has_more,
                Err(error) => self.error = Some(error),
            }
        }
        match self.batch.pop_front() {
            Some(key) => Ok(Some(key)),
            None => self.error.take().map_or(Ok(None), Err),
        }
    }
}

/// How many records of these kinds have a key in a range: for all records of all kinds without a
/// look at anything, else by going through the keys. No more than a batch of them is in memory.
///
/// # Errors
/// Those of [`OwnedKeys::next`]; [`Error::Interrupted`] where `go_on` returned `false`.
pub fn count(pack: Arc<Pack>, range: KeyRange, kinds: Kinds, go_on: &mut dyn FnMut() -> bool) -> Result<u64> {
    if range.is_all() && kinds == Kinds::ALL {
        return Ok(pack.len());
    }
    let mut keys = OwnedKeys::of_pack(pack, range, kinds)?;
    let mut counted = 0;
    while keys.next()?.is_some() {
        counted += 1;
        if keys.batch.is_empty() && !go_on() {
            return Err(Error::Interrupted);
        }
    }
    Ok(counted)
}

/// Whether two packs have the same keys with the same values, whatever their attributes and groups
/// are. Both are gone through in the order of the keys, up to the first difference; no more than a
/// few records of each are in memory.
///
/// # Errors
/// Damage, and what else reading meets; [`Error::Interrupted`] where `go_on` returned `false`.
pub fn is_equal(one: Arc<Pack>, other: Arc<Pack>, go_on: &mut dyn FnMut() -> bool) -> Result<bool> {
    if one.len() != other.len() {
        return Ok(false);
    }
    let by_key = ScanOptions { order: ScanOrder::Key, ..ScanOptions::default() };
    let mut ours = OwnedRows::scan(one, Kinds::ALL, by_key.clone(), None)?;
    let mut theirs = OwnedRows::scan(other, Kinds::ALL, by_key, None)?;
    loop {
        match (ours.next()?, theirs.next()?) {
            (Some(one), Some(other)) if (one.head.key != other.head.key || one.body != other.body) => {
                return Ok(false);
            }
            (Some(_), Some(_)) if go_on() => {}
            (Some(_), Some(_)) => return Err(Error::Interrupted),
            (one, other) => return Ok(one.is_none() && other.is_none()),
        }
    }
}

/// Live records of a pack, one after another.
pub struct OwnedRows {
    cell: ScanCell,
    rows: Rows,
}

impl fmt::Debug for OwnedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedRows").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl OwnedRows {
    /// The records that are meant of those that a scan with these options reads: of the whole pack,
    /// or of a split of it.
    ///
    /// # Errors
    /// Returns an error for a group that the pack does not have, and for a split of another pack or
    /// generation. With [`OnDamage::Stop`](crate::pack::OnDamage::Stop) a pack with known damage is
    /// refused: missing records would go unnoticed.
    pub fn scan(
        pack: Arc<Pack>,
        filter: impl Into<RecordFilter>,
        options: ScanOptions,
        split: Option<&Split>,
    ) -> pack::Result<Self> {
        Ok(Self { cell: begin_scan(pack, options, split)?, rows: Rows::new(filter, 0) })
    }

    /// The records after those before a cursor that [`cursor`](Self::cursor) gave. Of the options
    /// only [`on_damage`](ScanOptions::on_damage) may be given: the cursor has the others.
    ///
    /// # Errors
    /// As [`scan`](Self::scan); and for other options, and a text that is not a cursor.
    pub fn resume(
        pack: Arc<Pack>,
        filter: impl Into<RecordFilter>,
        options: &ScanOptions,
        split: Option<&Split>,
        cursor: &str,
    ) -> pack::Result<Self> {
        let (cell, skipped) = resume_scan(pack, options, split, cursor)?;
        Ok(Self { cell, rows: Rows::new(filter, skipped) })
    }

    /// The next record, if it has been read.
    pub fn ready(&mut self) -> Option<Row> {
        self.rows.ready()
    }

    /// The next record; nothing after the last.
    ///
    /// # Errors
    /// Those of [`Rows::next`].
    #[expect(clippy::should_implement_trait, reason = "it is fallible, as `next` of a scan is")]
    pub fn next(&mut self) -> pack::Result<Option<Row>> {
        let rows = &mut self.rows;
        self.cell.with_dependent_mut(|_, scan| rows.next(scan))
    }

    /// Where it is, for [`resume`](Self::resume).
    pub fn cursor(&self) -> String {
        self.cell.with_dependent(|_, scan| self.rows.cursor(scan))
    }

    /// The damage that was passed over.
    pub fn damages(&self) -> &Damages {
        self.rows.damages()
    }
}

/// A scan with these options, of the whole pack or of a split of it.
pub(super) fn begin_scan(
    pack: Arc<Pack>,
    options: ScanOptions,
    split: Option<&Split>,
) -> pack::Result<ScanCell> {
    pack.check_whole(options.on_damage)?;
    ScanCell::try_new(pack, |pack| {
        pack.check_groups(&options.groups)?;
        match split {
            Some(split) => pack.scan_split(split, options),
            None => Ok(pack.scan(options)),
        }
    })
}

/// The scan that a cursor continues with, and how many of its records were handed out.
pub(super) fn resume_scan(
    pack: Arc<Pack>,
    options: &ScanOptions,
    split: Option<&Split>,
    cursor: &str,
) -> pack::Result<(ScanCell, u64)> {
    let on_damage = options.on_damage;
    let alone = ScanOptions { on_damage, order: ScanOrder::Disk, ..ScanOptions::default() };
    if *options != alone || split.is_some() {
        let text = "a cursor says itself what is scanned; only on_damage and kinds can go with it";
        return Err(pack::Error::Invalid(text.into()));
    }
    let (cursor, skipped) = Rows::parse_cursor(cursor)?;
    pack.check_whole(on_damage)?;
    Ok((ScanCell::try_new(pack, |pack| pack.scan_from(&cursor, on_damage))?, skipped))
}

/// Members that were asked of an archive.
struct Request {
    archive: Arc<Archive>,
    keys: Vec<Key>,
    options: GetOptions,
}

/// The files of an archive with their bytes, in the order in which they lie in it: of a compressed
/// tar in one pass. A hard link comes after its file, with the same bytes.
pub struct OwnedFiles {
    cell: GettingCell,
    /// Hard links, by the first name.
    links: HashMap<Key, Vec<Key>>,
    /// Those of the file that was read last.
    ready: VecDeque<(Key, Bytes)>,
}

impl fmt::Debug for OwnedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedFiles").field("ready", &self.ready.len()).finish_non_exhaustive()
    }
}

impl OwnedFiles {
    /// All files of an archive; `stop` is asked whether to end.
    ///
    /// # Errors
    /// Returns an error for a key that no pack could have, and if reading cannot begin.
    pub fn of(archive: Arc<Archive>, stop: Stop) -> Result<Self> {
        let (keys, links): (Vec<Key>, Vec<Vec<Key>>) = files_in_order(&archive)?.into_iter().unzip();
        let links = keys.iter().cloned().zip(links).filter(|(_, links)| !links.is_empty()).collect();
        let options = GetOptions { any_order: true, stop, ..GetOptions::default() };
        let request = Request { archive, keys, options };
        let cell = GettingCell::try_new(request, |asked| asked.archive.get(&asked.keys, &asked.options))?;
        Ok(Self { cell, links, ready: VecDeque::new() })
    }

    /// The next file, if its bytes have been read.
    pub fn ready(&mut self) -> Option<(Key, Bytes)> {
        self.ready.pop_front()
    }

    /// The next file and its bytes; nothing after the last. It ends where `go_on` returns `false`.
    ///
    /// # Errors
    /// As [`values`](super::values()).
    pub fn next(&mut self, go_on: &mut dyn FnMut() -> bool) -> Result<Option<(Key, Bytes)>, ValueError> {
        if let Some(ready) = self.ready() {
            return Ok(Some(ready));
        }
        let read = self.cell.with_dependent_mut(|_, getting| {
            let read = next_value(&mut **getting, go_on);
            read.map(|read| read.map(|(key, value)| (key.clone(), value.unwrap_or_default())))
        })?;
        let Some((key, value)) = read else { return Ok(None) };
        let links = self.links.remove(&key).unwrap_or_default();
        self.ready.extend(links.into_iter().map(|name| (name, value.clone())));
        Ok(Some((key, value)))
    }
}
