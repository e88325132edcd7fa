//! Reading clusters of files, by one reader and by several.

use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::Stopping;
use super::cluster::{Cluster, ClusterPart};
use super::model::{FileCost, TogetherCost};
use crate::engine::{self, CacheResidency, drop_system_caches};
use crate::extent::ByteRange;

/// What one read asks for.
const BUFFER_LEN: usize = 1 << 20;

/// How much is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadBounds {
    /// Of a file; the rest of it is taken to be like its beginning.
    pub(super) file_bytes: u64,
    /// After this no further file of a cluster is begun.
    pub(super) cluster_s: f64,
    /// Files that are read first and not counted, of a cluster that is twice as long: they pay for
    /// blocks of inodes and directories that a reader of all of the tree has in memory by then.
    pub(super) warm_up_files: usize,
    /// And no more than until they have that many bytes.
    pub(super) warm_up_bytes: u64,
}

impl ReadBounds {
    /// Without what was read first.
    fn counted(self, mut costs: Vec<FileCost>) -> Vec<FileCost> {
        let mut bytes = 0;
        let is_first = |cost: &&FileCost| {
            bytes += cost.read_bytes;
            bytes < self.warm_up_bytes
        };
        let first = costs.iter().take(self.warm_up_files).take_while(is_first).count();
        if costs.len() >= 2 * first {
            costs.drain(..first);
        }
        costs
    }
}

/// Whether files are read from the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Coldness {
    /// The caches of the system are emptied before.
    Cold,
    /// They are not, for this reason: what is read may be in memory.
    Warm(String),
}

impl Coldness {
    /// What this process may do. `keep_caches` asks for the second.
    pub(super) fn found(keep_caches: bool) -> Self {
        if keep_caches {
            return Self::Warm("caches were to be left alone".into());
        }
        match drop_system_caches() {
            Ok(()) => Self::Cold,
            Err(error) => Self::Warm(crate::error::chain(&error)),
        }
    }

    /// Empties them, if they may be.
    ///
    /// # Errors
    /// When that fails after all.
    pub(super) fn prepare(&self) -> crate::Result<()> {
        match self {
            Self::Cold => drop_system_caches(),
            Self::Warm(_) => Ok(()),
        }
    }
}

/// One reader: a directory is listed, then its files are opened, read and closed, one after the
/// other. Files that cannot be read, or are gone, are counted in `missed`.
pub(super) fn read_alone(
    cluster: &Cluster,
    number: usize,
    bounds: ReadBounds,
    stopping: Stopping<'_>,
    missed: &mut u64,
) -> Vec<FileCost> {
    let mut costs = Vec::with_capacity(cluster.len());
    let mut buffer = vec![0; BUFFER_LEN];
    // A reader of all of the tree has been in the directories above.
    if let Some(above) = cluster.parts.first().and_then(|part| part.directory.parent()) {
        let _known = fs::metadata(above);
    }
    let begun = Instant::now();
    let limit = Duration::from_secs_f64(bounds.cluster_s);
    for part in &cluster.parts {
        let Ok(list_s) = listing(part) else {
            *missed += part.files.len() as u64;
            continue;
        };
        // A directory that is read in part is listed in part.
        let share_s = list_s / part.entries.max(part.files.len()).max(1) as f64;
        for (name, len) in &part.files {
            if stopping() || begun.elapsed() > limit {
                return bounds.counted(costs);
            }
            let opened = Instant::now();
            match read(&part.directory.join(name), bounds.file_bytes, &mut buffer) {
                Ok(read_bytes) => {
                    let seconds = opened.elapsed().as_secs_f64() + share_s;
                    costs.push(FileCost { cluster: number, len: *len, read_bytes, seconds });
                }
                Err(_) => *missed += 1,
            }
        }
    }
    bounds.counted(costs)
}

/// How long listing a directory takes.
fn listing(part: &ClusterPart) -> io::Result<f64> {
    let begun = Instant::now();
    for entry in fs::read_dir(&part.directory)? {
        black_box(entry?.file_type()?.is_dir());
    }
    Ok(begun.elapsed().as_secs_f64())
}

/// Several readers, each with the next file of all of them.
pub(super) fn read_together(
    clusters: &[Cluster],
    readers: usize,
    bounds: ReadBounds,
    stopping: Stopping<'_>,
    missed: &mut u64,
) -> TogetherCost {
    let files: Vec<_> = clusters.iter().flat_map(Cluster::files).collect();
    let (next, read_bytes, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()), AtomicUsize::new(0));
    let begun = Instant::now();
    let limit = Duration::from_secs_f64(bounds.cluster_s);
    thread::scope(|scope| {
        for _ in 0..readers.min(files.len()).max(1) {
            let work = || {
                let (mut own, mut buffer) = (Vec::new(), vec![0; BUFFER_LEN]);
                while let Some((path, _)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if stopping() || begun.elapsed() > limit {
                        break;
                    }
                    match read(path, bounds.file_bytes, &mut buffer) {
                        Ok(bytes) => own.push(bytes),
                        Err(_) => _ = failed.fetch_add(1, Ordering::Relaxed),
                    }
                }
                read_bytes.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
            };
            // With fewer threads than asked for it is slower, and that is what is reported.
            if thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, work).is_err() {
                break;
            }
        }
    });
    let seconds = begun.elapsed().as_secs_f64();
    *missed += failed.into_inner() as u64;
    let read_bytes = read_bytes.into_inner().unwrap_or_else(PoisonError::into_inner);
    TogetherCost { readers, read_bytes, seconds }
}

/// Opens what is a regular file and no link, without waiting for anybody.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")),
    }
}

/// Reads a file, but for what is longer than `most`; how much that was.
fn read(path: &Path, most: u64, buffer: &mut [u8]) -> io::Result<u64> {
    let mut file = open(path)?;
    let mut done = 0;
    while done < most {
        match file.read(buffer) {
            Ok(0) => break,
            Ok(got) => done += got as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        black_box(&buffer);
    }
    Ok(done)
}

/// What the system says of files without reading them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Lying {
    /// Files that it was asked about.
    pub(super) files: u64,
    /// Bytes of those of which it said how much is in memory.
    pub(super) asked_bytes: u64,
    /// Of these, in memory.
    pub(super) cached_bytes: u64,
    /// Files of which it said in how many pieces they lie on the medium.
    pub(super) mapped_files: u64,
    /// Pieces of these.
    pub(super) extents: u64,
}

impl Lying {
    /// Asks about the files of a cluster.
    pub(super) fn add(&mut self, cluster: &Cluster) {
        for (path, _) in cluster.files() {
            let Ok(file) = open(&path) else { continue };
            let len = file.metadata().map_or(0, |metadata| metadata.len());
            self.files += 1;
            if let Ok(Some(extents)) = engine::extents_of(&file) {
                self.mapped_files += 1;
                self.extents += u64::from(extents);
            }
            let file = engine::File::from_std(file, path, false);
            if let CacheResidency::Known { cached_bytes, .. } = CacheResidency::of(&file, ByteRange::to(len))
            {
                self.asked_bytes += len;
                self.cached_bytes += cached_bytes;
            }
        }
    }

    /// The share of bytes that is in memory, where that is known.
    pub(super) fn cached_share(&self) -> Option<f64> {
        (self.asked_bytes > 0).then(|| self.cached_bytes as f64 / self.asked_bytes as f64)
    }

    /// Pieces of a file on average, where that is known.
    pub(super) fn extents_mean(&self) -> Option<f64> {
        (self.mapped_files > 0).then(|| self.extents as f64 / self.mapped_files as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::cluster::Bounds;
    use super::*;

    const BOUNDS: ReadBounds =
        ReadBounds { file_bytes: 1000, cluster_s: 60.0, warm_up_files: 0, warm_up_bytes: 0 };

    fn filled() -> (tempfile::TempDir, Cluster) {
        let tree = tempfile::tempdir().unwrap();
        for number in 0..20 {
            fs::write(tree.path().join(number.to_string()), vec![1; 100 * number]).unwrap();
        }
        let cluster = Cluster::whole(tree.path(), Bounds { files: 100, bytes: 1 << 20 });
        (tree, cluster)
    }

    #[test]
    fn every_file_is_read_once_and_long_ones_in_part() {
        let (_tree, cluster) = filled();
        let mut missed = 0;
        let costs = read_alone(&cluster, 3, BOUNDS, &|| false, &mut missed);
        assert_eq!((costs.len(), missed), (20, 0));
        assert!(costs.iter().all(|cost| cost.cluster == 3 && cost.seconds > 0.0));
        // One read may give more than is asked of a file, and never more than a buffer.
        assert!(costs.iter().all(|cost| cost.read_bytes == cost.len));
        let seen = read_together(std::slice::from_ref(&cluster), 4, BOUNDS, &|| false, &mut missed);
        assert_eq!((seen.read_bytes.len(), missed), (20, 0));
    }

    #[test]
    fn what_changed_meanwhile_is_missed_and_never_waited_for() {
        let (tree, cluster) = filled();
        fs::remove_file(tree.path().join("3")).unwrap();
        fs::remove_file(tree.path().join("4")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, tree.path().join("4"), rustix::fs::Mode::RUSR).unwrap();
        fs::remove_file(tree.path().join("5")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", tree.path().join("5")).unwrap();
        let mut missed = 0;
        assert_eq!(read_alone(&cluster, 0, BOUNDS, &|| false, &mut missed).len(), 17);
        assert_eq!(missed, 3);
        let seen = read_together(std::slice::from_ref(&cluster), 2, BOUNDS, &|| false, &mut missed);
        assert_eq!((seen.read_bytes.len(), missed), (17, 6));
        let mut lying = Lying::default();
        lying.add(&cluster);
        assert_eq!(lying.files, 17);
    }

    #[test]
    fn what_is_read_first_is_not_counted_where_enough_follows() {
        let cost = |_| FileCost { cluster: 0, len: 100, read_bytes: 100, seconds: 1.0 };
        let costs = || (0..20).map(cost).collect::<Vec<FileCost>>();
        let left = |warm_up_files, warm_up_bytes| {
            ReadBounds { warm_up_files, warm_up_bytes, ..BOUNDS }.counted(costs()).len()
        };
        assert_eq!((left(0, 0), left(8, 1 << 20), left(8, 501)), (20, 12, 15));
        assert_eq!(left(15, 1 << 20), 20, "too little would be left");
    }

    #[test]
    fn a_caller_may_end_it() {
        let (_tree, cluster) = filled();
        assert!(read_alone(&cluster, 0, BOUNDS, &|| true, &mut 0).is_empty());
        assert!(read_together(&[cluster], 2, BOUNDS, &|| true, &mut 0).read_bytes.is_empty());
    }
}
