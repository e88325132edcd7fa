//! [`RecordSource`]: a record of any length that is read by range, verified chunk by chunk.
//!
//! The place of a chunk follows from its number, in a contiguous body as in a framed one: all
//! pieces except the last have equal length. A read needs the chunks that a range touches and, in a
//! contiguous body, the checksums around them, which are kept.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use bytes::Bytes;

use crate::engine::Access;
use crate::extent::ByteRange;
use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::Invalid;
use crate::pack::format::frame::{
    BodyLen, FrameHeader, PIECE_HEAD_LEN, PieceHead, TRAILER_LEN, Trailer, checksums_len, verify_chunks,
};
use crate::pack::format::index::Place;
use crate::pack::format::segment::Salt;
use crate::pack::key::Key;
use crate::pack::read::reader::{Read, ReadBatch, Reader};
use crate::pack::read::record::{Record, RecordHead, parse_head};
use crate::pack::state::open::{HEAD_READ_LEN, LONG_HEAD_READ_LEN, Pack};
use crate::pack::state::segment::Segment;
use crate::pack::state::snapshot::Found;
use crate::source::{AccessRule, Check, Identity, Leaf, Origin, Source, check_bounds};
use crate::storage::Lock;
use crate::tree::Holes;

/// This much is read at once where ranges are read ahead.
const PREFETCH_LEN: usize = 32 << 20;

/// Chunks that are read and verified as one, bytes: as long as one read of a session.
const SPAN_LEN: u64 = 1 << 20;

/// Checksums that are read at once, and remembered as one: 4 KiB, for 64 MiB of body as a rule.
const SUMS: u64 = 1024;

/// Spans of checksums that are remembered at most: 1 MiB.
const SUMS_HELD_MAX: usize = 256;

/// Limits of the verified chunks that are kept: their number, and their bytes.
const CHUNKS_HELD_MAX: u64 = 8;
const CHUNKS_HELD_LEN: u64 = 4 << 20;

/// Heads of pieces that are read at once where the end of a framed body is looked for.
const PIECES_AT_ONCE: u64 = 4096;

/// A record whose body is read by range, in any order and by any number of threads. All returned
/// bytes have been verified, and only the chunks that a range touches are read, for a body of any
/// length.
///
/// It keeps the generation that it was opened at, and with it its bytes, as long as it is there.
#[derive(Debug)]
pub struct RecordSource {
    head: RecordHead,
    path: PathBuf,
    identity: Identity,
    origin: Origin,
    body: Arc<RecordBody>,
    reader: Arc<Reader>,
    rule: AccessRule,
    /// Whether the pack is best left in the page cache.
    fits: bool,
    _hold: Option<Arc<dyn Lock>>,
}

/// Where a body is, and what its checksums are bound to.
#[derive(Debug)]
struct RecordBody {
    segment: Arc<dyn Source>,
    salt: Salt,
    sequence: u64,
    /// Where it begins in the segment.
    start: u64,
    len: u64,
    framed: bool,
    held: Mutex<ChunkCache>,
}

/// Bytes read before that are likely to be needed again.
#[derive(Debug, Default)]
struct ChunkCache {
    /// Spans of checksums by their number, newest last.
    sums: VecDeque<(u64, Bytes)>,
    /// Verified chunks that were requested only in part, by their number, newest last.
    chunks: VecDeque<(u64, Bytes)>,
}

impl ChunkCache {
    fn find(held: &VecDeque<(u64, Bytes)>, number: u64) -> Option<Bytes> {
        held.iter().rev().find(|(held, _)| *held == number).map(|(_, bytes)| bytes.clone())
    }

    fn keep(held: &mut VecDeque<(u64, Bytes)>, number: u64, bytes: Bytes, most: usize) {
        held.retain(|(held, _)| *held != number);
        while held.len() >= most.max(1) {
            held.pop_front();
        }
        held.push_back((number, bytes));
    }
}

impl RecordBody {
    /// The kept bytes, unless another thread is using them: then this one does without. A forked
    /// child could wait forever for a thread that it does not have.
    fn held(&self) -> Option<MutexGuard<'_, ChunkCache>> {
        match self.held.try_lock() {
            Ok(held) => Some(held),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The part of the body that a chunk is.
    fn chunk(&self, number: u64) -> ByteRange {
        let start = number.saturating_mul(self.salt.chunk_len).min(self.len);
        ByteRange::new(start, start.saturating_add(self.salt.chunk_len).min(self.len)).unwrap_or_default()
    }

    fn chunks(&self) -> u64 {
        self.len.div_ceil(self.salt.chunk_len)
    }

    /// Where a chunk begins in the segment: of a framed body, the head of its piece.
    fn place(&self, number: u64) -> u64 {
        let step = self.salt.chunk_len + if self.framed { PIECE_HEAD_LEN } else { 0 };
        self.start.saturating_add(number.saturating_mul(step))
    }

    /// The range of these chunks in the segment.
    fn span(&self, chunks: &Range<u64>) -> ByteRange {
        let heads = if self.framed { (chunks.end - chunks.start) * PIECE_HEAD_LEN } else { 0 };
        let len = self.chunk(chunks.end - 1).end() - self.chunk(chunks.start).start();
        ByteRange::at(self.place(chunks.start), len + heads).unwrap_or_default()
    }

    /// The checksums that chunks need: those of the runs that they are in, by the numbers of the
    /// first and of the one after the last.
    fn sums_of(&self, chunks: &Range<u64>) -> Range<u64> {
        chunks.start / SUMS * SUMS..(chunks.end.div_ceil(SUMS) * SUMS).min(self.chunks())
    }

    /// The same, if all of them are remembered.
    fn held_sums(&self, sums: &Range<u64>) -> Option<Bytes> {
        let held = self.held()?;
        let mut spans = (sums.start / SUMS)..sums.end.div_ceil(SUMS);
        let first = ChunkCache::find(&held.sums, spans.next()?)?;
        let rest: Option<Vec<Bytes>> = spans.map(|span| ChunkCache::find(&held.sums, span)).collect();
        match rest?.as_slice() {
            [] => Some(first),
            rest => Some(std::iter::once(&first).chain(rest).flatten().copied().collect()),
        }
    }

    fn keep_sums(&self, sums: &Range<u64>, bytes: &[u8]) {
        let Some(mut held) = self.held() else { return };
        for (span, bytes) in (sums.start / SUMS..).zip(bytes.chunks(SUMS as usize * 4)) {
            // Not the memory of the read, which may be far more.
            ChunkCache::keep(&mut held.sums, span, Bytes::copy_from_slice(bytes), SUMS_HELD_MAX);
        }
    }

    fn forget_sums(&self, chunk: u64) {
        if let Some(mut held) = self.held() {
            held.sums.retain(|(span, _)| *span != chunk / SUMS);
        }
    }

    fn keep_chunk(&self, number: u64, bytes: Bytes) {
        let most = (CHUNKS_HELD_LEN / self.salt.chunk_len).clamp(1, CHUNKS_HELD_MAX);
        if let Some(mut held) = self.held() {
            ChunkCache::keep(&mut held.chunks, number, bytes, most as usize);
        }
    }

    /// The check of these chunks, from which `part` of the body is requested.
    fn check(self: &Arc<Self>, chunks: Range<u64>, part: ByteRange) -> crate::Result<CheckedSpan> {
        let span = self.span(&chunks);
        let mut leaves = Vec::with_capacity(2);
        if self.framed {
            self.segment.resolve(span, &mut leaves)?;
            return Ok(CheckedSpan { body: self.clone(), chunks, part, sums: Sums::Within, leaves });
        }
        let wanted = self.sums_of(&chunks);
        if let Some(held) = self.held_sums(&wanted) {
            self.segment.resolve(span, &mut leaves)?;
            let sums = Sums::Held { first: wanted.start, sums: held };
            return Ok(CheckedSpan { body: self.clone(), chunks, part, sums, leaves });
        }
        let sums_at = self.start.saturating_add(self.len).saturating_add(wanted.start * 4);
        let sums = ByteRange::at(sums_at, (wanted.end - wanted.start) * 4).unwrap_or_default();
        match span.end() == sums.start() {
            // The checksums directly follow the last chunk.
            true => {
                let both = ByteRange::new(span.start(), sums.end()).unwrap_or_default();
                self.segment.resolve(both, &mut leaves)?;
            }
            false => {
                self.segment.resolve(span, &mut leaves)?;
                self.segment.resolve(sums, &mut leaves)?;
            }
        }
        Ok(CheckedSpan { body: self.clone(), chunks, part, sums: Sums::After(wanted), leaves })
    }
}

/// Chunks of a body that are read and verified as one.
#[derive(Debug)]
struct CheckedSpan {
    body: Arc<RecordBody>,
    /// The numbers of the chunks; never none.
    chunks: Range<u64>,
    /// What of the body is wanted; it is in the chunks.
    part: ByteRange,
    sums: Sums,
    leaves: Vec<Leaf>,
}

/// Where the checksums of a span are.
#[derive(Debug)]
enum Sums {
    /// In it, before each chunk.
    Within,
    /// After the bytes in the same read: those of these chunks.
    After(Range<u64>),
    /// Read before: from this chunk on.
    Held { first: u64, sums: Bytes },
}

impl CheckedSpan {
    fn damaged(&self, offset: u64, what: String) -> crate::Error {
        crate::Error::Damaged { path: self.body.segment.path().to_path_buf(), offset, what }
    }

    fn cut_short(&self) -> crate::Error {
        self.damaged(self.body.place(self.chunks.start), "the body is cut short".into())
    }

    /// The verified chunks of a contiguous body.
    fn contiguous(&self, read: &Bytes) -> crate::Result<Bytes> {
        let body = &self.body;
        let len = body.span(&self.chunks).len() as usize;
        let (data, after) = read.split_at_checked(len).ok_or_else(|| self.cut_short())?;
        let (first, sums) = match &self.sums {
            Sums::Held { first, sums } => (*first, &**sums),
            Sums::After(sums) => (sums.start, after),
            Sums::Within => (self.chunks.start, after),
        };
        let from = (self.chunks.start - first) as usize * 4;
        let own = sums.get(from..from + (self.chunks.end - self.chunks.start) as usize * 4);
        let own = own.ok_or_else(|| self.cut_short())?;
        if let Err(invalid) = verify_chunks(data, own, &body.salt, body.sequence, self.chunks.start) {
            // What is wrong may be the checksum: it is to be read again.
            body.forget_sums(self.chunks.start + invalid.offset / body.salt.chunk_len);
            return Err(self.damaged(body.place(self.chunks.start) + invalid.offset, invalid.what));
        }
        if let Sums::After(sums) = &self.sums {
            body.keep_sums(sums, after);
        }
        Ok(read.slice(..len))
    }

    /// The verified chunks of a framed body, without the heads between them.
    fn framed(&self, read: &Bytes) -> crate::Result<Bytes> {
        let (mut at, head_len) = (0, PIECE_HEAD_LEN as usize);
        let is_one = self.chunks.end - self.chunks.start == 1;
        let mut chunks = Vec::with_capacity(if is_one { 0 } else { read.len() });
        for number in self.chunks.clone() {
            let len = self.body.chunk(number).len() as usize;
            let piece = read.get(at..at + head_len + len).ok_or_else(|| self.cut_short())?;
            let (head, bytes) = piece.split_at(head_len);
            self.piece(number, head, bytes)
                .map_err(|invalid| self.damaged(self.body.place(number), invalid.what))?;
            if is_one {
                return Ok(read.slice(at + head_len..at + head_len + len));
            }
            chunks.extend_from_slice(bytes);
            at += head_len + len;
        }
        Ok(chunks.into())
    }

    fn piece(&self, number: u64, head: &[u8], bytes: &[u8]) -> Result<(), Invalid> {
        let piece = PieceHead::decode(head, self.body.salt.chunk_len)?;
        if piece.len as usize != bytes.len() {
            let what = format!("piece {number} has {} bytes, and should have {}", piece.len, bytes.len());
            return Err(Invalid::damaged(0, what));
        }
        piece.verify(bytes, &self.body.salt, self.body.sequence, number)
    }

    /// Keeps the chunk that a sequential reader needs next: the last, if not all of it was
    /// requested.
    fn keep_last(&self, whole: &Bytes) {
        let (first, last) = (self.body.chunk(self.chunks.start), self.body.chunk(self.chunks.end - 1));
        let is_one = self.chunks.end - self.chunks.start == 1;
        let is_whole = self.part.end() == last.end() && !(is_one && self.part.start() > last.start());
        if is_whole {
            return;
        }
        let from = (last.start() - first.start()) as usize;
        let chunk = match is_one {
            true => whole.clone(),
            // Not the memory of all of them.
            false => Bytes::copy_from_slice(whole.get(from..).unwrap_or_default()),
        };
        self.body.keep_chunk(self.chunks.end - 1, chunk);
    }
}

impl Check for CheckedSpan {
    fn path(&self) -> &Path {
        self.body.segment.path()
    }

    fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    fn verify(&self, read: Bytes) -> crate::Result<Bytes> {
        let whole = if self.body.framed { self.framed(&read)? } else { self.contiguous(&read)? };
        self.keep_last(&whole);
        let first = self.body.chunk(self.chunks.start).start();
        // The part is in the chunks, which are all there.
        Ok(whole.slice((self.part.start() - first) as usize..(self.part.end() - first) as usize))
    }
}

impl Source for RecordSource {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.body.len
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    /// A record of a generation never becomes another one.
    fn current_identity(&self) -> crate::Result<Identity> {
        Ok(self.identity())
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> crate::Result<()> {
        check_bounds(self, range)?;
        let (body, chunk_len) = (&self.body, self.body.salt.chunk_len);
        let chunks_per_span = (SPAN_LEN / chunk_len).max(1);
        let before = leaves.len();
        let mut at = range.start();
        while at < range.end() {
            let first = at / chunk_len;
            let held = body.held().and_then(|held| ChunkCache::find(&held.chunks, first));
            if let Some(chunk) = held {
                let whole = body.chunk(first);
                let end = whole.end().min(range.end());
                let part = (at - whole.start()) as usize..(end - whole.start()) as usize;
                leaves.push(Leaf::Bytes(chunk.slice(part)));
                at = end;
                continue;
            }
            let last = (first + chunks_per_span - 1).min((range.end() - 1) / chunk_len);
            let end = body.chunk(last).end().min(range.end());
            let part = ByteRange::new(at, end).unwrap_or_default();
            match body.check(first..last + 1, part) {
                Ok(check) => leaves.push(Leaf::Checked { check: Arc::new(check), len: part.len() }),
                Err(error) => {
                    leaves.truncate(before);
                    return Err(error);
                }
            }
            at = end;
        }
        Ok(())
    }

    fn holes(&self) -> crate::Result<Holes> {
        Ok(self.head.attributes.holes())
    }

    fn origin(&self) -> Origin {
        self.origin.clone()
    }

    /// Its checksums are bound to the pack and to the number of the record.
    fn checks_reads(&self) -> bool {
        true
    }
}

impl RecordSource {
    /// Its header, which includes its length.
    pub fn head(&self) -> &RecordHead {
        &self.head
    }

    /// The bytes of a range.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if a chunk that the range touches is damaged, or an error of
    /// reading.
    pub fn read(&self, range: ByteRange) -> Result<Bytes> {
        let mut all = self.read_many(&[range])?;
        all.pop().unwrap_or_else(|| Ok(Bytes::new()))
    }

    /// The bytes of many ranges, in their order, read together at queue depth.
    ///
    /// # Errors
    /// The outer result is an error if reading is impossible at all; the inner ones are those of
    /// each range: damage costs only those that touch it.
    pub fn read_many(&self, ranges: &[ByteRange]) -> Result<Vec<Result<Bytes>>> {
        let results = ranges.iter().map(|_| Ok(Bytes::new())).collect();
        let mut batch = RangeBatch { record: self, ranges: ranges.iter(), results };
        self.reader.read_batch(&mut batch)?;
        Ok(batch.results)
    }

    /// Reads ranges and verifies them, so that they are in the page cache where half of the free
    /// memory holds the pack. `progress` is called with the bytes so far and in all; it ends when
    /// that returns `false`.
    ///
    /// # Errors
    /// As [`read`](Self::read); [`Error::Stopped`] when it was stopped.
    pub fn prefetch(&self, ranges: &[ByteRange], progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<()> {
        let (mut done, total) = (0, ranges.iter().map(ByteRange::len).sum());
        for range in ranges {
            for start in (range.start()..range.end()).step_by(PREFETCH_LEN) {
                if !progress(done, total) {
                    return Err(Error::Stopped);
                }
                let len = (range.end() - start).min(PREFETCH_LEN as u64);
                done += self.read(ByteRange::at(start, len).unwrap_or_default())?.len() as u64;
            }
        }
        match progress(done, total) {
            true => Ok(()),
            false => Err(Error::Stopped),
        }
    }

    fn access(&self, range: ByteRange) -> Access {
        self.rule.decide_for_gets(self, &[range], || self.fits)
    }

    /// The error as an error of this record.
    fn error(&self, error: crate::Error) -> Error {
        let error = Damage::of_unreadable(error).map_or_else(Error::from, Error::Damaged);
        error.of(&self.head.key)
    }
}

/// Ranges of a record on their way.
struct RangeBatch<'a> {
    record: &'a RecordSource,
    ranges: std::slice::Iter<'a, ByteRange>,
    results: Vec<Result<Bytes>>,
}

impl<'a> ReadBatch<'a> for RangeBatch<'a> {
    fn next(&mut self) -> Option<Read<'a>> {
        let range = *self.ranges.next()?;
        let source: &'a dyn Source = self.record;
        Some((source, range, self.record.access(range)))
    }

    fn take(&mut self, number: usize, result: crate::Result<Bytes>) {
        if let Some(slot) = self.results.get_mut(number) {
            *slot = result.map_err(|error| self.record.error(error));
        }
    }
}

impl Pack {
    /// The record at a place where its key was found, to be read by range.
    pub(crate) fn record_source(&self, key: &Key, found: Found) -> Result<RecordSource> {
        let Some(segment) = self.snapshot.segments.get(found.segment) else {
            return Err(Error::Invalid(format!("the place of {key} is of another state of the pack")));
        };
        let (header, head) = self.head_at(segment, found.place)?;
        if head.key != *key {
            return Err(self.misplaced(key, &Record { head, body: Bytes::new() }));
        }
        let start = head.offset.saturating_add(header.head_len());
        let (framed, len) = match header.body {
            BodyLen::Known(len) => (false, len),
            BodyLen::Framed => (true, self.framed_len(segment, found.place, &header, &head, start)?),
        };
        let after = match framed {
            true => len.div_ceil(segment.salt.chunk_len).saturating_mul(PIECE_HEAD_LEN),
            false => checksums_len(len, segment.salt.chunk_len),
        };
        if start.saturating_add(len).saturating_add(after) > segment.frames_end {
            return Err(damaged(segment, head.offset, "the frame reaches past the end of the frames"));
        }
        let (salt, sequence, source) = (segment.salt, header.sequence, segment.source.clone());
        let body = RecordBody { segment: source, salt, sequence, start, len, framed, held: Mutex::default() };
        let mut path = self.storage.path("").components().as_path().as_os_str().to_owned();
        path.push(format!("//{key}"));
        let path = PathBuf::from(path);
        let nonce = self.nonce();
        let etag = format!("\"{nonce}-{:x}-{sequence:x}-{:08x}\"", head.segment, header.crc);
        let origin = Origin::new("record", path.to_string_lossy())
            .within(&Origin::of_path(&self.storage.path("")))
            .with("pack", nonce)
            .with("key", key.sort_form());
        Ok(RecordSource {
            head: RecordHead { body_len: Some(len), ..head },
            path,
            identity: Identity { len, etag: Some(etag.into()), ..Identity::default() },
            origin,
            body: Arc::new(body),
            reader: self.reader.clone(),
            rule: self.access,
            fits: self.fits_into_memory(),
            _hold: self.snapshot.hold.clone(),
        })
    }

    /// The head of the record at a place.
    fn head_at(&self, segment: &Segment, place: Place) -> Result<(FrameHeader, RecordHead)> {
        let (source, frame) = (segment.source.as_ref(), place.range_to(segment.frames_end));
        let mut most = HEAD_READ_LEN;
        loop {
            let range = ByteRange::at(frame.start(), frame.len().min(most)).unwrap_or_default();
            let (bytes, holes) = self.reader.read_around(source, range)?;
            match parse_head(segment, place, &bytes) {
                // Key and attributes may be longer than what was read.
                Err(_) if most < LONG_HEAD_READ_LEN && range.len() == most => most = LONG_HEAD_READ_LEN,
                parsed => return parsed.map_err(|error| holes.explain(source, range, error)),
            }
        }
    }

    /// The length of a framed body, from its trailer.
    fn framed_len(
        &self,
        segment: &Segment,
        place: Place,
        header: &FrameHeader,
        head: &RecordHead,
        start: u64,
    ) -> Result<u64> {
        match self.with_length(segment, place, header, head.clone())?.body_len {
            Some(len) => Ok(len),
            None => self.walked_len(segment, place, header, start),
        }
    }

    /// The same if the index does not say where the trailer is: it follows the last piece, and only
    /// the heads of the pieces are read.
    fn walked_len(&self, segment: &Segment, place: Place, header: &FrameHeader, start: u64) -> Result<u64> {
        let (source, end) = (segment.source.as_ref(), place.range_to(segment.frames_end).end());
        let (chunk_len, mut first) = (segment.salt.chunk_len, 0_u64);
        loop {
            let head = |number: u64| {
                let at = start.saturating_add(number.saturating_mul(chunk_len + PIECE_HEAD_LEN));
                ByteRange::at(at, PIECE_HEAD_LEN).filter(|head| head.end() <= end)
            };
            let heads: Vec<ByteRange> = (first..first + PIECES_AT_ONCE).map_while(head).collect();
            if heads.is_empty() {
                let what = "the end of its body is not there: no trailer says how long it is";
                return Err(damaged(segment, place.offset, what));
            }
            let reads = heads.iter().map(|&head| (source, head, Access::Cached));
            for ((head, bytes), number) in heads.iter().zip(self.reader.read_many(reads)?).zip(first..) {
                // A head that is damaged costs its own piece, and hides no end but its own.
                let piece = match bytes {
                    Err(Error::Damaged(_)) => continue,
                    bytes => PieceHead::decode(&bytes?, chunk_len),
                };
                let Ok(piece) = piece else { continue };
                let len = number.saturating_mul(chunk_len).saturating_add(u64::from(piece.len));
                let trailer = ByteRange::at(head.end().saturating_add(u64::from(piece.len)), TRAILER_LEN);
                if let Some(trailer) = trailer.filter(|trailer| piece.last && trailer.end() <= end)
                    && self.ends(segment, trailer, header, len)?
                {
                    return Ok(len);
                }
            }
            first += PIECES_AT_ONCE;
        }
    }

    /// Whether a trailer is here that says that the body is so long, and the record counts.
    fn ends(&self, segment: &Segment, at: ByteRange, header: &FrameHeader, len: u64) -> Result<bool> {
        let trailer = match self.reader.read(segment.source.as_ref(), at) {
            Err(Error::Damaged(_)) => return Ok(false),
            bytes => Trailer::decode(&bytes?, header.crc),
        };
        Ok(trailer.is_ok_and(|trailer| trailer.complete && trailer.body_len == len))
    }
}

fn damaged(segment: &Segment, offset: u64, what: &str) -> Error {
    let file = segment.source.path().to_path_buf();
    Error::Damaged(Damage { file, offset, key: None, what: what.into(), cause: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::{Attributes, OpenOptions, PackWriter, WriterOptions};
    use crate::storage::{LocalStorage, LocalStorageOptions};

    #[test]
    fn the_end_of_a_framed_body_is_found_where_the_index_does_not_say_how_long_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let storage = LocalStorage::open(directory.path(), LocalStorageOptions::default()).unwrap();
        let options = WriterOptions { chunk_log2: 12, ..WriterOptions::default() };
        let mut writer = PackWriter::create(Arc::new(storage), options).unwrap();
        let lens = [0, 1, 4096, 4097, 5000 * 4096 + 9];
        for (len, id) in lens.into_iter().zip(0..) {
            let mut record = writer.begin("", &Key::id(id), &Attributes::new(), None).unwrap();
            record.write(&vec![7; len]).unwrap();
            record.finish().unwrap();
        }
        writer.put("", &Key::id(99), &Attributes::new(), b"after them").unwrap();
        writer.finish(true).unwrap();
        let pack = Pack::open_path(directory.path(), OpenOptions::default()).unwrap();
        for (len, id) in lens.into_iter().zip(0..) {
            let found = pack.find(&Key::id(id)).unwrap().unwrap();
            let unsaid = Found { place: Place { len: None, ..found.place }, ..found };
            for found in [found, unsaid] {
                let record = pack.record_source(&Key::id(id), found).unwrap();
                assert_eq!(record.len(), len as u64);
                let last = ByteRange::new(record.len().saturating_sub(10), record.len()).unwrap();
                assert!(record.read(last).unwrap() == vec![7; len.min(10)]);
            }
        }
    }
}
