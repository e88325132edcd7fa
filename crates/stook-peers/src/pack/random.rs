//! Gets by key in random order, cold, and loading what is in the page cache.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use stook::engine::EngineFactory;
use stook::pack::{Attributes, Key, OpenOptions, Pack, PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions};
use stook_study::limit::Fio;
use stook_study::many_small_files::readers::Reader;

use super::counting::Counting;
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
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// `count` different numbers below `end`, in random order.
    pub(crate) fn some(&mut self, count: u64, end: u64) -> Vec<u64> {
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
            time_s: None,
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

/// What is in the page cache: the whole pack against plain reads of its file.
pub(crate) fn warm_load(bench: &mut Bench) -> anyhow::Result<()> {
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

/// Reads files to their end.
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

/// A body that contains the number of its record.
pub(crate) fn fill(number: u64, body: &mut [u8]) {
    for (place, byte) in body.iter_mut().zip(number.to_le_bytes().iter().cycle()) {
        *place = *byte;
    }
}
