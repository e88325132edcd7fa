//! The tree that is measured: made once, always the same, kept for the next run.
//!
//! Everything made here is in one work directory with a marker; [`clean`] removes nothing from a
//! directory without it, and no foreign files.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, bail, ensure};
use stook::bench::fresh_seed;
use stook::walk::{Walk, WalkOptions, WalkSummary};

use crate::environment::mount_points;
use crate::place::{MARKER, PlaceLock, remove_left};

const MARKER_TEXT: &str =
    "This directory was made by `stook study`, and `--clean` removes it with all that was made in it.\n";

/// Files of one directory: few enough that a directory is small. (The published study had 10 in
/// each.)
const FILES_PER_DIRECTORY: u64 = 50;
/// Directories of one directory.
const DIRECTORIES_PER_DIRECTORY: u64 = 25;

/// Bytes of a file that are made and written at once.
pub(crate) const BLOCK_LEN: usize = 1 << 20;

/// Files are written by this many threads.
const THREADS: usize = 8;

/// How many files, and how large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Files.
    pub files: u64,
    /// Bytes of each.
    pub size: u64,
}

impl Sample {
    /// A name that describes its contents.
    pub fn name(&self) -> String {
        format!("{}x{}", self.files, self.size)
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.saturating_mul(self.size)
    }

    /// Where a file is, two directories deep.
    fn path(number: u64) -> (String, String) {
        let directory = number / FILES_PER_DIRECTORY;
        let (top, sub) = (directory / DIRECTORIES_PER_DIRECTORY, directory % DIRECTORIES_PER_DIRECTORY);
        (format!("{top:03}/{sub:02}"), format!("{number:08}.bin"))
    }

    /// The tree in a work directory, made now if it is not there. `before_each` is called before
    /// every file.
    ///
    /// # Errors
    /// Returns an error if writing fails, or the error of `before_each`, which ends it.
    pub fn tree(
        &self,
        work: &Path,
        before_each: impl Fn() -> anyhow::Result<()> + Sync,
    ) -> anyhow::Result<PathBuf> {
        let tree = work.join(format!("{}.tree", self.name()));
        if tree.is_dir() {
            return Ok(tree);
        }
        let partial = work.join(format!("{}.tree.partial", self.name()));
        remove(&partial)?;
        self.write(&partial, &before_each)?;
        check_whole(&partial, self.files)?;
        sync(work)?;
        fs::rename(&partial, &tree).with_context(|| format!("cannot rename {}", partial.display()))?;
        Ok(tree)
    }

    fn write(
        &self,
        root: &Path,
        before_each: &(impl Fn() -> anyhow::Result<()> + Sync),
    ) -> anyhow::Result<()> {
        let next = AtomicU64::new(0);
        let failed = Mutex::new(None);
        let directories = self.files.div_ceil(FILES_PER_DIRECTORY);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    loop {
                        let directory = next.fetch_add(1, Ordering::Relaxed);
                        if directory >= directories {
                            return;
                        }
                        if let Err(error) = self.write_directory(root, directory, before_each) {
                            next.store(directories, Ordering::Relaxed);
                            failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                            return;
                        }
                    }
                });
            }
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn write_directory(
        &self,
        root: &Path,
        number: u64,
        before_each: &impl Fn() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let first = number * FILES_PER_DIRECTORY;
        let directory = root.join(Self::path(first).0);
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let mut body = Vec::new();
        for file in first..(first + FILES_PER_DIRECTORY).min(self.files) {
            before_each()?;
            let path = directory.join(Self::path(file).1);
            let written = write_file(&path, file, self.size, &mut body);
            written.with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

/// Writes a file block by block: it may be larger than memory.
fn write_file(path: &Path, number: u64, size: u64, block: &mut Vec<u8>) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    for at in (0..size).step_by(BLOCK_LEN) {
        fill(number, at, (size - at).min(BLOCK_LEN as u64), block);
        file.write_all(block)?;
    }
    Ok(())
}

/// Makes a file of this length with bytes that cannot be compressed. `before_each` is called before
/// every block.
///
/// # Errors
/// Returns an error if it is there already or writing fails, or the error of `before_each`.
pub fn write_data(
    path: &Path,
    size: u64,
    before_each: impl Fn() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let context = || format!("cannot write {}", path.display());
    let mut file = fs::File::create_new(path).with_context(context)?;
    let mut block = Vec::new();
    for at in (0..size).step_by(BLOCK_LEN) {
        before_each()?;
        fill(0, at, (size - at).min(BLOCK_LEN as u64), &mut block);
        file.write_all(&block).with_context(context)?;
    }
    Ok(())
}

/// Bytes of a file from a multiple of 8 on: the same for the same number, and nothing that could be
/// compressed.
pub(crate) fn fill(number: u64, from: u64, len: u64, body: &mut Vec<u8>) {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    // Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (2014), the mixing of
    // SplitMix64.
    let mut state = number.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add((from / 8).wrapping_mul(STEP));
    body.clear();
    while (body.len() as u64) < len {
        state = state.wrapping_add(STEP);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        body.extend_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes());
    }
    body.truncate(len as usize);
}

/// Makes the work directory, with its marker.
///
/// # Errors
/// Returns an error if it contains foreign files, cannot be made, or if a study works there.
pub fn prepare_work(work: &Path) -> anyhow::Result<()> {
    lock_work(work).map(drop)
}

/// The same, and locks it.
///
/// # Errors
/// Returns the errors of [`prepare_work`].
pub(crate) fn lock_work(work: &Path) -> anyhow::Result<PlaceLock> {
    fs::create_dir_all(work).with_context(|| format!("cannot make {}", work.display()))?;
    let lock = PlaceLock::take(work)?;
    check_mounts(work)?;
    let marker = work.join(MARKER);
    if marker.is_file() {
        return Ok(lock);
    }
    let mut entries = fs::read_dir(work).with_context(|| format!("cannot list {}", work.display()))?;
    if entries.next().is_some() {
        bail!("{} has something else in it: name an empty directory with --work", work.display());
    }
    let mut file =
        fs::File::create_new(&marker).with_context(|| format!("cannot write {}", marker.display()))?;
    file.write_all(MARKER_TEXT.as_bytes()).with_context(|| format!("cannot write {}", marker.display()))?;
    Ok(lock)
}

/// Makes a file for its user alone, because what is copied may be private. Nothing is written
/// through what has that name already.
///
/// # Errors
/// Returns an error if it cannot be made, or a directory has that name.
pub(crate) fn create_private(path: &Path) -> io::Result<fs::File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::File::options().write(true).create_new(true).mode(0o600).open(path)
}

/// Refuses a work directory below which something is mounted: what a study removes there would be
/// removed with it. Its own images are unmounted by their names.
fn check_mounts(work: &Path) -> anyhow::Result<()> {
    let work = work.canonicalize().with_context(|| format!("cannot look at {}", work.display()))?;
    let foreign = |point: &&PathBuf| {
        let first = point.strip_prefix(&work).ok().and_then(|below| below.components().next());
        first.is_some_and(|first| !first.as_os_str().as_encoded_bytes().starts_with(b"on-"))
    };
    match mount_points().iter().find(foreign) {
        Some(point) => {
            bail!(
                "{} is mounted below {}: unmount it, or name another place",
                point.display(),
                work.display()
            )
        }
        None => Ok(()),
    }
}

/// Whether a work directory has anything that is kept for the next run.
pub fn has_kept(work: &Path) -> bool {
    let entries = || Some(fs::read_dir(work).ok()?.flatten().any(|entry| entry.file_name() != MARKER));
    work.join(MARKER).is_file() && entries() == Some(true)
}

/// Refuses a tree that does not have all files of its sample: what was cut is not taken for whole.
///
/// # Errors
/// Returns an error if it has not, or cannot be listed.
pub(crate) fn check_whole(tree: &Path, files: u64) -> anyhow::Result<()> {
    let found = count(tree)?.files;
    ensure!(
        found == files,
        "{} has {found} files, not {files}: something else writes there; --clean removes it",
        tree.display()
    );
    Ok(())
}

/// What [`clean`] did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Bytes of the files that were removed.
    pub bytes: u64,
    /// Foreign entries in the work directory. They stay, and so does the directory.
    pub foreign: u64,
}

/// Removes the files that were made in a work directory, then the directory itself; `None` if there
/// is none. `ours` decides by name whether an entry was made by us.
///
/// # Errors
/// Returns an error if it does not have the marker, or something cannot be removed.
pub fn clean(work: &Path, ours: impl Fn(&OsStr) -> bool) -> anyhow::Result<Option<Cleaned>> {
    clean_after(work, ours, |_| Ok(()))
}

/// The same; `before` is called before anything is removed.
///
/// # Errors
/// Returns the errors of [`clean`], and that of `before`.
pub(crate) fn clean_after(
    work: &Path,
    ours: impl Fn(&OsStr) -> bool,
    before: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<Option<Cleaned>> {
    // A directory that a link leads to is somebody's choice: the next run finds it empty.
    let is_link = work.is_symlink();
    let work = match work.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.with_context(|| format!("cannot look at {}", work.display()))?,
    };
    let marker = work.join(MARKER);
    if !marker.is_file() {
        bail!(
            "{} was not made by `stook study` (no file {MARKER} in it): nothing was removed",
            work.display()
        );
    }
    let lock = PlaceLock::take(&work)?;
    before(&work)?;
    check_mounts(&work)?;
    remove_left(&lock)?;
    let mut cleaned = Cleaned::default();
    let context = || format!("cannot list {}", work.display());
    for entry in fs::read_dir(&work).with_context(context)? {
        let name = entry.with_context(context)?.file_name();
        if name == MARKER {
            continue;
        }
        if !ours(&name) {
            cleaned.foreign += 1;
            continue;
        }
        cleaned.bytes += bytes_of(&work.join(&name))?;
        remove(&work.join(&name))?;
    }
    // Last, so that a clean that was stopped can be repeated.
    cleaned.bytes += bytes_of(&marker)?;
    remove(&marker)?;
    if cleaned.foreign == 0 && !is_link {
        fs::remove_dir(&work).with_context(|| format!("cannot remove {}", work.display()))?;
    }
    Ok(Some(cleaned))
}

/// Bytes of a file, or of all files below a directory; a link has none.
fn bytes_of(path: &Path) -> anyhow::Result<u64> {
    let metadata =
        fs::symlink_metadata(path).with_context(|| format!("cannot look at {}", path.display()))?;
    if metadata.is_symlink() {
        return Ok(0);
    }
    Ok(count(path)?.bytes)
}

/// Counts the contents of a tree, without reading any file.
///
/// # Errors
/// Returns an error if it cannot be listed.
pub fn count(tree: &Path) -> anyhow::Result<WalkSummary> {
    let options = WalkOptions { read_up_to: 0, ..WalkOptions::default() };
    let failed = Mutex::new(None);
    let summary = Walk::new([tree])?.options(options).visit(|event| match event {
        Ok(_) => ControlFlow::Continue(()),
        Err(error) => {
            failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error.into_error());
            ControlFlow::Break(())
        }
    })?;
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error.into()),
        None => Ok(summary),
    }
}

/// Removes a file or a directory that may not be there.
///
/// # Errors
/// Returns an error if it exists and cannot be removed.
pub fn remove(path: &Path) -> anyhow::Result<()> {
    let result = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => Err(error),
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    };
    result.with_context(|| format!("cannot remove {}", path.display()))
}

/// Puts everything that was written to the file system of `path` onto the medium.
///
/// # Errors
/// Returns I/O errors.
pub fn sync(path: &Path) -> anyhow::Result<()> {
    let directory = fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    rustix::fs::syncfs(&directory).with_context(|| format!("cannot sync {}", path.display()))
}

/// Refuses to begin what would not fit.
///
/// # Errors
/// Returns an error if fewer than `bytes` are free, or the system does not report it.
pub fn check_space(work: &Path, bytes: u64) -> anyhow::Result<()> {
    let free = stook::storage::free_at(work)?;
    if free < bytes {
        bail!(
            "{} needs {} and has {} free: name another place",
            work.display(),
            stook::report::units::bytes_decimal(bytes),
            stook::report::units::bytes_decimal(free)
        );
    }
    Ok(())
}

/// Writes a file so that it is there whole or not at all. It is written under a name that nobody
/// can foresee, and only if nothing has it: nothing is written through a link, and no pipe is
/// waited for.
///
/// # Errors
/// Returns an error if writing fails.
pub fn publish(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let context = || format!("cannot write {}", path.display());
    let (partial, mut file) = create_beside(path).with_context(context)?;
    let mut write = || -> io::Result<()> {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&partial, path)
    };
    let written = write();
    if written.is_err() {
        // The first error is the one that counts.
        let _ = fs::remove_file(&partial);
    }
    written.with_context(context)
}

/// Refuses a place where [`publish`] could not write, before anything is measured for it.
///
/// # Errors
/// Returns an error if a directory has that name, or nothing can be written beside it.
pub fn check_publish(path: &Path) -> anyhow::Result<()> {
    ensure!(!path.is_dir(), "cannot write {}: it is a directory", path.display());
    let context = || format!("cannot write to {}", path.parent().unwrap_or(Path::new(".")).display());
    let (partial, file) = create_beside(path).with_context(context)?;
    drop(file);
    fs::remove_file(&partial).with_context(context)
}

fn create_beside(path: &Path) -> io::Result<(PathBuf, fs::File)> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{:08x}{:08x}.partial", fresh_seed(), fresh_seed()));
    let partial = path.with_file_name(name);
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file = fs::OpenOptions::new().write(true).create_new(true).custom_flags(flags).open(&partial)?;
    Ok((partial, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_tree_is_made_every_time_and_only_once() {
        let work = tempfile::tempdir().unwrap();
        let sample = Sample { files: 120, size: 333 };
        let count = AtomicU64::new(0);
        let counted = || {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let make = || sample.tree(work.path(), counted).unwrap();
        let tree = make();
        let last = fs::read(tree.join("000/02/00000119.bin")).unwrap();
        let mut again = Vec::new();
        fill(119, 0, 333, &mut again);
        assert_eq!(last, again);
        assert_eq!(make(), tree);
        assert_eq!(count.into_inner(), 120, "the second time nothing is written");
        let summary = stook::walk::read_tree([&tree], 4, |_| {}).unwrap();
        assert_eq!((summary.files, summary.bytes), (120, 120 * 333));
    }

    #[test]
    fn a_file_of_several_blocks_has_the_bytes_of_one() {
        let work = tempfile::tempdir().unwrap();
        let size = 2 * BLOCK_LEN as u64 + 13;
        write_file(&work.path().join("file"), 5, size, &mut Vec::new()).unwrap();
        let mut whole = Vec::new();
        fill(5, 0, size, &mut whole);
        assert!(fs::read(work.path().join("file")).unwrap() == whole);
        write_file(&work.path().join("file"), 5, 0, &mut Vec::new()).unwrap();
        assert_eq!(fs::metadata(work.path().join("file")).unwrap().len(), 0);
    }

    /// Before: the file behind a link of that name was written over, and a pipe waited for.
    #[test]
    fn nothing_that_lies_beside_is_written_through_or_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let [result, mine] = ["study.json", "mine"].map(|name| place.path().join(name));
        fs::write(&mine, "precious").unwrap();
        std::os::unix::fs::symlink(&mine, place.path().join("study.json.partial")).unwrap();
        publish(&result, b"one").unwrap();
        assert_eq!(fs::read_to_string(&mine).unwrap(), "precious");
        assert_eq!(fs::read_to_string(&result).unwrap(), "one");
        // The result itself may be a link: it is replaced, and not what it leads to.
        fs::remove_file(&result).unwrap();
        std::os::unix::fs::symlink(&mine, &result).unwrap();
        publish(&result, b"two").unwrap();
        assert_eq!(fs::read_to_string(&mine).unwrap(), "precious");
        assert!(!result.is_symlink() && fs::read_dir(place.path()).unwrap().count() == 3);
        fs::remove_file(&result).unwrap();
        fs::create_dir(&result).unwrap();
        assert!(check_publish(&result).is_err() && publish(&result, b"three").is_err());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 3, "nothing is left");
    }

    #[test]
    fn a_tree_that_was_cut_is_not_taken_for_whole() {
        let work = tempfile::tempdir().unwrap();
        let sample = Sample { files: 60, size: 3 };
        let partial = work.path().join("60x3.tree.partial");
        // Something removes a file meanwhile.
        let cut = || {
            let _ = fs::remove_file(partial.join("000/00/00000000.bin"));
            Ok(())
        };
        let error = sample.tree(work.path(), cut).unwrap_err().to_string();
        assert!(error.contains("has 59 files, not 60") && error.contains("--clean"), "{error}");
        assert!(!work.path().join("60x3.tree").exists());
    }

    /// Before: the directory went, and the link that led to it led nowhere.
    #[test]
    fn what_a_link_leads_to_is_emptied_and_stays() {
        let parent = tempfile::tempdir().unwrap();
        let (work, link) = (parent.path().join("disk"), parent.path().join("work"));
        fs::create_dir(&work).unwrap();
        std::os::unix::fs::symlink("disk", &link).unwrap();
        for _ in 0..2 {
            prepare_work(&link).unwrap();
            fs::write(link.join("data"), "xyz").unwrap();
            let cleaned = clean(&link, |name| name == "data").unwrap().unwrap();
            assert_eq!((cleaned.foreign, fs::read_dir(&work).unwrap().count()), (0, 0));
        }
    }

    /// Before: files that are made were written through whatever had their name.
    #[test]
    fn a_file_that_is_made_replaces_a_link_of_its_name() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        let [mine, made] = ["mine", "made"].map(|name| place.path().join(name));
        fs::write(&mine, "precious").unwrap();
        std::os::unix::fs::symlink(&mine, &made).unwrap();
        create_private(&made).unwrap().write_all(b"made").unwrap();
        assert_eq!(
            (fs::read(&mine).unwrap(), fs::read(&made).unwrap()),
            (b"precious".into(), b"made".into())
        );
        assert_eq!(made.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(create_private(place.path()).is_err());
    }

    #[test]
    fn only_a_directory_with_the_marker_is_used_and_removed() {
        let parent = tempfile::tempdir().unwrap();
        let work = parent.path().join("work");
        let clean = |work| clean(work, |name| name == "data" || name == "out");
        assert_eq!(clean(&work).unwrap(), None);
        fs::create_dir(&work).unwrap();
        fs::write(work.join("precious"), "x").unwrap();
        assert!(prepare_work(&work).is_err());
        assert!(clean(&work).is_err());
        assert!(work.join("precious").is_file());
        fs::remove_file(work.join("precious")).unwrap();
        let lock = lock_work(&work).unwrap();
        assert!(prepare_work(&work).unwrap_err().to_string().contains("a study is running"));
        assert!(clean(&work).unwrap_err().to_string().contains("a study is running"));
        assert!(!has_kept(&work));
        drop(lock);
        prepare_work(&work).unwrap();
        fs::write(work.join("data"), "xyz").unwrap();
        // A link is removed, not its target; foreign entries stay.
        fs::write(parent.path().join("elsewhere"), "x").unwrap();
        std::os::unix::fs::symlink(parent.path().join("elsewhere"), work.join("out")).unwrap();
        fs::write(work.join("precious"), "x").unwrap();
        let bytes = MARKER_TEXT.len() as u64 + 3;
        assert_eq!(clean(&work).unwrap(), Some(Cleaned { bytes, foreign: 1 }));
        let left: Vec<_> = fs::read_dir(&work).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left == ["precious"] && parent.path().join("elsewhere").exists(), "{left:?}");
        assert!(clean(&work).is_err() && prepare_work(&work).is_err());
        fs::remove_file(work.join("precious")).unwrap();
        prepare_work(&work).unwrap();
        let bytes = MARKER_TEXT.len() as u64;
        assert_eq!(clean(&work).unwrap(), Some(Cleaned { bytes, foreign: 0 }));
        assert!(!work.exists());
    }
}
