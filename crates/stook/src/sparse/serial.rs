//! A sparse file as a run of bytes: `docs/formats/sparse-v1.md`.
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

use std::io::{self, Read, Write};

use super::buffer::Meter;
use super::buffer::SparseBuffer;
use super::{Counters, SparseError, SparseOptions};
use crate::extent::ByteRange;
use crate::format::fields::Fields;

const MAGIC: [u8; 8] = *b"\x89STKSPR\n";
const VERSION: u16 = 1;
const HEADER_LEN: usize = 160;
const HAS_MODIFIED: u16 = 1;
const HAS_LAST_READ: u16 = 2;
const HAS_LAST_WRITE: u16 = 4;
const IS_EXACT: u16 = 8;
const IS_WIPED: u16 = 16;
const FLAGS: u16 = HAS_MODIFIED | HAS_LAST_READ | HAS_LAST_WRITE | IS_EXACT | IS_WIPED;

/// A group ends with the segment that makes it this long, or with this many.
const GROUP_BYTES: usize = 256 << 10;
const GROUP_SEGMENTS: usize = 4096;
/// So a group has never more bytes than this.
const GROUP_BYTES_MAX: usize = GROUP_BYTES + super::blocks::SEGMENT_MAX;
const GROUP_HEADER_LEN: usize = 8;
const ENTRY_LEN: usize = 20;

impl SparseBuffer {
    /// Writes the file with its options, counters and touches; pins are left out. Writers wait
    /// meanwhile.
    ///
    /// Many small writes are made, so give it a buffered writer.
    ///
    /// # Errors
    /// Returns the errors of the writer.
    pub fn to_writer(&self, mut writer: impl Write) -> Result<(), SparseError> {
        let failed = |source| SparseError::Io { operation: "write", source };
        let inner = self.lock.read();
        let counters = self.counters_of(&inner);
        let held = &inner.held;
        let header = BufferHeader {
            options: *self.options(),
            clock: self.meter.clock.latest(),
            modified_ns: inner.modified_ns,
            counters,
            segments: held.index.len(),
            bytes: held.len(),
        };
        writer.write_all(&header.encode()).map_err(failed)?;
        let mut group = Group::default();
        for segment in held.segments(ByteRange::to(u64::MAX)) {
            group.add(segment.start, segment.last_touch(), held.blocks.bytes(segment.place));
            if group.is_full() {
                group.write(&mut writer).map_err(failed)?;
            }
        }
        if !group.is_empty() {
            group.write(&mut writer).map_err(failed)?;
        }
        // An empty group is the end.
        group.write(&mut writer).map_err(failed)
    }

    /// Reads what [`to_writer`](Self::to_writer) wrote, and nothing after it. The bytes may come
    /// from anywhere: more memory than they need is never taken.
    ///
    /// # Errors
    /// Returns an error if they are not a sparse file of this version, or are truncated or damaged,
    /// and the errors of the reader.
    pub fn from_reader(reader: impl Read) -> Result<Self, SparseError> {
        read(reader, |options| Self::assemble(options, Meter::new(&options), None))
    }
}

/// Reads a file into what `make` makes of its options.
pub(super) fn read(
    reader: impl Read,
    make: impl FnOnce(SparseOptions) -> SparseBuffer,
) -> Result<SparseBuffer, SparseError> {
    let mut input = CountingReader { reader, at: 0 };
    let header = BufferHeader::decode(&mut input)?;
    let file = make(header.options);
    file.meter.clock.advance_past(header.clock);
    let mut inner = file.lock.write();
    let mut next = 0;
    loop {
        let start_of_group = input.at;
        let group = input.group()?;
        if group.is_empty() {
            break;
        }
        for (start, touch, bytes) in group.segments() {
            let end = start.checked_add(bytes.len() as u64);
            let fits = (1..=header.options.grain as usize).contains(&bytes.len());
            let Some(end) = end.filter(|_| fits && start >= next && touch <= header.clock) else {
                let what = format!("a segment of {} bytes at position {start} cannot be here", bytes.len());
                return Err(SparseError::Damaged { offset: start_of_group, what });
            };
            inner.held.restore(start, bytes, touch)?;
            next = end;
        }
    }
    let (segments, bytes) = (inner.held.index.len(), inner.held.len());
    if (segments, bytes) != (header.segments, header.bytes) {
        let what = format!(
            "{bytes} bytes in {segments} segments were found, {} in {} expected",
            header.bytes, header.segments
        );
        return Err(SparseError::Damaged { offset: input.at, what });
    }
    inner.counters = header.counters;
    inner.modified_ns = header.modified_ns;
    file.note_len(&mut inner);
    drop(inner);
    Ok(file)
}

/// The header of a serialised sparse file.
struct BufferHeader {
    options: SparseOptions,
    clock: u64,
    modified_ns: Option<i64>,
    counters: Counters,
    segments: u64,
    bytes: u64,
}

impl BufferHeader {
    fn encode(&self) -> Vec<u8> {
        let counters = &self.counters;
        let mut out = Vec::with_capacity(HEADER_LEN);
        let flag = |set: bool, flag: u16| if set { flag } else { 0 };
        let flags = flag(self.modified_ns.is_some(), HAS_MODIFIED)
            | flag(counters.last_read_ns.is_some(), HAS_LAST_READ)
            | flag(counters.last_write_ns.is_some(), HAS_LAST_WRITE)
            | flag(self.options.exact, IS_EXACT)
            | flag(self.options.wipe, IS_WIPED);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(flags.to_le_bytes());
        out.extend(self.options.grain.to_le_bytes());
        out.extend(self.options.adopt_min.to_le_bytes());
        out.extend([0; 4]);
        for number in [self.options.budget_bytes, self.options.first_touch, self.clock] {
            out.extend(number.to_le_bytes());
        }
        out.extend(self.modified_ns.unwrap_or(0).to_le_bytes());
        for number in [
            counters.reads,
            counters.read_bytes,
            counters.writes,
            counters.written_bytes,
            counters.erased_segments,
            counters.erased_bytes,
            counters.evicted_segments,
            counters.evicted_bytes,
        ] {
            out.extend(number.to_le_bytes());
        }
        out.extend(counters.last_read_ns.unwrap_or(0).to_le_bytes());
        out.extend(counters.last_write_ns.unwrap_or(0).to_le_bytes());
        out.extend(self.segments.to_le_bytes());
        out.extend(self.bytes.to_le_bytes());
        out.extend([0; 4]);
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        out
    }

    fn decode(input: &mut CountingReader<impl Read>) -> Result<Self, SparseError> {
        // Version first: another one may have a header of another length.
        let mut bytes = input.take(12)?;
        let mut fields = Fields::new(&bytes);
        if fields.array() != Some(MAGIC) {
            let what = "it does not begin with the eight bytes of one".to_owned();
            return Err(SparseError::NotASparseFile { what });
        }
        let damaged = |what: &str| SparseError::Damaged { offset: 0, what: what.to_owned() };
        let cut_short = || damaged("the header is cut short");
        let found = fields.u16().ok_or_else(cut_short)?;
        let flags = fields.u16().ok_or_else(cut_short)?;
        if found != VERSION {
            return Err(SparseError::Version { found, known: VERSION });
        }
        bytes.extend(input.take(HEADER_LEN - 12)?);
        check_sum(&bytes, 0)?;
        let rest = Fields::new(bytes.get(12..).unwrap_or_default());
        let (header, reserved) = Self::decode_fields(rest, flags).ok_or_else(cut_short)?;
        if flags & !FLAGS != 0 || reserved != [0; 2] {
            return Err(damaged("the header has bits set that mean nothing in this version"));
        }
        header.options.check().map_err(|error| damaged(&error.to_string()))?;
        Ok(header)
    }

    /// What follows the flags, and the numbers in it that are reserved.
    fn decode_fields(mut fields: Fields<'_>, flags: u16) -> Option<(Self, [u32; 2])> {
        let (grain, adopt_min, first_reserved) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let (budget_bytes, first_touch, clock) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let has = |flag: u16| flags & flag != 0;
        let (exact, wipe) = (has(IS_EXACT), has(IS_WIPED));
        let options = SparseOptions { budget_bytes, grain, adopt_min, first_touch, exact, wipe };
        let modified_ns = has(HAS_MODIFIED).then_some(fields.i64()?);
        let counters = Counters {
            reads: fields.u64()?,
            read_bytes: fields.u64()?,
            writes: fields.u64()?,
            written_bytes: fields.u64()?,
            erased_segments: fields.u64()?,
            erased_bytes: fields.u64()?,
            evicted_segments: fields.u64()?,
            evicted_bytes: fields.u64()?,
            last_read_ns: has(HAS_LAST_READ).then_some(fields.i64()?),
            last_write_ns: has(HAS_LAST_WRITE).then_some(fields.i64()?),
        };
        let (segments, bytes, last_reserved) = (fields.u64()?, fields.u64()?, fields.u32()?);
        let header = Self { options, clock, modified_ns, counters, segments, bytes };
        Some((header, [first_reserved, last_reserved]))
    }
}

/// Segments that are written and checked together.
#[derive(Default)]
struct Group {
    count: usize,
    entries: Vec<u8>,
    bytes: Vec<u8>,
}

impl Group {
    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn is_full(&self) -> bool {
        self.count >= GROUP_SEGMENTS || self.bytes.len() >= GROUP_BYTES
    }

    fn add(&mut self, start: u64, touch: u64, bytes: &[u8]) {
        self.count += 1;
        self.entries.extend(start.to_le_bytes());
        self.entries.extend(touch.to_le_bytes());
        self.entries.extend((bytes.len() as u32).to_le_bytes());
        self.bytes.extend(bytes);
    }

    /// Writes it and begins the next.
    fn write(&mut self, writer: &mut impl Write) -> io::Result<()> {
        let mut header = (self.count as u32).to_le_bytes().to_vec();
        header.extend((self.bytes.len() as u32).to_le_bytes());
        let sum = [&header, &self.entries, &self.bytes]
            .iter()
            .fold(0, |sum, part| crc32c::crc32c_append(sum, part));
        for part in [&header, &self.entries, &self.bytes] {
            writer.write_all(part)?;
        }
        writer.write_all(&sum.to_le_bytes())?;
        self.count = 0;
        self.entries.clear();
        self.bytes.clear();
        Ok(())
    }

    /// Start, last touch and bytes of every segment. Lengths that lead out of the group yield no
    /// bytes.
    fn segments(&self) -> impl Iterator<Item = (u64, u64, &[u8])> {
        let mut rest = self.bytes.as_slice();
        self.entries.chunks_exact(ENTRY_LEN).filter_map(move |entry| {
            let mut fields = Fields::new(entry);
            let (start, touch, len) = (fields.u64()?, fields.u64()?, fields.u32()?);
            let (bytes, after) = rest.split_at_checked(len as usize).unwrap_or_default();
            rest = after;
            Some((start, touch, bytes))
        })
    }
}

/// A reader that knows how far it has come.
struct CountingReader<R> {
    reader: R,
    at: u64,
}

impl<R: Read> CountingReader<R> {
    /// The next `len` bytes, which must be few.
    fn take(&mut self, len: usize) -> Result<Vec<u8>, SparseError> {
        let mut bytes = vec![0; len];
        self.reader.read_exact(&mut bytes).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                let what = format!("it ends before the {len} bytes that are to begin here do");
                SparseError::Damaged { offset: self.at, what }
            }
            _ => SparseError::Io { operation: "read", source },
        })?;
        self.at += len as u64;
        Ok(bytes)
    }

    fn group(&mut self) -> Result<Group, SparseError> {
        let offset = self.at;
        let mut all = self.take(GROUP_HEADER_LEN)?;
        let mut fields = Fields::new(&all);
        let (Some(count), Some(len)) = (fields.u32(), fields.u32()) else {
            return Err(SparseError::Damaged { offset, what: "a group is cut short".to_owned() });
        };
        let (count, len) = (count as usize, len as usize);
        if count > GROUP_SEGMENTS || len > GROUP_BYTES_MAX {
            let what = format!("a group of {count} segments with {len} bytes is too large");
            return Err(SparseError::Damaged { offset, what });
        }
        all.extend(self.take(count * ENTRY_LEN + len + 4)?);
        check_sum(&all, offset)?;
        let mut body = all.split_off(GROUP_HEADER_LEN);
        body.truncate(count * ENTRY_LEN + len);
        let bytes = body.split_off(count * ENTRY_LEN);
        let group = Group { count, entries: body, bytes };
        let used: usize = group.segments().map(|(_, _, bytes)| bytes.len()).sum();
        if used != len {
            let what = format!("a group has {len} bytes, of which its segments take {used}");
            return Err(SparseError::Damaged { offset, what });
        }
        Ok(group)
    }
}

/// Whether the last four bytes are the checksum of those before.
fn check_sum(bytes: &[u8], offset: u64) -> Result<(), SparseError> {
    let sum =
        bytes.split_last_chunk::<4>().map(|(body, sum)| (crc32c::crc32c(body), u32::from_le_bytes(*sum)));
    match sum {
        Some((expected, found)) if expected == found => Ok(()),
        _ => Err(SparseError::Damaged { offset, what: "the checksum is wrong".to_owned() }),
    }
}
