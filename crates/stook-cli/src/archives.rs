//! What the commands share when they are given an archive instead of a pack: opening, remarks, members as records.
//!
//! Only remarks are printed here; results are the commands'.

use std::path::Path;

use stook::archive::{Archive, OpenOptions, Origin};
pub use stook::ops::import::{head, kind};

use crate::context::Context;
use crate::exit::UsageError;
use crate::interrupt::{Interrupted, interrupted};
use crate::progress::Unit;

/// Opens what is no directory as an archive, and remarks on its index; `None` for what can only be a pack.
///
/// # Errors
/// When it is no archive, or damaged.
pub fn open(path: &Path, context: &Context) -> anyhow::Result<Option<Archive>> {
    // What is not there is told by whoever looks for a pack.
    if !std::fs::metadata(path).is_ok_and(|found| !found.is_dir()) {
        return Ok(None);
    }
    let len = std::fs::metadata(path).map_or(0, |found| found.len());
    let bar = context.progress("indexing", Unit::Bytes, Some(len));
    let opened = Archive::open_with(path, OpenOptions::default(), &mut |bytes| {
        bar.add(bytes.saturating_sub(bar.done()));
        !interrupted()
    });
    drop(bar);
    let archive = match opened {
        Err(stook::archive::Error::Interrupted) => return Err(Interrupted.into()),
        opened => opened?,
    };
    note_index(&archive, context);
    Ok(Some(archive))
}

/// Notes what is to be said of the index of an archive that was opened.
pub fn note_index(archive: &Archive, context: &Context) {
    let index = archive.index_path();
    if let Origin::Made { useless, not_kept } = archive.origin() {
        if let Some(why) = useless {
            context.note(format_args!("{} was not used, and made anew: {why}.", index.display()));
        }
        if let Some(why) = not_kept {
            context.note(format_args!("The index could not be kept as {}: {why}.", index.display()));
        }
    }
    if !archive.index().summary().has_end {
        context.note(format_args!(
            "{} does not end as a {} does; something may have been cut off.",
            archive.path().display(),
            archive.format()
        ));
    }
}

/// A note for whoever reads single members of what has no random access.
pub fn note_if_sequential(archive: &Archive, context: &Context) {
    if archive.is_sequential() {
        context.note(format_args!(
            "{} is compressed as a whole, so it is read from its front; `stook pack` makes a pack of it.",
            archive.path().display()
        ));
    }
}

/// Refuses options that only packs have.
///
/// # Errors
/// When one was given.
pub fn without(archive: &Archive, option: &str, is_given: bool) -> Result<(), UsageError> {
    match is_given {
        true => Err(UsageError::new(format!(
            "{option} is for packs, and {} is a {}",
            archive.path().display(),
            archive.format()
        ))),
        false => Ok(()),
    }
}
