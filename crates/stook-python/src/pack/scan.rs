//! `stook.Scan`: iteration over all records.
//!
//! The library lends records from a window that moves on. They are copied, without the interpreter,
//! into memory that 256 KiB of records share, which Python sees without another copy. When all of
//! its records are dropped, the memory is reused: fresh memory costs more than the copy.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, Weak};

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyList;
use self_cell::self_cell;
use stook::pack::{self, Attributes, FileKind, Kinds, OnDamage, RecordHead};

use super::begun::Begun;
use super::info;
use super::record::Record;
use super::split::with_skipped;
use crate::errors::{OrRaise as _, damaged};
use crate::locks::locked;

/// Bytes and records of a batch.
const BATCH_BYTES: usize = 256 << 10;
const BATCH_RECORDS: usize = 1024;
/// Batch memories that are kept for reuse.
const POOL_LEN: usize = 4;
/// Longer memories are not kept.
const POOLED_BYTES_MAX: usize = 2 * BATCH_BYTES;

type DiskScan<'p> = pack::Scan<'p>;

self_cell!(
    struct Cell {
        owner: Arc<pack::Pack>,
        #[not_covariant]
        dependent: DiskScan,
    }
);

/// A record on its way to Python.
pub(crate) struct Row {
    /// The attributes are not decoded yet.
    pub(crate) record: Record,
    attributes: Bytes,
    /// Number of this record in its batch, counting records of all kinds.
    number: u64,
}

/// A row while its batch is filled: attributes and body are ranges of the memory.
struct Draft {
    row: Row,
    attributes: Range<usize>,
    body: Range<usize>,
    /// Whether it is a hard link, so that its body is the key of its file.
    is_link: bool,
}

/// The most records that are read for one batch: some may be of kinds that are not wanted.
const LOOKED_AT_MAX: u64 = 16 * BATCH_RECORDS as u64;

/// Records of the library for one batch.
#[derive(Default)]
struct Taken {
    memory: Vec<u8>,
    drafts: Vec<Draft>,
    /// Records that were read, of all kinds.
    records: u64,
    more: bool,
}

/// Live records of a pack, one after another, each as a `Record`.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Scan {
    inner: Begun<Inner>,
}

struct Inner {
    cell: Cell,
    batch: VecDeque<Row>,
    kinds: Kinds,
    /// The position at the beginning of the batch, and how many of its records were returned.
    begun: Option<pack::Cursor>,
    handed_out: u64,
    /// Records to skip, where a cursor points into a batch.
    to_skip: u64,
    /// What came behind the batch.
    error: Option<pack::Error>,
    ended: bool,
    damages: pack::Damages,
    groups: HashMap<u64, Arc<str>>,
    pool: Arc<Pool>,
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
            let mut pool = locked(&pool.0);
            if pool.len() < POOL_LEN {
                pool.push(std::mem::take(&mut self.memory));
            }
        }
    }
}

impl Pool {
    fn take(&self) -> Vec<u8> {
        let mut pool = locked(&self.0);
        let mut memory = pool.pop().unwrap_or_else(|| Vec::with_capacity(BATCH_BYTES + BATCH_BYTES / 4));
        memory.clear();
        memory
    }
}

impl Scan {
    /// Begins a scan of records of these kinds that skips the first `to_skip`. With
    /// `OnDamage::Stop` it refuses a pack with known damage: missing records would go unnoticed.
    pub(crate) fn begin(
        py: Python<'_>,
        pack: Arc<pack::Pack>,
        kinds: Kinds,
        on_damage: OnDamage,
        to_skip: u64,
        begin: impl for<'p> FnOnce(&'p Arc<pack::Pack>) -> pack::Result<pack::Scan<'p>> + Send,
    ) -> PyResult<Self> {
        if let (OnDamage::Stop, Some(damage)) = (on_damage, pack.damages().first()) {
            let text = format!("{damage}; scan(on_damage=\"skip\") gives what is whole");
            return Err(damaged(damage, text));
        }
        let inner = Inner {
            cell: py.detach(|| Cell::try_new(pack, begin)).or_raise()?,
            batch: VecDeque::new(),
            kinds,
            begun: None,
            handed_out: 0,
            to_skip,
            error: None,
            ended: false,
            damages: pack::Damages::default(),
            groups: HashMap::new(),
            pool: Arc::default(),
        };
        Ok(Self { inner: Begun::new(inner) })
    }

    /// The next row, read without the interpreter.
    pub(crate) fn next_row(&self, py: Python<'_>) -> PyResult<Option<Row>> {
        self.inner.next(py, Inner::pop, Inner::next_row)
    }
}

impl Inner {
    fn pop(&mut self) -> Option<Row> {
        let row = self.batch.pop_front()?;
        self.handed_out = row.number;
        Some(row)
    }

    fn next_row(&mut self) -> pack::Result<Option<Row>> {
        loop {
            if let Some(row) = self.pop() {
                return Ok(Some(row));
            }
            if let Some(error) = self.error.take() {
                self.ended = true;
                return Err(error);
            }
            if self.ended {
                return Ok(None);
            }
            self.fill();
        }
    }

    /// Reads the next batch.
    fn fill(&mut self) {
        let mut taken = Taken { memory: self.pool.take(), ..Taken::default() };
        let kinds = self.kinds;
        let (begun, filled, contents, damages) = self.cell.with_dependent_mut(|pack, scan| {
            let begun = scan.cursor();
            let filled = fill_from(scan, kinds, &mut taken);
            let contents = contents_of_links(scan, &taken);
            (begun, filled, contents, met_by(pack, scan))
        });
        self.begun = Some(begun);
        let skipped = self.to_skip.min(taken.records);
        (self.to_skip, self.handed_out) = (self.to_skip - skipped, skipped);
        self.damages = damages;
        self.ended = filled.is_ok() && !taken.more;
        // A link without a file comes before an error behind the batch.
        let (contents, error) = match contents {
            Ok(contents) => (contents, filled.err()),
            Err(error) => (VecDeque::new(), Some(error)),
        };
        self.error = error;
        self.take_rows(taken, contents, skipped);
    }

    /// Makes rows of the drafts, up to the first link whose content is missing.
    fn take_rows(&mut self, taken: Taken, mut contents: VecDeque<Option<Bytes>>, skipped: u64) {
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
            row.record.group = self.group_of(row.record.head.segment);
            (row.record.body, row.attributes) = (body, bytes.slice(draft.attributes));
            self.batch.push_back(row);
        }
    }

    fn group_of(&mut self, segment: u64) -> Arc<str> {
        let pack = self.cell.borrow_owner();
        self.groups.entry(segment).or_insert_with(|| pack.group_of_segment(segment).into()).clone()
    }
}

/// Copies records of these kinds until the batch is full.
fn fill_from(scan: &mut pack::Scan<'_>, kinds: Kinds, taken: &mut Taken) -> pack::Result<()> {
    let Taken { memory, drafts, records, more } = taken;
    while memory.len() < BATCH_BYTES && drafts.len() < BATCH_RECORDS && *records < LOOKED_AT_MAX {
        let Some(record) = scan.next()? else { return Ok(()) };
        *records += 1;
        let Some(key) = record.key() else { continue };
        let kind = Attributes::kind_of(record.attributes());
        if !kinds.takes(kind) {
            continue;
        }
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
        let whole = Record { head, body: Bytes::new(), group: Arc::default() };
        let row = Row { record: whole, attributes: Bytes::new(), number: *records };
        drafts.push(Draft { row, attributes, body, is_link: kind == Some(FileKind::HardLink) });
    }
    *more = true;
    Ok(())
}

/// The contents of the files that hard links lead to.
fn contents_of_links(scan: &mut pack::Scan<'_>, taken: &Taken) -> pack::Result<VecDeque<Option<Bytes>>> {
    let links = taken.drafts.iter().filter(|draft| draft.is_link);
    let names: Vec<_> = links
        .map(|draft| {
            let first = taken.memory.get(draft.body.clone()).unwrap_or_default();
            let RecordHead { segment, offset, key, .. } = &draft.row.record.head;
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

#[pymethods]
impl Scan {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Record>> {
        let Some(Row { mut record, attributes, .. }) = self.next_row(py)? else { return Ok(None) };
        if !attributes.is_empty() {
            let decoded = Attributes::decode(&attributes);
            record.head.attributes = decoded.map_err(|wrong| pack::Error::Invalid(wrong.what)).or_raise()?;
        }
        Ok(Some(record))
    }

    /// Where it is: a text with which `Pack.scan(cursor=...)` continues after the last record,
    /// in another process too, as long as the pack has this generation.
    fn cursor(&self, py: Python<'_>) -> PyResult<String> {
        self.inner.with(py, |inner| {
            let (begun, handed_out) = match &inner.begun {
                Some(begun) => (begun.to_string(), inner.handed_out),
                None => (inner.cell.with_dependent_mut(|_, scan| scan.cursor()).to_string(), 0),
            };
            with_skipped(&begun, handed_out + inner.to_skip)
        })
    }

    /// The damage that was passed over, as exceptions, with ``on_damage="skip"``.
    #[getter]
    fn damages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        info::damages(py, &self.inner.with(py, |inner| inner.damages.clone())?)
    }
}

/// All known damage of the pack and the scan, without duplicates.
fn met_by(pack: &pack::Pack, scan: &pack::Scan<'_>) -> pack::Damages {
    pack.damages().into_iter().chain(scan.damages().iter().cloned()).collect()
}
