//! The index beside an archive: read when it is of this archive, published when it was made anew.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::Result;
use super::format::Format;
use super::index::Index;
use crate::engine::{Access, EngineFactory};
use crate::error::Error as CoreError;
use crate::extent::ByteRange;
use crate::source::{FileSource, Identity, Source, read_range};
use crate::storage::{LocalStorage, LocalStorageOptions, Storage};

/// What the name of an index has behind that of its archive.
pub const SUFFIX: &str = ".stook-index";

/// Where the index of an archive is.
pub(super) fn path_of(archive: &Path) -> PathBuf {
    let mut name = archive.as_os_str().to_os_string();
    name.push(SUFFIX);
    PathBuf::from(name)
}

/// What was found beside an archive.
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
    match read(&path, max_bytes, engines) {
        Ok(None) => Found::Nothing,
        // Whatever keeps it from being read, the archive itself still can be.
        Err(error) => Found::Useless(error.to_string()),
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

fn read(path: &Path, max_bytes: u64, engines: &dyn EngineFactory) -> Result<Option<bytes::Bytes>, CoreError> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            let source = std::io::Error::new(ErrorKind::InvalidInput, "it is no regular file");
            return Err(CoreError::io("read", path, source));
        }
        // A name that is too long is told when it cannot be published.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidFilename) => {
            return Ok(None);
        }
        _ => {}
    }
    let source = FileSource::open(path)?;
    if source.len() > max_bytes {
        let source = std::io::Error::new(ErrorKind::FileTooLarge, "it is longer than an index may be");
        return Err(CoreError::io("read", path, source));
    }
    read_range(engines, &source, ByteRange::to(source.len()), Access::Cached).map(Some)
}

/// Puts an index beside its archive, in place of any other.
///
/// # Errors
/// What keeps it from being there, for people to read.
pub(super) fn publish(archive: &Path, index: &Index, engines: &Arc<dyn EngineFactory>) -> Result<(), String> {
    let path = path_of(archive);
    let name = path.file_name().and_then(|name| name.to_str()).ok_or("its name would not be UTF-8")?;
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let told = |error: CoreError| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        format!("{error}{}", cause.unwrap_or_default())
    };
    let options = LocalStorageOptions { engine: engines.clone(), ..LocalStorageOptions::default() };
    let storage = LocalStorage::open(folder, options).map_err(told)?;
    match storage.unlink(name) {
        Err(error) if error.io_kind() != Some(ErrorKind::NotFound) => return Err(told(error)),
        _ => {}
    }
    match storage.publish_if_absent(name, index.bytes()) {
        // Somebody else was a moment faster.
        Ok(()) | Err(CoreError::AlreadyExists { .. }) => Ok(()),
        Err(error) => Err(told(error)),
    }
}
