//! Transfers over a simulated system.

use super::*;
use crate::error::Error;

use proptest::prelude::*;
use std::slice;

/// A system that moves bytes between memory and a flat file, with given outcomes.
struct System {
    bytes: Vec<u8>,
    outcomes: Vec<Outcome>,
    direct: Option<RawFd>,
    alignment: u64,
    /// What is copied from.
    source: Vec<u8>,
    /// Calls that move nothing, and what they are answered.
    calls: Vec<Call>,
    answer: u64,
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
        while let Some(step) = transfer.next_step(None) {
            transfer.advance(self.call(step));
            calls += 1;
            assert!(calls < 1000, "it never ends");
        }
        transfer.complete()
    }

    fn call(&mut self, step: Step) -> io::Result<u64> {
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
                Ok(count as u64)
            }
            Step::Write { fd, memory, len, offset } => {
                let count = moves(fd, len, offset, u64::MAX)?;
                let end = offset as usize + count;
                self.bytes.resize(self.bytes.len().max(end), 0);
                self.bytes[offset as usize..end].copy_from_slice(&read_bytes(memory, count));
                Ok(count as u64)
            }
            Step::Call(Call::CopyRange { fd, start, offset, len, .. }) => {
                let count = moves(fd, len as usize, start, self.source.len() as u64)?;
                let (start, end) = ((start as usize).min(self.source.len()), offset as usize + count);
                self.bytes.resize(self.bytes.len().max(end), 0);
                self.bytes[offset as usize..end].copy_from_slice(&self.source[start..start + count]);
                Ok(count as u64)
            }
            Step::Call(call) => {
                self.calls.push(call);
                Ok(self.answer)
            }
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
    let alignment = file.alignment().offset_bytes;
    System { bytes, outcomes, direct, alignment, source: Vec::new(), calls: Vec::new(), answer: 0 }
}

fn transfer(file: &Arc<File>, operation: Operation) -> Transfer {
    Transfer::new(Request { token: 3, file: Arc::clone(file), access: Access::Direct, operation })
}

fn span(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end).unwrap()
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

fn write_shared(file: &Arc<File>, access: Access, offset: u64, bytes: Bytes) -> Transfer {
    let operation = Operation::WriteShared { offset, bytes };
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
        whole in any::<bool>(), shared in any::<bool>(), access in accesses(), outcomes in outcomes(),
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
        let transfer = match shared {
            true => write_shared(&file, access, offset, Bytes::from(bytes)),
            false => write(&file, access, offset, &bytes),
        };
        let completion = system.run(transfer);
        prop_assert_eq!(completion.result.unwrap(), count);
        prop_assert_eq!(completion.buffer.is_none(), shared);
        let passage = completion.passage;
        prop_assert_eq!(passage.direct_bytes + passage.cached_bytes, count as u64);
        prop_assert!(access == Access::Direct || passage.direct_bytes == 0);
        prop_assert!(system.bytes == model);
    }

    #[test]
    fn copies_stop_at_the_end_of_the_source_however_the_system_answers(
        len in 0..30_000_usize, start in 0..30_000_u64, count in 1..20_000_u64, outcomes in outcomes(),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let file = file(&directory);
        let mut system = system(&file, 0, outcomes);
        system.source = (0..len).map(|at| (at % 253) as u8).collect();
        let there = system.source.get(start as usize..).unwrap_or_default();
        let wanted = there[..there.len().min(count as usize)].to_vec();
        let (from, range) = (Arc::clone(&file), span(start, start + count));
        let completion = system.run(transfer(&file, Operation::CopyRange { from, range, offset: 9 }));
        prop_assert_eq!(completion.result.unwrap(), wanted.len());
        prop_assert_eq!(completion.passage, Passage::default());
        prop_assert!(system.bytes.get(9..).unwrap_or_default() == wanted);
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
    while transfer.next_step(None).is_some() {
        transfer.advance(Err(io::Error::from_raw_os_error(libc::EAGAIN)));
        tries += 1;
    }
    assert_eq!(tries, TRY_AGAIN_MAX + 1);
    assert_eq!(transfer.complete().result.unwrap_err().io_kind(), Some(io::ErrorKind::WouldBlock));
}

#[test]
fn shared_bytes_are_copied_only_where_their_memory_alone_is_not_aligned() {
    let directory = tempfile::tempdir().unwrap();
    let file = file(&directory);
    let unit = file.alignment().offset_bytes;
    let whole = Buffer::from_slice(&vec![7; 3 * unit as usize]).into_bytes();
    let odd = Buffer::from_slice(&vec![7; 3 * unit as usize]).into_bytes().slice(1..=unit as usize);
    let moves = |offset, bytes: &Bytes, access| {
        let transfer = write_shared(&file, access, offset, bytes.clone());
        system(&file, 0, Vec::new()).run(transfer).passage
    };
    let is_direct = file.is_direct_possible();
    assert_eq!(moves(unit, &whole, Access::Direct).copied_bytes, 0);
    let copied = if is_direct && file.alignment().memory_bytes > 1 { unit } else { 0 };
    assert_eq!(moves(unit, &odd, Access::Direct).copied_bytes, copied);
    assert_eq!(moves(unit, &odd, Access::Direct).is_direct(), file.bypasses_cache());
    for (offset, bytes) in [(1, whole.clone()), (unit, whole.slice(..5)), (unit, odd.slice(..5))] {
        let passage = moves(offset, &bytes, Access::Direct);
        assert_eq!(passage, Passage { cached_bytes: bytes.len() as u64, ..Passage::default() });
    }
    assert_eq!(moves(unit, &odd, Access::Cached).copied_bytes, 0);
}

#[test]
fn ranges_are_dropped_after_a_sync_up_to_borders_of_pages() {
    const GIB: u64 = CALL_MAX_BYTES;
    let directory = tempfile::tempdir().unwrap();
    let file = file(&directory);
    let fd = file.cached_fd().as_raw_fd();
    let mut system = system(&file, 0, Vec::new());
    let range = span(5, 2 * GIB + 9);
    let completion = system.run(transfer(&file, Operation::DropCached { range }));
    assert_eq!((completion.result.unwrap(), completion.buffer.is_none()), (0, true));
    let drops = [(5, GIB - 5), (GIB, GIB), (2 * GIB, 9)];
    let drops = drops.map(|(offset, len)| Call::DropCached { fd, offset, len });
    assert_eq!(system.calls[0], Call::Sync { fd, data_only: true });
    assert_eq!(system.calls[1..], drops);
    system.outcomes = vec![Outcome::Error(libc::EIO)];
    let failed = system.run(transfer(&file, Operation::DropCached { range })).result.unwrap_err();
    assert!(matches!(failed, Error::Io { operation: "sync", .. }), "{failed:?}");
}

#[test]
fn calls_carry_what_was_asked_for_and_empty_ranges_make_none() {
    let directory = tempfile::tempdir().unwrap();
    let (file, other) = (file(&directory), File::create_new(directory.path().join("other")).unwrap());
    let (fd, other) = (file.cached_fd().as_raw_fd(), Arc::new(other));
    let from = other.cached_fd().as_raw_fd();
    let mut system = system(&file, 0, Vec::new());
    system.answer = 77;
    let clone = |range| Operation::CloneRange { from: Arc::clone(&other), range, offset: 40 };
    let operations = [
        Operation::Sync,
        Operation::SyncAll,
        Operation::Allocate { range: span(3, 9), keep_len: true },
        Operation::Seek { target: SeekTarget::Hole, offset: 12 },
        clone(span(10, 30)),
    ];
    let completions = operations.map(|operation| system.run(transfer(&file, operation)));
    let made = [
        Call::Sync { fd, data_only: true },
        Call::Sync { fd, data_only: false },
        Call::Allocate { fd, offset: 3, len: 6, keep_len: true },
        Call::Seek { fd, target: SeekTarget::Hole, offset: 12 },
        Call::CloneRange { from, start: 10, fd, offset: 40, len: 20 },
    ];
    assert_eq!(system.calls, made);
    let found = completions.map(|completion| (completion.result.unwrap(), completion.found));
    assert_eq!(found, [(0, None), (0, None), (0, None), (0, Some(77)), (20, None)]);
    let nothing = span(8, 8);
    for operation in [
        Operation::Allocate { range: nothing, keep_len: false },
        Operation::DropCached { range: nothing },
        Operation::CopyRange { from: Arc::clone(&other), range: nothing, offset: 1 },
        clone(nothing),
    ] {
        assert_eq!(system.run(transfer(&file, operation)).result.unwrap(), 0);
    }
    assert_eq!(system.calls, made, "a length of 0 means everything to some calls");
    let far = span(u64::MAX - 1, u64::MAX);
    for operation in [
        Operation::Allocate { range: far, keep_len: false },
        Operation::DropCached { range: far },
        clone(far),
    ] {
        let error = system.run(transfer(&file, operation)).result.unwrap_err();
        assert_eq!(error.io_kind(), Some(io::ErrorKind::InvalidInput));
    }
    assert_eq!(Arc::strong_count(&other), 1, "a completed transfer holds no file");
}

#[test]
#[should_panic(expected = "a read of")]
fn a_buffer_that_is_too_small_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (file, buffer) = (file(&directory), Buffer::with_capacity(4096));
    let operation = Operation::Read { offset: 0, len: 4097, buffer };
    Transfer::new(Request { token: 0, file, access: Access::Cached, operation });
}
