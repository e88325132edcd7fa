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

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};

use fuser::Notifier;
use stook::engine::Backend;
use stook::tree::{GatherOptions, Gathered, NodeId};

use crate::listing::files_of;
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
    /// A file that was read; nothing, when the mount has ended.
    wake: SyncSender<Option<NodeId>>,
}

/// A directory that was listed.
#[derive(Debug, Clone, Copy, Default)]
struct Listed {
    /// Its position among those that were listed.
    position: u64,
    /// Whether some of it was pushed, or nothing was there to be.
    is_pushed: bool,
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
    /// A file in it that was left out.
    left_out: NodeId,
    /// Where the next begins: the directory, and its first file there.
    next: (NodeId, usize),
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
    /// Files that were pushed, and not read since.
    pushed: HashSet<NodeId>,
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
}

impl Pusher {
    /// With what its thread waits on.
    pub(crate) fn new() -> (Self, Receiver<Option<NodeId>>) {
        let (wake, woken) = sync_channel(WAITING_MAX);
        (Self { state: Mutex::default(), wake }, woken)
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
    }

    /// A file was read by a request. Says whether it had been pushed.
    pub(crate) fn read(&self, shared: &Shared, id: NodeId) {
        let mut state = self.state();
        if state.read.len() >= READ_MAX {
            state.read.clear();
        }
        let is_first = state.read.insert(id);
        if state.pushed.remove(&id) {
            count(&shared.counters.read_too);
        }
        let is_left_out = state.window.is_some_and(|window| window.left_out == id);
        let is_wanted = is_first && (is_left_out || !state.is_busy);
        drop(state);
        if is_wanted {
            match self.wake.try_send(Some(id)) {
                Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
            }
        }
    }

    /// Ends its thread. What it pushes just now is refused by the kernel, once the mount has ended.
    pub(crate) fn stop(&self) {
        self.state().is_stopping = true;
        // It may have ended by itself; where it has no room for more, it looks before each.
        let _ended = self.wake.try_send(None);
    }

    /// Where a window begins because a file was read, and how many directories it may have.
    fn begin(&self, shared: &Shared, id: NodeId) -> Option<(NodeId, Begin, usize)> {
        let directory = shared.parent_of(id);
        let mut state = self.state();
        state.listed.get(&directory)?;
        state.is_busy = true;
        if let Some(window) = state.window.filter(|window| window.left_out == id) {
            let (directory, position) = window.next;
            return Some((directory, Begin::Position(position), WINDOW_DIRECTORIES));
        }
        let before = |distance| state.neighbour(directory, distance).is_some_and(|one| state.is_pushed(one));
        let goes_on = before(-1) || before(-2);
        Some((directory, Begin::File(id), if goes_on { WINDOW_DIRECTORIES } else { 1 }))
    }
}

/// Pushes until the mount has ended.
pub(crate) fn run(shared: &Shared, woken: &Receiver<Option<NodeId>>, notifier: &Notifier) {
    let Some(pusher) = &shared.pusher else { return };
    while let Ok(Some(id)) = woken.recv() {
        if pusher.state().is_stopping {
            break;
        }
        if let Some(begin) = pusher.begin(shared, id) {
            let ids = choose(shared, pusher, begin);
            push(shared, pusher, &ids, notifier);
        }
        pusher.state().is_busy = false;
    }
}

/// Chooses the files of a window, and notes where the next begins.
fn choose(
    shared: &Shared,
    pusher: &Pusher,
    (start, from, directories): (NodeId, Begin, usize),
) -> Vec<NodeId> {
    let (mut ids, mut bytes) = (Vec::new(), 0_u64);
    let (mut next, mut from) = (Some(start), from);
    let mut end = None;
    for _ in 0..directories {
        let Some(directory) = next else { break };
        let (mut position, mut has_begun) = (0, false);
        let listed = files_of(&*shared.tree, directory, &mut |id, len| {
            has_begun |= match from {
                Begin::File(file) => file == id,
                Begin::Position(first) => position >= first,
            };
            if has_begun && (1..=SMALL_MAX).contains(&len) && end.is_none() {
                match bytes < WINDOW_BYTES && ids.len() < WINDOW_FILES {
                    true => {
                        bytes = bytes.saturating_add(len);
                        ids.push(id);
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
        }
        next = state.neighbour(directory, 1).filter(|one| !state.is_pushed(*one));
        from = Begin::Position(0);
        if end.is_some() {
            break;
        }
    }
    let end = end.or(next.map(|directory| (directory, 0)));
    // A short window has nothing in it that could be left out.
    let left_out = ids.len() / LEFT_OUT;
    let goes_on = directories > 1 || end.is_some_and(|(directory, _)| directory == start);
    let window = end.filter(|_| goes_on && left_out > 0);
    let window = window.map(|next| Window { left_out: ids.remove(left_out), next });
    pusher.state().window = window;
    ids
}

/// Reads files and puts them into the page cache. One that cannot be read is left to the request
/// that asks for it, which says why.
fn push(shared: &Shared, pusher: &Pusher, ids: &[NodeId], notifier: &Notifier) {
    let wanted: Vec<NodeId> = {
        let state = pusher.state();
        ids.iter().copied().filter(|id| !state.read.contains(id)).collect()
    };
    if wanted.is_empty() {
        return;
    }
    count(&shared.counters.passes);
    let options =
        GatherOptions { piece_bytes: SMALL_MAX, memory_bytes: MEMORY_BYTES, ..GatherOptions::default() };
    let deliver = &mut |gathered: Gathered| {
        if pusher.state().is_stopping {
            return ControlFlow::Break(());
        }
        let Ok(piece) = gathered.result else { return ControlFlow::Continue(()) };
        let id = gathered.id;
        if !piece.is_whole() || pusher.state().read.contains(&id) {
            return ControlFlow::Continue(());
        }
        match notifier.store(shared.numbers.inode(id), 0, &piece.bytes) {
            Ok(()) => {
                count(&shared.counters.pushed_files);
                shared.counters.pushed_bytes.fetch_add(piece.body_len, Ordering::Relaxed);
                let mut state = pusher.state();
                if state.pushed.len() >= READ_MAX {
                    state.pushed.clear();
                }
                state.pushed.insert(id);
                ControlFlow::Continue(())
            }
            // The mount has ended.
            Err(_) => ControlFlow::Break(()),
        }
    };
    if let Err(error) = shared.tree.gather(&wanted, &Backend::Auto, &options, deliver) {
        shared.failed(shared.numbers.root, &error);
    }
}
