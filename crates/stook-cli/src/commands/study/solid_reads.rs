//! `stook study solid-reads`.

use std::path::PathBuf;
use std::process::ExitCode;

use stook_study::solid_reads::SolidReads;

use crate::context::Context;

/// What `stook study solid-reads` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stook study solid-reads                        a file of 8 GiB, and archives of real files
  stook study solid-reads --size 32G             a file as long as the published one
  stook study solid-reads --work /mnt/disk --size 1G     another device, with less data

Run it as root for cold figures: only root may empty the caches of the system. What was made is removed.")]
pub(super) struct Args {
    /// A directory on the storage that is measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    work: PathBuf,
    /// Length of the file that the jobs of fio read
    #[arg(long, value_name = "SIZE", default_value = "8G", value_parser = super::parse_size)]
    size: u64,
    /// Archives of each shape, 64 MiB each
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=1000))]
    archives: u64,
    /// How long each job is measured in each round; a number alone is seconds
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = super::parse_seconds)]
    time: f64,
    /// Rounds
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    #[command(flatten)]
    result: super::ResultArgs,
    /// Leave the caches of other programs alone, even as root: give up only what is read next
    #[arg(long)]
    keep_caches: bool,
}

/// Runs the study.
///
/// # Errors
/// Returns an error if making, measuring or writing the result fails.
pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let study = SolidReads {
        work: args.work,
        file_bytes: args.size,
        archives: args.archives,
        time_s: args.time,
        rounds: args.runs,
        keep_caches: args.keep_caches,
    };
    super::measure(&study, &args.result, context)?;
    Ok(ExitCode::SUCCESS)
}
