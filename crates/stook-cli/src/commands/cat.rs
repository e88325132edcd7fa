//! `stook cat`: bytes of a file, an object, a record or a member, to stdout.

mod entry;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use serde::Serialize;
use stook::extent::ByteRange;
use stook::ops::contents::{BATCH_LEN, BLOCK_LEN, Span, batches};
use stook::report::json::Document;
use stook::report::units;
use stook::source::remote::RemoteOptions;
use stook::sparse::{SparseBuffer, SparseFile, SparseFileOptions, SparseOptions, SparseStatistics};

use crate::context::Context;
use crate::fetch::{self, FetchArgs, parse_size};
use crate::output::Output;
use crate::progress::{Progress, Unit};
use crate::{interrupt, packs};

const EXAMPLES: &str = "\
A range is A..B in bytes, B not included; A.. goes to the end, ..B begins at 0.
The part of a range that lies past the end is left out: one that begins at the
end is empty. One that begins past the end is refused.
Sizes as everywhere: 4096, 4KiB, 1MB. Ranges are fetched together, in few
requests, and written in the order in which they were given. Without --range an
object whose server cannot send parts is read as a whole anyway.

Examples:
  stook cat https://host/picture.tif --range 0..16 | xxd
  stook cat s3://bucket/table.parquet --range 120MB.. --stats > tail
  stook cat file --range 0..4KiB --range 1GiB..1028MiB > parts
  stook cat photos.stook//2024/cat.jpg --range 0..64KiB > head
  stook cat s3://bucket/train.tar//000117.jpg > cat.jpg
  stook cat s3://bucket/key --range 0..1MiB --cache-dir ~/.cache/stook/sparse > head

Credentials and addresses of object stores come from the environment, as other
tools take them (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, …): docs/guide/remote.md.";

/// What `stook cat` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A path, PACK//KEY, s3://bucket/key, gs://, az:// or https://, or one of these that is an
    /// archive, with //MEMBER
    source: OsString,
    /// Only these bytes; may be given more than once
    #[arg(long = "range", value_name = "A..B", value_parser = parse_range)]
    ranges: Vec<Span>,
    #[command(flatten)]
    fetch: FetchArgs,
    /// Show on stderr what was requested and fetched (as JSON with --json)
    #[arg(long)]
    stats: bool,
}

pub(super) fn parse_range(text: &str) -> Result<Span, String> {
    let (start, end) = text.split_once("..").ok_or("expected A..B, as in 0..4KiB")?;
    let start = if start.is_empty() { 0 } else { parse_size(start)? };
    let end = if end.is_empty() { None } else { Some(parse_size(end)?) };
    match end {
        Some(end) if end < start => Err(format!("it ends before it begins: {start} is more than {end}")),
        end => Ok(Span { start, end }),
    }
}

#[derive(Debug, Serialize)]
struct Stats {
    source: String,
    identity: String,
    source_bytes: u64,
    bytes_written: u64,
    reads: u64,
    hits: u64,
    misses: u64,
    requests: u64,
    bytes_asked: u64,
    bytes_fetched: u64,
    bytes_evicted: u64,
    bytes_from_disk: u64,
    disk_failures: u64,
    disk_remark: Option<String>,
    amplification: Option<f64>,
    latency_p50_ns: Option<u64>,
    latency_p99_ns: Option<u64>,
    latency_max_ns: Option<u64>,
}

impl Stats {
    fn new(file: &SparseFile, bytes_written: u64, reported: &SparseStatistics) -> Self {
        let latency = &reported.latency_ns;
        let quantile = |share| (!latency.is_empty()).then(|| latency.value_at_quantile(share));
        Self {
            source: file.source().path().display().to_string(),
            identity: file.identity().to_string(),
            source_bytes: file.len(),
            bytes_written,
            reads: reported.reads,
            hits: reported.hits,
            misses: reported.misses,
            requests: reported.requests,
            bytes_asked: reported.asked_bytes,
            bytes_fetched: reported.fetched_bytes,
            bytes_evicted: reported.evicted_bytes,
            bytes_from_disk: reported.from_disk_bytes,
            disk_failures: reported.disk_failures,
            disk_remark: reported.disk_remark.as_deref().map(str::to_owned),
            amplification: reported.amplification(),
            latency_p50_ns: quantile(0.5),
            latency_p99_ns: quantile(0.99),
            latency_max_ns: quantile(1.0),
        }
    }

    fn print(&self, context: &Context) -> anyhow::Result<()> {
        if context.json() {
            // Bytes of the source are on stdout.
            eprintln!("{}", serde_json::to_string(&Document::new("cat", self))?);
            return Ok(());
        }
        let bytes = units::bytes_decimal;
        eprintln!("{}: {}", self.source, self.identity);
        eprintln!(
            "{} written; {} of {} together",
            bytes(self.bytes_written),
            units::count_of(self.requests, "request", "requests"),
            bytes(self.bytes_fetched),
        );
        if self.bytes_from_disk > 0 {
            eprintln!("{} came from the cache directory", bytes(self.bytes_from_disk));
        }
        if let (Some(half), Some(most)) = (self.latency_p50_ns, self.latency_max_ns) {
            eprintln!(
                "half of the answers within {}, all within {}",
                units::duration_ns(half),
                units::duration_ns(most)
            );
        }
        Ok(())
    }
}

/// Runs it.
///
/// # Errors
/// Returns an error if the source cannot be read or changes, a range begins past its end, stdout
/// cannot be written, or the user interrupts.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    if let (pack, Some(key)) = packs::split_address(&args.source) {
        return entry::run(&pack, &key, &args, context);
    }
    let args = Arc::new(args);
    let asked = Arc::clone(&args);
    let file = Arc::new(interrupt::wait_for(move || open(&asked))??);
    let ranges = within(&args.ranges, file.source().path().display(), file.len())?;
    let total: u64 = ranges.iter().map(ByteRange::len).sum();
    let bar = context.progress("reading", Unit::Bytes, Some(total));
    let mut output = context.output();
    write(&ranges, BLOCK_LEN, &mut output, &bar, |batch| {
        let reader = Arc::clone(&file);
        let read = interrupt::wait_for(move || reader.read_many(&batch))??;
        Ok(read.into_iter().map(Ok).collect())
    })?;
    output.finish()?;
    drop(bar);
    let reported = file.statistics();
    if let Some(failure) = &reported.disk_failure {
        context.note(format_args!(
            "The cache directory could not be used, {failure}; everything was read without it."
        ));
    }
    // The document has it, too.
    if let Some(note) = reported.disk_remark.as_ref().filter(|_| !(args.stats && context.json())) {
        context.note(format_args!("The cache directory helps less than it could: {note}."));
    }
    if args.stats {
        Stats::new(&file, total, &reported).print(context)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens what is to be read, with its caches. Servers, and others that use the same directory, may
/// keep it waiting.
fn open(args: &Args) -> anyhow::Result<SparseFile> {
    let whole_file = args.fetch.whole_file || args.ranges.is_empty();
    let remote = RemoteOptions { whole_file, ..Default::default() };
    let source = stook::source::open_with(&args.source, &remote).map_err(advised)?;
    let budget = SparseOptions { budget_bytes: 4 * BATCH_LEN, ..SparseOptions::default() };
    let buffer = Arc::new(SparseBuffer::with_options(budget)?);
    let disk = args.fetch.cache()?;
    let options = SparseFileOptions { disk, ..SparseFileOptions::of(source.as_ref()) };
    Ok(SparseFile::with_options(source, buffer, options))
}

/// An error with what can be done about it here.
fn advised(error: stook::Error) -> anyhow::Error {
    if let Some(advised) = fetch::advised(&error) {
        return advised;
    }
    match &error {
        stook::Error::Io { path, .. }
            if error.io_kind() == Some(io::ErrorKind::IsADirectory)
                && stook::tree::is_pack(path).unwrap_or(false) =>
        {
            // Without slashes at its end.
            let pack = path.components().as_path().display();
            anyhow!("{pack} is a pack, and a record of it is {pack}//KEY; `stook ls {pack}` lists the keys")
        }
        stook::Error::Io { path, .. }
            if matches!(error.io_kind(), Some(io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)) =>
        {
            let above = path.ancestors().skip(1).find(|above| stook::tree::is_pack(above).unwrap_or(false));
            let Some((pack, key)) = above.and_then(|pack| Some((pack, path.strip_prefix(pack).ok()?))) else {
                return error.into();
            };
            let (pack, key) = (pack.display(), key.display());
            anyhow!("{pack} is a pack, and a record of it is {pack}//{key}; `stook ls {pack}` lists the keys")
        }
        _ => error.into(),
    }
}

/// What is wanted, all of it within the `len` bytes of what is shown so: checked before a byte is
/// written.
fn within(spans: &[Span], shown: impl fmt::Display, len: u64) -> anyhow::Result<Vec<ByteRange>> {
    Span::all_within(spans, len).map_err(|error| anyhow!("{shown}: {error}"))
}

/// Writes ranges in their order. They are read in batches; what came before an error is written.
fn write<B: AsRef<[u8]>>(
    ranges: &[ByteRange],
    block_len: u64,
    output: &mut Output,
    bar: &Progress,
    read: impl Fn(Vec<ByteRange>) -> anyhow::Result<Vec<anyhow::Result<B>>>,
) -> anyhow::Result<()> {
    for batch in batches(ranges, block_len) {
        for bytes in read(batch)? {
            let bytes = bytes?;
            output.bytes(bytes.as_ref())?;
            bar.add(bytes.as_ref().len() as u64);
        }
        // If the wait for the next bytes is interrupted, everything before was written.
        output.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_they_are_typed() {
        let span = |start, end| Ok(Span { start, end });
        assert_eq!(parse_range("0..4KiB"), span(0, Some(4096)));
        assert_eq!(parse_range("..7"), span(0, Some(7)));
        assert_eq!(parse_range("1MB.."), span(1_000_000, None));
        assert_eq!(parse_range(".."), span(0, None));
        for wrong in ["", "5", "5-7", "7..5", "a..b", "-1..4"] {
            assert!(parse_range(wrong).is_err(), "{wrong}");
        }
    }
}
