//! `stook check`: every damage of a pack, with file, offset and key.

mod repair;

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use stook::ops::check::{accept, check};
use stook::pack::{CheckReport, Error};
use stook::report::json::Document;
use stook::report::units::{bytes_decimal, count, count_of};

use crate::context::Context;
use crate::exit::code_for;
use crate::output::printable;
use crate::progress::Unit;
use crate::{contents, interrupt, packs};

const EXAMPLES: &str = "\
Checks every record, live or dead, every page of the indexes, whether indexes
and records agree, whether deletions refer to records, and whether a key is live
twice. Nothing is changed.

--accept also calls a pack that is incomplete complete as it is, if there is no
damage: for one that no `stook pack` can complete, because what it was made from
is gone.

--repair writes all intact live records into a new pack, in the order of the
keys; a damaged pack is read by an older manifest, or by its segments alone.
What cannot be read, and hard links of files that are lost, are copied, byte for
byte, into NEW.quarantine, with a report of where they were and what is wrong
with them.

Examples:
  stook check photos.stook
  stook check photos.stook --repair saved.stook
  stook check photos.stook --accept
  stook check photos.stook --json | jq -r '.damages[].key'

Exit code 1 when there is damage, or the pack is incomplete; intact records can
still be read.";

/// What `stook check` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The pack
    pack: PathBuf,
    /// Save everything that is whole into a new pack, and set the rest aside
    #[arg(long, value_name = "NEW")]
    repair: Option<PathBuf>,
    /// Call the pack complete as it is, if it is incomplete and has no damage
    #[arg(long, conflicts_with = "repair")]
    accept: bool,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    records: u64,
    live_records: u64,
    body_bytes: u64,
    damages: Vec<packs::JsonDamage<'a>>,
    notes: &'a [String],
    complete: bool,
    accepted: bool,
}

/// Runs it.
///
/// # Errors
/// Returns an error if the pack cannot be opened or read.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    if let Some(new) = &args.repair {
        return repair::run(&args.pack, new, context);
    }
    let bar = context.progress("checking", Unit::Bytes, None);
    let mut progress = |done, total| bar.go_on(done, Some(total));
    let report = match args.accept {
        true => accept(&args.pack, &mut packs::hooks(context), &mut progress),
        false => check(&args.pack, &mut |log| context.watch(log), &mut progress),
    };
    drop(bar);
    let report = match report {
        Err(Error::Stopped) => return Err(interrupt::Interrupted.into()),
        report => report?,
    };
    context.mark_reported(&report.damages);
    if report.is_incomplete {
        contents::report_incomplete_pack(&args.pack, context);
    }
    if context.json() {
        print_json(context, &report)?;
    } else {
        print_text(context, &report)?;
    }
    Ok(code_for(report.undone()))
}

fn print_json(context: &Context, report: &CheckReport) -> anyhow::Result<()> {
    let document = Report {
        records: report.records,
        live_records: report.live_records,
        body_bytes: report.body_bytes,
        damages: packs::JsonDamage::all(&report.damages),
        notes: &report.notes,
        complete: !report.is_incomplete,
        accepted: report.accepted,
    };
    let mut output = context.output();
    output.json(&Document::new("check", document))?;
    Ok(output.finish()?)
}

fn print_text(context: &Context, report: &CheckReport) -> anyhow::Result<()> {
    let mut output = context.output();
    for damage in &report.damages {
        output.line(damage)?;
    }
    if !context.quiet() {
        // What cannot be written to is not packed into again.
        if !report.needs_repair && report.damages.iter().any(|damage| damage.key.is_some()) {
            output.line(
                "note: `stook pack --checksum DIR PACK` packs what is damaged again where the file is still there; \
                 `stook compact` then removes the damaged records",
            )?;
        }
        if !report.damages.is_empty() {
            output.line("note: `stook check PACK --repair NEW` saves all that is whole into a new pack")?;
        }
        for note in &report.notes {
            output.line(format_args!("note: {}", printable(note.as_bytes())))?;
        }
        let verdict = match report.damages.len() {
            0 => "no damage".to_owned(),
            many => count_of(many as u64, "damage", "damages"),
        };
        output.line(format_args!(
            "{verdict}: {} whole ({} live), {} of bodies verified",
            count_of(report.records, "record is", "records are"),
            count(report.live_records),
            bytes_decimal(report.body_bytes)
        ))?;
    }
    Ok(output.finish()?)
}
