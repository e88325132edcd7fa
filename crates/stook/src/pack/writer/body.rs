//! A record whose body is given piece by piece.

use super::active::Member;
use super::{Active, At, PackWriter, Parts};
use crate::pack::error::{Error, Result};
use crate::pack::format::attributes::Attributes;
use crate::pack::format::batch::{digest, digest_more};
use crate::pack::format::frame::{BodyLen, PieceHead, Trailer};
use crate::pack::format::index::EntryContent;
use crate::pack::format::segment::Salt;
use crate::pack::key::{KEY_LEN_MAX, Key};
use crate::source::zeroes;

/// Takes the body of one record. It counts once [`finish`](Self::finish) returned; dropped before,
/// nothing of it stays.
#[derive(Debug)]
pub struct RecordWriter<'w> {
    writer: &'w mut PackWriter,
    group: u32,
    key: Key,
    attributes: Vec<u8>,
    announced: Option<u64>,
    sequence: u64,
    time_ns: i64,
    old: Option<At>,
    offset: u64,
    header_crc: u32,
    salt: Salt,
    /// Its digest, for the checksum of a batch.
    digest: u32,
    len: u64,
    /// Checksums, as they are stored, of the whole chunks so far, when the length was announced.
    sums: Vec<u8>,
    /// Checksum of the chunk that is being filled, and how full it is.
    chunk_crc: u32,
    chunk_fill: usize,
    /// The piece that is being filled, when it was not.
    piece: Vec<u8>,
    /// Chunks or pieces so far.
    chunks: u64,
    /// The target, if it is a hard link.
    link: Option<Vec<u8>>,
    open: bool,
}

impl<'w> RecordWriter<'w> {
    /// Begins a record in a group, perhaps as one of a batch, in place of an older one.
    pub(super) fn begin(
        writer: &'w mut PackWriter,
        (group, in_batch): (u32, bool),
        (key, old): (&Key, Option<At>),
        time_ns: i64,
        attributes: Vec<u8>,
        announced: Option<u64>,
    ) -> Result<Self> {
        let sequence = writer.next_sequence()?;
        let body = announced.map_or(BodyLen::Framed, BodyLen::Known);
        let (offset, header_crc, salt) = writer.guard(|writer| {
            let parts = Parts { key, attributes: &attributes, sequence, time_ns };
            let active = writer.active_of(group)?;
            let (offset, header_crc) = active.append_head(in_batch, parts, body)?;
            Ok((offset, header_crc, active.salt))
        })?;
        let (is_link, _) = Attributes::name_flags(&attributes);
        Ok(Self {
            writer,
            group,
            key: key.clone(),
            link: is_link.then(Vec::new),
            attributes,
            announced,
            sequence,
            time_ns,
            old,
            offset,
            header_crc,
            salt,
            digest: digest(header_crc),
            len: 0,
            sums: Vec::new(),
            chunk_crc: 0,
            chunk_fill: 0,
            piece: Vec::new(),
            chunks: 0,
            open: true,
        })
    }

    /// The next bytes of the body.
    ///
    /// # Errors
    /// Returns an error of the storage; [`Error::BodyLength`] if there are more than announced, and
    /// then nothing of the record stays.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let len = self.len.saturating_add(bytes.len() as u64);
        if let Some(announced) = self.announced.filter(|&announced| len > announced) {
            self.abandon()?;
            return Err(Error::BodyLength { key: self.key.clone(), announced, found: len });
        }
        self.len = len;
        // A longer one leads nowhere.
        if let Some(link) = self.link.as_mut().filter(|_| len <= KEY_LEN_MAX as u64) {
            link.extend_from_slice(bytes);
        }
        if self.announced.is_some() { self.write_known(bytes) } else { self.write_pieces(bytes) }
    }

    /// The next bytes of the body, all of them zeros, as [`write`](Self::write) takes them: where
    /// the length was announced, without going through any of them.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_zeros(&mut self, len: u64) -> Result<()> {
        let is_within = self.announced.is_some_and(|announced| len <= announced - self.len.min(announced));
        if self.link.is_some() || !is_within {
            let mut left = len;
            while left > 0 {
                let some = zeroes(left);
                self.write(some)?;
                left -= some.len() as u64;
            }
            return Ok(());
        }
        self.len += len;
        let group = self.group;
        self.writer.guard(|writer| writer.active_of(group)?.append_zeros(len))?;
        self.sum_zeros(len);
        Ok(())
    }

    /// Chunks that are wholly zeros have one checksum, but for what binds it to its place.
    fn sum_zeros(&mut self, mut len: u64) {
        let chunk_len = self.chunk_len();
        let mut whole_crc = None;
        while len > 0 {
            let now = usize::try_from(len).unwrap_or(chunk_len).min(chunk_len - self.chunk_fill);
            self.chunk_crc = match now == chunk_len {
                true => *whole_crc.get_or_insert_with(|| crc_of_zeros(0, chunk_len)),
                false => crc_of_zeros(self.chunk_crc, now),
            };
            self.chunk_fill += now;
            if self.chunk_fill == chunk_len {
                self.end_chunk();
            }
            len -= now as u64;
        }
    }

    fn write_known(&mut self, mut bytes: &[u8]) -> Result<()> {
        let group = self.group;
        self.writer.guard(|writer| writer.active_of(group)?.append_raw(&[bytes]))?;
        let chunk_len = self.chunk_len();
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(chunk_len - self.chunk_fill));
            self.chunk_crc = crc32c::crc32c_append(self.chunk_crc, now);
            self.chunk_fill += now.len();
            if self.chunk_fill == chunk_len {
                self.end_chunk();
            }
            bytes = later;
        }
        Ok(())
    }

    fn end_chunk(&mut self) {
        let number = self.next_chunk();
        let sum = self.salt.bind(self.chunk_crc, self.sequence, number).to_le_bytes();
        self.note_sum(&sum);
        self.sums.extend(sum);
        self.chunk_crc = 0;
        self.chunk_fill = 0;
    }

    fn write_pieces(&mut self, mut bytes: &[u8]) -> Result<()> {
        let chunk_len = self.chunk_len();
        while !bytes.is_empty() {
            // A full piece is held back until more comes: it might be the last.
            if self.piece.len() == chunk_len {
                self.append_piece(false)?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(chunk_len - self.piece.len()));
            self.piece.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    fn append_piece(&mut self, last: bool) -> Result<()> {
        let number = self.next_chunk();
        let head = PieceHead::encode(&self.piece, last, &self.salt, self.sequence, number);
        let [.., a, b, c, d] = head;
        self.note_sum(&[a, b, c, d]);
        let (group, piece) = (self.group, std::mem::take(&mut self.piece));
        self.writer.guard(|writer| writer.active_of(group)?.append_raw(&[&head, &piece]))?;
        self.piece = piece;
        self.piece.clear();
        Ok(())
    }

    fn chunk_len(&self) -> usize {
        1 << self.writer.chunk_log2()
    }

    /// The number of the next chunk or piece.
    fn next_chunk(&mut self) -> u64 {
        let number = self.chunks;
        self.chunks += 1;
        number
    }

    /// A checksum of the body was made, as it is stored.
    fn note_sum(&mut self, sum: &[u8; 4]) {
        self.digest = digest_more(self.digest, sum);
    }

    /// Ends the record and returns its sequence number.
    ///
    /// # Errors
    /// Returns an error of the storage; [`Error::BodyLength`] if there were fewer bytes than
    /// announced, and then nothing of the record stays.
    pub fn finish(mut self) -> Result<u64> {
        self.end_body()?;
        let parts = Parts {
            key: &self.key,
            attributes: &self.attributes,
            sequence: self.sequence,
            time_ns: self.time_ns,
        };
        let (group, old, len) = (self.group, self.old, self.len);
        let frame = (self.offset, self.header_crc);
        self.writer.guard(|writer| {
            writer.active_of(group)?.end_record(parts, frame, len)?;
            writer.note_put(parts.key, old, parts.sequence, parts.time_ns);
            writer.after_record(group)
        })?;
        Ok(self.sequence)
    }

    /// Ends the record as one of a batch.
    pub(super) fn finish_member(mut self) -> Result<Member> {
        self.end_body()?;
        let (group, offset) = (self.group, self.offset);
        let place = self.writer.guard(|writer| writer.active_of(group)?.end_frame(offset))?;
        let place = place.with(EntryContent::of(&self.attributes));
        Ok(Member {
            key: self.key.clone(),
            sequence: self.sequence,
            time_ns: self.time_ns,
            record: Some((place, self.len)),
            old: self.old,
            digest: self.digest,
        })
    }

    /// Writes what follows the bytes of the body.
    fn end_body(&mut self) -> Result<()> {
        if let Some(announced) = self.announced.filter(|&announced| announced != self.len) {
            self.abandon()?;
            return Err(Error::BodyLength { key: self.key.clone(), announced, found: self.len });
        }
        if self.announced.is_some() {
            if self.chunk_fill > 0 {
                self.end_chunk();
            }
            let (group, sums) = (self.group, std::mem::take(&mut self.sums));
            self.writer.guard(|writer| writer.active_of(group)?.append_raw(&[&sums]))?;
        } else {
            self.append_piece(true)?;
            let trailer = Trailer { body_len: self.len, complete: true }.encode(self.header_crc);
            let [.., a, b, c, d] = trailer;
            self.note_sum(&[a, b, c, d]);
            let group = self.group;
            self.writer.guard(|writer| writer.active_of(group)?.append_raw(&[&trailer]))?;
        }
        self.open = false;
        let link = self.link.take().unwrap_or_default();
        self.writer.links.note(&self.key, &self.attributes, &link);
        Ok(())
    }

    /// Abandons the bytes written of it.
    fn abandon(&mut self) -> Result<()> {
        let (group, offset) = (self.group, self.offset);
        if !std::mem::take(&mut self.open) {
            return Ok(());
        }
        if self.writer.stopped {
            // Then that has given its room back.
            return Ok(());
        }
        self.writer.guard(|writer| {
            let active: &mut Active = writer.active_of(group)?;
            active.abandon(offset)
        })
    }
}

/// The checksum of what has one already, and this many zeros after it.
fn crc_of_zeros(mut crc: u32, len: usize) -> u32 {
    let mut left = len;
    while left > 0 {
        let some = zeroes(left as u64);
        crc = crc32c::crc32c_append(crc, some);
        left -= some.len();
    }
    crc
}

impl Drop for RecordWriter<'_> {
    fn drop(&mut self) {
        // A failure stops the writer, so its next call reports it.
        let _ = self.abandon();
    }
}
