//! What was found, as JSON.

use std::os::unix::ffi::OsStrExt as _;

use serde::Serialize;
use stook::hash::HashKind;
use stook::ops::verify::{ListProblem, ListReport, MadeList, MadeProofs, Verified};
use stook::report::json::TextOrBytes;
use stook::report::time::time_of;
use stook::verify::{BadBlocks, Extra, Mismatch, SubjectReport, Unreadable};

use crate::exit::chain;
use crate::failures::Failed;
use crate::lies_on::LiesOn;

/// The report.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    seconds: f64,
    interrupted: bool,
    wrong: u64,
    trees: Vec<Tree<'a>>,
    lists: Vec<List<'a>>,
    made: Vec<Made<'a>>,
    removed: Vec<TextOrBytes<'a>>,
    proofs: Vec<Proven<'a>>,
    failures: Vec<Failed<'a>>,
}

/// The document.
pub(super) fn document(verified: &Verified, allow_extra: bool) -> Report<'_> {
    Report {
        seconds: verified.report.elapsed.as_secs_f64(),
        interrupted: verified.report.interrupted,
        wrong: verified.wrong(allow_extra),
        trees: verified.report.subjects.iter().map(Tree::new).collect(),
        lists: verified.lists.iter().map(List::new).collect(),
        made: verified.made.iter().map(Made::new).collect(),
        removed: verified
            .removed
            .iter()
            .map(|path| TextOrBytes::new("path", path.as_os_str().as_bytes()))
            .collect(),
        proofs: verified.proofs.iter().map(Proven::new).collect(),
        failures: Failed::all(&verified.failures),
    }
}

/// A tree.
#[derive(Serialize)]
struct Tree<'a> {
    #[serde(flatten)]
    path: TextOrBytes<'a>,
    matching: u64,
    matching_bytes: u64,
    directories: u64,
    new: u64,
    mismatching: Vec<JsonMismatch<'a>>,
    missing: Vec<TextOrBytes<'a>>,
    extra: Vec<JsonExtra<'a>>,
    unreadable: Vec<JsonUnreadable<'a>>,
    read_bytes: u64,
    direct_bytes: u64,
    cached_bytes: u64,
    past_cache: Option<bool>,
    lies_on: LiesOn<'a>,
}

impl<'a> Tree<'a> {
    fn new(one: &'a SubjectReport) -> Self {
        Self {
            path: TextOrBytes::new("path", one.path.as_os_str().as_bytes()),
            matching: one.matching,
            matching_bytes: one.matching_bytes,
            directories: one.directories,
            new: one.new,
            mismatching: one.mismatching.iter().map(JsonMismatch::new).collect(),
            missing: one.missing.iter().map(|key| TextOrBytes::key(key)).collect(),
            extra: one.extra.iter().map(JsonExtra::new).collect(),
            unreadable: one.unreadable.iter().map(JsonUnreadable::new).collect(),
            read_bytes: one.read_bytes,
            direct_bytes: one.passage.direct_bytes,
            cached_bytes: one.passage.cached_bytes,
            past_cache: one.is_past_cache(),
            lies_on: LiesOn::new(&one.lies_on),
        }
    }
}

/// What is not as it should be.
#[derive(Serialize)]
struct JsonMismatch<'a> {
    #[serde(flatten)]
    key: TextOrBytes<'a>,
    difference: &'static str,
    hash: Option<&'static str>,
    expected: Option<String>,
    found: Option<String>,
    offset_bytes: Option<u64>,
    like_other: bool,
    bad_blocks: Option<JsonBad>,
}

impl<'a> JsonMismatch<'a> {
    fn new(one: &'a Mismatch) -> Self {
        let (expected, found) = one.difference.sides();
        Self {
            key: TextOrBytes::key(&one.key),
            difference: one.difference.name(),
            hash: one.difference.hash().map(|kind| kind.name()),
            expected,
            found,
            offset_bytes: one.offset,
            like_other: one.is_like_other,
            bad_blocks: one.bad.as_ref().map(JsonBad::new),
        }
    }
}

/// What nothing says should be there.
#[derive(Serialize)]
struct JsonExtra<'a> {
    #[serde(flatten)]
    key: TextOrBytes<'a>,
    kind: String,
}

impl<'a> JsonExtra<'a> {
    fn new(one: &'a Extra) -> Self {
        Self { key: TextOrBytes::key(&one.key), kind: one.kind.to_string() }
    }
}

/// What could not be read.
#[derive(Serialize)]
struct JsonUnreadable<'a> {
    #[serde(flatten)]
    key: TextOrBytes<'a>,
    offset_bytes: Option<u64>,
    error: String,
    bad_blocks: Option<JsonBad>,
}

impl<'a> JsonUnreadable<'a> {
    fn new(one: &'a Unreadable) -> Self {
        let (key, error) = (TextOrBytes::key(&one.key), chain(&one.error));
        Self { key, offset_bytes: one.offset, error, bad_blocks: one.bad.as_ref().map(JsonBad::new) }
    }
}

/// Blocks of 1 MiB that are not what the list says.
#[derive(Serialize)]
pub(super) struct JsonBad {
    bad: u64,
    of: u64,
    unknown: u64,
    ranges: Vec<[u64; 2]>,
    read_error: Option<String>,
}

impl JsonBad {
    pub(super) fn new(bad: &BadBlocks) -> Self {
        let ranges = bad.ranges.iter().map(|range| [range.start(), range.end()]).collect();
        let read_error = bad.read_error.clone();
        Self { bad: bad.bad, of: bad.blocks, unknown: bad.unknown, ranges, read_error }
    }
}

/// Proofs that were made.
#[derive(Serialize)]
struct Proven<'a> {
    tree: usize,
    #[serde(flatten)]
    path: TextOrBytes<'a>,
    files: u64,
}

impl<'a> Proven<'a> {
    fn new(made: &'a MadeProofs) -> Self {
        let path = TextOrBytes::new("path", made.path.as_os_str().as_bytes());
        Self { tree: made.subject, path, files: made.files }
    }
}

/// A list that was read.
#[derive(Serialize)]
struct List<'a> {
    tree: usize,
    #[serde(flatten)]
    path: TextOrBytes<'a>,
    date: String,
    lines: u64,
    bad_lines: u64,
    problems: Vec<Problem<'a>>,
    dos: bool,
    future: bool,
}

impl<'a> List<'a> {
    fn new(one: &'a ListReport) -> Self {
        Self {
            tree: one.subject,
            path: TextOrBytes::new("path", one.path.as_os_str().as_bytes()),
            date: time_of(one.date_ns),
            lines: one.lines,
            bad_lines: one.bad_lines,
            problems: one.problems.iter().map(Problem::new).collect(),
            dos: one.is_dos,
            future: one.is_of_future,
        }
    }
}

/// What is wrong with a list.
#[derive(Serialize)]
struct Problem<'a> {
    line: Option<u64>,
    error: &'a str,
}

impl<'a> Problem<'a> {
    fn new(one: &'a ListProblem) -> Self {
        Self { line: one.line, error: &one.what }
    }
}

/// A list that was made.
#[derive(Serialize)]
struct Made<'a> {
    tree: usize,
    #[serde(flatten)]
    path: TextOrBytes<'a>,
    hash: Option<&'static str>,
    files: u64,
}

impl<'a> Made<'a> {
    fn new(one: &'a MadeList) -> Self {
        Self {
            tree: one.subject,
            path: TextOrBytes::new("path", one.path.as_os_str().as_bytes()),
            hash: one.kind.map(HashKind::name),
            files: one.files,
        }
    }
}
