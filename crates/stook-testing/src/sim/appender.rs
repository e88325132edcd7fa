//! The simulator's appender and its readable side.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use stook::extent::ByteRange;
use stook::source::{Identity, Leaf, Source};
use stook::storage::Appender;
use stook::{Error, Result};

use super::operation::{Inode, Operation};
use super::{SIM_BLOCK_LEN, SimStorage};

/// Gathers blocks like the local appender does, so that unflushed bytes are not visible.
#[derive(Debug)]
pub(super) struct SimAppender {
    storage: SimStorage,
    path: PathBuf,
    inode: Inode,
    /// Bytes of the file that the medium knows of.
    written: u64,
    gathered: Vec<u8>,
    poisoned: bool,
}

impl SimAppender {
    pub(super) fn new(storage: &SimStorage, path: PathBuf, inode: Inode, written: u64) -> Self {
        Self { storage: storage.clone(), path, inode, written, gathered: Vec::new(), poisoned: false }
    }

    /// Runs one operation; when it fails, nothing works any more.
    fn perform(&mut self, verb: &'static str, operation: Operation) -> Result<()> {
        if self.poisoned {
            let source =
                io::Error::other("an earlier write or sync failed; open the file again and check it");
            return Err(Error::io(verb, &self.path, source));
        }
        let offset = self.written;
        self.storage.state().perform(operation).map_err(|source| {
            self.poisoned = true;
            Error::io_at(verb, &self.path, offset, source)
        })
    }

    fn write(&mut self, len: usize) -> Result<()> {
        let rest = self.gathered.split_off(len);
        let bytes = Bytes::from(std::mem::replace(&mut self.gathered, rest));
        let operation = Operation::Write { inode: self.inode, offset: self.written, bytes };
        self.perform("append to", operation)?;
        self.written += len as u64;
        Ok(())
    }

    fn refuse_if_poisoned(&self, verb: &'static str) -> Result<()> {
        if !self.poisoned {
            return Ok(());
        }
        let source = io::Error::other("an earlier write or sync failed; open the file again and check it");
        Err(Error::io(verb, &self.path, source))
    }
}

impl Appender for SimAppender {
    fn len(&self) -> u64 {
        self.written + self.gathered.len() as u64
    }

    fn append(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.refuse_if_poisoned("append to")?;
        for part in parts {
            self.gathered.extend_from_slice(part);
        }
        while self.gathered.len() >= SIM_BLOCK_LEN {
            self.write(SIM_BLOCK_LEN)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.refuse_if_poisoned("append to")?;
        if self.gathered.is_empty() { Ok(()) } else { self.write(self.gathered.len()) }
    }

    fn sync(&mut self) -> Result<()> {
        self.flush()?;
        self.perform("sync", Operation::Sync { inode: self.inode })
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.refuse_if_poisoned("truncate")?;
        if len > self.len() {
            let message = format!("the file has {} bytes, it cannot be cut to {len}", self.len());
            let source = io::Error::new(io::ErrorKind::InvalidInput, message);
            return Err(Error::io("truncate", &self.path, source));
        }
        if let Some(keep) = len.checked_sub(self.written) {
            self.gathered.truncate(keep as usize);
            return Ok(());
        }
        self.gathered.clear();
        self.perform("truncate", Operation::Truncate { inode: self.inode, len })?;
        self.written = len;
        Ok(())
    }

    fn rewrite(&mut self, from: u64) -> Result<()> {
        self.flush()?;
        let bytes = {
            let state = self.storage.state();
            let held = state.live.files.get(&self.inode).map(Arc::clone).unwrap_or_default();
            Bytes::copy_from_slice(held.get(from as usize..).unwrap_or_default())
        };
        if bytes.is_empty() {
            return Ok(());
        }
        self.perform("rewrite", Operation::Write { inode: self.inode, offset: from, bytes })
    }
}

/// A file of the simulator, open for reading.
#[derive(Debug)]
pub(super) struct SimSource {
    storage: SimStorage,
    path: PathBuf,
    inode: Inode,
    identity: Identity,
}

impl SimSource {
    pub(super) fn new(storage: &SimStorage, path: PathBuf, inode: Inode) -> Self {
        let identity = identity_of(storage, inode);
        Self { storage: storage.clone(), path, inode, identity }
    }
}

fn identity_of(storage: &SimStorage, inode: Inode) -> Identity {
    let state = storage.state();
    let changed = state.changes.get(&inode).copied().unwrap_or(0);
    Identity {
        len: state.len(inode),
        device: 0,
        inode,
        mtime_ns: changed,
        ctime_ns: changed,
        ..Identity::default()
    }
}

impl Source for SimSource {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.identity.len
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn current_identity(&self) -> Result<Identity> {
        Ok(identity_of(&self.storage, self.inode))
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        if range.end() > self.len() {
            return Err(Error::OutOfBounds { path: self.path.clone(), range, len: self.len() });
        }
        let content = self.storage.state().live.files.get(&self.inode).map(Arc::clone).unwrap_or_default();
        let bytes =
            content.get(range.start() as usize..range.end() as usize).ok_or_else(|| Error::ShortRead {
                path: self.path.clone(),
                offset: range.start(),
                wanted: range.len(),
                got: (content.len() as u64).saturating_sub(range.start()),
            })?;
        if !bytes.is_empty() {
            leaves.push(Leaf::Bytes(Bytes::copy_from_slice(bytes)));
        }
        Ok(())
    }
}
