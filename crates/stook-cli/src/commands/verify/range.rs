//! `stook verify --range A..B FILE…`: a part of a file, without reading the rest.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use stook::ops::contents::Span;
use stook::ops::verify::{Error, RangeGiven, RangeReport};
use stook::report::json::TextOrBytes;
use stook::report::units;
use stook::source::check_path;

use super::json::JsonBad;
use super::text::bad_blocks;
use super::{Args, error_of};
use crate::context::Context;
use crate::exit::code_for;
use crate::interrupt::{Interrupted, interrupted};
use crate::output::printable;
use crate::packs;
use crate::progress::Unit;

/// What was found, in JSON.
#[derive(Serialize)]
struct Ranges<'a> {
    files: Vec<Range<'a>>,
}

#[derive(Serialize)]
struct Range<'a> {
    #[serde(flatten)]
    path: TextOrBytes<'a>,
    listed_in: String,
    read_start: u64,
    read_end: u64,
    matches: bool,
    /// The length by the list, where the file has another.
    other_size: Option<u64>,
    older_list: bool,
    bad_blocks: JsonBad,
}

impl<'a> Range<'a> {
    fn new(one: &'a RangeReport) -> Self {
        Self {
            path: TextOrBytes::new("path", one.path.as_os_str().as_bytes()),
            listed_in: one.listed_in.display().to_string(),
            read_start: one.read.start(),
            read_end: one.read.end(),
            matches: one.is_proven(),
            other_size: one.other_len,
            older_list: one.is_older,
            bad_blocks: JsonBad::new(&one.bad),
        }
    }
}

/// The error of a part: that the file has no such bytes, in the words of this command.
fn range_error(error: Error, path: &Path, span: Span) -> anyhow::Error {
    let Error::Core(stook::Error::OutOfBounds { len, .. }) = &error else { return error_of(error) };
    let (start, len) = (units::count(span.start), units::bytes_exact(*len));
    let part = match span.end {
        Some(end) => format!("bytes {start} to {}", units::count(end)),
        None => format!("what follows byte {start}"),
    };
    let path = printable(path.as_os_str().as_bytes());
    anyhow::anyhow!("cannot verify {part} of {path}: the file has {len} by its list")
}

/// A path as it is from the current directory, if it lies in that.
fn shown_from_here(path: &Path) -> String {
    let here = std::env::current_dir().and_then(|here| here.canonicalize()).ok();
    let path = here.as_ref().and_then(|here| path.strip_prefix(here).ok()).unwrap_or(path);
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    printable(path.as_os_str().as_bytes())
}

/// Verifies a part of each file.
pub(super) fn run(args: &Args, span: Span, context: &Context) -> anyhow::Result<ExitCode> {
    let (mut found, mut failed) = (Vec::with_capacity(args.trees.len()), None);
    for path in &args.trees {
        let given = RangeGiven { path: path.clone(), start: span.start, end: span.end, cached: args.cached };
        check_path(path)?;
        let (bar, mut bytes) = (context.progress("verifying", Unit::Bytes, None), 0);
        let report = given.run(&mut |more| {
            bytes += more;
            bar.go_on(bytes, None)
        });
        drop(bar);
        let report = report.map_err(|error| range_error(error, path, span));
        if interrupted() {
            return Err(Interrupted.into());
        }
        match report {
            Ok(report) => found.push(report),
            // What is wrong with one file is no reason to keep silent about the others.
            Err(error) if args.trees.len() > 1 => {
                context.failure(error.as_ref());
                failed = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    if let Some(error) = failed.take_if(|_| found.is_empty()) {
        return Err(error);
    }
    let wrong = found.iter().filter(|one| !one.is_proven()).count() as u64 + u64::from(failed.is_some());
    let mut output = context.output();
    if context.json() {
        let document = Ranges { files: found.iter().map(Range::new).collect() };
        packs::print_json(&mut output, "verify_range", document, context)?;
    } else {
        for one in &found {
            let path = printable(one.path.as_os_str().as_bytes());
            if one.bad.bad == 0 && one.bad.unknown > 0 {
                output.line(format_args!("unknown     {path}: {}", bad_blocks(&one.bad)))?;
            } else if let Some(error) = &one.bad.read_error {
                output.line(format_args!("unreadable  {path}: {error}; {}", bad_blocks(&one.bad)))?;
            } else if let Some(len) = one.other_len {
                let (len, of) = (units::bytes_exact(len), bad_blocks(&one.bad));
                let of = if of.is_empty() { "these bytes are as listed".to_owned() } else { of };
                output.line(format_args!("mismatch    {path}: the list is of a file of {len}; {of}"))?;
            } else if !one.is_proven() {
                output.line(format_args!("mismatch    {path}: {}", bad_blocks(&one.bad)))?;
                if one.is_older {
                    context.note(format!(
                        "a newer list has {path} without BLAKE3: if it was changed since, make a proof anew \
                         (`stook verify --proof`)"
                    ));
                }
            } else if !context.quiet() {
                let list = shown_from_here(one.list.as_ref().unwrap_or(&one.listed_in));
                let (start, end) = (units::count(one.read.start()), units::count(one.read.end()));
                let read = units::bytes_binary(one.read.len());
                output
                    .line(format_args!("{path}: bytes {start} to {end} are what {list} says; {read} read"))?;
            }
        }
    }
    output.finish()?;
    Ok(code_for(wrong))
}
