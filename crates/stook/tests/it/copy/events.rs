//! What a caller hears while it is copied, and what the report says of devices and waits.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use stook::copy::{
    Beginning, Copy, CopyEvents, CopyFailure, CopyOptions, CopyReport, CopySource, Destination, Item, Phase,
    Progress, WhyStopped,
};
use stook_testing::fault::{FaultCalls, OutFault};

const ENOSPC: i32 = 28;

/// Everything that was heard.
#[derive(Debug, Default)]
struct All {
    begun: Vec<Beginning>,
    items: Vec<Item>,
    failures: Vec<CopyFailure>,
    progress: Vec<Progress>,
}

impl CopyEvents for All {
    fn begin(&mut self, beginning: &Beginning) {
        assert!(self.items.is_empty(), "it comes first");
        self.begun.push(beginning.clone());
    }

    fn go_on(&mut self, progress: &Progress) -> bool {
        assert_eq!(progress.phase == Phase::Counting, self.begun.is_empty(), "{progress:?}");
        self.progress.push(progress.clone());
        true
    }

    fn item(&mut self, item: &Item) {
        self.items.push(item.clone());
    }

    fn failure(&mut self, failure: &CopyFailure) {
        self.failures.push(failure.clone());
    }
}

fn tree(files: usize) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("from/d")).unwrap();
    for number in 0..files {
        fs::write(directory.path().join(format!("from/d/{number}")), "bytes").unwrap();
    }
    directory
}

fn run(from: &Path, destinations: Vec<Destination>, options: CopyOptions) -> (CopyReport, All) {
    let mut all = All::default();
    let sources = vec![CopySource::directory(from).unwrap()];
    let report = Copy::new(sources, destinations).with_options(options).run(&mut all).unwrap();
    (report, all)
}

#[test]
fn what_begins_is_announced_once_with_its_totals_and_what_it_lies_on() {
    let directory = tree(2000);
    let to = [directory.path().join("one"), directory.path().join("two/deep")];
    let (report, all) = run(
        &directory.path().join("from"),
        to.iter().map(Destination::new).collect(),
        CopyOptions::default(),
    );
    let [begun] = all.begun.as_slice() else { panic!("{:?}", all.begun) };
    assert_eq!((begun.total_files, begun.total_bytes), (Some(2000), Some(10_000)));
    assert_eq!((begun.sources.len(), begun.destinations.len()), (1, 2));
    assert!(begun.sources[0].file_system.is_some(), "{begun:?}");
    assert_eq!(report.sources, begun.sources);
    assert_eq!(report.destinations[1].attachment, begun.destinations[1]);
    // Of two thousand entries the first thousand is reported while they are counted.
    let counting: Vec<_> = all.progress.iter().filter(|one| one.phase == Phase::Counting).collect();
    assert!(counting.iter().any(|one| one.files > 900 && one.total_files.is_none()), "{counting:?}");
    let last = all.progress.last().unwrap();
    assert_eq!((last.phase, last.files, last.total_files), (Phase::Finishing, 2000, Some(2000)));
    assert!(all.failures.is_empty(), "{:?}", all.failures);
    assert!(!report.elapsed.is_zero() && !report.waits.sources.is_zero(), "{report:?}");
    assert_eq!(report.waits.destinations.len(), 2);
    assert!(report.waits.destinations.iter().all(|waited| !waited.is_zero()), "{:?}", report.waits);
    assert!(report.waits.limit.is_zero());
}

#[test]
fn each_failure_is_heard_as_the_report_has_it() {
    let directory = tree(3);
    let only = Some(BTreeSet::from([b"d/1".to_vec(), b"d/absent".to_vec()]));
    let options = CopyOptions { only, ..CopyOptions::default() };
    let (report, all) =
        run(&directory.path().join("from"), vec![Destination::new(directory.path().join("to"))], options);
    let [failure] = report.failures.as_slice() else { panic!("{report:?}") };
    let error = stook::error::chain(&failure.error);
    assert_eq!(all.failures, [CopyFailure { destination: None, key: b"d/absent".to_vec(), error }]);
}

#[test]
fn a_destination_that_is_full_is_said_to_be_with_every_failure_of_it() {
    let directory = tree(3);
    fs::create_dir(directory.path().join("full")).unwrap();
    let calls = Arc::new(FaultCalls::nth(0, OutFault::Fails(ENOSPC)));
    let full = Destination { calls, ..Destination::new(directory.path().join("full")) };
    let good = Destination::new(directory.path().join("good"));
    let (report, all) = run(&directory.path().join("from"), vec![good, full], CopyOptions::default());
    let last = all.progress.last().unwrap();
    let states: Vec<_> = last.destinations.iter().map(|one| (one.is_stopped, one.why_stopped)).collect();
    assert_eq!(states, [(false, None), (true, Some(WhyStopped::Full))]);
    let mut heard: Vec<_> = all.failures.iter().map(|one| (one.destination, one.error.clone())).collect();
    let of_full = &report.destinations[1].failures;
    let mut reported: Vec<_> = of_full.iter().map(|one| (Some(1), stook::error::chain(&one.error))).collect();
    assert!(!reported.is_empty());
    // Threads may meet it at the same time.
    heard.sort();
    reported.sort();
    assert_eq!(heard, reported);
    assert!(heard[0].1.contains("No space left on device"), "{heard:?}");
}

#[test]
fn waiting_for_the_limit_is_waiting_for_the_limit() {
    let directory = tree(3);
    fs::write(directory.path().join("from/big"), vec![7; 600_000]).unwrap();
    let options = CopyOptions { bytes_per_s: Some(2_000_000), ..CopyOptions::default() };
    let to = vec![Destination::new(directory.path().join("to"))];
    let (report, _) = run(&directory.path().join("from"), to, options);
    assert!(!report.waits.limit.is_zero(), "{report:?}");
}

/// Progress of files that are read at this rate; after each report it is asked whether that was
/// enough.
struct Watched<F> {
    all: Vec<Progress>,
    is_enough: F,
}

impl<F: FnMut(&Progress) -> bool> CopyEvents for Watched<F> {
    fn go_on(&mut self, progress: &Progress) -> bool {
        self.all.push(progress.clone());
        !(self.is_enough)(progress)
    }
}

fn watched(bytes_per_s: u64, is_enough: impl FnMut(&Progress) -> bool) -> Vec<Progress> {
    let directory = tree(50);
    fs::write(directory.path().join("from/take"), vec![7; 1 << 20]).unwrap();
    let options = CopyOptions { bytes_per_s: Some(bytes_per_s), ..CopyOptions::default() };
    let mut watched = Watched { all: Vec::new(), is_enough };
    let sources = vec![CopySource::directory(directory.path().join("from")).unwrap()];
    let to = vec![Destination::new(directory.path().join("to"))];
    Copy::new(sources, to).with_options(options).run(&mut watched).unwrap();
    watched.all
}

/// Before: it was the one that was begun last.
#[test]
fn the_file_that_takes_long_is_named_while_it_takes_long() {
    let all = watched(1 << 20, |_| false);
    let waiting: Vec<_> = all.iter().filter(|one| one.phase == Phase::Copying && one.files == 50).collect();
    assert!(!waiting.is_empty(), "all but one of them are short: {all:?}");
    assert!(waiting.iter().all(|one| one.current == b"take"), "{waiting:?}");
}

/// Before: all that was left counted as copied.
#[test]
fn progress_of_a_copy_that_is_stopped_stays_where_it_was() {
    let mut is_slow = |one: &Progress| one.phase == Phase::Copying;
    let all = watched(4 << 10, &mut is_slow);
    let last = all.last().unwrap();
    assert_eq!((last.total_files, last.phase), (Some(51), Phase::Finishing), "{last:?}");
    assert!(last.files < 51 && last.bytes < 1 << 20, "{last:?}");
}
