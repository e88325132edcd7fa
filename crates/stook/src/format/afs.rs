//! AFS: a container of game data, whose members have numbers and, mostly, no names.
//!
//! `docs/formats/afs.md` lays it down and says where each fact is from. A reader takes the bytes in
//! their order: the first [`HEADER_LEN`] say how long the table is ([`table_len`]), the [`Table`]
//! where the members are, and where it may be said that there are [`Detail`]s of them. A [`Layout`]
//! is an AFS that is to be written.

use super::bytes::{array_at, u16_at, u32_at};
use super::calendar::Moment;
use super::fault::{Decoded, Fault};
use crate::extent::ByteRange;

/// What an AFS begins with.
pub const MAGIC: [u8; 4] = *b"AFS\0";
/// What some begin with instead.
const MAGIC_BLANK: [u8; 4] = *b"AFS ";

/// The magic and the number of members.
pub const HEADER_LEN: usize = 8;
/// Where a member is, and its length; also where the details are.
pub const PLACE_LEN: usize = 8;
/// Details of one member.
pub const DETAIL_LEN: usize = 48;
/// The longest name of a member.
pub const NAME_LEN_MAX: usize = 32;
/// Members begin at multiples of this when they are written. Some games use others, so it is not
/// required for reading.
pub const ALIGNMENT: u64 = 2048;
/// Members that are taken, and written, at most.
pub const MEMBERS_MAX: u32 = 1 << 20;

/// Whether the first bytes of a file are those of an AFS.
pub fn has_magic(first: &[u8]) -> bool {
    first.starts_with(&MAGIC) || first.starts_with(&MAGIC_BLANK)
}

/// The number of bytes for [`Table::decode`], from the first bytes of a file of this length.
///
/// # Errors
/// Returns an error if they are not those of an AFS, or the file is too short for its stated number
/// of members.
pub fn table_len(header: &[u8; HEADER_LEN], file_len: u64) -> Decoded<usize> {
    if !has_magic(header) {
        return Err(Fault::damaged(0, "`AFS` and a zero were expected here"));
    }
    let count = u32_at(header, 4).unwrap_or(0);
    if count > MEMBERS_MAX {
        let what = format!("{count} members are more than the {MEMBERS_MAX} that are taken");
        return Err(Fault::unsupported(4, what));
    }
    let len = len_of(count as usize);
    if len as u64 > file_len {
        let what = format!("a table of {count} members has no room in {file_len} bytes");
        return Err(Fault::damaged(4, what));
    }
    Ok(len)
}

/// The length of header and table for this many members, at most [`MEMBERS_MAX`].
fn len_of(count: usize) -> usize {
    HEADER_LEN.saturating_add(count.saturating_mul(PLACE_LEN))
}

/// Where the members of an AFS are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    places: Vec<Option<ByteRange>>,
    len: u64,
    /// Where the first member begins, else the end of the file; and where the last ends.
    first: u64,
    last: u64,
    file_len: u64,
}

impl Table {
    /// Decodes the first [`table_len`] bytes of a file of this length.
    ///
    /// # Errors
    /// Returns the error of [`table_len`], or one if a member overlaps the table or another member,
    /// or ends past the end of the file.
    pub fn decode(bytes: &[u8], file_len: u64) -> Decoded<Self> {
        let cut = || Fault::damaged(bytes.len() as u64, "the table of members is cut off");
        let len = table_len(&array_at(bytes, 0).ok_or_else(cut)?, file_len)?;
        let table = bytes.get(HEADER_LEN..len).ok_or_else(cut)?;
        let len = len as u64;
        let entries = table.chunks_exact(PLACE_LEN);
        let mut places = Vec::with_capacity(entries.len());
        for (at, place) in (HEADER_LEN as u64..).step_by(PLACE_LEN).zip(entries) {
            let Some(place) = Place::decode(place) else {
                places.push(None);
                continue;
            };
            let range = place.range().filter(|range| range.start() >= len && range.end() <= file_len);
            let Some(range) = range else {
                let what = format!(
                    "a member of {} bytes at {} does not lie after the table, which ends at {len}, and \
                     before the end, at {file_len}",
                    place.len, place.at
                );
                return Err(Fault::damaged(at, what));
            };
            places.push(Some(range));
        }
        check_overlap(&places)?;
        let ranges = || places.iter().flatten();
        let first = ranges().map(ByteRange::start).min().unwrap_or(file_len);
        let last = ranges().map(ByteRange::end).max().unwrap_or(len);
        Ok(Self { places, len, first, last, file_len })
    }

    /// The length of header and table.
    pub fn table_len(&self) -> u64 {
        self.len
    }

    /// The length of the file.
    pub fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Where the first member begins, else the end of the file.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The range of each member, by its number; `None` if there is no member with this number.
    pub fn places(&self) -> &[Option<ByteRange>] {
        &self.places
    }

    /// The ranges that may hold the place of the details, of [`PLACE_LEN`] bytes each, the likelier
    /// one first: after the table, or directly before the first member.
    pub fn pointers(&self) -> Vec<ByteRange> {
        let before = self.first.checked_sub(PLACE_LEN as u64).filter(|at| *at > self.len);
        let starts = [Some(self.len), before].into_iter().flatten();
        let ranges = starts.filter_map(|at| ByteRange::at(at, PLACE_LEN as u64));
        // Members may begin directly after the table, and then there is none.
        ranges.filter(|range| range.end() <= self.first).collect()
    }

    /// The range of the details, from the bytes at one of these places; `None` if they are invalid,
    /// as in an AFS without details: any bytes may be there.
    pub fn details(&self, pointer: &[u8; PLACE_LEN]) -> Option<ByteRange> {
        let wanted = (self.places.len() as u64).checked_mul(DETAIL_LEN as u64)?;
        let said = Place::decode(pointer)?;
        let is_long_enough = wanted > 0 && u64::from(said.len) >= wanted;
        let range = ByteRange::at(said.at.into(), wanted).filter(|_| is_long_enough)?;
        let end = said.range()?.end();
        (range.start() >= self.last && end <= self.file_len).then_some(range)
    }
}

/// Members that lie within one another would make a small file large without end.
fn check_overlap(places: &[Option<ByteRange>]) -> Decoded<()> {
    let at = |number: usize| len_of(number) as u64;
    let mut sorted: Vec<(ByteRange, usize)> =
        places.iter().enumerate().filter_map(|(number, place)| Some(((*place)?, number))).collect();
    // Those without bytes lie nowhere.
    sorted.retain(|(range, _)| !range.is_empty());
    sorted.sort_unstable_by_key(|(range, number)| (range.start(), *number));
    let mut before: Option<(ByteRange, usize)> = None;
    for (range, number) in sorted {
        if let Some((other, first)) = before.filter(|(other, _)| other.end() > range.start()) {
            let what = format!("member {number} at {range} overlaps member {first} at {other}");
            return Err(Fault::damaged(at(number), what));
        }
        before = Some((range, number));
    }
    Ok(())
}

/// An offset and a length, as stored.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: u32,
    len: u32,
}

impl Place {
    /// None where both are zero.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let place = Self { at: u32_at(bytes, 0)?, len: u32_at(bytes, 4)? };
        (place.at > 0 || place.len > 0).then_some(place)
    }

    fn range(self) -> Option<ByteRange> {
        ByteRange::at(self.at.into(), self.len.into())
    }
}

/// The details of a member in an AFS, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detail {
    /// The name, filled up with zeroes.
    pub name: [u8; NAME_LEN_MAX],
    /// Year, month, day, hour, minute, second.
    pub time: [u16; 6],
    /// Often the length of the member; in some games its meaning is unknown.
    pub number: u32,
}

impl Detail {
    /// Details with a name and a time, in nanoseconds since 1970.
    ///
    /// # Errors
    /// Returns an error if the name is too long or has a zero byte, or the year does not fit.
    pub fn new(name: &[u8], mtime_ns: i64, number: u32) -> Result<Self, Fault> {
        let mut field = [0; NAME_LEN_MAX];
        let Some(room) = field.get_mut(..name.len()).filter(|_| !name.contains(&0)) else {
            let what = format!(
                "an AFS has room for names of {NAME_LEN_MAX} bytes without a zero, and one has {}",
                name.len()
            );
            return Err(Fault::unsupported(0, what));
        };
        room.copy_from_slice(name);
        let Some(moment) = Moment::of_ns(mtime_ns) else {
            return Err(Fault::unsupported(NAME_LEN_MAX as u64, "an AFS has no room for such a time"));
        };
        let Moment { year, month, day, hour, minute, second } = moment;
        Ok(Self { name: field, time: [year, month, day, hour, minute, second], number })
    }

    /// Decodes the details at the place of [`Table::details`].
    ///
    /// # Errors
    /// Returns an error if the last of them is truncated.
    pub fn decode_all(bytes: &[u8]) -> Decoded<Vec<Self>> {
        let (details, rest) = bytes.as_chunks::<DETAIL_LEN>();
        if !rest.is_empty() {
            let at = bytes.len().saturating_sub(rest.len());
            return Err(Fault::damaged(at as u64, "the details of a member are cut off"));
        }
        Ok(details.iter().map(Self::decode).collect())
    }

    fn decode(bytes: &[u8; DETAIL_LEN]) -> Self {
        let part = |at| u16_at(bytes, at).unwrap_or(0);
        Self {
            name: array_at(bytes, 0).unwrap_or_default(),
            time: [part(32), part(34), part(36), part(38), part(40), part(42)],
            number: u32_at(bytes, 44).unwrap_or(0),
        }
    }

    /// Appends the [`DETAIL_LEN`] bytes of it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.name);
        for part in self.time {
            out.extend(part.to_le_bytes());
        }
        out.extend(self.number.to_le_bytes());
    }

    /// The name, which ends at its end or before a zero. Some are empty, and some are paths.
    pub fn name(&self) -> &[u8] {
        self.name.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// The time in nanoseconds since 1970, taken as UTC; `None` if there is no such time.
    pub fn mtime_ns(&self) -> Option<i64> {
        let [year, month, day, hour, minute, second] = self.time;
        Moment { year, month, day, hour, minute, second }.to_ns()
    }
}

/// Where everything goes in an AFS that is to be written.
///
/// It is [`head`](Self::head), the members at their [`places`](Self::places), zeroes up to the next
/// multiple of [`ALIGNMENT`] after each, and the bytes of [`encode_details`](Self::encode_details).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    places: Vec<Option<ByteRange>>,
    first: u64,
    details: Option<ByteRange>,
    file_len: u64,
}

impl Layout {
    /// An AFS with members of these lengths, and none where there is no length.
    ///
    /// # Errors
    /// Returns an error if there are too many, or they are too long: offsets have 32 bits.
    pub fn new(lens: &[Option<u64>], with_details: bool) -> Result<Self, Fault> {
        if lens.len() > MEMBERS_MAX as usize {
            let what = format!("{} members are more than the {MEMBERS_MAX} of an AFS", lens.len());
            return Err(Fault::unsupported(4, what));
        }
        // There is room for the place of the details, even if there are none.
        let first = aligned(len_of(lens.len()).saturating_add(PLACE_LEN) as u64);
        let mut at = first;
        let mut places = Vec::with_capacity(lens.len());
        for (number, len) in lens.iter().enumerate() {
            let Some(len) = *len else {
                places.push(None);
                continue;
            };
            let place = place(at, len).ok_or_else(|| {
                let what = format!("a member of {len} bytes at {at} is beyond the 4 GiB of an AFS");
                Fault::unsupported(len_of(number) as u64, what)
            })?;
            at = aligned(place.end());
            places.push(Some(place));
        }
        let wanted = lens.len().saturating_mul(DETAIL_LEN) as u64;
        let details = match with_details && wanted > 0 {
            true => Some(place(at, wanted).ok_or_else(|| {
                Fault::unsupported(len_of(lens.len()) as u64, "the details are beyond the 4 GiB of an AFS")
            })?),
            false => None,
        };
        let file_len = details.map_or(at, |details| aligned(details.end()));
        Ok(Self { places, first, details, file_len })
    }

    /// Where each member goes.
    pub fn places(&self) -> &[Option<ByteRange>] {
        &self.places
    }

    /// The range of the details, without the zeroes after them.
    pub fn details(&self) -> Option<ByteRange> {
        self.details
    }

    /// Bytes in all.
    pub fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Everything before the first member.
    pub fn head(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        // Counted, and placed below 4 GiB.
        out.extend(short(self.places.len() as u64));
        for place in self.places.iter().chain([&self.details]) {
            encode_place(*place, &mut out);
        }
        out.resize(usize::try_from(self.first).unwrap_or(out.len()), 0);
        out
    }

    /// The details, one for each number, including missing members, followed by zeroes.
    ///
    /// # Errors
    /// Returns an error if there are more or fewer of them, or they were not planned.
    pub fn encode_details(&self, details: &[Detail]) -> Result<Vec<u8>, Fault> {
        if details.len() != self.places.len() || self.details.is_none() {
            let planned = if self.details.is_some() { self.places.len() } else { 0 };
            let what = format!("there is room for details of {planned} members, not of {}", details.len());
            return Err(Fault::unsupported(0, what));
        }
        let mut out = Vec::with_capacity(details.len().saturating_mul(DETAIL_LEN));
        for detail in details {
            detail.encode(&mut out);
        }
        let whole = aligned(out.len() as u64);
        out.resize(usize::try_from(whole).unwrap_or(out.len()), 0);
        Ok(out)
    }
}

/// Appends the [`PLACE_LEN`] bytes of a place, whose end is below 4 GiB; zeroes where there is
/// none.
pub fn encode_place(place: Option<ByteRange>, out: &mut Vec<u8>) {
    let (at, len) = place.map_or((0, 0), |place| (place.start(), place.len()));
    out.extend(short(at));
    out.extend(short(len));
}

/// A range whose numbers all fit into 32 bits.
fn place(at: u64, len: u64) -> Option<ByteRange> {
    ByteRange::at(at, len).filter(|range| range.end() <= u64::from(u32::MAX))
}

/// The next place where a member may begin.
fn aligned(at: u64) -> u64 {
    at.checked_next_multiple_of(ALIGNMENT).unwrap_or(u64::MAX)
}

fn short(number: u64) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes()
}
