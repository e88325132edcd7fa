//! What holding small blocks takes of memory: by how much the resident memory of a fresh process grows.

use std::hint::black_box;
use std::process::Command;

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use stook::sparse::{OnDifference, SparseBuffer};

use super::work::content;
use super::{Bench, svfsc, systems};
use crate::result::Target;

/// From one block to the next.
const STRIDE: u64 = 800;

/// Who holds the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Holder {
    /// A sparse file of ours
    Stook,
    /// One of range-cache
    RangeCache,
}

/// Bytes of each block, how many, and the most that may be on top of each.
const CASES: [(u64, u64, f64); 2] = [(1, 238_310, 40.0), (256, 100_000, 256.0 * 0.12)];

/// Measures all, each in a process of its own.
pub(crate) fn run(bench: &mut Bench) -> anyhow::Result<()> {
    for (block_bytes, count, most) in CASES {
        let over = |grown: f64| (grown - (block_bytes * count) as f64) / count as f64;
        let goal =
            |who: &str| format!("memory over the data for each block of {block_bytes} B, 800 B apart: {who}");
        let note = format!("growth of what is resident with {count} blocks, {}", median_of(bench.rounds));
        let (mut ours, mut cache, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..bench.rounds {
            ours.push(over(in_child(Holder::Stook, block_bytes, count)?));
            if let Some(peer) = &bench.svfsc {
                theirs.push(over(svfsc::resident(peer, block_bytes, count, STRIDE)?));
            }
            cache.push(over(in_child(Holder::RangeCache, block_bytes, count)?));
        }
        let told = over(filled(block_bytes, count)?.memory_bytes() as f64);
        let results = &mut bench.results;
        results.figure(&goal("Stook"), Target::AtMost(most), median(&ours)?, "B", note.clone());
        results.figure(&goal("Stook"), Target::AtMost(most), told, "B", "as it tells itself");
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

fn in_child(holder: Holder, block_bytes: u64, count: u64) -> anyhow::Result<f64> {
    let name = clap::ValueEnum::to_possible_value(&holder).context("a holder without a name")?;
    let program = std::env::current_exe()?;
    let numbers = [block_bytes, count].map(|number| number.to_string());
    let mut command = Command::new(program);
    command.args(["sparse", "--hold", name.get_name()]).args(numbers);
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout)?.trim().parse().context("no number was told")
}

fn filled(block_bytes: u64, count: u64) -> anyhow::Result<SparseBuffer> {
    let (file, block) = (SparseBuffer::new(), content(block_bytes));
    for number in 0..count {
        file.write(number * STRIDE, &block, OnDifference::Error)?;
    }
    Ok(file)
}

/// In the process that was started for it: holds blocks, and prints by how much it grew.
pub(crate) fn hold(holder: Holder, block_bytes: u64, count: u64) -> anyhow::Result<()> {
    let before = resident()?;
    let after = match holder {
        Holder::Stook => {
            let file = filled(block_bytes, count)?;
            let after = resident()?;
            black_box(file.held_bytes());
            after
        }
        Holder::RangeCache => {
            let (cache, block) = (systems::cache(None), content(block_bytes));
            for number in 0..count {
                let at = (number * STRIDE) as usize;
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
    let pages: u64 = text.split_ascii_whitespace().nth(1).context("statm has two fields")?.parse()?;
    Ok(pages * rustix::param::page_size() as u64)
}
