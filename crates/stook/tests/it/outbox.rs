//! The way out: whatever fails, and whenever power does, nothing half-made has a final name.

mod between;
mod folder;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stook::archive::{self, Archive};
use stook::ops::export::Export;
use stook::ops::unpack::{Packed, PathFilter, Unpack, Unpacked};
use stook::pack::tree::{Delete, Grouping, PackTree};
use stook::pack::{OpenOptions, Pack, PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions, free_at};
use stook::tree::outbox::{Calls, Durability, System};
use stook::tree::{Draft, Overwrite};
use stook::walk::Decision;
#[cfg(target_os = "linux")]
use stook_testing::fault::LostWrites;
use stook_testing::fault::{FaultCalls, OutFault};
#[cfg(target_os = "linux")]
use stook_testing::sim::{Attributes, ExploreOptions, SimCalls, SimStorage};
use stook_testing::sweep::{assert_met, each_call, stride};

const EINTR: OutFault = OutFault::Fails(4);
const EIO: OutFault = OutFault::Fails(5);
const ENOSPC: OutFault = OutFault::Fails(28);

/// Of a file that is written past the page cache, but for its end.
const LONG: usize = (4 << 20) + 100;

/// What temporary names begin with.
const TEMPORARY: &str = ".stook-";

/// A tree as a pack and as a tar.
struct Place {
    directory: tempfile::TempDir,
    pack: Pack,
    archive: Archive,
    /// What comes out.
    whole: BTreeMap<String, Found>,
}

/// What has a name.
#[derive(Clone, PartialEq, Eq)]
struct Found {
    /// Of a file; of a link, what it leads to; of a directory, none.
    bytes: Vec<u8>,
    /// Mode, modification time and owner.
    attributes: (u32, i64, u32, u32),
    xattrs: Vec<(String, Vec<u8>)>,
    is_directory: bool,
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes, {:?}, {:?}", self.bytes.len(), self.attributes, self.xattrs)
    }
}

impl Found {
    fn at(path: &Path) -> Self {
        let there = path.symlink_metadata().unwrap();
        let bytes = match there.file_type() {
            kind if kind.is_dir() => Vec::new(),
            kind if kind.is_symlink() => fs::read_link(path).unwrap().as_os_str().as_bytes().to_vec(),
            _ => fs::read(path).unwrap(),
        };
        let mtime_ns = there.mtime() * 1_000_000_000 + there.mtime_nsec();
        let attributes = (there.mode(), mtime_ns, there.uid(), there.gid());
        Self { bytes, attributes, xattrs: xattrs_of(path), is_directory: there.is_dir() }
    }

    fn without_xattrs(mut self) -> Self {
        self.xattrs.clear();
        self
    }
}

fn xattrs_of(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut names = vec![0_u8; 4096];
    let len = rustix::fs::llistxattr(path, &mut names).unwrap_or(0);
    let mut all: Vec<_> = names[..len]
        .split(|byte| *byte == 0)
        .filter(|name| name.starts_with(b"user.") || name.starts_with(b"trusted."))
        .map(|name| {
            let mut value = vec![0_u8; 256];
            let len = rustix::fs::lgetxattr(path, name, &mut value).unwrap();
            (String::from_utf8(name.to_vec()).unwrap(), value[..len].to_vec())
        })
        .collect();
    all.sort();
    all
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A small tree with all that there is to set. Of root, owners and attributes of a link, too.
fn make_tree(tree: &Path) {
    fs::create_dir_all(tree.join("a/b")).unwrap();
    for (path, len) in [("a/1", 5), ("a/2", 70_000), ("a/b/3", 0), ("a/b/4", 1_300_000), ("5", 9)] {
        fs::write(tree.join(path), vec![b'n'; len]).unwrap();
    }
    // It ends with a hole.
    fs::File::options().write(true).open(tree.join("a/2")).unwrap().set_len(900_000).unwrap();
    symlink("a/1", tree.join("link")).unwrap();
    fs::hard_link(tree.join("a/1"), tree.join("z")).unwrap();
    let set = |path: &str, name: &str| {
        rustix::fs::lsetxattr(tree.join(path), name, b"dear", rustix::fs::XattrFlags::empty()).unwrap();
    };
    ["a/1", "5", "a/b"].iter().for_each(|path| set(path, "user.note"));
    if is_root() {
        set("link", "trusted.note");
        chown(tree.join("5"), Some(7), Some(8)).unwrap();
        chown(tree.join("a/b"), Some(7), Some(8)).unwrap();
        lchown(tree.join("link"), Some(9), Some(9)).unwrap();
    }
}

/// Little but a long file.
fn make_long(tree: &Path) {
    fs::create_dir(tree.join("a")).unwrap();
    fs::write(tree.join("a/1"), b"short").unwrap();
    fs::write(tree.join("6"), vec![b'n'; LONG]).unwrap();
}

/// Small files, this many.
fn make_small_files(tree: &Path, count: usize) {
    for number in 0..count {
        let folder = tree.join(format!("{}", number % 7));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(number.to_string()), vec![number as u8 | 1; 100 + number % 900]).unwrap();
    }
}

impl Place {
    fn new() -> Self {
        Self::of(make_tree)
    }

    /// One with little but a long file: it takes its time with each call that fails.
    fn long() -> Self {
        Self::of(make_long)
    }

    fn of(make: impl FnOnce(&Path)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join("tree");
        fs::create_dir(&tree).unwrap();
        make(&tree);
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
            keeps_moved: false,
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
        for (name, _) in self.whole.iter().filter(|(_, whole)| is_old && !whole.is_directory) {
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
        self.unpack_by((1, Durability::default()), packed, overwrite, calls)
    }

    fn unpack_by(
        &self,
        (threads, durability): (usize, Durability),
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
            threads,
            durability,
            force: true,
        };
        unpack.run_through(packed, calls, &mut |_| true)
    }

    /// Checks that each name has all that it should have, attributes too, or what it had, or is
    /// absent. Directories get their attributes last.
    fn check_no_half(&self, found: &BTreeMap<String, Found>, is_old: bool, met: &str, case: &str) {
        for (name, there) in found.iter().filter(|(name, there)| !is_temporary(name) && !there.is_directory) {
            let Some(whole) = self.whole.get(name) else { panic!("{case}: {name} should not be") };
            let is_whole = *there == *whole
                // Attributes that are refused are reported, and the file is there.
                || met.contains("xattr") && there.clone().without_xattrs() == whole.clone().without_xattrs();
            assert!(
                is_whole || is_old && old(name) == there.bytes,
                "{case}: {name} is {there:?}, not {whole:?}"
            );
        }
        self.check_is_there(found.keys(), is_old, case);
    }

    /// Checks that what came out has all attributes that it should have; what it had before may
    /// have others. Directories get theirs last.
    #[cfg(target_os = "linux")]
    fn check_attributes(&self, state: &SimStorage, (is_old, at_end): (bool, bool), case: &str) {
        let (attributes, files) = (state.attributes(), state.files());
        for (name, bytes) in SimCalls::reachable(&files) {
            let Some(whole) = self.whole.get(&name).filter(|_| !is_old || old(&name) != bytes) else {
                continue;
            };
            assert_has(&attributes[&name], whole, &format!("{case}: {name}"));
        }
        for (name, whole) in self.whole.iter().filter(|(_, whole)| at_end && whole.is_directory) {
            assert_has(&attributes[&format!("{name}/")], whole, &format!("{case}: {name}"));
        }
    }

    /// The same, of bytes alone.
    fn check_no_half_bytes(&self, found: &BTreeMap<String, Vec<u8>>, is_old: bool, case: &str) {
        for (name, bytes) in found.iter().filter(|(name, _)| !is_temporary(name)) {
            let is_whole = self.whole.get(name).is_some_and(|whole| whole.bytes == *bytes);
            assert!(is_whole || is_old && old(name) == *bytes, "{case}: {name} has {} bytes", bytes.len());
        }
        self.check_is_there(found.keys(), is_old, case);
    }

    fn check_is_there<'a>(&self, found: impl Iterator<Item = &'a String>, is_old: bool, case: &str) {
        let found: BTreeSet<_> = found.collect();
        let mut files = self.whole.iter().filter(|(_, whole)| !whole.is_directory);
        assert!(!is_old || files.all(|(name, _)| found.contains(name)), "{case}: what was there is gone");
    }
}

#[cfg(target_os = "linux")]
fn assert_has(attributes: &Attributes, whole: &Found, case: &str) {
    let (mode, mtime_ns, user, group) = whole.attributes;
    let of_inode = [
        ("mode", format!("{:o}", mode & 0o7777)),
        ("mtime", mtime_ns.to_string()),
        ("owner", format!("{user}:{group}")),
    ];
    let of_inode = of_inode.map(|(name, value)| (name.to_owned(), value.into_bytes()));
    let expected: Attributes = of_inode.into_iter().chain(whole.xattrs.iter().cloned()).collect();
    assert_eq!(*attributes, expected, "{case}");
}

fn kind_of(packed: Packed<'_>) -> &'static str {
    match packed {
        Packed::Pack(_) => "pack",
        Packed::Archive(_) => "archive",
    }
}

fn is_temporary(name: &str) -> bool {
    name.contains(TEMPORARY)
}

fn old(name: &str) -> Vec<u8> {
    format!("the old {name}").into_bytes()
}

/// All that is below a directory.
fn tree_at(root: &Path) -> BTreeMap<String, Found> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let there = Found::at(&path);
            if there.is_directory {
                folders.push(path.clone());
            }
            found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(), there);
        }
    }
    found
}

/// What comes out the same whatever was there before: a directory that was there keeps its time.
fn comparable(found: &BTreeMap<String, Found>, met: &str) -> BTreeMap<String, Found> {
    let of = |(name, there): (&String, &Found)| {
        let mut there = there.clone();
        if there.is_directory {
            there.attributes = (0, 0, 0, 0);
        }
        if there.is_directory || met.contains("xattr") {
            there.xattrs.clear();
        }
        (!is_temporary(name)).then(|| (name.clone(), there))
    };
    found.iter().filter_map(of).collect()
}

/// How one sweep is made.
#[derive(Debug, Clone, Copy)]
struct Sweep {
    fault: OutFault,
    is_old: bool,
    has_unnamed: bool,
    is_overlay: bool,
}

impl Sweep {
    fn of(fault: OutFault, is_old: bool) -> Self {
        Self { fault, is_old, has_unnamed: true, is_overlay: false }
    }

    fn calls(self, nth: usize) -> FaultCalls {
        let calls = FaultCalls::nth(nth, self.fault);
        let calls = if self.has_unnamed { calls } else { calls.without_unnamed() };
        if self.is_overlay { calls.on_overlay() } else { calls }
    }
}

/// Makes the n-th call fail, for every n that is tried, and returns which calls that met.
fn sweep(place: &Place, how: Sweep) -> BTreeSet<&'static str> {
    let is_old = how.is_old;
    let overwrite = if is_old { Overwrite::Always } else { Overwrite::Never };
    let sampled = if how.has_unnamed && !how.is_overlay { 1 } else { 3 };
    let mut all_met = BTreeSet::new();
    let target = place.directory.path().join("out");
    for packed in place.both() {
        let run = |calls: Arc<FaultCalls>| {
            place.target(is_old);
            place.unpack(packed, overwrite, calls)
        };
        all_met.extend(each_call(
            sampled,
            |nth| how.calls(nth),
            run,
            |done, nth, met| {
                let case = format!("{} {how:?} {nth} {met}", kind_of(packed));
                let found = tree_at(&target);
                place.check_no_half(&found, is_old, met, &case);
                check_reported(place, how, &done, (&found, met), &case);
                let again = place.unpack(packed, overwrite, Arc::new(FaultCalls::none())).unwrap();
                assert!(again.summary.failures.is_empty(), "{case}: {:?}", again.summary.failures);
                let found = comparable(&tree_at(&target), met);
                assert_eq!(found, comparable(&place.whole, met), "{case}: run again, and not whole");
            },
        ));
    }
    all_met
}

/// What is not whole was reported, with a path, and so is a sync that failed.
fn check_reported(
    place: &Place,
    how: Sweep,
    done: &stook::ops::unpack::Result<Unpacked>,
    (found, met): (&BTreeMap<String, Found>, &str),
    case: &str,
) {
    let failed = match done {
        Err(error) => Some(with_causes(error)),
        Ok(done) if done.undone > 0 => {
            Some(done.summary.failures.iter().map(|failure| with_causes(&failure.error)).collect())
        }
        Ok(_) => None,
    };
    let target = place.directory.path().join("out");
    match failed {
        Some(text) => {
            let has_path = text.contains(target.to_str().unwrap());
            assert!(met.contains("xattr") || has_path, "{case}: no path in {text}");
        }
        None => {
            let is_sync = how.fault != OutFault::Short && met.starts_with("sync")
                || met == "wait_written" && [EIO, ENOSPC].contains(&how.fault);
            assert!(!is_sync, "{case}: a failed sync is not reported");
            assert_eq!(comparable(found, met), comparable(&place.whole, met), "{case}: not reported");
        }
    }
}

/// An error with all that caused it.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(|error| format!("{error}\n")).collect()
}

/// The calls that are made of a tree. Those of owners, and of attributes of links, are root's.
const CALLS: [&str; 18] = [
    "create",
    "create_unnamed",
    "link",
    "link_unnamed",
    "make_directory",
    "make_symlink",
    "rename",
    "rename_new",
    "reserve",
    "set_len",
    "set_link_mtime",
    "set_mode",
    "set_mtime",
    "sync",
    "sync_file_system",
    "unlink",
    "write_at",
    "write_direct",
];
const MORE_CALLS: [&str; 6] =
    ["lock", "set_link_owner", "set_link_xattr", "set_owner", "set_xattr", "wait_written"];

#[test]
fn whichever_call_fails_nothing_half_made_has_a_name_and_a_second_run_completes() {
    let (place, long) = (Place::new(), Place::long());
    let mut met = BTreeSet::new();
    for fault in [EIO, ENOSPC] {
        met.extend(sweep(&long, Sweep::of(fault, fault == EIO)));
    }
    for fault in [EIO, ENOSPC, EINTR] {
        for is_old in [false, true] {
            met.extend(sweep(&place, Sweep::of(fault, is_old)));
        }
        met.extend(sweep(&place, Sweep { has_unnamed: false, ..Sweep::of(fault, false) }));
        met.extend(sweep(&place, Sweep { is_overlay: true, ..Sweep::of(fault, false) }));
    }
    let expected = CALLS.iter().chain(MORE_CALLS.iter()).copied();
    let roots = ["set_link_owner", "set_link_xattr", "set_owner"];
    let expected: BTreeSet<_> = expected.filter(|call| is_root() || !roots.contains(call)).collect();
    assert_met(&met, expected);
}

#[test]
fn a_write_of_a_part_is_gone_on_with() {
    let place = Place::new();
    for is_old in [false, true] {
        assert!(sweep(&place, Sweep::of(OutFault::Short, is_old)).contains("write_at"));
    }
}

/// The next batch is written while one is synced, and that sync meets its bytes, too. Then it takes
/// the error, and the next sync succeeds.
#[test]
#[cfg(target_os = "linux")]
fn bytes_that_the_sync_of_another_batch_lost_get_no_name() {
    let place = Place::of(|tree| make_small_files(tree, 1500));
    for packed in place.both() {
        for threads in [1, 4] {
            let target = place.target(false);
            let calls = Arc::new(LostWrites::at_sync(0));
            let done = place
                .unpack_by((threads, Durability::Batch), packed, Overwrite::Never, calls.clone())
                .unwrap();
            let case = format!("{packed:?}, {threads} threads");
            place.check_no_half(&tree_at(&target), false, "", &case);
            assert!(calls.lost() > 0 && done.summary.failures.len() >= calls.lost(), "{case}: {done:?}");
            let again = place.unpack(packed, Overwrite::Never, Arc::new(FaultCalls::none()));
            assert!(again.unwrap().summary.failures.is_empty(), "{case}");
            assert_eq!(comparable(&tree_at(&target), ""), comparable(&place.whole, ""), "{case}");
        }
    }
}

/// Calls of which some that make bytes durable fail. The others only seem to be made.
#[cfg(target_os = "linux")]
#[derive(Debug, Default)]
struct FailedSyncs {
    /// The number of the sync of the file system that fails.
    file_system: Option<usize>,
    /// The number of the sync of a file that fails. With it no file says whether it was written.
    file: Option<usize>,
    done: [std::sync::atomic::AtomicUsize; 2],
}

#[cfg(target_os = "linux")]
impl FailedSyncs {
    fn meet(&self, which: usize, nth: Option<usize>) -> std::io::Result<()> {
        let number = self.done[which].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if Some(number) == nth { Err(std::io::Error::from_raw_os_error(5)) } else { Ok(()) }
    }
}

#[cfg(target_os = "linux")]
impl Calls for FailedSyncs {
    fn kind_of_file_system(&self, _: std::os::fd::BorrowedFd<'_>) -> Option<u32> {
        // ext4: its `syncfs` says that data could not be written.
        Some(0xEF53)
    }

    fn sync_file_system(&self, _: std::os::fd::BorrowedFd<'_>) -> std::io::Result<()> {
        self.meet(0, self.file_system)
    }

    fn sync(&self, _: std::os::fd::BorrowedFd<'_>) -> std::io::Result<()> {
        self.meet(1, self.file)
    }

    fn wait_written(&self, _: std::os::fd::BorrowedFd<'_>) -> std::io::Result<()> {
        match self.file {
            Some(_) => Err(std::io::ErrorKind::Unsupported.into()),
            None => Ok(()),
        }
    }
}

/// Unpacks where a sync fails, and checks that what it was for has no name, is reported, and is
/// written by the next run, which finds all else unchanged. Returns how many files failed.
#[cfg(target_os = "linux")]
fn fails_and_is_written_again(place: &Place, packed: Packed<'_>, calls: FailedSyncs) -> usize {
    let target = place.target(false);
    let done = place.unpack(packed, Overwrite::Never, Arc::new(calls)).unwrap().summary;
    let found = tree_at(&target);
    place.check_no_half(&found, false, "", kind_of(packed));
    for failure in &done.failures {
        let key = std::str::from_utf8(&failure.key).unwrap();
        assert!(!found.contains_key(key), "{key} has a name");
        assert!(with_causes(&failure.error).contains("sync"), "{:?}", failure.error);
    }
    let count = place.whole.values().filter(|whole| !whole.is_directory).count();
    let failed = done.failures.len();
    assert_eq!(done.files, (count - failed) as u64, "what has no name counts as unpacked");
    let again = place.unpack(packed, Overwrite::Never, Arc::new(System)).unwrap().summary;
    assert!(again.failures.is_empty(), "{again:?}");
    assert_eq!((again.files, again.unchanged), (failed as u64, (count - failed) as u64));
    assert_eq!(comparable(&tree_at(&target), ""), comparable(&place.whole, ""));
    failed
}

/// It is not known whose bytes were lost: of the batch that was synced all have failed, of those
/// before and after it none.
#[test]
#[cfg(target_os = "linux")]
fn a_batch_whose_sync_failed_is_written_again_as_a_whole_and_no_other_is() {
    let place = Place::of(|tree| make_small_files(tree, 1500));
    for packed in place.both() {
        for nth in [0, 1] {
            let calls = FailedSyncs { file_system: Some(nth), ..FailedSyncs::default() };
            let failed = fails_and_is_written_again(&place, packed, calls);
            assert!(failed > 1 && failed < 1500, "{failed}");
        }
    }
}

/// Where the system cannot say of a file whether it was written, each is synced by itself.
#[test]
#[cfg(target_os = "linux")]
fn files_that_cannot_be_asked_are_synced_one_by_one_and_one_fails_alone() {
    let place = Place::of(|tree| make_small_files(tree, 40));
    for packed in place.both() {
        let calls = FailedSyncs { file: Some(7), ..FailedSyncs::default() };
        assert_eq!(fails_and_is_written_again(&place, packed, calls), 1);
    }
}

/// Checks what a medium may hold whenever power fails, attributes too if they were set.
#[cfg(target_os = "linux")]
fn check_crashes(place: &Place, calls: &SimCalls, (is_old, has_set): (bool, bool), case: &str) {
    let storage = calls.storage();
    let (count, options) = (storage.operation_count(), ExploreOptions::default());
    assert!(count > 15, "{count}");
    for at in (0..=count).rev().step_by(stride(1)) {
        for state in storage.crash_states(at, &options) {
            let found = SimCalls::reachable(&state.files());
            let case = format!("{case} {at} of {count}");
            place.check_no_half_bytes(&found, is_old, &case);
            if has_set {
                place.check_attributes(&state, (is_old, at == count), &case);
            }
            let files = place.whole.iter().filter(|(_, whole)| !whole.is_directory);
            let mut files = files.map(|(name, whole)| (name, &whole.bytes));
            let is_whole = files.all(|(name, bytes)| found.get(name) == Some(bytes));
            assert!(at < count || is_whole, "{case}: lost after the end");
        }
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
        for (is_old, is_overlay, threads, durability) in [
            (false, false, 1, Durability::Batch),
            (true, false, 1, Durability::Batch),
            (false, false, 4, Durability::Batch),
            (false, true, 1, Durability::Batch),
            (true, true, 4, Durability::Batch),
            (true, false, 1, Durability::File),
        ] {
            let target = place.target(is_old);
            let overwrite = if is_old { Overwrite::Always } else { Overwrite::Never };
            let calls = SimCalls::new(&target).unwrap();
            let calls = Arc::new(if is_overlay { calls.on_overlay() } else { calls });
            let done = place.unpack_by((threads, durability), packed, overwrite, calls.clone()).unwrap();
            assert_eq!(done.undone, 0, "{done:?}");
            assert_eq!(comparable(&tree_at(&target), ""), comparable(&place.whole, ""));
            let kind = kind_of(packed);
            let case = format!("{kind} old {is_old} overlay {is_overlay} {threads} threads {durability:?}");
            check_crashes(place, &calls, (is_old, true), &case);
        }
    }
}

/// What syncs there are is what was asked for, and what is unpacked is the same.
#[test]
#[cfg(target_os = "linux")]
fn files_are_synced_by_themselves_or_many_at_once_or_not_at_all() {
    let place = Place::new();
    for packed in place.both() {
        for is_old in [false, true] {
            let overwrite = if is_old { Overwrite::Always } else { Overwrite::Never };
            let syncs = |durability| {
                let target = place.target(is_old);
                let calls = Arc::new(SimCalls::new(&target).unwrap());
                let done = place.unpack_by((1, durability), packed, overwrite, calls.clone()).unwrap();
                assert_eq!(done.undone, 0, "{durability:?}: {done:?}");
                assert_eq!(comparable(&tree_at(&target), ""), comparable(&place.whole, ""), "{durability:?}");
                calls.syncs()
            };
            assert_eq!(syncs(Durability::None), (0, 0));
            // Five files, and the end; a hard link leads to one of them.
            assert_eq!(syncs(Durability::File), (5, 1));
            assert_eq!(syncs(Durability::Batch), (0, 2));
        }
    }
}

/// Before: a device took the bytes, and the error that came with its sync was not asked for.
#[test]
fn what_is_open_already_is_synced_at_its_end_and_an_error_of_that_is_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let file = fs::File::create(&path).unwrap();
    let open = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    // A terminal refuses to be synced.
    for (fault, is_fine) in [(EIO, false), (ENOSPC, false), (OutFault::Fails(22), true)] {
        let calls = Arc::new(FaultCalls::nth(0, fault));
        let mut draft = Draft::named_through(&open, calls.clone(), &mut || true).unwrap();
        draft.write(b"x").unwrap();
        assert_eq!(draft.finish().is_ok(), is_fine, "{fault:?}");
        assert_eq!(calls.met(), Some("sync"));
    }
    assert_eq!(fs::read(&path).unwrap(), b"xxx");
    assert!(free_at(&open).unwrap() > 0, "not of `/proc`, which has no room");
}

/// Long files go past the page cache; whichever call fails, what has the name is the old or the
/// new, and whole.
#[test]
fn a_file_that_is_filled_is_there_whole_or_what_was_there_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let all: Vec<u8> = (0..(9 << 20) + 5).map(|at: u32| (at / 7) as u8).collect();
    let fill = |calls: Arc<FaultCalls>, said: u64, bytes: &[u8]| -> Result<(), stook::Error> {
        let mut draft = Draft::named_through(&path, calls, &mut || true)?;
        draft.fill(said, |write| bytes.chunks(300_000).try_for_each(|bytes| write(bytes, &mut || true)))?;
        draft.finish()
    };
    // More room than bytes, and fewer than it would take to be long.
    for (said, bytes) in [(all.len(), &all[..]), (all.len(), &all[..5 << 20]), (7, &all[..7]), (0, &[])] {
        fill(Arc::new(FaultCalls::none()), said as u64, bytes).unwrap();
        assert!(fs::read(&path).unwrap() == bytes, "{} of {said}", bytes.len());
    }
    let counted = Arc::new(FaultCalls::none());
    fill(counted.clone(), all.len() as u64, &all).unwrap();
    let mut met = BTreeSet::new();
    for nth in 0..counted.calls() {
        fs::write(&path, b"old").unwrap();
        let calls = Arc::new(FaultCalls::nth(nth, EIO));
        let filled = fill(calls.clone(), all.len() as u64, &all);
        let found = fs::read(&path).unwrap();
        assert!(found == all || (filled.is_err() && found == b"old"), "{:?}: {filled:?}", calls.met());
        let names = fs::read_dir(directory.path()).unwrap().count();
        assert!(names == 1 || calls.met() == Some("remove"), "{:?} left something", calls.met());
        met.extend(calls.met().filter(|_| filled.is_err()));
    }
    assert!(["create", "sync"].iter().all(|call| met.contains(call)), "{met:?}");
}

#[test]
fn what_a_killed_run_left_is_removed_by_the_next_and_nothing_else_is() {
    let place = Place::new();
    for packed in place.both() {
        let target = place.target(true);
        let (stale, live) = (".stook-0123456789abcdef-0.part", ".stook-0123456789abcdef-1.part");
        let (link, other) = (".stook-0123456789abcdef-2.part", ".stook-notes.part");
        let (again, directory) = (".stook-0123456789abcdef-3.part", ".stook-0123456789abcdef-4.part");
        for name in [stale, live, other] {
            fs::write(target.join("a").join(name), b"half").unwrap();
        }
        fs::write(target.join(stale), b"half").unwrap();
        symlink("1", target.join("a").join(link)).unwrap();
        fs::hard_link(target.join("a").join(other), target.join("a").join(again)).unwrap();
        fs::create_dir(target.join("a").join(directory)).unwrap();
        let held = fs::File::open(target.join("a").join(live)).unwrap();
        rustix::fs::flock(&held, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
        place.unpack(packed, Overwrite::Always, Arc::new(System)).unwrap();
        let found = tree_at(&target);
        let is_there = |name: &str| found.contains_key(&format!("a/{name}"));
        let is_left = [stale, link, again].map(is_there);
        assert!(!found.contains_key(stale) && is_left == [false; 3], "{packed:?}: {:?}", found.keys());
        let is_kept = [live, other, directory].map(is_there);
        assert_eq!(is_kept, [true; 3], "{packed:?}: {:?}", found.keys());
    }
}

#[test]
fn a_failed_last_sync_is_one_more_failure_and_the_summary_stays() {
    let place = Place::new();
    for packed in place.both() {
        place.target(false);
        let calls = Arc::new(FaultCalls::none());
        let whole = place.unpack(packed, Overwrite::Never, calls.clone()).unwrap();
        place.target(false);
        let last = Arc::new(FaultCalls::nth(calls.calls() - 1, EIO));
        let done = place.unpack(packed, Overwrite::Never, last.clone()).unwrap();
        assert_eq!(last.met(), Some("sync_file_system"));
        assert_eq!((done.summary.files, done.undone), (whole.summary.files, 1));
        assert!(done.summary.failures[0].error.to_string().contains("sync"), "{done:?}");
    }
}
