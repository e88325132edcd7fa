//! A small pack of files that were drawn, made for the time of the advice: what loading costs.

use std::fs::{self, DirBuilder};
use std::hint::black_box;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::cluster::Cluster;
use super::{AdviseError, Stopping, measure};
use crate::engine::File;
use crate::extent::ByteRange;
use crate::ops::contents;
use crate::ops::raw::read_raw;
use crate::pack::{self, Attributes, FileKind, Key, Pack, PackWriter, ScanOptions, WriterOptions};
use crate::storage::{LocalStorage, LocalStorageOptions};

/// What is read of a file at most, to be put.
const BODY_MAX: u64 = 32 << 20;

/// A pack that goes with this value.
#[derive(Debug)]
pub(super) struct SamplePack {
    directory: PathBuf,
    /// Records in it.
    pub(super) records: u64,
    /// Bytes of their bodies.
    pub(super) body_bytes: u64,
    /// Bytes of its files.
    pub(super) pack_bytes: u64,
    /// Making it, syncs included; its files may have been in memory.
    pub(super) made_s: f64,
}

/// What one load took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LoadCost {
    /// Opening.
    pub(super) open_s: f64,
    /// Opening, and every record, its checksum verified.
    pub(super) load_s: f64,
}

impl SamplePack {
    /// Makes one of the files of clusters, up to this many bytes, below a directory, in which
    /// nothing remains.
    ///
    /// # Errors
    /// When it cannot be written, and [`AdviseError::Interrupted`]. Files that cannot be read are
    /// left out.
    pub(super) fn make(
        work: &Path,
        tree: &Path,
        clusters: &[Cluster],
        bytes_max: u64,
        stopping: Stopping<'_>,
    ) -> Result<Self, AdviseError> {
        let chance = getrandom::u64().map_err(std::io::Error::other);
        let chance = chance.map_err(|error| crate::Error::io("name a directory in", work, error))?;
        let directory = work.join(format!(".stook-advise-{}-{chance:016x}", std::process::id()));
        let made = DirBuilder::new().mode(0o700).create(&directory);
        made.map_err(|error| crate::Error::io("create", &directory, error))?;
        // From here on it is removed, however this ends.
        let mut sample = Self { directory, records: 0, body_bytes: 0, pack_bytes: 0, made_s: 0.0 };
        let begun = Instant::now();
        sample.fill(tree, clusters, bytes_max, stopping)?;
        sample.made_s = begun.elapsed().as_secs_f64();
        for segment in sample.segments()? {
            sample.pack_bytes += segment.len()?;
        }
        Ok(sample)
    }

    fn fill(
        &mut self,
        tree: &Path,
        clusters: &[Cluster],
        bytes_max: u64,
        stopping: Stopping<'_>,
    ) -> Result<(), AdviseError> {
        let storage = Arc::new(LocalStorage::open(&self.directory, LocalStorageOptions::default())?);
        let mut writer = PackWriter::create(storage, WriterOptions::bulk())?;
        let mut body = Vec::new();
        for (path, _) in clusters.iter().flat_map(Cluster::files) {
            if stopping() {
                return Err(AdviseError::Interrupted);
            }
            if self.body_bytes >= bytes_max {
                break;
            }
            body.clear();
            let most = BODY_MAX.min(bytes_max - self.body_bytes);
            let Ok(file) = measure::open(&path) else { continue };
            let Ok(metadata) = file.metadata() else { continue };
            if file.take(most).read_to_end(&mut body).is_err() {
                continue;
            }
            let name = path.strip_prefix(tree).ok().filter(|name| !name.as_os_str().is_empty());
            let name = name.or(path.file_name().map(Path::new)).unwrap_or(&path);
            let key = Key::bytes(name.as_os_str().as_bytes())?;
            writer.put("", &key, &attributes(&metadata), &body)?;
            self.records += 1;
            self.body_bytes += body.len() as u64;
        }
        writer.set_complete(true);
        writer.finish(true)?;
        Ok(())
    }

    /// Loads it.
    ///
    /// # Errors
    /// When that fails.
    pub(super) fn load(&self) -> Result<LoadCost, AdviseError> {
        let begun = Instant::now();
        let pack = Pack::open_path(&self.directory, pack::OpenOptions::default())?;
        let mut scan = pack.scan(ScanOptions::default());
        let open_s = begun.elapsed().as_secs_f64();
        while let Some(record) = scan.next()? {
            match record.body() {
                Some(body) => _ = black_box(body),
                None => while black_box(scan.next_chunk()?).is_some() {},
            }
        }
        Ok(LoadCost { open_s, load_s: begun.elapsed().as_secs_f64() })
    }

    /// Bytes a second of its files, read past the page cache and discarded: the reference, which
    /// shows how far the device drifts.
    ///
    /// # Errors
    /// When they cannot be read, and [`AdviseError::Interrupted`].
    pub(super) fn reference_bytes_per_s(&self, stopping: Stopping<'_>) -> Result<f64, AdviseError> {
        let mut ranges = Vec::new();
        for file in self.segments()? {
            let len = file.len()?;
            ranges.push((Arc::new(file), ByteRange::to(len)));
        }
        let read = read_raw(&ranges, &mut |_| !stopping()).map_err(|error| match error {
            contents::Error::Interrupted => AdviseError::Interrupted,
            contents::Error::Pack(error) => AdviseError::Pack(error),
            error => AdviseError::Contents(error),
        })?;
        Ok(read.bytes as f64 / read.time.as_secs_f64().max(1e-9))
    }

    fn segments(&self) -> crate::Result<Vec<File>> {
        let failed = |error| crate::Error::io("list", &self.directory, error);
        let mut paths = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name().as_encoded_bytes().starts_with(b"segment-") {
                paths.push(entry.path());
            }
        }
        paths.sort();
        paths.iter().map(File::open).collect()
    }

    /// What a record takes in it besides its body.
    pub(super) fn overhead_bytes(&self) -> f64 {
        self.pack_bytes.saturating_sub(self.body_bytes) as f64 / self.records.max(1) as f64
    }
}

impl Drop for SamplePack {
    fn drop(&mut self) {
        // However the advice ends. What cannot be removed has a name that says whose it is.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn attributes(metadata: &fs::Metadata) -> Attributes {
    use std::os::unix::fs::MetadataExt as _;
    let node = crate::tree::Node {
        kind: crate::tree::Kind::File,
        mode: Some(metadata.mode() & 0o7777),
        mtime_ns: None,
        owner: None,
        len: metadata.len(),
        links: 1,
        device: 0,
    };
    Attributes::of_node(Some(FileKind::File), &node)
}

#[cfg(test)]
mod tests {
    use super::super::cluster::Bounds;
    use super::*;

    fn cluster(tree: &Path) -> Cluster {
        Cluster::whole(tree, Bounds { files: 1000, bytes: 1 << 30 })
    }

    #[test]
    fn what_is_packed_is_bounded_loads_and_leaves_nothing() {
        let (tree, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for number in 0..20 {
            fs::write(tree.path().join(number.to_string()), vec![number; 1000]).unwrap();
        }
        let clusters = [cluster(tree.path())];
        let sample = SamplePack::make(work.path(), tree.path(), &clusters, 10_500, &|| false).unwrap();
        assert_eq!((sample.records, sample.body_bytes), (11, 10_500));
        assert!(sample.pack_bytes > sample.body_bytes && sample.overhead_bytes() > 0.0);
        let cost = sample.load().unwrap();
        assert!(0.0 < cost.open_s && cost.open_s <= cost.load_s);
        assert!(sample.reference_bytes_per_s(&|| false).unwrap() > 0.0);
        drop(sample);
        assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0);
    }

    #[test]
    fn nothing_is_left_where_it_is_ended_or_cannot_be_written() {
        let (tree, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(tree.path().join("file"), "bytes").unwrap();
        let clusters = [cluster(tree.path())];
        let ended = SamplePack::make(work.path(), tree.path(), &clusters, 100, &|| true);
        assert!(matches!(ended, Err(AdviseError::Interrupted)));
        assert_eq!(fs::read_dir(work.path()).unwrap().count(), 0);
        let none = work.path().join("none");
        let error = SamplePack::make(&none, tree.path(), &clusters, 100, &|| false).unwrap_err();
        assert!(error.to_string().contains("none"), "{error}");
    }
}
