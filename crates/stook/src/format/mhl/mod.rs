//! ASC MHL v2: the hash lists of the film industry. A directory that has some keeps them in
//! [`FOLDER`] within it, one list for each generation, and a chain that has their C4.
//!
//! [`MhlReader`] takes a list from anything that is read forwards, in bounded memory, and
//! [`MhlWriter`] writes one; [`Chain`] is the chain, and [`FolderHash`] computes what a list says
//! of directories. `docs/formats/asc-mhl.md` lays it down.

mod chain;
mod fault;
mod folder;
mod list;
mod names;
mod read;
mod write;
mod xml;

pub use chain::{Chain, ChainEntry};
pub use fault::{BadRecord, MhlError, MhlFault};
pub use folder::{FolderDigests, FolderHash};
pub use list::{
    MhlAction, MhlAuthor, MhlCreator, MhlDigest, MhlDirectory, MhlFile, MhlHead, MhlItem, MhlProcess,
    MhlReference,
};
pub use names::{CHAIN_NAME, FOLDER, KINDS, checked_kinds, generation_of, list_name};
pub use read::MhlReader;
pub use write::MhlWriter;
