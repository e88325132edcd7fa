//! The salt with which the origins of a cache are hashed, so that names of entries reveal nothing,
//! even if others have the same source.

use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::OFlags;

use super::directory::{CacheDirectory, read_up_to};

pub(crate) const NAME: &str = "salt";
pub(crate) const LEN: usize = 32;

/// The salt of a directory, created if there is no valid one.
pub(crate) fn of(directory: &CacheDirectory) -> io::Result<[u8; LEN]> {
    if let Some(salt) = read(directory)? {
        return Ok(salt);
    }
    let _locked = directory.lock()?;
    if let Some(salt) = read(directory)? {
        return Ok(salt);
    }
    let salt = fresh()?;
    let draft = format!("{NAME}.{:016x}.draft", getrandom::u64().map_err(io::Error::other)?);
    let write = || {
        directory.create_file(&draft)?.write_all_at(&salt, 0)?;
        directory.rename(&draft, NAME)
    };
    write().inspect_err(|_| {
        // A leftover file has no effect.
        let _ = directory.remove(&draft);
    })?;
    Ok(salt)
}

/// Whether a name is that of a salt that is being written.
pub(crate) fn is_draft(name: &str) -> bool {
    name.split_once('.').is_some_and(|(name, kind)| name == NAME && kind.ends_with(".draft"))
}

/// A new random salt.
pub(crate) fn fresh() -> io::Result<[u8; LEN]> {
    let mut salt = [0; LEN];
    getrandom::fill(&mut salt).map_err(io::Error::other)?;
    Ok(salt)
}

fn read(directory: &CacheDirectory) -> io::Result<Option<[u8; LEN]>> {
    match directory.open_file(NAME, OFlags::RDONLY) {
        Ok(file) => Ok(read_up_to(&file, 0, LEN + 1)?.try_into().ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
