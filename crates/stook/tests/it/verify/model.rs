//! Random trees with random changes: each path is found as what it is, and once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use stook::engine::Backend;
use stook::extent::ByteRange;
use stook::hash::HashKind;
use stook::verify::{Branch, Difference, Subject, SubjectReport, Verify, VerifyOptions};
use stook_testing::fault::BadBlockEngines;

use super::{Files, Heard, check_counts, directory, listed, only, write};

/// What becomes of a file.
#[derive(Debug, Clone)]
enum Change {
    /// A byte of it, at a share of its length.
    Byte(f64),
    Grown(usize),
    Cut(f64),
    /// It has the bytes of the next file, and that one has its.
    Swapped,
    Missing,
    /// A byte of it cannot be read.
    Unreadable(f64),
}

fn changes() -> impl Strategy<Value = Change> {
    let share = 0.0..1.0;
    prop_oneof![
        share.clone().prop_map(Change::Byte),
        (1_usize..3000).prop_map(Change::Grown),
        share.clone().prop_map(Change::Cut),
        Just(Change::Swapped),
        Just(Change::Missing),
        share.prop_map(Change::Unreadable),
    ]
}

fn trees() -> impl Strategy<Value = Files> {
    let path = proptest::collection::vec("[a-c]{1,2}|ö|x y", 1..4).prop_map(|parts| parts.join("/"));
    let len = prop_oneof![Just(0_usize), 1_usize..50, 1_usize..5000, Just(300_000)];
    let bytes = (len, any::<u8>()).prop_map(|(len, seed)| {
        (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect::<Vec<u8>>()
    });
    proptest::collection::btree_map(path, bytes, 1..25).prop_map(|all| {
        // What others lie below is a directory.
        let is_above = |path: &String| all.keys().any(|other| other.starts_with(&format!("{path}/")));
        all.iter()
            .filter(|(path, _)| !is_above(path))
            .map(|(path, bytes)| (path.clone(), bytes.clone()))
            .collect()
    })
}

/// A tree, what became of it, and what is to be found of each path: the outcome, and where a file
/// begins to differ.
#[derive(Debug, Clone)]
struct Case {
    before: Files,
    after: Files,
    unreadable: BTreeMap<String, u64>,
    wanted: BTreeMap<String, &'static str>,
}

impl Case {
    fn new(before: Files, changes: &[(usize, Change)], extra: &[String]) -> Self {
        let mut case =
            Self { after: before.clone(), before, unreadable: BTreeMap::new(), wanted: BTreeMap::new() };
        let paths: Vec<String> = case.before.keys().cloned().collect();
        let mut is_changed = vec![false; paths.len()];
        for (which, change) in changes {
            let at = which % paths.len();
            if !std::mem::replace(&mut is_changed[at], true) {
                case.change(&paths, at, change, &mut is_changed);
            }
        }
        for path in extra {
            let path = format!("extra/{path}");
            case.after.insert(path, b"more".to_vec());
        }
        for path in case.before.keys().chain(case.after.keys()) {
            let outcome = match (case.before.get(path), case.after.get(path)) {
                (_, Some(_)) if case.unreadable.contains_key(path) => "unreadable",
                (Some(before), Some(after)) if before == after => "matches",
                (Some(_), Some(_)) => "mismatches",
                (Some(_), None) => "missing",
                (None, _) => "extra",
            };
            case.wanted.insert(path.clone(), outcome);
        }
        case
    }

    fn change(&mut self, paths: &[String], at: usize, change: &Change, is_changed: &mut [bool]) {
        let path = &paths[at];
        let bytes = self.after.get_mut(path).unwrap();
        let at_share = |share: f64, len: usize| ((share * len as f64) as usize).min(len.saturating_sub(1));
        match change {
            Change::Byte(share) if !bytes.is_empty() => {
                let len = bytes.len();
                bytes[at_share(*share, len)] ^= 0x10;
            }
            Change::Grown(more) => bytes.extend(std::iter::repeat_n(b'+', *more)),
            Change::Cut(share) if !bytes.is_empty() => bytes.truncate(at_share(*share, bytes.len())),
            Change::Swapped => {
                let other = (at + 1) % paths.len();
                if !std::mem::replace(&mut is_changed[other], true) {
                    let bytes = std::mem::take(bytes);
                    let theirs = self.after.insert(paths[other].clone(), bytes).unwrap();
                    self.after.insert(path.clone(), theirs);
                }
            }
            Change::Missing => _ = self.after.remove(path),
            Change::Unreadable(share) if !bytes.is_empty() => {
                let place = at_share(*share, bytes.len());
                self.unreadable.insert(path.clone(), place as u64);
            }
            // Nothing can be done to an empty file.
            Change::Byte(_) | Change::Cut(_) | Change::Unreadable(_) => {}
        }
    }

    fn engines(&self, root: &Path) -> Arc<BadBlockEngines> {
        let engines = BadBlockEngines::new(Backend::Threads);
        for (path, at) in &self.unreadable {
            engines.spoil(root.join(path), ByteRange::new(*at, at + 1).unwrap());
        }
        Arc::new(engines)
    }

    fn verify(&self, root: &Path, subject: Subject, jobs: usize) -> (SubjectReport, Heard) {
        let options = VerifyOptions { jobs: Some(jobs), ..VerifyOptions::default() };
        let verify = Verify { reading: self.engines(root), ..Verify::new(vec![subject]) };
        let mut heard = Heard::default();
        let report = only(verify.with_options(options).run(&mut heard).unwrap());
        check_counts(&report, &mut heard);
        (report, heard)
    }

    /// What was found of files; directories are left out.
    fn check(&self, heard: &Heard) {
        let is_file =
            |path: &&(String, &str)| self.before.contains_key(&path.0) || self.after.contains_key(&path.0);
        let found: BTreeMap<String, &str> = heard.outcomes.iter().filter(is_file).cloned().collect();
        assert_eq!(found, self.wanted);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn each_change_is_found_as_what_it_is_and_counted_once(
        before in trees(),
        changed in proptest::collection::vec((any::<usize>(), changes()), 0..8),
        extra in proptest::collection::vec("[a-z]{1,3}", 0..3),
        kinds in proptest::sample::subsequence(HashKind::ALL.to_vec(), 1..4),
        jobs in 1_usize..4,
    ) {
        let case = Case::new(before, &changed, &extra);
        let place = tempfile::tempdir().unwrap();
        let (one, other) = (place.path().join("one"), place.path().join("other"));
        write(&case.before, &other);
        write(&case.after, &one);
        let said = || listed(&case.before, &kinds);
        let (report, heard) = case.verify(&one, directory(&one).listed(said()), jobs);
        case.check(&heard);
        for unreadable in &report.unreadable {
            let at = case.unreadable[&String::from_utf8(unreadable.key.clone()).unwrap()];
            prop_assert!(unreadable.offset.unwrap() <= at);
        }
        // Against the other tree, alone and together with the list.
        for with_list in [false, true] {
            let subject = directory(&one).against(Branch::directory(&other).unwrap());
            let subject = if with_list { subject.listed(said()) } else { subject };
            let (report, heard) = case.verify(&one, subject, jobs);
            case.check(&heard);
            for mismatch in &report.mismatching {
                let path = String::from_utf8(mismatch.key.clone()).unwrap();
                let (before, after) = (&case.before[&path], &case.after[&path]);
                let alike = before.iter().zip(after).take_while(|(one, other)| one == other).count();
                prop_assert_eq!(mismatch.offset, Some(alike as u64), "{}", path);
                let is_len = matches!(mismatch.difference, Difference::Len { .. });
                prop_assert!(before.len() == after.len() || is_len || with_list);
            }
        }
    }
}
