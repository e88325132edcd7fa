//! Putting small files into the kernel's page cache before they are asked for.
//!
//! A thread of its own does it, which answers no request: the kernel may make it wait for a page
//! that a request is about to fill. It begins after a file was read in a directory that was listed:
//! a listing alone copies nothing. Then it goes on, in the order of the listing, from that file on,
//! and where the directory before was pushed too, with the directories listed after it. What is
//! pushed at once is bounded ([`WINDOW_BYTES`]); the first file that was not, when it is read,
//! brings the next part. So that no more than that is ever lost where a program stops.

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
    /// Whether the pusher is at work.
    is_busy: bool,
    /// Whether it is to end.
    is_stopping: bool,
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
        let is_wanted = is_first && !state.is_busy;
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
        // It may have ended by itself.
        let _ended = self.wake.send(None);
    }

    /// What is to be pushed because a file was read: directories, and from which of its files on.
    fn plan(&self, shared: &Shared, id: NodeId) -> Vec<(NodeId, Option<NodeId>)> {
        let directory = shared.parent_of(id);
        let mut state = self.state();
        let Some(this) = state.listed.get(&directory).copied() else { return Vec::new() };
        let before = |back: u64| {
            let at = this.position.checked_sub(back)?.checked_sub(state.first)?;
            let directory = state.order.get(usize::try_from(at).ok()?)?;
            state.listed.get(directory).map(|listed| listed.is_pushed)
        };
        let goes_on = before(1) == Some(true) || before(2) == Some(true);
        let mut plan = vec![(directory, Some(id))];
        if goes_on {
            let start = this.position.saturating_sub(state.first) as usize + 1;
            let after = state
                .order
                .iter()
                .skip(start)
                .filter(|directory| state.listed.get(directory).is_some_and(|listed| !listed.is_pushed));
            plan.extend(after.take(WINDOW_DIRECTORIES).map(|directory| (*directory, None)));
        }
        state.is_busy = true;
        plan
    }
}

/// Pushes until the mount has ended.
pub(crate) fn run(shared: &Shared, woken: &Receiver<Option<NodeId>>, notifier: &Notifier) {
    let Some(pusher) = &shared.pusher else { return };
    while let Ok(Some(id)) = woken.recv() {
        let plan = pusher.plan(shared, id);
        let (mut ids, mut bytes) = (Vec::new(), 0);
        for (directory, from) in plan {
            if bytes >= WINDOW_BYTES || ids.len() >= WINDOW_FILES {
                break;
            }
            choose(shared, pusher, (directory, from), &mut ids, &mut bytes);
        }
        push(shared, pusher, &ids, notifier);
        pusher.state().is_busy = false;
    }
}

/// Chooses files of a directory, from one on or from its first, as far as there is room.
fn choose(
    shared: &Shared,
    pusher: &Pusher,
    (directory, from): (NodeId, Option<NodeId>),
    ids: &mut Vec<NodeId>,
    bytes: &mut u64,
) {
    let mut has_begun = from.is_none();
    let listed = files_of(&*shared.tree, directory, &mut |id, len| {
        has_begun |= from == Some(id);
        let fits = *bytes < WINDOW_BYTES && ids.len() < WINDOW_FILES;
        if has_begun && fits && (1..=SMALL_MAX).contains(&len) {
            *bytes = bytes.saturating_add(len);
            ids.push(id);
        }
    });
    if let Err(error) = listed {
        shared.failed(directory, &error);
    }
    if let Some(listed) = pusher.state().listed.get_mut(&directory) {
        listed.is_pushed = true;
    }
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
