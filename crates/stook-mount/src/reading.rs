//! Reading a range of a source on the thread of a request.

use std::cell::RefCell;

use bytes::Bytes;
use stook::engine::{Access, Backend};
use stook::extent::ByteRange;
use stook::source::{Session, SessionOptions, Source};

/// Reads of one request that are under way at once.
const DEPTH: usize = 16;

thread_local! {
    /// Each thread keeps its engine from one request to the next.
    static SESSION: RefCell<Option<Session>> = const { RefCell::new(None) };
}

/// Reads a range, all of it; the session sees to it that the source is still what it was.
///
/// # Errors
/// Those of reading, and [`SourceChanged`](stook::Error::SourceChanged).
pub(crate) fn read(source: &dyn Source, range: ByteRange) -> stook::Result<Bytes> {
    SESSION.with_borrow_mut(|kept| {
        let mut session = match kept.take() {
            Some(session) => session,
            None => {
                Session::new(&Backend::Auto, SessionOptions { depth: DEPTH, ..SessionOptions::default() })?
            }
        };
        // After an error it may not be usable any more: the next request makes another.
        let mut read = session.read_batch(source, &[range], Access::Cached)?;
        *kept = Some(session);
        Ok(read.pop().unwrap_or_default())
    })
}
