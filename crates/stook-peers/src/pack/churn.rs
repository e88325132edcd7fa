//! Heavy churn: half of the records overwritten at random, a fifth deleted; then everything read,
//! before and after what each store has for getting its order back: `compact`, `VACUUM`, a
//! compacting copy.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use stook::pack::{
    Attributes, CompactOptions, Key, OpenOptions, Pack, PackWriter, ScanOptions, WriterOptions,
};
use stook::storage::{LocalStorage, LocalStorageOptions};
use stook_study::limit::Fio;
use stook_study::many_small_files::plain::segment_files;
use stook_study::sample;

use super::lmdb::Lmdb;
use super::{Bench, SAMPLE, Way};
use crate::result::{Series, Target};

/// Changes that are made durable together, in every store.
const TOGETHER: usize = 1_000;

/// One change of a record.
enum Change {
    Put { key: u64, len: usize },
    Delete { key: u64 },
}

/// The records as they are first put, in the order of their keys; then what happens to them.
struct Churn {
    records: u64,
    state: u64,
}

impl Churn {
    fn new() -> Self {
        Self { records: SAMPLE.files, state: 0x9e37_79b9_7f4a_7c15 }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % end
    }

    /// Numbers below the count of records, in a random order.
    fn shuffled(&mut self) -> Vec<u64> {
        let mut numbers: Vec<u64> = (0..self.records).collect();
        for at in (1..numbers.len()).rev() {
            let other = self.below(at as u64 + 1) as usize;
            numbers.swap(at, other);
        }
        numbers
    }

    /// Overwrites half of the records, each with 0.5 to 1.5 times its length, and deletes a fifth,
    /// mixed in a random order.
    fn changes(&mut self) -> Vec<Change> {
        let (half, fifth) = (self.records / 2, self.records / 5);
        let mut changes = Vec::new();
        for (number, key) in (0u64..).zip(self.shuffled().into_iter().take((half + fifth) as usize)) {
            let len = (SAMPLE.size / 2 + self.below(SAMPLE.size)) as usize;
            // The first of them are overwritten, the others deleted.
            changes.push(if number < half { Change::Put { key, len } } else { Change::Delete { key } });
        }
        for at in (1..changes.len()).rev() {
            let other = self.below(at as u64 + 1) as usize;
            changes.swap(at, other);
        }
        changes
    }
}

fn name(key: u64) -> Vec<u8> {
    format!("d{:03}/file{key:05}", key / 500).into_bytes()
}

fn body(key: u64, len: usize) -> Vec<u8> {
    let mut state = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = (0..len.div_ceil(8)).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.take(len).collect()
}

/// Where each store is.
struct Stores {
    pack: PathBuf,
    sqlite: PathBuf,
    lmdb: PathBuf,
}

/// The three that are compared, by name.
const PACK: &str = "pack";
const SQLITE: &str = "SQLite";
const LMDB: &str = "LMDB";

pub(super) fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let stores = Stores {
        pack: bench.work.join("churn.stook"),
        sqlite: bench.work.join("churn.sqlite"),
        lmdb: bench.work.join("churn.lmdb"),
    };
    for path in [&stores.pack, &stores.sqlite, &stores.lmdb] {
        sample::remove(path)?;
    }
    eprintln!("Filling three stores");
    stores.fill()?;
    let rounds = bench.rounds;
    let built = stores.measure(bench, "as built", rounds)?;
    eprintln!("Overwriting and deleting");
    let live_bytes = stores.churn()?;
    let churned = stores.measure(bench, "after churn", rounds)?;
    bench.results.figure("bytes of live bodies after churn", Target::None, live_bytes as f64, "B", "");
    eprintln!("Compacting each in its own way");
    stores.compact(bench)?;
    let compacted = stores.measure(bench, "after compaction", rounds)?;
    for (state, series) in [("as built", built), ("after churn", churned), ("after compaction", compacted)] {
        bench.results.raw.insert(section(state), series);
    }
    let before = "cold load after churn, before compaction, against the limit for the bytes on disk";
    bench.results.faster(&section("after churn"), before, Target::AtLeast(0.9), PACK, "fio")?;
    let after = "cold load after churn and compaction, against the limit for the live bytes";
    bench.results.faster(&section("after compaction"), after, Target::AtLeast(0.95), PACK, "fio")?;
    for state in ["as built", "after churn", "after compaction"] {
        for other in [SQLITE, LMDB] {
            let goal = format!("cold load {state}, against {other}");
            bench.results.faster(&section(state), &goal, Target::AtLeast(1.0), PACK, other)?;
        }
    }
    for path in [&stores.pack, &stores.sqlite, &stores.lmdb] {
        sample::remove(path)?;
    }
    Ok(())
}

fn section(state: &str) -> String {
    format!("churn, {state}")
}

impl Stores {
    fn pack_writer(&self) -> anyhow::Result<PackWriter> {
        let storage = match self.pack.exists() {
            true => LocalStorage::open(&self.pack, LocalStorageOptions::default())?,
            false => LocalStorage::create(&self.pack, LocalStorageOptions::default())?,
        };
        let is_new = segment_files(&self.pack).map_or(true, |files| files.is_empty());
        let open = if is_new { PackWriter::create } else { PackWriter::open };
        Ok(open(Arc::new(storage), WriterOptions::bulk())?)
    }

    fn fill(&self) -> anyhow::Result<()> {
        let len = SAMPLE.size as usize;
        let mut writer = self.pack_writer()?;
        let mut sqlite = rusqlite::Connection::open(&self.sqlite)?;
        sqlite.execute("CREATE TABLE records (key BLOB PRIMARY KEY, body BLOB)", ())?;
        let transaction = sqlite.transaction()?;
        for key in 0..SAMPLE.files {
            let (name, body) = (name(key), body(key, len));
            writer.put("", &Key::bytes(&name)?, &Attributes::new(), &body)?;
            transaction.execute("INSERT INTO records (key, body) VALUES (?1, ?2)", (&name, &body))?;
        }
        transaction.commit()?;
        writer.set_complete(true);
        writer.finish(true)?;
        Lmdb::open(&self.lmdb)?.build((0..SAMPLE.files).map(|key| Ok((name(key), body(key, len)))))
    }

    /// The same changes in each, as many made durable together; gives the bytes that live
    /// afterwards.
    fn churn(&self) -> anyhow::Result<u64> {
        let mut churn = Churn::new();
        let changes = churn.changes();
        let mut live = SAMPLE.bytes();
        let mut writer = self.pack_writer()?;
        let mut sqlite = rusqlite::Connection::open(&self.sqlite)?;
        let lmdb = Lmdb::open(&self.lmdb)?;
        for together in changes.chunks(TOGETHER) {
            let transaction = sqlite.transaction()?;
            for change in together {
                match change {
                    Change::Put { key, len } => {
                        let (name, body) = (name(*key), body(*key, *len));
                        live = live - SAMPLE.size + *len as u64;
                        writer.put("", &Key::bytes(&name)?, &Attributes::new(), &body)?;
                        transaction.execute("UPDATE records SET body = ?2 WHERE key = ?1", (&name, &body))?;
                    }
                    Change::Delete { key } => {
                        live -= SAMPLE.size;
                        ensure!(writer.delete(&Key::bytes(name(*key))?)?, "record {key} is not in the pack");
                        transaction.execute("DELETE FROM records WHERE key = ?1", (name(*key),))?;
                    }
                }
            }
            transaction.commit()?;
            writer.sync()?;
            lmdb.change(together.iter().map(|change| match change {
                Change::Put { key, len } => (name(*key), Some(body(*key, *len))),
                Change::Delete { key } => (name(*key), None),
            }))?;
        }
        writer.finish(true)?;
        Ok(live)
    }

    fn compact(&self, bench: &mut Bench) -> anyhow::Result<()> {
        let started = std::time::Instant::now();
        let mut writer = self.pack_writer()?;
        let done = writer.compact(&CompactOptions::default(), &mut |_| true)?;
        writer.finish(true)?;
        let seconds = started.elapsed().as_secs_f64();
        let note = format!("{} bytes became {}, {} steps", done.before_bytes, done.after_bytes, done.steps);
        bench.results.figure("compact", Target::None, seconds, "s", note);
        let started = std::time::Instant::now();
        rusqlite::Connection::open(&self.sqlite)?.execute("VACUUM", ())?;
        bench.results.figure("SQLite VACUUM", Target::None, started.elapsed().as_secs_f64(), "s", "");
        let started = std::time::Instant::now();
        let copy = self.lmdb.with_extension("copy");
        sample::remove(&copy)?;
        Lmdb::open(&self.lmdb)?.copy_compacted(&copy)?;
        sample::remove(&self.lmdb)?;
        std::fs::rename(&copy, &self.lmdb)?;
        bench.results.figure("LMDB compacting copy", Target::None, started.elapsed().as_secs_f64(), "s", "");
        Ok(())
    }

    /// Reads all records of each, cold, in turn with fio over the segments.
    fn measure(&self, bench: &Bench, state: &str, rounds: usize) -> anyhow::Result<Series> {
        let segments = segment_files(&self.pack)?;
        let bytes = segments.iter().map(|file| Ok(file.metadata()?.len())).sum::<std::io::Result<u64>>()?;
        let expected = scan(&self.pack)?;
        let check = move |what: &str, found: u64| {
            ensure!(found == expected, "{what} returned {found} bytes, the pack {expected}");
            Ok(None)
        };
        let sqlite = self.sqlite.clone();
        let mut ways = vec![
            Way::cold("fio", &self.pack, || Ok(Some(Fio::SEQUENTIAL.run(&segments)?.seconds_for(bytes)))),
            Way::cold(PACK, &self.pack, || check(PACK, scan(&self.pack)?)),
            Way::cold(SQLITE, &self.sqlite, || check(SQLITE, select(&sqlite)?)),
            Way::cold(LMDB, &self.lmdb, || check(LMDB, Lmdb::open(&self.lmdb)?.read()?)),
            Way::cold(PARALLEL, &self.pack, || check(PARALLEL, scan_in_two(&self.pack)?)),
        ];
        bench.interleave(&section(state), rounds, &mut ways)
    }
}

/// The pack in two parts, by two threads.
const PARALLEL: &str = "pack, two threads";

fn scan(path: &Path) -> anyhow::Result<u64> {
    let pack = Pack::open_path(path, OpenOptions::default())?;
    let mut scan = pack.scan(ScanOptions::default());
    let mut bytes = 0;
    while let Some(record) = scan.next()? {
        bytes += black_box(record.body().context("no record is long")?).len() as u64;
    }
    Ok(bytes)
}

fn scan_in_two(path: &Path) -> anyhow::Result<u64> {
    let pack = Pack::open_path(path, OpenOptions::default())?;
    let splits = pack.splits(2, &[])?;
    std::thread::scope(|scope| {
        let parts: Vec<_> = splits
            .iter()
            .map(|split| {
                let pack = &pack;
                scope.spawn(move || -> anyhow::Result<u64> {
                    let mut scan = pack.scan_split(split, ScanOptions::default())?;
                    let mut bytes = 0;
                    while let Some(record) = scan.next()? {
                        bytes += black_box(record.body().context("no record is long")?).len() as u64;
                    }
                    Ok(bytes)
                })
            })
            .collect();
        parts.into_iter().map(|part| part.join().map_err(|_| anyhow::anyhow!("a thread died"))?).sum()
    })
}

fn select(path: &Path) -> anyhow::Result<u64> {
    let connection = rusqlite::Connection::open(path)?;
    let mut select = connection.prepare("SELECT key, body FROM records")?;
    let mut rows = select.query(())?;
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        bytes += super::stores::touch(row.get_ref(1)?.as_blob()?);
    }
    Ok(bytes)
}
