//! Files that do not exist: their bytes are those of other files, or computed when they are read.
//!
//! A [`VirtualFile`] is a list of [`Pieces`]: parts of other files, bytes, one byte repeated, and
//! what is computed where it is read. It is a [`Source`](crate::source::Source) like any other. A
//! [`Layout`] says what its pieces are: [`Raw`], [`Tar`], [`Zip`], [`Afs`] and [`Safetensors`] lay
//! out the [`Members`] of trees without reading any of them. What was laid out can be
//! [described](VirtualFile::describe) by a short file, and [opened](OpenedLayout) by that later.
//! A [`MergedCache`] keeps copies of small ones of many parts.
//!
//! ```
//! use std::sync::Arc;
//!
//! use stook::extent::ByteRange;
//! use stook::stitch::{Layout as _, Members, Tar};
//! use stook::walk::DirectoryTree;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # std::fs::write(directory.path().join("note"), "a note")?;
//! let tree = DirectoryTree::open(directory.path())?;
//! let mut members = Members::new();
//! members.add_tree(Arc::new(tree), true, b"", &mut |_| true)?;
//! let tar = Tar { deterministic: true }.lay_out("notes.tar".into(), members)?;
//! assert_eq!(tar.file.read_at(ByteRange::new(512, 518).ok_or("it is one")?)?, "a note");
//! # Ok(())
//! # }
//! ```
//!
//! How it works: `docs/internals/stitch.md`.

mod afs;
mod bodies;
mod crcs;
mod described;
mod error;
mod file;
mod held;
mod index;
mod layout;
mod members;
mod merged;
mod opened;
mod part;
mod patch;
mod paths;
mod pieces;
mod raw;
mod routes;
mod safetensors;
mod stated;
mod tar;
mod wds;
mod writing;
mod zip;

pub use afs::Afs;
pub use bodies::Bodies;
pub use error::{Error, Result};
pub use file::{Parts, VirtualFile};
pub use layout::{Laid, Layout};
pub use members::{Changed, Member, Members};
pub use merged::{
    MadeBy, MergeRule, MergedCache, MergedCacheOptions, MergedFile, MergedOpener, MergedStatistics,
    MergedUse, Purged,
};
pub use opened::{OpenedLayout, Outdated, is_layout_file};
pub use patch::Patch;
pub use pieces::Pieces;
pub use raw::Raw;
pub use routes::{RouteFolder, Routed, RoutedFile, Routes, UnusedRoute, routed};
pub use safetensors::Safetensors;
pub use tar::Tar;
pub use wds::Wds;
pub use zip::Zip;
