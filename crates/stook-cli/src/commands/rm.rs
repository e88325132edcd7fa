//! `stook rm`: records of a pack are deleted.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use stook::ops::delete::{Deletion, Doomed, Error};
use stook::pack::Stop;
use stook::report::units::{bytes_decimal, count_of};

use crate::context::Context;
use crate::exit::UsageError;
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

Exit code 1 when a key does not exist, and the others are still deleted; when
nothing matches what is given beside keys, nothing is deleted.";

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
    /// Every record whose key matches, or is the pattern as it is written; may be given more than
    /// once
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
    let deletion = deletion(&args)?;
    let hooks = &mut packs::hooks(context);
    let doomed = if args.dry_run {
        deletion.plan_at(&args.pack, hooks)
    } else {
        let bar = context.progress("deleting", Unit::Items, None);
        deletion.run_at(&args.pack, hooks, &mut |deleted, total| {
            bar.set_total(Unit::Items, total);
            bar.go_on(deleted, None)
        })
    };
    let (doomed, mut failures) = match doomed {
        Err(Error::NothingMatches) => {
            let asked = Asked::default().with("--prefix", &args.prefix).with("--glob", &args.globs);
            let asked = asked.with("--group", &args.groups);
            (Doomed::default(), asked.report_nothing(&args.pack, "record", context))
        }
        doomed => (doomed.map_err(by_option)?, 0),
    };
    doomed.missing.iter().for_each(|missing| context.failure(missing));
    // It is not known whether these are meant: they stay.
    doomed.damages.iter().for_each(|damage| context.failure(damage));
    for directory in &doomed.directories {
        context.note(format_args!(
            "{directory} is a directory, and what is in it stays; `--prefix '{directory}/'` deletes that."
        ));
    }
    if !doomed.missing.is_empty() {
        keys::note_patterns(&args.keys, "`--glob`", context);
    }
    if !deletion.is_by_pattern() && deletion.keys.as_ref().is_some_and(Vec::is_empty) {
        failures += keys::report_no_keys(context);
    }
    print(&doomed, &args, context)?;
    Ok(exit::code_for(failures + (doomed.missing.len() + doomed.damages.len()) as u64))
}

/// What the arguments select. Wrong keys and patterns are reported before anything is opened.
fn deletion(args: &Args) -> anyhow::Result<Deletion> {
    let by_key = !args.keys.is_empty() || args.from_file.is_some();
    let mut list = KeyList::new(&args.keys, args.from_file.as_deref(), args.null)?;
    Ok(Deletion {
        prefix: args.prefix.as_deref().map(|prefix| keys::prefix(Some(prefix))).transpose()?,
        patterns: keys::patterns("--glob", &args.globs)?,
        groups: args.groups.clone(),
        stop: Stop(interrupt::interrupted),
        keys: if by_key { Some(list.next(usize::MAX)?.unwrap_or_default()) } else { None },
    })
}

/// The error, with the option that it is about.
fn by_option(error: Error) -> anyhow::Error {
    match error {
        Error::NothingAsked => {
            UsageError::new("which records? Give a KEY, --prefix, --glob, --group or --from-file").into()
        }
        Error::EmptyPrefix => {
            keys::refuse_empty("--prefix", "every record", "`--glob '**'` deletes all of them").into()
        }
        Error::EmptyGroup => {
            let (means, instead) =
                ("every record of the default group", "`--group '' --glob '**'` deletes all of them");
            keys::refuse_empty("--group", means, instead).into()
        }
        Error::Contents(error) => error.into(),
        error => error.into(),
    }
}

fn print(doomed: &Doomed, args: &Args, context: &Context) -> anyhow::Result<()> {
    let mut output = context.output();
    let (selected, missing) = (&doomed.selected, doomed.missing.len() as u64);
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
