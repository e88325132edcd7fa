//! Hashes of files: which there are, their values, their values as text, and computing several at
//! once.
//!
//! ```
//! use stook::hash::{Digest, HashKind, Hashing};
//!
//! let mut hashing = Hashing::new(&[HashKind::Sha256, HashKind::C4]);
//! hashing.take(b"pictures");
//! let digests = hashing.finish();
//! assert_eq!(Digest::parse(HashKind::C4, digests[1].to_string().as_bytes()).as_ref(), Ok(&digests[1]));
//! ```

#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]

mod c4;
mod digest;
mod hashing;
mod kind;
mod team;
mod tree;

pub use digest::{Digest, DigestError};
pub use hashing::Hashing;
pub use kind::HashKind;
pub(crate) use kind::each_once;
pub use team::HashingTeam;
pub(crate) use tree::{BlockTree, Pair, root_of_pair, value_of_block, value_of_pair};
