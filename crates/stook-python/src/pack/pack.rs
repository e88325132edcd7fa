//! `stook.Pack`: the class, opening and closing. Methods that read are in `reading`, those that
//! write in `writing`.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::{PyResourceWarning, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use stook::ops::session::{Session, Settings};
use stook::ops::shared::Writer;
use stook::pack::{self, MapRule, OpenOptions};

use super::info;
use super::open::{ACCESS, MODES, at_ns_of, durability_of, recipe, with_time_hint};
use crate::choices::{self, chosen, name_of};
use crate::errors::{OrRaise as _, warn, warn_of, warn_of_recovery};
use crate::numbers::{self, Generation};
use crate::paths;
use crate::reports::{async_context, context, getters};
use crate::wait::Detached;

/// Many records in a few large files: read by key or from end to end, changed in place, safe
/// against crashes.
///
/// A pack is a mapping from keys (`str`, `bytes` or `int`) to `bytes`, with all methods of one, and
/// equal to any mapping with the same content; so it is not hashable, as a dict is not. A pack
/// opened to read shows the state that it had then; one opened to write shows what it wrote. Any
/// number of threads may use it; others may read it meanwhile, in other processes, too, but only
/// one may write.
///
/// Args:
///     path: The directory of the pack.
///     mode: ``"r"`` reads; ``"r+"`` reads and writes; ``"a"`` too, and makes the pack if it is not
///         there; ``"x"`` makes it and fails if it is there.
///     at: The state at this time rather than the newest: a
///         ``datetime``, a text (``"2026-11-21T20:30:00Z"``, a date, ``"@1795293000"``), a float of
///         seconds since 1970, or an int of nanoseconds, as ``time_ns`` of records is.
///     generation: This generation, as it was published, rather than the newest.
///     map: Whether sealed segments are mapped into memory. Gets are several times as fast where
///         the pack is in memory. Its files must not be cut or overwritten meanwhile.
///     access: ``"direct"`` past the page cache, ``"cached"`` through it, ``"auto"`` by what is in
///         it, and gets through it where half of the free memory holds the pack.
///     durability: When what was put is safe:
///         ``"sync"`` after ``sync`` or ``close``, ``"put"`` when ``put`` returns (shared by all
///         threads that wait), a number: at the latest after that many seconds, as long as records
///         are put.
///     segment_bytes: Segments of a new pack are sealed when they are this long.
///
/// Raises:
///     FileNotFoundError: There is nothing at ``path``.
///     stook.NotAPackError: What is at ``path`` is no pack.
///     stook.ExistsError: Mode ``"x"``, and there is a pack.
///     stook.LockedError: Another process, or another object, writes to it.
///     stook.NoSuchStateError: There is no such generation, history does not go back so far, or
///         ``at`` is before the first record.
///     stook.DamagedError: Its manifest is not what was written.
///
/// Warns:
///     stook.RecoveryWarning: Opened to be written, it was left unfinished by a writer before: what
///         was found and mended.
///     stook.DamageWarning: Something else of it is damaged, so that records may be missing:
///         `Pack.damages` says what.
///
/// Examples:
///     >>> import stook
///     >>> with stook.Pack("data.stook", "a") as pack:
///     ...     pack["one"] = b"first"
///     ...     pack[2] = b"second"
///     ...     pack["one"], len(pack)
///     (b'first', 2)
#[pyclass(module = "stook", name = "Pack", frozen, weakref, mapping)]
pub(crate) struct Pack {
    pub(super) session: Session,
}

impl Pack {
    /// A reader that sees everything that was written through this object.
    pub(super) fn reader(&self, py: Python<'_>) -> PyResult<Arc<pack::Pack>> {
        self.session.reader(&Detached(py)).or_raise()
    }

    /// The writer; an error if the pack is open for reading.
    pub(super) fn writer(&self) -> PyResult<Arc<Writer>> {
        self.session.writer().or_raise()
    }
}

getters! { Pack {
    /// Where the pack is.
    path: PathBuf = |this| this.session.settings().path.clone();
    /// The mode in which it was opened.
    mode: &'static str = |this| name_of(&this.session.settings().making, &MODES);
    /// The damage that was found when it was opened, as exceptions: records may be missing. `check`
    /// looks for all damage.
    damages: PyResult<Bound<'_, PyList>> = |this, py| info::damages(py, &this.reader(py)?.damages());
    /// Whether it was closed.
    closed: bool = |this| this.session.is_closed();
}}

#[pymethods]
impl Pack {
    #[new]
    #[pyo3(signature = (path, mode="r", *, at=None, generation=None, map=false, access="auto", durability=None, segment_bytes=4 << 30))]
    #[pyo3(
        text_signature = "(path, mode='r', *, at=None, generation=None, map=False, access='auto', durability='sync', segment_bytes=4294967296)"
    )]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = paths::path)] path: PathBuf,
        #[pyo3(from_py_with = choices::mode)] mode: &str,
        at: Option<&Bound<'_, PyAny>>,
        generation: Option<Generation>,
        #[pyo3(from_py_with = choices::map)] map: bool,
        #[pyo3(from_py_with = choices::access)] access: &str,
        durability: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = numbers::segment_bytes)] segment_bytes: u64,
    ) -> PyResult<Self> {
        let reading = OpenOptions {
            at_ns: at_ns_of(at)?,
            generation: generation.map(|generation| generation.0),
            map: if map { MapRule::Sealed } else { MapRule::Never },
            access: chosen("access", access, &ACCESS)?,
            ..OpenOptions::default()
        };
        let settings = Settings {
            making: chosen("the mode", mode, &MODES)?,
            durability: durability.map(durability_of).transpose()?.unwrap_or_default(),
            segment_len: segment_bytes,
            ..Settings::new(path.clone(), reading)
        };
        let opened = py.detach(|| Session::open(settings)).or_raise();
        let (session, found) = opened.map_err(|error| with_time_hint(at, error))?;
        warn_of_recovery(py, &path, &found.notes)?;
        warn_of(py, &path, &found.damages)?;
        Ok(Self { session })
    }

    /// The state that is shown now, to be read: what is written later does not change it.
    ///
    /// Returns:
    ///     A new `Pack` in mode ``"r"``.
    fn snapshot(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(Self { session: self.session.snapshot(&Detached(py)).or_raise()? })
    }

    /// Closes the pack. What was put is safe when this returns. Closing twice does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.session.close(&Detached(py)).or_raise()
    }

    fn __repr__(&self) -> String {
        let state = if self.session.is_closed() { ", closed" } else { "" };
        let settings = self.session.settings();
        format!("<stook.Pack {} ({}{state})>", settings.path.display(), name_of(&settings.making, &MODES))
    }

    /// What notebooks show. Nothing is synced for it, so it may lack what was just written.
    fn _repr_html_<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Ok(reader) = self.session.reader_as_is() else { return Ok(None) };
        let info = info::pack_info(py, &self.session.settings().path, &reader)?;
        py.import("stook._html")?.call_method1("pack", (self.__repr__(), info)).map(Some)
    }

    /// Packs that are open to be read can be given to other processes; they are opened anew there,
    /// and show the newest state unless they were opened with ``at`` or ``generation``.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, ())> {
        let session = &slf.get().session;
        if session.settings().making.is_some() {
            return Err(PyTypeError::new_err(
                "a pack that is open to be written cannot be pickled; open it with mode 'r' for other processes",
            ));
        }
        session.reader_as_is().or_raise()?;
        Ok((recipe(slf.py(), session.settings())?, ()))
    }
}

context! { Pack, |this| this.session.reader_as_is().or_raise()?, |this, py, failed| match this.close(py) {
    // What ended the block is raised. That a failed write stopped the writer is no news; any
    // other error of closing is at least shown.
    Err(error) if failed => {
        let stopped = py.import("stook._errors").and_then(|errors| errors.getattr("StoppedError"));
        if !stopped.is_ok_and(|stopped| error.is_instance(py, &stopped)) {
            error.write_unraisable(py, None);
        }
        Ok(())
    }
    done => done,
}}

async_context! { Pack }

impl Drop for Pack {
    fn drop(&mut self) {
        if !self.session.is_left_open() {
            return;
        }
        Python::attach(|py| {
            // An exception that is being raised must survive the warning.
            let passing = PyErr::take(py);
            let text = format!(
                "{} was not closed; use `with`, or call close()",
                self.session.settings().path.display()
            );
            let warned = warn(&py.get_type::<PyResourceWarning>(), &text);
            // No caller can catch what a warnings filter, or closing, raises here.
            if let Err(error) = warned.and_then(|()| self.close(py)) {
                error.write_unraisable(py, None);
            }
            if let Some(passing) = passing {
                passing.restore(py);
            }
        });
    }
}
