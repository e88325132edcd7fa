//! Extended headers: records of `LENGTH KEY=VALUE\n`.

use super::super::error::{Decoded, Fault};

/// What extended headers say, as far as it counts here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pax {
    /// `path`.
    pub path: Option<Vec<u8>>,
    /// `linkpath`.
    pub link: Option<Vec<u8>>,
    /// `size`.
    pub size: Option<u64>,
    /// `mtime`, in nanoseconds.
    pub mtime_ns: Option<i64>,
    /// `uid`.
    pub uid: Option<u64>,
    /// `gid`.
    pub gid: Option<u64>,
    /// What GNU tar says of sparse members.
    pub sparse: PaxSparse,
}

/// What GNU tar says of sparse members, in any of its three ways.
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
    /// When they are not records, or a value that counts makes no sense.
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
            b"uid" => self.uid = if value.is_empty() { None } else { Some(number()?) },
            b"gid" => self.gid = if value.is_empty() { None } else { Some(number()?) },
            b"mtime" if value.is_empty() => self.mtime_ns = None,
            b"mtime" => self.mtime_ns = Some(nanoseconds(value).ok_or_else(bad)?),
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
/// past.
fn nanoseconds(value: &[u8]) -> Option<i64> {
    let (negative, digits) = match value.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, value),
    };
    let point = digits.iter().position(|byte| *byte == b'.').unwrap_or(digits.len());
    let (whole, fraction) = digits.split_at(point);
    let fraction = fraction.get(1..).unwrap_or_default();
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |at: usize| fraction.get(at).map_or(0, |byte| i64::from(byte.wrapping_sub(b'0')));
    let below = (0..9).fold(0_i64, |value, at| value.wrapping_mul(10).wrapping_add(digit(at)));
    let is_finer = fraction.iter().skip(9).any(|byte| *byte != b'0');
    let ns = i64::try_from(decimal(whole)?).ok()?.checked_mul(1_000_000_000)?.checked_add(below)?;
    if negative { ns.checked_neg()?.checked_sub(i64::from(is_finer)) } else { Some(ns) }
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
            ("9223372037", None),
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
