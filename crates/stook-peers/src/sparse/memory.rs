//! What holding small blocks takes of memory: by how much the memory of a fresh process grows,
//! without pages of files.

use std::hint::black_box;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use stook::sparse::{OnDifference, SparseBuffer};

use super::work::{SCATTER, content};
use super::{Bench, svfsc, systems};
use crate::result::Target;

/// From one block to the next.
pub(crate) const STRIDE: u64 = 800;

/// Who holds the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Holder {
    /// A sparse file of ours
    Stook,
    /// One of range-cache
    RangeCache,
}

/// Blocks that are held.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    /// Bytes of each.
    pub(crate) block_bytes: u64,
    /// How many; it has no divisor in common with `step`.
    pub(crate) count: u64,
    /// By how many blocks each write follows the previous one, modulo the count: 1 is from first to
    /// last.
    pub(crate) step: u64,
}

/// What is measured, and the most that may be on top of each block.
const CASES: [(Case, f64); 3] = [
    (Case { block_bytes: 1, count: 238_310, step: 1 }, 40.0),
    (Case { block_bytes: 256, count: 100_000, step: 1 }, 256.0 * 0.12),
    (Case { block_bytes: 256, count: 100_000, step: SCATTER }, 256.0 * 0.12),
];

impl Case {
    fn positions(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |number| number * self.step % self.count * STRIDE)
    }

    fn name(&self) -> String {
        let order = if self.step == 1 { "from first to last" } else { "in no order" };
        format!("{} B, 800 B apart, {order}", self.block_bytes)
    }
}

/// Measures all, each in a process of its own.
pub(crate) fn run(bench: &mut Bench) -> anyhow::Result<()> {
    for (case, most) in CASES {
        let data = case.block_bytes * case.count;
        let over = |grown: f64| (grown - data as f64) / case.count as f64;
        let goal = |who: &str| format!("memory over the data for each block of {}: {who}", case.name());
        let note = format!("growth of the process with {} blocks, {}", case.count, median_of(bench.rounds));
        let (mut ours, mut cache, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..bench.rounds {
            ours.push(over(in_child(Holder::Stook, &case)?));
            if let Some(peer) = &bench.svfsc {
                theirs.push(over(svfsc::resident(peer, &case)?));
            }
            cache.push(over(in_child(Holder::RangeCache, &case)?));
        }
        let reported = over(filled(&case)?.memory_bytes() as f64);
        let results = &mut bench.results;
        results.figure(&goal("Stook"), Target::AtMost(most), median(&ours)?, "B", note.clone());
        results.figure(&goal("Stook"), Target::AtMost(most), reported, "B", "as it reports itself");
        if !theirs.is_empty() {
            results.figure(&goal("svfsc"), Target::None, median(&theirs)?, "B", note.clone());
        }
        results.figure(&goal("range-cache"), Target::None, median(&cache)?, "B", note);
    }
    Ok(())
}

fn median(values: &[f64]) -> anyhow::Result<f64> {
    Ok(stook::report::stats::median(values)?)
}

fn median_of(rounds: usize) -> String {
    format!("median of {rounds}")
}

fn in_child(holder: Holder, case: &Case) -> anyhow::Result<f64> {
    let name = clap::ValueEnum::to_possible_value(&holder).context("a holder without a name")?;
    let program = std::env::current_exe()?;
    let numbers = [case.block_bytes, case.count, case.step].map(|number| number.to_string());
    let mut command = Command::new(program);
    command.args(["sparse", "--hold", name.get_name()]).args(numbers);
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout)?.trim().parse().context("no number was reported")
}

fn filled(case: &Case) -> anyhow::Result<SparseBuffer> {
    let (file, block) = (SparseBuffer::new(), content(case.block_bytes));
    for at in case.positions() {
        file.write(at, &block, OnDifference::Error)?;
    }
    Ok(file)
}

/// In the process that was started for it: holds blocks, and prints by how much it grew.
pub(crate) fn hold(holder: Holder, case: &Case) -> anyhow::Result<()> {
    let before = resident()?;
    let after = match holder {
        Holder::Stook => {
            let file = filled(case)?;
            let after = resident()?;
            black_box(file.held_bytes());
            after
        }
        Holder::RangeCache => {
            let (cache, block) = (systems::cache(None), content(case.block_bytes));
            for at in case.positions() {
                let at = at as usize;
                cache.insert(0, at..at + block.len(), Bytes::copy_from_slice(&block))?;
            }
            let after = resident()?;
            black_box(cache.snapshot());
            after
        }
    };
    println!("{}", after.saturating_sub(before));
    Ok(())
}

fn resident() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: Vec<u64> = text.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    // The file-backed part of resident memory: the program itself, which grows as it runs.
    let [_, resident, of_files, ..] = pages[..] else { bail!("statm has {} fields", pages.len()) };
    Ok((resident - of_files) * rustix::param::page_size() as u64)
}
