//! Which names a storage takes, and which it keeps for itself.
//!
//! A storage is one flat directory: a name is one path component. Names that begin with
//! [`TEMPORARY_PREFIX`] belong to [`publish_if_absent`](super::Storage::publish_if_absent): files
//! on their way to a final name. They cannot be made, opened or listed otherwise, so that what a
//! crash leaves of a publication is never taken for data.

use std::io;
use std::path::Path;

use crate::error::{Error, Result};

/// The prefix of the names of files that are not published yet.
pub const TEMPORARY_PREFIX: &str = ".tmp-";

/// The longest name a directory of the usual file systems takes, in bytes.
const NAME_LEN_MAX: usize = 255;

/// Whether a name belongs to a publication under way (or to one that a crash ended).
pub fn is_temporary(name: &str) -> bool {
    name.starts_with(TEMPORARY_PREFIX)
}

/// Refuses names that are not one plain path component, and those reserved for temporary files.
///
/// # Errors
/// Returns [`Error::Io`] of kind `InvalidInput` that says what is wrong with the name.
pub fn check_name(directory: &Path, name: &str) -> Result<()> {
    let fault = if name.is_empty() {
        "the name is empty"
    } else if name == "." || name == ".." {
        "the name is a directory"
    } else if name.contains('/') {
        "a name in a storage is flat and has no '/'"
    } else if name.contains('\0') {
        "the name has a NUL byte"
    } else if name.len() > NAME_LEN_MAX {
        "the name is longer than 255 bytes"
    } else if is_temporary(name) {
        "names that begin with '.tmp-' are kept for files being published"
    } else {
        return Ok(());
    };
    let source = io::Error::new(io::ErrorKind::InvalidInput, fault);
    Err(Error::io("use the name", directory.join(name), source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_pass_and_all_others_are_refused() {
        let directory = Path::new("d");
        let longest = "n".repeat(NAME_LEN_MAX);
        for name in ["a", "segment-1.stk", "..a", ".hidden", longest.as_str()] {
            check_name(directory, name).unwrap();
        }
        let too_long = "n".repeat(NAME_LEN_MAX + 1);
        for name in ["", ".", "..", "a/b", "/a", "a/", "a\0b", ".tmp-1", too_long.as_str()] {
            let error = check_name(directory, name).unwrap_err();
            assert_eq!(error.io_kind(), Some(io::ErrorKind::InvalidInput), "{name:?}");
        }
    }
}
