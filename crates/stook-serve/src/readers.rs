//! [`Readers`]: sessions that are kept between reads, because an engine takes longer to make than a
//! short read.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use stook::engine::{Access, Backend};
use stook::extent::ByteRange;
use stook::source::{Session, SessionOptions, Source};
use stook::stitch::VirtualFile;

/// Reads that one piece is split into, at most.
const DEPTH: usize = 8;

/// Threads that read at a time: reads of others wait.
pub(crate) const READERS: usize = 16;

/// Sessions that are kept: each keeps memory of pieces that were sent, for the next ones.
const KEPT_MAX: usize = 4;

/// What is read.
#[derive(Debug, Clone)]
pub(crate) enum Readable {
    /// A file.
    Source(Arc<dyn Source>),
    /// An archive, which computes checksums of what is read of it.
    Archive(VirtualFile),
}

impl Readable {
    pub(crate) fn source(&self) -> &dyn Source {
        match self {
            Self::Source(source) => &**source,
            Self::Archive(file) => file,
        }
    }
}

/// Sessions that are idle.
#[derive(Default)]
pub(crate) struct Readers(Mutex<Vec<Session>>);

impl Readers {
    /// Reads a range, and returns it only if the source is still what it was when it was opened.
    pub(crate) fn read(&self, readable: &Readable, range: ByteRange) -> stook::Result<Bytes> {
        let source = readable.source();
        let idle = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut session = match idle {
            Some(session) => session,
            None => {
                Session::new(&Backend::Auto, SessionOptions { depth: DEPTH, ..SessionOptions::default() })?
            }
        };
        // A session that failed may be broken, and is dropped.
        let bytes = match readable {
            Readable::Source(source) => {
                session.submit(0, &**source, range, Access::Cached)?;
                let (_, read) = session.next().unwrap_or((0, Ok(Bytes::new())));
                read?
            }
            Readable::Archive(file) => file.read_on(&mut session, range)?,
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < KEPT_MAX {
            all.push(session);
        }
        drop(all);
        if let Readable::Source(source) = readable
            && !source.checks_reads()
        {
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
