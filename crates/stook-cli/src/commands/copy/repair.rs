//! `stook copy GOOD DIR… --repair`: what the lists in DIR say, and it has not, from a good copy.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use stook::ops::contents::is_object;
use stook::ops::verify::{OpenGiven, RepairCounts, RepairGiven, RepairPhase, RepairProgress, Repaired};
use stook::report::json::TextOrBytes;
use stook::report::units;

use super::Args;
use crate::commands::verify;
use crate::context::Context;
use crate::exit::{INTERRUPTED, UsageError, code_for};
use crate::failures::{self, Failed};
use crate::output::printable;
use crate::progress::{Progress, Unit};
use crate::{given, packs};

/// The report.
#[derive(Serialize)]
struct Report<'a> {
    dry_run: bool,
    interrupted: bool,
    destinations: Vec<Destination<'a>>,
}

#[derive(Serialize)]
struct Destination<'a> {
    #[serde(flatten)]
    path: TextOrBytes<'a>,
    matching: u64,
    mended: Vec<Mended<'a>>,
    replaced: Vec<TextOrBytes<'a>>,
    read_bytes: u64,
    failures: Vec<Failed<'a>>,
}

#[derive(Serialize)]
struct Mended<'a> {
    #[serde(flatten)]
    key: TextOrBytes<'a>,
    blocks: u64,
    cut_bytes: u64,
}

impl<'a> Destination<'a> {
    fn new(one: &'a Repaired) -> Self {
        let cut = |key: &[u8]| one.cut.iter().find(|(cut, _)| cut == key).map_or(0, |(_, bytes)| *bytes);
        let mended = one.mended.iter().map(|(key, blocks)| Mended {
            key: TextOrBytes::key(key),
            blocks: *blocks,
            cut_bytes: cut(key),
        });
        Self {
            path: TextOrBytes::new("path", one.path.as_os_str().as_bytes()),
            matching: one.matching,
            mended: mended.collect(),
            replaced: one.replaced.iter().map(|key| TextOrBytes::key(key)).collect(),
            read_bytes: one.read_bytes,
            failures: Failed::all(&one.failures),
        }
    }
}

/// Repairs.
pub(super) fn run(
    args: &Args,
    sources: &[PathBuf],
    destinations: Vec<PathBuf>,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let [good] = sources else {
        return Err(
            UsageError::new("--repair takes one good copy, and the directories that it repairs").into()
        );
    };
    if args.fetch.is_given() && !is_object(good) {
        args.fetch.refuse(good)?;
    }
    let mut open = OpenGiven { as_file: args.what.as_file, ..OpenGiven::default() };
    open.contents.pack.at_ns = args.what.view.at_ns();
    let (dry_run, copying) = (args.dry_run, args.options()?);
    let mut open_good = || given::open(good, &open, &args.fetch, super::error_of, context);
    let mut shown: Option<(RepairPhase, Progress)> = None;
    let mut go_on = |at: &RepairProgress| {
        if shown.as_ref().is_none_or(|(phase, _)| *phase != at.phase) {
            shown = Some((at.phase, context.progress(at.phase.name(), Unit::Bytes, at.total_bytes)));
        }
        shown.as_ref().is_none_or(|(_, bar)| bar.go_on(at.bytes, at.total_bytes))
    };
    let report = RepairGiven { destinations, dry_run, copying }.run(&mut open_good, &mut go_on);
    drop(shown);
    let report = report.map_err(|error: anyhow::Error| match error.downcast() {
        Ok(stook::ops::verify::Error::NoList(path)) => UsageError::new(format!(
            "{} has no list of checksums, so that it is not known which of two copies is right: `stook verify {} \
             --against GOOD` shows where they differ",
            path.display(),
            path.display()
        ))
        .into(),
        Ok(error) => verify::error_of(error),
        Err(error) => error,
    })?;
    for one in &report.destinations {
        failures::print(context, &one.failures, args.verbose);
    }
    let mut output = context.output();
    if context.json() {
        let destinations = report.destinations.iter().map(Destination::new).collect();
        let document = Report { dry_run, interrupted: report.interrupted, destinations };
        packs::print_json(&mut output, "copy_repair", document, context)?;
    } else {
        for one in &report.destinations {
            for line in lines(one, dry_run, context.quiet()) {
                output.line(line)?;
            }
        }
    }
    output.finish()?;
    if report.interrupted {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(code_for(report.undone()))
}

/// A line for each file, and the sums.
fn lines(one: &Repaired, dry_run: bool, quiet: bool) -> Vec<String> {
    let place = |key: &[u8]| {
        printable(Path::new(&one.path).join(std::ffi::OsStr::from_bytes(key)).as_os_str().as_bytes())
    };
    // What is only cut has a line that says so.
    let mended = one.mended.iter().filter(|(_, count)| *count > 0);
    let mended = mended.map(|(key, count)| format!("mend      {}: {}", place(key), blocks(*count)));
    let cut = one.cut.iter().map(|(key, count)| {
        format!(
            "cut       {}: {} at the end that its list does not know",
            place(key),
            units::count_of(*count, "byte", "bytes")
        )
    });
    let replaced = one.replaced.iter().map(|key| format!("replace   {}", place(key)));
    let mut lines: Vec<String> = mended.chain(cut).chain(replaced).collect();
    if !quiet {
        lines.push(summary(one, dry_run));
    }
    lines
}

fn blocks(count: u64) -> String {
    units::count_of(count, "block of 1 MiB", "blocks of 1 MiB")
}

/// `Repaired 5 of 8 files of disk; 3 could not be repaired; 6 blocks of 1 MiB written in place; …`
fn summary(one: &Repaired, dry_run: bool) -> String {
    let path = printable(one.path.as_os_str().as_bytes());
    let RepairCounts { repaired, unrepaired, unusable, others } = one.counts();
    let could = if dry_run { "cannot" } else { "could not" };
    let more = [
        (
            unusable,
            format!("{} {could} be used", units::count_of(unusable, "list or proof", "lists or proofs")),
        ),
        (others, units::count_of(others, "other failure", "other failures")),
    ];
    let more = more.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text);
    if repaired + unrepaired == 0 {
        let matching = units::count_of(one.matching, "file", "files");
        let nothing = format!("Nothing to repair in {path}: {matching} as the lists say");
        return [nothing].into_iter().chain(more).collect::<Vec<_>>().join("; ");
    }
    let what = if dry_run { "Would repair" } else { "Repaired" };
    let files = units::count_of(repaired + unrepaired, "file", "files");
    let mut parts = vec![match unrepaired {
        0 => format!("{what} {files} of {path}"),
        _ => format!("{what} {} of {files} of {path}", units::count(repaired)),
    }];
    if unrepaired > 0 {
        parts.push(format!("{} {could} be repaired", units::count(unrepaired)));
    }
    parts.extend(more);
    let written: u64 = one.mended.iter().map(|(_, count)| count).sum();
    if written > 0 {
        parts.push(format!("{} {}", blocks(written), if dry_run { "in place" } else { "written in place" }));
    }
    parts.push(format!("{} matching", units::count(one.matching)));
    parts.push(format!("{} read of the good copy", units::bytes_decimal(one.read_bytes)));
    parts.join("; ")
}
