//! Unpacking many files, and one large one, syncs included: packs and tars, beside `tar x` and a
//! copy of the same files by `xcp`.
//!
//! What they read is cold. The peers sync nothing themselves: one sync of the file system after
//! them counts as theirs. Nothing is removed before the last round: ext4 passes over inodes that
//! were freed within the last minutes, one by one, and that would be counted as creating files.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use stook_study::cold::Cold;
use stook_study::environment::{Environment, version_of};
use stook_study::sample::{self, Sample};

use crate::bench::fio;
use crate::pack::{Way, interleave};
use crate::result::{Results, Target};

/// Many files: what a pack is made for.
const MANY: Sample = Sample { files: 50_000, size: 8_000 };
/// One file, which the device bounds.
const LARGE: Sample = Sample { files: 1, size: 256 << 20 };

/// How many times as fast as the faster peer.
const TARGET: Target = Target::AtLeast(1.2);
/// How much of what the device does with one large file.
const OF_DEVICE: Target = Target::AtLeast(0.95);

/// Flags of the comparison.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds; each measures every way once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The program under test
    #[arg(long, default_value = "target/release/stook")]
    stook: PathBuf,
    /// xcp; `scripts/need copiers` installs it here
    #[arg(long, default_value = "target/tools/bin/xcp")]
    xcp: PathBuf,
    /// Where the data is made; up to 10 GB, removed at the end
    #[arg(long, default_value = "target/peers-unpack")]
    work: PathBuf,
    /// The folder that the raw results go into
    #[arg(long)]
    out: Option<PathBuf>,
}

/// One sample in its three forms, and where it is unpacked to.
struct Forms {
    section: String,
    tree: PathBuf,
    pack: PathBuf,
    tar: PathBuf,
    /// A folder for each measurement.
    targets: PathBuf,
    measured: Cell<u32>,
    sample: Sample,
}

const PACK: &str = "`stook unpack` of a pack";
const ARCHIVE: &str = "`stook unpack` of a tar";
const TAR: &str = "`tar xf`, then sync";
const XCP: &str = "`xcp -r` of the tree, then sync";

/// Measures, and writes what was found.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    sample::prepare_work(&args.work)?;
    sample::check_space(&args.work, (3 + 4 * u64::from(args.rounds)) * MANY.bytes().max(LARGE.bytes()))?;
    let absolute =
        |program: &Path| program.canonicalize().with_context(|| format!("cannot find {}", program.display()));
    let (stook, xcp) = (absolute(&args.stook)?, absolute(&args.xcp)?);
    let xcp_name = xcp.to_string_lossy();
    let tools = [("tar", "tar"), ("xcp", &*xcp_name)]
        .into_iter()
        .filter_map(|(name, program)| Some((name.to_owned(), version_of(program, "--version")?)))
        .collect();
    let cold = Cold::detect();
    let mut results = Results {
        environment: Environment::of(&args.work),
        tools,
        command: std::env::args().skip(1).collect(),
        cold: cold.describe(),
        ..Results::default()
    };
    for (name, sample) in [("50,000 files of 8,000 bytes", MANY), ("one file of 256 MiB", LARGE)] {
        let forms = Forms::make(name, sample, &args.work, &stook)?;
        let rounds = usize::try_from(args.rounds)?;
        let series = interleave(&cold, name, rounds, &mut forms.ways(&stook, &xcp))?;
        results.raw.insert(name.to_owned(), series);
        for ours in [PACK, ARCHIVE] {
            for theirs in [TAR, XCP] {
                let target = if sample.files > 1 { TARGET } else { Target::None };
                results.faster(name, &format!("{name}: {ours} against {theirs}"), target, ours, theirs)?;
            }
            if sample.files == 1 {
                let theirs = fio::READING_AND_WRITING;
                let goal = format!("{name}: {ours} against {theirs}");
                results.faster(name, &goal, OF_DEVICE, ours, theirs)?;
            }
        }
        forms.remove()?;
    }
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out)?;
        sample::publish(&out.join("unpack.json"), &serde_json::to_vec_pretty(&results)?)?;
        sample::publish(&out.join("unpack.md"), results.markdown().as_bytes())?;
    }
    println!("{}", results.markdown());
    sample::clean(&args.work, |_| true)?;
    Ok(())
}

impl Forms {
    fn make(section: &str, sample: Sample, work: &Path, stook: &Path) -> anyhow::Result<Self> {
        eprintln!("Making {section}");
        let tree = sample.tree(work, || Ok(()))?;
        let name = |kind: &str| work.join(format!("{}.{kind}", sample.name()));
        let section = section.to_owned();
        let forms = Self {
            section,
            tree,
            pack: name("stook"),
            tar: name("tar"),
            targets: name("out"),
            measured: Cell::new(0),
            sample,
        };
        sample::remove(&forms.targets)?;
        std::fs::create_dir(&forms.targets)?;
        sample::remove(&forms.pack)?;
        ended(Command::new(stook).args(["pack", "--quiet"]).arg(&forms.tree).arg(&forms.pack))?;
        ended(Command::new("tar").arg("-cf").arg(&forms.tar).arg("-C").arg(&forms.tree).arg("."))?;
        sample::sync(work)?;
        Ok(forms)
    }

    fn remove(&self) -> anyhow::Result<()> {
        [&self.tree, &self.pack, &self.tar, &self.targets]
            .into_iter()
            .try_for_each(|path| sample::remove(path))
    }

    fn ways<'a>(&'a self, stook: &'a Path, xcp: &'a Path) -> Vec<Way<'a>> {
        let unpack = move |source: &Path, target: &Path| {
            let mut command = Command::new(stook);
            command.args(["unpack", "--quiet"]).arg(source).arg(target);
            command
        };
        let mut ways = vec![
            Way::cold(PACK, &self.pack, move || self.timed(false, |target| Ok(unpack(&self.pack, target)))),
            Way::cold(ARCHIVE, &self.tar, move || self.timed(false, |target| Ok(unpack(&self.tar, target)))),
            Way::cold(TAR, &self.tar, || {
                self.timed(true, |target| {
                    std::fs::create_dir(target)?;
                    let mut command = Command::new("tar");
                    command.arg("-xf").arg(&self.tar).arg("-C").arg(target);
                    Ok(command)
                })
            }),
            Way::cold(XCP, &self.tree, move || {
                self.timed(true, |target| {
                    let mut command = Command::new(xcp);
                    command.args(["-r", "--no-progress"]).arg(&self.tree).arg(target);
                    Ok(command)
                })
            }),
        ];
        if self.sample.files == 1 {
            ways.push(Way::cold(fio::READING_AND_WRITING, &self.tar, || self.limit().map(Some)));
        }
        ways
    }

    /// Seconds that the device needs for one file.
    fn limit(&self) -> anyhow::Result<f64> {
        let written = self.targets.join("fio");
        // A pack is a directory; the tar has the same bytes.
        let seconds = fio::read_and_write_s(&self.tar, &written, self.sample.size)?;
        sample::remove(&written)?;
        Ok(seconds)
    }

    /// Seconds until all is on the medium.
    fn timed(
        &self,
        syncs: bool,
        command: impl FnOnce(&Path) -> anyhow::Result<Command>,
    ) -> anyhow::Result<Option<f64>> {
        let number = self.measured.replace(self.measured.get() + 1);
        let target = self.targets.join(number.to_string());
        let mut command = command(&target)?;
        let started = Instant::now();
        ended(&mut command)?;
        if syncs {
            sample::sync(&target)?;
        }
        let seconds = started.elapsed().as_secs_f64();
        let counted = sample::count(&target)?;
        ensure!(
            counted.files == self.sample.files && counted.bytes == self.sample.bytes(),
            "{}: {command:?} left {counted:?}",
            self.section
        );
        Ok(Some(seconds))
    }
}

/// Runs a command that must succeed.
pub(crate) fn ended(command: &mut Command) -> anyhow::Result<()> {
    let status = command.stdout(Stdio::null()).stdin(Stdio::null()).status();
    let status = status.with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}
