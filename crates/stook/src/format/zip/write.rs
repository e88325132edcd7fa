//! Zips on their way out: members stored as they are, with numbers of zip64 where they are needed.
//!
//! Nothing but what is given goes into the bytes, so the same members make the same zip. How long
//! each part is depends on names, lengths and places alone, never on a CRC-32: a zip can be laid
//! out before any byte of a member was read.

use super::super::bytes::u16_at;
use super::super::calendar::Moment;
use super::super::fault::{Decoded, Fault};
use super::super::member::MemberKind;
use super::super::sink::{Length, Sink};
use super::directory::{
    DESCRIPTOR, DIRECTORY, DOS_YEAR, END, END64, END64_LEN, ENTRY, ENTRY_LEN, FILE, Fixed, HAS_DESCRIPTOR,
    HAS_MTIME, LOCAL, LOCATOR, OWNER, SYMLINK, TIMES, UNIX, WIDE,
};
use crate::tree::target::SET_ID;

/// The longest name, in bytes: that of a directory ends in a slash.
pub const NAME_LEN_MAX: usize = u16::MAX as usize;

/// A bit of a member: its name is UTF-8.
const UTF_8: u16 = 1 << 11;

/// Versions of the format that a reader has to know, tenfold: directories, zip64.
const NEEDS_PLAIN: u16 = 20;
const NEEDS_WIDE: u16 = 45;
/// What this follows: version 4.5, with attributes of Unix.
const MADE_BY: u16 = u16::from_le_bytes([NEEDS_WIDE as u8, UNIX]);

/// The attribute of DOS that says that it is a directory.
const DOS_DIRECTORY: u32 = 0x10;
/// The last year of DOS.
const DOS_YEAR_MAX: u16 = DOS_YEAR + 127;

/// From this value on, a number is stored in a zip64 field; for 32 and for 16 bits.
const WIDE_FROM: u64 = u32::MAX as u64;
const MANY_FROM: u64 = u16::MAX as u64;

/// What the headers of a member say. It is a regular file unless it is a directory or a symbolic
/// link, whose bytes are its target: a zip has no hard links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'a> {
    /// Its path, without a slash at its end.
    pub key: &'a [u8],
    /// Its kind.
    pub kind: MemberKind,
    /// Permission bits.
    pub mode: u32,
    /// Modification time, nanoseconds since 1970. Zips have seconds.
    pub mtime_ns: i64,
    /// User and group, if they are known. Otherwise, without set-user-id and set-group-id bits.
    pub owner: Option<(u32, u32)>,
    /// Its length in bytes; 0 for a directory.
    pub len: u64,
    /// The CRC-32 of its bytes.
    pub crc32: u32,
    /// Whether the CRC-32 and the length follow the bytes ([`descriptor`](Self::descriptor)),
    /// because the CRC-32 is not known before them: [`local`](Self::local) then does not look at
    /// it.
    pub has_descriptor: bool,
}

impl Head<'_> {
    /// Whether a zip can have such a member.
    ///
    /// # Errors
    /// Returns an error if it has no name, or one that is too long or means something else in a
    /// zip; or if a directory has bytes.
    pub fn check(&self) -> Result<(), Fault> {
        let is_directory = self.kind == MemberKind::Directory;
        let room = NAME_LEN_MAX.saturating_sub(usize::from(is_directory));
        let what = if self.key.is_empty() {
            "a member of a zip needs a name".to_owned()
        } else if self.key.len() > room {
            format!("a name has {} bytes; a zip has room for {room}", self.key.len())
        } else if self.key.contains(&0) {
            "a name in a zip has no zero byte".to_owned()
        } else if self.key.ends_with(b"/") {
            "in a zip, a name that ends in a slash is that of a directory".to_owned()
        } else if is_directory && self.len > 0 {
            "a directory has no bytes".to_owned()
        } else {
            return Ok(());
        };
        Err(Fault::unsupported(0, what))
    }

    /// The header before its bytes.
    ///
    /// # Errors
    /// Returns the errors of [`check`](Self::check).
    pub fn local(&self) -> Result<Vec<u8>, Fault> {
        let mut out = Vec::new();
        self.local_onto(&mut out)?;
        Ok(out)
    }

    /// How long [`local`](Self::local) is, which is not made for it.
    ///
    /// # Errors
    /// Returns the errors of [`check`](Self::check).
    pub fn local_len(&self) -> Result<usize, Fault> {
        let mut out = Length::default();
        self.local_onto(&mut out)?;
        Ok(out.0)
    }

    fn local_onto(&self, out: &mut impl Sink) -> Result<(), Fault> {
        self.check()?;
        let is_wide = self.len >= WIDE_FROM;
        // What follows the bytes is zero here.
        let (crc32, len) = if self.has_descriptor { (0, 0) } else { (self.crc32, self.len) };
        let shown = if is_wide { u32::MAX } else { short(len) };
        // Both lengths or none: so the format wants it before a member.
        let both = [len, len];
        let wide = if is_wide { both.as_slice() } else { &[] };
        out.put(&LOCAL.to_le_bytes());
        self.common(out, [crc32, shown, shown], wide);
        self.name_onto(out);
        self.extra_onto(out, wide);
        Ok(())
    }

    /// What follows its bytes; nothing, unless the CRC-32 was not known before them.
    pub fn descriptor(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.descriptor_onto(&mut out);
        out
    }

    /// How long [`descriptor`](Self::descriptor) is.
    pub fn descriptor_len(&self) -> usize {
        let mut out = Length::default();
        self.descriptor_onto(&mut out);
        out.0
    }

    fn descriptor_onto(&self, out: &mut impl Sink) {
        if !self.has_descriptor {
            return;
        }
        out.put(&DESCRIPTOR.to_le_bytes());
        out.put(&self.crc32.to_le_bytes());
        // Stored, and in all.
        for len in [self.len; 2] {
            match len >= WIDE_FROM {
                true => out.put(&len.to_le_bytes()),
                false => out.put(&short(len).to_le_bytes()),
            }
        }
    }

    /// Its entry in the directory, where its header is at `at`.
    ///
    /// # Errors
    /// Returns the errors of [`check`](Self::check).
    pub fn entry(&self, at: u64) -> Result<Vec<u8>, Fault> {
        let mut out = Vec::new();
        self.entry_onto(&mut out, at)?;
        Ok(out)
    }

    /// How long [`entry`](Self::entry) is, which is not made for it.
    ///
    /// # Errors
    /// Returns the errors of [`check`](Self::check).
    pub fn entry_len(&self, at: u64) -> Result<usize, Fault> {
        let mut out = Length::default();
        self.entry_onto(&mut out, at)?;
        Ok(out.0)
    }

    fn entry_onto(&self, out: &mut impl Sink, at: u64) -> Result<(), Fault> {
        self.check()?;
        // Those that are too long for their places, in this order.
        let mut wide = [self.len, self.len, at];
        let mut count = 0;
        for number in wide {
            if let Some(place) = wide.get_mut(count).filter(|_| number >= WIDE_FROM) {
                *place = number;
                count = count.saturating_add(1);
            }
        }
        let wide = wide.get(..count).unwrap_or_default();
        out.put(&ENTRY.to_le_bytes());
        out.put(&MADE_BY.to_le_bytes());
        self.common(out, [self.crc32, short(self.len), short(self.len)], wide);
        // No comment, the first and only part of the zip, nothing that only the program knows.
        out.put(&[0; 6]);
        out.put(&self.attributes().to_le_bytes());
        out.put(&short(at).to_le_bytes());
        self.name_onto(out);
        self.extra_onto(out, wide);
        Ok(())
    }

    /// What both headers have alike, up to the length of the extra fields; `wide` are the numbers
    /// of that of zip64.
    fn common(&self, out: &mut impl Sink, numbers: [u32; 3], wide: &[u64]) {
        let needs = if wide.is_empty() { NEEDS_PLAIN } else { NEEDS_WIDE };
        let is_text = !self.key.is_ascii() && std::str::from_utf8(self.key).is_ok();
        let descriptor = if self.has_descriptor { HAS_DESCRIPTOR } else { 0 };
        let flags = descriptor | if is_text { UTF_8 } else { 0 };
        let (time, date) = dos_time(self.mtime_ns);
        // Stored.
        for number in [needs, flags, 0, time, date] {
            out.put(&number.to_le_bytes());
        }
        for number in numbers {
            out.put(&number.to_le_bytes());
        }
        let slash = usize::from(self.kind == MemberKind::Directory);
        let mut extra = Length::default();
        self.extra_onto(&mut extra, wide);
        for len in [self.key.len().saturating_add(slash), extra.0] {
            // Names were checked; extra fields are some dozens of bytes.
            out.put(&u16::try_from(len).unwrap_or(u16::MAX).to_le_bytes());
        }
    }

    fn name_onto(&self, out: &mut impl Sink) {
        out.put(self.key);
        if self.kind == MemberKind::Directory {
            out.put(b"/");
        }
    }

    /// The extra fields, which are the same before the member and in the directory but for the
    /// numbers of zip64.
    fn extra_onto(&self, out: &mut impl Sink, wide: &[u64]) {
        if !wide.is_empty() {
            field_head(out, WIDE, wide.len().saturating_mul(8));
            wide.iter().for_each(|number| out.put(&number.to_le_bytes()));
        }
        // Beyond 2038 there is only the time of DOS.
        if let Ok(seconds) = i32::try_from(self.mtime_ns.div_euclid(1_000_000_000)) {
            field_head(out, TIMES, 5);
            out.put(&[HAS_MTIME]);
            out.put(&seconds.to_le_bytes());
        }
        if let Some((user, group)) = self.owner {
            field_head(out, OWNER, 11);
            out.put(&[1]);
            for number in [user, group] {
                out.put(&[4]);
                out.put(&number.to_le_bytes());
            }
        }
    }

    /// Kind and permissions as Unix has them, and what DOS knows of them.
    fn attributes(&self) -> u32 {
        let mode = self.mode & if self.owner.is_some() { 0o7777 } else { 0o7777 & !SET_ID };
        let (format, dos) = match self.kind {
            MemberKind::Directory => (DIRECTORY, DOS_DIRECTORY),
            MemberKind::Symlink => (SYMLINK, 0),
            MemberKind::File | MemberKind::HardLink | MemberKind::Other => (FILE, 0),
        };
        ((format | mode) << 16) | dos
    }
}

/// The end records of a zip with this many entries in a directory of this many bytes.
pub fn end(entries: u64, directory_at: u64, directory_len: u64) -> Vec<u8> {
    end_with(entries, directory_at, directory_len, false, b"")
}

/// The same with those of zip64 even where they are not needed, and with a comment, of 65,535 bytes
/// at most. Places are counted from where the zip begins.
pub fn end_with(
    entries: u64,
    directory_at: u64,
    directory_len: u64,
    is_wide: bool,
    comment: &[u8],
) -> Vec<u8> {
    let mut out = Vec::new();
    if is_wide || entries >= MANY_FROM || directory_at >= WIDE_FROM || directory_len >= WIDE_FROM {
        let at = directory_at.saturating_add(directory_len);
        out.extend(END64.to_le_bytes());
        // What follows this number.
        out.extend((END64_LEN as u64).saturating_sub(12).to_le_bytes());
        out.extend(MADE_BY.to_le_bytes());
        out.extend(NEEDS_WIDE.to_le_bytes());
        // This part of the zip, and the one where the directory begins.
        out.extend([0; 8]);
        for number in [entries, entries, directory_len, directory_at] {
            out.extend(number.to_le_bytes());
        }
        out.extend(LOCATOR.to_le_bytes());
        out.extend([0; 4]);
        out.extend(at.to_le_bytes());
        // Parts in all.
        out.extend(1_u32.to_le_bytes());
    }
    out.extend(END.to_le_bytes());
    out.extend([0; 4]);
    let count = u16::try_from(entries).unwrap_or(u16::MAX);
    for number in [count, count] {
        out.extend(number.to_le_bytes());
    }
    for number in [directory_len, directory_at] {
        out.extend(short(number).to_le_bytes());
    }
    let comment = comment.get(..comment.len().min(u16::MAX.into())).unwrap_or_default();
    out.extend(u16::try_from(comment.len()).unwrap_or(u16::MAX).to_le_bytes());
    out.extend_from_slice(comment);
    out
}

/// An entry of a directory whose member is at another place, counted from where the zip begins;
/// nothing else of it changes, unless the new place takes a field of zip64.
///
/// # Errors
/// Returns an error if it is no entry, or has no room for such a field.
pub fn moved(entry: &[u8], at: u64) -> Decoded<Vec<u8>> {
    let cut = || Fault::damaged(0, "an entry of the directory is cut off");
    let fixed = Fixed::decode(entry.first_chunk::<ENTRY_LEN>().ok_or_else(cut)?)?;
    let (name_len, extra_len, _) = fixed.lens();
    let mut out = entry.to_vec();
    let wide_at = wide_place(&fixed, entry, ENTRY_LEN.saturating_add(name_len), extra_len)?;
    if !fixed.is_far() && at < WIDE_FROM {
        put(&mut out, PLACE_AT, &short(at).to_le_bytes());
        return Ok(out);
    }
    let full = || Fault::unsupported(0, "an entry of the directory has no room for another field");
    if fixed.is_far() {
        let (_, number_at) = wide_at.ok_or_else(cut)?;
        put(&mut out, number_at, &at.to_le_bytes());
        return Ok(out);
    }
    let mut added = at.to_le_bytes().to_vec();
    let (place, grown) = match wide_at {
        Some((field_at, number_at)) => {
            let len = u16_at(entry, field_at.saturating_add(2)).and_then(|len| len.checked_add(8));
            put(&mut out, field_at.saturating_add(2), &len.ok_or_else(full)?.to_le_bytes());
            (number_at, 8_u16)
        }
        None => {
            let mut whole = Vec::new();
            field_head(&mut whole, WIDE, added.len());
            whole.append(&mut added);
            added = whole;
            (ENTRY_LEN.saturating_add(name_len), 12)
        }
    };
    let extra_len = u16::try_from(extra_len).ok().and_then(|len| len.checked_add(grown)).ok_or_else(full)?;
    put(&mut out, EXTRA_LEN_AT, &extra_len.to_le_bytes());
    put(&mut out, PLACE_AT, &u32::MAX.to_le_bytes());
    let needs = u16_at(entry, NEEDS_AT).unwrap_or(0);
    put(&mut out, NEEDS_AT, &(needs & 0xff00 | (needs & 0xff).max(NEEDS_WIDE)).to_le_bytes());
    out.splice(place..place, added);
    Ok(out)
}

/// Where in an entry the version that it needs, the length of its extra fields and its place are.
const NEEDS_AT: usize = 6;
const EXTRA_LEN_AT: usize = 30;
const PLACE_AT: usize = 42;

/// Where in an entry the field of zip64 begins, and where in it the number of the place is, or
/// would be.
fn wide_place(
    fixed: &Fixed,
    entry: &[u8],
    extra_at: usize,
    extra_len: usize,
) -> Decoded<Option<(usize, usize)>> {
    let end = extra_at.saturating_add(extra_len);
    let (mut at, mut found) = (extra_at, None);
    while let (Some(id), Some(len)) = (u16_at(entry, at), u16_at(entry, at.saturating_add(2))) {
        let from = at.saturating_add(4);
        let to = from.saturating_add(len.into());
        if to > end {
            break;
        }
        if id == WIDE {
            let number_at = from.saturating_add(fixed.wide_lens().saturating_mul(8));
            let needed = number_at.saturating_add(if fixed.is_far() { 8 } else { 0 });
            if found.is_some() || needed > to {
                return Err(Fault::unsupported(at as u64, "a field of zip64 is too short, or there twice"));
            }
            found = Some((at, number_at));
        }
        at = to;
    }
    Ok(found)
}

/// Puts bytes over others.
fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = out.get_mut(at..at.saturating_add(bytes.len())) {
        place.copy_from_slice(bytes);
    }
}

/// A number, or what says that it is in a field of zip64.
fn short(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The head of an extra field. None here has more than some dozens of bytes.
fn field_head(out: &mut impl Sink, id: u16, len: usize) {
    out.put(&id.to_le_bytes());
    out.put(&u16::try_from(len).unwrap_or(u16::MAX).to_le_bytes());
}

/// Time and date of DOS, which have two seconds, in UTC. What is before or after its years is their
/// beginning or end.
fn dos_time(ns: i64) -> (u16, u16) {
    let first = Moment { year: DOS_YEAR, month: 1, day: 1, hour: 0, minute: 0, second: 0 };
    let last = Moment { year: DOS_YEAR_MAX, month: 12, day: 31, hour: 23, minute: 59, second: 58 };
    let moment = match Moment::of_ns(ns) {
        Some(moment) if moment.year > DOS_YEAR_MAX => last,
        Some(moment) if moment.year >= DOS_YEAR => moment,
        _ => first,
    };
    let years = moment.year.saturating_sub(DOS_YEAR);
    let time = (moment.hour << 11) | (moment.minute << 5) | (moment.second >> 1);
    (time, (years << 9) | (moment.month << 5) | moment.day)
}

#[cfg(test)]
mod tests {
    use super::super::directory::{Entry, descriptor_len, entry};
    use super::*;

    const FAR: u64 = 5 << 30;

    fn head(len: u64) -> Head<'static> {
        let (key, kind) = (b"a".as_slice(), MemberKind::File);
        let (mode, mtime_ns, owner) = (0o644, 1_234_567_890_000_000_000, Some((7, 8)));
        Head { key, kind, mode, mtime_ns, owner, len, crc32: 9, has_descriptor: true }
    }

    fn decoded(bytes: &[u8]) -> Entry {
        let fixed = Fixed::decode(bytes.first_chunk().unwrap()).unwrap();
        let (name, extra, comment) = fixed.lens();
        let (name, rest) = bytes[ENTRY_LEN..].split_at(name);
        let (extra, rest) = rest.split_at(extra);
        assert_eq!(rest.len(), comment);
        entry(&fixed, name, extra).unwrap()
    }

    #[test]
    fn lengths_are_known_without_the_headers() {
        let of = |head: &Head<'_>, at| {
            let (local, entry) = (head.local().unwrap(), head.entry(at).unwrap());
            assert_eq!(head.local_len().unwrap(), local.len());
            assert_eq!(head.entry_len(at).unwrap(), entry.len());
            assert_eq!(head.descriptor_len(), head.descriptor().len());
            [local.len(), entry.len(), head.descriptor().len()]
        };
        assert_eq!(of(&head(5), 0), [30 + 1 + 9 + 15, 46 + 1 + 9 + 15, 16]);
        assert_eq!(of(&head(FAR), FAR), [30 + 1 + 20 + 9 + 15, 46 + 1 + 28 + 9 + 15, 24]);
        let directory = Head { kind: MemberKind::Directory, len: 0, has_descriptor: false, ..head(0) };
        assert_eq!(of(&Head { owner: None, mtime_ns: i64::MAX, ..directory }, FAR), [32, 48 + 12, 0]);
        assert!(Head { key: b"", ..head(5) }.entry_len(0).is_err());
    }

    #[test]
    fn an_entry_is_moved_anywhere_and_stays_the_same_but_for_its_place() {
        for len in [5, FAR] {
            for from in [3, FAR + 3] {
                let mut before = head(len).entry(from).unwrap();
                // A comment behind it.
                before.extend(b"why");
                before[32] = 3;
                for to in [0, 4, WIDE_FROM - 1, WIDE_FROM, 2 * FAR] {
                    let after = moved(&before, to).unwrap();
                    assert_eq!(decoded(&after), Entry { at: to, ..decoded(&before) }, "{len} {from} {to}");
                    assert!(after.ends_with(b"why"));
                    let needs = if len == 5 && from == 3 && to < WIDE_FROM { 20 } else { 45 };
                    assert_eq!(after[6], needs);
                }
                assert_eq!(moved(&before, from).unwrap(), before);
            }
        }
    }

    #[test]
    fn an_entry_that_is_full_or_says_too_little_is_not_moved_far() {
        let mut full = head(5).entry(3).unwrap();
        let extra = u16::from_le_bytes([full[30], full[31]]);
        let more = usize::from(u16::MAX - extra);
        full.extend(vec![0; more]);
        full[30..32].fill(0xff);
        assert!(moved(&full, 7).is_ok());
        assert!(moved(&full, FAR).unwrap_err().unsupported);
        let mut twice = head(FAR).entry(3).unwrap();
        let field = twice[47..67].to_vec();
        twice.splice(47..47, field);
        twice[30] += 20;
        assert!(moved(&twice, 7).unwrap_err().unsupported);
        let cut = head(5).entry(3).unwrap();
        assert!(moved(&cut[..40], 7).is_err());
    }

    #[test]
    fn descriptors_are_known_with_a_magic_and_without() {
        for len in [5, FAR] {
            let whole = head(len).descriptor();
            let entry = decoded(&head(len).entry(0).unwrap());
            let found = |bytes: &[u8]| descriptor_len(bytes, &entry);
            assert_eq!(found(&whole), whole.len());
            assert_eq!(found(&[&whole[..], b"PK\x03\x04 and more"].concat()), whole.len());
            assert_eq!(found(&whole[4..]), whole.len() - 4);
            for len in 0..whole.len() - 4 {
                assert_eq!(found(&whole[4..4 + len]), 0);
            }
            let mut other = whole.clone();
            other[4] ^= 1;
            assert_eq!(found(&other), 0);
        }
    }

    #[test]
    fn an_end_has_a_comment_and_may_be_that_of_a_zip64() {
        use super::super::directory::find_end;
        let plain = end(1, 2, 3);
        assert_eq!(end_with(1, 2, 3, false, b""), plain);
        let wide = end_with(1, 2, 3, true, b"why");
        let (at, found, end64) = find_end(&wide).unwrap().unwrap();
        assert_eq!((at, found.entries, end64), (wide.len() - 25, 1, Some(5)));
        assert!(wide.ends_with(b"\x03\0why"));
        assert_eq!(end_with(1, 2, 3, false, &[b'c'; 70_000]).len(), plain.len() + 65_535);
    }
}
