//! `stook study all`.

use std::path::PathBuf;
use std::process::ExitCode;

use stook_study::all::{All, STUDIES};
use stook_study::sample;

use super::{Terminal, as_usage};
use crate::context::Context;

/// What `stook study all` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stook study all --out studies                    all studies of this directory's storage, and index.html
  stook study all --work /mnt/disk --size 100M     of another one, with less data
  stook study all --work /mnt/disk --clean         removes what was made there

Run it as root for cold figures: only root may empty the caches of the system. A study that fails is reported, and
the others run all the same; the exit code is 1 then. The small files, about 6 times --size, are kept for the next run.")]
pub(super) struct Args {
    /// A directory on the storage that is measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    work: PathBuf,
    /// Data that each study makes, about; of the small files, of which it makes several forms, one.
    /// That is all of them together: --size of many-small-files is of each
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = super::parse_size)]
    size: u64,
    /// How long each cell of ssd-profile is measured in each round; a number alone is seconds
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = super::parse_some_seconds)]
    time: f64,
    /// File systems that many-small-files measures as well, as root: as its option of this name.
    /// Each takes about a minute more
    #[arg(long, value_name = "FS", value_delimiter = ',')]
    on: Vec<String>,
    /// The Python interpreter in which stook and svfsc are looked for, to be measured from Python
    #[arg(long, value_name = "PROGRAM", default_value = "python3", value_parser = super::parse_program)]
    python: String,
    /// Where index.html goes, and a directory for each study
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Print every table and every conclusion of each study, and each figure as it is measured,
    /// instead of some lines of each
    #[arg(long, short)]
    verbose: bool,
    /// A study to leave out; may be given several times
    #[arg(long, value_name = "STUDY", value_parser = clap::builder::PossibleValuesParser::new(STUDIES.map(|(name, _)| name)))]
    skip: Vec<String>,
    /// Leave the caches of other programs alone, even as root: give up only what is read next
    #[arg(long)]
    keep_caches: bool,
    /// Remove what earlier runs made in --work, and measure nothing
    #[arg(long)]
    clean: bool,
}

/// Runs all studies.
///
/// # Errors
/// Returns an error if the result cannot be written.
pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    if args.clean {
        super::cleaned(&All::kept_in(&args.work), All::clean(&args.work)?, context);
        return Ok(ExitCode::SUCCESS);
    }
    let all = All {
        work: args.work,
        size_bytes: args.size,
        time_s: args.time,
        on: args.on,
        python: args.python,
        keep_caches: args.keep_caches,
        skip: args.skip,
    };
    let done = all.run(&args.out, &Terminal::new(context, args.verbose)).map_err(as_usage);
    // Also after an error, or Ctrl-C.
    let kept = All::kept_in(&all.work);
    if sample::has_kept(&kept) {
        let clean = ["stook", "study", "all", "--clean", "--work"];
        super::kept(&kept, &clean, &all.work, context);
    }
    let done = done?;
    let mut output = context.output();
    match (context.json(), args.verbose) {
        (true, _) => output.bytes(&done.json()?)?,
        (false, true) => super::print(&done.text(), &mut output)?,
        (false, false) => super::print(&done.brief(&args.out), &mut output)?,
    }
    output.finish()?;
    context.note(format_args!("Written: {}", args.out.join("index.html").display()));
    Ok(if done.failed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
