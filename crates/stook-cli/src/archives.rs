//! Archives given to the commands that treat them apart from packs.

use std::path::Path;

use stook::archive::Archive;
use stook::ops::contents::Opened;

use crate::contents;
use crate::context::Context;
use crate::exit::UsageError;

/// Opens what is no directory as an archive; `None` for what can only be a pack.
///
/// # Errors
/// When it is no archive, or damaged.
pub(crate) fn open(path: &Path, context: &Context) -> anyhow::Result<Option<Archive>> {
    if !std::fs::metadata(path).is_ok_and(|found| !found.is_dir()) {
        return Ok(None);
    }
    Ok(match contents::open(path, None, context)? {
        Opened::Archive(archive) => Some(*archive),
        Opened::Pack(_) => None,
    })
}

/// Refuses options that only packs have.
///
/// # Errors
/// When one was given.
pub(crate) fn without(archive: &Archive, option: &str, is_given: bool) -> Result<(), UsageError> {
    match is_given {
        true => Err(UsageError::new(format!(
            "{option} is for packs, and {} is a {}",
            archive.path().display(),
            archive.format()
        ))),
        false => Ok(()),
    }
}
