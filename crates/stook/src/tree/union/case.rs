//! [`CaseRule`]: whether names that differ only in upper and lower case are one name.

use std::borrow::Cow;

/// Whether names that differ only in upper and lower case are one name.
///
/// Letters are compared by what Unicode calls simple case folding, character by character, with the
/// tables of the standard library: `É` is `é`, `Σ` and `ς` are `σ`, the Kelvin sign is `k`; `ß` is
/// not `ss`, and neither `İ` nor `ı` is `i`. No language counts and nothing is normalised, so that
/// an `é` of one character is not one of two. Of names that are not UTF-8, bytes that make no
/// character are compared as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CaseRule {
    /// They are different names, as on most file systems of Linux.
    #[default]
    Exact,
    /// They are one name, as on Windows and macOS.
    Ignored,
}

impl CaseRule {
    /// What all names have in common that are one name by this rule: two are one if this is the
    /// same of both. It may be longer or shorter than the name.
    pub fn folded(self, name: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Self::Exact => Cow::Borrowed(name),
            Self::Ignored if name.is_ascii() => Cow::Owned(name.to_ascii_lowercase()),
            Self::Ignored => Cow::Owned(fold(name)),
        }
    }
}

fn fold(name: &[u8]) -> Vec<u8> {
    let mut folded = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            let mut utf8 = [0; 4];
            folded.extend_from_slice(fold_char(letter).encode_utf8(&mut utf8).as_bytes());
        }
        folded.extend_from_slice(chunk.invalid());
    }
    folded
}

/// Upper case first, so that letters with several lower cases (`σ`, `ς`) have one. What would
/// become several characters stays.
fn fold_char(letter: char) -> char {
    if letter == 'ı' {
        // Its upper case is `I`, which is that of `i`.
        return letter;
    }
    let upper = alone(letter.to_uppercase()).unwrap_or(letter);
    alone(upper.to_lowercase()).unwrap_or(upper)
}

fn alone(mut letters: impl Iterator<Item = char>) -> Option<char> {
    let first = letters.next()?;
    letters.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str) -> bool {
        CaseRule::Ignored.folded(a.as_bytes()) == CaseRule::Ignored.folded(b.as_bytes())
    }

    #[test]
    fn letters_are_compared_by_simple_folding() {
        for (a, b) in [
            ("ReadMe.TXT", "readme.txt"),
            ("É", "é"),
            ("Σίσυφος", "ΣΊΣΥΦΟΣ"),
            ("\u{212a}", "K"),
            ("ſ", "S"),
            ("µ", "μ"),
            ("ẞ", "ß"),
            ("ǅ", "ǆ"),
            ("ᾈ", "ᾀ"),
            ("Ж1", "ж1"),
        ] {
            assert!(same(a, b), "{a} {b}");
        }
        for (a, b) in [("ß", "ss"), ("İ", "i"), ("ı", "i"), ("ı", "I"), ("é", "e\u{301}"), ("a", "b")] {
            assert!(!same(a, b), "{a} {b}");
        }
    }

    #[test]
    fn what_was_folded_stays_as_it_is() {
        for letter in '\0'..=char::MAX {
            let once = fold_char(letter);
            assert_eq!(fold_char(once), once, "{letter:?}");
        }
        let odd = [b"A\xff\xc3\x89".as_slice(), b"\xe2\x84", b"\xf0\x90\x90Z", b""];
        for name in odd {
            let once = CaseRule::Ignored.folded(name).into_owned();
            assert_eq!(CaseRule::Ignored.folded(&once), once);
        }
        assert_eq!(*CaseRule::Ignored.folded(b"A\xff\xc3\x89\xc3"), b"a\xff\xc3\xa9\xc3"[..]);
        assert_eq!(*CaseRule::Exact.folded(b"A\xff"), b"A\xff"[..]);
    }
}
