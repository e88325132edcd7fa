//! The contents of a pack.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Contents;
use super::error::{Error, Feature, Result, Unsupported};
use super::get::{Failure, Found, GetOptions, Getting, Missing, Piece, RECORD};
use super::list::{BATCH, Detail, Entry, ListOptions, Listed, Listing};
use super::load::{LoadEvents, LoadOptions, LoadReport, load_pack};
use crate::extent::ByteRange;
use crate::pack::{
    self, FileKind, KEY_LEN_MAX, Key, KeyEntry, Pack, Record, RecordHead, RecordReader, ScanOrder,
    is_in_groups,
};
use crate::source::Source;
use crate::tree::{Holes, Part};

/// Links read in one batch.
const LINKS: usize = 256;

/// Bytes of records read in one batch, and the longest record among them.
const BATCH_LEN: u64 = 64 << 20;
const SHORT_LEN: u64 = 4 << 20;

/// A pack, and the path by which it was opened.
#[derive(Debug)]
pub struct PackContents {
    pack: Pack,
    path: PathBuf,
}

impl PackContents {
    /// The contents of an open pack.
    pub fn new(pack: Pack, path: impl Into<PathBuf>) -> Self {
        Self { pack, path: path.into() }
    }

    /// The pack.
    pub fn pack(&self) -> &Pack {
        &self.pack
    }

    /// The pack itself.
    pub fn into_pack(self) -> Pack {
        self.pack
    }

    /// The entries put since an earlier state of the same pack was opened, in the order of puts, as
    /// in a list with these options.
    ///
    /// # Errors
    /// Returns an error if reading fails. Damage is reported when the entry is read.
    pub fn put_since(&self, earlier: &Self, options: &ListOptions) -> Result<Vec<Entry<'_>>> {
        let mut heads = self.pack.put_since(&earlier.pack)?;
        heads.retain(|head| {
            is_in_groups(&options.groups, self.pack.group_of_segment(head.segment))
                && options.patterns.matches(&head.key, head.attributes.file_kind())
                && options.keys.contains(&head.key)
        });
        let groups: Vec<&str> = heads.iter().map(|head| self.pack.group_of_segment(head.segment)).collect();
        let keys: Vec<Key> = heads.iter().map(|head| head.key.clone()).collect();
        let details: Vec<Option<Box<Detail>>> = match options.details {
            true => self.details(heads.into_iter().map(Ok).collect(), options)?,
            false => keys.iter().map(|_| None).collect(),
        };
        let entries = keys.into_iter().zip(groups).zip(details);
        let entry = |((key, group), detail)| Entry { key, group, stored_bytes: None, detail };
        Ok(entries.map(entry).collect())
    }

    /// These heads, with the targets of the links among them.
    fn details(
        &self,
        heads: Vec<pack::Result<RecordHead>>,
        options: &ListOptions,
    ) -> Result<Vec<Option<Box<Detail>>>> {
        let links = heads.iter().flatten().filter(|head| has_short_target(head));
        let keys: Vec<Key> = links.map(|head| head.key.clone()).collect();
        let mut targets = Vec::with_capacity(keys.len());
        for keys in keys.chunks(LINKS) {
            options.stop.check()?;
            let target = |record: Option<Record>| record.map_or(b"?".to_vec(), |record| record.body.to_vec());
            targets.extend(self.pack.get_many(keys)?.into_iter().map(|got| got.map(target)));
        }
        let mut targets = targets.into_iter();
        let lens = self.file_lens(&heads, options)?;
        let with_file_len = |head: RecordHead| match head.is_hard_link() {
            true => RecordHead { body_len: lens.get(&head.sequence).copied().flatten(), ..head },
            false => head,
        };
        let detail = |head: pack::Result<RecordHead>| {
            let link = match &head {
                Ok(head) if has_short_target(head) => targets.next().transpose(),
                _ => Ok(None),
            };
            Some(Box::new(Detail { head: head.map(with_file_len), link }))
        };
        Ok(heads.into_iter().map(detail).collect())
    }

    /// The lengths of the files that the hard links among these heads lead to, by the sequence
    /// numbers of the links; archives list them so. One that leads to no file has none.
    fn file_lens(
        &self,
        heads: &[pack::Result<RecordHead>],
        options: &ListOptions,
    ) -> Result<HashMap<u64, Option<u64>>> {
        let links = heads.iter().flatten().filter(|head| head.is_hard_link());
        let keys: Vec<Key> = links.map(|head| head.key.clone()).collect();
        let mut lens = HashMap::new();
        for keys in keys.chunks(LINKS) {
            options.stop.check()?;
            let entries: Vec<KeyEntry> =
                self.pack.locate(keys)?.into_iter().filter_map(|found| found.ok().flatten()).collect();
            let files = self.pack.file_heads(&entries)?.into_iter().flatten();
            lens.extend(files.map(|head| (head.sequence, head.body_len)));
        }
        Ok(lens)
    }
}

/// Whether the body of a record is a link target, and short enough to be shown.
fn has_short_target(head: &RecordHead) -> bool {
    let is_link = matches!(head.attributes.file_kind(), Some(FileKind::Symlink | FileKind::HardLink));
    is_link && head.body_len.is_some_and(|len| len <= KEY_LEN_MAX as u64)
}

impl Contents for PackContents {
    fn path(&self) -> &Path {
        &self.path
    }

    fn entry_name(&self) -> &'static str {
        RECORD
    }

    fn is_sequential(&self) -> bool {
        false
    }

    fn is_complete(&self) -> bool {
        self.pack.is_complete()
    }

    fn spans(&self, groups: &[String]) -> Vec<(Arc<dyn Source>, ByteRange)> {
        self.pack.segment_ranges(groups)
    }

    fn check_features(&self, _features: &[Feature]) -> Result<(), Unsupported> {
        Ok(())
    }

    fn check_groups(&self, groups: &[String]) -> Result<()> {
        let found = self.pack.check_groups(groups);
        found.map_err(|source| Error::NoSuchGroup { path: self.path.clone(), source })
    }

    fn list<'a>(&'a self, options: &'a ListOptions) -> Result<Listing<'a>> {
        self.check_groups(&options.groups)?;
        let entries: Box<dyn Iterator<Item = pack::Result<KeyEntry>>> = match options.order {
            Some(ScanOrder::Disk) => Box::new(self.pack.keys_on_disk(&options.keys, &options.groups)),
            Some(ScanOrder::Key) | None => Box::new(self.pack.keys_in(options.keys.clone())?),
        };
        Ok(Box::new(PackListing { contents: self, options, entries, failure: None, ended: false }))
    }

    fn get<'a>(&'a self, keys: &'a [Key], options: &'a GetOptions) -> Result<Box<dyn Getting<'a> + 'a>> {
        self.check_groups(&options.groups)?;
        let is_wanted = |entry: &KeyEntry| is_in_groups(&options.groups, self.pack.group_of_entry(entry));
        let mut located = self.pack.locate(keys)?;
        for entry in located.iter_mut().flatten() {
            *entry = entry.take().filter(is_wanted);
        }
        let mut needed_bytes = 0_u64;
        for entry in located.iter().flatten().flatten() {
            needed_bytes = needed_bytes.saturating_add(self.pack.bytes_of(entry)?);
        }
        let (located, short) = (located.into_iter(), Vec::new().into_iter());
        Ok(Box::new(PackGetting { contents: self, options, keys, located, short, body: None, needed_bytes }))
    }

    fn load(&self, options: &LoadOptions, events: &dyn LoadEvents) -> Result<LoadReport> {
        self.check_groups(&options.groups)?;
        load_pack(&self.pack, options, events)
    }
}

/// A list of a pack on its way.
struct PackListing<'a> {
    contents: &'a PackContents,
    options: &'a ListOptions,
    entries: Box<dyn Iterator<Item = pack::Result<KeyEntry>> + 'a>,
    /// The error that ended it, returned after the entries before it.
    failure: Option<Error>,
    ended: bool,
}

impl<'a> PackListing<'a> {
    /// Takes the next entries that are in the groups; damage among them is listed at once.
    fn take(&mut self, listed: &mut Vec<Listed<'a>>) -> Result<Vec<KeyEntry>> {
        let (pack, options) = (&self.contents.pack, self.options);
        let mut batch = Vec::new();
        while batch.len() + listed.len() < BATCH {
            options.stop.check()?;
            match self.entries.next() {
                None => {
                    self.ended = true;
                    break;
                }
                Some(Err(error)) if error.damage().is_some() => listed.push(Listed::Hidden(Box::new(error))),
                Some(entry) => {
                    let is_wanted =
                        |entry: &KeyEntry| is_in_groups(&options.groups, pack.group_of_entry(entry));
                    batch.extend(Some(entry?).filter(is_wanted));
                }
            }
        }
        Ok(batch)
    }

    fn batch(&mut self, listed: &mut Vec<Listed<'a>>) -> Result<()> {
        let batch = self.take(listed)?;
        let (contents, options) = (self.contents, self.options);
        let mut entries = Vec::with_capacity(batch.len());
        for entry in options.patterns.matching(&contents.pack, batch)? {
            match entry {
                Err(error) if error.damage().is_some() => listed.push(Listed::Hidden(Box::new(error))),
                entry => entries.push(entry?),
            }
        }
        let details = match options.details {
            true => contents.details(contents.pack.heads(&entries)?, options)?,
            false => Vec::new(),
        };
        let mut details = details.into_iter();
        listed.extend(entries.into_iter().map(|entry| {
            let group = contents.pack.group_of_entry(&entry);
            let detail = details.next().flatten();
            Listed::Entry(Entry { group, stored_bytes: entry.stored_bytes, key: entry.key, detail })
        }));
        Ok(())
    }
}

impl<'a> Iterator for PackListing<'a> {
    type Item = Result<Vec<Listed<'a>>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(error) = self.failure.take() {
                return Some(Err(error));
            }
            if self.ended {
                return None;
            }
            let mut listed = Vec::new();
            if let Err(error) = self.batch(&mut listed) {
                (self.failure, self.ended) = (Some(error), true);
            }
            if !listed.is_empty() {
                return Some(Ok(listed));
            }
        }
    }
}

/// A key, where its record is, and the record.
type Got<'a> = ((&'a Key, Located), pack::Result<Option<Record>>);

/// Records on their way.
struct PackGetting<'a> {
    contents: &'a PackContents,
    options: &'a GetOptions,
    /// The keys that were not requested yet, and the place of each record.
    keys: &'a [Key],
    located: std::vec::IntoIter<Located>,
    /// Short records that were read as one batch.
    short: std::vec::IntoIter<Got<'a>>,
    body: Option<RecordBody<'a>>,
    needed_bytes: u64,
}

/// Where a record is; `None` if there is none in the groups; or the damage that hides it.
type Located = pack::Result<Option<KeyEntry>>;

/// A body, at once or in pieces. All returned bytes have been verified.
enum RecordBody<'a> {
    Whole { record: Record, given: bool },
    Pieces(Box<RecordReader<'a>>),
    Sparse(Box<SparseBody<'a>>),
}

/// A body with holes.
struct SparseBody<'a> {
    reader: RecordReader<'a>,
    holes: Holes,
    /// Bytes of it that were read, and of these the ones that were not returned yet.
    held: Vec<u8>,
    returned: usize,
    /// Where in the body they are.
    at: u64,
}

impl SparseBody<'_> {
    fn piece(&mut self) -> pack::Result<Option<Piece<'_>>> {
        if self.returned == self.held.len() {
            self.returned = 0;
            self.held.clear();
            let Some(chunk) = self.reader.next_chunk()? else { return Ok(None) };
            self.held.extend_from_slice(chunk);
        }
        let left = self.held.get(self.returned..).unwrap_or_default();
        // An empty chunk is not the end.
        let Some(part) = self.holes.cut(self.at, left).next() else { return Ok(Some(Piece::Bytes(&[]))) };
        self.at += part.len();
        self.returned += part.len() as usize;
        Ok(Some(match part {
            Part::Bytes(bytes) => Piece::Bytes(bytes),
            Part::Hole(len) => Piece::Hole(len),
        }))
    }
}

impl<'a> PackGetting<'a> {
    /// Many short records in one batch of reads, or else one.
    fn read_on(&mut self) -> Result<Option<(&'a Key, Found)>> {
        let run = short_run(self.located.as_slice()).max(1);
        let Some((part, rest)) = self.keys.split_at_checked(run) else { return Ok(None) };
        self.keys = rest;
        if let [key] = part {
            let located = self.located.next().unwrap_or(Ok(None));
            return self.long(key, located).map(|found| Some((key, found)));
        }
        let records = self.contents.pack.get_many(part)?;
        let batch: Vec<_> = part.iter().zip(self.located.by_ref().take(run)).zip(records).collect();
        self.short = batch.into_iter();
        self.short_one()
    }

    /// The next short record, if there is one.
    fn short_one(&mut self) -> Result<Option<(&'a Key, Found)>> {
        let Some(((key, located), record)) = self.short.next() else { return Ok(None) };
        let found = match record {
            Ok(Some(record)) if record.head.is_hard_link() => self.long(key, located)?,
            Ok(Some(record)) => {
                let kind = record.head.attributes.file_kind();
                self.body = Some(RecordBody::Whole { record, given: false });
                Found::Body(kind)
            }
            Ok(None) => self.missing(key),
            Err(error) => Found::Failed(Failure::of_record(error)?),
        };
        Ok(Some((key, found)))
    }

    /// One record in pieces.
    fn long(&mut self, key: &Key, located: Located) -> Result<Found> {
        let contents = self.contents;
        let opened = match located {
            Ok(Some(entry)) => contents.pack.open_located_file(&entry),
            Ok(None) => return Ok(self.missing(key)),
            Err(error) => Err(error),
        };
        match opened {
            Ok(reader) => {
                let attributes = &reader.head().attributes;
                let (kind, holes) = (attributes.file_kind(), attributes.holes());
                self.body = Some(match holes.is_empty() {
                    true => RecordBody::Pieces(Box::new(reader)),
                    false => {
                        let (held, returned, at) = (Vec::new(), 0, 0);
                        RecordBody::Sparse(Box::new(SparseBody { reader, holes, held, returned, at }))
                    }
                });
                Ok(Found::Body(kind))
            }
            Err(error) => Ok(Found::Failed(Failure::of_record(error)?)),
        }
    }

    fn missing(&self, key: &Key) -> Found {
        let PackContents { pack, path, .. } = self.contents;
        // Damage to a record that no index covers yet is found only when the pack is opened.
        let hit = pack.damages().into_iter().find(|damage| damage.key.as_ref() == Some(key));
        Found::Failed(match hit {
            Some(damage) => Failure::Record(pack::Error::Damaged(damage)),
            None => Failure::Missing(Missing::record(pack, path.clone(), key, &self.options.groups)),
        })
    }
}

impl<'a> Getting<'a> for PackGetting<'a> {
    fn next(&mut self) -> Result<Option<(&'a Key, Found)>> {
        self.options.stop.check()?;
        self.body = None;
        match self.short_one()? {
            Some(found) => Ok(Some(found)),
            None => self.read_on(),
        }
    }

    fn piece(&mut self) -> Result<Piece<'_>> {
        let piece = match &mut self.body {
            None => Ok(None),
            Some(RecordBody::Whole { record, given }) => {
                Ok((!std::mem::replace(given, true)).then_some(Piece::Bytes(&record.body)))
            }
            Some(RecordBody::Pieces(reader)) => reader.next_chunk().map(|chunk| chunk.map(Piece::Bytes)),
            Some(RecordBody::Sparse(body)) => body.piece(),
        };
        match piece {
            Ok(Some(piece)) => Ok(piece),
            Ok(None) => Ok(Piece::End),
            Err(error) => Ok(Piece::Failed(Failure::of_record(error)?)),
        }
    }

    fn needed_bytes(&self) -> u64 {
        self.needed_bytes
    }
}

/// How many of the first records are short and fit into a batch together.
fn short_run(located: &[Located]) -> usize {
    let mut left = BATCH_LEN;
    let mut fits = |located: &Located| {
        let entry = located.as_ref().ok().and_then(Option::as_ref);
        let len = entry.and_then(|entry| entry.stored_bytes);
        let len = len.filter(|&len| len <= SHORT_LEN && len <= left);
        left -= len.unwrap_or(0);
        len.is_some()
    };
    located.iter().take_while(|located| fits(located)).count()
}
