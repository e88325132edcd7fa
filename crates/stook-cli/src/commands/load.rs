//! `stook load`: every live record of a pack or member of an archive, every checksum, and how fast
//! that went.
//!
//! Bodies go nowhere: it proves that a pack is whole, and measures what a program that loads it
//! gets.

mod cursor_file;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde::Serialize;
use stook::ops::contents::{
    Cached, Contents, Error, LoadEvents, LoadOptions, LoadReport, Part, SourceSpan, files_of, is_object,
};
use stook::ops::raw::read_raw;
use stook::pack::Stop;
use stook::report::json::Document;
use stook::report::units::{bytes_decimal, count_of, duration, percent, rate_of};

use crate::context::Context;
use crate::exit::UsageError;
use crate::fetch::FetchArgs;
use crate::keys::{KeyArgs, Order};
use crate::output::printable;
use crate::progress::{Progress, Unit};
use crate::{contents, exit, interrupt, packs};

const EXAMPLES: &str = "\
The device's speed is measured on the same bytes, read past the page cache in
1 MiB pieces at depth 16 and discarded, once before and once after the load.
Cached bytes are read from the page cache, so a load may be faster than the
device: the cached share is reported.

Examples:
  stook load photos.stook
  stook load photos.stook --in-memory --device-share
  stook load photos.stook --group train --json | jq .seconds
  stook load photos.stook --threads 4
  stook load photos.stook --prefix 2024/ --order key
  stook load photos.stook --max-records 100000 --cursor position

--order disk takes records as they are on the medium, at its speed; --order key
by key. --split K/N takes the K-th of N parts of about equal length: every
record is in exactly one of them, unless the pack is written to meanwhile.
--cursor FILE continues after the last record that was loaded, and saves its
position in FILE: at the end, after --max-records, or at Ctrl-C.

Exit code 1 when the pack is incomplete or damaged; all damage is listed, and
the rest is loaded.";

/// What `stook load` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The pack, or a tar or zip archive, which may be at an address: https://…, s3://bucket/key
    pack: PathBuf,
    /// Keep all records in memory at once, rather than one after another
    #[arg(long)]
    in_memory: bool,
    /// Only this group; may be given more than once
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    #[command(flatten)]
    keys: KeyArgs,
    /// In which order
    #[arg(long, value_enum, default_value = "disk")]
    order: Order,
    /// Only the K-th of N parts of about equal length
    #[arg(long, value_name = "K/N", conflicts_with = "in_memory")]
    split: Option<Part>,
    /// Load parts of the pack in parallel, in this many threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = packs::number::<u16>(1..=1024),
        conflicts_with_all = ["in_memory", "split", "max_records", "cursor"])]
    threads: u16,
    /// Stop after this many records
    #[arg(long, value_name = "N", conflicts_with = "in_memory", value_parser = packs::number::<u64>(1..=u64::MAX))]
    max_records: Option<u64>,
    /// Continue from the position in FILE, if it exists, and save the new position there
    #[arg(long, value_name = "FILE", conflicts_with = "in_memory")]
    cursor: Option<PathBuf>,
    /// Also measure the device, and show the load's share of its speed
    #[arg(long)]
    device_share: bool,
    #[command(flatten)]
    view: packs::View,
    #[command(flatten)]
    fetch: FetchArgs,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    records: u64,
    bytes: u64,
    seconds: f64,
    device_share: Option<f64>,
    bytes_per_s: f64,
    segment_bytes: u64,
    device_bytes_per_s: Option<f64>,
    cached_share: Option<f64>,
    in_memory: bool,
    order: Order,
    threads: u16,
    at_end: bool,
    interrupted: bool,
    complete: bool,
    damages: Vec<packs::JsonDamage<'a>>,
}

/// Runs it.
///
/// # Errors
/// Returns an error if the pack or the archive cannot be opened or read.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    if args.device_share && is_object(&args.pack) {
        return Err(UsageError::new(
            "--device-share is for files: below an object there is no device to measure",
        )
        .into());
    }
    let mut options = options(&args)?;
    let opened = contents::open(&args.pack, args.view.at_ns(), &args.fetch, context)?;
    contents::check(&opened, &options.features(), &args.groups)?;
    options.check().map_err(|error| UsageError::new(format!("--threads: {error}")))?;
    options.from = args.cursor.as_deref().map(cursor_file::read).transpose()?.flatten();
    let spans = opened.contents().spans(&args.groups);
    let segment_bytes = spans.iter().map(|(_, range)| range.len()).sum();
    let cached = Cached::of(&spans)?;
    let mut device = Vec::new();
    if args.device_share {
        device.push(time_raw(&spans, context)?);
    }
    let started = Instant::now();
    let loaded = load(opened.contents(), &options, &args, context)?;
    let elapsed = started.elapsed();
    if args.device_share {
        device.push(time_raw(&spans, context)?);
    }
    let device: Option<Vec<f64>> = device.into_iter().collect();
    let device_s = device.filter(|both| !both.is_empty() && segment_bytes > 0);
    let device_s = device_s.map(|both| both.iter().sum::<f64>() / both.len() as f64);
    let seconds = elapsed.as_secs_f64();
    let report = Report {
        records: loaded.records,
        bytes: loaded.bytes,
        seconds,
        device_share: device_s.map(|device_s| device_s / seconds),
        bytes_per_s: (loaded.bytes - loaded.hole_bytes) as f64 / seconds,
        segment_bytes,
        device_bytes_per_s: device_s.map(|device_s| segment_bytes as f64 / device_s),
        cached_share: cached.share(),
        in_memory: args.in_memory,
        order: args.order,
        threads: args.threads,
        at_end: !loaded.is_partial && !loaded.interrupted,
        interrupted: loaded.interrupted,
        complete: opened.contents().is_complete(),
        damages: packs::JsonDamage::all(&loaded.damages),
    };
    print_report(context, (&report, cached), &loaded, elapsed)?;
    contents::report_incomplete(&opened, context);
    let mut failures = loaded.undone;
    if loaded.interrupted {
        return Ok(ExitCode::from(exit::INTERRUPTED));
    }
    // What was loaded before, or in another part, is not missing.
    let is_whole = args.split.is_none() && args.cursor.is_none();
    if loaded.records == 0 && failures == 0 && is_whole && opened.pack().is_some() {
        let asked = args.keys.asked().with("--group", &args.groups);
        failures += asked.report_nothing(&args.pack, "record", context);
    }
    Ok(exit::code_for(failures))
}

/// The options from the arguments, except the cursor to continue from.
fn options(args: &Args) -> Result<LoadOptions, UsageError> {
    Ok(LoadOptions {
        groups: args.groups.clone(),
        keys: args.keys.range()?,
        order: args.order.into(),
        in_memory: args.in_memory,
        part: args.split,
        threads: usize::from(args.threads),
        records_max: args.max_records,
        wants_cursor: args.cursor.is_some(),
        from: None,
        stop: Stop(interrupt::interrupted),
    })
}

/// Loads, and keeps where that ended.
fn load(
    contents: &dyn Contents,
    options: &LoadOptions,
    args: &Args,
    context: &Context,
) -> anyhow::Result<LoadReport> {
    let bar = context.progress("loading", Unit::Bytes, None);
    let loaded = match (contents.load(options, &Shown { bar, context }), &args.cursor) {
        (Err(Error::OtherCursor), Some(file)) => {
            return Err(UsageError::new(format!(
                "the cursor in {} is of a load with another order, other keys, groups or parts: give the same \
                 as then, or another file",
                file.display()
            ))
            .into());
        }
        (loaded, _) => loaded?,
    };
    if let (Some(cursor), Some(file)) = (&loaded.cursor, &args.cursor) {
        cursor_file::write(file, cursor)?;
    }
    Ok(loaded)
}

/// A load as a bar, and what fails in it.
struct Shown<'a> {
    bar: Progress,
    context: &'a Context,
}

impl LoadEvents for Shown<'_> {
    fn total(&self, bytes: u64) {
        self.bar.set_total(Unit::Bytes, bytes);
    }

    fn passed(&self, bytes: u64) {
        self.bar.add(bytes);
    }

    fn failed(&self, key: &[u8], error: &stook::archive::Error) {
        let error = anyhow::anyhow!("{}: {}", printable(key), exit::chain(error));
        self.context.failure(error.as_ref());
    }
}

fn print_report(
    context: &Context,
    (report, cached): (&Report<'_>, Cached),
    loaded: &LoadReport,
    elapsed: Duration,
) -> anyhow::Result<()> {
    context.damaged(&loaded.damages);
    let mut output = context.output();
    if context.json() {
        output.json(&Document::new("load", report))?;
        return Ok(output.finish()?);
    }
    // Holes are not read, however long.
    let holes = match loaded.hole_bytes {
        0 => String::new(),
        holes => format!(" ({} of them holes)", bytes_decimal(holes)),
    };
    output.line(format_args!(
        "{}, {}{holes} in {}: {}",
        count_of(report.records, "record", "records"),
        bytes_decimal(report.bytes),
        duration(elapsed),
        rate_of(report.bytes - loaded.hole_bytes, elapsed)
    ))?;
    if loaded.interrupted {
        output.line("interrupted, run it again to continue")?;
    } else if loaded.is_partial {
        output.line("stopped after --max-records; there may be more")?;
    }
    if let (Some(share), Some(device)) = (report.device_share, report.device_bytes_per_s) {
        output.line(format_args!(
            "{} of the device's speed, which is {}",
            percent(share),
            stook::report::units::rate(device)
        ))?;
    }
    match cached {
        Cached::Share(share) => output
            .line(format_args!("{} of the bytes were in the page cache before the load", percent(share)))?,
        Cached::Unknown => output.line("this kernel does not report how much was in the page cache")?,
        Cached::Denied => output
            .line("how much was in the page cache is reported only to users who may write to the files")?,
        Cached::Elsewhere => {}
    }
    Ok(output.finish()?)
}

/// How long the device takes for these bytes when they are discarded.
fn time_raw(spans: &[SourceSpan], context: &Context) -> anyhow::Result<Option<f64>> {
    let total = spans.iter().map(|(_, range)| range.len()).sum();
    let bar = context.progress("measuring the device", Unit::Bytes, Some(total));
    match read_raw(&files_of(spans)?, &mut |bytes| bar.go_on(bytes, None)) {
        Ok(read) => Ok(Some(read.time.as_secs_f64())),
        Err(Error::Interrupted) => Err(Error::Interrupted.into()),
        // What the medium does not give back costs this figure; the load finds what it costs else.
        Err(error) => {
            drop(bar);
            context.note(format_args!("The device's share is not known: {}.", exit::chain(&error)));
            Ok(None)
        }
    }
}
