//! [`Transfer`]: one request on its way through system calls, the same for every backend.
//!
//! A backend asks for the next [`Step`], carries it out, and reports the outcome; until the
//! transfer is done. Widening and narrowing of direct reads, short transfers, the end of the file,
//! retries and errors are decided here and nowhere else. This module makes no system calls.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use super::{Access, Buffer, Completion, File, Operation, Request};
use crate::error::{Error, Result};

/// The most that one system call is asked to move. Linux moves no more than 2 GiB less a page; this
/// is below that and a multiple of every alignment.
const CALL_MAX_BYTES: usize = 1 << 30;

/// How often `EAGAIN` is met by trying again before it is reported. A file that is always busy
/// would otherwise hold its caller for ever.
const TRY_AGAIN_MAX: u32 = 10_000;

/// What a backend is to do next. The memory belongs to the transfer and stays valid until the
/// outcome is reported.
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
            // Opening may be refused only now; the page cache serves the same range then, so that
            // the data lies at the same place of the buffer.
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
            // The end of the file: what is missing is not there. Or the rest is widening that
            // nobody asked for.
            Kind::Read { wanted } if count == 0 || position >= wanted.end => self.outcome = Some(Ok(())),
            Kind::Write if self.left() == 0 => self.outcome = Some(Ok(())),
            Kind::Write if count == 0 => {
                self.fail_at(position, io::Error::from(io::ErrorKind::WriteZero));
            }
            // It goes on. After an uneven count (as at the end of a file whose length is not
            // aligned) only the page cache can.
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
        if result.is_err()
            && matches!(kind, Kind::Read { .. })
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

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;
    use std::slice;

    /// A system that moves bytes between memory and a flat file, with the outcomes it is told to
    /// have.
    struct System {
        bytes: Vec<u8>,
        outcomes: Vec<Outcome>,
        direct: Option<RawFd>,
        alignment: u64,
    }

    #[derive(Debug, Clone, Copy)]
    enum Outcome {
        All,
        AtMost(usize),
        Error(i32),
    }

    impl System {
        fn run(&mut self, mut transfer: Transfer) -> Completion {
            let mut calls = 0;
            while let Some(step) = transfer.step() {
                transfer.advance(self.call(step));
                calls += 1;
                assert!(calls < 1000, "it never ends");
            }
            transfer.complete()
        }

        fn call(&mut self, step: Step) -> io::Result<usize> {
            let outcome = self.outcomes.pop().unwrap_or(Outcome::All);
            if let Outcome::Error(errno) = outcome {
                return Err(io::Error::from_raw_os_error(errno));
            }
            let moves = |fd: RawFd, len: usize, offset: u64, end: u64| {
                let direct = Some(fd) == self.direct;
                let aligned = (offset | len as u64).is_multiple_of(self.alignment);
                if direct && !aligned {
                    return Err(io::Error::from_raw_os_error(libc::EINVAL));
                }
                let count = len.min(end.saturating_sub(offset) as usize);
                Ok(match outcome {
                    Outcome::AtMost(most) if direct && count > most => {
                        // Past the cache a short count is whole blocks.
                        (most as u64).next_multiple_of(self.alignment).min(count as u64) as usize
                    }
                    Outcome::AtMost(most) => count.min(most),
                    _ => count,
                })
            };
            match step {
                Step::Read { fd, memory, len, offset } => {
                    let count = moves(fd, len, offset, self.bytes.len() as u64)?;
                    for at in 0..count {
                        // The test reads what the transfer owns through its own buffer afterwards.
                        write_byte(memory, at, self.bytes[offset as usize + at]);
                    }
                    Ok(count)
                }
                Step::Write { fd, memory, len, offset } => {
                    let count = moves(fd, len, offset, u64::MAX)?;
                    let end = offset as usize + count;
                    self.bytes.resize(self.bytes.len().max(end), 0);
                    self.bytes[offset as usize..end].copy_from_slice(&read_bytes(memory, count));
                    Ok(count)
                }
                Step::Sync { .. } => Ok(0),
            }
        }
    }

    #[expect(unsafe_code, reason = "the test stands for the kernel, which writes to memory by address")]
    fn write_byte(memory: *mut u8, at: usize, byte: u8) {
        // SAFETY: the transfer owns at least `at + 1` bytes there while its step is carried out.
        unsafe { memory.add(at).write(byte) }
    }

    #[expect(unsafe_code, reason = "the test stands for the kernel, which reads memory by address")]
    fn read_bytes(memory: *const u8, len: usize) -> Vec<u8> {
        // SAFETY: the transfer owns `len` initialised bytes there while its step is carried out.
        unsafe { slice::from_raw_parts(memory, len) }.to_vec()
    }

    fn file(directory: &tempfile::TempDir) -> Arc<File> {
        Arc::new(File::create_new(directory.path().join("file")).unwrap())
    }

    fn system(file: &File, len: usize, outcomes: Vec<Outcome>) -> System {
        let bytes = (0..len).map(|at| (at * 31 % 251) as u8).collect();
        let direct = file.direct_fd().map(|fd| fd.as_raw_fd());
        System { bytes, outcomes, direct, alignment: file.alignment().offset_bytes }
    }

    fn read(file: &Arc<File>, access: Access, offset: u64, len: usize) -> Transfer {
        let buffer = Buffer::with_capacity(file.span(offset, len, access));
        let operation = Operation::Read { offset, len, buffer };
        Transfer::new(Request { token: 3, file: Arc::clone(file), access, operation })
    }

    fn write(file: &Arc<File>, access: Access, offset: u64, bytes: &[u8]) -> Transfer {
        let operation = Operation::Write { offset, buffer: Buffer::from_slice(bytes) };
        Transfer::new(Request { token: 3, file: Arc::clone(file), access, operation })
    }

    fn accesses() -> impl Strategy<Value = Access> {
        prop_oneof![Just(Access::Direct), Just(Access::Cached)]
    }

    /// What a system may answer that is no failure.
    fn outcomes() -> impl Strategy<Value = Vec<Outcome>> {
        let outcome = prop_oneof![
            Just(Outcome::All),
            (1..5000_usize).prop_map(Outcome::AtMost),
            Just(Outcome::Error(libc::EINTR)),
            Just(Outcome::Error(libc::EAGAIN)),
        ];
        proptest::collection::vec(outcome, 0..12)
    }

    proptest! {
        #[test]
        fn reads_find_what_is_there_however_the_system_answers(
            len in 0..30_000_usize, offset in 0..30_000_u64, count in 1..20_000_usize,
            access in accesses(), outcomes in outcomes(),
        ) {
            let directory = tempfile::tempdir().unwrap();
            let file = file(&directory);
            let mut system = system(&file, len, outcomes);
            let completion = system.run(read(&file, access, offset, count));
            let start = len.min(offset as usize);
            let wanted = &system.bytes[start..len.min(start + count)];
            prop_assert_eq!(completion.result.unwrap(), wanted.len());
            prop_assert!(completion.buffer.unwrap().data() == wanted);
        }

        #[test]
        fn writes_arrive_whole_however_the_system_answers(
            len in 0..30_000_usize, place in 0..16_u64, odd in 0..2_u64, count in 1..20_000_usize,
            whole in any::<bool>(), access in accesses(), outcomes in outcomes(),
        ) {
            let directory = tempfile::tempdir().unwrap();
            let file = file(&directory);
            let mut system = system(&file, len, outcomes);
            let (offset, count) = if whole { (place * 4096, count / 4096 * 4096) } else { (place * 4096 + odd, count) };
            let bytes = vec![0xEE; count];
            let mut model = system.bytes.clone();
            if count > 0 {
                model.resize(model.len().max(offset as usize + count), 0);
                model[offset as usize..offset as usize + count].fill(0xEE);
            }
            let completion = system.run(write(&file, access, offset, &bytes));
            prop_assert_eq!(completion.result.unwrap(), count);
            prop_assert!(system.bytes == model);
        }
    }

    #[test]
    fn direct_access_that_is_refused_late_is_served_from_the_cache_at_the_same_place() {
        for errno in [libc::EINVAL, libc::EOPNOTSUPP] {
            let directory = tempfile::tempdir().unwrap();
            let file = file(&directory);
            let mut system = system(&file, 10_000, vec![Outcome::Error(errno)]);
            let was_direct = file.is_direct_possible();
            let completion = system.run(read(&file, Access::Direct, 700, 50));
            if !was_direct {
                assert!(completion.result.is_err(), "the cache refused it, so nothing else is left");
                continue;
            }
            assert_eq!(completion.result.unwrap(), 50);
            let start = completion.buffer.unwrap().data_range().start as u64;
            assert_eq!(start, 700 % file.alignment().offset_bytes);
            assert!(!file.is_direct_possible(), "it is remembered");
        }
    }

    #[test]
    fn failures_tell_how_far_it_came() {
        let directory = tempfile::tempdir().unwrap();
        let file = file(&directory);
        let mut system = system(&file, 9000, vec![Outcome::Error(libc::EIO), Outcome::AtMost(1000)]);
        let completion = system.run(read(&file, Access::Cached, 100, 5000));
        let error = completion.result.unwrap_err();
        assert!(matches!(&error, Error::Io { offset: Some(1100), .. }), "{error:?}");
        assert!(completion.buffer.unwrap().is_empty(), "bytes of a failed read are not handed out");
        system.outcomes = vec![Outcome::AtMost(0), Outcome::AtMost(10)];
        let error = system.run(write(&file, Access::Cached, 0, &[1; 20])).result.unwrap_err();
        assert_eq!(error.io_kind(), Some(io::ErrorKind::WriteZero));
    }

    #[test]
    fn a_file_that_is_always_busy_is_an_error_in_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let file = file(&directory);
        let mut transfer = read(&file, Access::Cached, 0, 10);
        let mut tries = 0;
        while transfer.step().is_some() {
            transfer.advance(Err(io::Error::from_raw_os_error(libc::EAGAIN)));
            tries += 1;
        }
        assert_eq!(tries, TRY_AGAIN_MAX + 1);
        assert_eq!(transfer.complete().result.unwrap_err().io_kind(), Some(io::ErrorKind::WouldBlock));
    }

    #[test]
    #[should_panic(expected = "a read of")]
    fn a_buffer_that_is_too_small_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (file, buffer) = (file(&directory), Buffer::with_capacity(4096));
        let operation = Operation::Read { offset: 0, len: 4097, buffer };
        Transfer::new(Request { token: 0, file, access: Access::Cached, operation });
    }
}
