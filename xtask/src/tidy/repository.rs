//! The files of the repository in memory: those git tracks, and those it would if asked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::{fs, str};

use anyhow::{Context, Result, ensure};
use proc_macro2::TokenStream;

/// The repository as the rules see it; paths are relative to its root, with `/`.
#[derive(Default)]
pub(super) struct Repository {
    /// Every file, also those that are not text.
    pub(super) paths: BTreeSet<String>,
    /// The tokens of every Rust file.
    pub(super) rust: BTreeMap<String, TokenStream>,
    pub(super) manifests: BTreeMap<String, toml::Table>,
    /// Every file that is UTF-8, the Rust files and manifests among them.
    pub(super) texts: BTreeMap<String, String>,
}

impl Repository {
    /// Reads the repository that `folder` lies in.
    pub(super) fn around(folder: &Path) -> Result<Self> {
        let root = git(folder, &["rev-parse", "--show-toplevel"])?;
        let root = Path::new(root.trim_end());
        let listed = git(root, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        let mut repository = Self::default();
        for path in listed.split('\0').filter(|path| !path.is_empty()) {
            let file = root.join(path);
            // A file that was deleted but not yet committed is still listed, and a link has no
            // text.
            if file.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
                let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
                repository.add(path, &bytes)?;
            }
        }
        Ok(repository)
    }

    fn add(&mut self, path: &str, bytes: &[u8]) -> Result<()> {
        self.paths.insert(path.to_owned());
        let Ok(text) = str::from_utf8(bytes) else { return Ok(()) };
        if path.ends_with(".rs") {
            let tokens = text.parse().map_err(|error| anyhow::anyhow!("{path} is not Rust: {error}"))?;
            self.rust.insert(path.to_owned(), tokens);
        } else if path == "Cargo.toml" || path.ends_with("/Cargo.toml") {
            let manifest = text.parse().with_context(|| format!("{path} is not TOML"))?;
            self.manifests.insert(path.to_owned(), manifest);
        }
        self.texts.insert(path.to_owned(), text.to_owned());
        Ok(())
    }

    /// A repository of these files, for the tests of a rule.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let mut repository = Self::default();
        for (path, text) in files {
            repository.add(path, text.as_bytes()).unwrap();
        }
        repository
    }
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(arguments)
        .output()
        .context("running git, which lists the files to check")?;
    ensure!(
        output.status.success(),
        "git {} in {} failed: {}",
        arguments.join(" "),
        folder.display(),
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    String::from_utf8(output.stdout).context("git listed a path that is not UTF-8")
}
