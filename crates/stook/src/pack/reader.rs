//! Reads for packs: small reads at once, batches at queue depth, windows over long stretches.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::error::Result;
use super::window::{Window, WindowOptions};
use crate::engine::{Access, CacheResidency, Engine, EngineFactory};
use crate::extent::ByteRange;
use crate::source::{Leaf, Session, SessionOptions, Source};

/// Depth at which batches and scans run.
pub(crate) const DEPTH: usize = 32;

/// One read of a scan, bytes.
const BLOCK_LEN: usize = 1 << 20;

/// Blocks of a scan's ring: the half that is read ahead is what keeps the device busy.
const RING_BLOCKS: usize = 32;

/// Lends engines to whoever reads, and keeps them for the next.
#[derive(Debug)]
pub(crate) struct Reader {
    engines: Arc<dyn EngineFactory>,
    idle: Idle,
}

#[derive(Default)]
struct Idle {
    engines: Mutex<Vec<Box<dyn Engine>>>,
    sessions: Mutex<Vec<Session>>,
}

/// More than a few idle ones are left over from a burst of threads, and each holds kernel memory.
const IDLE_MAX: usize = 4;

fn take<T>(idle: &Mutex<Vec<T>>) -> Option<T> {
    idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
}

fn keep<T>(idle: &Mutex<Vec<T>>, value: T) {
    let mut idle = idle.lock().unwrap_or_else(PoisonError::into_inner);
    if idle.len() < IDLE_MAX {
        idle.push(value);
    }
}

impl std::fmt::Debug for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Idle")
    }
}

impl Reader {
    pub(crate) fn new(engines: Arc<dyn EngineFactory>) -> Self {
        Self { engines, idle: Idle::default() }
    }

    /// An engine, idle or new.
    pub(crate) fn engine(&self) -> Result<Box<dyn Engine>> {
        match take(&self.idle.engines) {
            Some(engine) => Ok(engine),
            None => Ok(self.engines.build(DEPTH)?),
        }
    }

    /// Takes an engine back.
    pub(crate) fn give_back(&self, engine: Box<dyn Engine>) {
        keep(&self.idle.engines, engine);
    }

    /// The bytes of one range, through the page cache.
    pub(crate) fn read(&self, source: &dyn Source, range: ByteRange) -> Result<Bytes> {
        let mut all = self.read_many(std::iter::once((source, range, Access::Cached)))?;
        Ok(all.pop().unwrap_or_else(|| Ok(Bytes::new()))?)
    }

    /// The bytes of many ranges, at queue depth; each is there or tells why not.
    pub(crate) fn read_many<'a>(
        &self,
        ranges: impl Iterator<Item = (&'a dyn Source, ByteRange, Access)>,
    ) -> Result<Vec<crate::Result<Bytes>>> {
        let mut session = match take(&self.idle.sessions) {
            Some(session) => session,
            None => Session::new(
                self.engines.as_ref(),
                SessionOptions { depth: DEPTH, ..SessionOptions::default() },
            )?,
        };
        let mut results: Vec<crate::Result<Bytes>> = Vec::new();
        let mut ranges = ranges.zip(0u64..);
        let mut more = true;
        loop {
            while more && !session.is_full() {
                let Some(((source, range, access), token)) = ranges.next() else {
                    more = false;
                    break;
                };
                results.push(Ok(Bytes::new()));
                if let Err(error) = session.submit(token, source, range, access) {
                    set(&mut results, token, Err(error));
                }
            }
            match session.next() {
                Some((token, result)) => set(&mut results, token, result),
                None if !more => break,
                None => {}
            }
        }
        keep(&self.idle.sessions, session);
        Ok(results)
    }

    /// A window over a stretch of a source.
    pub(crate) fn window(&self, source: Arc<dyn Source>, range: ByteRange, access: Access) -> Result<Window> {
        let options = WindowOptions { block_len: BLOCK_LEN, blocks: RING_BLOCKS, access };
        Ok(Window::new(self.engine()?, source, range, options)?)
    }

    /// A window that holds all of a stretch.
    pub(crate) fn whole_window(
        &self,
        source: Arc<dyn Source>,
        range: ByteRange,
        access: Access,
    ) -> Result<Window> {
        let options = WindowOptions { block_len: BLOCK_LEN, blocks: usize::MAX / BLOCK_LEN, access };
        Ok(Window::new(self.engine()?, source, range, options)?)
    }
}

fn set<T>(results: &mut [T], token: u64, value: T) {
    if let Some(slot) = results.get_mut(token as usize) {
        *slot = value;
    }
}

/// The bytes of leaves, read at once where they are in files.
pub(crate) fn read_leaves(leaves: &[Leaf]) -> crate::Result<Bytes> {
    let mut bytes = Vec::new();
    for leaf in leaves {
        match leaf {
            Leaf::Bytes(held) => bytes.extend_from_slice(held),
            Leaf::Fill { byte, len } => bytes.resize(bytes.len() + *len as usize, *byte),
            Leaf::File { file, range } => {
                let start = bytes.len();
                bytes.resize(start + range.len() as usize, 0);
                if let Some(bytes) = bytes.get_mut(start..) {
                    file.read_exact_at(bytes, range.start())?;
                }
            }
        }
    }
    Ok(bytes.into())
}

/// Which way the bytes of a pack take into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccessRule {
    /// What is mostly in the page cache is read from there, anything else directly.
    #[default]
    Auto,
    /// Always directly.
    Direct,
    /// Always through the page cache.
    Cached,
}

impl AccessRule {
    /// What the rule says for a range of a source.
    pub(crate) fn decide(self, source: &dyn Source, range: ByteRange) -> Access {
        match self {
            Self::Direct => Access::Direct,
            Self::Cached => Access::Cached,
            Self::Auto => {
                let mut leaves = Vec::with_capacity(1);
                if source.resolve(range, &mut leaves).is_err() {
                    // Whoever reads will meet the error and tell it.
                    return Access::Cached;
                }
                match leaves.as_slice() {
                    [Leaf::File { file, range }] => {
                        let share = CacheResidency::of(file, *range).cached_share(range.len());
                        if share.is_some_and(|share| share < 0.5) { Access::Direct } else { Access::Cached }
                    }
                    _ => Access::Cached,
                }
            }
        }
    }
}
