//! [`Forwards`]: a source, read from its front as files are.

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use bytes::{Buf as _, Bytes};

use super::{Session, SessionOptions, Source};
use crate::engine::{Access, Backend};
use crate::error::Result;
use crate::extent::ByteRange;

/// Bytes that are read at once.
const BLOCK_BYTES: u64 = 1 << 20;

/// Reads a source from its front, in the memory of one block. That it has changed meanwhile is an
/// error, at the end at the latest.
#[derive(Debug)]
pub struct Forwards {
    source: Arc<dyn Source>,
    session: Session,
    at: u64,
    block: Bytes,
}

impl Forwards {
    /// Reads this source, through the page cache.
    ///
    /// # Errors
    /// That there is no engine.
    pub fn new(source: Arc<dyn Source>) -> Result<Self> {
        let session = Session::new(&Backend::Auto, SessionOptions { depth: 1, ..SessionOptions::default() })?;
        Ok(Self { source, session, at: 0, block: Bytes::new() })
    }

    /// The next block; empty at the end.
    fn next_block(&mut self) -> Result<Bytes> {
        let end = self.at.saturating_add(BLOCK_BYTES).min(self.source.len());
        let Some(range) = ByteRange::new(self.at, end).filter(|range| !range.is_empty()) else {
            self.source.check_unchanged()?;
            return Ok(Bytes::new());
        };
        let read = self.session.read_batch(&*self.source, &[range], Access::Cached)?;
        self.at = end;
        Ok(read.into_iter().next().unwrap_or_default())
    }
}

impl BufRead for Forwards {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.block.is_empty() {
            self.block = self.next_block().map_err(io::Error::other)?;
        }
        Ok(&self.block)
    }

    fn consume(&mut self, count: usize) {
        self.block.advance(count.min(self.block.len()));
    }
}

impl Read for Forwards {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(into)?;
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MemorySource;

    #[test]
    fn a_source_gives_all_its_bytes_in_order_and_then_none() {
        let bytes: Vec<u8> = (0..2_500_000_u32).map(|at| (at / 999) as u8).collect();
        let mut forwards = Forwards::new(Arc::new(MemorySource::new("all", bytes.clone()))).unwrap();
        let mut read = Vec::new();
        assert_eq!(forwards.read_to_end(&mut read).unwrap(), bytes.len());
        assert!(read == bytes && forwards.read(&mut [0; 9]).unwrap() == 0);
        let mut lines =
            Forwards::new(Arc::new(MemorySource::new("lines", b"a\nb".to_vec()))).unwrap().lines();
        assert_eq!(
            (lines.next().unwrap().unwrap(), lines.next().unwrap().unwrap()),
            ("a".into(), "b".into())
        );
        assert!(lines.next().is_none());
    }
}
