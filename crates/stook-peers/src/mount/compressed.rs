//! Compressed archives, cold, from mounting to the last byte: beside ratarmount, and fuse-zip where
//! it is a zip.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Context as _;
use stook_study::cold::Cold;
use stook_study::sample::{self, Sample};

use super::Place;
use super::systems::{System, ended};
use crate::pack::{Way, interleave};
use crate::result::{Results, Target};

/// Half as many bytes as the files have, which are written as hexadecimal digits.
const MEMBERS: Sample = Sample { files: 5_000, size: 10_000 };
/// The same of a long one, which is a member as well.
const LONG: Sample = Sample { files: 1, size: 64 << 20 };
pub(super) const NAME: &str = "compressed";

/// How each kind is made of a directory, `$1`: `$2`. Each has one stream, as most programs make
/// them (`xz` 5.4 as one block, `zstd` 1.5 as one frame): places in it are far from where a program
/// can begin to unpack.
const KINDS: [(&str, &str); 4] = [
    ("tar.gz", "tar -C \"$1\" -cf - . | gzip -6 > \"$2\""),
    ("tar.zst", "tar -C \"$1\" -cf - . | zstd -q -3 > \"$2\""),
    ("tar.xz", "tar -C \"$1\" -cf - . | xz -T1 -1 > \"$2\""),
    ("zip", "cd \"$1\"; zip -qr6 \"$2\" ."),
];

const ALL: &str = "test $(find . -type f -print0 | xargs -0 cat | wc -c) -eq 234217728";
/// 64 pages of the long member, from its end to its beginning.
const PLACES: &str = "for at in $(seq 63 -1 0); do \
    dd if=long bs=4096 count=1 skip=$((at * 512)) status=none; done | test $(wc -c) -eq 262144";

/// What is done: its name, whether an index is there, and the script.
const JOBS: [(&str, bool, &str); 3] = [
    ("all of it, for the first time", false, ALL),
    ("all of it, with an index", true, ALL),
    ("64 places of a long member, with an index", true, PLACES),
];

/// Measures.
pub(super) fn run(
    place: &Place,
    systems: &[System],
    cold: &Cold,
    (rounds, results): (usize, &mut Results),
) -> anyhow::Result<()> {
    let tree = tree(place)?;
    for (kind, script) in KINDS {
        let file = place.work.join(format!("x.{kind}"));
        eprintln!("Making {}", file.display());
        sample::remove(&file)?;
        ended(bash(script).arg(&tree).arg(&file))?;
        let reads = |system: &&System| match system {
            System::Stook | System::Ratarmount => true,
            System::FuseZip => kind == "zip",
            _ => false,
        };
        let systems: Vec<System> = systems.iter().filter(reads).copied().collect();
        for (name, has_index, script) in JOBS {
            let section = format!("{name}, of a {kind}");
            let file = &file;
            let ways = systems.iter().map(|system| {
                Way::warm(system.name(), move || {
                    measured((place, *system, file), (has_index, script), cold).map(Some)
                })
            });
            let series = interleave(cold, &section, rounds, &mut ways.collect::<Vec<_>>())?;
            results.raw.insert(section.clone(), series);
            for system in systems.iter().filter(|system| **system != System::Stook) {
                let (ours, theirs) = (System::Stook.name(), system.name());
                let goal = format!("{section}: {ours} over {theirs}");
                results.longer(&section, &goal, Target::None, ours, theirs)?;
            }
        }
        forget_indexes(file.as_path())?;
        sample::remove(&file)?;
    }
    sample::remove(&tree)
}

/// From mounting until a script has ended.
fn measured(
    (place, system, file): (&Place, System, &Path),
    (has_index, script): (bool, &str),
    cold: &Cold,
) -> anyhow::Result<f64> {
    match has_index {
        false => forget_indexes(file)?,
        // Who keeps one makes it now, if it is not there.
        true => system.mount_file(file, place)?.unmount()?,
    }
    place.prepare(cold)?;
    let started = Instant::now();
    let mounted = system.mount_file(file, place)?;
    let read = ended(bash(script).current_dir(mounted.path()));
    let seconds = started.elapsed().as_secs_f64();
    mounted.unmount()?;
    read.map(|()| seconds)
}

/// Removes what Stook and ratarmount keep beside an archive.
fn forget_indexes(file: &Path) -> anyhow::Result<()> {
    for index in ["stook-index", "index.sqlite"] {
        let mut name = file.as_os_str().to_owned();
        name.push(format!(".{index}"));
        sample::remove(Path::new(&name))?;
    }
    Ok(())
}

/// Files that compress to half of their length, in a directory.
fn tree(place: &Place) -> anyhow::Result<PathBuf> {
    let many = MEMBERS.tree(&place.work, || Ok(()))?;
    let long = LONG.tree(&place.work, || Ok(()))?;
    let tree = place.work.join("text");
    sample::remove(&tree)?;
    let script = "mkdir \"$3\"; cp -r \"$1\" \"$3/many\"; find \"$3/many\" -type f ! -name '*.hex' | while read -r file; do \
        od -An -v -tx1 \"$file\" | tr -d ' \\n' > \"$file.hex\"; rm \"$file\"; done
        find \"$2\" -type f -exec od -An -v -tx1 {} + | tr -d ' \\n' > \"$3/long\"";
    ended(bash(script).arg(&many).arg(&long).arg(&tree)).context("cannot make text")?;
    sample::remove(&many)?;
    sample::remove(&long)?;
    Ok(tree)
}

fn bash(script: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", script, "bash"]);
    command
}
