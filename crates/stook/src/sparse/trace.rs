//! [`Trace`]: reads that a program made, in the order in which it made them.

use std::io::BufRead;
use std::time::{Duration, Instant};

use super::file::{SparseFile, SparseFileError};
use crate::extent::ByteRange;
use crate::plan::{Plan, PlanError, PlanOptions};

/// Why a trace cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// It cannot be read.
    #[error("cannot read the trace")]
    Io(#[from] std::io::Error),
    /// A line is invalid.
    #[error("line {line} of the trace: {what}")]
    Line {
        /// Counted from 1.
        line: u64,
        /// What was expected, and what was found.
        what: String,
    },
    /// It has more reads than are taken.
    #[error("the trace has more than {} reads", Trace::READS_MAX)]
    TooLong,
}

/// Reads of one file, in the order of the program that made them.
///
/// As text: a first line `# …; file size N`, then `offset,length` on each line, decimal, in bytes.
/// Empty lines and further lines that begin with `#` are skipped.
///
/// ```
/// use stook::sparse::Trace;
///
/// let trace = Trace::parse("# reads of a picture; file size 1000\n0,4\n900,100\n".as_bytes())?;
/// assert_eq!((trace.file_len, trace.reads.len(), trace.asked_bytes()), (1000, 2, 104));
/// # Ok::<(), stook::sparse::TraceError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The length of the file.
    pub file_len: u64,
    /// The recorded reads, each within the file.
    pub reads: Vec<ByteRange>,
}

/// What serves a trace when all of it is known beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Optimum {
    /// Requests.
    pub requests: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// The cost of replaying a trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Replay {
    /// Requests.
    pub requests: u64,
    /// Bytes of all reads, those read twice counted twice.
    pub bytes_asked: u64,
    /// Bytes of all requests.
    pub bytes_fetched: u64,
    /// How long it took.
    pub took: Duration,
}

impl Trace {
    /// The most reads of one trace.
    pub const READS_MAX: usize = 1 << 26;
    /// The longest read of a trace, bytes: a replay holds one in memory.
    pub const READ_MAX_BYTES: u64 = 1 << 30;

    /// Reads a trace.
    ///
    /// # Errors
    /// Returns [`TraceError`], with the line.
    pub fn parse(mut from: impl BufRead) -> Result<Self, TraceError> {
        let (mut line, mut text, mut bytes) = (0_u64, String::new(), Vec::new());
        let mut trace = None::<Self>;
        loop {
            bytes.clear();
            // A line is short; what is not a trace may be one endless line.
            std::io::Read::take(&mut from, LINE_MAX).read_until(b'\n', &mut bytes)?;
            if bytes.is_empty() {
                break;
            }
            line += 1;
            let wrong = |what: String| TraceError::Line { line, what };
            text.clear();
            text.push_str(std::str::from_utf8(&bytes).map_err(|_| wrong("it is not text".into()))?.trim());
            match &mut trace {
                None => {
                    let file_len = file_len(&text).map_err(wrong)?;
                    trace = Some(Self { file_len, reads: Vec::new() });
                }
                Some(_) if text.is_empty() || text.starts_with('#') => {}
                Some(trace) if trace.reads.len() == Self::READS_MAX => return Err(TraceError::TooLong),
                Some(trace) => trace.reads.push(read(&text, trace.file_len).map_err(wrong)?),
            }
        }
        trace.ok_or(TraceError::Line {
            line: 1,
            what: "expected `# …; file size N`, the trace is empty".into(),
        })
    }

    /// Bytes of all reads, those read twice counted twice.
    pub fn asked_bytes(&self) -> u64 {
        self.reads.iter().map(ByteRange::len).sum()
    }

    /// The fewest requests for all its reads, where gaps of up to `max_gap` bytes are read over.
    ///
    /// # Errors
    /// Returns an error if the trace has too many reads to be planned at once.
    pub fn optimum(&self, max_gap: u64) -> Result<Optimum, PlanError> {
        let options =
            PlanOptions { max_gap, max_len: u64::MAX, end: self.file_len, ..PlanOptions::default() };
        let plan = Plan::new(&self.reads, &options)?;
        Ok(Optimum { requests: plan.reads().len() as u64, bytes: plan.read_len() })
    }

    /// Makes its reads, one after the other.
    ///
    /// # Errors
    /// Returns the first error of a read.
    pub fn replay(&self, file: &SparseFile) -> Result<Replay, SparseFileError> {
        let longest = self.reads.iter().map(ByteRange::len).max().unwrap_or_default();
        let mut out = vec![0; usize::try_from(longest.min(file.len())).unwrap_or_default()];
        let (before, began) = (file.statistics(), Instant::now());
        for read in &self.reads {
            let len = usize::try_from(read.len()).unwrap_or(usize::MAX).min(out.len());
            file.read_at(read.start(), out.get_mut(..len).unwrap_or_default())?;
        }
        let (took, after) = (began.elapsed(), file.statistics());
        Ok(Replay {
            requests: after.requests - before.requests,
            bytes_asked: after.asked_bytes - before.asked_bytes,
            bytes_fetched: after.fetched_bytes - before.fetched_bytes,
            took,
        })
    }
}

/// The longest line that is looked at.
const LINE_MAX: u64 = 4096;

/// N of `# …; file size N`.
fn file_len(text: &str) -> Result<u64, String> {
    let expected = || format!("expected `# …; file size N`, found {:?}", shortened(text));
    let (_, size) =
        text.strip_prefix('#').and_then(|text| text.rsplit_once("file size ")).ok_or_else(expected)?;
    size.trim().parse().map_err(|_| expected())
}

/// `offset,length`, within the file.
fn read(text: &str, file_len: u64) -> Result<ByteRange, String> {
    let numbers = text.split_once(',').and_then(|(offset, len)| {
        Some((offset.trim().parse::<u64>().ok()?, len.trim().parse::<u64>().ok()?))
    });
    let (offset, len) =
        numbers.ok_or_else(|| format!("expected `offset,length` in bytes, found {:?}", shortened(text)))?;
    if len > Trace::READ_MAX_BYTES {
        return Err(format!("a read of {len} bytes; expected at most {}", Trace::READ_MAX_BYTES));
    }
    ByteRange::at(offset, len)
        .filter(|range| range.end() <= file_len)
        .ok_or_else(|| format!("{len} bytes at {offset} reach past the end of the file, {file_len} bytes"))
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}
