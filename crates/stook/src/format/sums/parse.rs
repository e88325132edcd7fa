//! [`SumLine`]: what a line says.

use super::fault::LineFault;
use crate::format::relative::{PathFault, relative, relative_dos};
use crate::hash::{Digest, HashKind};

/// What a line says: a checksum of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SumLine {
    /// The number of the line, from 1.
    pub number: u64,
    /// The checksum, as a value of each function that it may be of. There are two where neither the
    /// line nor its list says which: 32 digits are MD5 or XXH128, 64 are SHA-256 or BLAKE3.
    pub digests: Vec<Digest>,
    /// The path below the directory that the list is for: names with `/` between them, none of them
    /// empty, `.` or `..`.
    pub path: Vec<u8>,
    /// The same where `\` separates names, too; `None` if there is none in the name.
    pub dos_path: Option<Result<Vec<u8>, PathFault>>,
}

/// Functions by the names that they have in `NAME (file) = …`, and whether the value is written
/// backwards.
const TAGS: [(&[u8], HashKind, bool); 14] = [
    (b"SHA256", HashKind::Sha256, false),
    (b"SHA2-256", HashKind::Sha256, false),
    (b"SHA1", HashKind::Sha1, false),
    (b"MD5", HashKind::Md5, false),
    (b"BLAKE3", HashKind::Blake3, false),
    (b"XXH3", HashKind::Xxh3, false),
    (b"XXH3_LE", HashKind::Xxh3, true),
    (b"XXH64", HashKind::Xxh64, false),
    (b"XXH64_LE", HashKind::Xxh64, true),
    (b"XXH128", HashKind::Xxh128, false),
    (b"XXH128_LE", HashKind::Xxh128, true),
    // By themselves, as other programs write them.
    (b"SHA-256", HashKind::Sha256, false),
    (b"SHA-1", HashKind::Sha1, false),
    (b"C4", HashKind::C4, false),
];
/// What stands before a value of XXH3 that is followed by a name.
const XXH3_PREFIX: &[u8] = b"XXH3_";
/// The longest name of a function that is repeated in an error.
const TAG_MAX: usize = 24;

/// What a line without its end says; `None` if it is empty or a comment.
/// Where nothing but a checksum may stand in the list, it is that of the file `only`.
pub(super) fn parse(
    line: &[u8],
    number: u64,
    kind: Option<HashKind>,
    only: Option<&[u8]>,
) -> Result<Option<SumLine>, LineFault> {
    let line = line.trim_ascii_start();
    if line.is_empty() || line.first() == Some(&b'#') {
        return Ok(None);
    }
    let (line, is_escaped) = match line.strip_prefix(b"\\") {
        Some(rest) => (rest, true),
        None => (line, false),
    };
    let (digests, name) = match (after_checksum(line), only) {
        (_, Some(only)) if is_checksum(line.trim_ascii_end()) => {
            (digests(line.trim_ascii_end(), kind)?, only)
        }
        (Some((checksum, name)), _) => (digests(checksum, kind)?, name),
        (None, _) => tagged(line)?,
    };
    let name = if is_escaped { unescaped(name).ok_or(LineFault::Escape)? } else { name.to_vec() };
    // A program that escapes backslashes means them.
    let dos_path = (name.contains(&b'\\') && !is_escaped).then(|| relative_dos(&name));
    Ok(Some(SumLine { number, digests, path: relative(&name)?, dos_path }))
}

/// Checksum and name of a line that begins with the checksum.
fn after_checksum(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = line.iter().position(|byte| *byte == b' ')?;
    let (checksum, rest) = line.split_at_checked(end)?;
    if !is_checksum(checksum) {
        return None;
    }
    let rest = rest.strip_prefix(b" ")?;
    // The second character says how the file was read. BSD's programs leave it out.
    let name = rest.strip_prefix(b" ").or_else(|| rest.strip_prefix(b"*")).unwrap_or(rest);
    Some((checksum, name))
}

/// Whether something looks like a checksum.
fn is_checksum(text: &[u8]) -> bool {
    let is_c4 = text.starts_with(b"c4") && text.len() == HashKind::C4.text_len();
    let digits = text.strip_prefix(XXH3_PREFIX).unwrap_or(text);
    !digits.is_empty() && (is_c4 || digits.iter().all(u8::is_ascii_hexdigit))
}

/// The checksum as a value of each function that it may be of.
fn digests(checksum: &[u8], kind: Option<HashKind>) -> Result<Vec<Digest>, LineFault> {
    if let Some(digits) = checksum.strip_prefix(XXH3_PREFIX) {
        return Ok(vec![Digest::parse(HashKind::Xxh3, digits)?]);
    }
    let kinds: &[HashKind] = match (kind, checksum.len()) {
        (Some(kind), _) => return Ok(vec![Digest::parse(kind, checksum)?]),
        // XXH3 has a prefix there.
        (None, 16) => &[HashKind::Xxh64],
        (None, 32) => &[HashKind::Md5, HashKind::Xxh128],
        (None, 40) => &[HashKind::Sha1],
        (None, 64) => &[HashKind::Sha256, HashKind::Blake3],
        (None, 90) => &[HashKind::C4],
        (None, len) => return Err(LineFault::UnknownLen(len)),
    };
    Ok(kinds.iter().map(|kind| Digest::parse(*kind, checksum)).collect::<Result<_, _>>()?)
}

/// Checksum and name of `NAME (file) = checksum`; `openssl` leaves the spaces at the brackets out.
fn tagged(line: &[u8]) -> Result<(Vec<Digest>, &[u8]), LineFault> {
    let parts = || {
        let open = line.iter().position(|byte| *byte == b'(')?;
        let equals = line.iter().rposition(|byte| *byte == b'=')?;
        let tag = line.get(..open)?;
        let tag = tag.strip_suffix(b" ").unwrap_or(tag);
        let name = line.get(open..equals)?.strip_prefix(b"(")?;
        let name = name.strip_suffix(b" ").unwrap_or(name).strip_suffix(b")")?;
        let checksum = line.get(equals..)?.strip_prefix(b"=")?.trim_ascii();
        let is_tag = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_/".contains(byte);
        (!tag.is_empty() && tag.len() <= TAG_MAX && tag.iter().all(is_tag)).then_some((tag, name, checksum))
    };
    let (tag, name, checksum) = parts().ok_or(LineFault::NoLine)?;
    let known = TAGS.iter().find(|(known, ..)| tag.eq_ignore_ascii_case(known));
    let Some((_, kind, is_backwards)) = known else {
        return Err(LineFault::UnknownKind(String::from_utf8_lossy(tag).into_owned()));
    };
    let mut digest = Digest::parse(*kind, checksum)?;
    if *is_backwards {
        digest.value.reverse();
    }
    Ok((vec![digest], name))
}

/// The name that an escaped one stands for.
fn unescaped(name: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(name.len());
    let mut bytes = name.iter();
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next()? {
                b'\\' => b'\\',
                b'n' => b'\n',
                b'r' => b'\r',
                _ => return None,
            },
            byte => *byte,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";
    const SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn kinds_and_path(line: &str, kind: Option<HashKind>) -> (Vec<HashKind>, String) {
        let line = parse(line.as_bytes(), 1, kind, None).unwrap().unwrap();
        let kinds = line.digests.iter().map(|digest| digest.kind).collect();
        (kinds, String::from_utf8(line.path).unwrap())
    }

    fn fault(line: &str) -> LineFault {
        parse(line.as_bytes(), 1, None, None).unwrap_err()
    }

    #[test]
    fn the_name_begins_after_two_characters_whatever_it_has() {
        for (rest, path) in [
            ("  a b ", "a b "),
            (" *a", "a"),
            ("  *a", "*a"),
            ("   a", " a"),
            (" a", "a"),
            ("  ./a//b", "a/b"),
            (r"  a\nb", r"a\nb"),
        ] {
            assert_eq!(kinds_and_path(&format!("{SHA256}{rest}"), Some(HashKind::Sha256)).1, path);
        }
        assert_eq!(kinds_and_path(&format!(r"\{SHA256}  a\\\nb\r"), None).1, "a\\\nb\r");
        assert_eq!(kinds_and_path(&format!("  {SHA256}  a"), None).1, "a");
    }

    #[test]
    fn the_function_is_that_of_the_line_then_of_the_list_then_of_the_digits() {
        let of = |line: &str, kind| kinds_and_path(line, kind).0;
        let sums = format!("{SHA256}  a");
        assert_eq!(of(&sums, None), [HashKind::Sha256, HashKind::Blake3]);
        assert_eq!(of(&sums, Some(HashKind::Blake3)), [HashKind::Blake3]);
        assert_eq!(of(&format!("BLAKE3 (a) = {SHA256}"), Some(HashKind::Sha256)), [HashKind::Blake3]);
        assert_eq!(of(&format!("{MD5}  a"), None), [HashKind::Md5, HashKind::Xxh128]);
        assert_eq!(of("XXH3_2d06800538d394c2  a", Some(HashKind::Xxh64)), [HashKind::Xxh3]);
        assert_eq!(of("2d06800538d394c2  a", None), [HashKind::Xxh64]);
        assert_eq!(of("2d06800538d394c2  a", Some(HashKind::Xxh3)), [HashKind::Xxh3]);
        let c4 = format!("c4{}  a", "1".repeat(88));
        assert_eq!(of(&c4, None), [HashKind::C4]);
    }

    #[test]
    fn tagged_lines_end_their_name_at_the_last_bracket() {
        let name = |line: String| kinds_and_path(&line, None).1;
        assert_eq!(name(format!("MD5 (a) = b) = {MD5}")), "a) = b");
        assert_eq!(name(format!("MD5(a (1))= {MD5}")), "a (1)");
        assert_eq!(name(format!(r"\MD5 (a\\b) = {MD5}")), r"a\b");
        let forwards = parse(b"XXH64 (a) = 0123456789abcdef", 1, None, None).unwrap().unwrap();
        let backwards = parse(b"XXH64_LE (a) = efcdab8967452301", 1, None, None).unwrap().unwrap();
        assert_eq!(forwards, backwards);
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        assert_eq!(fault("a file"), LineFault::UnknownLen(1));
        assert_eq!(fault("the list of files"), LineFault::NoLine);
        assert_eq!(fault(MD5), LineFault::NoLine);
        assert_eq!(fault(&format!("{MD5}  ")), LineFault::Path(PathFault::NoName));
        assert_eq!(fault(&format!("{MD5}  ../a")), LineFault::Path(PathFault::LeadsOut));
        assert_eq!(fault(&format!("{MD5}  /a")), LineFault::Path(PathFault::Absolute));
        assert_eq!(fault(&format!("{MD5}  a\0b")), LineFault::Path(PathFault::Zero));
        assert_eq!(fault(&format!("\\{MD5}  a\\tb")), LineFault::Escape);
        assert_eq!(fault(&format!("\\{MD5}  a\\")), LineFault::Escape);
        assert_eq!(fault("SHA512 (a) = 00"), LineFault::UnknownKind("SHA512".to_owned()));
        assert!(matches!(fault("SHA256 (a) = 00"), LineFault::Digest(_)));
        assert!(matches!(fault(&format!("c4{}  a", "0".repeat(88))), LineFault::Digest(_)));
        let other = parse(format!("{MD5}  a").as_bytes(), 1, Some(HashKind::Sha256), None);
        assert_eq!(other.unwrap_err().to_string(), "32 characters where sha256 has 64");
    }

    #[test]
    fn a_checksum_alone_is_that_of_the_file_that_the_list_is_called_after() {
        let alone = |line: &str| parse(line.as_bytes(), 1, Some(HashKind::Md5), Some(b"film.mov"));
        for line in [MD5.to_owned(), format!("  {MD5} "), MD5.to_uppercase()] {
            let line = alone(&line).unwrap().unwrap();
            assert_eq!((line.path.as_slice(), line.digests[0].kind), (&b"film.mov"[..], HashKind::Md5));
        }
        assert_eq!(alone(&format!("{MD5}  other")).unwrap().unwrap().path, b"other");
        assert_eq!(alone("no checksum").unwrap_err(), LineFault::NoLine);
        assert!(matches!(alone("abc").unwrap_err(), LineFault::Digest(_)));
    }

    #[test]
    fn a_name_with_backslashes_has_two_readings() {
        let reading =
            |name: &str| parse(format!("{MD5}  {name}").as_bytes(), 1, None, None).unwrap().unwrap();
        assert_eq!(reading("a/b").dos_path, None);
        let escaped = parse(format!(r"\{MD5}  a\\b").as_bytes(), 1, None, None).unwrap().unwrap();
        assert_eq!((escaped.path.as_slice(), escaped.dos_path), (&br"a\b"[..], None));
        assert_eq!(reading(r"a\b").path, br"a\b");
        assert_eq!(reading(r"a\b").dos_path, Some(Ok(b"a/b".to_vec())));
        assert_eq!(reading(r"a\..\..\b").dos_path, Some(Err(PathFault::LeadsOut)));
        assert_eq!(reading(r"C:\b").dos_path, Some(Err(PathFault::Absolute)));
    }
}
