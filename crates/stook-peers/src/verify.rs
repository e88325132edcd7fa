//! Verifying trees by lists, cold: against the limits of reading and of hashing, and beside
//! `sha256sum`, `b3sum` and `xxhsum`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::available_parallelism;
use std::time::Instant;

use anyhow::Context as _;
use stook::hash::{Digest, HashKind};
use stook_study::cold::Cold;
use stook_study::environment::{Environment, version_of};
use stook_study::limit::{Fio, sequential};
use stook_study::sample::{self, Sample};

use crate::pack::{Way, collect, interleave};
use crate::result::{Results, Target};
use crate::unpack::ended;

/// Few files, which the device or the hash bounds.
const LARGE: Sample = Sample { files: 16, size: 64 << 20 };
/// Many files, which no single figure bounds.
const MANY: Sample = Sample { files: 20_000, size: 20_000 };

/// How much of the limit.
const TARGET: Target = Target::AtLeast(0.95);

const READING: &str = "reading alone: the faster of fio and the own engine";
const HASHING: &str = "SHA-256 alone: one thread in memory, times processors";

/// A function, the program that verifies its lists, and its name.
struct Function {
    name: &'static str,
    program: &'static str,
}

const FUNCTIONS: [Function; 3] = [
    Function { name: "blake3", program: "b3sum" },
    Function { name: "xxh128", program: "xxhsum" },
    Function { name: "sha256", program: "sha256sum" },
];

impl Function {
    fn ours(&self) -> String {
        format!("`stook verify`, {}", self.name)
    }

    fn theirs(&self) -> String {
        format!("`{} -c`", self.program)
    }
}

/// Flags of the comparison.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds; each measures every way once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The program under test
    #[arg(long, default_value = "target/release/stook")]
    stook: PathBuf,
    /// Where the data is made; 1.5 GB, removed at the end
    #[arg(long, default_value = "target/peers-verify")]
    work: PathBuf,
    /// The folder that the raw results go into
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Measures, and writes what was found.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    sample::prepare_work(&args.work)?;
    sample::check_space(&args.work, LARGE.bytes() + MANY.bytes())?;
    let stook = args.stook.canonicalize().context("cannot find stook")?;
    let tools = FUNCTIONS
        .iter()
        .map(|function| function.program)
        .chain(["fio"])
        .filter_map(|program| Some((program.to_owned(), version_of(program, "--version")?)))
        .collect();
    let cold = Cold::detect();
    let mut results = Results {
        environment: Environment::of(&args.work),
        tools,
        command: std::env::args().skip(1).collect(),
        cold: cold.describe(),
        ..Results::default()
    };
    for (name, sample) in [("16 files of 64 MiB", LARGE), ("20,000 files of 20,000 bytes", MANY)] {
        eprintln!("Making {name}");
        let listed = Listed::make(sample, &args.work, &stook)?;
        let rounds = usize::try_from(args.rounds)?;
        let series = interleave(&cold, name, rounds, &mut listed.ways())?;
        results.raw.insert(name.to_owned(), series);
        listed.compare(name, &mut results)?;
        sample::remove(&listed.tree)?;
    }
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out)?;
        sample::publish(&out.join("verify.json"), &serde_json::to_vec_pretty(&results)?)?;
        sample::publish(&out.join("verify.md"), results.markdown().as_bytes())?;
    }
    println!("{}", results.markdown());
    sample::clean(&args.work, |_| true)?;
    Ok(())
}

/// A tree with a list of each function.
struct Listed {
    sample: Sample,
    tree: PathBuf,
    stook: PathBuf,
    files: Vec<PathBuf>,
    /// Names of the lists, in the order of the functions.
    lists: Vec<String>,
}

impl Listed {
    fn make(sample: Sample, work: &Path, stook: &Path) -> anyhow::Result<Self> {
        let tree = sample.tree(work, || Ok(()))?;
        let mut names = Vec::new();
        collect(&tree, "", &mut names)?;
        let kinds: Vec<&str> = FUNCTIONS.iter().map(|function| function.name).collect();
        let lists = format!("--make-list={}", kinds.join(","));
        ended(Command::new(stook).args(["verify", "--quiet", &lists]).arg(&tree))?;
        sample::sync(work)?;
        let lists: anyhow::Result<Vec<String>> =
            FUNCTIONS.iter().map(|function| list_of(&tree, function)).collect();
        let files = names.iter().map(|name| tree.join(name)).collect();
        Ok(Self { sample, files, lists: lists?, stook: stook.to_path_buf(), tree })
    }

    fn is_large(&self) -> bool {
        self.sample.files == LARGE.files
    }

    fn ways(&self) -> Vec<Way<'_>> {
        let mut ways = Vec::new();
        for (function, list) in FUNCTIONS.iter().zip(&self.lists) {
            ways.push(Way::cold(function.ours(), &self.tree, move || {
                let mut command = Command::new(&self.stook);
                command.args(["verify", "--quiet"]).arg(&self.tree);
                ended(command.arg("--list").arg(self.tree.join(list))).map(|()| None)
            }));
            ways.push(Way::cold(function.theirs(), &self.tree, move || {
                let mut command = Command::new(function.program);
                ended(command.current_dir(&self.tree).args(["--check", "--quiet", list])).map(|()| None)
            }));
        }
        if self.is_large() {
            ways.push(Way::cold(READING, &self.tree, || {
                Ok(Some(sequential(&self.files, Fio::version().is_some())?.seconds))
            }));
            ways.push(Way::warm(HASHING, || self.hashing_s().map(Some)));
        }
        ways
    }

    /// Seconds for SHA-256 of as many bytes on all processors, none of which waits for bytes.
    fn hashing_s(&self) -> anyhow::Result<f64> {
        let block = vec![0x5a_u8; usize::try_from(self.sample.size)?];
        let started = Instant::now();
        for _ in 0..4 {
            std::hint::black_box(Digest::of(HashKind::Sha256, &block));
        }
        let files = f64::from(u32::try_from(self.sample.files)?);
        let processors = f64::from(u32::try_from(available_parallelism()?.get())?);
        Ok(started.elapsed().as_secs_f64() / 4.0 * files / processors)
    }

    fn compare(&self, section: &str, results: &mut Results) -> anyhow::Result<()> {
        for function in &FUNCTIONS {
            let (ours, theirs) = (function.ours(), function.theirs());
            let goal = format!("{section}: {ours} against {theirs}");
            results.faster(section, &goal, Target::None, &ours, &theirs)?;
            if !self.is_large() {
                continue;
            }
            let goal = format!("{section}: {ours} against {READING}");
            let hashes = function.name == "sha256";
            let target = if hashes { Target::None } else { TARGET };
            results.faster(section, &goal, target, &ours, READING)?;
            if hashes {
                let goal = format!("{section}: {ours} against {HASHING}");
                results.faster(section, &goal, TARGET, &ours, HASHING)?;
            }
        }
        Ok(())
    }
}

/// The name of the list of a function in a tree.
fn list_of(tree: &Path, function: &Function) -> anyhow::Result<String> {
    for entry in std::fs::read_dir(tree)? {
        let name = entry?.file_name();
        let is_list = name.to_string_lossy().starts_with("checksums-");
        if is_list && Path::new(&name).extension() == Some(OsStr::new(function.name)) {
            return name.into_string().ok().context("the list has a strange name");
        }
    }
    anyhow::bail!("no list of {} was made in {}", function.name, tree.display())
}
