//! Errors of the library as exceptions: the classes of `stook._errors`, each with the whole chain
//! as its message.

use std::error::Error as StdError;
use std::ffi::CString;
use std::fmt::Write as _;
use std::path::Path;

use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyType;
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

/// An error and what caused it, in one line, without what may be a secret in an address that was
/// given for a path.
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
    set_fields: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<()>,
) -> PyErr {
    Python::attach(|py| {
        let make = || -> PyResult<PyErr> {
            let class = py.import("stook._errors")?.getattr(class)?.cast_into::<PyType>()?;
            let exception = class.call1((message.as_str(),))?;
            set_fields(&exception)?;
            Ok(PyErr::from_value(exception))
        };
        make().unwrap_or_else(|error| error)
    })
}

/// The exception `stook.CLASS` with this message and nothing else.
pub(crate) fn plain(class: &str, message: impl Into<String>) -> PyErr {
    exception(class, message.into(), |_| Ok(()))
}

/// The exception for something that was closed.
pub(crate) fn closed(what: &str) -> PyErr {
    plain("ClosedError", format!("this {what} is closed"))
}

/// The exception for a value that makes no sense.
pub(crate) fn invalid(message: impl Into<String>) -> PyErr {
    plain("InvalidError", message)
}

/// What the operating system refused: the subclass of `OSError` for the number, as `open` would
/// raise it.
fn system(error: &dyn StdError, cause: &std::io::Error, path: Option<&Path>) -> PyErr {
    let message = chain(error);
    let Some(code) = cause.raw_os_error() else { return PyOSError::new_err(message) };
    // The number stands in front of it already.
    let message = message.replace(&format!(" (os error {code})"), "");
    let Some(path) = path else { return PyOSError::new_err((code, message)) };
    let path = match path.to_str().filter(|path| path.contains("://")) {
        Some(address) => shown_in(address).into(),
        None => path.as_os_str().to_owned(),
    };
    PyOSError::new_err((code, message, path))
}

impl Raise for stook::Error {
    fn raise(&self) -> PyErr {
        use stook::Error as E;
        match self {
            E::Io { path, source, .. } | E::Unsupported { path, source, .. } => {
                system(self, source, Some(path))
            }
            E::SourceChanged { .. } => plain("SourceChangedError", chain(self)),
            E::ShortRead { .. } => plain("ShortReadError", chain(self)),
            E::Damaged { path, offset, what } => {
                let (file, what) = (path.clone(), what.clone());
                damaged(&pack::Damage { file, offset: *offset, key: None, what, cause: None }, chain(self))
            }
            E::Remote(error) if error.kind == RemoteErrorKind::NoRanges => {
                plain("RemoteError", format!("{self}: whole_file=True does that"))
            }
            E::LongRead { .. } => plain("InvalidError", chain(self)),
            E::Remote(_) => match self.io_kind() {
                Some(std::io::ErrorKind::NotFound) => plain("RemoteNotFoundError", chain(self)),
                Some(std::io::ErrorKind::PermissionDenied) => plain("RemotePermissionError", chain(self)),
                _ => plain("RemoteError", chain(self)),
            },
            E::Address { .. } => plain("AddressError", chain(self)),
            E::OutOfBounds { .. } => plain("OutOfBoundsError", chain(self)),
            E::AlreadyExists { .. } => plain("ExistsError", chain(self)),
            E::Locked { .. } => plain("LockedError", chain(self)),
            _ => PyRuntimeError::new_err(chain(self)),
        }
    }
}

/// The exception for damage.
pub(crate) fn damaged(damage: &pack::Damage, message: String) -> PyErr {
    exception("DamagedError", message, |error| {
        let key = damage.key.as_ref().map(|key| key::to_python(error.py(), key)).transpose()?;
        error.setattr("file", damage.file.as_os_str())?;
        error.setattr("offset", damage.offset)?;
        error.setattr("key", key)?;
        error.setattr("what", &damage.what)
    })
}

/// Warns of damage that opening a pack met: nobody is to find out by what is missing.
pub(crate) fn warn_of(py: Python<'_>, path: &Path, damages: &[pack::Damage]) -> PyResult<()> {
    let Some(first) = damages.first() else { return Ok(()) };
    let more = match damages.len() {
        1 => String::new(),
        many => format!(" (and {} more)", many - 1),
    };
    let text = format!("{} is damaged: {first}{more}; stook.check lists all damage", path.display());
    warn(&py.import("stook._errors")?.getattr("DamageWarning")?, &text)
}

/// Warns with the text, which may have zeros in it.
pub(crate) fn warn(class: &Bound<'_, PyAny>, text: &str) -> PyResult<()> {
    let text = CString::new(text.replace('\0', "\\0")).unwrap_or_default();
    PyErr::warn(class.py(), class, &text, 1)
}

/// Warns of what opening a pack for writing found and mended: what the command-line tool notes.
pub(crate) fn warn_of_recovery(py: Python<'_>, path: &Path, notes: &[String]) -> PyResult<()> {
    let class = py.import("stook._errors")?.getattr("RecoveryWarning")?;
    notes.iter().try_for_each(|note| warn(&class, &format!("{}: {note}", path.display())))
}

impl Raise for pack::Error {
    fn raise(&self) -> PyErr {
        use pack::Error as E;
        match self {
            E::Core(error) => error.raise(),
            E::Outside { source, .. } => system(self, source, None),
            E::NotAPack { .. } => plain("NotAPackError", chain(self)),
            E::Exists { .. } => plain("ExistsError", chain(self)),
            E::Damaged(damage) => damaged(damage, chain(self)),
            E::Unsupported { .. } => plain("UnsupportedError", chain(self)),
            E::Limit { .. } | E::BodyLength { .. } => plain("LimitError", chain(self)),
            E::Invalid(_) => plain("InvalidError", chain(self)),
            E::NoSuchState { .. } => plain("NoSuchStateError", chain(self)),
            E::Forked { .. } => plain("ForkedError", chain(self)),
            E::Stopped => plain("StoppedError", chain(self)),
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
                let damage = pack::Damage {
                    file: path.clone(),
                    offset: *offset,
                    key: None,
                    what: what.clone(),
                    cause: None,
                };
                damaged(&damage, chain(self))
            }
            E::Unsupported { .. } => plain("UnsupportedError", chain(self)),
            E::NotAnArchive { .. } => plain("NotAPackError", chain(self)),
            E::Invalid(_) => plain("InvalidError", chain(self)),
            _ => PyRuntimeError::new_err(chain(self)),
        }
    }
}

impl Raise for ops::pack::Error {
    fn raise(&self) -> PyErr {
        use ops::pack::Error as E;
        let invalid = |instead: &str| plain("InvalidError", format!("{}{instead}", chain(self)));
        match self {
            E::Pack(error) | E::Roots(error) | E::Finish(error) => error.raise(),
            E::Stopped { source, .. } | E::Removing { source, .. } => source.raise(),
            E::Archive(error) => error.raise(),
            E::SegmentLen(error @ pack::Error::Invalid(_)) => {
                plain("InvalidError", format!("segment_bytes: {error}"))
            }
            E::SegmentLen(error) => plain("LimitError", format!("segment_bytes: {error}")),
            E::TakeBack { pack, source } => system(self, source, Some(pack)),
            E::IsPack(pack::Error::Invalid(_)) => invalid("; as_file=True packs its files"),
            E::IsPack(error) => error.raise(),
            E::NotImported { .. } => invalid(" with as_file=True"),
            E::Interrupted | E::Abandoned => PyRuntimeError::new_err(chain(self)),
            _ => plain("InvalidError", chain(self)),
        }
    }
}

impl Raise for ops::unpack::Error {
    fn raise(&self) -> PyErr {
        use ops::unpack::Error as E;
        match self {
            E::Core(error) => error.raise(),
            E::Pack(error) => error.raise(),
            E::Archive(error) => error.raise(),
            E::OnlyPacks { .. } | E::Open(_) => plain("InvalidError", chain(self)),
            E::Write(source) => system(self, source, None),
            _ => PyRuntimeError::new_err(chain(self)),
        }
    }
}

impl Raise for ops::repair::Error {
    fn raise(&self) -> PyErr {
        use ops::repair::Error as E;
        match self {
            E::Core(error) => error.raise(),
            E::Pack(error) => error.raise(),
            E::Exists { .. } => plain("ExistsError", chain(self)),
            _ => PyRuntimeError::new_err(chain(self)),
        }
    }
}

impl Raise for SparseError {
    fn raise(&self) -> PyErr {
        use SparseError as E;
        match self {
            E::NotHeld { gap, .. } => {
                exception("NotHeldError", chain(self), |error| error.setattr("gap", (gap.start(), gap.end())))
            }
            E::Differs { offset, .. } => {
                exception("DiffersError", chain(self), |error| error.setattr("offset", offset))
            }
            E::TooFar { .. } | E::Plan(_) | E::Options(_) => plain("InvalidError", chain(self)),
            E::NameTaken { .. } | E::NotOfASource { .. } => plain("ExistsError", chain(self)),
            E::Full => plain("LimitError", chain(self)),
            E::NotASparseFile { .. } | E::Version { .. } => plain("UnsupportedError", chain(self)),
            E::Damaged { offset, what } => exception("DamagedError", chain(self), |error| {
                error.setattr("offset", offset)?;
                error.setattr("what", what)
            }),
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
