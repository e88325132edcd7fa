//! Many files read in one pass, cold, against one file with the same bytes: through a directory as
//! a tree, and as one source that is stitched of them.

pub(crate) mod read;
mod stitched;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use stook::source::{FileSource, Source};
use stook::tree::{NodeId, Tree as _};
use stook::walk::DirectoryTree;
use stook_study::cold::Cold;
use stook_study::environment::{Environment, version_of};
use stook_study::sample::{self, Sample};

use self::stitched::{Part, Stitched};
use crate::pack::{Way, collect, interleave};
use crate::result::{Results, Target};

/// Flags of the comparison.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rounds; each measures every way once
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How often 512 × 128 KiB, 64 × 1 MiB and 16 × 4 MiB are made: 384 MiB each time, the one file
    /// included
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=16))]
    sets: u32,
    /// Where the files are made, removed at the end
    #[arg(long, default_value = "target/peers-gather")]
    work: PathBuf,
    /// The folder that the raw results go into
    #[arg(long)]
    out: Option<PathBuf>,
    /// Keep the files for the next run
    #[arg(long)]
    keep: bool,
}

/// Files of one set, and the bytes of each: 64 MiB in all.
const SHAPES: [(u64, u64); 3] = [(512, 128 << 10), (64, 1 << 20), (16, 4 << 20)];
/// What is promised of a gather.
const TARGET: Target = Target::AtLeast(0.95);
/// The file that has the bytes of all others, one after another.
const WHOLE: &str = "whole";
const WHOLE_PARTIAL: &str = "whole.partial";

const ONE_FILE: &str = "one file";
const AGAIN: &str = "one file, again";
const GATHER: &str = "gather of a directory";
const STITCHED: &str = "stitched, its files open";

/// Some of the files, and where their bytes are in the one file.
struct Group {
    name: String,
    ids: Vec<NodeId>,
    /// The files as one source.
    stitched: Arc<Stitched>,
    /// The same bytes of the one file.
    whole: Arc<Stitched>,
}

/// Measures, and writes what was found.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    sample::prepare_work(&args.work)?;
    allow_open_files();
    let shapes = samples(args.sets);
    let bytes: u64 = shapes.iter().map(Sample::bytes).sum();
    if !args.work.join(WHOLE).is_file() {
        sample::check_space(&args.work, 2 * bytes)?;
    }
    let names = make(&args.work, &shapes)?;
    let tree = DirectoryTree::open(&args.work)?;
    let groups = groups(&args.work, &tree, &shapes, &names)?;
    for group in &groups {
        check(&tree, group)?;
    }
    let cold = Cold::detect();
    let mut results = Results {
        environment: Environment::of(&args.work),
        tools: version_of("rustc", "--version")
            .map(|rustc| ("rustc".to_owned(), rustc))
            .into_iter()
            .collect(),
        command: std::env::args().skip(1).collect(),
        cold: cold.describe(),
        ..Results::default()
    };
    for group in &groups {
        measure(args, &cold, &tree, group, &mut results)?;
        write(args, &results)?;
    }
    println!("{}", results.markdown());
    if !args.keep {
        let made: Vec<String> = shapes.iter().map(tree_name).collect();
        let is_ours = |name: &std::ffi::OsStr| {
            // The trees that an interrupted run began, too.
            let name = name.to_string_lossy();
            let name = name.strip_suffix(".partial").unwrap_or(&name);
            name == WHOLE || made.iter().any(|made| name == made)
        };
        sample::clean(&args.work, is_ours)?;
    }
    Ok(())
}

/// The stitched sources keep all files open, twice where they are read directly.
pub(crate) fn allow_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused, opening a file too many says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

fn samples(sets: u32) -> Vec<Sample> {
    SHAPES.iter().map(|&(files, size)| Sample { files: files * u64::from(sets), size }).collect()
}

fn tree_name(sample: &Sample) -> String {
    format!("{}.tree", sample.name())
}

/// Makes the files, and the one that has their bytes in the order of their names; the names of each
/// shape, relative to the work directory.
fn make(work: &Path, shapes: &[Sample]) -> anyhow::Result<Vec<Vec<String>>> {
    let mut all = Vec::new();
    for shape in shapes {
        eprintln!("Making {} files of {} bytes", shape.files, shape.size);
        shape.tree(work, || Ok(()))?;
        let name = tree_name(shape);
        let mut names = Vec::new();
        collect(&work.join(&name), &name, &mut names)?;
        names.sort();
        ensure!(names.len() as u64 == shape.files, "{name} has {} files", names.len());
        all.push(names);
    }
    let whole = work.join(WHOLE);
    let bytes: u64 = shapes.iter().map(Sample::bytes).sum();
    if std::fs::metadata(&whole).is_ok_and(|metadata| metadata.len() == bytes) {
        return Ok(all);
    }
    eprintln!("Making one file of {bytes} bytes");
    let partial = work.join(WHOLE_PARTIAL);
    let mut to = BufWriter::new(File::create(&partial)?);
    for name in all.iter().flatten() {
        let mut from = File::open(work.join(name))?;
        std::io::copy(&mut from, &mut to)?;
    }
    to.flush()?;
    std::fs::rename(&partial, &whole)?;
    sample::sync(work)?;
    Ok(all)
}

/// Each shape, and all of them.
fn groups(
    work: &Path,
    tree: &DirectoryTree,
    shapes: &[Sample],
    names: &[Vec<String>],
) -> anyhow::Result<Vec<Group>> {
    let whole = Arc::new(FileSource::open(work.join(WHOLE))?);
    let (mut groups, mut every) = (Vec::new(), Vec::new());
    let mut at = 0;
    for (shape, names) in shapes.iter().zip(names) {
        let files = opened(work, tree, names)?;
        let name = format!("{} files of {} KiB", shape.files, shape.size >> 10);
        groups.push(group(name, &files, &whole, at));
        at += shape.bytes();
        every.extend(files);
    }
    groups.push(group("all of them".to_owned(), &every, &whole, 0));
    Ok(groups)
}

/// Files by their ids and open.
fn opened(
    work: &Path,
    tree: &DirectoryTree,
    names: &[String],
) -> anyhow::Result<Vec<(NodeId, Arc<FileSource>)>> {
    let mut files = Vec::with_capacity(names.len());
    for name in names {
        let id = tree.find(name.as_bytes())?.with_context(|| format!("{name} is gone"))?;
        files.push((id, Arc::new(FileSource::open(work.join(name))?)));
    }
    Ok(files)
}

/// Files whose bytes begin there in the one file.
fn group(name: String, files: &[(NodeId, Arc<FileSource>)], whole: &Arc<FileSource>, at: u64) -> Group {
    let part = |(_, source): &(NodeId, Arc<FileSource>)| Part {
        source: Arc::clone(source),
        offset: 0,
        len: source.len(),
    };
    let stitched = Stitched::new(PathBuf::from(&name), files.iter().map(part).collect());
    let part = Part { source: Arc::clone(whole), offset: at, len: stitched.len() };
    let whole = Stitched::new(whole.path().to_path_buf(), vec![part]);
    let ids = files.iter().map(|(id, _)| *id).collect();
    Group { name, ids, stitched: Arc::new(stitched), whole: Arc::new(whole) }
}

/// All ways have to give the same bytes, by their hashes. It takes its time, and none that is
/// measured.
fn check(tree: &DirectoryTree, group: &Group) -> anyhow::Result<()> {
    eprintln!("Comparing the bytes of {}", group.name);
    let lens: Vec<u64> = group.stitched.lens().collect();
    let wanted = read::fingerprint(group.whole.as_ref(), &lens)?;
    ensure!(wanted.bytes == group.whole.len(), "{} bytes were hashed", wanted.bytes);
    for (way, found) in [
        (STITCHED, read::fingerprint(group.stitched.as_ref(), &lens)?),
        (GATHER, read::gather_fingerprint(tree, &group.ids)?),
    ] {
        if found != wanted {
            bail!("{}: {way} has other bytes than the one file: {found:?}, {wanted:?}", group.name);
        }
    }
    Ok(())
}

fn measure(
    args: &Args,
    cold: &Cold,
    tree: &DirectoryTree,
    group: &Group,
    results: &mut Results,
) -> anyhow::Result<()> {
    let bytes = group.whole.len();
    let by_session = |name: &str, source: &Arc<Stitched>| {
        let source = Arc::clone(source);
        Way::cold(name, &args.work, move || {
            let read = read::by_session(source.as_ref())?;
            ensure!(read == bytes, "{read} bytes were read");
            Ok(None)
        })
    };
    let gather = Way::cold(GATHER, &args.work, move || {
        let read = read::gather(tree, &group.ids)?;
        ensure!(read == bytes, "{read} bytes were read");
        Ok(None)
    });
    let mut ways = vec![
        by_session(ONE_FILE, &group.whole),
        gather,
        by_session(AGAIN, &group.whole),
        by_session(STITCHED, &group.stitched),
    ];
    let section = &group.name;
    let series = interleave(cold, section, args.rounds as usize, &mut ways)?;
    results.raw.insert(section.clone(), series);
    let goal = |what: &str| format!("{section}: {what}");
    results.faster(
        section,
        &goal("one file against itself: the tolerance"),
        Target::None,
        AGAIN,
        ONE_FILE,
    )?;
    results.faster(section, &goal("gathered, against one file"), TARGET, GATHER, ONE_FILE)?;
    results.faster(section, &goal("stitched, against one file"), TARGET, STITCHED, AGAIN)
}

fn write(args: &Args, results: &Results) -> anyhow::Result<()> {
    let out = match &args.out {
        Some(out) => out.clone(),
        None => {
            let date = results.environment.time.get(..10).unwrap_or("undated");
            Path::new("benchmarks/runs").join(format!("{date}-gather"))
        }
    };
    std::fs::create_dir_all(&out)?;
    sample::publish(&out.join("gather.json"), &serde_json::to_vec_pretty(results)?)?;
    sample::publish(&out.join("gather.md"), results.markdown().as_bytes())
}
