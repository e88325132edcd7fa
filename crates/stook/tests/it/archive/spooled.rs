//! Compressed members that are read by range: the spool that they are unpacked to.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::sync::Arc;
use std::thread;

use proptest::prelude::*;
use stook::archive::{Archive, CHECKED_FIRST_MAX, OpenOptions, Spool};
use stook::engine::{Access, Backend};
use stook::extent::ByteRange;
use stook::source::{MemorySource, Source, read_range};
use stook::tree::{GatherOptions, Tree};
use stook::{Error, Result};
use stook_testing::archives::{Directories, tar_of, zip_of};
use stook_testing::conformance::noise;
use stook_testing::model::tree::TreeModel;
use stook_testing::sweep::stride;

use super::run;
use super::trees::{deflate, gather, gzip, id_of, zst};

pub(super) fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Bytes that compress to about a half.
fn half_noise(seed: u64, len: usize) -> Vec<u8> {
    noise(seed, len).into_iter().map(|byte| byte & 15).collect()
}

/// The same files in all compressed archives.
fn archives(model: &TreeModel) -> Vec<(&'static str, Vec<u8>)> {
    let tar = tar_of(model, Directories::All);
    vec![
        ("zip", zip_of(model, Directories::All, Some(&deflate))),
        ("tar.gz", gzip(&tar)),
        ("tar.zst", zst(&tar)),
        ("tar.xz", xz(&tar)),
    ]
}

fn opened(bytes: Vec<u8>, spool: &Spool) -> Archive {
    let source = Arc::new(MemorySource::new("made", bytes));
    Archive::from_source(source, OpenOptions { spool: spool.clone(), ..OpenOptions::default() }).unwrap()
}

fn spool(file_bytes: u64, memory_bytes: u64) -> Spool {
    Spool::new(std::env::temp_dir(), file_bytes, memory_bytes)
}

fn read(source: &dyn Source, range: ByteRange) -> Result<Vec<u8>> {
    Ok(read_range(&Backend::Threads, source, range, Access::Cached)?.to_vec())
}

fn member(archive: &Archive, key: &str) -> Arc<dyn Source> {
    archive.open_member(&archive.find(key.as_bytes()).unwrap()).unwrap()
}

/// Some numbers that follow from a seed.
fn numbers(seed: u64, count: usize) -> Vec<u64> {
    noise(seed, count * 8).chunks(8).map(|eight| u64::from_le_bytes(eight.try_into().unwrap())).collect()
}

/// Reads ranges all over a member, and compares them.
fn read_all_over(source: &dyn Source, bytes: &[u8], seed: u64, count: usize) {
    for pair in numbers(seed, 2 * count).chunks(2) {
        let at = pair[0] % bytes.len() as u64;
        let len = (pair[1] % 70_000).min(bytes.len() as u64 - at);
        let range = ByteRange::at(at, len).unwrap();
        let got = read(source, range).unwrap();
        assert!(got == bytes[at as usize..(at + len) as usize], "{}: {range}", source.path().display());
    }
}

#[test]
fn any_thread_reads_anywhere_whatever_the_spool_holds() {
    let lens = [3_000_000, 900_000, 70_000, 1, 0];
    let bodies: Vec<Vec<u8>> = lens.iter().zip(1..).map(|(len, seed)| half_noise(seed, *len)).collect();
    let model = bodies.iter().zip(0..).fold(TreeModel::new(), |model, (body, number): (_, usize)| {
        model.file(format!("d/{number}"), body.clone())
    });
    for (kind, bytes) in archives(&model) {
        for (file_bytes, memory_bytes) in [(64 << 20, 4 << 20), (3 << 20, 0)] {
            let spool = spool(file_bytes, memory_bytes);
            let archive = opened(bytes.clone(), &spool);
            thread::scope(|scope| {
                for number in 0..4_u64 {
                    let (archive, bodies) = (&archive, &bodies);
                    scope.spawn(move || {
                        for round in 0..6 {
                            let which = ((number + round) % 3) as usize;
                            let source = member(archive, &format!("d/{which}"));
                            read_all_over(&*source, &bodies[which], number * 10 + round, 6);
                        }
                    });
                }
            });
            for (number, body) in bodies.iter().enumerate() {
                let source = member(&archive, &format!("d/{number}"));
                assert!(
                    read(&*source, ByteRange::to(body.len() as u64)).unwrap() == *body,
                    "{kind} {number}"
                );
            }
            let used = spool.usage();
            if file_bytes > 8 << 20 {
                assert!(archive.passes() <= 1, "{kind}");
                // Each byte once: of the zip, whatever is in memory may have been dropped.
                assert!(used.unpacked_bytes <= 4_100_000, "{kind}: {used:?}");
            } else {
                // A segment more for each thread.
                assert!(used.file_bytes <= file_bytes + 4 * (64 << 10), "{kind}: {used:?}");
            }
            drop(archive);
            assert_eq!((spool.usage().file_bytes, spool.usage().memory_bytes), (0, 0), "{kind}");
        }
    }
}

#[test]
fn many_readers_of_one_member_unpack_it_once() {
    let body = half_noise(1, 2_500_000);
    let model = TreeModel::new().file("a", body.clone());
    for (kind, bytes) in archives(&model) {
        let spool = spool(1 << 30, 0);
        let archive = opened(bytes, &spool);
        thread::scope(|scope| {
            for seed in 0..8 {
                let (archive, body) = (&archive, &body);
                scope.spawn(move || read_all_over(&*member(archive, "a"), body, seed, 20));
            }
        });
        let unpacked = spool.usage().unpacked_bytes;
        assert!(unpacked <= 2_500_000 + 20_480, "{kind}: {unpacked}");
    }
}

/// All files of a tree, one after another, some opened, some gathered.
fn walk(tree: &dyn Tree, names: &[String], model: &TreeModel) {
    for (number, some) in names.chunks(4).enumerate() {
        let ids: Vec<_> = some.iter().map(|name| id_of(tree, name)).collect();
        let bodies: Vec<Vec<u8>> = match number % 2 {
            0 => gather(tree, &ids, &GatherOptions::default()).into_iter().map(Result::unwrap).collect(),
            _ => ids
                .iter()
                .map(|id| {
                    let source = tree.open(*id).unwrap();
                    read(&*source, ByteRange::to(source.len())).unwrap()
                })
                .collect(),
        };
        for (name, body) in some.iter().zip(bodies) {
            assert!(body == model.bytes(name.as_bytes()).unwrap(), "{name}");
        }
    }
}

#[test]
fn a_walk_over_a_compressed_tar_decompresses_it_once() {
    let names: Vec<String> = (0..2000).map(|number| format!("d{}/{number:04}", number % 7)).collect();
    let add = |model: TreeModel, (name, seed): (&String, u64)| model.file(name, half_noise(seed, 700));
    let model = names.iter().zip(0..).fold(TreeModel::new(), add);
    let tar_len = tar_of(&model, Directories::All).len() as u64;
    for (kind, bytes) in archives(&model).into_iter().skip(1) {
        let spool = spool(1 << 30, 0);
        let archive = opened(bytes, &spool);
        let tree = archive.tree();
        walk(&tree, &names, &model);
        walk(&tree, &names.iter().rev().cloned().collect::<Vec<_>>(), &model);
        assert_eq!(archive.passes(), 1, "{kind}");
        assert!(spool.usage().unpacked_bytes <= tar_len, "{kind}");
    }
}

#[test]
fn what_was_dropped_is_unpacked_again_and_the_limit_holds() {
    let names: Vec<String> = (0..40).map(|number| format!("{number:02}")).collect();
    let add = |model: TreeModel, (name, seed): (&String, u64)| model.file(name, half_noise(seed, 100_000));
    let model = names.iter().zip(0..).fold(TreeModel::new(), add);
    for (kind, bytes) in archives(&model) {
        let spool = spool(1 << 20, 1 << 20);
        let tree = opened(bytes, &spool).tree();
        for at in numbers(1, 15) {
            let name = &names[(at % 40) as usize];
            let source = tree.open(id_of(&tree, name)).unwrap();
            read_all_over(&*source, model.bytes(name.as_bytes()).unwrap(), at, 2);
            let used = spool.usage();
            assert!(used.file_bytes <= 1 << 20 && used.memory_bytes <= 1 << 20, "{kind}: {used:?}");
        }
        // In order, what does not fit takes one pass more.
        let before = tree.archive().passes();
        walk(&tree, &names, &model);
        assert!(tree.archive().passes() <= before + 1, "{kind}: {}", tree.archive().passes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_reads_in_any_order_give_the_bytes(
        lens in proptest::collection::vec(0..1_300_000_usize, 1..5),
        reads in proptest::collection::vec((any::<u16>(), any::<u32>(), 1..200_000_u64), 1..40),
        kind in 0..4_usize,
        file_bytes in 1_300_000..4_000_000_u64,
        memory_bytes in 0..2_000_000_u64,
    ) {
        let bodies: Vec<Vec<u8>> = lens.iter().zip(1..).map(|(len, seed)| half_noise(seed, *len)).collect();
        let model = bodies.iter().zip(0..).fold(TreeModel::new(), |model, (body, number): (_, usize)| {
            model.file(number.to_string(), body.clone())
        });
        let spool = spool(file_bytes, memory_bytes);
        let archive = opened(archives(&model).swap_remove(kind).1, &spool);
        for (which, at, len) in reads {
            let which = usize::from(which) % bodies.len();
            let body = &bodies[which];
            let source = member(&archive, &which.to_string());
            let at = u64::from(at) % (body.len() as u64 + 1);
            let range = ByteRange::at(at, len.min(body.len() as u64 - at)).unwrap();
            let got = read(&*source, range).unwrap();
            prop_assert!(got == body[range.start() as usize..range.end() as usize], "{} {}", which, range);
            let used = spool.usage();
            prop_assert!(used.file_bytes <= file_bytes, "{:?}", used);
        }
    }
}

#[test]
fn damage_anywhere_in_a_deflated_member_gives_no_wrong_byte() {
    for len in [50_000, 1_500_000] {
        let body = half_noise(3, len);
        let model = TreeModel::new().file("a", body.clone()).file("b", "b");
        let zip = zip_of(&model, Directories::All, Some(&deflate));
        let stored = deflate(&body).len();
        for at in (31..31 + stored).step_by(stride((stored / 40) | 1)) {
            let mut hit = zip.clone();
            hit[at] ^= 0x10;
            let archive = opened(hit, &spool(1 << 30, 1 << 20));
            match archive.open_member(&archive.find(b"a").unwrap()) {
                // A bit that means nothing.
                Ok(source) => assert!(read(&*source, ByteRange::to(len as u64)).unwrap() == body, "{at}"),
                Err(error) => {
                    assert!(matches!(error, stook::archive::Error::Damaged { .. }), "{at}: {error}");
                }
            }
            assert_eq!(read(&*member(&archive, "b"), ByteRange::to(1)).unwrap(), b"b");
        }
    }
}

#[test]
fn damage_at_the_end_of_a_long_member_is_found_by_its_last_read_and_stays() {
    let len = CHECKED_FIRST_MAX as usize + 300_000;
    let model = TreeModel::new().file("long", vec![7; len]).file("other", vec![8; 3_000_000]);
    let mut zip = zip_of(&model, Directories::All, Some(&deflate));
    // The CRC-32 in the directory.
    let directory = zip.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
    zip[directory + 16] ^= 1;
    let spool = spool(1 << 30, 0);
    let archive = opened(zip, &spool);
    let source = member(&archive, "long");
    assert_eq!(spool.usage().unpacked_bytes, 0, "nothing was read");
    assert_eq!(read(&*source, ByteRange::to(10)).unwrap(), [7; 10]);
    assert!(spool.usage().unpacked_bytes < 1 << 20, "{:?}", spool.usage());
    let end = ByteRange::new(len as u64 - 1, len as u64).unwrap();
    for range in [end, ByteRange::to(10), end] {
        let error = read(&*source, range).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
    }
    let error = read(&*member(&archive, "long"), ByteRange::to(10)).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert_eq!(read(&*member(&archive, "other"), ByteRange::to(10)).unwrap(), [8; 10]);
}

#[test]
fn a_member_that_unpacks_to_more_or_less_than_it_says_is_damaged() {
    let bomb = |_: &[u8]| deflate(&vec![0; 64 << 20]);
    for said in [1000, 2_000_000, 66 << 20] {
        let model = TreeModel::new().file("a", vec![0; said]);
        let spool = spool(1 << 30, 1 << 20);
        let archive = opened(zip_of(&model, Directories::All, Some(&bomb)), &spool);
        let found = archive.find(b"a").unwrap();
        let opened = archive.open_member(&found).map_err(|error| error.to_string()).and_then(|source| {
            let end = ByteRange::new(said as u64 - 1, said as u64).unwrap();
            read(&*source, end).map_err(|error| error.to_string())
        });
        assert!(opened.unwrap_err().contains("than the directory says"), "{said}");
        assert!(spool.usage().unpacked_bytes <= said.min(64 << 20) as u64, "{said}");
    }
}

#[test]
fn a_member_that_is_longer_than_the_spool_is_refused_before_anything_is_unpacked() {
    let model = TreeModel::new().file("bomb", vec![0; 5 << 20]).file("small", "small");
    for (kind, bytes) in archives(&model) {
        let spool = spool(1 << 20, 1 << 20);
        let tree = opened(bytes, &spool).tree();
        let error = tree.open(id_of(&tree, "bomb")).unwrap_err();
        assert_eq!(error.io_kind(), Some(ErrorKind::Unsupported), "{kind}: {error}");
        assert_eq!(spool.usage().unpacked_bytes, 0, "{kind}");
        let small = tree.open(id_of(&tree, "small")).unwrap();
        assert_eq!(read(&*small, ByteRange::to(5)).unwrap(), b"small", "{kind}");
        assert!(spool.usage().file_bytes <= 1 << 20, "{kind}");
    }
}

#[test]
fn where_the_spool_cannot_write_that_read_is_an_error_and_short_members_are_not() {
    let model = TreeModel::new().file("long", half_noise(1, 2_000_000)).file("short", "short");
    let archive =
        opened(zip_of(&model, Directories::All, Some(&deflate)), &Spool::new("/nowhere", 1 << 30, 1 << 20));
    for _ in 0..2 {
        let error = archive.open_member(&archive.find(b"long").unwrap()).unwrap_err();
        assert!(error.to_string().contains("/nowhere"), "{error}");
        assert!(!matches!(error, stook::archive::Error::Damaged { .. }), "{error}");
    }
    assert_eq!(read(&*member(&archive, "short"), ByteRange::to(5)).unwrap(), b"short");
}

#[test]
fn an_archive_that_changes_while_it_is_unpacked_is_an_error_and_never_a_mix() {
    let directory = tempfile::tempdir().unwrap();
    let len = CHECKED_FIRST_MAX as usize + (4 << 20);
    let models = [7, 9].map(|byte| TreeModel::new().file("a", vec![byte; len]));
    let zip = |model: &TreeModel| zip_of(model, Directories::All, Some(&deflate));
    let tar = |model: &TreeModel| gzip(&tar_of(model, Directories::All));
    for (kind, make) in [("zip", &zip as &dyn Fn(&TreeModel) -> Vec<u8>), ("tar.gz", &tar)] {
        let [before, after] = [make(&models[0]), make(&models[1])];
        let path = directory.path().join(kind);
        fs::write(&path, before).unwrap();
        let options = OpenOptions { sidecar: false, spool: spool(1 << 30, 0), ..OpenOptions::default() };
        let archive = Archive::open(&path, options).unwrap();
        let source = member(&archive, "a");
        assert_eq!(read(&*source, ByteRange::to(10)).unwrap(), [7; 10]);
        fs::write(&path, after).unwrap();
        for at in [0, len as u64 / 2, len as u64 - 10] {
            let read = read(&*source, ByteRange::at(at, 10).unwrap());
            assert!(matches!(read, Err(Error::SourceChanged { .. })), "{kind} {at}: {read:?}");
        }
    }
}

#[test]
fn archives_of_other_programs_are_read_by_range() {
    let directory = tempfile::tempdir().unwrap();
    let script = "\
import bz2, gzip, io, lzma, random, sys, tarfile, zipfile
random.seed(5)
bodies = [bytes(random.choices(b'abcdefgh', k=n)) for n in (2_000_000, 300_000, 10, 0)]
with zipfile.ZipFile('p.zip', 'w', zipfile.ZIP_DEFLATED) as z:
    for n, b in enumerate(bodies):
        z.writestr(f'd/{n}', b)
for mode, name in (('w:gz', 'p.tar.gz'), ('w:xz', 'p.tar.xz')):
    with tarfile.open(name, mode) as t:
        for n, b in enumerate(bodies):
            i = tarfile.TarInfo(f'd/{n}'); i.size = len(b); t.addfile(i, io.BytesIO(b))
# Several members of gzip, and several streams of xz, are one tar.
tar = gzip.open('p.tar.gz').read()
cut = len(tar) // 3
open('m.tar.gz', 'wb').write(gzip.compress(tar[:cut]) + gzip.compress(tar[cut:]))
open('m.tar.xz', 'wb').write(lzma.compress(tar[:cut]) + lzma.compress(tar[cut:]))
for n, b in enumerate(bodies):
    open(f'body{n}', 'wb').write(b)
";
    run("python3", &["-c", script], directory.path());
    for name in ["p.zip", "p.tar.gz", "p.tar.xz", "m.tar.gz", "m.tar.xz"] {
        let options = OpenOptions { spool: spool(1 << 30, 1 << 20), ..OpenOptions::default() };
        // The second time the index lies beside it.
        for _ in 0..2 {
            let archive = Archive::open(directory.path().join(name), options.clone()).unwrap();
            for number in 0..4 {
                let body = fs::read(directory.path().join(format!("body{number}"))).unwrap();
                let source = member(&archive, &format!("d/{number}"));
                assert!(read(&*source, ByteRange::to(body.len() as u64)).unwrap() == body, "{name} {number}");
                if !body.is_empty() {
                    read_all_over(&*source, &body, number, 10);
                }
            }
            assert!(archive.passes() <= 1, "{name}");
        }
    }
}
