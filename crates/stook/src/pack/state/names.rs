//! Names of the files of a pack.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::pack::error::{Error, Result};
use crate::pack::format::manifest::Manifest;

/// Says who the one writer is.
pub(crate) const LOCK: &str = "writer.lock";

/// The prefix of the names of files that were set aside: no generation names them, but a lost one
/// did.
const ORPHAN: &str = "orphan-";

/// No pack reaches numbers from here on, so a name with such a number does not belong to a pack.
pub(crate) const NUMBER_END: u64 = 1 << 62;

/// Names further ahead than this of the next number in the manifest do not belong to the pack
/// either: a writer that was killed leaves names that come next.
const AHEAD_MAX: u64 = 1 << 32;

/// The next free number, if the manifest states `next` and these numbers were found in names.
pub(crate) fn next_free(next: u64, found: impl Iterator<Item = u64>) -> u64 {
    let own = found.filter(|&number| is_near(next, number));
    own.max().and_then(|last| last.checked_add(1)).unwrap_or(next)
}

/// Whether a name with this number can have been given by a writer that died, when the manifest
/// says that `next` comes next.
fn is_near(next: u64, number: u64) -> bool {
    number.checked_sub(next).is_some_and(|ahead| ahead < AHEAD_MAX)
}

/// Takes a number and counts on.
///
/// # Errors
/// Returns [`Error::Limit`] if the numbers are exhausted; nothing is changed then.
pub(crate) fn take_number(what: &'static str, next: &mut u64) -> Result<u64> {
    let number = *next;
    if number >= NUMBER_END {
        return Err(Error::Limit { what, found: number, limit: NUMBER_END - 1 });
    }
    *next = number + 1;
    Ok(number)
}

/// The kind of a file, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PackFile {
    /// A generation.
    Manifest(u64),
    /// A segment, by id.
    Segment(u64),
    /// A checkpoint: segment id, offset of its first frame.
    Checkpoint(u64, u64),
    /// A deletion vector: segment id, generation.
    Deletes(u64, u64),
    /// The writer's note.
    Lock,
    /// A segment that was set aside, by id.
    OrphanSegment(u64),
    /// A deletion vector that was set aside.
    OrphanDeletes(u64, u64),
}

impl PackFile {
    /// The kind of a file with this name; `None` for a foreign one.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        if name == LOCK {
            return Some(Self::Lock);
        }
        if let Some(name) = name.strip_prefix(ORPHAN) {
            return match Self::parse(name)? {
                Self::Segment(id) => Some(Self::OrphanSegment(id)),
                Self::Deletes(id, generation) => Some(Self::OrphanDeletes(id, generation)),
                _ => None,
            };
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

impl std::fmt::Display for PackFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Manifest(generation) => write!(f, "manifest-{generation:016x}"),
            Self::Segment(id) => write!(f, "segment-{id:016x}"),
            Self::Checkpoint(id, from) => write!(f, "checkpoint-{id:016x}-{from:016x}"),
            Self::Deletes(id, generation) => write!(f, "deletes-{id:016x}-{generation:016x}"),
            Self::Lock => f.write_str(LOCK),
            Self::OrphanSegment(id) => write!(f, "{ORPHAN}{}", Self::Segment(*id)),
            Self::OrphanDeletes(id, generation) => write!(f, "{ORPHAN}{}", Self::Deletes(*id, *generation)),
        }
    }
}

/// The files that a generation cannot do without.
pub(crate) fn named_by(manifest: &Manifest) -> BTreeSet<PackFile> {
    let mut names = BTreeSet::new();
    for entry in &manifest.segments {
        names.insert(PackFile::Segment(entry.id));
        names.extend(entry.vector.map(|vector| PackFile::Deletes(entry.id, vector.generation)));
    }
    names
}

/// Exactly 16 lower-case digits, so that a file has only one name, and a number that a pack can
/// reach.
fn hex(digits: &str) -> Option<u64> {
    let well_formed = digits.len() == 16 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let number = well_formed.then(|| u64::from_str_radix(digits, 16).ok()).flatten();
    number.filter(|&number| number < NUMBER_END)
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
    use crate::tree::target;

    #[test]
    fn names_parse_to_what_they_print_and_nothing_else_does() {
        let all = [
            PackFile::Manifest(1),
            PackFile::Segment(NUMBER_END - 1),
            PackFile::OrphanSegment(7),
            PackFile::OrphanDeletes(7, 9),
            PackFile::Checkpoint(2, 4096),
            PackFile::Deletes(3, 4),
            PackFile::Lock,
        ];
        for name in all {
            assert_eq!(PackFile::parse(&name.to_string()), Some(name));
            // So that nothing else takes their place.
            assert!(target::is_file_of_pack(&name.to_string()), "{name}");
            assert_eq!(target::is_manifest(&name.to_string()), matches!(name, PackFile::Manifest(_)));
        }
        for foreign in [
            "",
            "segment",
            "segment-1",
            "segment-000000000000000G",
            "segment-000000000000000A",
            "x",
            "orphan-x",
        ] {
            assert_eq!(PackFile::parse(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn numbers_that_no_pack_comes_to_are_none_of_a_pack() {
        for number in [NUMBER_END, 1 << 63, u64::MAX] {
            let digits = format!("{number:016x}");
            for foreign in [
                format!("manifest-{digits}"),
                format!("segment-{digits}"),
                format!("checkpoint-{digits}-0000000000001000"),
                format!("deletes-0000000000000001-{digits}"),
                format!("orphan-segment-{digits}"),
            ] {
                assert_eq!(PackFile::parse(&foreign), None, "{foreign}");
            }
        }
    }

    #[test]
    fn names_are_stepped_over_when_they_are_near_and_numbers_come_to_an_end() {
        let next = |found: &[u64]| next_free(10, found.iter().copied());
        assert_eq!(next(&[]), 10);
        assert_eq!(next(&[9, 3]), 10);
        assert_eq!(next(&[10, 12]), 13);
        assert_eq!(next(&[9 + AHEAD_MAX, 11]), 10 + AHEAD_MAX);
        assert_eq!(next(&[10 + AHEAD_MAX, 11]), 12);
        assert_eq!(next(&[u64::MAX]), 10);
        let mut number = NUMBER_END - 1;
        assert_eq!(take_number("a number", &mut number).unwrap(), NUMBER_END - 1);
        assert!(matches!(take_number("a number", &mut number), Err(Error::Limit { .. })));
        assert_eq!(number, NUMBER_END);
    }
}
