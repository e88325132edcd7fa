//! Manifests: immutable generations of a pack.

use super::bytes::FieldCursor;
use super::footer::{LastFrame, Tally};
use super::mark::{Edition, writer_of};
use super::segment::CHUNK_LOG2;
use super::{Decoded, Invalid, VERSION};

const MAGIC: [u8; 8] = *b"\x89STKMAN\n";
const TAG_STATE: u16 = 1;
const TAG_GROUPS: u16 = 2;
const TAG_SEGMENTS: u16 = 3;
const TAG_ROOTS: u16 = 4;
const TAG_HISTORY: u16 = 5;
const TAG_MOVED: u16 = 6;
const TAG_UNFINISHED: u16 = 7;
const REQUIRED: u16 = 1;
const ENTRY_LEN: usize = 160;

/// Where a manifest says how long it is.
pub const MANIFEST_LEN_AT: usize = 24;

/// The longest manifest, in bytes of one copy.
pub const MANIFEST_LEN_MAX: u64 = 1 << 30;

/// Whether a pack is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackState {
    /// Building it was finished.
    Complete,
    /// A build is under way or was cut off.
    Incomplete,
}

/// Whether a segment still grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentState {
    /// It may be appended to.
    Active,
    /// It ends in an index and never changes.
    Sealed,
}

/// The deletion vector of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorRef {
    /// Generation in its name.
    pub generation: u64,
    /// The length of one copy of it, bytes.
    pub len: u64,
    /// Its checksum field.
    pub crc: u32,
}

/// A segment as a manifest names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentEntry {
    /// Its id.
    pub id: u64,
    /// Its nonce.
    pub nonce: [u8; 16],
    /// Number of its group in [`Manifest::groups`].
    pub group: u32,
    /// Whether it grows.
    pub state: SegmentState,
    /// Active: end of the committed frames. Sealed: length of the file.
    pub committed_len: u64,
    /// End of the frames.
    pub frames_end: u64,
    /// Its records, dead ones included.
    pub tally: Tally,
    /// The last of its frames.
    pub last_frame: LastFrame,
    /// Dead records.
    pub dead_records: u64,
    /// Bytes of their frames: what compaction would free.
    pub dead_bytes: u64,
    /// Which records are dead, if any.
    pub vector: Option<VectorRef>,
    /// What its own header says too, so that it can be read without it.
    pub form: SegmentForm,
}

/// The fields needed to read the frames of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentForm {
    /// Starts every frame; not zero.
    pub marker: u32,
    /// Its records are in key order.
    pub by_key: bool,
    /// Chunk size of bodies as a power of two.
    pub chunk_log2: u8,
}

/// One generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Its number, 1 or more.
    pub generation: u64,
    /// The same in all files of a pack.
    pub pack_nonce: [u8; 16],
    /// Who published it.
    pub writer_nonce: [u8; 16],
    /// When, ns.
    pub published_ns: i64,
    /// Complete or not.
    pub state: PackState,
    /// Chunk size for new segments, as a power of two.
    pub chunk_log2: u8,
    /// The next record gets this sequence number.
    pub sequence_next: u64,
    /// Time of the last record, ns.
    pub time_last_ns: i64,
    /// The next segment gets this id.
    pub segment_next: u64,
    /// Segments are sealed when they are this long, bytes.
    pub segment_len: u64,
    /// Names of the groups.
    pub groups: Vec<String>,
    /// The segments, oldest first.
    pub segments: Vec<SegmentEntry>,
    /// The paths that a tree was packed from.
    pub roots: Vec<Vec<u8>>,
    /// Of an incomplete pack, the paths of the runs that have not come to their end, where these
    /// are not the roots.
    pub unfinished: Vec<Vec<u8>>,
    /// States before this time, ns, are not known any more; `None` when all are.
    pub history_from_ns: Option<i64>,
    /// Whether files were removed from their tree once they were in the pack: it may hold the only
    /// copy.
    pub moved: bool,
    /// The paths of the trees that they were removed from, as far as that was noted.
    pub moved_from: Vec<Vec<u8>>,
}

impl Manifest {
    /// What sync marks call it.
    pub fn edition(&self) -> Edition {
        Edition { generation: self.generation, writer: writer_of(&self.writer_nonce) }
    }

    /// The bytes of one copy.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256 + self.segments.len() * ENTRY_LEN);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 2 + 4]);
        out.extend(self.generation.to_le_bytes());
        out.extend([0; 8]);
        out.extend(self.pack_nonce);
        out.extend(self.writer_nonce);
        out.extend(self.published_ns.to_le_bytes());
        put_section(&mut out, TAG_STATE, REQUIRED, &self.encode_state());
        put_section(
            &mut out,
            TAG_GROUPS,
            REQUIRED,
            &encode_strings(self.groups.iter().map(String::as_bytes)),
        );
        put_section(&mut out, TAG_SEGMENTS, REQUIRED, &self.encode_segments());
        if !self.roots.is_empty() {
            put_section(&mut out, TAG_ROOTS, 0, &encode_strings(self.roots.iter().map(Vec::as_slice)));
        }
        if !self.unfinished.is_empty() {
            let unfinished = encode_strings(self.unfinished.iter().map(Vec::as_slice));
            put_section(&mut out, TAG_UNFINISHED, 0, &unfinished);
        }
        if let Some(from_ns) = self.history_from_ns {
            put_section(&mut out, TAG_HISTORY, 0, &from_ns.to_le_bytes());
        }
        if self.moved {
            let from = encode_strings(self.moved_from.iter().map(Vec::as_slice));
            put_section(&mut out, TAG_MOVED, 0, if self.moved_from.is_empty() { &[] } else { &from });
        }
        let len = (out.len() as u64 + 4).to_le_bytes();
        for (to, from) in out.iter_mut().skip(MANIFEST_LEN_AT).zip(len) {
            *to = from;
        }
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        out
    }

    /// The most bytes of a copy that names this many segments, and one more group with a name of
    /// this length in bytes.
    pub(crate) fn len_with(&self, segments: usize, group_len: usize) -> u64 {
        let strings = |lens: &mut dyn Iterator<Item = usize>| {
            lens.fold(4 + 16, |sum: u64, len| sum.saturating_add(2 + len as u64))
        };
        let groups = strings(&mut self.groups.iter().map(String::len).chain([group_len]));
        let roots = strings(&mut self.roots.iter().map(Vec::len));
        let unfinished = strings(&mut self.unfinished.iter().map(Vec::len));
        let moved_from = strings(&mut self.moved_from.iter().map(Vec::len));
        let roots = roots.saturating_add(unfinished).saturating_add(moved_from);
        // The fixed part, the state, the history, the move and the checksum, and what fills up
        // sections.
        let rest = 72 + 48 + 24 + 8 + 4 + 64;
        let segments = (segments as u64).saturating_mul(ENTRY_LEN as u64);
        segments.saturating_add(groups).saturating_add(roots).saturating_add(rest)
    }

    fn encode_state(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(40);
        let state = match self.state {
            PackState::Complete => 1,
            PackState::Incomplete => 2,
        };
        out.extend([state, self.chunk_log2, 0, 0, 0, 0, 0, 0]);
        out.extend(self.sequence_next.to_le_bytes());
        out.extend(self.time_last_ns.to_le_bytes());
        out.extend(self.segment_next.to_le_bytes());
        out.extend(self.segment_len.to_le_bytes());
        out
    }

    fn encode_segments(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 + self.segments.len() * ENTRY_LEN);
        out.extend((self.segments.len() as u32).to_le_bytes());
        out.extend((ENTRY_LEN as u32).to_le_bytes());
        for segment in &self.segments {
            let start = out.len();
            segment.encode_into(&mut out);
            out.resize(start + ENTRY_LEN, 0);
        }
        out
    }

    /// Reads one copy.
    ///
    /// # Errors
    /// Returns an error if it is not a manifest of this version, or contradicts itself.
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        let mut cursor = FieldCursor::new(bytes);
        let body = cursor.preamble(&MAGIC, "manifest")?;
        cursor.required_flags()?;
        let generation = cursor.u64()?;
        if cursor.u64()? != bytes.len() as u64 {
            return Err(Invalid::damaged(24, "the manifest has not the length that it says"));
        }
        let mut manifest = Self {
            generation,
            pack_nonce: cursor.array()?,
            writer_nonce: cursor.array()?,
            published_ns: cursor.i64()?,
            state: PackState::Incomplete,
            chunk_log2: 0,
            sequence_next: 0,
            time_last_ns: 0,
            segment_next: 0,
            segment_len: 0,
            groups: Vec::new(),
            segments: Vec::new(),
            roots: Vec::new(),
            unfinished: Vec::new(),
            history_from_ns: None,
            moved: false,
            moved_from: Vec::new(),
        };
        manifest.decode_sections(body)?;
        manifest.check()?;
        Ok(manifest)
    }

    fn decode_sections(&mut self, body: &[u8]) -> Decoded<()> {
        let mut cursor = FieldCursor::new(body);
        cursor.take(72)?;
        let mut seen = Vec::new();
        while cursor.left() > 0 {
            let at = cursor.at();
            let (tag, flags, len) = (cursor.u16()?, cursor.u16()?, cursor.u32()?);
            let payload = cursor.take(len as usize)?;
            cursor.take((len as usize).next_multiple_of(8) - len as usize)?;
            if seen.contains(&tag) {
                return Err(Invalid::damaged(at, format!("section {tag} stands twice")));
            }
            seen.push(tag);
            let mut payload = FieldCursor::new(payload);
            let read = match tag {
                TAG_STATE => self.decode_state(&mut payload),
                TAG_GROUPS => decode_groups(&mut payload).map(|groups| self.groups = groups),
                TAG_SEGMENTS => decode_segments(&mut payload).map(|segments| self.segments = segments),
                TAG_ROOTS => decode_strings(&mut payload).map(|roots| self.roots = roots),
                TAG_UNFINISHED => decode_strings(&mut payload).map(|paths| self.unfinished = paths),
                TAG_MOVED => {
                    self.moved = true;
                    match payload.left() {
                        0 => Ok(()),
                        _ => decode_strings(&mut payload).map(|paths| self.moved_from = paths),
                    }
                }
                TAG_HISTORY => payload.i64().map(|from_ns| self.history_from_ns = Some(from_ns)),
                _ if flags & REQUIRED != 0 => Err(Invalid::unsupported(0, format!("manifest section {tag}"))),
                _ => Ok(()),
            };
            read.map_err(|invalid| Invalid { offset: at + 8 + invalid.offset, ..invalid })?;
        }
        match [TAG_STATE, TAG_GROUPS, TAG_SEGMENTS].iter().find(|tag| !seen.contains(tag)) {
            Some(tag) => Err(Invalid::damaged(72, format!("section {tag} is missing"))),
            None => Ok(()),
        }
    }

    fn decode_state(&mut self, cursor: &mut FieldCursor<'_>) -> Decoded<()> {
        self.state = match cursor.u8()? {
            1 => PackState::Complete,
            2 => PackState::Incomplete,
            other => return Err(Invalid::unsupported(0, format!("a pack of state {other}"))),
        };
        self.chunk_log2 = cursor.u8()?;
        cursor.reserved(6)?;
        self.sequence_next = cursor.u64()?;
        self.time_last_ns = cursor.i64()?;
        self.segment_next = cursor.u64()?;
        self.segment_len = cursor.u64()?;
        Ok(())
    }

    /// All counters from which the next number is taken.
    fn numbers(&self) -> impl Iterator<Item = u64> {
        let vectors = self.segments.iter().filter_map(|segment| Some(segment.vector?.generation));
        [self.generation, self.sequence_next, self.segment_next].into_iter().chain(vectors)
    }

    fn check(&self) -> Decoded<()> {
        let problem = if self.generation == 0 {
            "generation 0"
        } else if !CHUNK_LOG2.contains(&self.chunk_log2) {
            "a chunk size that is not 2^12 to 2^24"
        } else if self.segments.iter().any(|segment| segment.group as usize >= self.groups.len()) {
            "a segment of a group that is not listed"
        } else if self.segments.iter().any(|segment| segment.id >= self.segment_next) {
            "a segment with an id that was not given out yet"
        } else if self.segments.iter().zip(self.segments.iter().skip(1)).any(|(a, b)| a.id >= b.id) {
            "segments that are not in order"
        } else if self.numbers().any(|number| number >= crate::pack::state::names::NUMBER_END) {
            "an implausibly large number"
        } else if self.segments.iter().any(|segment| segment.frames_end > segment.committed_len) {
            "a segment whose frames end after it"
        } else if self.segments.iter().any(|segment| segment.form.marker == 0) {
            "a segment without a marker"
        } else if self.segments.iter().any(|segment| !CHUNK_LOG2.contains(&segment.form.chunk_log2)) {
            "a segment with a chunk size that is not 2^12 to 2^24"
        } else {
            return Ok(());
        };
        Err(Invalid::damaged(72, format!("the manifest holds {problem}")))
    }
}

impl SegmentEntry {
    fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend(self.id.to_le_bytes());
        out.extend(self.nonce);
        out.extend(self.group.to_le_bytes());
        let state = match self.state {
            SegmentState::Active => 1,
            SegmentState::Sealed => 2,
        };
        out.extend([state, 0, 0, 0]);
        let tally = &self.tally;
        for value in [
            self.committed_len,
            self.frames_end,
            tally.records,
            tally.body_bytes,
            self.dead_records,
            self.dead_bytes,
            tally.sequence_first,
            tally.sequence_last,
        ] {
            out.extend(value.to_le_bytes());
        }
        out.extend(tally.time_first_ns.to_le_bytes());
        out.extend(tally.time_last_ns.to_le_bytes());
        let (generation, len, crc) = self.vector.map_or((0, 0, 0), |v| (v.generation, v.len, v.crc));
        out.extend(generation.to_le_bytes());
        out.extend(len.to_le_bytes());
        out.extend(crc.to_le_bytes());
        out.extend(self.form.marker.to_le_bytes());
        out.extend([u8::from(self.form.by_key), self.form.chunk_log2, 0, 0, 0, 0, 0, 0]);
        out.extend(self.last_frame.offset.to_le_bytes());
        out.extend(self.last_frame.crc.to_le_bytes());
        out.extend(self.last_frame.mark_crc.to_le_bytes());
    }

    fn decode(cursor: &mut FieldCursor<'_>) -> Decoded<Self> {
        let (id, nonce, group) = (cursor.u64()?, cursor.array()?, cursor.u32()?);
        let at = cursor.at();
        let state = match cursor.u8()? {
            1 => SegmentState::Active,
            2 => SegmentState::Sealed,
            other => return Err(Invalid::unsupported(at, format!("a segment of state {other}"))),
        };
        cursor.reserved(3)?;
        let (committed_len, frames_end) = (cursor.u64()?, cursor.u64()?);
        let (records, body_bytes) = (cursor.u64()?, cursor.u64()?);
        let (dead_records, dead_bytes) = (cursor.u64()?, cursor.u64()?);
        let tally = Tally {
            records,
            body_bytes,
            sequence_first: cursor.u64()?,
            sequence_last: cursor.u64()?,
            time_first_ns: cursor.i64()?,
            time_last_ns: cursor.i64()?,
        };
        let (generation, len, crc) = (cursor.u64()?, cursor.u64()?, cursor.u32()?);
        let vector = (generation > 0).then_some(VectorRef { generation, len, crc });
        let (marker, by_key, chunk_log2) = (cursor.u32()?, cursor.u8()? == 1, cursor.u8()?);
        let form = SegmentForm { marker, by_key, chunk_log2 };
        cursor.take(6)?;
        let last_frame = LastFrame { offset: cursor.u64()?, crc: cursor.u32()?, mark_crc: cursor.u32()? };
        Ok(Self {
            id,
            nonce,
            group,
            state,
            committed_len,
            frames_end,
            tally,
            last_frame,
            dead_records,
            dead_bytes,
            vector,
            form,
        })
    }
}

fn put_section(out: &mut Vec<u8>, tag: u16, flags: u16, payload: &[u8]) {
    out.extend(tag.to_le_bytes());
    out.extend(flags.to_le_bytes());
    out.extend((payload.len() as u32).to_le_bytes());
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(8), 0);
}

fn encode_strings<'a>(strings: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend((strings.len() as u32).to_le_bytes());
    for string in strings {
        // Group names are at most 255 bytes, and paths at most PATH_MAX.
        let string = string.get(..string.len().min(usize::from(u16::MAX))).unwrap_or_default();
        out.extend((string.len() as u16).to_le_bytes());
        out.extend_from_slice(string);
    }
    out
}

fn decode_strings(cursor: &mut FieldCursor<'_>) -> Decoded<Vec<Vec<u8>>> {
    let count = cursor.u32()?;
    let mut strings = Vec::new();
    for _ in 0..count {
        let len = cursor.u16()?;
        strings.push(cursor.take(usize::from(len))?.to_vec());
    }
    Ok(strings)
}

fn decode_groups(cursor: &mut FieldCursor<'_>) -> Decoded<Vec<String>> {
    let names = decode_strings(cursor)?.into_iter().map(String::from_utf8).collect::<Result<Vec<_>, _>>();
    names
        .ok()
        .filter(|names| names.iter().all(|name| name.len() <= 255))
        .ok_or_else(|| Invalid::damaged(0, "a group name is longer than 255 bytes or not UTF-8"))
}

fn decode_segments(cursor: &mut FieldCursor<'_>) -> Decoded<Vec<SegmentEntry>> {
    let (count, len) = (cursor.u32()?, cursor.u32()? as usize);
    if len < ENTRY_LEN || (count as usize).checked_mul(len) != Some(cursor.left()) {
        return Err(Invalid::damaged(0, format!("{count} segments of {len} bytes are not what follows")));
    }
    let mut segments = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let at = cursor.at();
        let mut entry = FieldCursor::new(cursor.take(len)?);
        let entry = SegmentEntry::decode(&mut entry);
        segments.push(entry.map_err(|invalid| Invalid { offset: at + invalid.offset, ..invalid })?);
    }
    Ok(segments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::target::{MANIFEST_MAGIC, MANIFEST_NONCE};

    #[test]
    fn what_copies_are_recognised_by_is_where_they_look_for_it() {
        let manifest = manifest();
        let bytes = manifest.encode();
        assert!(bytes.starts_with(MANIFEST_MAGIC));
        assert_eq!(bytes[MANIFEST_NONCE], manifest.pack_nonce);
    }

    fn manifest() -> Manifest {
        let segment = SegmentEntry {
            id: 1,
            nonce: [4; 16],
            group: 1,
            state: SegmentState::Sealed,
            committed_len: 9000,
            frames_end: 5000,
            tally: Tally {
                records: 2,
                body_bytes: 3,
                sequence_first: 1,
                sequence_last: 2,
                ..Tally::default()
            },
            last_frame: LastFrame { offset: 4800, crc: 11, mark_crc: 12 },
            dead_records: 1,
            dead_bytes: 1,
            vector: Some(VectorRef { generation: 2, len: 70, crc: 5 }),
            form: SegmentForm { marker: 7, by_key: true, chunk_log2: 12 },
        };
        Manifest {
            generation: 3,
            pack_nonce: [1; 16],
            writer_nonce: [2; 16],
            published_ns: -7,
            state: PackState::Complete,
            chunk_log2: 16,
            sequence_next: 3,
            time_last_ns: 9,
            segment_next: 3,
            segment_len: 1 << 30,
            groups: vec![String::new(), "g".into()],
            segments: vec![
                segment,
                SegmentEntry { id: 2, state: SegmentState::Active, vector: None, ..segment },
            ],
            roots: vec![b"/a\xff".to_vec()],
            unfinished: vec![b"/b".to_vec(), b"-".to_vec()],
            history_from_ns: Some(-3),
            moved: true,
            moved_from: vec![b"/c\xfe".to_vec()],
        }
    }

    /// The bytes with the checksum made right again.
    fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.truncate(bytes.len() - 4);
        let len = (bytes.len() as u64 + 4).to_le_bytes();
        bytes[24..32].copy_from_slice(&len);
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    #[test]
    fn manifest_round_trips_and_any_flipped_bit_or_cut_is_reported() {
        let bytes = manifest().encode();
        assert_eq!(Manifest::decode(&bytes), Ok(manifest()));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let invalid = Manifest::decode(&flipped).unwrap_err();
            assert!(!invalid.unsupported, "bit {bit}: {}", invalid.what);
        }
        for len in 0..bytes.len() {
            assert!(Manifest::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn unknown_optional_sections_are_skipped_and_required_ones_refused() {
        for (flags, fits) in [(0, true), (REQUIRED, false)] {
            let mut bytes = manifest().encode();
            bytes.truncate(bytes.len() - 4);
            put_section(&mut bytes, 999, flags, b"news");
            bytes.extend([0; 4]);
            let read = Manifest::decode(&resealed(bytes));
            assert_eq!(read.is_ok(), fits);
            if let Err(invalid) = read {
                assert!(invalid.unsupported);
            }
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let mut wrong = manifest();
        wrong.groups.truncate(1);
        assert!(Manifest::decode(&wrong.encode()).is_err());
        let mut wrong = manifest();
        wrong.segments.swap(0, 1);
        assert!(Manifest::decode(&wrong.encode()).is_err());
        let mut wrong = manifest();
        wrong.segment_next = 2;
        assert!(Manifest::decode(&wrong.encode()).is_err());
        for number in [1 << 62, u64::MAX] {
            let wrong = [
                Manifest { generation: number, ..manifest() },
                Manifest { sequence_next: number, ..manifest() },
                Manifest { segment_next: number, ..manifest() },
            ];
            assert!(wrong.iter().all(|wrong| Manifest::decode(&wrong.encode()).is_err()), "{number}");
        }
    }
}
