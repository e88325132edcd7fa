//! An archive that a folder changes, cold: read from its parts, and from its merged copy.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use stook_study::cold::Cold;
use stook_study::sample::{self, Sample};

use super::Place;
use super::systems::ended;
use crate::pack::{Way, interleave};
use crate::result::{Results, Target};

/// Members of the archive, each of which a file of the folder replaces.
const MEMBERS: Sample = Sample { files: 20_000, size: 3_000 };
pub(super) const NAME: &str = "routed";
const PARTS: &str = "from its parts";
const COPY: &str = "from its copy";
const REQUESTS: &str = "from its copy, by requests";
const WRITTEN: &str = "written out before, without a mount";

/// What is read of the archive.
const READS: [(&str, &str, Target); 2] = [
    ("all of it", "cat \"$1\" > /dev/null", Target::AtMost(0.5)),
    ("its first 4,096 bytes", "head -c 4096 \"$1\" > /dev/null", Target::None),
];

/// Measures.
pub(super) fn run(
    work: PathBuf,
    stook: PathBuf,
    cold: &Cold,
    (rounds, results): (usize, &mut Results),
) -> anyhow::Result<()> {
    eprintln!("Making an archive of {} and a folder that changes them", MEMBERS.name());
    let tree = MEMBERS.tree(&work, || Ok(()))?;
    let game = Game { place: Place { work, tree, stook, name: MEMBERS.name() } };
    game.make()?;
    for (what, script, target) in READS {
        let section = format!("reading {what} of a tar of {} that are replaced", MEMBERS.name());
        let written = game.path("out/x.tar");
        let mut ways = vec![Way::warm(WRITTEN, || {
            game.place.prepare(cold)?;
            timed(script, &written).map(Some)
        })];
        for (name, options) in [
            (PARTS, &[][..]),
            (COPY, &["--merged-cache"]),
            (REQUESTS, &["--no-passthrough", "--merged-cache"]),
        ] {
            let game = &game;
            ways.push(Way::warm(name, move || game.read(options, script, cold).map(Some)));
        }
        let series = interleave(cold, &section, rounds, &mut ways)?;
        drop(ways);
        results.raw.insert(section.clone(), series);
        for (ours, target) in [(COPY, target), (REQUESTS, target), (WRITTEN, Target::None)] {
            results.longer(&section, &format!("{section}: {ours} over {PARTS}"), target, ours, PARTS)?;
        }
    }
    for name in ["game", "mod", "out", "cache"] {
        sample::remove(&game.path(name))?;
    }
    sample::remove(&game.place.tree)
}

struct Game {
    place: Place,
}

impl Game {
    fn path(&self, name: &str) -> PathBuf {
        self.place.work.join(name)
    }

    fn stook(&self) -> Command {
        let mut command = Command::new(&self.place.stook);
        command.current_dir(&self.place.work);
        command
    }

    /// Makes the archive, the folder, what comes of them, and the copy.
    fn make(&self) -> anyhow::Result<()> {
        let script = "mkdir -p game mod; tar cf game/x.tar -C \"$1\" .; cp -r \"$1\" mod/x.tar; sync";
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", script, "bash"]).arg(&self.place.tree);
        ended(command.current_dir(&self.place.work))?;
        ended(self.stook().args(["stitch", "routes", "game", "--write", "out", "--with", "mod", "--quiet"]))?;
        self.mount(&["--merged-cache"])?;
        let archive = self.place.mountpoint().join("x.tar");
        // From its parts first.
        ended(&mut same(&archive, &self.path("out/x.tar")))?;
        for _ in 0..600 {
            if self.merged("built")? > 0 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        ensure!(self.merged("built")? == 1, "there is no copy after a minute");
        ended(&mut same(&archive, &self.path("out/x.tar")))?;
        self.unmount()
    }

    fn mount(&self, options: &[&str]) -> anyhow::Result<()> {
        std::fs::create_dir_all(self.place.mountpoint())?;
        let mut command = self.stook();
        command.args(["mount", "game", "--quiet", "--with=mod"]);
        for option in options {
            match *option {
                "--merged-cache" => command.args(["--merged-cache=cache", "--merge=always"]),
                option => command.arg(option),
            };
        }
        ended(command.arg("mnt"))
    }

    fn unmount(&self) -> anyhow::Result<()> {
        ended(self.stook().args(["umount", "--quiet", "mnt"]))
    }

    /// What the mount has counted.
    fn merged(&self, field: &str) -> anyhow::Result<u64> {
        let output = self.stook().args(["mount", "--status", "--json", "mnt"]).output()?;
        let status: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        status["merged"][field].as_u64().with_context(|| format!("no status of merged copies: {status}"))
    }

    /// Mounts, empties the caches once more, because mounting lists, and reads.
    fn read(&self, options: &[&str], script: &str, cold: &Cold) -> anyhow::Result<f64> {
        self.mount(options)?;
        self.place.prepare(cold)?;
        let seconds = timed(script, &self.place.mountpoint().join("x.tar"))?;
        if options.contains(&"--merged-cache") {
            ensure!(
                self.merged("found")? == 1 && self.merged("stitched")? == 0,
                "it was not read from its copy"
            );
        }
        self.unmount()?;
        Ok(seconds)
    }
}

fn same(one: &Path, other: &Path) -> Command {
    let mut command = Command::new("cmp");
    command.arg(one).arg(other);
    command
}

fn timed(script: &str, file: &Path) -> anyhow::Result<f64> {
    let started = Instant::now();
    ended(Command::new("bash").args(["-euo", "pipefail", "-c", script, "bash"]).arg(file))?;
    Ok(started.elapsed().as_secs_f64())
}
