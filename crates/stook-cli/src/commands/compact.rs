//! `stook compact`: removes dead records, and restores the key order of live ones.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde::Serialize;
use stook::ops::compact::{Compact, Error};
use stook::pack::{CompactPlan, Compacted, Stop, TooLarge};
use stook::report::units::{self, bytes_decimal, count_of};

use crate::context::Context;
use crate::exit::{self, INTERRUPTED, UsageError, chain};
use crate::output::printable;
use crate::progress::Unit;
use crate::{interrupt, packs};

const EXAMPLES: &str = "\
Rewrites the live records in the order of their keys, and then removes the old
segments: deleted and replaced records are gone, and a scan in key order is one
long read. Readers that have the pack open continue to see its old state; the
files they need are removed when they are done.

It works in steps, each of which needs as much free space as the records it
keeps; --extra-space limits that. Finished steps are never lost: after Ctrl-C or
a kill, run it again.

Examples:
  stook compact photos.stook
  stook compact photos.stook --dry-run            what it would free, and how long it takes
  stook compact photos.stook --max-dead 30%       only groups of which 30% or more is dead
  stook compact photos.stook --keep 7d            the last week stays readable with --at

Exit code 1 when segments were not compacted because they are damaged.";

/// What `stook compact` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The pack
    pack: PathBuf,
    /// Only this group; may be given more than once
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// Keep records that were replaced or deleted within this time readable with --at: 90s, 12h, 7d
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_keep)]
    keep: Duration,
    /// Only compact groups in which at least this share of bytes is dead
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    max_dead: Option<f64>,
    /// Additional space that a step may take; by default 16GiB, or half of the free space if that
    /// is less
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    extra_space: Option<u64>,
    /// Memory for records on their way
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_size)]
    memory: u64,
    /// Show what would be done, what it would free and how long it would take, and change nothing
    #[arg(long)]
    dry_run: bool,
}

fn parse_size(text: &str) -> Result<u64, String> {
    units::parse_size(text).map_err(|error| chain(&error))
}

fn parse_keep(text: &str) -> Result<Duration, String> {
    if text.parse::<f64>().is_ok() {
        return Err(format!("{text:?} has no unit; expected a time like 90s, 12h or 7d"));
    }
    let seconds = units::parse_seconds(text).map_err(|error| chain(&error))?;
    let wrong = |_| format!("{text:?} is out of range; expected a time like 90s, 12h or 7d");
    Duration::try_from_secs_f64(seconds).map_err(wrong)
}

fn parse_share(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    let share = percent.map(|percent| percent / 100.0).filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("{text:?} is not a share; expected a percentage from 0% to 100%, like 30%"))
}

#[derive(Debug, Serialize)]
struct PlanReport<'a> {
    dry_run: bool,
    #[serde(flatten)]
    plan: &'a CompactPlan,
    kept_bytes: u64,
    won_bytes: u64,
    dead_records: u64,
    seconds_estimated: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Done<'a> {
    dry_run: bool,
    steps: u64,
    records: u64,
    bytes: u64,
    dead_records: u64,
    before_bytes: u64,
    after_bytes: u64,
    seconds: f64,
    interrupted: bool,
    left_out: Vec<packs::JsonDamage<'a>>,
    too_large: &'a [TooLarge],
}

/// Runs it.
///
/// # Errors
/// Returns an error if the pack cannot be read or written, or there is no space.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let compacting = Compact {
        groups: args.groups,
        keep: args.keep,
        max_dead: args.max_dead,
        extra_len: args.extra_space,
        memory_len: usize::try_from(args.memory).unwrap_or(usize::MAX),
    };
    compacting.check().map_err(|error| UsageError::new(error.to_string()))?;
    let hooks = &mut packs::hooks(context);
    if args.dry_run {
        let previewed = compacting.preview_at(&args.pack, hooks, Stop(interrupt::interrupted));
        // A scan that is stopped was interrupted.
        interrupt::check()?;
        let (plan, seconds) = previewed.map_err(by_option)?;
        report_too_large(&plan.too_large, context);
        print_plan(&plan, seconds, context)?;
        return Ok(ExitCode::SUCCESS);
    }
    let started = Instant::now();
    let bar = context.progress("compacting", Unit::Bytes, None);
    let done = compacting.run_at(&args.pack, hooks, &mut |bytes, total| bar.go_on(bytes, Some(total)));
    drop(bar);
    let done = done.map_err(by_option)?;
    report_too_large(&done.too_large, context);
    print(&done, started.elapsed(), context)?;
    if done.interrupted {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(exit::code_for((done.left_out.len() + done.too_large.len()) as u64))
}

/// The error, with the option that bounds the room of a step.
fn by_option(error: Error) -> anyhow::Error {
    match error {
        Error::NoSpace { .. } => anyhow::anyhow!("{error} (--extra-space)"),
        Error::Pack(error) => error.into(),
        error => error.into(),
    }
}

fn report_too_large(too_large: &[TooLarge], context: &Context) {
    for left in too_large {
        context.failure(anyhow::anyhow!("{left} (--extra-space)").as_ref());
    }
}

fn print_plan(plan: &CompactPlan, seconds: Option<f64>, context: &Context) -> anyhow::Result<()> {
    let mut output = context.output();
    let (kept_bytes, won_bytes) = (plan.kept_bytes(), plan.won_bytes());
    if context.json() {
        let dead_records = plan.dead_records();
        let planned = PlanReport {
            dry_run: true,
            plan,
            kept_bytes,
            won_bytes,
            dead_records,
            seconds_estimated: seconds,
        };
        packs::print_json(&mut output, "compact", planned, context)?;
        return Ok(output.finish()?);
    }
    if plan.steps.is_empty() {
        if plan.too_large.is_empty() {
            output.line("nothing to compact")?;
        }
        return Ok(output.finish()?);
    }
    for step in &plan.steps {
        let group = if step.group.is_empty() {
            String::new()
        } else {
            format!(" of group {}", printable(step.group.as_bytes()))
        };
        let order = if step.in_order { "" } else { ", puts them in order" };
        output.line(format_args!(
            "{}{group}: keeps {}, frees {}{order}",
            count_of(step.segments.len() as u64, "segment", "segments"),
            bytes_decimal(step.kept_bytes),
            bytes_decimal(step.won_bytes),
        ))?;
    }
    let time = seconds.map_or(String::new(), |seconds| {
        format!(", in about {}", units::duration(Duration::from_secs_f64(seconds)))
    });
    output.line(format_args!(
        "would free {} ({}) and write {}{time}",
        bytes_decimal(won_bytes),
        count_of(plan.dead_records(), "dead record", "dead records"),
        bytes_decimal(kept_bytes)
    ))?;
    Ok(output.finish()?)
}

fn print(done: &Compacted, took: Duration, context: &Context) -> anyhow::Result<()> {
    let mut output = context.output();
    if context.json() {
        let report = Done {
            dry_run: false,
            steps: done.steps,
            records: done.records,
            bytes: done.bytes,
            dead_records: done.dead_records,
            before_bytes: done.before_bytes,
            after_bytes: done.after_bytes,
            seconds: took.as_secs_f64(),
            interrupted: done.interrupted,
            left_out: packs::JsonDamage::all(&done.left_out),
            too_large: &done.too_large,
        };
        packs::print_json(&mut output, "compact", report, context)?;
        return Ok(output.finish()?);
    }
    for damage in &done.left_out {
        output.line(format_args!("left as it is: {damage}"))?;
    }
    if !context.quiet() {
        if done.steps == 0 && !done.interrupted {
            if done.too_large.is_empty() && done.left_out.is_empty() {
                output.line("nothing to compact")?;
            }
            return Ok(output.finish()?);
        }
        output.line(sentence(done, took))?;
    }
    Ok(output.finish()?)
}

fn sentence(done: &Compacted, took: Duration) -> String {
    let records = count_of(done.records, "record", "records");
    let speed = units::rate(done.bytes as f64 / took.as_secs_f64().max(1e-9));
    let took = units::duration(took);
    let (before, after) = (bytes_decimal(done.before_bytes), bytes_decimal(done.after_bytes));
    let is_smaller = done.after_bytes < done.before_bytes && before != after;
    if done.dead_records == 0 && !is_smaller && !done.interrupted {
        return format!("nothing was dead: no room was freed; {records} put in order, {speed} in {took}");
    }
    let verdict = if done.interrupted { "interrupted, run it again to continue" } else { "done" };
    format!(
        "{verdict}: {before} became {after}; {records} in order, {} gone, {speed} in {took}",
        count_of(done.dead_records, "dead one", "dead ones"),
    )
}
