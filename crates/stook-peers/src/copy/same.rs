//! Whether a copy is what was to be copied: names, kinds and bytes, and of ours modes and times.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};

use super::tools::Copier;

const BLOCK_LEN: usize = 1 << 20;

/// Compares a tree with its copy.
///
/// # Errors
/// Returns an error that names the first entry that differs, or cannot be read.
pub(super) fn compare(copier: Copier, source: &Path, copy: &Path) -> anyhow::Result<()> {
    let mut comparison = Comparison { copier, blocks: [vec![0; BLOCK_LEN], vec![0; BLOCK_LEN]] };
    let compared = comparison.directories(source, copy, true);
    compared.with_context(|| format!("{} left a wrong copy", copier.name()))
}

struct Comparison {
    copier: Copier,
    blocks: [Vec<u8>; 2],
}

impl Comparison {
    fn directories(&mut self, source: &Path, copy: &Path, is_top: bool) -> anyhow::Result<()> {
        let wanted = entries(source)?;
        let mut found = entries(copy)?;
        if is_top {
            found.retain(|name, _| !self.copier.is_own_list(&name.to_string_lossy()));
        }
        for name in found.keys() {
            ensure!(wanted.contains_key(name), "{} is only in the copy", copy.join(name).display());
        }
        for (name, of_source) in &wanted {
            let (source, copy) = (source.join(name), copy.join(name));
            let of_copy = found.get(name).with_context(|| format!("{} is missing", copy.display()))?;
            let is_same = match of_source.is_dir() && of_copy.is_dir() {
                true => {
                    self.directories(&source, &copy, false)?;
                    true
                }
                false => self.files(&source, &copy, [of_source, of_copy])?,
            };
            ensure!(is_same, "{} has other contents than {}", copy.display(), source.display());
            // Most of the others keep them only if asked.
            if self.copier.is_ours() {
                let kept = |of: &Metadata| (of.mode(), of.mtime(), of.mtime_nsec());
                ensure!(kept(of_source) == kept(of_copy), "{} has another mode or time", copy.display());
            }
        }
        Ok(())
    }

    fn files(&mut self, source: &Path, copy: &Path, [wanted, found]: [&Metadata; 2]) -> anyhow::Result<bool> {
        if wanted.file_type() != found.file_type() || wanted.len() != found.len() {
            return Ok(false);
        }
        if wanted.is_symlink() {
            return Ok(fs::read_link(source)? == fs::read_link(copy)?);
        }
        if !wanted.is_file() {
            bail!("{} is neither a file nor a link", source.display());
        }
        let (mut wanted, mut found) = (File::open(source)?, File::open(copy)?);
        let [of_source, of_copy] = &mut self.blocks;
        loop {
            let read = wanted.read(of_source).with_context(|| format!("cannot read {}", source.display()))?;
            if read == 0 {
                return Ok(true);
            }
            let copied = &mut of_copy[..read];
            found.read_exact(copied).with_context(|| format!("cannot read {}", copy.display()))?;
            if of_source[..read] != *copied {
                return Ok(false);
            }
        }
    }
}

fn entries(directory: &Path) -> anyhow::Result<BTreeMap<OsString, Metadata>> {
    let context = || format!("cannot list {}", directory.display());
    let mut entries = BTreeMap::new();
    for entry in fs::read_dir(directory).with_context(context)? {
        let entry = entry.with_context(context)?;
        entries.insert(entry.file_name(), fs::symlink_metadata(entry.path())?);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(at: &Path) {
        fs::create_dir_all(at.join("deep")).unwrap();
        fs::write(at.join("deep/file"), vec![7; BLOCK_LEN + 10]).unwrap();
        fs::write(at.join("empty"), "").unwrap();
        std::os::unix::fs::symlink("empty", at.join("link")).unwrap();
    }

    fn message(source: &Path, copy: &Path) -> String {
        format!("{:#}", compare(Copier::Cp, source, copy).unwrap_err())
    }

    #[test]
    fn every_difference_is_named() {
        let work = tempfile::tempdir().unwrap();
        let (source, copy) = (work.path().join("source"), work.path().join("copy"));
        tree(&source);
        tree(&copy);
        compare(Copier::Cp, &source, &copy).unwrap();
        let mut bytes = vec![7; BLOCK_LEN + 10];
        bytes[BLOCK_LEN + 3] = 8;
        fs::write(copy.join("deep/file"), bytes).unwrap();
        assert!(message(&source, &copy).contains("copy/deep/file has other contents"));
        fs::write(copy.join("deep/file"), "short").unwrap();
        assert!(message(&source, &copy).contains("copy/deep/file has other contents"));
        fs::remove_file(copy.join("deep/file")).unwrap();
        assert!(message(&source, &copy).contains("copy/deep/file is missing"));
        fs::write(copy.join("shasum.2026.txt"), "").unwrap();
        assert!(message(&source, &copy).contains("shasum.2026.txt is only in the copy"));
    }

    #[test]
    fn ours_has_to_keep_times_and_lists_of_dircopy_are_its_own() {
        let work = tempfile::tempdir().unwrap();
        let (source, copy) = (work.path().join("source"), work.path().join("copy"));
        for at in [&source, &copy] {
            fs::create_dir(at).unwrap();
            fs::write(at.join("file"), "x").unwrap();
        }
        let earlier = std::time::SystemTime::UNIX_EPOCH;
        File::options().write(true).open(copy.join("file")).unwrap().set_modified(earlier).unwrap();
        compare(Copier::Cp, &source, &copy).unwrap();
        let error = format!("{:#}", compare(Copier::Stook, &source, &copy).unwrap_err());
        assert!(error.contains("has another mode or time"), "{error}");
        fs::write(copy.join("shasum.2026.txt"), "").unwrap();
        compare(Copier::Dircopy, &source, &copy).unwrap();
    }
}
