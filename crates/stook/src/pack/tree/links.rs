//! Hard links to files, made when all files are there.
//!
//! A name is linked to the first one only if that is the very file of the pack: what was kept,
//! filtered or damaged is not. Then the bytes are written once more, and hard links are linked to
//! that.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::FileType;

use super::writing::{Body, Destination, Writing, Written};
use crate::pack::error::{Error, Result};
use crate::pack::key::Key;
use crate::pack::read::record::RecordHead;
use crate::pack::read::stream::RecordReader;
use crate::pack::state::open::Pack;
use crate::tree::existing::{Comparison, Plan, mtime_of};
use crate::tree::target::{self, FileMetadata, Target};

/// Makes links.
pub(super) struct Linking<'a> {
    pub(super) pack: &'a Pack,
    /// Whether extended attributes are set.
    pub(super) xattrs: bool,
    pub(super) target: &'a mut Target,
    pub(super) writing: &'a Writing,
    /// Which key stands for a first: itself where it is there with the bytes of the pack, else what
    /// was written for it.
    pub(super) stands_for: HashMap<Vec<u8>, Vec<u8>>,
}

impl Linking<'_> {
    /// Makes one.
    pub(super) fn make(&mut self, place: Destination, go_on: &mut dyn FnMut(u64) -> bool) {
        let key = place.key.clone();
        match self.try_make(place, go_on) {
            Ok(Some(written)) => self.writing.note(&key, Ok(written)),
            Ok(None) => self.writing.summary().hard_links += 1,
            Err(error) => self.writing.fail(key, error),
        }
    }

    /// `None` when it was linked, and what became of its bytes when it was not.
    fn try_make(
        &mut self,
        mut place: Destination,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<Written>> {
        let (writing, shown) = (self.writing, place.key.clone());
        let io = |error| writing.io("link", &shown, error);
        let key = Key::bytes(&place.key)?;
        let absent = || Error::Invalid(format!("{key} is gone"));
        let mut record = self.pack.open_file(&key)?.ok_or_else(absent)?;
        let head = record.head().clone();
        // The record of the file has them, not that of the name.
        place.metadata = place
            .metadata
            .with_xattrs(head.attributes.xattrs(), self.xattrs)
            .with_holes(head.attributes.holes());
        let mtime_ns = head.attributes.mtime_ns();
        let plan = self.writing.overwrite.plan(&place.parent, &place.name, mtime_ns).map_err(io)?;
        if plan.compares() {
            let is_same = is_same(writing, &place.parent, &place.name, &place.key, record)?;
            if is_same || plan == Plan::Compare {
                return Ok(Some(if is_same { Written::Same } else { Written::Kept }));
            }
            record = self.pack.open_file(&key)?.ok_or_else(absent)?;
        }
        let first = head.key.as_bytes().unwrap_or_default();
        let known = self.stands_for.get(first).cloned();
        let source = known.clone().unwrap_or_else(|| first.to_vec());
        if self.looks_alike(&source, &head).map_err(io)? {
            if known.is_some()
                || self.has_metadata(&source, &place.metadata).map_err(io)?
                    && self.has_same(&source, record)?
            {
                self.link(&place, &source, plan.replaces()).map_err(io)?;
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

    /// Whether what has this key below the target has the mode and owner that the record would get.
    fn has_metadata(&mut self, key: &[u8], metadata: &FileMetadata) -> io::Result<bool> {
        let Some((parent, name)) = self.parent_of(key)? else { return Ok(false) };
        let status = target::status(&parent, name)?;
        Ok(status.is_some_and(|status| target::has_metadata(&status, metadata)))
    }

    /// Whether what has this key below the target has the bytes of a record. It may have been there
    /// before, with a time that says nothing.
    fn has_same(&mut self, key: &[u8], record: RecordReader<'_>) -> Result<bool> {
        let writing = self.writing;
        match self.parent_of(key).map_err(|error| writing.io("read", key, error))? {
            Some((parent, name)) => is_same(writing, &parent, name, key, record),
            None => Ok(false),
        }
    }

    /// Whether what has this key below the target may be the file that a record speaks of.
    fn looks_alike(&mut self, key: &[u8], head: &RecordHead) -> io::Result<bool> {
        let Some((parent, name)) = self.parent_of(key)? else { return Ok(false) };
        let Some(status) = target::status(&parent, name)? else { return Ok(false) };
        let len = u64::try_from(status.st_size).unwrap_or(u64::MAX);
        let same_time = head.attributes.mtime_ns().is_some_and(|ns| i128::from(ns) == mtime_of(&status));
        let is_file = FileType::from_raw_mode(status.st_mode).is_file();
        Ok(is_file && head.body_len == Some(len) && same_time)
    }

    fn parent_of<'k>(&mut self, key: &'k [u8]) -> io::Result<Option<(std::sync::Arc<OwnedFd>, &'k OsStr)>> {
        let refused = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
        let parts = target::parts(key).map_err(refused)?;
        let Some((name, parents)) = parts.split_last() else { return Ok(None) };
        Ok(self.target.existing(parents)?.map(|parent| (parent, *name)))
    }

    fn link(&mut self, place: &Destination, source: &[u8], replaces: bool) -> io::Result<()> {
        let Some((parent, name)) = self.parent_of(source)? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        self.writing.outbox.hard_link((&parent, name), (&place.parent, &place.name), replaces)
    }
}

/// Whether what has a name, and this key, has the bytes of a record.
fn is_same(
    writing: &Writing,
    parent: &OwnedFd,
    name: &OsStr,
    key: &[u8],
    mut record: RecordReader<'_>,
) -> Result<bool> {
    let io = |error| writing.io("read", key, error);
    let mut comparison = Comparison::open(parent, name).map_err(io)?;
    while comparison.is_same()
        && let Some(bytes) = record.next_chunk()?
    {
        comparison.take(bytes).map_err(io)?;
    }
    comparison.finish().map_err(io)
}
