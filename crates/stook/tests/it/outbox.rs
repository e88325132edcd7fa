//! The way out: whatever fails, and whenever power does, nothing half-made has a final name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stook::archive::{self, Archive};
use stook::ops::export::Export;
use stook::ops::unpack::{Packed, PathFilter, Unpack, Unpacked};
use stook::pack::tree::{Delete, Grouping, PackTree};
use stook::pack::{OpenOptions, Pack, PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions};
use stook::tree::Overwrite;
use stook::tree::outbox::Calls;
use stook::walk::Decision;
use stook_testing::fault::{FaultCalls, OutFault};
#[cfg(target_os = "linux")]
use stook_testing::sim::{ExploreOptions, SimCalls};
use stook_testing::sweep::stride;

const EINTR: i32 = 4;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Of a file that is written past the page cache, but for its end.
const LONG: usize = (4 << 20) + 100;

/// What temporary names begin with.
const TEMPORARY: &str = ".stook-";

/// A tree as a pack and as a tar.
struct Place {
    directory: tempfile::TempDir,
    pack: Pack,
    archive: Archive,
    /// What comes out: the bytes of files, and what links lead to.
    whole: BTreeMap<String, Vec<u8>>,
}

impl Place {
    fn new() -> Self {
        Self::of(&[("a/1", 5), ("a/2", 70_000), ("a/b/3", 0), ("a/b/4", 1_300_000), ("5", 9)])
    }

    /// One with little but a long file: it takes its time with each call that fails.
    fn long() -> Self {
        Self::of(&[("a/1", 5), ("6", LONG)])
    }

    fn of(files: &[(&str, usize)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join("tree");
        fs::create_dir_all(tree.join("a/b")).unwrap();
        for (path, len) in files {
            fs::write(tree.join(path), vec![b'n'; *len]).unwrap();
        }
        if let Ok(file) = fs::File::options().write(true).open(tree.join("a/2")) {
            // It ends with a hole.
            file.set_len(900_000).unwrap();
        }
        symlink("a/1", tree.join("link")).unwrap();
        fs::hard_link(tree.join("a/1"), tree.join("z")).unwrap();
        let whole = tree_at(&tree);
        let packing = PackTree {
            roots: vec![tree],
            grouping: Grouping::Top,
            with_owner: true,
            xattrs: true,
            threads: 1,
            select: Box::new(|_, _| Decision::Take),
            own: None,
            delete: Delete::Nothing,
            checksum: false,
            attributes: None,
        };
        let path = directory.path().join("pack");
        let storage = Arc::new(LocalStorage::create(&path, LocalStorageOptions::default()).unwrap());
        let mut writer = PackWriter::create(storage, WriterOptions::default()).unwrap();
        packing.run(Some(&mut writer), None, &mut |_, _| true).unwrap();
        writer.set_complete(true);
        writer.finish(true).unwrap();
        let pack = Pack::open_path(&path, OpenOptions::default()).unwrap();
        let tar = directory.path().join("tar");
        Export::default().run_to_file(&pack, &tar, &mut |_, _| true).unwrap();
        let archive = Archive::open(&tar, archive::OpenOptions::default()).unwrap();
        Self { directory, pack, archive, whole }
    }

    fn both(&self) -> [Packed<'_>; 2] {
        [Packed::Pack(&self.pack), Packed::Archive(&self.archive)]
    }

    /// A directory, empty or with older files of the same names.
    fn target(&self, is_old: bool) -> PathBuf {
        let target = self.directory.path().join("out");
        let _ = fs::remove_dir_all(&target);
        fs::create_dir(&target).unwrap();
        for name in self.whole.keys().filter(|_| is_old) {
            let path = target.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, old(name)).unwrap();
        }
        target
    }

    fn unpack(
        &self,
        packed: Packed<'_>,
        overwrite: Overwrite,
        calls: Arc<dyn Calls>,
    ) -> stook::ops::unpack::Result<Unpacked> {
        let unpack = Unpack {
            target: self.directory.path().join("out"),
            filter: PathFilter::default(),
            overwrite,
            with_owner: true,
            xattrs: true,
            threads: 1,
            force: true,
        };
        unpack.run_through(packed, calls, &mut |_| true)
    }

    /// Checks that each name has all that it should have, or what it had, or is absent.
    fn check_no_half(&self, found: &BTreeMap<String, Vec<u8>>, is_old: bool, case: &str) {
        for (name, bytes) in found.iter().filter(|(name, _)| !name.contains(TEMPORARY)) {
            let is_whole = self.whole.get(name) == Some(bytes) || is_old && old(name) == *bytes;
            assert!(is_whole, "{case}: {name} has {} bytes", bytes.len());
        }
        let is_there = |name: &String| found.contains_key(name);
        assert!(!is_old || self.whole.keys().all(is_there), "{case}: what was there is gone");
    }
}

fn old(name: &str) -> Vec<u8> {
    format!("the old {name}").into_bytes()
}

/// The files and links below a directory.
fn tree_at(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let kind = path.symlink_metadata().unwrap().file_type();
            if kind.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = match kind.is_symlink() {
                true => fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec(),
                false => fs::read(&path).unwrap(),
            };
            found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(), bytes);
        }
    }
    found
}

/// Makes the n-th call fail, for every n that is tried, and returns which calls that met.
fn sweep(place: &Place, fault: OutFault, is_old: bool, has_unnamed: bool) -> BTreeSet<&'static str> {
    let overwrite = if is_old { Overwrite::Always } else { Overwrite::Never };
    let mut all_met = BTreeSet::new();
    for packed in place.both() {
        for nth in (0..).step_by(stride(if has_unnamed { 1 } else { 3 })) {
            let target = place.target(is_old);
            let calls = FaultCalls::nth(nth, fault);
            let calls = Arc::new(if has_unnamed { calls } else { calls.without_unnamed() });
            let done = place.unpack(packed, overwrite, calls.clone());
            let Some(met) = calls.met() else { break };
            all_met.insert(met);
            let case = format!("{packed:?} {fault:?} {nth} {met}");
            let found = tree_at(&target);
            place.check_no_half(&found, is_old, &case);
            let failed = match &done {
                Err(error) => Some(told(error)),
                Ok(done) if done.undone > 0 => {
                    Some(done.summary.failures.iter().map(|failure| told(&failure.error)).collect())
                }
                Ok(_) => None,
            };
            match failed {
                Some(text) => assert!(
                    met.contains("xattr") || text.contains(target.to_str().unwrap()),
                    "{case}: no path in {text}"
                ),
                None => assert_eq!(found, place.whole, "{case}: not reported"),
            }
            let again = place.unpack(packed, overwrite, Arc::new(FaultCalls::none())).unwrap();
            assert!(again.summary.failures.is_empty(), "{case}: {:?}", again.summary.failures);
            let mut found = tree_at(&target);
            found.retain(|name, _| !name.contains(TEMPORARY));
            assert_eq!(found.keys().collect::<Vec<_>>(), place.whole.keys().collect::<Vec<_>>(), "{case}");
            assert!(found == place.whole, "{case}: run again, and not whole");
        }
    }
    all_met
}

/// An error with all that caused it.
fn told(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(|error| format!("{error}\n")).collect()
}

#[test]
fn whichever_call_fails_nothing_half_made_has_a_name_and_a_second_run_completes() {
    let (place, long) = (Place::new(), Place::long());
    let mut met = BTreeSet::new();
    for errno in [EIO, ENOSPC] {
        met.extend(sweep(&long, OutFault::Fails(errno), errno == EIO, true));
    }
    for errno in [EIO, ENOSPC, EINTR] {
        for is_old in [false, true] {
            met.extend(sweep(&place, OutFault::Fails(errno), is_old, true));
        }
        met.extend(sweep(&place, OutFault::Fails(errno), false, false));
    }
    for call in [
        "create",
        "create_unnamed",
        "link",
        "link_unnamed",
        "make_directory",
        "make_symlink",
        "rename",
        "rename_new",
        "reserve",
        "set_link_mtime",
        "set_mode",
        "set_mtime",
        "sync",
        "sync_file_system",
        "unlink",
        "write_at",
        "write_direct",
    ] {
        assert!(met.contains(call), "{call} never failed: {met:?}");
    }
}

#[test]
fn a_write_of_a_part_is_gone_on_with() {
    let place = Place::new();
    for is_old in [false, true] {
        assert!(sweep(&place, OutFault::Short, is_old, true).contains("write_at"));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn after_power_fails_each_name_is_absent_old_or_new_and_after_the_end_all_are_new() {
    for place in [Place::new(), Place::long()] {
        explore(&place);
    }
}

#[cfg(target_os = "linux")]
fn explore(place: &Place) {
    for packed in place.both() {
        for is_old in [false, true] {
            let target = place.target(is_old);
            let overwrite = if is_old { Overwrite::Always } else { Overwrite::Never };
            let calls = Arc::new(SimCalls::new(&target).unwrap());
            let done = place.unpack(packed, overwrite, calls.clone()).unwrap();
            assert!(done.undone == 0 && tree_at(&target) == place.whole);
            let storage = calls.storage();
            let (count, options) = (storage.operation_count(), ExploreOptions::default());
            assert!(count > 10, "{count}");
            for at in (0..=count).rev().step_by(stride(1)) {
                for state in storage.crash_states(at, &options) {
                    let found = state.files();
                    let case = format!("{packed:?} {is_old} {at} of {count}");
                    place.check_no_half(&found, is_old, &case);
                    assert!(at < count || found == place.whole, "{case}: lost after the end");
                }
            }
        }
    }
}
