//! [`Transfer`]: one request on its way through system calls, the same for every backend.
//!
//! A backend takes the next [`Step`], executes it and reports the outcome, until the transfer is
//! done. Widening and narrowing of direct reads, copying of shared bytes that are not aligned,
//! short transfers, the end of the file, retries and errors are decided here and nowhere else. This
//! module makes no system calls.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use bytes::Bytes;

use super::calls::Call;
use super::{
    Access, Buffer, CallFault, CallFaults, Completion, File, Operation, OperationKind, Passage, Request,
    SeekTarget,
};
use crate::error::Result;
use crate::extent::ByteRange;

/// The most bytes requested in one system call. Linux moves no more than 2 GiB less a page; this is
/// below that and a multiple of every alignment.
const CALL_MAX_BYTES: u64 = 1 << 30;

/// How often `EAGAIN` is retried before it is reported. Otherwise a file that is always busy would
/// block its caller forever.
const TRY_AGAIN_MAX: u32 = 10_000;

/// The next action of a backend. The memory belongs to the transfer and stays valid until the
/// outcome is reported.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// Read up to `len` bytes at `offset` of the descriptor into memory.
    Read { fd: RawFd, memory: *mut u8, len: usize, offset: u64 },
    /// Write up to `len` bytes from memory at `offset` of the descriptor.
    Write { fd: RawFd, memory: *const u8, len: usize, offset: u64 },
    /// Make a call that touches no memory. Its descriptors are open until the outcome is reported.
    Call(Call),
}

/// A request and how far it has come.
#[derive(Debug)]
pub(super) struct Transfer {
    token: u64,
    file: Arc<File>,
    kind: Kind,
    payload: Payload,
    /// Whether the next step goes past the page cache.
    direct: bool,
    /// The range in the file that the steps cover.
    range: Range<u64>,
    /// Bytes of the range that are done.
    done: u64,
    tries: u32,
    passage: Passage,
    found: Option<u64>,
    outcome: Option<Result<()>>,
}

#[derive(Debug)]
enum Kind {
    /// With the range that the caller wants.
    Read {
        wanted: Range<u64>,
    },
    Write,
    Sync {
        data_only: bool,
    },
    /// Whether the file is synced by now.
    DropCached {
        synced: bool,
    },
    Allocate {
        keep_len: bool,
    },
    Seek(SeekTarget),
    Clone(Origin),
    Copy(Origin),
}

impl Kind {
    fn operation(&self) -> OperationKind {
        match self {
            Self::Read { .. } => OperationKind::Read,
            Self::Write => OperationKind::Write,
            Self::Sync { data_only: true } => OperationKind::Sync,
            Self::Sync { data_only: false } => OperationKind::SyncAll,
            Self::DropCached { .. } => OperationKind::DropCached,
            Self::Allocate { .. } => OperationKind::Allocate,
            Self::Seek(_) => OperationKind::Seek,
            Self::Clone(_) => OperationKind::CloneRange,
            Self::Copy(_) => OperationKind::CopyRange,
        }
    }
}

/// The range that is cloned or copied begins here.
#[derive(Debug)]
struct Origin {
    file: Arc<File>,
    start: u64,
}

impl Origin {
    fn fd(&self) -> RawFd {
        self.file.cached_fd().as_raw_fd()
    }
}

/// The memory that is read into or written from.
#[derive(Debug)]
enum Payload {
    None,
    /// The range begins at this place of the buffer.
    Own(Buffer, usize),
    Shared(Bytes),
}

/// An operation, taken apart.
struct Work {
    kind: Kind,
    /// Where it begins.
    offset: u64,
    /// `None` when it ends past the last offset that a file can have.
    range: Option<Range<u64>>,
    payload: Payload,
    direct: bool,
}

impl Work {
    fn of(file: &File, access: Access, operation: Operation) -> Self {
        let direct = access == Access::Direct;
        match operation {
            Operation::Read { offset, len, buffer } => {
                let span = file.span(offset, len, access);
                assert!(buffer.capacity() >= span, "a read of {span} bytes into {}", buffer.capacity());
                let range = file.widened(offset, len, access);
                let wanted = range.as_ref().map_or(offset..offset, |_| offset..offset + len as u64);
                Self { kind: Kind::Read { wanted }, offset, range, payload: Payload::Own(buffer, 0), direct }
            }
            Operation::Write { offset, buffer } => {
                let base = buffer.data_range().start;
                // Buffers are page-aligned, which satisfies every alignment that memory needs.
                let direct = direct
                    && is_aligned(file, offset, buffer.len())
                    && base.is_multiple_of(file.alignment().memory_bytes);
                let range = file.widened(offset, buffer.len(), Access::Cached);
                Self { kind: Kind::Write, offset, range, payload: Payload::Own(buffer, base), direct }
            }
            Operation::WriteShared { offset, bytes } => {
                let direct = direct && is_aligned(file, offset, bytes.len());
                let range = file.widened(offset, bytes.len(), Access::Cached);
                Self { kind: Kind::Write, offset, range, payload: Payload::Shared(bytes), direct }
            }
            Operation::Sync => Self::calls(Kind::Sync { data_only: true }, 0, Some(0..0)),
            Operation::SyncAll => Self::calls(Kind::Sync { data_only: false }, 0, Some(0..0)),
            Operation::DropCached { range } => {
                Self::calls(Kind::DropCached { synced: false }, range.start(), possible(range))
            }
            Operation::Allocate { range, keep_len } => {
                Self::calls(Kind::Allocate { keep_len }, range.start(), possible(range))
            }
            Operation::Seek { target, offset } => {
                Self::calls(Kind::Seek(target), offset, ByteRange::at(offset, 0).and_then(possible))
            }
            Operation::CloneRange { from, range, offset } => {
                let origin = Origin { file: from, start: range.start() };
                Self::calls(Kind::Clone(origin), offset, destination(range, offset))
            }
            Operation::CopyRange { from, range, offset } => {
                let origin = Origin { file: from, start: range.start() };
                Self::calls(Kind::Copy(origin), offset, destination(range, offset))
            }
        }
    }

    /// What needs no memory, and takes no way.
    fn calls(kind: Kind, offset: u64, range: Option<Range<u64>>) -> Self {
        Self { kind, offset, range, payload: Payload::None, direct: false }
    }
}

impl Transfer {
    /// Starts a request.
    ///
    /// # Panics
    /// Panics if the buffer of a read is smaller than the span of its range.
    pub(super) fn new(request: Request) -> Self {
        let Request { token, file, access, operation } = request;
        let Work { kind, offset, range, payload, direct } = Work::of(&file, access, operation);
        let mut transfer = Self {
            token,
            file,
            kind,
            payload,
            direct,
            range: range.clone().unwrap_or(0..0),
            done: 0,
            tries: 0,
            passage: Passage::default(),
            found: None,
            outcome: None,
        };
        if range.is_none() {
            transfer.fail_at(offset, io::Error::from(io::ErrorKind::InvalidInput));
        } else if transfer.range.is_empty() && !matches!(transfer.kind, Kind::Sync { .. } | Kind::Seek(_)) {
            // Some calls would take a length of 0 for everything.
            transfer.outcome = Some(Ok(()));
        }
        transfer
    }

    /// The next system call that is to be made, or `None` when all is done. A call that is to fail
    /// has failed already.
    pub(super) fn next_step(&mut self, faults: Option<&dyn CallFaults>) -> Option<Step> {
        loop {
            let step = self.step()?;
            match faults.and_then(|faults| faults.meet(self.kind.operation())) {
                None => return Some(step),
                Some(CallFault::AtMost(most)) => return Some(self.shortened(step, most)),
                Some(CallFault::Errno(errno)) => self.advance(Err(io::Error::from_raw_os_error(errno))),
            }
        }
    }

    /// Whether this step must not be given to a ring. Where FUSE splits a direct read into requests
    /// and one of them fails, a ring was reported to say that all was read (fio, Linux 6.18);
    /// `pread` says what was.
    #[cfg(target_os = "linux")]
    pub(super) fn needs_thread(&self, step: &Step) -> bool {
        matches!(step, Step::Read { .. } | Step::Write { .. }) && self.file.is_on_fuse()
    }

    fn shortened(&self, step: Step, most: u64) -> Step {
        let unit = if self.direct { self.file.alignment().offset_bytes } else { 1 };
        let most = most.max(1).checked_next_multiple_of(unit).unwrap_or(u64::MAX);
        let shorter = |len: usize| len.min(usize::try_from(most).unwrap_or(usize::MAX));
        match step {
            Step::Read { fd, memory, len, offset } => Step::Read { fd, memory, len: shorter(len), offset },
            Step::Write { fd, memory, len, offset } => Step::Write { fd, memory, len: shorter(len), offset },
            Step::Call(Call::CopyRange { from, start, fd, offset, len }) => {
                Step::Call(Call::CopyRange { from, start, fd, offset, len: len.min(most) })
            }
            Step::Call(call) => Step::Call(call),
        }
    }

    /// The next system call, or `None` when all is done.
    fn step(&mut self) -> Option<Step> {
        if self.outcome.is_some() {
            return None;
        }
        let fd = self.descriptor();
        let (offset, left) = (self.range.start + self.done, self.left());
        let most = left.min(CALL_MAX_BYTES);
        // At most the length of the buffer, if there is one.
        let len = most as usize;
        Some(match &self.kind {
            Kind::Read { .. } => Step::Read { fd, memory: self.read_memory(), len, offset },
            Kind::Write => Step::Write { fd, memory: self.write_memory(), len, offset },
            Kind::Sync { data_only } => Step::Call(Call::Sync { fd, data_only: *data_only }),
            Kind::DropCached { synced: false } => Step::Call(Call::Sync { fd, data_only: true }),
            Kind::DropCached { synced: true } => {
                Step::Call(Call::DropCached { fd, offset, len: self.drop_len() })
            }
            Kind::Allocate { keep_len } => {
                Step::Call(Call::Allocate { fd, offset, len: left, keep_len: *keep_len })
            }
            Kind::Seek(target) => Step::Call(Call::Seek { fd, target: *target, offset }),
            Kind::Clone(origin) => {
                let (from, start) = (origin.fd(), origin.start);
                Step::Call(Call::CloneRange { from, start, fd, offset, len: left })
            }
            Kind::Copy(origin) => {
                let (from, start) = (origin.fd(), origin.start + self.done);
                Step::Call(Call::CopyRange { from, start, fd, offset, len: most })
            }
        })
    }

    /// The descriptor for the next step. Opening may be refused only now; the page cache serves the
    /// same range then, so that the data lies at the same place of the buffer.
    fn descriptor(&mut self) -> RawFd {
        if self.direct {
            let direct = self.file.direct_fd().map(|fd| fd.as_raw_fd());
            self.direct = direct.is_some();
            if let Some(fd) = direct {
                self.align_shared();
                return fd;
            }
        }
        self.file.cached_fd().as_raw_fd()
    }

    /// Copies shared bytes that lie where direct I/O does not take them from.
    fn align_shared(&mut self) {
        let Payload::Shared(bytes) = &mut self.payload else { return };
        if !bytes.as_ptr().addr().is_multiple_of(self.file.alignment().memory_bytes) {
            *bytes = Buffer::from_slice(bytes).into_bytes();
            self.passage.copied_bytes = bytes.len() as u64;
        }
    }

    /// How much is dropped at once: up to a border of pages, because those that lie in two parts
    /// would stay.
    fn drop_len(&self) -> u64 {
        let offset = self.range.start + self.done;
        self.left().min(CALL_MAX_BYTES - offset % CALL_MAX_BYTES)
    }

    /// Takes the outcome of the step: how many bytes were moved, or the result of a seek.
    pub(super) fn advance(&mut self, outcome: io::Result<u64>) {
        match outcome {
            Ok(count) => self.succeeded(count),
            Err(error) => self.failed(error),
        }
    }

    fn succeeded(&mut self, count: u64) {
        self.tries = 0;
        if let Kind::DropCached { synced } = &mut self.kind
            && !*synced
        {
            *synced = true;
            return;
        }
        match self.kind {
            Kind::Read { .. } | Kind::Write | Kind::Copy(_) => return self.moved(count),
            Kind::DropCached { .. } => {
                self.done += self.drop_len();
                if self.left() > 0 {
                    return;
                }
            }
            Kind::Seek(_) => self.found = Some(count),
            Kind::Clone(_) => self.done = self.left(),
            Kind::Sync { .. } | Kind::Allocate { .. } => {}
        }
        self.outcome = Some(Ok(()));
    }

    fn moved(&mut self, count: u64) {
        debug_assert!(count <= self.left(), "{count} bytes moved of {}", self.left());
        let count = count.min(self.left());
        self.done += count;
        self.note_passage(count);
        let position = self.range.start + self.done;
        match &self.kind {
            // The end of the file: the missing bytes do not exist. Or the rest is widening that was
            // not requested.
            Kind::Read { wanted } if count == 0 || position >= wanted.end => self.outcome = Some(Ok(())),
            Kind::Copy(_) if count == 0 => self.outcome = Some(Ok(())),
            Kind::Write if count == 0 => {
                self.fail_at(position, io::Error::from(io::ErrorKind::WriteZero));
            }
            _ if self.left() == 0 => self.outcome = Some(Ok(())),
            // Continue. After an unaligned count (as at the end of a file of unaligned length),
            // only the page cache can.
            _ => {
                self.direct = self.direct && position.is_multiple_of(self.file.alignment().offset_bytes);
            }
        }
    }

    /// The step that has just ended took this way.
    fn note_passage(&mut self, count: u64) {
        match self.kind {
            Kind::Read { .. } | Kind::Write if self.direct && self.file.is_direct_uncached() => {
                self.passage.direct_bytes += count;
            }
            Kind::Read { .. } | Kind::Write => self.passage.cached_bytes += count,
            _ => {}
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
            _ => self.fail_at(self.range.start + self.done, error),
        }
    }

    fn fail_at(&mut self, offset: u64, error: io::Error) {
        let operation = match self.kind {
            // What has failed is the sync, and that is worse.
            Kind::DropCached { synced: false } => OperationKind::Sync,
            _ => self.kind.operation(),
        };
        self.outcome = Some(Err(operation.error(self.file.path(), offset, error)));
    }

    /// The completion of a transfer that has no further step. Nothing of the request is held any
    /// longer then.
    pub(super) fn complete(self) -> Completion {
        let Self { token, kind, payload, range, done, passage, found, outcome, .. } = self;
        let mut buffer = match payload {
            Payload::Own(buffer, _) => Some(buffer),
            Payload::Shared(_) | Payload::None => None,
        };
        let result = outcome.unwrap_or(Ok(())).map(|()| match &kind {
            Kind::Read { wanted } => narrow(buffer.as_mut(), &range, wanted, done),
            Kind::Write | Kind::Clone(_) | Kind::Copy(_) => usize::try_from(done).unwrap_or(usize::MAX),
            _ => 0,
        });
        if result.is_err()
            && matches!(kind, Kind::Read { .. })
            && let Some(buffer) = &mut buffer
        {
            buffer.clear();
        }
        Completion { token, result, buffer, passage, found }
    }

    fn left(&self) -> u64 {
        self.range.end - self.range.start - self.done
    }

    fn read_memory(&self) -> *mut u8 {
        match &self.payload {
            // No further than the buffer, whose length is a `usize`.
            Payload::Own(buffer, base) => buffer.as_ptr().wrapping_add(base + self.done as usize),
            Payload::Shared(_) | Payload::None => std::ptr::null_mut(),
        }
    }

    fn write_memory(&self) -> *const u8 {
        match &self.payload {
            Payload::Shared(bytes) => bytes.as_ptr().wrapping_add(self.done as usize),
            Payload::Own(..) | Payload::None => self.read_memory().cast_const(),
        }
    }
}

/// A range that a file can have.
fn possible(range: ByteRange) -> Option<Range<u64>> {
    i64::try_from(range.end()).is_ok().then_some(range.start()..range.end())
}

/// Where a range of another file goes, when both can be.
fn destination(range: ByteRange, offset: u64) -> Option<Range<u64>> {
    possible(range).and(ByteRange::at(offset, range.len())).and_then(possible)
}

/// Makes the wanted bytes that were found the data of the buffer; returns how many there are.
fn narrow(buffer: Option<&mut Buffer>, range: &Range<u64>, wanted: &Range<u64>, done: u64) -> usize {
    let Some(buffer) = buffer else { return 0 };
    let found_end = (range.start + done).min(wanted.end);
    // All of these lie in the range, which is never longer than the buffer.
    let start = (wanted.start - range.start) as usize;
    let end = (found_end.max(wanted.start) - range.start) as usize;
    buffer.set_data_range(start..end);
    end - start
}

/// Whether a direct write there would be accepted, from memory that is aligned, too.
fn is_aligned(file: &File, offset: u64, len: usize) -> bool {
    let alignment = file.alignment();
    offset.is_multiple_of(alignment.offset_bytes) && (len as u64).is_multiple_of(alignment.offset_bytes)
}

#[cfg(test)]
mod tests;
