//! What the further names of a file lead to: a hard link is a record whose body is the key of another.

use super::error::{Damage, Error, Result};
use super::format::attributes::FileKind;
use super::key::{KEY_LEN_MAX, Key};
use super::names::Name;
use super::open::{KeyEntry, Pack};
use super::record::RecordHead;
use super::stream::RecordReader;

/// Links that are followed to a file. A pack of ours has one, or two after a name was replaced by a link and that was
/// packed again.
pub(crate) const HOPS_MAX: usize = 8;

/// Heads that are read as one batch.
const HEADS_LEN: usize = 4096;

impl RecordHead {
    /// Whether it is a further name of a file: its body is the key of that file.
    pub fn is_hard_link(&self) -> bool {
        self.attributes.file_kind() == Some(FileKind::HardLink)
    }
}

impl RecordReader<'_> {
    /// What a link leads to: the body of its record.
    ///
    /// # Errors
    /// As [`next_chunk`](Self::next_chunk), and [`Error::Invalid`] when the body is longer than any link.
    pub fn link_target(&mut self) -> Result<Vec<u8>> {
        let mut target = Vec::new();
        while let Some(chunk) = self.next_chunk()? {
            target.extend_from_slice(chunk);
            if target.len() > KEY_LEN_MAX {
                return Err(Error::Invalid(format!(
                    "what the link {} leads to is too long",
                    self.head().key
                )));
            }
        }
        Ok(target)
    }
}

impl Pack {
    /// The record with this key or, where that is a further name of a file, the record of the file.
    ///
    /// # Errors
    /// As [`open_record`](Self::open_record), and [`Error::Invalid`] when the names lead to no file.
    pub fn open_file(&self, key: &Key) -> Result<Option<RecordReader<'_>>> {
        let Some(mut reader) = self.open_record(key)? else { return Ok(None) };
        for _ in 0..HOPS_MAX {
            if !reader.head().is_hard_link() {
                return match reader.head().attributes.file_kind() {
                    Some(FileKind::Directory | FileKind::Symlink) if reader.head().key != *key => {
                        let first = &reader.head().key;
                        Err(Error::Invalid(format!(
                            "{key} is a further name of {first}, which is not a file"
                        )))
                    }
                    _ => Ok(Some(reader)),
                };
            }
            let first = Key::bytes(&reader.link_target()?)?;
            let absent = || format!("{key} is a further name of {first}, and there is no such file");
            reader = self.open_record(&first)?.ok_or_else(|| Error::Invalid(absent()))?;
        }
        Err(Error::Invalid(format!("{key} is a further name of a further name, without end")))
    }

    /// The damage that each further name is which leads to no file. A record that cannot be read is told elsewhere.
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
                self.tell_lost_links(&batch, &mut damages)?;
                batch.clear();
            }
        }
        self.tell_lost_links(&batch, &mut damages)?;
        Ok(damages)
    }

    fn tell_lost_links(&self, entries: &[KeyEntry], damages: &mut Vec<Damage>) -> Result<()> {
        for head in self.heads(entries)?.into_iter().flatten().filter(RecordHead::is_hard_link) {
            let what = match self.open_file(&head.key) {
                Ok(_) | Err(Error::Damaged(_)) => continue,
                Err(error @ (Error::Invalid(_) | Error::Limit { .. })) => error.to_string(),
                Err(error) => return Err(error),
            };
            let file = self.storage.path(&Name::Segment(head.segment).to_string());
            damages.push(Damage { file, offset: head.offset, key: Some(head.key), what });
        }
        Ok(())
    }
}
