//! `stook stitch routes`: a tree with members of its archives replaced, by what folders call them.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;
use stook::copy::{CopyEvents, CopyReport, Progress};
use stook::ops::copy::Error as CopyError;
use stook::ops::routes::{RoutedTree, RoutesGiven};
use stook::report::json::TextOrBytes;
use stook::report::units;
use stook::source::Source as _;
use stook::stitch::{RoutedFile, UnusedRoute};
use stook::tree::{CaseRule, Failure};

use super::{error_of, open_at};
use crate::commands::copy::print_failures;
use crate::context::Context;
use crate::exit::{INTERRUPTED, UsageError, chain, code_for};
use crate::failures::{self, Failed};
use crate::fetch::FetchArgs;
use crate::interrupt::Interrupted;
use crate::output::{Align, Table, printable};
use crate::packs;
use crate::progress::{Progress as Shown, Unit};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  stook stitch routes game --with mod --list
  stook stitch routes game --with mod another-mod --write changed
  stook stitch routes game.stook --with mod --ignore-case --write changed

mod/Game/Sound.afs/00012_theme.adx is for member 12 of each file of TREE whose path ends in Game/Sound.afs, and
mod/x.zip/maps.tar/a for the member a of the archive maps.tar in each x.zip. What is below the path of an archive
replaces, deletes (NAME.del) and adds as for `stook stitch patch`. TREE and FOLDER stay as they are.")]
pub(super) struct Args {
    /// A directory, a pack, or an archive with two slashes (`x.tar//`)
    #[arg(value_name = "TREE")]
    tree: PathBuf,
    /// Folders (also packs, archives with two slashes) with what changes; a later one counts more
    #[arg(long, required = true, num_args = 1.., value_name = "FOLDER")]
    with: Vec<PathBuf>,
    /// Take names that differ only in case for one, as Windows and macOS do
    #[arg(long)]
    ignore_case: bool,
    /// Write all of TREE, with the changed archives, into this directory, which is made or empty
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
    /// List the archives that folders name: how many bytes each has then, its path, and what is for
    /// it
    #[arg(long, conflicts_with = "write")]
    list: bool,
    /// Name everything that is for nothing, or failed, not the first ten
    #[arg(long)]
    verbose: bool,
    #[command(flatten)]
    view: packs::View,
    #[command(flatten)]
    fetch: FetchArgs,
}

/// Lists, or writes.
pub(super) fn run(args: Args, context: &Context) -> anyhow::Result<ExitCode> {
    if args.write.is_none() && !args.list {
        return Err(
            UsageError::new("a tree is no file that could go to stdout: give --write DIR or --list").into()
        );
    }
    let open = |path: &PathBuf| open_at(path, &args.view, &args.fetch, context);
    let tree = open(&args.tree)?;
    let folders = args.with.iter().map(open).collect::<anyhow::Result<Vec<_>>>()?;
    let case = if args.ignore_case { CaseRule::Ignored } else { CaseRule::Exact };
    let bar = context.progress("listing", Unit::Items, None);
    let given = RoutesGiven { tree, folders, case };
    let tree = given.find(&mut |entries| bar.go_on(entries, None)).map_err(error_of)?;
    drop(bar);
    let unused = tree.routed.unused();
    failures::print(context, &tree.misplaced, args.verbose);
    report_unused(&unused, &args, context);
    let undone = (unused.len() + tree.misplaced.len()) as u64;
    match &args.write {
        Some(path) => write(&tree, &unused, (path, undone), &args, context),
        None => list(&tree, &unused, undone, &args, context),
    }
}

/// What is in folders for nothing.
fn report_unused(unused: &[UnusedRoute], args: &Args, context: &Context) {
    let (shown, more) = failures::few(unused, args.verbose);
    for one in shown {
        let path = args.with.get(one.folder).map(|folder| folder.join(std::ffi::OsStr::from_bytes(&one.key)));
        let path = printable(path.unwrap_or_default().as_os_str().as_bytes());
        context.note(format_args!("{path} is for nothing: no archive in the tree has such a path."));
    }
    if let Some(more) = more {
        context.note(format_args!("… and {more} more are for nothing; `--verbose` names them all."));
    }
}

/// What was found, in JSON.
#[derive(Debug, Serialize)]
struct Found<'a> {
    files: Vec<Listed<'a>>,
    unused: Vec<Unused<'a>>,
    failures: Vec<Failed<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<Written<'a>>,
}

/// A file that folders name, in JSON.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    key: TextOrBytes<'a>,
    is_archive: Option<bool>,
    size: Option<u64>,
    error: Option<String>,
    routes: Vec<PathText<'a>>,
}

#[derive(Debug, Serialize)]
struct PathText<'a> {
    #[serde(flatten)]
    path: TextOrBytes<'a>,
}

#[derive(Debug, Serialize)]
struct Unused<'a> {
    folder: usize,
    #[serde(flatten)]
    key: TextOrBytes<'a>,
    kind: String,
}

#[derive(Debug, Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    path: TextOrBytes<'a>,
    files: u64,
    bytes: u64,
    seconds: f64,
}

/// What became of a file: its length, or that it is no archive.
type Size = Result<Option<u64>, stook::Error>;

fn sizes(tree: &RoutedTree, files: &[RoutedFile], context: &Context) -> anyhow::Result<Vec<Size>> {
    let bar = context.progress("laying out", Unit::Items, Some(files.len() as u64));
    let size = |at: usize| match bar.go_on(at as u64, Some(files.len() as u64)) {
        true => Ok(tree.routed.laid(at).map(|laid| laid.map(|laid| laid.file.len()))),
        false => Err(Interrupted.into()),
    };
    (0..files.len()).map(size).collect()
}

fn found<'a>(files: &'a [RoutedFile], sizes: &[Size], unused: &'a [UnusedRoute]) -> Found<'a> {
    let listed = files.iter().zip(sizes).map(|(file, size)| {
        let path =
            |path: &'a PathBuf| PathText { path: TextOrBytes::new("path", path.as_os_str().as_bytes()) };
        Listed {
            key: TextOrBytes::key(&file.key),
            is_archive: size.as_ref().ok().map(Option::is_some),
            size: size.as_ref().ok().copied().flatten(),
            error: size.as_ref().err().map(|error| chain(error)),
            routes: file.routes.iter().map(path).collect(),
        }
    });
    let unused = unused.iter().map(|one| Unused {
        folder: one.folder,
        key: TextOrBytes::key(&one.key),
        kind: one.kind.to_string(),
    });
    Found { files: listed.collect(), unused: unused.collect(), failures: Vec::new(), written: None }
}

fn list(
    tree: &RoutedTree,
    unused: &[UnusedRoute],
    undone: u64,
    args: &Args,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let files: Vec<RoutedFile> = tree.routed.files().collect();
    let sizes = sizes(tree, &files, context)?;
    let mut output = context.output();
    let failed = sizes.iter().filter(|size| size.is_err()).count() + tree.routed.failures().len();
    if context.json() {
        let failures = Failed::all(tree.routed.failures());
        let document = Found { failures, ..found(&files, &sizes, unused) };
        packs::print_json(&mut output, "stitch_routes", document, context)?;
    } else {
        let mut table = Table::new([("bytes", Align::Right), ("path", Align::Left), ("routes", Align::Left)]);
        for (file, size) in files.iter().zip(&sizes) {
            let routes = file.routes.iter().map(|path| printable(path.as_os_str().as_bytes()));
            let routes = routes.collect::<Vec<_>>().join(", ");
            let size = match size {
                Ok(Some(len)) => units::count(*len),
                Ok(None) => "no archive".to_owned(),
                Err(_) => "error".to_owned(),
            };
            table.row([size, printable(&file.key), routes]);
        }
        output.table(&table)?;
    }
    output.finish()?;
    failures::print(context, tree.routed.failures(), args.verbose);
    let errors = files.iter().zip(sizes);
    let errors: Vec<Failure<stook::Error>> = errors
        .filter_map(|(file, size)| Some(Failure { key: file.key.clone(), error: size.err()? }))
        .collect();
    failures::print(context, &errors, args.verbose);
    Ok(code_for(undone + failed as u64))
}

/// Shows how far a copy is.
struct Bar<'a>(&'a Shown);

impl CopyEvents for Bar<'_> {
    fn go_on(&mut self, progress: &Progress) -> bool {
        self.0.go_on(progress.bytes, progress.total_bytes)
    }
}

fn write(
    tree: &RoutedTree,
    unused: &[UnusedRoute],
    (path, undone): (&Path, u64),
    args: &Args,
    context: &Context,
) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let bar = context.progress("writing", Unit::Bytes, None);
    let report = tree.write(path, &mut Bar(&bar)).map_err(copy_error_of);
    drop(bar);
    let report = report?;
    print_failures(&report, args.verbose, context);
    let mut output = context.output();
    let (files, bytes) = written(&report);
    let shown = path.as_os_str().as_bytes();
    if context.json() {
        let named: Vec<RoutedFile> = tree.routed.files().collect();
        let (path, seconds) = (TextOrBytes::new("path", shown), started.elapsed().as_secs_f64());
        let written = Some(Written { path, files, bytes, seconds });
        let failures = Failed::all(&report.failures);
        let sizes = sizes(tree, &named, context)?;
        let document = Found { failures, written, ..found(&named, &sizes, unused) };
        packs::print_json(&mut output, "stitch_routes", document, context)?;
    } else if !context.quiet() {
        let archives = tree.routed.files().count() as u64;
        output.line(format_args!(
            "Wrote {}: {}, {} in {}; folders name {}",
            printable(shown),
            units::count_of(files, "file", "files"),
            units::bytes_decimal(bytes),
            units::duration(started.elapsed()),
            units::count_of(archives, "of them", "of them"),
        ))?;
    }
    output.finish()?;
    if report.interrupted {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(code_for(undone + report.undone()))
}

/// Files and bytes that were written.
fn written(report: &CopyReport) -> (u64, u64) {
    report.destinations.first().map_or((0, 0), |one| (one.files, one.bytes))
}

fn copy_error_of(error: CopyError) -> anyhow::Error {
    match error {
        CopyError::Copy(error) if error.is_usage() => UsageError::new(error.to_string()).into(),
        error => error.into(),
    }
}
