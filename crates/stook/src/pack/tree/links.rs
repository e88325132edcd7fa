//! Further names of files, made when all files are there.
//!
//! A name is linked to the first one only if that is the very file of the pack: what was kept, filtered or damaged
//! is not. Then the bytes are written once more, and further names are linked to that.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;

use rustix::fs::{AtFlags, FileType};

use super::writing::{Body, Place, Writing, Written};
use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::FileKind;
use crate::pack::key::Key;
use crate::pack::open::Pack;
use crate::pack::record::RecordHead;
use crate::tree::target::{self, Target};

/// Links that lead to links before one is a file. A pack has one; a few come about when a part of a tree is
/// packed again.
pub(super) const HOPS_MAX: usize = 8;

/// A further name of a file.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) place: Place,
    /// The key of the first.
    pub(super) first: Vec<u8>,
}

/// Makes links.
pub(super) struct Linking<'a> {
    pub(super) pack: &'a Pack,
    pub(super) target: &'a mut Target,
    pub(super) writing: &'a Writing,
    /// Which key stands for a first that is not there.
    pub(super) stands_for: HashMap<Vec<u8>, Vec<u8>>,
}

impl Linking<'_> {
    /// Makes one.
    pub(super) fn make(&mut self, link: Link, go_on: &mut dyn FnMut(u64) -> bool) {
        let key = link.place.key.clone();
        match self.try_make(link, go_on) {
            Ok(Some(written)) => self.writing.note(&key, Ok(written)),
            Ok(None) => self.writing.summary().hard_links += 1,
            Err(error) => self.writing.fail(key, error),
        }
    }

    /// `None` when it was linked, and what became of its bytes when it was not.
    fn try_make(&mut self, link: Link, go_on: &mut dyn FnMut(u64) -> bool) -> Result<Option<Written>> {
        let Link { place, first } = link;
        let io = |error| Error::from(crate::Error::io("link", &place.name, error));
        let there = target::status(&place.parent, &place.name).map_err(io)?.is_some();
        if there && !self.writing.overwrite {
            return Ok(Some(Written::Kept));
        }
        let head = self.file_behind(first)?;
        let first = head.key.as_bytes().unwrap_or_default();
        let source = self.stands_for.get(first).map_or(first, Vec::as_slice).to_vec();
        if self.is_the_file(&source, &head).map_err(io)? {
            self.link(&place, &source).map_err(io)?;
            return Ok(None);
        }
        let Some(mut record) = self.pack.open_record(&head.key)? else { return Err(absent(first)) };
        let written = self.writing.write_file(&place, &mut Body::Record(&mut record), go_on)?;
        if matches!(written, Written::New(_)) {
            self.stands_for.insert(first.to_vec(), place.key);
        }
        Ok(Some(written))
    }

    /// What the pack says of the file that a link leads to.
    fn file_behind(&self, first: Vec<u8>) -> Result<RecordHead> {
        let mut key = Key::bytes(first)?;
        for _ in 0..HOPS_MAX {
            let shown = key.as_bytes().unwrap_or_default();
            let head = head_of(self.pack, &key)?.ok_or_else(|| absent(shown))?;
            match head.attributes.file_kind() {
                Some(FileKind::HardLink) => {
                    let record = self.pack.get(&key)?.ok_or_else(|| absent(shown))?;
                    key = Key::bytes(record.body)?;
                }
                Some(FileKind::File) | None => return Ok(head),
                Some(_) => return Err(Error::Invalid(format!("its first name, {key}, is not a file"))),
            }
        }
        Err(Error::Invalid("its first name is a link to a link to a link, without end".into()))
    }

    /// Whether what has this key below the target is the file that a record speaks of.
    fn is_the_file(&mut self, key: &[u8], head: &RecordHead) -> io::Result<bool> {
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

fn absent(first: &[u8]) -> Error {
    Error::Invalid(format!("its first name, {}, is not in the pack", first.escape_ascii()))
}

/// The head of the record with this key.
fn head_of(pack: &Pack, key: &Key) -> Result<Option<RecordHead>> {
    // The shortest key with a prefix is the prefix itself, and the first.
    let Some(entry) = pack.keys(key.sort_form())?.next().transpose()? else { return Ok(None) };
    if entry.key != *key {
        return Ok(None);
    }
    pack.heads(&[entry])?.pop().transpose()
}
