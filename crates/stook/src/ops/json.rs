//! Keys and damage of packs in JSON.

use std::os::unix::ffi::OsStrExt as _;

use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};

use crate::pack::{Damage, Key, KeyValue};
use crate::report::json::TextOrBytes;

/// A key in JSON, to be flattened into its object: `key`, `key_b64`, or `key_id` for a numeric one.
#[derive(Debug, Clone, Copy)]
pub struct JsonKey<'a>(pub &'a Key);

impl Serialize for JsonKey<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.value() {
            KeyValue::Bytes(bytes) => TextOrBytes::key(bytes).serialize(serializer),
            KeyValue::Id(id) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("key_id", &id)?;
                map.end()
            }
        }
    }
}

/// A damage in JSON.
#[derive(Debug, Serialize)]
pub struct JsonDamage<'a> {
    #[serde(flatten)]
    file: TextOrBytes<'a>,
    offset_bytes: u64,
    #[serde(flatten)]
    key: Option<JsonKey<'a>>,
    what: &'a str,
}

impl<'a> JsonDamage<'a> {
    /// All of a list.
    pub fn all(damages: &'a [Damage]) -> Vec<Self> {
        let one = |damage: &'a Damage| Self {
            file: TextOrBytes::new("file", damage.file.as_os_str().as_bytes()),
            offset_bytes: damage.offset,
            key: damage.key.as_ref().map(JsonKey),
            what: &damage.what,
        };
        damages.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_text_base64_or_a_number() {
        let json = |key: Key| serde_json::to_string(&JsonKey(&key)).unwrap();
        assert_eq!(json(Key::bytes("a").unwrap()), r#"{"key":"a"}"#);
        assert_eq!(json(Key::bytes(b"\xff").unwrap()), r#"{"key_b64":"/w=="}"#);
        assert_eq!(json(Key::id(u64::MAX)), r#"{"key_id":18446744073709551615}"#);
    }
}
