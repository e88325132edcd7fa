//! What is durable and what is only pending, after a number of recorded operations.
//!
//! The model is weaker than what ext4 promises, so that what passes here does not lean on one file
//! system's kindness: syncing a file does not make its name durable, syncing the directory does not
//! make any bytes durable, and names that have nothing to do with each other may become durable in
//! any order.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::operation::{Inode, Operation, Recorded};

/// Attributes of a file that were set, by name.
pub type Attributes = BTreeMap<String, Vec<u8>>;

/// Names, their bytes and attributes: one state of a medium.
#[derive(Debug, Clone, Default)]
pub(crate) struct Image {
    pub(crate) names: BTreeMap<String, Inode>,
    pub(crate) files: BTreeMap<Inode, Arc<Vec<u8>>>,
    pub(crate) attributes: BTreeMap<Inode, Attributes>,
}

/// A change of a file's bytes that is not durable yet.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Write { offset: u64, bytes: Bytes },
    Truncate { len: u64 },
}

/// A change of an attribute that is not durable yet.
#[derive(Debug, Clone)]
pub(crate) struct AttributeChange {
    attribute: String,
    value: Option<Vec<u8>>,
}

impl AttributeChange {
    pub(crate) fn apply(&self, attributes: &mut Attributes) {
        set_attribute(attributes, &self.attribute, self.value.as_deref());
    }
}

/// Sets an attribute, or takes it away.
pub(crate) fn set_attribute(attributes: &mut Attributes, name: &str, value: Option<&[u8]>) {
    match value {
        Some(value) => attributes.insert(name.to_owned(), value.to_vec()),
        None => attributes.remove(name),
    };
}

/// A change of the names that is not durable yet.
#[derive(Debug, Clone)]
pub(crate) enum NameChange {
    Add { name: String, inode: Inode },
    Move { from: String, to: String, inode: Inode },
    Exchange { one: (String, Inode), other: (String, Inode) },
    Remove { name: String },
}

impl NameChange {
    fn names(&self) -> [&str; 2] {
        match self {
            Self::Add { name, .. } | Self::Remove { name } => [name, name],
            Self::Move { from, to, .. } => [from, to],
            Self::Exchange { one: (one, _), other: (other, _) } => [one, other],
        }
    }

    /// Whether one must have happened before the other: they touch a name in common.
    pub(crate) fn touches(&self, other: &Self) -> bool {
        self.names().iter().any(|name| other.names().contains(name))
    }

    /// Whether it is a change of this directory alone. The name of a directory ends in a slash.
    fn is_in(&self, directory: &str) -> bool {
        let parent = |name: &str| {
            let name = name.strip_suffix('/').unwrap_or(name);
            name.rsplit_once('/').map_or("", |(parent, _)| parent) == directory
        };
        self.names().iter().all(|name| parent(name))
    }

    pub(crate) fn apply(&self, names: &mut BTreeMap<String, Inode>) {
        match self {
            Self::Add { name, inode } => {
                names.insert(name.clone(), *inode);
            }
            Self::Move { from, to, inode } => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
            Self::Exchange { one, other } => {
                for (name, inode) in [one, other] {
                    names.insert(name.clone(), *inode);
                }
            }
            Self::Remove { name } => {
                names.remove(name);
            }
        }
    }
}

/// A change and whether a sync that should have made it durable failed: no later sync does then.
#[derive(Debug, Clone)]
pub(crate) struct Pending<T> {
    pub(crate) change: T,
    pub(crate) doubtful: bool,
}

/// One file on the medium.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileState {
    pub(crate) durable: Arc<Vec<u8>>,
    pub(crate) pending: Vec<Pending<Change>>,
    pub(crate) attributes: Attributes,
    pub(crate) pending_attributes: Vec<Pending<AttributeChange>>,
}

impl FileState {
    fn is_settled(&self) -> bool {
        self.pending.is_empty() && self.pending_attributes.is_empty()
    }

    /// A sync that was reported as successful.
    fn settle(&mut self) {
        self.settle_attributes();
        if self.pending.is_empty() {
            return;
        }
        let mut durable = (*self.durable).clone();
        let mut doubtful: Vec<Pending<Change>> = Vec::new();
        for pending in std::mem::take(&mut self.pending) {
            if pending.doubtful {
                doubtful.push(pending);
                continue;
            }
            apply_change(&mut durable, &pending.change);
            if let Change::Truncate { len } = pending.change {
                clip(&mut doubtful, len);
            }
        }
        self.durable = Arc::new(durable);
        self.pending = doubtful;
    }

    fn settle_attributes(&mut self) {
        let mut doubtful: Vec<Pending<AttributeChange>> = Vec::new();
        for pending in std::mem::take(&mut self.pending_attributes) {
            if pending.doubtful {
                doubtful.push(pending);
                continue;
            }
            // What was set before is not on the medium in its place.
            doubtful.retain(|earlier| earlier.change.attribute != pending.change.attribute);
            pending.change.apply(&mut self.attributes);
        }
        self.pending_attributes = doubtful;
    }
}

/// Removes from doubtful writes the part that a durable truncate cut off.
fn clip(doubtful: &mut Vec<Pending<Change>>, len: u64) {
    doubtful.retain_mut(|pending| match &mut pending.change {
        Change::Truncate { len: cut } => *cut < len,
        Change::Write { offset, bytes } => {
            let keep = len.saturating_sub(*offset).min(bytes.len() as u64);
            bytes.truncate(keep as usize);
            keep > 0
        }
    });
}

/// Does the change to `bytes`, with zeros between the old end and a later write.
pub(crate) fn apply_change(content: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { offset, bytes } => write_at(content, *offset, bytes),
        Change::Truncate { len } => content.resize(*len as usize, 0),
    }
}

/// Writes like `pwrite`.
pub(crate) fn write_at(content: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let (start, end) = (offset as usize, offset as usize + bytes.len());
    if content.len() < end {
        content.resize(end, 0);
    }
    content[start..end].copy_from_slice(bytes);
}

/// The medium after some operations: what is durable, and what may or may not be.
#[derive(Debug, Clone, Default)]
pub(crate) struct Medium {
    pub(crate) names: BTreeMap<String, Inode>,
    pub(crate) pending_names: Vec<Pending<NameChange>>,
    pub(crate) files: BTreeMap<Inode, FileState>,
}

impl Medium {
    /// A medium on which everything is durable.
    pub(crate) fn settled(image: &Image) -> Self {
        let state = |(inode, bytes): (&Inode, &Arc<Vec<u8>>)| {
            let attributes = image.attributes.get(inode).cloned().unwrap_or_default();
            (*inode, FileState { durable: Arc::clone(bytes), attributes, ..FileState::default() })
        };
        Self {
            names: image.names.clone(),
            pending_names: Vec::new(),
            files: image.files.iter().map(state).collect(),
        }
    }

    /// Whether a crash now could leave more than one state.
    pub(crate) fn is_settled(&self) -> bool {
        self.pending_names.is_empty() && self.files.values().all(FileState::is_settled)
    }

    /// An operation that has ended.
    pub(crate) fn end(&mut self, recorded: &Recorded) {
        match &recorded.operation {
            Operation::Sync { inode } => self.end_sync(*inode, recorded.failed),
            Operation::SyncDirectory => self.end_sync_names(recorded.failed, |_| true),
            Operation::SyncNames { directory } => {
                self.end_sync_names(recorded.failed, |change| change.is_in(directory));
            }
            _ => self.begin(recorded),
        }
    }

    /// An operation under way: a sync has achieved nothing that can be relied on, and every other
    /// change may or may not have arrived.
    pub(crate) fn begin(&mut self, recorded: &Recorded) {
        match &recorded.operation {
            Operation::Write { inode, offset, bytes } => {
                self.change(*inode, Change::Write { offset: *offset, bytes: bytes.clone() });
            }
            // What failed to be cut, named, moved or removed is as it was.
            _ if recorded.failed => {}
            Operation::Create { name, inode } => {
                self.files.insert(*inode, FileState::default());
                self.rename(NameChange::Add { name: name.clone(), inode: *inode });
            }
            Operation::Link { inode, name } => {
                self.files.entry(*inode).or_default();
                self.rename(NameChange::Add { name: name.clone(), inode: *inode });
            }
            Operation::Truncate { inode, len } => self.change(*inode, Change::Truncate { len: *len }),
            Operation::Set { inode, attribute, value } => {
                let change = AttributeChange { attribute: attribute.clone(), value: value.clone() };
                let file = self.files.entry(*inode).or_default();
                file.pending_attributes.push(Pending { change, doubtful: false });
            }
            Operation::Rename { inode, from, to } => {
                self.rename(NameChange::Move { from: from.clone(), to: to.clone(), inode: *inode });
            }
            Operation::Exchange { one, other } => {
                self.rename(NameChange::Exchange { one: one.clone(), other: other.clone() });
            }
            Operation::Unlink { name } => self.rename(NameChange::Remove { name: name.clone() }),
            Operation::Sync { .. }
            | Operation::SyncDirectory
            | Operation::SyncNames { .. }
            | Operation::Lock { .. } => {}
        }
    }

    fn change(&mut self, inode: Inode, change: Change) {
        let file = self.files.entry(inode).or_default();
        file.pending.push(Pending { change, doubtful: false });
    }

    fn rename(&mut self, change: NameChange) {
        self.pending_names.push(Pending { change, doubtful: false });
    }

    fn end_sync(&mut self, inode: Inode, failed: bool) {
        let file = self.files.entry(inode).or_default();
        if failed {
            file.pending.iter_mut().for_each(|pending| pending.doubtful = true);
            file.pending_attributes.iter_mut().for_each(|pending| pending.doubtful = true);
        } else {
            file.settle();
        }
    }

    fn end_sync_names(&mut self, failed: bool, is_meant: impl Fn(&NameChange) -> bool) {
        if failed {
            let meant = self.pending_names.iter_mut().filter(|pending| is_meant(&pending.change));
            meant.for_each(|pending| pending.doubtful = true);
            return;
        }
        let mut kept: Vec<Pending<NameChange>> = Vec::new();
        for pending in std::mem::take(&mut self.pending_names) {
            let blocked = kept.iter().any(|earlier| earlier.change.touches(&pending.change));
            if pending.doubtful || blocked || !is_meant(&pending.change) {
                kept.push(pending);
            } else {
                pending.change.apply(&mut self.names);
            }
        }
        self.pending_names = kept;
    }
}
