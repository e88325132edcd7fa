//! File systems that fail on command, mounted by FUSE, which needs root. The program under test
//! runs as usual, through the kernel.
//!
//! [`FaultMount`] passes every operation on to a directory, counts it, and lets those fail that a
//! [`Rule`] names. It knows what was synced, so that a power cut can be tried
//! ([`FaultMount::lose_unsynced`]). [`Mirror`] is the same, read-only, with bad sectors.
//!
//! Files without names (`O_TMPFILE`) are refused: the kernel can ask for them, and the crate that
//! serves the mount has no answer. Files get their names there by a rename, or a link.
//!
//! `syncfs` and `sync` are not passed on by the kernel: on such a mount they make nothing durable,
//! as on every FUSE file system.

mod durable;
mod mirror;
mod mount;
mod nodes;
mod passthrough;
mod script;
mod shared;
mod xattrs;

pub use mirror::Mirror;
pub use mount::FaultMount;
pub use script::{Fault, Files, Operation, Rule, Which};

/// Whether the kernel's page cache is used for the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageCache {
    /// Exactly the requested bytes are read: a read fails if it touches a bad byte, and only then.
    /// Such files cannot be mapped for sharing.
    Off,
    /// As with a real disk: the kernel reads ahead, and does not request cached bytes again. What
    /// is written goes to the file system at once. A short read is the end of the file.
    On,
}
