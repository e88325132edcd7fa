//! Gets by key in random order, cold and warm, and loading what is in the page cache.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use stook::engine::EngineFactory;
use stook::pack::{Attributes, Key, OpenOptions, Pack, PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions};
use stook_cli::study::limit::Fio;
use stook_cli::study::plain;
use stook_cli::study::readers::Reader;
use stook_cli::study::sample;

use super::counting::Counting;
use super::lmdb::Lmdb;
use super::stores::touch;
use super::{Bench, SAMPLE, Way};
use crate::result::Target;

/// Gets of one cold run.
const GETS: u64 = 20_000;
/// Keys of one call.
const BATCH: usize = 2048;
/// What fio reads at once: the record, rounded up to whole blocks.
const FIO_BLOCK_LEN: usize = 20_480;

/// Random numbers that are the same in every run of the program.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// `count` different numbers below `end`, in random order.
    fn some(&mut self, count: u64, end: u64) -> Vec<u64> {
        let mut all: Vec<u64> = (0..end).collect();
        for at in 0..count as usize {
            let other = at as u64 + self.below(end - at as u64);
            all.swap(at, other as usize);
        }
        all.truncate(count as usize);
        all
    }
}

fn open(path: &Path, engines: Arc<dyn EngineFactory>) -> anyhow::Result<Pack> {
    Ok(Pack::open_path(path, OpenOptions { engines, ..OpenOptions::default() })?)
}

fn get_all(pack: &Pack, keys: &[Key]) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for batch in keys.chunks(BATCH) {
        for record in pack.get_many(batch)? {
            bytes += record?.map_or(0, |record| touch(&record.body));
        }
    }
    Ok(bytes)
}

/// Cold gets at depth 32 against fio at the same depth over the same file.
pub(crate) fn cold(bench: &mut Bench) -> anyhow::Result<()> {
    let section = "random get, cold";
    let mut scanned = Vec::new();
    let pack = open(&bench.data.pack, Arc::new(Counting::default()))?;
    for entry in pack.keys(&[])? {
        scanned.push(entry?.key);
    }
    drop(pack);
    let engines = Arc::new(Counting::default());
    let (mut data_reads, mut page_reads, mut runs) = (0, 0, 0_u64);
    let series = {
        let mut random = Random(0x2545_f491_4f6c_dd1d);
        let fio = Fio {
            pattern: "randread",
            block_len: FIO_BLOCK_LEN,
            depth: 32,
            requests: Some(GETS),
            cached: false,
        };
        let mut ways = vec![
            Way::cold("fio randread", &bench.data.pack, || {
                let speed = fio.run(&bench.segments)?;
                Ok(Some(GETS as f64 / speed.requests_per_s()))
            }),
            Way::cold("get_many", &bench.data.pack, || {
                let numbers = random.some(GETS, scanned.len() as u64);
                let keys: Vec<Key> =
                    numbers.iter().filter_map(|&n| scanned.get(n as usize).cloned()).collect();
                let pack = open(&bench.data.pack, engines.clone())?;
                engines.take();
                let started = Instant::now();
                let bytes = get_all(&pack, &keys)?;
                let seconds = started.elapsed().as_secs_f64();
                anyhow::ensure!(bytes == GETS * SAMPLE.size, "{bytes} bytes were got");
                let (direct, cached) = engines.take();
                (data_reads, page_reads, runs) = (data_reads + direct, page_reads + cached, runs + 1);
                Ok(Some(seconds))
            }),
        ];
        bench.interleave(section, bench.rounds.max(7), &mut ways)?
    };
    bench.results.raw.insert(section.to_owned(), series);
    let results = &mut bench.results;
    results.faster(
        section,
        "cold random get, depth 32, IOPS against fio",
        Target::AtLeast(0.9),
        "get_many",
        "fio randread",
    )?;
    let gets = (runs * GETS) as f64;
    results.figure("data reads per cold get", Target::AtMost(1.0), data_reads as f64 / gets, "reads", "");
    results.figure(
        "index-page reads per cold get",
        Target::AtMost(1.0),
        page_reads as f64 / gets,
        "reads",
        "",
    );
    Ok(())
}

/// Records and their bytes of the warm gets.
const WARM_RECORDS: u64 = 1_000_000;
const WARM_LEN: usize = 1000;

/// What is in the page cache: the whole pack against plain reads of its file, and gets against LMDB.
pub(crate) fn warm(bench: &mut Bench) -> anyhow::Result<()> {
    warm_load(bench)?;
    warm_get(bench)
}

fn warm_load(bench: &mut Bench) -> anyhow::Result<()> {
    let section = "load, warm";
    let reader = Reader::PackStream;
    // Everything is read once so that it is in memory.
    read_files(&bench.segments)?;
    let series = {
        let mut ways = vec![
            Way::warm("reads of 1 MiB", || read_files(&bench.segments).map(|()| None)),
            Way::warm(reader.label(), || Ok(Some(reader.timed(&bench.data)?.0.seconds))),
        ];
        bench.interleave(section, bench.rounds.max(7), &mut ways)?
    };
    bench.results.raw.insert(section.to_owned(), series);
    let goal = "warm load against reads of 1 MiB of the same bytes";
    bench.results.faster(section, goal, Target::AtLeast(0.9), &reader.label(), "reads of 1 MiB")
}

fn read_files(files: &[std::path::PathBuf]) -> anyhow::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    for path in files {
        let file = File::open(path)?;
        let mut at = 0;
        loop {
            let got = file.read_at(&mut buffer, at)?;
            if got == 0 {
                break;
            }
            touch(&buffer[..got]);
            at += got as u64;
        }
    }
    Ok(())
}

/// A pack of numbered records.
pub(crate) fn numbered(path: &Path, records: u64, len: usize) -> anyhow::Result<()> {
    std::fs::create_dir_all(path)?;
    let storage = Arc::new(LocalStorage::open(path, LocalStorageOptions::default())?);
    let mut writer = PackWriter::create(storage, WriterOptions::default())?;
    let mut body = vec![0; len];
    for number in 0..records {
        fill(number, &mut body);
        writer.put("", &Key::id(number), &Attributes::new(), &body)?;
    }
    Ok(writer.finish(true)?)
}

/// A body that tells the number of its record.
pub(crate) fn fill(number: u64, body: &mut [u8]) {
    for (place, byte) in body.iter_mut().zip(number.to_le_bytes().iter().cycle()) {
        *place = *byte;
    }
}

fn warm_get(bench: &mut Bench) -> anyhow::Result<()> {
    let section = "random get, warm";
    let (pack_path, lmdb_path) = (bench.work.join("numbered.stook"), bench.work.join("numbered.lmdb"));
    numbered(&pack_path, WARM_RECORDS, WARM_LEN)?;
    let lmdb = Lmdb::open(&lmdb_path)?;
    lmdb.build((0..WARM_RECORDS).map(|number| {
        let mut body = vec![0; WARM_LEN];
        fill(number, &mut body);
        Ok((number.to_be_bytes().to_vec(), body))
    }))?;
    let pack = open(&pack_path, Arc::new(stook::engine::Backend::Auto))?;
    let numbers = Random(0x9e37_79b9_7f4a_7c15).some(WARM_RECORDS, WARM_RECORDS);
    let keys: Vec<Key> = numbers.iter().map(|&number| Key::id(number)).collect();
    let raw: Vec<[u8; 8]> = numbers.iter().map(|number| number.to_be_bytes()).collect();
    // Once without a clock, so that everything is in the page cache.
    read_files(&plain::segment_files(&pack_path)?)?;
    let wanted = WARM_RECORDS * WARM_LEN as u64;
    anyhow::ensure!(get_all(&pack, &keys)? == wanted && lmdb.get(raw.iter().map(|key| &key[..]))? == wanted);
    let few = keys.get(..(WARM_RECORDS / 10) as usize).context("too few keys")?;
    let series = {
        let mut ways = vec![
            Way::warm("LMDB get", || lmdb.get(raw.iter().map(|key| &key[..])).map(|_| None)),
            Way::warm("get_many", || get_all(&pack, &keys).map(|_| None)),
            Way::warm("get, one at a time (a tenth)", || {
                for key in few {
                    touch(&pack.get(key)?.context("a record is missing")?.body);
                }
                Ok(None)
            }),
        ];
        bench.interleave(section, bench.rounds, &mut ways)?
    };
    sample::remove(&pack_path)?;
    sample::remove(&lmdb_path)?;
    let seconds = |way: &str| {
        let all: Vec<f64> = series.get(way).into_iter().flatten().map(|taken| taken.seconds).collect();
        stook::report::stats::median(&all)
    };
    let (many, one) = (seconds("get_many")?, seconds("get, one at a time (a tenth)")?);
    let results = &mut bench.results;
    let per_s = |count: u64, seconds: f64| count as f64 / seconds / 1e6;
    let goal = "warm random get_many, 1 M records of 1 KB";
    results.figure(
        goal,
        Target::AtLeast(3.0),
        per_s(WARM_RECORDS, many),
        "M/s",
        format!("{BATCH} keys a call"),
    );
    results.figure("warm random get, one at a time", Target::None, per_s(WARM_RECORDS / 10, one), "M/s", "");
    results.raw.insert(section.to_owned(), series);
    results.faster(section, "warm random get_many against LMDB", Target::AtLeast(1.0), "get_many", "LMDB get")
}
