//! [`Readers`]: sessions that are kept between reads, because an engine takes longer to make than a
//! short read.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use stook::engine::{Access, Backend};
use stook::extent::ByteRange;
use stook::source::{Session, SessionOptions, Source};

/// Reads that one piece is split into, at most.
const DEPTH: usize = 8;

/// Threads that read at a time: reads of others wait.
pub(crate) const READERS: usize = 16;

/// Sessions that are idle.
#[derive(Default)]
pub(crate) struct Readers(Mutex<Vec<Session>>);

impl Readers {
    /// Reads a range, and returns it only if the source is still what it was when it was opened.
    pub(crate) fn read(&self, source: &dyn Source, range: ByteRange) -> stook::Result<Bytes> {
        let idle = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut session = match idle {
            Some(session) => session,
            None => Session::new(&Backend::Auto, SessionOptions { depth: DEPTH, ..SessionOptions::default() })?,
        };
        session.submit(0, source, range, Access::Cached)?;
        let (_, read) = session.next().unwrap_or((0, Ok(Bytes::new())));
        // One that failed may be broken, and is dropped.
        let bytes = read?;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < READERS {
            all.push(session);
        }
        drop(all);
        if !source.checks_reads() {
            source.check_ranges(&[range])?;
        }
        if bytes.len() as u64 == range.len() {
            return Ok(bytes);
        }
        Err(stook::Error::ShortRead {
            path: source.path().to_path_buf(),
            offset: range.start(),
            wanted: range.len(),
            got: bytes.len() as u64,
        })
    }
}
