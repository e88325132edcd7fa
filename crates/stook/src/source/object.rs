//! [`Object`]: what is read by requests that are answered elsewhere.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::extent::ByteRange;

/// Bytes that no engine can read: they are asked for, and the answer comes from another thread.
pub trait Object: Send + Sync + fmt::Debug {
    /// What to call it in messages: an address without secrets.
    fn path(&self) -> &Path;

    /// Asks for a range, which lies within the object, and returns at once. The answer is given
    /// exactly once, with `range.len()` bytes or an error. Who drops what is returned does not want
    /// the answer any more.
    fn begin(&self, range: ByteRange, answer: Answer) -> Pending;
}

/// A request that is under way. Dropping it calls the request off.
pub type Pending = Box<dyn Send>;

/// Where the answer of one request goes. One that is dropped unused counts as a failure, so that
/// nobody waits for ever.
#[derive(Debug)]
pub struct Answer {
    token: usize,
    to: Option<Sender<Answered>>,
}

/// The token of a request, and its answer; `None` when the answering side gave up.
pub(super) type Answered = (usize, Option<Result<Bytes>>);

impl Answer {
    pub(super) fn new(token: usize, to: Sender<Answered>) -> Self {
        Self { token, to: Some(to) }
    }

    /// Gives it.
    pub fn give(mut self, result: Result<Bytes>) {
        self.send(Some(result));
    }

    fn send(&mut self, result: Option<Result<Bytes>>) {
        if let Some(to) = self.to.take() {
            // Nobody waits any more: the session is gone.
            let _ = to.send((self.token, result));
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.send(None);
    }
}

/// Reads a range of an object and waits for it.
///
/// # Errors
/// What the object met.
pub fn read_object(object: &Arc<dyn Object>, range: ByteRange) -> Result<Bytes> {
    let (sender, receiver) = channel();
    let _pending = object.begin(range, Answer::new(0, sender));
    let answer = receiver.recv().ok().and_then(|(_, answer)| answer);
    checked(answer, object.as_ref(), range)
}

/// An answer of the length that was asked for, or an error.
pub(super) fn checked(answer: Option<Result<Bytes>>, object: &dyn Object, range: ByteRange) -> Result<Bytes> {
    match answer {
        Some(Ok(bytes)) if bytes.len() as u64 != range.len() => {
            let (path, offset) = (object.path().to_path_buf(), range.start());
            let (wanted, got) = (range.len(), bytes.len() as u64);
            Err(match got < wanted {
                true => Error::ShortRead { path, offset, wanted, got },
                false => Error::LongRead { path, offset, wanted, got },
            })
        }
        Some(answer) => answer,
        None => {
            let gave_up = std::io::ErrorKind::BrokenPipe.into();
            Err(Error::io_at("read", object.path(), range.start(), gave_up))
        }
    }
}
