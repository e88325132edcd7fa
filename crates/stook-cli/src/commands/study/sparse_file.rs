//! `stook study sparse-file`.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use stook::report::json::Document;
use stook::report::units;
use stook::source::Source;
use stook::sparse::Trace;

use crate::context::Context;
use crate::output::{Align, Output, Table};
use crate::study::sparse_file::{self, Options, Study, page, replay};

/// What `stook study sparse-file` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A trace says what a program read, in its order: a first line `# …; file size N`, then `offset,length` on each line. It
is replayed through the cache, and what whoever knew it beforehand would have fetched stands beside.

Examples:
  stook study sparse-file                                         reading, writing, asking, threads
  stook study sparse-file --trace reads.csv --latency 50ms        a server that is 50 ms away
  stook study sparse-file --trace reads.csv --source s3://b/key   the file itself")]
pub(super) struct Args {
    /// Replay this trace instead
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Where the file of the trace is: a path, s3://, gs://, az:// or https://
    #[arg(long, value_name = "SOURCE", requires = "trace", conflicts_with = "latency")]
    source: Option<String>,
    /// Replay against zeros that are so far away
    #[arg(long, value_name = "TIME", requires = "trace", value_parser = super::parse_seconds, default_value = "50ms")]
    latency: f64,
    /// How often each figure is taken; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// The Python in which svfsc is looked for
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: String,
    /// Where study.json and study.html go
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
}

/// Runs the study, or replays a trace.
///
/// # Errors
/// What measuring, reading or writing the result meets.
pub(super) fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.trace {
        return replay_trace(path, args, context);
    }
    super::prepare_out(&args.out)?;
    let options = Options { rounds: args.rounds as usize, python: args.python.clone() };
    let study = sparse_file::run(&options, &|line| context.note(line))?;
    let document = Document::new("study", &study);
    let written = super::write(&args.out, &document, &page::page(&study, &document)?)?;
    let mut output = context.output();
    if context.json() {
        output.bytes(&written.json)?;
    } else {
        print(&study, &mut output)?;
    }
    output.finish()?;
    written.note_paths(context);
    Ok(ExitCode::SUCCESS)
}

fn print(study: &Study, output: &mut Output) -> anyhow::Result<()> {
    let mut table = Table::new([("", Align::Left), ("Stook", Align::Right), ("svfsc, Python", Align::Right)]);
    let time = |seconds: f64| units::duration_ns((seconds * 1e9) as u64);
    for row in &study.rows {
        table.row([row.work.label(), time(row.seconds), row.svfsc_python_s.map(time).unwrap_or_default()]);
    }
    output.table(&table)?;
    output.line("\nWhat is published of svfsc (another machine)\n")?;
    let mut table = Table::new(["", "figure", "Stook, here"].map(|name| (name, Align::Left)));
    for one in &study.published {
        table.row([one.what, one.figure, one.here.as_deref().unwrap_or("not measured")]);
    }
    output.table(&table)?;
    Ok(())
}

fn replay_trace(path: &std::path::Path, args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let read = || Trace::parse(BufReader::new(File::open(path)?)).map_err(anyhow::Error::from);
    let trace = read().with_context(|| format!("cannot use {} as a trace", path.display()))?;
    let source: Arc<dyn Source> = match &args.source {
        Some(address) => stook::source::open(address)?,
        None => Arc::new(replay::Distant::new(trace.file_len, Duration::from_secs_f64(args.latency))),
    };
    let replayed = replay::run(&trace, source)?;
    let mut output = context.output();
    if context.json() {
        output.json(&Document::new("study", &replayed))?;
    } else {
        let (replay, optimum) = (&replayed.replay, &replayed.optimum);
        let mut table =
            Table::new([("", Align::Left), ("requests", Align::Right), ("fetched", Align::Right)]);
        let bytes = units::bytes_decimal;
        table.row(["replayed".into(), units::count(replay.requests), bytes(replay.bytes_fetched)]);
        table.row(["known beforehand".into(), units::count(optimum.requests), bytes(optimum.bytes)]);
        output.line(format_args!(
            "{} reads of {}, {} asked for, in {}\n",
            units::count(replayed.reads),
            replayed.source,
            bytes(replay.bytes_asked),
            units::duration(Duration::from_secs_f64(replay.seconds)),
        ))?;
        output.table(&table)?;
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}
