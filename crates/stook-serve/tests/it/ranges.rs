//! Ranges of every shape, against the bytes themselves.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::{Reply, Served, pattern};

const LEN: usize = 600_000;

static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| pattern(LEN));

/// A directory with one file, which is served for all cases.
static SERVED: LazyLock<(tempfile::TempDir, Served)> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("x.bin"), &*BYTES).unwrap();
    std::fs::write(directory.path().join("empty"), "").unwrap();
    super::settle();
    let served = Served::new(directory.path());
    (directory, served)
});

/// The first and the last byte of what a part has, the length of the whole, and its bytes.
type Part = (usize, usize, usize, Vec<u8>);

fn content_range(text: &str) -> (usize, usize, usize) {
    let (range, len) = text.strip_prefix("bytes ").unwrap().split_once('/').unwrap();
    let (first, last) = range.split_once('-').unwrap();
    (first.parse().unwrap(), last.parse().unwrap(), len.parse().unwrap())
}

/// The parts of an answer, of one or of several ranges.
fn parts(reply: &Reply) -> Vec<Part> {
    if let Some(range) = reply.header("content-range") {
        let (first, last, len) = content_range(range);
        return vec![(first, last, len, reply.body.clone())];
    }
    let kind = reply.header("content-type").unwrap();
    let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
    let (mut rest, mut parts) = (reply.body.as_slice(), Vec::new());
    let line = format!("\r\n--{boundary}");
    loop {
        rest = rest.strip_prefix(line.as_bytes()).expect("a part begins with the boundary");
        if rest == b"--\r\n" {
            return parts;
        }
        let end = rest.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
        let head = std::str::from_utf8(&rest[..end]).unwrap();
        let of = head.lines().find_map(|line| line.strip_prefix("Content-Range: ")).unwrap();
        let (first, last, len) = content_range(of);
        let bytes = &rest[end + 4..end + 4 + last + 1 - first];
        parts.push((first, last, len, bytes.to_vec()));
        rest = &rest[end + 4 + bytes.len()..];
    }
}

/// A range as it is written, and what it means of a file of this length.
fn spec() -> impl Strategy<Value = (String, Option<(usize, usize)>)> {
    let near =
        prop_oneof![0..LEN + 1000, 0..20_usize, LEN - 20..LEN + 20, Just(256 << 10), Just((256 << 10) - 1)];
    let len = prop_oneof![1..50_usize, 1..300_000_usize];
    prop_oneof![
        (near.clone(), len).prop_map(|(first, len)| {
            let last = first + len - 1;
            (format!("{first}-{last}"), (first < LEN).then(|| (first, last.min(LEN - 1))))
        }),
        near.clone().prop_map(|first| (format!("{first}-"), (first < LEN).then_some((first, LEN - 1)))),
        near.prop_map(|suffix| {
            (format!("-{suffix}"), (suffix > 0).then(|| (LEN - suffix.min(LEN), LEN - 1)))
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_range_has_the_bytes_that_are_there(specs in prop::collection::vec(spec(), 1..6)) {
        let text: Vec<&str> = specs.iter().map(|(text, _)| text.as_str()).collect();
        let reply = SERVED.1.range("/x.bin", &format!("bytes={}", text.join(", ")));
        let wanted: Vec<(usize, usize)> = specs.iter().filter_map(|(_, range)| *range).collect();
        let sum: usize = wanted.iter().map(|(first, last)| last + 1 - first).sum();
        prop_assert!(reply.is_whole);
        prop_assert_eq!(reply.header("accept-ranges"), Some("bytes"));
        if wanted.is_empty() {
            let all = format!("bytes */{LEN}");
            prop_assert_eq!((reply.status, reply.header("content-range")), (416, Some(all.as_str())));
        } else if sum > LEN {
            prop_assert!(reply.status == 200 && reply.body == *BYTES);
        } else {
            prop_assert_eq!(reply.status, 206);
            let expected: Vec<Part> = wanted
                .iter()
                .map(|(first, last)| (*first, *last, LEN, BYTES[*first..=*last].to_vec()))
                .collect();
            prop_assert!(parts(&reply) == expected, "{text:?}");
        }
    }
}

#[test]
fn a_head_says_what_the_whole_would_be_and_an_empty_file_has_no_range() {
    let served = &SERVED.1;
    let whole = served.get("/x.bin");
    assert!(whole.status == 200 && whole.body == *BYTES);
    // A range is of a GET.
    let head = served.ask("HEAD", "/x.bin", &[("Range", "bytes=0-1")]);
    assert_eq!((head.status, head.body.len()), (200, 0));
    for name in ["content-length", "etag", "last-modified", "content-type", "accept-ranges"] {
        assert!(head.header(name).is_some() && head.header(name) == whole.header(name), "{name}");
    }
    let empty = served.get("/empty");
    assert_eq!((empty.status, empty.header("content-length")), (200, Some("0")));
    let none = served.range("/empty", "bytes=0-");
    assert_eq!((none.status, none.header("content-range")), (416, Some("bytes */0")));
}

#[test]
fn many_ranges_and_such_as_are_none_give_the_whole() {
    let served = &SERVED.1;
    let many = format!("bytes={}", vec!["1-1"; 65].join(","));
    for field in [many.as_str(), "bytes=5-2", "lines=1-2", "bytes=x", "0-5"] {
        let reply = served.range("/x.bin", field);
        assert!(reply.status == 200 && reply.body == *BYTES, "{field}");
    }
}
