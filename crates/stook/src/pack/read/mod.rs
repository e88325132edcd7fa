//! Reading: from ranges of a source to frames and records whose checksums were verified.
//!
//! This room never decides which records count. Which versions of a key are live is known to
//! [`state`](super::state); where a key is, to [`index`](super::index).

pub(crate) mod around;
pub(crate) mod batches;
pub(crate) mod frames;
pub(crate) mod gather;
pub(crate) mod gets;
pub(crate) mod held;
pub(crate) mod load;
pub(crate) mod mapped;
mod neighbours;
pub(crate) mod place;
pub(crate) mod reader;
pub(crate) mod record;
pub(crate) mod route;
pub(crate) mod source;
pub(crate) mod stream;
pub(crate) mod walker;
pub(crate) mod window;
