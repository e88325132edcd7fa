//! [`Storage`] for the simulator, made of the steps that the local directory takes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use stook::source::Source;
use stook::storage::{Appender, Entry, Lock, Prepared, Storage, TEMPORARY_PREFIX, check_name, is_temporary};
use stook::tree::Kind;
use stook::{Error, Result};

use super::SimStorage;
use super::appender::{SimAppender, SimSource};
use super::operation::{Inode, Operation};

/// Where simulated files say they are.
pub const SIM_DIRECTORY: &str = "/simulated";

impl SimStorage {
    fn inode(&self, verb: &'static str, name: &str) -> Result<Inode> {
        check_name(Path::new(SIM_DIRECTORY), name)?;
        let state = self.state();
        state.check_alive().map_err(|source| Error::io(verb, self.path(name), source))?;
        let inode = state.live.names.get(name).copied();
        inode.ok_or_else(|| Error::io(verb, self.path(name), io::Error::from(io::ErrorKind::NotFound)))
    }

    fn is_taken(&self, name: &str) -> bool {
        self.state().live.names.contains_key(name)
    }

    fn perform(&self, verb: &'static str, name: &str, operation: Operation) -> Result<()> {
        self.state().perform(operation).map_err(|source| Error::io(verb, self.path(name), source))
    }

    fn create_inode(&self, name: &str) -> Result<Inode> {
        let inode = {
            let mut state = self.state();
            state.next_inode += 1;
            state.next_inode
        };
        self.perform("create", name, Operation::Create { name: name.to_owned(), inode })?;
        Ok(inode)
    }

    fn write_note(&self, note: &str, holder: &str) -> Result<()> {
        let temporary = self.temporary_name();
        let inode = self.create_inode(&temporary)?;
        let bytes = Bytes::copy_from_slice(holder.as_bytes());
        self.perform("lock", &temporary, Operation::Write { inode, offset: 0, bytes })?;
        let operation = Operation::Rename { inode, from: temporary, to: note.to_owned() };
        self.perform("lock", note, operation)
    }

    fn temporary_name(&self) -> String {
        let mut state = self.state();
        state.next_temporary += 1;
        format!("{TEMPORARY_PREFIX}{}", state.next_temporary)
    }
}

impl Storage for SimStorage {
    fn path(&self, name: &str) -> PathBuf {
        Path::new(SIM_DIRECTORY).join(name)
    }

    fn create(&self, name: &str) -> Result<Box<dyn Appender>> {
        check_name(Path::new(SIM_DIRECTORY), name)?;
        if self.is_taken(name) {
            return Err(Error::AlreadyExists { path: self.path(name) });
        }
        let inode = self.create_inode(name)?;
        Ok(Box::new(SimAppender::new(self, self.path(name), inode, 0)))
    }

    fn open_append(&self, name: &str) -> Result<Box<dyn Appender>> {
        let inode = self.inode("open", name)?;
        let len = self.state().len(inode);
        Ok(Box::new(SimAppender::new(self, self.path(name), inode, len)))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Source>> {
        let inode = self.inode("open", name)?;
        Ok(Arc::new(SimSource::new(self, self.path(name), inode)))
    }

    fn prepare(&self, name: &str, bytes: &[u8]) -> Result<Box<dyn Prepared>> {
        check_name(Path::new(SIM_DIRECTORY), name)?;
        if self.is_taken(name) {
            return Err(Error::AlreadyExists { path: self.path(name) });
        }
        let temporary = self.temporary_name();
        let inode = self.create_inode(&temporary)?;
        let prepared =
            SimPrepared { storage: self.clone(), temporary, inode, name: name.to_owned(), renamed: false };
        if !bytes.is_empty() {
            let bytes = Bytes::copy_from_slice(bytes);
            self.perform("write", &prepared.temporary, Operation::Write { inode, offset: 0, bytes })?;
        }
        self.perform("sync", &prepared.temporary, Operation::Sync { inode })?;
        Ok(Box::new(prepared))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let inode = self.inode("rename", from)?;
        check_name(Path::new(SIM_DIRECTORY), to)?;
        let operation = Operation::Rename { inode, from: from.to_owned(), to: to.to_owned() };
        self.perform("rename", from, operation)
    }

    fn unlink(&self, name: &str) -> Result<()> {
        self.inode("remove", name)?;
        self.perform("remove", name, Operation::Unlink { name: name.to_owned() })
    }

    fn sync_directory(&self) -> Result<()> {
        self.perform("sync", "", Operation::SyncDirectory)
    }

    fn list(&self) -> Result<Vec<Entry>> {
        let state = self.state();
        state.check_alive().map_err(|source| Error::io("list", SIM_DIRECTORY, source))?;
        let names = state.live.names.iter().filter(|(name, _)| !is_temporary(name));
        let entries = names.map(|(name, inode)| Entry {
            name: name.clone(),
            len: state.len(*inode),
            kind: Kind::File,
            inode: None,
        });
        Ok(entries.collect())
    }

    fn lock(&self, note: &str, holder: &str) -> Result<Box<dyn Lock>> {
        check_name(Path::new(SIM_DIRECTORY), note)?;
        {
            let mut state = self.state();
            if std::mem::replace(&mut state.is_locked, true) {
                let left = state.live.names.get(note).and_then(|inode| state.live.files.get(inode));
                let left = left.map(Arc::clone).unwrap_or_default();
                let holder = String::from_utf8_lossy(&left).into_owned();
                return Err(Error::Locked { path: PathBuf::from(SIM_DIRECTORY), holder });
            }
        }
        let lock = SimLock { storage: self.clone(), note: note.to_owned() };
        self.write_note(note, holder)?;
        self.perform("lock", note, Operation::Lock { name: note.to_owned() })?;
        Ok(Box::new(lock))
    }

    fn hold(&self, name: &str) -> Result<Box<dyn Lock>> {
        let inode = self.inode("hold", name)?;
        *self.state().held.entry(inode).or_default() += 1;
        Ok(Box::new(SimHold { storage: self.clone(), inode }))
    }

    fn unlink_unless_held(&self, name: &str) -> Result<bool> {
        match self.inode("remove", name) {
            Err(error) if error.io_kind() == Some(io::ErrorKind::NotFound) => return Ok(true),
            Err(error) => return Err(error),
            Ok(inode) if self.state().held.contains_key(&inode) => return Ok(false),
            Ok(_) => {}
        }
        self.unlink(name)?;
        Ok(true)
    }

    fn remove_leftovers(&self) -> Result<u64> {
        let state = self.state();
        let leftovers: Vec<String> =
            state.live.names.keys().filter(|name| is_temporary(name)).cloned().collect();
        drop(state);
        for name in &leftovers {
            self.perform("remove", name, Operation::Unlink { name: name.clone() })?;
        }
        Ok(leftovers.len() as u64)
    }
}

/// A file of the simulator that has only its temporary name.
#[derive(Debug)]
struct SimPrepared {
    storage: SimStorage,
    temporary: String,
    inode: Inode,
    name: String,
    renamed: bool,
}

impl Prepared for SimPrepared {
    fn publish(mut self: Box<Self>) -> Result<()> {
        if self.storage.is_taken(&self.name) {
            return Err(Error::AlreadyExists { path: self.storage.path(&self.name) });
        }
        let (from, to) = (self.temporary.clone(), self.name.clone());
        self.storage.perform("publish", &self.name, Operation::Rename { inode: self.inode, from, to })?;
        self.renamed = true;
        self.storage.sync_directory()
    }
}

impl Drop for SimPrepared {
    fn drop(&mut self) {
        if !self.renamed {
            // The first error is reported; a remaining temporary file is harmless.
            let name = self.temporary.clone();
            drop(self.storage.perform("unlink", &self.temporary, Operation::Unlink { name }));
        }
    }
}

/// A lock of the simulator.
#[derive(Debug)]
struct SimLock {
    storage: SimStorage,
    note: String,
}

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        // A dead process removes nothing.
        if self.storage.is_taken(&self.note) {
            drop(self.storage.perform("unlock", &self.note, Operation::Unlink { name: self.note.clone() }));
        }
        self.storage.state().is_locked = false;
    }
}

/// A file of the simulator that is held.
#[derive(Debug)]
struct SimHold {
    storage: SimStorage,
    inode: Inode,
}

impl Lock for SimHold {}

impl Drop for SimHold {
    fn drop(&mut self) {
        let held = &mut self.storage.state().held;
        if let Some(count) = held.get_mut(&self.inode) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.inode);
            }
        }
    }
}
