//! Reading ahead: how many requests, and never more than the cap of bytes, without foreknowledge.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use stook::extent::ByteRange;
use stook::source::{Identity, Leaf, Source, check_bounds};
use stook::sparse::{AheadOptions, SparseBuffer, SparseFile, SparseFileOptions, Trace};

use super::{CountedSource, range};

/// A file of zeros, however long.
#[derive(Debug)]
struct Zeros(u64);

impl Source for Zeros {
    fn path(&self) -> &Path {
        Path::new("zeros")
    }
    fn len(&self) -> u64 {
        self.0
    }
    fn identity(&self) -> Identity {
        Identity { len: self.0, ..Identity::default() }
    }
    fn current_identity(&self) -> stook::Result<Identity> {
        Ok(self.identity())
    }
    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> stook::Result<()> {
        check_bounds(self, range)?;
        leaves.push(Leaf::Fill { byte: 0, len: range.len() });
        Ok(())
    }
}

fn replayed(trace: &Trace, ahead: AheadOptions) -> (u64, u64) {
    let options = SparseFileOptions { ahead, ..SparseFileOptions::default() };
    let source = Arc::new(Zeros(trace.file_len));
    let file = SparseFile::with_options(source, Arc::new(SparseBuffer::new()), options);
    let replay = trace.replay(&file).unwrap();
    assert_eq!(replay.bytes_asked, trace.asked_bytes());
    assert!(trace.reads.iter().all(|&read| file.buffer().has(read)));
    (replay.requests, replay.bytes_fetched)
}

/// The limit for fetched bytes: twice those of a reader that knows all reads, or 1 MiB more.
fn most(trace: &Trace) -> u64 {
    let bytes = trace.optimum(64 << 10).unwrap().bytes;
    (2 * bytes).max(bytes + (1 << 20))
}

#[test]
fn the_reads_of_a_tiled_picture_take_few_more_requests_than_a_reader_that_knows_them_needs() {
    let trace = Trace::parse(include_str!("traces/cmu-1.csv").as_bytes()).unwrap();
    let optimum = trace.optimum(64 << 10).unwrap();
    assert_eq!((trace.reads.len(), optimum.requests, optimum.bytes), (62_483, 8, 309_898));
    let (requests, bytes) = replayed(&trace, AheadOptions::default());
    assert!(requests <= 12 && bytes <= most(&trace), "{requests} requests of {bytes} bytes");
}

#[test]
fn without_an_allowance_nothing_is_fetched_but_gaps_until_much_was_needed() {
    let trace = Trace::parse(include_str!("traces/cmu-1.csv").as_bytes()).unwrap();
    let ahead = AheadOptions { allowance: 0, ..AheadOptions::default() };
    let (_, bytes) = replayed(&trace, ahead);
    assert!(bytes <= 2 * trace.optimum(64 << 10).unwrap().bytes, "{bytes} bytes");
}

#[test]
fn a_file_read_from_end_to_end_takes_requests_that_double() {
    let (source, bytes) = CountedSource::of_len(16 << 20);
    let file = SparseFile::new(source.clone());
    let mut out = vec![0; 4096];
    for at in (0..bytes.len()).step_by(4096) {
        assert_eq!(file.read_at(at as u64, &mut out).unwrap(), 4096);
        assert_eq!(out, bytes[at..at + 4096]);
    }
    assert!(source.asked().len() <= 12, "{} requests", source.asked().len());
    // And backwards.
    let (source, bytes) = CountedSource::of_len(16 << 20);
    let file = SparseFile::new(source.clone());
    for at in (0..bytes.len()).step_by(4096).rev() {
        assert_eq!(file.read_at(at as u64, &mut out).unwrap(), 4096);
    }
    assert!(source.asked().len() <= 14, "{} requests", source.asked().len());
}

#[test]
fn first_reads_at_equal_distances_are_fetched_several_at_once() {
    let stride = 300_000;
    let trace = Trace {
        file_len: 200 * stride,
        reads: (0..150).map(|n| range(n * stride, n * stride + 2_000)).collect(),
    };
    let source = Arc::new(Zeros(trace.file_len));
    let file = SparseFile::new(source);
    let misses = |file: &SparseFile| file.statistics().misses;
    trace.replay(&file).unwrap();
    assert!(misses(&file) <= 25, "{} reads had to wait", misses(&file));
    let (requests, fetched) = (file.statistics().requests, file.statistics().fetched_bytes);
    assert!(requests <= 170 && fetched <= most(&trace), "{requests} requests, {fetched} bytes");
}

#[test]
fn many_small_structures_of_the_same_kind_take_about_a_request_each() {
    // Pages of a file of many pictures: a head of 150 bytes in small reads, then an array, far
    // apart at uneven distances.
    let mut reads = vec![range(0, 8)];
    for page in 0..120_u64 {
        let at = 1_000_000 + page * 400_000 + page * page % 97 * 1_000;
        reads.extend((0..12).map(|n| range(at + 2 + n * 12, at + 14 + n * 12)));
        reads.extend((0..80).map(|n| range(at + 200 + n * 4, at + 204 + n * 4)));
    }
    let trace = Trace { file_len: 60_000_000, reads };
    let (requests, bytes) = replayed(&trace, AheadOptions::default());
    let optimum = trace.optimum(64 << 10).unwrap();
    assert!(requests * 2 <= optimum.requests * 3, "{requests} requests of {}", optimum.requests);
    assert!(bytes <= most(&trace), "{bytes} bytes of {}", optimum.bytes);
}

/// Any mix of places, step lengths and directions.
fn traces() -> impl Strategy<Value = Trace> {
    let run = (0_u64..40_000_000, 1_u64..3_000, 1_u64..200_000, 1_u64..60, any::<bool>());
    prop::collection::vec(run, 1..40).prop_map(|runs| {
        let file_len = 50_000_000;
        let mut reads = Vec::new();
        for (start, len, step, count, is_backwards) in runs {
            let at = |n: u64| start + step * n;
            let mut run: Vec<_> =
                (0..count).map(at).filter(|at| at + len <= file_len).map(|at| range(at, at + len)).collect();
            if is_backwards {
                run.reverse();
            }
            reads.extend(run);
        }
        Trace { file_len, reads }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_trace_makes_it_fetch_more_than_the_cap(trace in traces()) {
        let optimum = trace.optimum(64 << 10).unwrap();
        let (requests, bytes) = replayed(&trace, AheadOptions::default());
        prop_assert!(bytes <= most(&trace), "{bytes} bytes of {}", optimum.bytes);
        let places: BTreeSet<u64> = trace.reads.iter().map(|read| read.start()).collect();
        prop_assert!(requests <= places.len() as u64 * 2 + 16, "{requests} requests for {} places", places.len());
    }
}

#[test]
fn a_trace_says_which_line_is_wrong() {
    for (text, expected) in [
        ("", "line 1 of the trace: expected `# …; file size N`, the trace is empty"),
        ("0,4\n", "line 1 of the trace: expected `# …; file size N`, found \"0,4\""),
        ("# a; file size x\n", "line 1 of the trace"),
        (
            "# a; file size 10\n\n# more\n0;4\n",
            "line 4 of the trace: expected `offset,length` in bytes, found \"0;4\"",
        ),
        (
            "# a; file size 10\n8,4\n",
            "line 2 of the trace: 4 bytes at 8 reach past the end of the file, 10 bytes",
        ),
        ("# a; file size 10\n18446744073709551615,4\n", "reach past the end"),
        // Before: a replay made a buffer of it, which aborted the program.
        ("# a; file size 100000000000\n0,40000000000\n", "line 2 of the trace: a read of 40000000000 bytes"),
    ] {
        let error = Trace::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(expected) || error.contains(expected), "{error}");
    }
    assert!(Trace::parse(b"# \xff; file size 3".as_slice()).unwrap_err().to_string().contains("not text"));
    let endless = vec![b'7'; 100_000];
    assert!(Trace::parse(endless.as_slice()).unwrap_err().to_string().contains("line 1"));
}
