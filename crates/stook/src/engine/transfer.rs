//! [`Transfer`]: one request on its way through system calls, the same for every backend.
//!
//! A backend asks for the next [`Step`], carries it out, and tells the outcome; until the transfer is
//! done. Widening and narrowing of direct reads, short transfers, the end of the file, retries and
//! errors are decided here and nowhere else. This module makes no system calls.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use super::{Access, Buffer, Completion, File, Operation, Request};
use crate::error::{Error, Result};

/// The most that one system call is asked to move. Linux moves no more than 2 GiB less a page; this is
/// below that and a multiple of every alignment.
const CALL_MAX_BYTES: usize = 1 << 30;

/// How often `EAGAIN` is met by trying again before it is reported. A file that is always busy would
/// otherwise hold its caller for ever.
const TRY_AGAIN_MAX: u32 = 10_000;

/// What a backend is to do next. The memory belongs to the transfer and stays valid until the outcome
/// is told.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// Read up to `len` bytes at `offset` of the descriptor into memory.
    Read { fd: RawFd, memory: *mut u8, len: usize, offset: u64 },
    /// Write up to `len` bytes from memory at `offset` of the descriptor.
    Write { fd: RawFd, memory: *const u8, len: usize, offset: u64 },
    /// Make what was written durable.
    Sync { fd: RawFd },
}

/// A request and how far it has come.
#[derive(Debug)]
pub(super) struct Transfer {
    token: u64,
    file: Arc<File>,
    kind: Kind,
    buffer: Option<Buffer>,
    /// Whether the next step goes past the page cache.
    direct: bool,
    /// The range in the file that the steps cover.
    range: Range<u64>,
    /// Where in the buffer that range begins.
    base: usize,
    /// Bytes of the range that are moved.
    done: usize,
    tries: u32,
    outcome: Option<Result<()>>,
}

#[derive(Debug)]
enum Kind {
    /// With the range that the caller wants.
    Read {
        wanted: Range<u64>,
    },
    Write,
    Sync,
}

impl Transfer {
    /// Starts a request.
    ///
    /// # Panics
    /// When the buffer of a read is smaller than the span of its range.
    pub(super) fn new(request: Request) -> Self {
        let Request { token, file, access, operation } = request;
        let direct = access == Access::Direct;
        let (kind, buffer, range, base, direct) = match operation {
            Operation::Read { offset, len, buffer } => {
                let span = file.span(offset, len, access);
                assert!(buffer.capacity() >= span, "a read of {span} bytes into {}", buffer.capacity());
                let range = file.widened(offset, len, access);
                let wanted = range.as_ref().map_or(offset..offset, |_| offset..offset + len as u64);
                (Kind::Read { wanted }, Some(buffer), range.ok_or(offset), 0, direct)
            }
            Operation::Write { offset, buffer } => {
                let range = file.widened(offset, buffer.len(), Access::Cached).ok_or(offset);
                let base = buffer.data_range().start;
                let direct = direct && is_aligned(&file, offset, &buffer);
                (Kind::Write, Some(buffer), range, base, direct)
            }
            Operation::Sync => (Kind::Sync, None, Ok(0..0), 0, false),
        };
        let mut transfer =
            Self { token, file, kind, buffer, direct, range: 0..0, base, done: 0, tries: 0, outcome: None };
        match range {
            Ok(range) => transfer.range = range,
            Err(offset) => transfer.fail_at(offset, io::Error::from(io::ErrorKind::InvalidInput)),
        }
        if transfer.range.is_empty() && !matches!(transfer.kind, Kind::Sync) && transfer.outcome.is_none() {
            transfer.outcome = Some(Ok(()));
        }
        transfer
    }

    /// The next system call, or `None` when all is done.
    pub(super) fn step(&mut self) -> Option<Step> {
        if self.outcome.is_some() {
            return None;
        }
        let cached = self.file.cached_fd().as_raw_fd();
        let fd = if self.direct {
            // Opening may be refused only now; the page cache serves the same range then, so that the
            // data lies at the same place of the buffer.
            let direct = self.file.direct_fd().map(|fd| fd.as_raw_fd());
            self.direct = direct.is_some();
            direct.unwrap_or(cached)
        } else {
            cached
        };
        let (offset, len) = (self.range.start + self.done as u64, self.left().min(CALL_MAX_BYTES));
        let memory = self.memory();
        Some(match self.kind {
            Kind::Read { .. } => Step::Read { fd, memory, len, offset },
            Kind::Write => Step::Write { fd, memory, len, offset },
            Kind::Sync => Step::Sync { fd: cached },
        })
    }

    /// Takes the outcome of the step: how many bytes were moved.
    pub(super) fn advance(&mut self, outcome: io::Result<usize>) {
        match outcome {
            Ok(count) => self.moved(count),
            Err(error) => self.failed(error),
        }
    }

    fn moved(&mut self, count: usize) {
        debug_assert!(count <= self.left(), "{count} bytes moved of {}", self.left());
        self.tries = 0;
        self.done += count.min(self.left());
        let position = self.range.start + self.done as u64;
        match &self.kind {
            Kind::Sync => self.outcome = Some(Ok(())),
            // The end of the file: what is missing is not there. Or the rest is widening that nobody
            // asked for.
            Kind::Read { wanted } if count == 0 || position >= wanted.end => self.outcome = Some(Ok(())),
            Kind::Write if self.left() == 0 => self.outcome = Some(Ok(())),
            Kind::Write if count == 0 => {
                self.fail_at(position, io::Error::from(io::ErrorKind::WriteZero));
            }
            // It goes on. After an uneven count (as at the end of a file whose length is not aligned)
            // only the page cache can.
            Kind::Read { .. } | Kind::Write => {
                self.direct &= position.is_multiple_of(self.file.alignment().offset_bytes);
            }
        }
    }

    fn failed(&mut self, error: io::Error) {
        let refuses_direct = matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP));
        match error.kind() {
            io::ErrorKind::Interrupted => {}
            io::ErrorKind::WouldBlock if self.tries < TRY_AGAIN_MAX => {
                self.tries += 1;
                std::thread::yield_now();
            }
            _ if self.direct && refuses_direct => {
                self.file.refuse_direct();
                self.direct = false;
            }
            _ => self.fail_at(self.range.start + self.done as u64, error),
        }
    }

    fn fail_at(&mut self, offset: u64, error: io::Error) {
        let path = self.file.path();
        self.outcome = Some(Err(match self.kind {
            Kind::Read { .. } => Error::io_at("read", path, offset, error),
            Kind::Write => Error::io_at("write", path, offset, error),
            Kind::Sync => Error::io("sync", path, error),
        }));
    }

    /// The completion of a transfer that has no further step.
    pub(super) fn complete(self) -> Completion {
        let Self { token, kind, mut buffer, range, done, outcome, .. } = self;
        let result = outcome.unwrap_or(Ok(())).map(|()| match kind {
            Kind::Read { ref wanted } => narrow(buffer.as_mut(), &range, wanted, done),
            Kind::Write => done,
            Kind::Sync => 0,
        });
        if result.is_err() && matches!(kind, Kind::Read { .. })
            && let Some(buffer) = &mut buffer
        {
            buffer.clear();
        }
        Completion { token, result, buffer }
    }

    fn left(&self) -> usize {
        // The range is never longer than the buffer, whose length is a `usize`.
        (self.range.end - self.range.start) as usize - self.done
    }

    fn memory(&self) -> *mut u8 {
        let at = self.base + self.done;
        self.buffer.as_ref().map_or(std::ptr::null_mut(), |buffer| buffer.as_ptr().wrapping_add(at))
    }
}

/// Makes the wanted bytes that were found the data of the buffer; returns how many there are.
fn narrow(buffer: Option<&mut Buffer>, range: &Range<u64>, wanted: &Range<u64>, done: usize) -> usize {
    let Some(buffer) = buffer else { return 0 };
    let found_end = (range.start + done as u64).min(wanted.end);
    // All of these lie in the range, which is never longer than the buffer.
    let start = (wanted.start - range.start) as usize;
    let end = (found_end.max(wanted.start) - range.start) as usize;
    buffer.set_data_range(start..end);
    end - start
}

/// Whether a direct write of this buffer would be accepted.
fn is_aligned(file: &File, offset: u64, buffer: &Buffer) -> bool {
    let alignment = file.alignment();
    offset.is_multiple_of(alignment.offset_bytes)
        && (buffer.len() as u64).is_multiple_of(alignment.offset_bytes)
        && buffer.data_range().start.is_multiple_of(alignment.memory_bytes)
}
