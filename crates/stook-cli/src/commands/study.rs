//! `stook study NAME`: makes a published measurement again, here.

mod all;
mod bulk_copy;
mod many_small_files;
mod solid_reads;
mod sparse_file;
mod ssd_profile;

use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use stook::bench::{Bench, Observer};
use stook::report::json::Document;
use stook::report::table::{Align, Table, Tone};
use stook::report::units;
use stook_study::all::STUDIES;
use stook_study::sample::Cleaned;
use stook_study::{Hooks, OptionError, Study, Text, frame};

use super::bench::{self, Watcher};
use crate::context::Context;
use crate::exit::UsageError;
use crate::interrupt;
use crate::output::{Output, OutputError};

const EXAMPLES: &str = "\
Examples:
  stook study                                        a list of all studies
  stook study all --out studies                      all of them, and a page that leads to each
  stook study many-small-files                       50,000 files, loose and as a pack
  stook study many-small-files --dir ~/photos        your own files, which are only read
  stook study ssd-profile --work /mnt/disk           the device below this directory
  stook study bulk-copy --from . --to /mnt/disk      from one drive to another
  stook study sparse-file --trace reads.csv          a recorded list of reads, replayed

Which one? A copy that seems too fast, or too slow: bulk-copy. Many small files that load slowly, and whether a pack is
worth it: many-small-files. What a drive can do: ssd-profile. Archives that are made of many files: solid-reads. Small
reads of a file that is far away: sparse-file.

stook study NAME --help shows the options of a study, with more examples.";

/// Measures again what a published study measured
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    study: Option<Name>,
}

#[derive(Debug, clap::Subcommand)]
enum Name {
    /// All studies, and a page that leads to them
    All(all::Args),
    /// Loose files against one file and against a pack
    ManySmallFiles(many_small_files::Args),
    /// Block size, depth and mix, and whether the figures add up
    SsdProfile(ssd_profile::Args),
    /// Copies of a large file: block, queue, caches
    BulkCopy(bulk_copy::Args),
    /// Archives that are read out of many files
    SolidReads(solid_reads::Args),
    /// Sparse files in memory, or a trace of reads through the cache
    SparseFile(sparse_file::Args),
}

fn parse_size(text: &str) -> Result<u64, String> {
    units::parse_size(text).map_err(|error| crate::exit::chain(&error))
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    units::parse_seconds(text).map_err(|error| crate::exit::chain(&error))
}

fn parse_some_seconds(text: &str) -> Result<f64, String> {
    match parse_seconds(text)? {
        0.0 => Err("nothing takes no time; expected more than 0, like 1ms".to_owned()),
        seconds => Ok(seconds),
    }
}

fn parse_program(text: &str) -> Result<String, String> {
    match text.is_empty() {
        true => Err("expected a program, like python3".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// Bytes a second of 1000, as drives are rated: `271M`, or `271MB/s` as it is printed. A number
/// alone is refused, because it may be meant as either.
fn parse_rating(text: &str) -> Result<f64, String> {
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim_start() {
        "K" | "kB/s" | "KB/s" => Some(1e3),
        "M" | "MB/s" => Some(1e6),
        "G" | "GB/s" => Some(1e9),
        _ => None,
    };
    let rating = unit.and_then(|unit| Some(number.parse::<f64>().ok()? * unit));
    // A thousand times as fast as memory is no drive.
    let possible = |rating: &f64| (1e3..=1e14).contains(rating);
    rating
        .filter(possible)
        .ok_or_else(|| format!("expected bytes a second with a unit, like 271M or 271MB/s, not {text:?}"))
}

/// Runs a study.
///
/// # Errors
/// Returns an error if making, measuring or writing the result fails.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    match args.study {
        None => list(context),
        Some(Name::All(args)) => all::run(args, context),
        Some(Name::ManySmallFiles(args)) => many_small_files::run(args, context),
        Some(Name::SsdProfile(args)) => ssd_profile::run(args, context),
        Some(Name::BulkCopy(args)) => bulk_copy::run(args, context),
        Some(Name::SolidReads(args)) => solid_reads::run(args, context),
        Some(Name::SparseFile(args)) => sparse_file::run(args, context),
    }
}

/// The studies, with the documents that they repeat.
fn list(context: &Context) -> anyhow::Result<ExitCode> {
    let mut output = context.output();
    let listed: Vec<Listed> = STUDIES.into_iter().filter_map(Listed::of).collect();
    if context.json() {
        output.json(&Document::new("study", List { studies: listed }))?;
    } else {
        let head = ["Study", "Measures", "Published in"];
        let head = head.into_iter().fold(Table::new(""), |table, name| table.column(name, Align::Left));
        let table = listed
            .iter()
            .fold(head, |table, one| table.row([one.name, one.measures, one.document.title], Tone::Plain));
        output.table(&(&table).into())?;
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct List {
    studies: Vec<Listed>,
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    measures: &'static str,
    document: &'static frame::Document,
}

impl Listed {
    fn of((name, measures): (&'static str, &'static str)) -> Option<Self> {
        let (_, document) = stook_study::documents().into_iter().find(|(other, _)| *other == name)?;
        Some(Self { name, measures, document })
    }
}

/// What studies need, from the terminal.
struct Terminal<'a>(&'a Context);

impl Hooks for Terminal<'_> {
    fn note(&self, line: &str) {
        self.0.note(line);
    }

    fn check(&self) -> anyhow::Result<()> {
        Ok(interrupt::check()?)
    }

    fn observer<'a>(&'a self, bench: &Bench) -> Box<dyn Observer + 'a> {
        Box::new(Watcher::new(bench.file_bytes, bench.expected_s(), self.0))
    }
}

/// Runs a study, which writes study.json and study.html into `out`, and prints the result.
fn measure(study: &impl Study, out: &Path, context: &Context) -> anyhow::Result<()> {
    let report = stook_study::run(study, out, &Terminal(context)).map_err(as_usage)?;
    let mut output = context.output();
    match context.json() {
        true => output.bytes(&report.json)?,
        false => print(&report.text, &mut output)?,
    }
    output.finish()?;
    for path in &report.paths {
        context.note(format_args!("Written: {}", path.display()));
    }
    Ok(())
}

/// Says what is left on the disk, and the command that removes it.
fn kept(what: &Path, command: &[&str], work: &Path, context: &Context) {
    let work = format!("'{}'", work.display().to_string().replace('\'', "'\\''"));
    context.note(format_args!(
        "Kept for the next run: {} ({} {work} removes it)",
        what.display(),
        command.join(" ")
    ));
}

/// Says what was removed.
fn cleaned(work: &Path, cleaned: Option<Cleaned>, context: &Context) {
    match cleaned {
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
}

/// An invalid request is an error of usage, with its exit code.
fn as_usage(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<OptionError>() {
        Ok(error) => UsageError::new(error.to_string()).into(),
        Err(error) => error.downcast().map_or_else(|error| error, bench::as_usage),
    }
}

fn print(text: &[Text], output: &mut Output) -> Result<(), OutputError> {
    text.iter().try_for_each(|text| match text {
        Text::Line(line) => output.line(line),
        Text::Table(table) => output.table(&table.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before: 7100 was 7,100 bytes a second, and 271MB/s was refused though it is printed so.
    #[test]
    fn a_rating_has_a_unit_as_it_is_printed_or_as_it_is_typed() {
        for (text, rating) in
            [("271M", 271e6), ("271MB/s", 271e6), ("271 MB/s", 271e6), ("7.1GB/s", 7.1e9), ("900K", 9e5)]
        {
            assert_eq!(parse_rating(text), Ok(rating), "{text}");
        }
        for text in ["7100", "271", "", "M", "-1M", "0M", "nanM", "1e3M", "271MiB/s", "999999999999G"] {
            assert!(parse_rating(text).unwrap_err().contains("271MB/s"), "{text}");
        }
    }
}
