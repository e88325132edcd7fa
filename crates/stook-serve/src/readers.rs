//! [`Readers`]: sessions that are kept between reads, because an engine takes longer to make than a
//! short read.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use stook::engine::{Access, Backend};
use stook::extent::ByteRange;
use stook::format::MemberKind;
use stook::source::{Session, SessionOptions, Source};
use stook::stitch::Laid;

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
    Archive(Laid),
}

impl Readable {
    pub(crate) fn source(&self) -> &dyn Source {
        match self {
            Self::Source(source) => &**source,
            Self::Archive(laid) => &laid.file,
        }
    }
}

/// Why something could not be read.
#[derive(Debug)]
pub(crate) struct Unread {
    pub(crate) error: stook::Error,
    /// The path of the member of an archive, where it is known.
    pub(crate) member: Option<Box<[u8]>>,
}

impl From<stook::Error> for Unread {
    fn from(error: stook::Error) -> Self {
        Self { error, member: None }
    }
}

/// Sessions that are idle.
#[derive(Default)]
pub(crate) struct Readers(Mutex<Vec<Session>>);

impl Readers {
    /// Reads a range, and returns it only if the source is still what it was when it was opened.
    pub(crate) fn read(&self, readable: &Readable, range: ByteRange) -> Result<Bytes, Unread> {
        self.read_whole(readable, range).map_err(|error| match readable {
            Readable::Source(_) => error.into(),
            Readable::Archive(laid) => Unread { member: unread_member(laid, range), error },
        })
    }

    fn read_whole(&self, readable: &Readable, range: ByteRange) -> stook::Result<Bytes> {
        let source = readable.source();
        let idle = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut session = match idle {
            Some(session) => session,
            None => new_session()?,
        };
        // A session that failed may be broken, and is dropped.
        let bytes = match readable {
            Readable::Source(source) => read_once(&mut session, &**source, range)?,
            Readable::Archive(laid) => laid.file.read_on(&mut session, range)?,
        };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < KEPT_MAX {
            all.push(session);
        }
        drop(all);
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

fn new_session() -> stook::Result<Session> {
    Session::new(&Backend::Auto, SessionOptions { depth: DEPTH, ..SessionOptions::default() })
}

/// Reads a range of a source that is still what it was.
fn read_once(session: &mut Session, source: &dyn Source, range: ByteRange) -> stook::Result<Bytes> {
    session.submit(0, source, range, Access::Cached)?;
    let (_, read) = session.next().unwrap_or((0, Ok(Bytes::new())));
    let bytes = read?;
    if !source.checks_reads() {
        source.check_ranges(&[range])?;
    }
    Ok(bytes)
}

/// Which member it is because of which a range of an archive cannot be read: each that has bytes
/// there is read again, by itself.
fn unread_member(laid: &Laid, range: ByteRange) -> Option<Box<[u8]>> {
    let mut session = new_session().ok()?;
    // The one before those that begin there may reach into it.
    let first = laid.starts.partition_point(|start| *start <= range.start()).saturating_sub(1);
    for (position, member) in laid.members.all().iter().enumerate().skip(first) {
        let of = laid.range_of(position)?;
        if of.start() >= range.end() {
            break;
        }
        let (start, end) = (of.start().max(range.start()), of.end().min(range.end()));
        let part = ByteRange::new(start, end).filter(|part| !part.is_empty());
        let Some(part) = part.filter(|_| member.kind == MemberKind::File) else { continue };
        if read_once(&mut session, &laid.file, part).is_err() {
            return Some(member.key.clone());
        }
    }
    None
}
