//! `stook study many-small-files`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use stook::report::json::Document;
use stook::report::units;

use crate::context::Context;
use crate::exit::UsageError;
use crate::output::{Align, Table};
use crate::study::many_small_files::{self, Options, Study};
use crate::study::page;
use crate::study::published::PUBLISHED;
use crate::study::readers::{PUBLISHED_BUFFER_LEN, Reader};
use crate::study::sample::{self, Cleaned, Sample};

/// What `stook study many-small-files` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stook study many-small-files                     50,000 files of 20,000 bytes
  stook study many-small-files --dir ~/photos      your own files, which are only read
  stook study many-small-files --clean             removes what was made

Run it as root for cold figures: only root may empty the caches of the system. --dir and --work must not lie
in one another.")]
pub(super) struct Args {
    /// Measure this tree instead of a sample; it is only read
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Where the sample, the plain file and the pack are kept [default: stook/study in the cache directory]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Files of the sample
    #[arg(long, value_name = "N", default_value_t = 50_000, conflicts_with = "dir",
          value_parser = clap::value_parser!(u64).range(1..))]
    files: u64,
    /// Bytes of each file of the sample
    #[arg(long, value_name = "SIZE", default_value = "20000", conflicts_with = "dir", value_parser = super::parse_size)]
    size: u64,
    /// Rounds of the comparison [default: 3, or fewer so that it takes about two minutes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: Option<u64>,
    /// Where study.json and study.html go
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Leave the caches of other programs alone, even as root: give up only what is read next
    #[arg(long)]
    keep_caches: bool,
    /// Remove what earlier runs made in --work, and measure nothing
    #[arg(long)]
    clean: bool,
}

/// Runs the study, or removes what it made.
///
/// # Errors
/// What making, measuring or writing the result meets.
pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let work = match args.work {
        Some(work) => work,
        None => default_work()?,
    };
    if args.clean {
        return clean(&work, context);
    }
    let sample = Sample { files: args.files, size: args.size };
    let options = Options {
        tree: args.dir,
        work,
        sample,
        runs: args.runs.map(|runs| runs as usize),
        keep_caches: args.keep_caches,
    };
    if let Some(tree) = &options.tree {
        many_small_files::check_given(tree, &options.work)?;
    }
    if options.tree.is_none() {
        many_small_files::check_sample(&options)?;
    }
    super::prepare_out(&args.out)?;
    let study = many_small_files::run(&options, &|line| context.note(line))?;
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
    context.note(format_args!("Kept for the next run: {} (--clean removes it)", options.work.display()));
    Ok(ExitCode::SUCCESS)
}

fn clean(work: &Path, context: &Context) -> anyhow::Result<ExitCode> {
    match sample::clean(work, many_small_files::makes)? {
        Some(Cleaned { bytes, foreign: 0 }) => {
            context.note(format_args!("Removed {} ({})", work.display(), units::bytes_decimal(bytes)));
        }
        Some(Cleaned { bytes, foreign }) => context.note(format_args!(
            "Removed what was made in {} ({}); it stays, because it holds something else ({foreign})",
            work.display(),
            units::bytes_decimal(bytes)
        )),
        None => context.note(format_args!("{} is not there", work.display())),
    }
    Ok(ExitCode::SUCCESS)
}

fn default_work() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache =
        set("XDG_CACHE_HOME").filter(|path| path.is_absolute()).or_else(|| Some(set("HOME")?.join(".cache")));
    let none = || UsageError::new("neither XDG_CACHE_HOME nor HOME is set: name a directory with --work");
    Ok(cache.ok_or_else(none)?.join("stook").join("study"))
}

fn print(study: &Study, output: &mut crate::output::Output) -> anyhow::Result<()> {
    let columns = ["", "seconds", "least", "most", "speed", "against one reader", "of the device"];
    let mut measured =
        Table::new(columns.map(|name| (name, if name.is_empty() { Align::Left } else { Align::Right })));
    for row in &study.rows {
        let share = row.share_of_limit.as_ref().filter(|_| row.reader.is_some());
        measured.row([
            if row.reader.is_none() { "Limit of the device".to_owned() } else { row.label.clone() },
            format!("{:.3}", row.seconds),
            format!("{:.3}", row.summary.min),
            format!("{:.3}", row.summary.max),
            units::rate(row.bytes_per_s),
            units::factor(row.speedup),
            share.map_or(String::new(), |share| units::percent(share.ratio)),
        ]);
    }
    output.line(format_args!("\n{}, read cold, {} rounds", study.method.data, study.method.runs))?;
    output.line(format_args!("Limit: {}\n", study.method.limit_tool))?;
    output.table(&measured)?;
    output.line("\nBeside the published figures (one composite file against many files)\n")?;
    output.table(&published(study))?;
    output.line("\nWhat was concluded then, and what holds here\n")?;
    for conclusion in &study.conclusions {
        output.line(format_args!(
            "  {}\n    {}: {}",
            conclusion.published,
            conclusion.verdict.text(),
            conclusion.here
        ))?;
    }
    output.line(format_args!(
        "\nAll of them returned the same {} records.",
        units::count(study.returned.records)
    ))?;
    output.line(&study.method.cold)?;
    output.line(format_args!("\n{}", study.verdict))?;
    Ok(())
}

fn published(study: &Study) -> Table {
    let columns = ["", "one file, s", "many files, s", "ratio", "extra per file, ms"];
    let mut table =
        Table::new(columns.map(|name| (name, if name.is_empty() { Align::Left } else { Align::Right })));
    for row in PUBLISHED {
        table.row([
            format!("published: {}, {}", row.file_system, row.system),
            format!("{:.3}", row.one_file_s),
            format!("{:.3}", row.files_s),
            format!("{:.2}", row.ratio),
            format!("{:.2}", row.extra_ms_per_file),
        ]);
    }
    let find = |reader| study.rows.iter().find(|row| row.reader == Some(reader));
    let Some(files) = find(Reader::Files { threads: 1 }) else { return table };
    let here = [
        ("here: plain file", Reader::Plain { buffer_bytes: PUBLISHED_BUFFER_LEN }),
        ("here: pack", Reader::PackStream),
    ];
    for (label, reader) in here {
        let Some(row) = find(reader) else { continue };
        table.row([
            label.to_owned(),
            format!("{:.3}", row.seconds),
            format!("{:.3}", files.seconds),
            format!("{:.2}", row.speedup),
            format!("{:.3}", (files.seconds - row.seconds) / study.returned.records.max(1) as f64 * 1e3),
        ]);
    }
    table
}
