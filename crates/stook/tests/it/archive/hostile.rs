//! Archives that lie. Each is refused with file and offset, and nothing is made.

use std::fs;
use std::path::Path;

use stook::archive::{Archive, Error, OpenOptions};

use super::made::{end, header, link, member, pax, sign};
use super::{contents, open};

/// What opening these bytes meets; and nothing may lie beside them afterwards.
fn refused(parts: &[Vec<u8>]) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bad.tar");
    fs::write(&path, parts.concat()).unwrap();
    let error = Archive::open(&path, OpenOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. } | Error::Unsupported { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("bad.tar") && text.contains("offset"), "{text}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was made");
    text
}

/// A header that is no regular one by these bytes.
fn changed(mut block: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    block[at..at + bytes.len()].copy_from_slice(bytes);
    sign(&mut block);
    block
}

#[test]
fn lengths_that_lie_are_refused() {
    let good = || member(b"good", b'0', b"x");
    assert!(refused(&[good(), header(b"long", b'0', 1 << 30), end()]).contains("reaches past the end"));
    let negative = changed(header(b"n", b'0', 0), 124, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe");
    assert!(refused(&[good(), negative, end()]).contains("size"));
    let huge = changed(header(b"n", b'0', 0), 124, b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
    assert!(refused(&[good(), huge, end()]).contains("size"));
    let letters = changed(header(b"n", b'0', 0), 124, b"zzzzzzzzzzz\0");
    assert!(refused(&[good(), letters, end()]).contains("octal"));
    let wide = pax(&[("size", b"9223372036854775807")]);
    assert!(refused(&[wide, member(b"a", b'0', b"x"), end()]).contains("reaches past"));
    let wider = pax(&[("size", b"18446744073709551615")]);
    assert!(refused(&[wider, member(b"a", b'0', b"x"), end()]).contains("`size`"));
}

#[test]
fn extended_headers_that_lie_are_refused() {
    let a = || member(b"a", b'0', b"x");
    for body in [
        &b"99999999999999999999 path=a\n"[..],
        b"18446744073709551615 p=a\n",
        b"9 path=a",
        b"path=a\n",
        b"4 a\n",
    ] {
        refused(&[member(b"p", b'x', body), a(), end()]);
    }
    assert!(refused(&[header(b"p", b'x', 1 << 32), a(), end()]).contains("at most"));
    assert!(refused(&[member(b"n", b'L', &[b'x'; 70_000]), a(), end()]).contains("at most"));
    let long = pax(&[("path", &[b'y'; 70_000])]);
    assert!(refused(&[long, a(), end()]).contains("at most"));
    assert!(refused(&[pax(&[("path", b"a\0b")]), a(), end()]).contains("path"));
    assert!(refused(&[pax(&[("path", b"a")]), end()]).contains("no header"));
    let endless: Vec<Vec<u8>> = std::iter::repeat_with(|| pax(&[("path", b"a")])).take(100).collect();
    assert!(refused(&endless).contains("too many"));
}

#[test]
fn sparse_maps_that_lie_are_refused() {
    let body = || member(b"s", b'0', b"0123456789");
    for (len, map) in [
        (20, "0,5,4,5"),
        (20, "10,5,0,5"),
        (9, "0,10"),
        (20, "0,5"),
        (20, "0,5,6"),
        (20, "18446744073709551615,10"),
        (20, "9223372036854775807,10"),
        (20, "a,b"),
    ] {
        let len = format!("{len}");
        let head = pax(&[("GNU.sparse.size", len.as_bytes()), ("GNU.sparse.map", map.as_bytes())]);
        refused(&[head, body(), end()]);
    }
    let one =
        || pax(&[("GNU.sparse.major", b"1"), ("GNU.sparse.minor", b"0"), ("GNU.sparse.realsize", b"99")]);
    for map in [&b"1\n0\n"[..], b"x\n", b"99999999\n", b"123456789012345678901234567890\n", b"1\n0\n98\n"] {
        refused(&[one(), member(b"s", b'0', map), end()]);
    }
    let newer = pax(&[("GNU.sparse.major", b"2"), ("GNU.sparse.minor", b"0"), ("GNU.sparse.realsize", b"9")]);
    assert!(refused(&[newer, body(), end()]).contains("2.0"));
    // Old GNU: two pieces that overlap, in the header itself.
    let mut old = header(b"s", b'S', 10);
    for (at, number) in [(386, 0_u64), (398, 5), (410, 3), (422, 5), (483, 20)] {
        old[at..at + 12].copy_from_slice(format!("{number:011o}\0").as_bytes());
    }
    old[257..265].copy_from_slice(b"ustar  \0");
    sign(&mut old);
    refused(&[old, vec![1; 512], end()]);
}

#[test]
fn a_map_that_never_ends_takes_no_memory() {
    // Each block says that another follows.
    let mut block = vec![0_u8; 512];
    for entry in 0..21 {
        block[entry * 24..entry * 24 + 24].copy_from_slice(b"00000000000\x0000000000000\0");
    }
    block[504] = 1;
    let mut head = header(b"s", b'S', 0);
    head[482] = 1;
    head[483..495].copy_from_slice(b"00000000000\0");
    sign(&mut head);
    let parts: Vec<Vec<u8>> = std::iter::once(head).chain(std::iter::repeat_n(block, 60_000)).collect();
    assert!(refused(&parts).contains("pieces"));
}

#[test]
fn what_is_no_tar_between_members_is_refused() {
    assert!(refused(&[member(b"a", b'0', b"x"), vec![b'?'; 512], end()]).contains("checksum"));
    assert!(refused(&[member(b"v", b'M', b""), end()]).contains("volumes"));
    assert!(refused(&[changed(header(b"", b'0', 0), 0, b"\0"), end()]).contains("no name"));
}

/// Before: no member of it could be had.
#[test]
fn damage_costs_the_members_after_it_where_those_before_are_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bad.tar");
    let [one, two] = [b"one", b"two"].map(|name| member(name, b'0', &[name[0]; 700]));
    let whole = [&one[..], &two, &end()].concat();
    let options = || OpenOptions { partial: true, ..OpenOptions::default() };
    let mut flipped = whole.clone();
    flipped[one.len() + 3] ^= 1;
    let newer = pax(&[("GNU.sparse.major", b"2"), ("GNU.sparse.minor", b"0"), ("GNU.sparse.realsize", b"9")]);
    for bad in [flipped, whole[..one.len() + 600].to_vec(), [&one[..], &newer, &two, &end()].concat()] {
        fs::write(&path, &bad).unwrap();
        assert!(Archive::open(&path, OpenOptions::default()).is_err());
        for _ in 0..2 {
            let archive = Archive::open(&path, options()).unwrap();
            let damage = archive.damage().unwrap().to_string();
            assert!(damage.contains("bad.tar") && damage.contains("offset"), "{damage}");
            assert!(!archive.has_end());
            assert_eq!(contents(&archive).len(), 1);
            assert!(archive.find(b"one").is_some());
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "an index has no place for damage");
    }
    fs::write(&path, bad_front(&whole)).unwrap();
    assert!(Archive::open(&path, options()).is_err(), "there is nothing before it");
    fs::write(&path, &whole).unwrap();
    assert!(Archive::open(&path, options()).unwrap().damage().is_none());
}

/// The same with a first header that is damaged.
fn bad_front(tar: &[u8]) -> Vec<u8> {
    let mut bad = tar.to_vec();
    bad[3] ^= 1;
    bad
}

#[test]
fn an_index_that_would_be_too_large_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.tar");
    let members: Vec<u8> = (0..100).flat_map(|n| member(format!("{n}").as_bytes(), b'0', b"")).collect();
    fs::write(&path, [members, end()].concat()).unwrap();
    let options = OpenOptions { max_index_bytes: 5000, ..OpenOptions::default() };
    let error = Archive::open(&path, options).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

#[test]
fn any_bit_of_a_header_that_is_flipped_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.tar");
    let parts = [
        member(b"a", b'0', b"1"),
        pax(&[("path", b"b")]),
        member(b"x", b'0', b"2"),
        link(b"l", b'2', b"a"),
        end(),
    ];
    let bytes = parts.concat();
    let before = {
        fs::write(&path, &bytes).unwrap();
        contents(&open(&path).unwrap())
    };
    let headers = [0, 1024, 2048, 3072];
    for at in (0..bytes.len()).filter(|at| *at < 3584) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(&path, &flipped).unwrap();
        let in_header = headers.iter().any(|start| (*start..start + 512).contains(&at));
        match open(&path) {
            Err(error) => assert!(in_header || error.to_string().contains("offset"), "{at}: {error}"),
            Ok(archive) => {
                // Blanks and zeroes mean the same around a checksum.
                let is_blank = in_header && (154..156).contains(&(at % 512));
                assert!(!in_header || is_blank || contents(&archive) == before, "{at} was not noticed");
            }
        }
    }
}

#[test]
fn what_is_no_archive_is_not_taken_for_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    for bytes in [vec![], vec![0; 100], vec![b'a'; 5000], b"\x7fELF".repeat(400), vec![0; 2 << 20]] {
        fs::write(&path, &bytes).unwrap();
        assert!(matches!(open(&path), Err(Error::NotAnArchive { .. })), "{} bytes", bytes.len());
    }
    assert!(matches!(open(dir.path()), Err(Error::NotAnArchive { .. })));
    assert!(matches!(open(Path::new("/dev/null")), Err(Error::NotAnArchive { .. })));
    assert!(matches!(open(&dir.path().join("absent")), Err(Error::Core(_))));
}
