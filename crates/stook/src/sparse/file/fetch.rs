//! Reads ranges of a source side by side, with engines that are kept.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::engine::{Access, EngineFactory, IdlePool};
use crate::error::{Error, Result};
use crate::extent::ByteRange;
use crate::source::{Session, SessionOptions, Source};

/// Fetches ranges of one source.
#[derive(Debug)]
pub(super) struct Fetcher {
    source: Arc<dyn Source>,
    engines: Arc<dyn EngineFactory>,
    options: SessionOptions,
    idle: IdlePool<Session>,
}

impl Fetcher {
    pub(super) fn new(
        source: Arc<dyn Source>,
        engines: Arc<dyn EngineFactory>,
        options: SessionOptions,
    ) -> Self {
        Self { source, engines, options, idle: IdlePool::new() }
    }

    pub(super) fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    /// Reads ranges, and hands each out with its number and how long it took: as it comes where the
    /// source checks each read itself; else when all are there and the source is known to be
    /// unchanged.
    ///
    /// # Errors
    /// Returns [`Error::SourceChanged`], or the first read error; other ranges may have been
    /// delivered.
    pub(super) fn fetch(
        &self,
        ranges: &[ByteRange],
        each: &mut dyn FnMut(usize, Bytes, Duration) -> Result<()>,
    ) -> Result<()> {
        let mut session = self.session()?;
        let fetched = match self.source.checks_reads() {
            true => self.read(&mut session, ranges, each),
            false => self.read_checked(&mut session, ranges, each),
        };
        if fetched.is_ok() {
            self.idle.keep(session);
        }
        fetched
    }

    fn read_checked(
        &self,
        session: &mut Session,
        ranges: &[ByteRange],
        each: &mut dyn FnMut(usize, Bytes, Duration) -> Result<()>,
    ) -> Result<()> {
        self.source.check_ranges(ranges)?;
        let mut all = Vec::with_capacity(ranges.len());
        let read = self.read(session, ranges, &mut |number, bytes, took| {
            all.push((number, bytes, took));
            Ok(())
        });
        match self.source.check_ranges(ranges) {
            // A change of the source explains all other errors.
            Err(changed @ Error::SourceChanged { .. }) => return Err(changed),
            Err(error) => return Err(read.err().unwrap_or(error)),
            Ok(()) => {}
        }
        all.into_iter().try_for_each(|(number, bytes, took)| each(number, bytes, took))?;
        read
    }

    fn read(
        &self,
        session: &mut Session,
        ranges: &[ByteRange],
        each: &mut dyn FnMut(usize, Bytes, Duration) -> Result<()>,
    ) -> Result<()> {
        let began = Instant::now();
        for (&range, token) in ranges.iter().zip(0_u64..) {
            session.submit(token, self.source.as_ref(), range, Access::Cached)?;
        }
        let mut failure = None;
        while let Some((token, bytes)) = session.next() {
            // Tokens are positions in `ranges`. One that fails may be one that was only read ahead:
            // the others count.
            let handed = bytes.and_then(|bytes| each(token as usize, bytes, began.elapsed()));
            failure = match handed {
                // It explains all others.
                Err(changed @ Error::SourceChanged { .. }) => Some(changed),
                handed => failure.or(handed.err()),
            };
        }
        failure.map_or(Ok(()), Err)
    }

    fn session(&self) -> Result<Session> {
        match self.idle.take() {
            Some(session) => Ok(session),
            None => Session::new(self.engines.as_ref(), self.options),
        }
    }
}
