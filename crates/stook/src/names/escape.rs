//! Bytes as a line of text that a terminal takes no harm from, and back.

use std::borrow::Cow;
use std::fmt;

/// Bytes as they are shown: UTF-8 as it is, but control characters and bytes that are not UTF-8 as
/// `\xNN` for each byte, and a backslash as `\\`. [`unescape`] returns the same bytes.
///
/// ```
/// use stook::names::{escaped, unescape};
///
/// assert_eq!(escaped(b"a\n\xff\\b").to_string(), r"a\x0a\xff\\b");
/// assert_eq!(unescape(br"a\x0a\xff\\b").unwrap().as_ref(), b"a\n\xff\\b");
/// ```
pub fn escaped(bytes: &[u8]) -> Escaped<'_> {
    Escaped(bytes)
}

/// What [`escaped`] shows.
#[derive(Debug, Clone, Copy)]
pub struct Escaped<'a>(&'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                match c {
                    '\\' => f.write_str("\\\\")?,
                    c => push(f, c)?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// A message as one line: its control characters as [`escaped`] shows them. A backslash stays,
/// because names are escaped where they are put in.
pub fn escaped_controls(message: &str) -> Cow<'_, str> {
    if !message.chars().any(char::is_control) {
        return Cow::Borrowed(message);
    }
    let mut text = String::with_capacity(message.len() + 16);
    for c in message.chars() {
        // Writing to a string never fails.
        let _ = push(&mut text, c);
    }
    Cow::Owned(text)
}

fn push(to: &mut impl fmt::Write, c: char) -> fmt::Result {
    if !c.is_control() {
        return to.write_char(c);
    }
    let mut utf8 = [0; 4];
    c.encode_utf8(&mut utf8).bytes().try_for_each(|byte| write!(to, "\\x{byte:02x}"))
}

/// A backslash that begins no escape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the backslash at byte {at} of {} begins no escape; expected `\\xNN` for the byte NN, or `\\\\` for a backslash itself",
    String::from_utf8_lossy(.text)
)]
pub struct EscapeError {
    text: Vec<u8>,
    at: usize,
}

/// The bytes that a text shows: `\xNN` is the byte with these two hexadecimal digits, `\\` a
/// backslash, all else is itself.
///
/// # Errors
/// Returns an error if a backslash begins neither: the meaning is not guessed.
pub fn unescape(text: &[u8]) -> Result<Cow<'_, [u8]>, EscapeError> {
    if !text.contains(&b'\\') {
        return Ok(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let (byte, left) = match (first, after) {
            (b'\\', [b'\\', left @ ..]) => (b'\\', left),
            (b'\\', [b'x', high, low, left @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => (high << 4 | low, left),
                _ => return Err(EscapeError { text: text.to_vec(), at: text.len() - rest.len() }),
            },
            (b'\\', _) => return Err(EscapeError { text: text.to_vec(), at: text.len() - rest.len() }),
            (byte, left) => (byte, left),
        };
        bytes.push(byte);
        rest = left;
    }
    Ok(Cow::Owned(bytes))
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// The prefix for bytes of a key that would otherwise be taken for another form of one.
pub(crate) fn key_form(bytes: &[u8]) -> &'static str {
    match bytes.is_empty() || bytes.starts_with(b"id:") || bytes.starts_with(b"bytes:") {
        true => "bytes:",
        false => "",
    }
}

/// A byte string that is a key, as lists print it and commands take it.
pub(crate) fn key_text(bytes: &[u8]) -> String {
    format!("{}{}", key_form(bytes), escaped(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_harmless_as_text_and_come_back() {
        for first in 0..=255u8 {
            for second in [b'a', b'\\', b'x', 0, 0x80, 0xff] {
                let bytes = [first, second, first];
                let text = escaped(&bytes).to_string();
                assert!(!text.chars().any(char::is_control), "{text:?}");
                assert_eq!(unescape(text.as_bytes()).unwrap().as_ref(), bytes, "{text}");
            }
        }
        assert_eq!(escaped("dir/fü".as_bytes()).to_string(), "dir/fü");
        assert_eq!(escaped("\u{9b}".as_bytes()).to_string(), r"\xc2\x9b");
        assert_eq!(escaped(b"a\n\t\\n\x1b\xff\x7f").to_string(), r"a\x0a\x09\\n\x1b\xff\x7f");
    }

    #[test]
    fn a_backslash_that_begins_no_escape_is_refused_with_what_was_expected() {
        for (text, at) in [(r"a\b", 1), ("\\", 0), (r"\x", 0), (r"\x4", 0), (r"\\\xg0", 2), (r"\n", 0)] {
            let error = unescape(text.as_bytes()).expect_err(text).to_string();
            assert!(
                error.contains(&format!("at byte {at} ")) && error.contains(r"expected `\xNN`"),
                "{error}"
            );
        }
        assert_eq!(unescape(br"\x5c\\x41\xfF").unwrap().as_ref(), b"\\\\x41\xff");
        assert_eq!(unescape(b"raw \xff\n").unwrap().as_ref(), b"raw \xff\n");
    }

    #[test]
    fn messages_are_one_line_and_keep_their_backslashes() {
        assert_eq!(escaped_controls(r"C:\dir: ü"), r"C:\dir: ü");
        assert_eq!(escaped_controls("a\x1b[2Jb\nc\u{9b}"), r"a\x1b[2Jb\x0ac\xc2\x9b");
    }
}
