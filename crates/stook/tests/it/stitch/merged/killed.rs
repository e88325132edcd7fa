//! A process that builds a copy may be killed at any call, and power may fail.

use std::ffi::OsStr;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};

use stook::tree::outbox::{Calls, System};
#[cfg(target_os = "linux")]
use stook_testing::sim::{ExploreOptions, SimCalls};

use super::*;

/// The system, until the process is killed: from then on nothing happens any more.
#[derive(Debug)]
struct UntilKilled {
    left: AtomicUsize,
    has_unnamed: bool,
}

impl UntilKilled {
    fn step(&self) -> io::Result<()> {
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| io::Error::other("killed"))
    }

    fn is_killed(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

impl Calls for UntilKilled {
    fn create(&self, parent: BorrowedFd<'_>, name: &OsStr, mode: u32) -> io::Result<File> {
        self.step()?;
        System.create(parent, name, mode)
    }

    fn create_unnamed(&self, parent: BorrowedFd<'_>, mode: u32) -> io::Result<File> {
        if !self.has_unnamed {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.step()?;
        System.create_unnamed(parent, mode)
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.step()?;
        // Half of it was written when it was killed.
        let is_last = self.is_killed();
        System.write_at(file, if is_last { &bytes[..bytes.len().div_ceil(2)] } else { bytes }, offset)
    }

    fn sync(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        self.step()?;
        System.sync(file)
    }

    fn lock(&self, file: &File) -> io::Result<()> {
        self.step()?;
        System.lock(file)
    }

    fn link_unnamed(&self, file: &File, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        self.step()?;
        System.link_unnamed(file, parent, name)
    }

    fn rename_new(&self, parent: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.step()?;
        System.rename_new(parent, from, to)
    }

    fn unlink(&self, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        self.step()?;
        System.unlink(parent, name)
    }
}

#[test]
fn whenever_a_builder_is_killed_the_next_has_the_bytes_and_what_it_left_goes() {
    let place = Place::of(20);
    let expected = read_through(&place.tar().file).unwrap();
    for has_unnamed in [true, false] {
        let mut killed = 0;
        for count in 0.. {
            let _ = fs::remove_dir_all(place.cache_path());
            let calls = Arc::new(UntilKilled { left: AtomicUsize::new(count), has_unnamed });
            let cache = MergedCache::open_through(place.cache_path(), ALWAYS, calls.clone()).unwrap();
            let _ = cache.merged(&place.tar().file, &mut |_| true);
            drop(cache);
            let is_over = !calls.is_killed();
            killed += usize::from(!is_over);
            let next = place.cache();
            assert!(check(&next, &place.tar(), &expected), "killed after {count}");
            next.purge().unwrap();
            let (records, copies) = (place.files(".record").len(), place.files(".merged").len());
            assert_eq!((records, copies, place.files(".part").len()), (1, 1, 0), "killed after {count}");
            assert!(check(&place.cache(), &place.tar(), &expected), "killed after {count}");
            if is_over {
                break;
            }
        }
        assert!(killed >= 8, "{killed} calls");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn whenever_power_fails_what_is_left_is_right_or_thrown_away() {
    let place = Place::of(20);
    let expected = read_through(&place.tar().file).unwrap();
    // The salt and the lock are there.
    drop(place.cache());
    let calls = Arc::new(SimCalls::new(&place.cache_path()).unwrap());
    let cache = MergedCache::open_through(place.cache_path(), ALWAYS, calls.clone()).unwrap();
    assert!(check(&cache, &place.tar(), &expected), "{:?}", cache.take_notes());
    let (storage, mut found) = (calls.storage(), 0);
    let count = storage.operation_count();
    assert!(count > 5, "{count}");
    for at in 0..=count {
        for state in storage.crash_states(at, &ExploreOptions::default()) {
            let there = place.directory.path().join("after");
            let _ = fs::remove_dir_all(&there);
            fs::create_dir(&there).unwrap();
            fs::set_permissions(&there, fs::Permissions::from_mode(0o700)).unwrap();
            for (name, bytes) in SimCalls::reachable(&state.files()) {
                fs::write(there.join(name), bytes).unwrap();
            }
            let next = MergedCache::open(&there, ALWAYS).unwrap();
            assert!(check(&next, &place.tar(), &expected), "{at} of {count}: {:?}", next.take_notes());
            found += next.statistics().found;
            assert!(at < count || next.statistics().found == 1, "a copy that was used is lost");
            next.purge().unwrap();
            assert_eq!((files(&there, ".record").len(), files(&there, ".merged").len()), (1, 1));
        }
    }
    assert!(found > 0);
}
