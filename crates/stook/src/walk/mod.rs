//! Walks trees with many threads and reads their small files on the way.
//!
//! Listing and reading overlap: all threads share one queue of directories *and* files, so that the
//! device sees many requests whatever the shape of the tree. What was found goes to one consumer
//! ([`Walk::run`]) through a hand-over bounded in bytes and in entries, or is consumed by the
//! threads themselves ([`Walk::visit`]). [`read_tree()`] is the bare reading that other ways of
//! storing the same bytes are compared with.
//!
//! What callers may rely on:
//! - links are never followed (but for a root that the caller named), so the walk never leaves the
//!   tree and never runs in circles, whatever happens to the tree meanwhile;
//! - any name is fine, and no path is too long: everything is opened relative to its directory;
//! - the bytes and the metadata of a file belong together: a file that changes while it is read is
//!   an error ([`Error::SourceChanged`]), never a mix;
//! - an entry that cannot be read is reported with its path, and the walk continues;
//! - memory and open files are bounded, however large, flat or deep the tree is.
//!
//! The order that [`Walk::run`] gives is: a directory before its entries; entries of a directory
//! nearly by name (a thousand at a time), and together, unless it is long or `buffered_bytes_max`
//! is short for the files; nothing more. [`Walk::visit`] has no order.
//!
//! A [`DirectoryTree`] is a directory as a [`Tree`](crate::tree::Tree): for those who ask for one
//! thing after another instead of taking all as it comes.
//!
//! This module never writes, and it never resolves hard links: it reports device, inode and the
//! number of names, and the consumer decides.

mod buffers;
mod directory;
mod directory_tree;
mod entry;
mod file;
mod handover;
mod queue;
mod read_tree;
mod roots;
mod worker;
pub(crate) mod xattrs;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

pub use buffers::FileBytes;
pub use directory_tree::DirectoryTree;
pub use entry::{
    Candidate, Content, Decision, Kind, LargeFile, Status, WalkError, WalkEvent, WalkItem, WalkSummary,
};
pub use read_tree::{Piece, read_tree};

use self::buffers::Buffers;
use self::directory::lock;
use self::handover::HandOver;
use self::queue::Queue;
use self::worker::{Outlet, Sender, Worker};
use crate::error::{Error, Result};
use crate::profile::Profile;

/// How to walk.
#[derive(Debug, Clone, Copy)]
pub struct WalkOptions {
    /// Threads, at least 1. Fewer are used where the limit on open files asks for it.
    pub threads: usize,
    /// Files of up to this many bytes are read by the walk; larger ones are [`Content::Large`].
    pub read_up_to: u64,
    /// What may be buffered between the threads and the consumer, in bytes.
    pub buffered_bytes_max: u64,
    /// Report what another file system is mounted on, but do not enter it.
    pub same_filesystem: bool,
    /// Read the [extended attributes](WalkItem::xattrs) of directories, links, and files that are
    /// read.
    pub xattrs: bool,
    /// Ask for the [holes](WalkItem::holes) of files that are read and take less room than they
    /// have bytes.
    pub holes: bool,
}

impl Default for WalkOptions {
    fn default() -> Self {
        Self {
            threads: Profile::LOCAL.opens,
            read_up_to: 1 << 20,
            buffered_bytes_max: 32 << 20,
            same_filesystem: false,
            xattrs: false,
            holes: false,
        }
    }
}

/// The hook that selects what is walked, by path and kind.
pub(crate) type Select<'a> = Box<dyn Fn(&[u8], Kind) -> Decision + Sync + 'a>;
type WantedHook<'a> = Box<dyn Fn(Candidate<'_>) -> bool + Sync + 'a>;
type DigestHook<'a> = Box<dyn Fn(&[u8]) -> Vec<u8> + Sync + 'a>;

/// What the caller decides while the walk is under way.
#[derive(Default)]
struct Hooks<'a> {
    select: Option<Select<'a>>,
    wanted: Option<WantedHook<'a>>,
    digest: Option<DigestHook<'a>>,
}

impl Hooks<'_> {
    fn select(&self, key: &[u8], kind: Kind) -> Decision {
        self.select.as_ref().map_or(Decision::Take, |hook| hook(key, kind))
    }

    fn wanted(&self, candidate: Candidate<'_>) -> bool {
        self.wanted.as_ref().is_none_or(|hook| hook(candidate))
    }

    fn digest(&self, content: &mut Content) {
        if let (Some(hook), Content::Bytes(bytes)) = (&self.digest, content) {
            bytes.set_digest(hook(bytes));
        }
    }
}

/// A walk to be made over one or more trees.
pub struct Walk<'a> {
    roots: Vec<(PathBuf, Vec<u8>)>,
    options: WalkOptions,
    hooks: Hooks<'a>,
}

impl std::fmt::Debug for Walk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walk")
            .field("roots", &self.roots)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<'a> Walk<'a> {
    /// A walk over these files and directories.
    ///
    /// With one root, keys are relative to it, and the root itself has the empty key (a root that
    /// is a file has its name). With several, keys begin with the last part of each root's path.
    ///
    /// # Errors
    /// When several roots would have the same name, or one has none and cannot be resolved.
    pub fn new<P: AsRef<Path>>(roots: impl IntoIterator<Item = P>) -> Result<Self> {
        let roots: Vec<PathBuf> = roots.into_iter().map(|p| p.as_ref().to_path_buf()).collect();
        Ok(Self {
            roots: roots::with_prefixes(roots)?,
            options: WalkOptions::default(),
            hooks: Hooks::default(),
        })
    }

    /// Replaces the options.
    #[must_use]
    pub fn options(mut self, options: WalkOptions) -> Self {
        self.options = options;
        self
    }

    /// Asks `hook` about every entry but the roots, when its directory is listed and before
    /// anything else is done to it. It is called from many threads.
    #[must_use]
    pub fn select(mut self, hook: impl Fn(&[u8], Kind) -> Decision + Sync + 'a) -> Self {
        self.hooks.select = Some(Box::new(hook));
        self
    }

    /// Asks `hook` about every regular file, after its metadata is known and before it is opened.
    /// What it declines is reported as [`Content::NotRead`]. It is called from many threads.
    #[must_use]
    pub fn wanted(mut self, hook: impl Fn(Candidate<'_>) -> bool + Sync + 'a) -> Self {
        self.hooks.wanted = Some(Box::new(hook));
        self
    }

    /// Asks `hook` for something of the content of every file that the walk reads, for example a
    /// checksum: the thread that has just read it still has it in its caches. It comes with the
    /// content, as [`FileBytes::digest`]. It is called from many threads.
    #[must_use]
    pub fn digest(mut self, hook: impl Fn(&[u8]) -> Vec<u8> + Sync + 'a) -> Self {
        self.hooks.digest = Some(Box::new(hook));
        self
    }

    /// Walks, and hands everything to `consume`, in the calling thread. Its first error ends the
    /// walk.
    ///
    /// # Errors
    /// What `consume` returned; or that a root cannot be opened, or no thread be started. Entries
    /// that cannot be read are events, not errors.
    pub fn run<E: From<Error>>(
        &self,
        mut consume: impl FnMut(WalkEvent) -> Result<(), E>,
    ) -> Result<WalkSummary, E> {
        let threads = roots::threads_within_limits(self.options.threads);
        let queue = Queue::new(threads, roots::open_all(&self.roots)?);
        let hand_over = HandOver::new(self.options.buffered_bytes_max, threads);
        let mut summary = WalkSummary::default();
        thread::scope(|scope| {
            // Dropped before the threads are joined, also when `consume` panics.
            let _end = EndOnDrop { queue: &queue, hand_over: &hand_over };
            self.start(scope, threads, &queue, || Sender::new(&hand_over))?;
            loop {
                let parcels = hand_over.receive();
                if parcels.is_empty() {
                    return Ok(summary);
                }
                for parcel in parcels {
                    for event in parcel.events {
                        summary.count(&event);
                        consume(event)?;
                    }
                    hand_over.release(parcel.cost);
                }
            }
        })
    }

    /// Walks, and hands everything to `visitor`, which is called from all threads at once. When it
    /// breaks, the walk ends soon.
    ///
    /// # Errors
    /// That a root cannot be opened, or no thread be started.
    pub fn visit(&self, visitor: impl Fn(WalkEvent) -> ControlFlow<()> + Sync) -> Result<WalkSummary> {
        let threads = roots::threads_within_limits(self.options.threads);
        let queue = Queue::new(threads, roots::open_all(&self.roots)?);
        let summary = Mutex::new(WalkSummary::default());
        thread::scope(|scope| {
            let outlet =
                || Visit { visitor: &visitor, total: &summary, counted: WalkSummary::default(), go_on: true };
            self.start(scope, threads, &queue, outlet)
        })?;
        Ok(*lock(&summary))
    }

    /// Each root with what its keys begin with.
    pub(crate) fn roots(&self) -> &[(PathBuf, Vec<u8>)] {
        &self.roots
    }

    /// What an error that concerns no single root speaks of.
    fn first_root(&self) -> &Path {
        self.roots.first().map_or(Path::new("nothing"), |(path, _)| path)
    }

    /// Starts the threads: as many as the system grants, and at least one.
    fn start<'scope, O: Outlet + Send + 'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        threads: usize,
        queue: &'scope Queue,
        outlet: impl Fn() -> O,
    ) -> Result<()> {
        // All outlets before the first thread: each counts as a producer until it is dropped.
        let outlets: Vec<O> = (0..threads).map(|_| outlet()).collect();
        let idle_max = usize::try_from(self.options.buffered_bytes_max).unwrap_or(usize::MAX);
        let buffers = Buffers::with_idle_max(idle_max);
        for (started, outlet) in outlets.into_iter().enumerate() {
            let worker = Worker {
                queue,
                options: &self.options,
                hooks: &self.hooks,
                buffers: buffers.clone(),
                outlet,
            };
            let result = thread::Builder::new()
                .name("stook-walk".to_owned())
                .stack_size(256 << 10)
                .spawn_scoped(scope, move || worker.run());
            match result {
                Ok(_) => {}
                Err(e) if started == 0 => {
                    queue.stop();
                    return Err(Error::io("start a thread to walk", self.first_root(), e));
                }
                Err(_) => break,
            }
        }
        Ok(())
    }
}

/// Ends the threads of a walk whose consumer is done, whatever the reason.
struct EndOnDrop<'a> {
    queue: &'a Queue,
    hand_over: &'a HandOver,
}

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.queue.stop();
        self.hand_over.close();
    }
}

/// Calls the visitor in the thread that found the entry.
struct Visit<'a, V> {
    visitor: &'a V,
    total: &'a Mutex<WalkSummary>,
    counted: WalkSummary,
    go_on: bool,
}

impl<V: Fn(WalkEvent) -> ControlFlow<()>> Outlet for Visit<'_, V> {
    fn begin(&mut self, _: u64) {}

    fn reserve(&mut self, _: u64) -> bool {
        self.go_on
    }

    fn charge(&mut self, _: u64) {}

    fn put(&mut self, event: WalkEvent, _: u64) {
        self.counted.count(&event);
        self.go_on = (self.visitor)(event).is_continue();
    }

    fn end(&mut self) {}
}

impl<V> Drop for Visit<'_, V> {
    fn drop(&mut self) {
        lock(self.total).add(&self.counted);
    }
}
