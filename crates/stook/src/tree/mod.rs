//! Trees of files: what they are to everything that lists, copies or reads them ([`Tree`]), the
//! names and nodes of those that are known as a whole ([`NodeTable`]), several as one ([`Union`]),
//! and what comes out of one: a directory out of which nothing can lead ([`Folder`]), and files
//! that get their names when they are whole.

pub(crate) mod acl;
pub(crate) mod ahead;
mod any;
mod chain;
pub(crate) mod descent;
pub(crate) mod descriptors;
mod draft;
pub(crate) mod durable;
pub(crate) mod existing;
mod facts;
pub(crate) mod filling;
mod gather;
pub(crate) mod gone;
mod granularity;
pub(crate) mod history;
mod holes;
pub(crate) mod new_lists;
mod node;
pub mod outbox;
mod page;
pub(crate) mod parts;
pub(crate) mod paths;
pub(crate) mod room;
mod table;
pub(crate) mod target;
mod union;
pub(crate) mod unpack;
mod unpacked;
pub(crate) mod xattrs;

pub(crate) use ahead::gather_opened_ahead;
pub use any::Tree;
pub(crate) use any::{find_below, foreign_cursor, not_a_directory, not_a_file, unknown};
pub use draft::{Draft, Finished, Folder, Refused, Write, is_open_file};
pub use existing::Overwrite;
pub use facts::Fact;
pub(crate) use gather::gather_by_session;
pub use gather::{BodyPiece, Deliver, GatherOptions, Gathered};
pub(crate) use gather::{Next, Span, Supply, gather_supplied};
pub use holes::Holes;
pub(crate) use holes::{HOLES_MAX, Part};
pub use node::{InodeState, Kind, Node, NodeId, Outline};
pub use page::{Cursor, Entry, PAGE_LEN, Page};
pub use table::{NodeTable, NodeTableBuilder};
pub use target::{is_pack, remove_if_empty};
pub use union::{CaseRule, Layer, Union};
pub(crate) use unpacked::SelectKeys;
pub use unpacked::{Failure, Kept, UnpackSummary, UnsetXattrs, WhyKept};
pub use xattrs::{XATTRS_LEN_MAX, Xattr, Xattrs};
