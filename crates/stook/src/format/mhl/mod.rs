//! ASC MHL v2: the hash lists of the film industry. A directory that has some keeps them in
//! [`FOLDER`] within it, one for each generation, and a chain that names them with their C4.
//!
//! [`MhlReader`] takes a list from anything that is read forwards, in bounded memory; [`MhlWriter`]
//! writes one, the root hash last. [`Chain`] is the chain, [`FolderHash`] what the hashes of
//! directories are computed with. `docs/formats/asc-mhl.md` lays it down.

mod chain;
mod fault;
mod folder;
mod list;
mod names;
mod read;
mod write;
mod xml;

pub use chain::{Chain, ChainEntry};
pub use fault::MhlFault;
pub use folder::{FolderHash, FolderHashes};
pub use list::{
    Author, Creator, Generation, MhlAction, MhlDigest, MhlDirectory, MhlFile, MhlHead, MhlItem, MhlReference, Process,
};
pub use names::{CHAIN_NAME, FOLDER, GenerationName, KINDS, check_kinds};
pub use read::MhlReader;
pub use write::MhlWriter;
