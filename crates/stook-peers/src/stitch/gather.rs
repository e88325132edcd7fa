//! Many files as one, read cold, against one file with the same bytes: same pieces, same depth,
//! same rule for going past the page cache.
//!
//! The files are of the shapes of the study of solid reads; each virtual file has 64 MiB, and a
//! measurement reads several of them, one after another.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use stook::extent::ByteRange;
use stook::report::units;
use stook::source::{FileSource, Leaf, Source};
use stook::stitch::{Layout as _, Members, Raw, VirtualFile};
use stook::tree::Tree as _;
use stook::walk::DirectoryTree;
use stook_study::sample::{self, Sample};

use super::Bench;
use crate::gather::{allow_open_files, read};
use crate::pack::{Way, collect, interleave};
use crate::result::{Results, Target};

/// Files of one virtual file, and the bytes of each.
const SHAPES: [(u64, u64); 3] = [(512, 128 << 10), (64, 1 << 20), (16, 4 << 20)];
/// How much of the speed of one file.
const TARGET: Target = Target::AtLeast(0.95);

const ONE_FILE: &str = "one file each";
const AGAIN: &str = "one file each, again";
const OPENED: &str = "stitched, its files open";
const UNOPENED: &str = "stitched, opening included";

/// A shape: several virtual files, and files with the same bytes.
struct Shape {
    name: String,
    /// What each virtual file is made of: a tree, and the directories or files of it in order.
    tree: PathBuf,
    groups: Vec<Vec<String>>,
    whole: Vec<Arc<dyn Source>>,
}

/// Measures one shape after the other.
pub(super) fn run(bench: &Bench<'_>, results: &mut Results) -> anyhow::Result<()> {
    allow_open_files();
    for (files, size) in SHAPES {
        let shape = Shape::make(bench, files, size)?;
        shape.check()?;
        measure(bench, &shape, results)?;
        sample::remove(&shape.tree)?;
        for whole in &shape.whole {
            sample::remove(whole.path())?;
        }
    }
    Ok(())
}

impl Shape {
    fn make(bench: &Bench<'_>, files: u64, size: u64) -> anyhow::Result<Self> {
        let sets = u64::from(bench.args.sets);
        let name = format!("{} × {}", units::count(files), units::bytes_binary(size));
        eprintln!("Making {sets} times {name}");
        let sample = Sample { files: files * sets, size };
        let tree = sample.tree(&bench.work, || Ok(()))?;
        let mut names = Vec::new();
        collect(&tree, "", &mut names)?;
        names.sort();
        let groups: Vec<Vec<String>> = names.chunks(usize::try_from(files)?).map(<[_]>::to_vec).collect();
        ensure!(groups.len() as u64 == sets, "{} files were made", names.len());
        let mut whole: Vec<Arc<dyn Source>> = Vec::new();
        for (number, group) in groups.iter().enumerate() {
            let path = bench.work.join(format!("whole-{number}"));
            let mut to = std::fs::File::create(&path)?;
            for name in group {
                std::io::copy(&mut std::fs::File::open(tree.join(name))?, &mut to)?;
            }
            whole.push(Arc::new(FileSource::open(path)?));
        }
        sample::sync(&bench.work)?;
        Ok(Self { name, tree, groups, whole })
    }

    /// The virtual files, of which nothing is open.
    fn laid_out(&self) -> anyhow::Result<Vec<VirtualFile>> {
        let tree = Arc::new(DirectoryTree::open(&self.tree)?);
        let mut laid = Vec::new();
        for group in &self.groups {
            let mut members = Members::new();
            for name in group {
                let id = tree.find(name.as_bytes())?.with_context(|| format!("{name} is gone"))?;
                members.add((tree.clone(), true), id, name.as_bytes(), &mut |_| true)?;
            }
            laid.push(Raw.lay_out(PathBuf::from("stitched"), members)?.file);
        }
        Ok(laid)
    }

    fn bytes(&self) -> u64 {
        self.whole.iter().map(|whole| whole.len()).sum()
    }

    /// The bytes are the same. It takes its time, and none that is measured.
    fn check(&self) -> anyhow::Result<()> {
        for (file, whole) in self.laid_out()?.iter().zip(&self.whole) {
            ensure!(file.len() == whole.len(), "{} bytes instead of {}", file.len(), whole.len());
            let starts = (0..whole.len()).step_by(1 << 20);
            let lens: Vec<u64> = starts.map(|at| (whole.len() - at).min(1 << 20)).collect();
            let (found, wanted) = (read::fingerprint(file, &lens)?, read::fingerprint(&**whole, &lens)?);
            ensure!(found == wanted, "{}: other bytes than the one file: {found:?}, {wanted:?}", self.name);
        }
        Ok(())
    }

    /// Seconds of reading them, one after another.
    fn seconds(&self, sources: &[&dyn Source]) -> anyhow::Result<Option<f64>> {
        let started = Instant::now();
        let mut bytes = 0;
        for source in sources {
            bytes += read::by_session(*source)?;
        }
        let seconds = started.elapsed().as_secs_f64();
        ensure!(bytes == self.bytes(), "{bytes} bytes were read");
        Ok(Some(seconds))
    }

    fn read_whole(&self) -> anyhow::Result<Option<f64>> {
        let sources: Vec<&dyn Source> = self.whole.iter().map(|whole| &**whole).collect();
        self.seconds(&sources)
    }

    fn read_stitched(&self, opens_before: bool) -> anyhow::Result<Option<f64>> {
        let files = self.laid_out()?;
        if opens_before {
            for file in &files {
                open_all(file)?;
            }
        }
        let sources: Vec<&dyn Source> = files.iter().map(|file| file as &dyn Source).collect();
        self.seconds(&sources)
    }
}

/// Opens all that a virtual file is made of, also for reads past the page cache.
fn open_all(file: &VirtualFile) -> anyhow::Result<()> {
    let mut leaves = Vec::new();
    for at in (0..file.len()).step_by(1 << 20) {
        file.resolve(ByteRange::new(at, file.len().min(at + (1 << 20))).unwrap_or_default(), &mut leaves)?;
    }
    for leaf in leaves {
        if let Leaf::File { file, .. } = leaf {
            // It is remembered.
            file.is_direct_possible();
        }
    }
    Ok(())
}

fn measure(bench: &Bench<'_>, shape: &Shape, results: &mut Results) -> anyhow::Result<()> {
    let section = format!("read cold, {}", shape.name);
    let mut ways = [
        Way::cold(ONE_FILE, &bench.work, || shape.read_whole()),
        Way::cold(OPENED, &bench.work, || shape.read_stitched(true)),
        Way::cold(AGAIN, &bench.work, || shape.read_whole()),
        Way::cold(UNOPENED, &bench.work, || shape.read_stitched(false)),
    ];
    let series = interleave(&bench.cold, &section, bench.rounds(), &mut ways)?;
    results.raw.insert(section.clone(), series);
    let name = &shape.name;
    for (what, target, ours, theirs) in [
        ("one file against itself: the tolerance", Target::None, AGAIN, ONE_FILE),
        ("stitched, its files open, against one file", TARGET, OPENED, ONE_FILE),
        ("stitched, opening included, against one file", TARGET, UNOPENED, AGAIN),
    ] {
        results.faster(&section, &format!("{name}: {what}"), target, ours, theirs)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_file_of_files_has_their_bytes_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let work = directory.path().to_path_buf();
        let tree = Sample { files: 6, size: 70_000 }.tree(&work, || Ok(())).unwrap();
        let (mut names, mut whole) = (Vec::new(), Vec::new());
        collect(&tree, "", &mut names).unwrap();
        names.sort();
        let groups: Vec<Vec<String>> = names.chunks(3).map(<[_]>::to_vec).collect();
        for (number, group) in groups.iter().enumerate() {
            let bytes: Vec<u8> =
                group.iter().flat_map(|name| std::fs::read(tree.join(name)).unwrap()).collect();
            let path = work.join(format!("whole-{number}"));
            std::fs::write(&path, bytes).unwrap();
            whole.push(Arc::new(FileSource::open(path).unwrap()) as Arc<dyn Source>);
        }
        let mut shape = Shape { name: "3 × 70 kB".to_owned(), tree, groups, whole };
        shape.check().unwrap();
        for opens_before in [true, false] {
            assert!(shape.read_stitched(opens_before).unwrap().is_some());
        }
        shape.groups.swap(0, 1);
        assert!(shape.check().is_err(), "other bytes");
    }
}
