//! The backends, and engines that fail on demand.

use std::fs;
use std::sync::Arc;

use proptest::prelude::*;
use stook::Error;
use stook::engine::{Access, Backend, CallFault, EngineFactory, File, Operation, Request, SeekTarget};
use stook::extent::ByteRange;
use stook_testing::conformance::{
    engine_conformance, engine_matches_model, file_operations, noise, read, request, run_all, write,
    write_shared,
};
use stook_testing::device::{Device, DeviceEngines};
use stook_testing::fault::{CallFaultEngines, EngineCall, EngineFault, FaultEngineFactory};

/// The backends on this system. If `io_uring` is refused, `Auto` means threads.
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

/// What a kernel may do at any call, without that anything has failed.
const HARMLESS: [CallFault; 3] =
    [CallFault::Errno(libc::EINTR), CallFault::Errno(libc::EAGAIN), CallFault::AtMost(1000)];

#[test]
fn interrupted_and_short_calls_break_no_promise() {
    for backend in backends() {
        for (nth, fault) in [3, 7, 2].into_iter().zip(HARMLESS) {
            let directory = tempfile::tempdir().unwrap();
            let engines = CallFaultEngines::every(backend, nth, fault);
            engine_conformance(&engines, directory.path());
            assert!(engines.calls() > 1000, "{backend:?} {fault:?}");
        }
    }
}

/// A memory file system: where direct I/O is refused, or reports no alignment.
#[test]
#[cfg(target_os = "linux")]
fn file_systems_without_direct_io_serve_direct_requests() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("this test needs a writable memory file system");
    for backend in backends() {
        engine_conformance(&backend, directory.path());
    }
    let file = File::create_new(directory.path().join("file")).unwrap();
    assert!(!file.bypasses_cache(), "all of it is cache, whatever the system takes");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn files_hold_what_a_flat_model_holds(
        operations in file_operations(),
        depth in 1..17_usize,
        backend in 0..2_usize,
        harmless in 0..HARMLESS.len(),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let backend = backends()[backend];
        engine_matches_model(&backend, directory.path(), depth, &operations);
        let engines = CallFaultEngines::every(backend, 2, HARMLESS[harmless]);
        engine_matches_model(&engines, directory.path(), depth, &operations);
    }
}

/// One of each operation that any Linux file system can do, in an order in which none needs another
/// one's outcome. `from` and `file` have 200,000 bytes.
#[cfg(target_os = "linux")]
fn one_of_each(from: &Arc<File>, file: &Arc<File>) -> Vec<Request> {
    let range = |start, end| ByteRange::new(start, end).unwrap();
    let copy = Operation::CopyRange { from: from.clone(), range: range(0, 5000), offset: 100_000 };
    let shared = bytes::Bytes::from(noise(3, 5000));
    vec![
        read(0, from, Access::Cached, 10, 5000),
        read(1, from, Access::Direct, 4096, 4096),
        write(2, file, Access::Cached, 10, &noise(3, 5000)),
        write_shared(3, file, Access::Direct, 50_000, &shared),
        request(4, file, copy),
        request(5, file, Operation::Allocate { range: range(0, 250_000), keep_len: true }),
        request(6, from, Operation::Seek { target: SeekTarget::Hole, offset: 5 }),
        request(7, from, Operation::DropCached { range: range(0, 200_000) }),
        request(8, file, Operation::Sync),
        request(9, file, Operation::SyncAll),
    ]
}

/// Both file systems: of the second all is in memory.
#[test]
#[cfg(target_os = "linux")]
fn each_call_that_fails_fails_its_operation_and_no_other() {
    for backend in backends() {
        for place in [std::env::temp_dir(), "/dev/shm".into()] {
            for errno in [libc::EIO, libc::ENOSPC] {
                fail_each_call(backend, &place, errno);
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn fail_each_call(backend: Backend, place: &std::path::Path, errno: i32) {
    let directory = tempfile::tempdir_in(place).unwrap();
    let open = |name: &str| {
        let path = directory.path().join(name);
        fs::write(&path, noise(2, 200_000)).unwrap();
        Arc::new(File::open_writable(path).unwrap())
    };
    for nth in 0.. {
        let engines = CallFaultEngines::nth(backend, None, nth, CallFault::Errno(errno));
        let (from, file) = (open("from"), open("file"));
        // One after the other, so that calls have the same numbers each time.
        let completions = run_all(&mut *engines.build(1).unwrap(), one_of_each(&from, &file));
        assert_eq!(completions.len(), 10);
        let failed: Vec<_> = completions.iter().filter(|completion| completion.result.is_err()).collect();
        if engines.calls() <= nth {
            assert!(failed.is_empty() && nth >= 11, "{nth} calls: {failed:?}");
            return;
        }
        let [failed] = failed.as_slice() else { panic!("call {nth}: {failed:?}") };
        let wanted = matches!(&failed.result, Err(Error::Io { path, source, .. })
            if path.starts_with(directory.path()) && source.raw_os_error() == Some(errno));
        assert!(wanted && failed.found.is_none(), "{failed:?}");
        assert!(failed.buffer.is_some() == matches!(failed.token, 0..=2), "{failed:?}");
    }
}

#[test]
fn a_direct_request_that_is_refused_late_says_that_it_went_through_the_cache() {
    let directory = tempfile::tempdir().unwrap();
    for backend in backends() {
        let path = directory.path().join("file");
        fs::write(&path, noise(4, 8192)).unwrap();
        let file = Arc::new(File::open_writable(&path).unwrap());
        let is_possible = file.is_direct_possible();
        let engines =
            CallFaultEngines::nth(backend, Some(EngineCall::Read), 0, CallFault::Errno(libc::EINVAL));
        let requests = vec![read(0, &file, Access::Direct, 0, 8192), read(1, &file, Access::Direct, 0, 8192)];
        for completion in run_all(&mut *engines.build(1).unwrap(), requests) {
            if is_possible {
                assert_eq!(completion.result.unwrap(), 8192);
                assert!(!completion.passage.is_direct() && completion.passage.cached_bytes == 8192);
            }
        }
        assert!(!file.bypasses_cache() || !is_possible, "it is remembered");
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

#[test]
fn every_nth_operation_fails_and_the_others_are_done() {
    let faults = [
        (EngineFault::Fails, libc::EIO),
        (EngineFault::NoSpace, libc::ENOSPC),
        (EngineFault::Interrupted, libc::EINTR),
    ];
    for (fault, errno) in faults {
        with_file(|factory, file| {
            factory.fail_every(None, 3, fault);
            let mut engine = factory.build(4).unwrap();
            let seek = || Operation::Seek { target: SeekTarget::Data, offset: 0 };
            let requests = (0..12).map(|token| match token % 2 {
                0 => read(token, &file, Access::Cached, 0, 10),
                _ => request(token, &file, seek()),
            });
            for completion in run_all(&mut *engine, requests.collect()) {
                let failed = match completion.result {
                    Ok(_) => None,
                    Err(Error::Io { source, .. }) => source.raw_os_error(),
                    Err(other) => panic!("{other}"),
                };
                assert_eq!(failed, (completion.token % 3 == 2).then_some(errno));
            }
        });
    }
}

#[test]
fn what_is_unsupported_or_cut_short_is_as_real_engines_have_it() {
    with_file(|factory, file| {
        let mut engine = factory.build(1).unwrap();
        let range = ByteRange::to(1000);
        let copy = || Operation::CopyRange { from: file.clone(), range, offset: 15_000 };
        let mut run = |fault, operation| {
            factory.fail(None, 0, fault);
            run_all(&mut *engine, vec![request(0, &file, operation)]).pop().unwrap().result
        };
        for operation in [copy(), Operation::Allocate { range, keep_len: true }] {
            let error = run(EngineFault::Unsupported, operation).unwrap_err();
            assert!(matches!(&error, Error::Unsupported { path, .. } if path == file.path()), "{error:?}");
        }
        let copied = run(EngineFault::Short, copy());
        assert!(matches!(copied, Ok(500) | Err(Error::Unsupported { .. })), "{copied:?}");
        for operation in [Operation::SyncAll, Operation::DropCached { range }] {
            assert!(matches!(run(EngineFault::Short, operation), Err(Error::Io { .. })));
        }
        let bytes = bytes::Bytes::from_static(b"abcd");
        assert!(run(EngineFault::Short, Operation::WriteShared { offset: 5, bytes }).is_err());
        let found = fs::read(file.path()).unwrap();
        assert_eq!((&found[5..7], &found[7..9]), (&b"ab"[..], &noise(1, 20_000)[7..9]));
    });
}
