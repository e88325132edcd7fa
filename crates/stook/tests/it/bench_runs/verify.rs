//! Verified cells: reads return the written bytes, or path and offset of the difference are
//! reported.

use std::fs;
use std::os::unix::fs::FileExt as _;

use stook::bench::{Bench, Error, KEPT_NAME, Pattern, Unobserved, Workload};
use stook::engine::Backend;

use super::{BACKENDS, FILE_BYTES, bench, measure, short};

fn verified() -> Workload {
    Workload { verify: true, ..short() }
}

#[test]
fn what_is_written_is_found_again_on_both_backends() {
    for backend in BACKENDS {
        for pattern in [Pattern::Random, Pattern::Sequential] {
            for read_share in [100, 50, 0] {
                let cell = Workload { pattern, read_share, depth: 16, jobs: 3, ..verified() };
                let found = measure(&cell, &backend).unwrap();
                let read = found.read.as_ref().map_or(0, |read| read.bytes);
                // A cell that writes is read back as a whole.
                let expected = read + if read_share < 100 { FILE_BYTES } else { 0 };
                assert_eq!(found.runs[0].verified_bytes, expected);
            }
        }
    }
}

#[test]
fn cells_of_a_sweep_verify_what_the_ones_before_wrote() {
    let directory = tempfile::tempdir().unwrap();
    let write = Workload { read_share: 0, block_size: 512, depth: 7, ..verified() };
    let read = Workload { block_size: 65_536, ..verified() };
    let sweep = Bench { rounds: 2, ..bench(&[write, read]) };
    let result = sweep.run(directory.path(), &Backend::Auto, &Unobserved).unwrap();
    assert!(result.cells.iter().all(|cell| cell.runs.iter().all(|run| run.verified_bytes >= 2 << 20)));
}

#[test]
fn a_flipped_byte_is_found_with_path_and_offset() {
    let directory = tempfile::tempdir().unwrap();
    let keeping = Bench { keep: true, ..bench(&[verified()]) };
    keeping.run(directory.path(), &Backend::Auto, &Unobserved).unwrap();
    let path = directory.path().join(KEPT_NAME);
    let sequential = Workload { pattern: Pattern::Sequential, size_bytes: Some(FILE_BYTES), ..verified() };
    for backend in BACKENDS {
        bench(std::slice::from_ref(&sequential)).run(&path, &backend, &Unobserved).unwrap();
    }
    let file = fs::File::options().read(true).write(true).open(&path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 1_234_567).unwrap();
    file.write_all_at(&[byte[0] ^ 4], 1_234_567).unwrap();
    for backend in BACKENDS {
        let error = bench(std::slice::from_ref(&sequential)).run(&path, &backend, &Unobserved).unwrap_err();
        let Error::Mismatch { path: reported, offset, .. } = &error else { panic!("{error}") };
        assert_eq!((reported, *offset), (&path, 1_234_567 / 512 * 512));
    }
}

/// Each command has a seed of its own, and the file that one kept is whole for the next.
#[test]
fn a_kept_file_is_verified_with_the_seed_that_it_was_written_with() {
    let directory = tempfile::tempdir().unwrap();
    let kept = |name: &str, seed| {
        let place = directory.path().join(name);
        fs::create_dir(&place).unwrap();
        let keeping = Bench { keep: true, ..bench(&[Workload { seed, ..verified() }]) };
        keeping.run(&place, &Backend::Auto, &Unobserved).unwrap();
        place.join(KEPT_NAME)
    };
    let (one, other) = (kept("one", 1), kept("other", 3));
    let cell = Workload { seed: 2, pattern: Pattern::Sequential, size_bytes: Some(FILE_BYTES), ..verified() };
    let read = bench(&[cell]);
    let result = read.run(&one, &Backend::Auto, &Unobserved).unwrap();
    assert_eq!(result.cells[0].runs[0].verified_bytes, FILE_BYTES);
    // Part of another file, each unit of which is whole.
    let mut block = [0; 4096];
    fs::File::open(&other).unwrap().read_exact_at(&mut block, 8192).unwrap();
    fs::File::options().write(true).open(&one).unwrap().write_all_at(&block, 8192).unwrap();
    let error = read.run(&one, &Backend::Auto, &Unobserved).unwrap_err();
    assert!(error.to_string().contains("written with seed 3, expected 1"), "{error}");
}

#[test]
fn a_file_that_this_never_wrote_cannot_be_verified() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mine");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let error = bench(&[verified()]).run(&path, &Backend::Auto, &Unobserved).unwrap_err();
    assert!(error.to_string().contains("no stamp of a test file"), "{error}");
}

#[test]
fn cells_that_verify_and_cells_that_do_not_cannot_share_a_file() {
    let error = bench(&[verified(), short()]).check().unwrap_err();
    assert!(error.to_string().contains("expected the same for all cells"), "{error}");
}
