//! A source that changes, ends early or fails on demand, over any other source.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stook::extent::ByteRange;
use stook::source::{Identity, Leaf, Source, check_bounds};
use stook::{Error, Result};

/// The fault of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceFault {
    /// From the `nth` question (from 0) on, its identity is another one.
    Changes {
        /// Which question.
        nth: usize,
    },
    /// It says that it is this much longer than it is, so that its files end before its ranges do.
    Short {
        /// Bytes that are not there.
        missing: u64,
    },
    /// The `nth` range (from 0) cannot be resolved: the device reports a failure (`EIO`).
    Fails {
        /// Which range.
        nth: usize,
    },
}

/// Passes every question on to another source, with one fault.
#[derive(Debug)]
pub struct FaultSource {
    inner: Arc<dyn Source>,
    fault: SourceFault,
    asked: AtomicUsize,
}

impl FaultSource {
    /// Wraps a source.
    pub fn new(inner: Arc<dyn Source>, fault: SourceFault) -> Self {
        Self { inner, fault, asked: AtomicUsize::new(0) }
    }
}

impl Source for FaultSource {
    crate::forward_source!(inner: path identity);

    fn len(&self) -> u64 {
        match self.fault {
            SourceFault::Short { missing } => self.inner.len() + missing,
            _ => self.inner.len(),
        }
    }

    fn current_identity(&self) -> Result<Identity> {
        let mut identity = self.inner.current_identity()?;
        if let SourceFault::Changes { nth } = self.fault
            && self.asked.fetch_add(1, Ordering::Relaxed) >= nth
        {
            identity.mtime_ns ^= 1;
            identity.etag = identity.etag.map(|etag| format!("{etag}-of-another").into());
        }
        Ok(identity)
    }

    fn resolve(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        check_bounds(self, range)?;
        match self.fault {
            SourceFault::Fails { nth } if self.asked.fetch_add(1, Ordering::Relaxed) == nth => {
                let error = io::Error::from_raw_os_error(5);
                Err(Error::io_at("read", self.path(), range.start(), error))
            }
            SourceFault::Short { .. } if range.end() > self.inner.len() => {
                self.resolve_past_the_end(range, leaves)
            }
            _ => self.inner.resolve(range, leaves),
        }
    }
}

impl FaultSource {
    /// Stretches the last leaf, which must be of a file, past the end of the file.
    fn resolve_past_the_end(&self, range: ByteRange, leaves: &mut Vec<Leaf>) -> Result<()> {
        let len = self.inner.len();
        let start = range.start().min(len.saturating_sub(1));
        self.inner.resolve(ByteRange::new(start, len).unwrap_or_default(), leaves)?;
        if let Some(Leaf::File { range: last, .. }) = leaves.last_mut() {
            let missing = range.end() - len;
            let begin = last.start() + (range.start() - start);
            *last = ByteRange::new(begin, last.end() + missing).unwrap_or(*last);
        }
        Ok(())
    }
}
