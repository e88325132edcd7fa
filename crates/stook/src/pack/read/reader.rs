//! Reads for packs: small reads at once, batches at queue depth, windows over long spans.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::engine::{Access, EngineFactory, IdlePool};
use crate::extent::ByteRange;
use crate::pack::error::{Error, Result};
use crate::pack::read::around::{Holes, read_again, read_around};
use crate::pack::read::route::Route;
use crate::pack::read::window::{Window, WindowOptions};
use crate::profile::Profile;
use crate::source::{Leaf, Session, SessionOptions, Source, read_object, verified};

/// One read of a scan is at least and at most so long, bytes, whatever the profile of the device
/// says: a ring of them is in memory.
const BLOCK_LEN_MIN: u64 = 64 << 10;
const BLOCK_LEN_MAX: u64 = 4 << 20;

/// One read of a scan through the page cache, bytes: what was copied from it is still near the
/// processor when it is looked at.
const CACHED_BLOCK_LEN: usize = 256 << 10;

/// Longer ranges are not worth a try whether they are in the page cache.
const AT_ONCE_LEN_MAX: u64 = 1 << 20;

/// Blocks of a scan's ring: the half that is read ahead is what keeps the device busy.
const RING_BLOCKS: usize = 32;

/// The same through the page cache, where no device is to be kept busy: copying into a ring that
/// stays in the processor's caches is twice as fast.
const CACHED_RING_BLOCKS: usize = 8;

/// The same where blocks come by requests, each of which pays for its latency by its length.
const ASKED_BLOCK_LEN: usize = 4 << 20;

/// As many as are asked for at once, the one at hand, and the next one where a frame crosses into
/// it.
const ASKED_RING_BLOCKS: usize = 10;

/// A read: what, where, and which way.
pub(crate) type Read<'a> = (&'a dyn Source, ByteRange, Access);

/// Reads that are thought of while others are under way.
pub(crate) trait ReadBatch<'a> {
    /// The next read.
    fn next(&mut self) -> Option<Read<'a>>;

    /// Takes what became of the read that `next` gave as this one, counted from 0.
    fn take(&mut self, number: usize, result: crate::Result<Bytes>);
}

/// A batch that is known from the start.
struct Collected<'a, I> {
    ranges: I,
    asked: Vec<(&'a dyn Source, ByteRange)>,
    results: Vec<Result<Bytes>>,
}

impl<'a, I: Iterator<Item = Read<'a>>> ReadBatch<'a> for Collected<'a, I> {
    fn next(&mut self) -> Option<Read<'a>> {
        let read = self.ranges.next()?;
        self.asked.push((read.0, read.1));
        Some(read)
    }

    fn take(&mut self, number: usize, result: crate::Result<Bytes>) {
        if let (Some(slot), Some(&(source, range))) = (self.results.get_mut(number), self.asked.get(number)) {
            *slot = read_again(source, range, result);
        }
    }
}

/// Lends sessions to readers, and keeps them for the next.
#[derive(Debug)]
pub(crate) struct Reader {
    engines: Arc<dyn EngineFactory>,
    /// Where what is read lies.
    place: PathBuf,
    /// That of the place, once a device has to be read.
    profile: OnceLock<Profile>,
    idle_sessions: IdlePool<Session>,
}

impl Reader {
    /// Readers of what lies in the directory `place`.
    pub(crate) fn new(engines: Arc<dyn EngineFactory>, place: PathBuf) -> Self {
        Self { engines, place, profile: OnceLock::new(), idle_sessions: IdlePool::new() }
    }

    /// What is known of the device. It is not looked for while bytes come out of the page cache.
    pub(crate) fn profile(&self) -> Profile {
        if let Some(profile) = self.profile.get() {
            return *profile;
        }
        let profile = Profile::of_path(&self.place);
        // Of two threads that look, both find the same.
        let _ = self.profile.set(profile);
        profile
    }

    /// The bytes of one range, through the page cache. Unreadable bytes are damage.
    pub(crate) fn read(&self, source: &dyn Source, range: ByteRange) -> Result<Bytes> {
        let mut all = self.read_many(std::iter::once((source, range, Access::Cached)))?;
        all.pop().unwrap_or_else(|| Ok(Bytes::new()))
    }

    /// The bytes of one range, with zeros for unreadable ones, and the holes.
    pub(crate) fn read_around(&self, source: &dyn Source, range: ByteRange) -> Result<(Bytes, Holes)> {
        let mut holes = Holes::default();
        let bytes = match self.read(source, range) {
            Err(Error::Damaged(_)) => read_around(source, range, &mut holes)?.into(),
            read => read?,
        };
        Ok((bytes, holes))
    }

    /// The bytes of many ranges, at queue depth, or an error for each. Unreadable bytes are damage.
    pub(crate) fn read_many<'a>(
        &self,
        ranges: impl ExactSizeIterator<Item = Read<'a>>,
    ) -> Result<Vec<Result<Bytes>>> {
        let results = (0..ranges.len()).map(|_| Ok(Bytes::new())).collect();
        let asked = Vec::with_capacity(ranges.len());
        let mut collected = Collected { ranges, asked, results };
        self.read_batch(&mut collected)?;
        Ok(collected.results)
    }

    /// Does the reads of a batch at queue depth. Each result is handed back as soon as it is there,
    /// in any order: the device continues with the others meanwhile.
    pub(crate) fn read_batch<'a>(&self, batch: &mut impl ReadBatch<'a>) -> Result<()> {
        let mut session: Option<Session> = None;
        let bypassed = self.engines.may_be_bypassed();
        let mut tokens = 0u64..;
        let mut more = true;
        loop {
            while more && !session.as_ref().is_some_and(Session::is_full) {
                let Some(((source, range, access), token)) = batch.next().zip(tokens.next()) else {
                    more = false;
                    break;
                };
                if bypassed && let Some(bytes) = read_if_cached(source, range, access) {
                    batch.take(token as usize, Ok(bytes));
                    continue;
                }
                let session = match &mut session {
                    Some(session) => session,
                    none => none.insert(self.session()?),
                };
                if let Err(error) = session.submit(token, source, range, access) {
                    batch.take(token as usize, Err(error));
                }
            }
            match session.as_mut().and_then(Session::next) {
                Some((token, result)) => batch.take(token as usize, result),
                None if !more => break,
                None => {}
            }
        }
        if let Some(session) = session {
            self.give_back_session(session);
        }
        Ok(())
    }

    /// Takes back a session that has no requests left.
    pub(crate) fn give_back_session(&self, session: Session) {
        if session.pending() == 0 && !session.is_broken() {
            self.idle_sessions.keep(session);
        }
    }

    /// Whether bytes that are in the page cache may be read without an engine.
    pub(crate) fn may_bypass(&self) -> bool {
        self.engines.may_be_bypassed()
    }

    /// A session, idle or new.
    pub(crate) fn session(&self) -> Result<Session> {
        match self.idle_sessions.take() {
            Some(session) => Ok(session),
            None => Ok(Session::new(self.engines.as_ref(), SessionOptions::of(&self.profile()))?),
        }
    }

    /// A window over a span of frames whose bodies have chunks of this length: any of them can be
    /// looked at in one piece.
    pub(crate) fn window(
        &self,
        source: Arc<dyn Source>,
        range: ByteRange,
        route: impl Into<Route>,
        chunk_len: u64,
    ) -> Result<Window> {
        let route = route.into();
        let RingLayout { block_len, ring_blocks } = self.layout(source.as_ref(), &route);
        // A chunk may begin in the middle of a block, and half of a ring is for what is read ahead.
        let needed = chunk_len.div_ceil(block_len as u64).saturating_add(1).saturating_mul(2);
        let blocks = usize::try_from(needed).unwrap_or(usize::MAX).max(ring_blocks);
        let options = WindowOptions { block_len, blocks, route };
        Ok(Window::new(self.session()?, source, range, options)?)
    }

    /// A window that holds all of a span.
    pub(crate) fn whole_window(
        &self,
        source: Arc<dyn Source>,
        range: ByteRange,
        route: impl Into<Route>,
    ) -> Result<Window> {
        let route = route.into();
        let RingLayout { block_len, .. } = self.layout(source.as_ref(), &route);
        let options = WindowOptions { block_len, blocks: usize::MAX / block_len, route };
        Ok(Window::new(self.session()?, source, range, options)?)
    }

    fn layout(&self, source: &dyn Source, route: &Route) -> RingLayout {
        if source.reads_by_request() {
            return RingLayout { block_len: ASKED_BLOCK_LEN, ring_blocks: ASKED_RING_BLOCKS };
        }
        match route.layout() {
            Access::Direct => {
                let block_len = self.profile().block_bytes.clamp(BLOCK_LEN_MIN, BLOCK_LEN_MAX) as usize;
                RingLayout { block_len, ring_blocks: RING_BLOCKS }
            }
            Access::Cached => RingLayout { block_len: CACHED_BLOCK_LEN, ring_blocks: CACHED_RING_BLOCKS },
        }
    }
}

/// Bytes that are in the page cache, copied at once: a trip through an engine would take longer
/// than that.
pub(crate) fn read_if_cached(source: &dyn Source, range: ByteRange, access: Access) -> Option<Bytes> {
    if access != Access::Cached || range.len() > AT_ONCE_LEN_MAX {
        return None;
    }
    let mut leaves = Vec::with_capacity(1);
    // Any error here occurs again in the full read, and is reported there.
    source.resolve(range, &mut leaves).ok()?;
    leaves_if_cached(&leaves)
}

fn leaves_if_cached(leaves: &[Leaf]) -> Option<Bytes> {
    match leaves {
        [Leaf::Bytes(bytes)] => Some(bytes.clone()),
        [Leaf::File { file, range }] if range.len() <= AT_ONCE_LEN_MAX => {
            let mut bytes = vec![0; range.len() as usize];
            file.read_if_cached(&mut bytes, range.start()).then(|| bytes.into())
        }
        [Leaf::Checked { check, len }] => {
            verified(check.as_ref(), leaves_if_cached(check.leaves())?, *len).ok()
        }
        _ => None,
    }
}

/// The bytes of leaves, read at once where they are in files, and verified where they are checked.
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
            Leaf::Object { object, range } => bytes.extend_from_slice(&read_object(object, *range)?),
            Leaf::Checked { check, len } => {
                let read = read_leaves(check.leaves())?;
                bytes.extend_from_slice(&verified(check.as_ref(), read, *len)?);
            }
        }
    }
    Ok(bytes.into())
}

/// How the ring of a window is divided.
struct RingLayout {
    block_len: usize,
    ring_blocks: usize,
}
