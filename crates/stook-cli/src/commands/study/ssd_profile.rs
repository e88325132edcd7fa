//! `stook study ssd-profile`.

use std::path::PathBuf;
use std::process::ExitCode;

use stook_study::ssd_profile::{Ratings, SsdProfile};

use crate::context::Context;

/// What `stook study ssd-profile` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stook study ssd-profile                          the device below this directory, in about ten minutes
  stook study ssd-profile --work /mnt/disk         another device
  stook study ssd-profile --runs 1 --time 1m       a minute per cell, as it was published
  stook study ssd-profile --long-run 5m            whether its speed lasts: five minutes of reads, and of writes
  stook study ssd-profile --rated-read 7100M       and what that is of 7100 MB/s

Ratings are in bytes a second, of 1000. The test file has no name while it is measured, so nothing remains however the
command ends. Reads and writes bypass the page cache, but for the published cells, which are measured through it, too.
Drives say how much they are worn through smartctl, where that is installed, and to root. Let nothing else use the device meanwhile: disturbances are noticed where that is possible,
and the cell is marked.")]
pub(super) struct Args {
    /// A directory on the storage that is measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    work: PathBuf,
    /// Length of the test file
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = super::parse_size)]
    size: u64,
    /// Rounds in which every cell is measured once; what disturbs one of three does not spoil the
    /// cell
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// How long each of the 38 cells is measured in each round
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = super::parse_seconds)]
    time: f64,
    /// How long each cell runs before that
    #[arg(long, value_name = "TIME", default_value = "0.5s", value_parser = super::parse_seconds)]
    ramp: f64,
    /// Target latency of 99% of all reads, which one of the recommended depths keeps
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = super::parse_some_seconds)]
    p99: f64,
    /// How long reads go on, and then writes, to see whether speed lasts [default: not at all]
    #[arg(long, value_name = "TIME", value_parser = super::parse_some_seconds)]
    long_run: Option<f64>,
    /// What the device is advertised with for reads, a second
    #[arg(long, value_name = "RATE", value_parser = super::parse_rating)]
    rated_read: Option<f64>,
    /// What the device is advertised with for writes, a second
    #[arg(long, value_name = "RATE", value_parser = super::parse_rating)]
    rated_write: Option<f64>,
    #[command(flatten)]
    result: super::ResultArgs,
}

/// Runs the study.
///
/// # Errors
/// Returns an error if measuring or writing the result fails.
pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    super::measure(&study(&args), &args.result, context)?;
    Ok(ExitCode::SUCCESS)
}

fn study(args: &Args) -> SsdProfile {
    SsdProfile {
        work: args.work.clone(),
        file_bytes: args.size,
        rounds: args.runs,
        time_s: args.time,
        ramp_s: args.ramp,
        p99_target_s: args.p99,
        long_run_s: args.long_run,
        rated: Ratings { read_bytes_per_s: args.rated_read, write_bytes_per_s: args.rated_write },
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    /// Before: it said seven minutes of a default that takes ten.
    #[test]
    fn the_help_says_how_long_it_takes() {
        let command = Args::augment_args(clap::Command::new("ssd-profile"));
        let help = command.clone().render_long_help().to_string();
        // It is wrapped to the width of the terminal.
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let args = Args::from_arg_matches(&command.get_matches_from(["ssd-profile"])).unwrap();
        let minutes = study(&args).expected_s() / 60.0;
        assert_eq!(minutes.round(), 10.0, "{minutes}");
        assert!(help.contains("in about ten minutes"), "{help}");
    }
}
