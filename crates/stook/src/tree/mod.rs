//! Trees of files that come out of something else: a directory out of which nothing can lead, and
//! files that get their names when they are whole.

mod draft;
pub(crate) mod existing;
pub(crate) mod filling;
pub(crate) mod room;
pub(crate) mod target;
mod unpacked;

pub use draft::{Draft, Folder, Refused};
pub use existing::Overwrite;
pub use target::{is_pack, remove_if_empty};
pub(crate) use unpacked::SelectKeys;
pub use unpacked::{Failure, UnpackSummary};
