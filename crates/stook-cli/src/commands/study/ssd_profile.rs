//! `stook study ssd-profile`.

use std::path::PathBuf;
use std::process::ExitCode;

use stook::bench::{Bench, Error};
use stook::engine::Backend;
use stook::report::json::Document;
use stook::report::units::{bytes_binary, duration_ns};

use super::super::bench::{Watcher, as_usage};
use crate::context::Context;
use crate::exit::UsageError;
use crate::interrupt;
use crate::study::ssd_profile::{Options, Study, page, text};

/// What `stook study ssd-profile` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stook study ssd-profile                          the device below this directory, in about four minutes
  stook study ssd-profile --work /mnt/disk         another device
  stook study ssd-profile --runs 1 --time 1m       a minute per cell, as it was published

The test file has no name while it is measured, so nothing is left behind however the command ends. Reads and
writes pass the page cache by. Let nothing else use the device meanwhile: what disturbs is noticed where that is
possible, and the cell is marked.")]
pub(super) struct Args {
    /// A directory on the storage that is measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    work: PathBuf,
    /// Length of the test file
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = super::parse_size)]
    size: u64,
    /// Rounds in which every cell is measured once; what disturbs one of them does not spoil the cell
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// How long each of the 25 cells is measured in each round
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = super::parse_seconds)]
    time: f64,
    /// How long each cell runs before that
    #[arg(long, value_name = "TIME", default_value = "0.5s", value_parser = super::parse_seconds)]
    ramp: f64,
    /// What 99% of all reads should keep to: one of the depths that are recommended does
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = super::parse_some_seconds)]
    p99: f64,
    /// Where study.json and study.html go
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
}

/// Runs the study.
///
/// # Errors
/// What measuring or writing the result meets.
pub(super) fn run(args: &Args, context: &Context) -> anyhow::Result<ExitCode> {
    let options = Options {
        work: args.work.clone(),
        file_bytes: args.size,
        rounds: args.runs,
        time_s: args.time,
        ramp_s: args.ramp,
        p99_target_s: args.p99,
    };
    // An existing file could be measured as well, and would be written to.
    if !args.work.is_dir() {
        let message = format!("{}: expected a directory, in which a test file is made", args.work.display());
        return Err(UsageError::new(message).into());
    }
    let bench = options.bench();
    bench.check().map_err(as_usage)?;
    bench.check_new_file(&args.work).map_err(as_usage)?;
    super::prepare_out(&args.out)?;
    context.note(takes(&bench));
    let watcher = Watcher::new(&bench, context);
    let result = bench.run(&args.work, &Backend::Auto, &watcher);
    drop(watcher);
    let result = match result {
        // Half a sweep answers nothing.
        Err(Error::Interrupted) => return Err(interrupt::Interrupted.into()),
        Ok(result) if result.interrupted => return Err(interrupt::Interrupted.into()),
        result => result.map_err(as_usage)?,
    };
    let study = Study::of(result, options.p99_target_s);
    let document = Document::new("study", &study);
    let written = super::write(&args.out, &document, &page::page(&study, &document)?)?;
    let mut output = context.output();
    if context.json() {
        output.bytes(&written.json)?;
    } else {
        text::print(&study, &mut output)?;
    }
    output.finish()?;
    written.note_paths(context);
    Ok(ExitCode::SUCCESS)
}

/// What whoever waits is told before.
fn takes(bench: &Bench) -> String {
    let measuring_s = bench.expected_s().unwrap_or(0.0);
    let (cells, rounds) = (bench.cells.len(), bench.rounds);
    format!(
        "Measuring takes about {}: {cells} cells, {rounds} {} each. Before it a test file of {} is written",
        duration_ns((measuring_s * 1e9) as u64),
        if rounds == 1 { "round" } else { "rounds" },
        bytes_binary(bench.file_bytes),
    )
}
