//! Sparse files written and read back, whole and damaged.

use stook::sparse::{OnDifference, SparseBuffer, SparseError, SparseOptions};

use super::range;

fn some_file() -> SparseBuffer {
    made_with(false)
}

fn made_with(exact: bool) -> SparseBuffer {
    let options = SparseOptions {
        budget_bytes: 1 << 30,
        grain: 32,
        adopt_min: 5000,
        first_touch: 1 << 40,
        exact,
        wipe: exact,
    };
    let file = SparseBuffer::with_options(options).unwrap();
    file.set_modified_ns(Some(-5));
    for at in 0..6 {
        file.write(at * 50, &[at as u8; 40], OnDifference::Error).unwrap();
    }
    file.write(u64::MAX - 3, b"end", OnDifference::Error).unwrap();
    file.read(3, &mut [0; 20]).unwrap();
    file.erase(range(45, 60));
    file.evict_to(200);
    file
}

fn written(file: &SparseBuffer) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.to_writer(&mut bytes).unwrap();
    bytes
}

#[test]
fn everything_comes_back() {
    let file = some_file();
    let bytes = written(&file);
    let back = SparseBuffer::from_reader(bytes.as_slice()).unwrap();
    assert_eq!(back.options(), file.options(), "the configuration is kept");
    assert_eq!(back.counters(), file.counters());
    assert!(back.counters().last_read_ns.is_some() && back.counters().last_write_ns.is_some());
    assert_eq!(back.modified_ns(), Some(-5));
    assert_eq!(back.segments(), file.segments());
    // The clock continues where it was, so that later touches are younger.
    let old = file.segments().iter().map(|segment| segment.last_touch).max().unwrap();
    back.touch(range(0, 1000));
    assert!(back.extent_at(u64::MAX - 2).unwrap().last_touch <= old);
    assert!(back.extents().iter().any(|extent| back.extent_at(extent.start()).unwrap().last_touch > old));
    for extent in file.extents() {
        assert_eq!(back.read_bytes(extent).unwrap(), file.read_bytes(extent).unwrap());
    }
}

#[test]
fn an_exact_count_of_touches_goes_on_where_it_was() {
    let file = made_with(true);
    let back = SparseBuffer::from_reader(written(&file).as_slice()).unwrap();
    assert_eq!(back.options(), file.options());
    assert_eq!((back.counters(), back.segments()), (file.counters(), file.segments()));
    // Seven writes and a read.
    assert_eq!((back.next_touch(), file.next_touch()), ((1 << 40) + 8, (1 << 40) + 8));
}

#[test]
fn what_follows_is_not_read() {
    let mut bytes = written(&some_file());
    let len = bytes.len();
    bytes.extend(b"more");
    let mut rest = bytes.as_slice();
    SparseBuffer::from_reader(&mut rest).unwrap();
    assert_eq!(rest, b"more");
    assert_eq!(bytes.len(), len + 4);
}

#[test]
fn large_files_come_back_group_by_group() {
    let file = SparseBuffer::new();
    let noise: Vec<u8> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    file.adopt(77, noise.clone().into(), OnDifference::Error).unwrap();
    for at in 0..10_000 {
        file.write(10_000_000 + at * 3, &[at as u8], OnDifference::Error).unwrap();
    }
    let back = SparseBuffer::from_reader(written(&file).as_slice()).unwrap();
    assert_eq!(back.segments(), file.segments());
    assert_eq!(back.read_bytes(range(77, 3_000_077)).unwrap(), noise);
}

#[test]
fn cut_short_at_any_byte_it_is_refused() {
    let bytes = written(&some_file());
    for len in 0..bytes.len() {
        match SparseBuffer::from_reader(&bytes[..len]).unwrap_err() {
            SparseError::Damaged { offset, .. } => assert!(offset <= len as u64),
            other => panic!("{len} bytes: {other}"),
        }
    }
}

#[test]
fn any_flipped_bit_is_noticed() {
    let bytes = written(&some_file());
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        SparseBuffer::from_reader(flipped.as_slice()).unwrap_err();
    }
}

#[test]
fn other_versions_and_other_files_are_told_apart() {
    let bytes = written(&some_file());
    for version in [0_u16, 2, 700] {
        let mut other = bytes.clone();
        other[8..10].copy_from_slice(&version.to_le_bytes());
        let error = SparseBuffer::from_reader(other.as_slice()).unwrap_err();
        assert!(matches!(error, SparseError::Version { found, known: 1 } if found == version));
    }
    let error = SparseBuffer::from_reader(b"PK\x03\x04 and more".as_slice()).unwrap_err();
    assert!(matches!(error, SparseError::NotASparseFile { .. }));
}

/// Position, touch and length.
type Entry = (u64, u64, u32);

/// A header and one group, as the document says, written by hand.
fn by_hand(grain: u32, segments: &[Entry], body: &[u8]) -> Vec<u8> {
    let mut out = b"\x89STKSPR\n".to_vec();
    out.extend([1, 0, 0, 0]);
    out.extend(grain.to_le_bytes());
    out.extend(16_384_u32.to_le_bytes());
    out.extend([0; 4]);
    out.extend(u64::MAX.to_le_bytes());
    out.extend(0_u64.to_le_bytes());
    out.extend(1000_u64.to_le_bytes());
    out.extend([0; 8 + 64 + 16]);
    out.extend((segments.len() as u64).to_le_bytes());
    out.extend((body.len() as u64).to_le_bytes());
    out.extend([0; 4]);
    out.extend(crc32c::crc32c(&out).to_le_bytes());
    assert_eq!(out.len(), 160);
    let mut group = (segments.len() as u32).to_le_bytes().to_vec();
    group.extend((body.len() as u32).to_le_bytes());
    for (start, touch, len) in segments {
        group.extend(start.to_le_bytes());
        group.extend(touch.to_le_bytes());
        group.extend(len.to_le_bytes());
    }
    group.extend(body);
    group.extend(crc32c::crc32c(&group).to_le_bytes());
    out.extend(group);
    out.extend([0; 8]);
    out.extend(crc32c::crc32c(&[0; 8]).to_le_bytes());
    out
}

#[test]
fn the_bytes_are_those_of_the_document() {
    let bytes = by_hand(8, &[(5, 3, 4), (9, 7, 1), (100, 1, 2)], b"abcdexy");
    let file = SparseBuffer::from_reader(bytes.as_slice()).unwrap();
    assert_eq!(file.extents(), [range(5, 10), range(100, 102)]);
    assert_eq!(file.read_bytes(range(5, 10)).unwrap(), b"abcde".as_slice());
}

#[test]
fn segments_that_cannot_be_are_refused_though_their_checksums_are_right() {
    let cases: [(&str, u32, &[Entry], &[u8]); 8] = [
        ("overlap", 8, &[(5, 1, 4), (8, 1, 1)], b"abcde"),
        ("out of order", 8, &[(50, 1, 4), (5, 1, 1)], b"abcde"),
        ("empty", 8, &[(5, 1, 0)], b""),
        ("past the last position", 8, &[(u64::MAX, 1, 1)], b"a"),
        ("longer than the grain", 3, &[(0, 1, 4)], b"abcd"),
        ("more than there is", 8, &[(0, 1, 5)], b"abcd"),
        ("less than there is", 8, &[(0, 1, 3)], b"abcd"),
        ("touched in the future", 8, &[(0, 1001, 4)], b"abcd"),
    ];
    for (what, grain, segments, body) in cases {
        let error = SparseBuffer::from_reader(by_hand(grain, segments, body).as_slice()).unwrap_err();
        assert!(matches!(error, SparseError::Damaged { .. }), "{what}: {error}");
    }
    let error = SparseBuffer::from_reader(by_hand(0, &[], b"").as_slice()).unwrap_err();
    assert!(matches!(error, SparseError::Damaged { offset: 0, .. }), "{error}");
}

#[test]
fn a_reader_that_fails_is_not_taken_for_damage() {
    struct Failing;
    impl std::io::Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("no more"))
        }
    }
    let error = SparseBuffer::from_reader(Failing).unwrap_err();
    assert!(matches!(error, SparseError::Io { operation: "read", .. }));
    let mut little = [0; 100];
    let error = some_file().to_writer(little.as_mut_slice()).unwrap_err();
    assert!(matches!(error, SparseError::Io { operation: "write", .. }));
}
