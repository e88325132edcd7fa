//! The places where studies work: one study at a time uses a place, and what it makes there for the
//! time of a run is in a directory with a marker, so that nothing else is ever taken for it.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

use crate::{bulk_copy, solid_reads};

/// Says that a directory belongs to the studies.
pub(crate) const MARKER: &str = "made-by-stook-study";

/// The lock on a place, until it is dropped: a `flock` on the directory itself, which leaves no
/// file, and ends with the program whatever ends it.
#[derive(Debug)]
pub struct PlaceLock {
    path: PathBuf,
    /// `None` where the file system cannot lock a directory, like some of networks.
    held: Option<File>,
}

impl PlaceLock {
    /// Takes the lock on a directory, at once or not at all.
    ///
    /// # Errors
    /// Returns an error if a study works there already, with its number where that is known, or if
    /// the directory cannot be opened.
    pub fn take(path: &Path) -> anyhow::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let context = || format!("cannot open {}", path.display());
        let held = File::from(rustix::fs::open(path, flags, Mode::empty()).with_context(context)?);
        let path = path.to_owned();
        match flock(&held, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { path, held: Some(held) }),
            Err(Errno::AGAIN) => {
                let metadata = held.metadata().with_context(context)?;
                let by = match holder(&fs::read_to_string("/proc/locks").unwrap_or_default(), &metadata) {
                    Some(process) => format!("process {process}"),
                    None => "another process".to_owned(),
                };
                bail!("{}: a study is running there ({by}): let it end, or use another place", path.display())
            }
            Err(Errno::NOTSUP | Errno::BADF | Errno::INVAL | Errno::NOLCK) => Ok(Self { path, held: None }),
            Err(error) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
        }
    }

    /// The locks on several directories, each once.
    ///
    /// # Errors
    /// Returns the errors of [`PlaceLock::take`].
    pub fn take_all<'a>(paths: impl IntoIterator<Item = &'a Path>) -> anyhow::Result<Vec<Self>> {
        let (mut seen, mut locks) = (Vec::new(), Vec::new());
        for path in paths {
            let metadata =
                fs::metadata(path).with_context(|| format!("cannot look at {}", path.display()))?;
            let identity = (metadata.dev(), metadata.ino());
            if !seen.contains(&identity) {
                seen.push(identity);
                locks.push(Self::take(path)?);
            }
        }
        Ok(locks)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PlaceLock {
    fn drop(&mut self) {
        // Closing would leave it to a child that was just forked.
        if let Some(held) = &self.held {
            let _ = flock(held, FlockOperation::Unlock);
        }
    }
}

/// The process that holds a `flock`, out of the list of the kernel.
fn holder(locks: &str, of: &fs::Metadata) -> Option<u32> {
    let device = of.dev();
    let file = format!("{:02x}:{:02x}:{}", rustix::fs::major(device), rustix::fs::minor(device), of.ino());
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_it = fields.get(1) == Some(&"FLOCK") && fields.get(5) == Some(&file.as_str());
        is_it.then(|| fields.get(4)?.parse().ok())?
    })
}

/// Says by its name whether a file of a directory was made by a study.
pub(crate) type IsOwn = fn(&str) -> bool;

/// A directory that is made for a run, for nobody but its user, and is removed with it.
#[derive(Debug)]
pub(crate) struct OwnDirectory {
    path: PathBuf,
    is_own: IsOwn,
}

impl OwnDirectory {
    /// Makes it. What a run left there that was killed is removed first.
    ///
    /// # Errors
    /// Returns an error if something else is there, of which nothing is touched, or if it cannot be
    /// made.
    pub(crate) fn make(path: PathBuf, is_own: IsOwn) -> anyhow::Result<Self> {
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                for file in left_in(&path, is_own)? {
                    fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
                }
            }
            other => other.with_context(|| format!("cannot make {}", path.display()))?,
        }
        // From here on it is ours.
        let own = Self { path, is_own };
        let marker = own.path.join(MARKER);
        let mut file =
            File::create_new(&marker).with_context(|| format!("cannot write {}", marker.display()))?;
        file.write_all(b"This directory was made by `stook study`, and is removed by it.\n")
            .with_context(|| format!("cannot write {}", marker.display()))?;
        Ok(own)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OwnDirectory {
    fn drop(&mut self) {
        // However the study ends. What cannot be removed is by the next run.
        let _ = remove_own(&self.path, self.is_own);
    }
}

/// The files of a directory that a study made, its marker last; none of an empty one.
///
/// # Errors
/// Returns an error if it is no directory, or if anything is in it that no study made.
fn left_in(directory: &Path, is_own: IsOwn) -> anyhow::Result<Vec<PathBuf>> {
    let shown = directory.display();
    let context = || format!("cannot list {shown}");
    // Not through a link.
    let metadata = fs::symlink_metadata(directory).with_context(context)?;
    ensure!(metadata.is_dir(), "{shown} is there, and no directory: it is left as it is");
    let (mut files, mut marker) = (Vec::new(), None);
    for entry in fs::read_dir(directory).with_context(context)? {
        let entry = entry.with_context(context)?;
        let name = entry.file_name();
        let is_file = entry.file_type().with_context(context)?.is_file();
        match name.to_str() {
            Some(MARKER) if is_file => marker = Some(entry.path()),
            Some(own) if is_file && is_own(own) => files.push(entry.path()),
            _ => bail!("{shown} has something else in it, which is left as it is: {}", name.display()),
        }
    }
    ensure!(
        marker.is_some() || files.is_empty(),
        "{shown} was not made by a study (it has no {MARKER}): it is left as it is"
    );
    Ok(files.into_iter().chain(marker).collect())
}

/// Removes what is ours in such a directory, and the directory if nothing else is in it.
fn remove_own(directory: &Path, is_own: IsOwn) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_file() && entry.file_name().to_str().is_some_and(is_own) {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_file(directory.join(MARKER))?;
    fs::remove_dir(directory)
}

/// Removes what killed runs of any study left in a place that is locked, and their control groups;
/// returns the directories that were removed. What has something else in it stays.
///
/// # Errors
/// Returns an error if something of theirs cannot be removed.
pub fn remove_left(place: &PlaceLock) -> anyhow::Result<Vec<PathBuf>> {
    bulk_copy::remove_left_groups();
    let mut removed = Vec::new();
    for (name, is_own) in bulk_copy::DIRECTORIES.into_iter().chain([solid_reads::DIRECTORY]) {
        let path = place.path().join(name);
        let is_left = left_in(&path, is_own).is_ok_and(|files| !files.is_empty());
        if is_left {
            remove_own(&path, is_own).with_context(|| format!("cannot remove {}", path.display()))?;
            removed.push(path);
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: IsOwn = |name| name == "data";

    #[test]
    fn a_place_is_used_by_one_at_a_time_and_the_other_is_refused_by_name() {
        let place = tempfile::tempdir().unwrap();
        let one = PlaceLock::take_all([place.path(), place.path()]).unwrap();
        assert_eq!(one.len(), 1, "the same directory is locked once");
        let error = PlaceLock::take(place.path()).unwrap_err().to_string();
        assert!(error.contains("a study is running there (") && error.contains("process"), "{error}");
        drop(one);
        PlaceLock::take(place.path()).unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "a lock leaves nothing");
    }

    #[test]
    fn the_holder_of_a_lock_is_found_in_the_list_of_the_kernel() {
        let metadata = fs::metadata("/").unwrap();
        let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
        let file = format!("{major:02x}:{minor:02x}:{}", metadata.ino());
        let list =
            format!("1: POSIX  ADVISORY  READ 5 {file} 0 EOF\n2: FLOCK  ADVISORY  WRITE 42 {file} 0 EOF\n");
        assert_eq!(holder(&list, &metadata), Some(42));
        assert_eq!(holder("2: FLOCK  ADVISORY  WRITE 42 00:00:1 0 EOF\n", &metadata), None);
    }

    /// Before: what was refused was removed all the same, with the directory.
    #[test]
    fn what_no_study_made_is_refused_and_stays() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("own");
        let foreign: [(&str, &[&str]); 5] = [
            ("another file", &["thesis.txt"]),
            ("without the marker", &["data"]),
            ("beside the marker", &[MARKER, "thesis.txt"]),
            ("a directory of that name", &[MARKER, "data/"]),
            ("a directory, and no marker", &["data/"]),
        ];
        for (what, names) in foreign {
            fs::create_dir(&path).unwrap();
            for name in names {
                match name.strip_suffix('/') {
                    Some(directory) => fs::create_dir(path.join(directory)).unwrap(),
                    None => fs::write(path.join(name), "precious").unwrap(),
                }
            }
            OwnDirectory::make(path.clone(), OWN).unwrap_err();
            for name in names {
                assert!(path.join(name).exists(), "{what}: {name}");
            }
            fs::remove_dir_all(&path).unwrap();
        }
        fs::create_dir(place.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        OwnDirectory::make(path.clone(), OWN).unwrap_err();
        assert!(path.is_symlink());
    }

    #[test]
    fn what_was_made_is_private_and_goes_and_what_came_since_stays() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("own");
        // An empty one is that of a run that was killed before its marker was written.
        fs::create_dir(&path).unwrap();
        drop(OwnDirectory::make(path.clone(), OWN).unwrap());
        assert!(!path.exists());
        let own = OwnDirectory::make(path.clone(), OWN).unwrap();
        assert_eq!(own.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(path.join("data"), "ours").unwrap();
        // Of a run that was killed.
        std::mem::forget(own);
        let own = OwnDirectory::make(path.clone(), OWN).unwrap();
        assert!(!path.join("data").exists());
        fs::write(path.join("data"), "ours").unwrap();
        fs::write(path.join("notes"), "theirs").unwrap();
        drop(own);
        assert!(path.join("notes").exists() && !path.join("data").exists());
    }

    #[test]
    fn what_a_killed_run_of_any_study_left_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        for (name, own) in [("stook-bulk-copy-source", "data"), ("stook-solid-reads", "file")] {
            let made = place.path().join(name);
            fs::create_dir(&made).unwrap();
            fs::write(made.join(MARKER), "").unwrap();
            fs::write(made.join(own), "left").unwrap();
        }
        let foreign = place.path().join("stook-bulk-copy-copies");
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("data"), "precious").unwrap();
        let lock = PlaceLock::take(place.path()).unwrap();
        assert_eq!(remove_left(&lock).unwrap().len(), 2);
        assert_eq!(remove_left(&lock).unwrap().len(), 0);
        assert!(foreign.join("data").exists());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }
}
