//! [`Session`]: runs the leaves of any number of sources through one engine.
//!
//! Ranges go in with a token and come out, in any order, as contiguous bytes. The session splits
//! what is long, keeps the engine's queue full across ranges and sources, and reuses aligned
//! memory. A range that is one piece of one file is handed out in the very memory the engine read
//! it into; a long one is read in place, piece beside piece; only ranges made of several leaves are
//! put together by copying, in memory that comes from the same pool. A caller may also give the
//! memory that a range goes into, as windows over long spans do. A checked leaf is read as a range
//! of its own, and verified before it is handed out; what is wrong with it fails the ranges that it
//! is in, and no other.
//!
//! It does not merge or sort ranges; the planner does. It never returns fewer bytes than requested.

mod assembly;
mod requests;
mod slab;

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;

use bytes::Bytes;

use self::assembly::{Assembly, Limits, Piece, PieceOrigin, Pieces, disassemble, disassemble_into};
use self::requests::Requests;
use self::slab::Slab;
use super::{Leaf, Source};
use crate::engine::{Access, Buffer, BufferPool, Completion, Engine, EngineFactory, Operation, Request};
use crate::error::{Error, Result};
use crate::extent::ByteRange;
use crate::profile::{Class, Profile};

/// Memory of results that were dropped is kept for the next ones, up to this many bytes. Fresh
/// memory costs more than the processor's time for it: on virtual machines the device has to wait
/// for the host to find it.
const POOL_BYTES: usize = 64 << 20;
/// How many reads are handed to the system by one call. At depth 32 on the device it was measured
/// on, random reads of 4 KiB reached 52,000/s handed over singly, 50,000/s in fours and 43,000/s
/// all at once, for 8.8, 7.1 and 6.1 µs of processor time each.
const HANDED_OVER_AT_ONCE: usize = 4;

/// How a session reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionOptions {
    /// Reads in flight at most, 1 to 4096.
    pub depth: usize,
    /// The longest single read; longer ranges are split. Rounded up to a multiple of 4096.
    pub max_read_bytes: usize,
    /// Requests for pieces of objects under way at most, at least 1. They do not count as reads.
    pub requests: usize,
    /// The longest single request; longer ranges are split.
    pub max_request_bytes: usize,
}

impl Default for SessionOptions {
    /// Those of [`Profile::LOCAL`] and [`Profile::OBJECT`]: 32 reads of up to 1 MiB, eight requests
    /// of up to 8 MiB.
    fn default() -> Self {
        let (local, object) = (Profile::LOCAL, Profile::OBJECT);
        Self {
            depth: local.depth,
            max_read_bytes: local.block_bytes as usize,
            requests: object.depth,
            max_request_bytes: object.block_bytes as usize,
        }
    }
}

impl SessionOptions {
    /// Those for what a profile is of.
    pub fn of(profile: &Profile) -> Self {
        let (at_once, longest) = (profile.depth, profile.block_bytes as usize);
        match profile.class {
            Class::Object => Self { requests: at_once, max_request_bytes: longest, ..Self::default() },
            _ => Self { depth: at_once, max_read_bytes: longest, ..Self::default() },
        }
    }
}

/// Reads ranges of sources at the depth of its engine.
pub struct Session {
    engine: Box<dyn Engine>,
    depth: usize,
    max_read_bytes: usize,
    max_request_bytes: usize,
    pool: BufferPool,
    assemblies: Slab<Assembly>,
    /// Pieces that wait for a place in the engine.
    queue: VecDeque<Piece>,
    /// Pieces in the engine, by the token of their request.
    flights: Slab<Piece>,
    requests: Requests,
    /// Checked leaves that are not yet requested.
    checks: VecDeque<Piece>,
    /// How many of the assemblies are read for a checked leaf of another one.
    below: usize,
    ready: VecDeque<(u64, Result<Bytes>)>,
    is_broken: bool,
    // Emptied and filled again, so that reading does not allocate them.
    leaves: Vec<Leaf>,
    completions: Vec<Completion>,
}

impl Session {
    /// A session on an engine of its own.
    ///
    /// # Errors
    /// Returns an error if the engine cannot be made.
    pub fn new(factory: &dyn EngineFactory, options: SessionOptions) -> Result<Self> {
        let engine = factory.build(options.depth)?;
        let depth = options.depth.min(engine.depth());
        Ok(Self {
            engine,
            depth,
            max_read_bytes: options.max_read_bytes.clamp(1, 1 << 30).next_multiple_of(4096),
            max_request_bytes: options.max_request_bytes.clamp(1, 1 << 30),
            pool: BufferPool::new(POOL_BYTES),
            assemblies: Slab::new(),
            queue: VecDeque::new(),
            flights: Slab::new(),
            requests: Requests::new(options.requests),
            checks: VecDeque::new(),
            below: 0,
            ready: VecDeque::new(),
            is_broken: false,
            leaves: Vec::new(),
            completions: Vec::new(),
        })
    }

    /// Whether there is enough to do: a caller with more should take results first. Asking for more
    /// nevertheless is allowed, and costs memory only.
    pub fn is_full(&self) -> bool {
        self.queue.len() >= self.depth
            || self.requests.is_full()
            || self.checks.len() >= self.depth
            || self.ready.len() >= 2 * self.depth
    }

    /// How many reads may be in flight.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Whether its engine has failed, so that it reads nothing any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Ranges whose results have not been handed out.
    pub fn pending(&self) -> usize {
        self.assemblies.len() - self.below + self.ready.len()
    }

    /// Requests a range of a source; its bytes come from [`next`](Self::next) with this token.
    ///
    /// # Errors
    /// Returns [`Error::OutOfBounds`], or an error of resolving the range. Nothing was begun then.
    pub fn submit(
        &mut self,
        token: u64,
        source: &dyn Source,
        range: ByteRange,
        access: Access,
    ) -> Result<()> {
        self.take_on(token, source, range, access, None)
    }

    /// The same with the memory that the bytes go into, from its start on. It is dropped when
    /// [`next`](Self::next) gives the token, with no bytes: it is meant to be a piece of an
    /// [`Arena`](crate::engine::Arena), which then has them. Where one read can bring the range
    /// there, nothing is copied.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    ///
    /// # Panics
    /// When the range is longer than the memory.
    pub(crate) fn submit_into(
        &mut self,
        token: u64,
        source: &dyn Source,
        range: ByteRange,
        access: Access,
        memory: Buffer,
    ) -> Result<()> {
        assert!(range.len() <= memory.capacity() as u64, "{range} is longer than the memory for it");
        self.take_on(token, source, range, access, Some(memory))
    }

    fn take_on(
        &mut self,
        token: u64,
        source: &dyn Source,
        range: ByteRange,
        access: Access,
        memory: Option<Buffer>,
    ) -> Result<()> {
        if self.is_broken {
            return Err(broken());
        }
        let mut leaves = std::mem::take(&mut self.leaves);
        let resolved = source.resolve(range, &mut leaves);
        let (limits, pool) = (self.limits(access), &self.pool);
        let taken = resolved.and_then(|()| match memory {
            Some(memory) => Ok(disassemble_into(token, &mut leaves, range.len(), limits, memory)),
            None => disassemble(token, &mut leaves, range.len(), limits, pool),
        });
        leaves.clear();
        self.leaves = leaves;
        let (assembly, pieces) = taken?;
        self.begin(assembly, pieces);
        self.fill_engine(usize::MAX);
        self.begin_requests();
        Ok(())
    }

    fn limits(&self, access: Access) -> Limits {
        Limits { max_read: self.max_read_bytes, max_request: self.max_request_bytes, access }
    }

    /// Queues the pieces of a range. One without any is read already.
    fn begin(&mut self, assembly: Assembly, pieces: Pieces) {
        if assembly.missing == 0 {
            if let Some(above) = self.hand_on(assembly) {
                self.finish_piece(above);
            }
            return;
        }
        let request = self.assemblies.insert(assembly);
        for piece in pieces {
            let queue = match piece.origin {
                PieceOrigin::File(..) => &mut self.queue,
                PieceOrigin::Object(_) => &mut self.requests.queue,
                PieceOrigin::Checked(..) => &mut self.checks,
            };
            queue.push_back(Piece { request, ..piece });
        }
    }

    /// Begins checked leaves while fewer reads are queued than can be in flight: each takes memory
    /// beside that of its range.
    fn begin_checks(&mut self) {
        while self.queue.len() < self.depth && !self.requests.is_full() {
            let Some(piece) = self.checks.pop_front() else { return };
            match self.assemblies.get_mut(piece.request) {
                Some(assembly) if assembly.failure.is_none() => self.begin_check(piece),
                Some(_) => self.finish_piece(piece.request),
                None => {}
            }
        }
    }

    /// Queues the reads below a checked leaf.
    fn begin_check(&mut self, piece: Piece) {
        let PieceOrigin::Checked(check, access) = &piece.origin else { return };
        let (mut leaves, access) = (check.leaves().to_vec(), *access);
        let len = leaves.iter().map(Leaf::len).fold(0, u64::saturating_add);
        match disassemble(0, &mut leaves, len, self.limits(access), &self.pool) {
            Ok((mut assembly, pieces)) => {
                assembly.above = Some(piece);
                self.below += 1;
                self.begin(assembly, pieces);
            }
            Err(error) => {
                if let Some(assembly) = self.assemblies.get_mut(piece.request) {
                    assembly.fail(error);
                }
                self.finish_piece(piece.request);
            }
        }
    }

    /// Waits for the next completed range; `None` if nothing is requested any more.
    ///
    /// The error of a range comes with its token: [`Error::ShortRead`] if the file ends before it,
    /// or the error of the system or the server. The other ranges continue.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would end, this continues after more work"
    )]
    pub fn next(&mut self) -> Option<(u64, Result<Bytes>)> {
        loop {
            self.take_answers(false);
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            if self.assemblies.len() == 0 {
                return None;
            }
            self.fill_engine(usize::MAX);
            if self.engine.in_flight() == 0 {
                // Where nothing is under way either, all that was queued belonged to ranges that
                // have failed and are ready now.
                self.take_answers(true);
                continue;
            }
            // Files are faster than requests, so they come first.
            if let Err(error) = self.reap(1) {
                self.break_down(&error);
                continue;
            }
            // Waiting reads are submitted before the caller processes this one: the device must not
            // be idle meanwhile.
            if let Err(error) = self.hand_over() {
                self.break_down(&error);
            }
        }
    }

    /// Starts what was asked for, and waits for nothing: for callers who take long to find what
    /// they ask for next, while the device could do this already.
    pub(crate) fn start(&mut self) {
        if let Err(error) = self.hand_over() {
            self.break_down(&error);
        }
    }

    /// A range that is read, without waiting for any: answers that are here are taken, and what
    /// waited for their places is asked for. Reads of files are taken by [`next`](Self::next).
    pub(crate) fn next_ready(&mut self) -> Option<(u64, Result<Bytes>)> {
        self.take_answers(false);
        self.ready.pop_front()
    }

    /// Nothing that was asked for is wanted any more: requests are called off. What the engine has
    /// begun is waited for, because its memory is in use.
    ///
    /// # Errors
    /// When the engine has failed; then some memory may be in use for good.
    pub(crate) fn call_off(&mut self) -> Result<()> {
        self.queue.clear();
        self.checks.clear();
        self.requests.clear();
        self.flights = Slab::new();
        self.assemblies = Slab::new();
        self.below = 0;
        self.ready.clear();
        let mut completions = std::mem::take(&mut self.completions);
        let mut reaped = Ok(());
        while reaped.is_ok() && self.engine.in_flight() > 0 {
            reaped = self.engine.reap(1, &mut completions);
            completions.clear();
        }
        self.completions = completions;
        self.is_broken |= reaped.is_err();
        reaped
    }

    /// Takes the answers that are here, after waiting for one if need be, and asks for what comes
    /// next.
    fn take_answers(&mut self, wait: bool) {
        if self.requests.is_orphaned() {
            return self.break_down(&broken());
        }
        let mut wait = wait;
        while let Some((piece, answer)) = self.requests.answer(wait) {
            wait = false;
            if let Some(assembly) = self.assemblies.get_mut(piece.request) {
                match answer {
                    Ok(bytes) => assembly.place_bytes(&piece.place, bytes),
                    Err(error) => assembly.fail(error),
                }
                self.finish_piece(piece.request);
            }
        }
        self.begin_requests();
    }

    /// Requests queued pieces of objects while there is room.
    fn begin_requests(&mut self) {
        self.begin_checks();
        while self.requests.has_room() {
            let Some(piece) = self.requests.queue.pop_front() else { return };
            match self.assemblies.get_mut(piece.request) {
                Some(assembly) if assembly.failure.is_none() => self.requests.begin(piece),
                Some(_) => self.finish_piece(piece.request),
                None => {}
            }
        }
    }

    /// Starts submitted requests, and takes at least this many completions.
    fn reap(&mut self, min: usize) -> Result<()> {
        let mut completions = std::mem::take(&mut self.completions);
        let reaped = self.engine.reap(min, &mut completions);
        for completion in completions.drain(..) {
            self.take(completion);
        }
        self.completions = completions;
        reaped
    }

    /// Reads ranges of one source, in the given order, and checks before and after that their
    /// sources have not changed since they were opened.
    ///
    /// # Errors
    /// Returns [`Error::SourceChanged`], or the first error.
    ///
    /// # Panics
    /// Panics if other ranges are pending.
    pub fn read_batch(
        &mut self,
        source: &dyn Source,
        ranges: &[ByteRange],
        access: Access,
    ) -> Result<Vec<Bytes>> {
        assert_eq!(self.pending(), 0, "a batch needs a session without pending ranges");
        if source.checks_reads() {
            return self.read_all(source, ranges, access);
        }
        source.check_ranges(ranges)?;
        let read = self.read_all(source, ranges, access);
        match (read, source.check_ranges(ranges)) {
            // A change of the source explains all other errors.
            (_, Err(changed @ Error::SourceChanged { .. })) | (Ok(_), Err(changed)) => Err(changed),
            (read, _) => read,
        }
    }

    fn read_all(&mut self, source: &dyn Source, ranges: &[ByteRange], access: Access) -> Result<Vec<Bytes>> {
        let mut results = vec![Bytes::new(); ranges.len()];
        let mut waiting = ranges.iter().zip(0_u64..);
        let mut failure = None;
        loop {
            while failure.is_none() && !self.is_full() {
                let Some((&range, token)) = waiting.next() else { break };
                if let Err(error) = self.submit(token, source, range, access) {
                    failure = Some(error);
                }
            }
            match self.next() {
                None => return failure.map_or(Ok(results), Err),
                Some((_, Err(error))) => failure = failure.or(Some(error)),
                // The tokens are positions in `ranges`.
                Some((token, Ok(bytes))) => results[token as usize] = bytes,
            }
        }
    }

    /// Moves pieces from the queue to the system, few at once: of a long list the device would
    /// begin with the first only when the last is prepared.
    fn hand_over(&mut self) -> Result<()> {
        let mut room = self.depth.saturating_sub(self.engine.in_flight());
        loop {
            let moved = self.fill_engine(room.min(HANDED_OVER_AT_ONCE));
            self.reap(0)?;
            room -= moved;
            if moved == 0 || room == 0 {
                return Ok(());
            }
        }
    }

    /// Moves pieces from the queue to the engine while there is room, at most this many; how many
    /// it moved.
    fn fill_engine(&mut self, most: usize) -> usize {
        self.begin_checks();
        let mut moved = 0;
        while moved < most && self.engine.in_flight() < self.depth {
            let Some(piece) = self.queue.pop_front() else { break };
            let Some(assembly) = self.assemblies.get_mut(piece.request) else { continue };
            if assembly.failure.is_some() {
                self.finish_piece(piece.request);
                continue;
            }
            let PieceOrigin::File(file, access) = &piece.origin else { continue };
            let (file, access) = (file.clone(), *access);
            let span = file.span(piece.offset, piece.len, access);
            let buffer = assembly.lend(&piece.place, span, &self.pool);
            let operation = Operation::Read { offset: piece.offset, len: piece.len, buffer };
            let token = self.flights.insert(piece) as u64;
            self.engine.submit(Request { token, file, access, operation });
            moved += 1;
        }
        moved
    }

    fn take(&mut self, completion: Completion) {
        let Some(piece) = self.flights.remove(completion.token as usize) else { return };
        let Some(assembly) = self.assemblies.get_mut(piece.request) else { return };
        match (completion.result, completion.buffer) {
            (Ok(count), Some(buffer)) if count == piece.len => assembly.place(&piece.place, buffer),
            (Ok(count), _) => assembly.fail(Error::ShortRead {
                path: piece.origin.path().to_path_buf(),
                offset: piece.offset,
                wanted: piece.len as u64,
                got: count as u64,
            }),
            (Err(error), _) => assembly.fail(error),
        }
        self.finish_piece(piece.request);
    }

    /// One piece less to wait for.
    fn finish_piece(&mut self, request: usize) {
        let mut finished = Some(request);
        while let Some(request) = finished.take() {
            let Some(assembly) = self.assemblies.get_mut(request) else { return };
            assembly.missing -= 1;
            if assembly.missing == 0
                && let Some(assembly) = self.assemblies.remove(request)
            {
                finished = self.hand_on(assembly);
            }
        }
    }

    /// Returns completed bytes; or, if they were read for a checked leaf, verifies them, puts them
    /// into place, and returns the range that then waits for one piece less.
    fn hand_on(&mut self, mut assembly: Assembly) -> Option<usize> {
        let Some(piece) = assembly.above.take() else {
            self.ready.push_back(assembly.finish());
            return None;
        };
        self.below -= 1;
        let (_, read) = assembly.finish();
        // Where the range has failed already, its other bytes are not looked at.
        let above = self.assemblies.get_mut(piece.request).filter(|above| above.failure.is_none());
        if let Some(above) = above {
            match piece.verified(read) {
                Ok(bytes) => above.place_bytes(&piece.place, bytes),
                Err(error) => above.fail(error),
            }
        }
        Some(piece.request)
    }

    /// The engine cannot continue: every range that is not read has failed.
    fn break_down(&mut self, error: &Error) {
        self.is_broken = true;
        self.queue.clear();
        self.flights = Slab::new();
        self.requests.clear();
        self.checks.clear();
        self.below = 0;
        let assemblies = std::mem::take(&mut self.assemblies).into_values();
        for assembly in assemblies.filter(|assembly| assembly.above.is_none()) {
            self.ready.push_back((assembly.token, Err(again(error))));
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("engine", &self.engine.name())
            .field("depth", &self.depth)
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}

/// The same error for one more range.
fn again(error: &Error) -> Error {
    match error {
        Error::Io { operation, path, offset, source } => {
            let source = source
                .raw_os_error()
                .map_or_else(|| io::Error::from(source.kind()), io::Error::from_raw_os_error);
            Error::Io { operation, path: path.clone(), offset: *offset, source }
        }
        _ => broken(),
    }
}

fn broken() -> Error {
    Error::io("use", PathBuf::from("an I/O engine that has failed"), io::ErrorKind::BrokenPipe.into())
}

/// Reads ranges of one source, in the order given, with an engine made for it; who reads often
/// keeps a [`Session`].
///
/// # Errors
/// Returns the errors of [`Session::read_batch`], or one if the engine cannot be made.
pub fn read_batch(
    factory: &dyn EngineFactory,
    source: &dyn Source,
    ranges: &[ByteRange],
    access: Access,
) -> Result<Vec<Bytes>> {
    let options = SessionOptions::default();
    let reads = |range: &ByteRange| range.len().div_ceil(options.max_read_bytes as u64);
    let reads = ranges.iter().map(reads).fold(0, u64::saturating_add);
    let depth = reads.clamp(1, options.depth as u64) as usize;
    Session::new(factory, SessionOptions { depth, ..options })?.read_batch(source, ranges, access)
}

/// Reads one range of a source; see [`read_batch`].
///
/// # Errors
/// Returns the errors of [`read_batch`].
pub fn read_range(
    factory: &dyn EngineFactory,
    source: &dyn Source,
    range: ByteRange,
    access: Access,
) -> Result<Bytes> {
    Ok(read_batch(factory, source, &[range], access)?.pop().unwrap_or_default())
}
