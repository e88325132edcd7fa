//! A large zip and a WebDataset tar where they lie: listing them, and reading members at random,
//! against Python's readers of archives.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use stook::archive::{Archive, OpenOptions};

use super::{Bench, Way};
use crate::result::Target;

/// Members that are read at random.
const PICKED: u64 = 2_000;
/// Files of the zip, 20,000 bytes each: 5 GB.
const ZIP_MEMBERS: u64 = 250_000;
/// Samples of the tar, a picture of 20,000 bytes and a class each: a million members would be 10
/// GB.
const TAR_SAMPLES: u64 = 50_000;

const MAKE: &str = r#"
import io, os, sys, tarfile, zipfile
kind, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
if kind == "zip":
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for n in range(count):
            archive.writestr("images/%03d/%06d.jpg" % (n // 1000, n), os.urandom(20000))
else:
    with tarfile.open(path, "w") as archive:
        for n in range(count):
            for ending, body in (("jpg", os.urandom(20000)), ("cls", b"%04d" % (n % 1000))):
                info = tarfile.TarInfo("%06d.%s" % (n, ending))
                info.size = len(body)
                archive.addfile(info, io.BytesIO(body))
os.sync()
"#;

const READ: &str = r#"
import sys, tarfile, time, zipfile
path, picked = sys.argv[1], int(sys.argv[2])
began = time.perf_counter()
if path.endswith(".zip"):
    archive = zipfile.ZipFile(path)
    names = archive.namelist()
    read = archive.read
else:
    archive = tarfile.open(path)
    names = archive.getnames()
    read = lambda name: archive.extractfile(name).read()
state, total = 1, 0
for _ in range(picked):
    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    total += len(read(names[(state >> 33) % len(names)]))
print(time.perf_counter() - began)
"#;

/// Lists and reads both.
pub(super) fn run(bench: &mut Bench) -> anyhow::Result<()> {
    for (kind, count, members) in [("zip", ZIP_MEMBERS, ZIP_MEMBERS), ("tar", TAR_SAMPLES, 2 * TAR_SAMPLES)] {
        let path = bench.work.join(format!("archive.{kind}"));
        eprintln!("Making {}", path.display());
        python(MAKE, &[kind.as_ref(), path.as_os_str(), count.to_string().as_ref()])?;
        one(bench, kind, &path, members)?;
        stook_study::sample::remove(&path)?;
    }
    Ok(())
}

fn one(bench: &mut Bench, kind: &str, path: &Path, members: u64) -> anyhow::Result<()> {
    let section = format!("archive {kind}");
    let index = opened(path)?.index_path().unwrap_or_default();
    // The directory of a zip is its index; a tar gets one beside it.
    let has_index = index.exists();
    let mut both = vec![path.to_path_buf()];
    both.extend(has_index.then(|| index.clone()));
    let without_index = || -> anyhow::Result<f64> {
        if has_index {
            std::fs::remove_file(&index).context("the index is there")?;
        }
        let began = Instant::now();
        ensure!(opened(path)?.members(b"").count() as u64 == members, "members are missing");
        Ok(began.elapsed().as_secs_f64())
    };
    let with_index = |picked| -> anyhow::Result<f64> {
        let began = Instant::now();
        let archive = opened(path)?;
        ensure!(archive.members(b"").count() as u64 == members, "members are missing");
        read_at_random(&archive, picked)?;
        Ok(began.elapsed().as_secs_f64())
    };
    let theirs = |picked: u64| -> anyhow::Result<f64> {
        let reported = python(READ, &[path.as_os_str(), picked.to_string().as_ref()])?;
        reported.trim().parse().context("Python prints a time")
    };
    let series = {
        let cold = |name: &str, run: &dyn Fn() -> anyhow::Result<f64>| -> anyhow::Result<_> {
            let mut ways = [Way::cold(name, path, || run().map(Some))];
            give_up(&both)?;
            bench.interleave(&section, 1, &mut ways)
        };
        let mut all = crate::result::Series::new();
        for _ in 0..bench.rounds {
            for series in [
                cold("list, first time", &without_index)?,
                cold("list", &|| with_index(0))?,
                cold("list with Python", &|| theirs(0))?,
                cold("2,000 at random", &|| with_index(PICKED))?,
                cold("2,000 at random with Python", &|| theirs(PICKED))?,
            ] {
                for (name, mut taken) in series {
                    all.entry(name).or_default().append(&mut taken);
                }
            }
        }
        all
    };
    bench.results.raw.insert(section.clone(), series);
    if has_index {
        std::fs::remove_file(&index)?;
    }
    let results = &mut bench.results;
    for (ours, theirs) in [
        ("list, first time", "list with Python"),
        ("list", "list with Python"),
        ("2,000 at random", "2,000 at random with Python"),
    ] {
        results.faster(&section, &format!("{section}: {ours}"), Target::AtLeast(1.0), ours, theirs)?;
    }
    Ok(())
}

/// Leaves nothing of these files in the page cache.
fn give_up(paths: &[PathBuf]) -> anyhow::Result<()> {
    for path in paths {
        let file = std::fs::File::open(path)?;
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}

fn opened(path: &Path) -> anyhow::Result<Archive> {
    Ok(Archive::open(path, OpenOptions::default())?)
}

/// Reads members by their numbers, the same that Python picks.
fn read_at_random(archive: &Archive, picked: u64) -> anyhow::Result<()> {
    let mut state = 1_u64;
    let mut numbers = Vec::new();
    for _ in 0..picked {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        numbers.push((state >> 33) % archive.len());
    }
    let mut reading = archive.read(numbers)?;
    let (mut members, mut bytes) = (0, 0);
    while reading.next()?.is_some() {
        members += 1;
        while let Some(chunk) = reading.chunk()? {
            bytes += chunk.len();
        }
    }
    ensure!(members == picked && (picked == 0 || bytes > 0), "{members} members of {bytes} bytes were read");
    Ok(())
}

fn python(script: &str, arguments: &[&std::ffi::OsStr]) -> anyhow::Result<String> {
    let output = Command::new("python3").arg("-c").arg(script).args(arguments).output()?;
    ensure!(output.status.success(), "Python failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
