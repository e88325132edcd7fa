//! [`Window`]: short parts of an archive, most often in order, by few reads.

use bytes::Bytes;

use super::super::error::Result;
use super::damaged;
use crate::engine::{Access, Backend};
use crate::error;
use crate::extent::ByteRange;
use crate::format::Fault;
use crate::source::{Session, SessionOptions, Source};

/// How much is read after a jump. It doubles with each read that follows, up to the most.
const FIRST_LEN: u64 = 4 << 10;
const MOST_LEN: u64 = 1 << 20;

/// A part of an archive that is held, and moves where others are asked for.
pub(super) struct Window<'s> {
    source: &'s dyn Source,
    session: Session,
    at: u64,
    held: Bytes,
    step: u64,
}

impl<'s> Window<'s> {
    pub(super) fn new(source: &'s dyn Source) -> Result<Self> {
        let session = Session::new(&Backend::Auto, SessionOptions::default())?;
        Ok(Self { source, session, at: 0, held: Bytes::new(), step: FIRST_LEN })
    }

    pub(super) fn source(&self) -> &'s dyn Source {
        self.source
    }

    /// These bytes. The caller bounds how many they are.
    ///
    /// # Errors
    /// That the archive ends before; I/O errors.
    pub(super) fn get(&mut self, at: u64, len: u64, what: &str) -> Result<Bytes> {
        let total = self.source.len();
        let wanted = ByteRange::at(at, len).filter(|wanted| wanted.end() <= total).ok_or_else(|| {
            let what = format!("{what} of {len} bytes reaches past the end of the archive ({total} bytes)");
            damaged(self.source, Fault::damaged(at, what))
        })?;
        if wanted.is_empty() {
            return Ok(Bytes::new());
        }
        if let Some(bytes) = self.held(wanted) {
            return Ok(bytes);
        }
        let end = self.at.saturating_add(self.held.len() as u64);
        // Of what is read and not wanted there is never more than half.
        let is_near = at >= self.at && at.saturating_sub(end) <= self.step;
        self.step = if is_near { self.step.saturating_mul(2).min(MOST_LEN) } else { FIRST_LEN };
        let to = at.saturating_add(self.step.max(len)).min(total);
        let range = ByteRange::new(at, to).unwrap_or(wanted);
        self.session.submit(0, self.source, range, Access::Cached)?;
        let lost = || error::Error::io("read", self.source.path(), std::io::ErrorKind::Other.into());
        let (_, read) = self.session.next().ok_or_else(lost)?;
        (self.at, self.held) = (at, read?);
        let got = self.held.len() as u64;
        self.held(wanted).ok_or_else(|| {
            let path = self.source.path().to_path_buf();
            error::Error::ShortRead { path, offset: at, wanted: len, got }.into()
        })
    }

    fn held(&self, wanted: ByteRange) -> Option<Bytes> {
        let from = usize::try_from(wanted.start().checked_sub(self.at)?).ok()?;
        let to = usize::try_from(wanted.end().checked_sub(self.at)?).ok()?;
        (to <= self.held.len()).then(|| self.held.slice(from..to))
    }
}
