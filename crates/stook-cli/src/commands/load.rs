//! `stook load`: every live record of a pack, every checksum, and how fast that went.
//!
//! Bodies go nowhere: it proves that a pack is whole, and measures what a program that loads it gets.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use stook::engine::{Access, Backend, Buffer, CacheResidency, EngineFactory as _, File, Operation, Request};
use stook::extent::ByteRange;
use stook::pack::{Damage, Error, OnDamage, Pack, ScanOptions};
use stook::report::json::Document;
use stook::report::units::{bytes_decimal, count, duration, percent, rate_of};
use stook::source::{Leaf, Source};

use crate::context::Context;
use crate::progress::Unit;
use crate::{exit, interrupt, packs};

const EXAMPLES: &str = "\
The device's speed is measured on the same bytes, read past the page cache in
1 MiB pieces at depth 16 and not looked at, once before and once after the
load. What the page cache holds is read from there, so a load may be faster
than the device: the cached share is told.

Examples:
  stook load photos.stook
  stook load photos.stook --in-memory --device-share
  stook load photos.stook --group train --json | jq .seconds

Exit code 1 when the pack is incomplete or damaged; all damage is listed, and
the rest is loaded.";

/// One read of the device, in bytes, and reads in flight.
const READ_LEN: u64 = 1 << 20;
const READ_DEPTH: usize = 16;

/// What `stook load` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The pack
    pack: PathBuf,
    /// Keep all records in memory at once, rather than one after another
    #[arg(long)]
    in_memory: bool,
    /// Only this group; may be given more than once
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// Measure the device too, and tell the load's share of its speed
    #[arg(long)]
    device_share: bool,
    #[command(flatten)]
    view: packs::View,
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
    complete: bool,
    damages: Vec<packs::JsonDamage<'a>>,
}

type Stretch = (Arc<dyn Source>, ByteRange);

/// What was loaded.
#[derive(Debug, Default)]
struct Outcome {
    records: u64,
    bytes: u64,
    damages: Vec<Damage>,
}

/// Runs it.
///
/// # Errors
/// When the pack cannot be opened or read.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    let pack = args.view.open(&args.pack)?;
    packs::check_groups(&pack, &args.pack, &args.groups)?;
    let stretches = pack.stretches(&args.groups);
    let segment_bytes = stretches.iter().map(|(_, range)| range.len()).sum();
    let cached_share = cached_share(&stretches)?;
    let mut device = Vec::new();
    if args.device_share {
        device.push(read_raw(&stretches, context)?);
    }
    let started = Instant::now();
    let mut outcome = load(&pack, &args, segment_bytes, context)?;
    let elapsed = started.elapsed();
    if args.device_share {
        device.push(read_raw(&stretches, context)?);
    }
    add_damages(&pack, &mut outcome);
    let device_s = device.iter().map(Duration::as_secs_f64).sum::<f64>() / device.len() as f64;
    let measured = args.device_share && segment_bytes > 0;
    let seconds = elapsed.as_secs_f64();
    let report = Report {
        records: outcome.records,
        bytes: outcome.bytes,
        seconds,
        device_share: measured.then_some(device_s / seconds),
        bytes_per_s: outcome.bytes as f64 / seconds,
        segment_bytes,
        device_bytes_per_s: measured.then_some(segment_bytes as f64 / device_s),
        cached_share,
        in_memory: args.in_memory,
        complete: pack.is_complete(),
        damages: packs::JsonDamage::all(&outcome.damages),
    };
    tell(context, &report, &outcome, elapsed)?;
    if !pack.is_complete() {
        let error = anyhow::anyhow!(
            "{} is incomplete: run the `stook pack` that was building it again",
            args.pack.display()
        );
        context.failure(error.as_ref());
    }
    Ok(exit::code_for(outcome.damages.len() as u64 + u64::from(!pack.is_complete())))
}

/// Damage met when opening the pack counts too; what was met twice is told once.
fn add_damages(pack: &Pack, outcome: &mut Outcome) {
    let met = std::mem::take(&mut outcome.damages);
    for damage in pack.damages().iter().cloned().chain(met) {
        if !outcome.damages.contains(&damage) {
            outcome.damages.push(damage);
        }
    }
}

fn tell(context: &Context, report: &Report<'_>, outcome: &Outcome, elapsed: Duration) -> anyhow::Result<()> {
    for damage in &outcome.damages {
        context.failure(&Error::Damaged(damage.clone()));
    }
    let mut output = context.output();
    if context.json() {
        output.json(&Document::new("load", report))?;
        return Ok(output.finish()?);
    }
    output.line(format_args!(
        "{} {}, {} in {}: {}",
        count(report.records),
        if report.records == 1 { "record" } else { "records" },
        bytes_decimal(report.bytes),
        duration(elapsed),
        rate_of(report.bytes, elapsed)
    ))?;
    if let (Some(share), Some(device)) = (report.device_share, report.device_bytes_per_s) {
        output.line(format_args!(
            "{} of the device's speed, which is {}",
            percent(share),
            stook::report::units::rate(device)
        ))?;
    }
    match report.cached_share {
        Some(share) => output
            .line(format_args!("{} of the bytes were in the page cache before the load", percent(share)))?,
        None => output.line("this kernel does not tell how much was in the page cache")?,
    }
    Ok(output.finish()?)
}

fn load(pack: &Pack, args: &Args, segment_bytes: u64, context: &Context) -> anyhow::Result<Outcome> {
    let options = ScanOptions { groups: args.groups.clone(), on_damage: OnDamage::Skip };
    if args.in_memory {
        let loaded = pack.load(&options)?;
        let damages = loaded.damages().to_vec();
        return Ok(Outcome { records: loaded.len() as u64, bytes: loaded.body_bytes(), damages });
    }
    stream(pack, options, segment_bytes, context)
}

fn stream(
    pack: &Pack,
    options: ScanOptions,
    segment_bytes: u64,
    context: &Context,
) -> anyhow::Result<Outcome> {
    let bar = context.progress("loading", Unit::Bytes, Some(segment_bytes));
    let mut scan = pack.scan(options);
    let mut outcome = Outcome::default();
    while let Some(record) = scan.next()? {
        interrupt::check()?;
        let whole = record.body().map(|body| body.len() as u64);
        let len = match whole {
            Some(len) => Ok(len),
            None => {
                let mut len = 0;
                loop {
                    match scan.next_chunk() {
                        Ok(Some(chunk)) => len += chunk.len() as u64,
                        Ok(None) => break Ok(len),
                        Err(error) => break Err(error),
                    }
                    interrupt::check()?;
                    bar.add(scan.bytes_passed().saturating_sub(bar.done()));
                }
            }
        };
        match len {
            Ok(len) => {
                outcome.records += 1;
                outcome.bytes += len;
            }
            Err(Error::Damaged(damage)) => outcome.damages.push(damage),
            Err(error) => return Err(error.into()),
        }
        bar.add(scan.bytes_passed().saturating_sub(bar.done()));
    }
    outcome.damages.extend_from_slice(scan.damages());
    Ok(outcome)
}

/// The files behind a range of a source, and the ranges in them.
fn files(stretches: &[Stretch]) -> anyhow::Result<Vec<(Arc<File>, ByteRange)>> {
    let mut leaves = Vec::new();
    for (source, range) in stretches {
        source.resolve(*range, &mut leaves)?;
    }
    let file = |leaf| match leaf {
        Leaf::File { file, range } => Some((file, range)),
        Leaf::Bytes(_) | Leaf::Fill { .. } => None,
    };
    Ok(leaves.into_iter().filter_map(file).collect())
}

fn cached_share(stretches: &[Stretch]) -> anyhow::Result<Option<f64>> {
    let (mut cached, mut total) = (0, 0);
    for (file, range) in files(stretches)? {
        let CacheResidency::Known { cached_bytes, .. } = CacheResidency::of(&file, range) else {
            return Ok(None);
        };
        cached += cached_bytes;
        total += range.len();
    }
    Ok(Some(cached as f64 / total.max(1) as f64))
}

/// How long the device takes for these bytes when nobody looks at them.
fn read_raw(stretches: &[Stretch], context: &Context) -> anyhow::Result<Duration> {
    let total = stretches.iter().map(|(_, range)| range.len()).sum();
    let bar = context.progress("measuring the device", Unit::Bytes, Some(total));
    let mut engine = Backend::Auto.build(READ_DEPTH)?;
    let mut reads = Vec::new();
    for (file, range) in files(stretches)? {
        let mut at = range.start() / READ_LEN * READ_LEN;
        while at < range.end() {
            reads.push((file.clone(), at, READ_LEN.min(range.end() - at) as usize));
            at += READ_LEN;
        }
    }
    let mut idle: Vec<Buffer> = (0..READ_DEPTH).map(|_| Buffer::with_capacity(2 << 20)).collect();
    let mut completions = Vec::new();
    let mut reads = reads.into_iter();
    let started = Instant::now();
    loop {
        interrupt::check()?;
        while let Some(mut buffer) = idle.pop() {
            let Some((file, offset, len)) = reads.next() else { break };
            buffer.clear();
            let operation = Operation::Read { offset, len, buffer };
            engine.submit(Request { token: 0, file, access: Access::Direct, operation });
        }
        if engine.in_flight() == 0 {
            return Ok(started.elapsed());
        }
        engine.reap(1, &mut completions)?;
        for completion in completions.drain(..) {
            bar.add(completion.result? as u64);
            idle.extend(completion.buffer);
        }
    }
}
