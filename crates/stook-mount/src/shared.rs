//! What the threads of a mount share.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use fuser::{Errno, FileAttr, INodeNo};
use stook::Error;
use stook::names::escaped;
use stook::pack::tree::Followed;
use stook::stitch::MergedCache;
use stook::tree::{Kind, Node, NodeId, Tree};

use crate::attributes::{Numbers, Owner, SECTOR, attributes, errno_of};
use crate::log::Log;
use crate::opened::Opened;
use crate::push::{Pusher, SMALL_MAX};
use crate::snapshots::Snapshots;
use crate::status::{Counters, Merged, Mode, Status};
use crate::survey::Survey;
use crate::waiting::Waiting;
use crate::workers::Workers;

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
    /// What is in it; `None` where the tree may change and does not say so.
    pub(crate) survey: Mutex<Option<Arc<Survey>>>,
    /// Counts the states of a tree that is followed.
    pub(crate) state: AtomicU64,
    /// The tree, if it is followed.
    pub(crate) followed: Option<Arc<Followed>>,
    /// What should be in it and is not.
    pub(crate) missing: Vec<String>,
    /// How long the kernel keeps what it learned.
    pub(crate) kept: Duration,
    pub(crate) owner: Owner,
    pub(crate) threads: usize,
    pub(crate) counters: Counters,
    pub(crate) log: Log,
    pub(crate) opened: Opened,
    pub(crate) snapshots: Snapshots,
    /// Whether anything in it may have extended attributes, or the status has to be one; nothing,
    /// until a tree that has not read all of itself is asked for some.
    pub(crate) has_xattrs: OnceLock<bool>,
    /// Whether what the pack or archive says of its members are extended attributes in any case.
    pub(crate) facts: bool,
    /// Set when it ends.
    pub(crate) is_ending: AtomicBool,
    /// Whether whole files on disk are to be read by the kernel itself, and whether it does that.
    pub(crate) may_pass_through: bool,
    pub(crate) passthrough: AtomicBool,
    /// Has copies of files, which the tree uses.
    pub(crate) merged: Option<Arc<MergedCache>>,
    /// `None` where nothing is pushed.
    pub(crate) pusher: Option<Pusher>,
    /// Answer what may wait.
    pub(crate) workers: Workers,
    pub(crate) waiting: Waiting,
    pub(crate) stalled: Stalled,
}

/// Files whose reads have failed after a long wait. The kernel asks once more, for less: it would
/// wait as long again.
#[derive(Debug, Default)]
pub(crate) struct Stalled(Mutex<HashMap<NodeId, (Instant, Errno)>>);

/// So long a wait is a long one, and so long what came of it holds.
const LONG: Duration = Duration::from_secs(1);
/// So many are remembered.
const STALLED_MAX: usize = 1024;

impl Stalled {
    /// What became of a read of this file just now, if that was waited for in vain.
    pub(crate) fn errno(&self, id: NodeId) -> Option<Errno> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, errno) = *files.get(&id)?;
        if at.elapsed() <= LONG {
            return Some(errno);
        }
        files.remove(&id);
        None
    }

    /// A read that began then has failed.
    pub(crate) fn note(&self, id: NodeId, begun: Instant, errno: Errno) {
        if begun.elapsed() <= LONG {
            return;
        }
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() >= STALLED_MAX {
            files.clear();
        }
        files.insert(id, (Instant::now(), errno));
    }
}

impl Shared {
    /// What the kernel is told of a node. Programs take a long file with fewer blocks than it has
    /// bytes for one with holes, and copy it without them.
    pub(crate) fn attributes(&self, number: INodeNo, node: &Node) -> Option<FileAttr> {
        let mut attributes = attributes(number, node, self.owner)?;
        if node.kind == Kind::File && node.len > SMALL_MAX {
            // Where it is damaged, reading it says so.
            if let Ok(holes) = self.tree.holes(self.numbers.id(number)) {
                attributes.blocks = holes.kept_bytes(node.len).div_ceil(SECTOR);
            }
        }
        Some(attributes)
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
            errno if [Errno::ENOENT, Errno::ESTALE].map(Errno::code).contains(&errno.code()) => {
                self.log(id, error);
                Errno::EIO
            }
            errno => errno,
        }
    }

    fn log(&self, id: NodeId, error: &Error) {
        self.log_of(id, &stook::error::chain(error));
    }

    /// Logs what is to be said of a node.
    pub(crate) fn log_of(&self, id: NodeId, why: &str) {
        let path = self.tree.path_of(id);
        let path = path.strip_prefix(self.tree.path()).unwrap_or(&path);
        match path.as_os_str().as_bytes() {
            b"" => self.log.say(why),
            path => self.log.say(&format!("{}: {why}", escaped(path))),
        }
    }

    /// Logs what was wrong with copies.
    pub(crate) fn log_merged(&self) {
        let notes = self.merged.as_ref().map(|cache| cache.take_notes());
        notes.into_iter().flatten().for_each(|note| self.log.say(&note));
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

    pub(crate) fn survey(&self) -> Option<Arc<Survey>> {
        self.survey.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says what may hide names before anybody lists the tree.
    pub(crate) fn say_what_hides_names(&self) {
        for damage in self.tree.hiding() {
            self.failed(self.tree.root(), &damage);
        }
    }

    /// Counts again what is in a tree that has changed.
    pub(crate) fn count_again(&self) {
        self.say_what_hides_names();
        match Survey::of(&*self.tree, self.numbers.root) {
            Ok(survey) => {
                *self.survey.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(survey));
            }
            Err(error) => drop(self.failed(self.numbers.root, &error)),
        }
    }

    /// Reads what the tree has put off, while it is used.
    pub(crate) fn complete(&self) {
        self.say_what_hides_names();
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
        let survey = self.survey();
        let mut hidden = survey.as_ref().map(|survey| survey.hidden.clone()).unwrap_or_default();
        self.missing.iter().for_each(|missing| hidden.note(missing));
        self.log_merged();
        let (log_lines, log) = self.log.last();
        Status {
            source: self.source.clone(),
            process: std::process::id(),
            mode: self.mode,
            threads: self.threads as u64,
            nodes: survey.map(|survey| survey.nodes),
            requests: self.counters.requests(),
            read_bytes: self.counters.read_bytes.load(Ordering::Relaxed),
            passed_through: self.counters.passed.load(Ordering::Relaxed),
            pushed: self.counters.pushed(),
            merged: self.merged.as_deref().map(Merged::of),
            hidden,
            log_lines,
            log,
        }
    }
}
