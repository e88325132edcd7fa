//! Frames: the records, marks and fillers a segment is made of.

use super::bytes::FieldCursor;
use super::segment::Salt;
use super::{Decoded, Invalid, round_up_8};

/// Length of the fixed part of a frame, in bytes.
pub const HEADER_LEN: usize = 40;

/// Length of the trailer of a framed body, in bytes.
pub const TRAILER_LEN: u64 = 16;

/// Length of the attributes of a frame that ends a batch: see [`BatchEnd`](super::batch::BatchEnd).
const BATCH_END_LEN: u16 = super::batch::BATCH_END_LEN as u16;

/// The same of a [`SyncMark`](super::mark::SyncMark).
const MARK_LEN: u16 = super::mark::MARK_LEN as u16;

/// Length of the head before the bytes of a piece of a framed body.
pub const PIECE_HEAD_LEN: u64 = 8;

const FRAMED: u64 = u64::MAX;
const BODY_LEN_MAX: u64 = i64::MAX as u64;
const USED_LIVE: u8 = 0x5a;
const USED_DEAD: u8 = 0xa5;
const LAST_PIECE: u32 = 1 << 31;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// A record.
    Record,
    /// Says how far the segment was durable when it was written.
    SyncMark,
    /// Steps over bytes.
    Filler,
    /// Says that the record with a key is deleted.
    Deletion,
    /// Ends a batch: the records and deletions of it count from here on, all of them.
    BatchEnd,
}

/// How long the body of a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLen {
    /// Known when the record was begun; the body is contiguous.
    Known(u64),
    /// Found out at its end; the body is in pieces.
    Framed,
}

/// The fixed part of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// Whether the used flag says live. A hint.
    pub live: bool,
    /// Its kind.
    pub kind: FrameKind,
    /// A record or deletion that counts only with the end of its batch.
    pub in_batch: bool,
    /// Kind byte of the key, 0 in marks and fillers.
    pub key_kind: u8,
    /// Bytes of the key.
    pub key_len: u16,
    /// Bytes of the attributes.
    pub attributes_len: u16,
    /// Bytes of the body.
    pub body: BodyLen,
    /// Sequence number.
    pub sequence: u64,
    /// Time, ns.
    pub time_ns: i64,
    /// The header checksum as stored.
    pub crc: u32,
}

impl FrameHeader {
    /// Bytes before the body: fixed part, key, attributes.
    pub fn head_len(&self) -> u64 {
        HEADER_LEN as u64 + u64::from(self.key_len) + u64::from(self.attributes_len)
    }

    /// Length of the whole frame, `None` for a framed body, whose length is known only from its
    /// pieces.
    pub fn frame_len(&self, salt: &Salt) -> Option<u64> {
        let BodyLen::Known(len) = self.body else { return None };
        let sums = match self.kind {
            FrameKind::Record => checksums_len(len, salt.chunk_len),
            FrameKind::SyncMark | FrameKind::Filler | FrameKind::Deletion | FrameKind::BatchEnd => 0,
        };
        // Lengths were checked against BODY_LEN_MAX when the header was read.
        round_up_8(self.head_len().checked_add(len)?.checked_add(sums)?)
    }

    /// The fixed part, its checksum included.
    pub fn encode(&self, salt: &Salt, offset: u64, key: &[u8], attributes: &[u8]) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            for (to, from) in out.iter_mut().skip(at).zip(bytes) {
                *to = *from;
            }
            at += bytes.len();
        };
        put(&salt.marker.to_le_bytes());
        let kind = match self.kind {
            FrameKind::Record if self.in_batch => 2,
            FrameKind::Record => 1,
            FrameKind::BatchEnd => 3,
            FrameKind::SyncMark => 4,
            FrameKind::Filler => 5,
            FrameKind::Deletion if self.in_batch => 7,
            FrameKind::Deletion => 6,
        };
        put(&[if self.live { USED_LIVE } else { USED_DEAD }, kind, 0, self.key_kind]);
        put(&[0; 4]);
        put(&self.key_len.to_le_bytes());
        put(&self.attributes_len.to_le_bytes());
        put(&match self.body {
            BodyLen::Known(len) => len.to_le_bytes(),
            BodyLen::Framed => FRAMED.to_le_bytes(),
        });
        put(&self.sequence.to_le_bytes());
        put(&self.time_ns.to_le_bytes());
        let crc = header_crc(salt, offset, &out, key, attributes);
        for (to, from) in out.iter_mut().skip(8).zip(crc.to_le_bytes()) {
            *to = from;
        }
        out
    }

    /// Reads the fixed part. The checksum is not looked at: that is [`verify`](Self::verify), once
    /// key and attributes are there too.
    ///
    /// # Errors
    /// Returns an error if this is not the beginning of a frame of this segment.
    #[inline]
    pub fn decode(bytes: &[u8; HEADER_LEN], salt: &Salt) -> Decoded<Self> {
        // Taken apart at once rather than by a cursor, because this is done for every record that
        // is got or scanned.
        let [m0, m1, m2, m3, flag, kind, codec, key_kind, c0, c1, c2, c3, k0, k1, a0, a1, numbers @ ..] =
            *bytes;
        let [body_len, sequence, time_ns] = words(&numbers);
        let marker = u32::from_le_bytes([m0, m1, m2, m3]);
        if marker != salt.marker {
            return Err(Invalid::damaged(
                0,
                format!("no frame starts here: {marker:08x} is not the segment's marker"),
            ));
        }
        let live = match flag {
            USED_LIVE => true,
            USED_DEAD => false,
            other => {
                return Err(Invalid::damaged(
                    4,
                    format!("the used flag is {other:02x}, neither live nor dead"),
                ));
            }
        };
        let (kind, in_batch) = match kind {
            1 => (FrameKind::Record, false),
            2 => (FrameKind::Record, true),
            3 => (FrameKind::BatchEnd, false),
            4 => (FrameKind::SyncMark, false),
            5 => (FrameKind::Filler, false),
            6 => (FrameKind::Deletion, false),
            7 => (FrameKind::Deletion, true),
            other => return Err(Invalid::unsupported(5, format!("a frame of kind {other}"))),
        };
        let crc = u32::from_le_bytes([c0, c1, c2, c3]);
        let (key_len, attributes_len) = (u16::from_le_bytes([k0, k1]), u16::from_le_bytes([a0, a1]));
        let body = match body_len {
            FRAMED => BodyLen::Framed,
            len if len <= BODY_LEN_MAX => BodyLen::Known(len),
            len => {
                return Err(Invalid::damaged(16, format!("a body of {len} bytes is longer than any can be")));
            }
        };
        let time_ns = time_ns.cast_signed();
        if codec != 0 {
            return Err(Invalid::unsupported(6, format!("codec {codec}")));
        }
        let is_key = key_kind == 1 || (key_kind == 2 && key_len == 8);
        let shape_holds = match kind {
            FrameKind::Record => is_key,
            FrameKind::Deletion => is_key && attributes_len == 0 && body == BodyLen::Known(0),
            FrameKind::SyncMark => {
                key_kind == 0 && key_len == 0 && attributes_len == MARK_LEN && body == BodyLen::Known(0)
            }
            FrameKind::BatchEnd => {
                key_kind == 0 && key_len == 0 && attributes_len == BATCH_END_LEN && body == BodyLen::Known(0)
            }
            FrameKind::Filler => {
                key_kind == 0 && key_len == 0 && attributes_len == 0 && body != BodyLen::Framed
            }
        };
        if !shape_holds {
            return Err(Invalid::damaged(7, "the lengths or the key kind do not fit this kind of frame"));
        }
        Ok(Self { live, kind, in_batch, key_kind, key_len, attributes_len, body, sequence, time_ns, crc })
    }

    /// Lengths of key and attributes from the fixed part of any frame, in bytes.
    pub(crate) fn lens(bytes: &[u8; HEADER_LEN]) -> [usize; 2] {
        let [.., low, high] = bytes.first_chunk::<14>().copied().unwrap_or([0; 14]);
        let key_len = u16::from_le_bytes([low, high]);
        let [.., low, high] = bytes.first_chunk::<16>().copied().unwrap_or([0; 16]);
        [usize::from(key_len), usize::from(u16::from_le_bytes([low, high]))]
    }

    /// Whether the checksum of a frame at `offset` is right, whether this version knows its kind or
    /// not.
    pub(crate) fn is_as_written(
        bytes: &[u8; HEADER_LEN],
        salt: &Salt,
        offset: u64,
        key: &[u8],
        attributes: &[u8],
    ) -> bool {
        let stored =
            bytes.get(8..).and_then(|bytes| bytes.first_chunk::<4>()).copied().map(u32::from_le_bytes);
        stored == Some(header_crc(salt, offset, bytes, key, attributes))
    }

    /// Whether the checksum over the fixed part, key and attributes is right for a frame at
    /// `offset`.
    #[inline]
    pub fn verify(
        &self,
        bytes: &[u8; HEADER_LEN],
        salt: &Salt,
        offset: u64,
        key: &[u8],
        attributes: &[u8],
    ) -> bool {
        header_crc(salt, offset, bytes, key, attributes) == self.crc
    }
}

/// Little-endian words.
fn words(bytes: &[u8; 24]) -> [u64; 3] {
    let [a, b, c] = [0, 8, 16].map(|at| bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()));
    [a, b, c].map(|word| word.copied().map_or(0, u64::from_le_bytes))
}

/// The checksum in the fixed part of a frame, as far as that is there.
pub(crate) fn stored_crc(fixed: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*fixed.get(8..)?.first_chunk()?))
}

#[inline]
fn header_crc(salt: &Salt, offset: u64, bytes: &[u8; HEADER_LEN], key: &[u8], attributes: &[u8]) -> u32 {
    // One buffer, so that the checksum runs once over its part of the fixed header.
    let [a, b, c, d, _, kind, codec, key_kind, _, _, _, _, lens @ ..] = *bytes;
    let mut covered = [0; 8 + 7 + 28];
    let (at, rest) = covered.split_at_mut(8);
    let (marker, rest) = rest.split_at_mut(7);
    at.copy_from_slice(&offset.to_le_bytes());
    marker.copy_from_slice(&[a, b, c, d, kind, codec, key_kind]);
    rest.copy_from_slice(&lens);
    let crc = crc32c::crc32c_append(salt.crc, &covered);
    let crc = crc32c::crc32c_append(crc, key);
    crc32c::crc32c_append(crc, attributes)
}

/// Bytes of the chunk checksums after a contiguous body.
#[inline]
pub fn checksums_len(body_len: u64, chunk_len: u64) -> u64 {
    // Most bodies are one chunk, and a division takes as long as all else that is done to find a
    // record's parts.
    if body_len <= chunk_len {
        return if body_len == 0 { 0 } else { 4 };
    }
    body_len.div_ceil(chunk_len).saturating_mul(4)
}

/// Checks contiguous chunks of the record with this sequence number, from number `first_chunk` on,
/// against their stored checksums.
///
/// # Errors
/// Returns the offset in `body` of the first damaged chunk.
#[inline]
pub fn verify_chunks(body: &[u8], sums: &[u8], salt: &Salt, sequence: u64, first_chunk: u64) -> Decoded<()> {
    let mut sums = FieldCursor::new(sums);
    let chunk_len = usize::try_from(salt.chunk_len).unwrap_or(usize::MAX);
    let mut offset = 0;
    for (chunk, number) in body.chunks(chunk_len).zip(first_chunk..) {
        verify_sum(crc32c::crc32c(chunk), sums.u32()?, salt, sequence, number)
            .map_err(|invalid| Invalid { offset, ..invalid })?;
        offset = offset.saturating_add(salt.chunk_len);
    }
    Ok(())
}

/// Checks the plain checksum of a chunk or a piece against the stored one. Every read of a body
/// passes here.
#[inline]
fn verify_sum(plain: u32, stored: u32, salt: &Salt, sequence: u64, number: u64) -> Decoded<()> {
    let computed = salt.bind(plain, sequence, number);
    if computed == stored {
        return Ok(());
    }
    let what = format!("the checksum of body chunk {number} is {computed:08x}, {stored:08x} was written");
    Err(Invalid::damaged(0, what))
}

/// The head before the bytes of a piece of a framed body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PieceHead {
    /// Bytes in the piece.
    pub len: u32,
    /// Whether the trailer comes next.
    pub last: bool,
    /// The checksum as stored.
    pub crc: u32,
}

impl PieceHead {
    /// Encodes the head of piece `number` of the record with this sequence number.
    pub fn encode(
        bytes: &[u8],
        last: bool,
        salt: &Salt,
        sequence: u64,
        number: u64,
    ) -> [u8; PIECE_HEAD_LEN as usize] {
        let word = (bytes.len() as u32 | if last { LAST_PIECE } else { 0 }).to_le_bytes();
        let plain = crc32c::crc32c_append(crc32c::crc32c(&word), bytes);
        let crc = salt.bind(plain, sequence, number);
        let mut out = [0; PIECE_HEAD_LEN as usize];
        for (to, from) in out.iter_mut().zip(word.into_iter().chain(crc.to_le_bytes())) {
            *to = from;
        }
        out
    }

    /// Reads the head of a piece.
    ///
    /// # Errors
    /// Returns an error if its length is invalid: more than a chunk, or less without being the
    /// last.
    pub fn decode(bytes: &[u8], chunk_len: u64) -> Decoded<Self> {
        let mut cursor = FieldCursor::new(bytes);
        let (word, crc) = (cursor.u32()?, cursor.u32()?);
        let (len, last) = (word & !LAST_PIECE, word & LAST_PIECE != 0);
        let fits = if last { u64::from(len) <= chunk_len } else { u64::from(len) == chunk_len };
        if !fits {
            return Err(Invalid::damaged(
                0,
                format!("a piece of {len} bytes cannot be in chunks of {chunk_len}"),
            ));
        }
        Ok(Self { len, last, crc })
    }

    /// Checks the bytes of the piece, which is number `number` of the record with this sequence
    /// number.
    ///
    /// # Errors
    /// Returns an error if they are damaged.
    pub fn verify(&self, bytes: &[u8], salt: &Salt, sequence: u64, number: u64) -> Decoded<()> {
        let word = (self.len | if self.last { LAST_PIECE } else { 0 }).to_le_bytes();
        let plain = crc32c::crc32c_append(crc32c::crc32c(&word), bytes);
        verify_sum(plain, self.crc, salt, sequence, number)
    }
}

/// The end of a framed body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trailer {
    /// Bytes of the whole body.
    pub body_len: u64,
    /// Whether the record counts; if not, it was abandoned half-way.
    pub complete: bool,
}

impl Trailer {
    /// Encodes the trailer of the record with this header checksum.
    pub fn encode(&self, header_crc: u32) -> [u8; TRAILER_LEN as usize] {
        let state: u32 = if self.complete { 1 } else { 2 };
        let mut out = [0; TRAILER_LEN as usize];
        let fields = self.body_len.to_le_bytes().into_iter().chain(state.to_le_bytes());
        let crc = trailer_crc(header_crc, self.body_len, state);
        for (to, from) in out.iter_mut().zip(fields.chain(crc.to_le_bytes())) {
            *to = from;
        }
        out
    }

    /// Reads the trailer of the record with this header checksum.
    ///
    /// # Errors
    /// Returns an error if it is damaged.
    pub fn decode(bytes: &[u8], header_crc: u32) -> Decoded<Self> {
        let mut cursor = FieldCursor::new(bytes);
        let (body_len, state, stored) = (cursor.u64()?, cursor.u32()?, cursor.u32()?);
        if trailer_crc(header_crc, body_len, state) != stored {
            return Err(Invalid::damaged(0, "the trailer of a framed body is not what was written"));
        }
        match state {
            1 => Ok(Self { body_len, complete: true }),
            2 => Ok(Self { body_len, complete: false }),
            other => Err(Invalid::unsupported(8, format!("a trailer of state {other}"))),
        }
    }
}

fn trailer_crc(header_crc: u32, body_len: u64, state: u32) -> u32 {
    let crc = crc32c::crc32c(&header_crc.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &body_len.to_le_bytes());
    crc32c::crc32c_append(crc, &state.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: Salt = Salt { marker: 0x1234_5678, crc: 99, pack_crc: 3, chunk_len: 4096 };

    fn header(body: BodyLen) -> FrameHeader {
        FrameHeader {
            live: true,
            kind: FrameKind::Record,
            in_batch: false,
            key_kind: 1,
            key_len: 3,
            attributes_len: 2,
            body,
            sequence: 5,
            time_ns: 6,
            crc: 0,
        }
    }

    fn verified(bytes: &[u8; HEADER_LEN], offset: u64, key: &[u8], attributes: &[u8]) -> bool {
        FrameHeader::decode(bytes, &SALT).is_ok_and(|h| h.verify(bytes, &SALT, offset, key, attributes))
    }

    #[test]
    fn header_round_trips_and_is_bound_to_its_place() {
        let bytes = header(BodyLen::Known(4097)).encode(&SALT, 4096, b"key", b"at");
        let back = FrameHeader::decode(&bytes, &SALT).unwrap();
        assert_eq!(FrameHeader { crc: 0, ..back }, header(BodyLen::Known(4097)));
        assert_eq!(back.frame_len(&SALT), Some((40 + 5 + 4097 + 8 + 7) & !7));
        assert!(verified(&bytes, 4096, b"key", b"at"));
        assert!(!verified(&bytes, 4104, b"key", b"at"), "another place");
        assert!(!verified(&bytes, 4096, b"kez", b"at"), "another key");
        let other = Salt { crc: 98, ..SALT };
        assert!(!back.verify(&bytes, &other, 4096, b"key", b"at"), "another segment");
    }

    #[test]
    fn any_flipped_bit_of_a_header_is_reported() {
        let bytes = header(BodyLen::Framed).encode(&SALT, 8, b"key", b"at");
        for bit in 0..HEADER_LEN * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!verified(&flipped, 8, b"key", b"at"), "bit {bit}");
        }
        let mut dead = bytes;
        dead[4] = USED_DEAD;
        assert!(verified(&dead, 8, b"key", b"at"), "the used flag is not under the checksum");
        assert!(!FrameHeader::decode(&dead, &SALT).unwrap().live);
    }

    #[test]
    fn pieces_and_trailers_round_trip_and_tell_damage() {
        let head = PieceHead::encode(b"abc", true, &SALT, 5, 2);
        let piece = PieceHead::decode(&head, 4096).unwrap();
        assert!((piece.len, piece.last) == (3, true) && piece.verify(b"abc", &SALT, 5, 2).is_ok());
        assert!(piece.verify(b"abd", &SALT, 5, 2).is_err());
        assert!(piece.verify(b"abc", &SALT, 6, 2).is_err(), "of another record");
        assert!(piece.verify(b"abc", &SALT, 5, 1).is_err(), "another piece");
        assert!(
            PieceHead::decode(&PieceHead::encode(b"abc", false, &SALT, 5, 2), 4096).is_err(),
            "short, but not the last"
        );
        let trailer = Trailer { body_len: 3, complete: false };
        assert_eq!(Trailer::decode(&trailer.encode(7), 7), Ok(trailer));
        assert!(Trailer::decode(&trailer.encode(7), 8).is_err());
    }

    #[test]
    fn chunks_are_bound_to_their_record_and_their_number_in_it() {
        let body: Vec<u8> = (0..10_000_u32).map(|n| (n / 4096) as u8).collect();
        let plain: Vec<u8> = body.chunks(4096).flat_map(|c| crc32c::crc32c(c).to_le_bytes()).collect();
        let mut sums = Vec::new();
        SALT.bind_all(&plain, 7, &mut sums);
        assert_eq!((sums.len(), sums == plain), (plain.len(), false));
        assert_eq!(verify_chunks(&body, &sums, &SALT, 7, 0), Ok(()));
        assert_eq!(verify_chunks(&body[4096..], &sums[4..], &SALT, 7, 1), Ok(()));
        assert!(verify_chunks(&body, &sums, &SALT, 8, 0).is_err(), "of another record");
        assert!(verify_chunks(&body[4096..], &sums[4..], &SALT, 7, 0).is_err(), "another chunk");
        let other = Salt { pack_crc: 4, ..SALT };
        assert!(verify_chunks(&body, &sums, &other, 7, 0).is_err(), "of another pack");
        let elsewhere = Salt { crc: 5, marker: 6, ..SALT };
        assert_eq!(verify_chunks(&body, &sums, &elsewhere, 7, 0), Ok(()), "of another segment");
        assert!(verify_chunks(&body, &sums[..11], &SALT, 7, 0).is_err(), "cut");
        let hit = [&body[..9000], &[9], &body[9001..]].concat();
        let reported = verify_chunks(&hit, &sums, &SALT, 7, 0).unwrap_err();
        assert_eq!(reported.offset, 8192, "{}", reported.what);
    }

    #[test]
    fn a_length_that_cannot_be_is_refused() {
        let mut bytes = header(BodyLen::Known(0)).encode(&SALT, 0, b"key", b"at");
        bytes[16..24].copy_from_slice(&(u64::MAX - 1).to_le_bytes());
        assert!(FrameHeader::decode(&bytes, &SALT).is_err());
        assert!(header(BodyLen::Known(BODY_LEN_MAX)).frame_len(&SALT).is_some());
    }
}
