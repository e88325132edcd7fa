//! Building an entry: the bytes are written and synced before anything has a name, and the record,
//! which makes it an entry, gets its name last.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use super::key::shown;
use super::record::Record;
use super::{MergedCache, data_name, record_name};
use crate::source::Source as _;
use crate::stitch::error::{Error, Result};
use crate::stitch::file::VirtualFile;
use crate::storage::{cache, free_at};
use crate::tree::outbox::{NewFile, OutFile, Replaces};

/// The unit in which disks are taken, nearly everywhere.
const BLOCK: u64 = 4096;

/// What became of a copy.
pub(super) enum Built {
    /// It is an entry.
    Entry,
    /// Another process made one meanwhile.
    ByAnother,
    /// There is none, and why.
    Not(String),
}

impl MergedCache {
    /// Writes all bytes of a file into a new entry.
    ///
    /// # Errors
    /// What the file is made of cannot be read or has changed; [`Error::Interrupted`].
    pub(super) fn build(
        &self,
        file: &VirtualFile,
        (name, key): (&str, &[u8; 32]),
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Built> {
        let len = file.len();
        if len > self.options.budget_bytes {
            return Ok(Built::Not(format!("its {len} bytes are more than the cache may have")));
        }
        let failed = |operation: &str| {
            let operation = operation.to_owned();
            move |error: io::Error| Built::Not(format!("cannot {operation}: {error}"))
        };
        if free_at(self.directory.path()).is_ok_and(|free| free < len) {
            return Ok(Built::Not(format!("there is no room for its {len} bytes on the disk")));
        }
        let copy = match self.new_file() {
            Ok(copy) => copy,
            Err(error) => return Ok(failed("begin a copy")(error)),
        };
        let hash = match self.write(file, &copy, go_on)? {
            Ok(hash) => hash,
            Err(error) => return Ok(failed("write the copy")(error)),
        };
        if let Err(error) = copy.sync() {
            return Ok(failed("sync the copy")(error));
        }
        let nonce = match getrandom::u64() {
            Ok(nonce) => nonce,
            Err(error) => return Ok(failed("name the copy")(io::Error::other(error))),
        };
        let record = Record { nonce, len, key: *key, hash, name: shown(file.path()).into() };
        Ok(self.publish(name, copy, &record).unwrap_or_else(|(operation, error)| failed(operation)(error)))
    }

    fn new_file(&self) -> io::Result<OutFile> {
        let new = NewFile { mode: Some(0o600), is_private: true, replaces: Replaces::Nothing };
        self.outbox.file(self.directory.handle(), new)
    }

    /// Writes the bytes: their hash, or the error of writing.
    fn write(
        &self,
        file: &VirtualFile,
        copy: &OutFile,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<io::Result<[u8; 32]>> {
        let (mut hash, mut at, mut refused) = (blake3::Hasher::new(), 0_u64, None);
        let read = file.read_through(&mut |bytes| {
            if let Err(error) = copy.write_at(bytes, at) {
                refused = Some(error);
                return Ok(false);
            }
            hash.update(bytes);
            at = at.saturating_add(bytes.len() as u64);
            Ok(go_on(at))
        });
        match (read, refused) {
            (Err(Error::Interrupted), Some(error)) => Ok(Err(error)),
            (read, _) => {
                read?;
                // Fewer bytes than it has would be other bytes under its name.
                let is_whole = at == file.len();
                let lost = || io::Error::other(format!("{at} bytes came of {}", file.len()));
                Ok(if is_whole { Ok(*hash.finalize().as_bytes()) } else { Err(lost()) })
            }
        }
    }

    /// Gives a copy its name, and then its record.
    fn publish(
        &self,
        name: &str,
        mut copy: OutFile,
        record: &Record,
    ) -> std::result::Result<Built, (&'static str, io::Error)> {
        let record_name = record_name(name);
        let _locked = self.directory.lock().map_err(|error| ("lock the cache", error))?;
        if self.directory.about(&record_name).map_err(|error| ("look for an entry", error))?.is_some() {
            return Ok(Built::ByAnother);
        }
        let bytes = record.encode();
        let needed = on_disk(record.len).saturating_add(on_disk(bytes.len() as u64));
        if !self.make_room(needed).map_err(|error| ("keep the budget", error))? {
            return Ok(Built::Not("what else the cache has is in use, and leaves no room for it".to_owned()));
        }
        let mut record_file = self.new_file().map_err(|error| ("begin a record", error))?;
        record_file.write_at(&bytes, 0).map_err(|error| ("write the record", error))?;
        record_file.sync().map_err(|error| ("sync the record", error))?;
        let data_name = data_name(name, record.nonce);
        copy.publish(OsStr::new(&data_name), None)?;
        let published = record_file.publish(OsStr::new(&record_name), None).and_then(|()| {
            let synced = self.calls.sync(self.directory.handle().as_fd());
            synced.map_err(|error| ("sync the cache", error))
        });
        published.inspect_err(|_| {
            // What cannot be removed now is found without a record, or verified when it is opened.
            let calls = Arc::clone(&self.calls);
            let parent = self.directory.handle().as_fd();
            [&record_name, &data_name]
                .into_iter()
                .for_each(|name| _ = calls.unlink(parent, OsStr::new(name)));
        })?;
        Ok(Built::Entry)
    }
}

/// What a file will take of the disk.
fn on_disk(len: u64) -> u64 {
    len.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX)
}

/// The bytes that a file counts with: what it takes of the disk, or will.
pub(super) fn counted(about: &cache::About) -> u64 {
    about.disk_bytes.max(about.len)
}
