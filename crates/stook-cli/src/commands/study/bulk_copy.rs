//! `stook study bulk-copy`.

use std::path::PathBuf;
use std::process::ExitCode;

use stook_study::bulk_copy::BulkCopy;

use crate::context::Context;

/// What `stook study bulk-copy` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stook study bulk-copy                                within this directory's storage
  stook study bulk-copy --from . --to /mnt/disk        from one drive to another
  stook study bulk-copy --to /mnt/disk --rated-write 271M     and what that is of 271 MB/s

What source and destination lie on is said, with the link of each. A mounted loop device counts as another drive, and
is marked as simulated. Ratings are in bytes a second, of 1000: 271M, or 271MB/s. Run it as root for cold figures, and
for a copy whose source does not fit into memory: that takes a control group. What was copied is removed.")]
pub(super) struct Args {
    /// Where the file is made that is copied
    #[arg(long, value_name = "DIR", default_value = ".")]
    from: PathBuf,
    /// Where it is copied to [default: the directory of --from]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Length of the file
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = super::parse_size)]
    size: u64,
    /// Rounds, each with every way of copying once
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: u64,
    /// What the source is rated at for reads, a second
    #[arg(long, value_name = "RATE", value_parser = super::parse_rating)]
    rated_read: Option<f64>,
    /// What the destination is rated at for writes, a second
    #[arg(long, value_name = "RATE", value_parser = super::parse_rating)]
    rated_write: Option<f64>,
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
    let study = BulkCopy {
        to: args.to.unwrap_or_else(|| args.from.clone()),
        from: args.from,
        file_bytes: args.size,
        rounds: args.runs as usize,
        rated_read_bytes_per_s: args.rated_read,
        rated_write_bytes_per_s: args.rated_write,
        keep_caches: args.keep_caches,
    };
    super::measure(&study, &args.result, context)?;
    Ok(ExitCode::SUCCESS)
}
