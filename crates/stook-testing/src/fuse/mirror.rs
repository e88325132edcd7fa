//! A file system with bad sectors.

use std::io;
use std::path::Path;

use stook::extent::ByteRange;

use super::PageCache;
use super::mount::FaultMount;
use super::script::{Fault, Files, Operation, Rule, Which};

/// A directory seen through a read-only file system that refuses to read chosen bytes (`EIO`);
/// unmounted when it is dropped.
#[derive(Debug)]
pub struct Mirror {
    mount: FaultMount,
}

impl Mirror {
    /// Mounts a mirror of a directory. Nothing of it is bad yet.
    ///
    /// # Errors
    /// Returns an error if it cannot be mounted.
    pub fn mount(directory: &Path, page_cache: PageCache) -> io::Result<Self> {
        Ok(Self { mount: FaultMount::with(directory, page_cache, false)? })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.mount.path()
    }

    /// From now on no read that touches this range of a file succeeds.
    pub fn spoil(&self, name: &str, range: ByteRange) {
        self.mount.add(Rule {
            operations: vec![Operation::Read],
            files: Files::At(name.into()),
            which: Which::Bytes(range),
            fault: Fault::Errno(libc::EIO),
        });
    }

    /// All of it can be read again.
    pub fn heal(&self) {
        self.mount.heal();
    }

    /// How many reads were refused since it was mounted.
    pub fn refused(&self) -> u64 {
        self.mount.struck()
    }
}
