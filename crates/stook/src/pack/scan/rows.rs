//! [`Rows`]: records of a scan that outlive it, for callers who hand them on one by one.
//!
//! A scan lends records from a window that moves on. They are copied, a batch at a time, into
//! memory that 256 KiB of records share. When all of its records are dropped, the memory is reused:
//! fresh memory costs more than the copy.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;

use super::filter::{FilterWalk, RecordFilter, decoded};
use super::{Cursor, Scan};
use crate::pack::damages::Damages;
use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::{Attributes, FileKind};
use crate::pack::read::record::RecordHead;

/// Bytes and records of a batch.
const BATCH_BYTES: usize = 256 << 10;
const BATCH_RECORDS: usize = 1024;
/// The most records that are read for one batch: some may be of kinds that are not wanted.
const LOOKED_AT_MAX: u64 = 16 * BATCH_RECORDS as u64;
/// Batch memories that are kept for reuse.
const POOL_LEN: usize = 4;
/// Longer memories are not kept.
const POOLED_BYTES_MAX: usize = 2 * BATCH_BYTES;

/// A record that shares its memory with those read beside it.
#[derive(Debug)]
pub struct Row {
    /// Its head. Attributes are there once they were [decoded](Self::decoded).
    pub head: RecordHead,
    /// The body; of a hard link to a file that of the file.
    pub body: Bytes,
    /// The group that it is in.
    pub group: Arc<str>,
    /// Encoded.
    attributes: Bytes,
    /// Number of this record in its batch, counting records of all kinds.
    number: u64,
}

impl Row {
    /// The same with its attributes in its head: not every caller looks at them.
    ///
    /// # Errors
    /// [`Error::Invalid`] where they are of a form that is not known here.
    pub fn decoded(mut self) -> Result<Self> {
        if !self.attributes.is_empty() {
            self.head.attributes = decoded(&self.attributes)?;
        }
        Ok(self)
    }
}

/// A row while its batch is filled: attributes and body are ranges of the memory.
struct Draft {
    row: Row,
    attributes: Range<usize>,
    body: Range<usize>,
    /// Whether it is a hard link, so that its body is the key of its file.
    is_link: bool,
}

/// Records of a scan for one batch.
#[derive(Default)]
struct Taken {
    memory: Vec<u8>,
    drafts: Vec<Draft>,
    /// Records that were read, of all kinds.
    records: u64,
    more: bool,
}

/// Records of a scan, one after another. It is given the same scan whenever it reads.
pub struct Rows {
    batch: VecDeque<Row>,
    filter: FilterWalk,
    /// The position at the beginning of the batch, and how many of its records were returned.
    begun: Option<Cursor>,
    handed_out: u64,
    /// Records to skip, where a cursor points into a batch.
    to_skip: u64,
    /// What came after the batch.
    error: Option<Error>,
    ended: bool,
    damages: Damages,
    groups: HashMap<u64, Arc<str>>,
    pool: Arc<Pool>,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("ready", &self.batch.len()).field("ended", &self.ended).finish()
    }
}

/// Memory of batches whose records were all dropped.
#[derive(Default)]
struct Pool(Mutex<Vec<Vec<u8>>>);

struct Pooled {
    memory: Vec<u8>,
    pool: Weak<Pool>,
}

impl AsRef<[u8]> for Pooled {
    fn as_ref(&self) -> &[u8] {
        &self.memory
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        if self.memory.capacity() > POOLED_BYTES_MAX {
            return;
        }
        if let Some(pool) = self.pool.upgrade() {
            let mut pool = pool.0.lock().unwrap_or_else(PoisonError::into_inner);
            if pool.len() < POOL_LEN {
                pool.push(std::mem::take(&mut self.memory));
            }
        }
    }
}

impl Pool {
    fn take(&self) -> Vec<u8> {
        let mut pool = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut memory = pool.pop().unwrap_or_else(|| Vec::with_capacity(BATCH_BYTES + BATCH_BYTES / 4));
        memory.clear();
        memory
    }
}

impl Rows {
    /// Those of a scan that begins now that are meant, without the first `to_skip` records.
    pub fn new(filter: impl Into<RecordFilter>, to_skip: u64) -> Self {
        Self {
            batch: VecDeque::new(),
            filter: FilterWalk::new(filter.into()),
            begun: None,
            handed_out: 0,
            to_skip,
            error: None,
            ended: false,
            damages: Damages::default(),
            groups: HashMap::new(),
            pool: Arc::default(),
        }
    }

    /// The next row, if its batch was read.
    pub fn ready(&mut self) -> Option<Row> {
        let row = self.batch.pop_front()?;
        self.handed_out = row.number;
        Some(row)
    }

    /// The next row; `None` after the last.
    ///
    /// # Errors
    /// As [`Scan::next`]; a hard link that leads to no file; after the last, [`Error::Invalid`] for
    /// a condition that no record of the pack can meet.
    pub fn next(&mut self, scan: &mut Scan<'_>) -> Result<Option<Row>> {
        loop {
            if let Some(row) = self.ready() {
                return Ok(Some(row));
            }
            if let Some(error) = self.error.take() {
                self.ended = true;
                return Err(error);
            }
            if self.ended {
                return Ok(None);
            }
            self.fill(scan);
        }
    }

    /// Where it is, as text: [`parse_cursor`](Self::parse_cursor) reads it.
    pub fn cursor(&self, scan: &Scan<'_>) -> String {
        let (begun, handed_out) = match &self.begun {
            Some(begun) => (begun.to_string(), self.handed_out),
            None => (scan.cursor().to_string(), 0),
        };
        format!("{}+{begun}", handed_out + self.to_skip)
    }

    /// The scan that a cursor continues with, and how many records of it [`new`](Self::new) skips.
    ///
    /// # Errors
    /// [`Error::Invalid`] where it is none.
    pub fn parse_cursor(text: &str) -> Result<(Cursor, u64)> {
        let parts = text.split_once('+').and_then(|(skipped, cursor)| Some((skipped.parse().ok()?, cursor)));
        let Some((skipped, cursor)) = parts else {
            return Err(Error::Invalid("this is no cursor of a scan: Scan.cursor() gives one".into()));
        };
        Ok((cursor.parse()?, skipped))
    }

    /// All known damage of the pack and the scan, each once.
    pub fn damages(&self) -> &Damages {
        &self.damages
    }

    /// Reads the next batch.
    fn fill(&mut self, scan: &mut Scan<'_>) {
        let mut taken = Taken { memory: self.pool.take(), ..Taken::default() };
        let begun = scan.cursor();
        let filled = fill_from(scan, &mut self.filter, &mut taken);
        let contents = contents_of_links(scan, &taken);
        self.damages = scan.pack.damages().into_iter().chain(scan.damages().iter().cloned()).collect();
        self.begun = Some(begun);
        let skipped = self.to_skip.min(taken.records);
        (self.to_skip, self.handed_out) = (self.to_skip - skipped, skipped);
        self.ended = filled.is_ok() && !taken.more;
        let met = match self.ended {
            true => self.filter.check_met(scan.pack, scan.filter.stop),
            false => Ok(()),
        };
        // A link without a file comes before an error after the batch.
        let (contents, error) = match contents {
            Ok(contents) => (contents, filled.and(met).err()),
            Err(error) => (VecDeque::new(), Some(error)),
        };
        self.error = error;
        self.take_rows(scan, taken, contents, skipped);
    }

    /// Makes rows of the drafts, up to the first link whose content is missing.
    fn take_rows(
        &mut self,
        scan: &Scan<'_>,
        taken: Taken,
        mut contents: VecDeque<Option<Bytes>>,
        skipped: u64,
    ) {
        let bytes = Bytes::from_owner(Pooled { memory: taken.memory, pool: Arc::downgrade(&self.pool) });
        for draft in taken.drafts {
            let body = match draft.is_link {
                false => bytes.slice(draft.body),
                true => match contents.pop_front() {
                    Some(Some(content)) => content,
                    // Reported in `damages`.
                    Some(None) => continue,
                    None => break,
                },
            };
            let mut row = draft.row;
            if row.number <= skipped {
                continue;
            }
            let segment = row.head.segment;
            let group =
                self.groups.entry(segment).or_insert_with(|| scan.pack.group_of_segment(segment).into());
            row.group = group.clone();
            (row.body, row.attributes) = (body, bytes.slice(draft.attributes));
            self.batch.push_back(row);
        }
    }
}

/// Copies records that are meant until the batch is full.
fn fill_from(scan: &mut Scan<'_>, filter: &mut FilterWalk, taken: &mut Taken) -> Result<()> {
    let Taken { memory, drafts, records, more } = taken;
    while memory.len() < BATCH_BYTES && drafts.len() < BATCH_RECORDS && *records < LOOKED_AT_MAX {
        let Some(record) = scan.next()? else { return Ok(()) };
        *records += 1;
        let Some(key) = record.key() else { continue };
        if !filter.takes(record.attributes())? {
            continue;
        }
        let kind = Attributes::kind_of(record.attributes());
        let head = RecordHead {
            key,
            attributes: Attributes::new(),
            body_len: None,
            sequence: record.sequence(),
            time_ns: record.time_ns(),
            segment: record.segment(),
            offset: record.offset(),
        };
        let attributes = append(memory, record.attributes());
        let body = match record.body() {
            Some(body) => append(memory, body),
            None => {
                let start = memory.len();
                while let Some(chunk) = scan.next_chunk()? {
                    memory.extend_from_slice(chunk);
                }
                start..memory.len()
            }
        };
        let (group, number) = (Arc::default(), *records);
        let row = Row { head, body: Bytes::new(), group, attributes: Bytes::new(), number };
        drafts.push(Draft { row, attributes, body, is_link: kind == Some(FileKind::HardLink) });
    }
    *more = true;
    Ok(())
}

/// The contents of the files that hard links lead to.
fn contents_of_links(scan: &mut Scan<'_>, taken: &Taken) -> Result<VecDeque<Option<Bytes>>> {
    let links = taken.drafts.iter().filter(|draft| draft.is_link);
    let names: Vec<_> = links
        .map(|draft| {
            let first = taken.memory.get(draft.body.clone()).unwrap_or_default();
            let RecordHead { segment, offset, key, .. } = &draft.row.head;
            (*segment, *offset, key.clone(), Bytes::copy_from_slice(first))
        })
        .collect();
    if names.is_empty() {
        return Ok(VecDeque::new());
    }
    Ok(scan.contents_of(&names)?.into())
}

fn append(memory: &mut Vec<u8>, bytes: &[u8]) -> Range<usize> {
    let start = memory.len();
    memory.extend_from_slice(bytes);
    start..memory.len()
}
