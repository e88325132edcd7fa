//! Names of the files of a pack.

use std::fmt::Write as _;

/// Held by the one writer.
pub(crate) const LOCK: &str = "writer.lock";

/// What a file is, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    /// A generation.
    Manifest(u64),
    /// A segment, by id.
    Segment(u64),
    /// A checkpoint: segment id, offset of its first frame.
    Checkpoint(u64, u64),
    /// A deletion vector: segment id, generation.
    Deletes(u64, u64),
    /// The writer's lock.
    Lock,
}

impl Name {
    /// What a file of this name is; `None` for a foreign one.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        if name == LOCK {
            return Some(Self::Lock);
        }
        let (kind, rest) = name.split_once('-')?;
        Some(match (kind, rest.split_once('-')) {
            ("manifest", None) => Self::Manifest(hex(rest)?),
            ("segment", None) => Self::Segment(hex(rest)?),
            ("checkpoint", Some((id, from))) => Self::Checkpoint(hex(id)?, hex(from)?),
            ("deletes", Some((id, generation))) => Self::Deletes(hex(id)?, hex(generation)?),
            _ => return None,
        })
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Manifest(generation) => write!(f, "manifest-{generation:016x}"),
            Self::Segment(id) => write!(f, "segment-{id:016x}"),
            Self::Checkpoint(id, from) => write!(f, "checkpoint-{id:016x}-{from:016x}"),
            Self::Deletes(id, generation) => write!(f, "deletes-{id:016x}-{generation:016x}"),
            Self::Lock => f.write_str(LOCK),
        }
    }
}

/// Exactly 16 lower-case digits, so that a file has one name only.
fn hex(digits: &str) -> Option<u64> {
    let well_formed = digits.len() == 16 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    well_formed.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// A nonce as people see it.
pub(crate) fn hex_text(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_to_what_they_print_and_nothing_else_does() {
        let all = [
            Name::Manifest(1),
            Name::Segment(u64::MAX),
            Name::Checkpoint(2, 4096),
            Name::Deletes(3, 4),
            Name::Lock,
        ];
        for name in all {
            assert_eq!(Name::parse(&name.to_string()), Some(name));
        }
        for foreign in
            ["", "segment", "segment-1", "segment-000000000000000G", "segment-000000000000000A", "x"]
        {
            assert_eq!(Name::parse(foreign), None, "{foreign}");
        }
    }
}
