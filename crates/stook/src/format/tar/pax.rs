//! Extended headers: records of `LENGTH KEY=VALUE\n`.

use std::collections::BTreeMap;

use super::super::fault::{Decoded, Fault};
use crate::tree::acl;
use crate::tree::xattrs::{ACL_ACCESS, ACL_DEFAULT};

/// What extended headers say, as far as it counts here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pax {
    /// `path`.
    pub path: Option<Vec<u8>>,
    /// `linkpath`.
    pub link: Option<Vec<u8>>,
    /// `size`.
    pub size: Option<u64>,
    /// `mtime`, in nanoseconds; without a value where it is none, and the nearest where it does not
    /// fit.
    pub mtime_ns: Option<Option<i64>>,
    /// `uid`; without a value where it is none, or does not fit. It costs nothing but itself.
    pub uid: Option<Option<u64>>,
    /// `gid`.
    pub gid: Option<Option<u64>>,
    /// Extended attributes by name; without a value those that nothing can be made of.
    pub xattrs: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// What GNU tar states about sparse members.
    pub sparse: PaxSparse,
}

/// What GNU tar states about sparse members, in any of its three encodings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PaxSparse {
    /// `GNU.sparse.major` and `GNU.sparse.minor`.
    pub version: (Option<u64>, Option<u64>),
    /// `GNU.sparse.name`: the path proper.
    pub name: Option<Vec<u8>>,
    /// `GNU.sparse.realsize` or `GNU.sparse.size`: the length of the file.
    pub len: Option<u64>,
    /// The map: offset and length of each piece, of `GNU.sparse.map`, or of `GNU.sparse.offset` and
    /// `GNU.sparse.numbytes` again and again.
    pub map: Vec<(u64, u64)>,
    /// An offset that waits for its length.
    waiting: Option<u64>,
}

impl Pax {
    /// Takes in all records of a header; later ones count.
    ///
    /// # Errors
    /// Returns an error if they are not records, or a relevant value is invalid.
    pub fn take(&mut self, bytes: &[u8]) -> Decoded<()> {
        let mut at = 0_usize;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            // Some programs fill up with zeroes.
            if rest.iter().all(|byte| *byte == 0) {
                break;
            }
            let (record, len) = split(rest).ok_or_else(|| {
                Fault::damaged(
                    at as u64,
                    "a record of an extended header is not LENGTH KEY=VALUE and a line feed",
                )
            })?;
            let equals = record
                .iter()
                .position(|byte| *byte == b'=')
                .ok_or_else(|| Fault::damaged(at as u64, "a record of an extended header has no `=`"))?;
            let (key, value) = record.split_at(equals);
            let value = value.get(1..).unwrap_or_default();
            self.set(key, value).map_err(|what| Fault::damaged(at as u64, what))?;
            at = at.saturating_add(len);
        }
        Ok(())
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        if self.take_xattr(key, value) {
            return Ok(());
        }
        let bad = || {
            let (key, value) = (key.escape_ascii(), value.get(..value.len().min(80)).unwrap_or_default());
            format!("`{key}` of an extended header is {:?}", value.escape_ascii().to_string())
        };
        let number = || decimal(value).ok_or_else(bad);
        let path = || if value.contains(&0) { Err(bad()) } else { Ok(value.to_vec()) };
        let sparse = &mut self.sparse;
        match key {
            // An empty value takes back what a global header said.
            b"path" => self.path = if value.is_empty() { None } else { Some(path()?) },
            b"linkpath" => self.link = if value.is_empty() { None } else { Some(path()?) },
            b"size" => self.size = if value.is_empty() { None } else { Some(number()?) },
            b"uid" => self.uid = (!value.is_empty()).then(|| decimal(value)),
            b"gid" => self.gid = (!value.is_empty()).then(|| decimal(value)),
            b"mtime" => self.mtime_ns = (!value.is_empty()).then(|| nanoseconds(value)),
            b"GNU.sparse.major" => sparse.version.0 = Some(number()?),
            b"GNU.sparse.minor" => sparse.version.1 = Some(number()?),
            b"GNU.sparse.name" => sparse.name = Some(path()?),
            b"GNU.sparse.realsize" | b"GNU.sparse.size" => sparse.len = Some(number()?),
            b"GNU.sparse.offset" => sparse.waiting = Some(number()?),
            b"GNU.sparse.numbytes" => {
                let offset = sparse.waiting.take().ok_or_else(bad)?;
                sparse.map.push((offset, number()?));
            }
            b"GNU.sparse.map" => sparse.map = pairs(value).ok_or_else(bad)?,
            _ => {}
        }
        Ok(())
    }
}

impl Pax {
    /// Takes an extended attribute in one of its common encodings; returns whether it is one. Raw
    /// values take precedence over text forms.
    fn take_xattr(&mut self, key: &[u8], value: &[u8]) -> bool {
        if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
            self.xattrs.insert(of_keyword(name), Some(value.to_vec()));
            return true;
        }
        let is_no_list = value.is_empty() && key.starts_with(b"SCHILY.acl.");
        let (name, value) = match key {
            b"SCHILY.acl.access" => (ACL_ACCESS.to_vec(), acl::from_text(value)),
            b"SCHILY.acl.default" => (ACL_DEFAULT.to_vec(), acl::from_text(value)),
            _ => match key.strip_prefix(b"LIBARCHIVE.xattr.") {
                Some(name) => (of_url(name), of_base64(value)),
                None => return false,
            },
        };
        // GNU tar writes one for every file, and others an empty one.
        let says_mode = name == ACL_ACCESS && value.as_deref().is_some_and(acl::is_mode);
        if !says_mode && !is_no_list {
            let there = self.xattrs.entry(name).or_default();
            *there = there.take().or(value);
        }
        true
    }
}

/// The name in a keyword of GNU tar, where an equals sign and a percent sign are written as
/// numbers.
fn of_keyword(name: &[u8]) -> Vec<u8> {
    unescaped(name, |byte| byte == b'=' || byte == b'%')
}

/// The name of an extended attribute as a keyword of GNU tar.
pub(super) fn keyword(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    for byte in name {
        match byte {
            b'=' => out.extend_from_slice(b"%3D"),
            b'%' => out.extend_from_slice(b"%25"),
            other => out.push(*other),
        }
    }
    out
}

fn of_url(name: &[u8]) -> Vec<u8> {
    unescaped(name, |_| true)
}

/// Replaces `%XX` by bytes, for those bytes that may be escaped; anything else is unchanged.
fn unescaped(text: &[u8], may: impl Fn(u8) -> bool) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((first, after)) = rest.split_first() {
        let byte = match (first, after) {
            (b'%', [high, low, ..]) => {
                digit(*high).zip(digit(*low)).map(|(high, low)| (high << 4) | low).filter(|byte| may(*byte))
            }
            _ => None,
        };
        out.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    out
}

/// Base64, with or without what fills it up.
fn of_base64(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last.saturating_add(1));
    let digits = text.get(..digits)?;
    let mut out = Vec::with_capacity(digits.len());
    for group in digits.chunks(4) {
        let mut bits = 0_u32;
        for at in 0..4 {
            let value = match group.get(at) {
                Some(digit) => digit_of_base64(*digit)?,
                None => 0,
            };
            bits = (bits << 6) | value;
        }
        let [_, bytes @ ..] = bits.to_be_bytes();
        // Two digits are one byte, three are two; one is none.
        out.extend_from_slice(bytes.get(..group.len().checked_sub(1).filter(|len| *len > 0)?)?);
    }
    Some(out)
}

fn digit_of_base64(digit: u8) -> Option<u32> {
    let (first, base) = match digit {
        b'A'..=b'Z' => (b'A', 0),
        b'a'..=b'z' => (b'a', 26),
        b'0'..=b'9' => (b'0', 52),
        b'+' => (b'+', 62),
        b'/' => (b'/', 63),
        _ => return None,
    };
    Some(u32::from(digit.saturating_sub(first)).saturating_add(base))
}

/// The first record, without its length and its end, and how long it is in all.
fn split(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let blank = bytes.iter().take(21).position(|byte| *byte == b' ')?;
    let len = usize::try_from(decimal(bytes.get(..blank)?)?).ok()?;
    let record = bytes.get(blank.checked_add(1)?..len)?;
    Some((record.strip_suffix(b"\n")?, len))
}

/// A number up to 2^63 - 1.
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 20 {
        return None;
    }
    let value = digits.iter().try_fold(0_u64, |value, digit| match digit {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(digit.wrapping_sub(b'0'))),
        _ => None,
    })?;
    (value <= i64::MAX as u64).then_some(value)
}

/// Seconds with a fraction of any length; what is finer than a nanosecond is cut off, towards the
/// past. Of a time that is too far away it is the nearest that fits.
fn nanoseconds(value: &[u8]) -> Option<i64> {
    let (negative, digits) = match value.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, value),
    };
    let point = digits.iter().position(|byte| *byte == b'.').unwrap_or(digits.len());
    let (whole, fraction) = digits.split_at(point);
    let fraction = fraction.get(1..).unwrap_or_default();
    if whole.is_empty() || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |at: usize| fraction.get(at).map_or(0, |byte| i64::from(byte.wrapping_sub(b'0')));
    let below = (0..9).fold(0_i64, |value, at| value.wrapping_mul(10).wrapping_add(digit(at)));
    let is_finer = fraction.iter().skip(9).any(|byte| *byte != b'0');
    let seconds = decimal(whole).and_then(|seconds| i64::try_from(seconds).ok()).unwrap_or(i64::MAX);
    let ns = |seconds: i64| seconds.saturating_mul(1_000_000_000);
    Some(match negative {
        true => ns(seconds.saturating_neg()).saturating_sub(below.saturating_add(i64::from(is_finer))),
        false => ns(seconds).saturating_add(below),
    })
}

fn pairs(value: &[u8]) -> Option<Vec<(u64, u64)>> {
    if value.is_empty() {
        return Some(Vec::new());
    }
    let mut numbers = value.split(|byte| *byte == b',').map(decimal);
    let mut pairs = Vec::new();
    while let Some(offset) = numbers.next() {
        pairs.push((offset?, numbers.next()??));
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_taken_and_later_ones_count() {
        let mut pax = Pax::default();
        pax.take(b"10 path=a\n10 path=b\n19 comment=whatever\n21 mtime=-1.0000000015\n").unwrap_err();
        let mut pax = Pax::default();
        pax.take(b"10 path=a\n10 path=b\n20 comment=whatever\n\0\0").unwrap();
        assert_eq!(pax.path.as_deref(), Some(&b"b"[..]));
        pax.take(b"8 path=\n").unwrap();
        assert_eq!(pax.path, None);
    }

    /// What one record says.
    fn xattrs(records: &[(&[u8], &[u8])]) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
        let mut pax = Pax::default();
        for (key, value) in records {
            pax.set(key, value).unwrap();
        }
        pax.xattrs
    }

    #[test]
    fn extended_attributes_come_in_three_ways() {
        let raw = xattrs(&[(b"SCHILY.xattr.user.a%3Db%25c%41", b"\0=\n\xff")]);
        assert_eq!(raw, BTreeMap::from([(b"user.a=b%c%41".to_vec(), Some(b"\0=\n\xff".to_vec()))]));
        assert_eq!(of_keyword(&keyword(b"user.a=b%3Dc%")), b"user.a=b%3Dc%");
        let coded = xattrs(&[(b"LIBARCHIVE.xattr.user.%61%ZZ", b"aGVsbG8"), (b"LIBARCHIVE.xattr.b", b"*")]);
        let hello = (b"user.a%ZZ".to_vec(), Some(b"hello".to_vec()));
        assert_eq!(coded, BTreeMap::from([hello, (b"b".to_vec(), None)]));
        for (text, bytes) in [("", Some("")), ("Zg==", Some("f")), ("Zm8", Some("fo")), ("Zm9v", Some("foo"))]
        {
            assert_eq!(of_base64(text.as_bytes()).as_deref(), bytes.map(str::as_bytes), "{text}");
        }
        assert_eq!((of_base64(b"Z"), of_base64(b"Zm9vZ")), (None, None));
    }

    #[test]
    fn lists_as_text_are_taken_if_they_say_more_than_a_mode_and_who_is_meant() {
        let list = b"user::rw-\nuser:7:r--\ngroup::r--\nmask::r--\nother::---\n";
        let binary = acl::from_text(list).unwrap();
        let taken = xattrs(&[(b"SCHILY.acl.access", list)]);
        assert_eq!(taken, BTreeMap::from([(ACL_ACCESS.to_vec(), Some(binary))]));
        assert!(xattrs(&[(b"SCHILY.acl.access", b"user::rw-\ngroup::r--\nother::---\n")]).is_empty());
        assert!(xattrs(&[(b"SCHILY.acl.default", b"")]).is_empty());
        let named = b"user::rw-,user:ann:r--,group::r--,mask::r--,other::---";
        type Record<'a> = (&'a [u8], &'a [u8]);
        let named: Record<'_> = (b"SCHILY.acl.default", named);
        assert_eq!(xattrs(&[named]), BTreeMap::from([(ACL_DEFAULT.to_vec(), None)]));
        let plain: Record<'_> = (b"SCHILY.acl.default", list);
        let raw: Record<'_> = (b"SCHILY.xattr.system.posix_acl_default", b"raw");
        for both in [[raw, named], [plain, raw], [raw, plain]] {
            assert_eq!(xattrs(&both), BTreeMap::from([(ACL_DEFAULT.to_vec(), Some(b"raw".to_vec()))]));
        }
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        for bad in [
            &b"8 path=a\n"[..],
            b"11 path=a\n",
            b"99999999999999999999999 path=a\n",
            b"18446744073709551615 path=a\n",
            b"0 path=a\n",
            b"5 abc\n",
            b"x",
            b" ",
        ] {
            assert!(Pax::default().take(bad).is_err(), "{:?}", bad.escape_ascii().to_string());
        }
    }

    #[test]
    fn times_have_nanoseconds() {
        for (text, ns) in [
            ("1.5", Some(1_500_000_000)),
            ("-1.5", Some(-1_500_000_000)),
            ("0.0000000019", Some(1)),
            ("-0.0000000019", Some(-2)),
            ("12", Some(12_000_000_000)),
            ("9223372036", Some(9_223_372_036_000_000_000)),
            ("9223372037", Some(i64::MAX)),
            ("1099511627776", Some(i64::MAX)),
            ("99999999999999999999999999", Some(i64::MAX)),
            ("-9223372037.5", Some(i64::MIN)),
            ("-99999999999999999999999999", Some(i64::MIN)),
            (".5", None),
            ("1.x", None),
            ("", None),
        ] {
            assert_eq!(nanoseconds(text.as_bytes()), ns, "{text}");
        }
    }

    #[test]
    fn maps_come_in_two_ways() {
        let mut one = Pax::default();
        one.take(b"26 GNU.sparse.map=1,2,3,4\n").unwrap();
        let mut two = Pax::default();
        two.take(b"23 GNU.sparse.offset=1\n25 GNU.sparse.numbytes=2\n").unwrap();
        two.take(b"23 GNU.sparse.offset=3\n25 GNU.sparse.numbytes=4\n").unwrap();
        assert_eq!(one.sparse.map, two.sparse.map);
        assert_eq!(one.sparse.map, [(1, 2), (3, 4)]);
        assert!(Pax::default().take(b"24 GNU.sparse.map=1,2,3\n").is_err());
        assert!(Pax::default().take(b"25 GNU.sparse.numbytes=2\n").is_err());
    }
}
