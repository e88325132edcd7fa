//! The central directory of a zip, its end, and the headers before members.

use super::super::bytes::{i64_at, u16_at, u32_at, u64_at};
use super::super::calendar::Moment;
use super::super::fault::{Decoded, Fault};
use super::super::member::{MemberKind, Method};

/// The length of the end without its comment.
pub const END_LEN: usize = 22;
/// The longest end, a comment and the way to the one of zip64 included.
pub const END_LEN_MAX: usize = END_LEN + 65_535 + LOCATOR_LEN;
/// What points to the end of zip64.
pub const LOCATOR_LEN: usize = 20;
/// The end of zip64, without what may follow.
pub const END64_LEN: usize = 56;
/// An entry without its name and what follows.
pub const ENTRY_LEN: usize = 46;
/// The header before a member, without its name and what follows.
pub const LOCAL_LEN: usize = 30;

pub(super) const END: u32 = 0x0605_4b50;
pub(super) const LOCATOR: u32 = 0x0706_4b50;
pub(super) const END64: u32 = 0x0606_4b50;
pub(super) const ENTRY: u32 = 0x0201_4b50;
/// The first bytes of a member.
pub const LOCAL: u32 = 0x0403_4b50;

/// Bits of a member: it is encrypted; what follows its bytes says how long they are.
const ENCRYPTED: u16 = 1;
pub(super) const HAS_DESCRIPTOR: u16 = 1 << 3;
/// What may follow the bytes of a member, with numbers of 32 bits and of zip64.
pub(super) const DESCRIPTOR: u32 = 0x0807_4b50;
/// The longest of these.
pub const DESCRIPTOR_LEN_MAX: usize = 24;

/// The system whose attributes are those of Unix.
pub(super) const UNIX: u8 = 3;
/// The file type in Unix attributes.
pub(super) const FORMAT_MASK: u32 = 0o170_000;
pub(super) const FILE: u32 = 0o100_000;
pub(super) const DIRECTORY: u32 = 0o040_000;
pub(super) const SYMLINK: u32 = 0o120_000;

/// Extra fields: numbers that have no room in 32 bits, the time of Unix, its owner.
pub(super) const WIDE: u16 = 0x0001;
pub(super) const TIMES: u16 = 0x5455;
pub(super) const OWNER: u16 = 0x7875;
/// Those that are only read: the time of Windows, a name in Unicode beside one that is not.
const NTFS: u16 = 0x000a;
const UNICODE_NAME: u16 = 0x7075;
/// The bit of [`TIMES`] that says that the time of the last change is there.
pub(super) const HAS_MTIME: u8 = 1;

/// The first year of DOS.
pub(super) const DOS_YEAR: u16 = 1980;

/// What the end record states about the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Entries.
    pub entries: u64,
    /// Whether that number is only its last 16 bits.
    pub is_short: bool,
    /// Bytes of the directory.
    pub len: u64,
    /// Where it begins, counted from where the zip does.
    pub at: u64,
}

impl End {
    /// Where the zip begins, whose directory ends at `end_at`: data before it moves all of it.
    ///
    /// # Errors
    /// Returns an error if the directory reaches past that end.
    pub fn base(&self, end_at: u64) -> Decoded<u64> {
        let base = self.at.checked_add(self.len).and_then(|to| end_at.checked_sub(to));
        base.ok_or_else(|| {
            let what = format!("a directory of {} bytes at {} reaches past its own end", self.len, self.at);
            Fault::damaged(end_at, what)
        })
    }

    /// Returns an error if a directory of so many entries is not what was stated.
    ///
    /// # Errors
    /// Returns that error.
    pub fn check_count(&self, count: u64) -> Decoded<()> {
        let stated = self.entries;
        if count == stated || (self.is_short && count & 0xffff == stated) {
            return Ok(());
        }
        let what = format!("the directory has {count} entries, but its end states {stated}");
        Err(Fault::damaged(0, what))
    }
}

/// Looks for the end record in the last bytes of a file: returns its position in them, its
/// contents, and the stated position of the zip64 end record.
///
/// # Errors
/// Returns an error if there is one, but it belongs to a multi-part zip.
pub fn find_end(tail: &[u8]) -> Decoded<Option<(usize, End, Option<u64>)>> {
    let last = tail.len().saturating_sub(END_LEN);
    let is_end = |at: usize| {
        let comment = u16_at(tail, at.saturating_add(20)).map(usize::from);
        let to = comment.and_then(|len| at.checked_add(END_LEN)?.checked_add(len));
        u32_at(tail, at) == Some(END) && to == Some(tail.len())
    };
    let Some(at) = (0..=last).rev().find(|at| is_end(*at)) else { return Ok(None) };
    let short = |field: usize| u16_at(tail, at.saturating_add(field)).unwrap_or(0);
    let long = |field: usize| u32_at(tail, at.saturating_add(field)).unwrap_or(0);
    let locator = at.checked_sub(LOCATOR_LEN).filter(|at| u32_at(tail, *at) == Some(LOCATOR));
    let end64 = locator.and_then(|at| u64_at(tail, at.saturating_add(8)));
    if end64.is_none() && (short(4) != 0 || short(6) != 0 || short(8) != short(10)) {
        return Err(Fault::unsupported(at as u64, "it is one of several parts of a zip"));
    }
    let end = End {
        entries: u64::from(short(10)),
        is_short: true,
        len: u64::from(long(12)),
        at: u64::from(long(16)),
    };
    Ok(Some((at, end, end64)))
}

/// The end of zip64.
///
/// # Errors
/// Returns an error if it is invalid, or belongs to a multi-part zip.
pub fn end64(bytes: &[u8]) -> Decoded<End> {
    let damaged = || Fault::damaged(0, "the end of the directory (zip64) was expected here");
    if u32_at(bytes, 0) != Some(END64) {
        return Err(damaged());
    }
    if u32_at(bytes, 16) != Some(0) || u32_at(bytes, 20) != Some(0) || u64_at(bytes, 24) != u64_at(bytes, 32)
    {
        return Err(Fault::unsupported(0, "it is one of several parts of a zip"));
    }
    let at = |at| u64_at(bytes, at).ok_or_else(damaged);
    Ok(End { entries: at(32)?, is_short: false, len: at(40)?, at: at(48)? })
}

/// The parts of an entry that have a fixed length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed {
    system: u8,
    flags: u16,
    method: u16,
    dos_time: (u16, u16),
    crc32: u32,
    stored: u32,
    len: u32,
    name_len: u16,
    extra_len: u16,
    comment_len: u16,
    disk: u16,
    external: u32,
    at: u32,
}

impl Fixed {
    /// Reads it.
    ///
    /// # Errors
    /// Returns an error if it is not an entry.
    pub fn decode(bytes: &[u8; ENTRY_LEN]) -> Decoded<Self> {
        let short = |at| u16_at(bytes, at).unwrap_or(0);
        let long = |at| u32_at(bytes, at).unwrap_or(0);
        if long(0) != ENTRY {
            return Err(Fault::damaged(0, "an entry of the directory was expected here"));
        }
        Ok(Self {
            system: bytes.get(5).copied().unwrap_or(0),
            flags: short(8),
            method: short(10),
            dos_time: (short(12), short(14)),
            crc32: long(16),
            stored: long(20),
            len: long(24),
            name_len: short(28),
            extra_len: short(30),
            comment_len: short(32),
            disk: short(34),
            external: long(38),
            at: long(42),
        })
    }

    /// Lengths of the name, of the extra fields and of the comment that follow.
    pub fn lens(&self) -> (usize, usize, usize) {
        (self.name_len.into(), self.extra_len.into(), self.comment_len.into())
    }

    /// Whether the place of the member is in a field of zip64.
    pub(super) fn is_far(&self) -> bool {
        self.at == u32::MAX
    }

    /// How many lengths of the member are in that field before it.
    pub(super) fn wide_lens(&self) -> usize {
        [self.len, self.stored].iter().filter(|len| **len == u32::MAX).count()
    }
}

/// An entry of the directory. Where its bytes begin, only the header before the member says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name as it is to be used.
    pub name: Vec<u8>,
    /// The length of the name as stored before the member.
    pub name_len: u64,
    /// Its kind.
    pub kind: MemberKind,
    /// Permission bits.
    pub mode: Option<u32>,
    /// Modification time, nanoseconds since 1970.
    pub mtime_ns: Option<i64>,
    /// User and group.
    pub owner: Option<(u32, u32)>,
    /// Bytes it has.
    pub len: u64,
    /// Bytes it takes.
    pub stored_len: u64,
    /// Where the header before it is, counted from where the zip begins.
    pub at: u64,
    /// How it is stored.
    pub method: Method,
    /// The CRC-32 of its bytes.
    pub crc32: u32,
    /// Whether it contradicts itself: a directory that has bytes, or one that is stored as it is
    /// and has two lengths. Only itself cannot be read then.
    pub is_refused: bool,
}

impl Entry {
    /// The fewest bytes that its header and what is stored of it take.
    pub fn least_len(&self) -> u64 {
        (LOCAL_LEN as u64).saturating_add(self.name_len).saturating_add(self.stored_len)
    }
}

/// Puts an entry together with its name and its extra fields.
///
/// # Errors
/// Returns an error if they do not fit together.
pub fn entry(fixed: &Fixed, name: &[u8], extra: &[u8]) -> Decoded<Entry> {
    let extras = Extras::decode(fixed, name, extra)?;
    if fixed.disk != 0 && fixed.disk != u16::MAX {
        return Err(Fault::unsupported(0, "a member is in another part of the zip"));
    }
    let unix = (fixed.system == UNIX).then_some(fixed.external >> 16).filter(|mode| *mode != 0);
    let kind = match unix.map(|mode| mode & FORMAT_MASK) {
        _ if name.ends_with(b"/") => MemberKind::Directory,
        Some(DIRECTORY) => MemberKind::Directory,
        Some(SYMLINK) => MemberKind::Symlink,
        Some(FILE | 0) | None => MemberKind::File,
        Some(_) => MemberKind::Other,
    };
    let has_body = kind == MemberKind::Directory && extras.len > 0;
    let method = match fixed.flags & ENCRYPTED {
        0 => Method::from_code(fixed.method),
        _ => Method::Encrypted,
    };
    let has_two_lens = method == Method::Stored && extras.len != extras.stored;
    Ok(Entry {
        name: extras.name.unwrap_or(name).to_vec(),
        name_len: name.len() as u64,
        kind: if has_body { MemberKind::File } else { kind },
        mode: unix.map(|mode| mode & 0o7777),
        mtime_ns: extras.mtime_ns.or_else(|| dos_time(fixed.dos_time)),
        owner: extras.owner,
        len: extras.len,
        stored_len: extras.stored,
        at: extras.at,
        method,
        crc32: fixed.crc32,
        is_refused: has_body || has_two_lens,
    })
}

/// What the extra fields of an entry say.
struct Extras<'a> {
    len: u64,
    stored: u64,
    at: u64,
    mtime_ns: Option<i64>,
    owner: Option<(u32, u32)>,
    name: Option<&'a [u8]>,
}

impl<'a> Extras<'a> {
    fn decode(fixed: &Fixed, name: &[u8], extra: &'a [u8]) -> Decoded<Self> {
        let wide = [fixed.len, fixed.stored, fixed.at];
        let mut all = Self {
            len: fixed.len.into(),
            stored: fixed.stored.into(),
            at: fixed.at.into(),
            mtime_ns: None,
            owner: None,
            name: None,
        };
        let (mut rest, mut has_wide) = (extra, false);
        // Some programs fill up with less than a field.
        while let (Some(id), Some(len)) = (u16_at(rest, 0), u16_at(rest, 2)) {
            let to = usize::from(len).saturating_add(4);
            let Some(field) = rest.get(4..to) else {
                return Err(Fault::damaged(0, "an extra field is longer than all of them"));
            };
            match id {
                WIDE => {
                    all.take_wide(wide, field)?;
                    has_wide = true;
                }
                TIMES if field.first().is_some_and(|flags| flags & HAS_MTIME != 0) => {
                    let seconds = u32_at(field, 1).map(|seconds| i64::from(seconds as i32));
                    all.mtime_ns = seconds.and_then(|seconds| seconds.checked_mul(1_000_000_000));
                }
                NTFS if all.mtime_ns.is_none() => all.mtime_ns = ntfs_time(field),
                OWNER => all.owner = owner(field),
                UNICODE_NAME if u32_at(field, 1) == Some(crc32(name)) => all.name = field.get(5..),
                _ => {}
            }
            rest = rest.get(to..).unwrap_or_default();
        }
        if fixed.at == u32::MAX && !has_wide {
            return Err(Fault::damaged(0, "a member of a zip64 does not say where it is"));
        }
        Ok(all)
    }

    /// Numbers that are too large for 32 bits are here, in this order.
    fn take_wide(&mut self, [len, stored, at]: [u32; 3], field: &[u8]) -> Decoded<()> {
        let mut from = 0_usize;
        for (short, long) in [(len, &mut self.len), (stored, &mut self.stored), (at, &mut self.at)] {
            if short == u32::MAX {
                let number = u64_at(field, from).filter(|number| *number <= i64::MAX as u64);
                *long =
                    number.ok_or_else(|| Fault::damaged(0, "a number of a zip64 is missing or too large"))?;
                from = from.saturating_add(8);
            }
        }
        Ok(())
    }
}

/// Refuses members that overlap, or reach into the directory: where each begins, and the least
/// offset at which it ends. Members that lie within one another make a small file large without
/// end.
pub(crate) fn check_places(mut places: Vec<(u64, u64)>, directory_at: u64) -> Decoded<()> {
    places.sort_unstable();
    let mut end = 0;
    for (from, to) in places {
        if from < end {
            return Err(Fault::damaged(from, "members of the zip overlap"));
        }
        if to > directory_at {
            return Err(Fault::damaged(from, "a member of the zip reaches into its directory"));
        }
        end = to;
    }
    Ok(())
}

/// Times of Windows, if they are there: 100 ns since 1601. Of one that is too far away it is the
/// nearest that fits.
fn ntfs_time(field: &[u8]) -> Option<i64> {
    // Four reserved bytes, then tag 1 of 24 bytes: modified, accessed, created.
    if u16_at(field, 4)? != 1 {
        return None;
    }
    const UNIX_IN_1601: i64 = 116_444_736_000_000_000;
    Some(i64_at(field, 8)?.saturating_sub(UNIX_IN_1601).saturating_mul(100))
}

/// User and group of Info-ZIP, numbers of any length.
fn owner(field: &[u8]) -> Option<(u32, u32)> {
    let number = |bytes: &[u8]| {
        let (low, high) = bytes.split_at(bytes.len().min(4));
        let is_small = high.iter().all(|byte| *byte == 0);
        is_small.then(|| low.iter().rev().fold(0_u32, |number, byte| (number << 8) | u32::from(*byte)))
    };
    let user_len = usize::from(*field.get(1)?);
    let user_to = user_len.checked_add(2)?;
    let group_len = usize::from(*field.get(user_to)?);
    let group_from = user_to.checked_add(1)?;
    let group = field.get(group_from..group_from.checked_add(group_len)?)?;
    Some((number(field.get(2..user_to)?)?, number(group)?))
}

/// Date and time of DOS, which know no zone: taken as UTC.
fn dos_time((time, date): (u16, u16)) -> Option<i64> {
    let part = |value: u16, shift: u32, bits: u16| (value >> shift) & ((1_u16 << bits).wrapping_sub(1));
    let moment = Moment {
        year: part(date, 9, 7).checked_add(DOS_YEAR)?,
        month: part(date, 5, 4),
        day: part(date, 0, 5),
        hour: part(time, 11, 5),
        minute: part(time, 5, 6),
        second: part(time, 0, 5).checked_mul(2)?,
    };
    moment.to_ns()
}

/// The CRC of zips.
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// How long the header before a member is, its name and what follows included.
///
/// # Errors
/// Returns an error if it is invalid.
pub fn local_len(bytes: &[u8]) -> Decoded<usize> {
    let lens = u16_at(bytes, 26).zip(u16_at(bytes, 28)).filter(|_| u32_at(bytes, 0) == Some(LOCAL));
    let Some((name, extra)) = lens else {
        return Err(Fault::damaged(0, "the header of a member was expected here"));
    };
    Ok(LOCAL_LEN.saturating_add(name.into()).saturating_add(extra.into()))
}

/// Whether the header before a member says that a descriptor follows its bytes.
pub fn has_descriptor(local: &[u8]) -> bool {
    u16_at(local, 6).is_some_and(|flags| flags & HAS_DESCRIPTOR != 0)
}

/// How long the descriptor at the beginning of these bytes is, which is that of a member; 0 if it
/// is none. Some begin with a magic and some do not, and their lengths have 32 bits or 64.
pub fn descriptor_len(bytes: &[u8], entry: &Entry) -> usize {
    let from = if u32_at(bytes, 0) == Some(DESCRIPTOR) { 4 } else { 0 };
    let numbers = bytes.get(from..).unwrap_or_default();
    let lens = Some((entry.stored_len, entry.len));
    let narrow = u32_at(numbers, 4).map(u64::from).zip(u32_at(numbers, 8).map(u64::from));
    let len = match u32_at(numbers, 0) {
        Some(crc) if crc != entry.crc32 => return 0,
        _ if u64_at(numbers, 4).zip(u64_at(numbers, 12)) == lens => 20,
        _ if narrow == lens => 12,
        _ => return 0,
    };
    from.saturating_add(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_windows_that_are_too_far_away_are_the_nearest() {
        let of = |ticks: i64| {
            ntfs_time(&[&[0, 0, 0, 0, 1, 0, 24, 0][..], &ticks.to_le_bytes(), &[0; 16]].concat())
        };
        assert_eq!(of(116_444_736_000_000_001), Some(100));
        assert_eq!((of(i64::MAX), of(i64::MIN)), (Some(i64::MAX), Some(i64::MIN)));
    }

    #[test]
    fn times_of_dos_have_two_seconds() {
        // 2009-02-13 23:31:30
        let date = ((2009 - 1980) << 9) | (2 << 5) | 13;
        let time = (23 << 11) | (31 << 5) | 15;
        assert_eq!(dos_time((time, date)), Some(1_234_567_890_000_000_000));
        assert_eq!(dos_time((0, 0)), None, "there is no month 0");
    }

    #[test]
    fn owners_have_numbers_of_any_length() {
        assert_eq!(owner(&[1, 2, 0xe8, 3, 4, 1, 0, 0, 0]), Some((1000, 1)));
        assert_eq!(owner(&[1, 8, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1]), None);
        assert_eq!(owner(&[1, 4, 1]), None);
    }
}
