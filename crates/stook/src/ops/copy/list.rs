//! Lists of the paths that are copied.

use std::collections::BTreeSet;
use std::io::BufRead;
use std::path::Path;

use super::{Error, Result};
use crate::names::{ListEnd, NameList, escaped};

/// The longest path of a list, in bytes: many times what a system call takes.
const PATH_LEN_MAX: u64 = 1 << 20;

/// Reads the paths, relative to the sources, that are to be copied, as
/// [`CopyOptions::only`](crate::copy::CopyOptions::only) has them; `None` where the list names the
/// sources themselves (`.`), and so all that is in them. `shown` names the list in errors.
///
/// # Errors
/// I/O errors; [`Error::EmptyList`]; [`Error::List`] for paths that are absolute or lead out of a
/// source.
pub fn read_list(from: impl BufRead, end: ListEnd, shown: &Path) -> Result<Option<BTreeSet<Vec<u8>>>> {
    let mut list = NameList::new(from, end, PATH_LEN_MAX);
    let (mut paths, mut has_all) = (BTreeSet::new(), false);
    loop {
        let written = list.next_written().map_err(|error| crate::Error::io("read", shown, error))?;
        let Some(written) = written else { break };
        let refused = |why: String| Error::List { path: shown.to_path_buf(), number: list.number(), why };
        let name = end
            .name(written)
            .map_err(|error| refused(format!("{error}. Between zero bytes (`-0`) paths are as they are")))?;
        match parts_of(&name) {
            Ok(path) if path.is_empty() => has_all = true,
            Ok(path) => _ = paths.insert(path),
            Err(why) => return Err(refused(format!("{} {why}", escaped(&name)))),
        }
    }
    if paths.is_empty() && !has_all {
        return Err(Error::EmptyList { path: shown.to_path_buf() });
    }
    Ok((!has_all).then_some(paths))
}

/// A path without empty parts and parts that are `.`.
fn parts_of(path: &[u8]) -> std::result::Result<Vec<u8>, &'static str> {
    if path.starts_with(b"/") {
        return Err("is absolute, and paths of a list are relative to what is copied");
    }
    let parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    let parts: Vec<&[u8]> = parts.collect();
    match parts.contains(&&b".."[..]) {
        true => Err("would lead out of what is copied"),
        false => Ok(parts.join(&b'/')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], end: ListEnd) -> std::result::Result<Option<Vec<Vec<u8>>>, String> {
        let list = read_list(text, end, Path::new("list"));
        list.map(|paths| paths.map(|paths| paths.into_iter().collect())).map_err(|error| error.to_string())
    }

    #[test]
    fn paths_are_relative_however_they_are_written() {
        let paths = |all: &[&[u8]]| Ok(Some(all.iter().map(|path| path.to_vec()).collect()));
        assert_eq!(read(b"./d//e/\n\na b\n", ListEnd::Line), paths(&[b"a b", b"d/e"]));
        assert_eq!(read(b"a\\x0ab\n", ListEnd::Line), paths(&[b"a\nb"]));
        assert_eq!(read(b"a\nb\\\0.hidden\0...\0", ListEnd::Nul), paths(&[b"...", b".hidden", b"a\nb\\"]));
        for all in [&b".\n"[..], b"a\n./\n"] {
            assert_eq!(read(all, ListEnd::Line), Ok(None), "{all:?}");
        }
    }

    #[test]
    fn a_path_that_leads_elsewhere_is_refused_with_its_line() {
        for (text, why) in [
            (&b"a\n/etc\n"[..], "list, line 2: /etc is absolute"),
            (&b"../x"[..], "list, line 1: ../x would lead out"),
            (&b"a/../b"[..], "list, line 1: a/../b would lead out"),
            (&b"a\\b"[..], "list, line 1: the backslash at byte 1 of a\\b begins no escape"),
        ] {
            let error = read(text, ListEnd::Line).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
        assert_eq!(read(b"\n\n", ListEnd::Line).unwrap_err(), "list has no path: nothing was asked for");
    }
}
