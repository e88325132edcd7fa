//! `stook.Stat`: what is known of a record without its value.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use stook::pack::{self, Attributes, Child, FileKind, Key, KeyEntry, RecordHead};

use super::attributes;
use super::kinds::name_of;
use crate::errors::OrRaise as _;
use crate::key;
use crate::reports::getters;

/// Heads that are read as one batch; signals are looked for between two.
pub(crate) const HEADS_LEN: usize = 4096;

/// What is known of a record, or of a directory that has none, without reading a value.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Stat {
    key: Key,
    kind: Option<FileKind>,
    /// Bytes of the value; of a further name of a file those of the file. ``None`` where only
    /// reading it would tell.
    #[pyo3(get)]
    size: Option<u64>,
    attributes: Attributes,
    group: Option<Arc<str>>,
    /// When it was put, in nanoseconds since 1970; ``None`` for a directory without a record of its
    /// own.
    #[pyo3(get)]
    time_ns: Option<i64>,
}

impl Stat {
    fn of(pack: &pack::Pack, head: RecordHead) -> Self {
        Self {
            kind: head.attributes.file_kind(),
            size: head.body_len,
            group: Some(pack.group_of_segment(head.segment).into()),
            time_ns: Some(head.time_ns),
            attributes: head.attributes,
            key: head.key,
        }
    }

    /// Whether it may have something below it.
    pub(crate) fn is_directory(&self) -> bool {
        self.kind == Some(FileKind::Directory)
    }

    /// A directory without a record of its own.
    fn of_directory(key: Key) -> Self {
        let (kind, attributes) = (Some(FileKind::Directory), Attributes::new());
        Self { key, kind, size: Some(0), attributes, group: None, time_ns: None }
    }
}

/// For each of these entries what is known of it.
pub(crate) fn stats_of(py: Python<'_>, pack: &pack::Pack, entries: &[KeyEntry]) -> PyResult<Vec<Stat>> {
    py.check_signals()?;
    let heads = py.detach(|| pack.file_heads(entries)).or_raise()?;
    heads.into_iter().map(|head| Ok(Stat::of(pack, head.or_raise()?))).collect()
}

/// The same for what lies in a directory.
pub(crate) fn stats_of_children(
    py: Python<'_>,
    pack: &pack::Pack,
    children: Vec<Child>,
) -> PyResult<Vec<Stat>> {
    let files = children.iter().filter(|child| !child.has_children).filter_map(|child| child.entry.clone());
    let files: Vec<KeyEntry> = files.collect();
    let mut stats = Vec::with_capacity(children.len());
    for batch in files.chunks(HEADS_LEN) {
        stats.extend(stats_of(py, pack, batch)?);
    }
    let mut stats = stats.into_iter();
    let of = |child: Child| match child.has_children || child.entry.is_none() {
        true => Some(Stat::of_directory(child.key)),
        false => stats.next(),
    };
    Ok(children.into_iter().filter_map(of).collect())
}

getters! { Stat {
    /// The key: `str` (bytes that are not UTF-8 as surrogate escapes) or `int`.
    key: PyResult<Bound<'_, PyAny>> = |this, py| key::to_python(py, &this.key);
    /// ``"file"``, ``"directory"``, ``"symlink"``, or ``"hard_link"`` for a further name of a file.
    /// What no tree was packed from is a file.
    kind: &'static str = |this| name_of(this.kind);
    /// The attributes: a new dict.
    attributes: PyResult<Bound<'_, PyDict>> = |this, py| attributes::to_python(py, &this.attributes);
    /// The extended attributes, access control lists among them: values by name. ``None`` is what
    /// could not be packed.
    xattrs: PyResult<Bound<'_, PyDict>> = |this, py| attributes::xattrs(py, &this.attributes);
}}

#[pymethods]
impl Stat {
    /// The group that it is in; ``None`` for a directory without a record of its own.
    #[getter]
    fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (key, kind) = (key::to_python(py, &self.key)?.repr()?, name_of(self.kind));
        Ok(match self.size {
            Some(size) => format!("<stook.Stat {key}: {kind} of {size} bytes>"),
            None => format!("<stook.Stat {key}: {kind}>"),
        })
    }
}
