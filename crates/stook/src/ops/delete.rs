//! Records of a pack deleted together: all of them, or none.

use super::contents::Selected;
use crate::pack::{self, PackWriter};

/// Deletes what is selected, in one batch: a crash leaves all of it, or nothing. Further names
/// (hard links) go first, so that content is not moved to a name that goes as well. `progress` is
/// called with how many records are deleted so far; when it returns `false`, nothing is, and so
/// does this.
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
