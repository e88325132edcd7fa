//! Keys of packs and archives, read from their indexes in batches, and keys with values.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use self_cell::self_cell;
use stook::archive::Archive;
use stook::ops::contents::{
    Contents as _, Error, GetOptions, Getting, ListOptions, Listed, files_in_order, next_value,
};
use stook::pack::{self, Key, KeyRange, Kinds, Row, Stop};

use super::begun::Begun;
use super::scan::Scan;
use crate::errors::OrRaise as _;
use crate::key;
use crate::memory::bytes_of;
use crate::wait::{GoOn, is_stopped, on_this_thread};

/// Keys of a batch.
const BATCH_LEN: usize = 1024;

type IndexKeys<'p> = pack::Keys<'p>;

self_cell!(
    struct Cell {
        owner: Arc<pack::Pack>,
        #[not_covariant]
        dependent: IndexKeys,
    }
);

/// Reads the next keys of an index into a batch; whether there may be more.
type Fill = Box<dyn FnMut(&mut VecDeque<Key>) -> Result<bool, Error> + Send>;

/// The keys of a pack or an archive in order, byte strings first, then ids.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Keys {
    inner: Begun<Inner>,
}

struct Inner {
    fill: Fill,
    batch: VecDeque<Key>,
    /// Whether the index has no more.
    ended: bool,
    /// What came behind the batch.
    error: Option<Error>,
}

impl Keys {
    pub(crate) fn new(
        py: Python<'_>,
        pack: Arc<pack::Pack>,
        range: KeyRange,
        kinds: Kinds,
    ) -> PyResult<Self> {
        let mut cell = py.detach(|| Cell::try_new(pack, |pack| pack.keys_in(range))).or_raise()?;
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

    /// The keys of an archive.
    pub(crate) fn of_archive(archive: Arc<Archive>, keys: KeyRange) -> Self {
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
        Self { inner: Begun::new(Inner { fill, batch: VecDeque::new(), ended: false, error: None }) }
    }
}

impl Inner {
    fn next(&mut self) -> Result<Option<Key>, Error> {
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

#[pymethods]
impl Keys {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = self.inner.next(py, |inner| inner.batch.pop_front(), Inner::next)?;
        next.map(|key| key::to_python(py, &key)).transpose()
    }
}

/// Keys and values of a pack in the order of the keys, or of an archive as they lie in it; or
/// values alone.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Items {
    of: Of,
    with_keys: bool,
}

enum Of {
    Pack(Box<Scan>),
    Archive(Begun<Bodies>),
}

/// What was asked of an archive.
struct Asked {
    archive: Arc<Archive>,
    keys: Vec<Key>,
    options: GetOptions,
}

type BoxedGetting<'a> = Box<dyn Getting<'a> + 'a>;

self_cell!(
    struct BodiesCell {
        owner: Asked,
        #[not_covariant]
        dependent: BoxedGetting,
    }
);

/// Files of an archive on their way.
struct Bodies {
    cell: BodiesCell,
    /// Hard links, by the first one.
    names: HashMap<Key, Vec<Key>>,
    /// Those of the file that was read last.
    ready: VecDeque<(Key, Bytes)>,
}

impl Bodies {
    fn read(&mut self, go_on: &mut GoOn<'_, 0>) -> PyResult<Option<(Key, Bytes)>> {
        let read = self.cell.with_dependent_mut(|_, getting| {
            let read = next_value(&mut **getting, &mut || go_on([]));
            read.map(|read| read.map(|(key, value)| (key.clone(), value.unwrap_or_default())))
        });
        let Some((key, value)) = read.or_raise()? else { return Ok(None) };
        let names = self.names.remove(&key).unwrap_or_default();
        self.ready.extend(names.into_iter().map(|name| (name, value.clone())));
        Ok(Some((key, value)))
    }
}

impl Items {
    pub(crate) fn new(scan: Scan, with_keys: bool) -> Self {
        Self { of: Of::Pack(Box::new(scan)), with_keys }
    }

    /// The files of an archive.
    pub(crate) fn of_archive(py: Python<'_>, archive: Arc<Archive>) -> PyResult<Self> {
        let begin = || {
            let (keys, names): (Vec<Key>, Vec<Vec<Key>>) = files_in_order(&archive)?.into_iter().unzip();
            let names = keys.iter().cloned().zip(names).filter(|(_, names)| !names.is_empty()).collect();
            let options = GetOptions { any_order: true, stop: Stop(is_stopped), ..GetOptions::default() };
            let asked = Asked { archive, keys, options };
            let cell = BodiesCell::try_new(asked, |asked| asked.archive.get(&asked.keys, &asked.options))?;
            Ok::<_, Error>(Bodies { cell, names, ready: VecDeque::new() })
        };
        Ok(Self { of: Of::Archive(Begun::new(py.detach(begin).or_raise()?)), with_keys: true })
    }
}

#[pymethods]
impl Items {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let next = match &self.of {
            Of::Pack(scan) => scan.next_row(py)?.map(|Row { head, body, .. }| (head.key, body)),
            Of::Archive(bodies) => bodies.next(
                py,
                |bodies| bodies.ready.pop_front(),
                |bodies| on_this_thread(|go_on| bodies.read(go_on)),
            )?,
        };
        let Some((key, body)) = next else { return Ok(None) };
        let value: Bound<'py, PyBytes> = bytes_of(py, &body)?;
        if !self.with_keys {
            return Ok(Some(value.into_any()));
        }
        let pair = [key::to_python(py, &key)?, value.into_any()];
        Ok(Some(PyTuple::new(py, pair)?.into_any()))
    }
}
