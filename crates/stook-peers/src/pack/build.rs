//! Building a pack from cold files, final sync included, against merely reading them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::Context as _;
use stook::pack::tree::{Delete, Grouping, PackTree};
use stook::pack::{PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions};
use stook::walk::{Decision, WalkOptions};
use stook_study::sample;

use super::load::best_readers;
use super::{Bench, SAMPLE, Way};
use crate::bench::fio;
use crate::result::Target;

/// Measures it.
pub(crate) fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let section = "build";
    let reader = best_readers(bench)?;
    let pack = bench.work.join("built.stook");
    let written = bench.work.join("written-by-fio");
    let name = "pack, final sync included";
    let series = {
        let tree = bench.data.tree.clone();
        let mut ways = vec![
            bench.reader_way(reader),
            Way::cold(name, &tree, || {
                let started = std::time::Instant::now();
                build(&tree, &pack)?;
                let seconds = started.elapsed().as_secs_f64();
                sample::remove(&pack)?;
                Ok(Some(seconds))
            }),
            Way::cold(FIO_READS, &bench.data.pack, || Ok(Some(fio(&bench.segments, None)?))),
            Way::cold(FIO_BOTH, &bench.data.pack, || Ok(Some(fio(&bench.segments, Some(&written))?))),
        ];
        bench.interleave(section, bench.rounds, &mut ways)?
    };
    bench.results.raw.insert(section.to_owned(), series);
    let goal = "time to build from cold files, against merely reading them";
    bench.results.longer(section, goal, Target::AtMost(1.25), name, &reader.label())?;
    let goal = "what the device itself needs for reading and writing these bytes, against reading them";
    bench.results.longer(section, goal, Target::None, FIO_BOTH, FIO_READS)
}

const FIO_READS: &str = "fio, as many random reads of a record";
const FIO_BOTH: &str = "fio, these reads and the writes of a pack at once";

/// Seconds that fio takes for 50,000 random reads at the depth of a walk and, at the same time, for
/// writing the same bytes as a pack is written, the final sync included.
fn fio(files: &[PathBuf], written: Option<&Path>) -> anyhow::Result<f64> {
    let file = files.first().context("the pack has no segment")?;
    let mut command = Command::new("fio");
    command
        .args(["--output-format=json", "--ioengine=io_uring", "--direct=1", "--thread", "--invalidate=0"])
        .args(["--name=reads", "--rw=randread", "--bs=20480", "--norandommap", "--randrepeat=0"])
        .args(["--iodepth=128", &format!("--number_ios={}", SAMPLE.files)])
        .arg(format!("--filename={}", file.display()));
    if let Some(written) = written {
        command
            .args(["--name=writes", "--rw=write", "--bs=256k", "--iodepth=16", "--end_fsync=1"])
            .args(["--fallocate=none", &format!("--size={}", SAMPLE.bytes())])
            .arg(format!("--filename={}", written.display()));
    }
    let seconds = fio::longest_job_s(&mut command)?;
    if let Some(written) = written {
        std::fs::remove_file(written)?;
    }
    Ok(seconds)
}

/// What `stook pack` does.
fn build(tree: &Path, path: &Path) -> anyhow::Result<()> {
    let storage = Arc::new(LocalStorage::create(path, LocalStorageOptions::default())?);
    let mut writer = PackWriter::create(storage, WriterOptions::bulk())?;
    let tree = PackTree {
        roots: vec![tree.to_path_buf()],
        grouping: Grouping::Default,
        with_owner: true,
        xattrs: true,
        threads: WalkOptions::default().threads,
        select: Box::new(|_, _| Decision::Take),
        own: None,
        delete: Delete::Nothing,
        checksum: false,
        keeps_moved: false,
        attributes: None,
    };
    let summary = tree.run(Some(&mut writer), None, &mut |_, _| true)?;
    anyhow::ensure!(summary.failures.is_empty(), "{} files were not packed", summary.failures.len());
    writer.set_complete(true);
    Ok(writer.finish(true)?)
}
