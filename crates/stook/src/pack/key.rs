//! Keys of records: byte strings or `u64` ids, with one total order.

use std::fmt;

use super::error::{Error, Result};
use crate::names::{ListEnd, escaped, key_form, key_text, unescape};

/// The longest byte-string key.
pub const KEY_LEN_MAX: usize = u16::MAX as usize;

const KIND_BYTES: u8 = 1;
const KIND_ID: u8 = 2;

/// A key of a record. Ordered as records are in an index: byte strings first, ids after them.
///
/// Held in its sort form: a kind byte, then the bytes, or the id in big-endian order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Box<[u8]>);

/// The value of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyValue<'a> {
    /// A byte string, at most [`KEY_LEN_MAX`] long, of any content.
    Bytes(&'a [u8]),
    /// A number.
    Id(u64),
}

impl Key {
    /// What the sort forms of all numeric keys begin with, and those of no others.
    pub const IDS: &'static [u8] = &[KIND_ID];

    /// A byte-string key.
    ///
    /// # Errors
    /// Returns an error if it is longer than [`KEY_LEN_MAX`].
    pub fn bytes(bytes: impl AsRef<[u8]>) -> Result<Self> {
        let bytes = bytes.as_ref();
        if bytes.len() > KEY_LEN_MAX {
            return Err(Error::Limit {
                what: "the length of a key in bytes",
                found: bytes.len() as u64,
                limit: KEY_LEN_MAX as u64,
            });
        }
        let mut form = Vec::with_capacity(bytes.len() + 1);
        form.push(KIND_BYTES);
        form.extend_from_slice(bytes);
        Ok(Self(form.into_boxed_slice()))
    }

    /// A numeric key.
    pub fn id(id: u64) -> Self {
        let mut form = [KIND_ID; 9];
        form[1..].copy_from_slice(&id.to_be_bytes());
        Self(form.into())
    }

    /// The key of a sort form, or `None` when it is not one.
    pub fn from_sort_form(form: &[u8]) -> Option<Self> {
        match form.split_first()? {
            (&KIND_BYTES, rest) if rest.len() <= KEY_LEN_MAX => Some(Self(form.into())),
            (&KIND_ID, rest) if rest.len() == 8 => Some(Self(form.into())),
            _ => None,
        }
    }

    /// Kind byte and value, as keys are compared.
    pub fn sort_form(&self) -> &[u8] {
        &self.0
    }

    /// Its value.
    pub fn value(&self) -> KeyValue<'_> {
        match self.0.split_first() {
            Some((&KIND_ID, rest)) => KeyValue::Id(rest.iter().fold(0, |id, &b| (id << 8) | u64::from(b))),
            Some((_, rest)) => KeyValue::Bytes(rest),
            None => KeyValue::Bytes(&[]),
        }
    }

    /// The bytes of a byte-string key.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self.value() {
            KeyValue::Bytes(bytes) => Some(bytes),
            KeyValue::Id(_) => None,
        }
    }

    /// The kind byte of the format.
    pub(crate) fn kind(&self) -> u8 {
        self.0.first().copied().unwrap_or(KIND_BYTES)
    }

    /// The value as a frame stores it: bytes as they are, an id in little-endian order.
    pub(crate) fn stored(&self) -> Stored<'_> {
        match self.value() {
            KeyValue::Bytes(bytes) => Stored::Bytes(bytes),
            KeyValue::Id(id) => Stored::Id(id.to_le_bytes()),
        }
    }

    /// Whether this is the key that a frame stores.
    #[inline]
    pub(crate) fn is_stored_as(&self, kind: u8, stored: &[u8]) -> bool {
        let Some((&own, rest)) = self.0.split_first() else { return false };
        let same = match (own, rest.first_chunk::<8>(), stored.first_chunk::<8>()) {
            (KIND_ID, Some(ours), Some(theirs)) => {
                stored.len() == 8 && u64::from_be_bytes(*ours) == u64::from_le_bytes(*theirs)
            }
            _ => own != KIND_ID && rest == stored,
        };
        own == kind && same
    }

    /// The key from the bytes that a frame stores, or `None` if the kind is unknown or the length
    /// is wrong.
    pub(crate) fn from_stored(kind: u8, stored: &[u8]) -> Option<Self> {
        match kind {
            KIND_BYTES => Self::bytes(stored).ok(),
            KIND_ID => Some(Self::id(u64::from_le_bytes(stored.try_into().ok()?))),
            _ => None,
        }
    }
}

/// A key's value in the form in which frames store it.
pub(crate) enum Stored<'a> {
    Bytes(&'a [u8]),
    Id([u8; 8]),
}

impl AsRef<[u8]> for Stored<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Id(bytes) => bytes,
        }
    }
}

/// The key as text: the bytes as [`escaped`] shows them, or `id:` and the number. A byte string
/// that itself begins like one of these forms (`id:`, `bytes:`) gets `bytes:` in front, and so does
/// the empty one. [`parse`](Key::parse) returns the same key for any bytes.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value() {
            KeyValue::Id(id) => write!(f, "id:{id}"),
            KeyValue::Bytes(bytes) => f.write_str(&key_text(bytes)),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

impl Key {
    /// Parses a key as [`Display`](fmt::Display) writes it: `id:123` is a number, `bytes:X` is
    /// always the byte string X, and anything else is itself a byte string. In a byte string `\xNN`
    /// is the byte NN and `\\` a backslash.
    ///
    /// # Errors
    /// Returns an error if there is no text, `id:` is not followed by a number that fits in 64
    /// bits, a backslash does not begin an escape, or the key is too long.
    pub fn parse(text: &[u8]) -> Result<Self> {
        Self::of_form(text, |bytes| {
            let bytes =
                unescape(bytes).map_err(|error| Error::Invalid(format!("this is not a key: {error}")))?;
            Self::bytes(bytes)
        })
    }

    /// The key as it stands in a list, without what ends it: on a line as
    /// [`Display`](fmt::Display) writes it, between zero bytes the same with no byte escaped.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a key that has a zero byte, where one ends each: readers of the list
    /// would take it for two other keys.
    pub fn listed(&self, end: ListEnd) -> Result<Vec<u8>> {
        match (end, self.value()) {
            (ListEnd::Line, _) | (_, KeyValue::Id(_)) => Ok(self.to_string().into_bytes()),
            (ListEnd::Nul, KeyValue::Bytes(bytes)) if bytes.contains(&0) => Err(Error::Invalid(format!(
                "{self} has a zero byte, so it cannot stand in a list whose keys end in one"
            ))),
            (ListEnd::Nul, KeyValue::Bytes(bytes)) => Ok([key_form(bytes).as_bytes(), bytes].concat()),
        }
    }

    /// The key that stands so in a list.
    ///
    /// # Errors
    /// Returns the errors of [`parse`](Key::parse); between zero bytes a backslash is a backslash.
    pub fn of_list(written: &[u8], end: ListEnd) -> Result<Self> {
        match end {
            ListEnd::Line => Self::parse(written),
            ListEnd::Nul => Self::of_form(written, Self::bytes),
        }
    }

    fn of_form<'a>(text: &'a [u8], bytes: impl FnOnce(&'a [u8]) -> Result<Self>) -> Result<Self> {
        if text.is_empty() {
            // Hardly ever meant: it is the root of a tree, and what a variable gives that is not
            // set.
            let empty = "the key is empty (is a variable not set?); the empty key is written `bytes:`";
            return Err(Error::Invalid(empty.into()));
        }
        if let Some(rest) = text.strip_prefix(b"bytes:") {
            return bytes(rest);
        }
        let Some(digits) = text.strip_prefix(b"id:") else { return bytes(text) };
        // A sign is no part of a number that names something.
        let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'));
        digits.and_then(|digits| digits.parse().ok()).map(Self::id).ok_or_else(|| {
            Error::Invalid(format!(
                "the key {} is not `id:` and a number from 0 to {}; write bytes:… for a name that begins so",
                escaped(text),
                u64::MAX
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_compare_by_kind_then_value() {
        let (a, b) = (Key::bytes("z").unwrap(), Key::id(0));
        assert!(a < b);
        assert!(Key::id(255) < Key::id(256));
        assert!(Key::bytes("").unwrap() < Key::bytes([0]).unwrap());
    }

    #[test]
    fn sort_form_and_stored_form_give_the_key_back() {
        for key in
            [Key::id(7), Key::id(u64::MAX), Key::bytes("").unwrap(), Key::bytes([0xff; 65_535]).unwrap()]
        {
            assert_eq!(Key::from_sort_form(key.sort_form()).unwrap(), key);
            assert_eq!(Key::from_stored(key.kind(), key.stored().as_ref()).unwrap(), key);
            assert!(key.is_stored_as(key.kind(), key.stored().as_ref()));
            assert!(!key.is_stored_as(3 - key.kind(), key.stored().as_ref()));
            assert!(!key.is_stored_as(key.kind(), b"another"));
            assert!(!key.is_stored_as(key.kind(), b"another!"));
        }
        assert!(Key::bytes([0; 65_536]).is_err());
        assert!(Key::from_sort_form(&[2, 1]).is_none());
        assert!(Key::from_stored(9, b"x").is_none());
    }

    #[test]
    fn typed_keys_parse_to_what_they_print() {
        for text in ["a/b", "id:12", "bytes:id:12", "bytes:bytes:x"] {
            let key = Key::parse(text.as_bytes()).unwrap();
            assert_eq!(key.to_string(), text);
        }
        assert_eq!(Key::parse(b"bytes:plain").unwrap(), Key::bytes("plain").unwrap());
        assert!(Key::parse(b"id:x").is_err());
        assert!(Key::parse(b"id:18446744073709551616").is_err());
        assert!(Key::parse(br"a\b").is_err());
        assert_eq!(Key::bytes(b"a\n\xff").unwrap().to_string(), "a\\x0a\\xff");
        assert_eq!(Key::bytes("").unwrap().to_string(), "bytes:");
    }

    #[test]
    fn no_text_is_no_key_and_the_empty_key_has_a_form() {
        for error in [Key::parse(b"").unwrap_err(), Key::of_list(b"", ListEnd::Nul).unwrap_err()] {
            let reported = error.to_string();
            assert!(
                reported.contains("the key is empty") && reported.contains("written `bytes:`"),
                "{reported}"
            );
        }
        assert_eq!(Key::parse(b"bytes:").unwrap(), Key::bytes("").unwrap());
        assert_eq!(Key::of_list(b"bytes:", ListEnd::Nul).unwrap(), Key::bytes("").unwrap());
    }

    #[test]
    fn every_key_is_found_again_by_what_is_shown_of_it() {
        for bytes in
            [&b""[..], b"id:", b"id:7", b"bytes:", b"bytes:\xff\n", b"a\\b", br"\x41", b"\xc2\x9b", b"\xc2"]
        {
            let key = Key::bytes(bytes).unwrap();
            for end in [ListEnd::Line, ListEnd::Nul] {
                assert_eq!(Key::of_list(&key.listed(end).unwrap(), end).unwrap(), key, "{key} {end:?}");
            }
        }
        assert_eq!(
            Key::of_list(&Key::id(7).listed(ListEnd::Nul).unwrap(), ListEnd::Nul).unwrap(),
            Key::id(7)
        );
    }

    /// Before: it was written as it is, and read as the keys of two other records.
    #[test]
    fn a_key_with_a_zero_byte_is_listed_on_lines_only() {
        let key = Key::bytes(b"keep\0b.tmp").unwrap();
        let listed = key.listed(ListEnd::Line).unwrap();
        assert_eq!(listed, br"keep\x00b.tmp");
        assert_eq!(Key::of_list(&listed, ListEnd::Line).unwrap(), key);
        let refused = key.listed(ListEnd::Nul).unwrap_err().to_string();
        assert!(refused.starts_with(r"keep\x00b.tmp has a zero byte"), "{refused}");
    }
}
