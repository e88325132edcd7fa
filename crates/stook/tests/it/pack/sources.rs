//! Records that are read by range: any range of a record of any length is what a get gives, and
//! costs the chunks that it touches.

use std::path::Path;
use std::sync::Arc;

use stook::engine::Backend;
use stook::extent::ByteRange;
use stook::pack::{
    AccessRule, Attributes, CompactOptions, Error, FileKind, Key, OpenOptions, Pack, PackWriter,
    RecordSource, WriterOptions,
};
use stook::source::{Source, read_range};
use stook::storage::{LocalStorage, LocalStorageOptions, Storage};
use stook_testing::conformance::{noise, source_conformance};
use stook_testing::fault::{EngineCall, EngineFault, FaultEngineFactory, UnreadableStorage};
use stook_testing::model::pack::{ScriptedHost, open_simulated, tiny_writer};
use stook_testing::sim::SimStorage;

/// The chunk of a pack that says nothing else.
const CHUNK: usize = 64 << 10;

fn local(path: &Path) -> Arc<dyn Storage> {
    Arc::new(LocalStorage::open(path, LocalStorageOptions::default()).unwrap())
}

/// Bodies of known length have even ids, framed ones odd ones.
fn put(writer: &mut PackWriter, id: u64, body: &[u8]) {
    let announced = id.is_multiple_of(2).then_some(body.len() as u64);
    let mut record = writer.begin("", &Key::id(id), &Attributes::new(), announced).unwrap();
    body.chunks(100_000).for_each(|part| record.write(part).unwrap());
    record.finish().unwrap();
}

/// A pack with each of these bodies in both forms: of number `n` as records `2 * n` and
/// `2 * n + 1`.
fn filled(path: &Path, bodies: &[Vec<u8>]) {
    let mut writer = PackWriter::create(local(path), WriterOptions::default()).unwrap();
    for (body, id) in bodies.iter().zip((0..).step_by(2)) {
        put(&mut writer, id, body);
        put(&mut writer, id + 1, body);
    }
    writer.finish(true).unwrap();
}

fn open(path: &Path) -> Pack {
    Pack::open_path(path, OpenOptions::default()).unwrap()
}

fn record(pack: &Pack, id: u64) -> Arc<RecordSource> {
    pack.open_source(&Key::id(id)).unwrap().unwrap()
}

/// Ranges at and around the borders of chunks, and some by chance.
fn ranges(len: usize, chunk: usize, seed: u64) -> Vec<ByteRange> {
    let near = [0, 1, chunk - 1, chunk, chunk + 1, 2 * chunk, len / 2, len.saturating_sub(1), len];
    let chance = noise(seed, 12 * 8);
    let chance = chance.chunks_exact(8).map(|number| {
        usize::try_from(u64::from_le_bytes(number.try_into().unwrap()) % (len as u64 + 1)).unwrap()
    });
    let places: Vec<usize> = near.into_iter().chain(chance).filter(|&at| at <= len).collect();
    let pairs = places.iter().zip(places.iter().skip(1)).chain(places.iter().zip(places.iter().rev()));
    pairs
        .map(|(&one, &other)| ByteRange::new(one.min(other) as u64, one.max(other) as u64).unwrap())
        .collect()
}

fn part(body: &[u8], range: ByteRange) -> &[u8] {
    &body[range.start() as usize..range.end() as usize]
}

fn assert_read(record: &RecordSource, body: &[u8], chunk: usize) {
    assert_eq!((record.len(), record.head().body_len), (body.len() as u64, Some(body.len() as u64)));
    let ranges = ranges(body.len(), chunk, body.len() as u64);
    for (&range, bytes) in ranges.iter().zip(record.read_many(&ranges).unwrap()) {
        assert!(bytes.unwrap() == part(body, range), "{range} of {}", body.len());
    }
    for &range in &ranges {
        assert!(record.read(range).unwrap() == part(body, range), "{range} of {}, alone", body.len());
    }
}

#[test]
fn any_range_of_a_record_of_any_length_is_what_a_get_gives() {
    let directory = tempfile::tempdir().unwrap();
    let lens = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3_000_000];
    let bodies: Vec<Vec<u8>> = lens.into_iter().zip(1..).map(|(len, seed)| noise(seed, len)).collect();
    filled(directory.path(), &bodies);
    for access in [AccessRule::Auto, AccessRule::Direct, AccessRule::Cached] {
        let options = OpenOptions { access, ..OpenOptions::default() };
        let pack = Pack::open_path(directory.path(), options).unwrap();
        for (body, id) in bodies.iter().zip((0..).step_by(2)) {
            for id in [id, id + 1] {
                assert!(pack.get(&Key::id(id)).unwrap().unwrap().body == *body);
                assert_read(&record(&pack, id), body, CHUNK);
            }
        }
    }
    assert!(open(directory.path()).open_source(&Key::id(99)).unwrap().is_none());
}

#[test]
fn records_keep_every_promise_of_a_source() {
    let directory = tempfile::tempdir().unwrap();
    let lens = [0, 1, CHUNK, 2_500_000];
    let bodies: Vec<Vec<u8>> = lens.into_iter().zip(1..).map(|(len, seed)| noise(seed, len)).collect();
    filled(directory.path(), &bodies);
    let pack = open(directory.path());
    for (body, id) in bodies.iter().zip((0..).step_by(2)) {
        for id in [id, id + 1] {
            for backend in [Backend::Auto, Backend::Threads] {
                let source: Arc<dyn Source> = record(&pack, id);
                source_conformance(&source, body, &backend);
            }
        }
    }
}

#[test]
fn small_chunks_of_segments_that_grow_are_read_by_range() {
    let storage = SimStorage::new();
    let options = WriterOptions { segment_len: 64 << 20, ..tiny_writer(ScriptedHost::new(1)) };
    let mut writer = PackWriter::create(Arc::new(storage.clone()), options).unwrap();
    // Enough chunks that their checksums are in several runs.
    let bodies = [noise(1, 4096 * 1024), noise(2, 4096 * 1024 + 1), noise(3, 9)];
    for (body, id) in bodies.iter().zip((0..).step_by(2)) {
        put(&mut writer, id, body);
        put(&mut writer, id + 1, body);
    }
    writer.sync().unwrap();
    drop(writer);
    let pack = open_simulated(&storage).unwrap();
    for (body, id) in bodies.iter().zip((0..).step_by(2)) {
        assert_read(&record(&pack, id), body, 4096);
        assert_read(&record(&pack, id + 1), body, 4096);
    }
}

#[test]
fn a_flipped_byte_costs_the_ranges_that_touch_its_chunk() {
    let body = noise(5, 10 * CHUNK + 77);
    for id in [0, 1] {
        let directory = tempfile::tempdir().unwrap();
        filled(directory.path(), std::slice::from_ref(&body));
        let (segment, offset) = {
            let head = record(&open(directory.path()), id).head().clone();
            (directory.path().join(format!("segment-{:016x}", head.segment)), head.offset as usize)
        };
        for chunk in [0, 4, 10] {
            let whole = std::fs::read(&segment).unwrap();
            let bytes = &body[chunk * CHUNK..((chunk + 1) * CHUNK).min(body.len())];
            let at = offset + whole[offset..].windows(64).position(|some| some == &bytes[..64]).unwrap();
            let mut hurt = whole.clone();
            hurt[at + 50] ^= 4;
            std::fs::write(&segment, &hurt).unwrap();
            let record = record(&open(directory.path()), id);
            let (from, to) = ((chunk * CHUNK) as u64, (chunk * CHUNK + bytes.len()) as u64);
            let ranges = [
                ByteRange::new(0, from).unwrap(),
                ByteRange::new(to, body.len() as u64).unwrap(),
                ByteRange::at(from, 1).unwrap(),
                ByteRange::new(from.saturating_sub(1), to).unwrap(),
            ];
            let [before, after, first, all] = record.read_many(&ranges).unwrap().try_into().unwrap();
            assert!(before.unwrap() == part(&body, ranges[0]) && after.unwrap() == part(&body, ranges[1]));
            for error in [first.unwrap_err(), all.unwrap_err()] {
                let damage = error.damage().unwrap();
                assert_eq!((&damage.file, &damage.key), (&segment, &Some(Key::id(id))), "{damage}");
                // Of a piece of a framed body it is where its head is.
                assert!((at as u64 - 8..=at as u64).contains(&damage.offset), "{damage}");
            }
            // Reading it by another session returns file and offset, too.
            let error = read_range(&Backend::Auto, &*record, ranges[2], stook::engine::Access::Cached);
            assert!(matches!(error, Err(stook::Error::Damaged { path, .. }) if path == segment));
            std::fs::write(&segment, &whole).unwrap();
            assert!(record.read(ranges[3]).unwrap() == part(&body, ranges[3]), "it is read again");
        }
    }
}

#[test]
fn a_bad_sector_costs_the_ranges_that_touch_its_chunk() {
    let directory = tempfile::tempdir().unwrap();
    let body = noise(6, 5 * CHUNK);
    filled(directory.path(), std::slice::from_ref(&body));
    let storage = UnreadableStorage::new(local(directory.path()));
    let pack = Pack::open(Arc::new(storage.clone()), OpenOptions::default()).unwrap();
    for id in [0, 1] {
        let record = record(&pack, id);
        let head = record.head();
        let name = format!("segment-{:016x}", head.segment);
        storage.spoil(&name, ByteRange::at(head.offset + 2 * CHUNK as u64 + 9000, 1).unwrap());
        let chunk = |number: u64| ByteRange::at(number * CHUNK as u64, CHUNK as u64).unwrap();
        for number in [0, 1, 3, 4] {
            assert!(record.read(chunk(number)).unwrap() == part(&body, chunk(number)));
        }
        let error = record.read(chunk(2)).unwrap_err();
        assert_eq!(error.damage().unwrap().key, Some(Key::id(id)), "{error}");
        storage.heal();
        assert!(record.read(chunk(2)).unwrap() == part(&body, chunk(2)));
    }
}

#[test]
fn four_kib_of_a_long_record_take_one_chunk_and_its_checksums_once() {
    let directory = tempfile::tempdir().unwrap();
    let body = noise(7, 320 * CHUNK);
    filled(directory.path(), std::slice::from_ref(&body));
    for (id, sums) in [(0, 320 * 4), (1, 0)] {
        let engines = FaultEngineFactory::new(Backend::Auto);
        let options = OpenOptions { engines: Arc::new(engines.clone()), ..OpenOptions::default() };
        let pack = Pack::open_path(directory.path(), options).unwrap();
        let record = record(&pack, id);
        let mut seen = engines.operations().len();
        let mut read = |at: u64, len: u64| {
            let range = ByteRange::at(at, len).unwrap();
            assert!(record.read(range).unwrap() == part(&body, range));
            let all = engines.operations();
            let bytes: usize = all[seen..].iter().map(|operation| operation.len).sum();
            seen = all.len();
            bytes
        };
        let piece = CHUNK + if id == 1 { 8 } else { 0 };
        assert_eq!(read(200 * CHUNK as u64 + 8192, 4096), piece + sums);
        // The rest of it was verified, and is remembered.
        assert_eq!((read(200 * CHUNK as u64, 4096), read(201 * CHUNK as u64 - 10, 10)), (0, 0));
        assert_eq!(read(100 * CHUNK as u64 + 1, 4096), piece, "the checksums are known");
        assert_eq!(read(50 * CHUNK as u64, CHUNK as u64), piece);
        let sequential: usize = (0..64).map(|at| read(10 * CHUNK as u64 + at * 4096, 4096)).sum();
        assert_eq!(sequential, 4 * piece, "each chunk once");
        drop(pack);
        engines.fail(Some(EngineCall::Read), 0, EngineFault::Fails);
        let bad = ByteRange::at(300 * CHUNK as u64, 10).unwrap();
        assert!(matches!(record.read(bad), Err(Error::Damaged(damage)) if damage.key == Some(Key::id(id))));
        assert!(record.read(bad).unwrap() == part(&body, bad));
    }
}

#[test]
fn a_record_stays_what_it_is_when_the_pack_goes_on_without_it() {
    let directory = tempfile::tempdir().unwrap();
    let body = noise(8, 1_000_000);
    filled(directory.path(), std::slice::from_ref(&body));
    let record = record(&open(directory.path()), 0);
    let mut writer = PackWriter::open(local(directory.path()), WriterOptions::default()).unwrap();
    writer.put("", &Key::id(0), &Attributes::new(), b"another").unwrap();
    writer.compact(&CompactOptions::default(), &mut |_| true).unwrap();
    writer.finish(true).unwrap();
    assert!(record.read(ByteRange::to(record.len())).unwrap() == body);
    let segment = directory.path().join(format!("segment-{:016x}", record.head().segment));
    assert!(segment.exists(), "a record of a generation holds it");
    let now = self::record(&open(directory.path()), 0);
    assert!(now.len() == 7 && now.identity() != record.identity());
}

#[test]
fn names_of_a_file_lead_to_its_content() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = PackWriter::create(local(directory.path()), WriterOptions::default()).unwrap();
    let key = |name: &str| Key::bytes(name).unwrap();
    let body = noise(9, 200_000);
    let of = |kind| Attributes::of_file(kind, 0o644, 0, None);
    writer.put("", &key("first"), &of(FileKind::File), &body).unwrap();
    writer.put("", &key("further"), &of(FileKind::HardLink), b"first").unwrap();
    writer.put("", &key("latest"), &of(FileKind::Symlink), b"first").unwrap();
    writer.finish(true).unwrap();
    let pack = open(directory.path());
    let further = pack.open_source(&key("further")).unwrap().unwrap();
    assert_eq!(further.head().key, key("first"));
    assert_read(&further, &body, CHUNK);
    let latest = pack.open_source(&key("latest")).unwrap().unwrap();
    assert!(latest.read(ByteRange::to(5)).unwrap() == b"first".as_slice(), "links are not followed");
    assert!(further.path().to_string_lossy().ends_with("//first"), "{}", further.path().display());
}
