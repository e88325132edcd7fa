//! Sparse files in memory against svfsc (in C++ and from Python), range-cache, and rangemap, which
//! holds no bytes.

mod groups;
mod memory;
mod plain;
mod replay;
mod svfsc;
mod systems;
mod work;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use stook_study::environment::{Environment, version_of};
use stook_study::meter::Taken;
use stook_study::sample;

use self::groups::{Group, Row};
use self::memory::{Case, Holder};
use self::plain::Plain;
use self::svfsc::Svfsc;
use crate::result::{Results, Series, Target};

/// Flags of the comparison.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pairs of every comparison
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Only these sections
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Section>,
    /// The Python in which svfsc is looked for
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: String,
    /// The unpacked source distribution of svfsc, to be measured in C++ too
    #[arg(long, value_name = "DIR")]
    svfsc_source: Option<PathBuf>,
    /// Where a trace is put for others, removed at the end
    #[arg(long, default_value = "target/peers-sparse")]
    work: PathBuf,
    /// Where the raw results go
    #[arg(long)]
    out: Option<PathBuf>,
    /// Holds blocks and reports what memory they take: for processes that this command starts
    #[arg(long, value_enum, hide = true)]
    hold: Option<Holder>,
    /// Bytes of each block, how many, and how many bytes after each other they begin
    #[arg(hide = true, requires = "hold", num_args = 3)]
    blocks: Vec<u64>,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Section {
    /// Reading in small blocks
    Read,
    /// Writing small blocks that touch or do not
    Write,
    /// Asking what is missing
    Need,
    /// Writes in orders that are bad for some, at several sizes
    Patterns,
    /// One file and several threads
    Threads,
    /// Memory over the data
    Memory,
    /// Requests and bytes of a trace
    Trace,
}

const ALL: [Section; 7] = [
    Section::Read,
    Section::Write,
    Section::Need,
    Section::Patterns,
    Section::Threads,
    Section::Memory,
    Section::Trace,
];

/// Everything a section needs.
pub(crate) struct Bench {
    /// Where files may be made.
    pub(crate) work: PathBuf,
    /// svfsc, where it is installed.
    pub(crate) svfsc: Option<Svfsc>,
    /// svfsc in C++, where its source is.
    plain: Option<Plain>,
    /// Pairs.
    pub(crate) rounds: usize,
    /// What was measured.
    pub(crate) results: Results,
}

/// Runs the sections and writes what was found.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(holder) = args.hold {
        let [block_bytes, count, step] = args.blocks[..] else { bail!("which blocks?") };
        return memory::hold(holder, &Case { block_bytes, count, step });
    }
    sample::prepare_work(&args.work)?;
    let svfsc = Svfsc::find(&args.python);
    if svfsc.is_none() {
        eprintln!(
            "{} has no svfsc, so it is left out: `pip install svfsc`, or name a --python that has it",
            args.python
        );
    }
    let plain = args.svfsc_source.as_ref().map(|source| Plain::build(source, &args.work)).transpose()?;
    let results = Results {
        environment: Environment::of(&args.work),
        tools: tools(&args.python, svfsc.as_ref(), plain.as_ref()),
        command: std::env::args().skip(1).collect(),
        cold: "all is in memory".to_owned(),
        ..Results::default()
    };
    let mut bench = Bench { work: args.work.clone(), svfsc, plain, rounds: args.rounds as usize, results };
    for section in if args.only.is_empty() { &ALL[..] } else { &args.only } {
        match section {
            Section::Memory => memory::run(&mut bench)?,
            Section::Trace => replay::run(&mut bench)?,
            timed => {
                for group in groups::of(*timed) {
                    bench.measure(&group)?;
                    // Some take minutes: finished results are kept even if the next one fails.
                    write(args, &bench.results)?;
                }
            }
        }
        write(args, &bench.results)?;
    }
    println!("{}", bench.results.markdown());
    sample::clean(&args.work, |name| name == "trace.csv" || plain::MADE.iter().any(|made| name == *made))?;
    Ok(())
}

impl Bench {
    /// Measures everyone in turn, and compares.
    fn measure(&mut self, group: &Group) -> anyhow::Result<()> {
        let mut series = Series::new();
        for round in 1..=self.rounds {
            for row in &group.rows {
                self.round(row, &mut series).with_context(|| format!("{}{}", group.name, row.suffix))?;
            }
            eprintln!("{}: round {round} of {}", group.name, self.rounds);
        }
        self.results.raw.insert(group.name.clone(), series);
        group.rows.iter().try_for_each(|row| self.compare(group, row))?;
        for (over, under, target) in &group.doublings {
            let (over, under) = (row_name("Stook", over), row_name("Stook", under));
            let goal = format!("{}: time of {over} for that of {under}", group.name);
            self.results.longer(&group.name, &goal, *target, &over, &under)?;
        }
        for (ours, theirs, target) in &group.scalings {
            let (ours, theirs) = (row_name("Stook", ours), row_name("Stook", theirs));
            let goal = format!("{}: speed of {ours} for that of {theirs}", group.name);
            self.results.faster(&group.name, &goal, *target, &ours, &theirs)?;
        }
        Ok(())
    }

    fn round(&self, row: &Row, series: &mut Series) -> anyhow::Result<()> {
        let mut note = |who: &str, taken: Taken| {
            series.entry(row_name(who, &row.suffix)).or_default().push(taken);
        };
        for (who, once) in &row.systems {
            let (mut taken, own) = Taken::by(|| systems::seconds(&row.work, *once))?;
            taken.seconds = own;
            note(who, taken);
        }
        if let Some(peer) = &self.plain {
            let (mut taken, own) = Taken::by(|| peer.seconds(&row.work))?;
            taken.seconds = own;
            note(PLAIN, taken);
        }
        if let Some(peer) = &self.svfsc {
            let (mut taken, timed) = Taken::by(|| svfsc::seconds(peer, &row.work))?;
            taken.seconds = timed.took;
            note(PYTHON, taken);
            taken.seconds = timed.took - timed.idle;
            note(NET, taken);
        }
        Ok(())
    }

    fn compare(&mut self, group: &Group, row: &Row) -> anyhow::Result<()> {
        let name = row_name(&group.name, &row.suffix);
        let ours = row_name("Stook", &row.suffix);
        let mut others: Vec<(&str, Target)> = row
            .systems
            .iter()
            .map(|(who, _)| (*who, Target::None))
            .filter(|(who, _)| *who != "Stook")
            .collect();
        if self.plain.is_some() {
            others.push((PLAIN, row.target));
        }
        if self.svfsc.is_some() {
            others.extend([(NET, row.target), (PYTHON, Target::None)]);
        }
        for (who, target) in others {
            let theirs = row_name(who, &row.suffix);
            let goal = format!("{name}: speed for that of {who}");
            let measured = self.results.raw.get(&group.name).and_then(|series| series.get(&theirs));
            if measured.into_iter().flatten().any(|taken| taken.seconds <= 0.0) {
                eprintln!("{goal}: left out, the interpreter's own time is all there is");
                continue;
            }
            self.results.faster(&group.name, &goal, target, &ours, &theirs)?;
        }
        Ok(())
    }
}

/// svfsc as it is called.
const PYTHON: &str = "svfsc from Python";
/// svfsc in C++, built from its source.
const PLAIN: &str = "svfsc in C++";
/// svfsc less what the interpreter takes for a loop of calls that do nothing; what its module does
/// to arguments and results is left in.
const NET: &str = "svfsc without the interpreter";

fn row_name(who: &str, suffix: &str) -> String {
    if suffix.is_empty() { who.to_owned() } else { format!("{who}, {suffix}") }
}

fn write(args: &Args, results: &Results) -> anyhow::Result<()> {
    let out = match &args.out {
        Some(out) => out.clone(),
        None => {
            let date = results.environment.time.get(..10).unwrap_or("undated");
            Path::new("benchmarks/runs").join(format!("{date}-sparse"))
        }
    };
    std::fs::create_dir_all(&out)?;
    sample::publish(&out.join("sparse.json"), &serde_json::to_vec_pretty(results)?)?;
    sample::publish(&out.join("sparse.md"), results.markdown().as_bytes())
}

fn tools(python: &str, svfsc: Option<&Svfsc>, plain: Option<&Plain>) -> BTreeMap<String, String> {
    let mut tools = BTreeMap::new();
    for name in [python, "rustc"] {
        if let Some(version) = version_of(name, "--version") {
            tools.insert(name.to_owned(), version);
        }
    }
    if let Some(svfsc) = svfsc {
        tools.insert("svfsc".to_owned(), svfsc.version.clone());
    }
    if let Some(plain) = plain {
        tools.insert("svfsc in C++".to_owned(), plain.built.clone());
    }
    tools.insert("range-cache".to_owned(), "0.1 (crate)".to_owned());
    tools.insert("rangemap".to_owned(), "1.8 (crate)".to_owned());
    tools
}
