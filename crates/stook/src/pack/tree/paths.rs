//! Which keys of a pack are paths of one tree.

use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::{Attributes, FileKind, KIND, Name};
use crate::pack::key::Key;
use crate::tree::target;

/// Longest target of a symbolic link, in bytes: Linux takes no longer path.
const TARGET_LEN_MAX: usize = 4095;

/// Looks at keys in their order: each has to be a path, and none may lie below what is not a
/// directory.
#[derive(Debug, Default)]
pub struct Paths {
    /// What is not a directory and may be above what comes next: beginnings of one another.
    above: Vec<Vec<u8>>,
}

impl Paths {
    /// The path that a key is.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a number, and for what could lead out of the directory where the tree
    /// is.
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
    /// As [`path`](Self::path), and [`Error::Invalid`] for what lies below a file, or is one and
    /// has no name.
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

/// What a record is in a tree. One that was put by hand is a file.
///
/// # Errors
/// [`Error::Invalid`] for a kind that this version cannot make.
pub fn kind_of(attributes: &Attributes) -> Result<FileKind> {
    match attributes.get(&Name::Id(KIND)) {
        None => Ok(FileKind::File),
        Some(_) => attributes
            .file_kind()
            .ok_or_else(|| Error::Invalid("a kind of file that this version cannot make".into())),
    }
}

/// What a symbolic link leads to, as its record has it.
///
/// # Errors
/// [`Error::Invalid`] for what no symbolic link can lead to.
pub fn symlink_target(body: &[u8]) -> Result<&[u8]> {
    let why = match body {
        [] => "a symbolic link to nothing",
        _ if body.contains(&0) => "what the symbolic link leads to has a zero byte",
        _ if body.len() > TARGET_LEN_MAX => "what the symbolic link leads to is too long",
        _ => return Ok(body),
    };
    Err(Error::Invalid(why.into()))
}
