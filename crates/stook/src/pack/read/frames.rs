//! Goes through the frames of a segment in the order in which they were written.
//!
//! Everything returned has been verified: header, key and attributes before a frame is returned,
//! each chunk of a body before it is visible. Bytes that do not verify are reported, and the walk
//! can continue after them.

use bytes::Bytes;

use crate::error::Result;
use crate::extent::ByteRange;
use crate::pack::error::Error;
use crate::pack::format::Invalid;
use crate::pack::format::batch::{digest, digest_more};
use crate::pack::format::frame::{
    BodyLen, FrameHeader, FrameKind, HEADER_LEN, PIECE_HEAD_LEN, PieceHead, TRAILER_LEN, Trailer,
    checksums_len, verify_chunks,
};
use crate::pack::format::segment::Salt;
use crate::pack::key::Key;
use crate::pack::read::window::Window;

/// Chunk checksums of a long body that are read at once, in bytes.
const SUMS_READ_LEN: u64 = 64 << 10;

/// Bytes in which the next frame is looked for at once.
const RESYNC_LEN: usize = 4 << 20;

/// The next frame in a segment.
#[derive(Debug)]
pub(crate) enum Step {
    /// A frame whose header, key and attributes verified; [`Frames::head`] returns them, and the
    /// walk is at its body.
    Frame,
    /// Bytes that are not a frame, or a damaged frame.
    Invalid(Broken),
    /// The end of the range.
    End,
}

/// Where and how the bytes are wrong.
#[derive(Debug, Clone)]
pub(crate) struct Broken {
    /// Offset of the frame in the segment.
    pub(crate) frame: u64,
    /// Offset of the damage.
    pub(crate) offset: u64,
    /// The key, if the header could be read.
    pub(crate) key: Option<Key>,
    /// A description of the damage.
    pub(crate) what: String,
    /// Where the next frame begins, if that is known.
    pub(crate) next: Option<u64>,
    /// The medium does not return the bytes: no interrupted writer left it so.
    pub(crate) unreadable: bool,
}

/// A verified frame up to its body.
#[derive(Debug)]
pub(crate) struct Head {
    /// Offset of the frame.
    pub(crate) offset: u64,
    /// Its fixed part.
    pub(crate) header: FrameHeader,
    /// The key as the frame stores it.
    pub(crate) key: Vec<u8>,
    /// The attributes, encoded.
    pub(crate) attributes: Vec<u8>,
}

impl Head {
    /// The key of a record.
    pub(crate) fn key(&self) -> Option<Key> {
        Key::from_stored(self.header.key_kind, &self.key)
    }

    /// Offset of the body.
    pub(crate) fn body_offset(&self) -> u64 {
        self.offset + self.header.head_len()
    }
}

/// Where in the segment a verified body is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodySpan {
    pub(crate) offset: u64,
    pub(crate) len: usize,
}

/// A part of a body.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Chunk {
    /// The next bytes.
    Bytes(BodySpan),
    /// There are no more frames.
    End {
        /// Length of the body.
        len: u64,
        /// Whether the record counts: a framed one may have been abandoned.
        counts: bool,
    },
}

/// What became of reading a body: it, or why not.
pub(crate) type Checked<T> = Result<T, Trouble>;

/// Why a walk could not continue in this frame.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Something else went wrong than these bytes: the walk ends.
    Failed(Error),
    /// The bytes are damaged.
    Broken(Broken),
}

impl From<crate::Error> for Trouble {
    fn from(error: crate::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// A walk over the frames of a segment.
pub(crate) struct Frames {
    /// The bytes.
    pub(crate) window: Window,
    salt: Salt,
    head: Head,
    body: BodyState,
    /// The range read last.
    looked: ByteRange,
    /// For a member of a batch: the digest of everything of it read so far.
    digest: u32,
}

/// How far the body of the current frame has been returned.
#[derive(Debug)]
enum BodyState {
    /// Nothing of it is left to look at.
    Done,
    /// Contiguous; the chunk checksums that are still needed.
    Known { len: u64, left: u64, chunk: u64, sums: Bytes, sums_from: u64 },
    /// In pieces; how much of it has been read.
    Framed { seen: u64, number: u64 },
    /// All pieces were seen; the trailer comes next.
    Trailer { len: u64 },
}

impl Frames {
    /// Starts a walk at the position of the window.
    pub(crate) fn new(window: Window, salt: Salt) -> Self {
        let header = FrameHeader {
            live: false,
            kind: FrameKind::Filler,
            in_batch: false,
            key_kind: 0,
            key_len: 0,
            attributes_len: 0,
            body: BodyLen::Known(0),
            sequence: 0,
            time_ns: 0,
            crc: 0,
        };
        let head = Head { offset: 0, header, key: Vec::new(), attributes: Vec::new() };
        Self { window, salt, head, body: BodyState::Done, looked: ByteRange::default(), digest: 0 }
    }

    /// The salt of the checksums.
    pub(crate) fn salt(&self) -> Salt {
        self.salt
    }

    /// The same, with the I/O error as its cause where the bytes could not be read at all.
    fn with_cause(&self, broken: Broken) -> Broken {
        match self.window.holes().first_in(self.looked) {
            Some((offset, what)) => Broken { offset, what: what.to_owned(), unreadable: true, ..broken },
            None => broken,
        }
    }

    /// Reads the next header. The frame before must be finished or skipped.
    pub(crate) fn step(&mut self) -> Result<Step> {
        let offset = self.window.pos();
        if self.window.left() == 0 {
            return Ok(Step::End);
        }
        let fixed = look(&mut self.window, &mut self.looked, HEADER_LEN)?;
        let Some(fixed) = fixed.first_chunk::<HEADER_LEN>().copied() else {
            let what = format!("only {} bytes are left where a frame should be", fixed.len());
            return Ok(Step::Invalid(self.nameless(offset, offset, what)));
        };
        let header = match FrameHeader::decode(&fixed, &self.salt) {
            Ok(header) => header,
            Err(invalid) if invalid.unsupported => return self.unknown_frame(offset, &fixed, invalid),
            Err(invalid) => return Ok(Step::Invalid(self.broken_header(offset, &fixed, invalid)?)),
        };
        let head_len = header.head_len() as usize;
        let bytes = look(&mut self.window, &mut self.looked, head_len)?;
        let (key, attributes) = match bytes.get(HEADER_LEN..head_len) {
            Some(rest) => rest.split_at(usize::from(header.key_len).min(rest.len())),
            None => (&[][..], &[][..]),
        };
        let whole = key.len() + attributes.len() + HEADER_LEN == head_len;
        if !whole || !header.verify(&fixed, &self.salt, offset, key, attributes) {
            let what = "the checksum of the header is not what was written".to_owned();
            return Ok(Step::Invalid(self.nameless(offset, offset, what)));
        }
        self.head.key.clear();
        self.head.key.extend_from_slice(key);
        self.head.attributes.clear();
        self.head.attributes.extend_from_slice(attributes);
        (self.head.offset, self.head.header) = (offset, header);
        let past_end = header.frame_len(&self.salt).is_some_and(|len| len > self.window.left());
        if past_end {
            let what =
                format!("the frame reaches past the end of the frames, {} bytes on", self.window.left());
            let broken = self.broken(offset, what, None);
            return Ok(Step::Invalid(broken));
        }
        self.window.skip(head_len as u64)?;
        self.body = BodyState::Done;
        if header.in_batch {
            self.digest = digest(header.crc);
        }
        Ok(Step::Frame)
    }

    /// A frame of a kind or codec that is not known here. If it is as it was written, it is not for
    /// this version to step over, let alone to cut off.
    fn unknown_frame(&mut self, offset: u64, fixed: &[u8; HEADER_LEN], invalid: Invalid) -> Result<Step> {
        let [key_len, attributes_len] = FrameHeader::lens(fixed);
        let bytes = look(&mut self.window, &mut self.looked, HEADER_LEN + key_len + attributes_len)?;
        let rest = bytes.get(HEADER_LEN..).unwrap_or_default();
        let whole = rest.split_at_checked(key_len).is_some_and(|(key, attributes)| {
            FrameHeader::is_as_written(fixed, &self.salt, offset, key, attributes)
        });
        if whole {
            let what = format!("{}: this needs a newer version of stook", invalid.what);
            let source = std::io::Error::new(std::io::ErrorKind::Unsupported, what);
            return Err(crate::Error::io_at("read", self.window.path(), offset, source));
        }
        Ok(Step::Invalid(self.nameless(offset, offset + invalid.offset, invalid.what)))
    }

    /// A header that cannot be read may still be a whole frame whose used flag was hit: then its
    /// length and key are known all the same.
    fn broken_header(&mut self, offset: u64, fixed: &[u8; HEADER_LEN], invalid: Invalid) -> Result<Broken> {
        let mut broken = self.nameless(offset, offset + invalid.offset, invalid.what);
        let mut mended = *fixed;
        if let Some(flag) = mended.get_mut(4) {
            *flag = 0x5a;
        }
        let Ok(header) = FrameHeader::decode(&mended, &self.salt) else { return Ok(broken) };
        let head_len = header.head_len() as usize;
        let bytes = look(&mut self.window, &mut self.looked, head_len)?;
        let Some(rest) = bytes.get(HEADER_LEN..head_len) else { return Ok(broken) };
        let (key, attributes) = rest.split_at(usize::from(header.key_len).min(rest.len()));
        if header.verify(&mended, &self.salt, offset, key, attributes) {
            broken.key = Key::from_stored(header.key_kind, key);
            (self.head.offset, self.head.header) = (offset, header);
            broken.next = header.frame_len(&self.salt).and_then(|len| offset.checked_add(len));
        }
        Ok(broken)
    }

    /// Damage to a frame about which nothing is known.
    fn nameless(&self, frame: u64, offset: u64, what: String) -> Broken {
        self.with_cause(Broken { frame, offset, key: None, what, next: None, unreadable: false })
    }

    fn broken(&self, offset: u64, what: String, next: Option<u64>) -> Broken {
        let (frame, key) = (self.head.offset, self.head.key());
        self.with_cause(Broken { frame, offset, key, what, next, unreadable: false })
    }

    /// The header, key and attributes of the current frame.
    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    /// The digest of the current frame, for the checksum of its batch, once
    /// [`finish_frame`](Self::finish_frame) has read it.
    pub(crate) fn digest(&self) -> u32 {
        self.digest
    }

    /// Adds checksums that were seen.
    fn note_sums(&mut self, sums: [u8; 4]) {
        if self.head.header.in_batch {
            self.digest = digest_more(self.digest, &sums);
        }
    }

    /// Verifies the whole body of the current frame, which [`view`](Self::view) then shows as one
    /// slice, and steps past the frame. `None` if it is framed or too long for the window: then
    /// [`begin_body`](Self::begin_body) reads it in chunks.
    pub(crate) fn whole_body(&mut self) -> Checked<Option<BodySpan>> {
        let BodyLen::Known(len) = self.head.header.body else { return Ok(None) };
        let sums_len = checksums_len(len, self.salt.chunk_len);
        let Some(frame_len) = self.head.header.frame_len(&self.salt) else { return Ok(None) };
        let rest = frame_len - self.head.header.head_len();
        if rest > self.window.peek_max() as u64 {
            return Ok(None);
        }
        let offset = self.head.body_offset();
        let bytes = look(&mut self.window, &mut self.looked, rest as usize)?;
        let (len, sums_len) = (len as usize, sums_len as usize);
        let parts = bytes.split_at_checked(len).and_then(|(body, rest)| Some((body, rest.get(..sums_len)?)));
        let Some((body, sums)) = parts else {
            let what = "the body ends before its length".to_owned();
            return Err(Trouble::Broken(self.broken(offset, what, None)));
        };
        if let Err(invalid) = verify_chunks(body, sums, &self.salt, self.head.header.sequence, 0) {
            let next = self.head.offset.checked_add(frame_len);
            return Err(Trouble::Broken(self.broken(offset + invalid.offset, invalid.what, next)));
        }
        if self.head.header.in_batch {
            self.digest = digest_more(self.digest, sums);
        }
        // Peeking again at what is in the window costs nothing, and lets the walk move on first.
        self.window.skip(rest)?;
        self.body = BodyState::Done;
        let end = self.window.pos();
        Ok(Some(BodySpan { offset: end - rest, len }))
    }

    /// The current frame and its body, right after [`whole_body`](Self::whole_body).
    pub(crate) fn view(&self, span: BodySpan) -> (&Head, &[u8]) {
        (&self.head, self.window.look_back(span.offset, span.len))
    }

    /// Prepares to hand out the body chunk by chunk.
    pub(crate) fn begin_body(&mut self) {
        self.body = match self.head.header.body {
            BodyLen::Framed => BodyState::Framed { seen: 0, number: 0 },
            BodyLen::Known(len) => {
                BodyState::Known { len, left: len, chunk: 0, sums: Bytes::new(), sums_from: 0 }
            }
        };
    }

    /// Returns the next chunk of the body, verified, for [`view`](Self::view); or the end of the
    /// body, and then the walk is after the frame.
    pub(crate) fn next_chunk(&mut self) -> Checked<Chunk> {
        match self.body {
            BodyState::Done => Ok(Chunk::End { len: 0, counts: true }),
            BodyState::Known { .. } => self.next_known(),
            BodyState::Framed { .. } => self.next_piece(),
            BodyState::Trailer { len } => {
                let counts = self.trailer(len)?.complete;
                self.body = BodyState::Done;
                Ok(Chunk::End { len, counts })
            }
        }
    }

    fn next_known(&mut self) -> Checked<Chunk> {
        let BodyState::Known { len: body_len, left, chunk, sums, sums_from } = &mut self.body else {
            return Ok(Chunk::End { len: 0, counts: true });
        };
        let frame_len = self.head.header.frame_len(&self.salt).unwrap_or(0);
        if *left == 0 {
            let len = *body_len;
            let end = self.head.offset + frame_len;
            let rest = end - self.window.pos();
            self.body = BodyState::Done;
            self.window.skip(rest)?;
            return Ok(Chunk::End { len, counts: true });
        }
        let len = (*left).min(self.salt.chunk_len);
        let number = *chunk;
        let offset = self.window.pos();
        if *left == *body_len || (number - *sums_from) as usize * 4 >= sums.len() {
            // Not all at once: a hole of any length has checksums of a fraction of that length.
            let all = checksums_len(*body_len, self.salt.chunk_len);
            let from = self.head.offset + self.head.header.head_len() + *body_len + number * 4;
            *sums = self.window.read_apart(from, (all - number * 4).min(SUMS_READ_LEN))?;
            *sums_from = number;
        }
        let at = (number - *sums_from) as usize * 4;
        let sum_at = self.head.offset + self.head.header.head_len() + *body_len + number * 4;
        let sum = sums.get(at..at + 4).and_then(|sum| sum.first_chunk::<4>()).copied().unwrap_or_default();
        let bytes = look(&mut self.window, &mut self.looked, len as usize)?;
        *left -= len;
        *chunk += 1;
        if let Err(invalid) = verify_chunks(bytes, &sum, &self.salt, self.head.header.sequence, number) {
            if self.window.holes().first_in(self.looked).is_none() {
                self.looked = ByteRange::at(sum_at, 4).unwrap_or_default();
            }
            let next = self.head.offset.checked_add(frame_len);
            return Err(Trouble::Broken(self.broken(offset, invalid.what, next)));
        }
        self.note_sums(sum);
        self.window.skip(len)?;
        Ok(Chunk::Bytes(BodySpan { offset, len: len as usize }))
    }

    fn next_piece(&mut self) -> Checked<Chunk> {
        let BodyState::Framed { seen, number } = self.body else {
            return Ok(Chunk::End { len: 0, counts: true });
        };
        let offset = self.window.pos();
        let head = look(&mut self.window, &mut self.looked, PIECE_HEAD_LEN as usize)?;
        let piece = match PieceHead::decode(head, self.salt.chunk_len) {
            Ok(piece) => piece,
            Err(invalid) => return Err(Trouble::Broken(self.broken(offset, invalid.what, None))),
        };
        self.window.skip(PIECE_HEAD_LEN)?;
        let bytes = look(&mut self.window, &mut self.looked, piece.len as usize)?;
        let short = bytes.len() < piece.len as usize;
        if let Err(invalid) = piece.verify(bytes, &self.salt, self.head.header.sequence, number) {
            let what = if short { "the body ends in the middle of a piece".to_owned() } else { invalid.what };
            return Err(Trouble::Broken(self.broken(offset, what, None)));
        }
        let start = self.window.pos();
        self.window.skip(u64::from(piece.len))?;
        self.note_sums(piece.crc.to_le_bytes());
        let (seen, number) = (seen.saturating_add(u64::from(piece.len)), number.saturating_add(1));
        self.body =
            if piece.last { BodyState::Trailer { len: seen } } else { BodyState::Framed { seen, number } };
        Ok(Chunk::Bytes(BodySpan { offset: start, len: piece.len as usize }))
    }

    /// After the last piece of a framed body: its trailer.
    fn trailer(&mut self, body_len: u64) -> Checked<Trailer> {
        let offset = self.window.pos();
        let crc = self.head.header.crc;
        let bytes = look(&mut self.window, &mut self.looked, TRAILER_LEN as usize)?;
        let sum = bytes.get(12..).and_then(|sum| sum.first_chunk::<4>()).copied().unwrap_or_default();
        let trailer = Trailer::decode(bytes, crc).and_then(|trailer| {
            if trailer.complete && trailer.body_len != body_len {
                let what = format!("the body has {body_len} bytes, its trailer says {}", trailer.body_len);
                return Err(Invalid::damaged(0, what));
            }
            Ok(trailer)
        });
        match trailer {
            Ok(trailer) => {
                let end = (offset + TRAILER_LEN).next_multiple_of(8);
                if end > self.window.end() {
                    let what = "the frame ends in the middle of its padding".to_owned();
                    return Err(Trouble::Broken(self.broken(offset, what, None)));
                }
                self.note_sums(sum);
                self.window.skip(end - offset)?;
                Ok(trailer)
            }
            Err(invalid) => Err(Trouble::Broken(self.broken(offset, invalid.what, None))),
        }
    }

    /// Verifies the rest of the current frame and steps over it. Returns the length of its body, or
    /// `None` if it is not a record that counts: a mark, a filler, a record that was abandoned.
    pub(crate) fn finish_frame(&mut self) -> Checked<Option<u64>> {
        self.finish_frame_reporting(&mut |_| true)
    }

    /// The same, for frames of any length. `report_progress` is called with the position at every
    /// chunk that is read separately, and stops the walk by returning `false`; then the walk is
    /// within the frame.
    pub(crate) fn finish_frame_reporting(
        &mut self,
        report_progress: &mut dyn FnMut(u64) -> bool,
    ) -> Checked<Option<u64>> {
        if self.head.header.kind != FrameKind::Record {
            self.skip_frame()?;
            return Ok(None);
        }
        if let Some(body) = self.whole_body()? {
            return Ok(Some(body.len as u64));
        }
        self.begin_body();
        loop {
            if let Chunk::End { len, counts } = self.next_chunk()? {
                return Ok(counts.then_some(len));
            }
            if !report_progress(self.window.pos()) {
                return Ok(None);
            }
        }
    }

    /// Steps over the rest of a frame of known length without looking at it. `false` when its
    /// length is not known: then its pieces must be walked.
    pub(crate) fn skip_frame(&mut self) -> Result<bool> {
        let Some(len) = self.head.header.frame_len(&self.salt) else { return Ok(false) };
        let end = self.head.offset.saturating_add(len);
        self.body = BodyState::Done;
        self.window.skip(end.saturating_sub(self.window.pos()))?;
        Ok(true)
    }

    /// Moves to the next valid frame header at or after `from`. Returns `false` if there is none.
    pub(crate) fn resync(&mut self, from: u64) -> Result<bool> {
        self.resync_within(from, u64::MAX)
    }

    /// The same for a header that begins before `limit`.
    pub(crate) fn resync_within(&mut self, from: u64, limit: u64) -> Result<bool> {
        self.resync_reporting(from, &mut |at| at < limit)
    }

    /// The same, however far that is. `report_progress` is called with the position, and stops it
    /// by giving `false`: none is found then.
    pub(crate) fn resync_reporting(
        &mut self,
        from: u64,
        report_progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool> {
        self.window.seek(from.next_multiple_of(8))?;
        self.body = BodyState::Done;
        let marker = self.salt.marker.to_le_bytes();
        while report_progress(self.window.pos()) {
            let step = (self.window.peek_max() / 2).min(RESYNC_LEN);
            let bytes = self.window.peek(step)?;
            if bytes.len() < HEADER_LEN {
                return Ok(false);
            }
            let found = bytes.chunks(8).position(|word| word.starts_with(&marker));
            let Some(word) = found else {
                let (len, is_empty) = (bytes.len() as u64 / 8 * 8, bytes.iter().all(|&byte| byte == 0));
                self.window.skip(len.max(8))?;
                if is_empty {
                    self.window.skip_hole()?;
                }
                continue;
            };
            self.window.skip(word as u64 * 8)?;
            let at = self.window.pos();
            match self.step()? {
                Step::Frame => {
                    self.window.seek(at)?;
                    return Ok(true);
                }
                // The length that it states cannot be trusted: continue right after the marker.
                Step::Invalid(_) | Step::End => self.window.seek(at + 8)?,
            }
        }
        Ok(false)
    }
}

/// The next `len` bytes, or fewer at the end: see [`Window::peek`]. Where they are is noted.
fn look<'w>(window: &'w mut Window, looked: &mut ByteRange, len: usize) -> Result<&'w [u8]> {
    *looked = ByteRange::at(window.pos(), len as u64).unwrap_or_default();
    window.peek(len)
}
