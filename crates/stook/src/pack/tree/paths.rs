//! Which keys of a pack are paths of one tree.

use std::collections::HashSet;

use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::{Attributes, FileKind, KIND, Name};
use crate::pack::key::Key;
use crate::pack::state::open::Pack;
use crate::tree::target;

/// Longest target of a symbolic link, in bytes: Linux takes no longer path.
const TARGET_LEN_MAX: usize = 4095;

/// Keys that are gone through between two questions whether to go on.
const BATCH: usize = 4096;

/// Which keys of a pack are paths of its tree. A key that others lie below is that of a directory,
/// as in every [`NodeTable`](crate::tree::NodeTable): where its record is something else, that
/// record has no place.
#[derive(Debug, Default)]
pub struct Paths {
    /// The keys that others lie below.
    parents: HashSet<Vec<u8>>,
}

/// A key that may be above those that come next, and whether it was above one.
struct Above {
    path: Vec<u8>,
    is_parent: bool,
}

impl Paths {
    /// Goes through the keys of a pack; `None` where `go_on` ended it by returning `false`.
    ///
    /// # Errors
    /// What reading the index meets. Damage is met again where the records are read.
    pub fn of(pack: &Pack, go_on: &mut dyn FnMut() -> bool) -> Result<Option<Self>> {
        let (mut paths, mut above) = (Self::default(), Vec::new());
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
            if let Some(path) = key.as_ref().and_then(|key| Self::path(key).ok()) {
                paths.note(path, &mut above);
            }
        }
        Ok(Some(paths))
    }

    /// Notes the next path in the order of keys. Those above it are beginnings of one another, with
    /// others between: `x` and `x-` come before `x/y`.
    fn note(&mut self, path: &[u8], above: &mut Vec<Above>) {
        above.retain(|above| path.starts_with(&above.path));
        for above in above.iter_mut() {
            if !above.is_parent && path.get(above.path.len()) == Some(&b'/') {
                above.is_parent = true;
                self.parents.insert(above.path.clone());
            }
        }
        above.push(Above { path: path.to_vec(), is_parent: false });
    }

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

    /// Checks that what has a path can be of this kind in the tree.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no directory and has others below it, or has no name.
    pub fn check(&self, path: &[u8], kind: FileKind) -> Result<()> {
        let why = match kind {
            FileKind::Directory => return Ok(()),
            _ if path.is_empty() => "the empty path can only be a directory",
            _ if self.parents.contains(path) => {
                "refused: the keys of others lie below it, so that it can only be a directory; \
                 `stook get` gives it"
            }
            _ => return Ok(()),
        };
        Err(Error::Invalid(why.into()))
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
