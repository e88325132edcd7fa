//! Records in a stream, for bulk import: `docs/formats/records-v1.md` has every byte.

use std::io::{self, Read};

use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::Attributes;
use crate::pack::key::Key;

/// The first line of a stream.
pub const RECORDS_MAGIC: &[u8; 16] = b"stook-records 1\n";

/// The longest body of a stream: each is held in memory as a whole.
pub const RECORDS_BODY_LEN_MAX: u64 = 1 << 30;

const HEAD_LEN: usize = 14;
const PUT: u8 = 1;
const DELETE: u8 = 2;
const END: u8 = 0xff;

/// A body is read in steps of this size, so that a false length takes no memory.
const STEP_LEN: u64 = 1 << 20;

/// One entry of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEntry {
    /// A record to put.
    Put {
        /// Its key.
        key: Key,
        /// Its attributes.
        attributes: Attributes,
        /// Its body.
        body: Vec<u8>,
    },
    /// A key to delete.
    Delete {
        /// That.
        key: Key,
    },
}

/// Reads entries from a stream. The caller must not make them count before [`next`](Self::next) has
/// returned `None`: only then was the stream complete.
#[derive(Debug)]
pub struct RecordStream<R> {
    input: R,
    name: String,
    /// Bytes taken so far.
    offset: u64,
    entries: u64,
    ended: bool,
}

impl<R: Read> RecordStream<R> {
    /// Begins with the first line of `input`, which errors call `name`.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, or is not such a stream.
    pub fn new(input: R, name: impl Into<String>) -> Result<Self> {
        let mut stream = Self { input, name: name.into(), offset: 0, entries: 0, ended: false };
        let mut line = [0; RECORDS_MAGIC.len()];
        stream.fill(&mut line, "its first line")?;
        if line != *RECORDS_MAGIC {
            let what = match line.starts_with(b"stook-records ") {
                true => "it is of a version that is not known here, which is 1",
                false => "it does not begin with the line `stook-records 1`",
            };
            return Err(stream.refused(0, what));
        }
        Ok(stream)
    }

    /// Bytes taken so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next entry; `None` once the end was reached and nothing follows it.
    ///
    /// # Errors
    /// Returns an error if reading fails, and, with its offset, for an invalid entry or an early
    /// end.
    #[expect(
        clippy::should_implement_trait,
        reason = "after an error nothing more must come, which no Iterator promises"
    )]
    pub fn next(&mut self) -> Result<Option<StreamEntry>> {
        if self.ended {
            return Ok(None);
        }
        let at = self.offset;
        let mut head = [0; HEAD_LEN];
        self.fill(&mut head, "an entry, or the end")?;
        let [kind, key_kind, k0, k1, a0, a1, body_len @ ..] = head;
        let key_len = u16::from_le_bytes([k0, k1]);
        let attributes_len = u16::from_le_bytes([a0, a1]);
        let body_len = u64::from_le_bytes(body_len);
        match kind {
            END => return self.end(at, (key_kind, key_len, attributes_len), body_len).map(|()| None),
            PUT => {}
            DELETE if attributes_len == 0 && body_len == 0 => {}
            DELETE => return Err(self.refused(at, "a deletion has neither attributes nor a body")),
            other => {
                return Err(self.refused(
                    at,
                    &format!("{other} is neither a record (1), a deletion (2) nor the end (255)"),
                ));
            }
        }
        if body_len > RECORDS_BODY_LEN_MAX {
            let what = format!("a body of {body_len} bytes; a stream holds at most {RECORDS_BODY_LEN_MAX}");
            return Err(self.refused(at, &what));
        }
        let mut key = vec![0; usize::from(key_len)];
        self.fill(&mut key, "a key")?;
        let key = Key::from_stored(key_kind, &key).ok_or_else(|| {
            self.refused(at, "a key is of kind 1 (bytes), or of kind 2 (a number of 8 bytes)")
        })?;
        self.entries += 1;
        if kind == DELETE {
            return Ok(Some(StreamEntry::Delete { key }));
        }
        let mut encoded = vec![0; usize::from(attributes_len)];
        self.fill(&mut encoded, "attributes")?;
        let attributes = Attributes::decode(&encoded)
            .map_err(|invalid| self.refused(at, &format!("the attributes of {key}: {}", invalid.what)))?;
        let mut body = Vec::new();
        while (body.len() as u64) < body_len {
            let from = body.len();
            body.resize(from + STEP_LEN.min(body_len - from as u64) as usize, 0);
            self.fill(body.get_mut(from..).unwrap_or_default(), "a body")?;
        }
        Ok(Some(StreamEntry::Put { key, attributes, body }))
    }

    fn end(&mut self, at: u64, rest: (u8, u16, u16), entries: u64) -> Result<()> {
        if rest != (0, 0, 0) || entries != self.entries {
            let what = format!("the end states {entries} entries, there were {}", self.entries);
            return Err(self.refused(at, &what));
        }
        let mut more = [0];
        loop {
            match self.input.read(&mut more) {
                Ok(0) => break,
                Ok(_) => return Err(self.refused(self.offset, "something follows the end")),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(Error::Outside { operation: "read", name: self.name.clone(), source });
                }
            }
        }
        self.ended = true;
        Ok(())
    }

    fn fill(&mut self, bytes: &mut [u8], what: &str) -> Result<()> {
        let mut got = 0;
        while let Some(rest) = bytes.get_mut(got..).filter(|rest| !rest.is_empty()) {
            match self.input.read(rest) {
                Ok(0) => {
                    let offset = self.offset + got as u64;
                    return Err(self.refused(offset, &format!("it ends within {what}: it was cut short")));
                }
                Ok(count) => got += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(Error::Outside { operation: "read", name: self.name.clone(), source });
                }
            }
        }
        self.offset += got as u64;
        Ok(())
    }

    fn refused(&self, offset: u64, what: &str) -> Error {
        Error::Invalid(format!("{} is no stream of records at offset {offset}: {what}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(kind: u8, key_kind: u8, key_len: u16, attributes_len: u16, body_len: u64) -> Vec<u8> {
        let lens = [key_len.to_le_bytes(), attributes_len.to_le_bytes()].concat();
        [&[kind, key_kind][..], &lens, &body_len.to_le_bytes()].concat()
    }

    fn whole() -> Vec<u8> {
        let mut attributes = Attributes::new();
        let name = crate::pack::format::attributes::Name::Text("a".into());
        attributes.set(name, crate::pack::format::attributes::Value::U8(7));
        let attributes = attributes.encode().unwrap();
        let body = vec![5; (1 << 20) + 9];
        [
            RECORDS_MAGIC.to_vec(),
            head(1, 1, 3, attributes.len() as u16, body.len() as u64),
            b"a/b".to_vec(),
            attributes,
            body,
            head(2, 2, 8, 0, 0),
            77_u64.to_le_bytes().to_vec(),
            head(0xff, 0, 0, 0, 2),
        ]
        .concat()
    }

    fn read(bytes: &[u8]) -> Result<Vec<StreamEntry>> {
        let mut stream = RecordStream::new(bytes, "it")?;
        let mut all = Vec::new();
        while let Some(entry) = stream.next()? {
            all.push(entry);
        }
        assert_eq!(stream.offset(), bytes.len() as u64);
        Ok(all)
    }

    #[test]
    fn what_is_written_by_hand_is_read() {
        let all = read(&whole()).unwrap();
        let [StreamEntry::Put { key, attributes, body }, StreamEntry::Delete { key: gone }] = &all[..] else {
            panic!("{all:?}");
        };
        assert_eq!((key, gone), (&Key::bytes("a/b").unwrap(), &Key::id(77)));
        assert_eq!((attributes.iter().count(), body.len()), (1, (1 << 20) + 9));
    }

    #[test]
    fn a_stream_that_is_cut_anywhere_is_refused_with_the_place() {
        let whole = whole();
        let ends = (0..60).chain((60..whole.len() - 60).step_by(99_991)).chain(whole.len() - 60..whole.len());
        for len in ends {
            let error = read(&whole[..len]).unwrap_err().to_string();
            assert!(
                error.contains(&format!("at offset {len}:")) && error.contains("cut short"),
                "{len}: {error}"
            );
        }
    }

    #[test]
    fn what_is_no_entry_is_refused_with_the_place() {
        let with = |rest: &[u8]| read(&[&RECORDS_MAGIC[..], rest].concat()).unwrap_err().to_string();
        for (rest, said) in [
            (head(9, 1, 0, 0, 0), "offset 16: 9 is neither"),
            (head(1, 3, 0, 0, 0), "offset 16: a key is of kind"),
            ([head(1, 2, 3, 0, 0), vec![0; 3]].concat(), "offset 16: a key is of kind"),
            (head(1, 1, 0, 0, u64::MAX), "offset 16: a body of"),
            ([head(1, 1, 0, 2, 0), vec![9, 9]].concat(), "offset 16: the attributes"),
            (head(2, 1, 0, 1, 0), "offset 16: a deletion has"),
            (head(0xff, 0, 0, 0, 1), "offset 16: the end states 1 entries, there were 0"),
            ([head(0xff, 0, 0, 0, 0), vec![0]].concat(), "offset 30: something follows"),
        ] {
            let error = with(&rest);
            assert!(error.contains(said), "{error}");
        }
        assert!(read(b"stook-records 2\n").unwrap_err().to_string().contains("version"));
        assert!(read(b"something else..").unwrap_err().to_string().contains("does not begin"));
    }
}
