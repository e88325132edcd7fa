//! The backends, and engines that fail on demand.

use std::fs;
use std::sync::Arc;

use proptest::prelude::*;
use stook::Error;
use stook::engine::{Access, Backend, EngineFactory, File, Operation, Request};
use stook_testing::conformance::{
    engine_conformance, engine_matches_model, file_operations, noise, read, run_all, write,
};
use stook_testing::device::{Device, DeviceEngines};
use stook_testing::fault::{EngineCall, EngineFault, FaultEngineFactory};

/// The backends there are on this system. Where `io_uring` is refused, `Auto` stands for threads.
fn backends() -> [Backend; 2] {
    [Backend::Auto, Backend::Threads]
}

#[test]
fn threads_keep_every_promise() {
    let directory = tempfile::tempdir().unwrap();
    engine_conformance(&Backend::Threads, directory.path());
}

#[test]
fn the_chosen_backend_keeps_every_promise() {
    let directory = tempfile::tempdir().unwrap();
    engine_conformance(&Backend::Auto, directory.path());
}

#[test]
fn engines_of_simulated_devices_conform() {
    let directory = tempfile::tempdir().unwrap();
    engine_conformance(&DeviceEngines::new(Backend::Auto, Device::nvme()), directory.path());
}

#[test]
fn an_engine_without_faults_passes_everything_on() {
    let directory = tempfile::tempdir().unwrap();
    for backend in backends() {
        engine_conformance(&FaultEngineFactory::new(backend), directory.path());
    }
}

/// A memory file system: where direct I/O is refused, or has no alignment to tell.
#[test]
#[cfg(target_os = "linux")]
fn file_systems_without_direct_io_serve_direct_requests() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("this test needs a writable memory file system");
    for backend in backends() {
        engine_conformance(&backend, directory.path());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn files_hold_what_a_flat_model_holds(
        operations in file_operations(),
        depth in 1..17_usize,
        backend in 0..2_usize,
    ) {
        let directory = tempfile::tempdir().unwrap();
        engine_matches_model(&backends()[backend], directory.path(), depth, &operations);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_device_is_reported_with_path_and_offset() {
    let full = Arc::new(File::open_writable("/dev/full").unwrap());
    for backend in backends() {
        let mut engine = backend.build(2).unwrap();
        for access in [Access::Direct, Access::Cached] {
            let request = write(0, &full, access, 4096, &[1; 4096]);
            let error = run_all(&mut *engine, vec![request]).pop().unwrap().result.unwrap_err();
            let reported = matches!(&error, Error::Io { operation: "write", path, offset: Some(4096), source }
                if path == full.path() && source.raw_os_error() == Some(libc::ENOSPC));
            assert!(reported, "{error:?}");
        }
    }
}

fn with_file(test: impl Fn(FaultEngineFactory, Arc<File>)) {
    for backend in backends() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, noise(1, 20_000)).unwrap();
        test(FaultEngineFactory::new(backend), Arc::new(File::open_writable(&path).unwrap()));
    }
}

#[test]
fn faults_hit_the_operation_they_were_asked_for() {
    with_file(|factory, file| {
        factory.fail(Some(EngineCall::Write), 1, EngineFault::NoSpace);
        factory.fail(None, 3, EngineFault::Fails);
        let mut engine = factory.build(4).unwrap();
        let requests = vec![
            read(0, &file, Access::Cached, 0, 10),
            write(1, &file, Access::Cached, 100, b"one"),
            write(2, &file, Access::Cached, 200, b"two"),
            read(3, &file, Access::Direct, 0, 10),
            read(4, &file, Access::Cached, 0, 10),
        ];
        for completion in run_all(&mut *engine, requests) {
            let errno = match completion.result {
                Ok(_) => None,
                Err(Error::Io { source, .. }) => source.raw_os_error(),
                Err(other) => panic!("{other}"),
            };
            let wanted = match completion.token {
                2 => Some(libc::ENOSPC),
                3 => Some(libc::EIO),
                _ => None,
            };
            assert_eq!(errno, wanted, "operation {}", completion.token);
        }
        let met: Vec<_> = factory.operations().iter().map(|operation| operation.fault).collect();
        assert_eq!(met, [None, None, Some(EngineFault::NoSpace), Some(EngineFault::Fails), None]);
        let bytes = fs::read(file.path()).unwrap();
        assert_eq!(&bytes[100..103], b"one");
        assert_eq!(bytes[200..203], noise(1, 20_000)[200..203], "the refused write was not done");
    });
}

#[test]
fn short_operations_move_the_first_half() {
    with_file(|factory, file| {
        let mut engine = factory.build(1).unwrap();
        factory.fail(None, 0, EngineFault::Short);
        let found = run_all(&mut *engine, vec![read(0, &file, Access::Direct, 5, 100)]).pop().unwrap();
        assert_eq!(found.result.unwrap(), 50);
        assert_eq!(found.buffer.unwrap().data(), &noise(1, 20_000)[5..55]);
        factory.fail(None, 0, EngineFault::Short);
        let torn = run_all(&mut *engine, vec![write(0, &file, Access::Cached, 5, b"abcd")]).pop().unwrap();
        assert!(torn.result.is_err());
        assert_eq!(torn.buffer.unwrap().data(), b"abcd");
        let bytes = fs::read(file.path()).unwrap();
        assert_eq!((&bytes[5..7], &bytes[7..9]), (&b"ab"[..], &noise(1, 20_000)[7..9]));
    });
}

#[test]
fn delayed_operations_are_reported_last() {
    with_file(|factory, file| {
        factory.fail(None, 0, EngineFault::Delayed);
        factory.fail(Some(EngineCall::Sync), 0, EngineFault::Fails);
        let mut engine = factory.build(3).unwrap();
        let requests = vec![
            read(0, &file, Access::Cached, 0, 10),
            read(1, &file, Access::Cached, 0, 10),
            Request { token: 2, file, access: Access::Cached, operation: Operation::Sync },
        ];
        let completions = run_all(&mut *engine, requests);
        assert_eq!(completions.last().map(|completion| completion.token), Some(0));
        assert!(completions.iter().all(|completion| completion.result.is_err() == (completion.token == 2)));
    });
}
