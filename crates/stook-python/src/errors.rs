//! Conversion of errors to exceptions: classes of `stook._errors`, with the chain of causes as the
//! message.

use std::error::Error as StdError;
use std::ffi::{CString, OsStr};
use std::fmt::Write as _;
use std::path::Path;

use pyo3::exceptions::{PyIsADirectoryError, PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use rustix::io::Errno;
use stook::error::RemoteErrorKind;
use stook::pack::Key;
use stook::source::shown_in;
use stook::sparse::{SparseError, SparseFileError};
use stook::{archive, ops, pack};

use crate::key;

/// A result whose error is an exception.
pub(crate) trait OrRaise<T> {
    /// The value, or the error as an exception.
    fn or_raise(self) -> PyResult<T>;
}

impl<T, E: Raise> OrRaise<T> for Result<T, E> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| error.raise())
    }
}

/// An error that converts to an exception.
pub(crate) trait Raise {
    /// The exception.
    fn raise(&self) -> PyErr;
}

/// An error and its causes in one line, with secrets in addresses redacted.
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

/// The exception `stook.CLASS` with this message.
pub(crate) fn plain(class: &str, message: impl Into<String>) -> PyErr {
    exception(class, message.into(), |_| Ok(()))
}

/// The exception for use after closing.
pub(crate) fn closed(what: &str) -> PyErr {
    plain("ClosedError", format!("this {what} is closed"))
}

/// The exception for an invalid value.
pub(crate) fn invalid(message: impl Into<String>) -> PyErr {
    plain("InvalidError", message)
}

/// The exception for a directory where a file is wanted.
pub(crate) fn is_directory(path: impl AsRef<OsStr>) -> PyErr {
    let path = path.as_ref().to_owned();
    PyIsADirectoryError::new_err((Errno::ISDIR.raw_os_error(), "Is a directory", path))
}

/// An error of the operating system: the subclass of `OSError` for its number, as `open` raises it.
fn system(error: &dyn StdError, cause: &std::io::Error, path: Option<&Path>) -> PyErr {
    let message = chain(error);
    let Some(code) = cause.raw_os_error() else { return PyOSError::new_err(message) };
    // `OSError` shows the number itself.
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

/// Warns of damage that was met when a pack was opened: records may be missing.
pub(crate) fn warn_of(py: Python<'_>, path: &Path, damages: &[pack::Damage]) -> PyResult<()> {
    let Some(first) = damages.first() else { return Ok(()) };
    let more = match damages.len() {
        1 => String::new(),
        many => format!(" (and {} more)", many - 1),
    };
    let text = format!("{} is damaged: {first}{more}; stook.check lists all damage", path.display());
    warn(&py.import("stook._errors")?.getattr("DamageWarning")?, &text)
}

/// Warns with a text, in which NUL bytes are escaped.
pub(crate) fn warn(class: &Bound<'_, PyAny>, text: &str) -> PyResult<()> {
    let text = CString::new(text.replace('\0', "\\0")).unwrap_or_default();
    PyErr::warn(class.py(), class, &text, 1)
}

/// Warns of what was recovered when a pack was opened for writing.
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
        of_archive(self, None)
    }
}

/// The exception for an error of an archive; `key` is the member that it is about, if it is one.
pub(crate) fn of_archive(error: &archive::Error, key: Option<Key>) -> PyErr {
    use archive::Error as E;
    match error {
        E::Core(error) => error.raise(),
        E::Damaged { path, offset, what } => {
            let (file, what) = (path.clone(), what.clone());
            damaged(&pack::Damage { file, offset: *offset, key, what, cause: None }, chain(error))
        }
        E::Unsupported { .. } => plain("UnsupportedError", chain(error)),
        E::NotAnArchive { .. } => plain("NotAPackError", chain(error)),
        E::Invalid(_) => plain("InvalidError", chain(error)),
        _ => PyRuntimeError::new_err(chain(error)),
    }
}

impl Raise for ops::contents::Error {
    fn raise(&self) -> PyErr {
        use ops::contents::Error as E;
        match self {
            E::Pack(error) => error.raise(),
            E::Archive(error) => error.raise(),
            E::Interrupted => PyRuntimeError::new_err(chain(self)),
            _ => plain("InvalidError", chain(self)),
        }
    }
}

impl Raise for ops::contents::ValueError {
    fn raise(&self) -> PyErr {
        use ops::contents::{Failure, ValueError as E};
        match self {
            E::Contents(error) => error.raise(),
            E::Entry { key, failure } => match &**failure {
                Failure::Member(error) => of_archive(error, Some(key.clone())),
                Failure::Record(error) => error.raise(),
                other => invalid(other.to_string()),
            },
            _ => plain("LimitError", chain(self)),
        }
    }
}

/// An error that is an exception already.
impl Raise for PyErr {
    fn raise(&self) -> PyErr {
        Python::attach(|py| self.clone_ref(py))
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

impl Raise for ops::heads::Error {
    fn raise(&self) -> PyErr {
        use ops::heads::Error as E;
        let (errno, key) = match self {
            E::Pack(error) => return error.raise(),
            E::NotFound { key } => (Errno::NOENT, key),
            E::NotADirectory { key } => (Errno::NOTDIR, key),
            _ => return PyRuntimeError::new_err(chain(self)),
        };
        // `OSError` picks the subclass by the number.
        let raise =
            |key: Bound<'_, PyAny>| PyOSError::new_err((errno.raw_os_error(), chain(self), key.unbind()));
        Python::attach(|py| key::to_python(py, key).map_or_else(|error| error, raise))
    }
}

impl Raise for ops::shared::Error {
    fn raise(&self) -> PyErr {
        use ops::shared::Error as E;
        match self {
            E::Pack(error) => error.raise(),
            E::Closed => plain("ClosedError", chain(self)),
            _ => plain("InvalidError", chain(self)),
        }
    }
}

impl Raise for ops::compact::Error {
    fn raise(&self) -> PyErr {
        use ops::compact::Error as E;
        match self {
            E::Pack(error) => error.raise(),
            E::NoSpace { place, .. } => {
                let code = Errno::NOSPC.raw_os_error();
                PyOSError::new_err((
                    code,
                    format!("{} (extra_bytes)", chain(self)),
                    place.as_os_str().to_owned(),
                ))
            }
            _ => PyRuntimeError::new_err(chain(self)),
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
            E::Open(error) => error.raise(),
            E::OnlyPacks { .. } => plain("InvalidError", chain(self)),
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
