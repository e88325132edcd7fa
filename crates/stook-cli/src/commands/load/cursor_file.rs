//! The file in which a load keeps where it is. It holds one line: the text of a cursor.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use stook::pack::Cursor;
use stook::tree::Draft;

use crate::interrupt::interrupted;

/// Longer than any cursor: two keys as hexadecimal digits, and every name of a group.
const LEN_MAX: u64 = 64 << 20;

/// Opening a pipe does not wait for its other end.
const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits() as i32;

/// The cursor in a file; `None` when there is no file.
///
/// # Errors
/// Returns an error if it cannot be read, or contains something else.
pub(super) fn read(path: &Path) -> anyhow::Result<Option<Cursor>> {
    let file = match fs::OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| stook::Error::io("open", path, error))?,
    };
    let metadata = file.metadata();
    let metadata = metadata.map_err(|error| stook::Error::io("get the metadata of", path, error))?;
    if !metadata.is_file() || metadata.len() > LEN_MAX {
        anyhow::bail!("{} is no cursor of a load", path.display());
    }
    let is_none = || format!("{} is no cursor of a load", path.display());
    let mut text = String::new();
    match file.take(LEN_MAX).read_to_string(&mut text) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error).with_context(is_none),
        read => read.map_err(|error| stook::Error::io("read", path, error))?,
    };
    let cursor = text.trim_end().parse().with_context(is_none)?;
    Ok(Some(cursor))
}

/// Writes it so that after a crash the file is the old one or the new one.
///
/// # Errors
/// Returns an error if it cannot be written, synced or renamed.
pub(super) fn write(path: &Path, cursor: &Cursor) -> Result<(), stook::Error> {
    // Regular files only are read as one, and none of those keeps anybody waiting.
    let mut draft = Draft::named(path, &mut || !interrupted())?;
    draft.write(format!("{cursor}\n").as_bytes())?;
    draft.finish()
}
