//! Packs against loose files, tar, SQLite, LMDB and redb, and against what the device gives.

mod archives;
mod build;
mod churn;
mod commit;
mod counting;
mod gets;
mod large;
pub(crate) mod lmdb;
mod load;
mod mixed;
mod random;
mod stores;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use stook_study::cold::{Cold, Next};
use stook_study::environment::{Environment, version_of};
use stook_study::limit::Fio;
use stook_study::many_small_files::plain;
use stook_study::many_small_files::readers::{Data, Reader};
use stook_study::meter::Taken;
use stook_study::sample::{self, Sample};

use crate::result::{Results, Series};

/// Flags of the comparison.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Pairs of every comparison
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only these sections
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Section>,
    /// Where the data is made; up to 12 GB, removed at the end
    #[arg(long, default_value = "target/peers")]
    work: PathBuf,
    /// Where the raw results go
    #[arg(long)]
    out: Option<PathBuf>,
    /// Keep the data for the next run
    #[arg(long)]
    keep: bool,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Section {
    /// Cold load against the limit of the device
    Limit,
    /// Cold load against other ways of keeping the records
    Peers,
    /// Building against merely reading
    Build,
    /// Cold random gets against the device
    Random,
    /// Warm load
    Warm,
    /// Warm gets
    Gets,
    /// Durable puts from many threads
    Commit,
    /// Cold load after overwrites, deletions and compaction
    Churn,
    /// Overhead, opening and growth
    Large,
    /// Load of what is partly in memory
    Mixed,
    /// Tar and zip where they lie
    Archives,
}

const ALL: [Section; 11] = [
    Section::Limit,
    Section::Peers,
    Section::Build,
    Section::Random,
    Section::Warm,
    Section::Gets,
    Section::Commit,
    Section::Churn,
    Section::Large,
    Section::Mixed,
    Section::Archives,
];

/// The records of the targets.
const SAMPLE: Sample = Sample { files: 50_000, size: 20_000 };

/// Everything a section needs.
pub(crate) struct Bench {
    /// Where data may be made.
    pub(crate) work: PathBuf,
    /// The records as files and as a pack.
    pub(crate) data: Data,
    /// Files of the pack that hold its records.
    pub(crate) segments: Vec<PathBuf>,
    /// Their bytes.
    pub(crate) pack_bytes: u64,
    /// How caches are emptied.
    pub(crate) cold: Cold,
    /// Pairs.
    pub(crate) rounds: usize,
    /// What was measured.
    pub(crate) results: Results,
}

/// A way of doing something, measured in turn with others.
pub(crate) struct Way<'a> {
    /// Its name.
    pub(crate) name: String,
    /// The files that it reads, to be dropped from caches; `None` if it is to be warm.
    pub(crate) cold: Option<PathBuf>,
    /// Runs it. Its result replaces the elapsed time, for tools that report their own.
    pub(crate) run: Box<dyn FnMut() -> anyhow::Result<Option<f64>> + 'a>,
    /// Looks at what it made and clears it away, outside the time.
    pub(crate) after: Option<Box<dyn FnMut() -> anyhow::Result<()> + 'a>>,
}

impl<'a> Way<'a> {
    /// A way that reads `path` cold.
    pub(crate) fn cold(
        name: impl Into<String>,
        path: &Path,
        run: impl FnMut() -> anyhow::Result<Option<f64>> + 'a,
    ) -> Self {
        Self { name: name.into(), cold: Some(path.to_path_buf()), run: Box::new(run), after: None }
    }

    /// A way that reads what is in memory.
    pub(crate) fn warm(
        name: impl Into<String>,
        run: impl FnMut() -> anyhow::Result<Option<f64>> + 'a,
    ) -> Self {
        Self { name: name.into(), cold: None, run: Box::new(run), after: None }
    }

    /// The same way, after each run of which this is done.
    pub(crate) fn then(self, after: impl FnMut() -> anyhow::Result<()> + 'a) -> Self {
        Self { after: Some(Box::new(after)), ..self }
    }
}

impl Bench {
    /// Measures all ways in turn, `rounds` times.
    pub(crate) fn interleave(
        &self,
        section: &str,
        rounds: usize,
        ways: &mut [Way<'_>],
    ) -> anyhow::Result<Series> {
        interleave(&self.cold, section, rounds, ways)
    }

    /// fio over the pack, as a way.
    pub(crate) fn limit_way(&self, name: &str) -> Way<'_> {
        Way::cold(name, &self.data.pack, || {
            Ok(Some(Fio::SEQUENTIAL.run(&self.segments)?.seconds_for(self.pack_bytes)))
        })
    }

    /// A reader of the study, as a way.
    pub(crate) fn reader_way(&self, reader: Reader) -> Way<'_> {
        Way::cold(reader.label(), reader.path(&self.data), move || {
            let (taken, amount) = reader.timed(&self.data)?;
            if amount.bytes != SAMPLE.bytes() {
                bail!("{} returned {} bytes", reader.label(), amount.bytes);
            }
            Ok(Some(taken.seconds))
        })
    }
}

/// Measures all ways in turn, `rounds` times.
pub(crate) fn interleave(
    cold: &Cold,
    section: &str,
    rounds: usize,
    ways: &mut [Way<'_>],
) -> anyhow::Result<Series> {
    let mut series = Series::new();
    for round in 1..=rounds {
        for way in &mut *ways {
            if let Some(path) = &way.cold {
                let paths = [path.clone()];
                cold.prepare(Next { paths: &paths, memory_bytes: SAMPLE.bytes() * 5 / 4 })?;
            }
            let (mut taken, own) = Taken::by(|| (way.run)()).with_context(|| way.name.clone())?;
            taken.seconds = own.unwrap_or(taken.seconds);
            eprintln!(
                "{section} {round}/{rounds} {}: {:.3} s (CPU {:.2} + {:.2})",
                way.name, taken.seconds, taken.user_cpu_s, taken.system_cpu_s
            );
            series.entry(way.name.clone()).or_default().push(taken);
            if let Some(after) = &mut way.after {
                after().with_context(|| way.name.clone())?;
            }
        }
    }
    Ok(series)
}

/// The paths of all files below a directory, relative to it.
pub(crate) fn collect(directory: &Path, prefix: &str, names: &mut Vec<String>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|name| anyhow::anyhow!("{name:?} is no text"))?;
        let name = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &name, names)?;
        } else {
            names.push(name);
        }
    }
    Ok(())
}

/// Runs the sections and writes what was found.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if Fio::version().is_none() {
        bail!("fio is the limit that all is compared with: install it");
    }
    sample::prepare_work(&args.work)?;
    let name = |kind: &str| args.work.join(format!("{}.{kind}", SAMPLE.name()));
    let data = Data { tree: name("tree"), plain: name("plain"), pack: name("stook"), numbered: None };
    let sections = if args.only.is_empty() { &ALL[..] } else { &args.only };
    let segments = match sections {
        // These make what they need.
        only if only.iter().all(|one| {
            matches!(one, Section::Commit | Section::Gets | Section::Churn | Section::Archives)
        }) =>
        {
            Vec::new()
        }
        _ => make_sample(args, &data)?,
    };
    let pack_bytes =
        segments.iter().map(|file| Ok(std::fs::metadata(file)?.len())).sum::<std::io::Result<u64>>()?;
    let cold = Cold::detect();
    let results = Results {
        environment: Environment::of(&args.work),
        tools: tools(),
        command: std::env::args().skip(1).collect(),
        cold: cold.describe(),
        ..Results::default()
    };
    let mut bench =
        Bench { work: args.work.clone(), data, segments, pack_bytes, cold, rounds: args.rounds, results };
    for section in sections {
        match section {
            Section::Limit => load::limit(&mut bench)?,
            Section::Peers => load::peers(&mut bench)?,
            Section::Build => build::run(&mut bench)?,
            Section::Random => random::cold(&mut bench)?,
            Section::Warm => random::warm_load(&mut bench)?,
            Section::Gets => gets::run(&mut bench)?,
            Section::Commit => commit::run(&mut bench)?,
            Section::Churn => churn::run(&mut bench)?,
            Section::Large => large::run(&mut bench)?,
            Section::Mixed => mixed::run(&mut bench)?,
            Section::Archives => archives::run(&mut bench)?,
        }
        write(args, &bench.results)?;
    }
    println!("{}", bench.results.markdown());
    if !args.keep {
        sample::clean(&args.work, |_| true)?;
    }
    Ok(())
}

/// The records as files and as a pack; the files that hold the pack's.
fn make_sample(args: &Args, data: &Data) -> anyhow::Result<Vec<PathBuf>> {
    eprintln!("Making the sample");
    SAMPLE.tree(&args.work, || Ok(()))?;
    plain::pack(&data.tree, &data.pack, || Ok(()))?;
    plain::segment_files(&data.pack)
}

fn write(args: &Args, results: &Results) -> anyhow::Result<()> {
    let out = match &args.out {
        Some(out) => out.clone(),
        None => {
            let date = results.environment.time.get(..10).unwrap_or("undated");
            Path::new("benchmarks/runs").join(format!("{date}-pack"))
        }
    };
    std::fs::create_dir_all(&out)?;
    sample::publish(&out.join("pack.json"), &serde_json::to_vec_pretty(results)?)?;
    sample::publish(&out.join("pack.md"), results.markdown().as_bytes())
}

fn tools() -> std::collections::BTreeMap<String, String> {
    let mut tools = std::collections::BTreeMap::new();
    for (name, argument) in
        [("fio", "--version"), ("tar", "--version"), ("python3", "--version"), ("rustc", "--version")]
    {
        if let Some(version) = version_of(name, argument) {
            tools.insert(name.to_owned(), version);
        }
    }
    tools.insert("SQLite".to_owned(), rusqlite::version().to_owned());
    tools.insert("LMDB".to_owned(), heed::lmdb_version().string.to_owned());
    tools.insert("redb".to_owned(), "4.5 (crate)".to_owned());
    tools.insert("tar crate".to_owned(), "0.4 (crate)".to_owned());
    tools
}
