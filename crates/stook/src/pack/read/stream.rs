//! One record, its body in verified pieces.

use crate::pack::damages::DamageLog;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::key::Key;
use crate::pack::read::frames::Frames;
use crate::pack::read::reader::Reader;
use crate::pack::read::record::{Record, RecordHead, record_head};
use crate::pack::state::open::Pack;
use crate::pack::state::segment::Segment;

/// Reads the body of one record piece by piece; nothing unverified is returned.
pub struct RecordReader<'p> {
    reader: &'p Reader,
    frames: Option<Frames>,
    head: RecordHead,
    ended: bool,
}

impl<'p> RecordReader<'p> {
    /// Reads what [`Segment::open_record`] opened.
    pub(crate) fn new(reader: &'p Reader, segment: &Segment, frames: Frames) -> Result<Self> {
        let head = head_of(segment, &frames)?;
        Ok(Self { reader, frames: Some(frames), head, ended: false })
    }

    /// All but the body.
    pub fn head(&self) -> &RecordHead {
        &self.head
    }

    /// The next piece of the body; `None` after the last.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if it is damaged, or an error of reading.
    pub fn next_chunk(&mut self) -> Result<Option<&[u8]>> {
        let Some(frames) = self.frames.as_mut().filter(|_| !self.ended) else { return Ok(None) };
        match frames.next_of_record() {
            Ok(Some(span)) => Ok(Some(frames.view(span).1)),
            ended => {
                self.ended = true;
                ended.map(|_| None)
            }
        }
    }

    /// All of it, the body put together.
    ///
    /// # Errors
    /// Returns the errors of [`next_chunk`](Self::next_chunk).
    pub(crate) fn into_record(mut self) -> Result<Record> {
        let mut body = Vec::new();
        while let Some(chunk) = self.next_chunk()? {
            body.extend_from_slice(chunk);
        }
        Ok(Record { head: self.head.clone(), body: body.into() })
    }

    /// The head, when the body has been read.
    pub fn into_head(self) -> RecordHead {
        self.head.clone()
    }
}

impl Pack {
    /// Compares the body of a record with other bytes; `None` if there is no such record. A damaged
    /// one is not the same; the damage is in [`Pack::damage_log`].
    ///
    /// # Errors
    /// Returns the errors of [`open_record`](Self::open_record), except damage.
    pub fn compare(&self, key: &Key) -> Result<Option<BodyComparison<'_>>> {
        let log = &self.snapshot.log;
        let record = log.unless_damaged(self.open_record(key))?.flatten();
        Ok(record.map(|record| BodyComparison { record, log, chunk: Vec::new(), at: 0, is_same: true }))
    }
}

/// The body of a record, compared with bytes that are given piece by piece. A body that is damaged
/// is not the same.
#[derive(Debug)]
pub struct BodyComparison<'p> {
    log: &'p DamageLog,
    record: RecordReader<'p>,
    /// The last chunk of the body, and how much of it was compared.
    chunk: Vec<u8>,
    at: usize,
    is_same: bool,
}

impl BodyComparison<'_> {
    /// Compares the next bytes; whether all so far are the same.
    ///
    /// # Errors
    /// Returns an error if reading the record fails; damage is not an error here.
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<bool> {
        while self.is_same && !bytes.is_empty() {
            let left = self.chunk.get(self.at..).unwrap_or_default();
            if left.is_empty() {
                self.is_same = self.next_chunk()?;
                continue;
            }
            let (now, later) = bytes.split_at(bytes.len().min(left.len()));
            self.is_same = left.starts_with(now);
            self.at += now.len();
            bytes = later;
        }
        Ok(self.is_same)
    }

    /// Whether the given bytes are the whole body, and equal.
    ///
    /// # Errors
    /// Returns the errors of [`take`](Self::take).
    pub fn finish(mut self) -> Result<bool> {
        while self.is_same && self.at == self.chunk.len() {
            if !self.next_chunk()? {
                return Ok(self.is_same);
            }
        }
        Ok(false)
    }

    /// Whether there is another chunk. If it is damaged there is none, and the bodies differ.
    fn next_chunk(&mut self) -> Result<bool> {
        self.chunk.clear();
        self.at = 0;
        match self.log.unless_damaged(self.record.next_chunk())? {
            Some(Some(chunk)) => {
                self.chunk.extend_from_slice(chunk);
                Ok(true)
            }
            Some(None) => Ok(false),
            None => {
                self.is_same = false;
                Ok(false)
            }
        }
    }
}

impl Drop for RecordReader<'_> {
    fn drop(&mut self) {
        if let Some(frames) = self.frames.take()
            && let Ok(session) = frames.window.into_session()
        {
            self.reader.give_back_session(session);
        }
    }
}

impl std::fmt::Debug for RecordReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordReader").field("head", &self.head).finish_non_exhaustive()
    }
}

/// The head of the record whose frame the walk is at.
fn head_of(segment: &Segment, frames: &Frames) -> Result<RecordHead> {
    let head = frames.head();
    let key = head.key().ok_or_else(|| {
        let file = segment.source.path().to_path_buf();
        let what = "the index names a frame that is no record".into();
        Error::Damaged(Damage { file, offset: head.offset, key: None, what, cause: None })
    })?;
    record_head(segment, &head.header, head.offset, key, &head.attributes)
}
