//! Mounts beside ext4 with the loose files, and beside other file systems of one file: find·cat,
//! tar, cp, grep, random reads and one large file; compressed archives beside programs that mount
//! them; and an archive that a folder changes.
//!
//! Everything is mounted before it is measured and unmounted afterwards, so nothing of it is in
//! memory; mounting is a figure of its own. Peers that are not installed are left out, and said so.

mod compressed;
mod routed;
mod systems;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use stook_study::cold::{Cold, Next};
use stook_study::environment::{Environment, version_of};
use stook_study::sample::{self, Sample};

use self::systems::{System, ended};
use crate::pack::{Way, interleave};
use crate::result::{Results, Target};

/// Many files: two directories deep, as everywhere here.
const MANY: Sample = Sample { files: 50_000, size: 20_000 };
/// One file.
const LARGE: Sample = Sample { files: 1, size: 1 << 30 };

/// Flags of the comparison.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds; each measures every way once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The program under test
    #[arg(long, default_value = "target/release/stook")]
    stook: PathBuf,
    /// Only these jobs: find, tar, cp, grep, warm, random, dd, mmap, compressed, routed
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only Stook and ext4
    #[arg(long)]
    without_peers: bool,
    /// Where the data is made; up to 8 GB, removed at the end
    #[arg(long, default_value = "target/peers-mount")]
    work: PathBuf,
    /// The folder that the raw results go into
    #[arg(long)]
    out: Option<PathBuf>,
}

/// What is done on a mount.
#[derive(Debug, Clone, Copy)]
struct Job {
    name: &'static str,
    /// A script: `$1` is the directory, `$2` an empty one elsewhere.
    script: &'static str,
    sample: Sample,
    is_warm: bool,
    /// The time of ours over that of ext4.
    target: Target,
}

const JOBS: [Job; 8] = [
    Job {
        name: "find",
        script: "cd \"$1\"; find . -type f -print0 | xargs -0 cat > /dev/null",
        sample: MANY,
        is_warm: false,
        target: Target::AtMost(0.35),
    },
    Job {
        name: "tar",
        script: "tar cf - -C \"$1\" . | cat > /dev/null",
        sample: MANY,
        is_warm: false,
        target: Target::AtMost(0.33),
    },
    Job {
        name: "cp",
        script: "cp -r \"$1\" \"$2/copy\"",
        sample: MANY,
        is_warm: false,
        target: Target::AtMost(0.45),
    },
    Job {
        name: "grep",
        script: "! grep -rq 'what no file has' \"$1\"",
        sample: MANY,
        is_warm: false,
        target: Target::None,
    },
    Job {
        name: "warm",
        script: "cd \"$1\"; find . -type f -print0 | xargs -0 cat > /dev/null",
        sample: MANY,
        is_warm: true,
        target: Target::AtMost(1.05),
    },
    Job {
        name: "random",
        script: "file=$(find \"$1\" -type f); fio --name=r --filename=\"$file\" --readonly --rw=randread --bs=4k \
                 --ioengine=io_uring --iodepth=32 --number_ios=50000 --output=/dev/null",
        sample: LARGE,
        is_warm: false,
        // At least half as many a second.
        target: Target::AtMost(2.0),
    },
    Job {
        name: "dd",
        script: "file=$(find \"$1\" -type f); dd if=\"$file\" of=/dev/null bs=1M status=none",
        sample: LARGE,
        is_warm: false,
        target: Target::AtMost(1.0 / 0.95),
    },
    Job {
        name: "mmap",
        script: "file=$(find \"$1\" -type f); fio --name=r --filename=\"$file\" --readonly --rw=read --bs=1m \
                 --ioengine=mmap --output=/dev/null",
        sample: LARGE,
        is_warm: false,
        target: Target::AtMost(1.0 / 0.75),
    },
];

/// Measures, and writes what was found.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    sample::prepare_work(&args.work)?;
    sample::check_space(&args.work, 5 * (MANY.bytes() + LARGE.bytes()))?;
    let stook = args.stook.canonicalize().with_context(|| format!("cannot find {}", args.stook.display()))?;
    let work = args.work.canonicalize()?;
    let systems = System::all(args.without_peers);
    let named = systems.iter().filter_map(|system| system.program());
    let tools = named.filter_map(|(name, argument)| Some((name.to_owned(), version_of(name, argument)?)));
    let cold = Cold::detect();
    let mut results = Results {
        environment: Environment::of(&args.work),
        tools: tools.collect(),
        command: std::env::args().skip(1).collect(),
        cold: cold.describe(),
        ..Results::default()
    };
    for sample in [MANY, LARGE] {
        let is_wanted = |job: &&Job| args.only.is_empty() || args.only.iter().any(|name| name == job.name);
        let jobs: Vec<Job> =
            JOBS.iter().filter(|job| job.sample == sample).filter(is_wanted).copied().collect();
        if jobs.is_empty() {
            continue;
        }
        eprintln!("Making {}", sample.name());
        let tree = sample.tree(&work, || Ok(()))?;
        let place = Place { work: work.clone(), tree, stook: stook.clone(), name: sample.name() };
        systems.iter().try_for_each(|system| system.make(&place))?;
        place.mounting(&cold, &systems, args.rounds, &mut results)?;
        for job in jobs {
            measure(&place, job, &systems, &cold, (usize::try_from(args.rounds)?, &mut results))?;
        }
        systems.iter().try_for_each(|system| sample::remove(&system.file(&place)))?;
        sample::remove(&place.tree)?;
    }
    let is_wanted = |wanted: &str| args.only.is_empty() || args.only.iter().any(|name| name == wanted);
    if is_wanted(compressed::NAME) {
        let place =
            Place { work: work.clone(), tree: work.clone(), stook: stook.clone(), name: String::new() };
        compressed::run(&place, &systems, &cold, (usize::try_from(args.rounds)?, &mut results))?;
    }
    if is_wanted(routed::NAME) {
        routed::run(work, stook, &cold, (usize::try_from(args.rounds)?, &mut results))?;
    }
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out)?;
        sample::publish(&out.join("mount.json"), &serde_json::to_vec_pretty(&results)?)?;
        sample::publish(&out.join("mount.md"), results.markdown().as_bytes())?;
    }
    println!("{}", results.markdown());
    sample::clean(&args.work, |_| true)?;
    Ok(())
}

/// Where the data of a sample is.
pub(super) struct Place {
    work: PathBuf,
    /// The loose files.
    tree: PathBuf,
    stook: PathBuf,
    name: String,
}

impl Place {
    fn mountpoint(&self) -> PathBuf {
        self.work.join("mnt")
    }

    fn target(&self) -> PathBuf {
        self.work.join("out")
    }

    /// How long mounting takes.
    fn mounting(
        &self,
        cold: &Cold,
        systems: &[System],
        rounds: u32,
        results: &mut Results,
    ) -> anyhow::Result<()> {
        for system in systems.iter().filter(|system| **system != System::Loose) {
            let mut seconds = Vec::new();
            for _ in 0..rounds {
                self.prepare(cold)?;
                let started = Instant::now();
                let mounted = system.mount(self)?;
                seconds.push(started.elapsed().as_secs_f64());
                mounted.unmount()?;
            }
            let median = stook::report::stats::Summary::of(&seconds)?.median;
            let goal = format!("{}: mounting {}", self.name, system.name());
            results.figure(&goal, Target::None, median, "s", "cold");
        }
        Ok(())
    }

    fn prepare(&self, cold: &Cold) -> anyhow::Result<()> {
        let paths = [self.work.clone()];
        // What is read, what is pushed of it, and what is written; and some more.
        cold.prepare(Next { paths: &paths, memory_bytes: MANY.bytes() * 4 })
    }
}

fn measure(
    place: &Place,
    job: Job,
    systems: &[System],
    cold: &Cold,
    (rounds, results): (usize, &mut Results),
) -> anyhow::Result<()> {
    let section = format!("{} of {}", job.name, place.name);
    let ways = systems.iter().map(|system| {
        Way::warm(system.name(), move || {
            // Before caches are emptied: what is removed is written for seconds after that.
            sample::remove(&place.target())?;
            std::fs::create_dir(place.target())?;
            place.prepare(cold)?;
            let mounted = system.mount(place)?;
            let mut command = Command::new("bash");
            command
                .args(["-euo", "pipefail", "-c", job.script, "bash"])
                .arg(mounted.path())
                .arg(place.target());
            if job.is_warm {
                ended(&mut command)?;
            }
            let started = Instant::now();
            ended(&mut command)?;
            let seconds = started.elapsed().as_secs_f64();
            if job.name == "cp" {
                check_copy(place)?;
            }
            mounted.unmount()?;
            Ok(Some(seconds))
        })
    });
    let series = interleave(cold, &section, rounds, &mut ways.collect::<Vec<_>>())?;
    results.raw.insert(section.clone(), series);
    let ext4 = System::Loose.name();
    for system in systems.iter().filter(|system| **system != System::Loose) {
        let target = if *system == System::Stook { job.target } else { Target::None };
        let goal = format!("{section}: {} over {ext4}", system.name());
        results.longer(&section, &goal, target, system.name(), ext4)?;
    }
    Ok(())
}

/// What was copied has as many bytes as there were.
fn check_copy(place: &Place) -> anyhow::Result<()> {
    let bytes = |path: &Path| -> anyhow::Result<u64> {
        let output = Command::new("du").args(["-sb", "--apparent-size"]).arg(path).output()?;
        let text = String::from_utf8(output.stdout)?;
        text.split_whitespace().next().context("du prints nothing")?.parse().context("du prints no number")
    };
    // Directories have other lengths elsewhere.
    let (copied, wanted) = (bytes(&place.target().join("copy"))?, MANY.bytes());
    ensure!(copied >= wanted, "{copied} bytes were copied of {wanted}");
    Ok(())
}
