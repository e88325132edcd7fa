//! Many small files and one large one, copied by each program in turn: cold, and with the sync of
//! the destination's file system, whether the program syncs itself or not.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use stook::report::stats;
use stook_study::sample::{self, Sample};

use super::tools::Copier;
use super::{Bench, same};
use crate::bench::fio;
use crate::pack::{Way, collect, interleave};
use crate::result::{Results, Target};
use crate::unpack::ended;

/// ext4 passes over inodes that were freed within the last minute, one by one: that would be
/// counted as creating files (`recently_deleted` in fs/ext4/ialloc.c). So the copies of a round
/// stay until its end, and the next one begins when theirs are old.
const RECENTLY_FREED: Duration = Duration::from_secs(61);

/// What the way that hashes is measured against.
struct Goals {
    best_peer: f64,
    limit: Option<f64>,
}

/// Copies the small files.
pub(super) fn small(bench: &Bench<'_>, results: &mut Results) -> anyhow::Result<()> {
    row(bench, results, bench.small(), &Goals { best_peer: 1.2, limit: None })
}

/// Copies the large one.
pub(super) fn large(bench: &Bench<'_>, results: &mut Results) -> anyhow::Result<()> {
    row(bench, results, bench.large(), &Goals { best_peer: 1.5, limit: Some(1.0) })
}

fn row(
    bench: &Bench<'_>,
    results: &mut Results,
    (section, sample): (String, Sample),
    goals: &Goals,
) -> anyhow::Result<()> {
    eprintln!("Making {section}");
    let row = Row {
        bench,
        sample,
        tree: sample.tree(bench.work, || Ok(()))?,
        targets: bench.work.join("targets"),
        ways: bench.copiers().len() + usize::from(goals.limit.is_some()),
        measured: Cell::new(0),
    };
    row.empty()?;
    let mut ways: Vec<Way<'_>> = bench.copiers().into_iter().map(|copier| row.way(copier)).collect();
    if goals.limit.is_some() {
        ways.push(
            Way::cold(fio::READING_AND_WRITING, &row.tree, || row.limit().map(Some)).then(|| row.end()),
        );
    }
    let series = interleave(&bench.cold, &section, bench.rounds(), &mut ways)?;
    drop(ways);
    results.raw.insert(section.clone(), series);
    sample::remove(&row.targets)?;
    compare(bench, results, &section, goals)
}

/// One sample, and where its copies go.
struct Row<'a> {
    bench: &'a Bench<'a>,
    sample: Sample,
    tree: PathBuf,
    /// A folder for each measurement.
    targets: PathBuf,
    /// Measurements of a round.
    ways: usize,
    /// All that were made.
    measured: Cell<usize>,
}

impl Row<'_> {
    fn way(&self, copier: Copier) -> Way<'_> {
        let copied = Way::cold(copier.name(), &self.tree, move || self.copy(copier).map(Some));
        copied.then(move || {
            same::compare(copier, &self.tree, &self.target())?;
            self.end()
        })
    }

    fn target(&self) -> PathBuf {
        self.targets.join(self.measured.get().to_string())
    }

    /// Seconds until all is on the medium.
    fn copy(&self, copier: Copier) -> anyhow::Result<f64> {
        let target = self.target();
        if copier.wants_destination() {
            std::fs::create_dir(&target)?;
        }
        let mut command = self.bench.copiers.command(copier, &self.tree, &target)?;
        let started = Instant::now();
        ended(&mut command)?;
        sample::sync(&self.targets)?;
        Ok(started.elapsed().as_secs_f64())
    }

    /// Seconds that fio takes for reading the file and, at the same time, writing as much.
    fn limit(&self) -> anyhow::Result<f64> {
        let mut names = Vec::new();
        collect(&self.tree, "", &mut names)?;
        let name = names.first().context("the tree has no file")?;
        let seconds = fio::read_and_write_s(&self.tree.join(name), &self.target(), self.sample.size)?;
        let written = std::fs::metadata(self.target())?.len();
        ensure!(written == self.sample.size, "fio wrote {written} bytes");
        Ok(seconds)
    }

    /// After a measurement.
    fn end(&self) -> anyhow::Result<()> {
        let measured = self.measured.get() + 1;
        self.measured.set(measured);
        let is_many = self.sample.files > 1;
        if is_many && !measured.is_multiple_of(self.ways) {
            return Ok(());
        }
        self.empty()?;
        if is_many && measured < self.ways * self.bench.rounds() {
            std::thread::sleep(RECENTLY_FREED);
        }
        Ok(())
    }

    fn empty(&self) -> anyhow::Result<()> {
        sample::remove(&self.targets)?;
        std::fs::create_dir(&self.targets)?;
        sample::sync(self.bench.work)
    }
}

fn compare(bench: &Bench<'_>, results: &mut Results, section: &str, goals: &Goals) -> anyhow::Result<()> {
    let peers: Vec<Copier> = bench.copiers().into_iter().filter(|copier| !copier.is_ours()).collect();
    let mut best: Option<(f64, Copier)> = None;
    for &peer in peers.iter().filter(|peer| !peer.hashes()) {
        let seconds = median_s(results, section, peer)?;
        if best.is_none_or(|(least, _)| seconds < least) {
            best = Some((seconds, peer));
        }
    }
    let (_, best) = best.context("there is no peer")?;
    let ours = Copier::StookXxh3.name();
    let goal = format!("{section}: with XXH3, against the fastest peer without a hash");
    results.faster(section, &goal, Target::AtLeast(goals.best_peer), ours, best.name())?;
    if let Some(least) = goals.limit {
        let goal = format!("{section}: with XXH3, against {}", fio::READING_AND_WRITING);
        results.faster(section, &goal, Target::AtLeast(least), ours, fio::READING_AND_WRITING)?;
    }
    for peer in peers {
        let ours = if peer.hashes() { Copier::StookSha256 } else { Copier::Stook };
        let goal = format!("{section}: {} against {}", ours.name(), peer.name());
        results.faster(section, &goal, Target::None, ours.name(), peer.name())?;
    }
    Ok(())
}

fn median_s(results: &Results, section: &str, copier: Copier) -> anyhow::Result<f64> {
    let taken = results.raw.get(section).and_then(|series| series.get(copier.name()));
    let seconds: Vec<f64> = taken.into_iter().flatten().map(|taken| taken.seconds).collect();
    Ok(stats::median(&seconds)?)
}
