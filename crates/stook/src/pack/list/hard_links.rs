//! What the hard links to a file lead to: a hard link is a record whose body is the key of another.

use std::sync::Arc;

use bytes::Bytes;

use crate::extent::ByteRange;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::attributes::FileKind;
use crate::pack::key::{KEY_LEN_MAX, Key};
use crate::pack::read::record::{Record, RecordHead};
use crate::pack::read::source::RecordSource;
use crate::pack::read::stream::RecordReader;
use crate::pack::state::names::PackFile;
use crate::pack::state::open::{KeyEntry, Pack};
use crate::source::Source as _;

/// Links that are followed to a file. A pack of ours has one, or two after a name was replaced by a
/// link and that was packed again.
pub(crate) const HOPS_MAX: usize = 8;

/// Heads that are read as one batch.
const HEADS_LEN: usize = 4096;

/// A record on the way to a file: its head, and where it leads on to, if it is a link.
type LinkStep = (RecordHead, Option<Bytes>);

fn put<T>(results: &mut [T], number: usize, result: T) {
    if let Some(slot) = results.get_mut(number) {
        *slot = result;
    }
}

fn is_file(head: &RecordHead) -> bool {
    !matches!(head.attributes.file_kind(), Some(FileKind::Directory | FileKind::Symlink))
}

fn no_file(key: &Key, first: &Key) -> Error {
    Error::Invalid(format!("{key} is a hard link to {first}, which is not a file"))
}

fn absent(key: &Key, first: &Key) -> Error {
    Error::Invalid(format!("{key} is a hard link to {first}, and there is no such file"))
}

fn too_long(key: &Key) -> Error {
    Error::Invalid(format!("what the link {key} leads to is too long"))
}

fn endless(key: &Key) -> Error {
    Error::Invalid(format!("{key} is a hard link to a hard link, without end"))
}

impl RecordHead {
    /// Whether it is a hard link to a file: its body is the key of that file.
    pub fn is_hard_link(&self) -> bool {
        self.attributes.file_kind() == Some(FileKind::HardLink)
    }
}

impl RecordSource {
    /// What a link leads to: the body of its record.
    fn link_target(&self) -> Result<Bytes> {
        if self.len() > KEY_LEN_MAX as u64 {
            return Err(too_long(&self.head().key));
        }
        self.read(ByteRange::to(self.len()))
    }
}

impl RecordReader<'_> {
    /// What a link leads to: the body of its record.
    ///
    /// # Errors
    /// As [`next_chunk`](Self::next_chunk), and [`Error::Invalid`] when the body is longer than any
    /// link.
    pub fn link_target(&mut self) -> Result<Vec<u8>> {
        let mut target = Vec::new();
        while let Some(chunk) = self.next_chunk()? {
            target.extend_from_slice(chunk);
            if target.len() > KEY_LEN_MAX {
                return Err(too_long(&self.head().key));
            }
        }
        Ok(target)
    }
}

impl Pack {
    /// The record with this key or, where that is a hard link to a file, the record of the file.
    ///
    /// # Errors
    /// As [`open_record`](Self::open_record), and [`Error::Invalid`] when the names lead to no
    /// file.
    pub fn open_file(&self, key: &Key) -> Result<Option<RecordReader<'_>>> {
        self.open_record(key)?.map(|reader| self.open_named(key, reader)).transpose()
    }

    /// The same for a key that was [located](Self::locate): the index is not asked for it again.
    ///
    /// # Errors
    /// As [`open_file`](Self::open_file).
    pub fn open_located_file(&self, entry: &KeyEntry) -> Result<RecordReader<'_>> {
        self.open_named(&entry.key, self.open_located(entry)?)
    }

    /// The same to be read by range, for bodies of any length, as long as anybody holds it: also
    /// when this pack is gone. What is read is verified, and only its chunks are read.
    ///
    /// # Errors
    /// As [`open_file`](Self::open_file).
    pub fn open_source(&self, key: &Key) -> Result<Option<Arc<RecordSource>>> {
        let mut at = key.clone();
        for _ in 0..HOPS_MAX {
            let Some(found) = self.find(&at)? else {
                return if at == *key { Ok(None) } else { Err(absent(key, &at)) };
            };
            let record = self.record_source(&at, found).map_err(|error| error.of(&at))?;
            let head = record.head();
            if !head.is_hard_link() {
                return match head.key == *key || is_file(head) {
                    true => Ok(Some(Arc::new(record))),
                    false => Err(no_file(key, &head.key)),
                };
            }
            at = Key::bytes(record.link_target()?)?;
        }
        Err(endless(key))
    }

    /// Goes from the record of a key to that of its file.
    fn open_named<'p>(&'p self, key: &Key, mut reader: RecordReader<'p>) -> Result<RecordReader<'p>> {
        for _ in 0..HOPS_MAX {
            if !reader.head().is_hard_link() {
                let head = reader.head();
                return match head.key == *key || is_file(head) {
                    true => Ok(reader),
                    false => Err(no_file(key, &head.key)),
                };
            }
            let first = Key::bytes(&reader.link_target()?)?;
            reader = self.open_record(&first)?.ok_or_else(|| absent(key, &first))?;
        }
        Err(endless(key))
    }

    /// The records with these keys in their order, as [`get_many`](Self::get_many) gives them;
    /// where one is a hard link to a file, with the content of the file for its body, and its
    /// length.
    ///
    /// # Errors
    /// As [`get_many`](Self::get_many), and inside [`Error::Invalid`] when the names lead to no
    /// file.
    pub fn get_files(&self, keys: &[Key]) -> Result<Vec<Result<Option<Record>>>> {
        let mut records = self.get_many(keys)?;
        self.fill_links(&mut records, u64::MAX)?;
        Ok(records)
    }

    /// Gives those of these records that are hard links to files the content of the file for their
    /// body, in a state that ends before this sequence number.
    pub(in crate::pack) fn fill_links(&self, records: &mut [Result<Option<Record>>], end: u64) -> Result<()> {
        let named = |(number, record): (usize, &Result<Option<Record>>)| match record {
            Ok(Some(record)) if record.head.is_hard_link() => {
                Some((number, (record.head.key.clone(), record.body.clone())))
            }
            _ => None,
        };
        let (numbers, wanted): (Vec<usize>, Vec<(Key, Bytes)>) =
            records.iter().enumerate().filter_map(named).unzip();
        for (number, content) in numbers.into_iter().zip(self.contents_before(&wanted, end)?) {
            let Some(slot) = records.get_mut(number) else { continue };
            match content {
                Err(error) => *slot = Err(error),
                Ok(content) => {
                    if let Ok(Some(record)) = slot {
                        record.head.body_len = Some(content.len() as u64);
                        record.body = content;
                    }
                }
            }
        }
        Ok(())
    }

    /// The same for one key.
    ///
    /// # Errors
    /// As [`get_files`](Self::get_files).
    pub fn get_file(&self, key: &Key) -> Result<Option<Record>> {
        self.get_files(std::slice::from_ref(key))?.pop().unwrap_or(Ok(None))
    }

    /// Has `look` look at the content of the file with this key where it lies, as
    /// [`get_with`](Self::get_with) does at a record: of a hard link at that of the file.
    ///
    /// # Errors
    /// As [`get_file`](Self::get_file).
    pub fn get_file_with<T>(&self, key: &Key, look: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let looked = self.get_with(key, |record| match record.is_hard_link() {
            true => Err(look),
            false => Ok(look(record.body)),
        })?;
        match looked {
            Some(Ok(seen)) => Ok(Some(seen)),
            Some(Err(look)) => Ok(self.get_file(key)?.map(|record| look(&record.body))),
            None => Ok(None),
        }
    }

    /// Has `each` look at the contents of the files with these keys where they lie, as
    /// [`get_many_with`](Self::get_many_with) does at records: of hard links at those of the files,
    /// after all others.
    ///
    /// # Errors
    /// When the index cannot be read. What became of each file is given to `each`.
    pub fn get_files_with(
        &self,
        keys: &[Key],
        mut each: impl FnMut(usize, Result<Option<&[u8]>>),
    ) -> Result<()> {
        let mut links = Vec::new();
        self.get_many_with(keys, |number, record| match record {
            Ok(Some(record)) if record.is_hard_link() => links.push(number),
            record => each(number, record.map(|record| record.map(|record| record.body))),
        })?;
        let names: Vec<Key> = links.iter().filter_map(|&number| keys.get(number).cloned()).collect();
        for (number, record) in links.into_iter().zip(self.get_files(&names)?) {
            match record {
                Ok(record) => each(number, Ok(record.as_ref().map(|record| record.body.as_ref()))),
                Err(error) => each(number, Err(error)),
            }
        }
        Ok(())
    }

    /// The contents of the files that hard links lead to: of each its key, and the body of its
    /// record.
    ///
    /// # Errors
    /// As [`get_files`](Self::get_files).
    pub fn contents_of(&self, names: &[(Key, Bytes)]) -> Result<Vec<Result<Bytes>>> {
        self.contents_before(names, u64::MAX)
    }

    /// The same for names in a state that ends before this sequence number. What a file was that
    /// has been replaced since is refused: the index knows the newest only.
    pub(crate) fn contents_before(&self, names: &[(Key, Bytes)], end: u64) -> Result<Vec<Result<Bytes>>> {
        let later = |record: &Record| {
            let key = &record.head.key;
            Error::Invalid(format!(
                "{key}, which has hard links, was replaced since this scan was begun: begin again"
            ))
        };
        let in_time = |record: Option<Record>| match record {
            Some(record) if record.head.sequence >= end => Err(later(&record)),
            record => Ok(record),
        };
        self.followed(
            names.iter().map(|(key, first)| (key, first.clone())),
            |firsts| Ok(self.get_many(firsts)?.into_iter().map(|record| record.and_then(in_time)).collect()),
            |record| {
                (record.head.is_hard_link().then(|| record.body.clone()), is_file(&record.head), record.body)
            },
        )
    }

    /// Keys, attributes and lengths of records, as [`heads`](Self::heads) gives them; of further
    /// names of a file the length of the file.
    ///
    /// # Errors
    /// As [`heads`](Self::heads), and inside [`Error::Invalid`] when the names lead to no file.
    pub fn file_heads(&self, entries: &[KeyEntry]) -> Result<Vec<Result<RecordHead>>> {
        let mut heads = self.heads(entries)?;
        let is_link = |head: &Result<RecordHead>| head.as_ref().is_ok_and(RecordHead::is_hard_link);
        let links: Vec<usize> =
            (0..heads.len()).filter(|&number| heads.get(number).is_some_and(is_link)).collect();
        let keys: Vec<Key> =
            links.iter().filter_map(|&number| entries.get(number).map(|entry| entry.key.clone())).collect();
        let mut names = Vec::with_capacity(keys.len());
        for (&number, (key, record)) in links.iter().zip(keys.iter().zip(self.get_many(&keys)?)) {
            match record.and_then(|record| record.ok_or_else(|| absent(key, key))) {
                Ok(record) => names.push((number, key, record.body)),
                Err(error) => {
                    if let Some(slot) = heads.get_mut(number) {
                        *slot = Err(error);
                    }
                }
            }
        }
        let lens = self.followed(
            names.iter().map(|(_, key, first)| (*key, first.clone())),
            |firsts| self.known_heads(firsts),
            |(head, link)| (link, is_file(&head), head.body_len),
        )?;
        for ((number, ..), len) in names.iter().zip(lens) {
            let Some(slot) = heads.get_mut(*number) else { continue };
            match len {
                Err(error) => *slot = Err(error),
                Ok(len) => {
                    if let Ok(head) = slot {
                        head.body_len = len;
                    }
                }
            }
        }
        Ok(heads)
    }

    /// For each key its head, if there is one, and what its record leads to where it is a link.
    fn known_heads(&self, keys: &[Key]) -> Result<Vec<Result<Option<LinkStep>>>> {
        let mut known = Vec::with_capacity(keys.len());
        for (key, entry) in keys.iter().zip(self.locate(keys)?) {
            known.push(match entry {
                Err(error) => Err(error),
                Ok(None) => Ok(None),
                Ok(Some(entry)) => match self.heads(&[entry])?.pop() {
                    None => Ok(None),
                    Some(Ok(head)) if head.is_hard_link() => {
                        self.get(key).map(|record| Some((head, record.map(|record| record.body))))
                    }
                    Some(head) => head.map(|head| Some((head, None))),
                },
            });
        }
        Ok(known)
    }

    /// Goes from hard links to their files, all of them one step at a time. `read` gives what keys
    /// have, and `step` says of it where it leads on to, whether it is a file, and what is wanted
    /// of one.
    fn followed<'k, R, T>(
        &self,
        names: impl Iterator<Item = (&'k Key, Bytes)>,
        read: impl Fn(&[Key]) -> Result<Vec<Result<Option<R>>>>,
        step: impl Fn(R) -> (Option<Bytes>, bool, T),
    ) -> Result<Vec<Result<T>>> {
        let mut on_the_way: Vec<(usize, &Key, Bytes)> =
            names.enumerate().map(|(number, (key, first))| (number, key, first)).collect();
        let mut results: Vec<Result<T>> = on_the_way.iter().map(|(_, key, _)| Err(endless(key))).collect();
        // The names themselves are the first hop.
        for _ in 1..HOPS_MAX {
            let mut asked = Vec::with_capacity(on_the_way.len());
            let mut firsts = Vec::with_capacity(on_the_way.len());
            for (number, key, first) in on_the_way.drain(..) {
                match Key::bytes(&first) {
                    Ok(first) => {
                        asked.push((number, key));
                        firsts.push(first);
                    }
                    Err(error) => put(&mut results, number, Err(error)),
                }
            }
            if asked.is_empty() {
                break;
            }
            for ((number, key), (first, found)) in asked.into_iter().zip(firsts.iter().zip(read(&firsts)?)) {
                let found = found.and_then(|found| found.ok_or_else(|| absent(key, first)));
                match found.map(&step) {
                    Ok((Some(next), ..)) => on_the_way.push((number, key, next)),
                    Ok((None, true, wanted)) => put(&mut results, number, Ok(wanted)),
                    Ok((None, false, _)) => put(&mut results, number, Err(no_file(key, first))),
                    Err(error) => put(&mut results, number, Err(error)),
                }
            }
        }
        Ok(results)
    }

    /// The damage that each hard link is which leads to no file. A record that cannot be read is
    /// reported elsewhere.
    ///
    /// # Errors
    /// What reading meets.
    pub(crate) fn lost_links(&self) -> Result<Vec<Damage>> {
        let mut damages = Vec::new();
        let mut batch = Vec::with_capacity(HEADS_LEN);
        for entry in self.keys(&[])? {
            match entry {
                Ok(entry) => batch.push(entry),
                Err(Error::Damaged(damage)) if damage.key.is_some() => {}
                Err(Error::Damaged(_)) => break,
                Err(error) => return Err(error),
            }
            if batch.len() == HEADS_LEN {
                self.add_lost_links(&batch, &mut damages)?;
                batch.clear();
            }
        }
        self.add_lost_links(&batch, &mut damages)?;
        Ok(damages)
    }

    /// The damage that a hard link is which leads to no file.
    pub(crate) fn lost_link(&self, segment: u64, offset: u64, key: Key, error: &Error) -> Damage {
        let file = self.storage.path(&PackFile::Segment(segment).to_string());
        Damage { file, offset, key: Some(key), what: error.to_string(), cause: None }
    }

    fn add_lost_links(&self, entries: &[KeyEntry], damages: &mut Vec<Damage>) -> Result<()> {
        for head in self.heads(entries)?.into_iter().flatten().filter(RecordHead::is_hard_link) {
            match self.open_file(&head.key) {
                Ok(_) | Err(Error::Damaged(_)) => {}
                Err(error @ (Error::Invalid(_) | Error::Limit { .. })) => {
                    damages.push(self.lost_link(head.segment, head.offset, head.key, &error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
