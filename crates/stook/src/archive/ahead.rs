//! Read-ahead; results are returned in the order of the requests.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

use crate::engine::{Access, EngineFactory};
use crate::error::Result;
use crate::extent::ByteRange;
use crate::profile::Profile;
use crate::source::{Session, SessionOptions, Source};

/// A queue of reads.
#[derive(Debug)]
pub(super) struct Ahead {
    session: Session,
    access: Access,
    /// Lengths of the ranges requested and not yet returned.
    lens: VecDeque<u64>,
    bytes: u64,
    /// The token of the first of them.
    first: u64,
    arrived: HashMap<u64, Result<Bytes>>,
}

impl Ahead {
    /// A queue on an engine of its own, for what has this profile.
    pub(super) fn new(engines: &dyn EngineFactory, profile: &Profile, access: Access) -> Result<Self> {
        let session = Session::new(engines, SessionOptions::of(profile))?;
        Ok(Self { session, access, lens: VecDeque::new(), bytes: 0, first: 0, arrived: HashMap::new() })
    }

    /// Bytes requested and not yet returned.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ranges requested and not yet returned.
    pub(super) fn len(&self) -> usize {
        self.lens.len()
    }

    /// Requests a range.
    pub(super) fn push(&mut self, source: &dyn Source, range: ByteRange) -> Result<()> {
        let token = self.first.wrapping_add(self.lens.len() as u64);
        self.session.submit(token, source, range, self.access)?;
        self.lens.push_back(range.len());
        self.bytes = self.bytes.saturating_add(range.len());
        Ok(())
    }

    /// The bytes of the first range that was not yet returned; `None` if there is none.
    pub(super) fn pop(&mut self) -> Result<Option<Bytes>> {
        let Some(len) = self.lens.front() else { return Ok(None) };
        let read = loop {
            if let Some(read) = self.arrived.remove(&self.first) {
                break read;
            }
            match self.session.next() {
                Some((token, read)) => drop(self.arrived.insert(token, read)),
                // It was requested, so the session has it or has returned it.
                None => return Ok(None),
            }
        };
        self.bytes = self.bytes.saturating_sub(*len);
        self.lens.pop_front();
        self.first = self.first.wrapping_add(1);
        read.map(Some)
    }

    /// Waits for all requests, and discards them. Errors of these reads no longer matter.
    pub(super) fn clear(&mut self) {
        while self.session.next().is_some() {}
        self.arrived.clear();
        self.first = self.first.wrapping_add(self.lens.len() as u64);
        self.lens.clear();
        self.bytes = 0;
    }
}
