//! Decoding.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde::Deserialize;

use super::{KEY, LayoutFault, LayoutFile, LayoutPiece, PATH_LEN_MAX, PathPiece, VERSION};
use crate::format::relative;

/// Characters of a bad name that an error shows.
const SHOWN_MAX: usize = 80;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLayout {
    #[serde(rename = "stook-layout")]
    _version: u32,
    #[serde(default)]
    file: Vec<RawFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    name: String,
    #[serde(default)]
    pieces: Vec<RawPiece>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawPiece {
    path: Option<String>,
    file: Option<String>,
    text: Option<String>,
    base64: Option<String>,
    fill: Option<u8>,
    offset: Option<u64>,
    length: Option<u64>,
    size: Option<u64>,
    mtime_ns: Option<i64>,
}

/// Whether something that begins with these bytes is meant to be a layout, of whatever version.
pub fn is_layout(first: &[u8]) -> bool {
    version_of(first).is_some()
}

/// What follows the name of the version.
fn version_of(first: &[u8]) -> Option<&[u8]> {
    let rest = first.strip_prefix(KEY.as_bytes())?.trim_ascii_start();
    rest.strip_prefix(b"=").map(<[u8]>::trim_ascii_start)
}

/// Decodes a layout.
///
/// # Errors
/// Returns an error if it is none, of another version, or not what a layout may be.
pub fn decode(text: &[u8]) -> Result<Vec<LayoutFile>, LayoutFault> {
    let rest = version_of(text).ok_or(LayoutFault::NotOne)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let digits = rest.get(..digits).and_then(|digits| std::str::from_utf8(digits).ok());
    let version: u64 = digits.and_then(|digits| digits.parse().ok()).ok_or(LayoutFault::NotOne)?;
    if version != u64::from(VERSION) {
        return Err(LayoutFault::Version(version));
    }
    let line_of = |at: usize| {
        let before = text.get(..at).unwrap_or(text);
        before.iter().filter(|byte| **byte == b'\n').count().saturating_add(1)
    };
    let text = std::str::from_utf8(text).map_err(|error| LayoutFault::Syntax {
        line: line_of(error.valid_up_to()),
        what: "it is not UTF-8".to_owned(),
    })?;
    let raw: RawLayout = toml::from_str(text).map_err(|error| LayoutFault::Syntax {
        line: line_of(error.span().map_or(0, |span| span.start)),
        what: error.message().trim().replace('\n', " "),
    })?;
    let files = raw.file.into_iter().map(file).collect::<Result<Vec<_>, _>>()?;
    check_names(&files)?;
    Ok(files)
}

/// A path without empty parts and parts `.`.
fn path_of(path: &str) -> Result<String, String> {
    if path.len() > PATH_LEN_MAX {
        return Err("it is longer than 4,096 bytes".to_owned());
    }
    let path = relative(path.as_bytes()).map_err(|fault| fault.to_string())?;
    // Nothing but whole parts was taken away.
    String::from_utf8(path).map_err(|error| error.to_string())
}

/// Whether files can have these names side by side.
fn check_names(files: &[LayoutFile]) -> Result<(), LayoutFault> {
    let fault = |name: &str, what: &str| LayoutFault::File { name: name.to_owned(), what: what.to_owned() };
    let mut names = BTreeSet::new();
    for LayoutFile { name, .. } in files {
        if !names.insert(name.as_str()) {
            return Err(fault(name, "two files have this name"));
        }
    }
    for name in &names {
        let mut above = name.rsplit_once('/');
        while let Some((directory, _)) = above {
            if names.contains(directory) {
                let what = format!("{directory:?} is a file, too, so it cannot be a directory");
                return Err(fault(name, &what));
            }
            above = directory.rsplit_once('/');
        }
    }
    Ok(())
}

fn file(raw: RawFile) -> Result<LayoutFile, LayoutFault> {
    let name = path_of(&raw.name).map_err(|what| {
        let name = raw.name.chars().take(SHOWN_MAX).collect();
        LayoutFault::File { name, what }
    })?;
    let fault = |(at, what): (usize, String)| LayoutFault::Piece {
        name: name.clone(),
        piece: at.saturating_add(1),
        what,
    };
    let pieces = raw.pieces.into_iter().enumerate().map(|(at, raw)| piece(raw).map_err(|what| (at, what)));
    let pieces = pieces.collect::<Result<Vec<_>, _>>().map_err(fault)?;
    Ok(LayoutFile { name, pieces })
}

fn piece(raw: RawPiece) -> Result<LayoutPiece, String> {
    let RawPiece { path, file, text, base64, fill, offset, length, size, mtime_ns } = raw;
    let is_cut = offset.is_some() || length.is_some();
    let is_known = size.is_some() || mtime_ns.is_some();
    if let (Some(start), Some(len)) = (offset, length)
        && start.checked_add(len).is_none_or(|end| i64::try_from(end).is_err())
    {
        return Err(format!("{len} bytes from {start} on end past 2^63 - 1"));
    }
    match (path, file, text, base64, fill) {
        (Some(path), None, None, None, None) => {
            let path = path_of(&path).map_err(|what| format!("`path`: {what}"))?;
            Ok(LayoutPiece::Path(PathPiece { path, offset: offset.unwrap_or(0), length, size, mtime_ns }))
        }
        _ if is_known => Err("`size` and `mtime_ns` are of a `path`".to_owned()),
        (None, Some(name), None, None, None) => {
            let name = path_of(&name).map_err(|what| format!("`file`: {what}"))?;
            Ok(LayoutPiece::File { name, offset: offset.unwrap_or(0), length })
        }
        (None, None, None, None, Some(byte)) => match (offset, length) {
            (None, Some(length)) => Ok(LayoutPiece::Fill { byte, length }),
            _ => Err("`fill` needs a `length`, and has no `offset`".to_owned()),
        },
        (None, None, Some(_), None, None) | (None, None, None, Some(_), None) if is_cut => {
            Err("bytes that stand here have no `offset` and no `length`".to_owned())
        }
        (None, None, Some(text), None, None) => Ok(LayoutPiece::Bytes(Bytes::from(text))),
        (None, None, None, Some(digits), None) => {
            let bytes = BASE64_STANDARD.decode(digits).map_err(|error| format!("`base64`: {error}"))?;
            Ok(LayoutPiece::Bytes(Bytes::from(bytes)))
        }
        _ => Err("it needs one of `path`, `file`, `text`, `base64` and `fill`".to_owned()),
    }
}
