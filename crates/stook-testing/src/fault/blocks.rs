//! Engines to which blocks of files are unreadable.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use libc::EIO;
use stook::Result;
use stook::engine::{Engine, EngineFactory, Operation, Request};
use stook::extent::ByteRange;

use super::HookedEngine;

/// Makes engines whose reads of bad blocks fail. All of them, and all clones of this, know the same
/// blocks.
#[derive(Clone)]
pub struct BadBlockEngines {
    inner: Arc<dyn EngineFactory>,
    bad: Arc<Mutex<Vec<(PathBuf, ByteRange)>>>,
}

impl BadBlockEngines {
    /// Wraps the factory of real engines; all blocks can be read.
    pub fn new(inner: impl EngineFactory + 'static) -> Self {
        Self { inner: Arc::new(inner), bad: Arc::default() }
    }

    /// From now on every read that touches this range of a file fails with `EIO`.
    pub fn spoil(&self, path: impl Into<PathBuf>, range: ByteRange) {
        self.bad.lock().unwrap_or_else(PoisonError::into_inner).push((path.into(), range));
    }
}

impl fmt::Debug for BadBlockEngines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BadBlockEngines").finish_non_exhaustive()
    }
}

impl EngineFactory for BadBlockEngines {
    fn build(&self, depth: usize) -> Result<Box<dyn Engine>> {
        let bad = self.bad.clone();
        let hook = Box::new(move |request: &Request| {
            let Operation::Read { offset, len, .. } = request.operation else { return Ok(()) };
            let bad = bad.lock().unwrap_or_else(PoisonError::into_inner);
            let touches = |range: &ByteRange| offset < range.end() && range.start() < offset + len as u64;
            match bad.iter().any(|(path, range)| request.file.path() == path && touches(range)) {
                true => Err(io::Error::from_raw_os_error(EIO)),
                false => Ok(()),
            }
        });
        Ok(Box::new(HookedEngine::new(self.inner.build(depth)?, hook)))
    }
}
