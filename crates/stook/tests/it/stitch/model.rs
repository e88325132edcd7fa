//! Random layouts against flat bytes.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use stook::extent::ByteRange;
use stook::source::{MemorySource, Source};
use stook::stitch::{Pieces, VirtualFile};

use super::read_through;

/// A piece, and the bytes that it has.
#[derive(Debug, Clone)]
enum Piece {
    Body { number: u32, offset: usize, len: usize },
    Bytes(Vec<u8>),
    Fill(u8, u16),
}

const BODIES: u32 = 5;
const BODY_LEN: usize = 3000;

fn body(number: u32) -> Vec<u8> {
    (0..BODY_LEN).map(|at| (at * 7 + number as usize * 31) as u8).collect()
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        (0..BODIES, 0..BODY_LEN, 0..BODY_LEN).prop_map(|(number, one, other)| {
            let (offset, end) = (one.min(other), one.max(other));
            Piece::Body { number, offset, len: end - offset }
        }),
        proptest::collection::vec(any::<u8>(), 0..50).prop_map(Piece::Bytes),
        (any::<u8>(), 0..500_u16).prop_map(|(byte, len)| Piece::Fill(byte, len)),
    ]
}

fn built(all: &[Piece]) -> (VirtualFile, Vec<u8>) {
    let (mut pieces, mut flat) = (Pieces::new(), Vec::new());
    for piece in all {
        match piece {
            Piece::Body { number, offset, len } => {
                pieces.body(*number, *offset as u64, *len as u64);
                flat.extend_from_slice(&body(*number)[*offset..offset + len]);
            }
            Piece::Bytes(bytes) => {
                pieces.bytes(Bytes::copy_from_slice(bytes));
                flat.extend_from_slice(bytes);
            }
            Piece::Fill(byte, len) => {
                pieces.fill(*byte, u64::from(*len));
                flat.resize(flat.len() + usize::from(*len), *byte);
            }
        }
    }
    let bodies: Vec<Arc<dyn Source>> = (0..BODIES)
        .map(|number| Arc::new(MemorySource::new(number.to_string(), body(number))) as Arc<dyn Source>)
        .collect();
    (VirtualFile::new("made", pieces, Arc::new(bodies)).unwrap(), flat)
}

fn range(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_range_has_the_bytes_of_the_flat_file(
        all in proptest::collection::vec(piece(), 0..40),
        reads in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..20),
    ) {
        let (file, flat) = built(&all);
        prop_assert_eq!(file.len(), flat.len() as u64);
        prop_assert!(read_through(&file).unwrap() == flat);
        for (one, other) in reads {
            let (one, other) = (one.index(flat.len() + 1), other.index(flat.len() + 1));
            let (start, end) = (one.min(other), one.max(other));
            let read = file.read_at(range(start as u64, end as u64)).unwrap();
            prop_assert!(read == flat[start..end]);
        }
        prop_assert!(file.read_at(range(0, flat.len() as u64 + 1)).is_err());
    }

    /// A virtual file of virtual files.
    #[test]
    fn they_lie_within_one_another(all in proptest::collection::vec(piece(), 1..20)) {
        let (inner, flat) = built(&all);
        let len = inner.len();
        let mut pieces = Pieces::new();
        pieces.body(0, len / 2, len - len / 2);
        pieces.body(0, 0, len / 2);
        let bodies: Vec<Arc<dyn Source>> = vec![Arc::new(inner)];
        let outer = VirtualFile::new("outer", pieces, Arc::new(bodies)).unwrap();
        let half = flat.len() / 2;
        prop_assert!(read_through(&outer).unwrap() == [&flat[half..], &flat[..half]].concat());
    }
}

#[test]
fn every_byte_of_these_counts_of_pieces_is_where_it_belongs() {
    for count in [0, 1, 12, 13, 14, 16_384] {
        let all: Vec<Piece> = (0..count)
            .map(|at| match at % 3 {
                0 => Piece::Body { number: at as u32 % BODIES, offset: at % 100, len: 1 + at % 5 },
                1 => Piece::Bytes(vec![at as u8; 1 + at % 3]),
                _ => Piece::Fill(at as u8, 1),
            })
            .collect();
        let (file, flat) = built(&all);
        assert!(read_through(&file).unwrap() == flat, "{count}");
        for at in (0..flat.len()).step_by(1 + count / 50) {
            let end = (at + 7).min(flat.len());
            assert_eq!(file.read_at(range(at as u64, end as u64)).unwrap(), flat[at..end], "{count}: {at}");
        }
    }
}

#[test]
fn touching_slices_of_one_body_are_one_piece_and_no_bytes_are_none() {
    let all: Vec<Piece> = (0..100).map(|at| Piece::Body { number: 1, offset: at * 10, len: 10 }).collect();
    assert_eq!(built(&all).0.pieces(), 1);
    let none = [Piece::Bytes(Vec::new()), Piece::Fill(3, 0), Piece::Body { number: 0, offset: 9, len: 0 }];
    let (file, _) = built(&none);
    assert_eq!((file.pieces(), file.len(), file.piece_at(0)), (0, 0, None));
    let fills = [Piece::Fill(1, 5), Piece::Fill(1, 6), Piece::Fill(2, 1)];
    assert_eq!(built(&fills).0.pieces(), 2);
    let mut pieces = Pieces::new();
    pieces.fill(0, i64::MAX as u64);
    pieces.fill(1, 1);
    assert!(VirtualFile::new("long", pieces, Arc::new(())).is_err());
}

#[test]
fn many_threads_read_one_file_without_a_cursor() {
    let all: Vec<Piece> = (0..400)
        .map(|at| Piece::Body { number: at % BODIES, offset: at as usize, len: 100 + at as usize })
        .collect();
    let (file, flat) = built(&all);
    std::thread::scope(|scope| {
        for thread in 0..8_usize {
            let (file, flat) = (&file, &flat);
            scope.spawn(move || {
                for step in 0..200 {
                    let start = (thread * 7919 + step * 4241) % flat.len();
                    let end = (start + 5000).min(flat.len());
                    assert_eq!(file.read_at(range(start as u64, end as u64)).unwrap(), flat[start..end]);
                }
            });
        }
    });
}
