//! What is in a pack, for callers that show it or make files of it: lists, what lies below a
//! directory, kinds, hard links, file names, and what was put since an earlier state.
//!
//! This room never reads the body of a file in order to list it, and never touches a file system.

pub(crate) mod children;
pub(crate) mod file_names;
pub(crate) mod follow;
pub(crate) mod hard_links;
pub(crate) mod kinds;
pub(crate) mod listing;
