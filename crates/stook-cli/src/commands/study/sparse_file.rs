//! `stook study sparse-file`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use stook::report::json::Document;
use stook_study::sparse_file::SparseFileStudy;
use stook_study::sparse_file::replay::{Over, replay};

use crate::context::Context;
use crate::interrupt;

/// What `stook study sparse-file` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A trace lists what a program read, in its order: a first line `# …; file size N`, then `offset,length` on each line. It
is replayed through the cache, and compared with the fewest requests possible if all reads were known in advance.

Examples:
  stook study sparse-file                                         reading, writing, asking, threads
  stook study sparse-file --python .venv/bin/python               the same from Python, too
  stook study sparse-file --trace reads.csv --latency 50ms        a server that is 50 ms away
  stook study sparse-file --trace reads.csv --source s3://b/key   the file itself")]
pub(super) struct Args {
    /// Replay this trace instead
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Where the file of the trace is: a path, s3://, gs://, az:// or https://
    #[arg(long, value_name = "SOURCE", requires = "trace", conflicts_with = "latency")]
    source: Option<String>,
    /// Replay against zeros with this latency
    #[arg(long, value_name = "TIME", requires = "trace", value_parser = super::parse_seconds, default_value = "50ms")]
    latency: f64,
    /// How often each figure is measured; the median is used
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// The Python interpreter in which stook and svfsc are looked for, to be measured from Python
    #[arg(long, value_name = "PROGRAM", default_value = "python3", value_parser = super::parse_program)]
    python: String,
    #[command(flatten)]
    result: super::ResultArgs,
}

/// Runs the study, or replays a trace.
///
/// # Errors
/// Returns an error if measuring, reading or writing the result fails.
pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.trace {
        let over = match args.source {
            Some(address) => Over::Address(address),
            None => Over::Zeros(Duration::from_secs_f64(args.latency)),
        };
        return replay_trace(path.clone(), over, context);
    }
    let study = SparseFileStudy { rounds: args.rounds as usize, python: args.python };
    super::measure(&study, &args.result, context)?;
    Ok(ExitCode::SUCCESS)
}

fn replay_trace(path: PathBuf, over: Over, context: &Context) -> anyhow::Result<ExitCode> {
    // A pipe without a writer, and a server, may block it. It leaves nothing.
    let replayed = interrupt::wait_for(move || replay(&path, &over))??;
    let mut output = context.output();
    match context.json() {
        true => output.json(&Document::new("study", &replayed))?,
        false => super::print(&replayed.text(), &mut output)?,
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}
