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
use stook::ops::contents::{Failure, cut_off_note, index_notes};
use stook::pack::Key;
use stook::source::shown_in;
use stook::sparse::{SparseError, SparseFileError};
use stook::{archive, copy, ops, pack, stitch};

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

/// The exceptions of an enum of errors, `E` in the patterns.
macro_rules! raises {
    (|$this:ident: &$error:ty| $raise:expr) => {
        impl Raise for $error {
            fn raise(&self) -> PyErr {
                type E = $error;
                let $this = self;
                $raise
            }
        }
    };
}

/// An error and its causes in one line, with secrets in addresses redacted.
pub(crate) fn chain(error: &dyn StdError) -> String {
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
    PyIsADirectoryError::new_err((Errno::ISDIR.raw_os_error(), "Is a directory", path.as_ref().to_owned()))
}

/// An error of the operating system: the subclass of `OSError` for its number, as `open` raises it.
/// What a function of Python raised is raised as it is.
fn system(error: &dyn StdError, cause: &std::io::Error, path: Option<&Path>) -> PyErr {
    if let Some(raised) = cause.get_ref().and_then(|cause| cause.downcast_ref::<PyErr>()) {
        return raised.raise();
    }
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

raises! { |this: &stook::Error| match this {
    E::Io { source, .. } if source.get_ref().is_some_and(|cause| cause.is::<stitch::Outdated>()) => {
        plain("SourceChangedError", chain(this))
    }
    E::Io { path, source, .. } | E::Unsupported { path, source, .. } => {
        system(this, source, Some(path))
    }
    E::SourceChanged { .. } => plain("SourceChangedError", chain(this)),
    E::ShortRead { .. } => plain("ShortReadError", chain(this)),
    E::Damaged { path, offset, what } => {
        let (file, what) = (path.clone(), what.clone());
        damaged(&pack::Damage { file, offset: *offset, key: None, what, cause: None }, chain(this))
    }
    E::Remote(error) if error.kind == RemoteErrorKind::NoRanges => {
        plain("RemoteError", format!("{this}: whole_file=True does that"))
    }
    E::LongRead { .. } => plain("InvalidError", chain(this)),
    E::Remote(_) => match this.io_kind() {
        Some(std::io::ErrorKind::NotFound) => plain("RemoteNotFoundError", chain(this)),
        Some(std::io::ErrorKind::PermissionDenied) => plain("RemotePermissionError", chain(this)),
        _ => plain("RemoteError", chain(this)),
    },
    E::Address { .. } | E::NotAPath { .. } => plain("AddressError", chain(this)),
    E::OutOfBounds { .. } => plain("OutOfBoundsError", chain(this)),
    E::AlreadyExists { .. } => plain("ExistsError", chain(this)),
    E::NotARegularFile { .. } => plain("InvalidError", chain(this)),
    E::Locked { .. } => plain("LockedError", chain(this)),
    _ => PyRuntimeError::new_err(chain(this)),
} }

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

/// Warns of damage that was found when a pack was opened: records may be missing.
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

/// What opening an archive found, to be warned of.
pub(crate) struct ArchiveNotes {
    /// Of the index beside it.
    index: Vec<String>,
    /// That it may have been cut off.
    end: Option<String>,
}

impl ArchiveNotes {
    pub(crate) fn of(archive: &archive::Archive) -> Self {
        Self { index: index_notes(archive), end: cut_off_note(archive) }
    }

    pub(crate) fn warn(&self, py: Python<'_>) -> PyResult<()> {
        let errors = py.import("stook._errors")?;
        for (class, notes) in
            [("RecoveryWarning", self.index.as_slice()), ("DamageWarning", self.end.as_slice())]
        {
            let class = errors.getattr(class)?;
            notes.iter().try_for_each(|note| warn(&class, &shown_in(note)))?;
        }
        Ok(())
    }
}

raises! { |this: &pack::Error| match this {
    E::Core(error) => error.raise(),
    E::Outside { source, .. } => system(this, source, None),
    E::NotAPack { .. } => plain("NotAPackError", chain(this)),
    E::Exists { .. } => plain("ExistsError", chain(this)),
    E::Damaged(damage) => damaged(damage, chain(this)),
    E::Unsupported { .. } => plain("UnsupportedError", chain(this)),
    E::Limit { .. } | E::BodyLength { .. } => plain("LimitError", chain(this)),
    E::Invalid(_) => plain("InvalidError", chain(this)),
    E::NoSuchState { .. } => plain("NoSuchStateError", chain(this)),
    E::Forked { .. } => plain("ForkedError", chain(this)),
    E::Stopped => plain("StoppedError", chain(this)),
    E::Commit(cause) => cause.raise(),
    _ => PyRuntimeError::new_err(chain(this)),
} }

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

raises! { |this: &ops::contents::Error| match this {
    E::Pack(error) => error.raise(),
    E::Archive(error) => error.raise(),
    E::Interrupted => PyRuntimeError::new_err(chain(this)),
    _ => plain("InvalidError", chain(this)),
} }

raises! { |this: &ops::contents::ValueError| match this {
    E::Contents(error) => error.raise(),
    E::Entry { key, failure } => match &**failure {
        Failure::Member(error) => of_archive(error, Some(key.clone())),
        Failure::Record(error) => error.raise(),
        other => invalid(other.to_string()),
    },
    _ => plain("LimitError", chain(this)),
} }

raises! { |this: &ops::contents::BodyError| match this {
    E::Contents(error) => error.raise(),
    E::Missing(missing) => invalid(missing.to_string()),
    E::Directory(key) => is_directory(key.to_string()),
    _ => PyRuntimeError::new_err(chain(this)),
} }

/// An error that is an exception already.
impl Raise for PyErr {
    fn raise(&self) -> PyErr {
        Python::attach(|py| self.clone_ref(py))
    }
}

/// The exception for a length that segments cannot have.
fn of_segment_bytes(error: &pack::Error) -> PyErr {
    match error {
        pack::Error::Invalid(_) => invalid(format!("segment_bytes: {error}")),
        error => plain("LimitError", format!("segment_bytes: {error}")),
    }
}

raises! { |this: &ops::pack::Error| match this {
    E::Pack(error) | E::Roots(error) | E::Finish(error) => error.raise(),
    E::Stopped { source, .. } | E::Removing { source, .. } => source.raise(),
    E::Archive(error) => error.raise(),
    E::SegmentLen(error) => of_segment_bytes(error),
    E::TakeBack { pack, source } => system(this, source, Some(pack)),
    E::IsPack(pack::Error::Invalid(_)) => invalid(format!("{}; as_file=True packs its files", chain(this))),
    E::IsPack(error) => error.raise(),
    E::NotImported { .. } => invalid(format!("{} with as_file=True", chain(this))),
    E::NoSpace { place, .. } => system(this, &Errno::NOSPC.into(), Some(place)),
    E::Interrupted | E::Abandoned => PyRuntimeError::new_err(chain(this)),
    _ => plain("InvalidError", chain(this)),
} }

raises! { |this: &ops::heads::Error| match this {
    E::Pack(error) => error.raise(),
    E::NotFound { path } => system(this, &Errno::NOENT.into(), Some(path)),
    E::NotADirectory { path } => system(this, &Errno::NOTDIR.into(), Some(path)),
    _ => PyRuntimeError::new_err(chain(this)),
} }

raises! { |this: &ops::shared::Error| match this {
    E::Pack(error) => error.raise(),
    E::Closed => plain("ClosedError", chain(this)),
    E::SegmentLen(error) => of_segment_bytes(error),
    E::ReadOnly => invalid(format!("{this}; open it with mode 'r+' or 'a'")),
    E::Past => invalid(format!("{this}: mode 'r'")),
    _ => invalid(chain(this)),
} }

raises! { |this: &ops::delete::Error| match this {
    E::Contents(error) => error.raise(),
    _ => plain("InvalidError", chain(this)),
} }

raises! { |this: &ops::compact::Error| match this {
    E::Pack(error) => error.raise(),
    E::NoSpace { place, .. } => system(this, &Errno::NOSPC.into(), Some(place)),
    _ => PyRuntimeError::new_err(chain(this)),
} }

raises! { |this: &ops::unpack::Error| match this {
    E::Core(error) => error.raise(),
    E::Pack(error) => error.raise(),
    E::Archive(error) => error.raise(),
    E::Open(error) => error.raise(),
    E::OnlyPacks { .. } => plain("InvalidError", chain(this)),
    E::Write(source) => system(this, source, None),
    _ => PyRuntimeError::new_err(chain(this)),
} }

raises! { |this: &copy::Error| match this {
    E::Core(error) => error.raise(),
    E::NotADirectory { path } => system(this, &Errno::NOTDIR.into(), Some(path)),
    E::Room(_) => system(this, &Errno::NOSPC.into(), None),
    _ => plain("InvalidError", chain(this)),
} }

raises! { |this: &ops::copy::Error| match this {
    E::Copy(error) => error.raise(),
    E::Open(error) => error.raise(),
    E::Unpack(error) => error.raise(),
    E::Core(error) => error.raise(),
    E::NotThere { path, .. } => system(this, &Errno::NOENT.into(), Some(path)),
    _ => plain("InvalidError", chain(this)),
} }

raises! { |this: &stook::verify::Error| match this {
    E::Core(error) => error.raise(),
    _ => plain("InvalidError", chain(this)),
} }

raises! { |this: &ops::verify::Error| match this {
    E::Verify(error) => error.raise(),
    E::Open(error) => error.raise(),
    E::Core(error) => error.raise(),
    E::NoList(_) => invalid(format!("{this}; 'lists', 'against' or 'make_lists' is needed")),
    _ => plain("InvalidError", chain(this)),
} }

raises! { |this: &stitch::Error| match this {
    E::Core(error) => error.raise(),
    E::TooLong { .. } | E::TooMuchHeld { .. } => plain("LimitError", chain(this)),
    E::Interrupted => PyRuntimeError::new_err(chain(this)),
    _ => plain("InvalidError", chain(this)),
} }

raises! { |this: &ops::stitch::Error| match this {
    E::Stitch(error) => error.raise(),
    E::Open(error) => error.raise(),
    E::Core(error) => error.raise(),
    E::NoRoom(_) => system(this, &Errno::NOSPC.into(), None),
    _ => plain("InvalidError", chain(this)),
} }

raises! { |this: &ops::repair::Error| match this {
    E::Core(error) => error.raise(),
    E::Pack(error) => error.raise(),
    E::Exists { .. } => plain("ExistsError", chain(this)),
    _ => PyRuntimeError::new_err(chain(this)),
} }

raises! { |this: &SparseError| match this {
    E::NotHeld { gap, .. } => {
        exception("NotHeldError", chain(this), |error| error.setattr("gap", (gap.start(), gap.end())))
    }
    E::Differs { offset, held, .. } => exception("DiffersError", chain(this), |error| {
        error.setattr("offset", offset)?;
        error.setattr("held", held)
    }),
    E::TooFar { .. } | E::Plan(_) | E::Options(_) => plain("InvalidError", chain(this)),
    E::NameTaken { .. } | E::NotOfASource { .. } => plain("ExistsError", chain(this)),
    E::Full => plain("LimitError", chain(this)),
    E::NotASparseFile { .. } | E::Version { .. } => plain("UnsupportedError", chain(this)),
    E::Damaged { offset, what } => exception("DamagedError", chain(this), |error| {
        error.setattr("offset", offset)?;
        error.setattr("what", what)
    }),
    E::Io { source, .. } => system(this, source, None),
    _ => PyRuntimeError::new_err(chain(this)),
} }

raises! { |this: &SparseFileError| match this {
    E::Source(error) => error.raise(),
    E::Cache(error) => error.raise(),
    _ => PyRuntimeError::new_err(chain(this)),
} }
