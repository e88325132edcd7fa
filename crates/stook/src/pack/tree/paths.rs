//! Which keys of a pack are paths of one tree.

use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::FileKind;
use crate::pack::key::Key;
use crate::tree::target;

/// Looks at keys in their order: each has to be a path, and none may lie below what is not a directory.
#[derive(Debug, Default)]
pub struct Paths {
    /// What is not a directory and may be above what comes next: beginnings of one another.
    above: Vec<Vec<u8>>,
}

impl Paths {
    /// The path that a key is.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a number, and for what could lead out of the directory where the tree is.
    pub fn path(key: &Key) -> Result<&[u8]> {
        let Some(path) = key.as_bytes() else {
            return Err(Error::Invalid(format!("{key} is a number, not a path; `stook get` gives it")));
        };
        Self::parts(path).map(|_| path)
    }

    /// The names that a path goes through.
    pub(super) fn parts(path: &[u8]) -> Result<Vec<&std::ffi::OsStr>> {
        target::parts(path)
            .map_err(|why| Error::Invalid(format!("refused: its path could lead out of the target: {why}")))
    }

    /// The path of the next record, which has a key behind all before.
    ///
    /// # Errors
    /// As [`path`](Self::path), and [`Error::Invalid`] for what lies below a file, or is one and has no name.
    pub fn next<'k>(&mut self, key: &'k Key, kind: FileKind) -> Result<&'k [u8]> {
        let path = Self::path(key)?;
        self.above.retain(|above| path.starts_with(above));
        if let Some(file) = self.above.iter().find(|above| path.get(above.len()) == Some(&b'/')) {
            let file = file.escape_ascii();
            return Err(Error::Invalid(format!("refused: it lies below {file}, which is not a directory")));
        }
        if kind != FileKind::Directory {
            if path.is_empty() {
                return Err(Error::Invalid("the empty path can only be a directory".into()));
            }
            self.above.push(path.to_vec());
        }
        Ok(path)
    }
}
