//! Loading everything, cold.

use stook_study::many_small_files::readers::{LARGE_BUFFER_LEN, Reader};

use super::stores::Store;
use super::{Bench, SAMPLE, Way, collect};
use crate::result::{Results, Target};

/// Pairs for the comparison with the device, whose speed drifts.
const LIMIT_ROUNDS: usize = 11;

const STREAM: Reader = Reader::PackStream;
const MEMORY: Reader = Reader::PackMemory;

/// The pack against fio over the same file, and fio against itself.
pub(crate) fn limit(bench: &mut Bench) -> anyhow::Result<()> {
    let section = "load against the limit";
    let rounds = bench.rounds.max(LIMIT_ROUNDS);
    let series = {
        let mut ways = vec![
            bench.limit_way("fio, first"),
            bench.reader_way(STREAM),
            bench.limit_way("fio, second"),
            bench.reader_way(MEMORY),
        ];
        bench.interleave(section, rounds, &mut ways)?
    };
    bench.results.raw.insert(section.to_owned(), series);
    let results = &mut bench.results;
    results.faster(
        section,
        "fio against itself: the tolerance",
        Target::None,
        "fio, second",
        "fio, first",
    )?;
    let (stream, memory) = (STREAM.label(), MEMORY.label());
    results.faster(
        section,
        "cold load, streaming, against the limit",
        Target::AtLeast(1.0),
        &stream,
        "fio, first",
    )?;
    results.faster(
        section,
        "cold load, kept in memory, against the limit",
        Target::AtLeast(0.95),
        &memory,
        "fio, second",
    )
}

/// The pack against everything else that keeps the same records.
pub(crate) fn peers(bench: &mut Bench) -> anyhow::Result<()> {
    let section = "load against others";
    let mut names = Vec::new();
    collect(&bench.data.tree, "", &mut names)?;
    names.sort();
    for store in Store::ALL {
        eprintln!("Building for {}", store.name());
        if matches!(store, Store::TarPython | Store::Sqlite | Store::Lmdb | Store::Redb) {
            // What an interrupted run left.
            stook_study::sample::remove(&store.path(&bench.work, &bench.data.tree))?;
        }
        store.build(&bench.work, &bench.data.tree, &names)?;
    }
    stook_study::many_small_files::plain::write(&bench.data.tree, &bench.data.plain, || Ok(()))?;
    let parallel = best_readers(bench)?;
    let one = Reader::Files { threads: 1 };
    let series = {
        let mut ways = vec![bench.reader_way(STREAM), bench.reader_way(parallel), bench.reader_way(MEMORY)];
        ways.push(bench.reader_way(Reader::Plain { buffer_bytes: LARGE_BUFFER_LEN }));
        for store in Store::ALL {
            let (work, tree) = (bench.work.clone(), bench.data.tree.clone());
            let path = store.path(&work, &tree);
            ways.push(Way::cold(store.name(), &path, move || {
                let bytes = store.read(&work, &tree)?;
                anyhow::ensure!(
                    bytes == SAMPLE.bytes() || store == Store::TarOfFiles,
                    "{bytes} bytes were read"
                );
                Ok(None)
            }));
        }
        ways.push(bench.reader_way(one));
        bench.interleave(section, bench.rounds, &mut ways)?
    };
    bench.results.raw.insert(section.to_owned(), series);
    for store in Store::ALL {
        if store != Store::TarOfFiles {
            stook_study::sample::remove(&store.path(&bench.work, &bench.data.tree))?;
        }
    }
    ratios(&mut bench.results, section, &one.label(), &parallel.label())
}

/// How the pack compares to the others.
fn ratios(results: &mut Results, section: &str, one: &str, parallel: &str) -> anyhow::Result<()> {
    let (stream, memory) = (STREAM.label(), MEMORY.label());
    results.faster(section, "streaming against files, one reader", Target::AtLeast(10.0), &stream, one)?;
    results.faster(section, "in memory against files, one reader", Target::AtLeast(10.0), &memory, one)?;
    results.faster(
        section,
        "streaming against the best parallel reader",
        Target::AtLeast(1.5),
        &stream,
        parallel,
    )?;
    results.faster(
        section,
        "in memory against the best parallel reader",
        Target::AtLeast(1.5),
        &memory,
        parallel,
    )?;
    for store in Store::ALL {
        let target = match store {
            Store::Sqlite | Store::Lmdb => Target::AtLeast(1.0),
            _ => Target::None,
        };
        results.faster(
            section,
            &format!("streaming against {}", store.name()),
            target,
            &stream,
            store.name(),
        )?;
    }
    Ok(())
}

/// The number of readers that is fastest, from two cold runs each.
pub(crate) fn best_readers(bench: &Bench) -> anyhow::Result<Reader> {
    let mut best: Option<(f64, Reader)> = None;
    for threads in [8, 32, 64, 128] {
        let reader = Reader::Files { threads };
        let mut ways = vec![bench.reader_way(reader)];
        let series = bench.interleave("best number of readers", 2, &mut ways)?;
        let least = series.values().flatten().map(|taken| taken.seconds).fold(f64::INFINITY, f64::min);
        if best.is_none_or(|(seconds, _)| least < seconds) {
            best = Some((least, reader));
        }
    }
    best.map(|(_, reader)| reader).ok_or_else(|| anyhow::anyhow!("no reader was tried"))
}
