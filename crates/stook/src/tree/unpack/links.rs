//! Hard links to files, made when all files are there.
//!
//! A name is linked to the first one only if that is the very file: one that was kept, filtered or
//! damaged is not. Then the bytes are written once more, and hard links lead to that.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::entries::{Entries, EntryError};
use super::writer::{Body, Destination, Writer, Written};
use crate::tree::existing::Plan;
use crate::tree::outbox::{LongWriter, NewName};
use crate::tree::target::{self, Target};

/// Asked with the bytes of the entry so far, whether to go on.
type GoOn<'a> = &'a mut dyn FnMut(u64) -> bool;

/// One link on its way.
pub(super) struct Linking<'a, E> {
    pub(super) target: &'a mut Target,
    pub(super) writer: &'a Writer<E>,
    pub(super) long: &'a mut Option<LongWriter>,
    pub(super) entries: &'a mut dyn Entries<Error = E>,
    pub(super) go_on: GoOn<'a>,
}

impl<E: EntryError> Linking<'_, E> {
    /// Makes it: `None` when it was linked, and what became of its bytes when it was not.
    pub(super) fn make(
        &mut self,
        place: &Destination,
        first: Option<Vec<u8>>,
        len: Option<u64>,
    ) -> Result<Option<Written>, E> {
        let known = place.file.as_ref().and_then(|file| self.writer.first_of(file));
        if known.is_none() && first.is_none() {
            return self.write(place, len).map(Some);
        }
        let key = &place.key;
        let plan = self.writer.plan_existing(place).map_err(|error| self.writer.io("link", key, error))?;
        if plan.compares() {
            match self.has_bytes((&place.parent, &place.name, key))? {
                None => return Ok(Some(Written::Interrupted)),
                Some(true) => return Ok(Some(Written::Same)),
                Some(false) if plan == Plan::Compare => return Ok(Some(Written::Kept)),
                Some(false) => {}
            }
        }
        let source = match (known, first) {
            (Some(known), _) => known,
            (None, Some(first)) => {
                if plan.compares() {
                    self.entries.rewind()?;
                }
                match self.is_there(&first, place, len)? {
                    None => return Ok(Some(Written::Interrupted)),
                    Some(true) => first,
                    Some(false) => return self.write(place, len).map(Some),
                }
            }
            (None, None) => return self.write(place, len).map(Some),
        };
        self.link(place, &source, plan).map_err(|error| self.writer.io("link", key, error))?;
        if let Some(file) = &place.file {
            self.writer.note_first(file, &source);
        }
        Ok(None)
    }

    fn write(&mut self, place: &Destination, len: Option<u64>) -> Result<Written, E> {
        let long = self.writer.long(self.long, place, len)?;
        self.writer.write_file(place, &mut Body::Coming(self.entries, long), self.go_on)
    }

    fn has_bytes(&mut self, at: (&OwnedFd, &OsStr, &[u8])) -> Result<Option<bool>, E> {
        self.writer.has_bytes(at, &mut Body::Coming(self.entries, None), self.go_on)
    }

    /// Whether what has a key below the target is the file of an entry; `None` when the caller
    /// stopped the look at its bytes, which begin again otherwise.
    fn is_there(&mut self, key: &[u8], place: &Destination, len: Option<u64>) -> Result<Option<bool>, E> {
        let writer = self.writer;
        let io = |error| writer.io("link", &place.key, error);
        let Some((parent, name)) = self.parent_of(key).map_err(io)? else { return Ok(Some(false)) };
        let there = target::status(&parent, name).map_err(io)?;
        let has_len = there.is_some_and(|there| u64::try_from(there.st_size).ok() == len);
        let first = Destination {
            parent,
            is_new: false,
            name: name.to_os_string(),
            key: key.to_vec(),
            metadata: place.metadata.clone(),
            file: None,
        };
        if !has_len || !writer.is_file_of(&first).map_err(io)? {
            return Ok(Some(false));
        }
        let found = self.has_bytes((&first.parent, name, key))?;
        if found == Some(false) {
            self.entries.rewind()?;
        }
        Ok(found)
    }

    fn parent_of<'k>(&mut self, key: &'k [u8]) -> io::Result<Option<(Arc<OwnedFd>, &'k OsStr)>> {
        let refused = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
        let parts = target::parts(key).map_err(refused)?;
        let Some((name, parents)) = parts.split_last() else { return Ok(None) };
        Ok(self.target.existing(parents)?.map(|parent| (parent, *name)))
    }

    fn link(&mut self, place: &Destination, source: &[u8], plan: Plan) -> io::Result<()> {
        let Some((parent, name)) = self.parent_of(source)? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let Destination { parent: to, name: new, .. } = place;
        let new = NewName { parent: to, name: new, replaces: plan.replaces(), backup: None };
        self.writer.outbox.hard_link((&parent, name), &new)
    }
}
