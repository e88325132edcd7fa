//! What is known of records without their bodies, by key and by directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use crate::pack::{self, FileKind, Key, KeyEntry, Pack, RecordHead};

/// Heads of a batch; callers are asked whether to go on between batches.
const BATCH: usize = 4096;

/// A result of listing.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a directory cannot be listed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pack, or what is below it.
    #[error(transparent)]
    Pack(#[from] pack::Error),
    /// There is none.
    #[error("the pack has no such directory")]
    NotFound {
        /// Its key.
        path: PathBuf,
    },
    /// It is a file or a link.
    #[error("this is no directory of the pack")]
    NotADirectory {
        /// Its key.
        path: PathBuf,
    },
}

/// A child of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChildHead {
    /// A directory that keys lie below, whatever its record says.
    Directory(Key),
    /// What is a record, an empty directory among them.
    Record(RecordHead),
}

/// The heads of the records with these keys, in their order; of hard links to a file with the
/// length of the file. `None` where there is no such record.
///
/// # Errors
/// Errors of reading, damage included; [`pack::Error::Stopped`] where `go_on` returns `false`.
pub fn heads_by_key(
    pack: &Pack,
    keys: &[Key],
    go_on: &mut dyn FnMut() -> bool,
) -> pack::Result<Vec<Option<RecordHead>>> {
    let mut all = Vec::with_capacity(keys.len());
    for batch in keys.chunks(BATCH) {
        let entries: Vec<Option<KeyEntry>> = pack.locate(batch)?.into_iter().collect::<pack::Result<_>>()?;
        let known: Vec<KeyEntry> = entries.iter().flatten().cloned().collect();
        let mut heads = heads_of(pack, &known, go_on)?.into_iter();
        all.extend(entries.into_iter().map(|entry| entry.and_then(|_| heads.next())));
    }
    Ok(all)
}

/// What lies directly below a directory, in the order of the keys.
///
/// # Errors
/// [`Error::NotFound`], [`Error::NotADirectory`]; else as [`heads_by_key`].
pub fn list_directory(
    pack: &Pack,
    directory: &[u8],
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Vec<ChildHead>> {
    let path = directory.strip_suffix(b"/").unwrap_or(directory);
    let children = pack.children(path)?;
    if children.is_empty() && !path.is_empty() {
        check_empty(pack, path, go_on)?;
    }
    let is_below = |child: &pack::Child| child.has_children || child.entry.is_none();
    let files = children.iter().filter(|child| !is_below(child)).filter_map(|child| child.entry.clone());
    let mut heads = heads_of(pack, &files.collect::<Vec<_>>(), go_on)?.into_iter();
    let of = |child: pack::Child| match is_below(&child) {
        true => Some(ChildHead::Directory(child.key)),
        false => heads.next().map(ChildHead::Record),
    };
    Ok(children.into_iter().filter_map(of).collect())
}

fn heads_of(
    pack: &Pack,
    entries: &[KeyEntry],
    go_on: &mut dyn FnMut() -> bool,
) -> pack::Result<Vec<RecordHead>> {
    let mut all = Vec::with_capacity(entries.len());
    for batch in entries.chunks(BATCH) {
        if !go_on() {
            return Err(pack::Error::Stopped);
        }
        for head in pack.file_heads(batch)? {
            all.push(head?);
        }
    }
    Ok(all)
}

/// Checks that a path without children is an empty directory.
fn check_empty(pack: &Pack, path: &[u8], go_on: &mut dyn FnMut() -> bool) -> Result<()> {
    let head = heads_by_key(pack, &[Key::bytes(path)?], go_on)?.pop().flatten();
    let path = PathBuf::from(OsStr::from_bytes(path));
    match head.map(|head| head.attributes.file_kind()) {
        Some(Some(FileKind::Directory)) => Ok(()),
        Some(_) => Err(Error::NotADirectory { path }),
        None => Err(Error::NotFound { path }),
    }
}
