//! A gather that opens files ahead of their reads, with several threads.
//!
//! Of a file that was not used for a while the system reads name and inode from the device when it
//! is opened, and the thread that opens it waits for that. One thread that opens and reads in turn
//! leaves the device with little to do meanwhile: the reads of a small file are over sooner than
//! the next one is open. So others open, in the order of the medium, a few files ahead.
//!
//! Nothing is read here, and no thread outlives the gather.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use bytes::Bytes;

use super::any::Tree;
use super::gather::{Deliver, GatherOptions, Next, Span, Supply, gather_supplied, in_medium_order};
use super::node::NodeId;
use crate::engine::{Access, EngineFactory};
use crate::error::{Error, Result};
use crate::extent::ByteRange;
use crate::source::{AccessRule, Leaf, Source};

/// Threads that open, at most: as with any other small reads, a device serves several at once in
/// the time of one.
const OPENERS_MAX: usize = 8;

/// A thread for this many files: for fewer, making it takes longer than it saves.
const FILES_PER_OPENER: usize = 16;

/// Files that are open, or being opened, and not begun to be read, at most.
const AHEAD_MAX: usize = 32;

/// A pass over a tree whose bodies are files, each of which is opened by itself.
pub(crate) fn gather_opened_ahead<T: Tree>(
    tree: &T,
    ids: &[NodeId],
    factory: &dyn EngineFactory,
    options: &GatherOptions,
    deliver: &mut Deliver<'_>,
) -> Result<()> {
    let order = in_medium_order(tree, ids);
    let (access, piece_bytes) = (options.access, options.piece_bytes.max(1));
    let open = |at: usize| {
        // The order has positions of ids.
        let id = order.get(at).and_then(|&index| ids.get(index));
        let source = tree.open(id.copied().unwrap_or(NodeId::new(u64::MAX)))?;
        prepare(&*source, access, piece_bytes);
        Ok(source)
    };
    let ahead = OpenAhead::new(tree.path(), ids.len(), &open);
    ahead.run(|| gather_supplied(FromAhead { ahead: &ahead, order: &order }, ids, factory, options, deliver))
}

/// Opens a file for direct reads too, where its first piece is read so: the second opening is the
/// longer one.
fn prepare(source: &dyn Source, access: AccessRule, piece_bytes: u64) {
    let range = ByteRange::to(source.len().min(piece_bytes));
    if range.is_empty() || access.decide(source, range) == Access::Cached {
        return;
    }
    let mut leaves = Vec::with_capacity(1);
    // The read meets the error, and reports it.
    if source.resolve(range, &mut leaves).is_err() {
        return;
    }
    for leaf in leaves {
        if let Leaf::File { file, .. } = leaf {
            // It remembers the answer.
            file.is_direct_possible();
        }
    }
}

/// Opens the file with a number.
type Open<'a> = &'a (dyn Fn(usize) -> Result<Arc<dyn Source>> + Sync);

/// Files that are opened ahead of their reads, in their order.
pub(crate) struct OpenAhead<'a> {
    /// Where they are, for messages.
    path: &'a Path,
    count: usize,
    open: Open<'a>,
    state: Mutex<State>,
    /// Another one may be opened.
    room: Condvar,
    /// The one that is taken next is open.
    opened: Condvar,
}

#[derive(Default)]
struct State {
    /// Which one is taken next.
    at: usize,
    /// It and those after it, as far as they are being opened or open; `None` while that has not
    /// ended.
    opened: VecDeque<Option<Result<Arc<dyn Source>>>>,
    /// No more are taken.
    is_over: bool,
}

impl<'a> OpenAhead<'a> {
    /// So many files, which are opened by their numbers from 0 on.
    pub(crate) fn new(path: &'a Path, count: usize, open: Open<'a>) -> Self {
        let (room, opened) = (Condvar::new(), Condvar::new());
        Self { path, count, open, state: Mutex::default(), room, opened }
    }

    /// Opens them while they are taken, and no longer than that.
    pub(crate) fn run<R>(&self, take: impl FnOnce() -> R) -> R {
        let openers = (self.count / FILES_PER_OPENER).min(OPENERS_MAX);
        thread::scope(|scope| {
            // Also where taking them ends early, or panics.
            let _ending = Ending(self);
            for _ in 0..openers {
                let opener = thread::Builder::new().name("stook-open".into());
                // Where the system has no thread for it, the one that reads opens too.
                if opener.spawn_scoped(scope, || self.open_ahead()).is_err() {
                    break;
                }
            }
            take()
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // It is changed in single steps, so a panic elsewhere cannot leave it half written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens one after another while there is room, until nothing is left or no more are taken.
    fn open_ahead(&self) {
        while let Some(at) = self.begin_next() {
            let slot = Slot { ahead: self, at };
            slot.fill((self.open)(at));
        }
    }

    /// Which one to open now.
    fn begin_next(&self) -> Option<usize> {
        let mut state = self.state();
        loop {
            let next = state.at + state.opened.len();
            if state.is_over || next >= self.count {
                return None;
            }
            if state.opened.len() < AHEAD_MAX {
                state.opened.push_back(None);
                return Some(next);
            }
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn put(&self, at: usize, opened: Result<Arc<dyn Source>>) {
        let mut state = self.state();
        let place = at.checked_sub(state.at);
        if let Some(slot) = place.and_then(|place| state.opened.get_mut(place)) {
            *slot = Some(opened);
        }
        drop(state);
        if place == Some(0) {
            self.opened.notify_one();
        }
    }

    /// The one that is next; opened now, if no other thread has begun to.
    pub(crate) fn take_next(&self) -> Option<(usize, Result<Arc<dyn Source>>)> {
        let mut state = self.state();
        let at = state.at;
        if at >= self.count {
            return None;
        }
        if state.opened.is_empty() {
            state.opened.push_back(None);
            drop(state);
            let opened = (self.open)(at);
            state = self.state();
            state.opened.pop_front();
            state.at += 1;
            drop(state);
            self.room.notify_one();
            return Some((at, opened));
        }
        loop {
            if let Some(opened) = state.opened.front_mut().and_then(Option::take) {
                state.opened.pop_front();
                state.at += 1;
                drop(state);
                self.room.notify_one();
                return Some((at, opened));
            }
            state = self.opened.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn end(&self) {
        self.state().is_over = true;
        self.room.notify_all();
    }
}

/// When it is dropped, nothing more is opened.
struct Ending<'a, 'b>(&'a OpenAhead<'b>);

impl Drop for Ending<'_, '_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The place of one that is being opened. It is filled in any case, or the reader would wait for
/// ever.
struct Slot<'a, 'b> {
    ahead: &'a OpenAhead<'b>,
    at: usize,
}

impl Slot<'_, '_> {
    fn fill(self, opened: Result<Arc<dyn Source>>) {
        self.ahead.put(self.at, opened);
        std::mem::forget(self);
    }
}

impl Drop for Slot<'_, '_> {
    fn drop(&mut self) {
        let what = io::Error::other("the thread that opened it has panicked");
        self.ahead.put(self.at, Err(Error::io("open", self.ahead.path, what)));
    }
}

/// Gives what was opened ahead.
struct FromAhead<'a, 'b> {
    ahead: &'a OpenAhead<'b>,
    /// Which of the ids each is.
    order: &'a [usize],
}

impl Supply for FromAhead<'_, '_> {
    /// It gives no spans.
    type Part = Infallible;

    fn next(&mut self) -> Option<Next<Infallible>> {
        let (at, opened) = self.ahead.take_next()?;
        let index = self.order.get(at).copied()?;
        Some(match opened {
            Ok(source) => Next::Body(index, source),
            Err(error) => Next::Failed(index, error),
        })
    }

    fn take(&mut self, _: Span<Infallible>, _: &Bytes) -> Vec<(usize, Result<Bytes>)> {
        Vec::new()
    }

    fn take_apart(&mut self, _: Span<Infallible>) {}
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::engine::Backend;
    use crate::source::MemorySource;
    use crate::tree::{Cursor, Gathered, Node, Page};

    /// Files of one byte, the number of their id; each seventh cannot be opened. The last comes
    /// first on the medium.
    #[derive(Debug, Default)]
    struct Opened {
        count: AtomicUsize,
        /// How many have to be opened at once before any of them is open.
        together: usize,
        meeting: Mutex<usize>,
        met: Condvar,
    }

    impl Tree for Opened {
        fn path(&self) -> &Path {
            Path::new("opened")
        }
        fn root(&self) -> NodeId {
            NodeId::new(0)
        }
        fn lookup(&self, _: NodeId, _: &[u8]) -> Result<Option<NodeId>> {
            Ok(None)
        }
        fn list(&self, _: NodeId, _: &Cursor, _: &mut Page) -> Result<Option<Cursor>> {
            Ok(None)
        }
        fn node(&self, _: NodeId) -> Result<Node> {
            Err(Error::io("stat", self.path(), io::ErrorKind::Unsupported.into()))
        }
        fn path_of(&self, id: NodeId) -> PathBuf {
            self.path().join(id.get().to_string())
        }
        fn link_target(&self, _: NodeId) -> Result<Vec<u8>> {
            Err(Error::io("read link", self.path(), io::ErrorKind::Unsupported.into()))
        }
        fn medium_order(&self, id: NodeId) -> u64 {
            u64::MAX - id.get()
        }
        fn open(&self, id: NodeId) -> Result<Arc<dyn Source>> {
            self.count.fetch_add(1, Ordering::SeqCst);
            let mut here = self.meeting.lock().unwrap();
            *here += 1;
            self.met.notify_all();
            while *here < self.together {
                let (still, waited) = self.met.wait_timeout(here, Duration::from_secs(60)).unwrap();
                assert!(!waited.timed_out(), "no other thread opens anything");
                here = still;
            }
            if id.get() % 7 == 3 {
                return Err(Error::io("open", self.path_of(id), io::ErrorKind::PermissionDenied.into()));
            }
            Ok(Arc::new(MemorySource::new(self.path_of(id), vec![id.get() as u8])))
        }
    }

    /// What arrives, in order: the index, and the byte or that there is none.
    fn gathered(tree: &Opened, ids: &[NodeId], options: &GatherOptions) -> Vec<(usize, Option<u8>)> {
        let mut all = Vec::new();
        let mut take = |one: Gathered| -> ControlFlow<()> {
            assert_eq!(one.id, ids[one.index]);
            all.push((one.index, one.result.ok().map(|piece| piece.bytes[0])));
            // What is opened ahead is bounded, whatever else is under way.
            let most = all.len() + AHEAD_MAX + 2;
            assert!(options.memory_bytes > 1 || tree.count.load(Ordering::SeqCst) <= most);
            ControlFlow::Continue(())
        };
        gather_opened_ahead(tree, ids, &Backend::Threads, options, &mut take).unwrap();
        all
    }

    #[test]
    fn files_are_opened_at_once_and_arrive_in_the_order_of_the_medium() {
        let ids: Vec<NodeId> = (0..250).map(NodeId::new).collect();
        let byte = |index: usize| (index % 7 != 3).then_some(index as u8);
        for memory_bytes in [1, 64 << 20] {
            let options = GatherOptions { memory_bytes, ..GatherOptions::default() };
            let tree = Opened { together: 4, ..Opened::default() };
            let mut all = gathered(&tree, &ids, &options);
            assert_eq!(tree.count.load(Ordering::SeqCst), 250);
            // What cannot be opened does not wait for those before it to be read.
            let read: Vec<usize> = all.iter().filter(|(_, byte)| byte.is_some()).map(|(at, _)| *at).collect();
            assert!(read.is_sorted_by(|before, after| before > after), "{read:?}");
            all.sort_unstable();
            assert_eq!(all, (0..250).map(|index| (index, byte(index))).collect::<Vec<_>>());
        }
        // Too few for a thread, and none.
        let tree = Opened::default();
        assert_eq!(gathered(&tree, &ids[..2], &GatherOptions::default()), [(1, Some(1)), (0, Some(0))]);
        assert!(gathered(&tree, &[], &GatherOptions::default()).is_empty());
    }

    #[test]
    fn nothing_more_is_opened_when_the_delivery_breaks() {
        let ids: Vec<NodeId> = (0..10_000).map(NodeId::new).collect();
        let tree = Opened::default();
        let mut take = |_: Gathered| -> ControlFlow<()> { ControlFlow::Break(()) };
        gather_opened_ahead(&tree, &ids, &Backend::Threads, &GatherOptions::default(), &mut take).unwrap();
        assert!(tree.count.load(Ordering::SeqCst) < 1000);
    }
}
