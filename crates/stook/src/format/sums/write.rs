//! Lines as the program of each hash function reads them with `-c`.

use crate::hash::{Digest, HashKind};

/// Longest line that `xxhsum` takes; at a longer one it ends.
const XXHSUM_LINE_MAX: usize = 32 << 10;

/// The line for a file: the checksum, two spaces, the path and a line feed. XXH3 is written as
/// `XXH3 (path) = checksum`, because `xxhsum` of before 0.8.2 reads it in no other way.
///
/// Any bytes of a path can be written, and [`SumsReader`](super::SumsReader) reads them all. A path
/// that a program takes for its standard input is written with `./` before it.
pub fn line(digest: &Digest, path: &[u8]) -> Vec<u8> {
    let is_escaped = path.iter().any(|byte| matches!(byte, b'\\' | b'\n' | b'\r'));
    let digits = digest.to_string();
    let mut line = Vec::with_capacity(digits.len().saturating_add(path.len()).saturating_add(16));
    if is_escaped {
        line.push(b'\\');
    }
    let is_tagged = digest.kind == HashKind::Xxh3;
    if is_tagged {
        line.extend_from_slice(b"XXH3 (");
    } else {
        line.extend_from_slice(digits.as_bytes());
        line.extend_from_slice(b"  ");
    }
    if matches!(path, b"-" | b"stdin") {
        line.extend_from_slice(b"./");
    }
    for byte in path {
        match byte {
            b'\\' => line.extend_from_slice(b"\\\\"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            byte => line.push(*byte),
        }
    }
    if is_tagged {
        line.extend_from_slice(b") = ");
        line.extend_from_slice(digits.as_bytes());
    }
    line.push(b'\n');
    line
}

/// Whether the program of this function reads the line for this path with `-c`. `b3sum` reads names
/// in UTF-8 only, and ends at another one; `xxhsum` ends at a line of more than 32 KiB. There is no
/// such program for C4.
pub fn is_read_by_its_program(kind: HashKind, path: &[u8]) -> bool {
    match kind {
        HashKind::Blake3 => std::str::from_utf8(path).is_ok_and(|path| !path.contains('\u{fffd}')),
        HashKind::Xxh3 | HashKind::Xxh64 | HashKind::Xxh128 => path.len() < XXHSUM_LINE_MAX / 2,
        HashKind::C4 => false,
        HashKind::Sha256 | HashKind::Sha1 | HashKind::Md5 => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::sums::SumsReader;

    #[test]
    fn lines_are_byte_for_byte_as_the_programs_write_them() {
        let line = |kind, path: &str| {
            let line = line(&Digest::of(kind, b""), path.as_bytes());
            String::from_utf8(line).unwrap()
        };
        let md5 = "d41d8cd98f00b204e9800998ecf8427e";
        assert_eq!(line(HashKind::Md5, " a *b "), format!("{md5}   a *b \n"));
        assert_eq!(line(HashKind::Md5, "a\\b\nc\r"), format!("\\{md5}  a\\\\b\\nc\\r\n"));
        assert_eq!(line(HashKind::Md5, "-"), format!("{md5}  ./-\n"));
        assert_eq!(line(HashKind::Xxh3, "a b"), "XXH3 (a b) = 2d06800538d394c2\n");
        assert_eq!(line(HashKind::Xxh3, "a\\b"), "\\XXH3 (a\\\\b) = 2d06800538d394c2\n");
    }

    #[test]
    fn what_is_written_is_read_for_each_function_and_any_bytes_of_a_name() {
        let every: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
        for kind in HashKind::ALL {
            let digest = Digest::of(kind, b"pictures");
            for path in [&every, &b"stdin"[..], b"XXH3 (a) = b", b"a/-", b"# a", b"\xff)"] {
                let written = line(&digest, path);
                let mut reader = SumsReader::new(&written[..], Some(kind));
                let read = reader.next_line().unwrap().unwrap().unwrap();
                assert_eq!((read.digests, read.path), (vec![digest.clone()], path.to_vec()));
                assert!(reader.next_line().unwrap().is_none());
            }
        }
    }
}
