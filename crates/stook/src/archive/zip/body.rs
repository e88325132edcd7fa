//! The bytes of a member of a zip: the header before them passed, inflated, and checked at their
//! end.

use bytes::{Buf as _, Bytes};
use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::super::error::{Decoded, Fault};
use super::super::member::{Member, Method};
use super::directory::local_len;

/// How much is inflated at once, in bytes.
const OUT_LEN: usize = 256 << 10;

/// A member on its way.
#[derive(Debug)]
pub(in super::super) struct ZipBody {
    /// Input that was not processed yet.
    held: Bytes,
    /// Whether the header before the bytes was passed.
    is_past_header: bool,
    /// Bytes of the header and stored bytes that did not come yet.
    header_left: usize,
    stored_left: u64,
    len_left: u64,
    crc: Crc,
    expected_crc: u32,
    inflate: Option<Decompress>,
    out: Vec<u8>,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum Step {
    /// More of the file is needed.
    Feed,
    /// Bytes are ready, or none yet.
    Ready,
    /// All bytes were given, and they are the right ones.
    Done,
}

impl ZipBody {
    pub(in super::super) fn new(member: &Member<'_>) -> Self {
        let inflate = (member.method == Method::Deflated).then(|| Decompress::new(false));
        Self {
            held: Bytes::new(),
            is_past_header: false,
            header_left: 0,
            stored_left: member.stored_len,
            len_left: member.node.len,
            crc: Crc::new(),
            expected_crc: member.crc32.unwrap_or(0),
            inflate,
            out: Vec::new(),
        }
    }

    /// Bytes of the file that are still needed, once the header was seen.
    pub(in super::super) fn wanted(&self) -> Option<u64> {
        let left = (self.header_left as u64).saturating_add(self.stored_left);
        self.is_past_header.then_some(left)
    }

    /// The next bytes of the file.
    pub(in super::super) fn feed(&mut self, bytes: Bytes) {
        self.held = bytes;
    }

    /// Continues with the available bytes.
    pub(in super::super) fn step(&mut self) -> Decoded<Step> {
        self.out.clear();
        if !self.is_past_header {
            if self.held.is_empty() {
                return Ok(Step::Feed);
            }
            self.header_left = local_len(&self.held)?;
            self.is_past_header = true;
        }
        let skip = self.header_left.min(self.held.len());
        self.held.advance(skip);
        self.header_left = self.header_left.saturating_sub(skip);
        if self.len_left == 0 && self.inflate.is_none() {
            return self.end();
        }
        if self.held.is_empty() && self.stored_left > 0 {
            return Ok(Step::Feed);
        }
        match self.inflate.take() {
            None => self.copy(),
            Some(mut inflate) => {
                let step = self.inflate(&mut inflate);
                if step != Ok(Step::Done) {
                    self.inflate = Some(inflate);
                }
                step
            }
        }
    }

    /// The bytes that the last step prepared.
    pub(in super::super) fn ready(&self) -> &[u8] {
        &self.out
    }

    fn copy(&mut self) -> Decoded<Step> {
        let len = usize::try_from(self.stored_left).unwrap_or(usize::MAX).min(self.held.len()).min(OUT_LEN);
        self.out.extend_from_slice(self.held.get(..len).unwrap_or_default());
        self.took(len);
        self.gave(len)
    }

    fn inflate(&mut self, inflate: &mut Decompress) -> Decoded<Step> {
        let there = usize::try_from(self.stored_left).unwrap_or(usize::MAX).min(self.held.len());
        let input = self.held.get(..there).unwrap_or_default();
        let (read, made) = (inflate.total_in(), inflate.total_out());
        self.out.resize(OUT_LEN, 0);
        let status = inflate
            .decompress(input, &mut self.out, FlushDecompress::None)
            .map_err(|error| Fault::damaged(0, format!("a deflated member is damaged: {error}")))?;
        let read = usize::try_from(inflate.total_in().saturating_sub(read)).unwrap_or(usize::MAX);
        let made = usize::try_from(inflate.total_out().saturating_sub(made)).unwrap_or(usize::MAX);
        self.out.truncate(made);
        self.took(read);
        if made > 0 {
            return self.gave(made);
        }
        match status {
            Status::StreamEnd => self.end(),
            _ if self.stored_left > 0 && self.held.is_empty() => Ok(Step::Feed),
            // Something was read and nothing made of it yet.
            _ if read > 0 => Ok(Step::Ready),
            _ => Err(Fault::damaged(0, "a deflated member ends before its end")),
        }
    }

    fn took(&mut self, len: usize) {
        self.held.advance(len.min(self.held.len()));
        self.stored_left = self.stored_left.saturating_sub(len as u64);
    }

    fn gave(&mut self, len: usize) -> Decoded<Step> {
        let Some(left) = self.len_left.checked_sub(len as u64) else {
            return Err(Fault::damaged(0, "a member is longer than the directory says"));
        };
        self.len_left = left;
        self.crc.update(&self.out);
        Ok(Step::Ready)
    }

    fn end(&mut self) -> Decoded<Step> {
        if self.len_left > 0 {
            return Err(Fault::damaged(0, "a member is shorter than the directory says"));
        }
        if self.crc.sum() != self.expected_crc {
            return Err(Fault::damaged(0, "the CRC-32 of a member is not what the directory says"));
        }
        Ok(Step::Done)
    }
}
