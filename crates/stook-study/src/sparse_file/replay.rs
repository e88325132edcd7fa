//! A trace, replayed through the cache, beside the fewest requests possible if it were known in
//! advance.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;
use stook::extent::ByteRange;
use stook::report::table::Tone;
use stook::report::units;
use stook::source::{Answer, Identity, Leaf, Object, Pending, Source, check_bounds};
use stook::sparse::{AheadOptions, SparseFile, Trace};

use crate::Text;
use crate::text::numbers;

/// The result of a replay.
#[derive(Debug, Clone, Serialize)]
pub struct Replayed {
    /// `sparse-file`.
    pub name: &'static str,
    /// The source that was read.
    pub source: String,
    /// Reads of the trace.
    pub reads: u64,
    /// Its cost.
    pub replay: Replay,
    /// The fewest requests and bytes possible if all reads were known in advance.
    pub optimum: Optimum,
    /// Requests of the replay for each of the optimum.
    pub requests_ratio: Option<f64>,
}

/// Its cost.
#[derive(Debug, Clone, Serialize)]
pub struct Replay {
    /// Requests.
    pub requests: u64,
    /// Bytes of all reads.
    pub bytes_asked: u64,
    /// Bytes of all requests.
    pub bytes_fetched: u64,
    /// How long it took.
    pub seconds: f64,
}

/// The fewest requests for all reads, gaps of up to 64 KiB read over.
#[derive(Debug, Clone, Serialize)]
pub struct Optimum {
    /// Requests.
    pub requests: u64,
    /// Bytes of all requests.
    pub bytes: u64,
}

/// The source of a replay.
#[derive(Debug, Clone)]
pub enum Over {
    /// The file itself: a path, or the address of an object.
    Address(String),
    /// Zeros that are so far away.
    Zeros(Duration),
}

/// Replays the trace in a file.
///
/// # Errors
/// Returns an error if the file is not a trace, the source cannot be opened or read, or has another
/// length.
pub fn replay(path: &Path, over: &Over) -> anyhow::Result<Replayed> {
    let read = || Trace::parse(BufReader::new(File::open(path)?)).map_err(anyhow::Error::from);
    let trace = read().with_context(|| format!("cannot use {} as a trace", path.display()))?;
    let source: Arc<dyn Source> = match over {
        Over::Address(address) => stook::source::open(address)?,
        Over::Zeros(latency) => Arc::new(Distant::new(trace.file_len, *latency)),
    };
    run(&trace, source)
}

impl Replayed {
    /// The result on a terminal.
    pub fn text(&self) -> Vec<Text> {
        let (replay, optimum, bytes) = (&self.replay, &self.optimum, units::bytes_decimal);
        let table = numbers("", ["", "requests", "fetched"])
            .row(["replayed".into(), units::count(replay.requests), bytes(replay.bytes_fetched)], Tone::Plain)
            .row(
                ["known beforehand".into(), units::count(optimum.requests), bytes(optimum.bytes)],
                Tone::Plain,
            );
        let said = format!(
            "{} reads of {}, {} asked for, in {}\n",
            units::count(self.reads),
            self.source,
            bytes(replay.bytes_asked),
            units::duration(Duration::from_secs_f64(replay.seconds)),
        );
        vec![Text::Line(said), Text::Table(table)]
    }
}

/// Replays a trace over a source.
///
/// # Errors
/// Returns an error if reading fails, or the length of the source is not that of the traced file.
pub fn run(trace: &Trace, source: Arc<dyn Source>) -> anyhow::Result<Replayed> {
    anyhow::ensure!(
        source.len() == trace.file_len,
        "{} has {} bytes, and the trace is of a file of {}",
        source.path().display(),
        source.len(),
        trace.file_len
    );
    let optimum = trace.optimum(AheadOptions::default().max_gap)?;
    let file = SparseFile::new(source);
    let replay = trace.replay(&file)?;
    Ok(Replayed {
        name: "sparse-file",
        source: file.source().path().display().to_string(),
        reads: trace.reads.len() as u64,
        replay: Replay {
            requests: replay.requests,
            bytes_asked: replay.bytes_asked,
            bytes_fetched: replay.bytes_fetched,
            seconds: replay.took.as_secs_f64(),
        },
        optimum: Optimum { requests: optimum.requests, bytes: optimum.bytes },
        requests_ratio: (optimum.requests > 0).then(|| replay.requests as f64 / optimum.requests as f64),
    })
}

/// A file of zeros on a server that answers each request after a time.
#[derive(Debug)]
pub struct Distant {
    path: PathBuf,
    len: u64,
    object: Arc<Zeros>,
}

/// Requests wait in line for the thread that answers them, which is asleep until the first is due.
#[derive(Debug)]
struct Zeros {
    latency: Duration,
    line: Sender<(Instant, ByteRange, Answer)>,
}

impl Distant {
    /// This many zeros, each request answered after `latency`.
    pub fn new(len: u64, latency: Duration) -> Self {
        let (line, waiting) = channel::<(Instant, ByteRange, Answer)>();
        thread::spawn(move || {
            // All wait equally long, so they are due in the order in which they came.
            for (due, range, answer) in waiting {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                answer.give(Ok(vec![0; range.len() as usize].into()));
            }
        });
        let path = PathBuf::from(format!("zeros, {} away", units::duration(latency)));
        Self { path, len, object: Arc::new(Zeros { latency, line }) }
    }
}

impl Source for Distant {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn identity(&self) -> Identity {
        Identity { len: self.len, ..Identity::default() }
    }

    fn current_identity(&self) -> stook::Result<Identity> {
        Ok(self.identity())
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> stook::Result<()> {
        check_bounds(self, range)?;
        leaves.push(Leaf::Object { object: Arc::clone(&self.object) as Arc<dyn Object>, range });
        Ok(())
    }

    fn checks_reads(&self) -> bool {
        true
    }
}

impl Object for Zeros {
    fn path(&self) -> &Path {
        Path::new("zeros")
    }

    fn begin(&self, range: ByteRange, answer: Answer) -> Pending {
        // If there is no thread to answer any more, the answer is dropped, and the waiting reader
        // gets an error.
        let _ = self.line.send((Instant::now() + self.latency, range, answer));
        Box::new(())
    }
}
