//! Small files, made for this and read cold: what opening and listing costs, and how many readers
//! it takes.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::super::error::Result;
use super::super::observer::Observer;
use super::super::random::fresh_seed;
use super::DeviceSurvey;
use super::fit::of_rounds;
use crate::engine::drop_system_caches;
use crate::error::Error;
use crate::profile::survey::{ReadersPoint, SmallFiles, Validity};
use crate::walk::read_tree;

const FILE_BYTES: usize = 4096;
const FILES_PER_DIRECTORY: u64 = 100;
const READERS: [u64; 7] = [1, 2, 4, 8, 16, 32, 128];
const ROUNDS: usize = 3;

/// What came of it.
pub(super) enum FilesOutcome {
    Measured(SmallFiles),
    /// The reason why nothing was measured.
    Not(String),
    Interrupted,
}

/// Makes them, reads them cold in rounds, and removes them.
pub(super) fn measure(
    survey: &DeviceSurvey,
    directory: &Path,
    observer: &dyn Observer,
) -> Result<FilesOutcome> {
    if survey.files == 0 {
        return Ok(FilesOutcome::Not("small files: none were asked for".into()));
    }
    if !survey.may_drop_caches {
        return Ok(FilesOutcome::Not(
            "small files: caches were to be left alone, so none could be read cold".into(),
        ));
    }
    // Before anything is made for it.
    if let Err(error) = drop_system_caches() {
        let why = crate::error::chain(&error);
        return Ok(FilesOutcome::Not(format!("small files were not read, as they would be warm: {why}")));
    }
    let tree = OwnTree::make(directory)?;
    if !tree.fill(survey.files, observer)? {
        return Ok(FilesOutcome::Interrupted);
    }
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); READERS.len()];
    let mut lists = Vec::new();
    for _round in 0..ROUNDS {
        for (readers, rates) in READERS.iter().zip(&mut rates) {
            if observer.is_interrupted() {
                return Ok(FilesOutcome::Interrupted);
            }
            drop_system_caches()?;
            let begun = Instant::now();
            let summary = read_tree([&tree.path], *readers as usize, |_| {})?;
            rates.push(summary.files as f64 / begun.elapsed().as_secs_f64());
        }
        drop_system_caches()?;
        let begun = Instant::now();
        let entries = list(&tree.path)?;
        lists.push(begun.elapsed().as_secs_f64() / entries.max(1) as f64);
    }
    // No counter shows how often each name was looked up.
    let state = Validity::Unverified;
    let points = READERS.iter().zip(&rates);
    let points = points.filter_map(|(&readers, rates)| {
        Some(ReadersPoint { readers, files_per_s: of_rounds(rates, state)? })
    });
    let Some(list_s) = of_rounds(&lists, state) else {
        return Ok(FilesOutcome::Not("small files: nothing was measured".into()));
    };
    Ok(FilesOutcome::Measured(SmallFiles {
        files: survey.files,
        file_bytes: FILE_BYTES as u64,
        open_s: None,
        list_s,
        readers: points.collect(),
    }))
}

/// How many names there are, by listing them.
fn list(directory: &Path) -> crate::Result<u64> {
    let failed = |error| Error::io("list", directory, error);
    let mut entries = 0;
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        entries += 1;
        if entry.file_type().map_err(failed)?.is_dir() {
            entries += list(&entry.path())?;
        }
    }
    Ok(entries)
}

/// A directory that goes with this value, with all that is in it.
struct OwnTree {
    path: PathBuf,
}

impl OwnTree {
    fn make(directory: &Path) -> crate::Result<Self> {
        let path = directory.join(format!(".stook-survey-{}-{:08x}", std::process::id(), fresh_seed()));
        DirBuilder::new().mode(0o700).create(&path).map_err(|error| Error::io("create", &path, error))?;
        Ok(Self { path })
    }

    /// Writes the files, and syncs them; `false` if it was interrupted.
    fn fill(&self, files: u64, observer: &dyn Observer) -> crate::Result<bool> {
        let mut bytes = [0; FILE_BYTES];
        let mut below = PathBuf::new();
        for number in 0..files {
            if observer.is_interrupted() {
                return Ok(false);
            }
            if number % FILES_PER_DIRECTORY == 0 {
                below = self.path.join(format!("{:06}", number / FILES_PER_DIRECTORY));
                fs::create_dir(&below).map_err(|error| Error::io("create", &below, error))?;
            }
            let path = below.join(format!("{number:08}"));
            getrandom::fill(&mut bytes).map_err(|error| Error::io("fill", &path, io::Error::other(error)))?;
            let written = File::create_new(&path).and_then(|mut file| file.write_all(&bytes));
            written.map_err(|error| Error::io("write to", &path, error))?;
        }
        let directory = File::open(&self.path).map_err(|error| Error::io("open", &self.path, error))?;
        rustix::fs::syncfs(&directory).map_err(|error| Error::io("sync", &self.path, error.into()))?;
        Ok(true)
    }
}

impl Drop for OwnTree {
    fn drop(&mut self) {
        // However it ends; what cannot be removed has a name that says whose it is.
        let _ = fs::remove_dir_all(&self.path);
    }
}
