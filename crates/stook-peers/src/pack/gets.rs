//! Gets by key in random order of data in memory, against LMDB.

use std::hint::black_box;
use std::path::Path;

use anyhow::Context as _;
use stook::pack::{Key, MapRule, OpenOptions, Pack};
use stook::report::stats;
use stook_study::sample;

use super::lmdb::Lmdb;
use super::random::{Random, fill, numbered};
use super::stores::touch;
use super::{Bench, Way};
use crate::result::{Series, Target};

const RECORDS: u64 = 1_000_000;
const LEN: usize = 1000;
/// Keys of one call.
const BATCH: usize = 2048;

fn open(path: &Path, map: MapRule) -> anyhow::Result<Pack> {
    Ok(Pack::open_path(path, OpenOptions { map, ..OpenOptions::default() })?)
}

fn get_many(pack: &Pack, keys: &[Key]) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for batch in keys.chunks(BATCH) {
        for record in pack.get_many(batch)? {
            bytes += record?.map_or(0, |record| touch(&record.body));
        }
    }
    Ok(bytes)
}

fn get_many_with(pack: &Pack, keys: &[Key]) -> anyhow::Result<u64> {
    let (mut bytes, mut error) = (0, None);
    for batch in keys.chunks(BATCH) {
        pack.get_many_with(batch, |_, record| match record {
            Ok(record) => bytes += record.map_or(0, |record| touch(record.body)),
            Err(other) => error = Some(other),
        })?;
    }
    error.map_or(Ok(bytes), |error| Err(error.into()))
}

fn get_with(pack: &Pack, keys: &[Key]) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for key in keys {
        bytes += pack.get_with(key, |record| touch(record.body))?.unwrap_or(0);
    }
    Ok(bytes)
}

fn get(pack: &Pack, keys: &[Key]) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for key in keys {
        bytes += pack.get(key)?.map_or(0, |record| touch(&record.body));
    }
    Ok(bytes)
}

/// Half of the keys in each of two threads.
fn from_two_threads(pack: &Pack, keys: &[Key]) -> anyhow::Result<u64> {
    let (left, right) = keys.split_at(keys.len() / 2);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| get_many_with(pack, left));
        let bytes = get_many_with(pack, right)?;
        Ok(bytes + other.join().map_err(|_| anyhow::anyhow!("a thread that gets panicked"))??)
    })
}

/// Looks at all bytes as a checksum does.
fn verified(bytes: &[u8]) -> u64 {
    black_box(crc32c::crc32c(bytes));
    touch(bytes)
}

const LMDB: &str = "LMDB get";
const LMDB_SUMMED: &str = "LMDB get, each value summed";
const VIEWS: &str = "get_many_with, mapped";
const VIEWS_TWICE: &str = "get_many_with, mapped, two threads";
const RECORDS_MAPPED: &str = "get_many, mapped";
const READ: &str = "get_many, read";
const ONE_VIEW: &str = "get_with, mapped, one at a time";
const ONE_READ: &str = "get, read, one at a time";

/// Makes a pack and an LMDB with the same records and gets all of them in the same random order.
pub(crate) fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let section = "random get, warm";
    let (pack_path, lmdb_path) = (bench.work.join("numbered.stook"), bench.work.join("numbered.lmdb"));
    numbered(&pack_path, RECORDS, LEN)?;
    let lmdb = Lmdb::open(&lmdb_path)?;
    lmdb.build((0..RECORDS).map(|number| {
        let mut body = vec![0; LEN];
        fill(number, &mut body);
        Ok((number.to_be_bytes().to_vec(), body))
    }))?;
    let (pack, mapped) = (open(&pack_path, MapRule::Never)?, open(&pack_path, MapRule::Sealed)?);
    let numbers = Random(0x9e37_79b9_7f4a_7c15).some(RECORDS, RECORDS);
    let keys: Vec<Key> = numbers.iter().map(|&number| Key::id(number)).collect();
    let raw: Vec<[u8; 8]> = numbers.iter().map(|number| number.to_be_bytes()).collect();
    let raw = || raw.iter().map(|key| &key[..]);
    // Once without a clock, so that everything is in the page cache: in order and through the
    // mapping, which has the system read in large pages.
    let in_order: Vec<Key> = (0..RECORDS).map(Key::id).collect();
    get_many_with(&mapped, &in_order)?;
    let wanted = RECORDS * LEN as u64;
    for bytes in [get_many(&pack, &keys)?, get_many_with(&mapped, &keys)?, lmdb.get(raw(), touch)?] {
        anyhow::ensure!(bytes == wanted, "{bytes} bytes were got");
    }
    let few = keys.get(..keys.len() / 10).context("too few keys")?;
    let ten_times = |seconds: f64| Some(10.0 * seconds);
    let timed = |get: &dyn Fn() -> anyhow::Result<u64>| {
        let started = std::time::Instant::now();
        get()?;
        Ok(ten_times(started.elapsed().as_secs_f64()))
    };
    let series = {
        let mut ways = vec![
            Way::warm(LMDB, || lmdb.get(raw(), touch).map(|_| None)),
            Way::warm(VIEWS, || get_many_with(&mapped, &keys).map(|_| None)),
            Way::warm(LMDB_SUMMED, || lmdb.get(raw(), verified).map(|_| None)),
            Way::warm(RECORDS_MAPPED, || get_many(&mapped, &keys).map(|_| None)),
            Way::warm(VIEWS_TWICE, || from_two_threads(&mapped, &keys).map(|_| None)),
            Way::warm(ONE_VIEW, || get_with(&mapped, &keys).map(|_| None)),
            // A tenth of the keys, ten times the seconds.
            Way::warm(READ, || timed(&|| get_many(&pack, few))),
            Way::warm(ONE_READ, || timed(&|| get(&pack, few))),
        ];
        bench.interleave(section, bench.rounds, &mut ways)?
    };
    drop(lmdb);
    sample::remove(&pack_path)?;
    sample::remove(&lmdb_path)?;
    report(bench, section, series)
}

fn report(bench: &mut Bench, section: &str, series: Series) -> anyhow::Result<()> {
    let results = &mut bench.results;
    for (way, taken) in &series {
        let seconds: Vec<f64> = taken.iter().map(|taken| taken.seconds).collect();
        let per_s = RECORDS as f64 / stats::median(&seconds)? / 1e6;
        let target = if way == VIEWS { Target::AtLeast(3.0) } else { Target::None };
        let note = "1 M records of 1 KB, uniform";
        results.figure(&format!("warm random get: {way}"), target, per_s, "M/s", note);
    }
    results.raw.insert(section.to_owned(), series);
    for (ours, theirs, target) in [
        (VIEWS, LMDB, Target::AtLeast(1.0)),
        (VIEWS, LMDB_SUMMED, Target::AtLeast(1.0)),
        (RECORDS_MAPPED, LMDB, Target::None),
        (READ, LMDB, Target::None),
        (VIEWS_TWICE, VIEWS, Target::None),
    ] {
        results.faster(
            section,
            &format!("warm random get: {ours} against {theirs}"),
            target,
            ours,
            theirs,
        )?;
    }
    Ok(())
}
