//! [`Object`]: a source that is read by requests that are answered elsewhere.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::extent::ByteRange;

/// Bytes that no engine can read: they are requested, and the answer comes from another thread.
pub trait Object: Send + Sync + fmt::Debug {
    /// What to call it in messages: an address without secrets.
    fn path(&self) -> &Path;

    /// Requests a range within the object, and returns at once. The answer is given exactly once,
    /// with `range.len()` bytes or an error. Dropping the returned value cancels the interest in
    /// the answer.
    fn begin(&self, range: ByteRange, answer: Answer) -> Pending;
}

/// A request that is under way. Dropping it calls the request off.
pub type Pending = Box<dyn Send>;

/// The receiver of the answer to one request. If it is dropped unused, the request fails, so that
/// no caller waits forever.
pub struct Answer {
    token: usize,
    to: Option<Sender<Answered>>,
    notes: Vec<Note>,
}

/// Who takes notice of an answer before the one that waits gets it.
type Note = Box<dyn FnOnce(&Result<Bytes>) + Send>;

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (token, notes) = (self.token, self.notes.len());
        f.debug_struct("Answer").field("token", &token).field("notes", &notes).finish_non_exhaustive()
    }
}

/// The outcome of a request.
pub(super) struct Answered {
    /// The token of the request.
    pub(super) token: usize,
    /// `None` when the answering side gave up.
    result: Option<Result<Bytes>>,
    notes: Vec<Note>,
}

impl Answered {
    /// The requested number of bytes, or an error; its notes have been run.
    pub(super) fn checked(self, object: &dyn Object, range: ByteRange) -> Result<Bytes> {
        let checked = checked(self.result, object, range);
        // Who was added last is the nearest to the object.
        for note in self.notes.into_iter().rev() {
            note(&checked);
        }
        checked
    }
}

impl Answer {
    pub(super) fn new(token: usize, to: Sender<Answered>) -> Self {
        Self { token, to: Some(to), notes: Vec::new() }
    }

    /// The same, and `note` is called with the outcome before the waiting caller gets it, on the
    /// thread of that caller: a slow note does not delay other requests. If no caller waits any
    /// more, it is not called.
    #[must_use]
    pub fn noted_by(mut self, note: impl FnOnce(&Result<Bytes>) + Send + 'static) -> Self {
        self.notes.push(Box::new(note));
        self
    }

    /// Gives the answer.
    pub fn give(mut self, result: Result<Bytes>) {
        self.send(Some(result));
    }

    fn send(&mut self, result: Option<Result<Bytes>>) {
        if let Some(to) = self.to.take() {
            let notes = std::mem::take(&mut self.notes);
            // There is no receiver any more: the session is gone.
            let _ = to.send(Answered { token: self.token, result, notes });
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
/// Returns the error of the object.
pub fn read_object(object: &Arc<dyn Object>, range: ByteRange) -> Result<Bytes> {
    let (sender, receiver) = channel();
    let _pending = object.begin(range, Answer::new(0, sender));
    match receiver.recv() {
        Ok(answered) => answered.checked(object.as_ref(), range),
        Err(_) => checked(None, object.as_ref(), range),
    }
}

/// An answer of the requested length, or an error.
fn checked(answer: Option<Result<Bytes>>, object: &dyn Object, range: ByteRange) -> Result<Bytes> {
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
