//! The given contents: a path, or the address of an object or of a member of one
//! (`s3://bucket/x.tar//KEY`).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::ops::import::is_called_archive;
use crate::source;
use crate::stitch::is_layout_file;

/// How names of packs end.
const SUFFIX: &[u8] = b".stook";

/// Where what was given is.
pub(crate) enum Place {
    /// In a file or a directory.
    Path(PathBuf),
    /// On a server.
    Object(PathBuf),
}

/// Where the given contents are: an existing path is taken literally, whatever it looks like.
///
/// # Errors
/// Returns [`Error::Address`](crate::Error::Address) if it is invalid.
pub(crate) fn place_of(given: PathBuf) -> Result<Place> {
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

/// Whether the given contents are a path, whether something is there or not.
pub fn is_on_disk(given: impl AsRef<Path>) -> bool {
    matches!(place_of(given.as_ref().to_path_buf()), Ok(Place::Path(_)))
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

/// A layout and a file of it in one path, with two slashes between them; `None` where no layout
/// stands before any.
pub fn file_of_layout(path: &Path) -> Option<(PathBuf, Vec<u8>)> {
    let bytes = path.as_os_str().as_bytes();
    let places = bytes.windows(2).enumerate().filter(|(at, pair)| *at > 0 && *pair == b"//");
    let split = |(at, _): (usize, &[u8])| {
        let layout = Path::new(OsStr::from_bytes(bytes.get(..at)?));
        let file = trimmed(bytes.get(at..)?);
        let is_one = !file.is_empty() && is_layout_file(layout).unwrap_or(false);
        is_one.then(|| (layout.to_path_buf(), file.to_vec()))
    };
    places.filter_map(split).next()
}

/// A pack and a key in one path, as it is written by those who join and normalise paths; an empty
/// key where the pack itself is meant. Two slashes stand between them, or one where the name of the
/// pack ends in `.stook`; where that may be at several places, what is a pack decides. Where
/// nothing marks a key, the nearest directory that is there may be a pack.
pub fn split_pack_path(path: &OsStr) -> (&OsStr, &OsStr) {
    let bytes = path.as_bytes();
    let mut places: Vec<(&[u8], &[u8])> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let (before, rest) = bytes.split_at(at);
        let len = match rest {
            [b'/', b'/', ..] => 2,
            [b'/', ..] if before.ends_with(SUFFIX) => 1,
            _ => 0,
        };
        if let Some(key) = rest.get(len..).filter(|_| len > 0 && at > 0) {
            places.push((before, trimmed(key)));
        }
        at += len.max(1);
    }
    if bytes.ends_with(SUFFIX) {
        places.push((bytes, b""));
    }
    let is_named = |place: &&(&[u8], &[u8])| place.0.ends_with(SUFFIX);
    let is_alone = |place: &&(&[u8], &[u8])| {
        places.len() == 1
            || is_named(place) && bytes.get(place.0.len()..).is_some_and(|key| key.starts_with(b"//"))
    };
    let there = || places.iter().find(|place| has_pack(Path::new(OsStr::from_bytes(place.0))));
    let first = places.first();
    let found = first.filter(is_alone).or_else(there).or_else(|| places.iter().find(is_named)).or(first);
    let (pack, key) = found.copied().unwrap_or_else(|| split_unmarked(bytes));
    (OsStr::from_bytes(pack), OsStr::from_bytes(key))
}

/// The same where nothing marks a key. Directories are in no pack, so none above the nearest can be
/// meant.
fn split_unmarked(path: &[u8]) -> (&[u8], &[u8]) {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let stripped = path.get(..end).unwrap_or_default();
    let nearest = Path::new(OsStr::from_bytes(stripped)).ancestors().find(|above| above.is_dir());
    let nearest = nearest.filter(|above| has_pack(above)).map(|above| above.as_os_str().as_bytes());
    match nearest.and_then(|pack| path.split_at_checked(pack.len())) {
        Some((pack, key)) => (pack, trimmed(key)),
        None => (path, b""),
    }
}

fn trimmed(key: &[u8]) -> &[u8] {
    let start = key.iter().position(|&byte| byte != b'/').unwrap_or(key.len());
    let end = key.iter().rposition(|&byte| byte != b'/').map_or(start, |last| last + 1);
    key.get(start..end).unwrap_or_default()
}

/// Whether there are files of a pack in a directory, however damaged it is.
pub fn has_pack(directory: &Path) -> bool {
    let is_of_pack = |name: OsString| {
        let name = name.as_bytes();
        name.starts_with(b"manifest-") || name.starts_with(b"segment-")
    };
    let entries = directory.read_dir();
    entries
        .is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(|entry| is_of_pack(entry.file_name()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_are_split_from_keys() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().to_str().unwrap();
        std::fs::create_dir_all(format!("{root}/d.stook/b.stook/bare")).unwrap();
        for (path, expected) in [
            ("data.stook//a/b", ("data.stook", "a/b")),
            ("data.stook//a//b", ("data.stook", "a//b")),
            ("data.stook/a", ("data.stook", "a")),
            ("data//a/", ("data", "a")),
            ("data.stook", ("data.stook", "")),
            ("data.stook//", ("data.stook", "")),
            ("data", ("data", "")),
            ("", ("", "")),
            ("//a", ("//a", "")),
            // Nothing is there: the first of several names.
            ("a.stook/b.stook/c", ("a.stook", "b.stook/c")),
        ] {
            let (pack, key) = split_pack_path(OsStr::new(path));
            assert_eq!((pack.to_str().unwrap(), key.to_str().unwrap()), expected, "{path}");
        }
        let pack = format!("{root}/d.stook/b.stook");
        std::fs::write(format!("{pack}/manifest-0000000000000001"), "").unwrap();
        std::fs::write(format!("{pack}/bare/manifest-0000000000000001"), "").unwrap();
        for path in [format!("{pack}/k/e/y"), format!("{pack}//k/e/y")] {
            let (found, key) = split_pack_path(OsStr::new(&path));
            assert_eq!((found, key), (OsStr::new(&pack), OsStr::new("k/e/y")), "{path}");
        }
    }

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
