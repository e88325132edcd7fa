//! The contents of packs, archives and layouts: listed, read by key and loaded in one way.
//!
//! [`open`] alone decides which of them a path or an address is. A layout is an archive whose
//! members are the files that it describes. An archive may also be an
//! object on a server (`https://…/x.zip`, `s3://…/x.tar`). [`Contents`] is what both support; what
//! an archive lacks is a [`Feature`], and requesting it is an error. Lists and bodies are pulled:
//! callers keep their own errors, and can stop at any point.
//!
//! ```no_run
//! use stook::ops::contents::{self, ListOptions, Listed};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let opened = contents::open("photos.tar", Default::default(), &mut |_| true)?;
//! for batch in opened.contents().list(&ListOptions::default())? {
//!     for listed in batch? {
//!         match listed {
//!             Listed::Entry(entry) => println!("{}", entry.key),
//!             Listed::Hidden(damage) => eprintln!("{damage}"),
//!         }
//!     }
//! }
//! # Ok(()) }
//! ```

mod address;
mod archives;
mod body;
mod cached;
mod error;
mod get;
mod list;
mod load;
mod owned;
mod packs;
mod patterns;
mod ranges;
mod select;
mod values;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use address::{Place, place_of};
pub use address::{file_of_layout, has_pack, is_object, is_on_disk, split_member, split_pack_path};
pub use archives::{MemberCounts, cut_off_note, index_notes};
pub use body::{BATCH_LEN, BLOCK_LEN, Body, BodyError, BodyReader, PastEnd, Span, batches};
pub use cached::{Cached, SourceSpan, files_of};
pub use error::{Error, Feature, Result, Unsupported};
pub use get::{Failure, Found, GetOptions, Getting, Missing, Piece, check_room};
pub use list::{Detail, Entry, ListOptions, Listed, Listing};
pub use load::{LoadEvents, LoadOptions, LoadReport, LoadWatch, OnLoaded, Part};
pub use owned::{OwnedFiles, OwnedKeys, OwnedRows, count, is_equal};
pub use packs::PackContents;
pub use patterns::KeyPatterns;
pub use ranges::read_ranges;
pub use select::{Matching, Selected, Unselected};
pub use values::{HOLE_BYTES_MAX, ValueError, next_value, values};

use crate::archive::{self, Archive};
use crate::extent::ByteRange;
use crate::pack::{self, Key, Pack};
use crate::source::{self, Inodes, Source};
use crate::sparse::{DiskCache, SparseBuffer, SparseFile, SparseFileOptions, SparseOptions};
use crate::stitch::{OpenedLayout, is_layout_file};

/// Keys that are looked up together.
const KEYS_PER_GET: usize = 4096;

/// The memory for an object that is cached on disk: for requests in flight, and more.
const HELD_BYTES: u64 = 128 << 20;

/// Failures beside the listed ones, where all of something is given out: 1 if making it was not
/// completed, so that anything may be missing. Operations that give out only what was asked for by
/// name do not count it.
pub(super) fn undone(is_complete: bool) -> u64 {
    u64::from(!is_complete)
}

/// Something whose entries are listed and read by key.
pub trait Contents: fmt::Debug + Sync {
    /// The path by which it was opened.
    fn path(&self) -> &Path;

    /// The name of its entries: a record, a member.
    fn entry_name(&self) -> &'static str;

    /// Whether entries can only be read in their order, from the first one on.
    fn is_sequential(&self) -> bool;

    /// Notes the files on disk that it is read from, as [`Source::note_files`] does; those of a
    /// pack are in its directory, in which nothing else is written.
    fn note_files(&self, _files: &mut Inodes) {}

    /// Whether making it was completed: a pack by the run that built it, an archive with the end
    /// that its format wants. If not, anything may be missing.
    fn is_complete(&self) -> bool;

    /// The sources, and the ranges of them, that loading these groups (all if empty) reads.
    fn spans(&self, groups: &[String]) -> Vec<(Arc<dyn Source>, ByteRange)>;

    /// Checks that it has these features.
    ///
    /// # Errors
    /// Returns [`Unsupported`], with the first feature that it lacks.
    fn check_features(&self, features: &[Feature]) -> Result<(), Unsupported>;

    /// Checks that every requested group exists: a misspelt one would look empty.
    ///
    /// # Errors
    /// Returns [`Error::NoSuchGroup`], or [`Unsupported`] if there are no groups.
    fn check_groups(&self, groups: &[String]) -> Result<()>;

    /// Lists entries, a batch at a time.
    ///
    /// # Errors
    /// Returns an error for unsupported options and missing groups, or if reading the start of the
    /// index fails.
    fn list<'a>(&'a self, options: &'a ListOptions) -> Result<Listing<'a>>;

    /// Gets entries by their keys: short ones many at a time, long ones in verified pieces.
    /// [`keys_per_get`](Self::keys_per_get) returns how many keys to pass at once.
    ///
    /// # Errors
    /// Returns an error for unsupported options and missing groups, or if looking up the keys
    /// fails.
    fn get<'a>(&'a self, keys: &'a [Key], options: &'a GetOptions) -> Result<Box<dyn Getting<'a> + 'a>>;

    /// How many keys to pass to [`get`](Self::get) at once: all, if that saves passes.
    fn keys_per_get(&self, options: &GetOptions) -> usize {
        match options.any_order && self.is_sequential() {
            true => usize::MAX,
            false => KEYS_PER_GET,
        }
    }

    /// Reads and verifies everything that the options select.
    ///
    /// # Errors
    /// Returns an error for unsupported options and missing groups, if reading fails, and
    /// [`Error::Interrupted`]. Damage is in the report.
    fn load(&self, options: &LoadOptions, events: &dyn LoadEvents) -> Result<LoadReport>;
}

/// How a path or an address is opened.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// For a pack.
    pub pack: pack::OpenOptions,
    /// For an archive.
    pub archive: archive::OpenOptions,
    /// For an object.
    #[cfg(feature = "remote")]
    pub remote: source::remote::RemoteOptions,
    /// The cache for fetched bytes of an object, if any.
    pub cache: Option<Arc<DiskCache>>,
}

/// Opened contents.
#[derive(Debug)]
pub enum Opened {
    /// A pack.
    Pack(Box<PackContents>),
    /// A tar or zip archive, or a layout.
    Archive(Box<Archive>),
}

impl Opened {
    /// What both kinds can do.
    pub fn contents(&self) -> &dyn Contents {
        match self {
            Self::Pack(contents) => &**contents,
            Self::Archive(archive) => &**archive,
        }
    }

    /// The pack, if these are the contents of one.
    pub fn pack(&self) -> Option<&Pack> {
        match self {
            Self::Pack(contents) => Some(contents.pack()),
            Self::Archive(_) => None,
        }
    }
}

/// Opens a pack, or an archive or a layout if it is not a directory, by its path or its address:
/// `file://…`, or an archive that is an object. An existing path is taken literally. `progress` is
/// called with the bytes read so far while an archive is indexed; indexing ends if it returns
/// `false`. After a layout and two slashes an archive may be named that it describes:
/// `x.toml//photos.tar`. An archive that is damaged after its first members is
/// [opened](archive::OpenOptions::partial) with these.
///
/// # Errors
/// Returns the errors of opening either; [`Unsupported`] if an earlier state of an archive is
/// requested; and [`Error::Interrupted`].
pub fn open(
    path: impl Into<PathBuf>,
    options: OpenOptions,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Opened> {
    let members = archive::OpenOptions { partial: true, ..options.archive.clone() };
    let wants_state = options.pack.at_ns.is_some() || options.pack.generation.is_some();
    let archive = match place_of(path.into()).map_err(archive::Error::Core)? {
        Place::Object(address) => {
            let object = open_object(&address, &options)?;
            Archive::from_source_with(object, members, progress)?
        }
        Place::Path(path) if !std::fs::metadata(&path).is_ok_and(|found| !found.is_dir()) => {
            match file_of_layout(&path) {
                Some((layout, file)) => open_file_of_layout(&layout, &file, members, progress)?,
                // The code for packs reports that nothing is there.
                None => {
                    let pack = Pack::open_path(&path, options.pack)?;
                    return Ok(Opened::Pack(Box::new(PackContents::new(pack, path))));
                }
            }
        }
        Place::Path(path) => open_file(&path, members, progress)?,
    };
    if wants_state {
        archive.check_features(&[Feature::EarlierStates])?;
    }
    Ok(Opened::Archive(Box::new(archive)))
}

/// Opens an archive on disk, or the files that a layout describes as one.
///
/// # Errors
/// Returns the errors of opening either.
pub(crate) fn open_file(
    path: &Path,
    options: archive::OpenOptions,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Archive> {
    if !is_layout_file(path).map_err(archive::Error::Core)? {
        return Ok(Archive::open_with(path, options, progress)?);
    }
    let layout = OpenedLayout::open(path)?;
    let files = layout.files().iter().map(|(name, range)| (name.as_slice(), *range));
    Ok(Archive::of_files(Arc::new(layout.whole().clone()), files, options)?)
}

/// Opens an archive that a layout describes.
fn open_file_of_layout(
    layout: &Path,
    file: &[u8],
    options: archive::OpenOptions,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Archive> {
    let files = open_file(layout, options.clone(), progress)?;
    let source = files.find(file).map(|member| files.source(&member)).transpose()?.flatten();
    let Some(source) = source else {
        let names = files.members(b"").map(|member| member.key.to_vec()).collect();
        let (path, name) = (layout.to_path_buf(), Some(file.to_vec()));
        return Err(crate::stitch::Error::Name { path, name, names }.into());
    };
    Ok(Archive::from_source_with(Arc::new(source), options, progress)?)
}

/// Opens an object, read through a cache on disk if there is one.
fn open_object(address: &Path, options: &OpenOptions) -> Result<Arc<dyn Source>> {
    #[cfg(feature = "remote")]
    let opened = source::open_with(address, &options.remote);
    #[cfg(not(feature = "remote"))]
    let opened = source::open(address);
    let object = opened.map_err(archive::Error::Core)?;
    let Some(cache) = &options.cache else { return Ok(object) };
    let held = SparseOptions { budget_bytes: HELD_BYTES, ..SparseOptions::default() };
    // These options are valid.
    let buffer = SparseBuffer::with_options(held).unwrap_or_default();
    let through =
        SparseFileOptions { disk: Some(Arc::clone(cache)), ..SparseFileOptions::of(object.as_ref()) };
    Ok(Arc::new(SparseFile::with_options(object, Arc::new(buffer), through)))
}

#[cfg(test)]
mod tests;
