//! Putting small files into the kernel's page cache before they are asked for.
//!
//! A thread of its own does it, which answers no request: the kernel may make it wait for a page
//! that a request is about to fill. It begins after a file was read in a directory that was listed:
//! a listing alone copies nothing. Then it goes on, in the order of the listing, from that file on,
//! and where the directory before was pushed too, with the directories listed after it. What is
//! pushed at once is a bounded window ([`WINDOW_BYTES`]). Pages that are read from memory are not
//! heard of, so one file early in each window is left out: when it is read, the next window
//! is pushed while the rest of this one is read. Where a program stops, no more than that is in
//! vain.
//!
//! A program that reads each directory before it lists the next is pushed what it lists as soon as
//! it has listed it, as long as it read what was left out of the one before. That is the first file
//! there: a program asks for it at once, before it could be pushed. What the directories after that
//! have is read ahead meanwhile ([`Ahead`]).

mod ahead;

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use fuser::{Errno, Notifier};
use stook::engine::Backend;
use stook::tree::{GatherOptions, Gathered, NodeId};

use self::ahead::Ahead;
use crate::listing::{Content, contents_of};
use crate::shared::Shared;
use crate::status::count;

/// Files of up to this many bytes are pushed.
pub(crate) const SMALL_MAX: u64 = 1 << 20;
/// Bytes that are pushed at once, with those of one file more.
const WINDOW_BYTES: u64 = 32 << 20;
/// Files that are pushed at once.
const WINDOW_FILES: usize = 16 << 10;
/// Directories that are pushed at once.
const WINDOW_DIRECTORIES: usize = 32;
/// Which part of a window comes before the file that is left out: the rest is read while the next
/// window is looked up and read, not always in the order in which it is wanted.
const LEFT_OUT: usize = 8;
/// Memory for bytes that are on their way.
const MEMORY_BYTES: u64 = 16 << 20;
/// Listed directories that are remembered.
const LISTED_MAX: usize = 1 << 16;
/// Files that were read are remembered, so that they are not pushed as well.
const READ_MAX: usize = 1 << 16;
/// Requests that wait for the pusher. What has no place is not pushed, and is read.
const WAITING_MAX: usize = 64;

/// Takes what was listed and read.
#[derive(Debug)]
pub(crate) struct Pusher {
    state: Mutex<State>,
    wake: SyncSender<Wake>,
    ahead: Ahead,
}

/// What the thread waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wake {
    /// A file was read.
    Read(NodeId),
    /// A directory was listed after one that was pushed and read.
    Listed(NodeId),
    /// The mount has ended.
    Stop,
}

/// A directory that was listed.
#[derive(Debug, Clone, Copy, Default)]
struct Listed {
    /// Its position among those that were listed.
    position: u64,
    /// Whether some of it was pushed, or nothing was there to be.
    is_pushed: bool,
    /// Whether a file of it was read by a request since: what was left out, or before it was
    /// pushed.
    is_read: bool,
}

/// Where a window begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begin {
    /// At this file.
    File(NodeId),
    /// At the file with this position in its directory.
    Position(usize),
}

/// A window that was pushed last.
#[derive(Debug, Clone, Copy)]
struct Window {
    /// A file in it that was left out, and the directory that this is in.
    left_out: NodeId,
    directory: NodeId,
    /// Where the next begins: the directory, and its first file there; nothing, where no more was
    /// listed.
    next: Option<(NodeId, usize)>,
}

#[derive(Debug, Default)]
struct State {
    /// In the order of the listings.
    order: VecDeque<NodeId>,
    /// The position of the first of them.
    first: u64,
    listed: HashMap<NodeId, Listed>,
    /// Files that a request has read.
    read: HashSet<NodeId>,
    /// Files that were pushed, and not read by a request since, with the number of the pass.
    pushed: HashMap<NodeId, u64>,
    passes: u64,
    window: Option<Window>,
    /// Whether the pusher is at work.
    is_busy: bool,
    /// Whether it is to end.
    is_stopping: bool,
}

impl State {
    /// The directory that was listed after, or before, another.
    fn neighbour(&self, directory: NodeId, distance: i64) -> Option<NodeId> {
        let at = self.listed.get(&directory)?.position.checked_add_signed(distance)?;
        self.order.get(usize::try_from(at.checked_sub(self.first)?).ok()?).copied()
    }

    fn is_pushed(&self, directory: NodeId) -> bool {
        self.listed.get(&directory).is_some_and(|listed| listed.is_pushed)
    }

    /// Whether one of the two directories listed before was pushed, and meets a condition.
    fn goes_on(&self, directory: NodeId, meets: impl Fn(&Listed) -> bool) -> bool {
        [-1, -2].into_iter().any(|distance| {
            let before = self.neighbour(directory, distance).and_then(|before| self.listed.get(&before));
            before.is_some_and(|before| before.is_pushed && meets(before))
        })
    }
}

impl Pusher {
    /// With what its thread waits on.
    pub(crate) fn new() -> (Self, Receiver<Wake>) {
        let (wake, wakes) = sync_channel(WAITING_MAX);
        (Self { state: Mutex::default(), wake, ahead: Ahead::default() }, wakes)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A directory was listed to its end: the kernel knows all that is in it.
    pub(crate) fn listed(&self, directory: NodeId) {
        let mut state = self.state();
        let state = &mut *state;
        if state.listed.contains_key(&directory) {
            return;
        }
        let has_no_room = state.order.len() >= LISTED_MAX;
        if let Some(oldest) = has_no_room.then(|| state.order.pop_front()).flatten() {
            state.first += 1;
            state.listed.remove(&oldest);
        }
        let position = state.first + state.order.len() as u64;
        state.listed.insert(directory, Listed { position, ..Listed::default() });
        state.order.push_back(directory);
        if state.goes_on(directory, |before| before.is_read) {
            self.wake(Wake::Listed(directory));
        }
    }

    /// Wakes the thread. What has no place is not pushed, and is read.
    fn wake(&self, wake: Wake) {
        match self.wake.try_send(wake) {
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }

    /// A file was read by a request. Says whether it had been pushed.
    pub(crate) fn read(&self, shared: &Shared, id: NodeId) {
        let mut state = self.state();
        if state.read.len() >= READ_MAX {
            state.read.clear();
        }
        let is_first = state.read.insert(id);
        let pass = state.pushed.remove(&id);
        if let Some(pass) = pass {
            count(&shared.counters.read_too);
            if pass + 1 < state.passes {
                // Its pages have gone, and so may others have.
                state.pushed.clear();
            }
        }
        let left_out = state.window.filter(|window| window.left_out == id);
        if let Some(window) = left_out {
            // The next directory may be listed before the thread gets to it.
            state.listed.entry(window.directory).and_modify(|listed| listed.is_read = true);
        }
        let is_left_out = left_out.is_some();
        let is_wanted = is_first && (is_left_out || !state.is_busy);
        drop(state);
        if is_wanted {
            self.wake(Wake::Read(id));
        }
    }

    /// All bytes of a file, if they were read ahead.
    pub(crate) fn read_ahead(&self, id: NodeId) -> Option<Bytes> {
        self.ahead.get(id)
    }

    /// Ends its thread. What it pushes just now is refused by the kernel, once the mount has ended.
    pub(crate) fn stop(&self) {
        self.state().is_stopping = true;
        // It may have ended by itself; where it has no room for more, it looks before each.
        self.wake(Wake::Stop);
    }

    /// Where a window begins, and how many directories it may have.
    fn begin(&self, shared: &Shared, wake: Wake) -> Option<(NodeId, Begin, usize)> {
        let (directory, file) = match wake {
            Wake::Read(id) => (shared.parent_of(id), Some(id)),
            Wake::Listed(directory) => (directory, None),
            Wake::Stop => return None,
        };
        let mut state = self.state();
        let listed = state.listed.get_mut(&directory)?;
        listed.is_read |= file.is_some();
        let is_pushed = listed.is_pushed;
        state.is_busy = true;
        let Some(id) = file else {
            return (!is_pushed).then_some((directory, Begin::Position(0), WINDOW_DIRECTORIES));
        };
        if let Some(window) = state.window.filter(|window| window.left_out == id) {
            let after = || state.neighbour(directory, 1).filter(|after| !state.is_pushed(*after));
            let (directory, position) = window.next.or_else(|| after().map(|after| (after, 0)))?;
            return Some((directory, Begin::Position(position), WINDOW_DIRECTORIES));
        }
        let goes_on = state.goes_on(directory, |_| true);
        Some((directory, Begin::File(id), if goes_on { WINDOW_DIRECTORIES } else { 1 }))
    }
}

/// Pushes until the mount has ended.
pub(crate) fn run(shared: &Shared, wakes: &Receiver<Wake>, notifier: &Notifier) {
    let Some(pusher) = &shared.pusher else { return };
    let (listed, followed) = sync_channel(WAITING_MAX);
    std::thread::scope(|scope| {
        scope.spawn(move || ahead::run(shared, pusher, &followed));
        while let Ok(wake) = wakes.recv() {
            if pusher.state().is_stopping {
                break;
            }
            if let Some(begin) = pusher.begin(shared, wake) {
                let is_listed = matches!(wake, Wake::Listed(_));
                if is_listed {
                    // Where it has no time for it, nothing is read ahead.
                    let _full = listed.try_send(begin.0);
                }
                let ids = choose(shared, pusher, begin, is_listed);
                push(shared, pusher, &ids, notifier);
            }
            pusher.state().is_busy = false;
        }
        drop(listed);
    });
}

/// Whether the kernel refuses because the mount has ended.
pub(crate) fn has_ended(error: &std::io::Error) -> bool {
    let errno = error.raw_os_error();
    [Errno::ENODEV, Errno::ENOTCONN].iter().any(|ended| Some(ended.code()) == errno)
}

fn options() -> GatherOptions {
    GatherOptions { piece_bytes: SMALL_MAX, memory_bytes: MEMORY_BYTES, ..GatherOptions::default() }
}

/// Chooses the files of a window, and notes where the next begins.
fn choose(
    shared: &Shared,
    pusher: &Pusher,
    (start, from, directories): (NodeId, Begin, usize),
    is_listed: bool,
) -> Vec<NodeId> {
    let (mut ids, mut bytes) = (Vec::new(), 0_u64);
    let (mut next, mut from) = (Some(start), from);
    let mut end = None;
    for _ in 0..directories {
        let Some(directory) = next else { break };
        let (mut position, mut has_begun) = (0, false);
        let listed = contents_of(&*shared.tree, directory, &mut |id, content| {
            let Content::File(len) = content else { return };
            has_begun |= match from {
                Begin::File(file) => file == id,
                Begin::Position(first) => position >= first,
            };
            if has_begun && (1..=SMALL_MAX).contains(&len) && end.is_none() {
                match bytes < WINDOW_BYTES && ids.len() < WINDOW_FILES {
                    true => {
                        bytes = bytes.saturating_add(len);
                        ids.push((id, directory));
                    }
                    false => end = Some((directory, position)),
                }
            }
            position += 1;
        });
        if let Err(error) = listed {
            shared.failed(directory, &error);
        }
        let mut state = pusher.state();
        if let Some(listed) = state.listed.get_mut(&directory) {
            listed.is_pushed = true;
            // Where there is no file, nothing is there to be read.
            listed.is_read |= position == 0;
        }
        next = state.neighbour(directory, 1).filter(|one| !state.is_pushed(*one));
        from = Begin::Position(0);
        if end.is_some() {
            break;
        }
    }
    let end = end.or(next.map(|directory| (directory, 0)));
    let goes_on = directories > 1 || end.is_some_and(|(directory, _)| directory == start);
    let left_out = match is_listed {
        true => Some(0).filter(|_| !ids.is_empty()),
        // A short window has nothing in it that could be left out, and the last one need not.
        false => Some(ids.len() / LEFT_OUT).filter(|at| goes_on && end.is_some() && *at > 0),
    };
    let left_out = left_out.map(|at| ids.remove(at));
    let window = left_out.map(|(left_out, directory)| Window { left_out, directory, next: end });
    pusher.state().window = window;
    ids.into_iter().map(|(id, _)| id).collect()
}

/// Puts files into the page cache: what was read ahead first, then what is read for it. One that
/// cannot be read is left to the request that asks for it, which says why.
fn push(shared: &Shared, pusher: &Pusher, ids: &[NodeId], notifier: &Notifier) {
    let is_there = |id: &NodeId| {
        let state = pusher.state();
        state.read.contains(id) || state.pushed.contains_key(id)
    };
    let left: Vec<NodeId> = ids.iter().copied().filter(|id| !is_there(id)).collect();
    if left.is_empty() {
        return;
    }
    pusher.state().passes += 1;
    count(&shared.counters.passes);
    let mut wanted = Vec::new();
    for id in left.iter().filter(|id| !is_there(id)) {
        let Some(bytes) = pusher.ahead.get(*id) else {
            wanted.push(*id);
            continue;
        };
        if pusher.state().is_stopping || store(shared, pusher, (*id, &bytes), notifier).is_break() {
            return;
        }
    }
    if wanted.is_empty() {
        return;
    }
    let deliver = &mut |gathered: Gathered| {
        if pusher.state().is_stopping {
            return ControlFlow::Break(());
        }
        match gathered.result {
            Ok(piece) if piece.is_whole() && !is_there(&gathered.id) => {
                store(shared, pusher, (gathered.id, &piece.bytes), notifier)
            }
            _ => ControlFlow::Continue(()),
        }
    };
    if let Err(error) = shared.tree.gather(&wanted, &Backend::Auto, &options(), deliver) {
        shared.failed(shared.numbers.root, &error);
    }
}

/// Puts one into the page cache. `Break` where the mount has ended.
fn store(
    shared: &Shared,
    pusher: &Pusher,
    (id, bytes): (NodeId, &Bytes),
    notifier: &Notifier,
) -> ControlFlow<()> {
    if notifier.store(shared.numbers.inode(id), 0, bytes).is_err() {
        return ControlFlow::Break(());
    }
    count(&shared.counters.pushed_files);
    shared.counters.pushed_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    let mut state = pusher.state();
    if state.pushed.len() >= READ_MAX {
        state.pushed.clear();
    }
    let pass = state.passes;
    state.pushed.insert(id, pass);
    ControlFlow::Continue(())
}
