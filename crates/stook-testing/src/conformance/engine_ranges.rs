//! What every engine must do beside reads and writes from buffers of its own: shared bytes, ways of
//! bytes, room, holes, clones and copies.
#![expect(clippy::unwrap_used, reason = "a suite that meets an error fails on the spot")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use stook::Error;
use stook::engine::{
    Access, Buffer, CacheResidency, Completion, EngineFactory, File, Operation, Passage, Request, SeekTarget,
};
use stook::extent::ByteRange;

use super::engine::{BOTH, file_of, one, read, run_all, write};
use super::noise;

/// A multiple of the blocks of all file systems.
const UNIT: usize = 64 << 10;

pub(super) fn conformance(factory: &dyn EngineFactory, directory: &Path) {
    shared_bytes_reach_every_file_and_are_let_go(factory, directory);
    completions_say_which_way_the_bytes_took(factory, directory);
    shared_bytes_are_copied_where_only_their_memory_is_not_aligned(factory, directory);
    all_is_synced_and_dropped_pages_come_back(factory, directory);
    room_is_reserved_with_and_without_length(factory, directory);
    holes_and_data_are_found_in_turn(factory, directory);
    clones_are_whole_or_unsupported(factory, directory);
    copies_end_where_the_source_ends(factory, directory);
    operations_without_memory_mix_with_reads(factory, directory);
    what_a_file_is_not_open_for_is_an_error(factory, directory);
    dropping_waits_for_copies(factory, directory);
}

/// A request without a way.
pub fn request(token: u64, file: &Arc<File>, operation: Operation) -> Request {
    Request { token, file: Arc::clone(file), access: Access::Cached, operation }
}

/// A write of shared bytes.
pub fn write_shared(token: u64, file: &Arc<File>, access: Access, offset: u64, bytes: &Bytes) -> Request {
    let operation = Operation::WriteShared { offset, bytes: bytes.clone() };
    Request { token, file: Arc::clone(file), access, operation }
}

fn range(start: usize, end: usize) -> ByteRange {
    ByteRange::new(start as u64, end as u64).unwrap()
}

fn copy(from: &Arc<File>, range: ByteRange, offset: usize) -> Operation {
    Operation::CopyRange { from: Arc::clone(from), range, offset: offset as u64 }
}

/// Whether it was done: a file system may have no such operation, and then nothing has happened.
fn is_done(completion: &Completion) -> bool {
    match &completion.result {
        Ok(_) => true,
        Err(Error::Unsupported { .. }) => false,
        Err(error) => panic!("{error:?}"),
    }
}

fn shared_bytes_reach_every_file_and_are_let_go(factory: &dyn EngineFactory, directory: &Path) {
    struct Held(Arc<Buffer>);
    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            self.0.data()
        }
    }
    let mut engine = factory.build(4).unwrap();
    let buffer = Arc::new(Buffer::from_slice(&noise(20, 3 * UNIT)));
    for slice in [0..3 * UNIT, UNIT..2 * UNIT, 1..UNIT + 1, 0..5, 4095..70_000] {
        for access in BOTH {
            let bytes = Bytes::from_owner(Held(Arc::clone(&buffer))).slice(slice.clone());
            let files = [0, 1, 2].map(|number| file_of(directory, &format!("shared{number}"), b""));
            let places = files.iter().zip([0, UNIT as u64, 3]);
            let requests =
                places.map(|(file, offset)| write_shared(offset, file, access, offset, &bytes)).collect();
            drop(bytes);
            for completion in run_all(&mut *engine, requests) {
                assert_eq!(completion.result.unwrap(), slice.len(), "{slice:?}");
                assert!(completion.buffer.is_none());
            }
            assert_eq!(Arc::strong_count(&buffer), 1, "the engine holds bytes of writes that are done");
            for (file, offset) in files.iter().zip([0, UNIT, 3]) {
                let found = fs::read(file.path()).unwrap();
                assert!(found[offset..] == buffer.data()[slice.clone()], "{slice:?} at {offset}");
            }
        }
    }
}

fn completions_say_which_way_the_bytes_took(factory: &dyn EngineFactory, directory: &Path) {
    let mut engine = factory.build(2).unwrap();
    let file = file_of(directory, "passage", &noise(21, 2 * UNIT + 5));
    let passage = |direct: bool, bytes: usize| match direct {
        true => Passage { direct_bytes: bytes as u64, ..Passage::default() },
        false => Passage { cached_bytes: bytes as u64, ..Passage::default() },
    };
    for access in BOTH {
        let is_direct = access == Access::Direct && file.bypasses_cache();
        let inside = one(&mut *engine, read(0, &file, access, 0, UNIT));
        assert_eq!(inside.passage, passage(is_direct, UNIT), "{access:?}");
        assert_eq!(inside.passage.is_direct(), is_direct);
        let written = one(&mut *engine, write(0, &file, access, UNIT as u64, &noise(22, UNIT)));
        assert_eq!(written.passage, passage(is_direct, UNIT), "{access:?}");
        let uneven = one(&mut *engine, write(0, &file, access, 7, &noise(23, 100)));
        assert_eq!(uneven.passage, passage(false, 100), "a write that is not aligned cannot be direct");
        let end = one(&mut *engine, read(0, &file, access, 2 * UNIT as u64, 100));
        assert_eq!(end.result.unwrap(), 5);
        let moved = end.passage.direct_bytes + end.passage.cached_bytes;
        assert_eq!(moved, 5, "what is after the end was not moved");
        let after = one(&mut *engine, read(0, &file, access, 8 * UNIT as u64, 100));
        assert_eq!((after.result.unwrap(), after.passage), (0, Passage::default()));
    }
}

fn shared_bytes_are_copied_where_only_their_memory_is_not_aligned(
    factory: &dyn EngineFactory,
    directory: &Path,
) {
    let mut engine = factory.build(2).unwrap();
    let bytes = Buffer::from_slice(&noise(24, 2 * UNIT)).into_bytes();
    let file = file_of(directory, "aligned", &noise(25, 4 * UNIT));
    let is_copied = file.is_direct_possible() && file.alignment().memory_bytes > 1;
    let mut copied = |access, offset, slice: std::ops::Range<usize>| {
        let len = slice.len();
        let completion = one(&mut *engine, write_shared(0, &file, access, offset, &bytes.slice(slice)));
        assert_eq!(completion.result.unwrap(), len);
        completion.passage.copied_bytes
    };
    assert_eq!(copied(Access::Direct, 0, 0..UNIT), 0);
    assert_eq!(copied(Access::Direct, 0, 1..UNIT + 1), if is_copied { UNIT as u64 } else { 0 });
    assert_eq!(copied(Access::Direct, 1, 1..UNIT + 1), 0, "it goes through the page cache anyway");
    assert_eq!(copied(Access::Cached, 0, 1..UNIT + 1), 0);
}

fn all_is_synced_and_dropped_pages_come_back(factory: &dyn EngineFactory, directory: &Path) {
    let mut engine = factory.build(2).unwrap();
    let content = noise(26, 4 * UNIT + 9);
    let file = file_of(directory, "dropped", &content);
    let whole = range(0, content.len());
    let synced = one(&mut *engine, request(1, &file, Operation::SyncAll));
    assert_eq!((synced.token, synced.result.unwrap(), synced.buffer.is_none()), (1, 0, true));
    for dropped in [range(UNIT, UNIT), range(5, UNIT), whole, range(0, 100 * UNIT)] {
        file.write_all_at(&content[..UNIT], 0).unwrap();
        let completion = one(&mut *engine, request(2, &file, Operation::DropCached { range: dropped }));
        assert_eq!((completion.result.unwrap(), completion.passage), (0, Passage::default()));
        let residency = CacheResidency::of(&file, whole);
        // Where files are kept in memory there is nothing that could be dropped.
        if let CacheResidency::Known { cached_bytes, dirty_bytes } = residency
            && dropped.covers(&whole)
            && file.bypasses_cache()
        {
            assert!(cached_bytes < content.len() as u64 && dirty_bytes == 0, "{residency:?}");
        }
        assert!(fs::read(file.path()).unwrap() == content);
    }
}

fn room_is_reserved_with_and_without_length(factory: &dyn EngineFactory, directory: &Path) {
    use std::os::unix::fs::MetadataExt;
    let mut engine = factory.build(2).unwrap();
    let content = noise(27, 1000);
    for keep_len in [true, false] {
        let file = file_of(directory, "room", &content);
        let mut allocate = |range| {
            let operation = Operation::Allocate { range, keep_len };
            one(&mut *engine, request(3, &file, operation))
        };
        assert_eq!(allocate(range(7, 7)).result.unwrap(), 0);
        let completion = allocate(range(500, 3 * UNIT));
        let mut wanted = content.clone();
        if is_done(&completion) {
            assert_eq!(completion.result.unwrap(), 0);
            wanted.resize(if keep_len { 1000 } else { 3 * UNIT }, 0);
            let blocks = file.metadata().unwrap().blocks();
            assert!(blocks * 512 >= 2 * UNIT as u64, "{blocks} blocks of 512 bytes are reserved");
        }
        assert!(fs::read(file.path()).unwrap() == wanted, "keep_len {keep_len}");
        let far = allocate(ByteRange::new(5, u64::MAX).unwrap()).result.unwrap_err();
        assert!(matches!(&far, Error::Io { path, offset: Some(5), .. } if path == file.path()), "{far:?}");
    }
}

fn holes_and_data_are_found_in_turn(factory: &dyn EngineFactory, directory: &Path) {
    const HOLE: usize = 1 << 20;
    let mut engine = factory.build(2).unwrap();
    let file = file_of(directory, "holes", &noise(28, 100));
    file.write_all_at(&noise(29, UNIT), HOLE as u64).unwrap();
    file.set_len(2 * HOLE as u64).unwrap();
    let content = fs::read(file.path()).unwrap();
    let mut seek = |target, offset: usize| {
        let operation = Operation::Seek { target, offset: offset as u64 };
        let completion = one(&mut *engine, request(4, &file, operation));
        assert_eq!(completion.result.unwrap(), 0);
        let at_once = match target {
            SeekTarget::Data => file.next_data(offset as u64),
            SeekTarget::Hole => file.next_hole(offset as u64),
        };
        assert_eq!(completion.found, Some(at_once.unwrap()));
        completion.found.unwrap() as usize
    };
    let (mut at, mut kept) = (0, vec![0; content.len()]);
    while at < content.len() {
        let start = seek(SeekTarget::Data, at);
        let end = seek(SeekTarget::Hole, start);
        assert!(at <= start && start <= end && end <= content.len(), "{at} {start} {end}");
        assert!(end > start || start == content.len(), "a hole begins where data does");
        kept[start..end].copy_from_slice(&content[start..end]);
        at = end;
    }
    assert!(kept == content, "what is not in a hole is data");
    for beyond in [content.len(), 10 * content.len()] {
        assert_eq!(seek(SeekTarget::Data, beyond), content.len());
        assert_eq!(seek(SeekTarget::Hole, beyond), content.len());
    }
    let operation = Operation::Seek { target: SeekTarget::Hole, offset: u64::MAX };
    let far = one(&mut *engine, request(4, &file, operation));
    assert!(far.result.is_err() && far.found.is_none());
}

fn clones_are_whole_or_unsupported(factory: &dyn EngineFactory, directory: &Path) {
    let mut engine = factory.build(2).unwrap();
    let content = noise(30, 3 * UNIT + 77);
    let from = file_of(directory, "clone-from", &content);
    let clone = |range, offset: usize| Operation::CloneRange {
        from: Arc::clone(&from),
        range,
        offset: offset as u64,
    };
    for (wanted, offset) in [(0..content.len(), 0), (UNIT..2 * UNIT, 4 * UNIT), (UNIT..UNIT, 1)] {
        let file = file_of(directory, "clone-to", &noise(31, 100));
        let operation = clone(range(wanted.start, wanted.end), offset);
        let completion = one(&mut *engine, request(5, &file, operation));
        let mut model = noise(31, 100);
        if is_done(&completion) {
            assert_eq!(completion.result.unwrap(), wanted.len());
            model.resize(model.len().max(if wanted.is_empty() { 0 } else { offset + wanted.len() }), 0);
            let end = (offset + wanted.len()).min(model.len());
            if !wanted.is_empty() {
                model[offset..end].copy_from_slice(&content[wanted.clone()]);
            }
        }
        assert!(fs::read(file.path()).unwrap() == model, "{wanted:?} at {offset}");
    }
    let file = file_of(directory, "clone-to", b"");
    let error = one(&mut *engine, request(5, &file, clone(range(1, 2), 3))).result.unwrap_err();
    assert!(matches!(&error, Error::Unsupported { path, .. } if path == file.path()), "{error:?}");
}

fn copies_end_where_the_source_ends(factory: &dyn EngineFactory, directory: &Path) {
    let mut engine = factory.build(2).unwrap();
    let content = noise(32, 3 * UNIT + 77);
    let from = file_of(directory, "copy-from", &content);
    let end = content.len();
    for (wanted, offset) in
        [(0..end, 0), (1..UNIT, 12_345), (end - 5..end + 100, 3), (end + 9..end + 10, 0), (8..8, 0)]
    {
        let file = file_of(directory, "copy-to", b"head");
        let operation = copy(&from, range(wanted.start, wanted.end), offset);
        let completion = one(&mut *engine, request(6, &file, operation));
        if !is_done(&completion) {
            continue;
        }
        let found = &content[wanted.start.min(end)..wanted.end.min(end)];
        assert_eq!(completion.result.unwrap(), found.len(), "{wanted:?}");
        assert_eq!(completion.passage, Passage::default());
        let mut model = b"head".to_vec();
        if !found.is_empty() {
            model.resize(model.len().max(offset + found.len()), 0);
            model[offset..offset + found.len()].copy_from_slice(found);
        }
        assert!(fs::read(file.path()).unwrap() == model, "{wanted:?} at {offset}");
    }
    assert_eq!(Arc::strong_count(&from), 1, "no copy that is done holds its source");
}

fn operations_without_memory_mix_with_reads(factory: &dyn EngineFactory, directory: &Path) {
    let bytes = noise(33, 64 * 4096);
    let file = file_of(directory, "mixed", &bytes);
    let to = file_of(directory, "mixed-to", &bytes);
    for depth in [1, 2, 7, 64] {
        let mut engine = factory.build(depth).unwrap();
        let mut completions = Vec::new();
        for token in 0..60_u64 {
            while engine.in_flight() == engine.depth() {
                engine.reap(1 + token as usize % 3, &mut completions).unwrap();
            }
            let at = token % 64 * 4096;
            engine.submit(match token % 5 {
                0 => request(token, &file, Operation::Seek { target: SeekTarget::Data, offset: at }),
                1 => request(token, &to, copy(&file, range(at as usize, at as usize + 4096), at as usize)),
                2 => request(token, &to, Operation::Sync),
                3 => request(token, &file, Operation::DropCached { range: range(0, 4096) }),
                _ => read(token, &file, BOTH[token as usize / 5 % 2], at, 4096),
            });
        }
        engine.reap(usize::MAX, &mut completions).unwrap();
        assert_eq!(engine.in_flight(), 0);
        let mut tokens: Vec<_> = completions.iter().map(|completion| completion.token).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, (0..60).collect::<Vec<_>>(), "depth {depth}");
        for completion in completions {
            let at = (completion.token % 64 * 4096) as usize;
            match completion.token % 5 {
                0 => assert_eq!(completion.found, Some(at as u64)),
                4 => assert!(completion.buffer.unwrap().data() == &bytes[at..at + 4096]),
                1 => assert!(!is_done(&completion) || matches!(completion.result, Ok(4096))),
                _ => assert_eq!(completion.result.unwrap(), 0),
            }
        }
        assert!(fs::read(to.path()).unwrap() == bytes);
    }
}

fn what_a_file_is_not_open_for_is_an_error(factory: &dyn EngineFactory, directory: &Path) {
    let mut engine = factory.build(8).unwrap();
    let from = file_of(directory, "open", &noise(34, UNIT));
    let read_only = Arc::new(File::open(from.path()).unwrap());
    let bytes = Bytes::from_static(b"shared");
    let requests = vec![
        write_shared(0, &read_only, Access::Cached, 9, &bytes),
        request(1, &read_only, Operation::Allocate { range: range(9, UNIT), keep_len: true }),
        request(2, &read_only, copy(&from, range(0, 5), 9)),
        request(3, &from, Operation::Sync),
    ];
    for completion in run_all(&mut *engine, requests) {
        match (completion.token, &completion.result) {
            (3, result) => assert!(matches!(result, Ok(0)), "{result:?}"),
            (_, Err(Error::Io { path, offset: Some(9), .. })) => assert_eq!(path, from.path()),
            // A system without such operations does not look at the file.
            (1 | 2, Err(Error::Unsupported { .. })) => {}
            (token, result) => panic!("operation {token}: {result:?}"),
        }
    }
    assert!(fs::read(from.path()).unwrap() == noise(34, UNIT), "what was refused has changed nothing");
}

fn dropping_waits_for_copies(factory: &dyn EngineFactory, directory: &Path) {
    let content = noise(35, 8 * UNIT);
    let from = file_of(directory, "drop-from", &content);
    let file = file_of(directory, "drop-to", b"");
    let is_possible = {
        let mut engine = factory.build(1).unwrap();
        is_done(&one(&mut *engine, request(0, &file, copy(&from, range(0, 1), 0))))
    };
    let mut engine = factory.build(8).unwrap();
    for at in 0..8 {
        engine.submit(request(at as u64, &file, copy(&from, range(at * UNIT, (at + 1) * UNIT), at * UNIT)));
    }
    drop(engine);
    assert!(!is_possible || fs::read(file.path()).unwrap() == content);
    assert_eq!((Arc::strong_count(&file), Arc::strong_count(&from)), (1, 1));
}
