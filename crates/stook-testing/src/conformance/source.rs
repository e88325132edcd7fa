//! What every source must do, as `stook::source` promises it.
#![expect(clippy::unwrap_used, reason = "a suite that meets an error fails on the spot")]

use std::sync::Arc;

use stook::Error;
use stook::engine::{Access, EngineFactory};
use stook::extent::ByteRange;
use stook::source::{Leaf, Session, SessionOptions, Source, read_batch, read_range};

use crate::fault::{FaultSource, SourceFault};

/// Checks a source that is known to hold `contents`, read by engines of this factory.
///
/// # Panics
/// Panics if a guarantee is violated.
pub fn source_conformance(source: &Arc<dyn Source>, contents: &[u8], factory: &dyn EngineFactory) {
    assert_eq!(source.len(), contents.len() as u64);
    assert_eq!(source.is_empty(), contents.is_empty());
    assert!(source.identity().same_content(&source.current_identity().unwrap()));
    leaves_make_up_their_range(&**source);
    ranges_past_the_end_are_refused(&**source);
    every_way_of_reading_gives_the_contents(&**source, contents, factory);
    a_change_is_reported(source, factory);
}

/// Ranges at the borders of pages and of the source.
fn ranges(len: u64) -> Vec<ByteRange> {
    let mut borders = vec![0, 1, 511, 512, 4095, 4096, 4097, 65_536, len / 2, len.saturating_sub(1), len];
    borders.retain(|&border| border <= len);
    borders.sort_unstable();
    borders.dedup();
    let pairs = borders.iter().flat_map(|&start| borders.iter().map(move |&end| (start, end)));
    pairs.filter_map(|(start, end)| ByteRange::new(start, end)).collect()
}

fn leaves_make_up_their_range(source: &dyn Source) {
    for range in ranges(source.len()) {
        let mut leaves = vec![Leaf::Fill { byte: 1, len: 1 }];
        source.resolve(range, &mut leaves).unwrap();
        let total: u64 = leaves.iter().skip(1).map(Leaf::len).sum();
        assert_eq!(total, range.len(), "{range}");
        assert!(leaves.iter().skip(1).all(|leaf| !leaf.is_empty()), "{range}");
        assert!(matches!(leaves[0], Leaf::Fill { byte: 1, len: 1 }), "leaves are appended");
    }
}

fn ranges_past_the_end_are_refused(source: &dyn Source) {
    let len = source.len();
    for (start, end) in [(len, len + 1), (0, len + 1), (len + 1, len + 1), (0, u64::MAX)] {
        let range = ByteRange::new(start, end).unwrap();
        let mut leaves = Vec::new();
        let error = source.resolve(range, &mut leaves).unwrap_err();
        let reported = matches!(&error, Error::OutOfBounds { path, range: asked, len: known }
            if path == source.path() && *asked == range && *known == len);
        assert!(reported, "{error:?}");
        assert!(leaves.is_empty());
    }
}

fn every_way_of_reading_gives_the_contents(
    source: &dyn Source,
    contents: &[u8],
    factory: &dyn EngineFactory,
) {
    let ranges = ranges(source.len());
    let wanted = |range: &ByteRange| &contents[range.start() as usize..range.end() as usize];
    for access in [Access::Direct, Access::Cached] {
        for (range, bytes) in ranges.iter().zip(read_batch(factory, source, &ranges, access).unwrap()) {
            assert!(bytes == wanted(range), "{range} {access:?}");
        }
        let whole = ByteRange::to(source.len());
        assert!(read_range(factory, source, whole, access).unwrap() == contents);
        for (depth, max_read_bytes) in [(1, 4096), (3, 8192), (16, 100_000)] {
            let options =
                SessionOptions { depth, max_read_bytes, requests: depth, max_request_bytes: max_read_bytes };
            let mut session = Session::new(factory, options).unwrap();
            for (range, token) in ranges.iter().zip(0..) {
                session.submit(token, source, *range, access).unwrap();
            }
            assert_eq!(session.pending(), ranges.len());
            let mut seen = vec![false; ranges.len()];
            while let Some((token, bytes)) = session.next() {
                assert!(!std::mem::replace(&mut seen[token as usize], true), "{token} came twice");
                assert!(bytes.unwrap() == wanted(&ranges[token as usize]));
            }
            assert!(seen.iter().all(|&seen| seen));
            assert_eq!(session.pending(), 0);
        }
    }
}

fn a_change_is_reported(source: &Arc<dyn Source>, factory: &dyn EngineFactory) {
    let whole = ByteRange::to(source.len());
    for nth in [0, 1] {
        let changing = FaultSource::new(Arc::clone(source), SourceFault::Changes { nth });
        let error = read_range(factory, &changing, whole, Access::Cached).unwrap_err();
        let reported = matches!(&error, Error::SourceChanged { before, after, .. } if before != after);
        assert!(reported, "{error:?}");
    }
}
