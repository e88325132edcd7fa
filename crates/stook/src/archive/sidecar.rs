//! The index beside an archive: read when it is of this archive, published when it was rebuilt.

use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::error::Result;
use super::format::Format;
use super::index::Index;
use crate::engine::{Access, EngineFactory, File};
use crate::error::Error as CoreError;
use crate::extent::ByteRange;
use crate::source::{FileSource, Identity, Source, read_range};
use crate::tree::{Folder, Refused};

/// What follows the name of the archive in the name of its index.
pub const SUFFIX: &str = ".stook-index";

/// Where the index of an archive is.
pub(crate) fn path_of(archive: &Path) -> PathBuf {
    let mut name = archive.as_os_str().to_os_string();
    name.push(SUFFIX);
    PathBuf::from(name)
}

/// The index found beside an archive.
#[derive(Debug)]
pub(super) enum Found {
    /// Its index.
    Index(Index),
    /// Nothing.
    Nothing,
    /// Something that is not to be used, and why.
    Useless(String),
}

/// Looks for the index of an archive.
pub(super) fn look(
    archive: &Path,
    format: Format,
    identity: &Identity,
    max_bytes: u64,
    engines: &dyn EngineFactory,
) -> Found {
    let path = path_of(archive);
    match read(&path, archive, max_bytes, engines) {
        Ok(None) => Found::Nothing,
        // If it cannot be read for any reason, the archive itself still can.
        Err(error) => Found::Useless(with_cause(&error)),
        Ok(Some(bytes)) => match Index::decode(bytes) {
            Err(fault) => Found::Useless(format!("at offset {}: {}", fault.offset, fault.what)),
            Ok(index) if index.summary().format != format => {
                Found::Useless(format!("it is of a {}, not of a {format}", index.summary().format))
            }
            Ok(index) if index.summary().identity != without_device(identity) => {
                Found::Useless("the archive has changed since it was made".into())
            }
            Ok(index) => Found::Index(index),
        },
    }
}

/// Device numbers may change whenever a machine starts.
pub(super) fn without_device(identity: &Identity) -> Identity {
    Identity { device: 0, ..identity.clone() }
}

/// Reads the index beside an archive. A foreign index could misrepresent the archive: only one of
/// the archive's owner, of the user, or of root is trusted, and no link is followed.
fn read(
    path: &Path,
    archive: &Path,
    max_bytes: u64,
    engines: &dyn EngineFactory,
) -> Result<Option<bytes::Bytes>, CoreError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = match rustix::fs::open(path, flags, Mode::empty()) {
        // A name that is too long is reported when it cannot be published.
        Err(Errno::NOENT | Errno::NAMETOOLONG) => return Ok(None),
        opened => opened.map(std::fs::File::from),
    };
    let io = |error| CoreError::io("read", path, error);
    let refused = |kind, why: &str| Err(io(std::io::Error::new(kind, why.to_owned())));
    let opened = match opened {
        Err(Errno::LOOP) => return refused(ErrorKind::InvalidInput, "it is a link"),
        opened => opened.map_err(|errno| io(errno.into()))?,
    };
    let found = opened.metadata().map_err(io)?;
    if !found.is_file() {
        return refused(ErrorKind::InvalidInput, "it is no regular file");
    }
    let owner = std::fs::metadata(archive).map_err(io)?.uid();
    if ![0, owner, rustix::process::geteuid().as_raw()].contains(&found.uid()) {
        return refused(ErrorKind::PermissionDenied, "it belongs to somebody else");
    }
    let source = FileSource::new(Arc::new(File::from_std(opened, path, false)))?;
    if source.len() > max_bytes {
        return refused(ErrorKind::FileTooLarge, "it is longer than an index may be");
    }
    read_range(engines, &source, ByteRange::to(source.len()), Access::Cached).map(Some)
}

/// Writes an index beside its archive, replacing any other, with the read permissions of the
/// archive, because it contains the names of its members.
///
/// # Errors
/// Returns why it is not available, for people.
pub(super) fn publish(archive: &Path, index: &Index) -> Result<(), String> {
    let path = path_of(archive);
    let name = path.file_name().ok_or("the archive has no name")?;
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let put = || -> Result<(), Refused> {
        let found = std::fs::metadata(archive).map_err(|error| CoreError::io("look at", archive, error))?;
        let mut draft = Folder::open(folder)?.file(name.as_bytes())?;
        draft.set_mode(found.mode() & 0o666)?;
        draft.write(index.bytes())?;
        Ok(draft.sync_and_finish()?)
    };
    put().map_err(|error| with_cause(&error))
}

/// An error and its cause.
fn with_cause(error: &dyn std::error::Error) -> String {
    let cause = error.source().map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}
