//! What was found, for people: what is wrong, path by path, then how much there is of what.

use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use stook::extent::ByteRange;
use stook::format::proof::BLOCK_BYTES;
use stook::ops::verify::Verified;
use stook::report::time::time_of;
use stook::report::units;
use stook::tree::Kind;
use stook::verify::{BadBlocks, Difference, Mismatch, SubjectReport, Unreadable, joined_names};

use super::Args;
use crate::context::Context;
use crate::exit::chain;
use crate::failures;
use crate::lies_on;
use crate::output::{Output, OutputError, capitalised, printable};

/// What moves fewer bytes says nothing of a rate.
const MEANS_SOMETHING_BYTES: u64 = 1_000_000;

/// What is wrong with lists, on stderr.
pub(super) fn print_problems(verified: &Verified, verbose: bool, context: &Context) {
    for list in &verified.lists {
        let path = printable(list.path.as_os_str().as_bytes());
        let (shown, _) = failures::few(&list.problems, verbose);
        for problem in shown {
            let line = problem.line.map(|line| format!(", line {line}")).unwrap_or_default();
            context.failure(anyhow::anyhow!("{path}{line}: {}", problem.what).as_ref());
        }
        let more = list.bad_lines.saturating_sub(shown.len() as u64);
        if more > 0 {
            let lines = units::count_of(more, "bad line", "bad lines");
            context.failure(anyhow::anyhow!("{path}: … and {lines} more").as_ref());
        }
        if list.is_of_future {
            context.note(format_args!(
                "{path} has a date that is still to come, {}: it counts for more than all lists that are made until \
                 then.",
                time_of(list.date_ns)
            ));
        }
        if list.is_dos {
            context
                .note(format_args!("{path} has paths with backslashes, as on Windows: they were taken so."));
        }
    }
    failures::print(context, &verified.failures, verbose);
}

/// What was found, on stdout.
pub(super) fn print(
    verified: &Verified,
    args: &Args,
    output: &mut Output,
    context: &Context,
) -> Result<(), OutputError> {
    let has_several = verified.report.subjects.len() > 1;
    for one in &verified.report.subjects {
        print_wrong(one, args, has_several, output)?;
    }
    if context.quiet() {
        return Ok(());
    }
    for at in 0..verified.report.subjects.len() {
        output.line(summary(at, verified, args))?;
    }
    for proofs in &verified.proofs {
        let files = units::count_of(proofs.files, "file", "files");
        let path = printable(proofs.path.as_os_str().as_bytes());
        output.line(format_args!("Wrote {path}: proofs of {files}"))?;
    }
    for list in &verified.made {
        let files = units::count_of(list.files, "file", "files");
        output.line(format_args!("Wrote {}: {files}", printable(list.path.as_os_str().as_bytes())))?;
        context.note_ahead(&list.path);
    }
    for list in &verified.removed {
        let path = printable(list.as_os_str().as_bytes());
        output.line(format_args!("Removed {path}: the new list replaces it"))?;
    }
    for one in verified.report.subjects.iter().filter(|_| !args.list.is_empty() && !args.trees.is_empty()) {
        if one.matching + one.mismatching.len() as u64 == 0 && !one.missing.is_empty() {
            context.note(format_args!(
                "none of the paths of the list is in {}: they are relative to TREE, so name the directory that \
                 they begin in.",
                printable(one.path.as_os_str().as_bytes())
            ));
        }
    }
    note_unmade(verified, args, context);
    for one in &verified.repairable {
        let (files, tree) =
            (units::count_of(one.files, "file", "files"), printable(one.tree.as_os_str().as_bytes()));
        context.note(format_args!(
            "To repair {files} of {tree} from a good copy: `stook copy GOOD {tree} --repair` (first with \
             `--dry-run`)."
        ));
    }
    if !args.allow_extra && verified.report.subjects.iter().any(|one| !one.extra.is_empty()) {
        context.note("With `--allow-extra`, what is extra is no failure.");
    }
    Ok(())
}

/// Why lists or proofs that were asked for were not made.
fn note_unmade(verified: &Verified, args: &Args, context: &Context) {
    let makes = args.proof || !args.make_list.is_empty() || !args.mhl.is_empty();
    if !makes || verified.report.interrupted || !verified.failures.is_empty() {
        return;
    }
    for (at, one) in verified.report.subjects.iter().enumerate() {
        let path = printable(one.path.as_os_str().as_bytes());
        if !verified.made.iter().any(|list| list.subject == at) {
            let why =
                if one.wrong() > 0 { "no file of it is as it should be" } else { "it has no file to list" };
            context.note(format_args!("No list of {path} was made: {why}."));
        } else if args.proof && !verified.proofs.iter().any(|proofs| proofs.subject == at) {
            context.note(format_args!(
                "No proofs of {path} were made: no file in the list is longer than 1 MiB, and shorter ones need \
                 none."
            ));
        }
    }
}

/// What is wrong in a tree, a line for each path.
fn print_wrong(
    one: &SubjectReport,
    args: &Args,
    has_several: bool,
    output: &mut Output,
) -> Result<(), OutputError> {
    let place = |key: &[u8]| match key.is_empty() || has_several || one.is_file {
        true => printable(one.place(key).as_os_str().as_bytes()),
        false => printable(key),
    };
    let mut lines = |what: &str, all: &mut dyn Iterator<Item = (String, String)>, count: usize| {
        let shown = if args.verbose { count } else { count.min(crate::context::SHOWN_MAX) };
        for (place, why) in all.take(shown) {
            let colon = if why.is_empty() { "" } else { ": " };
            output.line(format_args!("{what:<10}  {place}{colon}{why}"))?;
        }
        match count - shown {
            0 => Ok(()),
            more => {
                let more = units::count(more as u64);
                output.line(format_args!("{what:<10}  … and {more} more; `--verbose` names them all"))
            }
        }
    };
    let mismatching = &one.mismatching;
    let of = |one: &Mismatch| (place(&one.key), why_mismatch(one, &place(&one.key), args));
    lines("mismatch", &mut mismatching.iter().map(of), mismatching.len())?;
    lines("missing", &mut one.missing.iter().map(|key| (place(key), String::new())), one.missing.len())?;
    let of = |one: &Unreadable| {
        let bad = one.bad.as_ref().filter(|bad| !bad.is_none());
        let bad = bad.map(|bad| format!("; {}", bad_blocks(bad))).unwrap_or_default();
        (place(&one.key), format!("{}{bad}", chain(&one.error)))
    };
    lines("unreadable", &mut one.unreadable.iter().map(of), one.unreadable.len())?;
    if args.allow_extra {
        return Ok(());
    }
    let of = |one: &stook::verify::Extra| {
        (place(&one.key), if one.kind == Kind::File { String::new() } else { one.kind.to_string() })
    };
    lines("extra", &mut one.extra.iter().map(of), one.extra.len())
}

/// What is different, and where.
fn why_mismatch(one: &Mismatch, place: &str, args: &Args) -> String {
    let verbose = args.verbose;
    let mut why = match &one.difference {
        Difference::Digest { expected, .. } if !verbose => {
            format!("its {} is not the one in the list", expected.kind.name())
        }
        Difference::AnyDigest { kinds, .. } if !verbose => {
            format!("its {} is not the one in the list", joined_names(kinds, "or"))
        }
        difference => difference.to_string(),
    };
    if let Some(offset) = one.offset {
        why.push_str(&format!("; the first difference is at byte {}", units::count(offset)));
    }
    if one.is_like_other {
        why.push_str("; byte for byte it is like the file that it was compared with");
    }
    let is_len = matches!(one.difference, Difference::Len { .. });
    match &one.bad {
        Some(bad) if bad.is_none() => why.push_str(&match &args.against {
            Some(other) => {
                let other = printable(other.as_os_str().as_bytes());
                format!("; {place} is right by its own proof, so that {other} is damaged, or was changed")
            }
            None => "; by its proof no block of it is bad".to_owned(),
        }),
        Some(bad) => {
            // How much too long it is follows from its lengths.
            let parts = parts_of(bad, !is_len);
            parts.iter().for_each(|part| why.push_str(&format!("; {part}")));
        }
        None => {}
    }
    why
}

/// Ranges that are named of one file.
const RANGES_SHOWN: usize = 5;

/// `bad: 3MiB..5MiB, 17MiB..18MiB (3 of 4,096 blocks of 1 MiB)`, as `--range` takes them.
pub(super) fn bad_blocks(bad: &BadBlocks) -> String {
    parts_of(bad, true).join("; ")
}

fn parts_of(bad: &BadBlocks, with_length: bool) -> Vec<String> {
    let is_beyond = |range: &&ByteRange| !range.start().is_multiple_of(BLOCK_BYTES);
    let within = || bad.ranges.iter().filter(|range| !is_beyond(range));
    let shown = within().take(RANGES_SHOWN).map(|range| {
        let (start, end) = (range.start() / BLOCK_BYTES, range.end().div_ceil(BLOCK_BYTES));
        format!("{start}MiB..{end}MiB")
    });
    let mut named: Vec<String> = shown.collect();
    if within().count() > RANGES_SHOWN {
        named.push("…".to_owned());
    }
    let blocks = units::count_of(bad.blocks, "block", "blocks");
    let count = if bad.blocks == 1 { String::new() } else { format!("{} of ", units::count(bad.bad)) };
    let mut parts = Vec::new();
    if bad.bad > 0 {
        parts.push(format!("bad: {} ({count}{blocks} of 1 MiB)", named.join(", ")));
    }
    if let Some(more) = bad.ranges.iter().find(is_beyond).filter(|_| with_length) {
        parts.push(format!("it is {} too long", units::bytes_exact(more.len())));
    }
    if bad.unknown > 0 {
        let unknown = units::count_of(bad.unknown, "block", "blocks");
        parts.push(format!("of {unknown} it is not known, because the proof is damaged"));
    }
    parts
}

/// `disk: 258 files match, 252 GB in 14 min 15 s, 295 MB/s; read past the page cache`
fn summary(at: usize, verified: &Verified, args: &Args) -> String {
    let has_several = verified.report.subjects.len() > 1;
    let Some(one) = verified.report.subjects.get(at) else { return String::new() };
    let (bad_lines, bad_lists) = verified.bad_lines_of(at);
    let mut text = counts(one, bad_lines == 0 && verified.failures.is_empty(), verified, args);
    if bad_lines > 0 {
        let lines = units::count_of(bad_lines, "bad line", "bad lines");
        text.push_str(&format!("; {lines} in {}", units::count_of(bad_lists, "list", "lists")));
    }
    // Of several trees it is not known which one a failure is of.
    if !has_several && !verified.failures.is_empty() {
        let failures = units::count_of(verified.failures.len() as u64, "failure", "failures");
        text.push_str(&format!("; {failures}"));
    }
    let elapsed = if has_several { one.elapsed } else { verified.report.elapsed };
    if one.read_bytes >= MEANS_SOMETHING_BYTES && elapsed > Duration::ZERO {
        let rate = units::rate_of(one.read_bytes, elapsed);
        text.push_str(&format!(
            "; {} read in {}, {rate}",
            units::bytes_decimal(one.read_bytes),
            units::duration(elapsed)
        ));
    }
    match one.is_past_cache() {
        Some(true) => text.push_str("; read past the page cache"),
        Some(false) if args.cached => text.push_str("; read through the page cache"),
        Some(false) => text.push_str(&format!("; not past the cache{}", why_cached(one))),
        None => {}
    }
    if verified.report.interrupted {
        text.push_str("; interrupted before all was verified");
    }
    let path = printable(one.path.as_os_str().as_bytes());
    if has_several { format!("{path}: {text}") } else { capitalised(&text) }
}

/// How many files there are of what.
fn counts(one: &SubjectReport, is_clean: bool, verified: &Verified, args: &Args) -> String {
    let mut parts = Vec::new();
    let files = |count: u64| units::count_of(count, "file", "files");
    if one.matching > 0 || one.new == 0 {
        let is_all = is_clean && one.wrong() == 0 && one.matching > 1 && !verified.report.interrupted;
        let all = if is_all { "all " } else { "" };
        let match_ = if one.matching == 1 { "matches" } else { "match" };
        let bytes = units::bytes_decimal(one.matching_bytes);
        parts.push(format!("{all}{} {match_} ({bytes})", files(one.matching)));
    } else {
        parts.push(units::count_of(one.new, "new file", "new files"));
    }
    for (count, what) in [
        (if one.matching > 0 { one.new } else { 0 }, "new"),
        (one.mismatching.len() as u64, "mismatching"),
        (one.missing.len() as u64, "missing"),
        (one.unreadable.len() as u64, "unreadable"),
        (one.extra.len() as u64, if args.allow_extra { "extra, which is allowed" } else { "extra" }),
    ] {
        if count > 0 {
            parts.push(format!("{} {what}", units::count(count)));
        }
    }
    parts.join(", ")
}

/// Why bytes may have come from memory.
fn why_cached(one: &SubjectReport) -> String {
    match lies_on::why_cached(&one.lies_on) {
        Some(why) => format!(": {why}"),
        None if one.passage.direct_bytes + one.passage.cached_bytes == 0 => String::new(),
        None => {
            let cached = units::bytes_decimal(one.passage.cached_bytes);
            format!(": {cached} came through it")
        }
    }
}
