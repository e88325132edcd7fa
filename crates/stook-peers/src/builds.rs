//! Two builds of `stook` against one another: what a change costs, in the same run and in turn.
//!
//! Each build makes and reads a pack of its own, because a change may be one of the format.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail};
use stook_study::cold::Cold;
use stook_study::environment::{Environment, version_of};
use stook_study::sample::{self, Sample};

use crate::pack::{Way, collect, interleave};
use crate::result::{Results, Target};

const SAMPLE: Sample = Sample { files: 50_000, size: 20_000 };

/// Files of the tree of hard links, how many names each has, and its length in bytes.
const LINKED_FILES: usize = 10_000;
const NAMES: usize = 4;
const LINKED_LEN: usize = 4_000;

/// Records that are got by key in one command.
const GETS: usize = 10_000;

/// Flags of the comparison.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The build to compare with
    #[arg(long)]
    old: PathBuf,
    /// The build that is asked about
    #[arg(long)]
    new: PathBuf,
    /// Pairs of every comparison
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Where the data is made; up to 5 GB, removed at the end
    #[arg(long, default_value = "target/peers")]
    work: PathBuf,
    /// Where the raw results go
    #[arg(long)]
    out: PathBuf,
}

/// One of the two builds and its pack.
struct Build {
    name: &'static str,
    binary: PathBuf,
    pack: PathBuf,
}

/// What both do, in turn.
struct Job {
    section: &'static str,
    is_cold: bool,
    run: fn(&Build, &Inputs) -> anyhow::Result<()>,
}

struct Inputs {
    tree: PathBuf,
    keys: PathBuf,
    /// A tree of files that have several names each.
    linked: PathBuf,
}

const JOBS: [Job; 11] = [
    Job { section: "pack the tree, cold", is_cold: true, run: pack_tree },
    Job { section: "pack the tree again, nothing changed, warm", is_cold: false, run: pack_again },
    Job { section: "load, cold", is_cold: true, run: |build, _| build.run(&["load"], &[]) },
    Job {
        section: "load in memory, cold",
        is_cold: true,
        run: |build, _| build.run(&["load", "--in-memory"], &[]),
    },
    Job { section: "get 10,000 records, cold", is_cold: true, run: get_many },
    Job { section: "load, warm", is_cold: false, run: |build, _| build.run(&["load"], &[]) },
    Job { section: "get 10,000 records, warm", is_cold: false, run: get_many },
    Job { section: "check, warm", is_cold: false, run: |build, _| build.run(&["check"], &[]) },
    Job { section: "pack 10,000 files with 4 names each, warm", is_cold: false, run: pack_linked },
    Job {
        section: "pack 10,000 files with 4 names each again, nothing changed, warm",
        is_cold: false,
        run: |build, inputs| pack(build, &inputs.linked, &build.linked_pack()),
    },
    Job { section: "unpack 10,000 files with 4 names each, warm", is_cold: false, run: unpack_linked },
];

impl Build {
    /// A pack that is made in a measurement and removed after it.
    fn second_pack(&self) -> PathBuf {
        self.pack.with_extension("second.stook")
    }

    /// The pack of the tree of hard links.
    fn linked_pack(&self) -> PathBuf {
        self.pack.with_extension("linked.stook")
    }

    /// What is unpacked in a measurement and removed after it.
    fn unpacked(&self) -> PathBuf {
        self.pack.with_extension("unpacked")
    }

    /// Runs a command on the pack.
    fn run(&self, command: &[&str], more: &[&OsStr]) -> anyhow::Result<()> {
        let mut process = Command::new(&self.binary);
        process.args(command).arg("--quiet").arg(&self.pack).args(more);
        ended(process)
    }
}

fn ended(mut process: Command) -> anyhow::Result<()> {
    let status = process.stdout(Stdio::null()).stdin(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot run {process:?}"))?;
    if !status.success() {
        bail!("{process:?}: {status}");
    }
    Ok(())
}

fn pack(build: &Build, tree: &Path, pack: &Path) -> anyhow::Result<()> {
    let mut process = Command::new(&build.binary);
    process.args(["pack", "--quiet"]).arg(tree).arg(pack);
    ended(process)
}

fn pack_tree(build: &Build, inputs: &Inputs) -> anyhow::Result<()> {
    pack(build, &inputs.tree, &build.second_pack())
}

fn pack_again(build: &Build, inputs: &Inputs) -> anyhow::Result<()> {
    pack(build, &inputs.tree, &build.pack)
}

fn pack_linked(build: &Build, inputs: &Inputs) -> anyhow::Result<()> {
    pack(build, &inputs.linked, &build.second_pack())
}

fn unpack_linked(build: &Build, _: &Inputs) -> anyhow::Result<()> {
    let mut process = Command::new(&build.binary);
    process.args(["unpack", "--quiet"]).arg(build.linked_pack()).arg(build.unpacked());
    ended(process)
}

/// Makes the tree of hard links: the first names in one directory for each hundred files, the
/// others in separate directories, so that names of one file are found far apart.
fn tree_of_links(work: &Path) -> anyhow::Result<PathBuf> {
    let tree = work.join("linked");
    sample::remove(&tree)?;
    for number in 0..LINKED_FILES {
        let body: Vec<u8> = (0..LINKED_LEN).map(|at| (at * 31 + number * 7) as u8).collect();
        let place = |name: usize| tree.join(format!("{name}/{:03}", number / 100));
        let path = |name: usize| place(name).join(format!("{number:05}"));
        for name in 0..NAMES {
            std::fs::create_dir_all(place(name))?;
            match name {
                0 => std::fs::write(path(0), &body)?,
                _ => std::fs::hard_link(path(0), path(name))?,
            }
        }
    }
    Ok(tree)
}

fn get_many(build: &Build, inputs: &Inputs) -> anyhow::Result<()> {
    build.run(&["get", "--concat"], &["--from-file".as_ref(), inputs.keys.as_ref()])
}

/// Runs all jobs and writes what was found.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    sample::prepare_work(&args.work)?;
    eprintln!("Making the sample");
    let tree = SAMPLE.tree(&args.work, || Ok(()))?;
    let linked = tree_of_links(&args.work)?;
    let inputs = Inputs { keys: args.work.join("keys.txt"), tree, linked };
    std::fs::write(&inputs.keys, some_keys(&inputs.tree)?)?;
    let build = |name, binary: &Path| -> anyhow::Result<Build> {
        let binary = binary.canonicalize().with_context(|| format!("cannot find {}", binary.display()))?;
        Ok(Build { name, binary, pack: args.work.join(format!("{name}.stook")) })
    };
    let builds = [build("old", &args.old)?, build("new", &args.new)?];
    for build in &builds {
        sample::remove(&build.pack)?;
        pack_again(build, &inputs)?;
        sample::remove(&build.linked_pack())?;
        pack(build, &inputs.linked, &build.linked_pack())?;
    }
    let cold = Cold::detect();
    let mut results = Results {
        environment: Environment::of(&args.work),
        tools: version_of("rustc", "--version")
            .map(|version| ("rustc".to_owned(), version))
            .into_iter()
            .collect(),
        command: std::env::args().skip(1).collect(),
        cold: cold.describe(),
        ..Results::default()
    };
    for job in &JOBS {
        measure(job, &builds, &inputs, &cold, args.rounds, &mut results)?;
        results.longer(job.section, job.section, Target::None, "new", "old")?;
    }
    for build in &builds {
        let files = std::fs::read_dir(&build.pack)?.map(|file| Ok(file?.metadata()?.len()));
        let bytes = files.sum::<std::io::Result<u64>>()?;
        let besides = (bytes - SAMPLE.bytes()) as f64 / SAMPLE.files as f64;
        let goal = format!("bytes on disk a record besides its body, {}", build.name);
        results.figure(&goal, Target::None, besides, "B", "key and attributes included");
    }
    std::fs::create_dir_all(&args.out)?;
    sample::publish(&args.out.join("builds.json"), &serde_json::to_vec_pretty(&results)?)?;
    sample::publish(&args.out.join("builds.md"), results.markdown().as_bytes())?;
    println!("{}", results.markdown());
    sample::clean(&args.work, |_| true)?;
    Ok(())
}

fn measure(
    job: &Job,
    builds: &[Build; 2],
    inputs: &Inputs,
    cold: &Cold,
    rounds: usize,
    results: &mut Results,
) -> anyhow::Result<()> {
    let series = {
        let way = |build: &Build| {
            let started = Instant::now();
            (job.run)(build, inputs)?;
            let seconds = started.elapsed().as_secs_f64();
            sample::remove(&build.second_pack())?;
            sample::remove(&build.unpacked())?;
            Ok(Some(seconds))
        };
        let mut ways: Vec<Way<'_>> = builds
            .iter()
            .map(|build| {
                if job.is_cold {
                    Way::cold(build.name, &build.pack, move || way(build))
                } else {
                    Way::warm(build.name, move || way(build))
                }
            })
            .collect();
        interleave(cold, job.section, rounds, &mut ways)?
    };
    results.raw.insert(job.section.to_owned(), series);
    Ok(())
}

/// Keys of the tree in an order that is not theirs, one a line; the same in every run.
fn some_keys(tree: &Path) -> anyhow::Result<String> {
    let mut names = Vec::new();
    collect(tree, "", &mut names)?;
    names.sort();
    // A step that has no divisor in common with the number of files meets each once.
    let (mut keys, mut at) = (String::new(), 0);
    for _ in 0..GETS.min(names.len()) {
        at = (at + 24_989) % names.len();
        keys.push_str(&names[at]);
        keys.push('\n');
    }
    Ok(keys)
}
