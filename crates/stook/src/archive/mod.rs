//! Tar and zip archives, read where they lie.
//!
//! [`Archive::open`] detects the format of a file by its content and finds its members by key: in a
//! plain tar through an index that is made in one pass and kept beside it (`NAME.stook-index`,
//! specified in `docs/formats/archive-index-v3.md`). A member that is stored uncompressed is a
//! [source](crate::source::Source) like any other; [`Reading`] goes through many of them with
//! read-ahead. [`Archive::from_source`] opens any other source: of an object on a server, the
//! directory or the headers, and adjacent members, are read by few long requests. [`Archive::tree`]
//! shows one as a [tree of files](crate::tree::Tree).
//!
//! Of members with one key the last one counts, as when an archive is unpacked from its front.
//!
//! Archives come from others, so nothing in them is trusted: every length is checked before
//! anything is allocated or read by it, and errors are reported with file and offset.

mod ahead;
mod compressed;
mod ends;
mod error;
mod format;
mod given;
mod index;
mod input;
mod member;
mod open;
mod reading;
mod scan;
mod sidecar;
mod source;
mod spool;
mod stream;
pub mod tar;
mod tree;
#[cfg(unix)]
mod unpack;
mod unpacked;
pub mod zip;

pub use error::{Decoded, Error, Fault, Result};
pub use format::Format;
pub use index::{HEADER_LEN as INDEX_HEADER_LEN, Index, Summary};
pub use input::{Input, StreamInput};
pub use member::{Extent, KEY_LEN_MAX, Member, MemberKind, Method};
pub use open::{Archive, Members, OpenOptions, Origin, recognise};
pub use reading::{Piece, Reading};
pub use sidecar::SUFFIX;
pub(crate) use sidecar::path_of as index_path;
pub use source::MemberSource;
pub use spool::{Spool, SpoolUse};
pub use stream::{TarStream, tar_stream};
pub use tree::ArchiveTree;
#[cfg(unix)]
pub use unpack::{Failure, Unpack, UnpackSummary};
pub use unpacked::CHECKED_FIRST_MAX;
