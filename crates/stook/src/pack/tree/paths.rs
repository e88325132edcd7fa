//! Which keys of a pack are paths of one tree.

use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::{Attributes, FileKind, KIND, Name};
use crate::pack::key::Key;
use crate::pack::state::open::Pack;
use crate::tree::paths;

/// Longest target of a symbolic link, in bytes: Linux takes no longer path.
const TARGET_LEN_MAX: usize = 4095;

/// Keys that are gone through between two questions whether to go on.
const BATCH: usize = 4096;

/// Which keys of a pack are paths of its tree: a key that others lie below is that of a directory.
#[derive(Debug, Default)]
pub struct Paths(paths::Paths);

impl Paths {
    /// Goes through the keys of a pack; `None` where `go_on` ended it by returning `false`.
    ///
    /// # Errors
    /// What reading the index meets. Damage is met again where the records are read.
    pub fn of(pack: &Pack, go_on: &mut dyn FnMut() -> bool) -> Result<Option<Self>> {
        let mut paths = paths::Paths::default();
        for (number, entry) in pack.keys(&[])?.enumerate() {
            if number % BATCH == 0 && !go_on() {
                return Ok(None);
            }
            let key = match entry {
                Ok(entry) => Some(entry.key),
                // What is refused has its place all the same.
                Err(error) => match error.damage() {
                    Some(damage) => damage.key.clone(),
                    None => return Err(error),
                },
            };
            if let Some(path) = key.as_ref().and_then(Key::as_bytes) {
                paths.note(path);
            }
        }
        Ok(Some(Self(paths)))
    }

    /// The path that a key is.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a number, and for what cannot be below the directory where the tree
    /// is.
    pub fn path(key: &Key) -> Result<&[u8]> {
        let Some(path) = key.as_bytes() else {
            return Err(Error::Invalid(format!("{key} is a number, not a path; `stook get` gives it")));
        };
        Self::parts(path).map(|_| path)
    }

    /// The names that a path goes through.
    pub(super) fn parts(path: &[u8]) -> Result<Vec<&std::ffi::OsStr>> {
        paths::parts(path).map_err(Error::Invalid)
    }

    /// Checks that what has a path can be of this kind in the tree.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no directory and has others below it, or has no name.
    pub fn check(&self, path: &[u8], kind: FileKind) -> Result<()> {
        self.0.check(path, kind == FileKind::Directory).map_err(Error::Invalid)
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
