//! Entries as they are found: opened, held and verified, or thrown away.

use std::fs::File;
use std::io;
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::record::{RECORD_LEN_MAX, Record};
use super::source::HeldCopy;
use super::{MergedCache, data_name, is_data_of, record_name};
use crate::error::chain;
use crate::source::{FileSource, Source};
use crate::storage::cache::{self, CacheDirectory, FileId, read_up_to};

/// How often an entry may be replaced while it is being opened.
const TRIES: usize = 100;
/// Bytes that are hashed at a time.
const BLOCK_BYTES: usize = 1 << 20;

/// What is there under a key.
pub(super) enum Found {
    Nothing,
    Copy(Arc<HeldCopy>),
    /// What cannot be used, why, and which file the record is, if it is one.
    Damaged(FileId, String),
}

impl MergedCache {
    /// Opens the entry with a name, holds it, and verifies all its bytes.
    pub(super) fn find(&self, name: &str, key: &[u8; 32], len: u64) -> io::Result<Found> {
        let record_name = record_name(name);
        for _ in 0..TRIES {
            let record = match self.directory.open_file(&record_name, OFlags::RDONLY) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
                Err(error) if is_link(&error) => match self.directory.about(&record_name)? {
                    Some(about) => return Ok(Found::Damaged(about.id, "it is a link".to_owned())),
                    None => continue,
                },
                record => record?,
            };
            let id = cache::about(&record)?.id;
            if !record.metadata()?.is_file() {
                return Ok(Found::Damaged(id, "it is no regular file".to_owned()));
            }
            // Else it is being removed just now.
            if !CacheDirectory::try_lock_file(&record, true)? {
                return Ok(Found::Nothing);
            }
            if self.directory.about(&record_name)?.is_none_or(|current| current.id != id) {
                continue;
            }
            return Ok(match self.verified(name, record, key, len) {
                Ok(copy) => Found::Copy(Arc::new(copy)),
                Err(why) => Found::Damaged(id, why),
            });
        }
        Ok(Found::Nothing)
    }

    /// The copy whose record is held, if it has exactly the bytes that its record says.
    fn verified(&self, name: &str, record: File, key: &[u8; 32], len: u64) -> Result<HeldCopy, String> {
        let failed =
            |what: &'static str| move |error: io::Error| format!("its {what} cannot be read: {error}");
        let bytes = read_up_to(&record, 0, RECORD_LEN_MAX + 1).map_err(failed("record"))?;
        let said = Record::decode(&bytes)?;
        if said.key != *key || said.len != len {
            return Err("its record is of another file".to_owned());
        }
        let data_name = data_name(name, said.nonce);
        let data = self.directory.open_file(&data_name, OFlags::RDONLY).map_err(failed("copy"))?;
        let about = data.metadata().map_err(failed("copy"))?;
        if !about.is_file() || about.len() != len {
            return Err(format!("its copy is no file of {len} bytes"));
        }
        let path = self.directory.path().join(&data_name);
        let to_hash = data.try_clone().map_err(failed("copy"))?;
        let data = FileSource::opened(data, &path).map_err(|error| chain(&error))?;
        if hash_of(&to_hash, len).map_err(failed("copy"))? != said.hash {
            return Err("its copy has other bytes than it was made with".to_owned());
        }
        // What changed since it was opened may be other bytes than those that were hashed.
        data.check_unchanged().map_err(|error| chain(&error))?;
        Ok(HeldCopy { data, hash: said.hash, record })
    }

    /// Throws an entry away that cannot be used, unless another took its place or it is in use:
    /// whether it is gone.
    pub(super) fn discard(&self, name: &str, id: FileId) -> io::Result<bool> {
        let _locked = self.directory.lock()?;
        self.remove(name, Some(id))
    }

    /// Removes an entry that nobody uses; the directory is locked. Whether it is gone.
    pub(super) fn remove(&self, name: &str, expected: Option<FileId>) -> io::Result<bool> {
        let record_name = record_name(name);
        let Some(there) = self.directory.about(&record_name)? else {
            return self.remove_data(name, None).map(|()| true);
        };
        if expected.is_some_and(|expected| expected != there.id) {
            return Ok(false);
        }
        // Some file systems lock for writing only what was opened for that.
        let _held = match self.directory.open_file(&record_name, OFlags::RDWR) {
            Err(error) if is_link(&error) => None,
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            opened => {
                let record = opened?;
                if !CacheDirectory::try_lock_file(&record, false)? {
                    return Ok(false);
                }
                Some(record)
            }
        };
        // The record first: one without its copy would be taken for damaged.
        self.directory.remove(&record_name)?;
        self.remove_data(name, None)?;
        Ok(true)
    }

    /// Removes the copies of an entry, but for one.
    pub(super) fn remove_data(&self, name: &str, but_for: Option<&str>) -> io::Result<()> {
        for file in self.directory.names()? {
            if is_data_of(&file, name) && but_for != Some(&*file) {
                self.directory.remove(&file)?;
            }
        }
        Ok(())
    }
}

fn is_link(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::LOOP)
}

/// The BLAKE3 of the first bytes of a file; of fewer, where it has no more.
fn hash_of(file: &File, len: u64) -> io::Result<[u8; 32]> {
    let (mut hash, mut at) = (blake3::Hasher::new(), 0_u64);
    while at < len {
        let wanted = usize::try_from(len.saturating_sub(at)).unwrap_or(usize::MAX).min(BLOCK_BYTES);
        let bytes = read_up_to(file, at, wanted)?;
        if bytes.is_empty() {
            break;
        }
        hash.update(&bytes);
        at = at.saturating_add(bytes.len() as u64);
    }
    Ok(*hash.finalize().as_bytes())
}
