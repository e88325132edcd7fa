//! [`Digest`]: a value of a hash function, and its text.

use std::fmt;

use super::{HashKind, Hashing, c4};

/// A value of a hash function. As text it is hexadecimal in small letters, or as C4 lays it down.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Digest {
    /// The function.
    pub kind: HashKind,
    /// Its value, in the order in which it is written.
    pub value: Vec<u8>,
}

/// Why a text is no value of a hash function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// It is too short or too long.
    #[error("{len} characters where {} has {}", kind.name(), kind.text_len())]
    Len {
        /// The function.
        kind: HashKind,
        /// How many bytes the text has.
        len: usize,
    },
    /// Some character is none of its digits, or the number is too large.
    #[error("no value of {}: {}", kind.name(), digits(*kind))]
    Digit {
        /// The function.
        kind: HashKind,
    },
}

fn digits(kind: HashKind) -> &'static str {
    match kind {
        HashKind::C4 => "`c4` and digits to the base 58 were expected",
        _ => "hexadecimal digits were expected",
    }
}

impl Digest {
    /// The value for these bytes.
    pub fn of(kind: HashKind, bytes: &[u8]) -> Self {
        let mut hashing = Hashing::new(&[kind]);
        hashing.take(bytes);
        hashing.finish().pop().unwrap_or(Self { kind, value: Vec::new() })
    }

    /// The value that a text says: hexadecimal digits, in small or large letters, or a C4.
    ///
    /// # Errors
    /// Returns an error if it has another length than values of this function, or other characters.
    pub fn parse(kind: HashKind, text: &[u8]) -> Result<Self, DigestError> {
        if text.len() != kind.text_len() {
            return Err(DigestError::Len { kind, len: text.len() });
        }
        let value = match kind {
            HashKind::C4 => c4::from_text(text).map(Vec::from),
            _ => from_hex(text),
        };
        value.map(|value| Self { kind, value }).ok_or(DigestError::Digit { kind })
    }
}

/// The bytes of hexadecimal digits.
fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
        _ => None,
    };
    text.chunks(2).map(byte).collect()
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            HashKind::C4 => f.write_str(&c4::to_text(&self.value).unwrap_or_default()),
            _ => self.value.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_from_its_text_in_small_and_large_letters() {
        for kind in HashKind::ALL {
            let digest = Digest::of(kind, b"pictures");
            let text = digest.to_string();
            assert_eq!((digest.value.len(), text.len()), (kind.value_len(), kind.text_len()));
            assert_eq!(Digest::parse(kind, text.as_bytes()), Ok(digest.clone()));
            let large = Digest::parse(kind, text.to_uppercase().as_bytes());
            // The letters of C4 are digits of their own.
            assert_eq!(large == Ok(digest), kind != HashKind::C4);
        }
    }

    #[test]
    fn a_text_that_is_no_value_says_what_was_expected() {
        let parse = |text: &str| Digest::parse(HashKind::Md5, text.as_bytes()).unwrap_err().to_string();
        assert_eq!(parse("12"), "2 characters where md5 has 32");
        assert_eq!(parse(&"g".repeat(32)), "no value of md5: hexadecimal digits were expected");
        assert_eq!(parse(&"ä".repeat(16)), "no value of md5: hexadecimal digits were expected");
        let c4 = Digest::parse(HashKind::C4, "0".repeat(90).as_bytes()).unwrap_err().to_string();
        assert_eq!(c4, "no value of c4: `c4` and digits to the base 58 were expected");
    }
}
