//! Opening archives of 65,536 members that are not there, from a listing: time, memory, and that no
//! file is opened for it. Each time in a process of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use stook::error;
use stook::report::stats;
use stook::source::Source;
use stook::stitch::{Layout, Members, Tar, Zip};
use stook::tree::{Cursor, Node, NodeId, Page, Tree};
use stook::walk::DirectoryTree;
use stook_study::meter::Taken;
use stook_study::sample::Sample;

use super::Bench;
use crate::result::{Results, Target};

/// With the 1,284 directories that they are in, and the 52 of these, 65,536 members.
const SAMPLE: Sample = Sample { files: 64_200, size: 100 };
const MEMBERS: u64 = 65_536;
/// Milliseconds for opening one, at most.
const TARGET: Target = Target::AtMost(20.0);

/// What is laid out.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Kind {
    Tar,
    Zip,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Tar => "tar",
            Self::Zip => "zip",
        }
    }
}

/// Flags of the hidden command.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(value_enum)]
    kind: Kind,
    tree: PathBuf,
}

/// What one opening took.
#[derive(Debug, Serialize, Deserialize)]
struct Opened {
    members: u64,
    /// Seconds of listing the tree, whose names and inodes are in memory.
    listing_s: f64,
    /// Seconds from the listing to the virtual file, and their processor time.
    opening: Seconds,
    /// Memory in KiB: before the listing, with it, with the virtual file, and the most.
    before_kib: u64,
    listed_kib: u64,
    opened_kib: u64,
    peak_kib: u64,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Seconds {
    elapsed_s: f64,
    user_cpu_s: f64,
    system_cpu_s: f64,
}

/// In the process that was started for it: lists, lays out, and prints what that took.
pub(crate) fn report(args: &Args) -> anyhow::Result<()> {
    let layout: &dyn Layout = match args.kind {
        Kind::Tar => &Tar::default(),
        Kind::Zip => &Zip::default(),
    };
    let tree = Arc::new(Unopened(DirectoryTree::open(&args.tree)?));
    let (mut members, before_kib) = (Members::new(), status_kib("VmRSS")?);
    let started = Instant::now();
    members.add_tree(tree, true, b"", &mut |_| true)?;
    let listing_s = started.elapsed().as_secs_f64();
    ensure!(members.failures().is_empty(), "{:?}", members.failures());
    let listed_kib = status_kib("VmRSS")?;
    let (taken, laid) = Taken::by(|| Ok(layout.lay_out(PathBuf::from("opened"), members)?))?;
    let opened = Opened {
        members: laid.members.all().len() as u64,
        listing_s,
        opening: Seconds {
            elapsed_s: taken.seconds,
            user_cpu_s: taken.user_cpu_s,
            system_cpu_s: taken.system_cpu_s,
        },
        before_kib,
        listed_kib,
        opened_kib: status_kib("VmRSS")?,
        peak_kib: status_kib("VmHWM")?,
    };
    println!("{}", serde_json::to_string(&opened)?);
    Ok(())
}

/// A figure of the memory of this process.
fn status_kib(name: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    number.with_context(|| format!("the kernel says no {name}"))?.parse().context("it is no number")
}

/// Measures both in turn.
pub(super) fn run(bench: &Bench<'_>, results: &mut Results) -> anyhow::Result<()> {
    eprintln!("Making {} files", SAMPLE.files);
    let tree = SAMPLE.tree(&bench.work, || Ok(()))?;
    let section = "opening 65,536 members";
    let mut all: Vec<(Kind, Vec<Opened>)> = vec![(Kind::Tar, Vec::new()), (Kind::Zip, Vec::new())];
    // Names and inodes come into memory.
    one(Kind::Tar, &tree)?;
    for round in 1..=bench.rounds() {
        for (kind, opened) in &mut all {
            let one = one(*kind, &tree)?;
            let (elapsed_s, name) = (one.opening.elapsed_s, kind.name());
            eprintln!("{section} {round}/{} {name}: {elapsed_s:.4} s", bench.rounds());
            opened.push(one);
        }
    }
    for (kind, opened) in &all {
        note(*kind, opened, results)?;
        let taken = |one: &Opened| Taken {
            seconds: one.opening.elapsed_s,
            user_cpu_s: one.opening.user_cpu_s,
            system_cpu_s: one.opening.system_cpu_s,
        };
        let series = results.raw.entry(section.to_owned()).or_default();
        series.insert(kind.name().to_owned(), opened.iter().map(taken).collect());
    }
    stook_study::sample::remove(&tree)
}

fn note(kind: Kind, opened: &[Opened], results: &mut Results) -> anyhow::Result<()> {
    let name = kind.name();
    let each = |figure: fn(&Opened) -> f64| -> Vec<f64> { opened.iter().map(figure).collect() };
    let opening_ms = each(|one| one.opening.elapsed_s * 1e3);
    let goal = format!("opening a {name} of 65,536 members, listed before");
    results.figure(
        &goal,
        TARGET,
        stats::median(&opening_ms)?,
        "ms",
        format!("{opening_ms:.1?}; no file opened"),
    );
    let listing_ms = each(|one| one.listing_s * 1e3);
    let goal = format!("listing them before, names and inodes in memory, {name}");
    results.figure(&goal, Target::None, stats::median(&listing_ms)?, "ms", format!("{listing_ms:.0?}"));
    let peak = each(|one| one.peak_kib as f64 / 1024.0);
    let goal = format!("peak memory of listing and opening, {name}");
    let note = "VmHWM of the process; the largest".to_owned();
    results.figure(&goal, Target::None, peak.into_iter().fold(0.0, f64::max), "MiB", note);
    for (what, per_member) in [
        ("the listing", each(|one| one.listed_kib.saturating_sub(one.before_kib) as f64)),
        ("the virtual file on top of it", each(|one| one.opened_kib.saturating_sub(one.listed_kib) as f64)),
    ] {
        let goal = format!("memory of a member in {what}, {name}");
        let bytes = stats::median(&per_member)? * 1024.0 / MEMBERS as f64;
        results.figure(&goal, Target::None, bytes, "B", "what VmRSS grows by; the median");
    }
    Ok(())
}

fn one(kind: Kind, tree: &Path) -> anyhow::Result<Opened> {
    let arguments = [OsString::from("stitch-open"), kind.name().into(), tree.into()];
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    let opened: Opened = serde_json::from_slice(&output.stdout)?;
    ensure!(opened.members == MEMBERS, "{} members were opened", opened.members);
    Ok(opened)
}

/// A directory whose files nobody opens: that would be an error.
#[derive(Debug)]
struct Unopened(DirectoryTree);

impl Tree for Unopened {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn root(&self) -> NodeId {
        self.0.root()
    }

    fn lookup(&self, parent: NodeId, name: &[u8]) -> error::Result<Option<NodeId>> {
        self.0.lookup(parent, name)
    }

    fn list(&self, directory: NodeId, from: &Cursor, page: &mut Page) -> error::Result<Option<Cursor>> {
        self.0.list(directory, from, page)
    }

    fn node(&self, id: NodeId) -> error::Result<Node> {
        self.0.node(id)
    }

    fn path_of(&self, id: NodeId) -> PathBuf {
        self.0.path_of(id)
    }

    fn link_target(&self, id: NodeId) -> error::Result<Vec<u8>> {
        self.0.link_target(id)
    }

    fn open(&self, id: NodeId) -> error::Result<Arc<dyn Source>> {
        let why = std::io::Error::other("a file was opened, and only its length was needed");
        Err(error::Error::io("open", self.0.path_of(id), why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laying_out_opens_nothing_and_reading_does() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), "body").unwrap();
        let layouts: [&dyn Layout; 2] = [&Tar::default(), &Zip::default()];
        for layout in layouts {
            let mut members = Members::new();
            let tree = Arc::new(Unopened(DirectoryTree::open(directory.path()).unwrap()));
            members.add_tree(tree, true, b"", &mut |_| true).unwrap();
            let laid = layout.lay_out(PathBuf::from("opened"), members).unwrap();
            let whole = stook::extent::ByteRange::to(laid.file.len());
            let error = laid.file.read_at(whole).unwrap_err();
            assert!(error::chain(&error).contains("a file was opened"), "{error}");
        }
    }

    #[test]
    fn the_kernel_says_how_much_memory_is_used() {
        let (now, peak) = (status_kib("VmRSS").unwrap(), status_kib("VmHWM").unwrap());
        assert!((100..=peak).contains(&now), "{now} of {peak} KiB");
        assert!(status_kib("VmNothing").is_err());
    }
}
