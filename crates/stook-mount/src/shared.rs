//! What the threads of a mount share.

use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fuser::{Errno, FileAttr, INodeNo};
use stook::Error;
use stook::names::escaped;
use stook::tree::{Node, NodeId, Tree};

use crate::attributes::{Numbers, Owner, attributes, errno_of};
use crate::log::Log;
use crate::opened::Opened;
use crate::push::Pusher;
use crate::snapshots::Snapshots;
use crate::status::{Counters, Hidden, Mode, Status};
use crate::survey::Survey;

/// A tree that is mounted.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) tree: Arc<dyn Tree>,
    pub(crate) numbers: Numbers,
    /// What the root was when it was mounted.
    pub(crate) root_node: Node,
    /// What is mounted, for messages.
    pub(crate) source: String,
    pub(crate) mode: Mode,
    /// `None` where the tree may change.
    pub(crate) survey: Option<Survey>,
    /// How long the kernel keeps what it learned.
    pub(crate) kept: Duration,
    pub(crate) owner: Owner,
    pub(crate) threads: usize,
    pub(crate) counters: Counters,
    pub(crate) log: Log,
    pub(crate) opened: Opened,
    pub(crate) hidden: Hidden,
    pub(crate) snapshots: Snapshots,
    /// Whether anything in it may have extended attributes, or the status has to be one; nothing,
    /// until a tree that has not read all of itself is asked for some.
    pub(crate) has_xattrs: OnceLock<bool>,
    /// Whether what the pack or archive says of its members are extended attributes in any case.
    pub(crate) facts: bool,
    /// Set when it ends.
    pub(crate) is_ending: AtomicBool,
    /// `None` where nothing is pushed.
    pub(crate) pusher: Option<Pusher>,
}

impl Shared {
    pub(crate) fn attributes(&self, number: INodeNo, node: &Node) -> Option<FileAttr> {
        attributes(number, node, self.owner)
    }

    /// Logs why something could not be read, and says what programs get for it. That a name is not
    /// there, or is of another kind, is their affair.
    pub(crate) fn failed(&self, id: NodeId, error: &Error) -> Errno {
        let errno = errno_of(error);
        if [Errno::EIO, Errno::EOPNOTSUPP, Errno::EACCES].map(Errno::code).contains(&errno.code()) {
            self.log(id, error);
        }
        errno
    }

    /// The same of bytes that are gone: who has a file open is told that it cannot be read, not
    /// that there is none.
    pub(crate) fn unreadable(&self, id: NodeId, error: &Error) -> Errno {
        match self.failed(id, error) {
            Errno::ENOENT => {
                self.log(id, error);
                Errno::EIO
            }
            errno => errno,
        }
    }

    fn log(&self, id: NodeId, error: &Error) {
        let (path, why) = (self.tree.path_of(id), stook::error::chain(error));
        let path = path.strip_prefix(self.tree.path()).unwrap_or(&path);
        self.log.say(&format!("{}: {why}", escaped(path.as_os_str().as_bytes())));
    }

    /// The directory that something is in, by the first of its names; the root is in itself.
    pub(crate) fn parent_of(&self, id: NodeId) -> NodeId {
        let root = self.numbers.root;
        if id == root {
            return root;
        }
        let path = self.tree.path_of(id);
        let parent = || {
            let below = path.strip_prefix(self.tree.path()).ok()?.parent()?;
            self.tree.find(below.as_os_str().as_bytes()).ok()?
        };
        parent().unwrap_or(root)
    }

    /// Reads what the tree has put off, while it is used.
    pub(crate) fn complete(&self) {
        if let Err(error) = self.tree.complete(&|| !self.is_ending.load(Ordering::Relaxed)) {
            self.failed(self.numbers.root, &error);
        }
    }

    /// Whether anything in it may have extended attributes.
    pub(crate) fn has_xattrs(&self) -> bool {
        *self.has_xattrs.get_or_init(|| self.tree.has_xattrs())
    }

    /// Whether what the pack or archive says of its members can be asked for.
    pub(crate) fn has_facts(&self) -> bool {
        self.tree.has_facts() && (self.facts || self.has_xattrs())
    }

    pub(crate) fn status(&self) -> Status {
        let (log_lines, log) = self.log.last();
        Status {
            source: self.source.clone(),
            process: std::process::id(),
            mode: self.mode,
            threads: self.threads as u64,
            nodes: self.survey.as_ref().map(|survey| survey.nodes),
            requests: self.counters.requests(),
            read_bytes: self.counters.read_bytes.load(Ordering::Relaxed),
            pushed: self.counters.pushed(),
            hidden: self.hidden.clone(),
            log_lines,
            log,
        }
    }
}
