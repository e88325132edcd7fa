//! Devices that fail under a local directory: the failure is reported, nothing promised is lost.

use std::sync::Arc;

use stook::Result;
use stook::engine::Backend;
use stook::storage::{LocalStorage, LocalStorageOptions, Storage, WriteAccess};
use stook_testing::conformance::{contents, pattern};
use stook_testing::fault::{EngineCall, EngineFault, FaultEngineFactory};
use tempfile::TempDir;

fn open(faults: &FaultEngineFactory, write_access: WriteAccess) -> (TempDir, LocalStorage) {
    let directory = TempDir::new().unwrap();
    let engine = Arc::new(faults.clone());
    let options = LocalStorageOptions { engine, write_access, depth: 4, block_len: 64 << 10 };
    let storage = LocalStorage::open(directory.path(), options).unwrap();
    (directory, storage)
}

/// Appends ten times 150,000 bytes, each synced; returns what was promised, and the first error
/// with what the appender answered afterwards.
fn append_and_sync(storage: &dyn Storage) -> (Vec<u8>, Result<()>) {
    let mut promised = Vec::new();
    let mut appender = storage.create("log").unwrap();
    for round in 0..10 {
        let bytes = pattern(150_000, round);
        if let Err(error) = appender.append(&[&bytes]).and_then(|()| appender.sync()) {
            for refused in
                [appender.append(&[b"more"]), appender.flush(), appender.sync(), appender.truncate(0)]
            {
                let refused = refused.unwrap_err().to_string();
                assert!(refused.contains("log"), "{refused}");
            }
            return (promised, Err(error));
        }
        promised.extend(bytes);
    }
    (promised, Ok(()))
}

/// Makes the n-th operation of a kind fail, for every n, and returns how many there were.
fn fail_each(call: EngineCall, fault: EngineFault, write_access: WriteAccess) -> usize {
    for nth in 0.. {
        let faults = FaultEngineFactory::new(Backend::Threads);
        faults.fail(Some(call), nth, fault);
        let (_directory, storage) = open(&faults, write_access);
        let (promised, result) = append_and_sync(&storage);
        let found = contents(&storage, "log");
        assert!(found.starts_with(&promised), "{call:?} {nth}: what was promised is there");
        let met = faults.operations().iter().any(|operation| operation.fault.is_some());
        let Err(error) = result else {
            assert!(!met, "{call:?} {nth}: a fault was not reported");
            return nth;
        };
        assert!(met && error.to_string().contains("log"), "{call:?} {nth}: {error}");
    }
    unreachable!("some operation is the last")
}

#[test]
fn every_failing_write_is_reported_and_what_was_synced_stays() {
    for write_access in [WriteAccess::Direct, WriteAccess::Cached] {
        for fault in [EngineFault::Fails, EngineFault::NoSpace, EngineFault::Short] {
            let writes = fail_each(EngineCall::Write, fault, write_access);
            assert!(writes >= 1_500_000 / (64 << 10), "{writes}");
        }
    }
}

#[test]
fn every_failing_sync_is_reported_and_ends_the_appender() {
    for write_access in [WriteAccess::Direct, WriteAccess::Cached] {
        assert_eq!(fail_each(EngineCall::Sync, EngineFault::Fails, write_access), 10);
    }
}

#[test]
fn a_failing_file_does_not_disturb_its_neighbours() {
    let faults = FaultEngineFactory::new(Backend::Threads);
    let (_directory, storage) = open(&faults, WriteAccess::Direct);
    let (mut bad, mut good) = (storage.create("bad").unwrap(), storage.create("good").unwrap());
    let bytes = pattern(500_000, 1);
    faults.fail(Some(EngineCall::Write), 0, EngineFault::Fails);
    let appended = bad.append(&[&bytes]);
    good.append(&[&bytes]).unwrap();
    good.sync().unwrap();
    assert!(appended.and_then(|()| bad.sync()).is_err());
    assert!(contents(&storage, "good") == bytes);
    good.append(&[b"more"]).unwrap();
    good.sync().unwrap();
}

#[test]
fn after_a_failure_the_file_opens_again_and_grows_from_its_cut_end() {
    let faults = FaultEngineFactory::new(Backend::Threads);
    let (_directory, storage) = open(&faults, WriteAccess::Direct);
    faults.fail(Some(EngineCall::Write), 6, EngineFault::Short);
    let (promised, result) = append_and_sync(&storage);
    result.unwrap_err();
    let mut appender = storage.open_append("log").unwrap();
    appender.truncate(promised.len() as u64).unwrap();
    appender.append(&[b"again"]).unwrap();
    appender.sync().unwrap();
    assert!(contents(&storage, "log") == [&promised[..], b"again"].concat());
}

#[test]
fn completions_that_come_late_and_out_of_order_change_nothing() {
    let faults = FaultEngineFactory::new(Backend::Threads);
    for nth in [0, 3, 4, 9] {
        faults.fail(Some(EngineCall::Write), nth, EngineFault::Delayed);
    }
    let (_directory, storage) = open(&faults, WriteAccess::Direct);
    let (promised, result) = append_and_sync(&storage);
    result.unwrap();
    assert!(contents(&storage, "log") == promised);
}
