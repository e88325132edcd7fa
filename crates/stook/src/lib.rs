//! Stook reads, lays out and measures data that lives in files, at the speed of the storage under
//! it.
//!
//! The crate has three layers, and imports between them point down only; from the bottom up:
//!
//! - **core**: [`extent`] (byte ranges and maps of them), [`plan`] (which reads serve which
//!   ranges), [`engine`] (executes reads and writes at a queue depth), [`source`] (anything that is
//!   read by range), [`storage`] (anything that publishes bytes), [`tree`] (anything that has files
//!   below names; writes files below a directory that nothing leads out of), [`walk`] (directories
//!   on disk, walked with many threads or as a tree), [`profile`] (what is known of the storage
//!   that holds something: how many reads at once, how long), [`names`] (names as text, and
//!   patterns on them), [`mod@format`] (what the bytes of tars, zips and lists of checksums mean),
//!   [`mod@hash`] (hashes of files), [`report`] (numbers people can trust), [`mod@error`] (the
//!   error of the core);
//! - **capabilities** built on it, which never import one another: [`pack`], [`archive`],
//!   [`mod@bench`], [`sparse`];
//! - **operations**, which may know several capabilities: [`ops`], one call for each thing that the
//!   command and the Python package offer.
//!
//! `docs/ARCHITECTURE.md` is the map, `docs/internals/` says how it works.
//!
//! # Packs
//!
//! Many small files in a few large ones: [`PackWriter`](pack::PackWriter) puts records,
//! [`Pack`](pack::Pack) gets them by key or scans them at the speed of the device.
//!
//! ```
//! use std::sync::Arc;
//!
//! use stook::pack::{Attributes, Key, OpenOptions, Pack, PackWriter, ScanOptions, WriterOptions};
//! use stook::storage::{LocalStorage, LocalStorageOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("photos.stook");
//! let storage = Arc::new(LocalStorage::create(&path, LocalStorageOptions::default())?);
//! let mut writer = PackWriter::create(storage, WriterOptions::default())?;
//! writer.put("", &Key::bytes("cat.jpg")?, &Attributes::new(), b"a picture")?;
//! writer.set_complete(true);
//! writer.finish(true)?;
//!
//! let pack = Pack::open_path(&path, OpenOptions::default())?;
//! let record = pack.get(&Key::bytes("cat.jpg")?)?.ok_or("it is there")?;
//! assert_eq!(&record.body[..], b"a picture");
//!
//! let mut scan = pack.scan(ScanOptions::default());
//! while let Some(record) = scan.next()? {
//!     let (key, body) = (record.key(), record.body().unwrap_or_default());
//!     println!("{key:?}: {} bytes", body.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Archives
//!
//! Members of tar and zip are found by key and read where they lie.
//!
//! ```
//! use stook::archive::{Archive, OpenOptions, Piece};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use stook::archive::{MemberKind, tar::write::{Head, end, padding}};
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("letters.tar");
//! # let (kind, key) = (MemberKind::File, b"2024/first.txt".as_slice());
//! # let head = Head { key, kind, mode: 0o644, mtime_ns: 0, owner: None, len: 5, link: b"", xattrs: &[] };
//! # let mut tar = [head.encode(), b"hello".to_vec(), padding(5)].concat();
//! # tar.extend(end(tar.len() as u64));
//! # std::fs::write(&path, tar)?;
//! let archive = Archive::open(&path, OpenOptions::default())?;
//! let member = archive.find(b"2024/first.txt").ok_or("it is there")?;
//! let mut reading = archive.read(vec![member.number])?;
//! let mut body = Vec::new();
//! while reading.next()?.is_some() {
//!     while let Some(piece) = reading.piece()? {
//!         match piece {
//!             Piece::Bytes(bytes) => body.extend_from_slice(bytes),
//!             Piece::Hole(len) => body.resize(body.len() + len as usize, 0),
//!         }
//!     }
//! }
//! assert_eq!(body, b"hello");
//! # Ok(())
//! # }
//! ```
//!
//! # Sparse files
//!
//! Parts of huge or remote files, through a cache that fetches only what is missing.
//! `stook::source::open("https://…")` (with the feature `remote`) returns a remote source.
//!
//! ```
//! use std::sync::Arc;
//!
//! use stook::source::MemorySource;
//! use stook::sparse::SparseFile;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = SparseFile::new(Arc::new(MemorySource::new("example", vec![7; 1 << 20])));
//! let mut bytes = [0; 4096];
//! assert_eq!(file.read_at(500_000, &mut bytes)?, 4096);
//! assert_eq!(file.read_at(500_100, &mut bytes[..100])?, 100);
//! assert_eq!(file.statistics().requests, 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Measuring
//!
//! A cell is one pattern, block size and depth. Its figures come with the checks that they passed,
//! and are valid only if none refutes them.
//!
//! ```
//! use stook::bench::{Bench, Pattern, Unobserved, Workload};
//! use stook::engine::Backend;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! let cell = Workload {
//!     pattern: Pattern::Random,
//!     block_size: 4096,
//!     depth: 4,
//!     ramp_s: 0.0,
//!     time_s: Some(0.1),
//!     ..Workload::default()
//! };
//! let bench = Bench {
//!     cells: vec![cell],
//!     rounds: 1,
//!     long_run_s: None,
//!     file_bytes: 4 << 20,
//!     keep: false,
//!     overwrite_file: false,
//!     overwrite_device: None,
//!     file_is_full: false,
//!     cold: false,
//! };
//! let result = bench.run(directory.path(), &Backend::Auto, &Unobserved)?;
//! for cell in &result.cells {
//!     println!("{:.0} requests a second: {:?}", cell.total.iops, cell.state);
//! }
//! # Ok(())
//! # }
//! ```

pub mod archive;
pub mod bench;
#[cfg(unix)]
pub mod copy;
pub mod device;
pub mod engine;
pub mod error;
pub mod extent;
pub mod format;
pub mod hash;
pub mod names;
#[cfg(unix)]
pub mod ops;
pub mod pack;
pub mod plan;
pub mod profile;
pub mod report;
pub mod source;
pub mod sparse;
#[cfg(unix)]
pub mod stitch;
pub mod storage;
#[cfg(unix)]
pub mod tree;
#[cfg(unix)]
pub mod verify;
#[cfg(unix)]
pub mod walk;

pub use error::{Error, Result};
