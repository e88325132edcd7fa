//! What a well-known sparse file in memory got wrong, one by one.

use bytes::Bytes;
use stook::plan::PlanOptions;
use stook::sparse::{OnDifference, SparseBuffer, SparseError, SparseOptions, Written};

use super::range;

fn with(blocks: &[(u64, &[u8])]) -> SparseBuffer {
    let file = SparseBuffer::new();
    for (position, bytes) in blocks {
        file.write(*position, bytes, OnDifference::Error).unwrap();
    }
    file
}

fn contents(file: &SparseBuffer) -> Vec<(u64, Vec<u8>)> {
    let mut contents = Vec::new();
    for extent in file.extents() {
        let mut bytes = Vec::new();
        file.with_pieces(extent, |piece| bytes.extend_from_slice(piece)).unwrap();
        contents.push((extent.start(), bytes));
    }
    contents
}

/// What is held, without touching or counting anything.
fn quiet(file: &SparseBuffer) -> Vec<(u64, Vec<u8>)> {
    let mut copy = Vec::new();
    file.to_writer(&mut copy).unwrap();
    contents(&SparseBuffer::from_reader(copy.as_slice()).unwrap())
}

#[test]
fn a_difference_is_noticed_at_any_byte_of_the_overlap() {
    let file = with(&[(10, b"abcdef")]);
    for at in 0..6 {
        let mut bytes = *b"abcdef";
        bytes[at] ^= 1;
        let refused = file.write(10, &bytes, OnDifference::Error).unwrap_err();
        assert!(matches!(refused, SparseError::Differs { offset, .. } if offset == 10 + at as u64));
    }
    assert_eq!(quiet(&file), [(10, b"abcdef".to_vec())]);
}

#[test]
fn an_overlap_at_the_front_is_compared_and_not_replaced() {
    let file = with(&[(10, b"abcdef")]);
    // From before it into it: the overlap is its front.
    let refused = file.write(7, b"xyzabX", OnDifference::Error).unwrap_err();
    assert!(matches!(refused, SparseError::Differs { offset: 12, .. }), "{refused}");
    assert_eq!(quiet(&file), [(10, b"abcdef".to_vec())]);
    let written = file.write(7, b"xyzabc", OnDifference::Error).unwrap();
    assert_eq!(written, Written { added: 3, kept: 3, replaced: 0 });
    assert_eq!(quiet(&file), [(7, b"xyzabcdef".to_vec())]);
}

#[test]
fn a_write_that_bridges_blocks_is_compared_with_each_of_them() {
    let blocks: &[(u64, &[u8])] = &[(0, b"aaaa"), (8, b"bbbb"), (16, b"cccc")];
    let whole = b"aaaa....bbbb....cccc";
    for at in (0..4).chain(8..12).chain(16..20) {
        let file = with(blocks);
        let mut bytes = *whole;
        bytes[at] = b'!';
        let refused = file.write(0, &bytes, OnDifference::Error).unwrap_err();
        assert!(matches!(refused, SparseError::Differs { offset, .. } if offset == at as u64));
        assert_eq!(file.extents(), [range(0, 4), range(8, 12), range(16, 20)], "nothing was bridged");
    }
    let file = with(blocks);
    let written = file.write(0, whole, OnDifference::Error).unwrap();
    assert_eq!(written, Written { added: 8, kept: 12, replaced: 0 });
    assert_eq!(quiet(&file), [(0, whole.to_vec())]);
}

#[test]
fn a_write_that_fails_leaves_everything_as_it_was() {
    let file = with(&[(0, b"aaaa"), (8, b"bbbb"), (16, b"cccc")]);
    let before = file.counters();
    for (position, bytes, at) in
        [(2, b"aa....bbbb....ccX".as_slice(), 18), (0, b"aaaa....bbX", 10), (15, b".cccX", 19)]
    {
        let refused = file.write(position, bytes, OnDifference::Error).unwrap_err();
        assert!(matches!(refused, SparseError::Differs { offset, .. } if offset == at));
        let refused = file.adopt(position, Bytes::copy_from_slice(bytes), OnDifference::Error).unwrap_err();
        assert!(matches!(refused, SparseError::Differs { offset, .. } if offset == at));
    }
    assert_eq!(file.counters(), before, "a write that fails is not counted");
    assert_eq!(quiet(&file), [(0, b"aaaa".to_vec()), (8, b"bbbb".to_vec()), (16, b"cccc".to_vec())]);
    let sized = with(&[(0, &[7; 100_000])]);
    let mut other = vec![7; 200_000];
    other[99_999] = 8;
    let refused = sized.write(0, &other, OnDifference::Error).unwrap_err();
    assert!(matches!(refused, SparseError::Differs { offset: 99_999, .. }));
    assert_eq!(sized.extents(), [range(0, 100_000)]);
}

#[test]
fn positions_do_not_wrap() {
    let file = SparseBuffer::new();
    let minus_one = u64::MAX;
    for (position, len) in [(minus_one, 2), (u64::MAX - 3, 4), (u64::MAX - 100, 1000)] {
        let refused = file.write(position, &vec![1; len], OnDifference::Replace).unwrap_err();
        assert!(matches!(refused, SparseError::TooFar { .. }), "{position} + {len}: {refused}");
    }
    file.write(u64::MAX - 3, b"end", OnDifference::Error).unwrap();
    let refused = file.write(minus_one, b"x", OnDifference::Error).unwrap_err();
    assert!(matches!(refused, SparseError::TooFar { position: u64::MAX, len: 1 }));
    assert!(matches!(file.read(minus_one, &mut [0; 2]), Err(SparseError::TooFar { .. })));
    // The last position there is.
    assert_eq!(file.extents(), [range(u64::MAX - 3, u64::MAX)]);
    assert_eq!(file.end(), u64::MAX);
    assert!(file.has(range(u64::MAX, u64::MAX)), "nothing of nothing is missing");
    let needed = file.need(range(u64::MAX - 10, u64::MAX), &PlanOptions::default()).unwrap();
    assert_eq!(needed, [range(u64::MAX - 10, u64::MAX - 3)]);
    assert_eq!(file.erase(range(0, u64::MAX)), 3);
}

#[test]
fn the_order_of_touches_holds_beyond_32_bits() {
    let options = SparseOptions { first_touch: u64::from(u32::MAX) - 600, ..SparseOptions::default() };
    let file = SparseBuffer::with_options(options).unwrap();
    for block in 0..4 {
        file.write(block * 1000, &[block as u8; 10], OnDifference::Error).unwrap();
    }
    let mut touches = Vec::new();
    // Across the boundary, in an order that is not that of the positions.
    for _ in 0..300 {
        for block in [2, 0, 3, 1] {
            file.read(block * 1000, &mut [0; 10]).unwrap();
        }
        touches.push(file.extent_at(1000).unwrap().last_touch);
    }
    assert!(touches.is_sorted_by(|a, b| a < b));
    assert!(touches[0] < 1 << 32 && touches[299] > 1 << 32, "{} to {}", touches[0], touches[299]);
    for gone in [2, 0, 3, 1] {
        assert!(file.has(range(gone * 1000, gone * 1000 + 10)));
        assert_eq!(file.evict_to(file.held_bytes() - 1), 10);
        assert!(!file.has(range(gone * 1000, gone * 1000 + 10)), "{gone} should have gone");
    }
}

#[test]
fn refusals_say_where() {
    let file = with(&[(10, b"abc")]);
    refused_message(&file);
    let error = file.read(9, &mut [0; 4]).unwrap_err();
    assert_eq!(error.to_string(), "cannot read [9, 13): [9, 10) is not held");
}

fn refused_message(file: &SparseBuffer) {
    let error = file.write(8, b"..aX", OnDifference::Error).unwrap_err();
    let said = "cannot write [8, 12): the byte at 11 is held already and differs (in [10, 12))";
    assert_eq!(error.to_string(), said);
}

#[test]
fn a_refusal_counts_nothing_and_touches_nothing() {
    let file = with(&[(0, b"aaaa"), (10, b"bbbb")]);
    let before = (file.segments(), file.counters());
    file.write(2, b"aa......bX", OnDifference::Error).unwrap_err();
    assert_eq!((file.segments(), file.counters()), before);
    file.read(0, &mut [0; 5]).unwrap_err();
    assert_eq!((file.segments(), file.counters()), before);
}
