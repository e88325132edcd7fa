//! Errors of the library as exceptions: the classes of `stook._errors`, each with the whole chain as its message.

use std::error::Error as StdError;
use std::ffi::CString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use stook::error::RemoteErrorKind;
use stook::source::shown_in;
use stook::sparse::{SparseError, SparseFileError};
use stook::{archive, ops, pack};

use crate::key;

/// A result whose error is an exception.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception that tells the error.
    fn or_raise(self) -> PyResult<T>;
}

impl<T, E: Raise> OrRaise<T> for Result<T, E> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| error.raise())
    }
}

/// An error that there is an exception for.
pub(crate) trait Raise {
    /// The exception.
    fn raise(&self) -> PyErr;
}

/// An error and what caused it, in one line, without what may be a secret in an address that was given for a path.
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Writing to a string cannot fail.
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    shown_in(&text)
}

/// The exception `stook.CLASS` with this message and these attributes.
pub(crate) fn exception(
    class: &str,
    message: String,
    fields: impl for<'py> FnOnce(&Bound<'py, PyDict>) -> PyResult<()>,
) -> PyErr {
    Python::attach(|py| {
        let make = || -> PyResult<PyErr> {
            let class = py.import("stook._errors")?.getattr(class)?.cast_into::<PyType>()?;
            let exception = class.call1((message.as_str(),))?;
            let values = PyDict::new(py);
            fields(&values)?;
            for (name, value) in values {
                exception.setattr(name.cast_into::<pyo3::types::PyString>()?, value)?;
            }
            Ok(PyErr::from_value(exception))
        };
        make().unwrap_or_else(|error| error)
    })
}

fn plain(class: &str, error: &dyn StdError) -> PyErr {
    exception(class, chain(error), |_| Ok(()))
}

/// The exception for something that was closed.
pub(crate) fn closed(what: &str) -> PyErr {
    exception("ClosedError", format!("this {what} is closed"), |_| Ok(()))
}

/// The exception for a value that makes no sense.
pub(crate) fn invalid(message: impl Into<String>) -> PyErr {
    exception("InvalidError", message.into(), |_| Ok(()))
}

/// What the operating system refused: the subclass of `OSError` for the number, as `open` would raise it.
fn system(error: &dyn StdError, cause: &std::io::Error, path: Option<&Path>) -> PyErr {
    let message = chain(error);
    match cause.raw_os_error() {
        Some(code) => {
            // The number stands in front of it already.
            let message = message.replace(&format!(" (os error {code})"), "");
            let path = path.map(|path| match path.to_str().filter(|path| path.contains("://")) {
                Some(address) => shown_in(address).into(),
                None => path.as_os_str().to_owned(),
            });
            match path {
                Some(path) => PyOSError::new_err((code, message, path)),
                None => PyOSError::new_err((code, message)),
            }
        }
        None => PyOSError::new_err(message),
    }
}

impl Raise for stook::Error {
    fn raise(&self) -> PyErr {
        use stook::Error as E;
        match self {
            E::Io { path, source, .. } => system(self, source, Some(path)),
            E::SourceChanged { .. } => plain("SourceChangedError", self),
            E::ShortRead { .. } => plain("ShortReadError", self),
            E::Remote(error) if error.kind == RemoteErrorKind::NoRanges => {
                exception("RemoteError", format!("{self}: whole_file=True does that"), |_| Ok(()))
            }
            E::LongRead { .. } => plain("InvalidError", self),
            E::Remote(_) => match self.io_kind() {
                Some(std::io::ErrorKind::NotFound) => plain("RemoteNotFoundError", self),
                Some(std::io::ErrorKind::PermissionDenied) => plain("RemotePermissionError", self),
                _ => plain("RemoteError", self),
            },
            E::Address { .. } => plain("AddressError", self),
            E::OutOfBounds { .. } => plain("OutOfBoundsError", self),
            E::AlreadyExists { .. } => plain("ExistsError", self),
            E::Locked { .. } => plain("LockedError", self),
            _ => PyRuntimeError::new_err(chain(self)),
        }
    }
}

/// The exception for damage.
pub(crate) fn damaged(damage: &pack::Damage, message: String) -> PyErr {
    let (file, offset, what) = (damage.file.clone(), damage.offset, damage.what.clone());
    let key = damage.key.clone();
    exception("DamagedError", message, move |fields| set_damage(fields, file, offset, key.as_ref(), &what))
}

/// Warns of damage that opening a pack met: nobody is to find out by what is missing.
pub(crate) fn warn_of(py: Python<'_>, path: &Path, damages: &[pack::Damage]) -> PyResult<()> {
    let Some(first) = damages.first() else { return Ok(()) };
    let more = match damages.len() {
        1 => String::new(),
        many => format!(" (and {} more)", many - 1),
    };
    let text = format!("{} is damaged: {first}{more}; Pack.check lists all damage", path.display());
    // Zeros would end it.
    let text = CString::new(text.replace('\0', "\\0")).unwrap_or_default();
    let class = py.import("stook._errors")?.getattr("DamageWarning")?;
    PyErr::warn(py, &class, &text, 1)
}

/// Warns of what opening a pack for writing found and mended: what the command-line tool remarks on.
pub(crate) fn warn_of_recovery(py: Python<'_>, path: &Path, notes: &[String]) -> PyResult<()> {
    let class = py.import("stook._errors")?.getattr("RecoveryWarning")?;
    notes.iter().try_for_each(|note| {
        let text = format!("{}: {note}", path.display());
        let text = CString::new(text.replace('\0', "\\0")).unwrap_or_default();
        PyErr::warn(py, &class, &text, 1)
    })
}

fn set_damage(
    fields: &Bound<'_, PyDict>,
    file: PathBuf,
    offset: u64,
    key: Option<&pack::Key>,
    what: &str,
) -> PyResult<()> {
    let py = fields.py();
    fields.set_item("file", file.into_os_string())?;
    fields.set_item("offset", offset)?;
    fields.set_item("key", key.map(|key| key::to_python(py, key)).transpose()?)?;
    fields.set_item("what", what)
}

impl Raise for pack::Error {
    fn raise(&self) -> PyErr {
        use pack::Error as E;
        match self {
            E::Core(error) => error.raise(),
            E::Outside { source, .. } => system(self, source, None),
            E::NotAPack { .. } => plain("NotAPackError", self),
            E::Exists { .. } => plain("ExistsError", self),
            E::Damaged(damage) => damaged(damage, chain(self)),
            E::Unsupported { .. } => plain("UnsupportedError", self),
            E::Limit { .. } | E::BodyLength { .. } => plain("LimitError", self),
            E::Invalid(_) => plain("InvalidError", self),
            E::NoSuchState { .. } => plain("NoSuchStateError", self),
            E::Forked { .. } => plain("ForkedError", self),
            E::Stopped => plain("StoppedError", self),
            E::Commit(cause) => cause.raise(),
            _ => PyRuntimeError::new_err(chain(self)),
        }
    }
}

impl Raise for archive::Error {
    fn raise(&self) -> PyErr {
        use archive::Error as E;
        match self {
            E::Core(error) => error.raise(),
            E::Damaged { path, offset, what } => {
                let (path, offset, what) = (path.clone(), *offset, what.clone());
                exception("DamagedError", chain(self), move |fields| {
                    set_damage(fields, path, offset, None, &what)
                })
            }
            E::Unsupported { .. } => plain("UnsupportedError", self),
            E::NotAnArchive { .. } | E::Invalid(_) => plain("InvalidError", self),
            _ => PyRuntimeError::new_err(chain(self)),
        }
    }
}

impl Raise for ops::pack::Error {
    fn raise(&self) -> PyErr {
        use ops::pack::Error as E;
        let invalid =
            |instead: &str| exception("InvalidError", format!("{}{instead}", chain(self)), |_| Ok(()));
        match self {
            E::Pack(error) | E::Roots(error) | E::Finish(error) => error.raise(),
            E::Stopped { source, .. } | E::Removing { source, .. } => source.raise(),
            E::Archive(error) => error.raise(),
            E::SegmentLen(error @ pack::Error::Invalid(_)) => {
                exception("InvalidError", format!("segment_bytes: {error}"), |_| Ok(()))
            }
            E::SegmentLen(error) => exception("LimitError", format!("segment_bytes: {error}"), |_| Ok(())),
            E::TakeBack { pack, source } => system(self, source, Some(pack)),
            E::IsPack(pack::Error::Invalid(_)) => invalid("; as_file=True packs its files"),
            E::IsPack(error) => error.raise(),
            E::NotImported(ops::import::Error::NotImported { .. }) => invalid(" with as_file=True"),
            E::Interrupted | E::Abandoned => PyRuntimeError::new_err(chain(self)),
            _ => plain("InvalidError", self),
        }
    }
}

impl Raise for SparseError {
    fn raise(&self) -> PyErr {
        use SparseError as E;
        match self {
            E::NotHeld { gap, .. } => {
                let gap = (gap.start(), gap.end());
                exception("NotHeldError", chain(self), move |fields| fields.set_item("gap", gap))
            }
            E::Differs { offset, .. } => {
                let offset = *offset;
                exception("DiffersError", chain(self), move |fields| fields.set_item("offset", offset))
            }
            E::TooFar { .. } | E::Plan(_) | E::Options(_) => plain("InvalidError", self),
            E::NameTaken { .. } | E::NotOfASource { .. } => plain("ExistsError", self),
            E::Full => plain("LimitError", self),
            E::NotASparseFile { .. } | E::Version { .. } => plain("UnsupportedError", self),
            E::Damaged { offset, what } => {
                let (offset, what) = (*offset, what.clone());
                exception("DamagedError", chain(self), move |fields| {
                    fields.set_item("offset", offset)?;
                    fields.set_item("what", what)
                })
            }
            E::Io { source, .. } => system(self, source, None),
            _ => PyRuntimeError::new_err(chain(self)),
        }
    }
}

impl Raise for SparseFileError {
    fn raise(&self) -> PyErr {
        match self {
            Self::Source(error) => error.raise(),
            Self::Cache(error) => error.raise(),
            _ => PyRuntimeError::new_err(chain(self)),
        }
    }
}
