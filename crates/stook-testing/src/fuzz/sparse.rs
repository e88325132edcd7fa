//! Sparse files of any bytes, and any operations on them.

use stook::extent::ByteRange;
use stook::plan::PlanOptions;
use stook::sparse::{CacheIndex, OnDifference, SparseBuffer, SparseOptions};

use crate::model::sparse::{Both, Operation};

/// Serialised sparse files: they are refused, or read, written and read back as the same.
pub fn sparse_read(data: &[u8]) {
    let Ok(file) = SparseBuffer::from_reader(data) else { return };
    let segments = file.segments();
    assert!(segments.windows(2).all(|pair| pair[0].range.end() <= pair[1].range.start()));
    let held: u64 = segments.iter().map(|segment| segment.range.len()).sum();
    assert_eq!(file.held_bytes(), held);
    let mut written = Vec::new();
    file.to_writer(&mut written).expect("writing to memory does not fail");
    let again = SparseBuffer::from_reader(written.as_slice()).expect("what was written is read");
    assert_eq!((again.segments(), again.counters()), (segments, file.counters()));
    assert_eq!(file.erase(ByteRange::to(u64::MAX)), held);
}

/// Indexes of caches on disk: they are refused, or return ranges of their source, and encoding them
/// again gives the same bytes.
pub fn sparse_cache_index(data: &[u8]) {
    let Ok(index) = CacheIndex::decode(data) else { return };
    for range in index.ranges() {
        assert!(!range.is_empty() && range.len() <= 65_536 && range.end() <= index.identity().len);
    }
    let written = index.encode();
    assert!(written.len() <= data.len());
    let again = CacheIndex::decode(&written).expect("what was written is read");
    assert_eq!(again.damaged_records(), 0);
    assert_eq!((again.name(), again.key(), again.identity()), (index.name(), index.key(), index.identity()));
    assert!(again.ranges().eq(index.ranges()));
    if index.damaged_records() == 0 {
        assert!(data.starts_with(&written), "there is one way to write an index");
    }
}

/// Positions of the model.
const LEN: usize = 4096;

/// Any operations, five bytes each, against the flat model.
pub fn sparse_model(data: &[u8]) {
    let Some((&[size, place], rest)) = data.split_first_chunk::<2>() else { return };
    let grain = [1, 3, 16, 1 << 16][usize::from(size) % 4];
    let base = [0, 12_345, u64::MAX - LEN as u64][usize::from(place) % 3];
    let mut both = Both::new(base, LEN, SparseOptions { grain, adopt_min: 4096, ..SparseOptions::default() });
    for code in rest.chunks_exact(5).take(300) {
        both.apply(&operation([code[0], code[1], code[2], code[3], code[4]]));
    }
    both.check(&PlanOptions { max_gap: 5, min_len: 9, max_len: 100, ..PlanOptions::default() });
}

fn operation([what, a, b, c, d]: [u8; 5]) -> Operation {
    let start = usize::from(u16::from_le_bytes([a, b])) % LEN;
    // Mostly short, so that there can be many.
    let len = if c < 224 { usize::from(c) % 24 } else { usize::from(c - 223) * 128 };
    let range = start..(start + len).min(LEN);
    let policy = [OnDifference::Error, OnDifference::Keep, OnDifference::Replace][usize::from(what >> 4) % 3];
    match what % 16 {
        0..=8 => {
            let odd = (d < 64).then_some(usize::from(d));
            Operation::Write { range, odd, policy, adopt: what % 16 > 6 }
        }
        9 | 10 => Operation::Erase { range },
        11 => Operation::Read { range },
        12 => Operation::Touch { range },
        13 => Operation::Evict { budget: usize::from(d) * 16, pinned: range },
        14 => Operation::Renew,
        _ => match d {
            0 => Operation::Clear,
            _ => Operation::Read { range },
        },
    }
}
