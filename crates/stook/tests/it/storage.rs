//! The local directory as a storage: what every storage must do, and what only a directory does.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use stook::Error;
use stook::engine::{Backend, EngineFactory};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage, WriteAccess, free_at, free_bytes};
use stook::tree::Kind;
use stook_testing::conformance::{Strange, contents, pattern, read_all, storage_conformance};
use tempfile::TempDir;

/// A storage in a directory that goes when it goes.
#[derive(Debug)]
struct Temporary {
    storage: LocalStorage,
    _directory: TempDir,
}

impl Temporary {
    fn new(options: LocalStorageOptions) -> Self {
        let directory = TempDir::new().unwrap();
        let storage = LocalStorage::create(directory.path().join("storage"), options).unwrap();
        Self { storage, _directory: directory }
    }
}

impl Storage for Temporary {
    stook_testing::forward_storage!(storage:
        path create open_append open prepare rename unlink sync_directory list remove_leftovers
        lock hold unlink_unless_held
    );
}

pub(crate) fn options(backend: Backend, write_access: WriteAccess, block_len: usize) -> LocalStorageOptions {
    LocalStorageOptions { engine: Arc::new(backend), write_access, depth: 4, block_len }
}

fn conforms(backend: Backend) {
    if let Err(error) = backend.build(1) {
        // Containers often refuse io_uring; the engine's own suite detects that the same way.
        assert_ne!(backend, Backend::Threads, "{error}");
        eprintln!("left out: {error}");
        return;
    }
    for write_access in [WriteAccess::Direct, WriteAccess::Cached] {
        for block_len in [64 << 10, 1 << 20] {
            storage_conformance(|| Box::new(Temporary::new(options(backend, write_access, block_len))));
        }
    }
}

#[test]
fn a_directory_on_threads_is_a_storage() {
    conforms(Backend::Threads);
}

#[test]
#[cfg(target_os = "linux")]
fn a_directory_on_io_uring_is_a_storage() {
    conforms(Backend::Uring);
}

fn open_temporary() -> (TempDir, LocalStorage) {
    let directory = TempDir::new().unwrap();
    let storage = LocalStorage::open(directory.path(), LocalStorageOptions::default()).unwrap();
    (directory, storage)
}

#[test]
fn zeros_are_appended_as_bytes_are_and_take_no_room() {
    let (directory, storage) = open_temporary();
    let path = |name: &str| directory.path().join(name);
    let mut appender = storage.create("zeros").unwrap();
    let mut whole = Vec::new();
    for (number, len) in [0, 1, 4095, 4096, 5000, 1 << 20, (9 << 20) + 17, 3].into_iter().enumerate() {
        let bytes = vec![number as u8 + 1; 1000 * number];
        appender.append(&[&bytes]).unwrap();
        appender.append_zeros(len).unwrap();
        whole.extend(bytes);
        whole.resize(whole.len() + len as usize, 0);
        assert_eq!(appender.len(), whole.len() as u64);
        if number % 3 == 0 {
            appender.flush().unwrap();
            assert!(fs::read(path("zeros")).unwrap() == whole, "{number}");
        }
    }
    // Cut within zeros, and continued.
    let cut = whole.len() - (1 << 20);
    appender.truncate(cut as u64).unwrap();
    whole.truncate(cut);
    appender.append(&[b"end"]).unwrap();
    whole.extend(b"end");
    appender.sync().unwrap();
    assert!(fs::read(path("zeros")).unwrap() == whole);
    let mut long = storage.create("long").unwrap();
    long.append(&[b"first"]).unwrap();
    long.append_zeros(1 << 38).unwrap();
    long.append(&[b"last"]).unwrap();
    long.sync().unwrap();
    let there = fs::metadata(path("long")).unwrap();
    assert_eq!(there.len(), (1 << 38) + 9);
    assert!(there.blocks() * 512 < 64 << 20, "{} blocks", there.blocks());
}

#[test]
fn missing_and_taken_directories_are_told_apart() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("pack");
    let options = LocalStorageOptions::default;
    let missing = LocalStorage::open(&path, options()).unwrap_err();
    assert_eq!(missing.io_kind(), Some(io::ErrorKind::NotFound));
    // Before: "cannot open the directory", even for a path that was meant as an archive.
    assert!(missing.to_string().contains(&format!("cannot open {}", path.display())), "{missing}");
    LocalStorage::create(&path, options()).unwrap();
    let taken = LocalStorage::create(&path, options()).unwrap_err();
    assert!(matches!(taken, Error::AlreadyExists { .. }), "{taken}");
    fs::write(directory.path().join("file"), b"").unwrap();
    let file = LocalStorage::open(directory.path().join("file"), options()).unwrap_err();
    assert_eq!(file.io_kind(), Some(io::ErrorKind::NotADirectory));
    LocalStorage::create(directory.path().join("no/parent"), options()).unwrap_err();
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let directory = TempDir::new().unwrap();
    for (depth, block_len) in [(0, 1 << 20), (8, 0), (8, 4096), (8, 100_000)] {
        let options = LocalStorageOptions { depth, block_len, ..LocalStorageOptions::default() };
        let error = LocalStorage::open(directory.path(), options).unwrap_err();
        assert_eq!(error.io_kind(), Some(io::ErrorKind::InvalidInput), "{error}");
    }
}

#[test]
fn what_is_not_a_regular_file_is_listed_as_what_it_is_and_never_opened() {
    let (directory, storage) = open_temporary();
    fs::write(directory.path().join("file"), b"12").unwrap();
    let strange: Vec<Strange> = Strange::ALL
        .into_iter()
        .filter(|strange| strange.make(&directory.path().join(strange.noun())))
        .collect();
    let listed = storage.list().unwrap();
    assert_eq!(listed.len(), 1 + strange.len(), "{listed:?}");
    let file = listed.iter().find(|entry| entry.name == "file").unwrap();
    assert_eq!((file.len, file.kind), (2, Kind::File));
    for strange in strange {
        let name = strange.noun();
        let entry = listed.iter().find(|entry| entry.name == name).unwrap();
        assert_eq!((entry.len, entry.kind.noun()), (0, name));
        let errors = [
            storage.open(name).unwrap_err(),
            storage.open_append(name).unwrap_err(),
            storage.hold(name).unwrap_err(),
            storage.unlink_unless_held(name).unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, Error::NotARegularFile { found, .. } if found == name), "{error}");
            assert!(
                error.to_string().contains(name) && error.to_string().contains("a regular file"),
                "{error}"
            );
        }
        assert!(matches!(storage.create(name), Err(Error::AlreadyExists { .. })));
        assert!(matches!(storage.publish_if_absent(name, b""), Err(Error::AlreadyExists { .. })));
    }
}

#[test]
fn the_note_of_a_lock_replaces_a_link_and_leaves_what_it_leads_to() {
    let (directory, storage) = open_temporary();
    let mine = TempDir::new().unwrap();
    let mine = mine.path().join("mine");
    fs::write(&mine, b"of the user").unwrap();
    std::os::unix::fs::symlink(&mine, directory.path().join("lock")).unwrap();
    drop(storage.lock("lock", "holder").unwrap());
    assert_eq!(fs::read(&mine).unwrap(), b"of the user");
    assert!(fs::symlink_metadata(directory.path().join("lock")).is_err());
    fs::hard_link(&mine, directory.path().join("lock")).unwrap();
    drop(storage.lock("lock", "holder").unwrap());
    assert_eq!(fs::read(&mine).unwrap(), b"of the user");
    for strange in [Strange::Fifo, Strange::Socket] {
        assert!(strange.make(&directory.path().join("lock")));
        let lock = storage.lock("lock", "holder").unwrap();
        assert!(contents(&storage, "lock").starts_with(b"holder, process "));
        drop(lock);
    }
    assert!(Strange::Directory.make(&directory.path().join("lock")));
    let error = storage.lock("lock", "holder").unwrap_err();
    assert!(error.to_string().contains("lock"), "{error}");
}

#[test]
fn a_directory_that_takes_the_place_of_the_opened_one_is_not_looked_into() {
    let parent = TempDir::new().unwrap();
    let (a, b) = (parent.path().join("a"), parent.path().join("b"));
    let storage = LocalStorage::create(&a, LocalStorageOptions::default()).unwrap();
    storage.publish_if_absent("file", b"ours").unwrap();
    let lock = storage.lock("lock", "holder").unwrap();
    fs::rename(&a, &b).unwrap();
    let other = LocalStorage::create(&a, LocalStorageOptions::default()).unwrap();
    other.publish_if_absent("file", b"another").unwrap();
    drop(other.lock("lock", "another").unwrap());
    let source = storage.open("file").unwrap();
    let mut bytes = [0; 4];
    let mut leaves = Vec::new();
    source.resolve(stook::extent::ByteRange::to(4), &mut leaves).unwrap();
    let stook::source::Leaf::File { file, .. } = &leaves[0] else { panic!("a file") };
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"ours");
    let moved = LocalStorage::open(&b, LocalStorageOptions::default()).unwrap();
    assert!(matches!(moved.lock("lock", "second"), Err(Error::Locked { .. })), "the lock went along");
    drop(lock);
    drop(moved.lock("lock", "second").unwrap());
}

#[test]
fn temporary_files_of_dead_publishers_are_hidden_until_they_are_removed() {
    let (directory, storage) = open_temporary();
    fs::write(directory.path().join(".tmp-1-2-3"), b"half").unwrap();
    fs::create_dir(directory.path().join(".tmp-of-somebody-else")).unwrap();
    storage.publish_if_absent("a", b"a").unwrap();
    assert_eq!(storage.list().unwrap().len(), 2, "the file, and the directory that no publication made");
    assert_eq!(storage.remove_leftovers().unwrap(), 1);
    assert!(!directory.path().join(".tmp-1-2-3").exists());
    assert_eq!(contents(&storage, "a"), b"a");
}

#[test]
fn a_listing_shows_what_was_there_at_one_moment_while_names_come_and_go() {
    let (directory, storage) = open_temporary();
    (0..3000).for_each(|n| fs::write(directory.path().join(format!("filler-{n}")), b"").unwrap());
    let number = |name: &str| name.strip_prefix("state-").map(|number| number.parse::<u64>().unwrap());
    storage.publish_if_absent("state-0", b"").unwrap();
    let (last, ended, mut stale) = (AtomicU64::new(0), AtomicBool::new(false), Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // As a writer does: the newest and the one before it stay, and one that is held.
            for state in 1.. {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                let temporary = directory.path().join(".tmp-1-2-3");
                fs::write(&temporary, b"").unwrap();
                fs::rename(&temporary, directory.path().join(format!("state-{state}"))).unwrap();
                last.store(state, Ordering::Release);
                if state > 2 {
                    fs::remove_file(directory.path().join(format!("state-{}", state - 2))).unwrap();
                }
            }
        });
        for _ in 0..100 {
            let least = last.load(Ordering::Acquire);
            let newest = storage.list().map(|all| all.iter().filter_map(|file| number(&file.name)).max());
            if !newest.as_ref().is_ok_and(|newest| newest.is_some_and(|newest| newest >= least)) {
                stale.push((least, newest));
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert!(stale.is_empty(), "{stale:?}");
}

#[test]
fn a_lock_names_process_and_host_and_moment() {
    let (_directory, storage) = open_temporary();
    let lock = storage.lock("lock", "stook pack").unwrap();
    let Error::Locked { holder, .. } = storage.lock("lock", "other").unwrap_err() else {
        panic!("the lock is held");
    };
    assert!(holder.starts_with(&format!("stook pack, process {} on ", std::process::id())), "{holder}");
    assert!(holder.contains(", since 20") && holder.ends_with('Z'), "{holder}");
    drop(lock);
}

#[test]
fn free_space_is_reported() {
    let (directory, storage) = open_temporary();
    assert!(storage.free_bytes().unwrap() > 0);
    assert!(free_bytes(directory.path()).unwrap() > 0);
    free_bytes(directory.path().join("none")).unwrap_err();
    assert!(free_at(directory.path().join("none/of/these")).unwrap() > 0);
    assert!(free_at("none/of/these").unwrap() > 0);
}

#[test]
fn blocks_of_zeros_cost_no_disk() {
    let (directory, storage) = open_temporary();
    let mut appender = storage.create("holes").unwrap();
    let zeros = vec![0; 1 << 20];
    appender.append(&[b"head"]).unwrap();
    for _ in 0..256 {
        appender.append(&[&zeros]).unwrap();
    }
    appender.append(&[b"tail"]).unwrap();
    appender.sync().unwrap();
    let metadata = fs::metadata(directory.path().join("holes")).unwrap();
    assert_eq!(metadata.len(), 8 + (256 << 20));
    assert!(metadata.blocks() * 512 < 4 << 20, "{} blocks", metadata.blocks());
    assert!(contents(&storage, "holes").ends_with(b"\0tail"));
}

#[test]
fn a_file_is_as_long_as_its_data_after_every_flush_and_when_let_go() {
    let (directory, storage) = open_temporary();
    let len_of = |name: &str| fs::metadata(directory.path().join(name)).unwrap().len();
    let mut appender = storage.create("long").unwrap();
    let bytes = pattern(9_000_000, 3);
    appender.append(&[&bytes]).unwrap();
    appender.flush().unwrap();
    assert_eq!(len_of("long"), 9_000_000);
    appender.append(&[&bytes]).unwrap();
    appender.sync().unwrap();
    assert_eq!(len_of("long"), 18_000_000);
    appender.append(&[&bytes]).unwrap();
    drop(appender);
    // The unfinished block is lost, and no more than that; the room ahead is gone.
    let len = len_of("long");
    assert!(len > 27_000_000 - (1 << 20) && len <= 27_000_000, "{len}");
    let expected = [&bytes[..], &bytes, &bytes].concat();
    assert!(contents(&storage, "long") == expected[..len as usize]);
}

#[test]
fn appending_survives_the_renaming_of_the_directory() {
    let parent = TempDir::new().unwrap();
    let storage = LocalStorage::create(parent.path().join("a"), LocalStorageOptions::default()).unwrap();
    fs::rename(parent.path().join("a"), parent.path().join("b")).unwrap();
    let mut appender = storage.create("file").unwrap();
    let bytes = pattern(3_000_000, 9);
    appender.append(&[&bytes]).unwrap();
    appender.sync().unwrap();
    storage.publish_if_absent("published", b"whole").unwrap();
    assert!(fs::read(parent.path().join("b/file")).unwrap() == bytes);
    assert_eq!(fs::read(parent.path().join("b/published")).unwrap(), b"whole");
}

#[test]
fn a_directory_that_may_not_be_written_says_so() {
    if rustix::process::geteuid().is_root() {
        // Permissions do not bind root: a file system that is mounted read-only does.
        let storage = LocalStorage::open(Path::new("/proc/self"), LocalStorageOptions::default()).unwrap();
        let error = storage.create("file").unwrap_err();
        assert!(error.to_string().contains("cannot create /proc/self/file"), "{error}");
        storage.publish_if_absent("file", b"").unwrap_err();
        storage.lock("lock", "holder").unwrap_err();
        return;
    }
    let (directory, storage) = open_temporary();
    let mut permissions = fs::metadata(directory.path()).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(directory.path(), permissions).unwrap();
    let error = storage.create("file").unwrap_err();
    assert_eq!(error.io_kind(), Some(io::ErrorKind::PermissionDenied), "{error}");
    storage.publish_if_absent("file", b"").unwrap_err();
    storage.lock("lock", "holder").unwrap_err();
}

#[test]
fn a_source_is_read_as_it_was_opened() {
    let (_directory, storage) = open_temporary();
    storage.publish_if_absent("a", b"bytes").unwrap();
    assert_eq!(read_all(&*storage.open("a").unwrap()), b"bytes");
}

/// Where the child of the test below finds the directory to lock.
const LOCK_DIRECTORY: &str = "STOOK_TEST_LOCK_DIRECTORY";

#[test]
fn the_lock_of_a_killed_process_is_free() {
    if let Some(directory) = std::env::var_os(LOCK_DIRECTORY) {
        return hold_lock_until_killed(Path::new(&directory));
    }
    let (directory, storage) = open_temporary();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["storage::the_lock_of_a_killed_process_is_free", "--exact", "--nocapture"])
        .env(LOCK_DIRECTORY, directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("held")), "the child took the lock");
    let held = storage.lock("lock", "parent").unwrap_err().to_string();
    assert!(held.contains(&format!("child, process {} on ", child.id())), "{held}");
    child.kill().unwrap();
    child.wait().unwrap();
    drop(storage.lock("lock", "parent").unwrap());
}

fn hold_lock_until_killed(directory: &Path) {
    let storage = LocalStorage::open(directory, LocalStorageOptions::default()).unwrap();
    let _lock = storage.lock("lock", "child").unwrap();
    println!("held");
    // Ends too when the parent dies without killing it.
    let mut line = String::new();
    io::stdin().read_line(&mut line).unwrap();
}
