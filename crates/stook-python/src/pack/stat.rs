//! `stook.Stat`: metadata of a record or a member, without its value.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use stook::pack::{self, Attributes, FileKind, Key, RecordHead};

use super::attributes;
use super::kinds::name_of;
use crate::key;
use crate::reports::getters;

/// What is known of a record, of a directory that has none, or of a member of an archive, without
/// reading a value.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Stat {
    key: Key,
    kind: &'static str,
    /// Bytes of the value; of a hard link those of the file. ``None`` where only reading it
    /// would show them.
    #[pyo3(get)]
    size: Option<u64>,
    attributes: Attributes,
    group: Option<Arc<str>>,
    /// When it was put, in nanoseconds since 1970; ``None`` for a directory without a record of its
    /// own, and for members of archives.
    #[pyo3(get)]
    time_ns: Option<i64>,
}

impl Stat {
    pub(super) fn of(pack: &pack::Pack, head: RecordHead) -> Self {
        let (kind, time_ns) = (name_of(head.attributes.file_kind()), Some(head.time_ns));
        let group = Some(pack.group_of_segment(head.segment).into());
        Self { kind, group, time_ns, ..Self::of_member(head) }
    }

    /// A member of an archive.
    pub(crate) fn of_member(head: RecordHead) -> Self {
        let kind = head.attributes.file_kind().map_or("other", FileKind::as_str);
        let (key, size, attributes) = (head.key, head.body_len, head.attributes);
        Self { key, kind, size, attributes, group: None, time_ns: None }
    }

    /// A directory without a record of its own.
    pub(super) fn of_directory(key: Key) -> Self {
        let (kind, attributes) = (FileKind::Directory.as_str(), Attributes::new());
        Self { key, kind, size: Some(0), attributes, group: None, time_ns: None }
    }
}

getters! { Stat {
    /// The key: `str` (bytes that are not UTF-8 as surrogate escapes) or `int`.
    key: PyResult<Bound<'_, PyAny>> = |this, py| key::to_python(py, &this.key);
    /// ``"file"``, ``"directory"``, ``"symlink"``, or ``"hard_link"``, another name of a file.
    /// A record that does not say is a file; a pipe or device in an archive is ``"other"``.
    kind: &'static str = |this| this.kind;
    /// The attributes: a new dict.
    attributes: PyResult<Bound<'_, PyDict>> = |this, py| attributes::to_python(py, &this.attributes);
    /// The extended attributes, access control lists among them: values by name. ``None`` is what
    /// could not be packed.
    xattrs: PyResult<Bound<'_, PyDict>> = |this, py| attributes::xattrs(py, &this.attributes);
    /// The group that it is in; ``None`` for a directory without a record of its own, and for
    /// members of archives.
    group: Option<String> = |this| this.group.as_deref().map(str::to_owned);
}}

#[pymethods]
impl Stat {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (key, kind) = (key::to_python(py, &self.key)?.repr()?, self.kind);
        Ok(match self.size {
            Some(size) => format!("<stook.Stat {key}: {kind} of {size} bytes>"),
            None => format!("<stook.Stat {key}: {kind}>"),
        })
    }
}
