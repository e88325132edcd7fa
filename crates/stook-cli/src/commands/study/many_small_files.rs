//! `stook study many-small-files`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use stook_study::many_small_files::{self, ManySmallFiles};
use stook_study::sample::{self, Sample};

use crate::context::Context;
use crate::exit::UsageError;

/// What `stook study many-small-files` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stook study many-small-files                     50,000 files of 20,000 bytes
  stook study many-small-files --dir ~/photos      your own files, which are only read
  stook study many-small-files --on ext4,vfat,ntfs also on these, made for it; as root
  stook study many-small-files --clean             removes what was made

Run it as root for cold figures: only root may empty the caches of the system. --dir and --work must not lie
in one another.")]
pub(super) struct Args {
    /// Measure this tree instead of a sample; it is only read
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Where the sample, the plain file and the pack are kept [default: stook/study in the cache
    /// directory]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Files of the sample
    #[arg(long, value_name = "N", default_value_t = 50_000, conflicts_with = "dir",
          value_parser = clap::value_parser!(u64).range(1..))]
    files: u64,
    /// Bytes of each file of the sample; of `study all` --size is what all of them have together
    #[arg(long, value_name = "SIZE", default_value = "20000", conflicts_with = "dir", value_parser = super::parse_size)]
    size: u64,
    /// File systems to measure as well, as root: some of ext4, xfs, btrfs, vfat, exfat, ntfs and
    /// ntfs3, or `all` for those but exfat and ntfs3. Each is made in a file below --work, one at a
    /// time; what is not to be had is said
    #[arg(long, value_name = "FS", value_delimiter = ',', conflicts_with = "dir")]
    on: Vec<String>,
    /// Rounds of the comparison [default: 3, or fewer so that it takes about two minutes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: Option<u64>,
    #[command(flatten)]
    result: super::ResultArgs,
    /// Leave the caches of other programs alone, even as root: give up only what is read next
    #[arg(long)]
    keep_caches: bool,
    /// Remove what earlier runs made in --work, and measure nothing
    #[arg(long)]
    clean: bool,
}

/// Runs the study, or removes its files.
///
/// # Errors
/// Returns an error if making, measuring or writing the result fails.
pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let is_default = args.work.is_none();
    let work = match args.work {
        Some(work) => work,
        None => default_work()?,
    };
    if args.clean {
        super::cleaned(&work, many_small_files::clean(&work)?, context);
        return Ok(ExitCode::SUCCESS);
    }
    // One that was named is made in a directory that is there.
    if is_default && let Some(above) = work.parent() {
        std::fs::create_dir_all(above).with_context(|| format!("cannot make {}", above.display()))?;
    }
    let study = ManySmallFiles {
        tree: args.dir,
        work,
        sample: Sample { files: args.files, size: args.size },
        runs: args.runs.map(|runs| runs as usize),
        keep_caches: args.keep_caches,
        on: args.on,
    };
    let measured = super::measure(&study, &args.result, context);
    // Also after an error, or Ctrl-C.
    if sample::has_kept(&study.work) {
        let clean = ["stook", "study", "many-small-files", "--clean", "--work"];
        super::kept(&study.work, &clean, &study.work, context);
    }
    measured?;
    Ok(ExitCode::SUCCESS)
}

fn default_work() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache =
        set("XDG_CACHE_HOME").filter(|path| path.is_absolute()).or_else(|| Some(set("HOME")?.join(".cache")));
    let none = || UsageError::new("neither XDG_CACHE_HOME nor HOME is set: name a directory with --work");
    Ok(cache.ok_or_else(none)?.join("stook").join("study"))
}
