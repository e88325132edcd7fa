//! Records as readers see them.

use std::ops::Range;

use bytes::Bytes;

use crate::pack::error::{Damage, Error, Result};
use crate::pack::format::attributes::Attributes;
use crate::pack::format::frame::{BodyLen, FrameHeader, FrameKind, HEADER_LEN, checksums_len, verify_chunks};
use crate::pack::format::index::Place;
use crate::pack::format::segment::Salt;
use crate::pack::key::Key;
use crate::pack::state::segment::Segment;

/// The header of a record: everything but its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordHead {
    /// Its key.
    pub key: Key,
    /// Its attributes.
    pub attributes: Attributes,
    /// Bytes of its body; `None` when only its end shows it (see
    /// [`Pack::open_record`](crate::pack::Pack::open_record)).
    pub body_len: Option<u64>,
    /// Its sequence number.
    pub sequence: u64,
    /// When it was put, ns.
    pub time_ns: i64,
    /// Id of the segment it is in.
    pub segment: u64,
    /// Offset of its frame in the segment.
    pub offset: u64,
}

/// A record in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// All but the body.
    pub head: RecordHead,
    /// The body.
    pub body: Bytes,
}

/// The head of a record in the bytes it was found in, verified.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawHead<'b> {
    pub(crate) header: FrameHeader,
    /// The key as it is stored.
    pub(crate) key: &'b [u8],
    /// The attributes, encoded.
    pub(crate) attributes: &'b [u8],
}

impl RawHead<'_> {
    /// Whether the record has this key.
    pub(crate) fn has_key(&self, key: &Key) -> bool {
        key.is_stored_as(self.header.key_kind, self.key)
    }

    fn decoded_key(&self, segment: &Segment) -> Result<Key> {
        // Other kinds of keys were refused with the header.
        Key::from_stored(self.header.key_kind, self.key).ok_or_else(|| Error::Unsupported {
            path: segment.source.path().to_path_buf(),
            what: format!("a key of kind {}", self.header.key_kind),
        })
    }
}

/// Verifies the head of the frame at `place`, as much of it as `bytes` must hold.
#[inline]
pub(crate) fn raw_head<'b>(segment: &Segment, place: Place, bytes: &'b [u8]) -> Result<RawHead<'b>> {
    let damaged = |offset: u64, what: String| {
        let file = segment.source.path().to_path_buf();
        Error::Damaged(Damage { file, offset: place.offset + offset, key: None, what, cause: None })
    };
    let Some(fixed) = bytes.first_chunk::<HEADER_LEN>() else {
        return Err(damaged(0, "the frame is cut short".into()));
    };
    let header =
        FrameHeader::decode(fixed, &segment.salt).map_err(|invalid| damaged(invalid.offset, invalid.what))?;
    let head_len = header.head_len() as usize;
    let Some(rest) = bytes.get(HEADER_LEN..head_len) else {
        return Err(damaged(0, "the head of the frame is cut short".into()));
    };
    let (key, attributes) = rest.split_at(usize::from(header.key_len).min(rest.len()));
    if !header.verify(fixed, &segment.salt, place.offset, key, attributes) {
        return Err(damaged(0, "the checksum of the header is not what was written".into()));
    }
    if header.kind != FrameKind::Record {
        return Err(damaged(5, "the index names a frame that is no record".into()));
    }
    Ok(RawHead { header, key, attributes })
}

/// The same, its key decoded, its attributes as they are stored.
pub(crate) fn checked_head<'b>(
    segment: &Segment,
    place: Place,
    bytes: &'b [u8],
) -> Result<(FrameHeader, Key, &'b [u8])> {
    let raw = raw_head(segment, place, bytes)?;
    Ok((raw.header, raw.decoded_key(segment)?, raw.attributes))
}

/// The same, all of it decoded.
pub(crate) fn parse_head(segment: &Segment, place: Place, bytes: &[u8]) -> Result<(FrameHeader, RecordHead)> {
    let raw = raw_head(segment, place, bytes)?;
    Ok((raw.header, decode_head(segment, place, &raw)?))
}

/// Key and attributes of a head that was verified.
pub(crate) fn decode_head(segment: &Segment, place: Place, raw: &RawHead<'_>) -> Result<RecordHead> {
    let key = raw.decoded_key(segment)?;
    record_head(segment, &raw.header, place.offset, key, raw.attributes)
}

/// The head of the record of a frame that was verified up to its body.
pub(crate) fn record_head(
    segment: &Segment,
    header: &FrameHeader,
    offset: u64,
    key: Key,
    attributes: &[u8],
) -> Result<RecordHead> {
    let attributes = decode_attributes(segment, header, offset, &key, attributes)?;
    let body_len = match header.body {
        BodyLen::Known(len) => Some(len),
        BodyLen::Framed => None,
    };
    let (sequence, time_ns, segment) = (header.sequence, header.time_ns, segment.entry.id);
    Ok(RecordHead { key, attributes, body_len, sequence, time_ns, segment, offset })
}

/// The attributes of a record whose header has been verified.
pub(crate) fn decode_attributes(
    segment: &Segment,
    header: &FrameHeader,
    offset: u64,
    key: &Key,
    attributes: &[u8],
) -> Result<Attributes> {
    Attributes::decode(attributes).map_err(|invalid| {
        let file = segment.source.path().to_path_buf();
        if invalid.unsupported {
            return Error::Unsupported { path: file, what: invalid.what };
        }
        let offset = offset + HEADER_LEN as u64 + u64::from(header.key_len) + invalid.offset;
        Error::Damaged(Damage { file, offset, key: Some(key.clone()), what: invalid.what, cause: None })
    })
}

/// Verifies a whole frame with a contiguous body; `None` when its body is framed.
pub(crate) fn parse_record(segment: &Segment, place: Place, bytes: &Bytes) -> Result<Option<Record>> {
    let raw = raw_head(segment, place, bytes)?;
    let Some(body) = raw_body(segment, place, &raw, bytes)? else { return Ok(None) };
    let head = decode_head(segment, place, &raw)?;
    let body = bytes.slice(body);
    Ok(Some(Record { head, body }))
}

/// Verifies a contiguous body and says where in `bytes` it is; `None` when it is framed.
#[inline]
pub(crate) fn raw_body(
    segment: &Segment,
    place: Place,
    raw: &RawHead<'_>,
    bytes: &[u8],
) -> Result<Option<Range<usize>>> {
    body_of((segment, place), &raw.header, || Key::from_stored(raw.header.key_kind, raw.key), bytes)
}

/// The contiguous body of a frame whose head was verified; `None` when it is framed.
pub(crate) fn verify_body(
    segment: &Segment,
    place: Place,
    header: &FrameHeader,
    key: &Key,
    bytes: &Bytes,
) -> Result<Option<Bytes>> {
    let body = body_of((segment, place), header, || Some(key.clone()), bytes)?;
    Ok(body.map(|body| bytes.slice(body)))
}

#[inline]
fn body_of(
    (segment, place): (&Segment, Place),
    header: &FrameHeader,
    key: impl FnOnce() -> Option<Key>,
    bytes: &[u8],
) -> Result<Option<Range<usize>>> {
    let BodyLen::Known(len) = header.body else { return Ok(None) };
    let at = header.head_len() as usize;
    contiguous_body(bytes, at, (len, header.sequence), &segment.salt).map_err(|(offset, what)| {
        let file = segment.source.path().to_path_buf();
        Error::Damaged(Damage { file, offset: place.offset + offset, key: key(), what, cause: None })
    })?;
    Ok(Some(at..at + len as usize))
}

/// Verifies a contiguous body of this length, of the record with this sequence number, that begins
/// at `at`.
#[inline]
pub(crate) fn contiguous_body(
    bytes: &[u8],
    at: usize,
    (len, sequence): (u64, u64),
    salt: &Salt,
) -> Result<(), (u64, String)> {
    let cut = || (at as u64, "the body is cut short".to_owned());
    let sums_len = checksums_len(len, salt.chunk_len);
    let (len, sums_len) = (usize::try_from(len), usize::try_from(sums_len));
    let (Ok(len), Ok(sums_len)) = (len, sums_len) else { return Err(cut()) };
    let rest = bytes.get(at..).unwrap_or_default();
    let Some((body, rest)) = rest.split_at_checked(len) else { return Err(cut()) };
    let Some(sums) = rest.get(..sums_len) else { return Err(cut()) };
    verify_chunks(body, sums, salt, sequence, 0).map_err(|invalid| (at as u64 + invalid.offset, invalid.what))
}
