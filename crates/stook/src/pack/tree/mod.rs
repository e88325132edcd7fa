//! Trees of files into a pack, and out again; a pack as a tree.
//!
//! A tree becomes one record per entry: its key is the path relative to the root, as bytes; kind,
//! mode, modification time and (for root) owner are attributes. Links are never followed, in
//! neither direction.

mod comparing;
mod existing;
mod followed;
mod gone;
mod grouping;
mod moving;
mod names;
mod only_copies;
mod own_attributes;
mod packing;
mod paths;
mod record_tree;
mod records;
mod roots;
mod unpacking;

pub use followed::{Changes, Followed};
pub use gone::{Delete, Held};
pub use grouping::Grouping;
pub use moving::MoveSummary;
pub(crate) use only_copies::{has_content, refusal};
pub use own_attributes::OwnAttributes;
pub(crate) use own_attributes::add as add_own_attributes;
pub use packing::{Failure, PackSummary, PackTree};
pub use paths::{Paths, kind_of, symlink_target};
pub use record_tree::{Hidden, RecordTree};
pub(crate) use records::NewRecord;
pub use unpacking::{UnpackSummary, UnpackTree};
