//! What packs cost beside their bodies: bytes on disk, time to open, memory, and how all that
//! grows.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Instant;

use stook::pack::{OpenOptions, Pack, ScanOptions};
use stook::report::stats;
use stook_study::cold::Next;
use stook_study::sample;

use super::random::numbered;
use super::{Bench, SAMPLE};
use crate::result::Target;

/// Bytes of the bodies of small records.
const SMALL_LEN: usize = 40;
/// How many of them: each is ten times the one before. The last is 10 GB.
const SMALL: [u64; 3] = [1_000_000, 10_000_000, 100_000_000];

/// Measures it.
pub(crate) fn run(bench: &mut Bench) -> anyhow::Result<()> {
    overhead(bench)?;
    growth(bench)
}

/// Bytes on disk of everything in a directory.
fn disk_bytes(directory: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        bytes += entry?.metadata()?.blocks() * 512;
    }
    Ok(bytes)
}

fn overhead(bench: &mut Bench) -> anyhow::Result<()> {
    let pack = Pack::open_path(&bench.data.pack, OpenOptions::default())?;
    let mut scan = pack.scan(ScanOptions::default());
    let (mut records, mut own) = (0_u64, 0_u64);
    while let Some(record) = scan.next()? {
        let key = record.key().map_or(0, |key| key.sort_form().len() - 1);
        own += (key + record.attributes().len()) as u64 + SAMPLE.size;
        records += 1;
    }
    let over = disk_bytes(&bench.data.pack)?.saturating_sub(own) as f64 / records as f64;
    let goal = "disk overhead per record: all but body, key and attributes";
    bench.results.figure(goal, Target::AtMost(64.0), over, "bytes", "50,000 records of 20,000 bytes");
    Ok(())
}

/// Anonymous memory of this process, bytes.
fn anonymous_bytes() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let kib = text.lines().find_map(|line| {
        line.strip_prefix("RssAnon:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    kib.map(|kib| kib * 1024)
        .ok_or_else(|| anyhow::anyhow!("the system does not report how much memory is used"))
}

fn growth(bench: &mut Bench) -> anyhow::Result<()> {
    let mut per_record = Vec::new();
    for records in SMALL {
        let path = bench.work.join("small.stook");
        let paths = [path.clone()];
        let started = Instant::now();
        numbered(&path, records, SMALL_LEN)?;
        let build_s = started.elapsed().as_secs_f64();
        let mut loads = Vec::new();
        let mut opens = Vec::new();
        for _ in 0..3 {
            bench.cold.prepare(Next { paths: &paths, memory_bytes: 4 << 30 })?;
            let started = Instant::now();
            let pack = Pack::open_path(&path, OpenOptions::default())?;
            opens.push(started.elapsed().as_secs_f64());
            let mut scan = pack.scan(ScanOptions::default());
            let mut count = 0;
            while scan.next()?.is_some() {
                count += 1;
            }
            loads.push(started.elapsed().as_secs_f64());
            anyhow::ensure!(count == records, "{count} of {records} records were read");
        }
        let (load_s, cold_open_s) = (stats::median(&loads)?, stats::median(&opens)?);
        eprintln!(
            "{records} small records: build {build_s:.2} s, load {load_s:.2} s, cold open {:.1} ms",
            cold_open_s * 1e3
        );
        per_record.push((build_s / records as f64, load_s / records as f64));
        if records > SMALL[0] {
            opened(bench, &path, records, cold_open_s)?;
        }
        let over = disk_bytes(&path)? as f64 / records as f64 - SMALL_LEN as f64 - 8.0;
        let note = format!("{records} records of {SMALL_LEN} bytes");
        bench.results.figure("disk overhead per small record", Target::AtMost(64.0), over, "bytes", note);
        sample::remove(&path)?;
    }
    for (pair, sizes) in per_record.windows(2).zip(["10 M against 1 M", "100 M against 10 M"]) {
        let [(small_build, small_load), (large_build, large_load)] = pair else { continue };
        for (what, small, large) in
            [("build", small_build, large_build), ("load, cold,", small_load, large_load)]
        {
            let note = format!("{:.2} and {:.2} µs per record", small * 1e6, large * 1e6);
            let goal = format!("time to {what} per record, {sizes}");
            bench.results.figure(&goal, Target::AtMost(1.1), large / small, "", note);
        }
    }
    Ok(())
}

/// Opening a large pack, warm, and the memory that it takes when every page of its index was looked
/// at.
fn opened(bench: &mut Bench, path: &Path, records: u64, cold_open_s: f64) -> anyhow::Result<()> {
    let mut opens = Vec::new();
    for _ in 0..9 {
        let started = Instant::now();
        let pack = Pack::open_path(path, OpenOptions::default())?;
        opens.push(started.elapsed().as_secs_f64() * 1e3);
        drop(pack);
    }
    let before = anonymous_bytes()?;
    let pack = Pack::open_path(path, OpenOptions::default())?;
    let after_open = anonymous_bytes()?.saturating_sub(before);
    let keys = pack.keys(&[])?.try_fold(0_u64, |count, entry| entry.map(|_| count + 1))?;
    anyhow::ensure!(keys == records, "{keys} of {records} keys");
    let touched = anonymous_bytes()?.saturating_sub(before);
    let index: u64 = pack.segments().iter().map(|segment| segment.index_memory_bytes).sum();
    let results = &mut bench.results;
    let millions = records / 1_000_000;
    let goal = format!("opening a pack of {millions} M records, warm");
    // The targets: 10 million in 10 ms, 100 million in 50.
    let target = Target::AtMost(if millions > 10 { 50.0 } else { 10.0 });
    results.figure(&goal, target, stats::median(&opens)?, "ms", format!("cold {:.1} ms", cold_open_s * 1e3));
    let note = format!(
        "{:.2} right after opening; the index says {:.2}",
        after_open as f64 / records as f64,
        index as f64 / records as f64
    );
    let goal = format!("anonymous memory per record of {millions} M, all index pages looked at");
    results.figure(&goal, Target::AtMost(32.0), touched as f64 / records as f64, "bytes", note);
    Ok(())
}
