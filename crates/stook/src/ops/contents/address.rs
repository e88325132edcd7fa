//! The given contents: a path, or the address of an object or of a member of one
//! (`s3://bucket/x.tar//KEY`).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::ops::import::is_called_archive;
use crate::source;

/// The place of the given contents.
pub(super) enum Place {
    /// In a file or a directory.
    Path(PathBuf),
    /// On a server.
    Object(PathBuf),
}

/// Where the given contents are: an existing path is taken literally, whatever it looks like.
///
/// # Errors
/// Returns [`Error::Address`](crate::Error::Address) if it is invalid.
pub(super) fn place_of(given: PathBuf) -> Result<Place> {
    if given.as_os_str().is_empty() || given.symlink_metadata().is_ok() {
        return Ok(Place::Path(given));
    }
    let local = source::local_path(&given)?;
    Ok(local.map_or(Place::Object(given), Place::Path))
}

/// Whether the given contents are opened as an object rather than as a path.
pub fn is_object(given: impl AsRef<Path>) -> bool {
    matches!(place_of(given.as_ref().to_path_buf()), Ok(Place::Object(_)))
}

/// Splits an address at two slashes after that of the object, into the address of the object and
/// the key in it; `None` if it is not an address of an object, or that of a whole object.
///
/// Keys in object stores have no two slashes in a row that could be named. On the web they may, so
/// there the address before them must have the name of an archive (`.zip`, `.tar`, …). A query
/// (`?…`) may contain anything: for such an address, the key is given separately.
pub fn split_member(address: impl AsRef<OsStr>) -> Option<(OsString, OsString)> {
    let address = address.as_ref();
    let (scheme, rest) = address.to_str().filter(|_| source::is_remote(address))?.split_once("://")?;
    let (object, key) = rest.split_once("//")?;
    let is_web = ["http", "https"].iter().any(|web| web.eq_ignore_ascii_case(scheme));
    let is_object = !object.is_empty() && !object.contains(['?', '#']);
    if !is_object || is_web && !is_called_archive(Path::new(object)) {
        return None;
    }
    Some((format!("{scheme}://{object}").into(), key.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_told_from_paths() {
        assert!(is_object("s3://bucket/x.tar") && is_object("HTTPS://host/x.zip"));
        let directory = tempfile::tempdir().unwrap();
        let there = directory.path().join("s3://bucket");
        std::fs::create_dir_all(&there).unwrap();
        for path in ["", "x.tar", "file:///x.tar", "ftp://host/x.tar", there.to_str().unwrap()] {
            assert!(!is_object(path), "{path}");
        }
    }

    #[test]
    fn members_are_told_from_objects() {
        for (address, expected) in [
            ("s3://bucket/x.tar//d/a", Some(("s3://bucket/x.tar", "d/a"))),
            ("s3://bucket/x//a//b", Some(("s3://bucket/x", "a//b"))),
            ("HTTPS://host/d/X.ZIP//a?b", Some(("HTTPS://host/d/X.ZIP", "a?b"))),
            ("https://host/x.tar.zst//", Some(("https://host/x.tar.zst", ""))),
            ("https://host/d//a", None),
            ("https://host/x.zip", None),
            ("https://host/x.zip?at=a//b", None),
            ("s3://bucket/x.tar", None),
            ("file:///x.tar//a", None),
            ("ftp://host/x.tar//a", None),
            ("x.tar//a", None),
            ("s3:////a", None),
        ] {
            let expected = expected.map(|(object, key)| (OsString::from(object), OsString::from(key)));
            assert_eq!(split_member(address), expected, "{address}");
        }
    }
}
