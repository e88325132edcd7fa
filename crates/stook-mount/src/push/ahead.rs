//! What a program that goes through a tree directory by directory will ask for next, read before it
//! can be pushed: the kernel knows none of these files yet.
//!
//! A thread of its own reads, so that one pass over the medium is under way while what the last one
//! brought is pushed. Requests are answered from what it read, too.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use stook::engine::Backend;
use stook::tree::{BodyPiece, Gathered, NodeId};

use super::{Pusher, SMALL_MAX, options};
use crate::listing::{Content, contents_of};
use crate::shared::Shared;
use crate::status::count;

/// So much is read ahead; more is read when less than half of it is left.
const AHEAD_BYTES: u64 = 8 << 20;
/// What a file takes besides its bytes.
const FILE_BYTES: u64 = 256;
/// So many directories are looked through for the next: those of each directory above.
const DIRECTORIES_MAX: usize = 1 << 16;

/// Files that were read ahead.
#[derive(Debug, Default)]
pub(crate) struct Ahead(Mutex<HashMap<NodeId, Bytes>>);

impl Ahead {
    fn bodies(&self) -> MutexGuard<'_, HashMap<NodeId, Bytes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All bytes of a file, if they are here.
    pub(crate) fn get(&self, id: NodeId) -> Option<Bytes> {
        self.bodies().get(&id).cloned()
    }
}

/// A directory whose files are read ahead.
#[derive(Debug)]
struct Planned {
    directory: NodeId,
    files: Vec<NodeId>,
    bytes: u64,
}

/// Reads ahead of each directory that is listed, until nobody says any more which.
pub(super) fn run(shared: &Shared, pusher: &Pusher, listed: &Receiver<NodeId>) {
    let mut course = Course::default();
    let mut planned: VecDeque<Planned> = VecDeque::new();
    while let Ok(mut directory) = listed.recv() {
        while let Ok(later) = listed.try_recv() {
            directory = later;
        }
        if pusher.state().is_stopping {
            break;
        }
        match planned.iter().position(|planned| planned.directory == directory) {
            // What this one has is pushed, or read, just now.
            Some(at) => planned.drain(..at).for_each(|passed| forget(pusher, &passed)),
            None => {
                planned.clear();
                pusher.ahead.bodies().clear();
                course = Course::after(shared, directory);
            }
        }
        let left: u64 = planned.iter().skip(1).map(|planned| planned.bytes).sum();
        if left <= AHEAD_BYTES / 2 {
            let more = plan(shared, &mut course, AHEAD_BYTES - left);
            let ids: Vec<NodeId> = more.iter().flat_map(|planned| planned.files.iter().copied()).collect();
            planned.extend(more);
            read(shared, pusher, &ids);
        }
    }
}

fn forget(pusher: &Pusher, passed: &Planned) {
    let mut bodies = pusher.ahead.bodies();
    passed.files.iter().for_each(|id| drop(bodies.remove(id)));
}

/// The next directories of a course, with files of so many bytes.
fn plan(shared: &Shared, course: &mut Course, most: u64) -> Vec<Planned> {
    let (mut planned, mut bytes) = (Vec::new(), 0);
    while bytes < most && planned.len() < DIRECTORIES_MAX {
        let Some(directory) = course.next() else { break };
        let mut next = Planned { directory, files: Vec::new(), bytes: 0 };
        let directories = contents(shared, directory, &mut |id, len| {
            if (1..=SMALL_MAX).contains(&len) && bytes < most {
                bytes += len + FILE_BYTES;
                next.bytes += len + FILE_BYTES;
                next.files.push(id);
            }
        });
        course.enter(directories);
        planned.push(next);
    }
    planned
}

/// Gives the files of a directory, and returns its directories.
fn contents(shared: &Shared, directory: NodeId, file: &mut dyn FnMut(NodeId, u64)) -> Vec<NodeId> {
    let mut directories = Vec::new();
    let listed = contents_of(&*shared.tree, directory, &mut |id, content| match content {
        Content::File(len) => file(id, len),
        Content::Directory if directories.len() < DIRECTORIES_MAX => directories.push(id),
        Content::Directory => {}
    });
    // Who lists it gets the error.
    if listed.is_ok() { directories } else { Vec::new() }
}

fn read(shared: &Shared, pusher: &Pusher, ids: &[NodeId]) {
    if ids.is_empty() {
        return;
    }
    let deliver = &mut |gathered: Gathered| {
        if let Some(piece) = gathered.result.ok().filter(BodyPiece::is_whole) {
            // By itself: what was read may be a small part of what that keeps.
            let bytes = Bytes::copy_from_slice(&piece.bytes);
            pusher.ahead.bodies().insert(gathered.id, bytes);
            count(&shared.counters.read_ahead);
        }
        match pusher.state().is_stopping {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    // What cannot be read is left to who asks for it.
    let _left = shared.tree.gather(ids, &Backend::Auto, &options(), deliver);
}

/// The way through a tree: each directory before what is in it, in the order of the listings.
#[derive(Debug, Default)]
struct Course {
    /// The directories that were not visited yet, of the one visited last and of those above.
    levels: Vec<std::vec::IntoIter<NodeId>>,
}

impl Course {
    /// From behind a directory's own files on.
    fn after(shared: &Shared, directory: NodeId) -> Self {
        let mut levels = vec![contents(shared, directory, &mut |_, _| {}).into_iter()];
        let (mut below, root) = (directory, shared.numbers.root);
        while below != root {
            let parent = shared.parent_of(below);
            let siblings = contents(shared, parent, &mut |_, _| {});
            let at = siblings.iter().position(|sibling| *sibling == below);
            let mut siblings = siblings.into_iter();
            if let Some(at) = at {
                siblings.by_ref().take(at + 1).for_each(drop);
            }
            levels.push(siblings);
            below = parent;
        }
        levels.reverse();
        Self { levels }
    }

    fn next(&mut self) -> Option<NodeId> {
        loop {
            match self.levels.last_mut()?.next() {
                Some(directory) => return Some(directory),
                None => drop(self.levels.pop()),
            }
        }
    }

    /// Goes on with what is in the directory that was visited last.
    fn enter(&mut self, directories: Vec<NodeId>) {
        self.levels.push(directories.into_iter());
    }
}
