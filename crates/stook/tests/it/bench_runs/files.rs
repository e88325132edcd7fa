//! The file that is measured on: its own, an existing one, an unsuitable one.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use stook::bench::{Bench, BenchResult, Error, KEPT_NAME, Observer, Unobserved, Workload};
use stook::engine::{Backend, CacheResidency};
use stook::extent::ByteRange;
use stook_testing::fault::FaultEngineFactory;

use super::{FILE_BYTES, bench, is_empty, reported, short};

fn run(bench: &Bench, path: &Path) -> Result<BenchResult, Error> {
    bench.run(path, &Backend::Auto, &Unobserved)
}

fn refused(bench: &Bench, path: &Path) -> String {
    reported(&run(bench, path).unwrap_err())
}

#[test]
fn a_kept_file_is_full_of_data_and_is_never_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let keeping = Bench { keep: true, ..bench(&[short()]) };
    run(&keeping, directory.path()).unwrap();
    let kept = directory.path().join(KEPT_NAME);
    let bytes = fs::read(&kept).unwrap();
    assert_eq!(bytes.len() as u64, FILE_BYTES);
    assert!(bytes.chunks(4096).all(|block| block.iter().any(|&byte| byte != 0)), "no block is empty");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    assert!(refused(&keeping, directory.path()).contains("already exists"));
    assert!(fs::read(&kept).unwrap() == bytes);
}

#[test]
fn an_existing_file_is_only_read_unless_that_was_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mine");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    run(&bench(&[short()]), &path).unwrap();
    let writing = bench(&[short(), Workload { read_share: 50, ..short() }]);
    let message = refused(&writing, &path);
    assert!(message.contains("expected --overwrite-file"), "{message}");
    assert!(fs::read(&path).unwrap() == vec![7; 1 << 20], "nothing was touched");
    let result = run(&Bench { overwrite_file: true, ..writing }, &path).unwrap();
    assert!(!result.own_file && result.file_bytes == 1 << 20);
    let bytes = fs::read(&path).unwrap();
    assert!(bytes.len() == 1 << 20 && bytes.chunks(4096).all(|block| block != [7; 4096]), "all was written");
}

/// Before: `--overwrite-file` destroyed the records of a pack whose segment it was given.
#[test]
fn a_file_of_a_pack_is_never_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let segment = directory.path().join("segment-0000000000000001");
    fs::write(&segment, vec![7; 1 << 20]).unwrap();
    fs::write(directory.path().join("manifest-0000000000000001"), "").unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link");
    std::os::unix::fs::symlink(&segment, &link).unwrap();
    let writing = Bench { overwrite_file: true, ..bench(&[Workload { read_share: 0, ..short() }]) };
    for path in [&segment, &link] {
        let message = refused(&writing, path);
        assert!(message.contains("is a pack"), "{message}");
    }
    assert!(fs::read(&segment).unwrap() == vec![7; 1 << 20], "nothing was touched");
    run(&bench(&[short()]), &segment).unwrap();
}

#[test]
fn a_file_that_is_known_to_be_full_is_not_filled_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("full");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let one = Workload { read_share: 0, size_bytes: Some(4096), ..short() };
    let bench = Bench { overwrite_file: true, file_is_full: true, ..bench(&[one]) };
    run(&bench, &path).unwrap();
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.chunks(4096).filter(|block| *block != [7; 4096]).count(), 1, "only what the cell wrote");
}

/// In the build directory: what lies in memory has no pages that could be given up.
#[test]
fn a_cold_cell_begins_without_pages_and_others_leave_them() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("cached");
    fs::write(&path, vec![7; FILE_BYTES as usize]).unwrap();
    let one = Workload { size_bytes: Some(4096), ..short() };
    for cold in [false, true] {
        assert_eq!(fs::read(&path).unwrap().len() as u64, FILE_BYTES);
        run(&Bench { cold, ..bench(std::slice::from_ref(&one)) }, &path).unwrap();
        let file = stook::engine::File::open(&path).unwrap();
        let share = CacheResidency::of(&file, ByteRange::to(FILE_BYTES)).cached_share(FILE_BYTES);
        // Older kernels do not say it.
        assert!(share.is_none_or(|share| (share < 1.0) == cold), "{cold}: {share:?}");
    }
}

#[test]
fn files_that_are_none_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let message = refused(&bench(&[short()]), &directory.path().join("missing"));
    assert!(message.starts_with("cannot open ") && message.contains("missing"), "{message}");
    let message = refused(&bench(&[short()]), Path::new("/dev/null"));
    assert_eq!(
        message,
        "/dev/null is a character device: expected a directory, a regular file or a block device"
    );
    let empty = directory.path().join("empty");
    fs::write(&empty, b"").unwrap();
    assert!(refused(&bench(&[short()]), &empty).contains("is empty: expected a file with data"));
}

#[test]
fn a_file_larger_than_the_free_space_is_refused_before_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let huge = Bench { file_bytes: 1 << 60, ..bench(&[short()]) };
    let message = refused(&huge, directory.path());
    assert!(message.contains(" free, and the test file needs 1.00 EiB"), "{message}");
    assert!(is_empty(directory.path()));
}

#[test]
fn cells_that_do_not_fit_the_file_are_refused_before_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let engines = FaultEngineFactory::new(Backend::Auto);
    let long = bench(&[Workload { block_size: 8 << 20, size_bytes: Some(8 << 20), ..short() }]);
    let message = reported(&long.run(directory.path(), &engines, &Unobserved).unwrap_err());
    assert!(message.contains("expected a block that fits in the file"), "{message}");
    assert_eq!(
        reported(&bench(&[]).check().unwrap_err()),
        "there is nothing to measure: expected at least one cell"
    );
    assert!(engines.operations().is_empty() && is_empty(directory.path()));
}

#[test]
fn a_file_that_is_cut_removed_or_replaced_meanwhile_is_reported() {
    /// Does something to the file once the first cell runs.
    struct Meddler<'a>(&'a (dyn Fn() + Sync), AtomicU64);
    impl Observer for Meddler<'_> {
        fn ran(&self, _ms: u64) {
            if self.1.fetch_add(1, Ordering::Relaxed) == 0 {
                (self.0)();
            }
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mine");
    let remove = || fs::remove_file(&path).unwrap();
    let replace = || {
        fs::write(directory.path().join("other"), vec![1; 1 << 20]).unwrap();
        fs::rename(directory.path().join("other"), &path).unwrap();
    };
    let cut = || fs::File::options().write(true).open(&path).unwrap().set_len(5000).unwrap();
    let meddling: [(&(dyn Fn() + Sync), &str); 3] =
        [(&remove, "cannot find "), (&replace, "was replaced"), (&cut, "")];
    for (meddle, expected) in meddling {
        fs::write(&path, vec![7; 1 << 20]).unwrap();
        let cells = [Workload { time_s: Some(0.3), size_bytes: None, ..short() }, short()];
        let watcher = Meddler(meddle, AtomicU64::new(0));
        let message = reported(&bench(&cells).run(&path, &Backend::Auto, &watcher).unwrap_err());
        assert!(message.contains(expected) && message.contains("mine"), "{message}");
        if expected.is_empty() {
            assert!(message.contains("ends too early") || message.contains("was cut to 5000"), "{message}");
        }
    }
}

#[test]
fn an_interruption_keeps_what_was_measured_and_leaves_nothing() {
    /// Ends everything once that many milliseconds were measured.
    struct Impatient(AtomicU64, u64);
    impl Observer for Impatient {
        fn is_interrupted(&self) -> bool {
            self.0.load(Ordering::Relaxed) >= self.1
        }
        fn ran(&self, ms: u64) {
            self.0.fetch_add(ms, Ordering::Relaxed);
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let endless = Workload { time_s: Some(3600.0), size_bytes: None, ..short() };
    let cells = bench(&[Workload { time_s: Some(0.2), size_bytes: None, ..short() }, endless]);
    let result = cells.run(directory.path(), &Backend::Auto, &Impatient(AtomicU64::new(0), 500)).unwrap();
    assert!(result.interrupted);
    assert_eq!((result.cells[0].runs.len(), result.cells[1].runs.len()), (1, 0));
    assert!(is_empty(directory.path()));
    let before = cells.run(directory.path(), &Backend::Auto, &Impatient(AtomicU64::new(0), 0));
    assert!(matches!(before, Err(Error::Interrupted)), "while the file is written there is nothing to tell");
    assert!(is_empty(directory.path()));
}
