//! The most memory that a program had, as the kernel counts it for its parent.
//!
//! A process starts with the peak of the one that it was forked from. So the program is started by
//! a small process of its own: this one has touched much before it measures.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use stook_study::cold::Next;
use stook_study::sample;

use super::tools::Copier;
use super::{Bench, same};
use crate::result::{Results, Target};
use crate::unpack::ended;

/// What may be used whatever is copied. On top of it may be 100 B for each file in flight: how many
/// these are is not counted, so the target is held without them.
const MOST_MIB: f64 = 64.0;
/// Runs of each, of which the largest counts.
const RUNS: usize = 3;

/// Flags of the hidden command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// In the process that was started for it: runs a program to its end, and prints its peak in KiB.
pub(crate) fn report(args: &Args) -> anyhow::Result<()> {
    let (program, arguments) = args.command.split_first().context("no program was named")?;
    ended(Command::new(program).args(arguments))?;
    // It is the only child that was waited for.
    println!("{}", getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss());
    Ok(())
}

/// Measures copies of many files, and of a large one.
pub(super) fn run(bench: &Bench<'_>, results: &mut Results) -> anyhow::Result<()> {
    let target = bench.work.join("copied");
    for (section, sample) in [bench.small(), bench.large()] {
        let tree = sample.tree(bench.work, || Ok(()))?;
        for copier in [Copier::Stook, Copier::StookXxh3] {
            let mut peaks_mib = Vec::new();
            for _ in 0..RUNS {
                let paths = [tree.clone()];
                bench.cold.prepare(Next { paths: &paths, memory_bytes: 1 << 20 })?;
                peaks_mib.push(peak_mib(bench.copiers.command(copier, &tree, &target)?)?);
                same::compare(copier, &tree, &target)?;
                sample::remove(&target)?;
                sample::sync(bench.work)?;
            }
            let most = peaks_mib.iter().copied().fold(0.0, f64::max);
            let goal = format!("peak memory, {section}, {}", copier.name());
            let note =
                format!("ru_maxrss of each run: {peaks_mib:.1?}; without 100 B for each file in flight");
            eprintln!("{goal}: {most:.1} MiB");
            results.figure(&goal, Target::AtMost(MOST_MIB), most, "MiB", note);
        }
    }
    Ok(())
}

fn peak_mib(command: Command) -> anyhow::Result<f64> {
    let mut small = Command::new(std::env::current_exe()?);
    small.arg("copy-memory").arg("--").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => small.env(name, value),
            None => small.env_remove(name),
        };
    }
    let output = small.stdin(Stdio::null()).output().context("cannot start this program")?;
    ensure!(output.status.success(), "{small:?}: {}", String::from_utf8_lossy(&output.stderr));
    let kib: u64 = String::from_utf8(output.stdout)?.trim().parse().context("no number was reported")?;
    Ok(kib as f64 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_of_a_child_is_in_kib() {
        let held = "x=$(head -c 40000000 /dev/zero | tr '\\0' x); test ${#x} = 40000000";
        ended(Command::new("sh").args(["-c", held])).unwrap();
        let kib = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss();
        assert!((40_000_000 / 1024..1_000_000).contains(&kib), "{kib} KiB");
    }
}
