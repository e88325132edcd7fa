//! Trees that change while they are walked.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, StatxFlags};
use stook::Error;
use stook::walk::{Content, Decision, Walk, WalkOptions};

use super::{report, small, walk_of};

fn source_changed(error: &Error) -> bool {
    matches!(error, Error::SourceChanged { before, after, .. } if before != after)
}

/// Walks three files; `change` is done to the second after its metadata was taken.
fn walk_while(change: impl Fn(&Path) + Sync) -> super::Report {
    let root = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        std::fs::write(root.path().join(name), name.repeat(100)).unwrap();
    }
    let victim = root.path().join("b");
    let walk = walk_of(root.path()).wanted(|candidate| {
        if candidate.key == b"b" {
            change(&victim);
        }
        true
    });
    report(&walk)
}

#[test]
fn a_file_that_changes_between_stat_and_read_is_an_error_and_never_delivered() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 5] = [
        ("grows", |p| {
            std::fs::OpenOptions::new().append(true).open(p).unwrap().write_all(b"more").unwrap();
        }),
        ("shrinks", |p| std::fs::File::options().write(true).open(p).unwrap().set_len(3).unwrap()),
        ("is rewritten at the same length", |p| std::fs::write(p, "x".repeat(100)).unwrap()),
        ("is rewritten and its time is put back", |p| {
            let before = std::fs::metadata(p).unwrap().modified().unwrap();
            std::fs::write(p, "x".repeat(100)).unwrap();
            std::fs::File::options().write(true).open(p).unwrap().set_modified(before).unwrap();
        }),
        ("is replaced", |p| {
            let other = p.with_extension("new");
            std::fs::write(&other, "b".repeat(100)).unwrap();
            std::fs::rename(other, p).unwrap();
        }),
    ];
    for (what, change) in changes {
        let got = walk_while(change);
        assert_eq!(got.summary.files, 2, "{what}");
        assert_eq!(got.errors.len(), 1, "{what}");
        assert_eq!(got.errors[0].key(), b"b", "{what}");
        assert!(source_changed(got.errors[0].error()), "{what}: {}", got.errors[0]);
    }
}

#[test]
fn a_file_replaced_by_a_link_or_a_pipe_is_neither_followed_nor_waited_for() {
    let linked = walk_while(|p| {
        std::fs::remove_file(p).unwrap();
        symlink("a", p).unwrap();
    });
    assert_eq!((linked.summary.files, linked.errors.len()), (2, 1));
    let piped = walk_while(|p| {
        std::fs::remove_file(p).unwrap();
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, p, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    });
    assert_eq!((piped.summary.files, piped.errors.len()), (2, 1));
    assert!(source_changed(piped.errors[0].error()), "{}", piped.errors[0]);
}

#[test]
fn a_directory_replaced_by_a_link_while_it_is_walked_is_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "x").unwrap();
    std::fs::create_dir(root.path().join("d")).unwrap();
    let (inside, target) = (root.path().join("d"), outside.path().to_path_buf());
    let walk = walk_of(root.path()).select(move |key, _| {
        if key == b"d" {
            std::fs::remove_dir(&inside).unwrap();
            symlink(&target, &inside).unwrap();
        }
        Decision::Take
    });
    let got = report(&walk);
    assert_eq!(got.keys(), [""]);
    assert_eq!(got.errors[0].key(), b"d");
}

#[test]
fn a_large_file_that_changed_after_the_walk_is_refused() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("f"), [1; 5000]).unwrap();
    let got = report(&walk_of(root.path()));
    let Content::Large(large) = &got.item("f").content else { panic!("not large") };
    let open = large.open().unwrap();
    large.check(&open).unwrap();
    std::fs::write(root.path().join("f"), [2; 5000]).unwrap();
    assert!(source_changed(&large.check(&open).unwrap_err()));
    assert!(source_changed(&large.open().unwrap_err()));
    std::fs::remove_file(root.path().join("f")).unwrap();
    assert_eq!(large.open().unwrap_err().io_kind(), Some(std::io::ErrorKind::NotFound));
}

#[test]
fn a_declined_file_is_reported_and_not_read() {
    let root = tempfile::tempdir().unwrap();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    for name in ["old", "new"] {
        std::fs::write(root.path().join(name), [7; 600]).unwrap();
    }
    let old = std::fs::File::options().write(true).open(root.path().join("old")).unwrap();
    old.set_modified(long_ago).unwrap();
    let asked = AtomicU64::new(0);
    let walk = walk_of(root.path()).wanted(|c| {
        asked.fetch_add(1, Ordering::Relaxed);
        c.status.node.mtime_ns != Some(1_000_000_000_000_000)
    });
    let got = report(&walk);
    assert!(matches!(got.item("old").content, Content::NotRead));
    assert!(matches!(&got.item("new").content, Content::Bytes(b) if b.len() == 600));
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    assert_eq!((got.summary.files_not_read, got.summary.bytes_read, got.summary.bytes), (1, 600, 1200));
}

#[test]
fn walking_leaves_access_times_alone() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("f");
    std::fs::write(&path, "x").unwrap();
    let accessed = |path: &Path| {
        let status = rustix::fs::statx(rustix::fs::CWD, path, AtFlags::empty(), StatxFlags::ATIME).unwrap();
        (status.stx_atime.tv_sec, status.stx_atime.tv_nsec)
    };
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
    let times = std::fs::FileTimes::new().set_accessed(long_ago);
    std::fs::File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
    let before = accessed(&path);
    let got = report(&walk_of(root.path()));
    assert_eq!(got.summary.bytes_read, 1);
    assert_eq!(accessed(&path), before);
}

#[test]
fn what_is_buffered_stays_within_the_limit_while_the_consumer_is_slow() {
    let root = tempfile::tempdir().unwrap();
    for i in 0..400 {
        std::fs::write(root.path().join(i.to_string()), [0; 3000]).unwrap();
    }
    let read = AtomicU64::new(0);
    let options = WalkOptions { read_up_to: 4000, buffered_bytes_max: 100_000, ..small(8) };
    let walk = Walk::new([root.path()]).unwrap().options(options).wanted(|_| {
        read.fetch_add(1, Ordering::SeqCst);
        true
    });
    let (mut consumed, mut ahead_max) = (0, 0);
    walk.run::<Error>(|_| {
        if consumed < 20 {
            // Long enough for the threads to fill their queue.
            std::thread::sleep(Duration::from_millis(5));
        }
        consumed += 1;
        ahead_max = ahead_max.max(read.load(Ordering::SeqCst).saturating_sub(consumed));
        Ok(())
    })
    .unwrap();
    // Each costs a buffer of 4 KiB and something; each thread asks once more before it waits.
    assert!(ahead_max <= 100_000 / 4096 + 8 + 1, "{ahead_max} files ahead of the consumer");
}

#[test]
fn visiting_in_the_threads_sees_everything_and_can_stop() {
    let root = tempfile::tempdir().unwrap();
    for i in 0..100 {
        std::fs::write(root.path().join(i.to_string()), [0; 10]).unwrap();
    }
    let keys = Mutex::new(Vec::new());
    let summary = walk_of(root.path())
        .visit(|event| {
            keys.lock().unwrap().push(event.unwrap().key);
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(keys.into_inner().unwrap().len(), 101);
    assert_eq!((summary.files, summary.directories), (100, 1));
    let stopped = walk_of(root.path()).visit(|_| ControlFlow::Break(())).unwrap();
    assert!(stopped.files < 100);
    assert_eq!(std::fs::metadata(root.path().join("1")).unwrap().size(), 10);
}
