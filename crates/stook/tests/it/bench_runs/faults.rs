//! Devices that fail.

use stook::Error as CoreError;
use stook::bench::{Error, Unobserved, Workload};
use stook_testing::fault::{EngineCall, EngineFault, FaultEngineFactory};

use super::{BACKENDS, FILE_BYTES, bench, is_empty, measure, reported, short};

/// Operations of the layout: a write for each MiB.
const LAYOUT: usize = (FILE_BYTES >> 20) as usize;

#[test]
fn a_device_error_ends_the_cell_and_tells_path_and_offset() {
    for backend in BACKENDS {
        for (read_share, call, fault, what) in [
            (100, EngineCall::Read, EngineFault::Fails, "cannot read "),
            (0, EngineCall::Write, EngineFault::Fails, "cannot write "),
            (0, EngineCall::Write, EngineFault::NoSpace, "No space left on device"),
        ] {
            let engines = FaultEngineFactory::new(backend);
            let skipped = if call == EngineCall::Write { LAYOUT } else { 0 };
            engines.fail(Some(call), skipped + 100, fault);
            let cell = Workload { read_share, depth: 8, jobs: 2, ..short() };
            let message = reported(&measure(&cell, &engines).unwrap_err());
            assert!(message.contains(what) && message.contains(".stook-bench-"), "{message}");
            let failed =
                engines.operations().into_iter().find(|operation| operation.fault.is_some()).unwrap();
            assert!(message.contains(&format!("at offset {}", failed.offset)), "{message}");
        }
    }
}

#[test]
fn a_read_that_gets_less_than_the_file_has_is_an_error() {
    for backend in BACKENDS {
        let engines = FaultEngineFactory::new(backend);
        engines.fail(Some(EngineCall::Read), 50, EngineFault::Short);
        let error = measure(&Workload { depth: 4, ..short() }, &engines).unwrap_err();
        let short = matches!(error, Error::Core(CoreError::ShortRead { wanted: 4096, got: 2048, .. }));
        assert!(short, "{error}");
    }
}

#[test]
fn a_failing_sync_ends_the_cell() {
    let engines = FaultEngineFactory::new(BACKENDS[0]);
    engines.fail(Some(EngineCall::Sync), 2, EngineFault::Fails);
    let cell = Workload { read_share: 0, fsync_every: Some(4), ..short() };
    let message = reported(&measure(&cell, &engines).unwrap_err());
    assert!(message.starts_with("cannot sync "), "{message}");
}

#[test]
fn a_layout_that_fails_leaves_nothing() {
    for (keep, fault) in
        [(false, EngineFault::NoSpace), (true, EngineFault::Fails), (true, EngineFault::Short)]
    {
        let directory = tempfile::tempdir().unwrap();
        let engines = FaultEngineFactory::new(BACKENDS[0]);
        engines.fail(Some(EngineCall::Write), 2, fault);
        let bench = stook::bench::Bench { keep, ..bench(&[short()]) };
        let message = reported(&bench.run(directory.path(), &engines, &Unobserved).unwrap_err());
        assert!(message.contains("cannot write ") && message.contains(" at offset "), "{message}");
        assert!(is_empty(directory.path()));
    }
}

/// Before: the layout was synced and dropped beside the engine, where no fault could reach it.
#[test]
fn a_layout_that_is_not_durable_is_an_error() {
    for call in [EngineCall::SyncAll, EngineCall::DropCached] {
        let directory = tempfile::tempdir().unwrap();
        let engines = FaultEngineFactory::new(BACKENDS[0]);
        engines.fail(Some(call), 0, EngineFault::Fails);
        let message = reported(&bench(&[short()]).run(directory.path(), &engines, &Unobserved).unwrap_err());
        assert!(message.contains("cannot "), "{message}");
        assert!(engines.operations().iter().any(|operation| operation.fault.is_some()), "{call:?}");
        assert!(is_empty(directory.path()));
    }
}

#[test]
fn completions_that_are_kept_back_are_waited_for() {
    let engines = FaultEngineFactory::new(BACKENDS[0]);
    engines.fail(Some(EngineCall::Read), 10, EngineFault::Delayed);
    let found = measure(&Workload { depth: 4, ..short() }, &engines).unwrap();
    assert_eq!(found.total.count, 512);
}
