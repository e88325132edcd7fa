//! Any tree of files as a read-only file system, by FUSE.
//!
//! [`Mounted::new`] mounts a [`Tree`](stook::tree::Tree): a directory, a pack, an archive, what a
//! layout describes, several as one. Programs read it as any other directory; what would write is
//! refused by the kernel (`EROFS`). [`unmount`] ends it from outside, and [`status_of`] asks it
//! what it did.
//!
//! What is asked for is read by the threads that take requests, several at a time. A tree that
//! never changes (a pack at one generation, an archive) is cached by the kernel for as long as that
//! likes, and small files are *pushed*: after the first read in a directory that was listed, the
//! others in it, and in those listed after it, are put into the page cache before they are asked
//! for. Pages that the kernel drops again are simply read.

mod attach;
mod attributes;
mod error;
mod filesystem;
mod follow;
mod listing;
mod log;
mod mounted;
mod mountpoint;
mod opened;
mod push;
mod reading;
mod shared;
mod snapshots;
mod status;
mod survey;
mod waiting;
mod workers;

pub use error::{Error, Result};
pub use mounted::{MountOptions, Mounted};
pub use mountpoint::{unmount, unmount_after};
pub use status::{Hidden, Merged, Mode, Pushed, Requests, Status, status_of};
