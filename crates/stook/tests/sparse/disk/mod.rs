//! Sources that are read through a cache on disk.

mod budget;
mod damage;
mod sharing;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use stook::Result;
use stook::extent::ByteRange;
use stook::source::{FileSource, Identity, Leaf, MemorySource, Origin, Source};
use stook::sparse::{
    CacheIndex, DiskCache, DiskCacheOptions, SparseFile, SparseFileOptions, SparseOptions, SparseStore,
};
use stook_testing::conformance::pattern;

use super::range;

/// Bytes in memory with an ETag, which counts what is asked of it.
#[derive(Debug)]
pub(crate) struct Tagged {
    inner: MemorySource,
    etag: Mutex<Arc<str>>,
    opened: Identity,
    asked: Mutex<Vec<ByteRange>>,
}

impl Tagged {
    pub(crate) fn new(name: &str, etag: &str, bytes: impl Into<Bytes>) -> Arc<Self> {
        let inner = MemorySource::new(name, bytes);
        let opened = Identity { etag: Some(etag.into()), ..inner.identity() };
        Arc::new(Self { inner, etag: Mutex::new(etag.into()), opened, asked: Mutex::default() })
    }

    pub(crate) fn asked(&self) -> Vec<ByteRange> {
        let mut asked = self.asked.lock().unwrap().clone();
        asked.sort();
        asked
    }
}

impl Source for Tagged {
    stook_testing::forward_source!(inner: path len);

    fn identity(&self) -> Identity {
        self.opened.clone()
    }

    fn current_identity(&self) -> Result<Identity> {
        Ok(Identity { etag: Some(self.etag.lock().unwrap().clone()), ..self.inner.identity() })
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        self.asked.lock().unwrap().push(range);
        self.inner.resolve(range, leaves)
    }
}

fn cache(directory: &Path, budget_bytes: u64) -> Arc<DiskCache> {
    DiskCache::open(directory, DiskCacheOptions { budget_bytes }).unwrap()
}

const PLENTY: u64 = 1 << 30;

/// The origin with this name.
fn named(name: &str) -> Origin {
    Origin::of_path(Path::new(name))
}

/// A file that reads nothing ahead.
fn file(source: Arc<Tagged>, cache: &Arc<DiskCache>) -> SparseFile {
    let mut options = SparseFileOptions { disk: Some(Arc::clone(cache)), ..SparseFileOptions::default() };
    options.ahead.max_window = 0;
    options.ahead.max_gap = 0;
    SparseFile::with_options(source, Arc::default(), options)
}

fn files(directory: &Path, end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.to_str().unwrap().ends_with(end)).collect()
}

fn disk_bytes(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().metadata().unwrap().blocks() * 512).sum()
}

#[test]
fn what_was_fetched_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = Bytes::from(pattern(5_000_000, 1));
    let parts = [range(0, 10), range(100_000, 300_001), range(4_999_990, 5_000_000)];
    let first = file(Tagged::new("a", "1", bytes.clone()), &cache(directory.path(), PLENTY));
    for part in parts {
        first.read(part).unwrap();
    }
    let source = Tagged::new("a", "1", bytes.clone());
    let cache = cache(directory.path(), PLENTY);
    let again = file(source.clone(), &cache);
    for part in parts {
        assert_eq!(again.read(part).unwrap(), bytes[part.start() as usize..part.end() as usize]);
    }
    assert_eq!(source.asked(), [], "nothing is fetched");
    let statistics = again.statistics();
    assert_eq!((statistics.requests, statistics.fetched_bytes, statistics.disk_failures), (0, 0, 0));
    assert_eq!(statistics.from_disk_bytes, 200_021, "each byte is read once");
    again.read(parts[1]).unwrap();
    assert_eq!(again.statistics().hits, 1, "and is in memory then");
    assert_eq!(cache.statistics().read_bytes, 200_021);
    // What is held of a range is not fetched with the rest of it.
    assert_eq!(again.read(range(50_000, 350_000)).unwrap(), bytes[50_000..350_000]);
    assert_eq!(source.asked(), [range(50_000, 100_000), range(300_001, 350_000)]);
}

#[test]
fn reading_ahead_leaves_out_what_is_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = Bytes::from(pattern(1 << 20, 1));
    let cache = cache(directory.path(), PLENTY);
    file(Tagged::new("a", "1", bytes.clone()), &cache).prefetch(&[range(20_000, 900_000)]).unwrap();
    let source = Tagged::new("a", "1", bytes.clone());
    let options = SparseFileOptions { disk: Some(cache), ..SparseFileOptions::default() };
    let again = SparseFile::with_options(source.clone(), Arc::default(), options);
    assert_eq!(again.read(range(10_000, 10_100)).unwrap(), bytes[10_000..10_100]);
    again.prefetch(&[range(0, 1 << 20)]).unwrap();
    assert_eq!(again.read(range(0, 1 << 20)).unwrap(), bytes);
    let asked = source.asked();
    assert!(asked.iter().all(|asked| asked.intersection(&range(20_000, 900_000)).is_none()), "{asked:?}");
    let statistics = again.statistics();
    assert_eq!(statistics.fetched_bytes + statistics.from_disk_bytes, 1 << 20, "nothing is had twice");
}

#[test]
fn bytes_that_memory_could_not_keep_come_back_from_disk() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = Bytes::from(pattern(3_000_000, 2));
    let source = Tagged::new("a", "1", bytes.clone());
    let store =
        SparseStore::new(SparseOptions { budget_bytes: 200_000, ..SparseOptions::default() }).unwrap();
    let disk = Some(cache(directory.path(), PLENTY));
    let options = SparseFileOptions { disk, ..SparseFileOptions::default() };
    let file = SparseFile::in_store(source.clone(), &store, "a", options).unwrap();
    for _ in 0..3 {
        for (at, part) in bytes.chunks(100_000).enumerate() {
            let mut out = vec![0; 100_000];
            assert_eq!(file.read_at(at as u64 * 100_000, &mut out).unwrap(), 100_000);
            assert_eq!(out, part);
        }
    }
    let asked: u64 = source.asked().iter().map(ByteRange::len).sum();
    assert_eq!(asked, 3_000_000, "each byte is fetched once");
    assert!(file.statistics().from_disk_bytes >= 5_000_000 && store.held_bytes() <= 200_000);
}

#[test]
fn another_state_of_a_source_begins_anew() {
    let directory = tempfile::tempdir().unwrap();
    let states = [("1", pattern(100_000, 1)), ("2", pattern(100_000, 2)), ("1", pattern(100_000, 1))];
    for (etag, bytes) in states {
        let cache = cache(directory.path(), PLENTY);
        let source = Tagged::new("a", etag, bytes.clone());
        assert_eq!(file(source.clone(), &cache).read(range(0, 100_000)).unwrap(), bytes);
        assert_eq!(source.asked(), [range(0, 100_000)], "{etag}: the bytes of the other are of no use");
        let names = (files(directory.path(), ".index").len(), files(directory.path(), ".data").len());
        assert_eq!(names, (1, 1), "and are gone");
    }
    let index = CacheIndex::decode(&fs::read(&files(directory.path(), ".index")[0]).unwrap()).unwrap();
    assert_eq!((index.name(), index.identity().etag.as_deref()), ("a", Some("1")));
    assert_eq!(index.ranges().collect::<Vec<_>>(), [range(0, 65_536), range(65_536, 100_000)]);
}

#[test]
fn a_source_that_changes_takes_what_is_on_disk_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let source = Tagged::new("a", "1", pattern(300_000, 1));
    let file = file(source.clone(), &cache(directory.path(), PLENTY));
    file.read(range(0, 100_000)).unwrap();
    assert_eq!(files(directory.path(), ".data").len(), 1);
    *source.etag.lock().unwrap() = "2".into();
    assert!(file.read(range(200_000, 200_001)).unwrap_err().is_changed_source());
    assert_eq!(files(directory.path(), ".data").len(), 0);
    assert!(file.read(range(0, 10)).unwrap_err().is_changed_source());
}

#[test]
fn sources_whose_states_cannot_be_told_apart_are_not_kept() {
    let directory = tempfile::tempdir().unwrap();
    let cache = cache(directory.path(), PLENTY);
    let options = SparseFileOptions { disk: Some(cache), ..SparseFileOptions::default() };
    let source = Arc::new(MemorySource::new("a", pattern(1000, 1)));
    SparseFile::with_options(source, Arc::default(), options.clone()).read(range(0, 1000)).unwrap();
    // So are files that may yet change within the tick of their times.
    let path = directory.path().join("file");
    fs::write(&path, pattern(1000, 1)).unwrap();
    let source = Arc::new(FileSource::open(&path).unwrap());
    SparseFile::with_options(source, Arc::default(), options).read(range(0, 1000)).unwrap();
    assert_eq!(files(directory.path(), ".index").len(), 0);
}

#[test]
fn a_directory_of_other_files_is_no_cache_and_stays_as_it_is() {
    let entry = "0123456789abcdef".repeat(4);
    let (index, data) = (format!("{entry}.index"), format!("{entry}.0123456789abcdef.data"));
    let (entry, index, data) = (entry.as_str(), index.as_str(), data.as_str());
    for (names, is_taken) in [
        (&["a.jpg"][..], false),
        (&[], true),
        (&["lost+found"], true),
        (&["a.jpg", "salt.txt", entry, "a.draft"], false),
        // As caches make them, but for what they say.
        (&["full/lock", "full/salt"], false),
        // Whatever an interrupted first opening left, or after files were removed.
        (&["lock"], true),
        (&["lock", "a.jpg"], true),
        (&["salt.0123456789abcdef.draft"], true),
        (&[index], true),
        (&[data, "a.jpg"], true),
    ] {
        let directory = tempfile::tempdir().unwrap();
        for name in names {
            match name.strip_prefix("full/") {
                Some(name) => fs::write(directory.path().join(name), "of somebody else").unwrap(),
                None => fs::write(directory.path().join(name), "").unwrap(),
            }
        }
        let opened = DiskCache::open(directory.path(), DiskCacheOptions::default());
        assert_eq!(opened.is_ok(), is_taken, "{names:?}");
        if let Err(refused) = opened {
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), names.len(), "{names:?}");
            let reported = stook::error::chain(&refused);
            assert!(reported.contains("it holds other files, and none of a cache"), "{reported}");
        } else {
            assert!(DiskCache::open(directory.path(), DiskCacheOptions::default()).is_ok(), "{names:?}");
        }
    }
}

#[test]
fn nobody_else_may_look_or_put_anything_there() {
    let directory = tempfile::tempdir().unwrap();
    let own = directory.path().join("deep/cache");
    let cache = cache(&own, PLENTY);
    file(Tagged::new("a", "1", pattern(1000, 1)), &cache).read(range(0, 1000)).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&own), 0o700);
    let names = fs::read_dir(&own).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    assert_eq!(names.len(), 4, "{names:?}");
    names.iter().for_each(|path| assert_eq!(mode(path), 0o600, "{path:?}"));
    fs::set_permissions(&own, fs::Permissions::from_mode(0o770)).unwrap();
    let refused = DiskCache::open(&own, DiskCacheOptions::default()).unwrap_err();
    assert_eq!(refused.io_kind(), Some(std::io::ErrorKind::PermissionDenied));
}
