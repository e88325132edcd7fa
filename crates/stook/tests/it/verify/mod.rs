//! Verifying trees: every path counts once, and nothing that is not as it should be is taken for
//! what is.

mod against;
mod faults;
mod given;
mod lists;
mod model;
mod proofs;
mod repair;
mod reviewed;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use stook::hash::{Digest, HashKind};
use stook::ops::verify::Verified;
use stook::verify::{
    Branch, Expected, Finding, Progress, Subject, SubjectReport, Verify, VerifyEvents, VerifyOptions,
    VerifyReport,
};

/// Files by their paths.
type Files = BTreeMap<String, Vec<u8>>;

/// Files with these bytes.
fn files(all: &[(&str, &[u8])]) -> Files {
    all.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec())).collect()
}

/// Writes files below a directory.
fn write(files: &Files, below: &Path) {
    fs::create_dir_all(below).unwrap();
    for (path, bytes) in files {
        let path = below.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// What a list of them says, of one function for each in turn.
fn listed(files: &Files, kinds: &[HashKind]) -> Expected {
    let mut builder = Expected::builder();
    for ((path, bytes), kind) in files.iter().zip(kinds.iter().cycle()) {
        builder.add(path.as_bytes(), 0, None, &[Digest::of(*kind, bytes)]);
    }
    builder.finish()
}

/// How many match, mismatch, are missing, unreadable, extra, and how many lines are bad.
fn counts_of(verified: &Verified) -> [u64; 6] {
    let [one] = verified.report.subjects.as_slice() else { panic!("{verified:?}") };
    let len = |count: usize| count as u64;
    [
        one.matching,
        len(one.mismatching.len()),
        len(one.missing.len()),
        len(one.unreadable.len()),
        len(one.extra.len()),
        verified.bad_lines(),
    ]
}

/// Hears everything, and ends it after so many findings.
#[derive(Debug, Default)]
struct Heard {
    /// What was found of each path, in the order of paths.
    outcomes: Vec<(String, &'static str)>,
    digests: BTreeMap<String, Vec<Digest>>,
    last: Progress,
    ends_after: Option<usize>,
}

impl VerifyEvents for Heard {
    fn go_on(&mut self, progress: &Progress) -> bool {
        self.last = progress.clone();
        self.ends_after.is_none_or(|most| self.outcomes.len() < most)
    }

    fn found(&mut self, finding: &Finding) {
        let key = String::from_utf8_lossy(&finding.key).into_owned();
        self.digests.insert(key.clone(), finding.digests.to_vec());
        self.outcomes.push((key, finding.outcome.name()));
    }
}

/// Verifies one tree.
fn verify_with(subject: Subject, options: VerifyOptions) -> (SubjectReport, Heard) {
    let mut heard = Heard::default();
    let verify = Verify::new(vec![subject]).with_options(options);
    let report = only(verify.run(&mut heard).unwrap());
    check_counts(&report, &mut heard);
    (report, heard)
}

fn verify(subject: Subject) -> (SubjectReport, Heard) {
    verify_with(subject, VerifyOptions::default())
}

fn only(report: VerifyReport) -> SubjectReport {
    assert!(!report.interrupted);
    let [one] = report.subjects.try_into().unwrap();
    one
}

/// The report counts what was heard, and every path was heard of once.
fn check_counts(report: &SubjectReport, heard: &mut Heard) {
    heard.outcomes.sort();
    let mut paths: Vec<&String> = heard.outcomes.iter().map(|(path, _)| path).collect();
    let all = paths.len();
    paths.dedup();
    assert_eq!(paths.len(), all, "{:?}", heard.outcomes);
    let count = |name: &str| heard.outcomes.iter().filter(|(_, outcome)| *outcome == name).count();
    assert_eq!(report.matching as usize, count("matches"));
    assert_eq!(report.new as usize, count("new"));
    assert_eq!(report.mismatching.len(), count("mismatches"));
    assert_eq!(report.missing.len(), count("missing"));
    assert_eq!(report.extra.len(), count("extra"));
    assert_eq!(report.unreadable.len(), count("unreadable"));
    assert_eq!(heard.last.wrong, report.wrong());
}

fn outcomes(heard: &Heard) -> Vec<(&str, &str)> {
    heard.outcomes.iter().map(|(path, outcome)| (path.as_str(), *outcome)).collect()
}

fn directory(path: &Path) -> Subject {
    Subject::new(Branch::directory(path).unwrap())
}
