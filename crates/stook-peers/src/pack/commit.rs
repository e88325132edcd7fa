//! Many threads that each wait until their record is on the medium: group commit against SQLite and
//! LMDB.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};
use stook::pack::{Attributes, Key, PackWriter, SharedWriter, WriterOptions};
use stook::report::stats;
use stook::storage::{LocalStorage, LocalStorageOptions};
use stook_study::sample;

use super::lmdb::Lmdb;
use super::random::fill;
use super::{Bench, Way};
use crate::result::Target;

/// Threads that put and wait, one record at a time.
const THREADS: u64 = 32;
/// Bytes of a record.
const LEN: usize = 1000;
/// How long each way runs.
const DURATION: Duration = Duration::from_secs(3);
/// Results are seconds for this many records.
const RECORDS: f64 = 10_000.0;
/// How long a connection of SQLite waits for the others before it gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every thread puts records with numbers of its own until time is up; seconds for [`RECORDS`].
fn put_from_threads<P>(thread: impl Fn() -> anyhow::Result<P> + Sync) -> anyhow::Result<Option<f64>>
where
    P: FnMut(u64, &[u8]) -> anyhow::Result<()>,
{
    let count = AtomicU64::new(0);
    let started = Instant::now();
    let run = |number: u64| {
        let mut put = thread()?;
        let mut body = vec![0; LEN];
        let mut key = number;
        while started.elapsed() < DURATION {
            fill(key, &mut body);
            put(key, &body)?;
            key += THREADS;
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok::<_, anyhow::Error>(())
    };
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || run(number))).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| anyhow::anyhow!("a thread that puts panicked"))?
        })
    })?;
    let records = count.into_inner();
    anyhow::ensure!(records > 0, "nothing was put");
    Ok(Some(started.elapsed().as_secs_f64() / records as f64 * RECORDS))
}

fn pack(path: &Path) -> anyhow::Result<Option<f64>> {
    std::fs::create_dir_all(path)?;
    let storage = Arc::new(LocalStorage::open(path, LocalStorageOptions::default())?);
    let writer = SharedWriter::new(PackWriter::create(storage, WriterOptions::default())?);
    let seconds = put_from_threads(|| {
        let writer = writer.clone();
        Ok(move |key, body: &[u8]| {
            writer.put("", &Key::id(key), &Attributes::new(), body)?;
            Ok(())
        })
    })?;
    writer.finish()?.finish(true)?;
    Ok(seconds)
}

/// One insert a transaction, which waits for its turn inside of SQLite.
fn sqlite(path: &Path) -> anyhow::Result<Option<f64>> {
    std::fs::create_dir_all(path)?;
    let connect = || {
        let connection = Connection::open(path.join("records.sqlite"))?;
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok::<_, anyhow::Error>(connection)
    };
    connect()?.execute("CREATE TABLE records (key INTEGER PRIMARY KEY, body BLOB)", ())?;
    put_from_threads(|| {
        let mut connection = connect()?;
        Ok(move |key: u64, body: &[u8]| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction
                .prepare_cached("INSERT INTO records VALUES (?1, ?2)")?
                .execute((key.cast_signed(), body))?;
            Ok(transaction.commit()?)
        })
    })
}

fn lmdb(path: &Path) -> anyhow::Result<Option<f64>> {
    let store = Lmdb::open(path)?;
    let put = store.putter()?;
    put_from_threads(|| Ok(|key: u64, body: &[u8]| put(&key.to_be_bytes(), body)))
}

/// Measures all of them in turn.
pub(crate) fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let section = "durable puts, 32 threads";
    let path = bench.work.join("commit");
    let fresh = |put: fn(&Path) -> anyhow::Result<Option<f64>>| {
        sample::remove(&path)?;
        put(&path)
    };
    let series = {
        let mut ways = vec![
            Way::warm("SharedWriter", || fresh(pack)),
            Way::warm("SQLite, WAL, FULL", || fresh(sqlite)),
            Way::warm("LMDB", || fresh(lmdb)),
        ];
        bench.interleave(section, bench.rounds, &mut ways)?
    };
    sample::remove(&path)?;
    let results = &mut bench.results;
    for (way, taken) in &series {
        let per_s: Vec<f64> = taken.iter().map(|taken| RECORDS / taken.seconds).collect();
        let median = stats::median(&per_s)?;
        let note = format!("records of {LEN} bytes, {} s a round", DURATION.as_secs());
        results.figure(&format!("{section}: {way}"), Target::None, median, "records/s", note);
    }
    results.raw.insert(section.to_owned(), series);
    for theirs in ["SQLite, WAL, FULL", "LMDB"] {
        let goal = format!("durable puts a second, 32 threads, against {theirs}");
        results.faster(section, &goal, Target::AtLeast(2.0), "SharedWriter", theirs)?;
    }
    Ok(())
}
