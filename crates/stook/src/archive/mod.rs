//! Tar and zip archives, read where they lie.
//!
//! [`Archive::open`] detects what a file is by its content and has its members at hand by key: of a
//! plain tar through an index that is made in one pass and kept beside it (`NAME.stook-index`, laid
//! down in `docs/formats/archive-index-v2.md`). A member whose bytes lie in the file as they are is
//! a [source](crate::source::Source) like any other; [`Reading`] goes through many of them with
//! reads running ahead. [`Archive::from_source`] opens one that is no file: of an object on a
//! server the directory, or the headers, and members that lie beside each other come by few long
//! requests. [`Archive::tree`] shows one as a [tree of files](crate::tree::Tree).
//!
//! Of members with one key the last one counts, as when an archive is unpacked from its front.
//!
//! Archives are what others made, so nothing in them is believed: every length is checked before
//! anything is allocated or read by it, and what is wrong is reported with file and offset.

mod ahead;
mod compressed;
mod ends;
mod error;
mod format;
mod index;
mod input;
mod member;
mod open;
mod reading;
mod scan;
mod sidecar;
mod source;
mod stream;
pub mod tar;
mod tree;
#[cfg(unix)]
mod unpack;
pub mod zip;

pub use error::{Decoded, Error, Fault, Result};
pub use format::Format;
pub use index::{HEADER_LEN as INDEX_HEADER_LEN, Index, Summary};
pub use input::{Input, StreamInput};
pub use member::{Extent, KEY_LEN_MAX, Member, MemberKind, Method};
pub use open::{Archive, Members, OpenOptions, Origin, recognise};
pub use reading::{Piece, Reading};
pub use sidecar::SUFFIX;
pub use source::MemberSource;
pub use stream::{TarStream, tar_stream};
pub use tree::{ArchiveTree, HELD_BYTES_MAX};
#[cfg(unix)]
pub use unpack::{Failure, Unpack, UnpackSummary};
