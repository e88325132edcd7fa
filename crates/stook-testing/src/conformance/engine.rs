//! What every engine must do, as `stook::engine` promises it.
#![expect(clippy::unwrap_used, reason = "a suite that meets an error fails on the spot")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stook::Error;
use stook::engine::{
    Access, Arena, Buffer, Completion, Engine, EngineFactory, File, Operation, Request, SeekTarget,
};

use super::engine_ranges::{self, request};
use super::noise;

pub(super) const BOTH: [Access; 2] = [Access::Direct, Access::Cached];

/// Runs the whole suite on engines of this factory, with files in `directory`.
///
/// # Panics
/// Panics if a guarantee is violated.
pub fn engine_conformance(factory: &dyn EngineFactory, directory: &Path) {
    reads_find_exactly_the_bytes_that_are_there(factory, directory);
    writes_of_any_alignment_arrive(factory, directory);
    every_token_comes_back_once_with_its_buffer(factory, directory);
    data_begins_where_span_says(factory, directory);
    neighbouring_reads_fill_an_arena(factory, directory);
    reaping_waits_for_as_many_as_asked_and_no_more(factory, directory);
    a_deadline_ends_the_waiting_and_loses_nothing(factory, directory);
    errors_tell_path_and_offset_and_spare_the_others(factory, directory);
    dropping_waits_for_all_that_was_submitted(factory, directory);
    syncs_and_empty_writes_move_nothing(factory, directory);
    offsets_past_4_gib_are_reached(factory, directory);
    an_engine_works_on_another_thread(factory, directory);
    engine_ranges::conformance(factory, directory);
}

/// Submits requests as depth allows, and returns all completions.
pub fn run_all(engine: &mut dyn Engine, requests: Vec<Request>) -> Vec<Completion> {
    let mut completions = Vec::new();
    for request in requests {
        if engine.in_flight() == engine.depth() {
            engine.reap(1, &mut completions).unwrap();
        }
        engine.submit(request);
    }
    engine.reap(usize::MAX, &mut completions).unwrap();
    assert_eq!(engine.in_flight(), 0);
    completions
}

/// A read with a buffer of its own.
pub fn read(token: u64, file: &Arc<File>, access: Access, offset: u64, len: usize) -> Request {
    let buffer = Buffer::with_capacity(file.span(offset, len, access));
    Request { token, file: Arc::clone(file), access, operation: Operation::Read { offset, len, buffer } }
}

/// A write of these bytes.
pub fn write(token: u64, file: &Arc<File>, access: Access, offset: u64, bytes: &[u8]) -> Request {
    let buffer = Buffer::from_slice(bytes);
    Request { token, file: Arc::clone(file), access, operation: Operation::Write { offset, buffer } }
}

pub(super) fn file_of(directory: &Path, name: &str, bytes: &[u8]) -> Arc<File> {
    let path = directory.join(name);
    fs::write(&path, bytes).unwrap();
    Arc::new(File::open_writable(path).unwrap())
}

pub(super) fn one(engine: &mut dyn Engine, request: Request) -> Completion {
    run_all(engine, vec![request]).pop().unwrap()
}

fn reads_find_exactly_the_bytes_that_are_there(factory: &dyn EngineFactory, directory: &Path) {
    let mut engine = factory.build(8).unwrap();
    for len in [0, 1, 511, 512, 513, 4095, 4096, 4097, 20_000, 65_536, 100_001] {
        let bytes = noise(len as u64, len);
        let file = file_of(directory, "read", &bytes);
        let near = [0, 1, 511, 512, 4095, 4096, len.saturating_sub(1), len, len + 1, len + 10_000];
        let mut wanted = BTreeMap::new();
        let mut requests = Vec::new();
        for access in BOTH {
            for start in near {
                for count in [1, 2, 512, 4096, 30_000, len.max(1)] {
                    let token = requests.len() as u64;
                    requests.push(read(token, &file, access, start as u64, count));
                    wanted.insert(token, start.min(len)..(start + count).min(len).max(start.min(len)));
                }
            }
        }
        for completion in run_all(&mut *engine, requests) {
            let wanted = wanted.remove(&completion.token).unwrap();
            let buffer = completion.buffer.unwrap();
            assert_eq!(completion.result.unwrap(), wanted.len(), "{wanted:?} of {len}");
            assert!(buffer.data() == &bytes[wanted.clone()], "{wanted:?} of {len}");
        }
        assert!(wanted.is_empty());
    }
}

fn writes_of_any_alignment_arrive(factory: &dyn EngineFactory, directory: &Path) {
    let mut engine = factory.build(4).unwrap();
    for access in BOTH {
        let mut model = noise(1, 50_000);
        let file = file_of(directory, "write", &model);
        for (offset, len) in
            [(0, 4096), (4096, 8192), (1, 1), (4095, 2), (8192, 5000), (49_999, 4097), (70_000, 3)]
        {
            let bytes = noise(offset as u64 + 7, len);
            model.resize(model.len().max(offset + len), 0);
            model[offset..offset + len].copy_from_slice(&bytes);
            let mut padded = Buffer::with_capacity(len + 4096);
            padded.set_data_range(4096..4096 + len);
            padded.data_mut().copy_from_slice(&bytes);
            let operation = Operation::Write { offset: offset as u64, buffer: padded };
            let request = Request { token: 1, file: Arc::clone(&file), access, operation };
            let completion = one(&mut *engine, request);
            assert_eq!(completion.result.unwrap(), len);
            assert!(completion.buffer.unwrap().data() == bytes, "a write leaves its buffer as it was");
        }
        assert!(fs::read(file.path()).unwrap() == model, "{access:?}");
    }
}

fn every_token_comes_back_once_with_its_buffer(factory: &dyn EngineFactory, directory: &Path) {
    let bytes = noise(2, 64 * 4096);
    let file = file_of(directory, "tokens", &bytes);
    for depth in [1, 2, 7, 64] {
        let mut engine = factory.build(depth).unwrap();
        assert!(engine.depth() >= depth);
        let requests = (0..200)
            .map(|token| read(u64::MAX - token, &file, BOTH[token as usize % 2], token % 64 * 4096, 4096));
        let completions = run_all(&mut *engine, requests.collect());
        let mut tokens: Vec<_> = completions.iter().map(|completion| u64::MAX - completion.token).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, (0..200).collect::<Vec<_>>(), "depth {depth}");
        assert!(completions.iter().all(|completion| {
            let at = ((u64::MAX - completion.token) % 64 * 4096) as usize;
            completion.buffer.as_ref().is_some_and(|buffer| buffer.data() == &bytes[at..at + 4096])
        }));
    }
}

fn data_begins_where_span_says(factory: &dyn EngineFactory, directory: &Path) {
    let mut engine = factory.build(2).unwrap();
    let file = file_of(directory, "span", &noise(3, 30_000));
    let alignment = file.alignment().offset_bytes;
    for offset in [0, 1, 511, 513, 5000, 29_999] {
        let direct = one(&mut *engine, read(0, &file, Access::Direct, offset, 100)).buffer.unwrap();
        assert_eq!(direct.data_range().start as u64, offset % alignment);
        let cached = one(&mut *engine, read(0, &file, Access::Cached, offset, 100)).buffer.unwrap();
        assert_eq!(cached.data_range().start, 0);
    }
}

fn neighbouring_reads_fill_an_arena(factory: &dyn EngineFactory, directory: &Path) {
    const CHUNK: usize = 16_384;
    let bytes = noise(4, 5 * CHUNK + 77);
    let file = file_of(directory, "arena", &bytes);
    let mut engine = factory.build(3).unwrap();
    for access in BOTH {
        let mut arena = Arena::new(6 * CHUNK).unwrap();
        let requests = (0..6).map(|at| {
            let (offset, buffer) = (at * CHUNK, arena.take(at * CHUNK..(at + 1) * CHUNK));
            let operation = Operation::Read { offset: offset as u64, len: CHUNK, buffer };
            Request { token: at as u64, file: Arc::clone(&file), access, operation }
        });
        let requests = requests.collect();
        for completion in run_all(&mut *engine, requests) {
            arena.put(completion.buffer.unwrap());
        }
        assert!(arena.bytes(0..bytes.len()) == bytes);
    }
}

fn reaping_waits_for_as_many_as_asked_and_no_more(factory: &dyn EngineFactory, directory: &Path) {
    let file = file_of(directory, "reap", &noise(5, 40_960));
    let mut engine = factory.build(8).unwrap();
    let mut completions = Vec::new();
    engine.reap(0, &mut completions).unwrap();
    engine.reap(5, &mut completions).unwrap();
    assert!(completions.is_empty(), "nothing is in flight, so nothing is waited for");
    for token in 0..8 {
        engine.submit(read(token, &file, Access::Cached, token * 4096, 4096));
        assert_eq!(engine.in_flight(), token as usize + 1);
    }
    engine.reap(3, &mut completions).unwrap();
    assert!(completions.len() >= 3);
    assert_eq!(engine.in_flight() + completions.len(), 8);
    while engine.in_flight() > 0 {
        engine.reap(1, &mut completions).unwrap();
    }
    assert_eq!(completions.len(), 8);
}

fn a_deadline_ends_the_waiting_and_loses_nothing(factory: &dyn EngineFactory, directory: &Path) {
    let file = file_of(directory, "deadline", &noise(11, 8 * 65_536));
    let mut engine = factory.build(8).unwrap();
    let mut completions = Vec::new();
    let far = Instant::now() + Duration::from_secs(3600);
    engine.reap_until(3, far, &mut completions).unwrap();
    assert!(completions.is_empty(), "nothing is in flight, so nothing is waited for");
    for token in 0..8 {
        engine.submit(read(token, &file, BOTH[token as usize % 2], token * 65_536, 65_536));
    }
    // Already expired: available completions may be returned, and the rest stays in flight.
    engine.reap_until(8, Instant::now(), &mut completions).unwrap();
    assert_eq!(engine.in_flight() + completions.len(), 8);
    engine.reap_until(usize::MAX, far, &mut completions).unwrap();
    assert_eq!((engine.in_flight(), completions.len()), (0, 8));
    assert!(completions.iter().all(|completion| matches!(completion.result, Ok(65_536))));
}

fn errors_tell_path_and_offset_and_spare_the_others(factory: &dyn EngineFactory, directory: &Path) {
    let good = file_of(directory, "good", &noise(6, 8192));
    let read_only = Arc::new(File::open(good.path()).unwrap());
    let mut engine = factory.build(8).unwrap();
    let mut requests = vec![read(0, &good, Access::Cached, 0, 8192)];
    for (token, access) in BOTH.into_iter().enumerate() {
        requests.push(write(1 + token as u64, &read_only, access, 4096, &[1; 4096]));
    }
    for (token, offset) in [i64::MAX as u64, u64::MAX - 5].into_iter().enumerate() {
        requests.push(read(3 + token as u64, &good, Access::Direct, offset, 4));
        requests.push(read(5 + token as u64, &good, Access::Cached, offset, 4));
    }
    requests.push(read(7, &good, Access::Direct, 1, 8191));
    let completions = run_all(&mut *engine, requests);
    assert_eq!(completions.len(), 8);
    for completion in completions {
        let offset = match completion.token {
            0 | 7 => {
                assert!(completion.result.unwrap() >= 8191);
                continue;
            }
            1 | 2 => 4096,
            3 | 5 => i64::MAX as u64,
            _ => u64::MAX - 5,
        };
        assert!(completion.buffer.is_some(), "the buffer comes back with the error");
        let error = completion.result.unwrap_err();
        let reported = matches!(&error, Error::Io { path, offset: Some(at), .. }
            if path == good.path() && *at == offset);
        assert!(reported, "{error:?}");
    }
    assert!(fs::read(good.path()).unwrap() == noise(6, 8192), "what was refused has changed nothing");
}

fn dropping_waits_for_all_that_was_submitted(factory: &dyn EngineFactory, directory: &Path) {
    const CHUNK: usize = 65_536;
    let file = file_of(directory, "drop", &vec![0; 8 * CHUNK]);
    let bytes = noise(8, 8 * CHUNK);
    let mut arena = Arena::new(8 * CHUNK).unwrap();
    let mut engine = factory.build(8).unwrap();
    for at in 0..8 {
        let mut buffer = arena.take(at * CHUNK..(at + 1) * CHUNK);
        buffer.extend_from_slice(&bytes[at * CHUNK..(at + 1) * CHUNK]);
        let operation = Operation::Write { offset: (at * CHUNK) as u64, buffer };
        engine.submit(Request { token: 0, file: Arc::clone(&file), access: BOTH[at % 2], operation });
    }
    drop(engine);
    assert!(arena.bytes(0..8 * CHUNK) == bytes, "all pieces are back");
    assert!(fs::read(file.path()).unwrap() == bytes, "and their bytes are in the file");
    assert_eq!(Arc::strong_count(&file), 1);
}

fn syncs_and_empty_writes_move_nothing(factory: &dyn EngineFactory, directory: &Path) {
    let file = file_of(directory, "sync", b"abc");
    let mut engine = factory.build(4).unwrap();
    let completion = one(&mut *engine, write(1, &file, Access::Direct, 10, b""));
    assert_eq!(completion.result.unwrap(), 0);
    let sync =
        Request { token: 2, file: Arc::clone(&file), access: Access::Cached, operation: Operation::Sync };
    let completion = one(&mut *engine, sync);
    assert_eq!((completion.token, completion.result.unwrap()), (2, 0));
    assert!(completion.buffer.is_none());
    assert_eq!(file.len().unwrap(), 3);
}

fn offsets_past_4_gib_are_reached(factory: &dyn EngineFactory, directory: &Path) {
    const FAR: u64 = (1 << 32) + 8192;
    let file = file_of(directory, "far", b"near");
    let mut engine = factory.build(2).unwrap();
    for access in BOTH {
        let bytes = noise(10, 8192);
        assert_eq!(one(&mut *engine, write(0, &file, access, FAR, &bytes)).result.unwrap(), 8192);
        let found = one(&mut *engine, read(0, &file, access, FAR - 1, 8000)).buffer.unwrap();
        assert!(found.data()[0] == 0 && found.data()[1..] == bytes[..7999]);
        assert_eq!(one(&mut *engine, read(0, &file, access, 0, 4)).buffer.unwrap().data(), b"near");
        file.set_len(4).unwrap();
    }
}

fn an_engine_works_on_another_thread(factory: &dyn EngineFactory, directory: &Path) {
    let file = file_of(directory, "moved", &noise(9, 10_000));
    let mut engine = factory.build(2).unwrap();
    assert_eq!(one(&mut *engine, read(0, &file, Access::Direct, 0, 10_000)).result.unwrap(), 10_000);
    let there = file.clone();
    let seek = || Operation::Seek { target: SeekTarget::Hole, offset: 10_000 };
    let thread = std::thread::spawn(move || {
        let completion = one(&mut *engine, read(0, &there, Access::Direct, 5000, 5000));
        assert_eq!(one(&mut *engine, request(0, &there, seek())).found, Some(10_000));
        // Still on its way, perhaps, when this thread ends.
        engine.submit(request(7, &there, seek()));
        let mut completions = Vec::new();
        engine.reap(0, &mut completions).unwrap();
        (engine, completion.buffer.unwrap(), completions)
    });
    let (mut engine, buffer, mut completions) = thread.join().unwrap();
    assert!(buffer.data() == &noise(9, 10_000)[5000..]);
    engine.reap(1, &mut completions).unwrap();
    assert_eq!((completions[0].token, completions[0].found), (7, Some(10_000)));
    assert_eq!(one(&mut *engine, read(0, &file, Access::Cached, 1, 9999)).result.unwrap(), 9999);
}
