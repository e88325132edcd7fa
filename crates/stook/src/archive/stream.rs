//! A tar that comes from anywhere but a file, member by member: for importing from a pipe.

use std::collections::VecDeque;
use std::io::{BufRead, Read};
use std::path::PathBuf;

use super::compressed;
use super::error::{Error, Result};
use super::input::{Input as _, StreamInput};
use super::member::Extent;
use super::reading::{PASS_MAX, Piece, Stepped, Stepping};
use super::tar::header::{BLOCK_LEN, has_checksum, has_magic};
use super::tar::{Entry, Walk};
use crate::format::zip;

/// A tar read from front to back.
#[derive(Debug)]
pub struct TarStream {
    walk: Walk<StreamInput<Box<dyn Read + Send>>>,
    /// The rest of the current member.
    extents: VecDeque<Extent>,
    at: u64,
    len: u64,
    lent: usize,
    /// Zeroes that [`chunk`](Self::chunk) still has to hand out.
    zeroes_left: u64,
}

/// Reads a tar from a reader, compressed or not; `path` is its name in messages.
///
/// # Errors
/// Returns an error if it does not begin with a tar header, or if reading fails.
pub fn tar_stream<R: BufRead + Send + 'static>(mut reader: R, path: impl Into<PathBuf>) -> Result<TarStream> {
    let path = path.into();
    let into_error = |error| crate::Error::io("read", &path, error);
    let format = compressed::format_of(reader.fill_buf().map_err(into_error)?);
    let reader: Box<dyn Read + Send> = match format {
        Some(format) => compressed::decompress(reader, format).map_err(into_error)?,
        None => Box::new(reader),
    };
    let mut input = StreamInput::new(reader, path);
    let first = input.peek(BLOCK_LEN)?;
    if let Some(what) = why_no_tar(first, format.is_some()) {
        return Err(Error::NotAnArchive { path: input.path().to_path_buf(), what: what.into() });
    }
    let walk = Walk::new(input);
    Ok(TarStream { walk, extents: VecDeque::new(), at: 0, len: 0, lent: 0, zeroes_left: 0 })
}

/// Why data that begins with these bytes is not a tar, if it is not.
fn why_no_tar(first: &[u8], is_compressed: bool) -> Option<&'static str> {
    let why = match is_compressed {
        true => "what is compressed in it is no tar",
        false => "it is not a tar, tar.gz, tar.zst or tar.xz",
    };
    if zip::has_magic(first) && !is_compressed {
        return Some("it is a zip, which has to be a file: what is in it stands at its end");
    }
    if let Some(block) = first.first_chunk::<BLOCK_LEN>() {
        let is_one = has_checksum(block) || block.iter().all(|byte| *byte == 0);
        return (!is_one).then_some(why);
    }
    if first.is_empty() && !is_compressed {
        return Some("it is empty");
    }
    // Where the magic of a header would be, there may be the end.
    Some(if has_magic(first) { "it ends within the first header" } else { why })
}

impl TarStream {
    /// The next member; the unread rest of the one before is skipped. `None` only when everything
    /// after the end was read, too: the checksum of compressed data is there, and a program that
    /// writes a tar into a pipe can write all of it.
    ///
    /// # Errors
    /// Returns an error if the bytes are not a tar, do not match their checksum, or cannot be read.
    #[expect(clippy::should_implement_trait, reason = "an iterator could not lend the bytes of a member")]
    pub fn next(&mut self) -> Result<Option<Entry>> {
        self.walk.consume(std::mem::take(&mut self.lent));
        self.zeroes_left = 0;
        let entry = self.walk.next()?;
        if let Some(entry) = &entry {
            let whole = || vec![Extent { at: 0, stored_at: entry.data_at, len: entry.stored_len }];
            self.extents = entry.extents.clone().unwrap_or_else(whole).into();
            (self.at, self.len) = (0, if entry.link.is_empty() { entry.node.len } else { 0 });
        } else {
            (self.extents, self.at, self.len) = (VecDeque::new(), 0, 0);
            while self.walk.input().skip(PASS_MAX)? == PASS_MAX {}
        }
        Ok(entry)
    }

    /// The next bytes of the member, or how many zeroes come that are not stored; nothing after the
    /// last.
    ///
    /// # Errors
    /// Returns an error if reading fails, or the tar ends before.
    pub fn piece(&mut self) -> Result<Option<Piece<'_>>> {
        self.next_piece()
    }

    /// The same with all zeroes as bytes.
    ///
    /// # Errors
    /// Returns the errors of [`piece`](Self::piece).
    pub fn chunk(&mut self) -> Result<Option<&[u8]>> {
        self.next_chunk()
    }

    /// Whether the two blocks of zeroes that end a tar were found.
    pub fn has_end(&self) -> bool {
        self.walk.has_end()
    }
}

impl Stepping for TarStream {
    fn zeroes_left(&mut self) -> &mut u64 {
        &mut self.zeroes_left
    }

    fn held(&mut self) -> Result<&[u8]> {
        Ok(self.walk.chunk()?.and_then(|there| there.get(..self.lent)).unwrap_or_default())
    }

    fn step(&mut self) -> Result<Stepped> {
        self.walk.consume(std::mem::take(&mut self.lent));
        if self.at >= self.len {
            return Ok(Stepped::End);
        }
        let hole_to = self.extents.front().map_or(self.len, |extent| extent.at);
        if self.at < hole_to {
            let len = hole_to.saturating_sub(self.at);
            self.at = hole_to;
            return Ok(Stepped::Hole(len));
        }
        let Some(extent) = self.extents.front_mut() else { return Ok(Stepped::End) };
        let there = self.walk.chunk()?.unwrap_or_default();
        let len = usize::try_from(extent.len).unwrap_or(usize::MAX).min(there.len());
        (self.lent, self.at) = (len, self.at.saturating_add(len as u64));
        extent.at = self.at;
        extent.len = extent.len.saturating_sub(len as u64);
        if extent.len == 0 {
            self.extents.pop_front();
        }
        Ok(if len == 0 { Stepped::End } else { Stepped::Bytes })
    }
}
