//! Errors of packs, and the one form in which damage is reported.

use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::io::Errno;

use super::key::Key;

/// A result of this capability.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Damaged bytes on the medium.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Damage {
    /// The file: a segment, a manifest, a deletion vector.
    pub file: PathBuf,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// The key of the record it hits, where that is still known.
    pub key: Option<Key>,
    /// What was found and what was expected.
    pub what: String,
    /// The kind of error when opening the file, if that failed; `Unsupported` if a newer version
    /// wrote it.
    pub cause: Option<ErrorKind>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is damaged at offset {}", self.file.display(), self.offset)?;
        if let Some(key) = &self.key {
            write!(f, " (record {key})")?;
        }
        write!(f, ": {}", self.what)
    }
}

impl Damage {
    /// Converts an error of the storage into damage, if it is one: see [`is_unreadable`]. Otherwise
    /// the error is returned unchanged.
    pub(crate) fn of_unreadable(error: crate::Error) -> Result<Self, crate::Error> {
        match error {
            crate::Error::Io { path, offset, source, .. } if is_unreadable_io(&source) => Ok(Self {
                file: path,
                offset: offset.unwrap_or(0),
                key: None,
                what: format!("it cannot be read: {source}"),
                cause: None,
            }),
            crate::Error::NotARegularFile { path, found } => Ok(Self {
                file: path,
                offset: 0,
                key: None,
                what: format!("it is {found}, not a regular file, and was not opened"),
                cause: None,
            }),
            other => Err(other),
        }
    }
}

impl Damage {
    /// The damage that a file of a newer version is to an operation that continues without it.
    pub(crate) fn of_newer(file: PathBuf, what: &str) -> Self {
        let what = format!("it needs a newer version of stook: {what}");
        Self { file, offset: 0, key: None, what, cause: Some(ErrorKind::Unsupported) }
    }

    /// Whether nothing is known to be wrong but that a newer version wrote the file.
    pub fn is_of_newer(&self) -> bool {
        self.cause == Some(ErrorKind::Unsupported)
    }

    /// Whether nothing is known to be wrong but that the file may not be read.
    pub fn is_denied(&self) -> bool {
        self.cause == Some(ErrorKind::PermissionDenied)
    }

    /// Converts the error of opening a file into damage, if the reason lies in that file: the pack
    /// continues without it. Otherwise the error is returned unchanged: a lack of memory or
    /// descriptors says nothing about the file.
    pub(crate) fn of_unopened(error: crate::Error, file: PathBuf) -> Result<Self, crate::Error> {
        let cause = error.io_kind();
        let damage = |what: String| Ok(Self { file, offset: 0, key: None, what, cause });
        match cause {
            Some(ErrorKind::NotFound) => damage("the file is missing".into()),
            Some(ErrorKind::PermissionDenied) => damage(
                "the file cannot be opened: permission denied; run this as a user who may read it".into(),
            ),
            // A directory, a link, a device.
            Some(ErrorKind::InvalidInput) => damage(format!("the file cannot be opened: {error}")),
            _ => match error {
                crate::Error::Io { source, .. } if is_unreadable_io(&source) || is_no_file(&source) => {
                    damage(format!("the file cannot be opened: {source}"))
                }
                other => Err(other),
            },
        }
    }
}

fn is_no_file(error: &std::io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| [Errno::LOOP, Errno::ISDIR, Errno::NXIO, Errno::NODEV].contains(&errno))
}

/// Whether the medium does not return existing bytes: a bad sector, a block whose checksum fails in
/// the file system; or the name is not a file, but a FIFO, a link, a device. That is damage like
/// any other. All other causes (permissions, memory, a lost network) may be temporary, and are
/// errors.
pub(crate) fn is_unreadable(error: &crate::Error) -> bool {
    match error {
        crate::Error::Io { source, .. } => is_unreadable_io(source),
        crate::Error::NotARegularFile { .. } => true,
        _ => false,
    }
}

fn is_unreadable_io(error: &std::io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| {
        [Errno::IO, Errno::BADMSG, Errno::REMOTEIO, Errno::NODATA, Errno::UCLEAN, Errno::ILSEQ]
            .contains(&errno)
    })
}

/// What went wrong with a pack.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The storage or a source below the pack.
    #[error(transparent)]
    Core(#[from] crate::Error),
    /// Reading from or writing to something that is not part of the pack.
    #[error("cannot {operation} {name}")]
    Outside {
        /// A verb that fits.
        operation: &'static str,
        /// Its name: a path, `standard input`.
        name: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// There is no pack at this place.
    #[error("{} is not a pack: {why}", path.display())]
    NotAPack {
        /// The place.
        path: PathBuf,
        /// What is missing.
        why: String,
    },
    /// There is something at this place already.
    #[error("{} is already there: open it, or choose another name", path.display())]
    Exists {
        /// The place.
        path: PathBuf,
    },
    /// Bytes are damaged.
    #[error("{0}; `stook check` lists all damage, and what is whole can still be read")]
    Damaged(Damage),
    /// Written by a newer version, or by something else.
    #[error("{} needs a newer version of stook: {what}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The unknown feature.
        what: String,
    },
    /// Something is larger than the format allows.
    #[error("{what} is {found}; a pack holds at most {limit}")]
    Limit {
        /// What is too large.
        what: &'static str,
        /// How large it is.
        found: u64,
        /// How large it may be.
        limit: u64,
    },
    /// A pack has to be compacted before it can take more.
    #[error("{what} would take {found} bytes, and readers take at most {limit}; run `stook compact` first")]
    Full {
        /// What would be too long.
        what: &'static str,
        /// How long it may get.
        found: u64,
        /// How long it may be.
        limit: u64,
    },
    /// Something a caller gave makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// A body was shorter or longer than was announced.
    #[error("the body of {key} has {found} bytes where {announced} were announced; nothing of it was kept")]
    BodyLength {
        /// The record.
        key: Key,
        /// Length announced.
        announced: u64,
        /// Bytes given.
        found: u64,
    },
    /// A state of a pack that cannot be opened any more, or never was.
    #[error("{} has no {what}", path.display())]
    NoSuchState {
        /// The pack.
        path: PathBuf,
        /// The requested generation or time, and what is available.
        what: String,
    },
    /// A writer is used in a process that was forked from the one that opened it.
    #[error(
        "this writer belongs to process {owner}, of which this process was forked; open the pack again here"
    )]
    Forked {
        /// The process that opened it.
        owner: u32,
    },
    /// An earlier write failed; the state of the medium since then is not known.
    #[error("the writer stopped after an earlier failure; open the pack again to continue from what is safe")]
    Stopped,
    /// A commit that others were part of too failed: whether this record is there is not known
    /// before the pack is opened again.
    #[error(transparent)]
    Commit(Arc<Error>),
}

impl Error {
    /// The same, of the record with this key where it has no key itself.
    pub(crate) fn of_some(self, key: Option<&Key>) -> Self {
        match key {
            Some(key) => self.of(key),
            None => self,
        }
    }

    /// The same of a record that has a key.
    pub(crate) fn of(self, key: &Key) -> Self {
        match self {
            Self::Damaged(damage) if damage.key.is_none() => {
                Self::Damaged(Damage { key: Some(key.clone()), ..damage })
            }
            Self::Core(crate::Error::Damaged { path, offset, what }) => {
                Self::Damaged(Damage { file: path, offset, key: Some(key.clone()), what, cause: None })
            }
            other => other,
        }
    }

    /// An error of opening a file; [`Error::Damaged`] if there is something else under its name.
    pub(crate) fn of_opening(error: crate::Error) -> Self {
        match error {
            crate::Error::NotARegularFile { .. } => {
                Damage::of_unreadable(error).map_or_else(Self::Core, Self::Damaged)
            }
            other => Self::Core(other),
        }
    }

    /// The damage this error reports, if it reports damage.
    pub fn damage(&self) -> Option<&Damage> {
        match self {
            Self::Damaged(damage) => Some(damage),
            Self::Commit(cause) => cause.damage(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(errno: Errno) -> crate::Error {
        crate::Error::io_at("read", "/p/segment", 8192, errno.into())
    }

    #[test]
    fn what_the_medium_does_not_give_back_is_damage_and_nothing_else_is() {
        for errno in [Errno::IO, Errno::BADMSG, Errno::REMOTEIO, Errno::NODATA, Errno::UCLEAN, Errno::ILSEQ] {
            assert!(is_unreadable(&met(errno)));
            let damage = Damage::of_unreadable(met(errno)).unwrap();
            assert_eq!((damage.file, damage.offset), (PathBuf::from("/p/segment"), 8192));
        }
        for errno in [Errno::ACCESS, Errno::NOENT, Errno::NOMEM, Errno::STALE, Errno::TIMEDOUT] {
            assert!(!is_unreadable(&met(errno)));
            assert!(Damage::of_unreadable(met(errno)).is_err());
        }
        for errno in [Errno::IO, Errno::ACCESS, Errno::NOENT, Errno::LOOP, Errno::ISDIR, Errno::INVAL] {
            let file = PathBuf::from("/p/segment");
            let damage = Damage::of_unopened(met(errno), file.clone()).unwrap();
            // The text is for people.
            assert!(!Damage { cause: None, ..damage.clone() }.is_denied());
            assert_eq!((damage.is_denied(), damage.file), (errno == Errno::ACCESS, file));
        }
        for errno in [Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::STALE, Errno::TIMEDOUT] {
            assert!(Damage::of_unopened(met(errno), "/p/segment".into()).is_err());
        }
        let link = || crate::Error::NotARegularFile { path: "/p/segment".into(), found: "a symbolic link" };
        assert!(is_unreadable(&link()));
        assert!(Damage::of_unreadable(link()).unwrap().what.contains("a symbolic link"));
        let short = crate::Error::ShortRead { path: "/p".into(), offset: 0, wanted: 2, got: 1 };
        assert!(!is_unreadable(&short));
    }
}
