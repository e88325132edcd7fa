//! The same calls from Python, by the packages that are installed there.

use std::fmt;
use std::io::{self, Read, Write as _};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::plan::{Blocks, Plan};

/// Makes the calls; waits for a plan on each line.
const SCRIPT: &str = include_str!("python.py");

/// How long an interpreter may take until its package is there.
const FIRST_ANSWER: Duration = Duration::from_secs(30);
/// How long one that has closed its output may take to say why.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The longest answer; what is no package may print without end.
const ANSWER_MAX_BYTES: usize = 1 << 20;
/// How long one wait takes before it is asked whether to stop.
const WAIT_NS: i64 = 50_000_000;

/// Asked whether to stop while an interpreter is waited for.
pub(super) type Check<'a> = &'a dyn Fn() -> anyhow::Result<()>;

/// What a program prints, with a bound on every line and on the time until it comes.
#[derive(Debug)]
struct Printed<R> {
    from: R,
    /// Read, and not yet returned.
    rest: Vec<u8>,
}

impl<R: Read + AsFd> Printed<R> {
    fn new(from: R) -> Self {
        Self { from, rest: Vec::new() }
    }

    /// The next line, without its end; `None` if there is none any more.
    ///
    /// # Errors
    /// Returns the error of `check`, or one if the line is too long or does not come in time.
    fn line(&mut self, until: Option<Instant>, check: Check<'_>) -> anyhow::Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let after = self.rest.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.rest, after);
                line.truncate(end);
                return Ok(Some(line));
            }
            anyhow::ensure!(
                self.rest.len() <= ANSWER_MAX_BYTES,
                "it printed a line of more than {ANSWER_MAX_BYTES} bytes"
            );
            if self.more(until, check)? == 0 {
                let rest = std::mem::take(&mut self.rest);
                return Ok((!rest.is_empty()).then_some(rest));
            }
        }
    }

    /// Reads what there is; 0 at the end.
    fn more(&mut self, until: Option<Instant>, check: Check<'_>) -> anyhow::Result<usize> {
        loop {
            check()?;
            let wait = Timespec { tv_sec: 0, tv_nsec: WAIT_NS };
            match poll(&mut [PollFd::new(&self.from, PollFlags::IN)], Some(&wait)) {
                Ok(0) => {
                    anyhow::ensure!(until.is_none_or(|until| Instant::now() < until), "it does not answer");
                    continue;
                }
                Err(rustix::io::Errno::INTR) => continue,
                ready => ready.map_err(io::Error::from)?,
            };
            let mut buffer = vec![0; 1 << 16];
            let read = self.from.read(&mut buffer)?;
            self.rest.extend_from_slice(buffer.get(..read).unwrap_or_default());
            return Ok(read);
        }
    }
}

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
    answers: Printed<ChildStdout>,
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
    ///
    /// # Errors
    /// Returns the error of `check`.
    pub(super) fn start(
        python: &str,
        package: Package,
        check: Check<'_>,
    ) -> anyhow::Result<Result<Self, String>> {
        let started = Self::start_within(python, package, FIRST_ANSWER, check);
        // Being asked to stop is not what is wrong with a package.
        check()?;
        Ok(started)
    }

    fn start_within(
        python: &str,
        package: Package,
        limit: Duration,
        check: Check<'_>,
    ) -> Result<Self, String> {
        let none =
            |why: &dyn fmt::Display| format!("The package {package} is not measured from {python}: {why}");
        let mut command = Command::new(python);
        command.args(["-c", SCRIPT, &package.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // What it starts ends with it.
        command.process_group(0);
        let mut interpreter = command.spawn().map_err(|error| none(&error))?;
        let Some(answers) = interpreter.stdout.take() else { return Err(none(&"it has no output")) };
        let version = String::new();
        let mut peer = Self { package, version, interpreter, answers: Printed::new(answers) };
        let until = Instant::now() + limit;
        match peer.answer::<Greeting>(Some(until), check).map_err(|error| none(&error))? {
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
    pub(super) fn time(&mut self, plan: &Plan, is_checked: bool, check: Check<'_>) -> anyhow::Result<Timed> {
        self.ask(&json!({ "plan": plan, "check": is_checked }), check)
    }

    /// The memory that the package counts for a file with these blocks.
    ///
    /// # Errors
    /// Returns an error if the package fails.
    pub(super) fn memory_bytes(&mut self, blocks: Blocks, check: Check<'_>) -> anyhow::Result<u64> {
        Ok(self.ask::<Memory>(&json!({ "hold": blocks }), check)?.memory_bytes)
    }

    fn ask<T: for<'a> Deserialize<'a>>(&mut self, question: &Value, check: Check<'_>) -> anyhow::Result<T> {
        let line = format!("{question}\n");
        let stdin = self.interpreter.stdin.as_mut().context("it was asked to end")?;
        // One that has ended takes no question any more; why it did comes instead of an answer.
        let asked = stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush());
        let answered = self.answer(None, check);
        if answered.is_ok() {
            asked?;
        }
        answered.with_context(|| format!("{} from Python failed", self.package))
    }

    fn answer<T: for<'a> Deserialize<'a>>(
        &mut self,
        until: Option<Instant>,
        check: Check<'_>,
    ) -> anyhow::Result<T> {
        if let Some(line) = self.answers.line(until, check)? {
            return serde_json::from_slice(&line)
                .with_context(|| format!("it printed {:?}", shortened(&String::from_utf8_lossy(&line))));
        }
        drop(self.interpreter.stdin.take());
        let mut last = None;
        if let Some(stderr) = self.interpreter.stderr.take() {
            let (mut said, until) = (Printed::new(stderr), Instant::now() + LAST_WORDS);
            // The last line of a traceback is the error. What another process holds open has no
            // end.
            while let Ok(Some(line)) = said.line(Some(until), check) {
                let line = String::from_utf8_lossy(&line).trim().to_owned();
                last = Some(line).filter(|line| !line.is_empty()).or(last);
            }
        }
        check()?;
        Err(anyhow!("{}", last.as_deref().map_or("it ended without an answer".into(), shortened)))
    }
}

/// As much of what a program printed as belongs into a message.
fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It keeps nothing; that it, or all of its group, may have ended already is no error.
        if let Some(group) = i32::try_from(self.interpreter.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
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

    fn go_on() -> anyhow::Result<()> {
        Ok(())
    }

    fn start(python: &str, package: Package) -> Result<Peer, String> {
        Peer::start(python, package, &go_on).unwrap()
    }

    /// A program that is no interpreter.
    fn program(place: &Path, script: &str) -> String {
        use std::os::unix::fs::PermissionsExt as _;
        let program = place.join("python");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        program.to_str().unwrap().to_owned()
    }

    /// Before: it was waited for without end, and a line without end took all memory.
    #[test]
    fn what_does_not_answer_or_prints_without_end_is_left() {
        let place = tempfile::tempdir().unwrap();
        let hangs = program(place.path(), "sleep 1000; exit");
        let limit = Duration::from_millis(100);
        let why = Peer::start_within(&hangs, Package::Stook, limit, &go_on).unwrap_err();
        assert!(why.ends_with("it does not answer"), "{why}");
        let endless = program(place.path(), "exec cat /dev/zero");
        let why = start(&endless, Package::Stook).unwrap_err();
        assert!(why.contains("a line of more than 1048576 bytes"), "{why}");
    }

    /// Before: one had to press Ctrl-C twice, and a child of the interpreter stayed.
    #[test]
    fn being_asked_to_stop_ends_the_wait_and_what_the_interpreter_started() {
        let place = tempfile::tempdir().unwrap();
        let script = format!("sleep 1000 & echo $! > '{}/child'; wait", place.path().display());
        let hangs = program(place.path(), &script);
        let child = place.path().join("child");
        let check = || match std::fs::read_to_string(&child) {
            Ok(pid) if pid.ends_with('\n') => Err(anyhow!("stop")),
            _ => Ok(()),
        };
        let error = Peer::start(&hangs, Package::Stook, &check).unwrap_err();
        assert_eq!(error.to_string(), "stop");
        let child = std::fs::read_to_string(&child).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", child.trim()));
        // It has been killed: it is gone, or waits for its parent to see it.
        while state().is_ok_and(|state| !state.contains(") Z ")) {
            std::thread::sleep(Duration::from_millis(10));
        }
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
        let mut peer = start(&python, Package::Stook).unwrap();
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
            let timed = peer.time(&plan, true, &go_on).unwrap();
            assert!(timed.took_s > 0.0, "{}", work.label());
            assert_eq!(timed.idle_s.is_some(), plan.threads.is_none(), "{}", work.label());
        }
        assert_eq!(peer.memory_bytes(Blocks::total(256, 1), &go_on).unwrap(), 42);
    }

    #[test]
    fn a_package_that_returns_other_bytes_or_fails_is_an_error_that_says_so() {
        let place = tempfile::tempdir().unwrap();
        let text = stand_in(cfg!(debug_assertions), "b'x' * n");
        let python = interpreter(place.path(), "stook", &text);
        let mut peer = start(&python, Package::Stook).unwrap();
        let plan = Work::WriteApart { block_bytes: 512 }.plan().unwrap();
        assert!(peer.time(&plan, false, &go_on).is_ok());
        let error = format!("{:#}", peer.time(&plan, true, &go_on).unwrap_err());
        assert_eq!(error, "stook from Python failed: the bytes at 0 are not those that were written");
        // It has ended; whatever is asked then is an error, too.
        assert!(peer.time(&plan, false, &go_on).is_err());
    }

    #[test]
    fn what_is_not_there_and_what_cannot_be_compared_says_why() {
        let place = tempfile::tempdir().unwrap();
        let why = start("/nowhere/python", Package::Svfsc).unwrap_err();
        assert!(
            why.starts_with("The package svfsc is not measured from /nowhere/python: No such file"),
            "{why}"
        );
        let python = interpreter(place.path(), "stook", &stand_in(!cfg!(debug_assertions), "b''"));
        let why = start(&python, Package::Stook).unwrap_err();
        assert!(why.contains("debug build"), "{why}");
        // A folder of that name is no package.
        std::fs::remove_file(place.path().join("stook.py")).unwrap();
        std::fs::create_dir(place.path().join("stook")).unwrap();
        let why = start(&python, Package::Stook).unwrap_err();
        assert!(why.contains("SparseBuffer"), "{why}");
        let installed = Installed::of(&Err(why.clone()));
        assert_eq!((installed.version.clone(), installed.why_not()), (None, format!("{why}.")));
    }
}
