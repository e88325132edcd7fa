//! The same calls from Python, by the packages that are installed there.

use std::fmt;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, anyhow};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::plan::{Blocks, Plan};

/// Makes the calls; waits for a plan on each line.
const SCRIPT: &str = include_str!("python.py");

/// A package for Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Package {
    /// Our own.
    Stook,
    /// The one of the document.
    Svfsc,
}

impl fmt::Display for Package {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Stook => "stook",
            Self::Svfsc => "svfsc",
        })
    }
}

/// A package in an interpreter of its own, which lives until this is dropped.
#[derive(Debug)]
pub(super) struct Peer {
    package: Package,
    /// Its version.
    pub(super) version: String,
    interpreter: Child,
    answers: BufReader<ChildStdout>,
}

/// Times of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(super) struct Timed {
    /// All calls.
    pub(super) took_s: f64,
    /// As many calls that do nothing; `None` where threads make them.
    pub(super) idle_s: Option<f64>,
}

/// The first line that an interpreter prints.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Greeting {
    Ready { version: String, is_debug: bool },
    Missing { missing: String },
}

#[derive(Debug, Deserialize)]
struct Memory {
    memory_bytes: u64,
}

impl Peer {
    /// Starts `python` with the package, or says why there is none.
    pub(super) fn start(python: &str, package: Package) -> Result<Self, String> {
        let none =
            |why: &dyn fmt::Display| format!("The package {package} is not measured from {python}: {why}");
        let mut command = Command::new(python);
        command.args(["-c", SCRIPT, &package.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut interpreter = command.spawn().map_err(|error| none(&error))?;
        let Some(answers) = interpreter.stdout.take() else { return Err(none(&"it has no output")) };
        let version = String::new();
        let mut peer = Self { package, version, interpreter, answers: BufReader::new(answers) };
        match peer.answer::<Greeting>().map_err(|error| none(&error))? {
            Greeting::Ready { is_debug, .. }
                if package == Package::Stook && is_debug != cfg!(debug_assertions) =>
            {
                Err(none(&"of it and this program one is a debug build, so times cannot be compared"))
            }
            Greeting::Ready { version, .. } => {
                peer.version = version;
                Ok(peer)
            }
            Greeting::Missing { missing } => Err(none(&missing)),
        }
    }

    /// Carries out a plan; reads back everything afterwards if that `is_checked`.
    ///
    /// # Errors
    /// Returns an error if the package fails, or returns other bytes.
    pub(super) fn time(&mut self, plan: &Plan, is_checked: bool) -> anyhow::Result<Timed> {
        self.ask(&json!({ "plan": plan, "check": is_checked }))
    }

    /// The memory that the package counts for a file with these blocks.
    ///
    /// # Errors
    /// Returns an error if the package fails.
    pub(super) fn memory_bytes(&mut self, blocks: Blocks) -> anyhow::Result<u64> {
        Ok(self.ask::<Memory>(&json!({ "hold": blocks }))?.memory_bytes)
    }

    fn ask<T: for<'a> Deserialize<'a>>(&mut self, question: &Value) -> anyhow::Result<T> {
        let line = format!("{question}\n");
        let stdin = self.interpreter.stdin.as_mut().context("it was asked to end")?;
        // One that has ended takes no question any more; why it did comes instead of an answer.
        let asked = stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush());
        let answered = self.answer();
        if answered.is_ok() {
            asked?;
        }
        answered.with_context(|| format!("{} from Python failed", self.package))
    }

    fn answer<T: for<'a> Deserialize<'a>>(&mut self) -> anyhow::Result<T> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? > 0 {
            return serde_json::from_str(&line).with_context(|| format!("it printed {line:?}"));
        }
        drop(self.interpreter.stdin.take());
        let mut said = String::new();
        if let Some(stderr) = self.interpreter.stderr.as_mut() {
            stderr.read_to_string(&mut said)?;
        }
        // The last line of a traceback is the error.
        let last = said.lines().rev().find(|line| !line.trim().is_empty());
        Err(anyhow!("{}", last.unwrap_or("it ended without an answer")))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It keeps nothing; that it may have ended already is no error.
        let _ = self.interpreter.kill();
        let _ = self.interpreter.wait();
    }
}

/// What was measured of a package.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Installed {
    /// Its version; absent where it was not measured.
    pub version: Option<String>,
    /// Why it was not measured.
    pub left_out: Option<String>,
}

impl Installed {
    pub(super) fn of(started: &Result<Peer, String>) -> Self {
        match started {
            Ok(peer) => Self { version: Some(peer.version.clone()), left_out: None },
            Err(why) => Self { version: None, left_out: Some(why.clone()) },
        }
    }

    /// Why it was not measured, as a sentence.
    pub(super) fn why_not(&self) -> String {
        self.left_out.as_deref().map_or_else(|| "It was not measured.".to_owned(), |why| format!("{why}."))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::work::Work;
    use super::*;

    /// An interpreter that finds a package of that name, which is this text.
    fn interpreter(place: &Path, name: &str, text: &str) -> String {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(place.join(format!("{name}.py")), text).unwrap();
        let program = place.join("python");
        let script = format!("#!/bin/sh\nPYTHONPATH='{}' exec python3 \"$@\"\n", place.display());
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        program.to_str().unwrap().to_owned()
    }

    fn stand_in(is_debug: bool, read: &str) -> String {
        let is_debug = if is_debug { "True" } else { "False" };
        format!(
            "__version__ = '7.0'\n_DEBUG = {is_debug}\nclass SparseBuffer:\n    memory_bytes = 42\n    def __init__(self):\n        \
             self.blocks = {{}}\n    def write(self, at, data):\n        self.blocks[at] = data\n    def read(self, at, n):\n        \
             return {read}\n    def need(self, at, n):\n        return [(at, at + n)]\n"
        )
    }

    #[test]
    fn a_package_makes_the_calls_and_what_it_returns_is_compared() {
        let place = tempfile::tempdir().unwrap();
        let text = stand_in(cfg!(debug_assertions), "self.blocks[at]");
        let python = interpreter(place.path(), "stook", &text);
        let mut peer = Peer::start(&python, Package::Stook).unwrap();
        assert_eq!(peer.version, "7.0");
        for work in [
            Work::WriteApart { block_bytes: 512 },
            Work::ReadApart { block_bytes: 512 },
            Work::NeedOf { block_bytes: 512 },
            Work::Overwrite { threads: 2, is_joined: true },
            Work::Threads { threads: 2, is_joined: false },
            Work::Own { threads: 2, is_joined: false },
        ] {
            let plan = work.plan().unwrap();
            let timed = peer.time(&plan, true).unwrap();
            assert!(timed.took_s > 0.0, "{}", work.label());
            assert_eq!(timed.idle_s.is_some(), plan.threads.is_none(), "{}", work.label());
        }
        assert_eq!(peer.memory_bytes(Blocks::total(256, 1)).unwrap(), 42);
    }

    #[test]
    fn a_package_that_returns_other_bytes_or_fails_is_an_error_that_says_so() {
        let place = tempfile::tempdir().unwrap();
        let text = stand_in(cfg!(debug_assertions), "b'x' * n");
        let python = interpreter(place.path(), "stook", &text);
        let mut peer = Peer::start(&python, Package::Stook).unwrap();
        let plan = Work::WriteApart { block_bytes: 512 }.plan().unwrap();
        assert!(peer.time(&plan, false).is_ok());
        let error = format!("{:#}", peer.time(&plan, true).unwrap_err());
        assert_eq!(error, "stook from Python failed: the bytes at 0 are not those that were written");
        // It has ended; whatever is asked then is an error, too.
        assert!(peer.time(&plan, false).is_err());
    }

    #[test]
    fn what_is_not_there_and_what_cannot_be_compared_says_why() {
        let place = tempfile::tempdir().unwrap();
        let why = Peer::start("/nowhere/python", Package::Svfsc).unwrap_err();
        assert!(
            why.starts_with("The package svfsc is not measured from /nowhere/python: No such file"),
            "{why}"
        );
        let python = interpreter(place.path(), "stook", &stand_in(!cfg!(debug_assertions), "b''"));
        let why = Peer::start(&python, Package::Stook).unwrap_err();
        assert!(why.contains("debug build"), "{why}");
        // A folder of that name is no package.
        std::fs::remove_file(place.path().join("stook.py")).unwrap();
        std::fs::create_dir(place.path().join("stook")).unwrap();
        let why = Peer::start(&python, Package::Stook).unwrap_err();
        assert!(why.contains("SparseBuffer"), "{why}");
        let installed = Installed::of(&Err(why.clone()));
        assert_eq!((installed.version.clone(), installed.why_not()), (None, format!("{why}.")));
    }
}
