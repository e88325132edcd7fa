//! A copy whose source is in memory already, and one whose source does not fit there: how an
//! impossible rate comes and goes.
//!
//! Memory is bounded by a control group for the copy alone, so that no file has to be larger than
//! the memory of the machine.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde::Serialize;
use stook::report::stats::median;

use super::ways::with_cp;
use crate::sample::remove;

/// Data against memory, as published: 18 of 64 GiB, and 147 of them.
pub(super) const SHARES: [f64; 2] = [0.3, 2.3];

/// One round: a copy of a cold source, and one of a source that was read just before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CachedRun {
    /// Of the cold one, seconds.
    pub cold_seconds: f64,
    /// Of the other.
    pub seconds: f64,
}

/// A copy of a source that was read just before, beside one of a cold source.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cached {
    /// Bytes of the file ÷ memory.
    pub data_of_memory: f64,
    /// The limit of memory, bytes.
    pub memory_bytes: u64,
    /// How long it took, seconds: median of the rounds.
    pub seconds: Option<f64>,
    /// The same with a cold source, in the same group.
    pub cold_seconds: Option<f64>,
    /// Every round.
    pub runs: Vec<CachedRun>,
    /// Why it was not measured.
    pub left_out: Option<String>,
}

/// Measures copies with that much memory for what `file_bytes` are in, cold and not, in turn.
/// `prepare` empties caches. The last copy stays.
///
/// # Errors
/// Returns an error if copying fails; where no control group can be made, that is said instead.
pub(super) fn measure(
    from: &Path,
    to: &Path,
    file_bytes: u64,
    data_of_memory: f64,
    rounds: usize,
    prepare: impl Fn() -> anyhow::Result<()>,
) -> anyhow::Result<Cached> {
    let memory_bytes = (file_bytes as f64 / data_of_memory) as u64;
    let left_out = |why: String| Cached {
        data_of_memory,
        memory_bytes,
        seconds: None,
        cold_seconds: None,
        runs: Vec::new(),
        left_out: Some(why),
    };
    // What cp and the shell need themselves.
    if memory_bytes < 16 << 20 {
        return Ok(left_out("the file is too small to leave a program any memory".to_owned()));
    }
    let group = match Group::make(memory_bytes) {
        Ok(group) => group,
        Err(error) => return Ok(left_out(format!("no control group can be made: {error:#}"))),
    };
    let copy = || -> anyhow::Result<f64> {
        remove(to)?;
        let began = Instant::now();
        with_cp(&mut group.within("cp"), from, to)?;
        Ok(began.elapsed().as_secs_f64())
    };
    let mut runs = Vec::new();
    for _ in 0..rounds {
        prepare()?;
        let cold_seconds = copy()?;
        prepare()?;
        let read = group.within("cat").arg(from).stdin(Stdio::null()).stdout(Stdio::null()).status();
        ensure!(read.context("cannot start cat")?.success(), "cannot read {}", from.display());
        runs.push(CachedRun { cold_seconds, seconds: copy()? });
    }
    let median_of = |of: fn(&CachedRun) -> f64| median(&runs.iter().map(of).collect::<Vec<_>>());
    let (seconds, cold_seconds) = (median_of(|run| run.seconds)?, median_of(|run| run.cold_seconds)?);
    let (seconds, cold_seconds) = (Some(seconds), Some(cold_seconds));
    Ok(Cached { data_of_memory, memory_bytes, seconds, cold_seconds, runs, left_out: None })
}

#[cfg(test)]
impl Cached {
    /// Of rounds of a cold source and of one that was read.
    pub(super) fn of(data_of_memory: f64, runs: &[[f64; 2]]) -> Self {
        let runs: Vec<CachedRun> =
            runs.iter().map(|&[cold_seconds, seconds]| CachedRun { cold_seconds, seconds }).collect();
        let (seconds, cold_seconds) = (Some(runs[0].seconds), Some(runs[0].cold_seconds));
        Self { data_of_memory, memory_bytes: 1, seconds, cold_seconds, runs, left_out: None }
    }
}

/// How the control groups of these copies are named, before the number of the process.
const GROUP: &str = "stook-study-";

/// Removes the control groups of processes that were killed. One that is in use cannot be removed.
pub(crate) fn remove_left_groups() {
    for (root, _) in ROOTS {
        let Ok(entries) = fs::read_dir(root) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let process = name.to_str().and_then(|name| name.strip_prefix(GROUP)?.parse::<u32>().ok());
            if process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
                // It is empty, or somebody's; either way the study does not depend on it.
                let _ = fs::remove_dir(entry.path());
            }
        }
    }
}

/// Where control groups are, of version 1 and 2, and the file with the limit of memory.
const ROOTS: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

/// A control group with a limit of memory; removed with it.
struct Group {
    directory: PathBuf,
}

impl Group {
    /// Of version 1 or 2, whichever has the controller of memory.
    fn make(memory_bytes: u64) -> anyhow::Result<Self> {
        let own = format!("{GROUP}{}", std::process::id());
        let mut why = anyhow::anyhow!("no controller of memory is mounted");
        for (root, limit) in ROOTS {
            if !Path::new(root).join("cgroup.procs").exists() {
                continue;
            }
            let directory = Path::new(root).join(&own);
            match fs::create_dir(&directory) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    why = anyhow::Error::new(error).context(format!("cannot make {}", directory.display()));
                    continue;
                }
                _ => {}
            }
            let group = Self { directory };
            let file = group.directory.join(limit);
            match fs::write(&file, memory_bytes.to_string()) {
                Ok(()) => return Ok(group),
                Err(error) => {
                    why = anyhow::Error::new(error).context(format!("cannot write {}", file.display()));
                }
            }
        }
        Err(why)
    }

    /// A program that starts in it.
    fn within(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        // The shell goes into the group, and becomes the program there.
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.directory.join("cgroup.procs"));
        command.arg(program);
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Nothing runs in it any more; what is left otherwise is an empty group.
        let _ = fs::remove_dir(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_leaves_no_memory_is_left_out_and_says_so() {
        let place = tempfile::tempdir().unwrap();
        let found =
            measure(place.path(), place.path(), 1 << 20, 2.3, 1, || panic!("nothing is prepared")).unwrap();
        assert!(found.seconds.is_none() && found.left_out.unwrap().contains("too small"));
    }

    /// Before: the group of a process that was killed stayed for ever.
    #[test]
    fn groups_of_processes_that_are_gone_are_removed() {
        let mut gone = Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let made: Vec<PathBuf> = ROOTS
            .iter()
            .map(|(root, _)| Path::new(root).join(format!("{GROUP}{}", gone.id())))
            .filter(|path| fs::create_dir(path).is_ok())
            .collect();
        remove_left_groups();
        // Where none can be made there is none either.
        assert!(made.iter().all(|path| !path.exists()), "{made:?}");
    }

    /// As root with a controller of memory it is measured, elsewhere it says why it is not.
    #[test]
    fn a_copy_runs_in_a_group_of_its_own_or_says_why_not() {
        let place = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| place.path().join(name));
        fs::write(&from, vec![5; 48 << 20]).unwrap();
        let found = measure(&from, &to, 48 << 20, 2.3, 2, || Ok(())).unwrap();
        assert_ne!(found.seconds.is_some(), found.left_out.is_some());
        if found.seconds.is_some() {
            assert_eq!((found.runs.len(), found.cold_seconds.is_some()), (2, true));
            assert_eq!(fs::metadata(&to).unwrap().len(), 48 << 20);
            let own = format!("/sys/fs/cgroup/memory/stook-study-{}", std::process::id());
            assert!(!Path::new(&own).exists(), "the group is removed");
        }
    }
}
