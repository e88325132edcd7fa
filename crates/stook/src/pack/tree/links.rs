//! Further names of files, made when all files are there.
//!
//! A name is linked to the first one only if that is the very file of the pack: what was kept, filtered or damaged
//! is not. Then the bytes are written once more, and further names are linked to that.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use super::writing::{Body, Place, Writing, Written};
use crate::pack::error::{Error, Result};
use crate::pack::key::Key;
use crate::pack::open::Pack;
use crate::pack::record::RecordHead;
use crate::pack::stream::RecordReader;
use crate::tree::target::{self, Target};

/// One read of a file that is compared, in bytes.
const READ_LEN: usize = 256 << 10;

/// Makes links.
pub(super) struct Linking<'a> {
    pub(super) pack: &'a Pack,
    pub(super) target: &'a mut Target,
    pub(super) writing: &'a Writing,
    /// Which key stands for a first: itself where it is there with the bytes of the pack, else what was written
    /// for it.
    pub(super) stands_for: HashMap<Vec<u8>, Vec<u8>>,
}

impl Linking<'_> {
    /// Makes one.
    pub(super) fn make(&mut self, place: Place, go_on: &mut dyn FnMut(u64) -> bool) {
        let key = place.key.clone();
        match self.try_make(place, go_on) {
            Ok(Some(written)) => self.writing.note(&key, Ok(written)),
            Ok(None) => self.writing.summary().hard_links += 1,
            Err(error) => self.writing.fail(key, error),
        }
    }

    /// `None` when it was linked, and what became of its bytes when it was not.
    fn try_make(&mut self, place: Place, go_on: &mut dyn FnMut(u64) -> bool) -> Result<Option<Written>> {
        let io = |error| Error::from(crate::Error::io("link", &place.name, error));
        let there = target::status(&place.parent, &place.name).map_err(io)?.is_some();
        if there && !self.writing.overwrite {
            return Ok(Some(Written::Kept));
        }
        let key = Key::bytes(&place.key)?;
        let absent = || Error::Invalid(format!("{key} is gone"));
        let mut record = self.pack.open_file(&key)?.ok_or_else(absent)?;
        let head = record.head().clone();
        let first = head.key.as_bytes().unwrap_or_default();
        let known = self.stands_for.get(first).cloned();
        let source = known.clone().unwrap_or_else(|| first.to_vec());
        if self.looks_alike(&source, &head).map_err(io)? {
            if known.is_some() || self.is_same(&source, record)? {
                self.link(&place, &source).map_err(io)?;
                self.stands_for.insert(first.to_vec(), source);
                return Ok(None);
            }
            record = self.pack.open_file(&key)?.ok_or_else(absent)?;
        }
        let written = self.writing.write_file(&place, &mut Body::Record(&mut record), go_on)?;
        if matches!(written, Written::New(_)) {
            self.stands_for.insert(first.to_vec(), place.key);
        }
        Ok(Some(written))
    }

    /// Whether what has this key below the target has the bytes of a record. It may have been there before, with a time
    /// that says nothing.
    fn is_same(&mut self, key: &[u8], record: RecordReader<'_>) -> Result<bool> {
        let io = |error| Error::from(crate::Error::io("read", String::from_utf8_lossy(key).as_ref(), error));
        let Some((parent, name)) = self.parent_of(key).map_err(io)? else { return Ok(false) };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&*parent, name, flags, Mode::empty());
        let mut file = File::from(opened.map_err(|errno| io(errno.into()))?);
        let (mut comparison, mut buffer) = (record.compare(), vec![0; READ_LEN]);
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return comparison.finish(),
                Ok(read) if comparison.take(buffer.get(..read).unwrap_or_default())? => {}
                Ok(_) => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io(error)),
            }
        }
    }

    /// Whether what has this key below the target may be the file that a record speaks of.
    fn looks_alike(&mut self, key: &[u8], head: &RecordHead) -> io::Result<bool> {
        let Some((parent, name)) = self.parent_of(key)? else { return Ok(false) };
        let Some(status) = target::status(&parent, name)? else { return Ok(false) };
        let len = u64::try_from(status.st_size).unwrap_or(u64::MAX);
        let nanoseconds = i128::from(status.st_mtime) * 1_000_000_000 + i128::from(status.st_mtime_nsec);
        let same_time = head.attributes.mtime_ns().is_some_and(|ns| i128::from(ns) == nanoseconds);
        let is_file = FileType::from_raw_mode(status.st_mode).is_file();
        Ok(is_file && head.body_len == Some(len) && same_time)
    }

    fn parent_of<'k>(
        &mut self,
        key: &'k [u8],
    ) -> io::Result<Option<(std::sync::Arc<std::os::fd::OwnedFd>, &'k OsStr)>> {
        let refused = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
        let parts = target::parts(key).map_err(refused)?;
        let Some((name, parents)) = parts.split_last() else { return Ok(None) };
        Ok(self.target.existing(parents)?.map(|parent| (parent, *name)))
    }

    fn link(&mut self, place: &Place, source: &[u8]) -> io::Result<()> {
        let Some((parent, name)) = self.parent_of(source)? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let temporary = self.writing.temporary();
        rustix::fs::linkat(&*parent, name, &*place.parent, &temporary, AtFlags::empty())?;
        let published = target::publish(&place.parent, &temporary, &place.name, self.writing.overwrite);
        // Renaming one name of a file onto another name of the same file leaves both.
        match target::remove(&place.parent, &temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => published,
        }
    }
}
