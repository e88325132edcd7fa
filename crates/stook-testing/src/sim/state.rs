//! The live side of the simulator: the state that a running process sees, and the log of its
//! operations.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::Failure;
use super::medium::{Image, Medium, set_attribute, write_at};
use super::operation::{Inode, Operation, Recorded};

/// All of one simulated storage.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The medium before the first operation of the log.
    pub(super) base: Medium,
    /// The operations since then.
    pub(super) log: Vec<Recorded>,
    /// Names and bytes as the running process sees them.
    pub(super) live: Image,
    /// How often each file was changed: the simulator's clock for identities.
    pub(super) changes: BTreeMap<Inode, i64>,
    /// Whether the lock is held.
    pub(super) is_locked: bool,
    /// How often files are held.
    pub(super) held: BTreeMap<Inode, usize>,
    pub(super) next_inode: Inode,
    pub(super) next_temporary: u64,
    pub(super) failure: Option<(usize, Failure)>,
    pub(super) dies_at: Option<usize>,
}

impl State {
    pub(super) fn settled(live: Image) -> Self {
        let next_inode = live.files.keys().next_back().map_or(0, |last| last + 1);
        Self { base: Medium::settled(&live), live, next_inode, ..Self::default() }
    }

    pub(super) fn after_process_death(&self) -> Self {
        Self {
            base: self.base.clone(),
            log: self.log.clone(),
            live: self.live.clone(),
            changes: self.changes.clone(),
            next_inode: self.next_inode,
            next_temporary: self.next_temporary,
            ..Self::default()
        }
    }

    pub(super) fn len(&self, inode: Inode) -> u64 {
        self.live.files.get(&inode).map_or(0, |bytes| bytes.len() as u64)
    }

    /// Whether calls that change nothing are still answered.
    ///
    /// # Errors
    /// Returns an error if the process died.
    pub(super) fn check_alive(&self) -> io::Result<()> {
        match self.dies_at {
            Some(index) if self.log.len() >= index => Err(io::Error::other("the simulated process is dead")),
            _ => Ok(()),
        }
    }

    /// Does one operation and records it.
    ///
    /// # Errors
    /// Returns an error if this operation is to fail, or the process died.
    pub(super) fn perform(&mut self, operation: Operation) -> io::Result<()> {
        self.check_alive()?;
        match self.failure {
            Some((index, failure)) if index == self.log.len() => {
                self.perform_badly(operation);
                Err(failure.to_error())
            }
            _ => {
                self.apply(&operation);
                self.log.push(Recorded { operation, failed: false });
                Ok(())
            }
        }
    }

    fn perform_badly(&mut self, operation: Operation) {
        let operation = match operation {
            Operation::Write { inode, offset, bytes } => {
                let half = Operation::Write { inode, offset, bytes: bytes.slice(..bytes.len() / 2) };
                self.apply(&half);
                half
            }
            other => other,
        };
        self.log.push(Recorded { operation, failed: true });
    }

    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Create { name, inode } => {
                self.live.names.insert(name.clone(), *inode);
                self.live.files.insert(*inode, Arc::default());
            }
            Operation::Link { inode, name } => {
                self.live.names.insert(name.clone(), *inode);
                self.live.files.entry(*inode).or_default();
            }
            Operation::Write { inode, offset, bytes } => {
                write_at(self.content(*inode), *offset, bytes);
            }
            Operation::Set { inode, attribute, value } => {
                // It may have nothing else yet.
                self.live.files.entry(*inode).or_default();
                let attributes = self.live.attributes.entry(*inode).or_default();
                set_attribute(attributes, attribute, value.as_deref());
            }
            Operation::Truncate { inode, len } => self.content(*inode).resize(*len as usize, 0),
            Operation::Rename { inode, from, to } => {
                self.live.names.remove(from);
                self.live.names.insert(to.clone(), *inode);
            }
            Operation::Exchange { one, other } => {
                for (name, inode) in [one, other] {
                    self.live.names.insert(name.clone(), *inode);
                }
            }
            Operation::Unlink { name } => {
                self.live.names.remove(name);
            }
            Operation::Sync { .. }
            | Operation::SyncDirectory
            | Operation::SyncNames { .. }
            | Operation::Lock { .. } => {}
        }
    }

    fn content(&mut self, inode: Inode) -> &mut Vec<u8> {
        *self.changes.entry(inode).or_default() += 1;
        Arc::make_mut(self.live.files.entry(inode).or_default())
    }
}
