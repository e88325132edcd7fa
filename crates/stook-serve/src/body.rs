//! [`Answer`]: the bodies of answers, made while they are sent.
//!
//! A client takes a piece at a time, and the next one is read meanwhile. That a client takes long
//! holds no thread: pieces are read by threads that hand them over and are free again.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use stook::extent::ByteRange;
use tokio::task::{JoinError, JoinHandle, spawn_blocking};

use crate::listing::Lister;
use crate::readers::{Readable, Readers, Unread};

/// How much is read at a time.
const PIECE_BYTES: u64 = 256 << 10;
/// The same where each read is a request to a server.
const PIECE_OF_OBJECT_BYTES: u64 = 1 << 20;

/// Hears what ended a body.
pub(crate) type Failed = Arc<dyn Fn(&Unread) + Send + Sync>;

/// The end of a server.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    pub(crate) has_begun: AtomicBool,
    /// Answers that were not sent to their end because of it.
    pub(crate) cut_off: AtomicU64,
}

/// The body of an answer.
pub(crate) enum Answer {
    /// Short, or nothing.
    Bytes(Option<Bytes>),
    /// Ranges of a source.
    Parts(Box<Parts>),
    /// A directory.
    Listing(Listing),
}

/// A part of a body.
pub(crate) enum Part {
    /// Bytes.
    Bytes(Bytes),
    /// A range of the source.
    Range(ByteRange),
    /// The next bytes of the source, on their way.
    Reading(JoinHandle<Result<Bytes, Unread>>),
}

/// Ranges of a source, and bytes between them.
pub(crate) struct Parts {
    source: Readable,
    readers: Arc<Readers>,
    ending: Arc<Ending>,
    parts: VecDeque<Part>,
    left: u64,
    pub(crate) failed: Failed,
}

impl Parts {
    pub(crate) fn new(
        source: Readable,
        (readers, ending): (Arc<Readers>, Arc<Ending>),
        parts: impl IntoIterator<Item = Part>,
        failed: Failed,
    ) -> Self {
        let parts: VecDeque<Part> = parts.into_iter().collect();
        let len = |part: &Part| match part {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::Range(range) => range.len(),
            Part::Reading(_) => 0,
        };
        let left = parts.iter().map(len).fold(0, u64::saturating_add);
        Self { source, readers, ending, parts, left, failed }
    }

    /// How many bytes it has.
    pub(crate) fn len(&self) -> u64 {
        self.left
    }

    /// Begins to read the next piece of the source, unless one is being read.
    fn read_ahead(&mut self) {
        let next = self.parts.iter().position(|part| !matches!(part, Part::Bytes(_)));
        let Some(at) = next else { return };
        let Some(Part::Range(range)) = self.parts.get(at) else { return };
        let range = *range;
        let most = if self.source.source().reads_by_request() { PIECE_OF_OBJECT_BYTES } else { PIECE_BYTES };
        let piece = ByteRange::at(range.start(), range.len().min(most)).unwrap_or(range);
        let (source, readers) = (self.source.clone(), self.readers.clone());
        let reading = Part::Reading(spawn_blocking(move || readers.read(&source, piece)));
        let rest = ByteRange::new(piece.end(), range.end()).filter(|rest| !rest.is_empty());
        if let Some(part) = self.parts.get_mut(at) {
            *part = reading;
        }
        if let Some(rest) = rest {
            self.parts.insert(at.saturating_add(1), Part::Range(rest));
        }
    }

    /// Reads the first piece of the source: an error of that is an answer of its own.
    pub(crate) async fn begin(&mut self) -> Result<(), Unread> {
        self.read_ahead();
        for part in &mut self.parts {
            if let Part::Reading(reading) = part {
                let bytes = flat(reading.await)?;
                *part = Part::Bytes(bytes);
                return Ok(());
            }
        }
        Ok(())
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            let bytes = match self.parts.front_mut() {
                None => return Poll::Ready(None),
                Some(Part::Range(_)) => {
                    self.read_ahead();
                    continue;
                }
                Some(Part::Bytes(bytes)) => std::mem::take(bytes),
                Some(Part::Reading(reading)) => match flat(ready!(Pin::new(reading).poll(context))) {
                    Ok(bytes) => bytes,
                    Err(error) => {
                        self.parts.clear();
                        (self.failed)(&error);
                        // What it was is told to who serves, and not to the client.
                        let error = io::Error::other("what is sent cannot be read any more");
                        return Poll::Ready(Some(Err(error)));
                    }
                },
            };
            self.parts.pop_front();
            self.left = self.left.saturating_sub(bytes.len() as u64);
            self.read_ahead();
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
    }
}

impl Drop for Parts {
    /// A read that has not begun is not wanted any more; what the end of the server cuts off is
    /// counted.
    fn drop(&mut self) {
        if !self.parts.is_empty() && self.ending.has_begun.load(Ordering::Relaxed) {
            self.ending.cut_off.fetch_add(1, Ordering::Relaxed);
        }
        for part in &self.parts {
            if let Part::Reading(reading) = part {
                reading.abort();
            }
        }
    }
}

/// What a thread returned, or that it panicked.
fn flat(joined: Result<Result<Bytes, Unread>, JoinError>) -> Result<Bytes, Unread> {
    joined.unwrap_or_else(|error| {
        Err(stook::Error::io("read", "what is served", io::Error::other(error)).into())
    })
}

/// A directory, a page after the other.
pub(crate) enum Listing {
    /// Text that is there.
    Begun(Bytes, Box<Lister>),
    /// The next page is not asked for.
    Idle(Box<Lister>),
    /// It is on its way.
    Reading(JoinHandle<(Box<Lister>, stook::Result<Option<Bytes>>)>),
    /// All was sent.
    Ended,
}

impl Listing {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            match std::mem::replace(self, Self::Ended) {
                Self::Ended => return Poll::Ready(None),
                Self::Begun(text, lister) => {
                    *self = Self::Idle(lister);
                    return Poll::Ready(Some(Ok(Frame::data(text))));
                }
                Self::Idle(mut lister) => {
                    *self = Self::Reading(spawn_blocking(move || {
                        let text = lister.next();
                        (lister, text)
                    }));
                }
                Self::Reading(mut reading) => {
                    let Poll::Ready(joined) = Pin::new(&mut reading).poll(context) else {
                        *self = Self::Reading(reading);
                        return Poll::Pending;
                    };
                    let (lister, text) = joined.map_err(io::Error::other)?;
                    match text {
                        Ok(Some(text)) => {
                            *self = Self::Idle(lister);
                            return Poll::Ready(Some(Ok(Frame::data(text))));
                        }
                        Ok(None) => return Poll::Ready(None),
                        Err(error) => {
                            lister.fail(error);
                            let error = io::Error::other("what is listed cannot be read any more");
                            return Poll::Ready(Some(Err(error)));
                        }
                    }
                }
            }
        }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            Self::Bytes(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Parts(parts) => parts.poll(context),
            Self::Listing(listing) => listing.poll(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Bytes(bytes) => bytes.is_none(),
            Self::Parts(parts) => parts.parts.is_empty(),
            Self::Listing(listing) => matches!(listing, Listing::Ended),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Bytes(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Parts(parts) => SizeHint::with_exact(parts.left),
            Self::Listing(_) => SizeHint::default(),
        }
    }
}
