//! Six trees of different kinds. Sources and Python packages are what this machine has, copied, so
//! that all six lie alike; the others are generated, and their names say so.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

/// Bytes that are copied of what is there, at most.
const COPIED_MAX_BYTES: u64 = 300_000_000;

/// A tree, and how it is made.
pub(super) struct Kind {
    pub(super) name: &'static str,
    make: fn(&Maker<'_>, &Path) -> anyhow::Result<()>,
}

/// All of them.
pub(super) const KINDS: [Kind; 6] = [
    Kind { name: "sources", make: |maker, to| copy_tree(maker.sources, to) },
    Kind { name: "node_modules-generated", make: |_, to| node_modules(to) },
    Kind { name: "python-packages", make: |maker, to| copy_tree(maker.python, to) },
    Kind { name: "mail-generated", make: |_, to| mail(to) },
    Kind { name: "images-generated", make: |_, to| images(to) },
    Kind { name: "large-generated", make: |_, to| large(to) },
];

/// Where trees that are copied come from.
pub(super) struct Maker<'a> {
    pub(super) sources: &'a Path,
    pub(super) python: &'a Path,
}

impl Kind {
    /// Makes it, unless it is there.
    pub(super) fn tree(&self, maker: &Maker<'_>, work: &Path) -> anyhow::Result<PathBuf> {
        let tree = work.join(self.name);
        if tree.is_dir() {
            return Ok(tree);
        }
        let partial = work.join(format!("{}.partial", self.name));
        if partial.exists() {
            fs::remove_dir_all(&partial)?;
        }
        fs::create_dir_all(&partial)?;
        (self.make)(maker, &partial).with_context(|| format!("cannot make {}", self.name))?;
        stook_study::sample::sync(&partial)?;
        fs::rename(&partial, &tree)?;
        Ok(tree)
    }
}

/// Where lengths and bytes of generated files come from: the same every time (splitmix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, count: u64) -> u64 {
        self.next() % count.max(1)
    }

    /// A length whose logarithm is normally distributed (Box and Muller).
    fn length(&mut self, median_bytes: f64, spread: f64, most: u64) -> u64 {
        let (left, right) = (1.0 - self.share(), self.share());
        let normal = (-2.0 * left.ln()).sqrt() * (std::f64::consts::TAU * right).cos();
        ((median_bytes * (spread * normal).exp()) as u64).clamp(1, most)
    }

    fn write(&mut self, path: &Path, len: u64) -> anyhow::Result<()> {
        let mut file =
            fs::File::create_new(path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut block = Vec::new();
        let mut left = len;
        while left > 0 {
            block.clear();
            while (block.len() as u64) < left.min(1 << 20) {
                block.extend_from_slice(&self.next().to_le_bytes());
            }
            block.truncate(left.min(1 << 20) as usize);
            file.write_all(&block)?;
            left -= block.len() as u64;
        }
        Ok(())
    }
}

/// Regular files of a tree, in its order, up to a bound.
fn copy_tree(from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut bytes = 0;
    copy_below(from, to, &mut bytes)?;
    ensure!(bytes > 0, "{} has no files: name another one", from.display());
    Ok(())
}

fn copy_below(from: &Path, to: &Path, bytes: &mut u64) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let entry = entry?;
        if *bytes >= COPIED_MAX_BYTES {
            return Ok(());
        }
        let kind = entry.file_type()?;
        let target = to.join(entry.file_name());
        if kind.is_dir() {
            copy_below(&entry.path(), &target, bytes)?;
        } else if kind.is_file() {
            *bytes += fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Packages, some within others, of few small files each.
fn node_modules(to: &Path) -> anyhow::Result<()> {
    let mut chance = Chance(1);
    for package in 0..900 {
        let mut directory = to.join(format!("package-{package:04}"));
        for _ in 0..chance.below(3) {
            directory = directory.join("node_modules").join(format!("inner-{:03}", chance.below(1000)));
        }
        for below in ["", "dist", "lib/internal"] {
            let below = directory.join(below);
            fs::create_dir_all(&below)?;
            for file in 0..3 + chance.below(12) {
                let len = chance.length(1800.0, 1.3, 400_000);
                chance.write(&below.join(format!("file-{file}.js")), len)?;
            }
        }
    }
    Ok(())
}

/// Folders of many messages each, whose names say little.
fn mail(to: &Path) -> anyhow::Result<()> {
    let mut chance = Chance(2);
    for folder in 0..8 {
        let directory = to.join(format!("folder-{folder}/cur"));
        fs::create_dir_all(&directory)?;
        for message in 0..2500 {
            let len = chance.length(6000.0, 1.2, 3_000_000);
            let name = format!("{:010}.{:08x}.host:2,S", 1_700_000_000 + message * 977, chance.next() as u32);
            chance.write(&directory.join(name), len)?;
        }
    }
    Ok(())
}

fn images(to: &Path) -> anyhow::Result<()> {
    let mut chance = Chance(3);
    for class in 0..20 {
        let directory = to.join(format!("class-{class:02}"));
        fs::create_dir_all(&directory)?;
        for image in 0..130 {
            let len = chance.length(110_000.0, 0.5, 2_000_000);
            chance.write(&directory.join(format!("{image:05}.jpg")), len)?;
        }
    }
    Ok(())
}

fn large(to: &Path) -> anyhow::Result<()> {
    let mut chance = Chance(4);
    (0..5).try_for_each(|file| {
        let len = 50_000_000 + chance.below(30_000_000);
        chance.write(&to.join(format!("{file}.bin")), len)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_spread_around_their_median_and_bounded() {
        let mut chance = Chance(7);
        let mut lens: Vec<u64> = (0..2001).map(|_| chance.length(6000.0, 1.2, 50_000)).collect();
        lens.sort_unstable();
        assert!((5000..7200).contains(&lens[1000]), "{}", lens[1000]);
        assert!(lens[0] >= 1 && lens[2000] <= 50_000 && lens[100] < 2000);
    }

    #[test]
    fn a_copy_has_the_files_of_its_source_and_no_link() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(from.path().join("a")).unwrap();
        fs::write(from.path().join("a/file"), "bytes").unwrap();
        std::os::unix::fs::symlink("/", from.path().join("link")).unwrap();
        let to = to.path().join("copy");
        copy_tree(from.path(), &to).unwrap();
        assert_eq!(fs::read(to.join("a/file")).unwrap(), b"bytes");
        assert!(!to.join("link").exists());
        assert!(copy_tree(&to.join("a/none"), &to).is_err());
    }
}
