//! `stook info`: what is in a pack or an archive, in what state it is, and what is to be done about
//! it.
//!
//! It reads what opening a pack reads, and no record.

mod archive;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use stook::ops::advice::{Advice, advise};
use stook::ops::contents::Opened;
use stook::pack::format::manifest::SegmentState;
use stook::pack::{Damage, Pack, SegmentInfo, TornTail, is_in_groups};
use stook::report::json::{Document, TextOrBytes};
use stook::report::units::{bytes_decimal, count, count_of, percent, significant};

use crate::context::Context;
use crate::fetch::FetchArgs;
use crate::output::{Align, Output, Table, printable};
use crate::{contents, failures, packs};

const EXAMPLES: &str = "\
Examples:
  stook info photos.stook
  stook info photos.stook --group thumbnails
  stook info photos.stook --json | jq .dead_bytes";

/// This many segments are listed by default.
const SEGMENTS_SHOWN_MAX: usize = 20;

/// What `stook info` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The pack, or a tar or zip archive, which may be at an address: https://…, s3://bucket/key
    pack: PathBuf,
    /// Only this group; may be given more than once
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// List all segments, not the first twenty, and all damage that was found on opening the pack,
    /// not the first ten
    #[arg(long)]
    verbose: bool,
    #[command(flatten)]
    fetch: FetchArgs,
}

#[derive(Debug, Serialize)]
struct Info<'a> {
    complete: bool,
    generation: u64,
    nonce: String,
    #[serde(flatten)]
    total: Sums,
    file_bytes: u64,
    overhead_bytes_per_record: Option<f64>,
    index_memory_bytes: u64,
    groups: Vec<Group>,
    segments: Vec<Segment>,
    torn_tails: Vec<Torn>,
    damages: Vec<packs::JsonDamage<'a>>,
    roots: Vec<Root<'a>>,
    action: &'static str,
    action_text: String,
}

/// Counts of records and bytes; bytes are those of frames: heads, keys, attributes, bodies,
/// checksums.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Sums {
    live_records: u64,
    dead_records: u64,
    live_bytes: u64,
    dead_bytes: u64,
    body_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Group {
    name: String,
    segments: u64,
    #[serde(flatten)]
    sums: Sums,
}

#[derive(Debug, Serialize)]
struct Segment {
    id: u64,
    group: String,
    state: &'static str,
    file_bytes: u64,
    #[serde(flatten)]
    sums: Sums,
    index_memory_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Torn {
    segment_id: u64,
    offset_bytes: u64,
    len_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Root<'a> {
    #[serde(flatten)]
    path: TextOrBytes<'a>,
}

impl Sums {
    fn of(segment: &SegmentInfo) -> Self {
        Self {
            live_records: segment.tally.records.saturating_sub(segment.dead_records),
            dead_records: segment.dead_records,
            live_bytes: segment.frame_bytes.saturating_sub(segment.dead_bytes),
            dead_bytes: segment.dead_bytes,
            body_bytes: segment.tally.body_bytes,
        }
    }

    fn add(&mut self, other: Self) {
        self.live_records += other.live_records;
        self.dead_records += other.dead_records;
        self.live_bytes += other.live_bytes;
        self.dead_bytes += other.dead_bytes;
        self.body_bytes += other.body_bytes;
    }

    fn records(&self) -> u64 {
        self.live_records + self.dead_records
    }

    fn dead_share(&self) -> f64 {
        self.dead_bytes as f64 / (self.live_bytes + self.dead_bytes).max(1) as f64
    }
}

/// Runs it.
///
/// # Errors
/// Returns an error if the pack cannot be opened.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    if let Some(error) = packs::no_address(&args.pack, |pack, key| {
        format!("`stook ls --long {pack} --prefix '{key}'` shows what is known of records")
    }) {
        return Err(error.into());
    }
    let opened = contents::open(&args.pack, None, &args.fetch, context)?;
    contents::check(&opened, &[], &args.groups)?;
    let pack = match &opened {
        Opened::Pack(contents) => contents.pack(),
        Opened::Archive(archive) => {
            contents::note_incomplete(&opened, context);
            return archive::run(archive, context);
        }
    };
    let damages = pack.damages();
    let info = gather(pack, &args.groups, &damages);
    context.mark_reported(&damages);
    let mut output = context.output();
    if context.json() {
        output.json(&Document::new("info", info))?;
    } else {
        print_text(pack, &info, args.verbose, &mut output)?;
    }
    output.finish()?;
    Ok(ExitCode::SUCCESS)
}

fn gather<'a>(pack: &'a Pack, only: &[String], damages: &'a [Damage]) -> Info<'a> {
    let mut segments = pack.segments();
    segments.retain(|segment| is_in_groups(only, &segment.group));
    let mut total = Sums::default();
    let mut groups: BTreeMap<&str, (u64, Sums)> = BTreeMap::new();
    for segment in &segments {
        let sums = Sums::of(segment);
        total.add(sums);
        let group = groups.entry(&segment.group).or_default();
        group.0 += 1;
        group.1.add(sums);
    }
    let Advice { action, text: action_text } = advise(pack, only);
    let group = |(name, (segments, sums)): (&str, _)| Group { name: name.to_owned(), segments, sums };
    let file_bytes =
        if only.is_empty() { pack.file_bytes() } else { segments.iter().map(|s| s.file_bytes).sum() };
    let overhead = file_bytes.saturating_sub(total.body_bytes) as f64;
    Info {
        complete: pack.is_complete(),
        generation: pack.generation(),
        nonce: pack.nonce(),
        total,
        file_bytes,
        overhead_bytes_per_record: (total.records() > 0).then(|| overhead / total.records() as f64),
        index_memory_bytes: segments.iter().map(|segment| segment.index_memory_bytes).sum(),
        groups: groups.into_iter().map(group).collect(),
        segments: segments.iter().map(segment).collect(),
        torn_tails: pack.torn_tails().iter().map(torn).collect(),
        damages: packs::JsonDamage::all(damages),
        roots: pack.roots().iter().map(|root| Root { path: TextOrBytes::new("path", root) }).collect(),
        action,
        action_text,
    }
}

fn segment(info: &SegmentInfo) -> Segment {
    Segment {
        id: info.id,
        group: info.group.clone(),
        state: match info.state {
            SegmentState::Active => "active",
            SegmentState::Sealed => "sealed",
        },
        file_bytes: info.file_bytes,
        sums: Sums::of(info),
        index_memory_bytes: info.index_memory_bytes,
    }
}

fn torn(torn: &TornTail) -> Torn {
    Torn { segment_id: torn.segment, offset_bytes: torn.offset, len_bytes: torn.len }
}

fn print_text(pack: &Pack, info: &Info<'_>, verbose: bool, output: &mut Output) -> anyhow::Result<()> {
    let state = if info.complete { "complete" } else { "incomplete" };
    let mut table = Table::new([("", Align::Left), ("", Align::Left)]);
    table.row(["state".into(), format!("{state}, generation {}", info.generation)]);
    table.row(["nonce".into(), info.nonce.clone()]);
    for root in pack.roots() {
        table.row(["packed from".into(), printable(root)]);
    }
    let total = &info.total;
    table.row(["live".into(), amount(total.live_records, total.live_bytes)]);
    let dead = amount(total.dead_records, total.dead_bytes);
    table.row(["dead".into(), format!("{dead} ({})", percent(total.dead_share()))]);
    let overhead = info
        .overhead_bytes_per_record
        .map_or(String::new(), |bytes| format!(", {} bytes a record besides its body", significant(bytes)));
    table.row(["on disk".into(), format!("{}{overhead}", bytes_decimal(info.file_bytes))]);
    table.row(["index in memory".into(), bytes_decimal(info.index_memory_bytes)]);
    table.row(["to do".into(), info.action_text.clone()]);
    output.table(&table)?;
    print_tables(info, verbose, output)?;
    for torn in &info.torn_tails {
        output.line(format_args!(
            "segment-{:016x} has an unfinished end of {} bytes at offset {}; readers ignore it, the next writer cuts it",
            torn.segment_id, torn.len_bytes, torn.offset_bytes
        ))?;
    }
    let damages = pack.damages();
    let (reported, more) = failures::few(&damages, verbose);
    reported.iter().try_for_each(|damage| output.line(damage))?;
    if let Some(more) = more {
        output.line(format_args!("… and {more} more places that are damaged; `--verbose` lists them all"))?;
    }
    Ok(())
}

fn print_tables(info: &Info<'_>, verbose: bool, output: &mut Output) -> anyhow::Result<()> {
    if info.segments.is_empty() {
        return Ok(());
    }
    let mut groups = Table::new([
        ("group", Align::Left),
        ("segments", Align::Right),
        ("live records", Align::Right),
        ("live", Align::Right),
        ("dead records", Align::Right),
        ("dead", Align::Right),
    ]);
    for group in &info.groups {
        let sums = &group.sums;
        let cells = [
            group_name(&group.name),
            count(group.segments),
            count(sums.live_records),
            bytes_decimal(sums.live_bytes),
            count(sums.dead_records),
            bytes_decimal(sums.dead_bytes),
        ];
        groups.row(cells);
    }
    let reported = if verbose { info.segments.len() } else { SEGMENTS_SHOWN_MAX };
    for table in [groups, segment_table(info.segments.iter().take(reported))] {
        output.line("")?;
        output.table(&table)?;
    }
    if let Some(more) = info.segments.len().checked_sub(reported).filter(|more| *more > 0) {
        let more = count(more as u64);
        output.line(format_args!("… and {more} more segments; `--verbose` lists them all"))?;
    }
    Ok(())
}

fn segment_table<'a>(listed: impl Iterator<Item = &'a Segment>) -> Table {
    let mut segments = Table::new([
        ("segment", Align::Right),
        ("group", Align::Left),
        ("state", Align::Left),
        ("records", Align::Right),
        ("dead", Align::Right),
        ("file", Align::Right),
    ]);
    for segment in listed {
        segments.row([
            format!("{:016x}", segment.id),
            group_name(&segment.group),
            segment.state.to_owned(),
            count(segment.sums.records()),
            count(segment.sums.dead_records),
            bytes_decimal(segment.file_bytes),
        ]);
    }
    segments
}

fn group_name(name: &str) -> String {
    if name.is_empty() { "(default)".into() } else { printable(name.as_bytes()) }
}

fn amount(records: u64, len_bytes: u64) -> String {
    format!("{}, {}", count_of(records, "record", "records"), bytes_decimal(len_bytes))
}
