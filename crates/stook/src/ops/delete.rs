//! Records of a pack deleted together: all of them, or none.

use super::contents::Selected;
use crate::pack::{self, PackWriter};

/// Deletes the selected records in one batch: a crash leaves all of them, or none. Hard links (hard
/// links) are deleted first, so that content is not moved to a name that is deleted as well.
/// `progress` is called with the number of records deleted so far; if it returns `false`, nothing
/// is deleted, and this returns `false`.
///
/// # Errors
/// Returns the errors of [`PackWriter::batch`], and of the operations of the batch.
pub fn delete(
    writer: &mut PackWriter,
    selected: &Selected,
    progress: &mut dyn FnMut(u64) -> bool,
) -> pack::Result<bool> {
    if selected.keys().is_empty() {
        return Ok(true);
    }
    let mut batch = writer.batch(selected.group())?;
    if batch.delete_all(selected.keys(), progress)?.is_none() {
        return Ok(false);
    }
    batch.commit()?;
    Ok(true)
}
