//! What becomes of data where the file system fails: packs, unpacked trees, tar, unzip, copiers,
//! SQLite and LMDB on the fault mount of the testing crate.
//!
//! A run without faults counts the operations of a system. Then each n-th of a kind fails in a run
//! of its own, and what is left is looked at. Nothing here is a measurement of time.

pub(crate) mod store;
mod system;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::Serialize;
use stook_study::environment::{Environment, version_of};
use stook_study::sample;
use stook_testing::fuse::{Fault, FaultMount, Files, Operation, PageCache, Rule, Which};

use self::system::{Bench, Block, Left, System};
use crate::copy::tools::Copiers;

/// Flags of the comparison.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Runs of each cell: every n-th operation fails, so that there are about this many; 0 lets
    /// each fail
    #[arg(long, default_value_t = 24)]
    most: u64,
    /// The program under test
    #[arg(long, default_value = "target/release/stook")]
    stook: PathBuf,
    /// Where xcp, fcp and dircopy are; `scripts/need copiers` installs them here
    #[arg(long, default_value = "target/tools/bin")]
    tools: PathBuf,
    /// Only systems of which the name has one of these in it
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    only: Vec<String>,
    /// Seconds after which a run counts as hung
    #[arg(long, default_value_t = 20)]
    patience: u64,
    /// Where the data is made, removed at the end
    #[arg(long, default_value = "target/peers-faults")]
    work: PathBuf,
    /// The folder that the raw results and the table go into
    #[arg(long)]
    out: Option<PathBuf>,
}

/// What fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    EioOnWrite,
    NoRoomFromWrite,
    EioOnSync,
    IgnoredSyncs,
    PowerCut,
    BadSector,
    ShortReads,
    EioOnRename,
    Kill,
}

const EIO: Fault = Fault::Errno(5);
const ENOSPC: Fault = Fault::Errno(28);

/// Operations at which a run is killed: what changes the tree, or makes it durable.
const CHANGES: [Operation; 9] = [
    Operation::Write,
    Operation::Create,
    Operation::MakeDirectory,
    Operation::Link,
    Operation::Rename,
    Operation::SetLen,
    Operation::SetAttributes,
    Operation::Sync,
    Operation::SyncDirectory,
];
/// How long the operation takes, so that the run is killed before it gets its answer.
const TIME_TO_KILL: Duration = Duration::from_millis(50);

/// Most bytes of a short read.
const SHORT: [u64; 4] = [100, 511, 4096, 10_000];

impl Kind {
    const ALL: [Self; 9] = [
        Self::EioOnWrite,
        Self::NoRoomFromWrite,
        Self::EioOnSync,
        Self::IgnoredSyncs,
        Self::PowerCut,
        Self::BadSector,
        Self::ShortReads,
        Self::EioOnRename,
        Self::Kill,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::EioOnWrite => "a write fails (EIO)",
            Self::NoRoomFromWrite => "the disk is full from one operation on (ENOSPC)",
            Self::EioOnSync => "a sync fails (EIO) and loses the bytes, power cut at the end",
            Self::IgnoredSyncs => "all syncs are ignored, power cut after exit 0",
            Self::PowerCut => "power cut after exit 0",
            Self::BadSector => "4 KiB of the input cannot be read (EIO)",
            Self::ShortReads => "all reads are short",
            Self::EioOnRename => "a rename fails (EIO)",
            Self::Kill => "killed at one operation (SIGKILL)",
        }
    }

    fn cuts_power(self) -> bool {
        matches!(self, Self::EioOnSync | Self::IgnoredSyncs | Self::PowerCut)
    }

    /// Whether a run counts although nothing failed in it.
    fn counts_without(self) -> bool {
        matches!(self, Self::IgnoredSyncs | Self::PowerCut)
    }

    fn page_cache(self) -> PageCache {
        // With the page cache a short read is the end of the file.
        if self == Self::ShortReads { PageCache::Off } else { PageCache::On }
    }

    /// The rules of each run, with this many operations of each kind, and these blocks of the
    /// input.
    fn runs(self, counts: &BTreeMap<Operation, u64>, blocks: &[Block], most: u64) -> Vec<Vec<Rule>> {
        let each = |operations: &[Operation], which: fn(u64) -> Which, fault| -> Vec<Vec<Rule>> {
            let count: u64 = operations.iter().filter_map(|operation| counts.get(operation)).sum();
            let numbers = (0..count).step_by(step(count, most));
            numbers.map(|number| vec![Rule::of(operations, which(number), fault)]).collect()
        };
        match self {
            Self::EioOnWrite => each(&[Operation::Write], Which::Nth, EIO),
            Self::NoRoomFromWrite => each(&Operation::TAKE_ROOM, Which::From, ENOSPC),
            Self::EioOnSync => each(&Operation::SYNCS, Which::Nth, EIO),
            Self::IgnoredSyncs => {
                vec![vec![Rule::of(&Operation::SYNCS, Which::All, Fault::Ignored)]]
            }
            Self::PowerCut => vec![Vec::new()],
            Self::BadSector => bad_sectors(blocks, most),
            Self::ShortReads => {
                let rule = |most| vec![Rule::new(Operation::Read, Which::All, Fault::AtMost(most))];
                SHORT.map(rule).to_vec()
            }
            Self::EioOnRename => each(&[Operation::Rename], Which::Nth, EIO),
            Self::Kill => each(&CHANGES, Which::Nth, Fault::Delay(TIME_TO_KILL)),
        }
    }
}

/// The step at which at most `most` of `count` things are tried; 0 is all.
fn step(count: u64, most: u64) -> usize {
    if most == 0 { 1 } else { count.div_ceil(most).max(1) as usize }
}

/// Each run has one bad block, however often it is read. A read that fails once would be made again
/// by the kernel, page by page.
fn bad_sectors(blocks: &[Block], most: u64) -> Vec<Vec<Rule>> {
    let tried = blocks.iter().step_by(step(blocks.len() as u64, most));
    let rule = |block: &Block| Rule {
        operations: vec![Operation::Read],
        files: Files::At(block.file.clone()),
        which: Which::Bytes(block.range),
        fault: EIO,
    };
    tried.map(|block| vec![rule(block)]).collect()
}

/// What came of the runs of one system under one kind of fault.
#[derive(Debug, Default, Serialize)]
struct Cell {
    system: &'static str,
    fault: &'static str,
    /// Runs that met the fault.
    runs: u64,
    /// Exit code 0, and all is there.
    unharmed: u64,
    /// Another exit code, and nothing wrong has its final name.
    said: u64,
    /// Another exit code, and something half-made or wrong has its final name.
    said_but_half_made: u64,
    /// Exit code 0, and something is missing or wrong.
    silent: u64,
    /// Killed, because it did not end.
    hung: u64,
    /// The first of the bad ones.
    examples: Vec<String>,
}

/// All results of a run.
#[derive(Debug, Serialize)]
struct Results {
    environment: Environment,
    tools: BTreeMap<String, String>,
    command: Vec<String>,
    /// Programs that are not installed.
    left_out: Vec<&'static str>,
    cells: Vec<Cell>,
}

/// Tries all, and writes what was found.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "only root may mount: run this as root");
    sample::prepare_work(&args.work)?;
    let stook = args.stook.canonicalize().with_context(|| format!("cannot find {}", args.stook.display()))?;
    let work = args.work.canonicalize()?.join("inputs");
    sample::remove(&work)?;
    std::fs::create_dir(&work)?;
    let copiers = Copiers::find(&stook, &args.tools)?;
    let mut tools = tools();
    tools.extend(copiers.versions.clone());
    let bench = Bench { stook, work, copiers, patience: Duration::from_secs(args.patience) };
    bench.prepare()?;
    let (systems, left_out) = systems(args, &bench)?;
    let mut results = Results {
        environment: Environment::of(&args.work),
        tools,
        command: std::env::args().skip(1).collect(),
        left_out,
        cells: Vec::new(),
    };
    for system in systems {
        let counts = count(&bench, system)?;
        let blocks = bench.input_blocks(system)?;
        for kind in Kind::ALL {
            if kind == Kind::ShortReads && system.lets_the_kernel_read() {
                continue;
            }
            let cell = cell(&bench, system, kind, &kind.runs(&counts, &blocks, args.most))?;
            eprintln!("{}", line(&cell));
            results.cells.push(cell);
        }
        write(args, &results)?;
    }
    println!("{}", markdown(&results.cells));
    for name in &results.left_out {
        println!("Left out, because it is not installed: {name}");
    }
    sample::clean(&args.work, |_| true)?;
    Ok(())
}

/// Those that are asked for, and the names of those among them that are not installed.
fn systems(args: &Args, bench: &Bench) -> anyhow::Result<(Vec<System>, Vec<&'static str>)> {
    let is_asked = |system: &System| {
        args.only.is_empty() || args.only.iter().any(|text| system.name().contains(text.as_str()))
    };
    let is_there = |system: &System| !matches!(system, System::Copy(copier) if !bench.copiers.has(*copier));
    let (there, missing): (Vec<_>, Vec<_>) = System::all().filter(is_asked).partition(is_there);
    ensure!(!there.is_empty(), "no system has {} in its name", args.only.join(" or "));
    Ok((there, missing.into_iter().map(System::name).collect()))
}

/// The operations of a run without faults, which has to succeed.
fn count(bench: &Bench, system: System) -> anyhow::Result<BTreeMap<Operation, u64>> {
    let base = base(bench)?;
    bench.copy_input(system, &base)?;
    let mount = FaultMount::mount(&base, PageCache::On)?;
    let ended = bench.run(system, mount.path(), || false)?;
    let counts = mount.counts();
    mount.unmount()?;
    let name = system.name();
    ensure!(ended.is_some_and(|status| status.success()), "{name} fails without faults: {ended:?}");
    let left = bench.look(system, &base)?;
    ensure!(left == Left::All, "{name} without faults leaves {left:?}");
    Ok(counts)
}

/// An empty directory for one run.
fn base(bench: &Bench) -> anyhow::Result<PathBuf> {
    let base = bench.work.with_file_name("base");
    sample::remove(&base)?;
    std::fs::create_dir(&base)?;
    Ok(base)
}

fn cell(bench: &Bench, system: System, kind: Kind, runs: &[Vec<Rule>]) -> anyhow::Result<Cell> {
    let mut cell = Cell { system: system.name(), fault: kind.name(), ..Cell::default() };
    for rules in runs {
        let base = base(bench)?;
        bench.copy_input(system, &base)?;
        let mount = FaultMount::mount(&base, kind.page_cache())?;
        rules.iter().for_each(|rule| mount.add(rule.clone()));
        let ended = bench.run(system, mount.path(), || kind == Kind::Kill && mount.struck() > 0)?;
        let has_struck = mount.struck() > 0;
        if kind.cuts_power() {
            mount.lose_unsynced()?;
        } else {
            mount.unmount()?;
        }
        // One that had ended before it could be killed was not.
        let has_ended_first = kind == Kind::Kill && ended.is_some_and(|status| status.success());
        if has_ended_first || (!has_struck && !kind.counts_without()) {
            continue;
        }
        cell.runs += 1;
        let left = bench.look(system, &base)?;
        let counted = match (ended, left) {
            (None, _) => &mut cell.hung,
            (Some(status), Left::All) if status.success() => &mut cell.unharmed,
            (Some(status), _) if status.success() => &mut cell.silent,
            (Some(_), Left::Wrong) => &mut cell.said_but_half_made,
            (Some(_), Left::All | Left::NothingWrong) => &mut cell.said,
        };
        *counted += 1;
        let is_bad = match ended {
            None => true,
            Some(status) if status.success() => left != Left::All,
            Some(_) => left == Left::Wrong,
        };
        if is_bad && cell.examples.len() < 3 {
            cell.examples.push(format!("{rules:?}: {ended:?}, left {left:?}"));
        }
    }
    Ok(cell)
}

fn line(cell: &Cell) -> String {
    let Cell { system, fault, runs, unharmed, said, said_but_half_made, silent, hung, .. } = cell;
    format!(
        "| {system} | {fault} | {runs} | {unharmed} | {said} | {said_but_half_made} | {silent} | {hung} |"
    )
}

fn markdown(cells: &[Cell]) -> String {
    let mut text = String::from(
        "| system | fault | runs | unharmed | said so | said so, half-made | silent | hung |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for cell in cells {
        let _ = writeln!(text, "{}", line(cell));
    }
    text
}

fn write(args: &Args, results: &Results) -> anyhow::Result<()> {
    let out = args.out.clone().unwrap_or_else(|| {
        let date = results.environment.time.get(..10).unwrap_or("undated");
        PathBuf::from(format!("benchmarks/runs/{date}-faults"))
    });
    std::fs::create_dir_all(&out)?;
    sample::publish(&out.join("faults.json"), &serde_json::to_vec_pretty(results)?)?;
    sample::publish(&out.join("faults.md"), markdown(&results.cells).as_bytes())
}

fn tools() -> BTreeMap<String, String> {
    let mut tools = BTreeMap::new();
    for (name, argument) in [("tar", "--version"), ("unzip", "-v")] {
        if let Some(version) = version_of(name, argument) {
            tools.insert(name.to_owned(), version);
        }
    }
    tools.insert("SQLite".to_owned(), rusqlite::version().to_owned());
    tools.insert("LMDB".to_owned(), heed::lmdb_version().string.to_owned());
    tools
}
