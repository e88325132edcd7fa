//! `stook rm`: records of a pack are deleted.
//!
//! The records to delete are found first, and every objection is reported before anything is
//! changed. The deletions are one batch: they are on the medium when the command returns, and
//! before that none of them counts.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use serde::Serialize;
use stook::ops::contents::{Matching, Selected, Unselected};
use stook::ops::delete::delete;
use stook::pack::{Pack, PackWriter, Stop};
use stook::report::units::{bytes_decimal, count_of};

use crate::context::Context;
use crate::exit::UsageError;
use crate::interrupt::Interrupted;
use crate::keys::{self, Asked, KeyList};
use crate::progress::Unit;
use crate::{exit, interrupt, packs};

const EXAMPLES: &str = "\
Deletes the records with these keys, and those that a prefix, a pattern or a
group selects. --group alone means everything in the group; with keys, prefix
or patterns, only those of them in the group. Keys are given as `stook ls` shows
them: \\xNN for a byte, \\\\ for a backslash.

Space comes back when the pack is compacted; until then old bytes stay in the
file. Other names of a file (hard links) keep their content: where it is stored
under a name that goes, it moves to one that stays.

Examples:
  stook rm photos.stook 2024/cat.jpg id:7
  stook rm photos.stook --prefix 2023/
  stook rm photos.stook --glob '*.tmp' --dry-run
  stook rm photos.stook --group drafts

Exit code 1 when a key does not exist, or nothing matches; the others are still
deleted.";

/// Keys looked up in one batch.
const BATCH: usize = 4096;

/// What `stook rm` takes.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The pack
    pack: PathBuf,
    /// Keys of records
    #[arg(value_name = "KEY")]
    keys: Vec<OsString>,
    /// Keys from a file, one a line; `-` is stdin
    #[arg(long, value_name = "FILE")]
    from_file: Option<PathBuf>,
    /// Keys in that file end in a NUL byte, not in a newline
    #[arg(long, short = '0', requires = "from_file")]
    null: bool,
    /// Every record whose key begins with this
    #[arg(long)]
    prefix: Option<OsString>,
    /// Every record whose key matches; may be given more than once
    #[arg(long = "glob", value_name = "GLOB")]
    globs: Vec<String>,
    /// Only records of this group; may be given more than once
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// Show what would be deleted, and change nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    dry_run: bool,
    deleted: u64,
    missing: u64,
    /// Of frames that no longer count.
    freed_bytes: u64,
}

/// What was not found.
#[derive(Debug, Default)]
struct NotFound {
    /// Keys.
    missing: u64,
    /// How often nothing was found where something was to be.
    nothing: u64,
}

/// Runs it.
///
/// # Errors
/// Returns an error if nothing was selected by the arguments, or if the pack cannot be read or
/// written.
pub fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    if let Some(error) =
        packs::no_address(&args.pack, |pack, key| format!("`stook rm {pack} '{key}'` deletes the record"))
    {
        return Err(error.into());
    }
    let by_key = !args.keys.is_empty() || args.from_file.is_some();
    let by_pattern = args.prefix.is_some() || !args.globs.is_empty();
    if !by_key && !by_pattern && args.groups.is_empty() {
        return Err(
            UsageError::new("which records? Give a KEY, --prefix, --glob, --group or --from-file").into()
        );
    }
    // Wrong keys and patterns are reported before anything is opened.
    let list = KeyList::new(&args.keys, args.from_file.as_deref(), args.null)?;
    let (globs, prefix) = (keys::patterns("--glob", &args.globs)?, keys::prefix(args.prefix.as_deref())?);
    // However it is written: it may be `bytes:`, too.
    if args.prefix.is_some() && prefix.len() <= 1 && args.prefix.as_deref() != Some("id:".as_ref()) {
        return Err(
            keys::refuse_empty("--prefix", "every record", "`--glob '**'` deletes all of them").into()
        );
    }
    if !by_key && !by_pattern && args.groups.iter().any(String::is_empty) {
        let (means, instead) =
            ("every record of the default group", "`--group '' --glob '**'` deletes all of them");
        return Err(keys::refuse_empty("--group", means, instead).into());
    }
    // The records found must not be changed by others before they are deleted.
    let writer = if args.dry_run { None } else { Some(packs::writer(&args.pack, context)?) };
    let pack = match &writer {
        Some(writer) => packs::open_written(writer, context)?,
        None => packs::open(&args.pack, context)?,
    };
    if args.dry_run {
        pack.check_writable()?;
    }
    packs::check_groups(&pack, &args.pack, &args.groups)?;
    let (mut selected, mut not_found) = (Selected::default(), NotFound::default());
    if by_key {
        not_found.add_listed(&mut selected, &pack, list, &args, context)?;
        if not_found.missing > 0 {
            keys::note_patterns(&args.keys, "`--glob`", context);
        }
    }
    if by_pattern || !by_key {
        let (prefix, patterns, groups) = (prefix.as_slice(), &globs, args.groups.as_slice());
        let matching = Matching { prefix, patterns, groups, stop: Stop(interrupt::interrupted) };
        let has_met = not_found.add_matching(&mut selected, &pack, &matching, context)?;
        let asked = Asked::default().with("--prefix", &args.prefix).with("--glob", &args.globs);
        if !has_met {
            not_found.nothing +=
                asked.with("--group", &args.groups).report_nothing(&args.pack, "record", context);
        }
    } else if selected.keys().is_empty() && not_found.missing == 0 {
        not_found.nothing += keys::report_no_keys(context);
    }
    drop(pack);
    if let Some(writer) = writer.filter(|_| !selected.keys().is_empty()) {
        delete_selected(writer, &selected, context)?;
    }
    print(&selected, not_found.missing, &args, context)?;
    Ok(exit::code_for(not_found.missing + not_found.nothing))
}

impl NotFound {
    fn add_listed(
        &mut self,
        selected: &mut Selected,
        pack: &Pack,
        mut list: KeyList,
        args: &Args,
        context: &Context,
    ) -> anyhow::Result<()> {
        while let Some(batch) = list.next(BATCH)? {
            interrupt::check()?;
            selected.add_listed(pack, &batch, &args.groups, &mut |unselected| {
                self.missing += 1;
                match unselected {
                    Unselected::Damaged(error) => context.failure(&error),
                    Unselected::Missing(key) => {
                        let within = match args.groups.as_slice() {
                            [] => String::new(),
                            groups => format!(" in {}", groups.join(", ")),
                        };
                        let text = format!("{} has no record {key}{within}", args.pack.display());
                        context.failure(anyhow!("{text}").as_ref());
                    }
                }
            })?;
        }
        Ok(())
    }

    /// Adds what patterns select; whether anything was.
    fn add_matching(
        &mut self,
        selected: &mut Selected,
        pack: &Pack,
        matching: &Matching<'_>,
        context: &Context,
    ) -> anyhow::Result<bool> {
        Ok(selected.add_matching(pack, matching, &mut |unselected| {
            // It is not known whether it is meant: it stays, and is reported.
            if let Unselected::Damaged(error) = unselected {
                self.nothing += 1;
                context.failure(&error);
            }
        })?)
    }
}

fn delete_selected(mut writer: PackWriter, selected: &Selected, context: &Context) -> anyhow::Result<()> {
    let bar = context.progress("deleting", Unit::Items, Some(selected.keys().len() as u64));
    let is_done = delete(&mut writer, selected, &mut |deleted| {
        bar.add(deleted.saturating_sub(bar.done()));
        !interrupt::interrupted()
    })?;
    drop(bar);
    if !is_done {
        return Err(Interrupted.into());
    }
    Ok(writer.finish(false)?)
}

fn print(selected: &Selected, missing: u64, args: &Args, context: &Context) -> anyhow::Result<()> {
    let mut output = context.output();
    let (deleted, freed_bytes) = (selected.keys().len() as u64, selected.stored_bytes());
    if context.json() {
        let report = Report { dry_run: args.dry_run, deleted, missing, freed_bytes };
        packs::print_json(&mut output, "rm", report, context)?;
    } else {
        if args.dry_run {
            selected.keys().iter().try_for_each(|key| output.line(key))?;
        }
        if !context.quiet() {
            let would = if args.dry_run { "would delete" } else { "deleted" };
            let (records, bytes) = (count_of(deleted, "record", "records"), bytes_decimal(freed_bytes));
            output.line(format_args!("{would} {records}, {bytes} in the pack"))?;
        }
    }
    Ok(output.finish()?)
}
