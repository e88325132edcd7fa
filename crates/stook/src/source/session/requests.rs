//! The requests of a session: pieces of objects, requested a few at a time and answered by another
//! thread.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;

use super::assembly::Piece;
use super::slab::Slab;
use crate::error::Result;
use crate::source::object::{Answer, Answered, Pending};

/// Requests that wait, and those that are under way.
pub(super) struct Requests {
    limit: usize,
    pub(super) queue: VecDeque<Piece>,
    /// By the token of their answers.
    flights: Slab<(Piece, Pending)>,
    sender: Sender<Answered>,
    receiver: Receiver<Answered>,
    /// Answers come from a thread, and a forked child does not have it.
    process: u32,
}

impl Requests {
    pub(super) fn new(limit: usize) -> Self {
        let (sender, receiver) = channel();
        Self {
            limit: limit.max(1),
            queue: VecDeque::new(),
            flights: Slab::new(),
            sender,
            receiver,
            process: std::process::id(),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.queue.len() >= self.limit
    }

    pub(super) fn has_room(&self) -> bool {
        self.flights.len() < self.limit
    }

    /// Whether the thread that answers remained in another process.
    pub(super) fn is_orphaned(&self) -> bool {
        self.flights.len() > 0 && self.process != std::process::id()
    }

    /// Requests a piece of an object.
    pub(super) fn begin(&mut self, piece: Piece) {
        let Some((object, range)) = piece.object() else { return };
        if self.flights.len() == 0 {
            self.process = std::process::id();
        }
        let token = self.flights.next_number();
        let pending = object.begin(range, Answer::new(token, self.sender.clone()));
        self.flights.insert((piece, pending));
    }

    /// An available answer; with `wait`, waits for one.
    pub(super) fn answer(&mut self, wait: bool) -> Option<(Piece, Result<Bytes>)> {
        while self.flights.len() > 0 {
            let answered = if wait { self.receiver.recv().ok() } else { self.receiver.try_recv().ok() };
            let answered = answered?;
            let Some((piece, _)) = self.flights.remove(answered.token) else { continue };
            let Some((object, range)) = piece.object() else { continue };
            let answer = answered.checked(object.as_ref(), range);
            return Some((piece, answer));
        }
        None
    }

    /// Nothing of it is wanted any more.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.limit);
    }
}
