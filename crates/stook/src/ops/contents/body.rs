//! The body of one entry, and ranges of it in the order in which they are asked for.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::error::{Error, Result};
use super::get::Missing;
use super::ranges::read_ranges;
use super::values::ValueError;
use super::{Contents, Opened};
use crate::archive::{self, Archive, MemberKind, MemberSource};
use crate::engine::{Access, Backend};
use crate::extent::ByteRange;
use crate::pack::{FileKind, Key, RecordSource, Stop};
use crate::source::{Source as _, read_batch};

/// What is read at once of a record: where a chunk is damaged, no more than this is missing before
/// it.
const RECORD_BLOCK_LEN: u64 = 1 << 20;

/// What is read at once of all else.
pub const BLOCK_LEN: u64 = 8 << 20;

/// Bytes that are read before any is given out.
pub const BATCH_LEN: u64 = 32 << 20;

/// A range whose end may be that of what it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its first byte.
    pub start: u64,
    /// The byte after its last; the end of all if `None`.
    pub end: Option<u64>,
}

/// A range begins past the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the range {span} begins past the end ({})", crate::report::units::bytes_exact(*len))]
pub struct PastEnd {
    span: Span,
    len: u64,
}

impl Span {
    /// The part of it that something of this length has, as `head`, `dd` and `curl` give it; no
    /// byte where it begins at the end.
    ///
    /// # Errors
    /// [`PastEnd`].
    pub fn within(self, len: u64) -> Result<ByteRange, PastEnd> {
        match self.start > len {
            true => Err(PastEnd { span: self, len }),
            false => Ok(ByteRange::new(self.start, self.end.unwrap_or(len).min(len)).unwrap_or_default()),
        }
    }

    /// What some spans are of something of this length: all of it where there are none.
    ///
    /// # Errors
    /// [`PastEnd`].
    pub fn all_within(spans: &[Self], len: u64) -> Result<Vec<ByteRange>, PastEnd> {
        match spans {
            [] => Ok(vec![ByteRange::to(len)]),
            spans => spans.iter().map(|span| span.within(len)).collect(),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..", self.start)?;
        self.end.map_or(Ok(()), |end| write!(f, "{end}"))
    }
}

/// Ranges, cut at the multiples of a length, as many together as are held in memory at once.
pub fn batches(ranges: &[ByteRange], block_len: u64) -> impl Iterator<Item = Vec<ByteRange>> + '_ {
    let blocks = ranges.iter().flat_map(move |range| {
        let starts = (range.start() / block_len * block_len..range.end()).step_by(block_len as usize);
        let block = move |start: u64| ByteRange::at(start, block_len)?.intersection(range);
        starts.filter_map(block)
    });
    let mut blocks = blocks.peekable();
    std::iter::from_fn(move || {
        let mut batch = vec![blocks.next()?];
        let mut len: u64 = batch.iter().map(ByteRange::len).sum();
        while let Some(block) = blocks.next_if(|block| len + block.len() <= BATCH_LEN) {
            len += block.len();
            batch.push(block);
        }
        Some(batch)
    })
}

/// Why there is no body.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// An error of reading.
    #[error(transparent)]
    Contents(#[from] Error),
    /// There is no such entry.
    #[error(transparent)]
    Missing(Missing),
    /// It is a directory, which has none.
    #[error("{0} is a directory")]
    Directory(Key),
}

/// The body of an entry.
#[derive(Debug)]
pub struct Body<'a> {
    contents: &'a dyn Contents,
    key: &'a Key,
    len: u64,
    reader: Option<BodyReader>,
}

/// Reads ranges of a body, in any order. It is cheap to clone.
#[derive(Debug, Clone)]
pub struct BodyReader(Way);

#[derive(Debug, Clone)]
enum Way {
    Record(Arc<RecordSource>),
    Member(Arc<MemberSource>),
}

impl Opened {
    /// The body of the entry with a key. Of a member that is read as a whole the checksum is
    /// verified; ranges of one whose bytes lie in the archive as they are, are read alone.
    ///
    /// # Errors
    /// [`BodyError`].
    pub fn body<'a>(&'a self, key: &'a Key, is_whole: bool) -> Result<Body<'a>, BodyError> {
        let contents = match self {
            Self::Pack(contents) => contents,
            Self::Archive(archive) => return Body::of_member(archive, key, is_whole),
        };
        let pack = contents.pack();
        let Some(record) = pack.open_source(key).map_err(Error::from)? else {
            let missing = Missing::record(pack, contents.path().to_path_buf(), key, &[]);
            return Err(BodyError::Missing(missing));
        };
        if record.head().attributes.file_kind() == Some(FileKind::Directory) {
            return Err(BodyError::Directory(key.clone()));
        }
        let (len, reader) = (record.len(), Some(BodyReader(Way::Record(record))));
        Ok(Body { contents: &**contents, key, len, reader })
    }
}

impl<'a> Body<'a> {
    /// The same of the member of an archive.
    ///
    /// # Errors
    /// [`BodyError`]; among them that its bytes [cannot be had](archive::Member::refusal).
    pub fn of_member(archive: &'a Archive, key: &'a Key, is_whole: bool) -> Result<Self, BodyError> {
        let Some(member) = key.as_bytes().and_then(|key| archive.find(key)) else {
            return Err(BodyError::Missing(Missing::member(archive, key)));
        };
        if member.kind() == MemberKind::Directory {
            return Err(BodyError::Directory(key.clone()));
        }
        if let Some(why) = member.refusal() {
            return Err(Error::Archive(archive::Error::Invalid(why)).into());
        }
        let source = if is_whole { None } else { archive.source(&member).map_err(Error::from)? };
        let reader = source.map(|source| BodyReader(Way::Member(Arc::new(source))));
        Ok(Body { contents: archive, key, len: member.node.len, reader })
    }

    /// Bytes of it.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What reads ranges of it; `None` where it can only be read [from its front](Self::pour).
    pub fn reader(&self) -> Option<&BodyReader> {
        self.reader.as_ref()
    }

    /// Passes ranges to `give`, in their order, as [`read_ranges`] does, and with `to_end` all of
    /// it is read, so that its checksum is verified.
    ///
    /// # Errors
    /// Those of [`read_ranges`].
    pub fn pour<E: From<ValueError>>(
        &self,
        ranges: &[ByteRange],
        to_end: bool,
        stop: Stop,
        give: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        read_ranges(self.contents, self.key, ranges, to_end, stop, give)
    }

    /// The bytes of ranges, in their order. Of what can only be read from its front, of any length,
    /// what is before them is read, too, and not held. `go_on` is called with the bytes since its
    /// last call; it ends where that returns `false`.
    ///
    /// # Errors
    /// [`crate::Error::OutOfBounds`] for a range that reaches past the end; those of
    /// [`read_ranges`].
    pub fn read(
        &self,
        ranges: &[ByteRange],
        stop: Stop,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Vec<Bytes>, ValueError> {
        if let Some(&range) = ranges.iter().find(|range| range.end() > self.len) {
            let path = format!("{}//{}", self.contents.path().display(), self.key).into();
            let error = crate::Error::OutOfBounds { path, range, len: self.len };
            return Err(Error::Archive(archive::Error::Core(error)).into());
        }
        let mut goes_on =
            |bytes: u64| if go_on(bytes) { Ok(()) } else { Err(ValueError::from(Error::Interrupted)) };
        if let Some(reader) = &self.reader {
            let read: Vec<Bytes> = reader.read(ranges)?.into_iter().collect::<Result<_>>()?;
            goes_on(read.iter().map(|bytes| bytes.len() as u64).sum())?;
            return Ok(read);
        }
        let mut read = Vec::new();
        self.pour(ranges, false, stop, &mut |piece| {
            read.extend_from_slice(piece);
            goes_on(piece.len() as u64)
        })?;
        let mut read = Bytes::from(read);
        Ok(ranges.iter().map(|range| read.split_to(read.len().min(range.len() as usize))).collect())
    }
}

impl BodyReader {
    /// What is read at once, in bytes.
    pub fn block_len(&self) -> u64 {
        match &self.0 {
            Way::Record(_) => RECORD_BLOCK_LEN,
            Way::Member(_) => BLOCK_LEN,
        }
    }

    /// The bytes of ranges, read together.
    ///
    /// # Errors
    /// Errors of reading; the inner ones are those of each range.
    pub fn read(&self, ranges: &[ByteRange]) -> Result<Vec<Result<Bytes>>> {
        match &self.0 {
            Way::Record(record) => {
                let read = record.read_many(ranges)?;
                Ok(read.into_iter().map(|bytes| bytes.map_err(Error::from)).collect())
            }
            Way::Member(source) => {
                let read = read_batch(&Backend::Auto, &**source, ranges, Access::Cached);
                Ok(read.map_err(archive::Error::Core)?.into_iter().map(Ok).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_what_is_there_and_may_not_begin_past_the_end() {
        let span = |start, end| Span { start, end };
        let range = |start, end| Ok(ByteRange::new(start, end).unwrap());
        assert_eq!(span(2, Some(5)).within(4), range(2, 4));
        assert_eq!(span(4, None).within(4), range(4, 4));
        assert_eq!(Span::all_within(&[], 4), Ok(vec![ByteRange::to(4)]));
        let refused = Span::all_within(&[span(0, None), span(5, Some(6))], 4).unwrap_err();
        assert!(refused.to_string().starts_with("the range 5..6 begins past the end"), "{refused}");
    }

    #[test]
    fn batches_hold_everything_in_order_and_are_bounded() {
        let range = |start, end| ByteRange::new(start, end).unwrap();
        let ranges = [range(5, 100 << 20), range(0, 0), range(3, 4), range(0, 40 << 20)];
        let all: Vec<_> = batches(&ranges, BLOCK_LEN).collect();
        assert!(all.iter().all(|batch| batch.iter().map(ByteRange::len).sum::<u64>() <= BATCH_LEN));
        let blocks: Vec<_> = all.concat();
        assert!(blocks.iter().all(|block| !block.is_empty() && block.len() <= BLOCK_LEN));
        let total: u64 = blocks.iter().map(ByteRange::len).sum();
        assert_eq!(total, ranges.iter().map(ByteRange::len).sum::<u64>());
        let first: Vec<_> = blocks.iter().take_while(|block| block.end() <= 100 << 20).collect();
        assert!(first.windows(2).take(11).all(|two| two[0].end() == two[1].start()));
    }
}
