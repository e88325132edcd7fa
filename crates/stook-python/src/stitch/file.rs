//! What `stook.VirtualFile` and `stook.Shards` are made of.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyList;
use stook::format::MemberKind;
use stook::ops::stitch;
use stook::source::Source as _;

use crate::choices;
use crate::errors::{OrRaise as _, plain};
use crate::key::text_of;
use crate::pack::info::failures;
use crate::paths;
use crate::reports::getters;
use crate::sparse::file::SparseFile;
use crate::wait::with_progress;

/// What was laid out: a file, or one of several shards.
#[derive(Clone)]
pub(super) enum Held {
    One(Arc<stitch::Stitched>),
    Shard(Arc<stitch::Sharded>, usize),
}

impl Held {
    pub(super) fn one(stitched: stitch::Stitched) -> Self {
        Self::One(Arc::new(stitched))
    }

    fn get(&self) -> PyResult<&stitch::Stitched> {
        match self {
            Self::One(stitched) => Ok(stitched),
            Self::Shard(sharded, number) => {
                let shard = sharded.shards().get(*number);
                shard.ok_or_else(|| plain("OutOfBoundsError", format!("there is no shard {number}")))
            }
        }
    }
}

/// A file that was stitched together: what a `VirtualFile` reads from.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Stitched {
    held: Held,
    layout: Option<LayoutPlace>,
}

/// The layout that a file was opened from, and its name there if one was given.
type LayoutPlace = (PathBuf, Option<Vec<u8>>);

/// Where something goes, and whether it was written.
fn written_or_kept(path: PathBuf, written: Result<bool, stitch::Error>) -> PyResult<()> {
    match written.or_raise()? {
        true => Ok(()),
        false => {
            let what = "stays as it was: something is missing in the new one (`failures`, `left_out`); force=True \
                        replaces it";
            Err(plain("ExistsError", format!("{} {what}", path.display())))
        }
    }
}

impl Stitched {
    pub(super) fn new(held: Held, layout: Option<LayoutPlace>) -> Self {
        Self { held, layout }
    }
}

getters! { Stitched {
    /// What could not be listed, and what packs and archives should have and have not.
    failures: PyResult<Bound<'_, PyList>> = |this, py| failures_of(py, std::iter::once(this.held.get()?));
    /// The paths of pipes, sockets and devices, which no archive holds.
    left_out: PyResult<Bound<'_, PyList>> = |this, py| left_out_of(py, std::iter::once(this.held.get()?));
    /// The path of the layout that it was opened from, and its name there if one was given.
    layout: PyResult<Option<(OsString, Option<Bound<'_, PyAny>>)>> = |this, py| {
        let Some((path, name)) = &this.layout else { return Ok(None) };
        let name = name.as_deref().map(|name| text_of(py, name)).transpose()?;
        Ok(Some((path.clone().into_os_string(), name)))
    };
}}

#[pymethods]
impl Stitched {
    /// What reads its bytes.
    fn open(&self, py: Python<'_>) -> PyResult<SparseFile> {
        SparseFile::over_stitched(py, self.held.get()?.laid.file.clone())
    }

    /// Its members, as ``stook stitch --list`` shows them: path, kind, offset and size.
    fn members<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let laid = &self.held.get()?.laid;
        let class = py.import("stook._types")?.getattr("StitchMember")?;
        let members = PyList::empty(py);
        for (at, member) in laid.members.all().iter().enumerate() {
            let Some(range) = laid.range_of(at) else { continue };
            let kind = match member.kind {
                MemberKind::File => "file",
                MemberKind::Directory => "directory",
                MemberKind::Symlink => "symlink",
                MemberKind::HardLink => "hard_link",
                MemberKind::Other => "other",
            };
            members.append(class.call1((text_of(py, &member.key)?, kind, range.start(), range.len()))?)?;
        }
        Ok(members)
    }

    /// Writes its bytes into a file.
    #[pyo3(signature = (path, *, force=false, progress=None))]
    fn write(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = paths::path)] path: PathBuf,
        #[pyo3(from_py_with = choices::force)] force: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let held = self.held.clone();
        with_progress(py, progress, ["bytes", "total"], move |go_on| {
            let stitched = held.get()?;
            let len = stitched.laid.file.len();
            let written = stitched.write(&path, force, &mut |at| go_on([at, len]));
            written_or_kept(path, written)
        })
    }

    /// Writes a layout that describes it.
    #[pyo3(signature = (path, *, force=false, progress=None))]
    fn save(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = paths::path)] path: PathBuf,
        #[pyo3(from_py_with = choices::force)] force: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let held = self.held.clone();
        with_progress(py, progress, ["bytes", "total"], move |go_on| {
            let stitched = held.get()?;
            let len = stitched.laid.file.len();
            let written = stitched.save_layout(&path, force, &mut |at| go_on([at, len]));
            written_or_kept(path, written)
        })
    }
}

/// Shards that were stitched together: what `Shards` are made of.
#[pyclass(module = "stook", frozen)]
pub(crate) struct Sharded(Arc<stitch::Sharded>);

impl Sharded {
    pub(super) fn new(sharded: stitch::Sharded) -> Self {
        Self(Arc::new(sharded))
    }
}

getters! { Sharded {
    /// How many bytes all have.
    size: u64 = |this| this.0.len();
    /// What could not be listed, and what packs and archives should have and have not.
    failures: PyResult<Bound<'_, PyList>> = |this, py| failures_of(py, this.0.shards());
    /// The paths of pipes, sockets and devices, which no archive holds.
    left_out: PyResult<Bound<'_, PyList>> = |this, py| left_out_of(py, this.0.shards());
    /// What they are called.
    names: PyResult<Vec<Bound<'_, PyAny>>> = |this, py| {
        let shards = this.0.shards().iter();
        shards.map(|shard| text_of(py, shard.laid.file.path().as_os_str().as_encoded_bytes())).collect()
    };
}}

#[pymethods]
impl Sharded {
    fn __len__(&self) -> usize {
        self.0.shards().len()
    }

    /// The shard with a number.
    fn shard(&self, number: usize) -> PyResult<Stitched> {
        let held = Held::Shard(self.0.clone(), number);
        held.get()?;
        Ok(Stitched::new(held, None))
    }

    /// Writes them into a directory.
    #[pyo3(signature = (directory, *, force=false, progress=None))]
    fn write(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = paths::directory)] directory: PathBuf,
        #[pyo3(from_py_with = choices::force)] force: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let sharded = self.0.clone();
        with_progress(py, progress, ["bytes", "total"], move |go_on| {
            let len = sharded.len();
            sharded.write(&directory, force, &mut |at| go_on([at, len])).or_raise()
        })
    }

    /// Writes a layout that describes them.
    #[pyo3(signature = (path, *, force=false, progress=None))]
    fn save(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = paths::path)] path: PathBuf,
        #[pyo3(from_py_with = choices::force)] force: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let sharded = self.0.clone();
        with_progress(py, progress, ["bytes", "total"], move |go_on| {
            let len = sharded.len();
            let written = sharded.save_layout(&path, force, &mut |at| go_on([at, len]));
            written_or_kept(path, written)
        })
    }
}

fn failures_of<'py, 'a>(
    py: Python<'py>,
    files: impl IntoIterator<Item = &'a stitch::Stitched>,
) -> PyResult<Bound<'py, PyList>> {
    let all = PyList::empty(py);
    for file in files {
        for failed in [&file.misplaced[..], file.laid.members.failures()] {
            failures(py, failed)?.iter().try_for_each(|one| all.append(one))?;
        }
    }
    Ok(all)
}

fn left_out_of<'py, 'a>(
    py: Python<'py>,
    files: impl IntoIterator<Item = &'a stitch::Stitched>,
) -> PyResult<Bound<'py, PyList>> {
    let all = PyList::empty(py);
    for file in files {
        file.laid.members.left_out().iter().try_for_each(|(key, _)| all.append(text_of(py, key)?))?;
    }
    Ok(all)
}
