//! Writing archives of many small files, cold: `stook stitch` beside GNU tar and Info-ZIP, into
//! files with a sync of the file system at the end, and into a pipe.

use std::cell::Cell;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use stook::report::units;
use stook_study::sample::{self, Sample};

use super::Bench;
use crate::pack::{Way, interleave};
use crate::result::{Results, Target};
use crate::unpack::ended;

/// Bytes of each file.
const FILE_BYTES: u64 = 20_000;
/// How many times as fast as the peer.
const TARGET: Target = Target::AtLeast(1.0);

/// A way of making an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Maker {
    StookTar,
    Tar,
    /// In the order of names, which is that of ours.
    TarSorted,
    StookZip,
    Zip,
    StookTarPiped,
    TarPiped,
}

const ALL: [Maker; 7] = [
    Maker::StookTar,
    Maker::Tar,
    Maker::TarSorted,
    Maker::StookZip,
    Maker::Zip,
    Maker::StookTarPiped,
    Maker::TarPiped,
];

impl Maker {
    fn name(self) -> &'static str {
        match self {
            Self::StookTar => "`stook stitch tar --write`",
            Self::Tar => "`tar -cf`, then sync",
            Self::TarSorted => "`tar --sort=name -cf`, then sync",
            Self::StookZip => "`stook stitch zip --write`",
            Self::Zip => "`zip -0 -r`, then sync",
            Self::StookTarPiped => "`stook stitch tar`, to a pipe",
            Self::TarPiped => "`tar -cf -`, to a pipe",
        }
    }

    fn is_piped(self) -> bool {
        matches!(self, Self::StookTarPiped | Self::TarPiped)
    }

    /// The program that makes it, of a tree, and the path that it writes.
    fn command(self, stook: &Path, tree: &Path, to: &Path) -> Command {
        let mut command = match self {
            Self::StookTar | Self::StookZip | Self::StookTarPiped => Command::new(stook),
            Self::Tar | Self::TarSorted | Self::TarPiped => Command::new("tar"),
            Self::Zip => Command::new("zip"),
        };
        match self {
            Self::StookTar => command.args(["stitch", "tar", "--quiet", "--write"]).arg(to).arg(tree),
            Self::StookZip => command.args(["stitch", "zip", "--quiet", "--write"]).arg(to).arg(tree),
            Self::StookTarPiped => command.args(["stitch", "tar", "--quiet"]).arg(tree),
            Self::Tar => command.arg("-cf").arg(to).arg("-C").arg(tree).arg("."),
            Self::TarSorted => command.arg("--sort=name").arg("-cf").arg(to).arg("-C").arg(tree).arg("."),
            Self::TarPiped => command.args(["-cf", "-", "-C"]).arg(tree).arg("."),
            Self::Zip => command.args(["-0", "-r", "-q"]).arg(to).arg(".").current_dir(tree),
        };
        // As if nothing had been measured or set here.
        command.env_remove("STOOK_ENGINE").env("STOOK_PROFILE_DIR", "");
        command.stdin(Stdio::null());
        command
    }

    /// What reads all of an archive of ours, and compares it with the tree or its own checksums.
    fn check(self, tree: &Path, made: &Path) -> Option<Command> {
        match self {
            Self::StookTar => {
                let mut command = Command::new("tar");
                command.arg("--compare").arg("--file").arg(made).arg("-C").arg(tree);
                Some(command)
            }
            Self::StookZip => {
                let mut command = Command::new("unzip");
                command.arg("-tqq").arg(made);
                Some(command)
            }
            _ => None,
        }
    }
}

/// The files, and what is made of them.
struct Row<'a> {
    bench: &'a Bench<'a>,
    sample: Sample,
    tree: PathBuf,
    /// How many archives were made.
    made: Cell<usize>,
}

/// Measures all in turn.
pub(super) fn run(bench: &Bench<'_>, results: &mut Results) -> anyhow::Result<()> {
    let sample = Sample { files: bench.args.files, size: FILE_BYTES };
    sample::check_space(&bench.work, sample.bytes().saturating_mul(3))?;
    let section =
        format!("{} files of {} bytes as archives", units::count(sample.files), units::count(FILE_BYTES));
    eprintln!("Making {} files", sample.files);
    let row = Row { bench, sample, tree: sample.tree(&bench.work, || Ok(()))?, made: Cell::new(0) };
    let mut ways: Vec<Way<'_>> = ALL.into_iter().map(|maker| row.way(maker)).collect();
    let series = interleave(&bench.cold, &section, bench.rounds(), &mut ways)?;
    results.raw.insert(section.clone(), series);
    for (ours, theirs) in [
        (Maker::StookTar, Maker::Tar),
        (Maker::StookTar, Maker::TarSorted),
        (Maker::StookZip, Maker::Zip),
        (Maker::StookTarPiped, Maker::TarPiped),
    ] {
        let (ours, theirs) = (ours.name(), theirs.name());
        results.faster(&section, &format!("{ours} against {theirs}"), TARGET, ours, theirs)?;
    }
    let goal = "a zip, with the checksums of all, against a tar of the same files";
    let (zip, tar) = (Maker::StookZip.name(), Maker::StookTar.name());
    results.longer(&section, goal, Target::None, zip, tar)?;
    sample::remove(&row.tree)
}

impl Row<'_> {
    fn way(&self, maker: Maker) -> Way<'_> {
        Way::cold(maker.name(), &self.tree, move || self.make(maker).map(Some)).then(move || self.end(maker))
    }

    fn path(&self, maker: Maker) -> PathBuf {
        let is_zip = matches!(maker, Maker::StookZip | Maker::Zip);
        self.bench.work.join(if is_zip { "made.zip" } else { "made.tar" })
    }

    /// Seconds until all is on the medium, or has come through the pipe.
    fn make(&self, maker: Maker) -> anyhow::Result<f64> {
        let to = self.path(maker);
        let mut command = maker.command(&self.bench.stook, &self.tree, &to);
        let started = Instant::now();
        if maker.is_piped() {
            let bytes = drained(&mut command)?;
            ensure!(bytes > self.sample.bytes(), "{}: {bytes} bytes came", maker.name());
        } else {
            ended(&mut command)?;
            sample::sync(&self.bench.work)?;
        }
        Ok(started.elapsed().as_secs_f64())
    }

    /// After a measurement: the first archive of each of ours is looked at by others, and all go.
    fn end(&self, maker: Maker) -> anyhow::Result<()> {
        let made = self.made.replace(self.made.get() + 1);
        if maker.is_piped() {
            return Ok(());
        }
        let path = self.path(maker);
        let len = std::fs::metadata(&path)?.len();
        ensure!(len > self.sample.bytes(), "{}: {len} bytes were written", maker.name());
        if let Some(mut check) = maker.check(&self.tree, &path).filter(|_| made < ALL.len()) {
            ended(&mut check)?;
        }
        sample::remove(&path)?;
        sample::sync(&self.bench.work)
    }
}

/// Runs a command that must succeed, and reads what it writes; how many bytes.
fn drained(command: &mut Command) -> anyhow::Result<u64> {
    let child = command.stdout(Stdio::piped()).spawn();
    let mut child = child.with_context(|| format!("cannot run {command:?}"))?;
    let mut output = child.stdout.take().context("it has no output")?;
    let (mut block, mut bytes) = (vec![0; 1 << 20], 0);
    loop {
        match output.read(&mut block)? {
            0 => break,
            read => bytes += read as u64,
        }
    }
    let status = child.wait()?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_a_command_writes_is_counted_and_its_failure_is_an_error() {
        let shell = |script: &str| drained(Command::new("sh").args(["-c", script]));
        assert_eq!(shell("head -c 3000000 /dev/zero").unwrap(), 3_000_000);
        assert!(shell("echo; exit 3").is_err());
    }

    #[test]
    fn only_ours_are_looked_at_by_others() {
        for maker in ALL {
            let check = maker.check(Path::new("tree"), Path::new("made"));
            assert_eq!(check.is_some(), matches!(maker, Maker::StookTar | Maker::StookZip), "{maker:?}");
        }
    }
}
