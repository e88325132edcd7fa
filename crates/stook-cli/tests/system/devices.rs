//! Devices that a developer's machine may not have: sectors of 4096 bytes, full, read-only.

use std::sync::Arc;

use stook::engine::{Backend, EngineFactory, File};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage, WriteAccess};
use stook_testing::conformance::{engine_conformance, pattern, storage_conformance};
use stook_testing::privileged::{BTRFS, EXT4, LoopDevice, XFS};

const MIB: u64 = 1 << 20;

#[test]
fn engines_keep_every_promise_on_sectors_of_4096_bytes() {
    let device = LoopDevice::mount(256 * MIB, 4096).unwrap();
    let file = File::create_new(device.path().join("file")).unwrap();
    assert!(file.alignment().offset_bytes >= 4096, "{:?}", file.alignment());
    for backend in [Backend::Auto, Backend::Threads] {
        engine_conformance(&backend, device.path());
    }
}

#[test]
fn a_directory_is_a_storage_on_sectors_of_4096_bytes() {
    for write_access in [WriteAccess::Direct, WriteAccess::Cached] {
        let device = LoopDevice::mount(1024 * MIB, 4096).unwrap();
        let count = std::cell::Cell::new(0);
        storage_conformance(|| {
            count.set(count.get() + 1);
            let options = LocalStorageOptions { write_access, ..LocalStorageOptions::default() };
            let path = device.path().join(format!("storage-{}", count.get()));
            Box::new(LocalStorage::create(path, options).unwrap())
        });
    }
}

/// The room that is made ahead must not meet direct writes that are still on their way: XFS lost
/// some of them.
#[test]
fn what_is_appended_is_there_on_every_file_system() {
    for kind in [EXT4, XFS, BTRFS] {
        let device = LoopDevice::mount_as(kind, 512 * MIB, 512).unwrap();
        let storage =
            LocalStorage::create(device.path().join("storage"), LocalStorageOptions::default()).unwrap();
        let bytes = pattern(5 * MIB as usize, 7);
        for number in 0..40 {
            let mut appender = storage.create("file").unwrap();
            // Twice, because the end of a flush is where new blocks begin.
            for half in [&bytes[..1_700_000], &bytes[1_700_000..]] {
                half.chunks(100_000).for_each(|part| appender.append(&[part]).unwrap());
                appender.sync().unwrap();
            }
            drop(appender);
            let found = std::fs::read(storage.path("file")).unwrap();
            let differs = found.iter().zip(&bytes).position(|(found, written)| found != written);
            assert_eq!((found.len(), differs), (bytes.len(), None), "{kind:?}, file {number}");
            storage.unlink("file").unwrap();
        }
    }
}

/// Appends until it fails, and returns the message with those of its sources.
fn failure_of_filling(storage: &LocalStorage) -> String {
    let block = pattern(MIB as usize, 1);
    let appended = storage.create("file").and_then(|mut appender| {
        for _ in 0..256 {
            appender.append(&[&block])?;
        }
        appender.sync()
    });
    let failure = appended.expect_err("a device of 32 MiB does not hold 256 MiB");
    let mut messages = failure.to_string();
    let mut source = std::error::Error::source(&failure);
    while let Some(error) = source {
        messages = format!("{messages}: {error}");
        source = error.source();
    }
    messages
}

#[test]
fn a_full_device_is_reported_with_the_path() {
    for engine in [Backend::Auto, Backend::Threads] {
        let device = LoopDevice::mount(32 * MIB, 512).unwrap();
        let engine: Arc<dyn EngineFactory> = Arc::new(engine);
        let options = LocalStorageOptions { engine, ..LocalStorageOptions::default() };
        let storage = LocalStorage::create(device.path().join("storage"), options).unwrap();
        let message = failure_of_filling(&storage);
        assert!(message.contains("No space left on device"), "{message}");
        assert!(message.contains("storage/file"), "{message}");
    }
}

#[test]
fn a_read_only_device_is_reported_with_the_path() {
    let device = LoopDevice::mount(32 * MIB, 512).unwrap();
    let path = device.path().join("storage");
    let storage = LocalStorage::create(&path, LocalStorageOptions::default()).unwrap();
    device.make_read_only().unwrap();
    let message = failure_of_filling(&storage);
    assert!(message.contains("Read-only file system"), "{message}");
    assert!(message.contains("storage/file"), "{message}");
}
