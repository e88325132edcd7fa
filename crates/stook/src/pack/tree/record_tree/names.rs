//! What records are called in a tree: their keys, where these are paths; else what shows the key,
//! in the root.

use std::borrow::Cow;

use crate::names::escaped;
use crate::pack::key::{Key, KeyValue};
use crate::tree::parts;

/// The path of a record. A number is called `id:7`; bytes that are no path are `bytes:` and the
/// bytes as they are shown, slashes too as `\x2f`. Both are texts that [`Key::parse`] takes.
pub(super) fn path_of(key: &Key, is_directory: bool) -> Cow<'_, [u8]> {
    match key.as_bytes() {
        Some(path) if is_path(path) || path.is_empty() && is_directory => Cow::Borrowed(path),
        _ => Cow::Owned(shown(key)),
    }
}

/// The key that is no path and yet has this path; `None` where a path is only a path.
pub(super) fn shown_key(path: &[u8]) -> Option<Key> {
    if !(path.starts_with(b"id:") || path.starts_with(b"bytes:")) {
        return None;
    }
    let key = Key::parse(path).ok().filter(|key| !key.as_bytes().is_some_and(is_path))?;
    (shown(&key) == path).then_some(key)
}

/// Whether it leads to something below the root.
fn is_path(bytes: &[u8]) -> bool {
    !bytes.is_empty() && parts::split(bytes).is_ok()
}

fn shown(key: &Key) -> Vec<u8> {
    match key.value() {
        KeyValue::Id(_) => key.to_string().into_bytes(),
        KeyValue::Bytes(bytes) => format!("bytes:{}", escaped(bytes)).replace('/', "\\x2f").into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_path_is_found_again_by_what_it_is_called() {
        let no_paths = [
            Key::id(0),
            Key::id(u64::MAX),
            Key::bytes("").unwrap(),
            Key::bytes("/etc/passwd").unwrap(),
            Key::bytes("a//b").unwrap(),
            Key::bytes("../x").unwrap(),
            Key::bytes(".").unwrap(),
            Key::bytes("a/").unwrap(),
            Key::bytes(b"\\/\0\xff\n").unwrap(),
        ];
        for key in no_paths {
            let path = path_of(&key, false);
            assert!(parts::check_name(&path).is_ok(), "{key}");
            assert_eq!(shown_key(&path), Some(key.clone()), "{key}");
            assert_eq!(Key::parse(&path).unwrap(), key);
        }
        let root = Key::bytes("").unwrap();
        assert_eq!((&*path_of(&root, true), shown_key(b"")), (&b""[..], None));
    }

    #[test]
    fn paths_are_called_as_they_are() {
        for path in [&b"a/b"[..], b"\xff", b"id:x", b"id:07", b"bytes:plain", b"bytes:a/b", b"id:7/x"] {
            let key = Key::bytes(path).unwrap();
            assert_eq!(&*path_of(&key, false), path);
            assert_eq!(shown_key(path), None, "{key}");
        }
        // These could be taken for others.
        for path in [&b"id:7"[..], b"bytes:", b"bytes:..", br"bytes:a\x2f"] {
            let key = Key::bytes(path).unwrap();
            assert_eq!(&*path_of(&key, false), path);
            assert!(shown_key(path).is_some_and(|shown| shown != key), "{key}");
        }
    }
}
