//! Cursors and splits as text: what it is and its version, a checksum, and JSON, between colons.

use std::fmt::Write as _;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::view::View;
use crate::pack::error::{Error, Result};
use crate::pack::state::open::Pack;

const VERSION: &str = "1";

/// The text of a token.
pub(super) fn write(kind: &str, body: &impl Serialize) -> String {
    // Nothing in it is of a kind that JSON has not.
    let json = serde_json::to_string(body).unwrap_or_default();
    format!("stook-{kind}-{VERSION}:{:08x}:{json}", crc32c::crc32c(json.as_bytes()))
}

/// What a token's text says.
pub(super) fn read<T: DeserializeOwned>(kind: &str, text: &str) -> Result<T> {
    let refused = |why: &str| Error::Invalid(format!("this is no {kind} of a scan: {why}"));
    let begin = format!("stook-{kind}-");
    let rest =
        text.strip_prefix(&begin).ok_or_else(|| refused(&format!("it does not begin with {begin}")))?;
    let (version, rest) = rest.split_once(':').ok_or_else(|| refused("it is cut short"))?;
    if version != VERSION {
        return Err(Error::Invalid(format!(
            "this {kind} of a scan is of version {version}; version {VERSION} is known here"
        )));
    }
    let (sum, json) = rest.split_once(':').ok_or_else(|| refused("it is cut short"))?;
    if sum != format!("{:08x}", crc32c::crc32c(json.as_bytes())) {
        return Err(refused("its checksum is another"));
    }
    serde_json::from_str(json).map_err(|error| refused(&error.to_string()))
}

/// The pack that a token is of, and what of it was to be seen.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Origin {
    pub(super) pack: String,
    pub(super) generation: u64,
    pub(super) sequence_end: u64,
    /// The earlier time whose state was opened.
    pub(super) at_ns: Option<i64>,
}

impl Origin {
    pub(super) fn of(pack: &Pack, view: View) -> Self {
        let View { sequence_end } = view;
        let at_ns = pack.snapshot.at_ns;
        Self { pack: pack.nonce(), generation: pack.generation(), sequence_end, at_ns }
    }

    /// What is to be seen of the pack, if it is this one at this generation.
    pub(super) fn view_in(&self, pack: &Pack, kind: &str) -> Result<View> {
        let place = pack.storage.path("");
        if self.pack != pack.nonce() {
            return Err(Error::Invalid(format!(
                "the {kind} is of the pack {}, and {} is the pack {}",
                self.pack,
                place.display(),
                pack.nonce()
            )));
        }
        if self.generation != pack.generation() {
            return Err(Error::Invalid(format!(
                "the {kind} is of generation {0} of {1}, which is at generation {2} now: begin again, or open that \
                 generation as long as it is there (generation={0})",
                self.generation,
                place.display(),
                pack.generation()
            )));
        }
        if self.at_ns != pack.snapshot.at_ns {
            let shown = |at_ns: Option<i64>| at_ns.map_or("now".to_owned(), crate::report::time::time_of);
            return Err(Error::Invalid(format!(
                "the {kind} is of the state of {} at {}, and the state at {} is open",
                place.display(),
                shown(self.at_ns),
                shown(pack.snapshot.at_ns)
            )));
        }
        let here = pack.view().sequence_end;
        if self.sequence_end > here {
            return Err(Error::Invalid(format!(
                "the {kind} is of {} when it had records up to number {}; it ends at number {} now, because what a \
                 writer had not made safe was lost: begin again",
                place.display(),
                self.sequence_end.saturating_sub(1),
                here.saturating_sub(1)
            )));
        }
        Ok(View { sequence_end: self.sequence_end })
    }
}

/// Bytes as hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hex(pub(super) Vec<u8>);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(self.0.len() * 2);
        for byte in &self.0 {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let byte = |pair: &[u8]| {
            let digits = std::str::from_utf8(pair).ok().filter(|_| pair.len() == 2)?;
            u8::from_str_radix(digits, 16).ok()
        };
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
        bytes.map(Self).ok_or_else(|| serde::de::Error::custom("these are no hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_was_changed_anywhere_is_refused() {
        let text = write("test", &Hex(vec![0, 171, 255]));
        assert_eq!(text, format!("stook-test-1:{:08x}:\"00abff\"", crc32c::crc32c(b"\"00abff\"")));
        assert_eq!(read::<Hex>("test", &text).unwrap(), Hex(vec![0, 171, 255]));
        for at in 0..text.len() {
            let mut other = text.clone().into_bytes();
            other[at] ^= 1;
            assert!(read::<Hex>("test", &String::from_utf8(other).unwrap()).is_err(), "byte {at}");
            assert!(read::<Hex>("test", &text[..at]).is_err(), "cut at {at}");
        }
        assert!(read::<Hex>("other", &text).is_err());
        assert!(read::<Hex>("test", &write("test", &"0")).is_err());
    }
}
