//! Names of lists, and which hash function they are of.

use crate::format::calendar::{list_date, ns_of_list_date};
use crate::hash::{Digest, HashKind};

/// Endings of names, and beginnings of names of whole lists, with their function.
const WORDS: [(&str, Option<HashKind>); 22] = [
    ("sha256", Some(HashKind::Sha256)),
    ("sha256sum", Some(HashKind::Sha256)),
    ("sha256sums", Some(HashKind::Sha256)),
    ("sha1", Some(HashKind::Sha1)),
    ("sha1sum", Some(HashKind::Sha1)),
    ("sha1sums", Some(HashKind::Sha1)),
    ("md5", Some(HashKind::Md5)),
    ("md5sum", Some(HashKind::Md5)),
    ("md5sums", Some(HashKind::Md5)),
    ("blake3", Some(HashKind::Blake3)),
    ("b3", Some(HashKind::Blake3)),
    ("b3sum", Some(HashKind::Blake3)),
    ("b3sums", Some(HashKind::Blake3)),
    ("xxh3", Some(HashKind::Xxh3)),
    ("xxh64", Some(HashKind::Xxh64)),
    ("xxh64sum", Some(HashKind::Xxh64)),
    ("xxh128", Some(HashKind::Xxh128)),
    ("xxh128sum", Some(HashKind::Xxh128)),
    ("c4", Some(HashKind::C4)),
    // Lines of several functions, which say or show by their digits which.
    ("xxh", None),
    ("xxhsum", None),
    ("xxhsums", None),
];
/// What the names of lists begin with that are written here, and the date with which they go on.
const OWN: &str = "checksums-";
/// Nanoseconds of a second, which is what names of lists tell apart.
const SECOND_NS: i64 = 1_000_000_000;
const DATE: &str = "dddd-dd-dd_ddddddZ";
/// What the name of a directory of proofs ends with.
const PROOFS: &str = "proofs";

/// The word that says what list a name is of: its ending, or the name itself (`SHA256SUMS`, with
/// `.txt` or without).
fn word(name: &[u8]) -> Option<Option<HashKind>> {
    let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
    let stem = name.strip_suffix(".txt").unwrap_or(&name);
    // As dircopy calls its own.
    if stem == "shasum" || (stem.starts_with("shasum.") && name.ends_with(".txt")) {
        return Some(Some(HashKind::Sha256));
    }
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    let is_whole = |word: &str| word.contains("sum") && word == stem;
    let found = WORDS.iter().find(|(word, _)| ending == Some(*word) || is_whole(word));
    found.map(|(_, kind)| *kind)
}

/// The hash function of a list, by its file name: by its ending (`.sha256`, `.b3`, `.md5`, …), or
/// because it is called as lists are (`SHA256SUMS`, `md5sums.txt`, `shasum.1700000000.txt` of
/// dircopy).
pub fn kind_of_name(name: &[u8]) -> Option<HashKind> {
    word(name).flatten()
}

/// The file that a list is called after, and may be of alone: `film.mov` of `film.mov.md5`.
pub fn file_of_name(name: &[u8]) -> Option<&[u8]> {
    let end = name.iter().rposition(|byte| *byte == b'.')?;
    let file = name.get(..end).filter(|file| !file.is_empty())?;
    (kind_of_name(name).is_some() && !is_own_list_name(name)).then_some(file)
}

/// Whether a file of this name is taken for a list of checksums where lists are looked for.
pub fn is_list_name(name: &[u8]) -> bool {
    word(name).is_some()
}

/// The name of a list that is written here: `checksums-2026-11-26_064134Z.sha256`. With a `number`
/// of more than 1 the name is `checksums-2026-11-26_064134Z-2.sha256`: another copy began in the
/// same second.
pub fn list_name(kind: HashKind, date: &str, number: u32) -> String {
    let number = if number > 1 { format!("-{number}") } else { String::new() };
    format!("{OWN}{date}{number}.{}", kind.name())
}

/// The date in the names of lists that are made now beside others, which have these names: a second
/// after that of the newest of those that are written here, if that is still to come, because a
/// clock was ahead. Else it would count for more than the new ones.
pub fn new_date<N: AsRef<[u8]>>(now_ns: i64, names: impl IntoIterator<Item = N>) -> String {
    let date_of = |name: &[u8]| {
        let is_own = is_own_list_name(name) || is_own_proofs_name(name);
        let date = name.get(OWN.len()..)?.get(..DATE.len()).filter(|_| is_own)?;
        ns_of_list_date(date)
    };
    let newest = names.into_iter().filter_map(|name| date_of(name.as_ref())).max();
    let later = newest.filter(|newest| *newest > now_ns).map(|newest| newest.saturating_add(SECOND_NS));
    later.and_then(list_date).or_else(|| list_date(now_ns)).unwrap_or_default()
}

/// The first number with which no list of a date is there, of whatever function: a list with it is
/// later than those. At most `max`.
pub fn free_number(date: &str, max: u32, mut is_there: impl FnMut(&[u8]) -> bool) -> u32 {
    let mut is_free = |number: &u32| {
        let names = HashKind::ALL.iter().map(|kind| list_name(*kind, date, *number));
        !names.into_iter().any(|name| is_there(name.as_bytes()))
    };
    (1..max).find(|number| is_free(number)).unwrap_or(max)
}

/// The name of the directory with the proofs of files that lists have: beside these, with their
/// date.
pub fn proofs_name(date: &str) -> String {
    format!("{OWN}{date}.{PROOFS}")
}

/// The name of the proof of a file with this digest, in such a directory.
pub fn proof_name(digest: &Digest) -> String {
    format!("{digest}.obao")
}

/// Whether a name is one of [`list_name`].
pub fn is_own_list_name(name: &[u8]) -> bool {
    number_of_name(name).is_some()
}

/// The number of a name of [`list_name`]: 1, where it says none.
pub fn number_of_name(name: &[u8]) -> Option<u32> {
    number_of(name, &|ending| HashKind::from_name(ending).is_some())
}

/// Whether a name is one of [`proofs_name`].
pub fn is_own_proofs_name(name: &[u8]) -> bool {
    number_of(name, &|ending| ending == PROOFS).is_some()
}

fn number_of(name: &[u8], ends_so: &dyn Fn(&str) -> bool) -> Option<u32> {
    let rest = std::str::from_utf8(name).ok()?.strip_prefix(OWN)?;
    let (rest, _) = rest.rsplit_once('.').filter(|(_, ending)| ends_so(ending))?;
    let (date, number) = rest.split_at_checked(DATE.len())?;
    let fits = |(shape, found): (u8, u8)| match shape {
        b'd' => found.is_ascii_digit(),
        shape => shape == found,
    };
    let is_date = DATE.bytes().zip(date.bytes()).all(fits);
    match number {
        _ if !is_date => None,
        "" => Some(1),
        number => number.strip_prefix('-')?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_function_a_list_is_of() {
        for (name, kind) in [
            ("SHA256SUMS", HashKind::Sha256),
            ("sha256sums.txt", HashKind::Sha256),
            ("shasum.1700000000.txt", HashKind::Sha256),
            ("film.mov.md5", HashKind::Md5),
            ("B3SUMS", HashKind::Blake3),
            ("list.b3", HashKind::Blake3),
            ("checksums-2026-11-26_064134Z.xxh3", HashKind::Xxh3),
            ("a.c4", HashKind::C4),
        ] {
            assert_eq!(kind_of_name(name.as_bytes()), Some(kind), "{name}");
            assert!(is_list_name(name.as_bytes()), "{name}");
        }
        assert_eq!(file_of_name(b"film.mov.md5"), Some(&b"film.mov"[..]));
        for none in ["SHA256SUMS", ".md5", "film.mov", "checksums-2026-11-26_064134Z.xxh3"] {
            assert_eq!(file_of_name(none.as_bytes()), None, "{none}");
        }
        assert_eq!((kind_of_name(b"all.xxhsum"), is_list_name(b"all.xxhsum")), (None, true));
        for name in ["md5", "b3", "notes.txt", "shasums", "film.mov", "sha256.txt", "", "\u{fffd}"] {
            assert!(!is_list_name(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn new_lists_are_dated_after_those_that_are_there() {
        let now_ns = ns_of_list_date(b"2026-11-26_235958Z").unwrap() + 5;
        let date = |names: &[&str]| new_date(now_ns, names);
        let now = "2026-11-26_235958Z";
        assert_eq!(date(&[]), now);
        assert_eq!(date(&["checksums-2025-11-26_064134Z.md5", "checksums-2026-11-26_235958Z.md5"]), now);
        // Of others it is not known what their dates mean, and these are none.
        for other in ["SHA256SUMS-2026-12-01", "checksums-2199-99-99_999999Z.md5", "2199-01-01_000000Z.md5"] {
            assert_eq!(date(&[other]), now, "{other}");
        }
        for ahead in ["md5", "proofs"].map(|ending| format!("checksums-2026-11-26_235959Z.{ending}")) {
            assert_eq!(date(&["checksums-2025-11-26_064134Z.md5", &ahead]), "2026-11-27_000000Z");
        }
        assert_eq!(date(&["checksums-2199-12-31_235959Z-2.blake3"]), "2200-01-01_000000Z");
    }

    #[test]
    fn own_lists_are_known_by_their_names_and_no_others_are() {
        for kind in HashKind::ALL {
            let name = list_name(kind, "2026-11-26_064134Z", 1);
            assert!(is_own_list_name(name.as_bytes()) && kind_of_name(name.as_bytes()) == Some(kind));
            assert!(is_own_list_name(list_name(kind, "2026-11-26_064134Z", 12).as_bytes()));
        }
        for name in [
            "checksums-.sha256",
            "checksums-2026-11-26_064134Z",
            "checksums-2026-11-26_064134Z.txt",
            "checksums-2026-11-26_064134Z-.sha256",
            "checksums-2026-11-26_06413äZ.sha256",
            "checksums-2026-11-26 064134Z.sha256",
            "my-checksums-2026-11-26_064134Z.sha256",
        ] {
            assert!(!is_own_list_name(name.as_bytes()), "{name}");
        }
    }
}
