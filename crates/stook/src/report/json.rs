//! The shape that all JSON of Stook has.
//!
//! A document names its schema first (`"schema": "stook.load/1"`); field names are snake_case with
//! the unit last. Bytes that are not UTF-8 never become text by replacement: they appear as
//! standard Base64 (RFC 4648) under the same name with `_b64` appended.

use serde::ser::{Serialize, SerializeMap, Serializer};

/// `body` with its schema in front, as one JSON object.
///
/// ```
/// use stook::report::json::Document;
///
/// #[derive(serde::Serialize)]
/// struct Load { records: u64 }
///
/// let text = serde_json::to_string(&Document::new("load", Load { records: 3 })).unwrap();
/// assert_eq!(text, r#"{"schema":"stook.load/1","records":3}"#);
/// ```
#[derive(Debug, Clone, serde::Serialize)]
pub struct Document<T> {
    schema: String,
    #[serde(flatten)]
    body: T,
}

impl<T: Serialize> Document<T> {
    /// A document of version 1 of the schema of `command`. `body` has to serialise as an object.
    pub fn new(command: &str, body: T) -> Self {
        Self::with_version(command, 1, body)
    }

    /// A document of a later version of a schema.
    pub fn with_version(command: &str, version: u32, body: T) -> Self {
        Self { schema: format!("stook.{command}/{version}"), body }
    }
}

/// Bytes that are usually text: a key, a path, the target of a link.
///
/// Serialises as an object of one field, made to be flattened into another: `{"key": "a/b"}`, or
/// `{"key_b64": "/w=="}` where the bytes are not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOrBytes<'a> {
    name: &'static str,
    bytes: &'a [u8],
}

impl<'a> TextOrBytes<'a> {
    /// The field `name`, or `name` + `_b64`, holding `bytes`.
    pub fn new(name: &'static str, bytes: &'a [u8]) -> Self {
        Self { name, bytes }
    }

    /// The field `key` or `key_b64`.
    pub fn key(bytes: &'a [u8]) -> Self {
        Self::new("key", bytes)
    }
}

impl Serialize for TextOrBytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        match std::str::from_utf8(self.bytes) {
            Ok(text) => map.serialize_entry(self.name, text)?,
            Err(_) => map.serialize_entry(&format!("{}_b64", self.name), &base64(self.bytes))?,
        }
        map.end()
    }
}

/// `bytes` in Base64: the standard alphabet, with padding (RFC 4648, section 4).
pub fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut group = [0; 4];
        for (to, from) in group.iter_mut().skip(1).zip(chunk) {
            *to = *from;
        }
        let bits = u32::from_be_bytes(group);
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) as usize & 63;
            text.push(if digit <= chunk.len() { char::from(ALPHABET[index]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Serialize)]
    struct Entry<'a> {
        #[serde(flatten)]
        key: TextOrBytes<'a>,
        len_bytes: u64,
    }

    #[test]
    fn base64_matches_the_vectors_of_the_standard() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }

    #[test]
    fn keys_are_text_when_they_can_be_and_base64_when_not() {
        let json =
            |bytes| serde_json::to_string(&Entry { key: TextOrBytes::key(bytes), len_bytes: 1 }).unwrap();
        assert_eq!(json(b"a\"/\n"), r#"{"key":"a\"/\n","len_bytes":1}"#);
        assert_eq!(json(b"\xff"), r#"{"key_b64":"/w==","len_bytes":1}"#);
        assert_eq!(json(b""), r#"{"key":"","len_bytes":1}"#);
    }

    #[test]
    fn a_document_names_its_schema_first() {
        let entry = Entry { key: TextOrBytes::new("path", b"x"), len_bytes: 2 };
        let text = serde_json::to_string(&Document::with_version("ls", 2, entry)).unwrap();
        assert_eq!(text, r#"{"schema":"stook.ls/2","path":"x","len_bytes":2}"#);
    }
}
