//! A trace, replayed with no foreknowledge: requests and bytes, against a reader that knew all
//! reads in advance.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use range_cache::{CachedReader, RangeReader, ReaderConfig};
use stook::sparse::{AheadOptions, Trace};
use stook_study::sample;
use stook_study::sparse_file::replay::{Distant, run as replay};

use super::{Bench, svfsc, systems};
use crate::result::Target;

/// Reads of an image of 204 MB, in the order in which a program made them.
const TRACE: &str = include_str!("../../../stook/tests/sparse/file/traces/cmu-1.csv");
/// Its name.
const NAME: &str = "cmu-1";

/// Replays it with everyone.
pub(crate) fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let trace = Trace::parse(TRACE.as_bytes())?;
    let optimum = trace.optimum(AheadOptions::default().max_gap)?;
    let note = format!("known beforehand: {} requests, {} bytes", optimum.requests, optimum.bytes);
    let ours = replay(&trace, Arc::new(Distant::new(trace.file_len, Duration::ZERO)))?.replay;
    let ratio = ours.requests as f64 / optimum.requests as f64;
    let most = (optimum.bytes * 2).max(optimum.bytes + (1 << 20)) as f64;
    let goal = |what: &str| format!("trace {NAME}: {what}");
    let results = &mut bench.results;
    let (at_most, said) = (Target::AtMost(1.5), format!("{} requests; {note}", ours.requests));
    results.figure(&goal("requests of Stook for each of the optimum"), at_most, ratio, "", said);
    let (at_most, fetched) = (Target::AtMost(most), ours.bytes_fetched as f64);
    results.figure(&goal("bytes fetched by Stook"), at_most, fetched, "B", note);
    let (requests, bytes) = read_through(&trace)?;
    both(bench, "range-cache, which reads no more than it is asked for", requests, bytes);
    let Some(peer) = &bench.svfsc else { return Ok(()) };
    let path = bench.work.join("trace.csv");
    sample::publish(&path, TRACE.as_bytes())?;
    let replayed = [0, 64 << 10]
        .map(|greedy| Ok((greedy, svfsc::replay(peer, &path.to_string_lossy(), greedy)?)))
        .into_iter()
        .collect::<anyhow::Result<Vec<(u64, (u64, u64))>>>()?;
    for (greedy, (requests, bytes)) in replayed {
        both(bench, &format!("svfsc, greedy length {greedy}"), requests, bytes);
    }
    Ok(())
}

fn both(bench: &mut Bench, who: &str, requests: u64, bytes: u64) {
    let goal = |what: &str| format!("trace {NAME}: {what}");
    bench.results.figure(&goal("requests"), Target::None, requests as f64, "", who);
    bench.results.figure(&goal("bytes fetched"), Target::None, bytes as f64, "B", who);
}

/// Zeros that count how often they are requested.
#[derive(Debug, Default)]
struct Counted {
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl RangeReader<u8> for Counted {
    type Error = Infallible;

    fn read_range<'own, 'key, 'read>(
        &'own self,
        _key: &'key u8,
        range: Range<usize>,
    ) -> Pin<Box<dyn Future<Output = Result<Bytes, Infallible>> + Send + 'read>>
    where
        'own: 'read,
        'key: 'read,
    {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(range.len() as u64, Ordering::Relaxed);
        Box::pin(async move { Ok(vec![0; range.len()].into()) })
    }
}

/// Requests and bytes of range-cache, which is asynchronous where it fetches.
fn read_through(trace: &Trace) -> anyhow::Result<(u64, u64)> {
    let source = Arc::new(Counted::default());
    let reader =
        CachedReader::new(Arc::clone(&source), systems::cache(None), ReaderConfig::new(NonZeroUsize::MIN));
    tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
        for read in &trace.reads {
            reader.read(&0, read.start() as usize..read.end() as usize).await?;
        }
        anyhow::Ok(())
    })?;
    Ok((source.requests.load(Ordering::Relaxed), source.bytes.load(Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_reads_what_it_is_asked_for_reads_every_byte_once() {
        let trace = Trace::parse("# file size 100\n0,10\n5,10\n0,4\n".as_bytes()).unwrap();
        assert_eq!(read_through(&trace).unwrap(), (2, 15));
    }
}
